"""Derives the columns of a table from the struct that its rows are read as, and the functions from one to the other.

Every field is a column, in the order of the struct, and the first is the key. Texts, numbers and booleans are stored as they
are, everything else as JSON. What may be None may be NULL; an empty tuple is NULL too, but in the columns that are ``always``
written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, fields

from projections.core.rows import Table, Values, check

S = TypeVar("S", bound=Struct)

_json = msgspec.json.encode
_PLAIN = {str: "TEXT", int: "INTEGER", bool: "INTEGER"}
_NAMES = {"position": "from_position", "values": "said", "index": "chunk_index"}  # the last two are words of SQL


def columns(kind: type[Struct], always: Sequence[str] = ()) -> tuple[str, ...]:
    """The columns of the rows of a struct, in SQL."""
    key, *others = _types(kind)
    return (f"{key[0]} {_PLAIN[key[1]]} PRIMARY KEY", *(_column(*each, always=each[0] in always) for each in others))


def codec(kind: type[S], table: Table) -> tuple[Callable[[S], Values], Callable[[Sequence[Any]], S]]:
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
        row: list[Any] = list(astuple(state))
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


def _column(name: str, type: Any, optional: bool, *, always: bool) -> str:
    null = optional or (get_origin(type) is tuple and not always)
    return f"{_NAMES.get(name, name)} {_PLAIN.get(type, 'TEXT')}{'' if null else ' NOT NULL'}"


@cache
def _types(kind: type[Struct]) -> list[tuple[str, Any, bool]]:
    """(name, type without None, whether it may be None) of every field."""
    found = []
    for field in fields(kind):
        types = get_args(field.type) if isinstance(field.type, UnionType) else (field.type,)
        (type,) = (each for each in types if each is not NoneType)
        found.append((field.name, type, NoneType in types))
    return found
