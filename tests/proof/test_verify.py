"""Verify: every kind of damage and of malice is told, with the first wrong position, and nothing is told of what is sound."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import sqlite3
from contextlib import closing, suppress

import needs
import probe
import pytest
from command_line import run
from tampering import TRIGGERS, erase, recompute, redacted, tamper
from unwritable import as_nobody
from unwritable import sealed as sealed_media

from ledger import Ledger, NotFoundError, RejectedError, StorageError
from ledger.events import LEDGER_STREAM, CheckpointSealed, LedgerUpgraded, Redaction
from ledger.proof.proving import verify_file
from projections.core.projector import projections
from projections.views import memories

LONG = "long " * 60_000


@pytest.fixture
def path(tmp_path):
    """A closed ledger of 12 events without a sealed checkpoint."""
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        first = ledger.remember("The user prefers dark roast coffee.", project="kitchen")
        ledger.capture("Coffee?", "The user prefers dark roast coffee.", project="kitchen")
        ledger.supersede(first.id, "The user prefers tea.")
        for number in range(12 - ledger.position):
            ledger.remember(f"fact number {number}")
        assert ledger.position == 12
    return path


def check(path, **how):
    """The report about a file, which is the same however one asks."""
    report = verify_file(path, **how)
    assert report.ok is (not report.problems)
    assert report.ok or report.first_wrong is None or f"position {report.first_wrong}:" in " ".join(report.problems)
    return report


def problems(path, **how):
    return check(path, **how).problems


def seal(path, **how):
    with Ledger.open(path) as ledger:
        return ledger.proof.checkpoint(**how)


def kept(path):
    """A checkpoint that the log itself does not hold."""
    with Ledger.open(path, readonly=True) as ledger:
        return ledger.proof.checkpoint()


# --- what is sound ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sound_ledger_has_no_problems_however_it_is_asked(path):
    for how in ({}, {"full": True}, {"projections": False}):
        report = check(path, **how)
        assert (report.ok, report.events, report.first_wrong, report.since, report.warnings) == (True, 12, None, 0, ())
    with Ledger.open(path) as ledger:
        assert ledger.proof.verify().ok
        assert set(ledger.proof.verify().projections) == {each.name for each in projections(b"")}
        assert ledger.proof.verify(projections=False).projections == ()
        with ledger.batch():
            ledger.remember("inside a batch")
            assert ledger.proof.verify().ok and ledger.proof.verify().events == 13
    with Ledger.open(path, readonly=True) as ledger:
        assert ledger.proof.verify().ok


def test_a_new_ledger_a_rebuilt_one_and_an_undone_command_are_sound(tmp_path):
    with Ledger.open(tmp_path / "memory.db") as ledger:
        assert ledger.proof.verify().ok
        for _ in range(2):
            probe.rebuild(ledger)
            assert ledger.proof.verify().problems == ()
        ledger.undo(ledger.remember("x").position)
        assert ledger.proof.verify().problems == ()


def test_progress_reaches_its_end_once_for_walk_and_fold(path):
    told = []
    verify_file(path, progress=lambda *each: told.append(each))
    assert told == sorted(told) and told[-1] == (24, 24)


def test_the_tables_that_a_killed_rebuild_left_are_no_problem(path):
    with Ledger.open(path) as ledger, probe.store(ledger).transact() as transaction:
        for sql in ("CREATE TABLE fresh_memories (row)", "CREATE TABLE old_anything (x PRIMARY KEY)"):
            transaction.connection.execute(sql)
    assert problems(path) == ()


# --- one change ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *[("state", "{}"), ("state", None), ("state", b"\xff\xfe"), ("type", "MemoryRetracted"), ("stream", "m_other")],
        *[
            ("version", 9),
            ("digest", bytes(32)),
            ("head", bytes(32)),
            ("digest", "text"),
            ("head", None),
            ("version", "x"),
        ],
    ],
)
def test_a_changed_column_is_told_with_its_position(path, column, value):
    with sqlite3.connect(path) as connection:  # columns that may hold anything, as in a damaged file
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE name = 'events'")
    connection.close()
    tamper(path, (f"UPDATE events SET {column} = ? WHERE position = 7", (value,)))

    report = check(path)
    assert report.first_wrong == 7
    assert any(each.startswith("position 7:") for each in report.problems)


def test_text_that_is_no_text_is_told_and_the_walk_goes_on(path):
    tamper(
        path,
        "UPDATE events SET state = CAST(x'7bff7d' AS TEXT) WHERE position = 7",
        "UPDATE events SET state = '{}' WHERE position = 9",
    )
    told = problems(path, projections=False)
    assert [each[:11] for each in told] == ["position 7:", "position 9:"]


def test_a_removed_a_repeated_and_a_swapped_row_are_told(path):
    copy = path.with_name("copy.db")
    columns = "stream, version + 1, type, state, digest, head, key, NULL"
    again = f"INSERT INTO events SELECT 13, {columns} FROM events WHERE position = 12"
    aside = "UPDATE events SET position = -position WHERE position IN (6, 7)"
    back = "UPDATE events SET position = CASE position WHEN -6 THEN 7 ELSE 6 END WHERE position < 0"
    for statements, first in ((["DELETE FROM events WHERE position = 6"], 7), ([again], 13), ([aside, back], 6)):
        shutil.copy(path, copy)
        tamper(copy, *statements)
        assert check(copy).first_wrong == first, statements


def test_the_first_event_must_be_the_ledgers_own(path):
    tamper(path, "UPDATE events SET type = 'Other' WHERE position = 1")
    assert check(path).first_wrong == 1
    tamper(path, "DELETE FROM events")
    assert "its end was cut off" in problems(path)[0] and "holds no event" in problems(path)[1]


def test_a_gap_in_the_versions_of_a_stream_is_told(path):
    tamper(path, "UPDATE events SET version = 5 WHERE position = 9")
    recompute(path)
    report = check(path, projections=False)
    assert report.first_wrong == 9 and "version 5 of 'm_" in report.problems[0]


def test_problems_are_counted_after_the_first_hundred(path):
    with Ledger.open(path) as ledger, ledger.batch():
        for number in range(150):
            ledger.remember(f"many {number}")
    tamper(path, "UPDATE events SET state = '{}' WHERE position > 10")
    report = check(path, projections=False)
    assert len(report.problems) == 101 and report.problems[-1] == "and 52 more problems"
    assert report.first_wrong == 11


# --- the file and its schema -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("CREATE TRIGGER sly AFTER INSERT ON events BEGIN DELETE FROM keys; END", "trigger sly is not"),
        ("CREATE VIEW sly AS SELECT * FROM events", "view sly is not"),
        ("CREATE TABLE sly (x)", "table sly is not"),
        ("CREATE INDEX sly ON memories (content)", "index of memories is not"),
        ("CREATE TRIGGER old_sly AFTER INSERT ON events BEGIN SELECT 1; END", "trigger old_sly is not"),
        ("DROP INDEX memories_1_1", "index of memories is missing"),
        ("DROP TABLE keys", "table keys is missing"),
        ("ALTER TABLE memories ADD COLUMN sly", "table memories is missing or was changed"),
        ("PRAGMA application_id = 7", "application id is 0x7"),
        ("PRAGMA user_version = 0", "format is 0"),
    ],
)
def test_what_does_not_belong_into_the_file_is_told(path, sql, told):
    tamper(path, sql)
    assert told in " ".join(problems(path))


@pytest.mark.parametrize("number", range(len(TRIGGERS)))
def test_a_trigger_that_was_taken_away_or_weakened_is_told(path, number):
    name = TRIGGERS[number].split()[2]
    table = "blobs" if name.startswith("blobs") else "events"
    with sqlite3.connect(path) as connection:
        connection.execute(f"DROP TRIGGER {name}")
    connection.close()
    assert f"trigger {name} is missing" in " ".join(problems(path))
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TRIGGER {name} BEFORE DELETE ON {table} BEGIN SELECT 1; END")
    connection.close()
    assert f"trigger {name} is missing or was changed" in " ".join(problems(path))


def test_a_format_that_the_log_does_not_name_is_told(path):
    tamper(path, "PRAGMA user_version = 2")
    assert "its format is 2, but the log names no format above 1" in " ".join(problems(path))


def test_a_format_of_the_future_that_the_log_names_is_a_warning(path):
    with Ledger.open(path) as ledger:

        def upgraded(work):
            work.emit(LEDGER_STREAM, LedgerUpgraded(format=2, least_reader=1, least_writer=1))
            return LEDGER_STREAM

        probe.writer(ledger).run("upgrade", probe.who(), upgraded)
    tamper(path, "PRAGMA user_version = 2")
    report = check(path)
    assert report.ok and "format 2" in report.warnings[0]


@pytest.mark.slow
def test_a_damaged_page_is_a_problem_and_never_an_error(path):
    size = path.stat().st_size
    for at in range(100, size, 4096 * 7 + 300):
        copy = path.with_name("copy.db")
        shutil.copy(path, copy)
        with open(copy, "r+b") as file:
            file.seek(at)
            file.write(b"\xa5" * 300)
        report = check(copy)
        assert not report.ok or harmless(copy, path)


def harmless(one, other):
    """Whether two files say the same in every row; what lies in a page's free space is nothing."""
    dumps = []
    for each in (one, other):
        connection = sqlite3.connect(each)
        dumps.append(list(connection.iterdump()))
        connection.close()
    return dumps[0] == dumps[1]


