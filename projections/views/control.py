"""The control of the ledger itself: keys of commands, refusals, void events, distrust, policies, citations."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import get_args

import msgspec
from msgspec import Struct

from ledger.domain.policy import PolicyState, Value, policy_of
from ledger.domain.spans import joined
from ledger.events import (
    PUT_BACK,
    VOIDING,
    WAYS_BACK,
    AnyEvent,
    CommandAnswered,
    OriginDistrusted,
    PolicyAdopted,
    WriteRefused,
    ids_in,
)
from ledger.types import OriginKind
from projections.core.rows import (
    CURRENT,
    NEWEST,
    AsOf,
    ProjectionRows,
    Start,
    Table,
    Values,
    checked,
    codec,
    columns,
    reader,
)
from projections.core.subjects import (
    EVERYTHING,
    VOIDED,
    WERE_VOIDED,
    SubjectChange,
    end,
    ended,
    mark_void,
    replace_rows,
    standing,
)

KEYS = Table(
    "keys",
    (
        "key BLOB NOT NULL",
        "position INTEGER NOT NULL",
        "command TEXT NOT NULL",
        "command_id TEXT NOT NULL",
        "arguments TEXT",
        "subject TEXT NOT NULL",
        "seen INTEGER NOT NULL",
        "released_at INTEGER",
    ),
    ("key", "position"),  # a key that is used again after an undo has one row for each use
    (("position", ""), ("arguments", "command = 'capture'")),
    rowid=False,
    grouped=("key",),
    then=CURRENT,
)


class RefusalRow(Struct, frozen=True):
    """A write that a rule refused, with the columns of its row."""

    position: int
    user: str | None
    rule: str
    command: str
    subject: str | None
    actor: str | None
    recorded_at: str
    limit: int | None
    current: int | None
    requested: int | None
    finding: str
    scanner: str


_refusal = reader(RefusalRow, "refusals")


REFUSALS = Table(
    "refusals",
    columns(RefusalRow),
    ("position",),
    (),
    then=AsOf("position"),
)


class DistrustedSource(Struct, frozen=True):
    """A distrusted source of events; ``act`` is the command, ``since`` and ``until`` bound the distrusted positions."""

    act: str
    from_position: int
    user: str | None
    kind: str
    source: str | None
    since: int
    until: int | None
    recorded_at: str
    reason: str | None


DISTRUSTED = Table(
    "distrusted",
    columns(DistrustedSource, rowid=False),
    ("act",),
    rowid=False,
    then=AsOf("from_position", closed="no_longer_distrusted"),
    among=(("kind", get_args(OriginKind)),),
)
_, _distrusted = codec(DistrustedSource, DISTRUSTED)
NO_LONGER_DISTRUSTED = ended(DISTRUSTED, "no_longer_distrusted")
POLICIES = Table(
    "policies",
    ("user TEXT NOT NULL", "from_position INTEGER NOT NULL", "parameters TEXT NOT NULL", "undone_at INTEGER"),
    ("user", "from_position"),
    rowid=False,
    then=AsOf("from_position", undone="undone_at"),
)
DEPENDENTS = Table(
    "dependents",
    ("source TEXT NOT NULL", "memory INTEGER NOT NULL", "from_position INTEGER NOT NULL"),
    ("source", "memory"),
    (("memory", ""),),
    rowid=False,
    grouped=("memory",),
    ahead=True,
    then=AsOf("from_position", closed="were_dependents"),
)
WAS_DEPENDENT = ended(DEPENDENTS, "were_dependents")


class KeyAnswer(Struct, frozen=True):
    """The use of an idempotency key: the command, a digest of its arguments, and the subject of its answer."""

    key: bytes
    position: int
    command: str
    command_id: str
    arguments: str | None
    subject: str
    seen: int
    released_at: int | None


_answer = reader(KeyAnswer, "keys")


def positions(ranges: Iterable[tuple[int, int]]) -> Iterable[int]:
    return (position for first, last in ranges for position in range(first, last + 1))


def ranges(positions: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return positions as inclusive ranges, in order."""
    return joined((position, position) for position in positions)


class Keys:
    name, version, follows, reads = "keys", 4, EVERYTHING, ("in_effect",)
    tables = (KEYS,)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        if event.key is not None:
            data, envelope = event.data, event.envelope
            answered = isinstance(data, CommandAnswered)
            subject, seen = (data.subject, data.seen) if answered else (event.stream, event.position)
            values = (envelope.command, envelope.command_id, envelope.arguments, subject, seen, None)
            rows.put(KEYS, (event.key, event.position), (event.key, event.position, *values))
        if isinstance(event.data, WAYS_BACK):
            mark_void(rows, KEYS, event.data.ranges)


