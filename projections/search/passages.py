"""The passages of captured, said and ingested texts, cut at a readable size, and the text index over them.

A passage is the unit that a search scores; the best passage stands for its turn. A passage holds only its own text, so that
an erased turn leaves nothing in its neighbors: in a search the neighbors lend only their scores.

A message keeps its passages while it is hidden, and a value while it is removed: a search leaves them out. A message whose
text is stored with a captured turn has no passages of its own. A passage's time is the time with which the message was
appended; only ``messages`` knows the time that a repair brings.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from ledger.documents.rules import DocumentState
from ledger.domain.metadata import NO_PAIRS, Pairs
from ledger.domain.passages import ASSISTANTS, PEOPLE, speaker, split
from ledger.domain.times import moment
from ledger.english.dates import day_words
from ledger.english.question import Question
from ledger.english.words import folded, indexed
from ledger.events import (
    AnyEvent,
    Blob,
    ChunkAdded,
    InteractionCaptured,
    MessageAppended,
    ResponseAttached,
    SummaryCreated,
    ValueMoved,
    ValuePut,
)
from ledger.interactions.rules import InteractionState
from ledger.sessions.rules.message import part_texts
from ledger.sessions.rules.session import SessionState
from ledger.values.rules import ValueState, after_all_below, labels_of, place_of, readable
from projections.core.rows import (
    CURRENT,
    AsOf,
    Conditions,
    FoldLog,
    ProjectionRows,
    Scope,
    Table,
    TextIndex,
    Values,
    columns,
    reader,
)
from projections.core.subjects import SubjectChange, end, ended
from projections.search import text_hits
from projections.search.text_hits import aside, best_first, of_rows, source_of
from projections.views import quarantine
from projections.views import values as keyed_values
from projections.views.documents import CHUNKS

# A row number is the event's position, the field in it, and the number of the passage. A text of 10 MB has fewer passages.
FIELD_BITS, NUMBER_BITS = 1, 15
FIELDS = ("prompt", "response")
TURN, CHUNK, MESSAGE, SUMMARY, VALUE = "turn", "chunk", "message", "summary", "value"
UNTYPED = "\ue000"  # no question contains this character: in the index it ends a word that is not text
SEVERAL = "x" + UNTYPED  # marks a passage whose turn, message or summary has several


class PassageRow(Struct, frozen=True):
    """A passage: characters ``start`` to ``until`` of a text of ``whole`` characters. The fields are the columns of its row.

    ``pieces`` is the number of passages of the turn or summary; of a message, those of its content and its parts.
    """

    row: int
    corpus: str  # "turn", "chunk", "message", "summary" or "value"
    subject: int
    id: str  # of the interaction, chunk or value; the session's id for a message or summary
    field: str
    start: int
    until: int
    text: str
    whole: int
    pieces: int
    speaker: str | None  # of a turn or message that begins with a name, folded
    above: str | None  # the headings above a chunk, or the labels and key of a value, that its text does not contain
    user: str | None
    project: str | None
    session: str | None  # of a turn or message
    time: str
    from_position: int

    @property
    def turn(self) -> int:
        """Return a number for the text of the passage, in which the position of that text's event comes first."""
        return self.row >> NUMBER_BITS

    @property
    def position(self) -> int:
        """Return the position of the event with the text."""
        return _position(self.row)


passage = reader(PassageRow, "passages")


PASSAGES = Table(
    "passages",
    columns(PassageRow),
    ("row",),
    (
        ("subject", ""),
        ("session, row", "session IS NOT NULL"),
        ("user, corpus, project", ""),
        ("user, speaker", "speaker IS NOT NULL"),
        ("user, row", "field <> 'response' AND field <> ''"),  # the newest prompts and messages
    ),
    then=AsOf("from_position", closed="passages_were"),
)
PASSAGES_WERE = ended(PASSAGES, "passages_were")
WAITING = Table(
    "passages_waiting",
    ("row INTEGER PRIMARY KEY", "text TEXT NOT NULL", "about TEXT NOT NULL", "place TEXT NOT NULL"),
    ("row",),
    derived=True,
    then=CURRENT,
)
PASSAGE_SEARCH = TextIndex(
    "passage_search",
    ("text", "about", "place"),
    WAITING,
    lambda kept: (indexed(kept[0]), indexed(kept[1]), kept[2]),
)
SOURCE = source_of(PASSAGE_SEARCH, "bm25(passage_search, 1.0, 0.3, 0.0)", PASSAGES)


