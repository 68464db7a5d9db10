"""The parts that every command and query of the present works with: one open file, the clock, the ids and the models."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from ledger.core.apart import fold_to
from ledger.core.clock import Clock, Random, stored_time
from ledger.core.reading_engine import ReadingEngine
from ledger.core.snapshot import Snapshot
from ledger.core.who import Who
from ledger.domain.errors import ConflictError, RejectedError
from ledger.domain.late import once
from ledger.events import LedgerCreated
from ledger.log.event_store import EventStore
from ledger.log.past_views import Prepare
from projections.core.rows import Connection

if TYPE_CHECKING:
    from ledger.core.pipeline import Writer
    from ledger.core.settings import Settings
    from ledger.core.stopping import Stopping
    from ledger.domain.errors import LedgerError
    from ledger.guards.scanner import Scanner
    from ledger.log.shared.port import SharedLog
    from ledger.models.port import Model, NamedSummarizer


class MachineSharing(Protocol):
    """This machine's part in a log that machines share; the code is loaded only if there is such a log."""

    failure: LedgerError | None

    @property
    def behind(self) -> int | None:
        """Return the number of events that this machine's file lacks; None if the log was not seen yet."""
        ...

    def wait(self, position: int, stopping: Stopping) -> None:
        """Return when this machine's file holds the log up to a position."""
        ...

    def stop(self) -> None:
        """Stop following; a command under way goes on."""
        ...

    def close(self) -> None:
        """Let go of the log, after the store is closed."""
        ...


class Engine(ReadingEngine):
    """The parts of one open ledger, from which each feature takes those that it needs."""

    model: Model | None = None
    summarizer: NamedSummarizer | None = None
    settings: Settings | None = None
    after_capture: Callable[[], object] | None = None  # called after a turn has its answer
    after_close: Callable[[], object] | None = None  # removes the file of a temporary ledger
    scanners: Sequence[Scanner] = ()  # of threats, besides the ledger's own
    sharing: MachineSharing | None = None  # this machine's part in a log that machines share
    named_log: SharedLog | str | None = None  # as the caller or the settings name it, also for reading only
    is_of_shared_log = False  # the tables are this machine's own, and no event of the log is about them
    checked_to = 0  # the position up to which opening checked that this version knows every event

    def __init__(self, store: EventStore, created: LedgerCreated, default: Who, clock: Clock, random: Random) -> None:
        super().__init__(created)
        self.store, self.default, self.clock, self.random = store, default, clock, random
        self._writer: Writer | None = None
        self._making_writer = threading.Lock()
        # (purpose, user) -> the position up to which this process has looked
        self.looked: dict[tuple[str, str], int] = {}
        self.unsearched: dict[str, list[str]] = {}  # pending erasures of this process -> texts that no file may hold
        self.purges_recorded: set[str] = set()  # erasures whose purge on this machine the shared log records
        self.erased_vectors: dict[bytes, None] = {}  # vectors that no file may hold

    @once
    def writer(self) -> Writer:
        """Return the writing side. It is made for the first command, because a process that only reads never loads it."""
        from ledger.core.pipeline import Writer

        with self._making_writer:
            if (made := self._writer) is None:
                made = Writer(self.store, self.secret, self.created.ledger_id, self.clock, self.random, self.scanners)
                made.tables.looked_at = self.checked_to
                self._writer = made
            return made

    @property
    def path(self) -> str:
        return self.store.path

    @property
    def position(self) -> int:
        self.write_waiting()
        return self.store.head()[0]

    @property
    def folded_privately(self) -> bool:
        return self.store.folded_privately

    def now(self) -> str:
        return stored_time(self.clock())

    def write_waiting(self) -> None:
        if self._writer is not None:  # a ledger without a command has nothing waiting
            self._writer.write_waiting()

    def connection(self) -> AbstractContextManager[Connection]:
        return self.store.snapshot()

    @contextmanager
    def view(self, prepare: Prepare) -> Iterator[Connection]:
        with self.store.past_view(prepare) as connection:
            if self.folded_privately:
                fold_to(connection, None, self.secret, self.created.ledger_id)
            yield connection

    def seen(self, connection: Connection) -> Snapshot:
        return Snapshot(connection, self.secret, self.valid, self.now, self.schema)

    @property
    def schema(self) -> str:
        """Return the schema of the text indexes: "main" for the file, "temp" if this process folded its own."""
        return "temp" if self.folded_privately else "main"

    def close(self) -> None:
        """Close the file, after the commit of what waits in the queue; a second call does nothing."""
        if self._writer is not None and (queue := self._writer.queue) is not None:
            self.store.check_closable()
            with suppress(RejectedError, ConflictError):  # it is closed, or belongs to the process before a fork
                self.store.check_open()
                queue.close()
        if self.sharing is not None:
            self.sharing.stop()
        self.store.close()
        if self.sharing is not None:
            self.sharing.close()
        if self.after_close is not None:
            self.after_close()
