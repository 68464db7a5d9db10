"""The comparison of projections of a user's own with a fold from the start of the log."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from itertools import zip_longest

from ledger.core.own import fold_apart
from ledger.domain.errors import SuspendedError
from ledger.proof.differing import difference
from projections.core import own_registry as registry
from projections.core import shadow
from projections.core.own import Definition
from projections.core.own_registry import OwnProjectionRecord
from projections.core.rows import Connection


def compare(
    connection: Connection,
    path: str,
    definitions: Mapping[str, Definition],
    last: int,
    problem: Callable[[str], None],
    warn: Callable[[str], None],
) -> list[str]:
    """Return the names of the compared projections; a warning says why each other projection was not compared."""
    compared = []
    for name, entry in registry.entries(connection).items():
        if why := _not_compared(entry, definitions.get(name), last):
            warn(f"{name}, a projection that the user added, {why}, so it was not compared")
            continue
        compared.append(name)
        shadow.in_scratch(os.path.dirname(path), partial(_compare, connection, definitions[name], last, problem))
    return compared


def _compare(
    connection: Connection, definition: Definition, last: int, problem: Callable[[str], None], copy: Connection
) -> None:
    try:
        copy.execute("BEGIN")
        fold_apart(connection, copy, definition, last)
    except SuspendedError as error:
        problem(f"the projection {definition.name}: {error}")
        return
    for table in definition.tables:
        pairs = zip_longest(shadow.tables(connection, table, "main."), shadow.tables(copy, table))
        if wrong := next((difference(table, *pair) for pair in pairs if pair[0] != pair[1]), None):
            problem(f"the projection {definition.name}: {wrong}")


def _not_compared(entry: OwnProjectionRecord, definition: Definition | None, last: int) -> str:
    if definition is None:
        return "was opened without its class"
    if not entry.fits(definition):
        return "has another version in the file than its class"
    if entry.suspended_at is not None:
        return f"is suspended at position {entry.suspended_at}"
    return f"is {last - entry.position:,} events behind" if entry.position != last else ""
