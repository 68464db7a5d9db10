"""The passages of what was captured and ingested, cut at a readable size, and the text index over them.

A passage is the unit that a search scores; the best one stands for its turn. It holds its own text and nobody else's, so
that an erased turn leaves nothing in its neighbours: what those lend it in a search is their score, when it is asked.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ledger.domain.document import Document
from ledger.domain.events import AnyEvent, Blob, ChunkAdded, InteractionCaptured, ResponseAttached
from ledger.domain.interaction import Interaction
from ledger.domain.passages import ASSISTANTS, PEOPLE, day_words, speaker, split
from ledger.domain.question import Question, folded, indexed
from projections.documents import CHUNKS
from projections.rows import CURRENT, Rows, Standing, Table, TextIndex, Values
from projections.subjects import Change, end, ended
from projections.text_hits import Source, aside, hits, of_rows, waiting

if TYPE_CHECKING:
    from projections.projector import Log

# A row is the position of the event, the field in it, and the number of the passage: of 10 MB of text there are fewer.
FIELD_BITS, NUMBER_BITS = 1, 15
FIELDS = ("prompt", "response")

PASSAGES = Table(
    "passages",
    (
        "row INTEGER PRIMARY KEY",
        "corpus TEXT NOT NULL",
        "subject INTEGER NOT NULL",
        "id TEXT NOT NULL",
        "field TEXT NOT NULL",
        "start INTEGER NOT NULL",
        "until INTEGER NOT NULL",
        "text TEXT NOT NULL",
        "whole INTEGER NOT NULL",
        "speaker TEXT",
        "user TEXT",
        "project TEXT",
        "session TEXT",
        "time TEXT NOT NULL",
        "from_position INTEGER NOT NULL",
    ),
    ("row",),
    (
        ("subject", ""),
        ("session, row", "session IS NOT NULL"),
        ("user, corpus, project", ""),
        ("user, speaker", "speaker IS NOT NULL"),
    ),
    then=Standing("from_position", closed="passages_were"),
)
PASSAGES_WERE = ended(PASSAGES, "passages_were")
WAITING = Table(
    "passages_waiting",
    ("row INTEGER PRIMARY KEY", "text TEXT NOT NULL", "day TEXT NOT NULL"),
    ("row",),
    derived=True,
    then=CURRENT,
)
PASSAGE_SEARCH = TextIndex("passage_search", ("text", "day"), WAITING, lambda kept: (indexed(kept[0]), kept[1]))
SOURCE = Source(PASSAGE_SEARCH, "bm25(passage_search, 1.0, 0.3)", "passages", PASSAGES.names)


class Passage(Struct, frozen=True):
    """One passage: characters ``start`` to ``until`` of a text of ``whole`` characters. The columns of its row."""

    row: int
    corpus: str  # "turn" or "chunk"
    subject: int
    id: str  # of the interaction or chunk
    field: str
    start: int
    until: int
    text: str
    whole: int
    speaker: str | None  # of a turn that begins with a name, folded
    user: str | None
    project: str | None
    session: str | None
    time: str
    from_position: int

    @property
    def turn(self) -> int:
        """One number for the text that it is a passage of; the position of that text's event comes first in it."""
        return self.row >> NUMBER_BITS

    @property
    def position(self) -> int:
        """The event that has the text."""
        return _position(self.row)


