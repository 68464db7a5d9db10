"""What is behind ``Ledger``: one open file with everything that works on it."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from ledger.domain.errors import (
    DamagedError,
    LedgerError,
    NewerFormatError,
    StorageError,
    UnknownEventError,
)
from ledger.domain.events import FORMAT, LEDGER_STREAM, AnyEvent, LedgerCreated
from ledger.domain.patterns import Patterns
from ledger.domain.text import check_text
from ledger.engine.log_reading import READER, WRITER, check_format, check_upgrade, last_upgrade, read_event
from ledger.engine.pipeline import Writer
from ledger.engine.who import check_channel
from ledger.engine.work import Clock, Random, Who, Work, now, system_random
from ledger.erasure.erasing import Erasing
from ledger.guards.guarding import Guard, Scanner, as_scanners
from ledger.guards.quarantining import Quarantining
from ledger.history.moments import Moments
from ledger.history.supposing import Supposing
from ledger.history.trail import Trail
from ledger.jobs.running import Running
from ledger.language.consolidating import ModelConsolidating
from ledger.language.door import Language, chosen
from ledger.maintenance.backing_up import BackingUp
from ledger.maintenance.doctor import Doctoring
from ledger.maintenance.rebuilding import tables_fit
from ledger.maintenance.transfer import Progress, Transfer, import_log
from ledger.observations.commands import ObservationWrites
from ledger.proof.proving import Proving
from ledger.recall.reopening import Reopening
from ledger.sessions.counting import as_counter
from ledger.sessions.session import Sessions
from ledger.store.event_store import EventStore
from ledger.store.integrity import GENESIS
from ledger.vectors.embedders import EmbedderLike, as_embedder
from ledger.vectors.embedding import Embedding, VectorSearch
from projections.core import damage
from projections.core.as_of import Times
from projections.core.projector import create_tables, write_checkpoints
from projections.core.rebuild import RebuildUnderWay
from projections.core.sqlite import exists
from projections.search.text_hits import Rarity
from projections.views import audit

if TYPE_CHECKING:
    from ledger.engine.settings import Settings
    from ledger.language.port import Model, ModelRequest


REBUILDS = (
    3  # on opening, before the file counts as damaged; another product's process may be the one that came between
)


class Core(
    ObservationWrites,
    ModelConsolidating,
    Running,
    Quarantining,
    Reopening,
    Erasing,
    Supposing,
    Transfer,
    BackingUp,
    Doctoring,
    Embedding,
    Proving,
    Moments,
    Sessions,
    Language,
    Trail,
):
    """The memory of an agent in one file: every change is an event, and every answer can say why.

    ``user`` bounds everything: what one user's agent remembers, no other user's call can see. Thread-safe; a forked
    process opens its own.
    """

    def __init__(self, store: EventStore, created: LedgerCreated, default: Who, clock: Clock, random: Random) -> None:
        self.store, self.created, self.default = store, created, default
        try:
            secret = bytes.fromhex(created.secret)
        except ValueError:
            raise StorageError("the first event of this ledger is damaged: its secret cannot be read") from None
        self.writer = Writer(store, secret, created.ledger_id, clock, random)
        store.find_damage = damage.find
        self.times = Times()
        self.rarity = Rarity()
        self.looked = {}
        self.unsearched: dict[str, list[str]] = {}
        self.erased_vectors: dict[bytes, None] = {}

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
        embedder: EmbedderLike | None = None,
        model: Model | Callable[[ModelRequest], Any] | str | None = None,
        token_counter: Callable[[str], int] | None = None,
        summariser: Any = None,
        ignored_sessions: Sequence[str] = (),
        stateless_sessions: Sequence[str] = (),
        settings: Settings | None = None,
        after_capture: Sequence[str] = (),
        scanners: Sequence[Scanner] = (),
    ) -> Self:
        """Opens a ledger, or begins one where there is no file. The words after the path are what calls fall back on.

        ``embedder`` is the model by whose vectors recall searches besides words: an object with a name and ``embed``, a
        function, or the name of a model ("wordllama", "onnx:DIRECTORY"). ``model`` is a language model: an object with a name
        and ``answer``, a function of a ``ModelRequest``, or a name ("openai:NAME", "anthropic:NAME"); without one nothing is
        ever asked. ``summariser`` writes the summaries of sessions: a function of a ``SummaryRequest``; without one the model
        does. ``token_counter`` is a function that counts the tokens of a text, for the messages of sessions; without one they
        are estimated. Nothing is taken in of a session whose name fits one of the ``ignored_sessions`` (``**`` any text, ``*``
        any without a colon; "heartbeat" always), and nothing read; of a ``stateless`` one nothing is taken in. ``settings``
        (``Settings.load()``) are what all of this falls back on. ``after_capture`` names jobs of ``run_policies`` that follow
        each capture, beside reinforcement, which always does. ``scanners`` are yours, beside those of the product: objects
        with a name and ``scan(text)``, which gives labels of what it finds; one that raises has found nothing, with a warning.

        ``RejectedError`` for a path that is no place for a ledger, ``StorageError`` for a file that is none,
        ``NotFoundError`` when
        there is none and none may be created, ``ConflictError`` when the file needs a newer version of the product.
        """
        default = _default(settings, user=user, actor=actor, client=client, channel=channel, agent=agent)
        embedder = embedder if embedder is not None or settings is None else settings.embedder
        vectors_of = as_embedder(embedder) if embedder is not None else None
        counter, patterns = as_counter(token_counter), Patterns(tuple(ignored_sessions), tuple(stateless_sessions))
        language_model, writer_of = chosen(model, summariser, settings)
        guard = Guard(as_scanners(scanners))
        store = EventStore.open(path, readonly=readonly, create=create, tables=create_tables)
        try:
            created = _created(store) or _begin(store, default, clock, random)
            ledger = cls(store, created, default, clock, random)
            ledger.vectors = VectorSearch(store, ledger.writer, vectors_of) if vectors_of is not None else None
            ledger.counter, ledger.summariser, ledger.patterns = counter, writer_of, patterns
            ledger.model, ledger.settings = language_model, settings
            if after_capture:
                ledger._run_after_capture(after_capture)
            ledger.writer.guard = guard
            ledger._fit_projections()
            if not readonly:
                with suppress(
                    DamagedError
                ):  # a file that does not open could not be rebuilt; the next open goes on with it
                    ledger._purge_what_a_crash_left()
        except BaseException:
            store.close()
            raise
        return ledger

    def _fit_projections(self) -> None:
        """Brings the tables to this product's versions; a private copy where the file cannot be written."""
        rebuilt = 0
        while not self._look():
            if self.store.readonly:
                self._fold_privately()
                return
            if rebuilt == REBUILDS:
                raise StorageError(
                    "the projections do not fit their log after a rebuild either, so the file is damaged"
                )
            with suppress(RebuildUnderWay):  # a lease that nobody renews ends by itself
                self.rebuild()
                rebuilt += 1
                continue
            time.sleep(0.05)

    def _look(self) -> bool:
        """Whether the projections fit, after a look at the format that the log needs since its last upgrade.

        What upgraded it is asked of the audit trail, or where that does not fit, of the whole log (0.3 s a million events).
        """
        with self.store.snapshot() as connection:
            suspended = tables_fit(connection, self.writer.secret, self.created.ledger_id)
            last = connection.execute("SELECT max(position) FROM events").fetchone()[0]
            position = _last_upgrade(connection, by_trail=suspended is not None and "audit" not in suspended)
            check_upgrade(connection, position, readonly=self.store.readonly)
        self.writer.tables.looked_at = last
        return suspended is not None

    @classmethod
    def import_log(
        cls, source: str | os.PathLike[str], path: str | os.PathLike[str], *, progress: Progress | None = None
    ) -> None:
        """Makes the ledger of an export at a path where nothing is: the same id, rows, digests and head; all or nothing."""
        import_log(source, path, progress=progress)
        with suppress(NewerFormatError, UnknownEventError):  # it is there as it was, for a product that can read it
            cls.open(path).close()

    @property
    def path(self) -> str:
        return self.store.path

    @property
    def id(self) -> str:
        """The ledger's own id; a copy of the file has the same."""
        return self.created.ledger_id

    @contextmanager
    def batch(self) -> Iterator[Self]:
        """Groups many commands into one commit, or one each 5 seconds or 10,000 events.

        An exception that leaves the block takes back what was not committed yet. Reinforcement of what was captured
        inside is left to ``run_policies``.
        """
        with self.writer.batch():
            yield self

    def close(self) -> None:
        """Gives the file back; a second call does nothing."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Core {self.path!r}>"


def _default(settings: Settings | None, *, channel: str, **given: str) -> Who:
    """What calls fall back on: what was said, or else what the settings say."""
    told: dict[str, Any] = {
        name: getattr(settings, name) if settings and value == "" else value for name, value in given.items()
    }
    for name, value in told.items():
        check_text(name, value, max_bytes=1024, blank_allowed=True)
    check_channel(channel)
    return Who(channel=channel, **told)


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
    check_format(created.least_reader, created.least_writer, readonly=store.readonly)
    return created


def _last_upgrade(connection: sqlite3.Connection, *, by_trail: bool) -> int | None:
    """The position of the last LedgerUpgraded; of the log itself where the trail cannot be asked."""
    if by_trail:
        with suppress(sqlite3.DatabaseError):
            return audit.last_upgrade(connection)
    return last_upgrade(connection)


def _begin(store: EventStore, default: Who, clock: Clock, random: Random) -> LedgerCreated:
    """Writes the first event, once, whoever comes first."""
    if store.readonly:
        raise LedgerError(f"{store.path} holds no events yet, so there is nothing to read")
    created = LedgerCreated(random(16).hex(), FORMAT, READER, WRITER, random(32).hex())
    with store.transact() as transaction:
        if transaction.position:
            return _created(store) or created
        secret = bytes.fromhex(created.secret)
        if not exists(transaction.connection, "checkpoint"):  # the log alone was made here
            create_tables(transaction.connection)
        write_checkpoints(transaction.connection, secret, created.ledger_id, 0, GENESIS)
        writer = Writer(store, secret, created.ledger_id, clock, random)

        def body(work: Work) -> str:
            work.emit(LEDGER_STREAM, created)
            return LEDGER_STREAM

        writer.run("open", Who(actor=default.actor, client=default.client), body)
    return created
