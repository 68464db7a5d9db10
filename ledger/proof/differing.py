"""The description of the first row in which a table differs from a fold of the log."""

from __future__ import annotations

from projections.core.rows import Table, Values


def difference(table: Table, row: Values | None, expected: Values | None) -> str:
    """Return a description of how a row differs from the log; it quotes no text, which may be private."""
    key = len(table.key)
    if row is not None and expected is not None and row[:key] == expected[:key]:
        names = [name for name, live, folded in zip(table.names, row, expected, strict=True) if live != folded]
        return f"the table {table.name} differs from the log in {', '.join(names)} ({_named(table, row)})"
    if row is None or (expected is not None and _is_before(expected[:key], row[:key])):
        return f"the table {table.name} lacks a row that the log gives ({_named(table, expected)})"
    return f"the table {table.name} holds a row that the log does not give ({_named(table, row)})"


def _is_before(left: Values, right: Values) -> bool:
    try:
        return left < right
    except TypeError:  # a null, or a value of another type, in the key
        return False


def _named(table: Table, row: Values | None) -> str:
    values = zip(table.key, row or (), strict=False)
    return ", ".join(f"{name} {value}" if isinstance(value, int) else f"{name} …" for name, value in values)
