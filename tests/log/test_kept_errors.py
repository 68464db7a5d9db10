"""An error that somebody keeps, with its frames, keeps no snapshot of the ledger open."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ledger import Ledger, PastLedger
from projections.core.subjects import Family
from projections.views import audit

READS: dict[str, tuple[object, str, Callable[[Ledger | PastLedger], object]]] = {
    "memories.list": (Family, "from_row", lambda ledger: ledger.memories.list()),
    "interactions.list": (Family, "from_row", lambda ledger: ledger.interactions.list()),
    "history.audit": (audit, "_entry", lambda ledger: ledger.history.audit()),
}


@pytest.mark.parametrize("then", [False, True])
@pytest.mark.parametrize("name", READS)
def test_an_error_amid_rows_that_somebody_keeps_leaves_the_wal_to_be_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, then: bool
) -> None:
    module, function, read = READS[name]
    with Ledger.open(tmp_path / "memory.db") as ledger:
        for number in range(3):
            ledger.remember(f"The jar {number} is blue.")
            ledger.capture(f"Which jar is number {number}?")
        past = ledger.at(ledger.position) if then else ledger
        read(past)
        monkeypatch.setattr(module, function, broken)
        with pytest.raises(RuntimeError) as kept:
            read(past)
        monkeypatch.undo()
        ledger.remember("The jar 3 is red.")
        with closing(sqlite3.connect(tmp_path / "memory.db", timeout=0)) as other:
            assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
        assert kept.value.__traceback__ is not None


def broken(*_: object) -> None:
    raise RuntimeError("amid the rows")
