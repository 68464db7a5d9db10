"""The rebuild of projections from the log, which also repairs damaged tables and pages; a damaged log is never touched.

If damaged pages prevent even the drop of the old tables, a fresh file is made from the verified log and copied over
this file through SQLite, in one transaction.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress

from msgspec.structs import replace

from ledger.care import answers, care
from ledger.care.care import Progress
from ledger.care.copying import check_log, copy_log
from ledger.care.fitting import code_of, is_of_damage
from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.steps import Stopping
from ledger.core.work import Work
from ledger.domain.errors import ConflictError, DamagedError, LedgerError, RejectedError, StorageError
from ledger.events import LEDGER_STREAM, ProjectionsRebuilt
from ledger.log.event_store import EventStore
from ledger.log.lease import in_the_making
from ledger.log.sqlite_files import typed
from ledger.proof import digests
from ledger.proof.schema_check import has_changed
from projections.core import own_registry as registry
from projections.core import projector, sql_views
from projections.core.sqlite import integrity_problems

ROUNDS = 5  # the most attempts to copy the log, while others go on writing
WAIT_SECONDS = 30.0  # the longest wait for the writer's lock


def damages(error: BaseException | None) -> bool:
    """Return True if an error comes from a damaged page or a damaged row of a projection.

    The causes of the error are searched too, because SQLite's own error is one of them.
    """
    while error is not None:
        if isinstance(error, DamagedError):
            return error.table != "events"
        if code_of(error) == sqlite3.SQLITE_CORRUPT:
            return True
        error = error.__cause__
    return False


def rebuild(
    engine: Engine,
    name: str | None = None,
    *,
    digest: bool = True,
    progress: Progress | None = None,
    asker: Who | None = None,
    stopping: Stopping | None = None,
) -> answers.RebuildReport:
    """Fold every projection again from the log, next to the live tables, and switch; others go on meanwhile.

    A suspended projection that folds now is resumed, and a projection that does not fold is suspended. If damaged pages
    prevent the rebuild or remain, the whole file is made again from its log.

    Args:
        engine: The engine of the ledger.
        name: The projection to switch, with those that read its rows; None for all.
        digest: False leaves out the digest of all rows.
        progress: Called with (events folded, events in the log).
        asker: Who asked for the rebuild; None for the ledger itself.
        stopping: The condition that ends the rebuild before the switch; nothing has changed then. The making of a whole
            file is not stopped.

    Raises:
        ConflictError: Another rebuild runs, or a batch is open.
        StorageError: The log is damaged.
    """
    started, recorded = time.monotonic(), asker is None
    own = engine.own.definitions if engine.own is not None else {}
    if isinstance(name, str) and (name in own or _is_own(engine, name)):
        return _rebuild_own(engine, [name], answers.RebuildReport(events=0, seconds=0, digest=""), stopping)
    report = _rebuild_built_in(engine, name, digest, started, recorded, progress, asker, stopping)
    return report if name is not None or report.stopped or not own else _rebuild_own(engine, [*own], report, stopping)


def _is_own(engine: Engine, name: str) -> bool:
    with engine.store.snapshot() as connection:
        return name in registry.entries(connection)


def _rebuild_own(
    engine: Engine, names: Sequence[str], report: answers.RebuildReport, stopping: Stopping | None
) -> answers.RebuildReport:
    """Empty the projections of a user's own and fold them again, which no event records."""
    started, own, stopping = time.monotonic(), engine.own, stopping or Stopping()
    if engine.writer.batching:
        raise ConflictError("maintenance.rebuild() cannot run inside a batch; leave the batch first")
    if own is None or not own.definitions.keys() >= set(names):
        raise RejectedError(
            f"the class of the projection {names[0]!r} was not given: only a program that gives it to Ledger.open can rebuild it"
        )
    for name in names:
        own.rebuild(name, lambda: bool(stopping.why))
    with engine.store.snapshot() as connection:
        registered = registry.entries(connection)
    suspended = [name for name in names if registered[name].suspended_at is not None]
    return replace(
        report,
        events=report.events or engine.store.head()[0],
        seconds=report.seconds + time.monotonic() - started,
        suspended=(*report.suspended, *suspended),
        projections=(*report.projections, *names),
        stopped=stopping.why,
    )


