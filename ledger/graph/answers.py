"""The answers about the graph of names."""

from __future__ import annotations

from ledger.core.call import Answer


class Seed(Answer, frozen=True, kw_only=True):
    """A name in the question, in its first spelling, and the number of believed memories that name it."""

    name: str
    memories: int


class Neighbor(Answer, frozen=True, kw_only=True):
    """A name that is joined to a seed. ``relation`` is the memories' relation, or "co_occurs" if they only name both.

    ``direction`` is "out" from the seed, "in" to it, or "both" for co_occurs. ``weight`` is the number of believed memories,
    whose ids are in ``memories``, newest first. The relation holds from the earliest to the latest time of any of them.
    """

    seed: str
    name: str
    relation: str
    direction: str
    weight: int
    memories: tuple[str, ...]
    valid_from: str
    valid_to: str | None


class Graph(Answer, frozen=True, kw_only=True):
    """The names that were found in the question, longest first, and their neighbors.

    Stated relations come first, then names in the same memories, each by weight. ``total`` counts the neighbors beyond the limit
    too. ``complete`` is False if a name stands in so many memories that only the newest were looked at.
    """

    seeds: tuple[Seed, ...]
    neighbors: tuple[Neighbor, ...]
    total: int
    complete: bool = True
