"""The file under an open ledger is its own: whoever renames, replaces or deletes it is noticed before the next answer."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from places import ROOT

from ledger import Ledger, StorageError

FACTS = [f"Fact number {number} of the day before." for number in range(40)]
OTHER = """
import sys
from ledger import Ledger
ledger = Ledger.open(sys.argv[1])
print(ledger.remember("A fact of somebody else.").id, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def ledger(path):
    with Ledger.open(path, actor="ada") as ledger:
        for fact in FACTS:
            ledger.remember(fact)
        yield ledger


def contents(path):
    with Ledger.open(path) as ledger:
        assert ledger.proof.verify().ok
        return sorted(memory.content for memory in ledger.memories.list().all())


def renamed(path):
    path.rename(path.with_name("elsewhere.db"))


def deleted(path):
    path.unlink()


def without_wal(path):
    path.with_name("memory.db-wal").unlink()


def without_index(path):
    path.with_name("memory.db-shm").unlink()


def replaced(path):
    other = path.with_name("other.db")
    Ledger.open(other).close()
    other.replace(path)


@pytest.mark.parametrize("mishap", [renamed, deleted, without_wal, without_index, replaced])
def test_a_write_is_refused_once_the_file_is_another(ledger, path, mishap):
    position = ledger.position
    mishap(path)
    for _ in range(2):
        with pytest.raises(StorageError, match="while it was open"):
            ledger.remember("This would be lost.")
    with pytest.raises(StorageError), ledger.batch():
        ledger.remember("This too.")
    assert ledger.position == position


@pytest.mark.parametrize("mishap", [renamed, deleted, without_wal, replaced])
def test_verify_and_doctor_tell_it(ledger, path, mishap):
    mishap(path)
    report = ledger.proof.verify()
    assert not report.ok
    assert any("while it was open" in str(problem) for problem in report.problems)
    examined = ledger.maintenance.doctor()
    assert not examined.ok
    assert any("while it was open" in finding.found for finding in examined.findings)


def test_what_was_answered_before_is_brought_into_a_renamed_file_by_close(ledger, path):
    renamed(path)
    with pytest.raises(StorageError):
        ledger.remember("This would be lost.")
    ledger.close()
    assert contents(path.with_name("elsewhere.db")) == sorted(FACTS)


def test_what_was_answered_before_a_deleted_wal_is_brought_into_the_file_by_close(ledger, path):
    without_wal(path)
    ledger.close()
    assert contents(path) == sorted(FACTS)


# --- copied over, which leaves every name and inode as it was -------------------------------------------------------


def another(path, before):
    with Ledger.open(path.with_name("other.db")) as other, other.batch():
        for fact in FACTS:
            other.remember(f"Elsewhere: {fact}")
    shutil.copyfile(path.with_name("other.db"), path)


def no_ledger(path, before):
    path.write_bytes(b"no database at all" * 1_000)


def emptied(path, before):
    path.write_bytes(b"")


def another_programs(path, before):
    with closing(sqlite3.connect(path.with_name("theirs.db"))) as theirs:
        theirs.execute("CREATE TABLE events (position INTEGER PRIMARY KEY)")
    shutil.copyfile(path.with_name("theirs.db"), path)


def a_copy_of_it_for_reading(path, before):
    with Ledger.open(path, readonly=True) as ledger:
        ledger.replay(path.with_name("copy.db"), until=2)
    shutil.copyfile(path.with_name("copy.db"), path)


COPIED = [another, another_programs, a_copy_of_it_for_reading, no_ledger, emptied]


@pytest.fixture
def older(path):
    """The file of a ledger that went on since: some of it in the file itself, some in the -wal."""
    with Ledger.open(path) as ledger:
        ledger.remember(FACTS[0])
    before = path.read_bytes()
    with Ledger.open(path) as ledger:
        for fact in FACTS[1:20]:
            ledger.remember(fact)
    return before


@pytest.mark.parametrize("copied", COPIED)
def test_a_write_is_refused_once_another_file_was_copied_over_this_one(path, older, copied):
    ledger = Ledger.open(path)
    for fact in FACTS[20:]:
        ledger.remember(fact)
    copied(path, older)
    put, wal = path.read_bytes(), path.with_name("memory.db-wal").read_bytes()
    for _ in range(2):
        with pytest.raises(StorageError, match=r"another file was copied over .* remove .*-wal"):
            ledger.remember("This would be lost.")
    ledger.close()
    assert (path.read_bytes(), path.with_name("memory.db-wal").read_bytes()) == (put, wal), "nothing was written"


@pytest.mark.parametrize("copied", [another, no_ledger, emptied])
def test_also_over_a_file_whose_log_is_still_in_its_wal(path, copied):
    ledger = Ledger.open(path)
    ledger.remember(FACTS[0])
    copied(path, b"")
    with pytest.raises(StorageError, match="copied over"):
        ledger.remember("This would be lost.")
    ledger.close()


def test_a_close_writes_nothing_into_what_was_copied_over(path, older):
    ledger = Ledger.open(path)
    ledger.remember(FACTS[20])
    another(path, older)
    put = path.read_bytes()
    ledger.close()
    assert path.read_bytes() == put
    shutil.copyfile(path, path.with_name("again.db"))  # this process may still have the other one open
    assert len(contents(path.with_name("again.db"))) == len(FACTS)


def test_a_checkpoint_by_another_tool_and_a_touched_file_are_no_mishap(path, older):
    with Ledger.open(path) as ledger, closing(sqlite3.connect(path)) as tool:
        ledger.remember(FACTS[20])
        tool.execute("PRAGMA wal_checkpoint(PASSIVE)")
        ledger.remember(FACTS[21])
        os.utime(path)
        ledger.remember(FACTS[22])
        assert ledger.proof.verify().ok
    assert len(contents(path)) == 23


def test_a_directory_that_became_a_file_is_told_as_any_other_mishap(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    ledger = Ledger.open(inside / "memory.db", actor="ada")
    ledger.remember(FACTS[0])
    inside.rename(tmp_path / "away")
    inside.write_text("a file")
    with pytest.raises(StorageError, match="while it was open"):
        ledger.remember("This would be lost.")
    assert not ledger.proof.verify().ok
    ledger.close()
    assert contents(tmp_path / "away" / "memory.db") == FACTS[:1]


def test_another_ledger_in_its_place_keeps_what_it_answered(ledger, path):
    away = path.parent / "away"
    away.mkdir()
    for end in ("", "-wal", "-shm"):
        path.with_name(f"memory.db{end}").rename(away / f"memory.db{end}")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", OTHER, str(path)], cwd=ROOT, text=True, **pipes) as other:
        assert other.stdout.readline().startswith("m_")
        ledger.close()
        assert path.with_name("memory.db-wal").exists()  # which the other needs, and a last close deletes by its name
        other.communicate("\n")
    assert contents(path) == ["A fact of somebody else."]
    assert contents(away / "memory.db") == sorted(FACTS)


def test_a_file_that_is_put_back_is_written_again(ledger, path):
    renamed(path)
    with pytest.raises(StorageError):
        ledger.remember("Too early.")
    path.with_name("elsewhere.db").rename(path)
    ledger.remember("In time.")
    ledger.close()
    assert contents(path) == sorted([*FACTS, "In time."])


def test_a_backup_a_rebuild_and_a_checkpoint_of_another_process_are_no_mishap(ledger, path):
    program = (
        "import sys; from ledger import Ledger\n"
        "with Ledger.open(sys.argv[1]) as x: x.maintenance.rebuild(); x.remember('Also this.')"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, check=True)
    ledger.maintenance.backup(path.with_name("copy.db"))
    ledger.maintenance.rebuild()
    ledger.remember("And this.")
    assert contents(path) == sorted([*FACTS, "Also this.", "And this."])
