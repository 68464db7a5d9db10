"""The file under an open ledger is its own: whoever renames, replaces or deletes it is noticed before the next answer."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import needs
import probe
import pytest
from places import ROOT

from ledger import Ledger, RejectedError, StorageError
from ledger.log import file_lock, sqlite_files

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


def contents_of_another_process(path):
    program = (
        "import sys; from ledger import Ledger; ledger = Ledger.open(sys.argv[1]); assert ledger.proof.verify().ok\n"
        "print(*(memory.content for memory in ledger.memories.list().all()), sep='|', end='')"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return sorted(done.stdout.decode().split("|"))


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


@needs.open_files_that_move
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


@needs.open_files_that_move
@pytest.mark.parametrize("mishap", [renamed, deleted, without_wal, replaced])
def test_verify_and_doctor_tell_it(ledger, path, mishap):
    mishap(path)
    report = ledger.proof.verify()
    assert not report.ok
    assert any("while it was open" in str(problem) for problem in report.problems)
    examined = ledger.maintenance.doctor()
    assert not examined.ok
    assert any("while it was open" in finding.found for finding in examined.findings)


@needs.open_files_that_move
def test_what_was_answered_before_is_brought_into_a_renamed_file_by_close(ledger, path):
    renamed(path)
    with pytest.raises(StorageError):
        ledger.remember("This would be lost.")
    ledger.close()
    assert contents(path.with_name("elsewhere.db")) == sorted(FACTS)


@needs.open_files_that_move
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


def an_older_copy_of_it(path, before):
    path.write_bytes(before)


def another_programs(path, before):
    with closing(sqlite3.connect(path.with_name("theirs.db"))) as theirs:
        theirs.execute("CREATE TABLE events (position INTEGER PRIMARY KEY)")
    shutil.copyfile(path.with_name("theirs.db"), path)


def a_copy_of_it_for_reading(path, before):
    with Ledger.open(path, readonly=True) as ledger:
        ledger.replay(path.with_name("copy.db"), until=2)
    shutil.copyfile(path.with_name("copy.db"), path)


COPIED = [another, an_older_copy_of_it, another_programs, a_copy_of_it_for_reading, no_ledger, emptied]


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


def checkpointed(path):
    with closing(sqlite3.connect(path)) as tool:
        tool.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()


@pytest.mark.parametrize("change", [checkpointed, os.utime])
def test_another_programs_change_stops_writing_until_the_ledger_is_opened_again(path, older, change):
    ledger = Ledger.open(path)
    ledger.remember(FACTS[20])
    change(path)
    for _ in range(2):
        with pytest.raises(StorageError, match=r"written by another program .* open the ledger again"):
            ledger.remember("This would be lost.")
    assert "written by another program" in str(ledger.maintenance.doctor().findings[0].found)
    ledger.close()
    with Ledger.open(path) as again:
        again.remember(FACTS[21])
        program = "import sys; from ledger import Ledger; Ledger.open(sys.argv[1]).remember('Also this.')"
        subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, check=True)
        again.remember(FACTS[22])
    assert contents(path) == sorted([*FACTS[:23], "Also this."])


@needs.copying
def test_an_older_copy_by_another_process_stops_every_write_after_it(path, older):
    path.with_name("older.db").write_bytes(older)
    ledger, acknowledged = Ledger.open(path), 0
    for fact in FACTS[20:30]:
        ledger.remember(fact)
    copied = subprocess.run(["cp", path.with_name("older.db"), path], check=True)
    assert copied.returncode == 0
    for fact in FACTS[30:]:
        with pytest.raises(StorageError, match=r"another file was copied over it.* remove .*-wal"):
            ledger.remember(fact)
            acknowledged += 1
    with pytest.raises(StorageError), ledger.batch():
        ledger.remember("This too.")
    ledger.close()
    assert acknowledged == 0 and path.read_bytes() == older
    with pytest.raises(RejectedError, match="older than its last checkpoint"):
        Ledger.open(path)
    for end in ("-wal", "-shm"):
        path.with_name(f"memory.db{end}").unlink()
    assert contents_of_another_process(path) == FACTS[:1]


def test_an_older_copy_between_two_checkpoints_of_a_long_run_is_noticed(path, older, monkeypatch):
    monkeypatch.setattr(sqlite_files, "CHECKPOINT_BYTES", 64 * 1024)
    monkeypatch.setattr(sqlite_files, "LOOK_BYTES", 1)
    ledger = Ledger.open(path)
    for number in range(60):
        ledger.remember(f"Fact {number} of a long run.")
    noted = file_lock.read_note(f"{path}.lock")
    assert noted.number > 4 and not noted.begun and noted.position > 20 and noted.written == file_lock.written(path)
    shutil.copyfile(path, path.with_name("older.db"))
    for number in range(60, 120):
        ledger.remember(f"Fact {number} of a long run.")
    shutil.copyfile(path.with_name("older.db"), path)
    with pytest.raises(StorageError, match="copied over"):
        ledger.remember("This would be lost.")
    ledger.close()


@needs.copying
def test_a_copy_that_lies_under_another_process_too_stops_both(path, older):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    path.with_name("older.db").write_bytes(older)
    program = """
