"""How the rows of a table differ from those that a fold of the log gives."""

from __future__ import annotations

from projections.core.rows import Table, Values


def difference(table: Table, found: Values | None, wanted: Values | None) -> str:
    """How the first row that differs does so; no texts, for they may be anybody's."""
    key = len(table.key)
    if found is not None and wanted is not None and found[:key] == wanted[:key]:
        names = [name for name, one, other in zip(table.names, found, wanted, strict=True) if one != other]
        return f"the table {table.name} says otherwise than the log in {', '.join(names)} ({_named(table, found)})"
    if found is None or (wanted is not None and _is_before(wanted[:key], found[:key])):
        return f"the table {table.name} lacks what the log gives ({_named(table, wanted)})"
    return f"the table {table.name} holds what the log does not give ({_named(table, found)})"


def _is_before(one: Values, other: Values) -> bool:
    try:
        return one < other
    except TypeError:  # a null, or a value of another type, in the key
        return False


def _named(table: Table, row: Values | None) -> str:
    values = zip(table.key, row or (), strict=False)
    return ", ".join(f"{name} {value}" if isinstance(value, int) else f"{name} …" for name, value in values)
