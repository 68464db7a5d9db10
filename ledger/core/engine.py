"""The parts that every command and query of the present works with: one open file, the clock, the ids and the models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from ledger.core.apart import fold_to
from ledger.core.pipeline import Writer
from ledger.core.reading_engine import ReadingEngine
from ledger.core.snapshot import LiveSnapshot, Snapshot
from ledger.core.who import Who
from ledger.core.work import Clock, Random
from ledger.events import LedgerCreated
from ledger.log.event_store import EventStore
from ledger.log.past_views import Prepare
from projections.core.rows import Connection

if TYPE_CHECKING:
    from ledger.core.settings import Settings
    from ledger.models.port import Model, NamedSummarizer


class Engine(ReadingEngine):
    """The parts of one open ledger, from which each feature takes those that it needs."""

    model: Model | None = None
    summarizer: NamedSummarizer | None = None
    settings: Settings | None = None
    after_capture: Callable[[], object] | None = None  # called after a turn has its answer
    after_close: Callable[[], object] | None = None  # removes the file of a temporary ledger

    def __init__(self, store: EventStore, created: LedgerCreated, default: Who, clock: Clock, random: Random) -> None:
        super().__init__(created)
        self.store, self.default = store, default
        self.writer = Writer(store, self.secret, created.ledger_id, clock, random)
        # (purpose, user) -> the position up to which this process has looked
        self.looked: dict[tuple[str, str], int] = {}
        self.unsearched: dict[str, list[str]] = {}  # pending erasures of this process -> texts that no file may hold
        self.erased_vectors: dict[bytes, None] = {}  # vectors that no file may hold

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
        return self.writer.now()

    def write_waiting(self) -> None:
        self.writer.write_waiting()

    def connection(self) -> AbstractContextManager[Connection]:
        return self.store.snapshot()

    @contextmanager
    def view(self, prepare: Prepare) -> Iterator[Connection]:
        with self.store.past_view(prepare) as connection:
            if self.folded_privately:
                fold_to(connection, None, self.secret, self.created.ledger_id)
            yield connection

    def seen(self, connection: Connection) -> Snapshot:
        return LiveSnapshot(connection, self.secret, self.valid, self.now, self.schema)

    @property
    def schema(self) -> str:
        """Return the schema of the text indexes: "main" for the file, "temp" if this process folded its own."""
        return "temp" if self.folded_privately else "main"

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self.store.close()
        if self.after_close is not None:
            self.after_close()
