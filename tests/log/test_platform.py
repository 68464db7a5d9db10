"""What differs between operating systems: the same rules hold on each."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from places import ROOT

from ledger import Ledger
from ledger.log import platform
from ledger.log.file_lock import FileLock, lock_of

HELD = """if True:
    import sys
    from ledger.log.file_lock import FileLock
    with FileLock(sys.argv[1]).hold(30.0):
        print("held", flush=True)
        sys.stdin.read()
"""


def child(code: str, *words: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_a_lock_keeps_another_process_out_until_its_holder_is_killed(tmp_path: Path) -> None:
    lock = FileLock(str(tmp_path / "memory.db.lock"))
    with child(HELD, lock.path) as holder:
        assert holder.stdout is not None and holder.stdout.readline().strip() == b"held"
        assert not lock.acquire(0)
        holder.kill()
    assert lock.acquire(30.0)
    lock.release()


def test_a_locked_file_can_still_be_read(tmp_path: Path) -> None:
    lock = FileLock(str(tmp_path / "memory.db.lock"))
    with lock.hold(0):
        Path(lock.path).write_bytes(b"a note")
        assert Path(lock.path).read_bytes() == b"a note"


def test_a_lock_file_is_removed_by_its_last_release(tmp_path: Path) -> None:
    lock = FileLock(str(tmp_path / "memory.db.lock"))
    with lock.hold(0):
        with lock.hold(0):
            lock.remove()
        assert os.path.exists(lock.path)
    assert not os.path.exists(lock.path)
    with lock.hold(0):
        pass
    assert os.path.exists(lock.path)


def test_names_that_the_system_takes_for_one_have_one_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    assert (lock_of(path) is lock_of(path.upper())) == (os.path.normcase("A") == "a")


def test_a_process_runs_until_it_ends() -> None:
    with child("input()") as process:
        assert platform.is_running(process.pid)
        process.communicate(b"\n")
    assert not platform.is_running(process.pid)
    assert platform.is_running(os.getpid())


def test_a_file_is_put_only_where_there_is_none(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    new.write_text("new", encoding="utf-8")
    old.write_text("old", encoding="utf-8")
    with pytest.raises(FileExistsError):
        platform.put(str(new), str(old))
    assert (new.read_text(encoding="utf-8"), old.read_text(encoding="utf-8")) == ("new", "old")
    platform.put(str(new), str(tmp_path / "free"))
    assert not new.exists() and (tmp_path / "free").read_text(encoding="utf-8") == "new"
    platform.sync(str(tmp_path / "free"))
    platform.move(str(tmp_path / "free"), str(old))
    assert [path.name for path in tmp_path.iterdir()] == ["old"] and old.read_text(encoding="utf-8") == "new"


@pytest.mark.parametrize("name", ["memory.db", "a b.db", "50%.db", "#1.db", "ü.db", "a&mode=ro.db"])
def test_the_uri_of_a_file_opens_that_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE here (x)")
    with closing(sqlite3.connect(platform.file_uri(str(path), "mode=ro"), uri=True)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("here",)]


def test_the_memory_of_this_process_is_told_in_bytes() -> None:
    assert 10_000_000 < platform.peak_memory_bytes() < 100_000_000_000


def test_the_name_of_the_system_is_asked_for_in_one_place() -> None:
    asks = re.compile(r"\bsys\.platform\b|\bos\.name\b|\bplatform\.system\b|import (?:fcntl|resource|msvcrt|winreg)\b")
    files = [*ROOT.glob("ledger/**/*.py"), *ROOT.glob("projections/**/*.py")]
    asking = {path.relative_to(ROOT).as_posix() for path in files if asks.search(path.read_text(encoding="utf-8"))}
    assert asking == {"ledger/log/platform.py", "ledger/doors/installing.py"}


# --- files for scratch work ----------------------------------------------------------------------------------------------

WORKING = """if True:
    import sys
    from ledger.log import platform
    path = platform.new_scratch_file(sys.argv[1])
    open(path, "w").write("The user lives in Lisbon.")
    print(path, flush=True)
    sys.stdin.read()
"""


def left_by_a_killed_process(directory: Path) -> Path:
    with child(WORKING, directory) as process:
        assert process.stdout is not None
        path = Path(os.fsdecode(process.stdout.readline().strip()))
        process.kill()
    assert "Lisbon" in path.read_text(encoding="utf-8")
    return path


def test_an_open_for_writing_sweeps_the_scratch_files_of_killed_processes(tmp_path: Path) -> None:
    left = left_by_a_killed_process(tmp_path)
    with Ledger.open(tmp_path / "memory.db"):
        assert not left.exists()
    left = left_by_a_killed_process(tmp_path)
    with Ledger.open(tmp_path / "memory.db", readonly=True):
        assert left.exists()


def test_an_erasure_sweeps_the_scratch_files_of_killed_processes(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        memory = ledger.remember("The user lives in Lisbon.")
        left = left_by_a_killed_process(tmp_path)
        ledger.erase(memory.id)
        assert not left.exists()


def test_the_scratch_files_of_processes_at_work_are_not_swept(tmp_path: Path) -> None:
    with child(WORKING, tmp_path) as process:
        assert process.stdout is not None
        theirs = Path(os.fsdecode(process.stdout.readline().strip()))
        ours = Path(platform.new_scratch_file(str(tmp_path)))
        others = tmp_path / ".shadow-play.txt"
        others.touch()
        with Ledger.open(tmp_path / "memory.db"):
            assert theirs.exists() and ours.exists() and others.exists()
        process.communicate()
    platform.remove_scratch_file(str(ours))
    earlier = tmp_path / f".shadow-{os.getpid()}-00"  # of a killed process whose number this one has now
    earlier.touch()
    with Ledger.open(tmp_path / "memory.db"):
        assert not theirs.exists() and not ours.exists() and not earlier.exists()