class Passages:
    """The passages of turns, messages, chunks, summaries and values.

    After an undo the texts are read and cut again, and each passage that ends leaves the text index too; so they are not written
    by ``replace_rows``.
    """

    name, version, follows, reads = "passages", 7, frozenset("idsv"), ("documents",)
    tables = (PASSAGES, PASSAGES_WERE, PASSAGE_SEARCH, WAITING)

    def __init__(self, log: FoldLog | None) -> None:
        self._log = log

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            if change.kind == "d":
                self._document(change, rows)
            elif change.kind == "v":
                self._value(change, rows)
            elif change.refold:
                self._again(change, rows)
            elif change.new is not None:
                for row in self._of_event(change.new, event, event.position):
                    _stand(row, rows)

    def _document(self, change: SubjectChange, rows: ProjectionRows) -> None:
        """Let the chunks stand that the document now has; their texts are read from the log."""
        event, state = change.event, change.new
        active = state if state is not None and state.status == "active" else None
        if isinstance(event.data, ChunkAdded):
            for row in _of_chunk(active, event, event.position) if active is not None else ():
                _stand(row, rows)
            return
        due = {row[0] for row in rows.find(CHUNKS, ("document",), (change.first,))} if active else set[int]()
        current = rows.find(PASSAGES, ("subject",), (change.first,))
        for row in current:
            if _position(row[0]) not in due:
                _end(row, rows, event.position)
        missing = due - {_position(row[0]) for row in current}
        if missing and active is not None and self._log is not None:
            for chunk in self._log.streams([active.id], event.position)[active.id]:
                if chunk.position in missing:
                    for row in _of_chunk(active, chunk, event.position):
                        _stand(row, rows)

    def _value(self, change: SubjectChange, rows: ProjectionRows) -> None:
        """Let the passages stand of the content that the value now has, under its present key, whatever its status."""
        event, state, due = change.event, change.new, dict[int, Values]()
        if state is not None and state.indexed and state.name is not None:
            if isinstance(event.data, ValueMoved):
                for row in rows.find(PASSAGES, ("subject",), (change.first,)):
                    above = _words_above(_headings(state), row[_TEXT])
                    due[row[0]] = (*row[:_ABOVE], above, *row[_ABOVE + 1 : -1], event.position)
            else:
                for put in (known for known in change.events if known.position == state.content_at):
                    due = {row[0]: row for row in self._of_value(state, put, event.position)}
        if change.refold or isinstance(event.data, ValuePut | ValueMoved):
            self._stand_instead(change, due, rows)

    def _of_value(self, state: ValueState, event: AnyEvent, since: int) -> Iterator[Values]:
        data: ValuePut = event.data
        content = self._text(data.content)
        if content:
            what, place = (VALUE, state.row, state.id, ""), (state.user, None, None, event.envelope.recorded_at, since)
            text = readable(content, data.type, data.fields or ())
            yield from _pieces(_first(event), what, text, place, headings=_headings(state))

    def _again(self, change: SubjectChange, rows: ProjectionRows) -> None:
        """Let the passages stand that the events in effect bring, and end all others."""
        at = change.event.position
        due = {row[0]: row for event in change.events for row in self._of_event(change.new, event, at)}
        self._stand_instead(change, due, rows)

    def _stand_instead(self, change: SubjectChange, due: dict[int, Values], rows: ProjectionRows) -> None:
        """Let these passages of a subject stand and no others; an unchanged passage keeps its row."""
        at = change.event.position
        for row in rows.find(PASSAGES, ("subject",), (change.first,)):
            if row[:-1] == due.get(row[0], ())[:-1]:
                del due[row[0]]
            else:
                _end(row, rows, at)
        for row in due.values():
            _stand(row, rows)

    def _of_event(self, state: Any, event: AnyEvent, since: int) -> Iterator[Values]:
        """Yield the rows of one event's texts."""
        match event.data:
            case InteractionCaptured() | ResponseAttached():
                yield from self._of_turn(state, event, since)
            case MessageAppended(interaction=None):
                yield from self._of_message(state, event, since)
            case SummaryCreated(content=body) if text := self._text(body):
                place = (state.user, state.project, None, event.data.earliest, since)
                yield from _pieces(_first(event), (SUMMARY, state.row, state.id, "content"), text, place)

    def _of_turn(self, state: InteractionState, event: AnyEvent, since: int) -> Iterator[Values]:
        place = (state.user, state.project, state.session, state.time, since)
        for number, field in enumerate(FIELDS):
            if text := self._text(getattr(event.data, field, None)):
                yield from _pieces(_first(event, number), (TURN, state.row, state.id, field), text, place)

    def _of_message(self, state: SessionState, event: AnyEvent, since: int) -> Iterator[Values]:
        data, envelope = event.data, event.envelope
        time = moment("occurred_at", envelope.occurred_at) if envelope.occurred_at else envelope.recorded_at
        what, place = (MESSAGE, state.row, state.id), (state.user, state.project, state.id, time, since)
        content, parts = self._text(data.content) or "", part_texts(data.parts)
        texts = {"content": (content, _places(content)), "parts": (parts, _places(parts))}
        several = sum(len(places) for _, places in texts.values())
        for number, (field, (text, places)) in enumerate(texts.items()):
            first = _first(event, number)
            yield from _rows(first, (*what, field), text, places, place, several, data.speaker or "")

    def _text(self, body: str | Blob | None) -> str | None:
        if not isinstance(body, Blob):
            return body
        return self._log.blob(body.blob) if self._log is not None else None


