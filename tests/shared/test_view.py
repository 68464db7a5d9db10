"""The eventsourcing library's own recorder over the view of a shared log, with the library's cases of a recorder."""

from __future__ import annotations

import sys
import threading
import types
import unittest
from collections.abc import Iterator
from unittest import mock
from uuid import uuid4

import pytest
from shared_rows import locked, publication, write

pytest.importorskip("psycopg", reason="the driver psycopg is not installed")

import psycopg
from eventsourcing.persistence import IntegrityError
from eventsourcing.postgres import PostgresApplicationRecorder

from ledger.domain.errors import ConflictError
from ledger.doors.eventsourcing import make_view, shared_recorder
from ledger.log.envelope import LogRow
from ledger.log.shared.port import Tip
from ledger.log.shared.postgres import PostgresLog
from ledger.log.shared.schema import view_of
from ledger.log.writing import chained
from tools.shared.server import Server

try:
    from eventsourcing.tests import persistence as cases
except ImportError:  # it imports a cipher that needs a package of its own
    cipher = types.ModuleType("eventsourcing.cipher")
    cipher.AESCipher = None  # type: ignore[attr-defined]
    with mock.patch.dict(sys.modules, {cipher.__name__: cipher}):
        from eventsourcing.tests import persistence as cases


class Written:
    """The library's recorder; what the cases insert is published to the log, as a machine does."""

    def __init__(self, recorder, url, tenant):
        self._recorder = recorder
        self._local, self._open = threading.local(), lambda: PostgresLog(url, tenant, "ada")

    def __getattr__(self, name):
        return getattr(self._recorder, name)

    def insert_events(self, stored_events, **_):
        log = self._local.__dict__.setdefault("log", self._open())
        tip = log.tail(0, 1).tip
        tip = log.lock(*tip, 10**6).tip
        rows = [LogRow(*row) for row in chained(stored_events, (), *tip)]
        try:
            log.publish(publication(Tip(*tip), rows))
        except ConflictError as error:
            raise IntegrityError(error) from error
        return [row.position for row in rows]


class TestReading(cases.ApplicationRecorderTestCase):
    INITIAL_VERSION = 0

    @pytest.fixture(autouse=True)
    def _database(self, server: Server) -> Iterator[None]:
        self.url = server.url(server.new_database())
        yield

    def new_originator_id(self):
        return f"m_{uuid4().hex}"

    def create_recorder(self):
        make_view(self.url, "acme")
        recorder = shared_recorder(self.url, "acme")
        assert type(recorder) is PostgresApplicationRecorder
        self.addCleanup(recorder.datastore.close)
        return Written(recorder, self.url, "acme")

    def test_insert_subscribe(self):
        self.optional_test_insert_subscribe()

    def test_performance(self):
        pass  # measures the inserts, which are not the library's here

    test_concurrent_throughput = test_performance


def test_every_case_of_the_library_is_run_or_is_one_of_time():
    named = {name for name in vars(cases.ApplicationRecorderTestCase) if name.startswith("test_")}
    assert named == {
        "test_insert_select",
        "test_performance",
        "test_concurrent_no_conflicts",
        "test_concurrent_throughput",
    }
    assert issubclass(TestReading, unittest.TestCase)


def test_a_reader_sees_the_view_of_its_tenant_alone(server: Server) -> None:
    database = server.new_database()
    url = server.url(database)
    for tenant in ("acme", "globex"):
        write(PostgresLog(url, tenant, "ada"), f"of {tenant}")
    server.sql(f"CREATE ROLE reader_{database} LOGIN")
    assert make_view(url, "acme", reader=f"reader_{database}") == "acme_events"
    make_view(url, "globex")
    as_reader = server.url(database, f"reader_{database}")
    recorder = shared_recorder(as_reader, "acme")
    assert [event.state for event in recorder.select_notifications(None, 10)] == [b"of acme"]
    recorder.datastore.close()
    with psycopg.connect(as_reader, autocommit=True) as connection:
        connection.execute("SET ledger.tenant = 'globex'")
        assert connection.execute("SELECT count(*) FROM ledger.acme_events").fetchall() == [(0,)]
        for table in ("events", "globex_events", "logs"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT * FROM ledger.{table}")


def test_a_tenant_of_any_name_has_a_view(server: Server) -> None:
    url = server.url(server.new_database())
    tenant = "o'brien & söhne \\ 1"
    log = PostgresLog(url, tenant, "ada")
    write(log, "1")
    assert make_view(url, tenant) == make_view(url, tenant) == view_of(tenant)
    recorder = shared_recorder(url, tenant)
    with recorder.subscribe(gt=0) as subscription:
        assert next(subscription).state == b"1"
        locked(log)
        log.release()
        write(log, "2")
        assert next(subscription).state == b"2"
    assert recorder.max_notification_id() == 2
    recorder.datastore.close()