def test_a_file_that_is_no_database_or_no_ledger(tmp_path):
    place = tmp_path / "memory.db"
    with pytest.raises(NotFoundError, match="no ledger at"):
        verify_file(place)
    place.write_bytes(b"this is text and no database " * 100)
    assert "not a ledger" in problems(place)[0]
    place.write_bytes(b"")
    with pytest.raises(RejectedError, match="is an empty file, not a ledger"):
        verify_file(place)
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(RejectedError, match="another program"):
        verify_file(tmp_path / "other.db")


def test_a_cut_file_is_told(path):
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)
    assert problems(path)


# --- projections -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        (
            "UPDATE memories SET content = 'sly' WHERE row = 3",
            "differs from the log in content (row 3)",
        ),
        ("DELETE FROM memories WHERE row = 3", "the table memories lacks a row that the log gives (row 3)"),
        (
            "INSERT INTO dependents VALUES ('i_x', 3, 5)",
            "the table dependents holds a row that the log does not give (source …, memory 3)",
        ),
        ("UPDATE confidence_steps SET confidence = 7", "the table confidence_steps differs from the log"),
        ("UPDATE audit SET actor = 'sly' WHERE position = 5", "in actor (position 5)"),
        ("UPDATE search_waiting SET content = 'sly' WHERE row = 3", "text index search"),
        ("DELETE FROM search_waiting WHERE row = 3", "do not hold row 3 as the log has it"),
        ("INSERT INTO search (rowid, content, words) VALUES (3, 'sly', '')", "text index search"),
        (
            "UPDATE projections SET suspended_at = 5 WHERE name = 'memories'",
            "says that it is suspended, and the log does not",
        ),
        ("UPDATE checkpoint SET position = 11", "checkpoint is not the last event"),
        ("DELETE FROM checkpoint", "checkpoint is not the last event"),
    ],
)
def test_a_row_that_the_log_does_not_give_is_told(path, sql, told):
    tamper(path, sql)
    report = check(path)
    assert told in " ".join(report.problems) and report.first_wrong is None
    with Ledger.open(path) as ledger:
        probe.rebuild(ledger)
    assert problems(path) == ()


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("UPDATE search_data SET block = x'01010101' WHERE id = 1", "another number of texts or of words"),
        ("DELETE FROM search_data WHERE id = 1", "another number of texts or of words"),
        ("UPDATE passage_search_data SET id = 0 WHERE id = 1", "another number of texts or of words"),  # an empty one
        ("DELETE FROM search_idx WHERE term = (SELECT max(term) FROM search_idx)", "does not find every word"),
        ("UPDATE search_idx SET term = x'306a' WHERE term = (SELECT max(term) FROM search_idx)", "not find every word"),
        ("UPDATE search_config SET k = 'verSion'", "has other settings than the index of a ledger"),
    ],
)
def test_what_leads_to_the_words_of_an_index_is_looked_at_too(tmp_path, sql, told):
    """With all words in their places, a search found less or raised what was no LedgerError."""
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        with ledger.batch():
            for number in range(60):
                ledger.remember(" ".join(f"{number * 37 % 101:02}{each}{number}word" for each in "abcdefghijklm"))
        ledger.recall("word")
    tamper(path, sql)
    assert told in " ".join(problems(path))
    with Ledger.open(path) as ledger:
        with suppress(StorageError):
            ledger.recall("70m30word")
        probe.rebuild(ledger)
    assert problems(path) == ()


