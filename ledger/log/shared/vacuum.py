"""The removal of erased texts from the tables of PostgreSQL: a redaction leaves the old version of its row to VACUUM."""

from __future__ import annotations

import logging
import os
import threading
from functools import cache

from ledger.domain.errors import LedgerError
from ledger.log.shared.connections import GRACE_SECONDS, LostError, Pool, RefusedError, pool_of, text_literal

VACUUM_SECONDS = 3600.0
TABLES = ("events", "blobs")

_logger = logging.getLogger("ledger")


class Vacuum:
    """A thread that vacuums the partitions of tenants one after another, and ends when there are no more.

    VACUUM runs outside of any command and may take minutes. An error is left to the next erasure or to autovacuum.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._waiting: set[str] = set()
        self._thread: threading.Thread | None = None

    def add(self, tenant: str) -> None:
        """Vacuum the partitions of a tenant soon."""
        with self._lock:
            self._waiting.add(tenant)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="memory-ledger vacuum", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                tenant = self._waiting.pop()
            try:
                self._vacuum(tenant)
            except (LostError, RefusedError, LedgerError) as error:
                _logger.info("the partitions of erased texts could not be vacuumed: %s", error)

    def _vacuum(self, tenant: str) -> None:
        connection = self._pool.connect(GRACE_SECONDS)  # besides the pool, because it takes long
        try:
            name = text_literal(tenant)
            looks = ", ".join(
                f"(SELECT tableoid::regclass FROM ledger.{table} WHERE tenant = {name} LIMIT 1)" for table in TABLES
            )
            own = f"BEGIN; SET LOCAL ledger.tenant = {name}"
            *_, partitions, _ = connection.ask(f"{own}; SELECT {looks}; COMMIT", GRACE_SECONDS)
            for partition in partitions[0]:
                if partition is not None:
                    connection.ask(f"VACUUM {partition.decode()}", VACUUM_SECONDS)
        finally:
            connection.close()


@cache
def _vacuum(url: str, process: int) -> Vacuum:
    return Vacuum(pool_of(url))


def vacuum_of(url: str) -> Vacuum:
    """Return the thread of this process that vacuums a database."""
    return _vacuum(url, os.getpid())
