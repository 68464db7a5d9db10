"""The doctor finds what is wrong and says what to do; a rebuild repairs projections, and a damaged log is never touched."""

from __future__ import annotations

import functools
import hashlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import needs
import probe
import pytest
from full import full
from life import life
from soundness import assert_sound, contents, problems, types
from tampering import TABLES, raw
from unwritable import as_nobody

from ledger import Ledger, NotFoundError, StorageError
from ledger.care import doctor, rebuilding
from ledger.domain.errors import ConflictError, DamagedError
from ledger.log.envelope import encode
from ledger.log.file_lock import lock_of
from ledger.log.sqlite_files import SCHEMA
from ledger.models.day import DayBounds
from projections.search import memory_hits as search

PAGE = 4096


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@functools.cache
def prepared(facts):
    """The bytes of a closed ledger, and the digest of its projections."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory.db")
        with Ledger.open(path) as ledger:
            life(ledger)
            with ledger.batch():
                for number in range(facts):
                    ledger.remember(
                        f"fact {number} about coffee", idempotency_key=f"key {number}", tags=[f"tag {number % 7}"]
                    )
            digest = ledger.proof.digest()
        return path.read_bytes(), digest


def filled(path, facts=300):
    """A closed ledger, the same for every test."""
    data, digest = prepared(facts)
    for suffix, said in (("", data), (".lock", b"")):
        each = Path(f"{path}{suffix}")
        each.touch(mode=0o600)
        each.write_bytes(said)
    return digest


def found(report, level="problem"):
    return {each.what for each in report.findings if each.level == level}


def told(report, what):
    return "; ".join(each.found for each in report.findings if each.what == what)


def page_of(path, name):
    with raw(path) as connection:
        return connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]


def overwrite(path, page, data=bytes(PAGE), at=0):
    """As a failing disk would, while no process has the file open."""
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE + at)
        file.write(data)


def page_bytes(path, page):
    return path.read_bytes()[(page - 1) * PAGE : page * PAGE]


def fingerprint(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def everything(ledger):
    """A command and every kind of read."""
    fact = ledger.remember("One more about coffee.", idempotency_key="one more")
    ledger.memories.list(statuses=(), limit=1_000)
    ledger.recall("coffee")
    ledger.history.audit()
    ledger.why(fact.id)
    ledger.history.events(fact.id)
    ledger.memories.confidence(fact.id)
    ledger.review()
    ledger.guards.refusals()
    ledger.projects.list()
    ledger.projects.state("galley")
    ledger.interactions.list()
    ledger.capture("Again?", "fact 5 about coffee", project="galley", session="s")
    ledger.maintenance.stats()
    ledger.proof.digest()


# --- healthy ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_healthy_ledger_is_well_and_nothing_is_changed(path):
    filled(path)
    before = fingerprint(path)
    report = Ledger.doctor(path)
    assert report.ok and found(report) == found(report, "warning") == set()
    assert {"permissions", "lock", "disk space", "settings", "format", "log", "pages", "projections"} <= found(
        report, "ok"
    )
    assert fingerprint(path) == before
    with Ledger.open(path) as ledger:
        assert ledger.maintenance.doctor().ok
        assert "ProjectionSuspended" not in types(ledger)


RESET, WITHDRAWN, STALE = "two checkpoints at once", "withdrew", "calls the index malformed"


@pytest.mark.parametrize(
    ("version", "faults"),
    [
        ((3, 37, 0), [RESET]),
        ((3, 44, 2), [RESET]),
        ((3, 45, 3), [RESET, STALE]),
        ((3, 51, 2), [RESET, STALE]),
        ((3, 51, 3), [STALE]),
        ((3, 52, 0), [WITHDRAWN, STALE]),
        ((3, 99, 0), []),
    ],
)
def test_the_known_faults_of_a_version_of_sqlite_are_named(path, monkeypatch, version, faults):
    filled(path, 0)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    told = [finding for finding in Ledger.doctor(path).findings if finding.what == "SQLite"]
    assert len(told) == max(1, len(faults))
    assert all(fault in finding.found and finding.hint for fault, finding in zip(faults, told, strict=bool(faults)))
    assert [finding.level for finding in told] == (
        ["warning" if fault is WITHDRAWN else "note" for fault in faults] or ["ok"]
    )


def test_a_sqlite_that_is_too_old_is_named_and_opens_nothing(path, monkeypatch):
    filled(path, 0)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    assert [finding.level for finding in Ledger.doctor(path).findings if finding.what == "SQLite"] == ["problem"]
    with pytest.raises(StorageError, match=r"needs 3\.37\.0 or newer with FTS5"):
        Ledger.open(path)


def test_equal_memories_that_a_redo_brought_back_are_told_and_a_merge_is_proposed(path):
    with Ledger.open(path) as ledger:
        first = ledger.remember("Ada drinks tea.")
        ledger.undo(first.position)
        ledger.remember("Ada drinks tea.")
        assert not told(doctor.doctor(probe.inside(ledger)), "memories")
        ledger.redo(first.position)
        assert (
            told(doctor.doctor(probe.inside(ledger)), "memories") == "2 active memories have the same text as another"
        )
        (proposal,) = ledger.merges.find().proposed
        assert len(proposal.memories) == 2 and proposal.similarity == 1
        ledger.merges.apply(proposal.id)
        assert not told(doctor.doctor(probe.inside(ledger)), "memories")


def test_a_batch_is_no_place_for_a_doctor(path):
    with Ledger.open(path) as ledger, pytest.raises(ConflictError, match="batch"), ledger.batch():
        ledger.maintenance.doctor()


# --- the place -------------------------------------------------------------------------------------------------------


@needs.modes
def test_what_others_may_do_with_the_file_is_told(path):
    filled(path, 0)
    path.chmod(0o644)
    report = Ledger.doctor(path)
    assert "can be read by others" in told(report, "permissions") and report.ok
    path.chmod(0o666)
    assert "can be written by others" in told(Ledger.doctor(path), "permissions")
    path.chmod(0o600)
    path.parent.chmod(0o777)
    report = Ledger.doctor(path)
    path.parent.chmod(0o700)
    assert not report.ok and "written by everybody" in told(report, "place")
    link = path.with_name("link.db")
    link.symlink_to(path)
    report = Ledger.doctor(link)
    assert not report.ok and "symbolic link" in told(report, "place")


def test_what_was_left_beside_the_file_is_told(path, monkeypatch):
    filled(path, 0)
    for name in ("memory.db.new.part", "memory.db.part", "memory.db.part-wal", ".shadow-1-ab"):
        path.with_name(name).touch()
    report = Ledger.doctor(path)
    assert sorted(told(report, "files next to it").split("; ")) == [
        ".shadow-1-ab was left by a check that was killed, or a check runs",
        "memory.db.new.part is an unfinished copy",
        "memory.db.part is an unfinished copy",
    ]
    monkeypatch.setattr(doctor, "WAL_BYTES", 1024)
    with Ledger.open(path) as ledger:
        ledger.remember("in the -wal")
        assert "should stay near" in told(ledger.maintenance.doctor(), "-wal")


@needs.statvfs
def test_a_disk_without_room_for_a_rebuild_is_told(path, monkeypatch):
    filled(path, 0)
    real = os.statvfs(path.parent)

    def small(free_blocks):
        fields = list(real)
        fields[4] = free_blocks
        return lambda _: os.statvfs_result(fields)

    for free, level in ((10, "problem"), (doctor.LEAST_FREE_BYTES // real.f_frsize + 1, "ok")):
        with monkeypatch.context() as patch:
            patch.setattr(os, "statvfs", small(free))
            assert "disk space" in found(Ledger.doctor(path), level)


@needs.flock
def test_a_lock_that_another_process_holds_is_told(path):
    filled(path, 0)
    code = f"import fcntl, sys; f = open({str(path)!r} + '.lock'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        visit = doctor._Examination(str(path), DayBounds("2026-06-01"), None, None)
        visit.lock()
        assert "another process holds the lock" in visit.findings[0].found
    finally:
        process.communicate(b"\n")


def test_a_clock_that_was_ahead_is_told(path):
    with Ledger.open(path, clock=lambda: datetime.now(UTC) + timedelta(days=400)) as ledger:
        ledger.remember("from the future")
    assert "in the future" in told(Ledger.doctor(path), "clock")


def test_read_only_media_can_be_examined(media):
    filled(media / "memory.db", 5)
    for each in media.iterdir():
        each.chmod(0o444) if each.name == "memory.db" else each.unlink()
    media.chmod(0o555)

    def work():
        report = Ledger.doctor(media / "memory.db")
        assert report.ok, report

    as_nobody(work)


# --- what is no ledger -----------------------------------------------------------------------------------------------


def test_what_is_no_ledger_is_reported_and_left_alone(path, tmp_path):
    with pytest.raises(NotFoundError):
        Ledger.doctor(path)
    (tmp_path / "text.db").write_text("hello", encoding="utf-8")
    (tmp_path / "empty.db").touch()
    (tmp_path / "zeros.db").write_bytes(bytes(100_000))
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
    for name in ("text.db", "empty.db", "zeros.db", "other.db"):
        before = fingerprint(tmp_path / name)
        assert not Ledger.doctor(tmp_path / name).ok
        assert fingerprint(tmp_path / name) == before
    assert not Ledger.doctor(tmp_path).ok


@pytest.mark.parametrize("share", [0.001, 0.01, 0.5, 0.99])
def test_a_file_that_was_cut_short_is_reported_and_left_alone(path, share):
    filled(path)
    with path.open("r+b") as file:
        file.truncate(int(path.stat().st_size * share))
    before = fingerprint(path)
    assert not Ledger.doctor(path).ok
    assert fingerprint(path) == before


# --- damaged projections ---------------------------------------------------------------------------------------------


DIFFERING = {  # and what the report must name of it
    "UPDATE memories SET content = 'forged', confidence = 7 WHERE row = (SELECT max(row) FROM memories)": (
        *("memories", "content", "confidence"),
    ),
    "DELETE FROM audit WHERE position = 3": ("audit", "3"),
    "INSERT INTO refusals (position, rule, command, recorded_at, finding, scanner)"
    " VALUES (9999, 'r', 'c', 't', '', '')": (
        "refusals",
        "9999",
    ),
    "DROP TABLE keys": ("keys",),
    "DROP INDEX memories_1_1": ("memories",),
    "ALTER TABLE memories ADD COLUMN more": ("memories",),
    "UPDATE checkpoint SET position = 1": ("projections",),
}


@pytest.mark.parametrize("damage", DIFFERING)
def test_rows_that_differ_from_the_log_are_named_without_their_texts_and_rebuilt(path, damage):
    digest = filled(path)
    with raw(path) as connection:
        connection.execute(damage)
    report = Ledger.doctor(path)
    assert not report.ok and all(each in told(report, "projections") for each in DIFFERING[damage]), report
    assert not any(each in full(report) for each in ("fact", "coffee", "forged"))
    assert all("rebuild" in each.hint for each in report.findings if each.level == "problem")
    with Ledger.open(path) as ledger:
        assert probe.rebuild(ledger).digest == digest
        assert ledger.maintenance.doctor().ok


@pytest.mark.parametrize(
    "damage",
    ["DROP INDEX memories_1_1", "ALTER TABLE memories ADD COLUMN more", "ALTER TABLE audit RENAME COLUMN actor TO who"],
)
def test_a_table_that_is_not_as_it_was_made_is_folded_again_on_open(path, damage):
    digest = filled(path)
    with raw(path) as connection:
        connection.execute(damage)
    with Ledger.open(path) as ledger:
        assert ledger.proof.digest() == digest
        everything(ledger)
        assert_sound(ledger)


HOLDERS = [
    *TABLES,
    "projections",
    "checkpoint",
    "leases",
    "search_data",
    "passage_search_data",
    "observation_search_data",
    "memories_1_1",
    "sqlite_autoindex_leases_1",
]


LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
PAGES = [each for each in HOLDERS if each not in ("search", "passage_search", "observation_search")]


@pytest.mark.parametrize("name", PAGES if LONG else PAGES[::3])
def test_a_rebuild_repairs_an_unreadable_page(path, name):
    filled(path, 60)
    garbage = b"\xa5" if len(name) % 2 else b"\0"
    overwrite(path, page_of(path, name), garbage * PAGE)
    with Ledger.open(path) as ledger:
        with suppress(StorageError):
            everything(ledger)
        assert probe.rebuild(ledger).suspended == () and problems(ledger) == []
        everything(ledger)
    assert Ledger.doctor(path).ok


@pytest.mark.slow
def test_a_rebuild_repairs_leaves_of_tables_and_indexes_too(path):
    filled(path, 1_500)
    for needle in (b"fact 900 about coffee", b"tag 5"):
        page = path.read_bytes().rindex(needle) // PAGE + 1
        overwrite(path, page)
        report = Ledger.doctor(path)
        if any(each.what == "log" and each.level == "problem" for each in report.findings):
            continue
        with Ledger.open(path) as ledger:
            probe.rebuild(ledger)
            assert ledger.maintenance.doctor().ok


@pytest.mark.slow
def test_others_who_have_the_file_open_go_on(path, monkeypatch):
    """The whole file is made anew under a reader, a writer and another process, and nothing of theirs is lost."""
    filled(path, 1_500)
    overwrite(path, leaf_of_table(path, "memories"))
    script = (
        "import sys\nfrom ledger import Ledger\n"
        f"with Ledger.open({str(path)!r}) as ledger:\n"
        "    print('open', flush=True)\n"
        "    for number in range(200):\n"
        "        print(ledger.remember(f'of the process {number}').position, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "open\n"
    with Ledger.open(path) as one, Ledger.open(path) as two:
        poured = []
        pour = rebuilding._copy_over
        monkeypatch.setattr(rebuilding, "_copy_over", lambda *each: poured.append(pour(*each)) or poured[-1])
        probe.rebuild(one)
        assert len([*one.memories.list(statuses=(), limit=1_000).all()]) >= 1_500
        assert poured
        two.remember("by another door")
        said = process.communicate()[0].split()
        assert process.returncode == 0
        one.remember("and on")
        assert {"by another door", "and on", *(f"of the process {n}" for n in range(200))} <= contents(one)
        assert len(set(said)) == 200
        assert_sound(one)
        assert_sound(two)


def leaf_of_table(path, name):
    """A page in the middle of a table that has many."""
    with raw(path) as connection:
        try:
            pages = connection.execute(
                "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path", (name,)
            ).fetchall()
        except sqlite3.OperationalError:
            pytest.skip("this SQLite does not tell which pages a table has")
    return pages[len(pages) // 2][0]


@pytest.mark.slow
def test_a_commit_that_comes_between_the_copy_and_its_pouring_is_not_lost(path, monkeypatch):
    filled(path, 500)
    overwrite(path, leaf_of_table(path, "memories"))
    pour, late = rebuilding._copy_over, []
    with Ledger.open(path) as ledger, Ledger.open(path) as other:

        def after_one_more(self, part, copied):
            if len(late) < 2:
                with probe.store(other).transact() as transaction:
                    _append(transaction, f"p_{len(late):016d}")
                late.append(copied)
            return pour(self, part, copied)

        monkeypatch.setattr(rebuilding, "_copy_over", after_one_more)
        probe.rebuild(ledger)
        assert len(late) == 2 and late[1] == late[0] + 1
        assert types(ledger)[-2:] == ["ProjectRegistered"] * 2
        assert_sound(ledger)


def _append(transaction, stream):
    from eventsourcing.persistence import StoredEvent
    from examples import envelope

    from ledger.events import ProjectRegistered

    data = envelope(ProjectRegistered(name=stream), user="", project=None, session=None)
    transaction.append([StoredEvent(stream, 1, "ProjectRegistered", encode(data))])


@pytest.mark.slow
def test_a_backup_of_a_ledger_with_damaged_projections_wants_a_rebuild_first(path, tmp_path):
    digest = filled(path, 1_000)
    overwrite(path, leaf_of_table(path, "audit"))
    with Ledger.open(path) as ledger:
        with pytest.raises(StorageError, match=r"rebuild\(\) makes the projections again"):
            ledger.maintenance.backup(tmp_path / "one.db")
        probe.rebuild(ledger)
        ledger.maintenance.backup(tmp_path / "two.db")
    with Ledger.open(tmp_path / "two.db", readonly=True) as ledger:
        assert ledger.proof.digest() == digest


# --- a damaged log ---------------------------------------------------------------------------------------------------


def damaged_log(path, how):
    filled(path, 1_500)
    page = leaf_of_table(path, "events")
    if how == "page":
        overwrite(path, page)
    elif how == "bit":
        data = path.read_bytes()
        at = data.index(b'"content"', (page - 1) * PAGE) + 14
        overwrite(path, at // PAGE + 1, bytes([data[at] ^ 1]), at % PAGE)
    else:
        with raw(path) as connection:
            connection.execute("DROP TRIGGER events_stay")
            connection.execute("DELETE FROM events WHERE position > 500")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["page", "bit"])
def test_a_damaged_log_is_named_and_never_touched(path, how, tmp_path):
    damaged_log(path, how)
    before = fingerprint(path)
    report = Ledger.doctor(path)
    assert not report.ok and "log" in found(report)
    assert "position" in told(report, "log") and "recover" in full(report) and "rebuild" not in full(report)
    assert fingerprint(path) == before
    with Ledger.open(path, readonly=True) as ledger, pytest.raises(StorageError, match=r"log is damaged: position \d+"):
        ledger.maintenance.backup(tmp_path / "backup.db")
    assert not (tmp_path / "backup.db").exists()


@pytest.mark.slow
def test_damaged_projections_of_a_damaged_log_are_left_as_they_are(path):
    damaged_log(path, "bit")
    page = leaf_of_table(path, "memories")
    overwrite(path, page)
    before = page_bytes(path, page)
    with Ledger.open(path) as ledger:
        with pytest.raises(DamagedError, match="the table memories"):
            ledger.memories.list(statuses=(), limit=1_000)
        with pytest.raises(StorageError, match="log is damaged"):
            probe.rebuild(ledger)
    with raw(path) as connection:
        found = connection.execute("SELECT count(*), max(position) FROM events").fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert found[0] == found[1] and page_bytes(path, page) == before


def test_a_log_that_lost_its_end_is_not_folded_again_over_what_was_known(path):
    damaged_log(path, "cut")
    with raw(path) as connection:
        start = SCHEMA.index("CREATE TRIGGER events_stay")
        connection.execute(SCHEMA[start : SCHEMA.index("END;", start) + 4])
    assert not Ledger.doctor(path).ok
    overwrite(path, leaf_of_table(path, "memories"))
    with Ledger.open(path, readonly=True) as ledger, pytest.raises(StorageError):
        rebuilding.check_whole_log(probe.inside(ledger))


# --- what is under way -----------------------------------------------------------------------------------------------


def test_leases_parked_projections_and_remains_are_told(path, monkeypatch):
    filled(path, 5)
    with Ledger.open(path) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(search.MemorySearchProjection, "fold", lambda *each: 1 / 0)
            ledger.remember("poison")
        with probe.store(ledger).transact() as transaction:
            transaction.connection.execute(
                "INSERT INTO leases VALUES ('rebuild', '999999999-x', ?)", (time.time() + 9,)
            )
            transaction.connection.execute("CREATE TABLE fresh_memories (x)")
        report = ledger.maintenance.doctor()
        assert "search is suspended" in told(report, "projections") and not report.ok
        assert "was killed" in told(report, "leases") and "1 were left" in told(report, "tables")
        probe.rebuild(ledger)
        assert ledger.maintenance.doctor().ok


def test_the_lock_of_the_file_is_not_kept(path):
    filled(path, 0)
    Ledger.doctor(path)
    lock = lock_of(str(path))
    assert lock.acquire(0)
    lock.release()
