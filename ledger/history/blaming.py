"""The origin of a belief: the events from which its words come, and the events that moved its confidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from ledger.core.engine import ReadingEngine
from ledger.core.reads import first_position, owned_stream
from ledger.domain import confidence as confidence_rules
from ledger.domain import ids
from ledger.events import AnyEvent, MemoriesMerged
from ledger.history import answers
from ledger.history.audit import entries_shown
from ledger.undo.in_effect import Reader
from projections.core.projector import FAMILIES
from projections.core.rows import Connection
from projections.views import audit, confidence

# Bounds on the work of one answer. A word from before the oldest compared wording counts as a word of that wording.
SUBJECTS = 200  # the most beliefs whose wordings are read
WORDINGS = 500  # the most wordings, of all subjects together, that are compared; the last ones count
# The most pairs of words that are compared, between two texts and in one answer. Beyond, frequent words are left out.
COMPARED, TOGETHER = 4_000_000, 100_000_000

_SIGNS = r".,;:!?()\[\]{}\"'«»“”„‘’…/|"
_APART = r"\u3040-\u30ff\u3400-\u9fff"  # Japanese and Chinese have no blanks, so every character is a word
_PIECE = re.compile(rf"\s+|[{_APART}]|[{_SIGNS}]+|[^\s{_SIGNS}{_APART}]+")

WordOrigins = list[tuple[str, int]]  # (a word with the blanks after it, the position of the event from which it comes)


class _Wording(NamedTuple):
    """An event that gave a belief another text, and the text (None if it was erased)."""

    event: AnyEvent
    text: str | None


def blame(engine: ReadingEngine, user: str, id: str) -> answers.Blame | None:
    """Return the events from which the words and the confidence of a belief come; None if the user has no such belief.

    A belief is a memory or an observation. Words are traced back through the memories that a memory superseded or merged.
    """
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
        words = _with_origins(reader, stream, wordings) if text is not None else []
        steps = confidence.timeline(connection, first_position(connection, stream) or 0) if kind == "m" else []
        entries = _entries(connection, {at for _, at in words} | {step.position for step in steps})
        erased = {wording.event.position for listed in wordings.values() for wording in listed if wording.text is None}
    return answers.Blame(
        id=stream,
        content=text,
        words=tuple(_spans(words, entries)),
        confidence=tuple(
            answers.BlamedStep(
                delta=confidence_rules.shown(step.delta),
                confidence=confidence_rules.shown(step.confidence),
                event=entries[step.position],
            )
            for step in steps
        ),
        erased=tuple(sorted(erased)),
    )


def _entries(connection: Connection, positions: Iterable[int]) -> dict[int, answers.AuditEntry]:
    entries = [audit.at_event(connection, position) for position in sorted(positions)]
    return {entry.position: entry for entry in entries_shown(connection, entries)}


def _spans(words: WordOrigins, entries: dict[int, answers.AuditEntry]) -> Iterator[answers.BlamedWords]:
    start = 0
    for position, group in groupby(words, key=lambda word: word[1]):
        text = "".join(word for word, _ in group)
        yield answers.BlamedWords(start=start, end=start + len(text), text=text, event=entries[position])
        start += len(text)


# --- wordings --------------------------------------------------------------------------------------------------------


def _wordings(reader: Reader, stream: str) -> dict[str, list[_Wording]]:
    """Return all wordings of a belief, and of the memories that it superseded or merged, by subject."""
    wordings: dict[str, list[_Wording]] = {}
    waiting = [stream]
    while waiting and len(wordings) < SUBJECTS:
        subject = waiting.pop(0)
        if subject not in wordings:
            wordings[subject] = list(_changes(reader, subject))
            waiting += [source for wording in wordings[subject] for source in _sources(reader, wording.event)]
    return wordings


def _changes(reader: Reader, stream: str) -> Iterator[_Wording]:
    state, family = None, FAMILIES[stream[0]]
    text: str | None = ""
    for event in reader.events_in_effect(stream):
        state = family.evolve(state, event)
        now = (state.content if stream[0] == "m" else state.text) if state is not None else None
        if now != text or getattr(event.data, "content", "") is None:  # None: the text was erased
            text = now
            yield _Wording(event, now)


def _sources(reader: Reader, event: AnyEvent) -> list[str]:
    """Return the memories that the subject of an event superseded or merged by this event."""
    superseded = getattr(event.data, "supersedes", None)
    entries = reader.command(event)
    merges = (reader.event(entry.position).data for entry in entries if entry.type == MemoriesMerged.__name__)
    merged = [memory for data in merges if data.memory == event.stream for memory in data.memories]
    return [memory for memory in (superseded, *merged) if memory is not None and memory != event.stream]


# --- words -----------------------------------------------------------------------------------------------------------


def _with_origins(reader: Reader, stream: str, wordings: dict[str, list[_Wording]]) -> WordOrigins:
    """Return the words of the last wording with their origins, by comparing each wording with the wording before it."""
    current, pairs_left = dict[str, WordOrigins](), TOGETHER
    listed = (wording for of_subject in wordings.values() for wording in of_subject)
    order = sorted(listed, key=lambda wording: wording.event.position)
    for event, text in order[-WORDINGS:]:
        before = [current[subject] for subject in (event.stream, *_sources(reader, event)) if subject in current]
        current[event.stream] = reworded(before, text or "", event.position, min(pairs_left, COMPARED))
        pairs_left -= len(current[event.stream]) * sum(map(len, before))
    return current[stream]


def reworded(before: Sequence[WordOrigins], text: str, position: int, most: int = COMPARED) -> WordOrigins:
    """Return the words of a text, each with the position of the event from which it comes.

    A word that an earlier text has keeps its origin; every other word comes from ``position``. If two texts have more than
    ``most`` pairs of words, frequent words are not compared.
    """
    words = split(text)
    keys, origins = [word.strip() for word in words], [position] * len(words)
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
    """Return the words and signs of a text, each with the blanks after it; joined, they are the whole text."""
    words: list[str] = []
    for piece in _PIECE.findall(text):
        if words and (piece.isspace() or words[-1].isspace()):
            words[-1] += piece
        else:
            words.append(piece)
    return words
