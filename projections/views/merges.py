"""The merges that were proposed, made and rejected, and the memories that each merge is about."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from ledger.events import AnyEvent
from ledger.review import rules
from ledger.review.rules import MergeState
from projections.core.rows import NEWEST, AsOf, ProjectionRows, Start, Table
from projections.core.subjects import SubjectChange, ended, family, first_rows, keep, replace_rows

FAMILY = family(
    "g",
    MergeState,
    rules.evolve,
    rules.admits_merge,
    ("merges", "merge_versions"),
    indexes=(("user, status, row", ""), ("memory", "memory IS NOT NULL")),
    among=(("status", rules.MERGE_STATUSES),),
    always=("memories",),
)
MERGES, VERSIONS = FAMILY.live, FAMILY.closed
from_row = FAMILY.from_row


class Members:
    """The tables of the memories that the subjects of one kind are or were about."""

    def __init__(self, kind: str) -> None:
        self.live = Table(
            f"{kind}_members",
            ("memory TEXT NOT NULL", f"{kind} INTEGER NOT NULL", "from_position INTEGER NOT NULL"),
            ("memory", kind),
            rowid=False,
            grouped=("memory",),
            then=AsOf("from_position", closed=f"{kind}_members_before"),
        )
        self.closed = replace(ended(self.live, f"{kind}_members_before"), indexes=((f"memory, {kind}", ""),))
        self._ever = " UNION ".join(
            f"SELECT {kind} FROM {table.name} WHERE memory = ?" for table in (self.live, self.closed)
        )

    def renew(self, change: SubjectChange, rows: ProjectionRows, before: Sequence[str], after: Sequence[str]) -> None:
        """End the rows of memories that left a subject, and put rows for memories that joined it."""
        sets = ({(memory, change.first): () for memory in memories} for memories in (before, after))
        replace_rows(change, rows, (self.live, self.closed), *sets)

    def about(self, rows: ProjectionRows, memory: str) -> list[int]:
        """Return the rows of the subjects that a memory is a member of; called under the writer's lock."""
        return [row[1] for row in rows.find(self.live, ("memory",), (memory,))]

    def ever_about(self, connection: sqlite3.Connection, memory: str) -> list[int]:
        """Return the rows of the subjects that a memory is or was a member of, void ones included."""
        return [row for (row,) in connection.execute(f"{self._ever} ORDER BY 1", (memory, memory))]


MEMBERS = Members("merge")
about, ever_about = MEMBERS.about, MEMBERS.ever_about


class MergesProjection:
    name, version, follows, reads = "merges", 1, frozenset("g"), ()
    tables = (MERGES, VERSIONS, MEMBERS.live, MEMBERS.closed)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            keep(change, rows, FAMILY)
            before = () if change.old is None else change.old.memories
            after = () if change.new is None else change.new.memories
            MEMBERS.renew(change, rows, before, after)


# --- reads -----------------------------------------------------------------------------------------------------------


def listing(
    connection: sqlite3.Connection,
    user: str,
    statuses: Sequence[str] = rules.MERGE_STATUSES,
    start: Start = NEWEST,
    limit: int = -1,
) -> list[MergeState]:
    """Return the merges of a user with these statuses, from ``start`` on."""
    return [from_row(row) for row in first_rows(connection, "merges", ("user", user), statuses, start, limit)]


def undone(connection: sqlite3.Connection, user: str) -> list[MergeState]:
    """Return the user's proposals that were undone, as they were proposed.

    Proposals that a distrust made void are left out: a distrust rejects the proposer and not the merge.
    """
    sql = (
        "SELECT v.* FROM merge_versions v CROSS JOIN voided d ON d.position = v.from_position"
        " WHERE v.user = ? AND v.status = 'proposed' AND d.type = 'CommandUndone'"
    )
    return [from_row(row[:-1]) for row in connection.execute(sql, (user,))]


def naming(connection: sqlite3.Connection, memories: Iterable[str]) -> list[MergeState]:
    """Return the merges with one of these memories as a member or as the result."""
    merges: dict[int, MergeState] = {}
    sql = (
        "SELECT g.* FROM merges g WHERE g.row IN (SELECT merge FROM merge_members WHERE memory = ?)"
        " UNION SELECT g.* FROM merges g WHERE g.memory = ?"
    )
    for memory in memories:
        for row in connection.execute(sql, (memory, memory)):
            merges[row[0]] = from_row(row)
    return [merges[row] for row in sorted(merges)]