_TEXT, _TIME, _PIECES, _ABOVE = (PASSAGES.names.index(name) for name in ("text", "time", "pieces", "above"))
_CORPUS, _OF, _SESSION = (PASSAGES.names.index(name) for name in ("corpus", "id", "session"))


def _of_chunk(state: DocumentState, event: AnyEvent, since: int) -> Iterator[Values]:
    data: ChunkAdded = event.data
    if data.content:
        what = (CHUNK, state.row, data.chunk, "")
        envelope = event.envelope
        time = moment("occurred_at", envelope.occurred_at) if envelope.occurred_at else envelope.recorded_at
        place = (state.user, state.project, None, time, since)
        yield from _pieces(_first(event), what, data.content, place, headings=data.heading_path or ())


def _first(event: AnyEvent, field: int = 0) -> int:
    return (event.position << FIELD_BITS | field) << NUMBER_BITS


def _pieces(first: int, what: Values, text: str, place: Values, headings: Sequence[str] = ()) -> Iterator[Values]:
    """Yield the rows of one text, numbered from ``first``, under its ``headings``."""
    places = _places(text)
    return _rows(first, what, text, places, place, len(places), headings=headings)


def _rows(
    first: int,
    what: Values,
    text: str,
    places: Sequence[tuple[int, int]],
    place: Values,
    several: int,
    name: str = "",
    headings: Sequence[str] = (),
) -> Iterator[Values]:
    """Yield the rows of a text; ``several`` is the number of passages of all texts of its message or turn."""
    for at, (start, until) in enumerate(places):
        piece = text[start:until]
        values = (start, until, piece, len(text), several)
        above = _words_above(headings, piece)
        yield (first + at, *what, *values, _named(what[0], piece, name), above, *place)


def _words_above(headings: Iterable[str], text: str) -> str | None:
    return " ".join(heading for heading in headings if heading not in text) or None


def _headings(state: ValueState) -> tuple[str, ...]:
    """Return the labels and the key of a value, whose words are searched too."""
    return (*(labels_of(state.place) if state.place is not None else ()), state.name or "")


def _places(text: str) -> list[tuple[int, int]]:
    return [(start, until) for start, until in split(text) if text[start:until].strip()]


def _named(corpus: str, text: str, name_given: str) -> str | None:
    """Return the name of the speaker: the given name, or the name that the text begins with."""
    name = folded(name_given or speaker(text)[0]) if corpus in (TURN, MESSAGE) else ""
    return name if name and name not in (*PEOPLE, *ASSISTANTS) else None


def _position(row: int) -> int:
    return row >> FIELD_BITS + NUMBER_BITS


def _end(row: Values, rows: ProjectionRows, at: int) -> None:
    end(rows, PASSAGES, PASSAGES_WERE, row, at)
    rows.index(PASSAGE_SEARCH, row[0], _indexed(row), None)


def _stand(row: Values, rows: ProjectionRows) -> None:
    rows.put(PASSAGES, row[:1], row)
    rows.index(PASSAGE_SEARCH, row[0], None, _indexed(row))


def _indexed(row: Values) -> Values:
    return (row[_TEXT].replace("\0", " "), _about(row), _place(row))


def _about(row: Values) -> str:
    """Return the searched words about a text besides its own: the headings above it, and its date."""
    return " ".join(part for part in (row[_ABOVE], day_words(row[_TIME])) if part)


def _place(row: Values) -> str:
    """Return the index words for a text's session, its corpus, and whether it is one of several passages."""
    session = row[_OF] if row[_CORPUS] == SUMMARY else row[_SESSION]
    words = [place_word(session, row[_CORPUS])] if session is not None else []
    return " ".join([*words, *([SEVERAL] if row[_PIECES] > 1 else [])])