@pytest.mark.parametrize("value", ["'2026-02-30T00:00:00.000000Z'", "x'00'"])
def test_a_row_that_cannot_be_read_is_a_typed_error_for_who_reads_it(path, value):
    with Ledger.open(path) as ledger:
        ledger.policy.set(decay="all")  # the time of the last activity is read for the decay
    tamper(path, f"UPDATE memories SET active_at = {value}")
    with (
        Ledger.open(path, readonly=True) as ledger,
        pytest.raises(StorageError, match="of the table memories is damaged"),
    ):
        ledger.recall("fact number 5", limit=100)
    assert problems(path)


def test_no_text_of_a_row_is_told(path):
    tamper(path, "UPDATE names SET name = 'a secret name'")
    assert "secret" not in " ".join(problems(path)) and problems(path)


def test_a_parked_projection_is_a_warning(path, monkeypatch):
    def poisoned(*_):
        raise RuntimeError("poison")

    with Ledger.open(path) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr("projections.views.audit.Audit.fold", poisoned)
            ledger.remember("poison for audit")
        report = ledger.proof.verify()
    assert report.problems == () and "audit is suspended at position 13" in report.warnings[0]
    assert "audit" not in report.projections


def test_a_projection_that_cannot_fold_an_event_any_more_is_a_problem(path, monkeypatch):
    def poisoned(*_):
        raise RuntimeError("poison")

    monkeypatch.setattr("projections.views.confidence.Confidence.fold", poisoned)
    assert "the projection confidence: it cannot fold the log" in problems(path)[0]


