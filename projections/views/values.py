"""Keyed values: keys, statuses and times. The contents stay in the log.

Two active values have one key only after a distrust made the move or the removal of one of them void. Then the value that was
put last is the one under the key, and the other is not shown until it is moved.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from ledger.events import AnyEvent
from ledger.values import rules
from ledger.values.rules import ACTIVE, ERASED, EXPIRED, REMOVED, ValueState, after_all_below, labels_of
from projections.core.rows import Conditions, ProjectionRows, by_status, rows_among
from projections.core.subjects import SubjectChange, family, keep
from projections.views import erasures

_KEY = "user, place, name"
_FAMILY = family(
    "v",
    ValueState,
    rules.evolve,
    rules.admits,
    ("keyed_values", "keyed_value_versions"),
    indexes=((_KEY, ""), ("expires_at", "expires_at IS NOT NULL")),
    among=(("status", rules.STATUSES),),
)
FAMILY = replace(_FAMILY, closed=replace(_FAMILY.closed, indexes=(*_FAMILY.closed.indexes, (_KEY, ""))))
from_row, get = FAMILY.from_row, FAMILY.get


class ValuesProjection:
    name, version, follows, reads = "values", 2, frozenset("v"), ()
    tables = (FAMILY.live, FAMILY.closed)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            keep(change, rows, FAMILY)


# --- reads -----------------------------------------------------------------------------------------------------------


def alive(alias: str) -> str:
    """Return the SQL of a value that is returned at a time, which it binds once."""
    return f"{alias}.status = '{ACTIVE}' AND ({alias}.expires_at IS NULL OR {alias}.expires_at > ?)"


HIDDEN = (  # by a value that was put later under the same key; binds the time
    "EXISTS (SELECT 1 FROM keyed_values o WHERE o.user = k.user AND o.place = k.place AND o.name = k.name"
    f" AND o.row <> k.row AND o.content_at > k.content_at AND {alive('o')})"
)


def under(connection: sqlite3.Connection, user: str, place: str, name: str, now: str) -> ValueState | None:
    """Return the value of a user under a key: the one that is returned now, or else the one that was put last."""
    sql = (
        f"SELECT k.* FROM keyed_values k WHERE k.user = ? AND k.place = ? AND k.name = ? AND k.status <> '{ERASED}'"
        f" ORDER BY {alive('k')} DESC, k.content_at DESC LIMIT 1"
    )
    row = connection.execute(sql, (user, place, name, now)).fetchone()
    return from_row(row) if row is not None else None


def other_under(connection: sqlite3.Connection, user: str, place: str, name: str, besides: str) -> str | None:
    """Return the id of the value that was put last under a key, apart from one value; None if there is no other."""
    sql = (
        f"SELECT id FROM keyed_values WHERE user = ? AND place = ? AND name = ? AND id <> ? AND status <> '{ERASED}'"
        " ORDER BY content_at DESC LIMIT 1"
    )
    row = connection.execute(sql, (user, place, name, besides)).fetchone()
    return None if row is None else str(row[0])


def active_under(
    connection: sqlite3.Connection, user: str | None, place: str | None, name: str | None, besides: Collection[str]
) -> str | None:
    """Return the id of an active value under a key that is none of ``besides``, whether it has expired or not."""
    sql = f"SELECT id FROM keyed_values WHERE user = ? AND place = ? AND name = ? AND status = '{ACTIVE}'"
    ids = (id for (id,) in connection.execute(sql, (user, place, name)))
    return next((id for id in ids if id not in besides), None)


def last_change(connection: sqlite3.Connection, user: str, place: str, name: str) -> int:
    """Return the position at which a key got, changed or lost a value for the last time; 0 if it never had one."""
    parts = (
        f"SELECT max({column}) AS at FROM {table.name} WHERE user = ? AND place = ? AND name = ?"
        for column, table in (("from_position", FAMILY.live), ("to_position", FAMILY.closed))
    )
    sql = f"SELECT coalesce(max(at), 0) FROM ({' UNION ALL '.join(parts)})"
    return int(connection.execute(sql, (user, place, name) * 2).fetchone()[0])


def erased_after(connection: sqlite3.Connection, user: str, position: int) -> int:
    """Return the position of the last erasure of a user's value after a position; 0 if there is none."""
    if erasures.last(connection) <= position:
        return 0
    sql = (
        "SELECT coalesce(max(e.erased_by), 0) FROM keyed_values k JOIN main.events e ON e.stream = k.id"
        f" WHERE k.user = ? AND k.status = '{ERASED}' AND e.erased_by > ?"
    )
    return int(connection.execute(sql, (user, position)).fetchone()[0])


