"""The output of rows for other programs: CSV as Python's csv module reads it, and JSON with one object a line."""

from __future__ import annotations

import csv as csv_files
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from math import isinf

from msgspec import to_builtins

from ledger.cli.calling import ShellCall, ledger_as_of, opened
from ledger.cli.output import say
from ledger.cli.terminal_text import as_json, visible
from ledger.types import Page


def show(answer: object, *, csv: bool, quiet: bool, columns: Sequence[str] = ()) -> None:
    """Print the rows of an answer; the first row of CSV names the columns, also if no row follows.

    Texts are printed as stored. On a terminal, characters that would move or colour the text are printed as escapes.
    """
    rows = answer if isinstance(answer, Iterable) else ()
    if csv:
        _show_csv(rows, columns, quiet=quiet)
        return
    for row in rows:
        print(as_json(to_builtins(row), indent=None))


def _show_csv(rows: Iterable[object], columns: Sequence[str], *, quiet: bool) -> None:
    out, safe = None, sys.stdout.isatty()
    for answer in rows:
        plain: object = to_builtins(answer)
        row = plain if isinstance(plain, Mapping) else {"value": plain}
        if out is None:
            out = csv_files.writer(sys.stdout, lineterminator="\n")
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


def query(call: ShellCall, *, values: Sequence[str] = ()) -> object:
    """Run a query in SQL.

    Args:
        values: The values for each ? in the query, in order; may be given again. A JSON number becomes a number.
    """
    arguments = call.arguments
    with opened(call) as ledger:
        rows = ledger_as_of(call, ledger).query(arguments.pop("sql"), *map(_number, values), **arguments)
    return Page([{name: _finite(value) for name, value in row.items()} for row in rows])


def _finite(value: object) -> object:
    """Return a value that JSON can hold: an infinite number becomes the word Infinity, as in CSV."""
    return json.dumps(value) if isinstance(value, float) and isinf(value) else value


def _number(text: str) -> str | int | float:
    return json.loads(text) if re.fullmatch(r"-?(0|[1-9]\d{0,17})(\.\d+)?([eE][+-]?\d{1,3})?", text, re.ASCII) else text