def test_projections_of_another_version_are_not_compared(path, monkeypatch):
    monkeypatch.setattr(memories.MemoriesProjection, "version", 99)
    report = check(path)
    assert report.ok and "memories" not in report.projections and "memories is of version" in report.warnings[0]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("UPDATE projections SET version = version + 1 WHERE name = 'memories'", "above the"),
        ("DELETE FROM projections WHERE name = 'memories'", "is not recorded"),
    ],
)
def test_no_projection_gets_out_of_the_comparison_by_what_its_entry_says(path, sql, told):
    tamper(path, sql, "UPDATE memories SET content = 'sly'")
    (problem,) = problems(path)
    assert problem.startswith("the projection memories: ") and told in problem
    with Ledger.open(path, readonly=True) as ledger:
        assert ledger.proof.verify(full=True).problems == (problem,)
    with Ledger.open(path) as ledger:
        assert ledger.proof.verify().ok, "it was folded again"


def test_what_a_newer_product_folded_where_it_alone_may_write_is_not_compared(path):
    with Ledger.open(path) as ledger:
        upgrade = LedgerUpgraded(format=2, least_reader=1, least_writer=2)
        probe.writer(ledger).run(
            "upgrade", probe.who(actor="ledger"), lambda work: work.emit("ledger", upgrade) or "ledger"
        )
    tamper(path, "UPDATE projections SET version = version + 1 WHERE name = 'memories'")
    report = check(path)
    assert report.ok and "memories is of version" in report.warnings[0]


def test_a_projection_that_an_older_product_did_not_have_is_no_problem(path):
    tamper(path, "DELETE FROM projections WHERE name = 'delivered'", "DROP TABLE delivered")
    report = check(path)
    assert report.ok and "delivered is not there" in report.warnings[0]


def test_where_nothing_can_be_written_the_files_own_tables_are_compared(path):
    tamper(path, "UPDATE memories SET content = 'sly' WHERE row = 3", "UPDATE projections SET version = 0")
    with Ledger.open(path, readonly=True) as ledger:  # which folds privately
        assert ledger.proof.verify().warnings
    tamper(path, *(f"UPDATE projections SET version = {p.version} WHERE name = '{p.name}'" for p in projections(b"")))
    with Ledger.open(path, readonly=True) as ledger:
        assert "content (row 3)" in " ".join(ledger.proof.verify().problems)


# --- erasures and texts outside the log ------------------------------------------------------------------------------


