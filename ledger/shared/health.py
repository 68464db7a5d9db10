"""The doctor's look at a file that is a machine's copy of a shared log, and at the log itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from ledger.care.answers import Finding
from ledger.core.clock import now
from ledger.domain.errors import LedgerError
from ledger.domain.harmless import one_line
from ledger.log import replica_file
from ledger.log.shared.port import Replica, SharedLog

SHARED_LOG = "shared log"
AWAY_MINUTES = 10.0  # a machine that has not reported for so long is shown
LISTED = 5  # machines


def of_file(connection: sqlite3.Connection) -> Iterator[Finding]:
    """Tell the log that a machine's file follows, and the erasures of which the file is not purged."""
    row = replica_file.read(connection)
    if row is None:
        return
    sql = "SELECT count(*) FROM events WHERE type = 'ContentErased' AND position > ?"
    (waiting,) = connection.execute(sql, (row.erased_through,)).fetchone()
    name = (
        f"this file is the copy of the machine {one_line(row.machine)!r:.60} of the log of {one_line(row.tenant)!r:.60}"
    )
    if waiting:
        yield Finding(
            level="warning",
            what=SHARED_LOG,
            found=f"{name}, and it may hold texts of {waiting:,} {'erasure' if waiting == 1 else 'erasures'}",
            hint="open it with log=…, which purges the file",
        )
    else:
        yield Finding(level="ok", what=SHARED_LOG, found=f"{name}, purged of all erasures that it knows")


def of_log(log: SharedLog) -> Iterator[Finding]:
    """Tell the machines that follow an open ledger's log, and those for which erasures wait."""
    try:
        replicas = log.replicas()
    except LedgerError as error:
        yield Finding(
            level="warning", what=SHARED_LOG, found=str(error), hint="reads go on; commands need the server of the log"
        )
        return
    for replica in [replica for replica in replicas if _is_behind(replica)][:LISTED]:
        yield Finding(
            level="warning",
            what=SHARED_LOG,
            found=f"the machine {one_line(replica.machine)!r:.60} last reported at {replica.seen.isoformat(timespec='seconds')}:"
            f" it lags by {replica.lag:,} events, and {replica.erasures_pending:,} erasures wait for it",
            hint="start it, or count it no longer: memory-ledger shared forget MACHINE --reason …",
        )
    yield Finding(level="ok", what=SHARED_LOG, found=f"{len(replicas):,} machines follow it")


def _is_behind(replica: Replica) -> bool:
    """Return True for a machine that erasures wait for, or that lags, if the machine has not reported for a while."""
    is_away = (now() - replica.seen).total_seconds() > AWAY_MINUTES * 60
    return is_away and bool(replica.erasures_pending or replica.lag)
