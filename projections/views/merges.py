"""Merges that were proposed, made and rejected, and which memories each of them is about."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from ledger.domain import merge
from ledger.domain.events import AnyEvent
from ledger.domain.merge import Merge
from projections.core.rows import AsOf, Rows, Table
from projections.core.subjects import Change, end, ended, family, keep, newest

FAMILY = family(
    "g",
    Merge,
    merge.evolve,
    merge.admits,
    ("merges", "merge_versions"),
    indexes=(("user, status, row", ""), ("memory", "memory IS NOT NULL")),
    among=(("status", merge.STATUSES),),
    always=("memories",),
)
MERGES, VERSIONS = FAMILY.live, FAMILY.closed
from_row = FAMILY.from_row
MEMBERS = Table(
    "merge_members",
    ("memory TEXT NOT NULL", "merge INTEGER NOT NULL", "from_position INTEGER NOT NULL"),
    ("memory", "merge"),
    rowid=False,
    grouped=1,
    then=AsOf("from_position", closed="merge_members_before"),
)
MEMBERS_BEFORE = replace(ended(MEMBERS, "merge_members_before"), indexes=(("memory, merge", ""),))


class Merges:
    name, version, follows = "merges", 1, frozenset("g")
    tables = (MERGES, VERSIONS, MEMBERS, MEMBERS_BEFORE)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for change in changes:
            keep(change, rows, FAMILY)
            before = () if change.old is None else change.old.memories
            after = () if change.new is None else change.new.memories
            if before != after:
                renew(change, rows, (MEMBERS, MEMBERS_BEFORE), before, after)


def renew(change: Change, rows: Rows, tables: tuple[Table, Table], before: Sequence[str], after: Sequence[str]) -> None:
    """Which memories a subject is about: the rows of those that left it are ended, and those that came begin."""
    live, closed = tables
    for each in before:
        if each not in after and (row := rows.get(live, (each, change.first))) is not None:
            end(rows, live, closed, row, change.event.position)
    for each in after:
        if each not in before:
            rows.put(live, (each, change.first), (each, change.first, change.event.position))


# --- for decisions ---------------------------------------------------------------------------------------------------


def about(rows: Rows, memory: str) -> list[int]:
    """The rows of the merges that a memory is a member of."""
    return [row[1] for row in rows.find(MEMBERS, ("memory",), (memory,))]


# --- reads -----------------------------------------------------------------------------------------------------------


def listing(
    connection: sqlite3.Connection,
    user: str,
    statuses: Sequence[str] = merge.STATUSES,
    before: int | None = None,
    limit: int = -1,
) -> list[Merge]:
    """The merges of a user in these statuses, newest first."""
    return [from_row(row) for row in newest(connection, "merges", ("user", user), statuses, before, limit)]


def undone(connection: sqlite3.Connection, user: str) -> list[Merge]:
    """The proposals of a user as they were made, where somebody undid that; a distrust is about who made them."""
    sql = (
        "SELECT v.* FROM merge_versions v CROSS JOIN voided d ON d.position = v.from_position"
        " WHERE v.user = ? AND v.status = 'proposed' AND d.type = 'CommandUndone'"
    )
    return [from_row(row[:-1]) for row in connection.execute(sql, (user,))]


def naming(connection: sqlite3.Connection, memories: Iterable[str]) -> list[Merge]:
    """The merges that one of these memories is a member of, or is what they became."""
    found: dict[int, Merge] = {}
    sql = (
        "SELECT g.* FROM merges g WHERE g.row IN (SELECT merge FROM merge_members WHERE memory = ?)"
        " UNION SELECT g.* FROM merges g WHERE g.memory = ?"
    )
    for each in memories:
        for row in connection.execute(sql, (each, each)):
            found[row[0]] = from_row(row)
    return [found[row] for row in sorted(found)]


def ever_about(connection: sqlite3.Connection, memory: str) -> list[int]:
    """The rows of the merges that a memory is or was a member of, void ones too."""
    sql = (
        "SELECT merge FROM merge_members WHERE memory = ?"
        " UNION SELECT merge FROM merge_members_before WHERE memory = ? ORDER BY 1"
    )
    return [row for (row,) in connection.execute(sql, (memory, memory))]
