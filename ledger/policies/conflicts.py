"""Conflicts: active memories of one slot whose values likely cannot both be so, found on a snapshot, recorded once, resolved
by people.

Nothing is merged, picked or dropped here. A conflict is within one user and one project, or among what is of none: a
project's own word against the general one is no contradiction. Candidates and what is quarantined do not take part.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import combinations

import msgspec
from msgspec import Struct

from ledger.domain import conflict as domain
from ledger.domain import memory as memory_domain
from ledger.domain import slots
from ledger.domain.conflict import Conflict
from ledger.domain.events import ConflictFound
from ledger.domain.memory import Edge, Memory
from ledger.domain.slots import Filled
from ledger.engine.work import Work
from ledger.policies.merging import Scope
from projections.views import conflicts, memories, projects

ACTOR = "policy:conflicts"
TOGETHER = 100  # conflicts of one append
FILLERS = 8
"""A slot that more active memories than this fill holds several values at a time, and is left out (ours)."""

_edges = msgspec.json.Decoder(tuple[Edge, ...])


class Searched(Struct, frozen=True):
    """A memory as the search saw it, and what it puts into a slot."""

    row: int
    id: str
    project: str | None
    content: str
    edges: tuple[Edge, ...]
    valid_from: str
    valid_to: str | None


class Found(Struct, frozen=True):
    """Memories that fill a slot with values that cannot both be so, as a rule reads them: each with its value, oldest first."""

    rule: str
    slot: str
    project: str | None
    members: tuple[tuple[Searched, str], ...]


_Filling = tuple[Searched, Filled]
_Decided = set[tuple[str | None, str, frozenset[tuple[str, str]]]]  # (project, slot, two members with their values)


def search(
    connection: sqlite3.Connection, user: str, *, scope: Scope = None, after: int | None = None
) -> tuple[Found, ...]:
    """The conflicts of a user that are not recorded yet; with ``after`` only in slots of memories that changed since then."""
    main = cache(partial(projects.main, connection))
    wanted: set[tuple[str | None, str]] | None = None
    if after is not None:
        changed = set(memories.changed(connection, user, after))
        changed_ones = (each for each in _active(connection, user, scope) if each.row in changed) if changed else ()
        wanted = {(main(each.project), filled.slot) for each in changed_ones for filled in slots.filled(each)}
        if not wanted:
            return ()
    if wanted is None:
        wanted = _filled_twice((main(each.project), each) for each in _active(connection, user, scope))
    filled: dict[tuple[str | None, str], list[_Filling]] = {}
    for each in _active(connection, user, scope):
        for one in slots.filled(each):
            if (main(each.project), one.slot) in wanted:
                filled.setdefault((main(each.project), one.slot), []).append((each, one))
    known = {(main(project), slot, pair) for project, slot, pair in _recorded(connection, user)}
    several = {place: fillings for place, fillings in filled.items() if 1 < len(fillings) <= FILLERS}
    by_edges = {
        frozenset((one.row, other.row))
        for fillings in several.values()
        for (one, filled), (other, its) in combinations(fillings, 2)
        if filled.rule == slots.EDGES and conflicts.clash((one, filled), (other, its))
    }
    return tuple(found for place, fillings in several.items() for found in _among(place, fillings, known, by_edges))


def _filled_twice(memories: Iterable[tuple[str | None, Searched]]) -> set[tuple[str | None, str]]:
    """Return the slots that more than one memory fills; of the many others only a number is kept."""
    seen, found = set[int](), set[tuple[str | None, str]]()
    for project, memory in memories:
        for filled in slots.filled(memory):
            number = hash((project, filled.slot))
            if number in seen:
                found.add((project, filled.slot))
            seen.add(number)
    return found


def _active(connection: sqlite3.Connection, user: str, scope: Scope) -> Iterator[Searched]:
    columns = "row, id, project, content, edges, valid_from, valid_to"
    for row, id, project, content, edges, *valid in memories.active_texts(connection, user, scope, columns):
        yield Searched(row, id, project, content, _edges.decode(edges) if edges else (), *valid)


def _recorded(connection: sqlite3.Connection, user: str) -> _Decided:
    """Every two that stand in a recorded conflict, whatever was decided, with what they said then; an undo of the find is a
    decision too."""
    found: _Decided = set()
    for each in (*conflicts.listing(connection, user), *conflicts.undone(connection, user)):
        for pair in combinations(zip(each.members, each.values, strict=False), 2):
            found.add((each.project, each.slot or "", frozenset(pair)))
    return found


def _among(
    place: tuple[str | None, str], fillings: Sequence[_Filling], known: _Decided, by_edges: Collection[frozenset[int]]
) -> Iterator[Found]:
    """Yield the groups within one slot that conflicts join, where at least one of their conflicts is new.

    Two memories whose edges clash are in a conflict by these, and in no second one by their words.
    """
    project, slot = place
    clashing = [
        (one, other)
        for one, other in combinations(fillings, 2)
        if (one[1].rule == slots.EDGES or frozenset((one[0].row, other[0].row)) not in by_edges)
        and conflicts.clash(one, other)
    ]
    fresh = [pair for pair in clashing if (project, slot, _values_of(pair)) not in known]
    group: dict[int, set[int]] = {}
    for (one, _), (other, _) in clashing:
        joined = group.get(one.row, {one.row}) | group.get(other.row, {other.row})
        for row in joined:
            group[row] = joined
    for rows in {frozenset(group[one.row]) for (one, _), _ in fresh}:
        members = tuple((each, filled.value) for each, filled in fillings if each.row in rows)
        yield Found(fillings[0][1].rule, slot, project, members)


def _values_of(pair: tuple[_Filling, _Filling]) -> frozenset[tuple[str, str]]:
    return frozenset((each.id, filled.value) for each, filled in pair)


# --- under the lock --------------------------------------------------------------------------------------------------


def record(work: Work, found: Sequence[Found]) -> None:
    """Records what is still as it was seen and not recorded meanwhile; an open conflict of the slot grows."""
    project = work.project
    for each in found:
        states = [work.find(member.id, "m") for member, _ in each.members]
        if not all(_is_as_seen(*pair) for pair in zip(each.members, states, strict=True)):
            continue
        ids, values = tuple(member.id for member, _ in each.members), tuple(value for _, value in each.members)
        place = each.slot, work.together(each.project)[0]
        similar = [known for known in _about(work, ids) if (known.slot, work.together(known.project)[0]) == place]
        if _is_covered(similar, dict(zip(ids, values, strict=True)), each.rule):
            continue
        work.project = each.project
        growing = next((known for known in similar if not known.action), None)
        if growing is None:
            work.emit(work.new_id("k"), ConflictFound(each.slot, ids, values, each.rule))
        else:
            for event in domain.decide(domain.Find(each.slot, ids, values, each.rule), growing):
                work.emit(growing.id, event, first=growing.row)
    work.project = project


def _is_as_seen(seen: tuple[Searched, str], now: Memory | None) -> bool:
    if now is None or now.status != "active" or now.quarantined:
        return False
    memory = seen[0]
    same = (memory.content, memory.edges, memory.project, memory.valid_from, memory.valid_to)
    return same == (now.content, now.edges, now.project, now.valid_from, now.valid_to)


def _is_covered(known: Collection[Conflict], values: dict[str, str], rule: str) -> bool:
    """Whether every two of these whose values clash stand in a recorded conflict of the slot."""
    stated = [dict(zip(each.members, each.values, strict=False)) for each in known]
    return all(
        any(values_of.get(one) == values[one] and values_of.get(other) == values[other] for values_of in stated)
        for one, other in combinations(values, 2)
        if slots.exclusive(rule, values[one], values[other])
    )


def _about(work: Work, ids: Sequence[str]) -> list[Conflict]:
    rows = dict.fromkeys(row for id in ids for row in conflicts.about(work.rows, id))
    return [conflict for row in rows if (conflict := work.at_row(row, "k")) is not None]


def keep(work: Work, conflict: Conflict, winner: Memory, reason: str) -> None:
    """The winner supersedes what cannot be so together with it; a member that can stays."""
    states = [state for id in conflict.members if (state := work.find(id, "m")) is not None]
    active = [each for each in states if each.status == "active" and not each.quarantined]
    losers = [each for each in active if each.row != winner.row and conflicts.clashes(winner, each, conflict)]
    kept = (winner, *losers) if winner in active else active
    events = domain.decide(domain.Resolve(domain.KEEP, winner.id, tuple(each.id for each in kept), reason), conflict)
    for event in events:
        work.emit(conflict.id, event, first=conflict.row)
    for each in losers if events else ():
        command = memory_domain.Supersede(winner.id, winner.valid_from, reason, "conflict/1")
        for event in memory_domain.decide(command, each):
            work.emit(each.id, event, first=each.row)


def both(work: Work, conflict: Conflict, reason: str) -> None:
    for event in domain.decide(domain.Resolve(domain.ACCEPT, None, (), reason), conflict):
        work.emit(conflict.id, event, first=conflict.row)