class RefusalsProjection:
    name, version, follows, reads = "refusals", 3, frozenset({WriteRefused.__name__}), ()
    tables = (REFUSALS,)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        if not isinstance(event.data, WriteRefused):
            return
        data, envelope = event.data, event.envelope
        values = (envelope.user, data.rule, envelope.command, data.subject, envelope.actor, envelope.recorded_at)
        numbers = (data.limit, data.current, data.requested)
        scan = (data.finding, data.scanner)
        rows.put(REFUSALS, (event.position,), (event.position, *values, *numbers, *scan))


class InEffect:
    """The void events with the acts that made them void, the distrusted sources, and the adopted policies.

    The rows say what the acts did, so they belong to no subject that an act folds again.
    """

    name, version, reads = "in_effect", 7, ()
    follows = frozenset(kind.__name__ for kind in (*WAYS_BACK, PolicyAdopted))
    tables = (VOIDED, WERE_VOIDED, DISTRUSTED, NO_LONGER_DISTRUSTED, POLICIES)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        data = event.data
        if isinstance(data, VOIDING):
            act = event.envelope.command_id
            for position in positions(data.ranges):
                rows.put(VOIDED, (position, event.position), (position, event.position, act, event.type))
            mark_void(rows, POLICIES, data.ranges)
            if isinstance(data, OriginDistrusted) and rows.get(DISTRUSTED, (act,)) is None:
                envelope = event.envelope
                about = (envelope.user, data.kind, data.origin, data.since, data.until)
                row = (act, event.position, *about, envelope.recorded_at, data.reason)
                rows.put(DISTRUSTED, (act,), row)
        elif isinstance(data, PUT_BACK):
            act = next(ids_in(data, "ends"))
            if (distrust := rows.get(DISTRUSTED, (act,))) is not None:
                end(rows, DISTRUSTED, NO_LONGER_DISTRUSTED, distrust, event.position)
            for row in rows.within(VOIDED, "position", data.ranges):
                if row[2] == act:
                    end(rows, VOIDED, WERE_VOIDED, row, event.position)
            mark_void(rows, POLICIES, data.ranges)
        elif isinstance(data, PolicyAdopted) and event.envelope.user is not None:
            key = (event.envelope.user, event.position)
            rows.put(POLICIES, key, (*key, msgspec.json.encode(data.parameters).decode(), None))


def acts_on(rows: ProjectionRows, positions: Sequence[int]) -> dict[int, set[str]]:
    """Return the acts that keep each of these events void, by position."""
    voiding: dict[int, set[str]] = {}
    for row in rows.within(VOIDED, "position", [(position, position) for position in positions]):
        voiding.setdefault(row[0], set()).add(row[2])
    return voiding


def is_of_distrusted(rows: ProjectionRows, event: AnyEvent, acts: Iterable[str]) -> bool:
    """Return True if one of these acts distrusts the writer of an event."""
    rows_of = (rows.get(DISTRUSTED, (act,)) for act in acts)
    return any(wrote(_distrusted(row), event) for row in rows_of if row is not None)


def wrote(origin: DistrustedSource, event: AnyEvent) -> bool:
    """Return True if a distrusted source wrote an event within the distrusted positions."""
    within = origin.since <= event.position and (origin.until is None or event.position < origin.until)
    return within and origin.source is not None and getattr(event.envelope, origin.kind, None) == origin.source


class SourcesProjection:
    """The memories that cite each source (an interaction, chunk or memory), by a capture or an absorbed duplicate."""

    name, version, follows, reads = "sources", 2, frozenset("m"), ()
    tables = (DEPENDENTS, WAS_DEPENDENT)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            cited = {source for cause in change.events for source in getattr(cause.data, "sources", ())}
            if cited or change.refold:
                before = standing(rows, DEPENDENTS, "memory", change.first)
                after = {} if change.refold else before
                after = after | {(source, change.first): () for source in cited}
                replace_rows(change, rows, (DEPENDENTS, WAS_DEPENDENT), before, after)


# --- reads -----------------------------------------------------------------------------------------------------------


def answer(rows: ProjectionRows, key: bytes) -> KeyAnswer | None:
    """Return the use of a key by a command in effect, or None."""
    return next((_answer(row) for row in rows.find(KEYS, ("key",), (key,)) if row[-1] is None), None)


def uses_of(connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, list[KeyAnswer]]:
    """Return the uses of each of these keys, undone ones included."""
    uses = dict[bytes, list[KeyAnswer]]()
    for row in connection.execute(f"SELECT * FROM keys WHERE key IN ({', '.join('?' * len(keys))})", keys):
        uses.setdefault(row[0], []).append(_answer(row))
    return uses