def erased(path, *positions, **how):
    with Ledger.open(path) as ledger:
        return erase(ledger, *positions, **how)


def erasure_problems(path, **how):
    """Without the projections, whose own erasure is somebody else's."""
    return check(path, projections=False, full=True, **how).problems


def test_an_erased_row_is_sound_and_so_is_one_erased_twice(path):
    assert erased(path, 3, 9) == 13
    assert erasure_problems(path) == ()
    erased(path, 9, after=lambda state: state.replace('"kind"', '"was"'))
    assert erasure_problems(path) == ()


def test_an_erasure_behind_a_sealed_checkpoint_is_looked_at(path):
    assert seal(path).size == 12
    by = erased(path, 3)
    assert check(path, projections=False).problems == ()
    tamper(path, "UPDATE events SET erased_by = NULL WHERE position = 3")
    report = check(path, projections=False)
    assert report.first_wrong == 3 and f"position {by}" in report.problems[0]


def test_an_erasure_forged_behind_a_sealed_checkpoint_is_found(path):
    by = erased(path, 3)
    assert seal(path).size >= by
    tamper(path, f"UPDATE events SET state = '{{}}', erased_by = {by} WHERE position = 9")
    report = check(path, projections=False)
    assert report.first_wrong == 9 and "no erasure names it" in report.problems[0]


def test_what_is_sealed_and_erased_soundly_is_skipped_still(path):
    erased(path, 3)
    size = seal(path).size
    report = check(path, projections=False)
    assert report.ok and report.since == size


def forged(path, *statements):
    tamper(path, *statements)
    report = check(path, projections=False, full=True)
    assert not report.ok
    return report


def test_a_forged_erasure_is_found(path):
    by = erased(path, 3)
    copy = path.with_name("copy.db")
    for statements, first, told in (
        ([f"UPDATE events SET state = '{{}}', erased_by = {by} WHERE position = 9"], 9, "no erasure names it"),
        (
            ["UPDATE events SET state = '{}', erased_by = 7 WHERE position = 9"],
            9,
            "position 7 erased it, and no erasure",
        ),
        (["UPDATE events SET erased_by = 99 WHERE position = 9"], 9, "position 99 erased it"),
        (["UPDATE events SET erased_by = 7 WHERE position = 3"], 3, f"the last to name it is position {by}"),
        (["UPDATE events SET erased_by = NULL WHERE position = 3"], 3, "nothing was erased of it"),
        (["UPDATE events SET state = '{}' WHERE position = 3"], 3, "not what its erasure"),
        (["UPDATE events SET erased_by = 'x' WHERE position = 3"], 3, "position x erased it"),
    ):
        shutil.copy(path, copy)
        report = forged(copy, *statements)
        assert report.first_wrong == first and told in " ".join(report.problems)


def test_an_erasure_that_names_another_state_or_no_row_is_found(path):
    with Ledger.open(path) as ledger:
        (state,) = [row.state for row in [probe.store(ledger).row(9)]]
    after = redacted(state)
    for target, told in (
        (Redaction(9, "00" * 32, "11" * 32), "nothing was erased of it"),
        (Redaction(99, "00" * 32, "11" * 32), "position 99, which is not in the log"),
        (Redaction(0, "00" * 32, "11" * 32), "position 0, which is not in the log"),
    ):
        copy = path.with_name("copy.db")
        shutil.copy(path, copy)
        erased(copy, targets=(target,))
        assert told in " ".join(erasure_problems(copy))
    by = erased(path, targets=(Redaction(9, "00" * 32, "11" * 32),))
    tamper(path, ("UPDATE events SET state = ?, erased_by = ? WHERE position = 9", (after, by)))
    assert "erased another state" in " ".join(erasure_problems(path))


def test_an_erasure_cannot_be_of_what_comes_after_it(path):
    with Ledger.open(path) as ledger:
        by = erase(ledger, targets=(Redaction(14, "00" * 32, "11" * 32),))
        ledger.remember("later")
    tamper(path, f"UPDATE events SET erased_by = {by} WHERE position = 14")
    assert "position 14: position 13 erased another state" in " ".join(erasure_problems(path))


