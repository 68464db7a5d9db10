"""What a memory says of a slot: a place in the world that likely holds one value at a time.

Two rules fill slots. "edges/1" reads the edges whose relation holds one value, as a model or a person gave them: "Ana works_at
Acme". "place/1" reads short statements: two that are the same but for one or two words in one place fill that place with two
values, "The gym costs … euros." It knows no language and no attribute, so it also proposes what can both be true, such as
two allergies. A conflict is a question to a person, and nothing is decided by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from ledger.domain.alike import ALIKE_CHARS, content_stems
from ledger.domain.memory import Edge
from ledger.domain.text import words

EDGES, PLACE = "edges/1", "place/1"

GAP = "…"
PLACE_WORDS = 2
"""Words that may differ in the place. With two the rule finds 24 of the 65 seen updates of ``tests/corpus/update_pairs.jsonl``,
and proposes 5 of 44 pairs that are both true; with four words 25 and 18."""

SINGLE = frozenset(
    (
        *("works_at", "lives_in", "born_on", "born_in", "died_on", "married_to", "native_language"),
        *("located_in", "headquartered_in", "reports_to", "capital_of", "version_of"),
    )
)
"""Relations in which a name stands to one other at a time."""

OF_TARGET = frozenset(("capital_of", "version_of"))
"""... and that one has one such name: a country one capital, a product one current version."""

BOTH_WAYS = frozenset(("married_to",))

_TOKEN = re.compile(r"[^\W_]+(?:[.,:/'’-][^\W_]+)*|[%$€£?]")


class Filled(Struct, frozen=True):
    """One slot and what is in it, as a rule reads it; ``valid_from`` and ``valid_to`` are the bounds of an edge."""

    slot: str
    value: str
    valid_from: str | None = None
    valid_to: str | None = None
    rule: str = PLACE


class Statement(Protocol):
    """What of a memory is looked at."""

    @property
    def content(self) -> str | None: ...
    @property
    def edges(self) -> tuple[Edge, ...]: ...
    @property
    def valid_from(self) -> str: ...
    @property
    def valid_to(self) -> str | None: ...


def filled(memory: Statement) -> tuple[Filled, ...]:
    """Return what a memory puts into slots, each slot once, what is said by edges first."""
    found: dict[str, Filled] = {}
    for each in (*of_edges(memory.edges), *of_text(memory.content or "")):
        found.setdefault(each.slot, each)
    return tuple(found.values())


def of_edges(edges: Sequence[Edge]) -> Iterator[Filled]:
    """Yield what edges put into slots."""
    for edge in edges:
        source, relation, target = edge.form
        relation = relation.replace(" ", "_").replace("-", "_")
        if relation not in SINGLE or not source or not target:
            continue
        if relation not in OF_TARGET:
            yield Filled(f"{source}: {relation}", target, edge.valid_from, edge.valid_to, EDGES)
        if relation in OF_TARGET | BOTH_WAYS:
            yield Filled(f"{target}: {relation}", source, edge.valid_from, edge.valid_to, EDGES)


def of_text(content: str) -> Iterator[Filled]:
    """Yield the places of a short statement: each with one or two words taken out, where half of what it tells is left.

    Something is told before the place, for a statement mostly begins with whom it is about.
    """
    tokens = [token.lower() for token in _TOKEN.findall(content)] if len(content) <= ALIKE_CHARS else []
    if "?" in tokens:
        return
    stems = [content_stems(token) for token in tokens]
    whole = len(frozenset[str]().union(*stems))
    for size in range(1, PLACE_WORDS + 1):
        for start in range(len(tokens) - size + 1):
            end = start + size
            left = len(frozenset[str]().union(*stems[:start], *stems[end:]))
            if any(stems[:start]) and any(stems[start:end]) and 2 * left >= whole:
                yield Filled(" ".join([*tokens[:start], GAP, *tokens[end:]]), " ".join(tokens[start:end]))


# --- what cannot both be so ------------------------------------------------------------------------------------------


def exclusive(rule: str, one: str, other: str) -> bool:
    """Return True if two values of one slot are likely not both so: neither is a part of the other.

    Values of a place that begin or end alike are of a smaller place. The rule may be of an earlier version.
    """
    ours, theirs = one.split(), other.split()
    if rule == PLACE and (ours[:1] == theirs[:1] or ours[-1:] == theirs[-1:]):
        return False
    return not (_has(words(one), words(other)) or _has(words(other), words(one)))


def still_stated(memory: Statement, slot: str | None, value: str) -> Filled | None:
    """Return what a memory says of a recorded value, by an edge or in its words; None if it says so no more."""
    for each in of_edges(memory.edges):
        if each.value == value and slot in (None, each.slot):
            return each
    return Filled(slot or "", value) if _has(words(memory.content or ""), words(value)) else None


def _has(all_words: Sequence[str], some: Sequence[str]) -> bool:
    """Return True if some words stand in a row among all of them."""
    return any(all_words[at : at + len(some)] == some for at in range(len(all_words) - len(some) + 1))


def overlap(one: tuple[str, str | None], other: tuple[str, str | None]) -> bool:
    """Return True if two half-open times have a moment in common; None is open."""
    return (one[1] is None or other[0] < one[1]) and (other[1] is None or one[0] < other[1])


def during(memory: Statement, filled: Filled) -> tuple[str, str | None]:
    """Return when a memory says so: while it holds, and within the bounds of the edge."""
    ends = [each for each in (memory.valid_to, filled.valid_to) if each is not None]
    return max(memory.valid_from, filled.valid_from or memory.valid_from), min(ends, default=None)
