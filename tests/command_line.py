"""The command line as tests call it: in this process, without the settings of whoever runs them."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from ledger.cli.app import app


def run(*arguments: str, db: str | Path | None = None, stdin: str | bytes | None = None) -> Result:
    where = [] if db is None else ["--db", str(db)]
    environment = {"MEMORY_LEDGER_DB": None, "COLUMNS": "80"}
    result = CliRunner(env=environment).invoke(app, [*arguments, *where], input=stdin)
    assert "Traceback" not in result.output
    return result


def answer(*arguments: str, db: str | Path, stdin: str | bytes | None = None) -> object:
    """What it tells programs."""
    result = run(*arguments, "--json", db=db, stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
