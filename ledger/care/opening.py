"""The way from a path to an open engine: the format is checked, and the tables get this product's versions."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from ledger.care.fitting import tables_fit
from ledger.core.batches import CommitQueue
from ledger.core.call import CHANNELS, Clock, Random, Who, check_name, now, system_random
from ledger.core.engine import Engine
from ledger.core.own import Own
from ledger.core.reads import (
    READER,
    WRITER,
    check_format,
    check_tables,
    check_upgrade,
    last_upgrade,
    read_event,
    with_present_id,
)
from ledger.domain.errors import (
    ConflictError,
    DamagedError,
    LedgerError,
    NewerFormatError,
    RejectedError,
    StorageError,
    UnknownEventError,
)
from ledger.domain.name_patterns import NamePatterns
from ledger.domain.scan.scanner import Scanner
from ledger.domain.text import one_of
from ledger.events import FORMAT, LEDGER_STREAM, AnyEvent, LedgerCreated
from ledger.log import registry
from ledger.log.envelope import GENESIS
from ledger.log.event_store import EventStore
from ledger.log.lease import remove_unfinished_copies
from ledger.log.sqlite_files import FOREIGN
from ledger.log.writing import OutdatedError
from ledger.sessions.counting import as_counter
from ledger.types import SessionPatterns
from ledger.vectors import part as vector_part
from projections.core import damage, sql_views
from projections.core.own import Definition, Projection, definitions
from projections.core.projector import check_end, create_tables, names, write_checkpoints
from projections.core.rebuild import RebuildUnderWay
from projections.core.sqlite import exists
from projections.views import audit, erasures

if TYPE_CHECKING:
    from ledger.care.transfer import Progress
    from ledger.core.settings import Settings
    from ledger.core.work import Work
    from ledger.log.shared.port import SharedLog
    from ledger.models.port import Model, ModelRequest, NamedSummarizer
    from ledger.vectors.embedders import Embedder, EmbedderLike

# Rebuilds on opening before the file counts as damaged. A process of another version may undo the first ones.
REBUILDS = 3


class OpenRequest(Struct, frozen=True, kw_only=True):
    """The arguments of ``Ledger.open`` besides the path; ``Ledger.open`` describes them."""

    user: str | None = None
    actor: str = ""
    client: str = ""
    channel: str = "user"
    agent: str = ""
    readonly: bool = False
    create: bool | Literal["if_used"] = True
    model: Model | Callable[[ModelRequest], object] | str | None = None
    embedder: EmbedderLike | None = None
    summarizer: object = None
    token_counter: Callable[[str], int] | None = None
    scanners: Sequence[Scanner] = ()
    sessions: SessionPatterns = SessionPatterns()
    jobs_after_capture: Sequence[str] = ()
    projections: Iterable[Projection | type[Projection]] = ()
    group_commit: bool = False
    settings: Settings | None = None
    log: SharedLog | str | None = None
    tenant: str | None = None
    machine: str | None = None
    log_listen_url: str | None = None
    lock_timeout: float = 30.0
    wait: bool = True
    progress: Progress | None = None
    clock: Clock | None = None
    random: Random | None = None


def open_engine(path: str | os.PathLike[str], request: OpenRequest = OpenRequest()) -> Engine:  # noqa: B008 - it is frozen
    """Open a ledger, or create it if there is no file."""
    settings, readonly = request.settings, request.readonly
    clock = now if request.clock is None else request.clock
    random = system_random if request.random is None else request.random
    if not isinstance(request.sessions, SessionPatterns):
        raise RejectedError("sessions must be a SessionPatterns(ignore=(…), read_only=(…)) of ledger.types")
    _check_arguments(settings, clock=clock, random=random)
    default = _default(request)
    embedder = request.embedder if request.embedder is not None or settings is None else settings.embedder
    counter = as_counter(request.token_counter)
    patterns = NamePatterns(tuple(request.sessions.ignore), tuple(request.sessions.read_only))
    scanners, own_projections = _scanners(request.scanners), _checked_own(request.projections)
    language_model, writer_of = _models(request.model, request.summarizer, settings)
    vectors_of = _embedder(embedder, settings)
    log = _shared_log(request)
    store = EventStore.open(
        path,
        readonly=readonly,
        busy_timeout_seconds=request.lock_timeout,
        create=bool(request.create),
        tables=create_tables,
        shared=log is not None,
    )
    if_used = request.create == "if_used"
    if settings is not None:
        store.bound_wal(settings.wal_mib * 1024 * 1024)
    try:
        if log is not None:
            from ledger.shared import sharing

            sharing.attach(store, log, wait=request.wait)
        created = _created(store) or _write_first_event(store, default, clock, random)
        store.find_damage = damage.find
        engine = Engine(store, created, default, clock, random)
        engine.is_of_shared_log = store.shared is not None or store.is_replica
        engine.counter, engine.patterns, engine.settings = counter, patterns, settings
        engine.named_log = request.log or (settings.log_url if settings is not None else None)
        engine.scanners = scanners
        _bring_parts(engine, language_model, writer_of, vectors_of)
        if request.jobs_after_capture:
            from ledger.jobs import running

            running.run_after_capture(engine, request.jobs_after_capture)
        _fit_projections(engine)
        if own_projections:
            _fit_own(engine, own_projections)
        if not store.readonly:
            _finish_left_work(engine, shared=log is not None)
        if log is not None:
            from ledger.shared import sharing

            own_part = engine.sharing = sharing.Sharing(engine, log)
            own_part.begin(wait=request.wait, progress=request.progress)
    except BaseException as error:
        store.close()
        if if_used:
            store.remove_unused()
        if isinstance(error, StorageError) and not store.created and not os.path.lexists(store.path):
            return open_engine(path, request)  # another process had begun the file, and removed it unused meanwhile
        raise
    if if_used and log is None:
        engine.after_close = store.remove_unused
    if request.group_commit and not store.readonly:
        engine.writer.queue = CommitQueue(engine.writer.group, store.check_open)
    return engine


def _bring_parts(
    engine: Engine, model: Model | None, summarizer: NamedSummarizer | None, embedder: Embedder | None
) -> None:
    """Give an engine the parts that the caller plugged in. Their features are loaded only here."""
    if model is not None or summarizer is not None:
        from ledger.models.port import MODEL, SUMMARIZER

        engine.parts.bring(MODEL, model)
        engine.parts.bring(SUMMARIZER, summarizer)
    if embedder is not None:
        from ledger.vectors.embedding import VectorSearch

        engine.parts.bring(vector_part.SEARCH, VectorSearch(engine.store, engine.writer, embedder))


def _finish_left_work(engine: Engine, *, shared: bool) -> None:
    """Remove the remains of a rebuild, and finish erasures that a killed process left."""
    with suppress(StorageError):  # a damaged file may refuse the change; the next open tries again
        remove_unfinished_copies(engine.store)
    with suppress(DamagedError):
        if not shared:
            _finish_erasures(engine)


def _shared_log(request: OpenRequest) -> SharedLog | None:
    """Return the log that machines share, if the request or its settings name one and the ledger is opened for writing.

    Raises:
        RejectedError: A log is named without a tenant, or a tenant, a machine or an address to listen at without a log.
    """
    settings = request.settings
    log, tenant, machine, listen_url = request.log, request.tenant, request.machine, request.log_listen_url
    if settings is not None:
        log = settings.log_url if log is None else log
        tenant = settings.log_tenant if tenant is None else tenant
        machine = settings.log_machine if machine is None else machine
        listen_url = settings.log_listen_url if listen_url is None else listen_url
    if log is None:
        if tenant is not None or machine is not None or listen_url:
            raise RejectedError(
                "a tenant, a machine or an address to listen at was named without a log: give log=… too, or leave them out",
                rule="shared",
            )
        return None
    if request.readonly:
        return None
    if not isinstance(log, str):
        return log
    from ledger.shared import sharing

    return sharing.connect(
        log, tenant, machine, listen_url or "", settings.log_timeout if settings is not None else None
    )


def _models(model: object, summarizer: object, settings: Settings | None) -> tuple[Any, Any]:
    """Return the given model and summarizer, or those of the settings; model code is loaded only if needed."""
    if (
        model is None
        and summarizer is None
        and (settings is None or (settings.model is None and settings.model_command is None))
    ):
        return None, None
    from ledger.models.models import chosen

    return chosen(model, summarizer, settings)


def _scanners(objects: object) -> tuple[Scanner, ...]:
    """Return the scanners that a caller plugs in, checked; the guards are loaded only if there are any."""
    if objects == ():
        return ()
    from ledger.domain.scan.scanner import as_scanners

    return as_scanners(objects)


def _embedder(embedder: EmbedderLike | None, settings: Settings | None) -> Embedder | None:
    if embedder is None:
        return None
    from ledger.vectors.embedders import as_embedder, prefixes_of

    return as_embedder(embedder, prefixes_of(settings))


def import_log(
    source: str | os.PathLike[str], path: str | os.PathLike[str], *, progress: Progress | None = None
) -> None:
    """Make the ledger of an export at a free path: the same id, rows, digests and head; all or nothing.

    The new ledger is opened once, which folds its projections.
    """
    from ledger.care import transfer

    transfer.import_log(source, path, progress=progress)
    # A log that this version cannot open stays as it was imported, for a version that can.
    with suppress(NewerFormatError, UnknownEventError, DamagedError):
        open_engine(path).close()


def _fit_projections(engine: Engine) -> None:
    """Rebuild the tables that are not those of this version; if the file cannot be written, fold private tables instead."""
    rebuilt = 0
    while not _projections_fit(engine):
        if engine.store.readonly:
            from ledger.care import care

            care.fold_privately(engine)
            return
        if rebuilt == REBUILDS:
            _check_versions(engine)
            raise StorageError(
                f"the projections do not fit their log after {REBUILDS} rebuilds, so the file is damaged"
            )
        with suppress(RebuildUnderWay):  # a lease ends by itself if nobody renews it
            from ledger.care import rebuilding

            rebuilding.rebuild(engine, digest=False)
            rebuilt += 1
            continue
        time.sleep(0.05)
    _fit_views(engine)


def _fit_views(engine: Engine) -> None:
    """Make the views that are missing or of another version.

    If the file takes no write now, the next open makes them.
    """
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


def _checked_own(projections: Iterable[Projection | type[Projection]]) -> dict[str, Definition]:
    own = definitions(projections) if projections != () else {}
    if taken := own.keys() & {*names()}:
        raise RejectedError(f"the ledger has a projection {min(taken)!r} already: give yours another name")
    return own


def _fit_own(engine: Engine, definitions: Mapping[str, Definition]) -> None:
    """Make the tables of a user's own projections and catch them up, if the file can be written."""
    own = engine.own = Own(engine.store, definitions)
    if not engine.store.readonly:
        engine.writer.tables.own = own
        own.bring_up()
        own.catch_up()


