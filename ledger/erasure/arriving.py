"""An erasure that another machine decided, carried out in this machine's file when its event arrives."""

from __future__ import annotations

from ledger.core.engine import Engine
from ledger.erasure.redacting import redact
from ledger.erasure.rows import ErasureRows
from ledger.events import AnyEvent
from ledger.log.event_store import Transaction


def carry_out(engine: Engine, transaction: Transaction, event: AnyEvent) -> None:
    """Remove the texts that an erasure names from this file, and keep them in memory for the search of this machine's files.

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
