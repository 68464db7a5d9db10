"""The removal of erased texts from the tables of PostgreSQL: a redaction leaves the old version of its row to VACUUM.

A row of the table of machines stands for the server. A commit that redacts makes it lag behind the erasure, and it catches up
when the partitions of the tenant, and their parts for long texts, were vacuumed since then and hold no old version any more.
So an erasure waits for the server as it waits for a machine.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from functools import cache

from ledger.domain.errors import LedgerError
from ledger.log.shared.connections import (
    GRACE_SECONDS,
    LostError,
    MessageConnection,
    Pool,
    RefusedError,
    pool_of,
    text_literal,
)
from ledger.log.shared.port import SERVER

PAUSES_SECONDS = (0.05, 0.2, 0.0)  # after the first vacuum that removed not all, the second and the last
VACUUM_SECONDS = 3600.0
AGAIN_SECONDS = 5.0  # before the partitions of a tenant are vacuumed again, because something kept an old version
TABLES = ("events", "blobs")

_logger = logging.getLogger("ledger")


def lag_sql(tenant: str, by: int) -> str:
    """Return the statement of a commit that redacts by an erasure: the server lags behind it. ``tenant`` is a literal."""
    return (
        f"INSERT INTO ledger.replicas VALUES ({tenant}, {text_literal(SERVER)}, {by:d}, {by - 1:d}, clock_timestamp(), NULL)"
        " ON CONFLICT (tenant, machine) DO UPDATE SET position = excluded.position, seen = excluded.seen, forgotten = NULL,"
        " erased_through = CASE WHEN replicas.erased_through < replicas.position AND replicas.forgotten IS NULL"
        " THEN replicas.erased_through ELSE excluded.erased_through END"
    )


# The partitions of a tenant that lag, the role that may vacuum them, and whether they were vacuumed since the erasure.
_PARTITIONS = """
SELECT c.oid::regclass, pg_get_userbyid(c.relowner), server.position, bool_and(
    coalesce(greatest(s.last_vacuum, s.last_autovacuum) > server.seen AND s.n_dead_tup = 0, false)
) FROM ledger.replicas AS server, pg_class AS c, pg_stat_all_tables AS s
WHERE server.tenant = {tenant} AND server.machine = {server} AND server.erased_through < server.position
    AND server.forgotten IS NULL AND s.relid IN (c.oid, c.reltoastrelid)
    AND c.oid IN (SELECT (SELECT tableoid FROM ledger.events WHERE tenant = {tenant} LIMIT 1)
        UNION SELECT (SELECT tableoid FROM ledger.blobs WHERE tenant = {tenant} LIMIT 1))
GROUP BY c.oid, c.relowner, server.position
"""


class Vacuum:
    """A thread that vacuums the partitions of tenants one after another, and ends when there are no more.

    VACUUM runs outside of any command and may take minutes. A role that owns no table may not vacuum before PostgreSQL 17: then
    the owner must, and a warning names him.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._changed = threading.Condition()
        self._waiting: set[str] = set()
        self._tried_at: dict[str, float] = {}
        self._thread: threading.Thread | None = None

    def add(self, tenant: str, *, again: bool = False) -> None:
        """Vacuum the partitions of a tenant soon; ``again`` leaves out a tenant that was tried a moment ago."""
        with self._changed:
            if again and time.monotonic() < self._tried_at.get(tenant, -AGAIN_SECONDS) + AGAIN_SECONDS:
                return
            self._waiting.add(tenant)
            self._tried_at[tenant] = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="memory-ledger vacuum", daemon=True)
                self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until nothing waits, so that a small erasure is completed at once."""
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._thread = None
                    self._changed.notify_all()
                    return
                tenant = self._waiting.pop()
            try:
                self._vacuum(tenant)
            except (LostError, RefusedError, LedgerError) as error:
                _logger.info("the partitions of erased texts could not be vacuumed: %s", error)

    def _vacuum(self, tenant: str) -> None:
        connection = self._pool.connect(GRACE_SECONDS)  # besides the pool, because it takes long
        try:
            left = self._partitions(connection, tenant)
            for pause in PAUSES_SECONDS:  # a short transaction of somebody else keeps the old rows while it runs
                for partition, _, _, is_clean in left:
                    if not is_clean:
                        connection.ask(f"VACUUM {partition}", VACUUM_SECONDS)
                left = self._partitions(connection, tenant)
                if all(is_clean for *_, is_clean in left):
                    break
                time.sleep(pause)
            if left and all(is_clean for *_, is_clean in left):
                name = text_literal(tenant)
                connection.ask(
                    f"BEGIN; SET LOCAL ledger.tenant = {name}; UPDATE ledger.replicas SET erased_through = {left[0][2]}"
                    f" WHERE tenant = {name} AND machine = {text_literal(SERVER)} AND position = {left[0][2]}; COMMIT",
                    GRACE_SECONDS,
                )
            elif left:
                tables = ", ".join(partition for partition, _, _, is_clean in left if not is_clean)
                _logger.warning(
                    "erased texts may still be in the tables of the server: VACUUM %s, which the role %s may do, has not"
                    " removed them yet, or an old transaction keeps them",
                    tables,
                    left[0][1],
                )
        finally:
            connection.close()

    def _partitions(self, connection: MessageConnection, tenant: str) -> list[tuple[str, str, int, bool]]:
        name = text_literal(tenant)
        looks = _PARTITIONS.format(tenant=name, server=text_literal(SERVER))
        rows = connection.ask(f"BEGIN; SET LOCAL ledger.tenant = {name}; {looks}; COMMIT", GRACE_SECONDS)[-2]
        return [
            (str(table, "utf-8"), str(owner, "utf-8"), int(by), is_clean == b"t")  # type: ignore[arg-type]
            for table, owner, by, is_clean in rows
        ]


@cache
def _vacuum(url: str, process: int) -> Vacuum:
    return Vacuum(pool_of(url))


def vacuum_of(url: str) -> Vacuum:
    """Return the thread of this process that vacuums a database."""
    return _vacuum(url, os.getpid())
