"""A ledger made of the log up to a position: what a moment of the past is compared with."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from datetime import datetime

import probe
from places import QUICK

from ledger import Ledger
from ledger.log.event_store import EventStore
from projections.core import as_of
from projections.core.rows import CURRENT, Table


@contextmanager
def prefix(ledger, position, time):
    """Open a new ledger made of another ledger's log up to a position, with a clock that stands at a time."""
    with tempfile.TemporaryDirectory(dir=QUICK) as folder:
        path = f"{folder}/prefix.db"
        store = EventStore.open(path)
        with store.transact() as transaction:
            transaction.append_rows(probe.store(ledger).rows(1, position, limit=position))
            with probe.store(ledger).snapshot() as connection:
                blobs = connection.execute("SELECT id, data, erased_by FROM blobs").fetchall()
            transaction.connection.executemany("INSERT INTO blobs VALUES (?, ?, ?)", blobs)
        store.close()
        with Ledger.open(path, clock=lambda: datetime.fromisoformat(time)) as made:
            assert made.position == position
            yield made


def tables_of(connection):
    """Return the sorted rows of every table that can be read as of the past, by the table's name."""
    found = {}
    for table in as_of.tables():
        if isinstance(table, Table) and table.then is not CURRENT:
            rows = [list(row) for row in connection.execute(f"SELECT * FROM {table.name}")]
            found[table.name] = sorted(rows, key=repr)
    return found
