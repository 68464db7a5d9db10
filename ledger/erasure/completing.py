"""After the rows: the files are purged and searched, and only then an erasure is completed; what each one is reported as."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection

from msgspec.structs import replace

from ledger import answers
from ledger.domain.errors import DamagedError, LedgerError
from ledger.domain.events import LEDGER_STREAM, ContentErased, ErasureCompleted, Redaction
from ledger.engine.engine import Engine
from ledger.engine.log_reading import read_event
from ledger.engine.who import Who
from ledger.engine.work import Work
from ledger.erasure import certificates, remaining
from ledger.erasure.purging import Purge, Purging
from ledger.erasure.rows import Row
from ledger.store import lease
from projections.core import own_registry as registry
from projections.core.projector import ESSENTIAL
from projections.core.rows import Connection
from projections.views import audit, erasures

_log = logging.getLogger(__name__)


def finish_erasures(engine: Engine) -> list[answers.ErasureReport]:
    """Tries again to purge and search what is pending, and says how each stands."""
    with engine.reading() as connection:
        acts = [each.act for each in erasures.pending(connection)]
    found = []
    for act in acts:
        with engine.reading() as connection:
            report = remembered(engine, connection, act)
        found.append(finished(engine, report, act))
    return found


def reports(engine: Engine, *, before: int | None = None, limit: int = -1) -> list[answers.ErasureReport]:
    """Every erasure of this ledger, newest first, with its certificate; the users' names are in none."""
    with engine.reading() as connection:
        return [remembered(engine, connection, each.act) for each in erasures.newest(connection, before, limit)]


def all_certificates(engine: Engine) -> list[str]:
    """The certificates of all erasures, oldest first; they are kept apart from the backups, and ``recover`` takes them."""
    return [each.certificate for each in reports(engine)[::-1] if each.certificate is not None]


def finished(
    engine: Engine, report: answers.ErasureReport, act: str, names: Collection[Row] = (), kept: Collection[int] = ()
) -> answers.ErasureReport:
    """Purges and searches; ``names`` and ``kept`` are what the plan leaves."""
    texts, raw = engine.unsearched.get(act), list(engine.erased_vectors)
    try:
        purge = Purging(engine.store, engine.writer, engine.created.ledger_id).run(texts, raw)
    except LedgerError as error:  # the texts are gone from the log; that their remains are left is no refusal
        purge = Purge(str(error))
    if purge.why:
        _log.warning("the erasure %s is pending: what it erased may still lie in the files", act)
    else:
        for each in raw:
            engine.erased_vectors.pop(each, None)
        _complete(engine, act, purge)
    with engine.reading() as connection:
        known = remembered(engine, connection, act)
        begun = read_event(connection, known.position)
        owner = begun.envelope.user if begun is not None else None
        named = [remaining.name(row) for row in names]
        if report.kind == "user":
            acts = (each.position for each in audit.of_command(connection, act))
            named += remaining.people(connection, frozenset(texts or ()), (1, *acts))
        stays, total = remaining.listed(connection, purge.held, named, owner, kept)
        own = tuple(registry.entries(connection))
    return replace(
        report,
        state=known.state,
        why=purge.why,
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


def _complete(engine: Engine, act: str, purge: Purge) -> None:
    def body(work: Work) -> str:
        connection = work.connection()
        begun = next((each for each in erasures.pending(connection) if each.act == act), None)
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
    """Erasures whose remains were not purged are completed, unless the projection that has them is suspended."""
    with engine.store.snapshot() as connection:
        if _is_suspended(connection):
            return
        waiting = erasures.pending(connection)
        if not waiting or _under_way(connection):
            return
    purging = Purging(engine.store, engine.writer, engine.created.ledger_id)
    if not purging.run(None).why:
        for each in waiting:
            _complete(engine, each.act, Purge(""))


def remembered(engine: Engine, connection: Connection, act: str) -> answers.ErasureReport:
    """What the log says of an erasure."""
    issued = certificates.issue(connection, engine.created.ledger_id, engine.writer.mac, act)
    certificate = certificates.read(issued, engine.created.ledger_id, engine.writer.mac)
    if (entry := erasures.of(connection, act)) is None or not certificate.events:
        raise DamagedError(erasures.ERASURES.name, act, "it names no erasure of the log")
    done = read_event(connection, entry.completed_at) if entry.completed_at is not None else None
    if done is not None and not isinstance(done.data, ErasureCompleted):
        raise DamagedError(erasures.ERASURES.name, act, "the event that it names completes no erasure")
    first: ContentErased = certificate.events[0].data
    listed = tuple(_erased(connection, target) for event in certificate.events for target in event.data.targets)
    why = "" if done is not None else "what was erased may still lie in the files; erasures.finish() tries again"
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
    """Whether a projection is suspended by which it is decided what is left to do."""
    needed = (*ESSENTIAL, "erasures")
    found = connection.execute("SELECT name FROM projections WHERE suspended_at IS NOT NULL").fetchall()
    return any(name in needed for (name,) in found)


def _under_way(connection: Connection) -> bool:
    """Whether the process that erased is still at it."""
    holder = lease.holder_of(connection, "erase")
    return holder is not None and not holder.startswith(f"{os.getpid()}-")
