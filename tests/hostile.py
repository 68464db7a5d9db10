"""Texts and values that mean harm: to an index, to a terminal, and to whoever decodes what came from outside."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

HOSTILE = (
    '"', "'", '"""', "NEAR(", "NEAR(tea coffee, 3)", "a:b", "content:tea", "*", "te*", "-tea", "^tea", "tea AND", "NOT tea",
    "OR OR", "(", ")", "{a b}: c", "tea\0coffee", "\0", "", " \t\n", "the of and a", "🙂", "🇩🇪👨‍👩‍👧",
    "مرحبا بالعالم", "你好世界", "x", "é", "ß", "_", "%", "\\", ";--", "'; DROP TABLE memories; --", "\u202etea",
    "\ufeff", "1e309", "+",
    "tea" * 5_000, "a " * 5_000, "/* tea",
)  # fmt: skip
EVIL = "a [bold red]b[/] :smile: \x1b[31mred\x1b]0;title\x07 \u202ertl \x9b2J \u2066 \r\x08 end"
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

HALF = "\ud800"  # half a character, which no UTF-8 can say
DEEP = "[" * 100_000

VALUES: tuple[Any, ...] = (  # what stands where a field of JSON wants something else
    *(HALF, f"caf{HALF}", "\udfff", "\0", "tea\0", "", " ", "\u202e", "x" * 5_000, "NaN", "-1", "9" * 400, "never"),
    *(
        "m_",
        "m_0000",
        "2026-06-q1",
        "9999-12-31T23:59:59-12:00",
        "2026-01-01T10:00:00",
        "[1]",
        "{",
        "null",
        "nothing",
        "ledger",
    ),
    *(None, True, False, 0, -1, 7, 2**31, 2**63, -(2**63) - 1, 10**40, 0.5, 1e308, math.nan, math.inf, -math.inf),
    *([], [None], [HALF], [[]], [1, "a"], [10**40], {}, {"a": HALF}, {HALF: 1}, {"a": {"b": [1]}}, {"": None}),
)
TEXTS = (  # what no decoder of JSON takes for what was wanted
    *("", " ", "null", "7", "1e999", "NaN", "-Infinity", "9" * 5_000, '"', '"x"', "[]", "{}", "[{}]", "[[]]", "{,}", "{'a': 1}"),
    *("\0", HALF, f'"{HALF}"', "\ufeff{}", DEEP, '{"a":' * 100_000, '{"a": 1, "a": 2}'),
    *('{"a": ', "[1, 2", '"\\ud800"', '{"\\ud800": "\\udfff"}'),
)  # fmt: skip
BYTES = (  # and what is not even a text
    *(
        b"",
        b"\n",
        b"\xff\xfe",
        b"\x00" * 64,
        b"\xef\xbb\xbf",
        b"\x80" * 200,
        b'{"a": "\xed\xa0\x80"}',
        b"\x1f\x8b\x08\x00broken",
    ),
    *(each.encode(errors="surrogatepass") for each in TEXTS),
)
CELLS = (  # what stands in a row of a table, as SQL says it
    *(
        "NULL",
        "x'80ff'",
        "CAST(x'80ff' AS TEXT)",
        "CAST(x'eda080' AS TEXT)",
        "char(0)",
        "''",
        "' '",
        "'none'",
        "'null'",
        "'[]'",
    ),
    *(
        "'{}'",
        "'[1'",
        "'[null]'",
        "'[[]]'",
        "'{\"a\":[1]}'",
        "'[\"\\ud800\"]'",
        "'{\"a\":1e999}'",
        "'\"x\"'",
    ),
    *(
        "'m_0000'",
        "'2026-06-q1'",
        "0",
        "-1",
        "7",
        "1.5",
        "9e999",
        "9223372036854775807",
        "-9223372036854775808",
        "replace(hex(zeroblob(2000)), '00', '[')",
    ),
)


def spoilt(value: object, values: tuple[Any, ...] = VALUES) -> Iterator[tuple[str, Any]]:
    """Yield (place, a copy of the value) with each of its fields replaced by each hostile value, left out, and one too many."""
    for place, parent, key in _fields(value):
        for number, hostile in enumerate(values):
            yield f"{place}={number}", _with(value, parent, key, hostile)
        yield f"{place} left out", _with(value, parent, key, ...)
    if isinstance(value, dict):
        yield "one too many", value | {HALF: HALF}


def _fields(value: object, place: tuple[Any, ...] = ()) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield ".".join(map(str, (*place, key))), place, key
        yield from _fields(inner, (*place, key))


def _with(value: Any, parent: tuple[Any, ...], key: Any, hostile: Any) -> Any:
    copy = json.loads(json.dumps(value))
    inside = copy
    for each in parent:
        inside = inside[each]
    if hostile is ...:
        del inside[key]
    else:
        inside[key] = hostile
    return copy
