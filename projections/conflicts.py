"""Conflicts that were found, which memories each of them is about, and what somebody decided."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple, replace

from ledger.domain import conflict
from ledger.domain.conflict import Conflict
from ledger.domain.events import AnyEvent
from projections.merges import renew
from projections.rows import Rows, Standing, Table, Values
from projections.subjects import Change, Family, ended, keep, versioned

CONFLICTS, VERSIONS = versioned(
    "conflicts",
    "conflict_versions",
    (
        "id TEXT NOT NULL",
        "user TEXT",
        "project TEXT",
        "slot TEXT",
        "members TEXT NOT NULL",
        "said TEXT NOT NULL",
        "rule TEXT NOT NULL",
        "action TEXT NOT NULL",
        "winner TEXT",
        "reason TEXT",
        "recorded_at TEXT NOT NULL",
        "version INTEGER NOT NULL",
    ),
    (("user, row", ""),),
)
MEMBERS = Table(
    "conflict_members",
    ("memory TEXT NOT NULL", "conflict INTEGER NOT NULL", "from_position INTEGER NOT NULL"),
    ("memory", "conflict"),
    rowid=False,
    grouped=1,
    then=Standing("from_position", closed="conflict_members_before"),
)
MEMBERS_BEFORE = replace(ended(MEMBERS, "conflict_members_before"), indexes=(("memory, conflict", ""),))

_fields = {name: place for place, name in enumerate(Conflict.__struct_fields__)}
_LISTS = (_fields["members"], _fields["values"])
_strings = msgspec.json.Decoder(tuple[str, ...])


def to_row(state: Conflict) -> Values:
    row: list[Any] = list(astuple(state))
    for place in _LISTS:
        row[place] = msgspec.json.encode(row[place]).decode()
    return tuple(row)


def from_row(values: Sequence[Any]) -> Conflict:
    row = list(values[: len(_fields)])
    for place in _LISTS:
        row[place] = _strings.decode(row[place])
    return Conflict(*row)


FAMILY = Family("k", conflict.evolve, conflict.admits, CONFLICTS, VERSIONS, to_row, from_row)


class Conflicts:
    name, version, follows = "conflicts", 1, frozenset("k")
    tables = (CONFLICTS, VERSIONS, MEMBERS, MEMBERS_BEFORE)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for change in changes:
            keep(change, rows, FAMILY)
            before = () if change.old is None else change.old.members
            after = () if change.new is None else change.new.members
            if before != after:
                renew(change, rows, (MEMBERS, MEMBERS_BEFORE), before, after)


# --- for decisions ---------------------------------------------------------------------------------------------------


def about(rows: Rows, memory: str) -> list[int]:
    """The rows of the conflicts that a memory is a member of."""
    return [row[1] for row in rows.find(MEMBERS, ("memory",), (memory,))]


# --- reads -----------------------------------------------------------------------------------------------------------


def listing(connection: sqlite3.Connection, user: str) -> list[Conflict]:
    """Every conflict of a user, newest first."""
    sql = "SELECT * FROM conflicts WHERE user = ? ORDER BY row DESC"
    return [from_row(row) for row in connection.execute(sql, (user,))]


def naming(connection: sqlite3.Connection, memories: Iterable[str]) -> list[Conflict]:
    """The conflicts that one of these memories is a member of."""
    found: dict[int, Conflict] = {}
    sql = "SELECT k.* FROM conflict_members n CROSS JOIN conflicts k ON k.row = n.conflict WHERE n.memory = ?"
    for each in memories:
        for row in connection.execute(sql, (each,)):
            found[row[0]] = from_row(row)
    return [found[row] for row in sorted(found)]