@pytest.fixture
def with_blob(path):
    with Ledger.open(path) as ledger:
        ledger.capture("What was that?", LONG, context={"x": {"blob": "b_1", "size_bytes": 1, "digest": "00"}})
    with closing(sqlite3.connect(path)) as connection:
        ((blob,),) = connection.execute("SELECT id FROM blobs").fetchall()
    assert problems(path) == ()
    return path, blob


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("UPDATE blobs SET data = x'00'", "is not the text that was recorded"),
        ("UPDATE blobs SET data = NULL", "no erasure names it"),
        ("UPDATE blobs SET data = NULL, erased_by = 5", "no erasure names it"),
        ("DELETE FROM blobs", "is missing"),
        ("INSERT INTO blobs VALUES ('b_more', x'00', NULL)", "belongs to no event"),
    ],
)
def test_a_text_outside_the_log_is_looked_at(with_blob, sql, told):
    path, _ = with_blob
    tamper(path, sql)
    assert told in " ".join(erasure_problems(path))


def test_an_erased_text_outside_the_log_is_sound(with_blob):
    path, blob = with_blob
    by = erased(path, blobs=[blob])
    assert erasure_problems(path) == ()
    tamper(path, f"UPDATE blobs SET erased_by = {by - 1}")
    assert f"position {by} did" in " ".join(erasure_problems(path))
    tamper(path, f"UPDATE blobs SET erased_by = {by}, data = x'00'")
    assert "it is not empty" in " ".join(erasure_problems(path))


# --- sealed checkpoints ----------------------------------------------------------------------------------------------


def test_what_a_sealed_checkpoint_covers_is_skipped_and_full_walks_it(path):
    assert seal(path).size == 12
    tamper(path, "UPDATE events SET state = '{}' WHERE position = 7")

    quick = check(path, projections=False)
    assert (quick.ok, quick.since, quick.events) == (True, 12, 13)
    full = check(path, projections=False, full=True)
    assert (full.ok, full.since, full.first_wrong) == (False, 0, 7)


def test_where_anything_is_wrong_nothing_is_skipped(path):
    assert seal(path).size == 12
    tamper(path, "UPDATE events SET state = replace(state, 'fact', 'lie') WHERE position = 9")

    report = check(path)
    assert (report.since, report.first_wrong) == (0, 9)
    assert "the projection memories: " in report.problems[0]
    assert sum(each.startswith("position 9:") for each in report.problems) == 1


def test_a_checkpoint_that_was_sealed_wrongly_is_told_and_not_gone_on_from(path):
    for data in (
        CheckpointSealed(5, "00" * 32, "00" * 32, ("00" * 32, "00" * 32)),
        CheckpointSealed(5, "00" * 32, "00" * 32, ()),
        CheckpointSealed(900, "00" * 32, "00" * 32, ()),
        CheckpointSealed(-1, "00" * 32, "00" * 32, ()),
    ):
        copy = path.with_name("copy.db")
        shutil.copy(path, copy)
        with Ledger.open(copy) as ledger:
            probe.writer(ledger).run(
                "forge", probe.who(), lambda work, data=data: work.emit(LEDGER_STREAM, data) or LEDGER_STREAM
            )
        report = check(copy)
        assert (report.first_wrong, report.since) == (13, 0) and "sealed here" in report.problems[0]
        assert len(report.problems) == 1


def test_a_wrong_seal_after_a_good_one_is_told_and_the_good_one_used(path):
    assert seal(path).size == 12
    bad = CheckpointSealed(5, "00" * 32, "00" * 32, ("00" * 32, "00" * 32))
    with Ledger.open(path) as ledger:
        probe.writer(ledger).run("forge", probe.who(), lambda work: work.emit(LEDGER_STREAM, bad) or LEDGER_STREAM)
    report = check(path)
    assert (report.first_wrong, report.since, len(report.problems)) == (14, 0, 1)


# --- against a checkpoint kept elsewhere -----------------------------------------------------------------------------