def _check_versions(engine: Engine) -> None:
    """Raise ConflictError if another process gave the tables another version again."""
    with engine.store.snapshot() as connection:
        try:
            check_tables(connection, engine.secret)
        except ConflictError as error:
            raise ConflictError(
                "another version of the product has this ledger open and keeps changing its projections: use one version"
                " for all processes, or open it here with readonly=True"
            ) from error


def _finish_erasures(engine: Engine) -> None:
    """Purge the erasures that a crash left pending; the code is loaded only if there are any."""
    with (
        suppress(sqlite3.OperationalError),  # without the table no erasure can be pending
        engine.store.snapshot() as connection,
    ):
        if not erasures.pending(connection):
            return
    from ledger.erasure import completing

    completing.purge_what_a_crash_left(engine)


def _projections_fit(engine: Engine) -> bool:
    """Return True if the tables of the projections fit, after a check of the format that the log needs.

    The last upgrade is read from the audit trail, or from the whole log if the trail does not fit (0.3 s a million
    events).
    """
    with engine.store.snapshot() as connection:
        suspended = tables_fit(connection, engine.secret, engine.created.ledger_id)
        last = connection.execute("SELECT max(position) FROM events").fetchone()[0]
        position = _last_upgrade(connection, by_trail=suspended is not None and "audit" not in suspended)
        check_upgrade(connection, position, readonly=engine.store.readonly)
    engine.checked_to = last
    return suspended is not None


