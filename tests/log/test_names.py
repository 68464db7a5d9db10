"""The names that the product itself gives files: no ledger has one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ledger import Ledger, RejectedError
from ledger.log.event_store import Factory
from ledger.proof.proving import verify_file

ENDS = [".lock", "-wal", "-shm", "-journal", ".part", ".part.lock", ".new.part", ".LOCK", "-WAL"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "memory.db"
    with Ledger.open(made) as ledger:
        ledger.remember("Tea is green.")
    return made


@pytest.mark.parametrize("end", ENDS)
def test_no_ledger_is_opened_or_made_under_a_name_of_the_products_own(path: Path, end: str) -> None:
    name = path.with_name(f"other.db{end}")
    with Ledger.open(path) as ledger:
        before = sorted(os.listdir(path.parent))
        for make in (ledger.maintenance.backup, ledger.maintenance.export_log, ledger.replay):
            with pytest.raises(RejectedError, match="name"):
                make(name)
        assert sorted(os.listdir(path.parent)) == before
        ledger.maintenance.backup(path.with_name("copy.db"))
        ledger.maintenance.export_log(path.with_name("lines"))
    for again in (
        lambda: Ledger.open(name),
        lambda: Ledger.recover(path.with_name("copy.db"), name),
        lambda: Ledger.import_log(path.with_name("lines"), name),
        lambda: Factory({"PERSISTENCE_MODULE": "ledger.log.event_store", "SQLITE_DBNAME": str(name)}),
    ):
        with pytest.raises(RejectedError, match="name"):
            again()
    assert not name.exists()


@pytest.mark.parametrize("end", [".lock", "-wal", "-shm", "-journal"])
def test_a_file_beside_an_open_ledger_is_no_ledger_also_for_reading(path: Path, end: str) -> None:
    with Ledger.open(path) as ledger:
        ledger.remember("Coffee is black.")
        beside = path.with_name(f"memory.db{end}")
        with pytest.raises(RejectedError, match="name"):
            Ledger.open(beside, readonly=True)
        with pytest.raises(RejectedError, match="name"):
            verify_file(beside)
        if beside.exists():
            (finding,) = [each for each in Ledger.doctor(beside).findings if each.level == "problem"]
            assert "lie next to a ledger" in finding.found
        ledger.remember("Milk is white.")
        assert ledger.proof.verify().ok
