"""The comparison of a file's schema with the schema that this product makes: tables, indexes, triggers and views."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import cache, lru_cache

from ledger.log.inspection import COPY_SCHEMA
from ledger.log.sqlite_files import FOREIGN, LISTED, SCHEMA, blank, no_tables
from projections.core import own_registry as registry
from projections.core.projector import create_tables
from projections.core.rebuild import FRESH, OLD
from projections.core.sql_views import is_own, reaches_out
from projections.search import vectors

_Object = tuple[str, str, str]  # kind, name (of an index: its table's name), SQL

NOT_OURS = "is not the ledger's: drop it, or make it again under a name that begins with my_"

# The beginning of a statement. SQLite writes names differently there after a rebuild renamed its table.
_HEADER = r"""CREATE( VIRTUAL| UNIQUE|) (TABLE|INDEX) ["'`]?\w+["'`]?\s*(?:ON ["'`]?\w+["'`]?\s*)?"""


def differences(connection: sqlite3.Connection, *, with_projections: bool) -> Iterator[tuple[bool, str]]:
    """Yield a problem for each object that is missing, was changed or does not belong into the file.

    The first value is True for a problem of the log itself: one of its tables, or a trigger, which can stop its writes.

    Without ``with_projections``, the tables and views of the projections are not compared, but an extra trigger is still
    a problem. An object that people added under a name of their own is accepted, unless it reaches into the ledger's
    tables.
    """
    yield from _reaching(connection)
    present, expected = Counter(_objects(_listed(connection), own=False)), Counter(_made(with_projections))
    for kind, name, _ in expected - present:
        if name in FOREIGN:
            continue  # the next open for writing makes it
        yield _is_of_log(kind, name), f"the schema: {kind} {name} is missing or was changed"
    own = {name for kind, name, _ in expected if kind == "table"}
    present -= _optional()
    for entry in present - expected:
        kind, name, _ = entry
        is_compared = with_projections or kind == "trigger" or (kind, name) in {made[:2] for made in expected}
        if is_compared and not _is_of_a_rebuild(entry, own):
            is_foreign = kind in ("view", "table") and (kind, name) not in {made[:2] for made in expected}
            what = NOT_OURS if is_foreign else "is not as a ledger has it"
            yield _is_of_log(kind, name), f"the schema: {kind} {name[:60]} {what}"


def _is_of_log(kind: str, name: str) -> bool:
    return kind == "trigger" or name in ("events", "blobs")


def is_misshapen(connection: sqlite3.Connection) -> bool:
    """Return True if a table or an index of the projections is missing or not as this product makes it.

    Views are not compared, because every open makes them again.
    """
    listed = list(map(tuple, _listed(connection)))
    if listed == list(blank(create_tables).objects):
        return False
    expected, own = _made_of_projections()
    return expected != Counter(entry for entry in _objects(listed) if entry[:2] in own)


def has_changed(connection: sqlite3.Connection) -> bool:
    """Return True if anything that this product makes is missing or was changed, including the log's own tables."""
    gone = Counter(_made(True)) - Counter(_objects(_listed(connection)))
    return any(kind != "view" and name not in FOREIGN for kind, name, _ in gone)


def _reaching(connection: sqlite3.Connection) -> Iterator[tuple[bool, str]]:
    """Yield a problem for each table or trigger that people added and that reaches into the ledger's tables.

    Such a foreign key or trigger can stop a write of the ledger.
    """
    sql = "SELECT type, name, tbl_name, sql FROM main.sqlite_master WHERE type IN ('table', 'trigger') AND sql IS NOT NULL"
    for kind, name, table, made in connection.execute(sql).fetchall():
        if is_own(str(name)) and is_own(str(table)) and (reached := reaches_out(str(made))):
            text = f"the schema: {kind} {name[:60]} reaches into the ledger's {reached[:60]}, which may stop its writes: drop it"
            yield _is_of_log(kind, name), text


def _listed(connection: sqlite3.Connection) -> Iterable[tuple[object, ...]]:
    return connection.execute(f"{LISTED} main.sqlite_master")


def _objects(listed: Iterable[tuple[object, ...]], *, own: bool = True) -> Iterator[_Object]:
    as_texts = ((str(column or "") for column in row) for row in listed)  # damage may turn a text into bytes
    for kind, name, table, sql in as_texts:
        if not own and is_own(table) and is_own(name if kind != "index" else table):
            continue
        if kind == "index":
            yield "index of", table, _body(sql)
        elif kind == "trigger":
            yield kind, name, sql
        elif not name.startswith("sqlite_stat"):
            yield kind, name, _body(sql)


@lru_cache(1024)  # every open compares all objects, and they seldom differ between ledgers
def _body(sql: str) -> str:
    return " ".join(re.sub(_HEADER, r"\1 ", sql, count=1).split())


@cache
def _made(with_projections: bool) -> tuple[_Object, ...]:
    return tuple(_objects(blank(create_tables if with_projections else no_tables).objects))


@cache
def _made_of_projections() -> tuple[Counter[_Object], set[tuple[str, str]]]:
    """Return the objects that the projections add to those of the log, and their (kind, name)."""
    added = Counter(entry for entry in _made(True) if entry[0] != "view") - Counter(_made(False))
    return added, {(kind, name) for kind, name, _ in added}


def _optional() -> Counter[_Object]:
    """Return the objects that a file may have or lack.

    These are the vectors with a table that SQLite makes, the mark of a copy, the register of people's own projections,
    and the mark of a machine's copy of a shared log.
    """
    from ledger.log.shared.port import REPLICA_SCHEMA

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        vectors.make(fresh, bytes(4))
        fresh.executescript(SCHEMA + COPY_SCHEMA)
        registry.make(fresh)
        fresh.execute(REPLICA_SCHEMA)
        return Counter(_objects(_listed(fresh)))


def _is_of_a_rebuild(entry: _Object, own: set[str]) -> bool:
    """Return True for a table of a rebuild that is under way or was killed.

    Such tables exist next to the live ones; older ones may have any version.
    """
    kind, name, _ = entry
    if kind not in ("table", "index of"):
        return False
    return name.startswith(OLD) or (name.startswith(FRESH) and name.removeprefix(FRESH) in own)
