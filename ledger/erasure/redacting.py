"""The rows of the log lose the texts that an erasure names, and the tables with them, in the transaction that records it."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ledger.domain import erasure
from ledger.domain.errors import ConflictError
from ledger.domain.events import LEDGER_STREAM, AnyEvent, ContentErased, OriginDistrusted, Redaction
from ledger.engine.engine import Engine
from ledger.engine.log_reading import Reading, read_event, read_stream
from ledger.engine.own import empty_all
from ledger.store import lease
from ledger.store.event_store import Transaction
from projections.core import refolding
from projections.core.rows import Connection
from projections.search import vectors

LEASE_SECONDS = 600.0


def redact(engine: Engine, transaction: Transaction, events: Iterable[AnyEvent]) -> None:
    """The rows lose what the events say they lose, and the tables say what the log says now; all in one transaction."""
    erased = [event for event in events if isinstance(event.data, ContentErased)]
    by = {target.position: (event.position, target) for event in erased for target in event.data.targets}
    writer, connection = engine.writer, transaction.connection
    blob = Reading(lambda: connection).blob
    before = refolding.Fold(writer.secret, _concerned(connection, by), writer.projector.suspended, blob)
    for position, (at, target) in by.items():
        _redact_row(transaction, position, at, target)
    for event in erased:
        for each in event.data.blobs:
            transaction.erase_blob(each, event.position)
    after = refolding.Fold(writer.secret, _concerned(connection, by), writer.projector.suspended, blob)
    refolding.replace(connection, writer.rows, before, after)
    writer.rows.flush()
    gone = vectors.purge(connection, before.rows, after.rows, writer.projector.suspended)
    engine.erased_vectors |= dict.fromkeys(gone)
    refolding.empty(connection, writer.secret, writer.projector.suspended)
    if writer.tables.own is not None:
        writer.tables.own.erased(connection, transaction.position)
    else:
        empty_all(connection, transaction.position)
    writer.projector.forget()
    writer.forget_names()
    # A rebuild under way has folded the texts into tables of its own: it ends, and they are dropped.
    connection.execute("DELETE FROM leases WHERE work = 'rebuild'")
    lease.hold(connection, "erase", f"{os.getpid()}-erase", LEASE_SECONDS)


def _redact_row(transaction: Transaction, position: int, at: int, target: Redaction) -> None:
    sql = "SELECT type, state FROM events WHERE position = ?"
    type_, state = transaction.connection.execute(sql, (position,)).fetchone()
    after = erasure.redacted(type_, state, target.fields, target.spans)
    if (erasure.digest(state), erasure.digest(after)) != (target.before, target.after):
        raise ConflictError(f"position {position} was erased by somebody else meanwhile; nothing was erased, try again")
    transaction.redact(position, after, at)


def _concerned(connection: Connection, positions: Iterable[int]) -> list[AnyEvent]:
    """Whatever the rows of these events follow from: their streams, and the acts that made any of it void and back."""
    found: dict[int, AnyEvent] = {}
    for position in positions:
        if position not in found:
            event = read_event(connection, position)
            assert event is not None
            events = read_stream(connection, event.stream, 2**62) if event.stream != LEDGER_STREAM else [event]
            found |= {each.position: each for each in events}
    acts = refolding.acts_on(connection, found)
    for event in list(found.values()):
        if isinstance(event.data, OriginDistrusted):
            acts |= refolding.ends_of_distrust(connection, event.envelope.command_id)
    for position in acts:
        event = read_event(connection, position)
        assert event is not None
        found.setdefault(position, event)
    return list(found.values())
