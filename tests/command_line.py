"""The command line as tests call it: in this process, without the settings of whoever runs them."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from ledger.cli import app


class Result(NamedTuple):
    """The exit code and the output of a command."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


def run(
    *arguments: str,
    db: str | Path | None = None,
    stdin: str | bytes | None = None,
    environment: dict[str, str] | None = None,
) -> Result:
    where = [] if db is None else ["--db", str(db)]
    given = stdin.encode("utf-8") if isinstance(stdin, str) else stdin or b""
    streams = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n", write_through=True) for _ in range(2))
    out, err = streams  # as the command makes them, on every system
    variables = {name: value for name, value in os.environ.items() if name != "LEDGER_PATH"}
    with (
        mock.patch.dict(os.environ, variables | {"COLUMNS": "80", **(environment or {})}, clear=True),
        mock.patch.multiple(sys, stdin=io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"), stdout=out, stderr=err),
    ):
        code = app.run([*arguments, *where])
    texts = [each.buffer.getvalue().decode("utf-8") for each in (out, err)]  # type: ignore[attr-defined]
    result = Result(code, *texts)
    assert "Traceback" not in result.output
    return result


def answer(*arguments: str, db: str | Path, stdin: str | bytes | None = None) -> Any:
    """Run a command with ``--json`` and return its decoded answer, or the items if the answer is a page."""
    result = run(*arguments, "--json", db=db, stdin=stdin)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    return found["items"] if isinstance(found, dict) and found.keys() == {"items", "next"} else found