def attacks(path):
    """(name, the file after it, the first wrong position or None): each leaves a ledger that is sound in itself."""
    old = path.with_name("old.db")
    with Ledger.open(path) as ledger:
        ledger.proof.checkpoint()
        for number in range(5):
            ledger.remember(f"later {number}")
    shutil.copy(path, old)
    with Ledger.open(path) as ledger:
        for number in range(5):
            ledger.remember(f"latest {number}")
        note = ledger.proof.checkpoint()
    last = note.size

    def made(name, *statements, anew=True):
        copy = path.with_name(f"{name}.db")
        shutil.copy(path, copy)
        tamper(copy, *statements)
        if anew:
            recompute(copy)
        with Ledger.open(copy) as ledger:
            probe.rebuild(ledger)
        return copy

    aside = "UPDATE events SET position = -position WHERE position IN (16, 17)"
    back = "UPDATE events SET position = CASE position WHEN -16 THEN 17 ELSE 16 END WHERE position < 0"
    tables = [f"DELETE FROM {name} WHERE position > {last - 3}" for name in ("events", "audit")]
    set_back = "UPDATE checkpoint SET (position, head) = (SELECT max(position), head FROM events)"
    yield "truncated", made("truncated", *tables, set_back, anew=False), last - 2
    yield "rolled back", old, 19
    yield "swapped", made("swapped", aside, back), None
    twice = (
        "UPDATE events SET (stream, version, type, state) = "
        "(SELECT 'm_0000000000000000', 1, type, state FROM events WHERE position = 16) WHERE position = 17"
    )
    yield "duplicated", made("duplicated", twice), None
    changed = "UPDATE events SET state = replace(state, 'later 1', 'a lie') WHERE position = 15"
    yield "recomputed", made("recomputed", changed), None
    yield "grown again", grown_again(old, path), None
    yield "the note", note, None


def grown_again(old, path):
    copy = path.with_name("grown.db")
    shutil.copy(old, copy)
    with Ledger.open(copy) as ledger:
        for number in range(9):
            ledger.remember(f"another past {number}")
    return copy


@pytest.mark.slow
def test_malicious_edits_are_found_against_an_outside_checkpoint_and_by_nothing_else(path):
    *found, (_, note, _) = list(attacks(path))
    assert [name for name, _, _ in found] == [
        *("truncated", "rolled back", "swapped", "duplicated", "recomputed", "grown again")
    ]
    for name, file, first in found:
        assert check(file, full=True).problems == (), f"{name}: it was meant to be sound in itself"
        report = check(file, against=note.text)
        assert not report.ok and report.first_wrong == first, name
        assert report.against == note.size and "checkpoint" in report.problems[0]
    assert check(path, against=note.text).ok


def test_a_log_that_went_on_is_consistent_with_every_earlier_checkpoint(path):
    notes = []
    with Ledger.open(path) as ledger:
        for number in range(5):
            notes.append(ledger.proof.checkpoint())
            ledger.remember(f"and then {number}")
    assert [note.size for note in notes] == [12, 14, 16, 18, 20]
    for note in notes:
        assert check(path, against=note).ok
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    tamper(copy, "UPDATE events SET state = replace(state, 'and then 3', 'a lie')")
    recompute(copy)
    assert [check(copy, against=note, projections=False).ok for note in notes] == [True, True, True, True, False]


def test_a_checkpoint_of_another_ledger_is_refused_by_both_names(path, tmp_path):
    with Ledger.open(tmp_path / "other.db") as other, Ledger.open(path) as ledger:
        note = other.proof.checkpoint()
        with pytest.raises(RejectedError, match=rf"{other.id}.*{ledger.id}"):
            ledger.proof.verify(against=note)
    with pytest.raises(RejectedError, match="is of the ledger"):
        verify_file(path, against=note.text)


def test_a_checkpoint_is_given_as_path_text_or_itself(path):
    note, file = kept(path), path.with_name("kept.txt")
    file.write_text(note.text, encoding="utf-8")
    for given in (note, note.text, file, str(file)):
        assert check(path, against=given).against == 12
    with Ledger.open(path) as ledger:
        for given, error in (
            (path, RejectedError),
            (str(path) + "-wal", RejectedError),
            ("missing.txt", NotFoundError),
            (7, RejectedError),
            ("", RejectedError),
        ):
            with pytest.raises(error):
                ledger.proof.verify(against=given)
        ledger.remember("the locks are still there")
        with pytest.raises(RejectedError, match="no checkpoint was given"):
            ledger.proof.verify(public_key=file)


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_says_sound_or_not_and_leaves_with_1(path):
    assert "sound" in run("verify", db=path).stdout and run("verify", db=path).exit_code == 0
    tamper(path, "UPDATE events SET state = '{}' WHERE position = 7")
    result = run("verify", "--json", db=path)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["first_wrong"] == 7
    shown = run("verify", "--no-projections", db=path)
    assert (
        shown.exit_code == 1
        and "NOT SOUND, first at position 7" in shown.stdout
        and "position 7: the state" in shown.stdout
    )


