"""Conflicts between memories: the rows, their members, and their present status."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import combinations

from ledger.english import slots
from ledger.english.slots import Filled, Statement
from ledger.events import AnyEvent
from ledger.memories.state import MemoryState
from ledger.review import rules
from ledger.review.rules import ACCEPT, LAPSED, OPEN, RESOLVED, ConflictState
from projections.core.rows import NEWEST, ProjectionRows, Start
from projections.core.subjects import SubjectChange, family, keep
from projections.views import memories
from projections.views.merges import Members
from projections.views.projects import main

FAMILY = family(
    "k",
    ConflictState,
    rules.evolve,
    rules.admits_conflict,
    ("conflicts", "conflict_versions"),
    indexes=(("user, row", ""),),
    among=(("action", rules.CONFLICT_ACTIONS),),
    always=("members", "values"),
)
CONFLICTS, VERSIONS = FAMILY.live, FAMILY.closed
from_row = FAMILY.from_row
MEMBERS = Members("conflict")
about, ever_about = MEMBERS.about, MEMBERS.ever_about


class ConflictsProjection:
    name, version, follows, reads = "conflicts", 2, frozenset("k"), ()
    tables = (CONFLICTS, VERSIONS, MEMBERS.live, MEMBERS.closed)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            keep(change, rows, FAMILY)
            before = () if change.old is None else change.old.members
            after = () if change.new is None else change.new.members
            MEMBERS.renew(change, rows, before, after)


# --- the present status of a conflict --------------------------------------------------------------------------------


def clash(left: tuple[Statement, Filled], right: tuple[Statement, Filled]) -> bool:
    """Return True if two memories fill one slot, at one time, with values that likely cannot both be so."""
    differ = left[1].rule == right[1].rule and slots.exclusive(left[1].rule, left[1].value, right[1].value)
    return differ and slots.overlap(slots.during(*left), slots.during(*right))


def clashes(connection: sqlite3.Connection, one: MemoryState, other: MemoryState, found: ConflictState) -> bool:
    """Return True if two members of one project still say, at one time, what they said when the conflict was found.

    The rule of the conflict may be gone by now. If the values were erased, the members are compared anew in all their slots.
    """
    if one.project != other.project and main(connection, one.project) != main(connection, other.project):
        return False
    values = dict(zip(found.members, found.values, strict=False))
    if one.id in values and other.id in values:
        ours, theirs = (slots.still_stated(each, found.slot, values[each.id]) for each in (one, other))
        if ours is None or theirs is None or not slots.exclusive(found.rule, ours.value, theirs.value):
            return False
        return slots.overlap(slots.during(one, ours), slots.during(other, theirs))
    both = ({each.slot: each for each in slots.filled(memory)} for memory in (one, other))
    ours_by_slot, theirs_by_slot = both
    shared = ours_by_slot.keys() & theirs_by_slot.keys()
    return any(clash((one, ours_by_slot[slot]), (other, theirs_by_slot[slot])) for slot in shared)


def status_of(
    connection: sqlite3.Connection, found: ConflictState, resolved: Sequence[ConflictState] = ()
) -> tuple[str, list[MemoryState]]:
    """Return (status, members) of a conflict now.

    The status is "open" while two active members clash and nobody accepted both. Otherwise it is "resolved" if somebody
    decided, and "lapsed" if the conflict ended by itself. ``resolved`` are other conflicts of the members that were accepted.
    """
    members = [state for id in found.members if (state := member(connection, id)) is not None]
    if found.action == ACCEPT:
        return RESOLVED, members
    active = [state for state in members if state.status == "active" and not state.quarantined]
    decided = [
        set(accepted.members) for accepted in resolved if accepted.action == ACCEPT and accepted.slot == found.slot
    ]
    live = any(
        clashes(connection, left, right, found) and not any({left.id, right.id} <= pair for pair in decided)
        for left, right in combinations(active, 2)
    )
    return (OPEN if live else RESOLVED if found.action else LAPSED), members


def member(connection: sqlite3.Connection, id: str) -> MemoryState | None:
    sql = "SELECT m.* FROM events e CROSS JOIN memories m ON m.row = e.position WHERE e.stream = ? AND e.version = 1"
    row = connection.execute(sql, (id,)).fetchone()
    return memories.from_row(row) if row is not None else None


def open_among(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the ids of the open conflicts of each memory that is in any."""
    conflict_ids: dict[str, list[str]] = {}
    memory_ids = list(dict.fromkeys(ids))
    if not memory_ids or connection.execute("SELECT 1 FROM conflicts LIMIT 1").fetchone() is None:
        return {}
    for dispute in naming(connection, memory_ids):
        status, members = status_of(connection, dispute, naming(connection, dispute.members))
        if status == OPEN:
            for state in members:
                if state.status == "active":
                    conflict_ids.setdefault(state.id, []).append(dispute.id)
    return {id: tuple(conflict_ids[id]) for id in memory_ids if id in conflict_ids}


# --- reads -----------------------------------------------------------------------------------------------------------


def listing(connection: sqlite3.Connection, user: str, start: Start = NEWEST, limit: int = -1) -> list[ConflictState]:
    """Return the conflicts of a user with any status, from ``start`` on."""
    sql = f"SELECT * FROM conflicts WHERE user = ? AND row {start.behind} ? ORDER BY row {start.order} LIMIT ?"
    return [from_row(row) for row in connection.execute(sql, (user, start.bound, limit))]


def undone(connection: sqlite3.Connection, user: str) -> list[ConflictState]:
    """Return the conflicts of a user as they were found, if somebody undid the find. A distrust concerns only the finder."""
    sql = (
        "SELECT v.* FROM conflict_versions v CROSS JOIN voided d ON d.position = v.from_position"
        " WHERE v.user = ? AND d.type = 'CommandUndone'"
    )
    return [from_row(row[:-1]) for row in connection.execute(sql, (user,))]


def naming(connection: sqlite3.Connection, memories: Iterable[str]) -> list[ConflictState]:
    """Return the conflicts that one of these memories is a member of."""
    by_row: dict[int, ConflictState] = {}
    sql = "SELECT k.* FROM conflict_members n CROSS JOIN conflicts k ON k.row = n.conflict WHERE n.memory = ?"
    for memory_id in memories:
        for row in connection.execute(sql, (memory_id,)):
            by_row[row[0]] = from_row(row)
    return [by_row[row] for row in sorted(by_row)]
