"""What a ledger's file consists of, against what this product makes: every table, index, trigger and view."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import cache, lru_cache

from ledger.store import copies
from ledger.store.sqlite_files import FOREIGN, LISTED, SCHEMA, blank, no_tables
from projections.core import own_registry as registry
from projections.core.projector import create_tables
from projections.core.rebuild import FRESH, OLD
from projections.core.sql_views import is_own, reaches_out
from projections.search import vectors

_Object = tuple[str, str, str]  # kind, name (of an index: its table's), what it is made of

# A table that a rebuild made was renamed, which changes how names are written at the beginning, and no more.
_HEADER = r"""CREATE( VIRTUAL| UNIQUE|) (TABLE|INDEX) ["'`]?\w+["'`]?\s*(?:ON ["'`]?\w+["'`]?\s*)?"""


def differences(connection: sqlite3.Connection, *, with_projections: bool) -> Iterator[str]:
    """What is missing, was changed or is too much. Without the projections their tables and views may be any, but no trigger.

    What is somebody's own by its name is neither, unless it reaches into the ledger's tables.
    """
    yield from _reaching(connection)
    found, wanted = Counter(_objects(_listed(connection), own=False)), Counter(_made(with_projections))
    for kind, name, _ in wanted - found:
        if name in FOREIGN:
            continue  # the next open for writing makes them
        yield f"the schema: {kind} {name} is missing or was changed"
    own = {name for kind, name, _ in wanted if kind == "table"}
    found -= _optional()
    for each in found - wanted:
        wanted_here = with_projections or each[0] == "trigger" or (each[0], each[1]) in {w[:2] for w in wanted}
        if wanted_here and not _is_of_a_rebuild(each, own):
            yield f"the schema: {each[0]} {each[1][:60]} is not as a ledger has it"


def misshapen(connection: sqlite3.Connection) -> bool:
    """Whether a table or an index of the projections is missing, or not as this product makes it. Views come by themselves."""
    listed = list(map(tuple, _listed(connection)))
    if listed == list(blank(create_tables).objects):
        return False
    wanted, own = _made_of_projections()
    return wanted != Counter(each for each in _objects(listed) if each[:2] in own)


def has_changed(connection: sqlite3.Connection) -> bool:
    """Whether anything that this product makes is missing or was changed, the log's own tables and triggers too."""
    gone = Counter(_made(True)) - Counter(_objects(_listed(connection)))
    return any(kind != "view" and name not in FOREIGN for kind, name, _ in gone)


def _reaching(connection: sqlite3.Connection) -> Iterator[str]:
    """What somebody's own table or trigger does to the ledger's tables: a foreign key and a trigger can stop a write."""
    sql = "SELECT type, name, tbl_name, sql FROM main.sqlite_master WHERE type IN ('table', 'trigger') AND sql IS NOT NULL"
    for kind, name, table, made in connection.execute(sql).fetchall():
        if is_own(str(name)) and is_own(str(table)) and (reached := reaches_out(str(made))):
            yield f"the schema: {kind} {name[:60]} reaches into the ledger's {reached[:60]}, which may stop its writes: drop it"


def _listed(connection: sqlite3.Connection) -> Iterable[tuple[object, ...]]:
    return connection.execute(f"{LISTED} main.sqlite_master")


def _objects(listed: Iterable[tuple[object, ...]], *, own: bool = True) -> Iterator[_Object]:
    for kind, name, table, sql in ((str(part or "") for part in row) for row in listed):  # damage makes bytes of a text
        if not own and is_own(table) and is_own(name if kind != "index" else table):
            continue
        if kind == "index":
            yield "index of", table, _body(sql)
        elif kind == "trigger":
            yield kind, name, sql
        elif not name.startswith("sqlite_stat"):
            yield kind, name, _body(sql)


@lru_cache(1024)  # what a ledger has is what this product makes, and each open compares all of it
def _body(sql: str) -> str:
    return " ".join(re.sub(_HEADER, r"\1 ", sql, count=1).split())


@cache
def _made(with_projections: bool) -> tuple[_Object, ...]:
    return tuple(_objects(blank(create_tables if with_projections else no_tables).objects))


@cache
def _made_of_projections() -> tuple[Counter[_Object], set[tuple[str, str]]]:
    """What the projections add to the log's own, and (kind, name) of it."""
    wanted = Counter(each for each in _made(True) if each[0] != "view") - Counter(_made(False))
    return wanted, {(kind, name) for kind, name, _ in wanted}


def _optional() -> Counter[_Object]:
    """What may be there or not: vectors, with a table of SQLite's; what makes a copy; where projections of one's own stand."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        vectors.make(fresh, bytes(4))
        fresh.executescript(SCHEMA + copies.SCHEMA)
        registry.make(fresh)
        return Counter(_objects(_listed(fresh)))


def _is_of_a_rebuild(each: _Object, own: set[str]) -> bool:
    """One that is under way, or was killed, has tables of its own next to the live ones; old ones may be of any version."""
    kind, name, _ = each
    if kind not in ("table", "index of"):
        return False
    return name.startswith(OLD) or (name.startswith(FRESH) and name.removeprefix(FRESH) in own)
