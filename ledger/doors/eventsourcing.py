"""The log of a ledger as a read-only application of the ``eventsourcing`` library, for its subscriptions and projections.

Nothing is written to the ledger's file. An event arrives as a struct of ``ledger.events`` with its full texts;
register ``process_event`` for these structs.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from eventsourcing.application import Application, LocalNotificationLog, NotificationLog
from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import InfrastructureFactory, JSONTranscoder, Mapper, StoredEvent
from eventsourcing.system import Follower
from eventsourcing.utils import Environment, EnvType
from msgspec import Struct, defstruct, structs

from ledger.answers import LogEntry
from ledger.care.opening import created_by
from ledger.core.reads import check_upgrade, last_upgrade
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.history import log
from ledger.log.recorders import ApplicationRecorder, Datastore, ReadingFactory, Subscription
from ledger.log.shared.opening import check_driver

if TYPE_CHECKING:
    from eventsourcing.postgres import PostgresApplicationRecorder

PATH = "LEDGER_PATH"
VIEW_SECONDS = 30.0
_FIELDS = (("originator_id", str), ("originator_version", int), ("entry", LogEntry))


class LedgerLog(Application[str]):
    """The log of the ledger whose file ``LEDGER_PATH`` names in ``env`` or in the environment.

    A projection stores its position under ``name``, which holds the ledger's id. So several ledgers may be followed into one
    view, and another file at the same path is not mistaken for the earlier file. Topics are the short names of the events
    ("MemoryCaptured").

    Raises:
        RejectedError: The file is not a ledger.
        NotFoundError: There is no file.
    """

    def __init__(self, env: EnvType | None = None) -> None:
        super().__init__(env)
        try:
            with self._datastore.reading() as connection:
                created = created_by(connection, self._datastore.path)
                check_upgrade(connection, last_upgrade(connection), readonly=True)
        except BaseException:
            self.close()
            raise
        self.name: str = f"ledger {created.ledger_id}"

    def construct_factory(self, env: Environment) -> InfrastructureFactory:
        path = env.get(PATH)
        if not path:
            raise RejectedError(f"{PATH} is not set; set it to the path of the ledger to follow", rule="path")
        for name, value in env.items():
            if name.endswith("SQLITE_DBNAME") and value and os.path.realpath(value) == os.path.realpath(path):
                raise RejectedError(
                    f"{name} is the file of the ledger itself: give the view a file of its own. Drop the tables that the view"
                    " has made in the ledger's file (tracking, and its own tables)",
                    rule="path",
                )
        factory = ReadingFactory(path, env)
        self._datastore = factory.datastore
        return cast("InfrastructureFactory", factory)

    def construct_mapper(self) -> Mapper[str]:
        return _Mapper(self._datastore)

    def construct_recorder(self) -> ApplicationRecorder:
        return _Recorder(self._datastore, self)

    @property
    def notification_log(self) -> LocalNotificationLog:
        return _NotificationLog(self)

    def take_snapshot(self, aggregate_id: str, version: int | None = None, projector_func: object = None) -> None:
        """Refuse a snapshot, which would be written to the ledger."""
        raise _refused_writing()


class LedgerFollower(Follower[Any]):
    """The first base of an application that follows a ``LedgerLog`` in a ``System`` of the library.

    A follower of the library makes the events of its leaders with a mapper of its own class (``TopicError``: that mapper looks
    for a class by the topic). Here the events of a ledger are made by the ledger's mapper, and those of another leader as
    before. A ledger is followed under the name of its log, with the ledger's id:
    ``pull_and_process(runner.get(LedgerLog).name)``.
    """

    def follow(self, name: str, log: NotificationLog) -> None:
        if isinstance(log, _NotificationLog):
            super().follow(log.application.name, log)
            self.mappers[log.application.name] = log.application.mapper
        else:
            super().follow(name, log)


class _NotificationLog(LocalNotificationLog):
    """The notifications of a ledger, which keep the application alive."""

    def __init__(self, application: LedgerLog) -> None:
        super().__init__(application.recorder, application.log_section_size)
        self.application = application


class _Recorder(ApplicationRecorder):
    """A recorder whose subscriptions keep the application alive, which closes the file when nobody holds it."""

    def __init__(self, datastore: Datastore, application: LedgerLog) -> None:
        super().__init__(datastore)
        self._application = weakref.ref(application)

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription:
        subscription = super().subscribe(gt, topics)
        subscription.application = self._application()
        return subscription


class _Mapper(Mapper[str]):
    """The mapper that gives the library the events of a ledger, read by their place in the log."""

    def __init__(self, datastore: Datastore) -> None:
        super().__init__(JSONTranscoder())
        self._datastore = datastore

    def to_domain_event(self, stored_event: StoredEvent) -> DomainEventProtocol[str]:
        place = (stored_event.originator_id, stored_event.originator_version)
        with self._datastore.reading() as connection:
            entries = log.entries_where(connection, "e.stream = ? AND e.version = ?", place)
        if not entries:
            raise NotFoundError(f"the stream {place[0]} has no event of version {place[1]}")
        (entry,) = entries
        own = {"originator_id": entry.subject, "originator_version": entry.version, "entry": entry}
        followed = _followed(type(entry.data))(**structs.asdict(entry.data), **own)
        return cast("DomainEventProtocol[str]", followed)

    def to_stored_event(self, domain_event: DomainEventProtocol[str]) -> StoredEvent:
        raise _refused_writing()


def _refused_writing() -> RejectedError:
    return RejectedError(
        "this application only follows the log of a ledger and cannot write it; open the ledger itself to write",
        rule="readonly",
    )


def _mutate(event: object, aggregate: object) -> object:
    """Refuse to make an aggregate from an event, as the library's own projector would."""
    raise RejectedError(
        f"{entry(event).subject} is a subject of a ledger and makes no aggregate of the library: ask the ledger for it, or"
        " give repository.get a projector_func of your own",
        rule="foreign",
    )


