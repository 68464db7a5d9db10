"""Projections of one's own that tests open ledgers with, and what they should say, folded by hand."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from ledger import Projection, Row
from ledger.events import InteractionCaptured, MemoryReinforced, PolicyAdopted


class Day(Row, key=("day", "person"), indexes=("person",)):
    """The numbers of captures and reinforcements of each day."""

    day: str
    person: str
    captured: int = 0
    reinforced: int = 0


class Seen(Row, key=("id",)):
    """All that a fold is given of a memory, so that anything that differs shows."""

    id: str
    content: str | None
    confidence: float
    status: str
    versions: list[int]
    before: int
    tags: dict[str, int]


class Turn(Row, key=("position",)):
    """Turns and policies: events that are followed by their type."""

    position: int
    type: str


class Counts(Projection):
    """Totals over all memories, which no single subject could give back after an undo."""

    name = "counts"
    follows = ("memory",)
    tables = (Day, Seen)

    def fold(self, event, change, rows):
        day, person = event.envelope.recorded_at[:10], event.envelope.user or ""
        old = rows.get(Day, day, person) or Day(day, person)
        if change.old is None:
            rows.put(old, captured=old.captured + 1)
        elif isinstance(event.data, MemoryReinforced):
            rows.put(old, reinforced=old.reinforced + 1)
        known, new = rows.get(Seen, change.id), change.new
        if new is None:
            rows.remove(Seen, change.id)
            return
        versions = [*(known.versions if known else ()), new.version]
        was = change.old.version + change.old.confidence if change.old else 0
        tags = {tag: len(tag) for tag in new.tags}
        rows.put(Seen(change.id, new.content, new.confidence / 1_000_000, new.status, versions, was, tags))


class Turns(Projection):
    """Events by their types, without a subject."""

    name = "turns"
    follows = (InteractionCaptured, "PolicyAdopted")
    tables = (Turn,)

    def fold(self, event, change, rows):
        assert change is None
        assert isinstance(event.data, InteractionCaptured | PolicyAdopted)
        rows.put(Turn(event.position, event.type))


BOTH = (Counts, Turns)


def rows_of(path):
    """Every row of every table of somebody's own in a file, as SQLite has it."""
    with closing(sqlite3.connect(path)) as connection:
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'my\\_%' ESCAPE '\\' ORDER BY name"
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in connection.execute(sql)}


def listed(ledger):
    """Return the rows of the three tables, as the ledger reads them, by the class of the row."""
    return {row: list(ledger.projections.rows(row).all()) for row in (Day, Seen, Turn)}
