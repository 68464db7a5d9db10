"""The parts that every command and query works with: file, clock, ids and models; and the state that a query reads.

A query gets the same kind of engine for the ledger as it is and for the ledger at a past moment, which only reads.
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import date, datetime
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from ledger.core.call import Clock, Random, Who, stored_time
from ledger.core.reads import check_tables, fold_to
from ledger.domain import times
from ledger.domain.errors import ConflictError, NotFoundError, RejectedError, StorageError
from ledger.domain.late import once
from ledger.domain.name_patterns import NamePatterns
from ledger.domain.parts import Parts
from ledger.events import LedgerCreated
from ledger.log.event_store import EventStore
from ledger.log.reading import Prepare, read_tip, tables_closed
from projections.core import as_of
from projections.core.as_of import HEAD, Times
from projections.core.projector import tables_of
from projections.core.rows import Connection
from projections.search.counting import Counts
from projections.search.text_hits import Rarity
from projections.views import audit

if TYPE_CHECKING:
    from ledger.core.command import Writer
    from ledger.core.own import Own
    from ledger.core.settings import Settings
    from ledger.core.steps import Stopping
    from ledger.domain.errors import LedgerError
    from ledger.domain.scan.scanner import Scanner
    from ledger.domain.tokens import Counter
    from ledger.log.shared.port import SharedLog

_OPEN = nullcontext()  # nothing is suspended


class Snapshot(Struct, frozen=True):
    """The state that a query reads, now or at a moment.

    Attributes:
        connection: The tables of that state.
        secret: The ledger's secret.
        valid: A time of the world: reads answer with what was true at that time.
        now: Returns the present, or for a past moment the latest time recorded by then.
        schema: The schema of the text indexes: "main" for the file, "temp" if this process folded its own.
        position: The position of a past moment that is read from today's tables; None if the tables are of that state.
        is_past: True for a past moment: texts of it may be missing both in the indexes and among the texts that wait for them.
    """

    connection: Connection
    secret: bytes
    valid: str | None
    now: Callable[[], str]
    schema: str = "main"
    position: int | None = None
    is_past: bool = False


class ReadingEngine(ABC):
    """The parts of a ledger that a read needs; ``Engine`` reads the present and ``PastEngine`` a moment of the past.

    Each read is one consistent snapshot, waits for no writer and appends nothing. What writes takes an ``Engine``, so a type
    checker refuses a write through the past.
    """

    counter: Counter
    patterns: NamePatterns = NamePatterns()  # of the sessions that are kept out
    own: Own | None = None  # the user's own projections
    valid: str | None = None  # a time of the world: reads answer with what was true at that time

    def __init__(self, created: LedgerCreated) -> None:
        self.created = created
        try:
            self.secret: bytes = bytes.fromhex(created.secret)
        except ValueError:
            raise StorageError("the first event of this ledger is damaged: its secret cannot be read") from None
        self.times: Times = Times()
        self.rarity: Rarity = Rarity()
        self.counts: Counts = Counts()
        self.parts: Parts = Parts()  # that features bring

    @property
    @abstractmethod
    def path(self) -> str:
        """Return the absolute path of the file."""

    @property
    @abstractmethod
    def position(self) -> int:
        """Return the position of the last event that this engine reads."""

    @property
    @abstractmethod
    def folded_privately(self) -> bool:
        """Return True if this process folds its own tables, because it cannot use the projections of the file."""

    @abstractmethod
    def now(self) -> str:
        """Return the present of this engine, as a stored time."""

    @abstractmethod
    def write_waiting(self) -> None:
        """Write what an open batch keeps back, so that a read finds it."""

    @abstractmethod
    def connection(self) -> AbstractContextManager[Connection]:
        """Return a context with a connection on one state of the tables."""

    @abstractmethod
    def view(self, prepare: Prepare) -> AbstractContextManager[Connection]:
        """Return a context with a connection on the committed state on which ``prepare`` was run, for queries in SQL."""

    @abstractmethod
    def seen(self, connection: Connection) -> Snapshot:
        """Return the snapshot that a connection of this engine reads."""

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Yield a snapshot for queries."""
        with self.reading() as connection:
            yield self.seen(connection)

    @contextmanager
    def reading(self, *, stale: bool = False) -> Iterator[Connection]:
        """Yield the connection of a snapshot, after a check of the tables.

        Reading a table of a suspended projection raises ``SuspendedError``, unless ``stale`` is true.
        """
        self.write_waiting()
        with self.connection() as connection:
            _, suspended = check_tables(connection, self.secret)
            try:
                with tables_closed(connection, {} if stale else tables_of(suspended)) if suspended else _OPEN:
                    yield connection
            except (UnicodeEncodeError, OverflowError) as error:
                raise RejectedError(
                    f"an argument holds a text or a number that cannot be stored ({type(error).__name__})"
                ) from None

    def keeps_out(self, *names: str) -> str:
        """Return "ignored" or "stateless" if a pattern keeps out a session of one of these names; "" if none does."""
        kinds = {self.patterns.kind(name) for name in names}
        return next((kind for kind in ("ignored", "stateless") if kind in kinds), "")


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
        self.store = store
        self.default = default
        self.clock = clock
        self.random = random
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
        from ledger.core.command import Writer

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
        if self._writer is not None and self._writer.open_batch is not None:
            self._writer.write_waiting()

    def index_waiting(self) -> None:
        """Move the waiting texts into their indexes before a search, unless another writer is active."""
        self.store.write_now(self.writer.tables.index_waiting)

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


# --- a past moment ----------------------------------------------------------------------------------------------------

Instant = int | str | datetime | date  # a position; a time with an offset; a date; the id of an event

