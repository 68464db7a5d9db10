"""What a killed backup, export or recovery leaves: private, told by the doctor, and gone with the next open or erasure."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import needs
import pytest

from ledger import Ledger, RejectedError

SECRET = "Zanzibarquux keeps his savings under the third floorboard."

KILLED = """
import os, signal, sys
from ledger import Ledger
def die(done, total):
    if DYING(done): os.kill(os.getpid(), signal.SIGKILL)
with Ledger.open(sys.argv[1]) as ledger:
    ledger.maintenance.WHAT(sys.argv[2], progress=die)
"""


def killed(path: Path, place: Path, what: str = "backup") -> None:
    """A copy to a place is killed when bytes of it are there."""
    needs.sigkill()
    dying = "done > 0 and os.path.getsize(sys.argv[2] + '.part') > 100_000"
    program = KILLED.replace("DYING(done)", dying).replace("WHAT", what)
    done = subprocess.run([sys.executable, "-c", program, str(path), str(place)], check=False)
    assert done.returncode == -9


def left_in(directory: Path) -> list[str]:
    return sorted(name for name in os.listdir(directory) if not name.startswith("memory.db"))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a ledger with so much in it that a copy of it can be killed halfway."""
    made = tmp_path_factory.mktemp("large") / "memory.db"
    with Ledger.open(made, actor="ana") as ledger, ledger.batch():
        ledger.remember(SECRET)
        for number in range(2_000):
            ledger.capture(
                "Well?", f"The jar {number} stands beside the tin {number * 7}, and nobody has opened either of them."
            )
    return made.read_bytes()


@pytest.fixture
def path(tmp_path: Path, large: bytes) -> Path:
    made = tmp_path / "memory.db"
    made.touch(mode=0o600)
    made.write_bytes(large)
    return made


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    made = tmp_path / "backups"
    made.mkdir(mode=0o700)
    return made


@pytest.mark.parametrize("what", ["backup", "export_log"])
def test_the_next_open_for_writing_removes_what_a_killed_copy_left_wherever_it_lies(
    path: Path, elsewhere: Path, what: str
) -> None:
    killed(path, elsewhere / "copy", what)
    part = elsewhere / "copy.part"
    assert stat.S_IMODE(part.stat().st_mode) == 0o600
    Ledger.open(path, readonly=True).close()
    assert part.exists()
    Ledger.open(path).close()
    assert left_in(elsewhere) == []


def test_the_doctor_names_what_a_killed_backup_left_wherever_it_lies(path: Path, elsewhere: Path) -> None:
    killed(path, elsewhere / "copy")
    report = Ledger.doctor(path)
    (finding,) = [each for each in report.findings if each.what == "unfinished copy"]
    assert finding.level == "warning" and str(elsewhere / "copy.part") in finding.found
    assert "open the ledger for writing" in finding.hint
    Ledger.open(path).close()
    assert not [each for each in Ledger.doctor(path).findings if each.what == "unfinished copy"]


@needs.signals
@pytest.mark.parametrize("moment", ["remove_files", "make_empty_file", "_clear"])
def test_the_next_open_removes_the_lock_of_a_copy_that_was_killed_without_its_file(
    path: Path, elsewhere: Path, moment: str
) -> None:
    program = (
        "import os, signal, sys\n"
        "from ledger import Ledger\n"
        "from ledger.log import lease\n"
        "def die(part, *lock):\n"
        f"    {'os.unlink(part)' if moment == '_clear' else 'pass'}\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "with Ledger.open(sys.argv[1]) as ledger:\n"
        f"    lease.put_in_place = lambda part, place: None\n"
        f"    lease.{moment} = die\n"
        "    ledger.maintenance.backup(sys.argv[2])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path), str(elsewhere / "copy")], check=False)
    assert done.returncode == -9 and left_in(elsewhere) == ["copy.part.lock"]
    Ledger.open(path).close()
    assert left_in(elsewhere) == []


def test_the_next_open_removes_the_lone_lock_of_a_copy_in_its_own_place(path: Path) -> None:
    lock = path.with_name("memory.db.part.lock")
    lock.touch()
    Ledger.open(path).close()
    assert not lock.exists()
    lock.write_text("of somebody else", encoding="utf-8")
    Ledger.open(path).close()
    assert lock.read_text(encoding="utf-8") == "of somebody else"


def test_an_erasure_removes_what_a_killed_backup_left(path: Path, elsewhere: Path) -> None:
    with Ledger.open(path, actor="ana") as ledger:
        killed(path, elsewhere / "copy")
        memory = ledger.recall("savings floorboard").items[0]
        assert ledger.erase(memory.id, reason="request 1").state == "completed"
        assert left_in(elsewhere) == []


def test_a_copy_that_is_being_made_is_left_alone(path: Path, elsewhere: Path) -> None:
    seen = list[bool]()

    def meanwhile(done: int, total: int) -> None:
        if not seen:
            Ledger.open(path).close()  # in this thread
            other = [sys.executable, "-c", f"from ledger import Ledger; Ledger.open({str(path)!r}).close()"]
            subprocess.run(other, check=True)
            seen.append((elsewhere / "copy.part").exists())

    with Ledger.open(path) as ledger:
        ledger.maintenance.backup(elsewhere / "copy", progress=meanwhile)
        ledger.maintenance.export_log(elsewhere / "lines")
        assert seen == [True] and left_in(elsewhere) == ["copy", "lines"]
        assert ledger.maintenance.doctor().ok
    Ledger.open(elsewhere / "copy").close()


def test_a_file_of_that_name_that_nobody_was_making_is_never_removed(path: Path, elsewhere: Path) -> None:
    killed(path, elsewhere / "copy")
    for name in ("copy.part", "copy.part.lock"):
        (elsewhere / name).unlink()
    notes = [elsewhere / "copy.part", path.with_name("memory.db.part")]
    for note in notes:
        note.write_text("of somebody else", encoding="utf-8")
    Ledger.open(path).close()
    assert [note.read_text(encoding="utf-8") for note in notes] == ["of somebody else"] * 2


@pytest.mark.parametrize("what", ["backup", "export_log"])
def test_a_copy_is_refused_where_the_file_it_would_be_made_under_is_somebody_elses(
    path: Path, elsewhere: Path, what: str
) -> None:
    (elsewhere / "copy.part").write_text("of somebody else", encoding="utf-8")
    with Ledger.open(path) as ledger:
        with pytest.raises(RejectedError, match=r"copy\.part exists"):
            getattr(ledger.maintenance, what)(elsewhere / "copy")
        assert (elsewhere / "copy.part").read_text(encoding="utf-8") == "of somebody else"
        assert left_in(elsewhere) == ["copy.part"]


def test_no_ledger_has_the_name_of_a_file_that_is_being_made(path: Path, tmp_path: Path) -> None:
    """Opening "notes.db" would remove it, as what a killed copy left."""
    with pytest.raises(RejectedError, match=r"\.part"):
        Ledger.open(tmp_path / "notes.db.part")
    with Ledger.open(path) as ledger, pytest.raises(RejectedError, match=r"\.part"):
        ledger.maintenance.backup(tmp_path / "copy.part")


def test_a_ledger_from_elsewhere_names_no_other_file_to_be_removed(path: Path, elsewhere: Path) -> None:
    for name in ("letter", "letter.lock"):
        (elsewhere / name).write_text("of somebody else", encoding="utf-8")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO leases VALUES (?, 'somebody', 0)", (f"copy {elsewhere / 'letter'}",))
    Ledger.open(path).close()
    assert left_in(elsewhere) == ["letter", "letter.lock"]
