"""Projects with their aliases and trusted state, and the names that projects and sessions are found by."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import islice

from msgspec.structs import replace

from ledger.domain import project
from ledger.domain.errors import DamagedError
from ledger.domain.events import AnyEvent, MessageAppended
from ledger.domain.project import Entry, Project, name_form
from ledger.domain.session import Session
from projections.core.rows import AsOf, Rows, Table, Values, checked
from projections.core.subjects import Change, end, ended, family, keep

FAMILY = family(
    "p",
    Project,
    project.evolve,
    project.admits,
    ("projects", "project_versions"),
    indexes=(),
    always=("aliases", "state", "joined"),
)
PROJECTS, PROJECT_VERSIONS = FAMILY.live, FAMILY.closed
from_row = FAMILY.from_row
# What a name stands for, of one user: "p" a project (its name or an alias), "s" a session.
NAMES = Table(
    "names",
    (
        *("user TEXT NOT NULL", "kind TEXT NOT NULL", "name TEXT NOT NULL"),
        *("id TEXT NOT NULL", "row INTEGER NOT NULL", "from_position INTEGER NOT NULL"),
    ),
    ("user", "kind", "name"),
    rowid=False,
    then=AsOf("from_position", closed="names_before"),
)
NAMES_BEFORE = ended(NAMES, "names_before")
# Which projects are found under another: ``joined_at`` is the position of the event that says so.
JOINS = Table(
    "project_joins",
    (
        *("target TEXT NOT NULL", "project TEXT NOT NULL"),
        *("joined_at INTEGER NOT NULL", "from_position INTEGER NOT NULL"),
    ),
    ("target", "project", "joined_at"),
    (("project", ""),),
    rowid=False,
    then=AsOf("from_position", closed="project_joins_before"),
)
JOINS_BEFORE = ended(JOINS, "project_joins_before")
STATE = Table(
    "project_state",
    (
        "project INTEGER NOT NULL",
        "category TEXT NOT NULL",
        "key TEXT NOT NULL",
        "from_position INTEGER NOT NULL",
        "to_position INTEGER",
        "value TEXT",
        "source TEXT",
        "actor TEXT",
        "recorded_at TEXT NOT NULL",
        "since_position INTEGER NOT NULL",
    ),
    ("project", "category", "key", "from_position"),
    then=AsOf("from_position", ends="to_position"),
)


class Projects:
    name, version, follows = "projects", 5, frozenset("ps")
    tables = (PROJECTS, PROJECT_VERSIONS, NAMES, NAMES_BEFORE, JOINS, JOINS_BEFORE, STATE)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for change in changes:
            if change.kind == "p":
                keep(change, rows, FAMILY)
                _rename(change, rows)
                _rejoin(change, rows)
                _restate(change, rows)
            elif change.kind == "s":
                _rename(change, rows)


def _names(state: Project | Session | None) -> set[tuple[str, str]]:
    """(user, form) of every name; an erased user or name is nobody's."""
    if state is None or state.user is None:
        return set()
    if isinstance(state, Session):
        if state.moved_to is not None:
            return set()
        return {(state.user, name) for name in (state.name, *state.aliases) if name is not None}
    return {(state.user, name_form(name)) for name in (state.name, *state.aliases) if name is not None}


def _rename(change: Change, rows: Rows) -> None:
    if not change.refold and isinstance(change.event.data, MessageAppended):
        return  # what most events are, and none that names anything
    before, after = _names(change.old), _names(change.new)
    for user, name in sorted(before - after):
        row = rows.get(NAMES, (user, change.kind, name))
        if row is not None and row[4] == change.first:  # in a refold the one that has it again may have come before
            end(rows, NAMES, NAMES_BEFORE, row, change.event.position)
    for user, name in sorted(after - before):
        key = (user, change.kind, name)
        if (row := rows.get(NAMES, key)) is not None:
            end(rows, NAMES, NAMES_BEFORE, row, change.event.position)
        rows.put(NAMES, key, (*key, change.new.id, change.first, change.event.position))


