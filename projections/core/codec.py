"""The columns of a table, and the functions between its rows and a struct, derived from the struct.

Each field of the struct is a column, in the order of the fields. The first column is the key. The first column alone is the
primary key if the table has a ``rowid``. Texts, numbers and booleans are stored as they are; all other types are stored as
JSON. A field that may be None is a column that may be NULL. An empty tuple is stored as NULL, except in the columns that are
listed in ``always``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from ledger.domain.errors import DamagedError
from projections.core.rows import Table, Values, check

S = TypeVar("S", bound=Struct)

_json = msgspec.json.encode
_STORED: dict[object, Any] = {
    str: str,
    int: int,
    bool: int,
    bytes: bytes,
    float: (float, int),
}  # all other types are stored as JSON
_PLAIN = {str: "TEXT", int: "INTEGER", bool: "INTEGER"}
_NAMES = {"values": "values_", "index": "chunk_index", "limit": "limit_"}  # reserved words of SQL


def columns(kind: type[Struct], always: Sequence[str] = (), *, rowid: bool = True) -> tuple[str, ...]:
    """Return the column definitions, in SQL, of the rows of a struct.

    Args:
        kind: The struct.
        always: Names of fields whose empty tuple is stored as JSON, not as NULL.
        rowid: False if the table has no ``rowid``; its primary key is then declared elsewhere.
    """
    key, *rest = (_column(name, type, optional, always=name in always) for name, type, optional in _types(kind))
    return (key.replace("NOT NULL", "PRIMARY KEY") if rowid else key, *rest)


def codec(kind: type[S], table: Table) -> tuple[Callable[[S], Values], Callable[[Sequence[object]], S]]:
    """Return the functions (encode, decode) between a struct and the rows of a table.

    The table may have more columns after those of the struct. The struct may have fields for these columns if the fields have
    defaults.
    """
    width, coded, flags = len(kind.__struct_fields__), [], []
    for place, ((_, type, optional), column) in enumerate(zip(_types(kind), table.columns, strict=False)):
        if type is bool:
            flags.append(place)
        elif type not in _PLAIN:
            null = None if optional or column.endswith("NOT NULL") else ()
            coded.append((place, null, msgspec.json.Decoder(type).decode))

    def encode(state: S) -> Values:
        row = list(astuple(state))
        for place, null, _ in coded:
            row[place] = _json(row[place]).decode() if row[place] != null else None
        for place in flags:
            row[place] = int(row[place])  # sqlite3 would convert a boolean more slowly
        return tuple(row)

    def decode(values: Sequence[Any]) -> S:
        check(table, values)
        row = list(values[:width])
        for place, null, read in coded:
            row[place] = read(row[place]) if row[place] is not None else null
        for place in flags:
            row[place] = bool(row[place])
        return kind(*row)

    return encode, decode


def reader(kind: type[S], table: str) -> Callable[[Sequence[Any]], S]:
    """Return a function from the values that a query reads, a column for each field, to the struct.

    The returned function raises ``DamagedError`` if a value is not of the type of its field. So a row that no fold wrote is
    reported by every query that shows it.
    """

    def read(values: Sequence[Any]) -> S:
        if wrong := _misfit(kind, tuple(map(type, values))):
            raise DamagedError(table, values[0], f"its {wrong} is of another type")
        return kind(*values)

    return read


@lru_cache(1024)
def _misfit(kind: type[Struct], types: tuple[type, ...]) -> str:
    """Return the first field whose stored type does not fit the type of the value, or "" if all fields fit."""
    for (name, declared, optional), stored in zip(_types(kind), types, strict=False):
        if stored is NoneType:
            if not optional:
                return name
        elif not issubclass(stored, _STORED.get(declared, str)):
            return name
    return ""


def _column(name: str, type: Any, optional: bool, *, always: bool) -> str:
    null = optional or (get_origin(type) is tuple and not always)
    return f"{_NAMES.get(name, name)} {_PLAIN.get(type, 'TEXT')}{'' if null else ' NOT NULL'}"


@cache
def _types(kind: type[Struct]) -> list[tuple[str, Any, bool]]:
    """Return (name, type without None, True if the field may be None) of each field."""
    return [(name, *_type(kind.__annotations__[name], kind.__module__)) for name in kind.__struct_fields__]


@cache
def _type(annotation: str, module: str) -> tuple[Any, bool]:
    """Return the type that an annotation names, without None, and True if the annotation allows None.

    Annotations are evaluated here because ``msgspec.structs.fields`` takes most of a millisecond for a struct, at every start.
    """
    annotated = eval(annotation, vars(sys.modules[module]))
    types = get_args(annotated) if isinstance(annotated, UnionType) else (annotated,)
    (type,) = (alternative for alternative in types if alternative is not NoneType)
    return type, NoneType in types
