"""A ledger's log followed by the eventsourcing library's own subscriptions and runners, as its documentation writes them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import probe
import pytest
from eventsourcing.application import Application, ProcessingEvent
from eventsourcing.dispatch import singledispatchmethod
from eventsourcing.domain import Aggregate
from eventsourcing.domain import event as happening
from eventsourcing.persistence import DataError, StoredEvent, Tracking, TrackingRecorder
from eventsourcing.popo import POPOTrackingRecorder
from eventsourcing.projection import (
    ApplicationSubscription,
    EventSourcedProjectionRunner,
    Projection,
    ProjectionRunner,
)
from eventsourcing.sqlite import SQLiteTrackingRecorder
from eventsourcing.system import (
    MultiThreadedRunner,
    NewSingleThreadedRunner,
    ProcessApplication,
    SingleThreadedRunner,
    System,
)
from eventsourcing.tests.projection import Counters
from places import ROOT

from ledger import DamagedError, Ledger, NewerFormatError, NotFoundError, RejectedError
from ledger.doors.eventsourcing import LedgerFollower, LedgerLog, entry
from ledger.events import TYPES, MemoryCaptured, MemoryPromoted, Unknown

# --- a projection, as the library's documentation writes one ---------------------------------------------------------


class BeliefsView(TrackingRecorder):
    @abstractmethod
    def add(self, id: str, content: str, tracking: Tracking) -> None: ...

    @abstractmethod
    def beliefs(self) -> dict[str, str]: ...


class POPOBeliefs(BeliefsView, POPOTrackingRecorder):
    def __init__(self) -> None:
        super().__init__()
        self._beliefs: dict[str, str] = {}

    def add(self, id: str, content: str, tracking: Tracking) -> None:
        with self._database_lock:
            self._assert_tracking_uniqueness(tracking)
            self._insert_tracking(tracking)
            self._beliefs[id] = content

    def beliefs(self) -> dict[str, str]:
        with self._database_lock:
            return dict(self._beliefs)


class SQLiteBeliefs(BeliefsView, SQLiteTrackingRecorder):
    def construct_create_table_statements(self) -> list[str]:
        made = "CREATE TABLE IF NOT EXISTS beliefs (id TEXT PRIMARY KEY, content TEXT)"
        return [*super().construct_create_table_statements(), made]

    def add(self, id: str, content: str, tracking: Tracking) -> None:
        with self.datastore.transaction(commit=True) as c:
            self._insert_tracking(c, tracking)
            c.execute("INSERT INTO beliefs VALUES (?, ?)", (id, content))

    def beliefs(self) -> dict[str, str]:
        with self.datastore.transaction(commit=False) as c:
            c.execute("SELECT id, content FROM beliefs")
            return {row["id"]: row["content"] for row in c.fetchall()}


class SpannerThrownError(Exception):
    pass


class Beliefs(Projection[BeliefsView]):
    name = "beliefs"

    @singledispatchmethod
    def process_event(self, domain_event: Any, tracking: Tracking) -> None:
        self.view.insert_tracking(tracking)

    @process_event.register
    def memory_captured(self, domain_event: MemoryCaptured, tracking: Tracking) -> None:
        assert entry(domain_event).position == tracking.notification_id
        self.view.add(entry(domain_event).subject, domain_event.content, tracking)

    @process_event.register
    def memory_promoted(self, domain_event: MemoryPromoted, tracking: Tracking) -> None:
        raise SpannerThrownError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "ledger").mkdir()
    with Ledger.open(tmp_path / "ledger" / "memory.db") as ledger:
        ledger.remember("The kettle is blue.")
    return tmp_path / "ledger" / "memory.db"


VIEWS = {POPOBeliefs: "eventsourcing.popo", SQLiteBeliefs: "eventsourcing.sqlite"}


def runner(path: Path, view: type[Any] = POPOBeliefs) -> ProjectionRunner[LedgerLog, Any]:
    own = str(path.parent.parent / "beliefs.db")
    env = {"LEDGER_PATH": str(path), "PERSISTENCE_MODULE": VIEWS[view], "SQLITE_DBNAME": own}
    return ProjectionRunner(application_class=LedgerLog, projection_class=Beliefs, view_class=view, env=env)


def elsewhere(path: Path, code: str) -> int:
    """What another process does to the ledger; the position after it."""
    code = (
        f"from ledger import Ledger\nwith Ledger.open({str(path)!r}) as ledger:\n    {code}\n    print(ledger.position)"
    )
    return int(subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True))


def write(path: Path, act: Callable[[Ledger], object]) -> int:
    with Ledger.open(path) as ledger:
        act(ledger)
        return ledger.position


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Any:
    before = threading.active_count()
    yield
    end = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)  # the thread that listens for news of a shared log ends by itself after the last ledger
    assert threading.active_count() <= before


# --- following -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
def test_a_runner_follows_what_other_processes_commit(path: Path, view: type[Any]) -> None:
    with runner(path, view) as running:
        running.wait(2, timeout=10)
        assert list(running.projection.view.beliefs().values()) == ["The kettle is blue."]
        last = elsewhere(path, "ledger.remember('The pot is white.'); ledger.remember('Tea is green.')")
        running.wait(last, timeout=10)
        assert sorted(running.projection.view.beliefs().values()) == [
            "Tea is green.",
            "The kettle is blue.",
            "The pot is white.",
        ]
        assert running.projection.view.max_tracking_id(running.app.name) == last
    with Ledger.open(path) as ledger:
        assert set(running.app.name.split()) == {"ledger", ledger.maintenance.stats().ledger_id}


def test_a_runner_goes_on_where_the_one_before_it_stopped(path: Path) -> None:
    with runner(path, SQLiteBeliefs) as running:
        running.wait(2, timeout=10)
    last = write(path, lambda ledger: ledger.remember("The pot is white."))
    with runner(path, SQLiteBeliefs) as running:
        running.wait(last, timeout=10)
        assert len(running.projection.view.beliefs()) == 2


def test_several_ledgers_are_followed_into_one_view(path: Path) -> None:
    other = path.with_name("other.db")
    with Ledger.open(other) as ledger:
        ledger.remember("The oven is off.")
    for each in (path, other):
        with runner(each, SQLiteBeliefs) as running:
            running.wait(2, timeout=10)
    assert len(running.projection.view.beliefs()) == 2


def test_an_event_sourced_projection_follows_too(path: Path) -> None:
    env = {
        "LEDGER_PATH": str(path),
        "PERSISTENCE_MODULE": "eventsourcing.sqlite",
        "SQLITE_DBNAME": str(path.parent.parent / "counters.db"),
    }
    with EventSourcedProjectionRunner(application_class=LedgerLog, projection_class=Counters, env=env) as running:
        last = write(path, lambda ledger: ledger.remember("The pot is white."))
        running.wait(last, timeout=10)
        mapped = running.app.events.get(entry_of(running.app, "MemoryCaptured"))
        assert running.projection.get_count(type(next(iter(mapped)))) == 2


def entry_of(app: LedgerLog, topic: str) -> Any:
    return next(n.originator_id for n in app.notification_log.select(1, 10) if n.topic == topic)


def test_nothing_is_written_to_the_ledgers_file(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.remember("The pot is white.")
        before = bytes_of(path)
        with runner(path) as running:
            running.wait(ledger.position, timeout=10)
            with pytest.raises(RejectedError, match="only follows the log of a ledger") as told:
                running.app.save(Aggregate())
            assert told.value.rule == "readonly"
            assert bytes_of(path) == before
        assert bytes_of(path) == before
        assert ledger.proof.verify().ok


def bytes_of(path: Path) -> dict[str, str]:
    files = [each for each in path.parent.iterdir() if not each.name.endswith("-shm")]  # there are SQLite's read marks
    return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


def test_a_subscription_gives_the_types_asked_for_and_ends_from_another_thread(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.capture("Tea?", "Green.")
        last = ledger.bind(user="ada").remember("Tea is green.", client="kitchen").position
    app, heard = LedgerLog(env={"LEDGER_PATH": str(path)}), []
    with app, ApplicationSubscription(app, gt=2, topics=("MemoryCaptured",)) as subscription:
        for event, tracking in subscription:
            heard.append((event, tracking))
            threading.Timer(0.05, subscription.stop).start()
    ((event, tracking),) = heard
    assert isinstance(event, MemoryCaptured) and event.content == "Tea is green."
    told = entry(event)
    assert (tracking.notification_id, told.position, told.user, told.client) == (last, last, "ada", "kitchen")
    assert (event.originator_id, event.originator_version) == (told.subject, told.version) == (told.subject, 1)


def test_a_subscription_keeps_the_application_open_that_nothing_else_holds(path: Path) -> None:
    subscription = ApplicationSubscription(LedgerLog(env={"LEDGER_PATH": str(path)}), gt=1)
    event, _ = next(subscription)
    assert isinstance(event, MemoryCaptured) and event.content == "The kettle is blue."
    application = weakref.ref(subscription.subscription.application)  # type: ignore[attr-defined]
    del subscription, event
    assert application() is None  # and closes the file with it


class Tally(Aggregate):
    def __init__(self) -> None:
        self.contents: list[str] = []

    @happening("Counted")
    def count(self, content: str) -> None:
        self.contents.append(content)


class Tallies(LedgerFollower, ProcessApplication[UUID]):
    @singledispatchmethod
    def policy(self, domain_event: Any, processing_event: ProcessingEvent[UUID]) -> None:
        pass

    @policy.register
    def captured(self, domain_event: MemoryCaptured, processing_event: ProcessingEvent[UUID]) -> None:
        tally = Tally()
        tally.count(domain_event.content)
        processing_event.collect_events(tally)


class Echoes(ProcessApplication[UUID]):
    def policy(self, domain_event: Any, processing_event: ProcessingEvent[UUID]) -> None:
        pass


class TalliesAsked(Tallies):
    topics = ("MemoryCaptured",)


@pytest.mark.parametrize("kind", [SingleThreadedRunner, NewSingleThreadedRunner, MultiThreadedRunner])
@pytest.mark.parametrize("follower", [Tallies, TalliesAsked])
def test_an_application_of_a_system_follows_a_ledger_and_is_followed_itself(
    path: Path, follower: type[Tallies], kind: type[Any]
) -> None:
    with kind(System([[LedgerLog, follower, Echoes]]), env={"LEDGER_PATH": str(path)}) as running:
        tallies, log = running.get(follower), running.get(LedgerLog)
        tallies.pull_and_process(log.name)
        write(path, lambda ledger: ledger.remember("The pot is white."))
        tallies.pull_and_process(log.name)
        made = [notification.originator_id for notification in tallies.notification_log.select(1, 10)]
        told = [tallies.repository.get(id).contents for id in dict.fromkeys(made)]
        assert told == [["The kettle is blue."], ["The pot is white."]]
        running.get(Echoes).pull_and_process(follower.name)
        assert running.get(Echoes).recorder.max_tracking_id(follower.name) == 4


def test_long_texts_are_whole_and_the_secret_is_not_told(path: Path) -> None:
    long = "word " * 80_000
    with Ledger.open(path) as ledger:
        ledger.capture(long)
    with LedgerLog(env={"LEDGER_PATH": str(path)}) as app, ApplicationSubscription(app) as subscription:
        events = [event for event, _ in (next(subscription) for _ in range(3))]
    assert events[0].secret == "" and events[2].prompt == long


def test_the_repository_makes_no_aggregate_of_a_ledgers_events_and_says_so(path: Path) -> None:
    with LedgerLog(env={"LEDGER_PATH": str(path)}) as app:
        memory = entry_of(app, "MemoryCaptured")
        for read in (
            lambda: app.repository.get(memory),
            lambda: app.repository.get(memory, version=1),
            lambda: memory in app.repository,
        ):
            with pytest.raises(RejectedError, match=f"{memory} is a subject of a ledger .* projector_func") as told:
                read()
            assert told.value.rule == "foreign"
        with pytest.raises(RejectedError, match="only follows the log of a ledger"):
            app.take_snapshot(memory)
        own: Any = app.repository.get(memory, projector_func=lambda _, events: [each.content for each in events])
        assert own == ["The kettle is blue."]


def test_what_no_log_can_hold_is_asked_of_the_recorder_as_wrong_data(path: Path) -> None:
    with LedgerLog(env={"LEDGER_PATH": str(path)}) as app:
        for read in (
            lambda: app.repository.get("m_\ud800"),
            lambda: list(app.events.get("ledger", gt=10**40)),
            lambda: app.recorder.select_notifications(1, 10, topics=["\ud800"]),
            lambda: app.recorder.select_notifications(10**40, 10),
        ):
            with pytest.raises(DataError):
                read()


def test_every_type_of_event_can_be_followed() -> None:
    for kind in TYPES.values():
        assert not {"originator_id", "originator_version", "entry", "mutate"} & {*kind.__struct_fields__, *dir(kind)}, (
            kind
        )


AROUND = '{"event_id":"x","recorded_at":"2027-01-01T00:00:00.000000Z","command":"dream","data":%s}'


def upgrade(transaction: Any, *, least_reader: int) -> None:
    state = AROUND % f'{{"format":2,"least_reader":{least_reader},"least_writer":2}}'
    transaction.append([StoredEvent("ledger", transaction.version("ledger") + 1, "LedgerUpgraded", state.encode())])


# --- ends ------------------------------------------------------------------------------------------------------------


def test_an_error_of_the_projection_ends_the_runner_and_is_raised(path: Path) -> None:
    with pytest.raises(SpannerThrownError), runner(path) as running:
        write(path, lambda ledger: ledger.promote(ledger.propose("The pot is white.").id))
        running.run_forever(timeout=10)
    assert running.projection.view.max_tracking_id(running.app.name) == 3


def test_a_runner_that_is_stopped_ends(path: Path) -> None:
    with runner(path) as running:
        threading.Timer(0.05, running.stop).start()
        running.run_forever(timeout=10)


def test_what_a_newer_version_wrote_is_followed_as_unknown(path: Path) -> None:
    with Ledger.open(path) as ledger, probe.store(ledger).transact() as transaction:
        upgrade(transaction, least_reader=1)
        transaction.append([StoredEvent("m_new", 1, "MemoryDreamt", (AROUND % '{"dream":1}').encode())])
    with LedgerLog(env={"LEDGER_PATH": str(path)}) as app, ApplicationSubscription(app, gt=3) as subscription:
        event, _ = next(subscription)
    assert isinstance(event, Unknown) and entry(event).type == "MemoryDreamt"


def test_a_row_that_is_no_event_ends_the_runner_by_its_position(path: Path) -> None:
    with Ledger.open(path) as ledger, probe.store(ledger).transact() as transaction:
        transaction.append([StoredEvent("somewhere", 1, "test:Dog.Registered", b"{}")])
    with pytest.raises(DamagedError, match="position 3 "), runner(path) as running:
        running.run_forever(timeout=10)


def test_what_cannot_be_followed_is_refused_by_name(path: Path, tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match="LEDGER_PATH is not set"):
        LedgerLog()
    with pytest.raises(NotFoundError, match=r"no ledger at .*nothing\.db"):
        LedgerLog(env={"LEDGER_PATH": str(tmp_path / "nothing.db")})
    with pytest.raises(RejectedError, match="SQLITE_DBNAME is the file of the ledger itself"):
        LedgerLog(env={"LEDGER_PATH": str(path), "BELIEFS_SQLITE_DBNAME": str(tmp_path / "ledger" / ".." / path)})
    school = tmp_path / "school.db"
    with Application[UUID](env={"PERSISTENCE_MODULE": "ledger.log.event_store", "SQLITE_DBNAME": str(school)}) as app:
        with pytest.raises(RejectedError, match="holds no events yet"):
            LedgerLog(env={"LEDGER_PATH": str(school)})
        app.save(Aggregate())
        with pytest.raises(RejectedError, match="has the log of an application"):
            LedgerLog(env={"LEDGER_PATH": str(school)})
    with Ledger.open(path) as ledger, probe.store(ledger).transact() as transaction:
        upgrade(transaction, least_reader=2)
    with pytest.raises(NewerFormatError, match="needs a reader of format 2"):
        LedgerLog(env={"LEDGER_PATH": str(path)})