_NUMBER = re.compile(r"\s*[+-]?\d+\s*")
_EVENT_ID = re.compile(r"\s*[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\s*", re.IGNORECASE)


class PastEngine(ReadingEngine):
    """The ledger as it was known at a position, ``moment``.

    Its present, ``as_of``, is the time that was asked for, and of a position the latest time recorded by then.

    It needs no close, keeps nothing between two calls, and many threads may use it.
    """

    def __init__(self, present: Engine, moment: int, time: str, valid: str | None = None) -> None:
        super().__init__(present.created)
        self.moment = moment
        self.as_of = time
        self.valid = valid
        self._store = present.store
        self.times: Times = present.times
        self.counter: Counter = present.counter
        self.parts = present.parts.of_reads()
        self.patterns: NamePatterns = present.patterns
        self.own: Own | None = present.own

    @property
    def path(self) -> str:
        return self._store.path

    @property
    def position(self) -> int:
        return self.moment

    @property
    def folded_privately(self) -> bool:
        return self._store.folded_privately

    def now(self) -> str:
        return self.as_of

    def write_waiting(self) -> None:
        """Do nothing, because a past moment has nothing to write."""

    def connection(self) -> AbstractContextManager[Connection]:
        if self.folded_privately and self.moment == HEAD:
            return self._store.snapshot()
        return self.view(as_of.shadow_the_log if self.folded_privately else as_of.shadow)

    @contextmanager
    def view(self, prepare: Prepare) -> Iterator[Connection]:
        with self._store.past_view(prepare) as connection:
            if self.folded_privately:
                fold_to(connection, self.moment, self.secret, self.created.ledger_id)
            else:
                as_of.stand(connection, self.moment)
            yield connection

    def seen(self, connection: Connection) -> Snapshot:
        if self.folded_privately:
            return Snapshot(connection, self.secret, self.valid, self.now, "temp", is_past=True)
        return Snapshot(connection, self.secret, self.valid, self.now, position=self.moment, is_past=True)


def at(engine: Engine, moment: Instant, valid: Instant | None = None) -> PastEngine:
    """Return the ledger as it was known at a moment, for reading; it answers as it would have answered then.

    Args:
        engine: The engine of the present.
        moment: A position; the id of an event; or a time: a datetime with a tzinfo, ISO 8601 with ``Z`` or an offset, or a
            date or month, which means its first instant in UTC. A text of digits is a position, so a date in the basic form
            needs dashes or a time (20261121T0930Z). A time means the longest prefix of the log in which nothing was recorded
            later, because clocks may jump back.
        valid: A time of the world. ``memory``, ``memories``, ``graph`` and ``recall`` then answer with the memories that held
            at that time (from ``valid_from``, before ``valid_to``), as known at the moment, active or superseded only later.

    Raises:
        RejectedError: The log does not have the position, or the time lies in the future or before the first event, or has
            no offset.
        NotFoundError: There is no event of this id. A text that was erased later is erased at every moment.
    """
    holds = None if valid is None else times.moment("valid", _checked_time("valid", valid))
    with committed(engine) as connection:
        position = position_of(engine, connection, moment)
        return PastEngine(engine, position, _instant(moment) or engine.times.at(connection, position), holds)


@contextmanager
def committed(engine: Engine) -> Iterator[Connection]:
    """Yield a connection that sees all committed events and none of an open batch."""
    with PastEngine(engine, HEAD, "").reading() as connection:
        yield connection


def position_of(engine: Engine, connection: Connection, moment: Instant) -> int:
    """Return the position that a moment names; raise what ``at`` raises."""
    head, _ = read_tip(connection.cursor())
    if isinstance(moment, str) and _EVENT_ID.fullmatch(moment):
        entry = audit.by_event(connection, moment.strip().lower())
        if entry is None:
            raise NotFoundError(f"no event of this ledger has the id {moment.strip()}")
        return entry.position
    if isinstance(moment, str) and _NUMBER.fullmatch(moment):
        moment = int(moment) if len(moment) < 20 else HEAD
    elif isinstance(moment, str) and not times.is_time(moment):
        raise RejectedError(
            f"{moment!r:.60} names no moment: give a position (1 to {head}), a time in ISO 8601 with Z or an offset, "
            "a date like 2026-11-21, a month like 2026-11, or the id of an event"
        )
    if isinstance(moment, int) and not isinstance(moment, bool):
        if not 1 <= moment <= head:
            raise RejectedError(
                f"position {moment} is not in this ledger: its positions go from 1 to {head} (a date has dashes)"
            )
        return moment
    return _position_at(engine, connection, times.moment("the moment", _checked_time("the moment", moment)), head)


def _instant(moment: Instant) -> str | None:
    """Return the time that a moment names; None for a position or the id of an event."""
    if isinstance(moment, int) or (
        isinstance(moment, str) and (_NUMBER.fullmatch(moment) or _EVENT_ID.fullmatch(moment))
    ):
        return None
    return times.moment("the moment", moment)


def _position_at(engine: Engine, connection: Connection, time: str, head: int) -> int:
    if time > max(engine.now(), known := engine.times.at(connection, head)):
        raise RejectedError(f"{time} lies in the future; the last event, at position {head}, is of {known}")
    position = engine.times.last(connection, time, head)
    if not position:
        first = engine.times.at(connection, 1)
        raise RejectedError(f"{time} is before the first event, which is of {first}: nothing was known then")
    return position


def _checked_time(name: str, moment: object) -> object:
    """Return the moment if it is a text, a date or a time; raise ``RejectedError`` for anything else."""
    if isinstance(moment, bool) or not isinstance(moment, str | date):
        allowed = "a time" if name == "valid" else "a position, a time or the id of an event"
        raise RejectedError(f"{name} is {allowed}, and not a {type(moment).__name__}")
    return moment