def listing(
    connection: sqlite3.Connection,
    *,
    user: str,
    now: str,
    place: str = "",
    statuses: Collection[str] = (ACTIVE,),
    after: tuple[str, str, str] | None = None,
    limit: int,
) -> list[ValueState]:
    """Return the values of a user at a place or below it, in the order of their keys.

    Args:
        connection: The connection.
        user: The user.
        now: The time at which expiry is judged.
        place: The namespace, in the form of ``rules.place_of``.
        statuses: "active", "expired" and "removed".
        after: The place, the name and the id of the last value of the page before.
        limit: The most values.
    """
    where = Conditions("k.user = ?", user)
    where.add("k.place >= ? AND k.place < ?", place, after_all_below(place))
    if after is not None:
        where.add("(k.place, k.name, k.id) > (?, ?, ?)", *after)
        where.add("k.place >= ?", after[0])  # by which SQLite finds the beginning in the index
    some, values = list[str](), list[object]()
    for status, sql, bound in (
        (ACTIVE, f"{alive('k')} AND NOT {HIDDEN}", (now, now)),
        (EXPIRED, f"k.status = '{ACTIVE}' AND k.expires_at <= ?", (now,)),
        (REMOVED, f"k.status = '{REMOVED}'", ()),
    ):
        if status in statuses:
            some.append(f"({sql})")
            values += bound
    where.add(f"({' OR '.join(some)})", *values)
    sql = f"SELECT k.* FROM keyed_values k WHERE {where} ORDER BY k.place, k.name, k.id LIMIT ?"
    return [from_row(row) for row in connection.execute(sql, (*where.values, limit))]


def places(
    connection: sqlite3.Connection,
    user: str,
    now: str,
    *,
    place: str = "",
    depth: int | None = None,
    after: str | None = None,
) -> Iterator[str]:
    """Yield the places of a user's active values at a place or below it, in order behind ``after``, cut to ``depth`` labels.

    Each is found by the index alone, so that a namespace costs the same whatever number of values it has.
    """
    end = after_all_below(place)
    sql = (
        f"SELECT k.place FROM keyed_values k WHERE k.user = ? AND k.place >= ? AND k.place < ? AND {alive('k')}"
        " ORDER BY k.place LIMIT 1"
    )
    start = place if after is None else _behind(after, depth)
    while (row := connection.execute(sql, (user, start, end, now)).fetchone()) is not None:
        cut = row[0] if depth is None else rules.place_of(labels_of(row[0])[:depth])
        yield cut
        start = _behind(cut, depth)


def _behind(place: str, depth: int | None) -> str:
    """Return the beginning of the places behind a place: those below it, or behind these at the greatest depth."""
    is_deepest = depth is not None and len(labels_of(place)) >= depth
    return after_all_below(place) if is_deepest else place + " "  # a space comes before every quotation mark


def counts(connection: sqlite3.Connection, user: str) -> dict[str, int]:
    """Return the number of values of a user by status."""
    sql = "SELECT status, count(*) FROM keyed_values WHERE user = ? GROUP BY status ORDER BY status"
    return by_status(FAMILY.live, connection.execute(sql, (user,)))


def by_row(connection: sqlite3.Connection, rows: Iterable[int]) -> dict[int, ValueState]:
    """Return values by their rows."""
    sql = "SELECT * FROM keyed_values WHERE row IN {}"
    return {row[0]: from_row(row) for row in rows_among(connection, sql, list(rows))}


def expired(connection: sqlite3.Connection, as_of: str) -> list[ValueState]:
    """Return the active values of every user that have expired by a time."""
    sql = f"SELECT * FROM keyed_values WHERE expires_at <= ? AND status = '{ACTIVE}' ORDER BY expires_at, row"
    return [from_row(row) for row in connection.execute(sql, (as_of,))]
