"""Projections of a user's own against a fold from zero next to them, where their classes are at hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import zip_longest

from ledger.domain.errors import SuspendedError
from ledger.engine.own import fold_apart
from ledger.proof.differing import difference
from projections.core import own_registry as registry
from projections.core import shadow
from projections.core.own import Definition
from projections.core.own_registry import Entry
from projections.core.rows import Connection


def compare(
    connection: Connection,
    path: str,
    given: Mapping[str, Definition],
    last: int,
    problem: Callable[[str], None],
    warn: Callable[[str], None],
) -> list[str]:
    """Which of them were compared; of each other one a warning says why it was not."""
    compared = []
    for name, entry in registry.entries(connection).items():
        if why := _not_compared(entry, given.get(name), last):
            warn(f"{name}, a projection of somebody's own, {why}, and was not compared")
            continue
        compared.append(name)
        with shadow.scratch(os.path.dirname(path)) as copy:
            try:
                copy.execute("BEGIN")
                fold_apart(connection, copy, given[name], last)
            except SuspendedError as error:
                problem(f"the projection {name}: {error}")
                continue
            for table in given[name].tables:
                pairs = zip_longest(shadow.tables(connection, table, "main."), shadow.tables(copy, table))
                if wrong := next((difference(table, *pair) for pair in pairs if pair[0] != pair[1]), None):
                    problem(f"the projection {name}: {wrong}")
    return compared


def _not_compared(entry: Entry, wanted: Definition | None, last: int) -> str:
    if wanted is None:
        return "has its class not at hand"
    if not entry.fits(wanted):
        return "is of another version than its class"
    if entry.suspended_at is not None:
        return f"is suspended at position {entry.suspended_at}"
    return f"is {last - entry.position:,} events behind" if entry.position != last else ""
