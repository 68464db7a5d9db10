"""The tables of projects, of their joins, roots and trusted state, and of the names of projects and sessions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import islice

from msgspec.structs import replace

from ledger.domain.errors import DamagedError
from ledger.domain.text import name_form
from ledger.events import AnyEvent, MessageAppended
from ledger.projects import rules as project
from ledger.projects.rules import ProjectState, TrustedEntry
from ledger.sessions.rules.session import SessionState
from projections.core.rows import NEWEST, AllBut, AsOf, Conditions, ProjectionRows, Start, Table, Values, checked
from projections.core.subjects import SubjectChange, end, ended, family, keep, replace_rows

FAMILY = family(
    "p",
    ProjectState,
    project.evolve,
    project.admits,
    ("projects", "project_versions"),
    indexes=(("user", "status = 'archived'"),),
    among=(("status", (project.ACTIVE, project.ARCHIVED)),),
    always=("aliases", "state", "joined", "roots"),
)
PROJECTS, PROJECT_VERSIONS = FAMILY.live, FAMILY.closed
from_row = FAMILY.from_row
# The subject of each name or alias of a user; the kind is "p" for a project and "s" for a session.
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
# The projects that are joined into another project; ``joined_at`` is the position of the event that joined them.
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
# The links of roots to projects; of several links of one root the last counts.
ROOTS = Table(
    "project_roots",
    (
        *("user TEXT NOT NULL", "machine TEXT NOT NULL", "path TEXT NOT NULL", "linked_at INTEGER NOT NULL"),
        *("project TEXT NOT NULL", "from_position INTEGER NOT NULL"),
    ),
    ("user", "machine", "path", "linked_at"),
    (("project", ""),),
    rowid=False,
    then=AsOf("from_position", closed="project_roots_before"),
)
ROOTS_BEFORE = ended(ROOTS, "project_roots_before")
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


class ProjectsProjection:
    name, version, follows, reads = "projects", 7, frozenset("ps"), ()
    tables = (PROJECTS, PROJECT_VERSIONS, NAMES, NAMES_BEFORE, JOINS, JOINS_BEFORE, ROOTS, ROOTS_BEFORE, STATE)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            if change.kind == "p":
                keep(change, rows, FAMILY)
                _rename(change, rows)
                replace_rows(change, rows, (JOINS, JOINS_BEFORE), _joins(change.old), _joins(change.new))
                replace_rows(change, rows, (ROOTS, ROOTS_BEFORE), _roots(change.old), _roots(change.new))
                _restate(change, rows)
            elif change.kind == "s":
                _rename(change, rows)


def _names(state: ProjectState | SessionState | None) -> set[tuple[str, str]]:
    """Return (user, form of the name) for every name of a project or session, without erased users and names."""
    if state is None or state.user is None:
        return set()
    if isinstance(state, SessionState):
        if state.moved_to is not None:
            return set()
        return {(state.user, name) for name in (state.name, *state.aliases) if name is not None}
    return {(state.user, name_form(name)) for name in (state.name, *state.aliases) if name is not None}


def _rename(change: SubjectChange, rows: ProjectionRows) -> None:
    if isinstance(change.event.data, MessageAppended):
        return  # saves time: the most frequent event never changes a name
    before, after = _names(change.old), _names(change.new)
    for user, name in sorted(before - after):
        row = rows.get(NAMES, (user, change.kind, name))
        if row is not None and row[4] == change.first:  # in a refold another subject may already have taken the name
            end(rows, NAMES, NAMES_BEFORE, row, change.event.position)
    for user, name in sorted(after - before):
        key = (user, change.kind, name)
        if (row := rows.get(NAMES, key)) is not None:
            end(rows, NAMES, NAMES_BEFORE, row, change.event.position)
        rows.put(NAMES, key, (*key, change.new.id, change.first, change.event.position))


def _joins(state: ProjectState | None) -> dict[Values, Values]:
    return {(state.id, join.id, join.position): () for join in state.joined} if state is not None else {}


def _roots(state: ProjectState | None) -> dict[Values, Values]:
    """Return the project of every (user, machine, path, position of the link), without erased users, machines and paths."""
    if state is None or state.user is None:
        return {}
    return {
        (state.user, root.machine, root.path, root.position): (state.id,)
        for root in state.roots
        if root.machine is not None and root.path is not None
    }


def _entries(state: ProjectState | None) -> dict[tuple[str, str | None], TrustedEntry]:
    return {(entry.category, entry.key): entry for entry in state.state} if state is not None else {}


def _restate(change: SubjectChange, rows: ProjectionRows) -> None:
    before, after, now = _entries(change.old), _entries(change.new), change.event.position
    for (category, key), entry in before.items():
        if after.get((category, key)) != entry:
            current = (change.first, category, key or "", None)
            for row in rows.find(STATE, ("project", "category", "key", "to_position"), current):
                rows.put(STATE, row[:4], (*row[:4], now, *row[5:]))
    for (category, key), entry in after.items():
        if before.get((category, key)) != entry:
            place = (change.first, category, key or "", now)  # a blank key means an erased key; no user can set it
            rows.put(STATE, place, (*place, None, *_values(entry)))


def _values(entry: TrustedEntry) -> Values:
    return (entry.value, entry.source, entry.actor, entry.recorded_at, entry.position)


# --- reads -----------------------------------------------------------------------------------------------------------


def find(connection: sqlite3.Connection, user: str, kind: str, name: str) -> tuple[str, int] | None:
    """Return (id, row) of the project ("p") or session ("s") with this name or alias, or None."""
    form = name_form(name) if kind == "p" else name
    sql = "SELECT id, row FROM names WHERE user = ? AND kind = ? AND name = ?"
    row = connection.execute(sql, (user, kind, form)).fetchone()
    return (row[0], row[1]) if row else None


def together(connection: sqlite3.Connection, project: str | None) -> tuple[str | None, ...]:
    """Return the ids of a project's group: the main project, then the projects joined to it in the order of the joins.

    None, which means no project, is a group of its own. Joins are applied in the order of their events, and a join of projects
    that are in one group already changes nothing. So every project has exactly one main project, whatever is undone and redone.
    An erased project has no name, and joins into it have no effect.
    """
    joins, waiting, seen = set[tuple[int, str, str]](), [project], {project}
    sql = "SELECT target, project, joined_at FROM project_joins WHERE target = ? OR project = ?"
    while waiting:
        id = waiting.pop()
        for target, joined, at in connection.execute(sql, (id, id)) if id is not None else ():
            joins.add((at, target, joined))
            waiting += {target, joined} - seen
            seen |= {target, joined}
    groups: dict[str | None, list[str | None]] = {id: [id] for id in seen}
    erased = {target for target in {target for _, target, _ in joins} if _is_erased(connection, target)}
    for _, target, joined in sorted(joins):
        if target not in erased and groups[target] is not groups[joined]:
            groups[target] += groups[joined]
            groups |= dict.fromkeys(groups[joined], groups[target])
    return tuple(groups[project])


def _is_erased(connection: sqlite3.Connection, project: str) -> bool:
    state = by_id(connection, project)
    return state is None or state.name is None


def main(connection: sqlite3.Connection, project: str | None) -> str | None:
    """Return the main project of a project: the project itself, unless it was joined into another."""
    return together(connection, project)[0]


def rooted(connection: sqlite3.Connection, user: str, machine: str, path: str) -> str | None:
    """Return the project that a root of a machine was linked with last, or the project that it was joined into; or None."""
    sql = (
        "SELECT project FROM project_roots WHERE user = ? AND machine = ? AND path = ? ORDER BY linked_at DESC LIMIT 1"
    )
    row = connection.execute(sql, (user, machine, path)).fetchone()
    return main(connection, row[0]) if row else None


def roots(connection: sqlite3.Connection, project: str) -> list[tuple[str, str]]:
    """Return (machine, path) of each root of a project and of the projects joined to it, in the order of the links."""
    group = together(connection, project)
    sql = (
        f"SELECT machine, path FROM project_roots r WHERE project IN ({', '.join('?' * len(group))}) AND linked_at ="
        " (SELECT max(linked_at) FROM project_roots o WHERE (o.user, o.machine, o.path) = (r.user, r.machine, r.path))"
        " ORDER BY linked_at"
    )
    return connection.execute(sql, group).fetchall()


def by_id(connection: sqlite3.Connection, id: str | None) -> ProjectState | None:
    """Return the project with this id, without the projects joined to it."""
    sql = "SELECT t.* FROM events e CROSS JOIN projects t ON t.row = e.position WHERE e.stream = ? AND e.version = 1"
    row = connection.execute(sql, (id,)).fetchone()
    return from_row(row) if row else None


def members(connection: sqlite3.Connection, project: str) -> list[ProjectState]:
    """Return the states of a project and of the projects joined to it, in the order of ``together``."""
    return [state for id in together(connection, project) if (state := by_id(connection, id)) is not None]


def whole(connection: sqlite3.Connection, state: ProjectState) -> ProjectState:
    """Return a project united with the projects joined to it.

    The names of the other projects become aliases. For each key of the state the value set last counts. The description is the
    first description in the order of the joins. Erased names and keys of the other projects are left out.
    """
    others = [project for project in members(connection, state.id) if project.id != state.id]
    if not others:
        return state
    names = (name for project in others for name in (project.name, *project.aliases))
    aliases = [*state.aliases, *(name for name in names if name is not None)]
    joined_entries = [entry for project in others for entry in project.state if entry.key is not None]
    entries = sorted((*state.state, *joined_entries), key=lambda entry: entry.position)
    latest = {(entry.category, entry.key): entry for entry in entries}
    descriptions = (project.description for project in (state, *others) if project.description)
    description = next(descriptions, state.description)
    stated = tuple(entry for entry in entries if entry in latest.values())
    return replace(state, description=description, aliases=tuple(aliases), state=stated)


def listing(
    connection: sqlite3.Connection,
    user: str,
    statuses: Sequence[str] = (),
    *,
    start: Start = NEWEST,
    limit: int | None = None,
) -> list[ProjectState]:
    """Return projects of one user with these statuses (an empty list means all), from ``start`` on.

    Projects that were joined into another are left out.
    """
    where = Conditions("user = ?", user)
    where.among("status", statuses)
    where.add(f"row {start.behind} ?", start.bound)
    sql = f"SELECT * FROM projects WHERE {where} ORDER BY row {start.order}"
    with closing(connection.execute(sql, where.values)) as cursor:
        mains = (project for project in map(from_row, cursor) if main(connection, project.id) == project.id)
        return list(islice(mains, limit))


def archived(connection: sqlite3.Connection, user: str) -> AllBut | None:
    """Return the scope of all projects except archived projects and projects joined into these.

    Return None if the user has no archived project.
    """
    sql = "SELECT id FROM projects WHERE user = ? AND status = 'archived'"
    groups = [together(connection, id) for (id,) in connection.execute(sql, (user,)).fetchall()]
    left_out = {id for (main, *others) in groups if _is_archived(connection, main) for id in (main, *others)}
    return AllBut(tuple(sorted(id for id in left_out if id is not None))) if left_out else None


def _is_archived(connection: sqlite3.Connection, id: str | None) -> bool:
    state = by_id(connection, id)
    return state is not None and state.status == project.ARCHIVED


def names(connection: sqlite3.Connection, ids: Iterable[str | None]) -> dict[str, str]:
    """Return a name for each id: of a session its name, of a project the name of its main project."""
    names: dict[str, str] = {}
    for id in {id for id in ids if id is not None}:
        table = "projects" if id[0] == "p" else "sessions"
        sql = f"SELECT t.name FROM events e CROSS JOIN {table} t ON t.row = e.position WHERE e.stream = ? AND e.version = 1"
        row = connection.execute(sql, (main(connection, id) if id[0] == "p" else id,)).fetchone()
        if row is not None and row[0] is not None:
            if not isinstance(row[0], str):
                raise DamagedError(table, id, "its name is of another type")
            names[id] = row[0]
    return names


def state_history(connection: sqlite3.Connection, project: str, category: str | None, key: str | None) -> list[Values]:
    """Return every value of the trusted state of a project and of the projects joined to it, oldest first.

    If two projects have a value under the same key, the earlier value ends at the join or at the later value.
    """
    states = members(connection, project)
    histories = ((state, row) for state in states for row in _history(connection, state.row, category, key))
    rows = sorted((row for state, row in histories if row[1] is not None or state is states[0]), key=_set_at)
    at = max((join.position for state in states for join in state.joined), default=0)
    current: dict[tuple[object, ...], int] = {}
    for number, row in reversed(list(enumerate(rows))):
        since, until, _ = row[-3:]
        if until is None and current.setdefault(row[:2], number) != number:
            ended = max(since, rows[current[row[:2]]][-3], at)
            rows[number] = (*row[:-2], ended, row[-1])
    return [row[:-1] for row in rows]


def _set_at(row: Values) -> int:
    """Return the position that first set a value, also if an undo removed the value and a redo restored it."""
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
    entries = checked(STATE, _SHOWN, connection.execute(sql, (row, category, key)))
    return [(category_name, key_name or None, *rest) for category_name, key_name, *rest in entries]