class Passages:
    name, version, follows = "passages", 1, frozenset("id")
    tables = (PASSAGES, PASSAGES_WERE, PASSAGE_SEARCH, WAITING)

    def __init__(self, log: Log | None) -> None:
        self._log = log

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for change in changes:
            if change.kind == "d":
                self._document(change, rows)
            elif change.refold:
                self._again(change, rows)
            elif isinstance(event.data, InteractionCaptured | ResponseAttached) and change.new is not None:
                for row in self._of_turns(change.new, event, event.position):
                    _stand(row, rows)

    def _document(self, change: Change, rows: Rows) -> None:
        """The chunks that the document has now stand; their texts are in the log."""
        event, state = change.event, change.new
        active = state is not None and state.status == "active"
        if isinstance(event.data, ChunkAdded) and not change.refold:
            for row in _of_chunk(state, event, event.position) if active else ():
                _stand(row, rows)
            return
        wanted = {row[0] for row in rows.find(CHUNKS, ("document",), (change.first,))} if active else set[int]()
        standing = rows.find(PASSAGES, ("subject",), (change.first,))
        for row in standing:
            if _position(row[0]) not in wanted:
                _end(row, rows, event.position)
        if (missing := wanted - {_position(row[0]) for row in standing}) and self._log is not None:
            for each in self._log.stream(state.id, event.position):
                if each.position in missing:
                    for row in _of_chunk(state, each, event.position):
                        _stand(row, rows)

    def _again(self, change: Change, rows: Rows) -> None:
        """What the events in force say stands from here; what they no longer say ends here."""
        at = change.event.position
        events = change.in_force if change.new is not None else ()
        wanted = {row[0]: row for each in events for row in self._of_turns(change.new, each, at)}
        for row in rows.find(PASSAGES, ("subject",), (change.first,)):
            if row[:-1] == wanted.get(row[0], ())[:-1]:
                del wanted[row[0]]
            else:
                _end(row, rows, at)
        for row in wanted.values():
            _stand(row, rows)

    def _of_turns(self, state: Interaction, event: AnyEvent, since: int) -> Iterator[Values]:
        """The rows of one event's texts."""
        if not isinstance(event.data, InteractionCaptured | ResponseAttached):
            return
        place = (state.user, state.project, state.session, state.time, since)
        for number, field in enumerate(FIELDS):
            if text := self._text(getattr(event.data, field, None)):
                first = (event.position << FIELD_BITS | number) << NUMBER_BITS
                yield from _pieces(first, ("turn", state.row, state.id, field), text, place)

    def _text(self, body: str | Blob | None) -> str | None:
        if not isinstance(body, Blob):
            return body
        return self._log.blob(body.blob) if self._log is not None else None


_TEXT, _TIME = (PASSAGES.names.index(name) for name in ("text", "time"))


def _of_chunk(state: Document, event: AnyEvent, since: int) -> Iterator[Values]:
    data: ChunkAdded = event.data
    if data.content:
        what = ("chunk", state.row, data.chunk, "")
        place = (state.user, state.project, None, event.envelope.recorded_at, since)
        yield from _pieces(event.position << FIELD_BITS + NUMBER_BITS, what, data.content, place)


def _pieces(first: int, what: Values, text: str, place: Values) -> Iterator[Values]:
    """The rows of one text, numbered from ``first``."""
    places = [(start, until) for start, until in split(text) if text[start:until].strip()]
    for at, (start, until) in enumerate(places):
        piece = text[start:until]
        yield (first + at, *what, start, until, piece, len(text), _named(what[0], piece), *place)


def _named(corpus: str, text: str) -> str | None:
    name = folded(speaker(text)[0]) if corpus == "turn" else ""
    return name if name and name not in (*PEOPLE, *ASSISTANTS) else None


def _position(row: int) -> int:
    return row >> FIELD_BITS + NUMBER_BITS


def _end(row: Values, rows: Rows, at: int) -> None:
    end(rows, PASSAGES, PASSAGES_WERE, row, at)
    rows.index(PASSAGE_SEARCH, row[0], _indexed(row), None)


def _stand(row: Values, rows: Rows) -> None:
    rows.put(PASSAGES, row[:1], row)
    rows.index(PASSAGE_SEARCH, row[0], None, _indexed(row))


def _indexed(row: Values) -> Values:
    return (row[_TEXT].replace("\0", " "), day_words(row[_TIME]))


# --- reads -----------------------------------------------------------------------------------------------------------

WINDOW = 3  # turns on either side of one
WHOLE_SESSION = 2_000  # passages; of a longer session only the turns around the best are looked at
AROUND = 100


class Wanted(Struct, frozen=True):
    """What a search is among: passages of one user, of some corpora, in some projects."""

    user: str
    corpora: Sequence[str]
    projects: Sequence[str | None] | None = None

    def condition(self) -> tuple[str, list[str | None]]:
        """As SQL on ``m``, and its values."""
        where = ["m.user = ?", f"m.corpus IN ({', '.join('?' * len(self.corpora))})"]
        values: list[str | None] = [self.user, *self.corpora]
        if self.projects is not None:
            where.append("(" + " OR ".join(["m.project IS ?"] * len(self.projects)) + ")")
            values.extend(self.projects)
        return " AND ".join(where), values


