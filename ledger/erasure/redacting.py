"""The removal of erased texts from the rows of the log and from the tables, in the transaction of the erasure."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ledger.core.engine import Engine
from ledger.core.own import empty_all
from ledger.core.reads import FoldReading, read_event, read_stream
from ledger.domain.errors import ConflictError
from ledger.erasure import rules as erasure
from ledger.erasure.rows import ErasureRows
from ledger.events import LEDGER_STREAM, AnyEvent, ContentErased, OriginDistrusted, Redaction
from ledger.log import lease
from ledger.log.event_store import Transaction
from projections.core import refolding
from projections.core.rows import Connection
from projections.search import vectors

LEASE_SECONDS = 600.0


def redact(engine: Engine, transaction: Transaction, events: Iterable[AnyEvent]) -> None:
    """Remove the texts that these erasures name from the rows of the log and from the tables.

    The rows of the tables that depend on an erased event are folded twice, with the texts and without them, and each
    row that differs is replaced.
    """
    erased = [event for event in events if isinstance(event.data, ContentErased)]
    targets = {target.position: (event.position, target) for event in erased for target in event.data.targets}
    writer, connection = engine.writer, transaction.connection
    blob = FoldReading(lambda: connection).blob
    before = refolding.Fold(writer.secret, _concerned(connection, targets), writer.projector.suspended, blob)
    for position, (act, target) in targets.items():
        _redact_row(transaction, position, act, target)
    for event in erased:
        for blob_id in event.data.blobs:
            transaction.erase_blob(blob_id, event.position)
    after = refolding.Fold(writer.secret, _concerned(connection, targets), writer.projector.suspended, blob)
    refolding.replace(connection, writer.rows, before, after)
    writer.rows.flush()
    gone = vectors.purge(connection, before.rows, after.rows, writer.projector.suspended)
    engine.erased_vectors |= dict.fromkeys(gone)
    refolding.empty(connection, writer.projector.suspended)
    if writer.tables.own is not None:
        writer.tables.own.erased(connection, transaction.position)
    else:
        empty_all(connection, transaction.position)
    writer.projector.forget()
    writer.forget_names()
    # A rebuild under way has folded the texts into its new tables. It must end, and the purge drops its tables.
    connection.execute("DELETE FROM leases WHERE work = 'rebuild'")
    lease.hold(connection, "erase", f"{os.getpid()}-erase", LEASE_SECONDS)


def carry_out(engine: Engine, transaction: Transaction, event: AnyEvent) -> None:
    """Remove the texts that an erasure of another machine names from this file, and keep them for a search of its files.

    A row that arrived after the erasure never brought its text here.
    """
    sql = "SELECT coalesce(erased_by, 0) FROM events WHERE position = ?"
    connection = transaction.connection
    targets = [
        target
        for target in event.data.targets
        if connection.execute(sql, (target.position,)).fetchone()[0] < event.position
    ]
    texts = engine.unsearched.setdefault(event.envelope.command_id, [])
    texts += [text for text in ErasureRows(connection).texts_gone(targets) if text not in texts]
    redact(engine, transaction, [event])


def _redact_row(transaction: Transaction, position: int, erased_at: int, target: Redaction) -> None:
    sql = "SELECT type, state, erased_by FROM events WHERE position = ?"
    type_, state, erased_by = transaction.connection.execute(sql, (position,)).fetchone()
    if erased_by is not None and erased_by >= erased_at:
        return  # the row arrived from the shared log after this erasure, without its text
    after = erasure.redacted(type_, state, target.fields, target.spans)
    if (erasure.digest(state), erasure.digest(after)) != (target.before, target.after):
        raise ConflictError(
            f"position {position} was erased by another command meanwhile; nothing was erased, try again"
        )
    transaction.redact(position, after, erased_at)


def _concerned(connection: Connection, positions: Iterable[int]) -> list[AnyEvent]:
    """Return the events that decide the table rows of the events at these positions.

    These are all events of the same streams, and the acts that made any of those events void or restored it.
    """
    concerned: dict[int, AnyEvent] = {}
    for position in positions:
        if position not in concerned:
            event = read_event(connection, position)
            assert event is not None
            events = read_stream(connection, event.stream, 2**62) if event.stream != LEDGER_STREAM else [event]
            concerned |= {member.position: member for member in events}
    acts = refolding.acts_on(connection, concerned)
    for event in list(concerned.values()):
        if isinstance(event.data, OriginDistrusted):
            acts |= refolding.ends_of_distrust(connection, event.envelope.command_id)
    for position in acts:
        event = read_event(connection, position)
        assert event is not None
        concerned.setdefault(position, event)
    return list(concerned.values())