def _check_arguments(settings: object, **functions: object) -> None:
    if settings is not None:
        from ledger.core.settings import Settings

        if not isinstance(settings, Settings):
            raise RejectedError(f"settings must be a Settings from Settings.load(), not a {type(settings).__name__}")
    for name, function in functions.items():
        if not callable(function):
            raise RejectedError(f"{name} must be a function, not {function!r:.40}")


def _default(request: OpenRequest) -> Who:
    """Return who calls by default, from the request or else from its settings."""
    settings, user = request.settings, request.user
    texts = {"actor": request.actor, "client": request.client, "agent": request.agent}
    names: dict[str, Any] = {
        name: getattr(settings, name) if settings and value == "" else value for name, value in texts.items()
    }
    names["user"] = user if user is not None else settings.user if settings else ""
    for name, value in names.items():
        check_name(name, value)
    one_of("channel", request.channel, CHANNELS)
    names_user = user is not None or (settings is not None and settings.names_user)
    return Who(channel=request.channel, names_user=names_user, **names)


def _created(store: EventStore) -> LedgerCreated | None:
    """Return the first event, after a check that the end of the log is there and that this product knows the format."""
    with store.snapshot() as connection:
        event = _first(connection, store.path)
        if event is None or not store.readonly:
            check_end(connection)
        if event is None:
            return None
        check_format(event.data.least_reader, event.data.least_writer, readonly=store.readonly)
        return with_present_id(connection, event.data)


