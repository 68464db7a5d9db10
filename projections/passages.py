"""The passages of what was captured: turns of interactions, cut at a readable size, and the text index over them.

A passage is the unit that a search scores; the best one stands for its turn. It holds its own text and nobody else's, so
that an erased turn leaves nothing in its neighbours: what those lend it in a search is their score, when it is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ledger.domain.events import AnyEvent, Blob, InteractionCaptured, ResponseAttached
from ledger.domain.interaction import Interaction
from ledger.domain.passages import day_words, split
from projections.rows import CURRENT, Rows, Standing, Table, TextIndex, Values
from projections.subjects import Change, end, ended

if TYPE_CHECKING:
    from projections.projector import Log

FIELD_BITS, NUMBER_BITS = 1, 15  # a row is the position of the event, the field in it, and the number of the passage
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
        "user TEXT",
        "project TEXT",
        "session TEXT",
        "time TEXT NOT NULL",
        "from_position INTEGER NOT NULL",
    ),
    ("row",),
    (("subject", ""), ("session, row", "session IS NOT NULL"), ("user, corpus, project", "")),
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
PASSAGE_SEARCH = TextIndex("passage_search", ("text", "day"), WAITING, lambda kept: kept)


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
        return self.row >> NUMBER_BITS + FIELD_BITS


class Passages:
    name, version, follows = "passages", 1, frozenset("i")
    tables = (PASSAGES, PASSAGES_WERE, PASSAGE_SEARCH, WAITING)

    def __init__(self, log: Log | None) -> None:
        self._log = log

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for change in changes:
            if change.refold:
                self._again(change, rows)
            elif isinstance(event.data, InteractionCaptured | ResponseAttached) and change.new is not None:
                for row in self._of_turns(change.new, event, event.position):
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
                end(rows, PASSAGES, PASSAGES_WERE, row, at)
                rows.index(PASSAGE_SEARCH, row[0], _indexed(row), None)
        for row in wanted.values():
            _stand(row, rows)

    def _of_turns(self, state: Interaction, event: AnyEvent, since: int) -> Iterator[Values]:
        """The rows of one event's texts."""
        if not isinstance(event.data, InteractionCaptured | ResponseAttached):
            return
        for number, field in enumerate(FIELDS):
            text = self._text(getattr(event.data, field, None))
            if not text:
                continue
            first = (event.position << FIELD_BITS | number) << NUMBER_BITS
            place = (state.user, state.project, state.session, state.time, since)
            for at, (start, until) in enumerate(split(text)):
                piece = text[start:until]
                if piece.strip():
                    yield (first + at, "turn", state.row, state.id, field, start, until, piece, len(text), *place)

    def _text(self, body: str | Blob | None) -> str | None:
        if not isinstance(body, Blob):
            return body
        return self._log.blob(body.blob) if self._log is not None else None


_TEXT, _TIME = (PASSAGES.names.index(name) for name in ("text", "time"))


def _stand(row: Values, rows: Rows) -> None:
    rows.put(PASSAGES, row[:1], row)
    rows.index(PASSAGE_SEARCH, row[0], None, _indexed(row))


def _indexed(row: Values) -> Values:
    return (row[_TEXT].replace("\0", " "), day_words(row[_TIME]))