def _joins(state: Project | None) -> set[tuple[str, str, int]]:
    return {(state.id, each.id, each.position) for each in state.joined} if state is not None else set()


def _rejoin(change: Change, rows: Rows) -> None:
    before, after = _joins(change.old), _joins(change.new)
    for key in sorted(before - after):
        if (row := rows.get(JOINS, key)) is not None:
            end(rows, JOINS, JOINS_BEFORE, row, change.event.position)
    for key in sorted(after - before):
        rows.put(JOINS, key, (*key, change.event.position))


def _entries(state: Project | None) -> dict[tuple[str, str | None], Entry]:
    return {(entry.category, entry.key): entry for entry in state.state} if state is not None else {}


def _restate(change: Change, rows: Rows) -> None:
    before, after, now = _entries(change.old), _entries(change.new), change.event.position
    for (category, key), entry in before.items():
        if after.get((category, key)) != entry:
            current = (change.first, category, key or "", None)
            for row in rows.find(STATE, ("project", "category", "key", "to_position"), current):
                rows.put(STATE, row[:4], (*row[:4], now, *row[5:]))
    for (category, key), entry in after.items():
        if before.get((category, key)) != entry:
            place = (change.first, category, key or "", now)  # an erased key; nobody can give a blank one
            rows.put(STATE, place, (*place, None, *_values(entry)))


def _values(entry: Entry) -> Values:
    return (entry.value, entry.source, entry.actor, entry.recorded_at, entry.position)


# --- reads -----------------------------------------------------------------------------------------------------------


def find(connection: sqlite3.Connection, user: str, kind: str, name: str) -> tuple[str, int] | None:
    """(id, row) of the project ("p") or session ("s") that a name or alias stands for."""
    form = name_form(name) if kind == "p" else name
    sql = "SELECT id, row FROM names WHERE user = ? AND kind = ? AND name = ?"
    found = connection.execute(sql, (user, kind, form)).fetchone()
    return (found[0], found[1]) if found else None


def together(connection: sqlite3.Connection, project: str | None) -> tuple[str | None, ...]:
    """A project with all that are joined to it: first the one that the others are found under, then these in the order in
    which they were joined. What is of no project (None) is alone.

    Joins are taken one after another, and one of projects that are together already says nothing new: so whatever is undone
    and redone, every project is found under one. Nothing is found under a project that was erased, which has no name.
    """
    joins, waiting, seen = set[tuple[int, str, str]](), [project], {project}
    sql = "SELECT target, project, joined_at FROM project_joins WHERE target = ? OR project = ?"
    while waiting:
        each = waiting.pop()
        for target, other, at in connection.execute(sql, (each, each)) if each is not None else ():
            joins.add((at, target, other))
            waiting += {target, other} - seen
            seen |= {target, other}
    groups: dict[str | None, list[str | None]] = {each: [each] for each in seen}
    erased = {target for target in {each for _, each, _ in joins} if _is_erased(connection, target)}
    for _, target, other in sorted(joins):
        if target not in erased and groups[target] is not groups[other]:
            groups[target] += groups[other]
            groups |= dict.fromkeys(groups[other], groups[target])
    return tuple(groups[project])


def _is_erased(connection: sqlite3.Connection, project: str) -> bool:
    state = by_id(connection, project)
    return state is None or state.name is None


def main(connection: sqlite3.Connection, project: str | None) -> str | None:
    """The project that a project is found under: itself, unless it was joined into another."""
    return together(connection, project)[0]


def by_id(connection: sqlite3.Connection, id: str | None) -> Project | None:
    sql = "SELECT t.* FROM events e CROSS JOIN projects t ON t.row = e.position WHERE e.stream = ? AND e.version = 1"
    found = connection.execute(sql, (id,)).fetchone()
    return from_row(found) if found else None


