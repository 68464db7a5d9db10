"""The slots that a memory fills: places in the world that likely hold one value at a time.

Two rules fill slots. "edges/1" reads the edges whose relation holds one value, as a model or a person gave them: "Ana works_at
Acme". "place/2" reads short statements: two that are the same but for one or two words in one place fill that place with two
values, "The gym costs … euros." What follows a relation of ``SINGLE`` is one value however long, what follows one of ``MANY`` is
no value, and a statement and its denial fill one place. A conflict is a question to a person, and decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from ledger.english.alike import ALIKE_CHARS, content_stems
from ledger.english.words import stem, words
from ledger.memories.state import Edge

EDGES, PLACE = "edges/1", "place/2"

GAP = "…"
PLACE_WORDS = 2
"""The most words that may differ in a place. With two words the rule finds 24 of the 65 seen updates of
``tests/corpus/update_pairs.jsonl`` and proposes 3 of 44 pairs that are both true."""

SINGLE = frozenset(
    (
        *("works_at", "lives_in", "born_on", "born_in", "died_on", "married_to", "native_language"),
        *(
            "based_in",
            "is_called",
            "weighs",
            "located_in",
            "headquartered_in",
            "reports_to",
            "capital_of",
            "version_of",
        ),
    )
)
"""Relations in which a name has only one other name at a time."""

_MANY = """
    like love hate enjoy dislike have has own allergic avoid speak eat drink
    son daughter child kid friend colleague brother sister cousin dog cat pet allergy
"""
MANY = frozenset(map(stem, _MANY.split()))
"""Stems of relations of which a subject has many at a time: two likes, two sons, two languages. A number is one value all the
same."""

SAME = (("moved", "back", "to"), "lives", "in"), (("moved", "to"), "lives", "in"), (("living", "in"), "lives", "in")
"""Words that say the same as those of a relation with one value."""

OF_TARGET = frozenset(("capital_of", "version_of"))
"""Relations in which the other name has only one such name: a country one capital, a product one current version."""

BOTH_WAYS = frozenset(("married_to",))

DENIED_STEMS = 4
"""The most telling stems of a statement that is compared with its denial (our choice)."""

_BREAK = re.compile(r" (?:and|but|now|since|with|because|on|from)\b")
_PAST = re.compile(r"\b(?:used to|was|were|formerly|originally)\b")
_DENIES = re.compile(
    r"\b(?:no longer|(?:does|do) not|(?:does|do)n['’]?t|is not|isn['’]t|never|any ?more|any longer|not)\b"
)
_TOKEN = re.compile(r"[^\W_]+(?:[.,:/'’-][^\W_]+)*|[%$€£?]")


class Filled(Struct, frozen=True):
    """A slot with its value by a rule. ``valid_from`` and ``valid_to`` are an edge's own bounds."""

    slot: str
    value: str
    valid_from: str | None = None
    valid_to: str | None = None
    rule: str = PLACE


class Statement(Protocol):
    """The attributes of a memory that the rules read."""

    @property
    def content(self) -> str | None: ...
    @property
    def edges(self) -> tuple[Edge, ...]: ...
    @property
    def valid_from(self) -> str: ...
    @property
    def valid_to(self) -> str | None: ...


def filled(memory: Statement) -> tuple[Filled, ...]:
    """Return the slots that a memory fills, each once, those of its edges first."""
    first_of_slot: dict[str, Filled] = {}
    for filling in (*of_edges(memory.edges), *of_text(memory.content or "")):
        first_of_slot.setdefault(filling.slot, filling)
    return tuple(first_of_slot.values())


def of_edges(edges: Sequence[Edge]) -> Iterator[Filled]:
    """Yield the slots that edges fill."""
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
    """Yield the places of a short statement: one or two words taken out, with half of the telling stems left.

    A place has a telling word before it, because a statement mostly begins with its subject. A statement without what denies it
    fills a place by its subject, and the denial by a denying word.
    """
    tokens = [token.lower() for token in _TOKEN.findall(content)] if len(content) <= ALIKE_CHARS else []
    if "?" in tokens:
        return
    yield from _held(tokens)
    yield from _denied(tokens)
    stems = [content_stems(token) for token in tokens]
    many = next((at for at, own in enumerate(tokens) if stem(own) in MANY), len(tokens))
    whole = len(frozenset[str]().union(*stems))
    for size in range(1, PLACE_WORDS + 1):
        for start in range(len(tokens) - size + 1):
            end = start + size
            left = len(frozenset[str]().union(*stems[:start], *stems[end:]))
            counted = any(character.isdigit() for token in tokens[start:end] for character in token)
            if (start <= many or counted) and any(stems[:start]) and any(stems[start:end]) and 2 * left >= whole:
                yield Filled(" ".join([*tokens[:start], GAP, *tokens[end:]]), " ".join(tokens[start:end]))


def _held(tokens: Sequence[str]) -> Iterator[Filled]:
    """Yield the place behind a relation with one value, filled by all words up to a break of the sentence."""
    said = " ".join(tokens)
    for words_of, *same in SAME:
        said = re.sub(rf"\b{' '.join(words_of)}\b", " ".join(same), said)
    for relation in sorted(SINGLE):
        before, found, after = said.partition(f" {relation.replace('_', ' ')} ")
        value = _BREAK.split(after)[0]
        if found and value and _PAST.search(before) is None:
            yield Filled(f"{before}{found}{GAP}", value)


def _denied(tokens: Sequence[str]) -> Iterator[Filled]:
    """Yield the place of a statement about the user that its denial fills with another value."""
    said = " ".join(tokens).replace("user says i ", "user ")
    left = _DENIES.sub(" ", said)
    own = sorted(content_stems(left) - {"user"})
    if own and "user" in tokens[:3] and len(own) <= DENIED_STEMS and _PAST.search(said) is None:
        yield Filled(f"{GAP} {' '.join(own)}", "user" if left == said else "no")


# --- exclusive values ------------------------------------------------------------------------------------------------


def exclusive(rule: str, left: str, right: str) -> bool:
    """Return True if two values of one slot likely cannot both be so: neither is a part of the other.

    Values of a place that begin or end alike belong to a smaller place. The rule may be of an earlier version.
    """
    left_words, right_words = left.split(), right.split()
    if rule.startswith("place/") and (left_words[:1] == right_words[:1] or left_words[-1:] == right_words[-1:]):
        return False
    return not (_has(words(left), words(right)) or _has(words(right), words(left)))


def still_stated(memory: Statement, slot: str | None, value: str) -> Filled | None:
    """Return the slot and value if a memory still states a recorded value, by an edge or in its words, else None."""
    for filling in of_edges(memory.edges):
        if filling.value == value and slot in (None, filling.slot):
            return filling
    return Filled(slot or "", value) if _has(words(memory.content or ""), words(value)) else None


def _has(all_words: Sequence[str], part: Sequence[str]) -> bool:
    """Return True if some words stand in a row among all words."""
    return any(all_words[at : at + len(part)] == part for at in range(len(all_words) - len(part) + 1))


def overlap(left: tuple[str, str | None], right: tuple[str, str | None]) -> bool:
    """Return True if two half-open times have a moment in common; None is an open end."""
    return (left[1] is None or right[0] < left[1]) and (right[1] is None or left[0] < right[1])


def during(memory: Statement, filled: Filled) -> tuple[str, str | None]:
    """Return the time of a memory's statement: while the memory holds, within the bounds of the edge."""
    ends = [end for end in (memory.valid_to, filled.valid_to) if end is not None]
    return max(memory.valid_from, filled.valid_from or memory.valid_from), min(ends, default=None)