def captures_of(connection: sqlite3.Connection, arguments: Sequence[str]) -> dict[str, int]:
    """Return the number of keyed captures in effect for each of these digests of their arguments."""
    sql = (
        f"SELECT arguments, count(*) FROM keys WHERE command = 'capture' AND arguments IN ({', '.join('?' * len(arguments))})"
        " AND released_at IS NULL GROUP BY arguments"
    )
    return dict(connection.execute(sql, arguments).fetchall())


def refusals(connection: sqlite3.Connection, user: str, limit: int, start: Start = NEWEST) -> list[RefusalRow]:
    """Return the refusals of a user, from ``start`` on."""
    sql = f"SELECT * FROM refusals WHERE user = ? AND position {start.behind} ? ORDER BY position {start.order} LIMIT ?"
    return [_refusal(row) for row in connection.execute(sql, (user, start.bound, limit))]


def voided(connection: sqlite3.Connection, first: int, last: int) -> dict[int, str]:
    """Return the void positions between two positions, each with the act that first made it void."""
    sql = "SELECT position, act FROM voided WHERE position BETWEEN ? AND ? ORDER BY from_position DESC"
    return dict(connection.execute(sql, (first, last)).fetchall())


def voided_by(connection: sqlite3.Connection, act: str) -> list[int]:
    """Return the positions that an undo or a distrust keeps void."""
    sql = "SELECT DISTINCT position FROM voided WHERE act = ? ORDER BY position"
    return [position for (position,) in connection.execute(sql, (act,))]


def acts(connection: sqlite3.Connection, position: int) -> dict[str, str]:
    """Return the undos and distrusts that keep an event void: the type of the event by the id of the command."""
    sql = "SELECT act, type FROM voided WHERE position = ? ORDER BY from_position"
    return dict(connection.execute(sql, (position,)).fetchall())


def distrusted(connection: sqlite3.Connection) -> list[DistrustedSource]:
    """Return every distrusted source of every user."""
    return [_distrusted(row) for row in connection.execute("SELECT * FROM distrusted ORDER BY from_position")]


def distrusted_of(
    connection: sqlite3.Connection, user: str, start: Start = NEWEST, limit: int = -1
) -> list[DistrustedSource]:
    """Return the distrusted sources of a user, from ``start`` on."""
    column = "from_position"
    sql = (
        f"SELECT * FROM distrusted WHERE user = ? AND {column} {start.behind} ? ORDER BY {column} {start.order} LIMIT ?"
    )
    rows = connection.execute(sql, (user, start.bound, limit))
    return [_distrusted(row) for row in rows]


def refused(connection: sqlite3.Connection) -> list[DistrustedSource]:
    """Return the distrusted sources that may not write, which are those whose distrust has no end."""
    return [origin for origin in distrusted(connection) if origin.until is None]


def policy(connection: sqlite3.Connection, user: str) -> PolicyState:
    """Return the policy in effect for a user: for each parameter the last adopted value, or the default."""
    return policy_of(explicit(connection, user))


def explicit(connection: sqlite3.Connection, user: str) -> dict[str, object]:
    """Return the parameters that were set for a user and are in effect, as their events hold them."""
    sql = "SELECT parameters FROM policies WHERE user = ? AND undone_at IS NULL ORDER BY from_position"
    parameters = dict[str, object]()
    for (adopted_parameters,) in connection.execute(sql, (user,)):
        parameters |= msgspec.json.decode(adopted_parameters, type=dict[str, Value])
    return parameters


def adopted(row: Values) -> PolicyState:
    """Return the policy that one row of ``POLICIES`` makes of the defaults."""
    return policy_of(msgspec.json.decode(row[POLICIES.names.index("parameters")], type=dict[str, Value]))


def wants(connection: sqlite3.Connection, user: str, what: str) -> bool:
    """Return True if the policy in effect switches a parameter on."""
    return bool(getattr(policy(connection, user), what))


def users_with(connection: sqlite3.Connection, what: str, value: object) -> list[str]:
    """Return the users whose policy in effect has this value for a parameter; the value must not be the default."""
    users = connection.execute("SELECT DISTINCT user FROM policies ORDER BY user").fetchall()
    return [user for (user,) in users if getattr(policy(connection, user), what) == value]


def voided_at(connection: sqlite3.Connection, position: int) -> list[int]:
    """Return the positions of the acts that keep an event void."""
    sql = "SELECT DISTINCT from_position FROM voided WHERE position = ? ORDER BY from_position"
    return [at for (at,) in connection.execute(sql, (position,))]


def dependents(connection: sqlite3.Connection, source: str) -> list[int]:
    """Return the rows of the memories that cite a source, or cited it before an undo."""
    parts = (f"SELECT memory FROM {table} WHERE source = ?" for table in ("dependents", "were_dependents"))
    rows = connection.execute(" UNION ".join(parts) + " ORDER BY 1", (source, source))
    return [memory for (memory,) in checked(DEPENDENTS, ("memory",), rows)]
