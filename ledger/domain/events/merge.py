"""The events of a merge of near duplicates, and of a conflict between memories."""

from __future__ import annotations

from ledger.domain.events.base import Code, Event, Id, Text


class MergeProposed(Event, frozen=True):
    """These memories are near duplicates: the least ``similarity`` of two of them, in millionths, by a ``rule``.

    ``content`` is how one memory would say it.
    """

    memories: tuple[Id, ...]
    similarity: int
    rule: Code
    content: Text | None = ""
    model: Text | None = ""


class MemoriesMerged(Event, frozen=True):
    """``memory`` supersedes ``memories``, in the same append."""

    memory: Id
    memories: tuple[Id, ...]
    rule: Code
    reason: Text | None = ""


class MergeRejected(Event, frozen=True):
    """They are not the same, and are not proposed again."""

    reason: Text | None = ""


class ConflictFound(Event, frozen=True):
    """Two or more active memories give one ``attribute`` ``values`` that cannot both be true at one time."""

    attribute: Text | None
    memories: tuple[Id, ...]
    values: tuple[Text, ...] | None
    rule: Code


class ConflictResolved(Event, frozen=True):
    """What somebody decided: "keep" (the ``winner``, which supersedes the others) or "accept" (all can be true)."""

    action: Code
    winner: Id | None = None
    reason: Text | None = ""
