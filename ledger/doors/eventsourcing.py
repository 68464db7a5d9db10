"""The log of a ledger as an application of the ``eventsourcing`` library that only reads: its subscriptions and projection
runners follow it, and nothing is written to the ledger's file.

An event comes as a struct of ``ledger.domain.events``, which ``process_event`` is registered for, with its texts in full.
"""

from __future__ import annotations

import os
from functools import cache
from typing import cast

from eventsourcing.application import Application
from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import InfrastructureFactory, JSONTranscoder, Mapper, StoredEvent
from eventsourcing.utils import Environment, EnvType
from msgspec import Struct, defstruct, structs

from ledger.answers import LogEntry
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.engine.log_reading import check_upgrade, last_upgrade
from ledger.history import log
from ledger.maintenance.opening import created_by
from ledger.store.recorders import Datastore, ReadingFactory

PATH = "LEDGER_PATH"
_FIELDS = (("originator_id", str), ("originator_version", int), ("entry", LogEntry))


class LedgerLog(Application[str]):
    """The log of the ledger whose file ``LEDGER_PATH`` names in ``env`` or in the environment.

    ``name``, under which a projection keeps how far it is, has the ledger's id: several ledgers may be followed into one view,
    and another file at the same path is not taken for the one before. Topics are the short names of the events
    ("MemoryCaptured"). ``RejectedError`` where the file is no ledger, ``NotFoundError`` where there is none.
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
        self.name = f"ledger {created.ledger_id}"

    def construct_factory(self, env: Environment) -> InfrastructureFactory:
        path = env.get(PATH)
        if not path:
            raise RejectedError(f"{PATH} is not set; it names the file of the ledger to follow", rule="path")
        for name, value in env.items():
            if name.endswith("SQLITE_DBNAME") and value and os.path.realpath(value) == os.path.realpath(path):
                raise RejectedError(
                    f"{name} is the file of the ledger itself: give the view a file of its own. What it has made there "
                    "(tracking, and its own tables) is no ledger's: drop it",
                    rule="path",
                )
        factory = ReadingFactory(path, env)
        self._datastore = factory.datastore
        return cast("InfrastructureFactory", factory)

    def construct_mapper(self) -> Mapper[str]:
        return _Mapper(self._datastore)

    def take_snapshot(self, aggregate_id: str, version: int | None = None, projector_func: object = None) -> None:
        """Refuse a snapshot, which would be written to the ledger."""
        raise _refused_writing()


class _Mapper(Mapper[str]):
    """Events of a ledger as the library takes them, read by their place in the log."""

    def __init__(self, datastore: Datastore) -> None:
        super().__init__(JSONTranscoder())
        self._datastore = datastore

    def to_domain_event(self, stored_event: StoredEvent) -> DomainEventProtocol[str]:
        place = (stored_event.originator_id, stored_event.originator_version)
        with self._datastore.reading() as connection:
            found = log.entries_where(connection, "e.stream = ? AND e.version = ?", place)
        if not found:
            raise NotFoundError(f"no event of {place[0]} is its version {place[1]}")
        (entry,) = found
        own = {"originator_id": entry.subject, "originator_version": entry.version, "entry": entry}
        followed = _followed(type(entry.data))(**structs.asdict(entry.data), **own)
        return cast("DomainEventProtocol[str]", followed)

    def to_stored_event(self, domain_event: DomainEventProtocol[str]) -> StoredEvent:
        raise _refused_writing()


def _refused_writing() -> RejectedError:
    return RejectedError(
        "the log of a ledger is followed and not written; open the ledger itself for that", rule="readonly"
    )


def _mutate(event: object, aggregate: object) -> object:
    """Refuse to make an aggregate, as the library's own projector would of an event."""
    raise RejectedError(
        f"{entry(event).subject} is a subject of a ledger and makes no aggregate of the library: ask the ledger for it, or"
        " give repository.get a projector_func of your own",
        rule="foreign",
    )


@cache
def _followed(kind: type[Struct]) -> type[Struct]:
    """The same event with what the library asks of one."""
    return defstruct(kind.__name__, _FIELDS, bases=(kind,), kw_only=True, frozen=True, namespace={"mutate": _mutate})


def entry(event: object) -> LogEntry:
    """Where an event that came from a ledger stands in the log, who recorded it and how, and whether it is still in effect.

    Args:
        event: What ``process_event`` or ``policy`` was given.
    """
    return cast("LogEntry", event.entry)  # type: ignore[attr-defined]
