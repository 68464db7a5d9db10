"""From a path to an open engine: the format is looked at, the tables are brought to this product's versions."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ledger.domain.errors import (
    ConflictError,
    DamagedError,
    LedgerError,
    NewerFormatError,
    RejectedError,
    StorageError,
    UnknownEventError,
)
from ledger.domain.events import FORMAT, LEDGER_STREAM, AnyEvent, LedgerCreated
from ledger.domain.patterns import Patterns
from ledger.domain.text import check_text, one_of
from ledger.engine.engine import Engine
from ledger.engine.log_reading import (
    READER,
    WRITER,
    check_format,
    check_tables,
    check_upgrade,
    last_upgrade,
    owner,
    read_event,
)
from ledger.engine.own import Own
from ledger.engine.pipeline import Writer
from ledger.engine.who import CHANNELS, Who
from ledger.engine.work import Clock, Random, Work, now, system_random
from ledger.guards.guarding import Guard, Scanner, as_scanners
from ledger.maintenance.fitting import tables_fit
from ledger.sessions.counting import as_counter
from ledger.store import mapper
from ledger.store.event_store import EventStore
from ledger.store.integrity import GENESIS
from ledger.store.making import remove_unfinished
from ledger.store.sqlite_files import FOREIGN
from projections.core import damage, sql_views
from projections.core.own import Definition, Projection, definitions
from projections.core.projector import check_end, create_tables, names, write_checkpoints
from projections.core.rebuild import RebuildUnderWay
from projections.core.sqlite import exists
from projections.views import audit, erasures

if TYPE_CHECKING:
    from ledger.engine.settings import Settings
    from ledger.language.port import Model, ModelRequest
    from ledger.maintenance.transfer import Progress
    from ledger.vectors.embedders import Embedder, EmbedderLike

REBUILDS = (
    3  # on opening, before the file counts as damaged; another product's process may be the one that came between
)


def open_engine(
    path: str | os.PathLike[str],
    *,
    readonly: bool = False,
    create: bool = True,
    user: str | None = None,
    actor: str = "",
    client: str = "",
    channel: str = "user",
    agent: str = "",
    clock: Clock = now,
    random: Random = system_random,
    embedder: EmbedderLike | None = None,
    model: Model | Callable[[ModelRequest], object] | str | None = None,
    token_counter: Callable[[str], int] | None = None,
    summarizer: object = None,
    ignored_sessions: Sequence[str] = (),
    stateless_sessions: Sequence[str] = (),
    settings: Settings | None = None,
    after_capture: Sequence[str] = (),
    scanners: Sequence[Scanner] = (),
    projections: Iterable[Projection | type[Projection]] = (),
) -> Engine:
    """Opens a ledger, or begins one where there is no file; ``Ledger.open`` says what each part is for."""
    _check_given(settings, clock=clock, random=random)
    default = _default(settings, user=user, actor=actor, client=client, channel=channel, agent=agent)
    embedder = embedder if embedder is not None or settings is None else settings.embedder
    counter, patterns = as_counter(token_counter), Patterns(tuple(ignored_sessions), tuple(stateless_sessions))
    guard, wanted = Guard(as_scanners(scanners)), _checked_own(projections)
    language_model, writer_of = _models(model, summarizer, settings)
    vectors_of = _embedder(embedder)
    store = EventStore.open(path, readonly=readonly, create=create, tables=create_tables)
    if settings is not None:
        store.bound_wal(settings.wal_mib * 1024 * 1024)
    try:
        created = _created(store) or _begin(store, default, clock, random)
        store.find_damage = damage.find
        engine = Engine(store, created, default, clock, random)
        engine.counter, engine.patterns, engine.settings = counter, patterns, settings
        engine.model, engine.summarizer = language_model, writer_of
        if vectors_of is not None:
            from ledger.vectors.embedding import VectorSearch

            engine.vectors = VectorSearch(store, engine.writer, vectors_of)
        if after_capture:
            from ledger.jobs import running

            running.run_after_capture(engine, after_capture)
        engine.writer.guard = guard
        _fit_projections(engine)
        if wanted:
            _fit_own(engine, wanted)
        if not store.readonly:
            with suppress(
                StorageError
            ):  # a file that does not open could not be rebuilt; the next open goes on with it
                remove_unfinished(store)
            with suppress(DamagedError):
                _finish_erasures(engine)
    except BaseException:
        store.close()
        raise
    return engine


def _models(model: object, summarizer: object, settings: Settings | None) -> tuple[Any, Any]:
    """What is given, or what the settings name; models are loaded only where there is one."""
    if model is None and summarizer is None and (settings is None or settings.model is None):
        return None, None
    from ledger.language.models import chosen

    return chosen(model, summarizer, settings)


def _embedder(given: EmbedderLike | None) -> Embedder | None:
    if given is None:
        return None
    from ledger.vectors.embedders import as_embedder

    return as_embedder(given)


def import_log(
    source: str | os.PathLike[str], path: str | os.PathLike[str], *, progress: Progress | None = None
) -> None:
    """Makes the ledger of an export at a path where nothing is: the same id, rows, digests and head; all or nothing."""
    from ledger.maintenance import transfer

    transfer.import_log(source, path, progress=progress)
    with suppress(
        NewerFormatError, UnknownEventError, DamagedError
    ):  # it is there as it was, for a product that can read it
        open_engine(path).close()


def _fit_projections(engine: Engine) -> None:
    """Brings the tables to this product's versions; a private copy where the file cannot be written."""
    rebuilt = 0
    while not _look(engine):
        if engine.store.readonly:
            from ledger.maintenance import care

            care.fold_privately(engine)
            return
        if rebuilt == REBUILDS:
            _check_versions(engine)
            raise StorageError("the projections do not fit their log after a rebuild either, so the file is damaged")
        with suppress(RebuildUnderWay):  # a lease that nobody renews ends by itself
            from ledger.maintenance import rebuilding

            rebuilding.rebuild(engine, digest=False)
            rebuilt += 1
            continue
        time.sleep(0.05)
    _fit_views(engine)