def members(connection: sqlite3.Connection, project: str) -> list[Project]:
    """The states of a project and of those that are joined to it, as ``together`` has them."""
    return [state for id in together(connection, project) if (state := by_id(connection, id)) is not None]


def whole(connection: sqlite3.Connection, state: Project) -> Project:
    """A project as it is found: with the names of those that were joined to it for aliases, of the state of all of them what
    was set last, and the first description that one of them has. What was erased of the others is not shown."""
    others = [each for each in members(connection, state.id) if each.id != state.id]
    if not others:
        return state
    names = (name for each in others for name in (each.name, *each.aliases))
    aliases = [*state.aliases, *(name for name in names if name is not None)]
    theirs = [entry for each in others for entry in each.state if entry.key is not None]
    entries = sorted((*state.state, *theirs), key=lambda each: each.position)
    latest = {(entry.category, entry.key): entry for entry in entries}
    description = next((each.description for each in (state, *others) if each.description), state.description)
    stated = tuple(each for each in entries if each in latest.values())
    return replace(state, description=description, aliases=tuple(aliases), state=stated)


def listing(
    connection: sqlite3.Connection, user: str, *, before: int | None = None, limit: int | None = None
) -> list[Project]:
    """Projects of one user, newest first, from ``before`` a row; those that were joined into another are found under it."""
    sql = "SELECT * FROM projects WHERE user = ? AND row < ? ORDER BY row DESC"
    with closing(connection.execute(sql, (user, 2**62 if before is None else before))) as cursor:
        return list(islice((each for each in map(from_row, cursor) if main(connection, each.id) == each.id), limit))


def names(connection: sqlite3.Connection, ids: Iterable[str | None]) -> dict[str, str]:
    """The names people gave to these sessions, and to the projects that these projects are found under."""
    found: dict[str, str] = {}
    for each in {each for each in ids if each is not None}:
        table = "projects" if each[0] == "p" else "sessions"
        sql = f"SELECT t.name FROM events e CROSS JOIN {table} t ON t.row = e.position WHERE e.stream = ? AND e.version = 1"
        row = connection.execute(sql, (main(connection, each) if each[0] == "p" else each,)).fetchone()
        if row is not None and row[0] is not None:
            if not isinstance(row[0], str):
                raise DamagedError(table, each, "its name is of another type")
            found[each] = row[0]
    return found


def state_history(connection: sqlite3.Connection, project: str, category: str | None, key: str | None) -> list[Values]:
    """Every row of trusted state that a project ever had, and those that are joined to it, oldest first: of two that stand
    under one name the later one ends the other, since they are together."""
    states = members(connection, project)
    found = ((state, row) for state in states for row in _history(connection, state.row, category, key))
    rows = sorted((row for state, row in found if row[1] is not None or state is states[0]), key=_set_at)
    at = max((each.position for state in states for each in state.joined), default=0)
    current: dict[tuple[object, ...], int] = {}
    for number, row in reversed(list(enumerate(rows))):
        since, until, _ = row[-3:]
        if until is None and current.setdefault(row[:2], number) != number:
            ended = max(since, rows[current[row[:2]]][-3], at)
            rows[number] = (*row[:-2], ended, row[-1])
    return [row[:-1] for row in rows]


def _set_at(row: Values) -> int:
    """The position that set a value, also where an undo took it out and a redo brought it back."""
    return int(row[-1])


_SHOWN = (
    "category",
    "key",
    "value",
    "source",
    "actor",
    "recorded_at",
    "from_position",
    "to_position",
    "since_position",
)


def _history(connection: sqlite3.Connection, row: int, category: str | None, key: str | None) -> list[Values]:
    sql = (
        f"SELECT {', '.join(_SHOWN)} FROM project_state"
        " WHERE project = ? AND category = coalesce(?, category) AND key IS coalesce(?, key) ORDER BY from_position"
    )
    found = checked(STATE, _SHOWN, connection.execute(sql, (row, category, key)))
    return [(name, given or None, *others) for name, given, *others in found]
