"""What the logger ``ledger`` says: ids, types and times, and no text of anybody."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from writes import CALLS, fill

from ledger import LedgerError
from ledger.api import Ledger

WORDS = (  # of what the calls say and of who says it; each has a letter that ids have not
    *(
        "coffee",
        "bicycle",
        "marathon",
        "oslo",
        "lighthouse",
        "atlas",
        "drinks",
        "boat",
        "kite",
        "porto",
        "bridge",
        "zoe",
    ),
    *("fjord", "planning", "roast", "helper", "hills", "kept apart"),
)


def told(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(f"{each.name} {each.levelname} {each.getMessage()}" for each in caplog.records)


@pytest.mark.slow
def test_every_append_is_told_by_its_types_and_no_text_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ledger")
    with Ledger.open(tmp_path / "memory.db", user="zoe", actor="planning") as ledger:
        the: dict[str, Any] = fill(ledger)
        for call in CALLS.values():
            with suppress(LedgerError):  # one may be in the way of another
                call(ledger, the, {"client": "drinks"})
        ledger.maintenance.rebuild()
        ledger.erase(ledger.remember("Something kept apart.").id, reason="about a kite")
    text = told(caplog)
    assert "ledger.core.command DEBUG remember: MemoryCaptured at" in text
    assert "INFO rebuilt from" in text and "INFO the erasure " in text and "is completed" in text
    assert [word for word in WORDS if word in text.lower()] == []
    assert {each.name.partition(".")[0] for each in caplog.records} == {"ledger"}


def test_nothing_is_told_where_nobody_listens(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.remember("The lamp is on.")
        ledger.maintenance.rebuild()
    assert capfd.readouterr() == ("", "")


def test_damage_is_a_warning_that_names_the_table(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        fact = ledger.remember("The lamp is on.")
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("UPDATE memories SET confidence = 'lamp'")
        raw.commit()
    caplog.set_level(logging.INFO, "ledger")
    with Ledger.open(path) as ledger, pytest.raises(LedgerError):
        ledger.memories.get(fact.id)
    assert "WARNING damaged: a row of the table memories" in told(caplog) and "lamp" not in told(caplog)
