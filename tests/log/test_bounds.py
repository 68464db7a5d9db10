"""What a failing disk, or a reader that stays, does not hold up: the lease of a rebuild, and the size of the -wal."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import needs
import probe
import pytest

from ledger import Ledger, StorageError
from ledger.care import doctor
from ledger.core.settings import Settings
from ledger.log import sqlite_files
from projections.core.rebuild import Rebuild

LIMIT = 4 * 1024 * 1024
TEXT = "The jar stands beside the tin. " * 8_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def fill(ledger: Ledger, count: int) -> None:
    for number in range(count):
        ledger.capture("Well?", f"{number} {TEXT}", reinforce=False)


def wal(path: Path) -> int:
    return os.stat(f"{path}-wal").st_size


def test_a_rebuild_that_met_a_failing_disk_gives_its_lease_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger.open(path) as ledger:
        ledger.remember("The kettle is blue.")
        store = probe.store(ledger)
        transact = store.transact

        def failing(*_: object, **__: object) -> object:
            raise StorageError("the disk failed")

        def fails(*_: object) -> int:
            store.transact = failing
            raise StorageError("the disk failed to write")

        with monkeypatch.context() as patch:
            patch.setattr(Rebuild, "_catch_up", fails)
            with pytest.raises(StorageError, match="failed to write"):
                ledger.maintenance.rebuild()
        store.transact = transact
        assert ledger.maintenance.rebuild().suspended == ()


def test_a_writer_waits_for_readers_so_that_the_wal_stays_near_its_limit(path: Path) -> None:
    """There is always somebody who reads, which keeps the -wal from being used again from its beginning."""
    ended = threading.Event()
    with Ledger.open(path, settings=Settings.load(path, wal_mib=8)) as ledger:

        def read() -> None:
            while not ended.is_set():
                with probe.read(ledger) as connection:
                    connection.execute("SELECT count(*) FROM events").fetchall()
                    ended.wait(0.02)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for each in readers:
            each.start()
        try:
            fill(ledger, 100)
            assert wal(path) < 3 * LIMIT
        finally:
            ended.set()
            for each in readers:
                each.join()


READER = """
import sys, sqlite3
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN"); held.execute("SELECT count(*) FROM events").fetchall()
print("reads", flush=True)
sys.stdin.readline()
"""


@needs.list_of_open_files
def test_the_doctor_names_the_reader_that_keeps_the_wal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_files, "HELP_SECONDS", 0.01)
    monkeypatch.setattr(doctor, "WAL_BYTES", LIMIT)
    with Ledger.open(path, settings=Settings.load(path, wal_mib=4)) as ledger:
        fill(ledger, 1)
        command = [sys.executable, "-c", READER, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None and reader.stdout.readline() == "reads\n"
            fill(ledger, 30)
            (told,) = [each for each in ledger.maintenance.doctor().findings if each.what == "-wal"]
            assert wal(path) > LIMIT and told.level == "warning" and f"process {reader.pid} (" in told.found
            reader.communicate("\n")
        fill(ledger, 8)
        assert wal(path) < LIMIT