import sys
from ledger import Ledger, StorageError
ledger = Ledger.open(sys.argv[1])
ledger.remember("A fact of the other process.")
print("ready", flush=True)
sys.stdin.readline()
try:
    ledger.remember("This would be lost.")
except StorageError as error:
    print("refused" if "copied over" in str(error) else error, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program, str(path)], cwd=ROOT, text=True, **pipes) as other:
        assert other.stdout.readline() == "ready\n"
        ledger = Ledger.open(path)
        ledger.remember(FACTS[20])
        subprocess.run(["cp", path.with_name("older.db"), path], check=True)  # not here, where it would drop the locks
        assert other.communicate("\n")[0] == "refused\n"
        with pytest.raises(StorageError, match="copied over"):
            ledger.remember("This would be lost.")
        ledger.close()
    assert path.read_bytes() == older


@needs.copying
def test_an_open_by_another_process_makes_no_copied_file_this_ones(path, older):
    path.with_name("older.db").write_bytes(older)
    ledger = Ledger.open(path)
    ledger.remember(FACTS[20])
    assert probe.store(ledger).checkpoint() and not path.with_name("memory.db-wal").stat().st_size
    subprocess.run(["cp", path.with_name("older.db"), path], check=True)
    program = "import sys; from ledger import Ledger; Ledger.open(sys.argv[1]).close()"
    subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, check=True)
    with pytest.raises(StorageError, match="copied over"):
        ledger.remember("This would be lost.")
    ledger.close()


@needs.copying
def test_the_end_of_a_process_writes_nothing_into_what_was_copied_over(path, older):
    path.with_name("older.db").write_bytes(older)
    program = """
import subprocess, sys
from ledger import Ledger
ledger = Ledger.open(sys.argv[1])
ledger.remember("The last fact.")
subprocess.run(["cp", sys.argv[1].replace("memory", "older"), sys.argv[1]], check=True)
"""
    done = subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, check=True, stderr=subprocess.PIPE)
    assert done.stderr == b"" and path.read_bytes() == older


@needs.signals
def test_a_checkpoint_that_was_killed_stops_nobody(path, older):
    program = """
import os, signal, sys
from ledger import Ledger
from ledger.log.sqlite_files import OpenFiles
noted = OpenFiles._note
def note(place, note, *, durable=False):
    noted(place, note, durable=durable)
    if note.begun:
        OpenFiles._note = lambda *given, **named: os.kill(os.getpid(), signal.SIGKILL)
ledger = Ledger.open(sys.argv[1])
ledger.remember("A fact of the other process.")
OpenFiles._note = note
ledger._engine.store.checkpoint()
"""
    with Ledger.open(path) as ledger:
        ledger.remember(FACTS[20])
        killed = subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, check=False)
        assert killed.returncode == -9 and file_lock.read_note(f"{path}.lock").begun
        ledger.remember(FACTS[21])
        assert not file_lock.read_note(f"{path}.lock").begun
        subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, check=False)
    assert contents(path) == sorted([*FACTS[:22], *["A fact of the other process."]])


