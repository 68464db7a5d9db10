"""Projects with their aliases and trusted state, and the names that projects and sessions are found by."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from ledger.domain import project
from ledger.domain.events import AnyEvent, MessageAppended
from ledger.domain.project import Entry, Project, name_form
from ledger.domain.session import Session
from projections.core.rows import AsOf, Rows, Table, Values
from projections.core.subjects import Change, end, ended, family, keep

FAMILY = family(
    "p",
    Project,
    project.evolve,
    project.admits,
    ("projects", "project_versions"),
    indexes=(),
    always=("aliases", "state"),
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
    name, version, follows = "projects", 4, frozenset("ps")
    tables = (PROJECTS, PROJECT_VERSIONS, NAMES, NAMES_BEFORE, STATE)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for change in changes:
            if change.kind == "p":
                keep(change, rows, FAMILY)
                _rename(change, rows)
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


def get(connection: sqlite3.Connection, row: int) -> Project | None:
    found = connection.execute("SELECT * FROM projects WHERE row = ?", (row,)).fetchone()
    return from_row(found) if found else None


def listing(connection: sqlite3.Connection, user: str, *, before: int | None = None, limit: int = -1) -> list[Project]:
    """Projects of one user, newest first, from ``before`` a row."""
    behind = "" if before is None else "AND row < ?"
    sql = f"SELECT * FROM projects WHERE user = ? {behind} ORDER BY row DESC LIMIT ?"
    values = (user, limit) if before is None else (user, before, limit)
    return [from_row(row) for row in connection.execute(sql, values)]


def names(connection: sqlite3.Connection, ids: Iterable[str | None]) -> dict[str, str]:
    """The names people gave to these projects and sessions."""
    found: dict[str, str] = {}
    for each in {each for each in ids if each is not None}:
        table = "projects" if each[0] == "p" else "sessions"
        sql = f"SELECT t.name FROM events e CROSS JOIN {table} t ON t.row = e.position WHERE e.stream = ? AND e.version = 1"
        row = connection.execute(sql, (each,)).fetchone()
        if row is not None and row[0] is not None:
            found[each] = row[0]
    return found


def state_history(connection: sqlite3.Connection, row: int, category: str | None, key: str | None) -> list[Values]:
    """Every row of trusted state a project ever had, oldest first."""
    sql = (
        "SELECT category, nullif(key, ''), value, source, actor, recorded_at, from_position, to_position FROM project_state"
        " WHERE project = ? AND category = coalesce(?, category) AND key IS coalesce(?, key) ORDER BY from_position"
    )
    return [tuple(each) for each in connection.execute(sql, (row, category, key))]