def place_word(session: str, corpus: str) -> str:
    """Return the word that the texts of a corpus in a session (its id) have in the column ``place``."""
    return f"{session.partition('_')[2]}{corpus}{UNTYPED}"


# --- reads -----------------------------------------------------------------------------------------------------------

WINDOW = 3  # turns on either side of a turn
WHOLE_SESSION = 2_000  # passages; of a longer session only the turns around the best are looked at
AROUND = 100


_VISIBLE = (
    f"(m.corpus <> '{MESSAGE}' OR NOT EXISTS (SELECT 1 FROM hidden_messages h WHERE h.session = m.subject"
    f" AND h.first <= m.row >> {FIELD_BITS + NUMBER_BITS} AND h.last >= m.row >> {FIELD_BITS + NUMBER_BITS}))"
)


_POSITION = f"m.row >> {FIELD_BITS + NUMBER_BITS}"


_METADATA = (  # of the passage's subject: a chunk has that of its document, a turn that of its messages too
    f"CASE m.corpus WHEN '{TURN}' THEN coalesce((SELECT metadata FROM interactions WHERE row = m.subject), '')"
    " || coalesce((SELECT group_concat(x.metadata) FROM messages x WHERE x.interaction = m.id), '')"
    f" WHEN '{CHUNK}' THEN (SELECT metadata FROM documents WHERE row = m.subject)"
    f" WHEN '{MESSAGE}' THEN (SELECT metadata FROM messages WHERE row = m.row >> {FIELD_BITS + NUMBER_BITS}) END"
)


_IN_USE = (  # of a value: binds the time twice, and the first place and the end of the places
    f"(m.corpus <> '{VALUE}' OR EXISTS (SELECT 1 FROM keyed_values k WHERE k.row = m.subject AND {keyed_values.alive('k')}"
    f" AND NOT {keyed_values.HIDDEN} AND k.place >= ? AND k.place < ?))"
)


class PassageScope(Struct, frozen=True):
    """A filter of searched passages: one user, some corpora and projects, without hidden messages and quarantined texts.

    With ``held`` the quarantined texts alone are searched. Of the values those are searched that are in use at the time
    ``now`` in the ``namespace`` or below it.
    """

    user: str
    corpora: Sequence[str]
    projects: Scope = None
    metadata: Pairs = NO_PAIRS
    now: str = ""
    namespace: tuple[str, ...] = ()
    held: bool = False

    def condition(self) -> tuple[str, list[object]]:
        """Return the filter as SQL on ``m``, and its values."""
        where = Conditions("m.user = ?", self.user)
        where.among("m.corpus", self.corpora)
        where.of_projects(self.projects, "m.project")
        if MESSAGE in self.corpora:
            where.add(_VISIBLE)
        if VALUE in self.corpora:
            place = place_of(self.namespace)
            where.add(_IN_USE, self.now, self.now, place, after_all_below(place))
        where.has_pairs(self.metadata, _METADATA)
        where.add(quarantine.holds(_POSITION) if self.held else quarantine.free(_POSITION))
        return str(where), where.values


def matching(
    connection: sqlite3.Connection, expression: str, wanted: PassageScope, *, limit: int, schema: str, enough: int
) -> Iterator[tuple[PassageRow, float]]:
    """Yield the wanted passages that match an expression, best first, with BM25 (more is better)."""
    query = (expression, wanted.condition(), passage)
    return text_hits.matching(connection, SOURCE, *query, limit=limit, schema=schema, enough=enough)


def any_matches(connection: sqlite3.Connection, expression: str, wanted: PassageScope, *, schema: str) -> bool:
    """Return True if a wanted passage matches an expression."""
    return text_hits.any_matches(connection, SOURCE, expression, *wanted.condition(), schema=schema)


def matching_then(
    connection: sqlite3.Connection, expression: str, wanted: PassageScope, position: int, *, limit: int
) -> Iterator[tuple[PassageRow, float]]:
    """Yield the passages that ``matching`` would have found at a position, on a connection whose views hide the tables.

    Passages that no longer stand are not in the index, so they are scored apart.
    """
    condition = wanted.condition()
    hits_now = text_hits.hits(connection, SOURCE, expression, *condition, limit, schema="main", enough=limit)
    then = {row[0]: row for row in gone(connection, position, *condition)}
    late = aside(SOURCE, [(row[0], *_indexed(row)) for row in then.values()], expression)
    best = best_first([*hits_now, *((then[row], score) for row, score in late.items())])
    return ((passage(row), score) for row, score in best[:limit])


