"""The parts that every command and query works with: one open file, the clock, the ids and the models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from ledger.core.log_reading import check_tables
from ledger.core.pipeline import Writer
from ledger.core.snapshot import LiveSnapshot, Snapshot
from ledger.core.who import Who
from ledger.core.work import Clock, Random
from ledger.domain.errors import ConflictError, RejectedError, StorageError
from ledger.events import LedgerCreated
from ledger.log import closed
from ledger.log.event_store import EventStore
from ledger.sessions.rules.patterns import NamePatterns
from projections.core.as_of import Times
from projections.core.projector import tables_of
from projections.core.rows import Connection
from projections.search.counting import Counts
from projections.search.text_hits import Rarity

if TYPE_CHECKING:
    from ledger.core.own import Own
    from ledger.core.settings import Settings
    from ledger.models.port import Model, NamedSummarizer
    from ledger.sessions.counting import Counter
    from ledger.vectors.embedding import VectorSearch

_OPEN = nullcontext()  # nothing is suspended


class Engine:
    """The parts of one open ledger, from which each feature takes those that it needs.

    Each read is one consistent snapshot, waits for no writer and appends nothing.
    """

    counter: Counter
    model: Model | None = None
    summarizer: NamedSummarizer | None = None
    vectors: VectorSearch | None = None
    settings: Settings | None = None
    patterns = NamePatterns()  # of the sessions that are kept out
    after_capture: Callable[[], object] | None = None  # called after a turn has its answer
    after_close: Callable[[], object] | None = None  # removes the file of a temporary ledger
    own: Own | None = None  # the user's own projections
    is_past = False  # True for an engine that reads a past moment
    valid: str | None = None  # a time of the world: reads answer with what was true at that time

    def __init__(self, store: EventStore, created: LedgerCreated, default: Who, clock: Clock, random: Random) -> None:
        self.store, self.created, self.default = store, created, default
        try:
            secret = bytes.fromhex(created.secret)
        except ValueError:
            raise StorageError("the first event of this ledger is damaged: its secret cannot be read") from None
        self.writer = Writer(store, secret, created.ledger_id, clock, random)
        self.times, self.rarity = Times(), Rarity()
        self.counts = Counts()
        # (purpose, user) -> the position up to which this process has looked
        self.looked: dict[tuple[str, str], int] = {}
        self.unsearched: dict[str, list[str]] = {}  # pending erasures of this process -> texts that no file may hold
        self.erased_vectors: dict[bytes, None] = {}  # vectors that no file may hold

    @property
    def path(self) -> str:
        return self.store.path

    @property
    def position(self) -> int:
        """Return the position of the last event."""
        self.writer.write_waiting()
        return self.store.head()[0]

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Yield a snapshot for queries."""
        with self.reading() as connection:
            yield self.seen(connection)

    def seen(self, connection: Connection) -> Snapshot:
        return LiveSnapshot(connection, self.writer.secret, self.valid, self.writer.now, self.schema)

    @property
    def schema(self) -> str:
        """Return the schema of the text indexes: "main" for the file, "temp" if this process folded its own."""
        return "temp" if self.store.folded_privately else "main"

    @contextmanager
    def reading(self, *, stale: bool = False) -> Iterator[Connection]:
        """Yield the connection of a snapshot, after a check of the tables.

        Reading a table of a suspended projection raises ``SuspendedError``, unless ``stale`` is true.
        """
        self.writer.write_waiting()
        with self.store.snapshot() as connection:
            _, suspended = check_tables(connection, self.writer.secret)
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

    def close(self) -> None:
        """Close the file, after the commit of what waits in the queue; a second call does nothing."""
        if self.writer.queue is not None:
            self.store.check_closable()
            with suppress(RejectedError, ConflictError):  # it is closed, or belongs to the process before a fork
                self.store.check_open()
                self.writer.queue.close()
        self.store.close()
        if self.after_close is not None:
            self.after_close()