def created_by(connection: sqlite3.Connection, path: str) -> LedgerCreated:
    """Return the first event of a ledger that is only read.

    Raises:
        RejectedError: The file holds no events, or is no ledger.
    """
    event = _first(connection, path)
    if event is None:
        raise RejectedError(f"{path} holds no events yet, so there is nothing to read", rule="readonly")
    check_format(event.data.least_reader, event.data.least_writer, readonly=True)
    return with_present_id(connection, event.data)


def _first(connection: sqlite3.Connection, path: str) -> AnyEvent | None:
    check_owner(connection, path)
    event = read_event(connection, 1)
    if event is not None and not isinstance(event.data, LedgerCreated):
        raise LedgerError("the first event of this file is not LedgerCreated, so it is no ledger of this product")
    return event


def check_owner(connection: sqlite3.Connection, path: str) -> None:
    """Raise RejectedError if an application of the eventsourcing library keeps its events or snapshots in the file."""
    if what := held_by_another(connection):
        raise RejectedError(f"{path} has {what}; name the ledger's own file (--db on the command line)", rule="foreign")


def held_by_another(connection: sqlite3.Connection) -> str:
    """Return the part of a file that belongs to an application of the eventsourcing library, or ""."""
    first = connection.execute("SELECT CAST(type AS TEXT) FROM main.events WHERE position = 1").fetchone()
    owner_words = "an application of the eventsourcing library"
    if first is not None and registry.is_foreign(first[0]):
        return f"the log of {owner_words}, whose first event is a {first[0]:.60}, and is no ledger"
    theirs = [name for name in ("stored_snapshots", "tracking") if exists(connection, name)] if first is None else []
    return f"the table {theirs[0]} of {owner_words}, so no ledger can begin there" if theirs else ""


def _last_upgrade(connection: sqlite3.Connection, *, by_trail: bool) -> int | None:
    """Return the position of the last LedgerUpgraded event, from the log itself if the trail cannot be read."""
    if by_trail:
        with suppress(sqlite3.DatabaseError):
            return audit.last_upgrade(connection)
    return last_upgrade(connection)


def _write_first_event(store: EventStore, default: Who, clock: Clock, random: Random) -> LedgerCreated:
    """Write the first event, unless another process or machine has written it already."""
    if store.readonly:
        raise LedgerError(f"{store.path} holds no events yet, so there is nothing to read")
    try:
        return _first_event(store, default, clock, random, hopes=True)
    except OutdatedError:
        return _first_event(store, default, clock, random, hopes=False)


def _first_event(store: EventStore, default: Who, clock: Clock, random: Random, *, hopes: bool) -> LedgerCreated:
    from ledger.core.command import Writer

    created = LedgerCreated(random(16).hex(), FORMAT, READER, WRITER, random(32).hex())
    with store.command(hopes=hopes) as transaction:
        if transaction.position:
            return _created(store) or created
        secret = bytes.fromhex(created.secret)
        if not exists(transaction.connection, "checkpoint"):  # only the log was made here
            create_tables(transaction.connection)
        write_checkpoints(transaction.connection, created.ledger_id, 0, GENESIS)
        writer = Writer(store, secret, created.ledger_id, clock, random)

        def body(work: Work) -> str:
            work.emit(LEDGER_STREAM, created)
            return LEDGER_STREAM

        writer.run("open", Who(actor=default.actor, client=default.client), body)
    return created
