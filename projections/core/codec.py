"""Derives the columns of a table from the struct that its rows are read as, and the functions from one to the other.

Every field is a column, in the order of the struct, and the first is the key: by itself, where rows have a ``rowid``. Texts,
numbers and booleans are stored as they are, everything else as JSON. What may be None may be NULL; an empty tuple is NULL
too, but in the columns that are ``always`` written.
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
}  # everything else as JSON
_PLAIN = {str: "TEXT", int: "INTEGER", bool: "INTEGER"}
_NAMES = {"values": "values_", "index": "chunk_index", "limit": "limit_"}  # they are words of SQL


def columns(kind: type[Struct], always: Sequence[str] = (), *, rowid: bool = True) -> tuple[str, ...]:
    """The columns of the rows of a struct, in SQL."""
    key, *others = (_column(*each, always=each[0] in always) for each in _types(kind))
    return (key.replace("NOT NULL", "PRIMARY KEY") if rowid else key, *others)


def codec(kind: type[S], table: Table) -> tuple[Callable[[S], Values], Callable[[Sequence[object]], S]]:
    """(encode, decode) between a struct and the rows of its table, or of one with the same columns and more after them.

    The struct may have fields for those too, with a default.
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
            row[place] = int(row[place])  # as it is stored; sqlite3 is slow in making it that
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
    """From what a query reads of a table, a column for each field of a struct, to the struct.

    ``DamagedError`` where a value is not of its field's type: so a row that no fold wrote is told wherever it is shown.
    """

    def read(values: Sequence[Any]) -> S:
        if wrong := _misfit(kind, tuple(map(type, values))):
            raise DamagedError(table, values[0], f"its {wrong} is of another type")
        return kind(*values)

    return read


@lru_cache(1024)
def _misfit(kind: type[Struct], types: tuple[type, ...]) -> str:
    """The first field that does not take a value of the type that is stored for it; "" where all do."""
    for (name, wanted, optional), given in zip(_types(kind), types, strict=False):
        if given is NoneType:
            if not optional:
                return name
        elif not issubclass(given, _STORED.get(wanted, str)):
            return name
    return ""


def _column(name: str, type: Any, optional: bool, *, always: bool) -> str:
    null = optional or (get_origin(type) is tuple and not always)
    return f"{_NAMES.get(name, name)} {_PLAIN.get(type, 'TEXT')}{'' if null else ' NOT NULL'}"


@cache
def _types(kind: type[Struct]) -> list[tuple[str, Any, bool]]:
    """(name, type without None, whether it may be None) of every field."""
    return [(name, *_type(kind.__annotations__[name], kind.__module__)) for name in kind.__struct_fields__]


@cache
def _type(annotation: str, module: str) -> tuple[Any, bool]:
    """Each annotation of a module once: ``msgspec.structs.fields`` would take most of a millisecond a struct, at every start."""
    annotated = eval(annotation, vars(sys.modules[module]))
    types = get_args(annotated) if isinstance(annotated, UnionType) else (annotated,)
    (type,) = (each for each in types if each is not NoneType)
    return type, NoneType in types
