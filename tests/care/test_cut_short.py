"""A log cut short stays evident: what was folded of it is compared first, and nothing is written or folded after that."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import probe
import pytest
from command_line import run
from soundness import problems
from tampering import TABLES, opened_raw, tamper

from ledger import DamagedError, Ledger
from ledger.proof.proving import verify_file

AFTER = "DELETE FROM events WHERE position > "
SET_BACK = "UPDATE checkpoint SET (position, head) = (SELECT position, head FROM events ORDER BY position DESC LIMIT 1)"
NO_TABLES = [f"DROP TABLE {name}" for name in TABLES if name != "audit"]
WAYS = {
    "the last three events": [AFTER + "{last} - 3"],
    "the last event": [AFTER + "{last} - 1"],
    "the last command": [
        "DELETE FROM events WHERE position IN (SELECT position FROM audit WHERE command_id = '{command}')"
    ],
    "all but the first": [AFTER + "1"],
    "everything": ["DELETE FROM events"],
    "and no checkpoint": [AFTER + "{last} - 3", "DELETE FROM checkpoint"],
    "and a checkpoint without a position": [AFTER + "{last} - 3", "UPDATE checkpoint SET position = 'none'"],
    "and no table of checkpoints": [AFTER + "{last} - 3", "DROP TABLE checkpoint"],
    "and the checkpoint set back": [AFTER + "{last} - 3", SET_BACK],
    "and no other table but the trail": [AFTER + "{last} - 3", "DROP TABLE checkpoint", *NO_TABLES],
    "everything, and no checkpoint": ["DELETE FROM events", "DELETE FROM checkpoint"],
    "and older tables": [AFTER + "{last} - 3", "UPDATE projections SET version = version + 1"],
    "and no table but the checkpoint": [AFTER + "{last} - 3", "DROP TABLE audit", *NO_TABLES],
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "memory.db"
    with Ledger.open(path, actor="ada") as ledger:
        for number in range(4):
            ledger.remember(f"Fact {number} of the day before.")
        ledger.capture("Which fact?", "The fourth of them.", session="talk")
    return path


def cut(path, way):
    """The position that the log ends at now."""
    with closing(sqlite3.connect(path)) as connection:
        sql = "SELECT position, command_id FROM audit ORDER BY position DESC LIMIT 1"
        last, command = connection.execute(sql).fetchone()
    tamper(path, *(each.format(last=last, command=command) for each in WAYS[way]))
    return log(path)[-1][0] if log(path) else 0


def log(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT position, state, head FROM events ORDER BY position").fetchall()


def evident(path, first):
    """Whether everything that looks at the file says that its log lacks the events from there on."""
    report = verify_file(path, projections=False)
    found = [each.found for each in Ledger.doctor(path).findings if each.what == "log" and each.level == "problem"]
    hints = {each.hint.split()[0] for each in Ledger.doctor(path).findings if each.level == "problem"}
    return (
        report.first_wrong == first
        and any(f"position {first}: is missing" in each for each in report.problems)
        and any(f"position {first}: is missing" in each for each in found)
        and hints == {"never"}
    )


@pytest.mark.parametrize("way", WAYS)
def test_a_log_cut_short_is_told_by_every_open_for_writing_and_nothing_is_written(path, way):
    first = cut(path, way) + 1
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(DamagedError, match=rf"position {first} is missing.*readonly.*recover") as told:
            Ledger.open(path)
        assert (told.value.table, told.value.row) == ("events", first)
    result = run("remember", "One more.", db=path)
    assert result.exit_code == 4 and f"position {first} is missing" in result.stderr
    assert path.read_bytes() == before
    assert first == 1 or evident(path, first)


@pytest.mark.parametrize("way", [each for each in WAYS if not each.startswith("everything")])
def test_a_log_cut_short_is_read_and_verify_and_doctor_tell_it(path, way, tmp_path):
    last = cut(path, way)
    with Ledger.open(path, readonly=True) as ledger:
        assert ledger.position == last
        report = ledger.proof.verify()
        assert report.first_wrong == last + 1 and not report.ok
        assert any(f"position {last + 1}: is missing" in each.found for each in ledger.maintenance.doctor().findings)
        for copy in (ledger.maintenance.backup, ledger.maintenance.export_log):
            with pytest.raises(DamagedError, match="is missing"):
                copy(tmp_path / "copy")
            assert not (tmp_path / "copy").exists()
        with pytest.raises(DamagedError, match="is missing"):
            ledger.proof.checkpoint()


def test_what_is_left_of_a_log_cut_short_is_recovered_and_the_report_says_so(path, tmp_path):
    last = cut(path, "the last three events")
    report = Ledger.recover(path, tmp_path / "new.db")
    assert (report.ok, report.events, report.cut_before) == (False, last, last + 1)
    with Ledger.open(tmp_path / "new.db") as ledger:
        assert problems(ledger) == [] and ledger.remember("And on.").position > last
    assert evident(path, last + 1)


def test_a_log_cut_short_under_an_open_ledger_is_told_by_its_next_command(path):
    with Ledger.open(path) as ledger:
        ledger.remember("Before it.")
        with opened_raw(path) as connection:
            connection.execute(AFTER + str(ledger.position - 2))
        first = ledger.position + 1
        for write in (
            lambda: ledger.remember("After it."),
            lambda: ledger.capture("And this?", "No."),
            ledger.maintenance.rebuild,
            lambda: probe.rebuild(ledger),
        ):
            with pytest.raises(DamagedError, match=f"position {first} is missing"):
                write()
        assert ledger.position == first - 1
        with pytest.raises(DamagedError), ledger.batch():
            ledger.remember("In a batch.")
        assert ledger.position == first - 1
    assert evident(path, first)


def test_tables_behind_the_log_or_a_checkpoint_that_was_hit_itself_are_no_log_cut_short(path):
    with Ledger.open(path) as ledger:
        digest = ledger.proof.digest()
    for change in (
        "UPDATE checkpoint SET position = position + 64",  # its head is still that of the end
        "UPDATE checkpoint SET position = position - 1",
        "UPDATE checkpoint SET head = zeroblob(32)",
        "DELETE FROM checkpoint",
        "DROP TABLE checkpoint",
    ):
        copy = path.with_name("copy.db")
        shutil.copy(path, copy)
        tamper(copy, change)
        with Ledger.open(copy) as ledger:
            assert ledger.proof.digest() == digest and problems(ledger) == []


def test_an_edit_that_sets_back_what_was_folded_too_is_found_by_verify_alone(path):
    """By the rows that are left over, and where there are none, against a checkpoint kept elsewhere."""
    with Ledger.open(path) as ledger:
        note = ledger.proof.checkpoint()
    tamper(path, AFTER + str(note.size - 2), SET_BACK, f"DELETE FROM audit WHERE position > {note.size - 2}")
    with Ledger.open(path) as ledger:
        assert any("holds a row that the log does not give" in each for each in ledger.proof.verify().problems)
        ledger.maintenance.rebuild()
        assert ledger.proof.verify().ok
        report = ledger.proof.verify(against=note)
        assert not report.ok and "checkpoint kept elsewhere" in report.problems[0]


def test_a_row_of_the_trail_with_another_position_is_no_log_cut_short(path):
    for change in ("position = position + 1024", "position = position + 1"):
        copy = path.with_name("copy.db")
        shutil.copy(path, copy)
        tamper(copy, f"UPDATE audit SET {change} WHERE position = (SELECT max(position) FROM audit)")
        with Ledger.open(copy) as ledger:
            ledger.maintenance.rebuild()
            assert ledger.proof.verify().ok
