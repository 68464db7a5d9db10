"""Rows for other programs: CSV as the csv module of Python reads it back, and JSON, one object a line."""

from __future__ import annotations

import csv as written
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from math import isinf

from msgspec import to_builtins

from ledger.cli.calling import Call, asked_of, opened
from ledger.cli.output import say
from ledger.cli.terminal_text import as_json, visible
from ledger.types import Page


def show(found: object, *, csv: bool, quiet: bool, columns: Sequence[str] = ()) -> None:
    """The first row of CSV names the columns, also where nothing follows.

    Texts are as they are stored: only on a terminal, what would move or colour it is shown as its escape.
    """
    rows = found if isinstance(found, Iterable) else ()
    if csv:
        _show_csv(rows, columns, quiet=quiet)
        return
    for each in rows:
        print(as_json(to_builtins(each), indent=None))


def _show_csv(rows: Iterable[object], columns: Sequence[str], *, quiet: bool) -> None:
    out, safe = None, sys.stdout.isatty()
    for each in rows:
        plain: object = to_builtins(each)
        row = plain if isinstance(plain, Mapping) else {"value": plain}
        if out is None:
            out = written.writer(sys.stdout, lineterminator="\n")
            out.writerow(visible(name) if safe else name for name in row)
        cells = map(_cell, row.values())
        out.writerow(visible(cell) if safe else cell for cell in cells)
    if out is None:
        if columns:
            print(",".join(columns))
        say("nothing found", quiet=quiet)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def query(call: Call, *, values: Sequence[str] = ()) -> object:
    """Ask in SQL.

    Args:
        values: For each ? in the question, in order; may be given again. What is a number in JSON is one.
    """
    given = call.arguments
    with opened(call) as ledger:
        rows = asked_of(call, ledger).query(given.pop("sql"), *map(_number, values), **given)
    return Page([{name: _finite(value) for name, value in row.items()} for row in rows])


def _finite(value: object) -> object:
    """JSON has no infinite number: its word, as CSV has it."""
    return json.dumps(value) if isinstance(value, float) and isinf(value) else value


def _number(text: str) -> str | int | float:
    return json.loads(text) if re.fullmatch(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][+-]?\d{1,3})?", text, re.ASCII) else text
