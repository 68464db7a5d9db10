"""What governs the ledger itself: keys and their answers, refusals, commands out of force, policies adopted, dependents."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from ledger.domain.events import (
    PUT_BACK,
    TAKEN_OUT,
    WAYS_BACK,
    AnyEvent,
    BulkFinished,
    BulkStarted,
    CommandAnswered,
    CommandRedone,
    PolicyAdopted,
    WriteRefused,
)
from ledger.domain.policy import Policy
from ledger.domain.text import fingerprint
from projections.rows import Rows, Table
from projections.subjects import EVERYTHING, Change, end, ended

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
# An event is out of force as long as it has a row here; an undo and a distrust of the same event are two.
OUT_OF_FORCE = Table(
    "out_of_force",
    ("position INTEGER NOT NULL", "from_position INTEGER NOT NULL", "act TEXT NOT NULL"),
    ("position", "from_position"),
    (("act", ""),),
    rowid=False,
)
WAS_OUT_OF_FORCE = ended(OUT_OF_FORCE, "was_out_of_force")
BULKS = Table("bulks", ("act TEXT PRIMARY KEY", "position INTEGER NOT NULL"), ("act",), rowid=False)
POLICIES = Table(
    "policies",
    ("user TEXT NOT NULL", "from_position INTEGER NOT NULL", "parameters TEXT NOT NULL", "undone_at INTEGER"),
    ("user", "from_position"),
    rowid=False,
)
DEPENDENTS = Table(
    "dependents",
    ("source TEXT NOT NULL", "memory INTEGER NOT NULL", "from_position INTEGER NOT NULL"),
    ("source", "memory"),
    rowid=False,
)
WAS_DEPENDENT = ended(DEPENDENTS, "were_dependents")


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


class Keys:
    name, version, follows = "keys", 2, EVERYTHING
    tables = (KEYS,)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        if event.key is not None:
            data, envelope = event.data, event.envelope
            answered = isinstance(data, CommandAnswered)
            subject, seen = (data.subject, data.seen) if answered else (event.stream, event.position)
            told = (envelope.command, envelope.command_id, envelope.arguments, subject, seen, None)
            rows.put(KEYS, (event.key,), (event.key, event.position, *told))
        if isinstance(event.data, WAYS_BACK):
            for row in rows.within(KEYS, "position", event.data.ranges):
                rows.put(KEYS, row[:1], (*row[:-1], since(rows, row[1])))


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
    """Which events are out of force and by which act, bulk acts under way, and the policies people adopted."""

    name, version = "force", 2
    follows = frozenset(each.__name__ for each in (*WAYS_BACK, BulkStarted, BulkFinished, PolicyAdopted))
    tables = (OUT_OF_FORCE, WAS_OUT_OF_FORCE, BULKS, POLICIES)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        data = event.data
        if isinstance(data, TAKEN_OUT):
            act = act_of(event, rows)
            for position in positions(data.ranges):
                rows.put(OUT_OF_FORCE, (position, event.position), (position, event.position, act))
            self._policies(rows, data.ranges)
        elif isinstance(data, PUT_BACK):
            act = data.undone if isinstance(data, CommandRedone) else data.distrusted
            for row in rows.within(OUT_OF_FORCE, "position", data.ranges):
                if row[2] == act:
                    end(rows, OUT_OF_FORCE, WAS_OUT_OF_FORCE, row, event.position)
            self._policies(rows, data.ranges)
        elif isinstance(data, BulkStarted):
            rows.put(BULKS, (event.envelope.command_id,), (event.envelope.command_id, event.position))
        elif isinstance(data, BulkFinished):
            rows.remove(BULKS, (data.started,))
        elif isinstance(data, PolicyAdopted) and event.envelope.user is not None:
            key = (event.envelope.user, event.position)
            rows.put(POLICIES, key, (*key, msgspec.json.encode(data.parameters).decode(), None))

    def _policies(self, rows: Rows, ranges: Sequence[tuple[int, int]]) -> None:
        for row in rows.within(POLICIES, "from_position", ranges):
            rows.put(POLICIES, row[:2], (*row[:3], since(rows, row[1])))


def act_of(event: AnyEvent, rows: Rows) -> str:
    """The command that an event belongs to; of a bulk act's part, the command that began the act."""
    began = event.envelope.correlation_id
    return began if began and rows.get(BULKS, (began,)) is not None else event.envelope.command_id


def since(rows: Rows, position: int) -> int | None:
    """Since when an event is out of force; None when it is in force."""
    out = rows.find(OUT_OF_FORCE, ("position",), (position,))
    return min((row[1] for row in out), default=None)


class Sources:
    """From a source (an interaction, a chunk, a memory) to the memories that cite it."""

    name, version, follows = "sources", 2, frozenset("m")
    tables = (DEPENDENTS, WAS_DEPENDENT)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for change in changes:
            if (change.old is None and change.new is not None and change.new.sources) or change.refold:
                before = set(change.old.sources) if change.old is not None else set()
                after = set(change.new.sources) if change.new is not None else set()
                for source in sorted(before - after):
                    row = rows.get(DEPENDENTS, (source, change.first))
                    if row is not None:
                        end(rows, DEPENDENTS, WAS_DEPENDENT, row, change.event.position)
                for source in sorted(after - before):
                    key = (source, change.first)
                    rows.put(DEPENDENTS, key, (*key, change.event.position))


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
    """Positions out of force between two positions, and the act that first took each out."""
    sql = "SELECT position, act FROM out_of_force WHERE position BETWEEN ? AND ? ORDER BY from_position DESC"
    return dict(connection.execute(sql, (first, last)).fetchall())


def taken_out_by(connection: sqlite3.Connection, act: str) -> list[int]:
    """The positions that an undo or a distrust keeps out of force."""
    sql = "SELECT DISTINCT position FROM out_of_force WHERE act = ? ORDER BY position"
    return [position for (position,) in connection.execute(sql, (act,))]


def acts(connection: sqlite3.Connection, position: int) -> list[str]:
    """The undos and distrusts that keep an event out of force."""
    sql = "SELECT act FROM out_of_force WHERE position = ? ORDER BY from_position"
    return [act for (act,) in connection.execute(sql, (position,))]


def bulks(connection: sqlite3.Connection) -> list[tuple[str, int]]:
    """(command id, position) of the acts that began and have not finished."""
    return [(act, position) for act, position in connection.execute("SELECT * FROM bulks ORDER BY position")]


def policy(connection: sqlite3.Connection, user: str) -> Policy:
    """The policy in force for a user; the default one until another is adopted."""
    sql = "SELECT parameters FROM policies WHERE user = ? AND undone_at IS NULL ORDER BY from_position DESC LIMIT 1"
    row = connection.execute(sql, (user,)).fetchone()
    return msgspec.json.decode(row[0], type=Policy) if row else Policy()


def dependents(connection: sqlite3.Connection, source: str) -> list[int]:
    sql = "SELECT memory FROM dependents WHERE source = ? ORDER BY memory"
    return [memory for (memory,) in connection.execute(sql, (source,))]