def _fit_views(engine: Engine) -> None:
    """Makes the views that are missing or of another version; of a file that takes no write now, the next open does."""
    if engine.store.readonly:
        return
    with engine.store.snapshot() as connection:
        names = "SELECT 1 FROM main.sqlite_master WHERE name IN (?, ?)"
        open_to_others = connection.execute(names, tuple(FOREIGN)).fetchone() is None
        if not open_to_others and not any(sql_views.unfit(connection)):
            return
    with suppress(StorageError), engine.store.transact() as transaction:
        for made in FOREIGN.values() if open_to_others else ():
            transaction.connection.execute(made)
        sql_views.create_views(transaction.connection)


def _checked_own(given: Iterable[Projection | type[Projection]]) -> dict[str, Definition]:
    wanted = definitions(given) if given != () else {}
    if taken := wanted.keys() & {*names()}:
        raise RejectedError(f"the ledger has a projection {min(taken)!r} itself: give yours another name")
    return wanted


def _fit_own(engine: Engine, wanted: Mapping[str, Definition]) -> None:
    """The projections of a user's: their tables are made and caught up, where the file can be written."""
    own = engine.own = Own(engine.store, wanted)
    if not engine.store.readonly:
        engine.writer.tables.own = own
        own.bring_up()
        own.catch_up()


def _check_versions(engine: Engine) -> None:
    """``ConflictError`` where the tables are again those of another version, which some process must have brought back."""
    with engine.store.snapshot() as connection:
        try:
            check_tables(connection, engine.writer.secret)
        except ConflictError as error:
            raise ConflictError(
                "another version of the product has this ledger open and keeps changing its projections: use one version"
                " for all processes, or open it here with readonly=True"
            ) from error


