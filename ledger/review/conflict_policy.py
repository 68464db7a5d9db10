"""The search for conflicts: active memories of one slot whose values likely cannot both be so.

Conflicts are found on a snapshot, recorded once, and resolved by people. Nothing is merged, picked or dropped here. A
conflict is within one user and one project, or among memories without a project: a project's own word against the general
word is not a contradiction. Candidates and quarantined memories do not take part.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import combinations

import msgspec
from msgspec import Struct

from ledger.core.work import Work
from ledger.english import slots
from ledger.english.slots import Filled
from ledger.events import ConflictFound
from ledger.memories.state import Edge
from ledger.review import rules
from ledger.review.proposing import Scope, Searched, are_as_seen, conflicts_about, emit
from ledger.review.rules import ConflictState
from projections.views import conflicts, memories, projects

FILLERS = 8
"""A slot that more active memories fill holds several values at a time, and is left out (our choice)."""

_edges = msgspec.json.Decoder(tuple[Edge, ...])


class SearchedStatement(Searched, frozen=True):
    """A memory as the search for conflicts saw it."""

    edges: tuple[Edge, ...]
    valid_from: str
    valid_to: str | None


class ConflictingMemories(Struct, frozen=True):
    """Memories that fill a slot with values that cannot both be so by a rule: each with its value, oldest first."""

    rule: str
    slot: str
    project: str | None
    members: tuple[tuple[SearchedStatement, str], ...]


_Filling = tuple[SearchedStatement, Filled]
_Decided = set[tuple[str | None, str, frozenset[tuple[str, str]]]]  # (project, slot, two members with their values)


def search(
    connection: sqlite3.Connection, user: str, *, scope: Scope = None, after: int | None = None
) -> tuple[ConflictingMemories, ...]:
    """Return the conflicts of a user that are not recorded yet; with ``after`` only in slots of memories changed since then."""
    main = cache(partial(projects.main, connection))
    places: set[tuple[str | None, str]] | None = None
    if after is not None:
        changed = set(memories.changed(connection, user, after))
        changed_memories = (
            (memory for memory in _active(connection, user, scope) if memory.row in changed) if changed else ()
        )
        places = {(main(memory.project), filled.slot) for memory in changed_memories for filled in slots.filled(memory)}
        if not places:
            return ()
    if places is None:
        places = _filled_twice((main(memory.project), memory) for memory in _active(connection, user, scope))
    filled: dict[tuple[str | None, str], list[_Filling]] = {}
    for memory in _active(connection, user, scope):
        for filling in slots.filled(memory):
            if (main(memory.project), filling.slot) in places:
                filled.setdefault((main(memory.project), filling.slot), []).append((memory, filling))
    known = {(main(project), slot, pair) for project, slot, pair in _recorded(connection, user)}
    several = {place: fillings for place, fillings in filled.items() if 1 < len(fillings) <= FILLERS}
    by_edges = {
        frozenset((left.row, right.row))
        for fillings in several.values()
        for (left, left_filled), (right, right_filled) in combinations(fillings, 2)
        if left_filled.rule == slots.EDGES and conflicts.clash((left, left_filled), (right, right_filled))
    }
    return tuple(group for place, fillings in several.items() for group in _among(place, fillings, known, by_edges))


def _filled_twice(memories: Iterable[tuple[str | None, SearchedStatement]]) -> set[tuple[str | None, str]]:
    """Return the slots that more than one memory fills. Of the many other slots only a number is kept in memory."""
    seen, filled_twice = set[int](), set[tuple[str | None, str]]()
    for project, memory in memories:
        for filled in slots.filled(memory):
            number = hash((project, filled.slot))
            if number in seen:
                filled_twice.add((project, filled.slot))
            seen.add(number)
    return filled_twice


def _active(connection: sqlite3.Connection, user: str, scope: Scope) -> Iterator[SearchedStatement]:
    columns = "row, id, project, content, edges, valid_from, valid_to"
    for row, id, project, content, edges, *valid in memories.active_texts(connection, user, scope, columns):
        yield SearchedStatement(row, id, project, content, _edges.decode(edges) if edges else (), *valid)


def _recorded(connection: sqlite3.Connection, user: str) -> _Decided:
    """Return every two members of recorded conflicts with their values, whatever was decided. An undone find counts too."""
    decided: _Decided = set()
    for conflict in (*conflicts.listing(connection, user), *conflicts.undone(connection, user)):
        for pair in combinations(zip(conflict.members, conflict.values, strict=False), 2):
            decided.add((conflict.project, conflict.slot or "", frozenset(pair)))
    return decided


def _among(
    place: tuple[str | None, str], fillings: Sequence[_Filling], known: _Decided, by_edges: Collection[frozenset[int]]
) -> Iterator[ConflictingMemories]:
    """Yield the groups within one slot that conflicts join, if at least one of their conflicts is new.

    Two memories whose edges clash have a conflict by their edges, and no second one by their words.
    """
    project, slot = place
    clashing = [
        (left, right)
        for left, right in combinations(fillings, 2)
        if (left[1].rule == slots.EDGES or frozenset((left[0].row, right[0].row)) not in by_edges)
        and conflicts.clash(left, right)
    ]
    fresh = [pair for pair in clashing if (project, slot, _values_of(pair)) not in known]
    group: dict[int, set[int]] = {}
    for (left, _), (right, _) in clashing:
        joined = group.get(left.row, {left.row}) | group.get(right.row, {right.row})
        for row in joined:
            group[row] = joined
    for rows in {frozenset(group[left.row]) for (left, _), _ in fresh}:
        members = tuple((memory, filled.value) for memory, filled in fillings if memory.row in rows)
        yield ConflictingMemories(fillings[0][1].rule, slot, project, members)


def _values_of(pair: tuple[_Filling, _Filling]) -> frozenset[tuple[str, str]]:
    return frozenset((memory.id, filled.value) for memory, filled in pair)


# --- under the lock --------------------------------------------------------------------------------------------------


def propose(work: Work, matches: Sequence[ConflictingMemories]) -> None:
    """Record the conflicts whose members are unchanged and that nobody recorded meanwhile. An open conflict of the slot grows."""
    project = work.project
    for conflict in matches:
        if not are_as_seen(work, [member for member, _ in conflict.members]):
            continue
        ids, values = tuple(member.id for member, _ in conflict.members), tuple(value for _, value in conflict.members)
        place = conflict.slot, work.together(conflict.project)[0]
        similar = [
            known for known in conflicts_about(work, ids) if (known.slot, work.together(known.project)[0]) == place
        ]
        if _is_covered(similar, dict(zip(ids, values, strict=True)), conflict.rule):
            continue
        work.project = conflict.project
        growing = next((known for known in similar if not known.action), None)
        match = ConflictFound(conflict.slot, ids, values, conflict.rule)
        if growing is None:
            work.emit(work.new_id("k"), match)
        else:
            emit(work, growing, rules.ProposeAgain(match))
    work.project = project


def _is_covered(known: Collection[ConflictState], values: dict[str, str], rule: str) -> bool:
    """Return True if every two members with clashing values stand in a recorded conflict of the slot."""
    stated = [dict(zip(conflict.members, conflict.values, strict=False)) for conflict in known]
    return all(
        any(values_of.get(left) == values[left] and values_of.get(right) == values[right] for values_of in stated)
        for left, right in combinations(values, 2)
        if slots.exclusive(rule, values[left], values[right])
    )
