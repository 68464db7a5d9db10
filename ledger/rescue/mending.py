"""Damaged projections come back from the log by themselves; a damaged log is never touched.

What does not fit is noticed at open; a page that SQLite cannot read is noticed by the command or read that meets it, and
that is done again after the mending (``doing_again``). Mending is a rebuild. Where the damaged pages do not even let their
old tables be dropped, a fresh file is made of the proven log and copied into this one through SQLite, in one transaction.
"""

from __future__ import annotations

import functools
import re
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

from ledger import answers
from ledger.care import Care, Progress
from ledger.domain.errors import Conflict, LedgerError, StorageError
from ledger.event_store import EventStore
from ledger.log_reading import check_tables
from ledger.rescue.copying import check_log, copy_log, in_the_making
from ledger.rescue.doing_again import damages as damages
from ledger.rescue.doing_again import sqlite_code
from ledger.sqlite_files import typed
from ledger.work import Body, Outcome, Who
from ledger.writing import Writer
from projections.projector import create_all, projections
from projections.rebuild import RebuildUnderWay

ROUNDS = 5  # of copying, while others go on writing
WAIT_SECONDS = 30.0  # for the writer's lock

# How problems that ``verify`` finds begin, and what they are about; all others are the log's own.
OF_PROJECTIONS = re.compile(
    r"(position \d+: )?the projections?\b|the schema: (table|index of) (?!events\b|blobs\b)"
).match
OF_PAGES = re.compile(r"the file: (?!its )").match


class MendingWriter(Writer):
    """A writer that has damaged projections mended, and looks whether others upgraded the log beyond this product."""

    mend: Callable[[StorageError], bool]
    check_upgrades: Callable[[sqlite3.Connection, int], None]
    looked_at = 0  # the log was searched for upgrades up to here

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._here = threading.local()

    @property
    def recorded(self) -> int:
        """How many commands of this thread recorded something."""
        return getattr(self._here, "recorded", 0)

    def run(self, command: str, who: Who, body: Body, arguments: object = None) -> Outcome:
        try:
            outcome = super().run(command, who, body, arguments)
        except StorageError as error:
            if not damages(error) or not self.mend(error):
                raise
            outcome = super().run(command, who, body, arguments)  # nothing of the first try was committed
        if outcome.events:
            self._here.recorded = self.recorded + 1
        return outcome

    def _look_again(self, transaction: Any) -> None:
        self.check_upgrades(transaction.connection, self.looked_at)
        self.looked_at = transaction.position
        super()._look_again(transaction)


