"""The completion of erasures while machines share the log: each machine purges its own files and reports.

An erasure is completed when every machine that follows the log has reported; whoever sees this records it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.reads import decode_where, read_event
from ledger.core.work import Work
from ledger.erasure.purging import Purge, Purging
from ledger.events import LEDGER_STREAM, ErasureCompleted
from ledger.log.shared.port import SharedLog, note_erased_through, read_replica_row
from projections.core.rows import Connection, Start
from projections.views import erasures
from projections.views.erasures import Erasure

_log = logging.getLogger(__name__)


def settle(engine: Engine) -> bool:
    """Purge this machine's files of the erasures that it has not been purged of, and record what is done by now.

    Return True if the files were purged.
    """
    with engine.store.snapshot() as connection:
        is_pending = bool(erasures.pending(connection))
        is_behind = bool(_unpurged(connection))
    purge = purge_files(engine) if is_behind else Purge("")
    if purge.why:
        _log.warning("the files of this machine may still hold erased texts: %s", purge.why)
    elif is_pending:
        record(engine, purge)
    return is_behind and not purge.why


def purge_files(engine: Engine) -> Purge:
    """Purge and search this machine's files for all erasures that they have not been purged of, and keep a note of it."""
    with engine.store.snapshot() as connection:
        waiting = _unpurged(connection)
    if not waiting:
        return Purge("")
    known = [engine.unsearched.get(erasure.act) for erasure in waiting]
    texts = [text for part in known for text in part or ()]
    raw = list(engine.erased_vectors)
    purging = Purging(engine.store, engine.writer, engine.created.ledger_id)
    purge = purging.run(dict.fromkeys(texts) if None not in known else None, raw)
    if purge.why:
        return purge
    for vector in raw:
        engine.erased_vectors.pop(vector, None)
    for erasure in waiting:
        engine.unsearched.pop(erasure.act, None)
    with engine.store.transact() as transaction:
        row = read_replica_row(transaction.connection)
        assert row is not None
        through = max(row.erased_through, *(erasure.position for erasure in waiting))
        note_erased_through(transaction.connection, through)
        transaction.connection.execute("DELETE FROM leases WHERE work = 'erase'")
    return purge


def record(engine: Engine, purge: Purge) -> None:
    """Record that this machine is purged of the pending erasures, and complete those that all machines are purged of.

    Args:
        engine: The engine of the ledger.
        purge: The last purge of this machine's files.
    """
    log = _log_of(engine)
    with engine.store.snapshot() as connection:
        row, pending, (end,) = read_replica_row(connection), erasures.pending(connection), _end(connection)
    assert row is not None
    log.report(end, row.erased_through)
    others = [replica for replica in log.replicas() if (replica.machine, replica.file) != (log.machine, log.file)]

    for erasure in pending:
        if erasure.position > row.erased_through:
            continue
        is_last = not any(replica.erased_through < erasure.position for replica in others)
        if is_last or erasure.act not in engine.purges_recorded:
            _record(engine, erasure.act, purge, log.machine, is_last)
            engine.purges_recorded.add(erasure.act)


def _record(engine: Engine, act: str, purge: Purge, machine: str, is_last: bool) -> None:
    names = [""] if is_last else []

    def body(work: Work) -> str:
        connection = work.connection()
        begun = next((erasure for erasure in erasures.pending(connection) if erasure.act == act), None)
        if begun is not None:
            event = read_event(connection, begun.position)
            work.user = event.envelope.user if event is not None else None
            if not _is_recorded(connection, begun, machine):
                names.insert(0, machine)
            for replica in names:
                done = ErasureCompleted(act, purge.searched, purge.bytes_searched, purge.hits, replica)
                work.emit(LEDGER_STREAM, done)
        return LEDGER_STREAM

    engine.writer.run("erase", Who(actor="ledger"), body)
    _log.info("the erasure %s is %s", act, "completed" if is_last else f"carried out on {machine}")


def _is_recorded(connection: Connection, erasure: Erasure, machine: str) -> bool:
    where = "e.position > ? AND +e.type = ?"
    done = decode_where(connection, where, (erasure.position, ErasureCompleted.__name__))
    return any(event.data.erasure == erasure.act and event.data.replica == machine for event in done)


def machines_behind(engine: Engine, position: int) -> Sequence[str]:
    """Return the machines whose files may still hold the texts of an erasure; each file of a machine that has several."""
    replicas = _log_of(engine).replicas()
    files = Counter(replica.machine for replica in replicas)
    return [
        replica.machine if files[replica.machine] == 1 else f"{replica.machine} (file {replica.file})"
        for replica in replicas
        if replica.erased_through < position
    ]


def _unpurged(connection: Connection) -> list[Erasure]:
    """Return the erasures, oldest first, of which this machine's files are not purged."""
    row = read_replica_row(connection)
    through = row.erased_through if row is not None else 0
    return erasures.listing(connection, Start(through, oldest_first=True))


def _log_of(engine: Engine) -> SharedLog:
    assert engine.store.shared is not None
    return engine.store.shared.log


def _end(connection: Connection) -> tuple[int]:
    return (connection.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()[0],)
