"""An application of the eventsourcing library and a ledger are two logs, and each has a file of its own."""

from __future__ import annotations

import sqlite3
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID

import probe
import pytest
from eventsourcing import persistence
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event
from reads import READS, opened, prepared, put
from tampering import raw

from ledger import DamagedError, Ledger, NewerFormatError, RejectedError, StorageError, UnknownEventError
from ledger.log.envelope import digest, link
from ledger.log.event_store import EventStore

OURS, THEIRS = "ledger.log.event_store", "eventsourcing.sqlite"
TOPIC = "test_foreign:Dog.Registered"


class Dog(Aggregate):
    @event("Registered")
    def __init__(self, name: str) -> None:
        self.name = name


class School(Application[UUID]):
    pass


def environment(path: Path, module: str, **more: str) -> dict[str, str]:
    return {"PERSISTENCE_MODULE": module, "SQLITE_DBNAME": str(path), **more}


def enrol(path: Path, module: str, **more: str) -> None:
    with School(env=environment(path, module, **more)) as school:
        school.save(Dog("Fido"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with one fact at position 2."""
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.remember("The kettle is blue.")
    return tmp_path / "memory.db"


# --- where the write passes our code, or only our file ---------------------------------------------------------------


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("more", [{}, {"IS_SNAPSHOTTING_ENABLED": "y"}])
def test_an_application_on_our_recorders_is_refused_a_ledgers_file(path: Path, is_open: bool, more: Any) -> None:
    refused = pytest.raises(RejectedError, match=r"memory\.db is the file of a ledger, .* a file of its own")
    with Ledger.open(path) if is_open else nullcontext(), refused as told:
        enrol(path, OURS, **more)
    assert told.value.rule == "foreign"
    with Ledger.open(path) as ledger:
        ledger.remember("and it goes on")
        assert ledger.proof.verify().ok


def test_an_application_on_the_librarys_own_recorders_is_refused_a_ledgers_file(path: Path) -> None:
    with pytest.raises(persistence.IntegrityError, match="the log of a memory ledger: give the application a file of"):
        enrol(path, THEIRS)
    with Ledger.open(path) as ledger:
        ledger.remember("and it goes on")
        assert ledger.proof.verify().ok


def test_the_librarys_other_recorders_are_refused_too(path: Path) -> None:
    factory = persistence.InfrastructureFactory.construct
    with pytest.raises(RejectedError, match="is the file of a ledger"):
        factory(environment(path, OURS)).tracking_recorder()


def test_a_file_that_became_a_ledger_while_an_application_had_it_open_takes_no_rows_of_it(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with School(env=environment(path, OURS)) as school, Ledger.open(path) as ledger:
        with pytest.raises(RejectedError, match="is the file of a ledger"):
            school.save(Dog("Fido"))
        ledger.remember("The kettle is blue.")
        assert ledger.proof.verify().ok


@pytest.mark.parametrize("readonly", [False, True])
def test_a_ledger_is_refused_the_file_of_an_application(tmp_path: Path, readonly: bool) -> None:
    path = tmp_path / "school.db"
    enrol(path, OURS)
    with pytest.raises(RejectedError, match=rf"school\.db has the log of an application .* {TOPIC}\b.*--db") as told:
        Ledger.open(path, readonly=readonly)
    assert told.value.rule == "foreign"
    enrol(path, OURS)


def test_nothing_is_recovered_of_the_file_of_an_application_and_the_doctor_says_whose_it_is(tmp_path: Path) -> None:
    path = tmp_path / "school.db"
    enrol(path, OURS)
    with pytest.raises(RejectedError, match="has the log of an application"):
        Ledger.recover(path, tmp_path / "recovered.db")
    assert not (tmp_path / "recovered.db").exists()
    (problem,) = [each for each in Ledger.doctor(path).findings if each.level == "problem"]
    assert "the log of an application" in problem.found and "--db" in problem.hint


def test_nothing_is_recovered_of_a_log_that_does_not_begin_with_a_ledger(tmp_path: Path) -> None:
    with closing(EventStore.open(tmp_path / "thing.db")) as store, store.transact() as transaction:
        transaction.append([persistence.StoredEvent("somewhere", 1, "Thing", b"{}")])
    with pytest.raises(StorageError, match="nothing can be recovered: position 1 is not the LedgerCreated"):
        Ledger.recover(tmp_path / "thing.db", tmp_path / "recovered.db")
    assert not (tmp_path / "recovered.db").exists()


def test_no_ledger_begins_next_to_the_tables_of_an_application(tmp_path: Path) -> None:
    path = tmp_path / "school.db"
    School(env=environment(path, OURS, IS_SNAPSHOTTING_ENABLED="y")).close()
    with pytest.raises(RejectedError, match=r"school\.db has the table stored_snapshots of an application"):
        Ledger.open(path)
    enrol(path, OURS)


# --- such a row in a file all the same -------------------------------------------------------------------------------


def chained_row(connection: sqlite3.Connection) -> tuple[object, ...]:
    """As an older version of our recorders wrote it."""
    position, head = connection.execute("SELECT position, head FROM events ORDER BY 1 DESC LIMIT 1").fetchone()
    state, stream = '{"timestamp":{"_type_":"datetime_iso"},"name":"Fido"}', "ab" * 16
    mark = digest(state.encode())
    return position + 1, stream, 1, TOPIC, state, mark, link(head, position + 1, stream, 1, TOPIC, mark)


def raw_row(connection: sqlite3.Connection) -> tuple[object, ...]:
    """As somebody wrote it who knows no chain."""
    (position,) = connection.execute("SELECT max(position) FROM events").fetchone()
    return position + 1, "somewhere", 1, "Thing", "no JSON", b"", b""


BESIDE = {"erase, dry"}  # what looks through the whole log for a text

ROWS = {"of an older version": chained_row, "by hand": raw_row}


@pytest.fixture(params=ROWS)
def row(request: pytest.FixtureRequest) -> Any:
    return ROWS[request.param]


def insert(path: Path, row: Any) -> int:
    with raw(path) as connection:
        values = row(connection)
        columns = "position, stream, version, type, state, digest, head"
        connection.execute(f"INSERT INTO events ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    return int(values[0])


def test_reads_go_on_next_to_a_foreign_row(tmp_path: Path, row: Any) -> None:
    path = put(tmp_path / "memory.db")
    with opened(path, readonly=True) as ledger:
        before = {name: read(ledger, prepared()[1]) for name, read in READS.items()}
    with opened(path) as live:
        insert(path, row)
        with opened(path, readonly=True) as ledger:
            for each in (live, ledger):
                for name, read in READS.items():
                    try:
                        told = read(each, prepared()[1])
                    except DamagedError as error:
                        assert (error.table, error.row) == ("events", probe.store(each).head()[0]), name
                        assert name in BESIDE, name
                        continue
                    assert type(told) is type(before[name]), name


def test_whoever_looks_after_a_file_names_a_foreign_row(path: Path, row: Any) -> None:
    position = insert(path, row)
    with Ledger.open(path, readonly=True) as ledger:
        report = ledger.proof.verify()
    assert not report.ok and report.first_wrong == position
    assert any(each.startswith(f"position {position}: ") for each in report.problems)
    findings = Ledger.doctor(path)
    assert not findings.ok
    assert any(f"position {position}: " in each.found and "recover" in each.hint for each in findings.findings)
    if row is chained_row:
        assert any(TOPIC in each and "application of the eventsourcing library" in each for each in report.problems)


@pytest.mark.parametrize("is_open", [False, True])
def test_nothing_is_written_behind_a_foreign_row_and_the_error_says_the_way_out(
    path: Path, row: Any, is_open: bool
) -> None:
    expected = pytest.raises((UnknownEventError, DamagedError), match=r"damaged: .*position 3\b.*readonly.*recover\(\)")
    if is_open:
        with Ledger.open(path) as ledger:
            insert(path, row)
            for _ in range(2):
                with expected:
                    ledger.remember("The pot is white.")
            assert [each.content for each in ledger.memories.list()] == ["The kettle is blue."]
    else:
        insert(path, row)
        for _ in range(2):
            with expected:
                Ledger.open(path)
    with raw(path) as connection:
        assert connection.execute("SELECT max(position) FROM events").fetchone() == (3,)


def test_recover_copies_a_log_up_to_a_foreign_row(path: Path, row: Any, tmp_path: Path) -> None:
    insert(path, row)
    report = Ledger.recover(path, tmp_path / "recovered.db")
    assert (report.cut_before, report.events) == (3, 2)
    with Ledger.open(tmp_path / "recovered.db") as ledger:
        ledger.remember("and it goes on")
        assert ledger.proof.verify().ok


def test_a_replay_ends_before_a_foreign_row(path: Path, row: Any, tmp_path: Path) -> None:
    insert(path, row)
    with Ledger.open(path, readonly=True) as ledger:
        assert ledger.replay(tmp_path / "copy.db").position == 2
        ledger.replay(tmp_path / "branch.db", branch=True)
    with Ledger.open(tmp_path / "branch.db") as ledger:
        ledger.remember("and it goes on")
        assert ledger.proof.verify().ok


def test_behind_an_upgrade_such_a_row_is_of_a_newer_version_and_kept(path: Path, tmp_path: Path) -> None:
    with Ledger.open(path) as ledger, probe.store(ledger).transact() as transaction:
        upgrade = b'{"event_id":"x","recorded_at":"2027-01-01T00:00:00.000000Z","command":"upgrade",'
        upgrade += b'"data":{"format":2,"least_reader":1,"least_writer":2}}'
        version = transaction.version("ledger") + 1
        transaction.append([persistence.StoredEvent("ledger", version, "LedgerUpgraded", upgrade)])
    insert(path, chained_row)
    with raw(path) as connection:
        kept = connection.execute("SELECT * FROM events ORDER BY 1").fetchall()
    with pytest.raises(NewerFormatError, match="needs a writer of format 2"):
        Ledger.open(path)
    with Ledger.open(path, readonly=True) as ledger:
        assert [each.content for each in ledger.memories.list()] == ["The kettle is blue."]
        assert [each for each in ledger.proof.verify().problems if "the projections" not in each] == []
    assert Ledger.recover(path, tmp_path / "recovered.db").cut_before is None
    with raw(tmp_path / "recovered.db") as connection:
        assert connection.execute("SELECT * FROM events ORDER BY 1").fetchall() == kept


def test_the_store_of_an_application_stays_sound(tmp_path: Path) -> None:
    enrol(tmp_path / "school.db", OURS)
    with closing(EventStore.open(tmp_path / "school.db")) as store:
        assert [each.type for each in store.rows()] == [TOPIC]


def test_a_ledger_made_before_the_view_was_is_sound_and_gets_it_when_it_is_opened_for_writing(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        ledger.remember("The sea is salty.")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP VIEW stored_events")  # its trigger goes with it
    with Ledger.open(path, readonly=True) as ledger:
        assert ledger.proof.verify().ok
    assert Ledger.doctor(path).ok
    with Ledger.open(path) as ledger:
        assert ledger.proof.verify().ok
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError, match="file of its own"):
        connection.execute("INSERT INTO stored_events VALUES ('a', 1, 'b', '{}')")
