"""The numbers of a file, the rebuild of its projections, and private projections for a file that cannot be written."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable

from ledger.care import answers
from ledger.core.call import Who
from ledger.core.engine import Engine, ReadingEngine
from ledger.core.reads import FoldReading, fold_new_events
from ledger.core.steps import Stopping
from ledger.core.work import Work
from ledger.domain.errors import ConflictError, RejectedError
from ledger.events import FORMAT, LEDGER_STREAM, ProjectionsRebuilt, ProjectionSuspended
from ledger.log.event_store import Transaction
from ledger.log.reading import read_tip
from projections.core import projector
from projections.core.projector import Projector, resumed
from projections.core.rebuild import Rebuild, RebuildStopped
from projections.search import vectors
from projections.views import documents, interactions, memories, observations, projects, sessions, values

Progress = Callable[[int, int], None]
_log = logging.getLogger(__name__)


def users(engine: Engine, limit: int, after: str | None) -> list[str]:
    """Return the users that have events, by name."""
    where = "user IS NOT NULL" if after is None else "user > ?"
    sql = f"SELECT DISTINCT user FROM audit WHERE {where} ORDER BY user LIMIT ?"
    with engine.reading() as connection:
        return [user for (user,) in connection.execute(sql, (*(() if after is None else (after,)), limit))]


def stats(engine: ReadingEngine, user: str) -> answers.Stats:
    """Return counts, sizes in bytes, and the position of each projection."""
    with engine.reading(stale=True) as connection:
        pending = {
            work: len(interactions.pending(connection, work, limit=10_000)) for work in ("reinforcement", "extraction")
        }
        pending["review"] = memories.waiting(connection)
        columns = answers.ProjectionStatus.__struct_fields__
        sql = (
            "SELECT p.name, p.version, coalesce(p.suspended_at - 1, c.position), p.suspended_at, p.error"
            " FROM projections p, checkpoint c WHERE c.id = 1 ORDER BY p.name"
        )
        statuses = [answers.ProjectionStatus(**dict(zip(columns, row, strict=True))) for row in connection.execute(sql)]
        counts, turns = memories.counts(connection, user), interactions.count(connection, user)
        known_projects, document_counts = len(projects.listing(connection, user)), documents.counts(connection, user)
        vector_counts, value_counts = vectors.counts(connection), values.counts(connection, user)
        session_counts, observation_counts = sessions.counts(connection, user), observations.counts(connection, user)
        position, head = read_tip(connection.cursor())
    return answers.Stats(
        ledger_id=engine.created.ledger_id,
        position=position,
        head=head.hex(),
        format=FORMAT,
        memories=counts,
        interactions=turns,
        projects=known_projects,
        documents=document_counts,
        observations=observation_counts,
        sessions=session_counts[0],
        messages=session_counts[1],
        summaries=session_counts[2],
        pending=pending,
        projections=tuple(statuses),
        size_bytes=_size(engine.path),
        wal_bytes=_size(engine.path + "-wal"),
        sqlite_version=sqlite3.sqlite_version,
        vectors=vector_counts,
        values=value_counts,
    )


def fold_again(
    engine: Engine,
    name: str | None = None,
    *,
    digest: bool = True,
    progress: Progress | None = None,
    asker: Who | None = None,
    stopping: Stopping | None = None,
) -> answers.RebuildReport:
    """Fold every projection again from the log, next to the live tables, and switch; others go on meanwhile.

    A suspended projection that folds now is resumed, and a projection that does not fold is suspended.

    Args:
        engine: The engine of the ledger.
        name: The projection to switch, with those that read its rows; None for all.
        digest: False leaves out the digest of all rows.
        progress: Called with (events folded, events in the log).
        asker: Who asked for the rebuild, which is then recorded. A rebuild by the ledger itself, on opening, is not.
        stopping: The condition that ends the rebuild before the switch; the tables then stay as they were.

    Raises:
        ConflictError: Another rebuild runs, or a batch is open.
        RejectedError: No projection has the name.
    """
    if engine.writer.batching:
        raise ConflictError("maintenance.rebuild() cannot run inside a batch; leave the batch first")
    if name is not None and name not in projector.names():
        known = sorted({*projector.names(), *(engine.own.definitions if engine.own is not None else ())})
        raise RejectedError(f"no projection {name!r:.60}; the projections are: {', '.join(known)}")
    started = time.monotonic()
    with engine.store.snapshot() as connection:
        projector.check_end(connection)
    suspended_before = suspended_names(engine)
    only = projector.read_by(name) if name is not None else frozenset[str]()
    stopping, ledger_id = stopping or Stopping(), engine.created.ledger_id
    work = Rebuild(engine.store, engine.secret, ledger_id, FoldReading, progress, only, lambda: stopping.why)
    try:
        events, digest_of_rows = work.run(
            lambda transaction, fold: _record_switch(engine, transaction, fold, work.names, suspended_before, asker),
            digest=digest,
        )
    except RebuildStopped as ended:
        seconds, still_suspended = time.monotonic() - started, tuple(sorted(suspended_before))
        return answers.RebuildReport(
            events=ended.events, seconds=seconds, digest="", suspended=still_suspended, stopped=stopping.why
        )
    suspended, names = tuple(sorted(suspended_names(engine))), tuple(sorted(work.names))
    seconds = time.monotonic() - started
    _log.info("rebuilt from %d events in %.1f s; suspended: %s", events, seconds, ", ".join(suspended) or "none")
    return answers.RebuildReport(
        events=events, seconds=seconds, digest=digest_of_rows, suspended=suspended, projections=names
    )


def suspended_names(engine: Engine) -> set[str]:
    with engine.store.snapshot() as connection:
        try:
            rows = connection.execute("SELECT name FROM projections WHERE suspended_at IS NOT NULL").fetchall()
        except sqlite3.OperationalError:
            return set()
    return {name for (name,) in rows}


def _record_switch(
    engine: Engine,
    transaction: Transaction,
    fold: Projector,
    names: frozenset[str],
    suspended_before: set[str],
    asker: Who | None,
) -> None:
    """Record a rebuild in the transaction that switches the tables: who asked, and the suspended and resumed projections."""
    writer, upto = engine.writer, int(transaction.position)
    transaction.outdate()  # the tables were replaced
    writer.attend(transaction)
    if engine.is_of_shared_log:
        return  # the tables are this machine's own, and the log belongs to all machines
    work = Work(writer, transaction, "maintenance.rebuild", Who(actor="ledger"), writer.now())
    for name in sorted((suspended_before & names) - fold.suspended):
        work.emit(LEDGER_STREAM, resumed(name))
    for name, at, error in fold.poisoned:
        if name in names - suspended_before:
            work.emit(LEDGER_STREAM, ProjectionSuspended(name, at, error))
    if work.emitted:
        writer.append(work)
    if asker is not None:
        work = Work(writer, transaction, "maintenance.rebuild", asker, writer.now())
        work.emit(LEDGER_STREAM, ProjectionsRebuilt(upto, () if len(names) == len(fold.all) else tuple(sorted(names))))
        writer.append(work)


def fold_privately(engine: Engine) -> None:
    """Fold the projections of a read-only file into tables of this process alone, which follow the log."""
    secret, ledger_id = engine.secret, engine.created.ledger_id
    engine.store.fold_privately(lambda connection: fold_new_events(connection, secret, ledger_id))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
