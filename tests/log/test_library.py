"""The library's own test suites of applications, projections and factories, on our recorders.

Its cases of recorders are in test_event_store. What is not run: its cases of ciphers and compressors, which a ledger's file
refuses by name so that its log can be read; of dynamic consistency boundaries, for which there are no recorders here; and of
transcoders, which are the library's alone.
"""

from __future__ import annotations

import os
import sys
import tempfile
import types
import unittest
from unittest import mock

import needs
import pytest
from eventsourcing.tests import application, projection
from eventsourcing.utils import Environment, get_topic

from ledger.domain.errors import RejectedError
from ledger.log import event_store

try:
    from eventsourcing.tests import persistence as cases
except ImportError:  # it imports a cipher that needs a package of its own
    cipher = types.ModuleType("eventsourcing.cipher")
    cipher.AESCipher = None
    with mock.patch.dict(sys.modules, {cipher.__name__: cipher}):
        from eventsourcing.tests import persistence as cases

pytestmark = pytest.mark.filterwarnings("always::DeprecationWarning")


class OnAFile(unittest.TestCase):
    """Every application of a case has the same new file."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.env = Environment(
            env={"PERSISTENCE_MODULE": event_store.__name__, "SQLITE_DBNAME": os.path.join(directory.name, "app.db")}
        )
        environment = mock.patch.dict(os.environ, self.env)
        environment.start()
        self.addCleanup(environment.stop)
        super().setUp()


class TestApplication(OnAFile, application.ApplicationTestCase):
    pass


class TestExampleApplication(OnAFile, application.ExampleApplicationTestCase):
    expected_factory_topic = get_topic(event_store.Factory)


class EventCounters(event_store.TrackingRecorder, projection.EventCountersView):
    """The view of the library's cases, as its own of SQLite."""

    def construct_create_table_statements(self):
        made = "CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, count INTEGER)"
        return [*super().construct_create_table_statements(), made]

    def _count(self, name):
        with self.datastore.transaction(commit=False) as c:
            c.execute("SELECT coalesce(sum(count), 0) FROM counters WHERE name = ?", (name,))
            return c.fetchone()[0]

    def _increment(self, name, tracking):
        with self.datastore.transaction(commit=True) as c:
            self._insert_tracking(c, tracking)
            c.execute("INSERT INTO counters VALUES (?, 1) ON CONFLICT DO UPDATE SET count = count + 1", (name,))

    def get_created_event_counter(self):
        return self._count("created")

    def get_subsequent_event_counter(self):
        return self._count("subsequent")

    def incr_created_event_counter(self, tracking):
        self._increment("created", tracking)

    def incr_subsequent_event_counter(self, tracking):
        self._increment("subsequent", tracking)


class TestEventCountersView(OnAFile, projection.EventCountersViewTestCase):
    def construct_event_counters_view(self):
        factory = event_store.Factory(self.env)
        self.addCleanup(factory.close)
        return factory.tracking_recorder(EventCounters)


@needs.open_files_that_move
class TestProjection(OnAFile, projection.AggregateEventCountersProjectionTestCase):
    view_class = EventCounters


class TestEventSourcedProjection(OnAFile, projection.EventSourcedProjectionTestCase):
    def setUp(self):
        super().setUp()
        os.environ["COUNTERS_SQLITE_DBNAME"] = os.environ["SQLITE_DBNAME"] + ".counters"


class SubclassOfTrackingRecorder(event_store.TrackingRecorder):
    pass


class TestInfrastructureFactory(OnAFile, cases.InfrastructureFactoryTestCase):
    def expected_factory_class(self):
        return event_store.Factory

    def expected_aggregate_recorder_class(self):
        return event_store.AggregateRecorder

    def expected_application_recorder_class(self):
        return event_store.ApplicationRecorder

    def expected_tracking_recorder_class(self):
        return event_store.TrackingRecorder

    def tracking_recorder_subclass(self):
        return SubclassOfTrackingRecorder

    def expected_process_recorder_class(self):
        return event_store.ProcessRecorder

    def test_mapper_with_compressor(self):
        for name in ("COMPRESSOR_TOPIC", "CIPHER_TOPIC", "CIPHER_KEY"):
            with self.assertRaisesRegex(RejectedError, name):
                event_store.Factory(Environment(env={**self.env, name: "zlib"}))

    test_mapper_with_cipher = test_mapper_with_cipher_and_compressor = test_mapper_with_wrong_cipher_key = None


def test_no_suite_of_the_library_is_forgotten():
    left = {"TaggedDecisionCountersProjectionTestCase", "TranscoderTestCase", "RecorderTestCase"}
    of_recorders = {
        *("AggregateRecorderTestCase", "ApplicationRecorderTestCase", "TrackingRecorderTestCase"),
        *("ProcessRecorderTestCase", "NonInterleavingNotificationIDsBaseCase"),
    }
    suites = {
        name
        for module in (application, projection, cases)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, unittest.TestCase) and kind is not unittest.TestCase
    }
    run = {base.__name__ for kind in OnAFile.__subclasses__() for base in kind.__mro__}
    assert suites - run == left | of_recorders
