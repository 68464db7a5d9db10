"""The completion of erasures: purge and search the files, record the end, and report the state of an erasure."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection

from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.reads import read_event
from ledger.core.work import Work
from ledger.domain.errors import DamagedError, LedgerError
from ledger.erasure import answers, certificates, remaining
from ledger.erasure.purging import Purge, Purging
from ledger.erasure.rows import ErasureRow
from ledger.events import LEDGER_STREAM, ContentErased, ErasureCompleted, Redaction
from ledger.log import lease
from ledger.log.shared.port import SERVER
from projections.core import own_registry as registry
from projections.core.projector import ESSENTIAL
from projections.core.rows import NEWEST, Connection, Start
from projections.views import audit, erasures

_log = logging.getLogger(__name__)


def finish_erasures(engine: Engine) -> list[answers.ErasureReport]:
    """Purge and search the files again for each pending erasure, and return the state of each."""
    with engine.reading() as connection:
        acts = [erasure.act for erasure in erasures.pending(connection)]
    reports = []
    for act in acts:
        with engine.reading() as connection:
            report = recorded_report(engine, connection, act)
        reports.append(finish(engine, report, act))
    return reports


def reports(engine: Engine, *, start: Start = NEWEST, limit: int = -1) -> list[answers.ErasureReport]:
    """Return the erasures of this ledger from ``start`` on, each with its certificate; no report holds a user's name."""
    with engine.reading() as connection:
        return [
            recorded_report(engine, connection, erasure.act) for erasure in erasures.listing(connection, start, limit)
        ]


def all_certificates(engine: Engine) -> list[str]:
    """Return the certificates of all erasures, oldest first."""
    return [report.certificate for report in reports(engine)[::-1] if report.certificate is not None]


def finish(
    engine: Engine,
    report: answers.ErasureReport,
    act: str,
    names: Collection[ErasureRow] = (),
    kept: Collection[int] = (),
) -> answers.ErasureReport:
    """Purge and search the files for an erasure that the log records, and return its report.

    Args:
        engine: The engine of the ledger.
        report: The report so far, from the plan of the erasure.
        act: The command id of the erasure.
        names: The rows that name sessions of an erased project which other projects use too; these rows stay.
        kept: The positions that the caller chose to keep.
    """
    texts, raw = engine.unsearched.get(act), list(engine.erased_vectors)
    try:
        if engine.is_of_shared_log:
            from ledger.erasure import replicas

            purge = replicas.purge_files(engine)
        else:
            purge = Purging(engine.store, engine.writer, engine.created.ledger_id).run(texts, raw)
    except LedgerError as error:
        # The log holds the texts no more, so the erasure cannot fail any more: it is pending until a purge succeeds.
        purge = Purge(str(error))
    if purge.why:
        _log.warning("the erasure %s is pending: its texts may still be in the files", act)
    elif engine.is_of_shared_log:
        purge = _recorded(engine, purge)
    else:
        for vector in raw:
            engine.erased_vectors.pop(vector, None)
        _complete(engine, act, purge)
    with engine.reading() as connection:
        known = recorded_report(engine, connection, act)
        begun = read_event(connection, known.position)
        owner = begun.envelope.user if begun is not None else None
        named = [remaining.name(row) for row in names]
        if report.kind == "user":
            acts = (entry.position for entry in audit.of_command(connection, act))
            named += remaining.people(connection, frozenset(texts or ()), (1, *acts))
        stays, total = remaining.listed(connection, purge.held, named, owner, kept)
        own = tuple(registry.entries(connection))
    return replace(
        report,
        state=known.state,
        why=purge.why or known.why,
        command_id=act,
        position=known.position,
        certificate=known.certificate,
        reason=known.reason,
        recorded_at=known.recorded_at,
        searched=purge.searched,
        bytes_searched=purge.bytes_searched,
        files=purge.files,
        hits=purge.hits,
        remaining=stays,
        remaining_total=total,
        projections=own,
        own_tables=purge.own_tables,
    )


def _recorded(engine: Engine, purge: Purge) -> Purge:
    """Record in the shared log that this machine is purged; the follower tries again if the log cannot be reached."""
    from ledger.erasure import replicas

    try:
        replicas.record(engine, purge)
    except LedgerError as error:
        return replace(purge, why=str(error))
    return purge


