"""The library door: ``Ledger`` opens one file, takes commands, answers questions, and looks after itself."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from ledger.care import Care
from ledger.domain.errors import Conflict, LedgerError, Rejected
from ledger.domain.events import FORMAT, LEDGER_STREAM, AnyEvent, LedgerCreated
from ledger.domain.text import check_text
from ledger.event_store import EventStore
from ledger.interaction_writes import InteractionWrites
from ledger.log_reading import check_tables, read_event
from ledger.memory_writes import CHANNELS
from ledger.project_writes import ProjectWrites
from ledger.trail import Trail
from ledger.transfer import Progress, Transfer, import_log
from ledger.undoing import Undoing
from ledger.work import Clock, Random, Who, Work, now, system_random
from ledger.writing import Writer
from projections.projector import create_all, projections

READER = WRITER = 1  # the format that this product reads and writes


class Ledger(InteractionWrites, ProjectWrites, Undoing, Transfer, Care, Trail):
    """The memory of an agent in one file: every change is an event, and every answer can say why.

    ``user`` bounds everything: what one user's agent remembers, no other user's call can see. Thread-safe; a forked
    process opens its own.
    """

    def __init__(self, store: EventStore, created: LedgerCreated, default: Who, clock: Clock, random: Random) -> None:
        self._store, self._created, self._default = store, created, default
        self._writer = Writer(store, bytes.fromhex(created.secret), created.ledger_id, clock, random)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        readonly: bool = False,
        create: bool = True,
        user: str = "",
        actor: str = "",
        client: str = "",
        channel: str = "user",
        agent: str = "",
        clock: Clock = now,
        random: Random = system_random,
    ) -> Self:
        """Opens a ledger, or begins one where there is no file. The words after the path are what calls fall back on.

        ``Rejected`` for a path that is no place for a ledger, ``StorageError`` for a file that is none, ``NotFound`` when
        there is none and none may be created, ``Conflict`` when the file needs a newer version of the product.
        """
        default = Who(user=user, actor=actor, client=client, channel=channel, agent=agent)
        for name in ("user", "actor", "client", "agent"):
            check_text(name, getattr(default, name), max_bytes=1024, blank_allowed=True)
        if channel not in CHANNELS:
            raise Rejected(f"no channel is called {channel!r:.40}; there are: {', '.join(CHANNELS)}")
        store = EventStore.open(path, readonly=readonly, create=create)
        try:
            created = _created(store) or _begin(store, default, clock, random)
            ledger = cls(store, created, default, clock, random)
            ledger._fit_projections()
        except BaseException:
            store.close()
            raise
        return ledger

    def _fit_projections(self) -> None:
        """Brings the tables to this product's versions; a private copy where the file cannot be written."""
        while not self._projections_fit():
            if self._store.readonly:
                self._fold_privately()
                return
            try:
                self.rebuild()
            except Conflict:  # somebody else is at it; a lease that nobody renews ends by itself
                time.sleep(0.05)

    def _projections_fit(self) -> bool:
        with self._store.snapshot() as connection:
            return _tables_fit(connection, self._writer.secret, self._created.ledger_id)

    @classmethod
    def import_log(
        cls, source: str | os.PathLike[str], path: str | os.PathLike[str], *, progress: Progress | None = None
    ) -> None:
        """Makes the ledger of an export at a path where nothing is: the same id, rows, digests and head; all or nothing."""
        import_log(source, path, progress=progress)
        cls.open(path).close()

    @property
    def path(self) -> str:
        return self._store.path

    @property
    def id(self) -> str:
        """The ledger's own id; a copy of the file has the same."""
        return self._created.ledger_id

    @contextmanager
    def batch(self) -> Iterator[Self]:
        """Groups many commands into one commit, or one each 5 seconds or 10,000 events.

        An exception that leaves the block takes back what was not committed yet. Reinforcement of what was captured
        inside is left to ``run_policies``.
        """
        with self._writer.batch():
            yield self

    def close(self) -> None:
        """Gives the file back; a second call does nothing."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Ledger {self.path!r}>"


def _created(store: EventStore) -> LedgerCreated | None:
    """The first event, after a look at the format it names."""
    with store.snapshot() as connection:
        event = read_event(connection, 1)
    if event is None:
        return None
    if not isinstance(event.data, LedgerCreated):
        raise LedgerError("the first event of this file is not LedgerCreated, so it is no ledger of this product")
    return _checked(store, event)


def _checked(store: EventStore, event: AnyEvent) -> LedgerCreated:
    created: LedgerCreated = event.data
    if created.least_reader > READER:
        raise Conflict(f"this ledger needs a reader of format {created.least_reader}, and this product reads {READER}")
    if created.least_writer > WRITER and not store.readonly:
        raise Conflict(
            f"this ledger needs a writer of format {created.least_writer}, and this product writes {WRITER}: open it readonly"
        )
    return created


def _begin(store: EventStore, default: Who, clock: Clock, random: Random) -> LedgerCreated:
    """Writes the first event and makes the tables, once, whoever comes first."""
    if store.readonly:
        raise LedgerError(f"{store.path} holds no events yet, so there is nothing to read")
    created = LedgerCreated(random(16).hex(), FORMAT, READER, WRITER, random(32).hex())
    with store.transact() as transaction:
        if transaction.position:
            return _created(store) or created
        secret = bytes.fromhex(created.secret)
        create_all(transaction.connection, secret, created.ledger_id)
        writer = Writer(store, secret, created.ledger_id, clock, random)

        def body(work: Work) -> str:
            work.emit(LEDGER_STREAM, created)
            return LEDGER_STREAM

        writer.run("create", Who(actor=default.actor, client=default.client), body)
    return created


def _tables_fit(connection: Any, secret: bytes, ledger_id: str) -> bool:
    """Whether every table is there, of this product's versions, and folded up to the last event of this very log."""
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    tables = {table.name for projection in projections(secret) for table in projection.tables}
    if not names >= tables | {"projections", "checkpoint"}:
        return False
    try:
        check_tables(connection, secret)
    except Conflict:
        return False
    last = connection.execute("SELECT position, head FROM events ORDER BY position DESC LIMIT 1").fetchone()
    folded = connection.execute("SELECT ledger, position, head FROM checkpoint").fetchall()
    return [tuple(row) for row in folded] == [(ledger_id, *last)]
