"""Whose words they are: of each word of a belief the event that it came with, and of its confidence the events that moved it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from ledger import answers
from ledger.domain import confidence as rules
from ledger.domain import ids
from ledger.domain.events import AnyEvent, MemoriesMerged
from ledger.engine.engine import Engine
from ledger.engine.log_reading import first_position
from ledger.engine.snapshot import owned_stream
from ledger.history.audit import entries_shown
from ledger.history.in_effect import Reader
from projections.core.projector import FAMILIES
from projections.core.rows import Connection
from projections.views import audit, confidence

SUBJECTS = 200  # that a belief replaced, one after the other: the words of older ones count as those of the oldest
WORDINGS = 500  # ... and the last wordings of all of them, in the same way
COMPARED, TOGETHER = 4_000_000, 100_000_000  # pairs of words, of two texts and in one answer; of more no frequent words

_SIGNS = r".,;:!?()\[\]{}\"'«»“”„‘’…/|"
_APART = r"\u3040-\u30ff\u3400-\u9fff"  # written without blanks, so that each stands for itself
_PIECE = re.compile(rf"\s+|[{_APART}]|[{_SIGNS}]+|[^\s{_SIGNS}{_APART}]+")

Annotated = list[tuple[str, int]]  # each word with the blanks behind it, and the position of its event


class _Wording(NamedTuple):
    """An event after which a belief says something else; of an erased text None."""

    event: AnyEvent
    text: str | None


def blame(engine: Engine, user: str, id: str) -> answers.Blame | None:
    """Where the words of a memory or an observation and its confidence come from, through what it replaced or merged."""
    kind = ids.kind_of(id) if isinstance(id, str) else ""
    if kind not in ("m", "o"):
        return None
    with engine.reading() as connection:
        stream = owned_stream(connection, id, kind, user)
        if stream is None:
            return None
        reader = Reader(connection)
        wordings = _wordings(reader, stream)
        text = wordings[stream][-1].text if wordings[stream] else None
        words = _annotated(reader, stream, wordings) if text is not None else []
        steps = confidence.timeline(connection, first_position(connection, stream) or 0) if kind == "m" else []
        entries = _entries(connection, {at for _, at in words} | {each.position for each in steps})
        gone = {each.event.position for found in wordings.values() for each in found if each.text is None}
    return answers.Blame(
        id=stream,
        content=text,
        words=tuple(_spans(words, entries)),
        confidence=tuple(
            answers.BlamedStep(
                delta=rules.shown(each.delta), confidence=rules.shown(each.confidence), event=entries[each.position]
            )
            for each in steps
        ),
        erased=tuple(sorted(gone)),
    )


def _entries(connection: Connection, positions: Iterable[int]) -> dict[int, answers.AuditEntry]:
    found = [audit.at_event(connection, each) for each in sorted(positions)]
    return {each.position: each for each in entries_shown(connection, found)}


def _spans(words: Annotated, entries: dict[int, answers.AuditEntry]) -> Iterator[answers.BlamedWords]:
    start = 0
    for position, group in groupby(words, key=lambda each: each[1]):
        text = "".join(word for word, _ in group)
        yield answers.BlamedWords(start=start, end=start + len(text), text=text, event=entries[position])
        start += len(text)


# --- wordings --------------------------------------------------------------------------------------------------------


def _wordings(reader: Reader, stream: str) -> dict[str, list[_Wording]]:
    """All wordings that a belief had, and those of what it replaced, by the subject."""
    found: dict[str, list[_Wording]] = {}
    waiting = [stream]
    while waiting and len(found) < SUBJECTS:
        each = waiting.pop(0)
        if each not in found:
            found[each] = list(_changes(reader, each))
            waiting += [source for wording in found[each] for source in _sources(reader, wording.event)]
    return found


def _changes(reader: Reader, stream: str) -> Iterator[_Wording]:
    state, family = None, FAMILIES[stream[0]]
    text: str | None = ""
    for event in reader.counting(stream):
        state = family.evolve(state, event)
        now = (state.content if stream[0] == "m" else state.text) if state is not None else None
        if now != text or getattr(event.data, "content", "") is None:  # which was erased
            text = now
            yield _Wording(event, now)


def _sources(reader: Reader, event: AnyEvent) -> list[str]:
    """What the subject of an event replaced by it: one memory, or those that were merged."""
    replaced = getattr(event.data, "supersedes", None)
    entries = reader.command(event)
    merges = (reader.event(each.position).data for each in entries if each.type == MemoriesMerged.__name__)
    merged = [each for data in merges if data.memory == event.stream for each in data.memories]
    return [each for each in (replaced, *merged) if each is not None and each != event.stream]


# --- words -----------------------------------------------------------------------------------------------------------


def _annotated(reader: Reader, stream: str, wordings: dict[str, list[_Wording]]) -> Annotated:
    """The last wording of a belief, from the first one on that it or what it replaced had."""
    current, left = dict[str, Annotated](), TOGETHER
    order = sorted((each for found in wordings.values() for each in found), key=lambda each: each.event.position)
    for event, text in order[-WORDINGS:]:
        before = [current[each] for each in (event.stream, *_sources(reader, event)) if each in current]
        current[event.stream] = reworded(before, text or "", event.position, min(left, COMPARED))
        left -= len(current[event.stream]) * sum(map(len, before))
    return current[stream]


def reworded(before: Sequence[Annotated], text: str, position: int, most: int = COMPARED) -> Annotated:
    """The words of a text: where they stood in one of the texts before it they are still from there, and else from here.
    Of more than so many pairs of words frequent ones are passed over."""
    words = split(text)
    keys, origins = [each.strip() for each in words], [position] * len(words)
    free = [True] * len(words)
    for old in before:
        known = [word.strip() for word, _ in old]
        exact = len(known) * len(keys) <= most
        for first, to, size in SequenceMatcher(None, known, keys, autojunk=not exact).get_matching_blocks():
            for step in range(size):
                if free[to + step]:
                    free[to + step], origins[to + step] = False, old[first + step][1]
    return list(zip(words, origins, strict=True))


def split(text: str) -> list[str]:
    """The words and signs of a text, each with the blanks behind it; together they are the text."""
    words: list[str] = []
    for piece in _PIECE.findall(text):
        if words and (piece.isspace() or words[-1].isspace()):
            words[-1] += piece
        else:
            words.append(piece)
    return words
