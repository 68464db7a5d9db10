"""The reading side of an engine: the parts that a query needs, now or at a moment of the past."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from ledger.core.log_reading import check_tables
from ledger.core.snapshot import Snapshot
from ledger.domain.errors import RejectedError, StorageError
from ledger.events import LedgerCreated
from ledger.log import closed
from ledger.log.past_views import Prepare
from ledger.sessions.rules.patterns import NamePatterns
from projections.core.as_of import Times
from projections.core.projector import tables_of
from projections.core.rows import Connection
from projections.search.counting import Counts
from projections.search.text_hits import Rarity

if TYPE_CHECKING:
    from ledger.core.own import Own
    from ledger.sessions.counting import Counter
    from ledger.vectors.embedding import VectorSearch

_OPEN = nullcontext()  # nothing is suspended


class ReadingEngine(ABC):
    """The parts of a ledger that a read needs; ``Engine`` reads the present and ``PastEngine`` a moment of the past.

    Each read is one consistent snapshot, waits for no writer and appends nothing. What writes takes an ``Engine``, so a type
    checker refuses a write through the past.
    """

    counter: Counter
    vectors: VectorSearch | None = None
    patterns = NamePatterns()  # of the sessions that are kept out
    own: Own | None = None  # the user's own projections
    valid: str | None = None  # a time of the world: reads answer with what was true at that time

    def __init__(self, created: LedgerCreated) -> None:
        self.created = created
        try:
            self.secret = bytes.fromhex(created.secret)
        except ValueError:
            raise StorageError("the first event of this ledger is damaged: its secret cannot be read") from None
        self.times, self.rarity, self.counts = Times(), Rarity(), Counts()

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
                with closed.reading(connection, {} if stale else tables_of(suspended)) if suspended else _OPEN:
                    yield connection
            except (UnicodeEncodeError, OverflowError) as error:
                raise RejectedError(
                    f"an argument holds a text or a number that cannot be stored ({type(error).__name__})"
                ) from None

    def keeps_out(self, *names: str) -> str:
        """Return "ignored" or "stateless" if a pattern keeps out a session of one of these names; "" if none does."""
        kinds = {self.patterns.kind(name) for name in names}
        return next((kind for kind in ("ignored", "stateless") if kind in kinds), "")
