"""The question whether a machine's file follows its shared log, for the doctor and for a probe."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ledger.care.answers import Finding, SharedCheck
from ledger.domain.errors import DivergedError, LedgerError, NewerFormatError
from ledger.domain.text import one_line
from ledger.log.reading import read_tip
from ledger.log.shared.port import SERVER, Replica, ReplicaRow, SharedLog, read_replica_row

if TYPE_CHECKING:
    from ledger.core.engine import Engine

SHARED_LOG = "shared log"
AWAY_SECONDS = 600.0  # a machine that lacks something and has not reported for so long is shown
ASK_SECONDS = 5.0  # the longest wait for the server
LISTED = 5  # machines

LogOf = Callable[[ReplicaRow], SharedLog]
REMEDIES: dict[str, str] = {
    DivergedError.__name__: "`memory-ledger shared rejoin` keeps this file, names its lost events, and folds the log again",
    NewerFormatError.__name__: "update the product on this machine",
}


def check(connection: sqlite3.Connection, log: SharedLog, max_behind: float) -> tuple[SharedCheck, Sequence[Replica]]:
    """Ask the shared log whether a machine's file follows it; return the answer, and the machines of the log.

    Args:
        connection: A connection to the machine's file.
        log: The log that the file follows.
        max_behind: The most seconds that the machine may be behind.
    """
    from ledger.log.shared.joining import check_same

    row, (position, head) = read_replica_row(connection), read_tip(connection.cursor())
    assert row is not None
    known = SharedCheck(ok=False, tenant=row.tenant, machine=row.machine, position=position)
    try:
        tail = log.tail(position, 1)
        check_same(position, head, tail)
        replicas = log.replicas()
    except LedgerError as error:
        return _with(known, error=type(error).__name__, why=str(error)), ()
    own = next((replica for replica in replicas if _is_of(replica, row)), None)
    lag, pending = tail.tip.position - position, own.erasures_pending if own is not None else 0
    silent = own.silent_seconds if own is not None else None
    behind = silent if lag or pending else 0.0
    ok, why = behind is not None and behind <= max_behind, ""
    if not ok:
        last = f"{silent:,.0f} seconds ago" if silent is not None else "never, or before it was forgotten"
        why = f"this machine lacks {lag:,} events, and {pending:,} erasures wait for it; it reported last {last}"
    more = {"end": tail.tip.position, "erasures_pending": pending, "behind_seconds": behind}
    return _with(known, ok=ok, why=why, **more), replicas


def _with(report: SharedCheck, **changes: object) -> SharedCheck:
    from msgspec.structs import replace

    return replace(report, **changes)


# --- the doctor --------------------------------------------------------------------------------------------------------


def findings(connection: sqlite3.Connection, log_of: LogOf | None) -> Iterator[Finding]:
    """Tell the log that a machine's file follows, its erasures, and the answer of the log itself.

    Nothing is told of a file with a log of its own. Without ``log_of`` nobody knows the address of the log.
    """
    row = read_replica_row(connection)
    if row is None:
        return
    yield _of_file(connection, row)
    if log_of is None:
        yield Finding(
            level="warning",
            what=SHARED_LOG,
            found="the shared log was not asked, because its address is not known here",
            hint="set LEDGER_LOG_URL or url in [log], or give settings=",
        )
        return
    try:
        log = log_of(row)
    except LedgerError as error:
        yield Finding(level="problem", what=SHARED_LOG, found=str(error))
        return
    report, replicas = check(connection, log, AWAY_SECONDS)
    if report.ok:
        lag = (report.end or 0) - report.position
        yield Finding(
            level="ok", what=SHARED_LOG, found=f"{len(replicas):,} machines follow it; this file lags by {lag:,}"
        )
    else:
        hint = REMEDIES.get(report.error, "reads go on; commands need the server of the log")
        if not report.error:
            hint = "open it with log=…, and see why its process does not follow: the warnings of the logger ledger"
        yield Finding(level="problem", what=SHARED_LOG, found=report.why, hint=hint)
    for replica in [replica for replica in replicas if not _is_of(replica, row) and _is_behind(replica)][:LISTED]:
        hint = "start it, or count it no longer: `memory-ledger shared forget MACHINE --reason …`"
        if replica.machine == SERVER:
            hint = "VACUUM ledger.events, ledger.blobs as the owner of the tables, and end old transactions"
        yield Finding(
            level="warning",
            what=SHARED_LOG,
            found=f"the machine {one_line(replica.machine)!r:.60} last reported at {replica.seen.isoformat(timespec='seconds')}:"
            f" it lags by {replica.lag:,} events, and {replica.erasures_pending:,} erasures wait for it",
            hint=hint,
        )


def _of_file(connection: sqlite3.Connection, row: ReplicaRow) -> Finding:
    sql = "SELECT count(*) FROM events WHERE type = 'ContentErased' AND position > ?"
    (waiting,) = connection.execute(sql, (row.erased_through,)).fetchone()
    name = (
        f"this file is the copy of the machine {one_line(row.machine)!r:.60} of the log of {one_line(row.tenant)!r:.60}"
    )
    if not waiting:
        return Finding(level="ok", what=SHARED_LOG, found=f"{name}, purged of all erasures that it knows")
    return Finding(
        level="warning",
        what=SHARED_LOG,
        found=f"{name}, and it may hold texts of {waiting:,} {'erasure' if waiting == 1 else 'erasures'}",
        hint="open it with log=…, which purges the file",
    )


def of_follower(engine: Engine, told: Sequence[Finding]) -> Iterator[Finding]:
    """Tell the error that keeps an open ledger from following, unless the log itself has told it."""
    failure = engine.sharing.failure if engine.sharing is not None else None
    if failure is not None and not any(finding.level == "problem" and finding.what == SHARED_LOG for finding in told):
        yield Finding(level="problem", what=SHARED_LOG, found=f"this ledger cannot follow the shared log: {failure}")


def log_of(log: SharedLog | str | None) -> LogOf | None:
    """Return the way from a machine's file to its log, which is known by its address; None if it is not known."""
    if not log:
        return None

    def connect(row: ReplicaRow) -> SharedLog:
        if not isinstance(log, str):
            return log
        from ledger.log.shared.opening import open_shared

        return open_shared(log, row.tenant, row.machine, timeout_seconds=ASK_SECONDS)

    return connect


def _is_of(replica: Replica, row: ReplicaRow) -> bool:
    return (replica.machine, replica.file) == (row.machine, row.file)


def _is_behind(replica: Replica) -> bool:
    """Return True for a machine that erasures wait for, or that lags, if the machine has not reported for a while."""
    return replica.silent_seconds > AWAY_SECONDS and bool(replica.erasures_pending or replica.lag)