def test_a_checkpoint_of_another_process_is_noted_for_all(path, older):
    program = """
import sys
from ledger import Ledger
with Ledger.open(sys.argv[1]) as ledger:
    for number in range(int(sys.argv[2])):
        ledger.remember(f"Fact {number} of the process {sys.argv[3]}.")
        ledger._engine.store.checkpoint()
"""
    command = [sys.executable, "-c", program, str(path), "40"]
    others = [subprocess.Popen([*command, name], cwd=ROOT) for name in ("a", "b")]
    with Ledger.open(path) as ledger:
        for fact in FACTS[20:]:
            ledger.remember(fact)
            probe.store(ledger).checkpoint()
        assert [other.wait() for other in others] == [0, 0]
        ledger.remember("The last fact.")
    assert len(contents(path)) == len(FACTS) + 80 + 1


# --- a -wal of another file ------------------------------------------------------------------------------------------


@pytest.fixture
def left(path, older):
    """A ledger whose process was killed, so that its last commits are in its -wal."""
    program = (
        "import os, signal, sys; from ledger import Ledger\n"
        "ledger = Ledger.open(sys.argv[1])\n"
        "ledger.maintenance.backup(sys.argv[1] + '.copy')\n"
        "ledger.remember('The last fact.')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, check=False)
    assert path.with_name("memory.db-wal").stat().st_size
    return path


def a_backup(path, older):
    path.with_name("memory.db.copy").replace(path)


def an_older_file(path, older):
    path.write_bytes(older)


def a_file_of_another_ledger(path, older):
    with Ledger.open(path.with_name("other.db")) as other:
        other.remember("Elsewhere.")
    path.with_name("other.db").replace(path)


@needs.signals
@pytest.mark.parametrize("put", [a_backup, an_older_file, a_file_of_another_ledger])
@pytest.mark.parametrize("readonly", [False, True])
def test_a_wal_of_another_file_is_not_read_into_this_one(left, older, put, readonly):
    put(left, older)
    before, wal = left.read_bytes(), left.with_name("memory.db-wal").read_bytes()
    with pytest.raises(RejectedError, match=r"-wal belongs to another file than .* move .*-wal") as refused:
        Ledger.open(left, readonly=readonly)
    assert refused.value.rule == "wal"
    assert any("-wal belongs to another file" in finding.found for finding in Ledger.doctor(left).findings)
    assert (left.read_bytes(), left.with_name("memory.db-wal").read_bytes()) == (before, wal)
    for end in ("-wal", "-shm"):
        left.with_name(f"memory.db{end}").replace(left.with_name(f"away{end}"))
    with Ledger.open(left, readonly=readonly) as ledger:
        assert ledger.proof.verify().ok


@needs.signals
@pytest.mark.parametrize("lock", [True, False])
def test_a_ledger_that_is_copied_with_its_wal_opens_with_all_of_it(left, lock):
    (left.parent / "elsewhere").mkdir()
    for end in ("", "-wal", *([".lock"] if lock else [])):
        shutil.copyfile(left.with_name(f"memory.db{end}"), left.parent / "elsewhere" / f"memory.db{end}")
    assert contents(left.parent / "elsewhere" / "memory.db") == sorted([*FACTS[:20], "The last fact."])


def test_a_directory_that_became_a_file_is_told_as_any_other_mishap(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    ledger = Ledger.open(inside / "memory.db", actor="ada")
    ledger.remember(FACTS[0])
    inside.rename(tmp_path / "away")
    inside.write_text("a file", encoding="utf-8")
    with pytest.raises(StorageError, match="while it was open"):
        ledger.remember("This would be lost.")
    assert not ledger.proof.verify().ok
    ledger.close()
    assert contents(tmp_path / "away" / "memory.db") == FACTS[:1]


@needs.open_files_that_move
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


@needs.open_files_that_move
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