def gone(connection: sqlite3.Connection, position: int, condition: str, values: Sequence[object]) -> list[Values]:
    """Return the rows that stood at a position and have left the index since; ``condition`` is on ``m``."""
    sql = (
        f"SELECT {SOURCE.columns} FROM main.passages_were m WHERE m.from_position <= ? AND m.to_position > ? AND {condition}"
        " AND NOT EXISTS (SELECT 1 FROM main.passages n WHERE n.row = m.row)"
    )
    return list(map(tuple, connection.execute(sql, (position, position, *values))))


def of_keys(connection: sqlite3.Connection, rows: Iterable[int], wanted: PassageScope) -> list[PassageRow]:
    """Return the passages of some rows that are wanted."""
    return [passage(row) for row in of_rows(connection, SOURCE, rows, *wanted.condition())]


def newest(connection: sqlite3.Connection, wanted: PassageScope, limit: int, before: int) -> list[PassageRow]:
    """Return the newest wanted passages of prompts and messages before a row."""
    condition, values = wanted.condition()
    sql = (
        f"SELECT {SOURCE.columns} FROM passages m WHERE {condition} AND m.field <> 'response' AND m.field <> ''"
        " AND m.row < ? ORDER BY m.row DESC LIMIT ?"
    )
    return [passage(tuple(row)) for row in connection.execute(sql, (*values, before, limit))]


def turns_around(
    connection: sqlite3.Connection, session: str, turns: Sequence[int], without: Sequence[tuple[int, int]] = ()
) -> list[int]:
    """Return turns of a session with their neighbors, in order. ``turns`` are the best first.

    Turns in the ranges of positions ``without`` are hidden and are not neighbors.
    """
    rows = connection.execute("SELECT row FROM passages WHERE session = ? LIMIT ?", (session, WHOLE_SESSION + 1))
    whole, best = [row for (row,) in rows], set(turns)
    if len(whole) <= WHOLE_SESSION:
        every = {row >> NUMBER_BITS for row in whole}
        return sorted(turn for turn in every if turn in best or not _within(turn, without))
    around = set(turns)
    for turn in turns[:AROUND]:
        for beyond, step in ((_BEFORE, 0), (_AFTER, 1)):
            at, steps = turn, 0
            while steps < WINDOW:
                row = connection.execute(beyond, (session, (at + step) << NUMBER_BITS)).fetchone()
                if row is None:
                    break
                at = row[0] >> NUMBER_BITS
                if at in best or (skipped := _within(at, without)) is None:
                    around.add(at)
                    steps += 1
                else:
                    at = ((skipped[step] + step) << FIELD_BITS) - step
    return sorted(around)


def _within(turn: int, ranges: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    at = turn >> FIELD_BITS
    return next((part for part in ranges if part[0] <= at <= part[1]), None)


# No min() or max(): with a view before the table they would read the whole session.
_BEFORE = "SELECT row FROM passages WHERE session = ? AND row < ? ORDER BY row DESC LIMIT 1"
_AFTER = "SELECT row FROM passages WHERE session = ? AND row >= ? ORDER BY row LIMIT 1"


def count(connection: sqlite3.Connection, wanted: PassageScope, after: int | None = None) -> int:
    """Return the number of texts (not passages) to search, or of those only that came after the position ``after``."""
    condition, values = wanted.condition()
    since, table = "", "passages m"
    if after is not None:
        since, table = f" AND m.row >= {after + 1 << FIELD_BITS + NUMBER_BITS}", "passages m NOT INDEXED"
    sql = f"SELECT count(*) FROM {table} WHERE {condition} AND m.row & {(1 << NUMBER_BITS) - 1} = 0{since}"
    return int(connection.execute(sql, values).fetchone()[0])


def speakers(connection: sqlite3.Connection, question: Question, user: str) -> set[str]:
    """Return the words of a question that are names of speakers in a user's turns."""
    sql = "SELECT 1 FROM passages WHERE user = ? AND speaker = ? LIMIT 1"
    names: set[str] = set()
    for size in (1, 2, 3):
        for at in range(len(question.words) - size + 1):
            words = question.words[at : at + size]
            if connection.execute(sql, (user, " ".join(words))).fetchone() is not None:
                names.update(words)
    return names


def stands(connection: sqlite3.Connection, position: int, field: str) -> bool:
    """Return True if a text that an event brought can still be found."""
    bits = NUMBER_BITS + FIELD_BITS
    sql = "SELECT 1 FROM passages WHERE row >= ? AND row < ? AND field = ? LIMIT 1"
    return connection.execute(sql, (position << bits, position + 1 << bits, field)).fetchone() is not None