def _finish_erasures(engine: Engine) -> None:
    """What a crash left of erasures is purged; that is loaded only where something was left."""
    with (
        suppress(sqlite3.OperationalError),
        engine.store.snapshot() as connection,
    ):  # without a table nothing can be left
        if not erasures.pending(connection):
            return
    from ledger.erasure import completing

    completing.purge_what_a_crash_left(engine)


def _look(engine: Engine) -> bool:
    """Whether the projections fit, after a look at the format that the log needs since its last upgrade.

    What upgraded it is asked of the audit trail, or where that does not fit, of the whole log (0.3 s a million events).
    """
    with engine.store.snapshot() as connection:
        suspended = tables_fit(connection, engine.writer.secret, engine.created.ledger_id)
        last = connection.execute("SELECT max(position) FROM events").fetchone()[0]
        position = _last_upgrade(connection, by_trail=suspended is not None and "audit" not in suspended)
        check_upgrade(connection, position, readonly=engine.store.readonly)
    engine.writer.tables.looked_at = last
    return suspended is not None


def _check_given(settings: object, **functions: object) -> None:
    if settings is not None:
        from ledger.engine.settings import Settings

        if not isinstance(settings, Settings):
            raise RejectedError(f"settings takes what Settings.load() gives, not {type(settings).__name__}")
    for name, given in functions.items():
        if not callable(given):
            raise RejectedError(f"{name} is a function, and {given!r:.40} is none")


def _default(settings: Settings | None, *, user: str | None, channel: str, **given: str) -> Who:
    """Return what calls fall back on: what was said, or else what the settings say."""
    names: dict[str, Any] = {
        name: getattr(settings, name) if settings and value == "" else value for name, value in given.items()
    }
    names["user"] = user if user is not None else settings.user if settings else ""
    for name, value in names.items():
        check_text(name, value, blank_allowed=True)
    one_of("channel", channel, CHANNELS)
    names_user = user is not None or (settings is not None and settings.names_user)
    return Who(channel=channel, names_user=names_user, **names)


def _created(store: EventStore) -> LedgerCreated | None:
    """The first event, after a look at the format it names; first of all, at whether the log's end is there."""
    with store.snapshot() as connection:
        event = _first(connection, store.path)
        if event is None or not store.readonly:
            check_end(connection)
        if event is None:
            return None
        check_format(event.data.least_reader, event.data.least_writer, readonly=store.readonly)
        return owner(connection, event.data)


def created_by(connection: sqlite3.Connection, path: str) -> LedgerCreated:
    """The first event of a ledger that is only read. ``RejectedError`` where there is none, or the file is no ledger."""
    event = _first(connection, path)
    if event is None:
        raise RejectedError(f"{path} holds no events yet, so there is nothing to read", rule="readonly")
    check_format(event.data.least_reader, event.data.least_writer, readonly=True)
    return owner(connection, event.data)


def _first(connection: sqlite3.Connection, path: str) -> AnyEvent | None:
    check_owner(connection, path)
    event = read_event(connection, 1)
    if event is not None and not isinstance(event.data, LedgerCreated):
        raise LedgerError("the first event of this file is not LedgerCreated, so it is no ledger of this product")
    return event


def check_owner(connection: sqlite3.Connection, path: str) -> None:
    """``RejectedError`` where an application of the eventsourcing library keeps its events or snapshots."""
    if what := held_by_another(connection):
        raise RejectedError(f"{path} has {what}; name the ledger's own file (--db on the command line)", rule="foreign")


def held_by_another(connection: sqlite3.Connection) -> str:
    """What a file has of an application of the eventsourcing library, so that it is no ledger; empty for nothing."""
    first = connection.execute("SELECT CAST(type AS TEXT) FROM main.events WHERE position = 1").fetchone()
    whose = "an application of the eventsourcing library"
    if first is not None and mapper.is_foreign(first[0]):
        return f"the log of {whose}, whose first event is a {first[0]:.60}, and is no ledger"
    theirs = [name for name in ("stored_snapshots", "tracking") if exists(connection, name)] if first is None else []
    return f"the table {theirs[0]} of {whose}, so no ledger can begin there" if theirs else ""


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