def _rebuild_built_in(
    engine: Engine,
    name: str | None,
    digest: bool,
    started: float,
    recorded: bool,
    progress: Progress | None,
    asker: Who | None,
    stopping: Stopping | None,
) -> answers.RebuildReport:
    try:
        report = care.fold_again(engine, name, digest=digest, progress=progress, asker=asker, stopping=stopping)
        recorded = True
        if report.stopped or _is_sound(engine):
            return report
    except StorageError as error:
        if not damages(error):
            raise
    check_whole_log(engine)
    unreadable = _replace(engine)
    if asker is not None and not recorded and not engine.is_of_shared_log:
        engine.writer.run("maintenance.rebuild", asker, _rebuilt)
    events, suspended = engine.store.head()[0], tuple(sorted(care.suspended_names(engine)))
    return answers.RebuildReport(
        events=events,
        seconds=time.monotonic() - started,
        digest=digests.of_rows(engine) if digest else "",
        suspended=suspended,
        projections=tuple(sorted(projector.names())),
        left_behind=tuple(unreadable),
    )


def _rebuilt(work: Work) -> str:
    work.emit(LEDGER_STREAM, ProjectionsRebuilt(work.transaction.position))
    return LEDGER_STREAM


def _is_sound(engine: Engine) -> bool:
    """Return True if every page can be read and the schema is unchanged.

    A rebuild of the tables alone does not repair the schema.
    """
    try:
        with engine.store.snapshot() as connection:
            return not any(integrity_problems(connection, 1, quick=True)) and not has_changed(connection)
    except StorageError as error:
        if isinstance(error.__cause__, sqlite3.DatabaseError) and is_of_damage(error.__cause__):
            return False
        raise


def check_whole_log(engine: Engine) -> None:
    with engine.store.snapshot() as connection:
        check_log(connection)


# --- a whole file ------------------------------------------------------------------------------------------------


def _replace(engine: Engine) -> list[str]:
    """Make every page of this file again from its own log, and return the names of tables that could not be read.

    Other processes keep the file open. Tables that people added are copied too.
    """
    with in_the_making(engine.store.path, "a repaired copy", put=False) as part:
        for _ in range(ROUNDS):
            with closing(EventStore.open(part)) as fresh, engine.store.snapshot() as connection:
                copied = copy_log(connection, fresh)
            with closing(_engine_of(engine, part)) as made:
                care.fold_again(made, digest=False)
                if engine.is_of_shared_log:
                    _mark_replica(engine, made)
            if (unreadable := _copy_over(engine, part, copied)) is not None:
                with suppress(LedgerError):
                    engine.store.checkpoint()
                return unreadable
    raise StorageError(
        f"the projections are damaged, and other processes wrote during each of {ROUNDS} attempts to make the file again"
    )


def _engine_of(engine: Engine, part: str) -> Engine:
    made = Engine(EventStore.open(part), engine.created, engine.default, engine.clock, engine.random)
    made.is_of_shared_log = engine.is_of_shared_log
    return made


def _mark_replica(engine: Engine, made: Engine) -> None:
    from ledger.log.shared.port import copy_replica_row

    with engine.store.snapshot() as connection, made.store.transact() as transaction:
        copy_replica_row(connection, transaction.connection)


def _copy_over(engine: Engine, part: str, copied: int) -> list[str] | None:
    """Copy a file over this one in one transaction, and return the names of tables that could not be read.

    Tables that people added are copied into the new file before. None means that the log grew after the new file was
    made.
    """
    deadline, positions = time.monotonic() + WAIT_SECONDS, list[int]()

    def guard(status: int, remaining: int, total: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            if time.monotonic() > deadline:
                raise ConflictError("another process kept the ledger locked for longer than the timeout")
        elif not positions:  # the writer's lock is held from the first step to the last
            positions.append(engine.store.head()[0])
            if positions[0] != copied:
                raise _WentOn

    with engine.store.lent() as live, closing(sqlite3.connect(part, isolation_level=None)) as fresh:
        pages = fresh.execute("PRAGMA page_count").fetchone()[0]
        unreadable = sql_views.copy_by_hand(live, fresh)
        try:
            fresh.backup(live, pages=max(1, pages // 8), progress=guard, sleep=0.02)
        except _WentOn:
            return None
        except sqlite3.Error as error:
            raise typed(error) from error
    return unreadable


class _WentOn(Exception):
    """The signal that another process committed after the copy was made."""