def test_the_command_reads_and_never_repairs(path):
    tamper(path, "DELETE FROM events WHERE position = 12", triggers=False)
    before = path.read_bytes()
    assert run("verify", db=path).exit_code == 1
    assert path.read_bytes() == before


def test_the_command_with_what_was_kept(path, tmp_path):
    note = tmp_path / "kept.txt"
    result = run("proof", "checkpoint", db=path)
    note.write_text(result.stdout, encoding="utf-8")
    assert result.exit_code == 0 and len(result.stdout.splitlines()) == 5
    assert run("verify", "--against", str(note), db=path).exit_code == 0
    tamper(path, "DELETE FROM events WHERE position > 9")
    assert run("verify", "--against", str(note), db=path).exit_code == 1
    assert run("verify", "--against", "nowhere", db=path).exit_code == 3
    assert run("verify", "--against", str(path), db=path).exit_code == 4
    assert run("verify", db=tmp_path / "nowhere.db").exit_code == 3
    assert not os.path.exists(tmp_path / "nowhere.db")


# --- at large --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_flipped_bit_changes_an_event_in_silence(path):
    """One bit in every 24,989th byte, and many more in ``tools/crash bits``.

    ``ok`` without a warning means that every event and every shown row is as it was.
    """
    copy, data, draw = path.with_name("copy.db"), path.read_bytes(), random.Random(7)
    rows = everything(path)
    for at in range(draw.randrange(24_989), len(data), 24_989):
        flipped = bytearray(data)
        flipped[at] ^= 1 << draw.randrange(8)
        copy.write_bytes(flipped)
        report = check(copy, full=True)
        assert not report.ok or report.warnings or everything(copy) == rows, at


def everything(path):
    """Every row of the log and of the projections, but for the texts that wait for their index."""
    with closing(sqlite3.connect(path)) as connection:
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'search%' ORDER BY name"
        names = [name for (name,) in connection.execute(sql)]
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}


@needs.modes
def test_a_ledger_on_media_that_cannot_be_written_is_verified(media):
    path, _ = sealed_media(media)

    def work():
        with Ledger.open(path, readonly=True) as ledger:
            note = ledger.proof.checkpoint()
            for how in ({}, {"full": True}, {"against": note}):
                assert ledger.proof.verify(**how).problems == verify_file(path, **how).problems == ()
            assert ledger.proof.prove(3, against=note).root == note.root

    as_nobody(work)


def test_what_erase_does_is_sound(path):
    with Ledger.open(path) as ledger:
        secret = ledger.remember("something very secret")
        note = ledger.proof.checkpoint()
        ledger.erase(secret.id)
        for how in ({}, {"full": True}, {"against": note}):
            assert ledger.proof.verify(**how).problems == ()
        assert ledger.proof.prove(secret.position, include_state=True).erased_by


# --- a full disk -----------------------------------------------------------------------------------------------------


def test_verify_compares_the_projections_though_the_disk_has_no_room_for_a_second_fold(path, monkeypatch):
    connect, filled = sqlite3.connect, []

    def with_little_room(database, *args, **options):
        connection = connect(database, *args, **options)
        if ".shadow-" in str(database):
            connection.execute("PRAGMA max_page_count = 8")
            filled.append(database)
        return connection

    monkeypatch.setattr(sqlite3, "connect", with_little_room)
    with Ledger.open(path) as ledger:
        report = ledger.proof.verify()
        assert (report.ok, report.problems, report.warnings) == (True, (), ())
        assert "memories" in report.projections and len(report.projections) == len(set(report.projections))
    assert filled


def test_verify_needs_no_file_of_its_own(path, monkeypatch):
    opened = os.open

    def without_room(file, flags, *args, **options):
        if ".shadow-" in str(file):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return opened(file, flags, *args, **options)

    monkeypatch.setattr(os, "open", without_room)
    with Ledger.open(path) as ledger:
        assert ledger.proof.verify().ok
