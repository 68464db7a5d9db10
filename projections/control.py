"""What governs the ledger itself: keys and their answers, refusals, commands out of force, policies adopted, dependents."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from ledger.domain.events import AnyEvent, CommandAnswered, CommandRedone, CommandUndone, PolicyAdopted, WriteRefused
from ledger.domain.policy import Policy
from ledger.domain.text import fingerprint
from projections.rows import Rows, Table
from projections.subjects import EVERYTHING, Change

KEYS = Table(
    "keys",
    (
        "key BLOB PRIMARY KEY",
        "position INTEGER NOT NULL",
        "command TEXT NOT NULL",
        "command_id TEXT NOT NULL",
        "arguments TEXT",
        "subject TEXT NOT NULL",
        "seen INTEGER NOT NULL",
        "released_at INTEGER",
    ),
    ("key",),
    (("position", ""),),
    rowid=False,
)
REFUSALS = Table(
    "refusals",
    (
        "position INTEGER PRIMARY KEY",
        "attempt INTEGER NOT NULL",
        "user TEXT",
        "rule TEXT NOT NULL",
        "command TEXT NOT NULL",
        "subject TEXT",
        "actor TEXT",
        "recorded_at TEXT NOT NULL",
        "limit_ INTEGER",
        "current INTEGER",
        "requested INTEGER",
    ),
    ("position",),
    (("attempt", ""),),
)
OUT_OF_FORCE = Table(
    "out_of_force",
    ("position INTEGER PRIMARY KEY", "undone_at INTEGER NOT NULL", "command_id TEXT NOT NULL"),
    ("position",),
)
POLICIES = Table(
    "policies",
    ("user TEXT NOT NULL", "from_position INTEGER NOT NULL", "parameters TEXT NOT NULL", "undone_at INTEGER"),
    ("user", "from_position"),
    rowid=False,
)
DEPENDENTS = Table(
    "dependents",
    ("source TEXT NOT NULL", "memory INTEGER NOT NULL"),
    ("source", "memory"),
    rowid=False,
)


class Answer(Struct, frozen=True):
    """What a key was used for: the command, a digest of its arguments, and the subject that it answered with."""

    key: bytes
    position: int
    command: str
    command_id: str
    arguments: str | None
    subject: str
    seen: int
    released_at: int | None


class Refusal(Struct, frozen=True):
    position: int
    attempt: int
    user: str | None
    rule: str
    command: str
    subject: str | None
    actor: str | None
    recorded_at: str
    limit: int | None
    current: int | None
    requested: int | None


def positions(ranges: Iterable[tuple[int, int]]) -> Iterable[int]:
    return (position for first, last in ranges for position in range(first, last + 1))


_WAYS_BACK = (CommandUndone, CommandRedone)


class Keys:
    name, version, follows = "keys", 1, EVERYTHING
    tables = (KEYS,)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        if event.key is not None:
            data, envelope = event.data, event.envelope
            answered = isinstance(data, CommandAnswered)
            subject, seen = (data.subject, data.seen) if answered else (event.stream, event.position)
            told = (envelope.command, envelope.command_id, envelope.arguments, subject, seen, None)
            rows.put(KEYS, (event.key,), (event.key, event.position, *told))
        if isinstance(event.data, _WAYS_BACK):
            released = event.position if isinstance(event.data, CommandUndone) else None
            for row in rows.within(KEYS, "position", event.data.ranges):
                rows.put(KEYS, row[:1], (*row[:-1], released))


class Refusals:
    name, version, follows = "refusals", 1, frozenset({WriteRefused.__name__})
    tables = (REFUSALS,)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        if not isinstance(event.data, WriteRefused):
            return
        data, envelope = event.data, event.envelope
        attempt = refusal_digest(self._secret, data, envelope.actor, envelope.session)
        told = (envelope.user, data.rule, envelope.command, data.subject, envelope.actor, envelope.recorded_at)
        numbers = (data.limit, data.current, data.requested)
        rows.put(REFUSALS, (event.position,), (event.position, attempt, *told, *numbers))


def refusal_digest(secret: bytes, data: WriteRefused, actor: str | None, session: str | None) -> int:
    """One number for "the same rule, text, actor and session": an equal refusal is recorded once."""
    return fingerprint(secret, data.rule, data.digest, actor, session)


class Force:
    """Which events are out of force, and the policies people adopted."""

    name, version = "force", 1
    follows = frozenset({CommandUndone.__name__, CommandRedone.__name__, PolicyAdopted.__name__})
    tables = (OUT_OF_FORCE, POLICIES)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        match event.data:
            case CommandUndone(_, ranges):
                for position in positions(ranges):
                    rows.put(OUT_OF_FORCE, (position,), (position, event.position, event.envelope.command_id))
                self._policies(rows, ranges, event.position)
            case CommandRedone(_, ranges):
                for position in positions(ranges):
                    rows.remove(OUT_OF_FORCE, (position,))
                self._policies(rows, ranges, None)
            case PolicyAdopted(parameters) if event.envelope.user is not None:
                key = (event.envelope.user, event.position)
                rows.put(POLICIES, key, (*key, msgspec.json.encode(parameters).decode(), None))

    def _policies(self, rows: Rows, ranges: Sequence[tuple[int, int]], undone_at: int | None) -> None:
        for row in rows.within(POLICIES, "from_position", ranges):
            rows.put(POLICIES, row[:2], (*row[:3], undone_at))


class Sources:
    """From a source (an interaction, a chunk, a memory) to the memories that cite it."""

    name, version, follows = "sources", 1, frozenset("m")
    tables = (DEPENDENTS,)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for change in changes:
            if (change.old is None and change.new is not None and change.new.sources) or change.refold:
                before = set(change.old.sources) if change.old is not None else set()
                after = set(change.new.sources) if change.new is not None else set()
                for source in before - after:
                    rows.remove(DEPENDENTS, (source, change.first))
                for source in after - before:
                    rows.put(DEPENDENTS, (source, change.first), (source, change.first))


# --- reads -----------------------------------------------------------------------------------------------------------


def answer(rows: Rows, key: bytes) -> Answer | None:
    """The command in force that used a key."""
    row = rows.get(KEYS, (key,))
    found = Answer(*row) if row is not None else None
    return found if found is not None and found.released_at is None else None


def refused(connection: sqlite3.Connection, attempt: int) -> bool:
    return connection.execute("SELECT 1 FROM refusals WHERE attempt = ? LIMIT 1", (attempt,)).fetchone() is not None


def refusals(connection: sqlite3.Connection, user: str, limit: int) -> list[Refusal]:
    sql = "SELECT * FROM refusals WHERE user = ? ORDER BY position DESC LIMIT ?"
    return [Refusal(*row) for row in connection.execute(sql, (user, limit))]


def out_of_force(connection: sqlite3.Connection, first: int, last: int) -> dict[int, str]:
    """Positions out of force between two positions, and the command that took each out."""
    sql = "SELECT position, command_id FROM out_of_force WHERE position BETWEEN ? AND ?"
    return dict(connection.execute(sql, (first, last)).fetchall())


def undone_by(connection: sqlite3.Connection, command_id: str) -> list[int]:
    sql = "SELECT position FROM out_of_force WHERE command_id = ? ORDER BY position"
    return [position for (position,) in connection.execute(sql, (command_id,))]


def policy(connection: sqlite3.Connection, user: str) -> Policy:
    """The policy in force for a user; the default one until another is adopted."""
    sql = "SELECT parameters FROM policies WHERE user = ? AND undone_at IS NULL ORDER BY from_position DESC LIMIT 1"
    row = connection.execute(sql, (user,)).fetchone()
    return msgspec.json.decode(row[0], type=Policy) if row else Policy()


def dependents(connection: sqlite3.Connection, source: str) -> list[int]:
    sql = "SELECT memory FROM dependents WHERE source = ? ORDER BY memory"
    return [memory for (memory,) in connection.execute(sql, (source,))]