@cache
def _followed(kind: type[Struct]) -> type[Struct]:
    """Return the type of an event with the fields that the library needs."""
    return defstruct(kind.__name__, _FIELDS, bases=(kind,), kw_only=True, frozen=True, namespace={"mutate": _mutate})


def entry(event: object) -> LogEntry:
    """Return the log entry of an event from a ledger: its place, its author, its command, and if it is still in effect.

    Args:
        event: The event that ``process_event`` or ``policy`` received.
    """
    return cast("LogEntry", event.entry)  # type: ignore[attr-defined]


# --- a log that several machines share -------------------------------------------------------------------------------


def make_view(url: str, tenant: str, *, reader: str = "") -> str:
    """Make a view of a shared log with the columns of the library's table, and return its name in the schema ``ledger``.

    The library's own ``PostgresApplicationRecorder`` reads the view and subscribes to it. Each commit sends a notice to the
    channel of this name. The session of a reader must set ``ledger.tenant``: see ``shared_recorder``.

    Args:
        url: A URL of the role that made the tables (``shared.prepare``).
        tenant: The name of the log.
        reader: A role that may read this view and nothing else of the log.

    Raises:
        UnreachableError: The server cannot be reached.
    """
    check_driver(url)
    from ledger.log.shared.preparing import make_view as make

    return make(url, tenant, reader, VIEW_SECONDS)


def shared_recorder(url: str, tenant: str) -> PostgresApplicationRecorder:
    """Return the library's own recorder over the view of a shared log (``make_view``), for reading and for subscriptions.

    States are the stored bytes of the events: JSON with the envelope. ``LedgerLog`` gives typed events, from the file of a
    machine that follows the log.

    Args:
        url: A URL that leads to the server itself, because a pooler in transaction mode passes no notices on.
        tenant: The name of the log.
    """
    check_driver(url)
    from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
    from psycopg.conninfo import conninfo_to_dict

    from ledger.log.shared.schema import checked_tenant, view_of

    parameters = conninfo_to_dict(url)
    value = checked_tenant(tenant).replace("\\", "\\\\").replace(" ", "\\ ")
    options = f"{parameters.get('options') or ''} -c ledger.tenant={value}".strip()
    datastore = PostgresDatastore("", "", "", "", "", pool_size=2, schema="ledger", originator_id_type="text")
    rows = cast("dict[str, object]", datastore.pool.kwargs)["row_factory"]
    datastore.pool.kwargs = {**parameters, "options": options, "row_factory": rows}
    return PostgresApplicationRecorder(datastore, events_table_name=view_of(tenant))
