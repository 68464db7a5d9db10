"""Conflicts that were found, which memories each of them is about, and what somebody decided."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import combinations

from ledger.domain import conflict, slots
from ledger.domain.conflict import ACCEPT, LAPSED, OPEN, RESOLVED, Conflict
from ledger.domain.events import AnyEvent
from ledger.domain.memory import Memory
from ledger.domain.slots import Filled, Statement
from projections.core.rows import Rows
from projections.core.subjects import Change, family, keep
from projections.views import memories
from projections.views.merges import Members

FAMILY = family(
    "k",
    Conflict,
    conflict.evolve,
    conflict.admits,
    ("conflicts", "conflict_versions"),
    indexes=(("user, row", ""),),
    among=(("action", conflict.ACTIONS),),
    always=("members", "values"),
)
CONFLICTS, VERSIONS = FAMILY.live, FAMILY.closed
from_row = FAMILY.from_row
MEMBERS = Members("conflict")
about, ever_about = MEMBERS.about, MEMBERS.ever_about


class Conflicts:
    name, version, follows = "conflicts", 2, frozenset("k")
    tables = (CONFLICTS, VERSIONS, MEMBERS.live, MEMBERS.closed)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for change in changes:
            keep(change, rows, FAMILY)
            before = () if change.old is None else change.old.members
            after = () if change.new is None else change.new.members
            MEMBERS.renew(change, rows, before, after)


# --- whether it stands ------------------------------------------------------------------------------------------------


def clash(one: tuple[Statement, Filled], other: tuple[Statement, Filled]) -> bool:
    """Return True if two memories fill one slot with values that likely cannot both be so, at one time."""
    differ = one[1].rule == other[1].rule and slots.exclusive(one[1].rule, one[1].value, other[1].value)
    return differ and slots.overlap(slots.during(*one), slots.during(*other))


def clashes(one: Memory, other: Memory, found: Conflict) -> bool:
    """Return True if two members still say what they said when the conflict was found, at one time.

    That holds for conflicts of every rule, also of one that is gone. Where the values were erased, the members are compared
    again, in whatever slot they meet.
    """
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
    connection: sqlite3.Connection, found: Conflict, resolved: Sequence[Conflict] = ()
) -> tuple[str, list[Memory]]:
    """(status, members) of a conflict now: "open" while two active members clash, and nobody said that both can be so.

    Otherwise "resolved" where somebody decided, and "lapsed" where it ended by itself. ``resolved`` are other
    conflicts of theirs of which that was said.
    """
    members = [state for id in found.members if (state := member(connection, id)) is not None]
    if found.action == ACCEPT:
        return RESOLVED, members
    active = [each for each in members if each.status == "active" and not each.quarantined]
    decided = [set(each.members) for each in resolved if each.action == ACCEPT and each.slot == found.slot]
    live = any(
        clashes(one, other, found) and not any({one.id, other.id} <= pair for pair in decided)
        for one, other in combinations(active, 2)
    )
    return (OPEN if live else RESOLVED if found.action else LAPSED), members


def member(connection: sqlite3.Connection, id: str) -> Memory | None:
    sql = "SELECT m.* FROM events e CROSS JOIN memories m ON m.row = e.position WHERE e.stream = ? AND e.version = 1"
    row = connection.execute(sql, (id,)).fetchone()
    return memories.from_row(row) if row is not None else None


def open_among(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Of each of these memories that stands in an open conflict: the ids of those conflicts."""
    found: dict[str, list[str]] = {}
    wanted = list(dict.fromkeys(ids))
    if not wanted or connection.execute("SELECT 1 FROM conflicts LIMIT 1").fetchone() is None:
        return {}
    for each in naming(connection, wanted):
        status, members = status_of(connection, each, naming(connection, each.members))
        if status == OPEN:
            for state in members:
                if state.status == "active":
                    found.setdefault(state.id, []).append(each.id)
    return {id: tuple(found[id]) for id in wanted if id in found}


# --- reads -----------------------------------------------------------------------------------------------------------


def listing(connection: sqlite3.Connection, user: str, before: int | None = None, limit: int = -1) -> list[Conflict]:
    """The conflicts of a user, whatever became of them, newest first."""
    sql = "SELECT * FROM conflicts WHERE user = ? AND row < ? ORDER BY row DESC LIMIT ?"
    return [from_row(row) for row in connection.execute(sql, (user, 2**62 if before is None else before, limit))]


def undone(connection: sqlite3.Connection, user: str) -> list[Conflict]:
    """The conflicts of a user as they were found, where somebody undid that; a distrust is about who found them."""
    sql = (
        "SELECT v.* FROM conflict_versions v CROSS JOIN voided d ON d.position = v.from_position"
        " WHERE v.user = ? AND d.type = 'CommandUndone'"
    )
    return [from_row(row[:-1]) for row in connection.execute(sql, (user,))]


def naming(connection: sqlite3.Connection, memories: Iterable[str]) -> list[Conflict]:
    """The conflicts that one of these memories is a member of."""
    found: dict[int, Conflict] = {}
    sql = "SELECT k.* FROM conflict_members n CROSS JOIN conflicts k ON k.row = n.conflict WHERE n.memory = ?"
    for each in memories:
        for row in connection.execute(sql, (each,)):
            found[row[0]] = from_row(row)
    return [found[row] for row in sorted(found)]