class Mending(Care):
    """What keeps the projections whole."""

    _mending: threading.RLock
    _mended: int  # how often
    _mends_now = False

    def _mend(self, error: StorageError, *, seen: int | None = None) -> bool:
        """Whether damage was mended, by this thread or meanwhile by another; ``StorageError`` when it is the log's own.

        False where it cannot be done now: in a ledger opened for reading, inside a batch, in a snapshot under way.
        """
        seen = self._mended if seen is None else seen
        if self._store.readonly or self._store.busy_here():
            return False
        with self._mending:
            if self._mends_now:
                return False  # it was met amid the mending
            if self._mended == seen:
                if sqlite_code(error) == sqlite3.SQLITE_ERROR and self._projections_fit():
                    return False
                self._mends_now = True
                try:
                    self._fold_anew()
                finally:
                    self._mends_now = False
                self._mended += 1
        return True

    def _fold_anew(self) -> None:
        self._check_log()
        while True:
            with suppress(RebuildUnderWay):  # a lease that nobody renews ends by itself
                self.rebuild()
                return
            time.sleep(0.05)

    def rebuild(self, *, progress: Progress | None = None) -> answers.RebuildReport:
        """Folds every projection again from the log, beside the live tables, and switches; others go on meanwhile.

        ``progress`` is called with (events folded, events in the log). ``Conflict`` while another rebuild runs. What was
        parked and folds now is resumed; what does not fold is parked. Where damaged pages are in the way, the whole file
        is made anew from its log, if that is sound; ``StorageError`` if it is not.
        """
        started = time.monotonic()
        try:
            return super().rebuild(progress=progress)
        except StorageError as error:
            if not damages(error) or self._store.busy_here():
                raise
            self._check_log()
            self._replace()
        events, parked = self._store.head()[0], tuple(sorted(self._parked()))
        return answers.RebuildReport(
            events=events, seconds=time.monotonic() - started, digest=self.digest(), parked=parked
        )

    def _check_log(self) -> None:
        with self._store.snapshot() as connection:
            position = check_log(connection)[0]
            with suppress(sqlite3.Error):
                folded = connection.execute("SELECT max(position) FROM main.checkpoint").fetchone()[0]
                if isinstance(folded, int) and folded > position:
                    raise StorageError(
                        f"the log is damaged: it ends at position {position}, and {folded} events were folded of it"
                    )

    def _projections_fit(self) -> bool:
        with self._store.snapshot() as connection:
            return tables_fit(connection, self._writer.secret, self._created.ledger_id) is not None

    # --- a whole file ------------------------------------------------------------------------------------------------

    def _replace(self) -> None:
        """Every page of this file anew, from its own log; who has it open stays where he is."""
        with in_the_making(self._store.path, "a mended copy", put=False) as part:
            for _ in range(ROUNDS):
                with closing(EventStore.open(part)) as fresh, self._store.snapshot() as connection:
                    copied = copy_log(connection, fresh)
                door: Any = type(self)
                door.open(part, clock=self._writer.clock).close()  # folds the projections
                if self._pour(part, copied):
                    with suppress(LedgerError):
                        self._store.checkpoint()
                    return
        raise StorageError("the projections are damaged, and others wrote too much meanwhile for them to be mended")

    def _pour(self, part: str, copied: int) -> bool:
        """Copies a file over this one in one transaction; False when the log went on since it was made."""
        deadline, looked = time.monotonic() + WAIT_SECONDS, list[int]()

        def guard(status: int, remaining: int, total: int) -> None:
            if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                if time.monotonic() > deadline:
                    raise StorageError("another process kept the ledger locked for longer than the timeout")
            elif not looked:  # from the first step to the last the writer's lock is held
                looked.append(self._store.head()[0])
                if looked[0] != copied:
                    raise _WentOn

        with self._store.lent() as live, closing(sqlite3.connect(part, isolation_level=None)) as fresh:
            pages = fresh.execute("PRAGMA page_count").fetchone()[0]
            try:
                fresh.backup(live, pages=max(1, pages // 8), progress=guard, sleep=0.02)
            except _WentOn:
                return False
            except sqlite3.Error as error:
                raise typed(error) from error
        return True


class _WentOn(Exception):
    """Somebody committed after the copy was made."""


# --- whether the tables fit ------------------------------------------------------------------------------------------


def tables_fit(connection: Any, secret: bytes, ledger_id: str) -> set[str] | None:
    """What is parked, when every table is there, as this product makes it, and folded up to the last event of this log.

    None otherwise, also when SQLite cannot read what it takes to know.
    """
    try:
        if misshapen(connection, secret):
            return None
        _, parked = check_tables(connection, secret)
        last = connection.execute("SELECT position, head FROM events ORDER BY position DESC LIMIT 1").fetchone()
        folded = connection.execute("SELECT ledger, position, head FROM checkpoint").fetchall()
    except Conflict:
        return None
    except sqlite3.DatabaseError as error:
        if sqlite_code(error) != sqlite3.SQLITE_CORRUPT:
            raise
        return None
    return parked if [tuple(row) for row in folded] == [(ledger_id, *last)] else None


def misshapen(connection: Any, secret: bytes) -> list[str]:
    """The tables that are missing or not as this product makes them, columns and indexes."""
    found = shapes(connection)
    wanted = _wanted(tuple(table for projection in projections(secret) for table in projection.tables))
    return sorted(name for name, shape in wanted.items() if found.get(name) != shape)


@functools.cache
def _wanted(tables: tuple[object, ...]) -> dict[str, frozenset[str]]:
    with closing(sqlite3.connect(":memory:")) as made:
        create_all(made, bytes(32), "")
        return shapes(made)


def shapes(connection: Any) -> dict[str, frozenset[str]]:
    """Each table with how it and its indexes were made, but for the names, which a rebuild gives and changes."""
    sql = "SELECT tbl_name, type, sql FROM sqlite_master WHERE type IN ('table', 'index') AND sql IS NOT NULL"
    found: dict[str, set[str]] = {}
    for table, kind, made in connection.execute(sql):
        told = made if isinstance(made, str) else repr(made)  # a damaged schema may hold anything
        found.setdefault(table, set()).add(kind + told[told.find("(") :])
    return {table: frozenset(made) for table, made in found.items()}