def _complete(engine: Engine, act: str, purge: Purge) -> None:
    def body(work: Work) -> str:
        connection = work.connection()
        begun = next((erasure for erasure in erasures.pending(connection) if erasure.act == act), None)
        if begun is not None:
            event = read_event(connection, begun.position)
            work.user = event.envelope.user if event is not None else None
            work.emit(LEDGER_STREAM, ErasureCompleted(act, purge.searched, purge.bytes_searched, purge.hits))
            connection.execute("DELETE FROM leases WHERE work = 'erase'")
        return LEDGER_STREAM

    engine.writer.run("erase", Who(actor="ledger"), body)
    engine.unsearched.pop(act, None)
    _log.info("the erasure %s is completed", act)


def purge_what_a_crash_left(engine: Engine) -> None:
    """Complete the erasures that a crash left pending.

    Nothing happens while another process erases, or while a projection is suspended from which the pending erasures
    are read.
    """
    with engine.store.snapshot() as connection:
        if _is_suspended(connection):
            return
        waiting = erasures.pending(connection)
        if not waiting or _is_under_way(connection):
            return
    purging = Purging(engine.store, engine.writer, engine.created.ledger_id)
    if not purging.run(None).why:
        for erasure in waiting:
            _complete(engine, erasure.act, Purge(""))


def recorded_report(engine: Engine, connection: Connection, act: str) -> answers.ErasureReport:
    """Return the report of an erasure as the log records it."""
    issued = certificates.issue(connection, engine.created.ledger_id, engine.writer.mac, act)
    certificate = certificates.read(issued, engine.created.ledger_id, engine.writer.mac)
    if (entry := erasures.of(connection, act)) is None or not certificate.events:
        raise DamagedError(erasures.ERASURES.name, act, "its row names no erasure of the log")
    done = read_event(connection, entry.completed_at) if entry.completed_at is not None else None
    if done is not None and not isinstance(done.data, ErasureCompleted):
        raise DamagedError(erasures.ERASURES.name, act, "the event that its row names completes no erasure")
    first: ContentErased = certificate.events[0].data
    listed = tuple(_erased(connection, target) for event in certificate.events for target in event.data.targets)
    why = "" if done is not None else _why_pending(engine, entry.position)
    return answers.ErasureReport(
        state="completed" if done is not None else "pending",
        kind=first.kind,
        subject=first.subject,
        erased=listed,
        certificate=issued,
        why=why,
        command_id=act,
        position=entry.position,
        reason=first.reason,
        recorded_at=certificate.events[0].envelope.recorded_at,
        searched=done.data.searched if done is not None else (),
        bytes_searched=done.data.bytes_searched if done is not None else 0,
        hits=done.data.hits if done is not None else 0,
    )


def _why_pending(engine: Engine, position: int) -> str:
    if engine.is_of_shared_log and engine.store.shared is not None:
        from ledger.erasure import replicas

        try:
            behind = replicas.machines_behind(engine, position)
        except LedgerError as error:
            return f"it is not known which machines have purged their files: {error}"
        if SERVER in behind:
            return (
                "the tables of the shared log may still hold erased texts until VACUUM ledger.events, ledger.blobs, which before"
                " PostgreSQL 17 their owner alone may do, and only behind the last transaction that was open at the erasure"
            )
        if behind:
            return f"the files of these machines may still hold erased texts: {', '.join(behind)}; each purges its own files"
    return "erased texts may still be in the files; erasures.finish() purges and searches again"


def _erased(connection: Connection, target: Redaction) -> answers.Erased:
    entry = audit.at(connection, target.position)
    fields = tuple(dict.fromkeys((*target.fields, *(field for field, _, _ in target.spans))))
    return answers.Erased(
        position=target.position,
        subject=entry.subject if entry is not None else "",
        type=entry.type if entry is not None else "",
        fields=fields,
        choice="cut" if target.spans and not target.fields else "erase",
    )


def _is_suspended(connection: Connection) -> bool:
    """Return True if a projection is suspended from which the pending erasures are read."""
    needed = (*ESSENTIAL, "erasures")
    suspended = connection.execute("SELECT name FROM projections WHERE suspended_at IS NOT NULL").fetchall()
    return any(name in needed for (name,) in suspended)


def _is_under_way(connection: Connection) -> bool:
    """Return True if another process holds the lease of an erasure."""
    holder = lease.holder_of(connection, "erase")
    return holder is not None and not holder.startswith(f"{os.getpid()}-")
