"""A backup is one moment of the ledger, made beside writers; a recovery is the same ledger again, or nothing."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import needs
import probe
import pytest
from command_line import run
from conftest import folded_from_zero
from life import life
from soundness import assert_sound, contents, problems
from tampering import raw

from ledger import ConflictError, Ledger, LedgerError, NotFoundError, RejectedError, StorageError
from ledger.care import backing_up
from ledger.log.file_lock import lock_of

PAGE = 4096


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def copy(tmp_path):
    return tmp_path / "backup.db"


@pytest.fixture
def target(tmp_path):
    return tmp_path / "recovered.db"


def rows(path, table="events"):
    with raw(path) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()


def names(directory):
    return {each.name for each in directory.iterdir()}


def backed_up(path, copy):
    with Ledger.open(path) as ledger:
        life(ledger)
        ledger.capture("x" * 300_000, "a prompt in the blobs")
        ledger.maintenance.backup(copy)
        return ledger.proof.digest()


# --- backup ----------------------------------------------------------------------------------------------------------


def test_a_backup_is_the_same_ledger_and_says_so(path, copy):
    with Ledger.open(path) as ledger:
        life(ledger)
        ledger.capture("x" * 300_000, "a prompt in the blobs")
        report = ledger.maintenance.backup(copy)
        stats = ledger.maintenance.stats()
        assert (report.path, report.events, report.head) == (str(copy), ledger.position, stats.head)
        assert report.size_bytes == copy.stat().st_size and report.seconds > 0 and "secret" in report.warning
        with Ledger.open(copy, readonly=True) as other:
            assert (other.id, other.proof.digest(), contents(other)) == (
                ledger.id,
                ledger.proof.digest(),
                contents(ledger),
            )
            assert [hit.id for hit in other.recall("marathon").items] == [
                hit.id for hit in ledger.recall("marathon").items
            ]
    assert rows(copy) == rows(path) and rows(copy, "blobs") == rows(path, "blobs")


@needs.modes
def test_a_backup_is_one_file_that_only_its_owner_can_read(path, copy, tmp_path):
    previous = os.umask(0)
    try:
        backed_up(path, copy)
    finally:
        os.umask(previous)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert {name for name in names(tmp_path) if name.startswith("backup")} == {"backup.db"}


def test_a_backup_has_no_leases_no_rebuild_tables_and_no_free_pages(path, copy):
    with Ledger.open(path) as ledger:
        life(ledger)
        with probe.store(ledger).transact() as transaction:
            connection = transaction.connection
            connection.execute("INSERT INTO leases VALUES ('rebuild', '1-x', 9e9)")
            connection.execute("CREATE TABLE fresh_memories (x)")
            connection.execute("CREATE VIRTUAL TABLE old_search USING fts5(content, content='')")
            connection.execute("CREATE TABLE gone (x)")
            connection.execute("INSERT INTO gone VALUES (zeroblob(100000))")
            connection.execute("DROP TABLE gone")
        ledger.maintenance.backup(copy)
    with raw(copy) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        assert not [name for name in tables if name.startswith(("fresh_", "old_"))]
        assert connection.execute("SELECT count(*) FROM leases").fetchone() == (0,)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA freelist_count").fetchone()[0] < 10


@pytest.mark.slow
def test_a_backup_beside_writers_is_one_moment_and_loses_nothing(path, tmp_path):
    """Threads and another process write all the time; each backup is a prefix of the log, with the projections of it."""
    script = (
        "import sys\nfrom ledger import Ledger\n"
        f"with Ledger.open({str(path)!r}) as ledger:\n"
        "    for number in range(10_000):\n"
        "        ledger.remember(f'of the process {number}', idempotency_key=str(number))\n"
        "        if not number: print('on', flush=True)\n"
    )
    stop, errors = threading.Event(), []
    with Ledger.open(path) as ledger:
        life(ledger)
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)

        def write():
            try:
                number = 0
                while not stop.is_set():
                    ledger.remember(f"of the thread {number}")
                    number += 1
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            assert process.stdout.readline()
            reports = [ledger.maintenance.backup(tmp_path / f"{number}.db") for number in range(4)]
        finally:
            stop.set()
            thread.join()
            process.kill()
            process.communicate()
        assert errors == []
        assert [each.events for each in reports] == sorted({each.events for each in reports}), "it went on meanwhile"
        for report in reports:
            assert rows(report.path) == rows(path)[: report.events]
            with Ledger.open(report.path, readonly=True) as other:
                assert problems(other) == [] and other.proof.digest() == folded_from_zero(other)


def test_what_is_erased_while_a_backup_is_made_is_not_in_it(path, copy, monkeypatch):
    with Ledger.open(path) as ledger:
        secrets = [ledger.remember(f"The user's safe number {number} has the code 4711.") for number in range(6)]
        tidy, often = backing_up._tidy, [2]

        def erase_meanwhile(part):
            found = tidy(part)
            if secrets and often[0]:
                often[0] -= 1
                ledger.erase(secrets.pop().id, sources="keep", derived="keep", quotes="keep")
            return found

        monkeypatch.setattr(backing_up, "_tidy", erase_meanwhile)
        assert ledger.maintenance.backup(copy).events == ledger.position
        with Ledger.open(copy, readonly=True) as made:
            assert len(made.memories.list()) == len(secrets) == 4 and problems(made) == []
        often[0] = 9
        with pytest.raises(ConflictError, match="erased during each"):
            ledger.maintenance.backup(copy.with_name("other.db"))
        assert not copy.with_name("other.db").exists()


def test_progress_is_told_and_one_that_raises_leaves_nothing(path, copy, tmp_path, monkeypatch):
    monkeypatch.setattr("ledger.care.backing_up.STEPS", 100)
    with Ledger.open(path) as ledger:
        life(ledger)
        told = []
        ledger.maintenance.backup(copy, progress=lambda done, of: told.append((done, of)))
        assert told[-1][0] == told[-1][1] and told == sorted(told) and len(told) > 3

        def interrupt(done, of):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            ledger.maintenance.backup(tmp_path / "another.db", progress=interrupt)
        assert not [name for name in names(tmp_path) if name.startswith("another")]
        ledger.remember("and on")


@needs.modes
def test_a_backup_never_overwrites_and_goes_nowhere_unsafe(path, copy, tmp_path):
    copy.write_text("precious", encoding="utf-8")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link.db").symlink_to(copy)
    (tmp_path / "orphan.db-wal").write_text("commits", encoding="utf-8")
    with Ledger.open(path) as ledger:
        for given in (copy, path, "link.db", tmp_path / "link.db", tmp_path, "", ":memory:", "a\0b"):
            with pytest.raises((RejectedError, NotFoundError)):
                ledger.maintenance.backup(tmp_path / given if given == "link.db" else given)
        with pytest.raises(RejectedError, match="written by everybody"):
            ledger.maintenance.backup(tmp_path / "open" / "backup.db")
        with pytest.raises(RejectedError, match="last commits"):
            ledger.maintenance.backup(tmp_path / "orphan.db")
        with pytest.raises(NotFoundError):
            ledger.maintenance.backup(tmp_path / "nowhere" / "backup.db")
        with pytest.raises(ConflictError, match="batch"), ledger.batch():
            ledger.maintenance.backup(tmp_path / "another.db")
    assert copy.read_text(encoding="utf-8") == "precious"
    assert names(tmp_path / "open") == set()
    assert not [name for name in names(tmp_path) if ".part" in name]


def test_two_backups_to_one_place_are_a_conflict_and_a_killed_one_is_in_nobodys_way(path, copy):
    (copy.parent / "backup.db.part").write_text("of a killed one", encoding="utf-8")
    (copy.parent / "backup.db.part.lock").touch()
    with Ledger.open(path) as ledger:
        life(ledger)
        lock, taken, leave = lock_of(f"{copy}.part"), threading.Event(), threading.Event()

        def hold():
            with lock.hold(5):
                taken.set()
                leave.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        taken.wait()
        with pytest.raises(ConflictError, match="another process"):
            ledger.maintenance.backup(copy)
        leave.set()
        thread.join()
        ledger.maintenance.backup(copy)
    assert {name for name in names(copy.parent) if name.startswith("backup")} == {"backup.db"}


def test_somebody_who_takes_the_place_meanwhile_keeps_it(path, copy):
    with Ledger.open(path) as ledger:
        life(ledger)
        with pytest.raises(RejectedError, match="in the meantime"):
            ledger.maintenance.backup(copy, progress=lambda done, of: copy.write_text("theirs", encoding="utf-8"))
    assert copy.read_text(encoding="utf-8") == "theirs"


@pytest.mark.slow
def test_a_ledger_opened_for_reading_can_be_backed_up(path, copy):
    digest = backed_up(path, path.parent / "first.db")
    with Ledger.open(path, readonly=True) as ledger:
        ledger.maintenance.backup(copy)
    with Ledger.open(copy) as ledger:
        assert ledger.proof.digest() == digest
        ledger.remember("and it can be written")
        assert_sound(ledger)


@contextmanager
def small_disk(place, megabytes):
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", place], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.slow
def test_a_full_disk_is_a_typed_error_and_loses_nothing(path, copy, tmp_path):
    with small_disk(tmp_path / "disk", 1) as disk, Ledger.open(path) as ledger:
        life(ledger)
        for number in range(8):
            ledger.capture(f"{number} " * 60_000, "long")
        with pytest.raises(StorageError, match="full"):
            ledger.maintenance.backup(disk / "backup.db")
        assert names(disk) == set()
        ledger.maintenance.backup(copy)
        with pytest.raises(StorageError, match="full"):
            Ledger.recover(copy, disk / "memory.db")
        assert names(disk) == set()
        ledger.remember("and on")


@pytest.mark.slow
def test_a_disk_that_fills_up_during_a_rebuild_leaves_the_live_tables(tmp_path):
    with small_disk(tmp_path / "disk", 24) as disk:
        with Ledger.open(disk / "memory.db") as ledger:
            for number in range(100):
                ledger.capture(f"{number} " * 3_000, "long", reinforce=False)
                ledger.remember(f"fact {number} " * 50)
            digest = ledger.proof.digest()
            filler = disk / "filler"
            assert probe.store(ledger).checkpoint(), "the -wal keeps no room"
            with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="space"):
                while True:
                    file.write(bytes(PAGE))
            with pytest.raises(StorageError):
                probe.rebuild(ledger)
            assert ledger.proof.digest() == digest
            filler.unlink()
            assert probe.rebuild(ledger).digest == digest
        with Ledger.open(disk / "memory.db") as ledger:
            assert_sound(ledger)


# --- recover ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_recovered_is_the_ledger_at_the_moment_of_the_backup(path, copy, target):
    digest = backed_up(path, copy)
    with Ledger.open(path) as ledger:
        ledger.remember("after the backup")
    before = copy.read_bytes()
    report = Ledger.recover(copy, target)
    assert (report.ok, report.compared, report.differing, report.suspended, report.digest) == (
        True,
        True,
        (),
        (),
        digest,
    )
    assert rows(target) == rows(copy) and rows(target, "blobs") == rows(copy, "blobs")
    assert copy.read_bytes() == before, "the backup is only read"
    assert {name for name in names(target.parent) if name.startswith("recovered")} == {"recovered.db"}
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with Ledger.open(target) as ledger, Ledger.open(path, readonly=True) as old:
        assert (ledger.id, ledger.position) == (old.id, report.events)
        assert ledger.bind(user="another").remember("Their fact.", idempotency_key="k1").replayed, "keys are there too"
        assert "after the backup" not in contents(ledger)
        assert_sound(ledger)


def test_projections_of_a_backup_that_are_not_what_its_log_says_are_told_and_not_taken(path, copy, target):
    digest = backed_up(path, copy)
    with raw(copy) as connection:
        connection.execute("UPDATE memories SET content = 'forged'")
        connection.execute("DELETE FROM audit WHERE position = 3")
    report = Ledger.recover(copy, target)
    assert (report.ok, report.differing, report.digest) == (False, ("audit", "memories"), digest)
    with Ledger.open(target) as ledger:
        assert "forged" not in contents(ledger)


def test_projections_that_cannot_be_compared_are_folded_all_the_same(path, copy, target):
    digest = backed_up(path, copy)
    with raw(copy) as connection:
        connection.execute("DROP TABLE memories")
    report = Ledger.recover(copy, target)
    assert (report.ok, report.compared, report.digest) == (True, False, digest)


@needs.modes
def test_a_recovery_never_overwrites_and_reads_nothing_that_is_not_a_ledger(path, copy, target, tmp_path):
    backed_up(path, copy)
    target.write_text("precious", encoding="utf-8")
    (tmp_path / "text.db").write_text("no ledger", encoding="utf-8")
    (tmp_path / "empty.db").touch()
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
    (tmp_path / "orphan.db-wal").write_text("commits", encoding="utf-8")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    new = tmp_path / "new.db"
    for backup, place, error in (
        (copy, target, RejectedError),
        (copy, copy, RejectedError),
        (copy, tmp_path / "orphan.db", RejectedError),
        (copy, tmp_path / "open" / "new.db", RejectedError),
        (copy, tmp_path / "nowhere" / "new.db", NotFoundError),
        (tmp_path / "nix.db", new, NotFoundError),
        (tmp_path / "text.db", new, StorageError),
        (tmp_path / "empty.db", new, StorageError),
        (tmp_path / "other.db", new, RejectedError),
        (tmp_path, new, RejectedError),
    ):
        with pytest.raises(error):
            Ledger.recover(backup, place)
    assert target.read_text(encoding="utf-8") == "precious"
    assert not [name for name in names(tmp_path) if name.startswith("new") or ".part" in name]


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.3, 0.5, 0.9, 0.999])
def test_a_backup_that_was_cut_short_makes_nothing(path, copy, target, share):
    backed_up(path, copy)
    with copy.open("r+b") as file:
        file.truncate(int(copy.stat().st_size * share))
    with pytest.raises(StorageError, match=r"cut short|damaged"):
        Ledger.recover(copy, target)
    assert not [name for name in names(target.parent) if name.startswith("recovered")]


def test_a_changed_byte_in_an_event_is_named_by_its_position_and_nothing_is_made(path, copy, target):
    backed_up(path, copy)
    found = []
    for position in (2, 9, 20):
        damaged = copy.with_name(f"{position}.db")
        shutil.copy(copy, damaged)
        with raw(damaged) as connection:
            (state,) = connection.execute("SELECT state FROM events WHERE position = ?", (position,)).fetchone()
        data = damaged.read_bytes()
        at = data.index(state.encode()[:300])
        damaged.write_bytes(data[: at + 20] + bytes([data[at + 20] ^ 1]) + data[at + 21 :])
        with pytest.raises(StorageError, match=f"position {position}:") as error:
            Ledger.recover(damaged, target)
        found.append(str(error.value))
    assert all("damaged" in each for each in found)
    assert not [name for name in names(target.parent) if name.startswith("recovered")]


def test_a_page_of_the_log_that_cannot_be_read_is_named_by_the_first_position_lost(path, copy, target):
    with Ledger.open(path) as ledger:
        for number in range(200):
            ledger.remember(f"fact {number}")
        ledger.maintenance.backup(copy)
    data = bytearray(copy.read_bytes())
    at = data.index(b"fact 100") // PAGE * PAGE
    data[at : at + PAGE] = bytes(PAGE)
    copy.write_bytes(data)
    with pytest.raises(StorageError, match=r"position \d+: cannot be read") as error:
        Ledger.recover(copy, target)
    first = int(str(error.value).partition("position ")[2].partition(":")[0])
    assert 90 < first <= 102
    assert not target.exists()


def test_a_text_missing_from_the_blobs_is_named(path, copy, target):
    backed_up(path, copy)
    with raw(copy) as connection:
        connection.execute("DROP TRIGGER blobs_stay")
        connection.execute("DELETE FROM blobs")
        (sql,) = [each for each in _schema() if "blobs_stay" in each]
        connection.execute(sql)
    with pytest.raises(StorageError, match=r"position \d+: a text of the event .* missing"):
        Ledger.recover(copy, target)
    assert not target.exists()


def _schema():
    from ledger.log.sqlite_files import SCHEMA

    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        return [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'")]


def test_damaged_projections_in_a_backup_do_no_harm(path, copy, target):
    digest = backed_up(path, copy)
    with raw(copy) as connection:
        page = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'memories'").fetchone()[0]
    data = bytearray(copy.read_bytes())
    data[(page - 1) * PAGE : page * PAGE] = bytes(PAGE)
    copy.write_bytes(data)
    report = Ledger.recover(copy, target)
    assert (report.digest, report.differing, report.ok) == (digest, ("memories",), False)


def test_a_recovery_that_was_killed_is_done_again(path, copy, target):
    digest = backed_up(path, copy)
    for suffix in ("", "-wal", "-shm", "-journal", ".lock"):
        target.with_name(f"recovered.db.part{suffix}").write_text("half", encoding="utf-8")
    assert Ledger.recover(copy, target).digest == digest
    assert {name for name in names(target.parent) if name.startswith("recovered")} == {"recovered.db"}


def test_recovering_tells_how_far_it_is(path, copy, target):
    backed_up(path, copy)
    told = []
    report = Ledger.recover(copy, target, progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (report.events, report.events)


# --- what was erased after the backup --------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_was_erased_after_the_backup_is_erased_again_by_its_certificate(path, copy, target, tmp_path):
    secret = "Zebulon lives behind the lighthouse."
    with Ledger.open(path) as ledger:
        life(ledger)
        fact = ledger.remember(secret)
        ledger.maintenance.backup(copy)
        ledger.remember("after the backup")
        certificate = ledger.erase(fact.id, reason="asked for").certificate
    Ledger.recover(copy, tmp_path / "without.db")
    assert b"Zebulon" in (tmp_path / "without.db").read_bytes(), (
        "the control: without its certificate the text comes back"
    )
    report = Ledger.recover(copy, target, certificates=[certificate])
    assert report.ok and report.certificates == 1
    with Ledger.open(target) as ledger:
        assert secret not in contents(ledger, statuses=())
        assert ledger.proof.verify(full=True).ok and [each.state for each in ledger.erasures.list()] == ["completed"]
        assert_sound(ledger)
    assert b"Zebulon" not in target.read_bytes()


@pytest.mark.parametrize(
    "spoil", [lambda told: told[:-9], lambda told: told.replace("asked", "ASKED"), lambda told: "{}"]
)
def test_recover_with_an_invalid_or_foreign_certificate_creates_no_file(path, copy, target, spoil):
    with Ledger.open(path) as ledger:
        fact = ledger.remember("Zebulon")
        ledger.maintenance.backup(copy)
        certificate = ledger.erase(fact.id, reason="asked for").certificate
    with pytest.raises(RejectedError):
        Ledger.recover(copy, target, certificates=[certificate, spoil(certificate)])
    assert not [name for name in names(target.parent) if name.startswith("recovered")]


def test_an_erased_text_that_may_still_be_there_ends_the_recovery(path, copy, target, monkeypatch):
    from ledger.erasure import completing

    with Ledger.open(path) as ledger:
        fact = ledger.remember("Zebulon")
        ledger.maintenance.backup(copy)
        certificate = ledger.erase(fact.id, reason="asked for").certificate
    stuck = completing.Purge("a test keeps it")
    monkeypatch.setattr(completing.Purging, "run", lambda *_: stuck)
    with pytest.raises(StorageError, match="the file was removed"):
        Ledger.recover(copy, target, certificates=[certificate])
    assert not [name for name in names(target.parent) if name.startswith("recovered")]


# --- the command line ------------------------------------------------------------------------------------------------


def test_the_commands_say_what_they_did_and_end_with_the_right_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("remember", "The user likes tea.").exit_code == 0
    made = run("backup", "b.db", "--json")
    assert made.exit_code == 0 and json.loads(made.stdout)["events"] == 2
    assert run("backup", "b.db").exit_code == 4
    again = run("recover", "b.db", "--json", db="r.db")
    assert again.exit_code == 0 and json.loads(again.stdout)["ok"] is True
    assert run("recover", "b.db", db="r.db").exit_code == 4
    assert run("recover", "nix.db", db="n.db").exit_code == 3
    assert run("recover", "b.db", "--certificates", "nix", db="n.db").exit_code == 3
    (tmp_path / "bad").write_text("no certificate\n", encoding="utf-8")
    assert run("recover", "b.db", "--certificates", "bad", db="n.db").exit_code == 4
    assert run("recover", "b.db").exit_code == 4, "the ledger itself is in the way"
    assert not (tmp_path / "n.db").exists()
    assert run("doctor", db="r.db").exit_code == 0
    assert run("doctor", db="nix.db").exit_code == 3
    with raw(tmp_path / "r.db") as connection:
        connection.execute("UPDATE memories SET content = 'forged'")
    ill = run("doctor", db="r.db")
    assert ill.exit_code == 1 and "rebuild makes the projections again" in ill.stdout and "forged" not in ill.stdout
    assert run("maintenance", "rebuild", db="r.db").exit_code == 0
    assert run("doctor", db="r.db").exit_code == 0
    assert "tea" in run("memories", "list", db="r.db").stdout


@pytest.mark.parametrize("path", [5, None, b"\xff\x00", "a\x00b", "\ud800x"])
def test_what_is_no_path_is_refused(tmp_path: Path, path: Any) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        with pytest.raises(LedgerError):
            ledger.maintenance.backup(path)
        with pytest.raises(LedgerError):
            ledger.proof.verify(against=path if path is not None else 5)
    with pytest.raises(LedgerError):
        Ledger.recover(path, tmp_path / "again.db")
    with pytest.raises(LedgerError):
        Ledger.open(path)