def matching(
    connection: sqlite3.Connection, expression: str, wanted: Wanted, *, limit: int, schema: str, enough: int
) -> list[tuple[Passage, float]]:
    """The passages wanted that have words of an expression, best first, with BM25 (more is better)."""
    condition, values = wanted.condition()
    found = [
        (Passage(*row), score)
        for row, score in hits(connection, SOURCE, expression, condition, values, limit, schema=schema, enough=enough)
    ]
    late = waiting(connection, SOURCE, expression, schema)
    waited = {row[0]: Passage(*row) for row in of_rows(connection, SOURCE, late, condition, values)}
    found += [(waited[row], score) for row, score in late.items() if row in waited]
    return sorted(found, key=lambda each: (-each[1], each[0].row))[:limit]


def matching_then(
    connection: sqlite3.Connection, expression: str, wanted: Wanted, position: int, *, limit: int
) -> list[tuple[Passage, float]]:
    """``matching`` as of a position, on a connection where views stand before the tables: what no longer stands is not in
    the index, so it is scored aside."""
    found = matching(connection, expression, wanted, limit=limit, schema="main", enough=limit)
    condition, values = wanted.condition()
    names = ", ".join(f"m.{name}" for name in PASSAGES.names)
    gone = (
        f"SELECT {names} FROM main.passages_were m WHERE m.from_position <= ? AND m.to_position > ? AND {condition}"
        " AND NOT EXISTS (SELECT 1 FROM main.passages n WHERE n.row = m.row)"
    )
    then = {row[0]: tuple(row) for row in connection.execute(gone, (position, position, *values))}
    texts = [(row[0], *_indexed(row)) for row in then.values()]
    found += [(Passage(*then[row]), score) for row, score in aside(SOURCE, texts, expression).items()]
    return sorted(found, key=lambda each: (-each[1], each[0].row))[:limit]


def of_keys(connection: sqlite3.Connection, rows: Iterable[int], wanted: Wanted) -> list[Passage]:
    """Those of these passages that are wanted."""
    return [Passage(*row) for row in of_rows(connection, SOURCE, rows, *wanted.condition())]


def turns_around(connection: sqlite3.Connection, session: str, turns: Sequence[int]) -> list[int]:
    """The turns of a session in their order, around some of them, the best first: each with the neighbours it can have."""
    rows = connection.execute("SELECT row FROM passages WHERE session = ? LIMIT ?", (session, WHOLE_SESSION + 1))
    whole = [row for (row,) in rows]
    if len(whole) <= WHOLE_SESSION:
        return sorted({row >> NUMBER_BITS for row in whole})
    found = set(turns)
    for turn in turns[:AROUND]:
        for beyond, step in ((_BEFORE, 0), (_AFTER, 1)):
            at = turn
            for _ in range(WINDOW):
                row = connection.execute(beyond, (session, (at + step) << NUMBER_BITS)).fetchone()
                if row is None:
                    break
                at = row[0] >> NUMBER_BITS
                found.add(at)
    return sorted(found)


# No min() or max(): where a view stands before the table, they go through the whole session.
_BEFORE = "SELECT row FROM passages WHERE session = ? AND row < ? ORDER BY row DESC LIMIT 1"
_AFTER = "SELECT row FROM passages WHERE session = ? AND row >= ? ORDER BY row LIMIT 1"


def count(connection: sqlite3.Connection, wanted: Wanted) -> int:
    """How many texts (not passages) there are to search."""
    condition, values = wanted.condition()
    sql = f"SELECT count(*) FROM passages m WHERE {condition} AND m.row & {(1 << NUMBER_BITS) - 1} = 0"
    return int(connection.execute(sql, values).fetchone()[0])


def speakers(connection: sqlite3.Connection, question: Question, user: str) -> set[str]:
    """The words of a question that are names of who speaks in a user's turns."""
    sql = "SELECT 1 FROM passages WHERE user = ? AND speaker = ? LIMIT 1"
    found: set[str] = set()
    for size in (1, 2, 3):
        for at in range(len(question.words) - size + 1):
            words = question.words[at : at + size]
            if connection.execute(sql, (user, " ".join(words))).fetchone() is not None:
                found.update(words)
    return found


def stands(connection: sqlite3.Connection, position: int, field: str) -> bool:
    """Whether a text that an event brought is still there to be found."""
    bits = NUMBER_BITS + FIELD_BITS
    sql = "SELECT 1 FROM passages WHERE row >= ? AND row < ? AND field = ? LIMIT 1"
    return connection.execute(sql, (position << bits, position + 1 << bits, field)).fetchone() is not None
