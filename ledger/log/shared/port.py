"""The port to a log that several machines share. Each machine folds the shared log into its own file.

The core knows this protocol only. A command first takes the lock of its own file and then the lock of the shared log, always
in this order. It exchanges two messages with the shared log: ``lock``, which brings the events of other machines, and
``publish``, which writes the events of the command and commits. While nobody else writes, one message does: ``append``.

A file that follows a shared log has a table of one row with the log's tenant, the name of the machine, and the file's id. A
copied file has the id of the first file, but another number in the file system. A file is taken for a copy if the number is
not the one that the table has. A program of an earlier version knows the name only, so the id and the number stand behind it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from secrets import token_hex
from typing import NamedTuple, Protocol

from ledger.log.envelope import LogRow
from ledger.log.paths import StrPath
from ledger.log.sqlite_files import REPLICA

SERVER = "(PostgreSQL)"  # stands among the machines after an erasure, until VACUUM has removed the text from its tables
BETWEEN = "\x1f"  # between the name of a machine and the id of its file, where both are one text
TIMEOUT_SECONDS = 20.0  # less than that of the file's own lock, so that who asks hears before those who wait for it


class Tip(NamedTuple):
    """The end of a log: the position of its last event, and the head after that event."""

    position: int
    head: bytes


# Takes the end of the log, or None if the log may have grown; returns True to be called again soon.
OnNews = Callable[[Tip | None], bool | None]


class SharedBlob(NamedTuple):
    """A blob of the shared log; ``position`` is that of the first event of the command that wrote the blob."""

    id: str
    position: int
    data: bytes | None
    erased_by: int | None


@dataclass(frozen=True, slots=True)
class Tail:
    """The part of the shared log behind a machine's own position.

    Attributes:
        tip: The end of the shared log.
        head_there: The head of the shared log at the machine's position; None if the shared log ends before it.
        rows: The events after the machine's position in their order, as they are stored now; a later erasure may already
            have taken the state of an event.
        blobs: The blobs that were written together with ``rows``.
        is_cut: True if there are more rows than the limit allowed.
    """

    tip: Tip
    head_there: bytes | None
    rows: Sequence[LogRow] = ()
    blobs: Sequence[SharedBlob] = ()
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Publication:
    """Everything that one commit adds to the shared log or takes out of it.

    Attributes:
        before: The end of the shared log that the lock returned.
        after: The end of the shared log after ``rows``.
        rows: The new events.
        blobs: The new blobs.
        redactions: (position, state, by) of each event whose state an erasure replaced.
        erased_blobs: (blob id, by) of each blob whose bytes an erasure took.
    """

    before: Tip
    after: Tip
    rows: Sequence[LogRow]
    blobs: Sequence[SharedBlob] = ()
    redactions: Sequence[tuple[int, str, int]] = ()
    erased_blobs: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True, slots=True)
class Replica:
    """A file that follows the shared log: a machine, or a second file of a machine.

    Attributes:
        machine: The machine's name.
        position: The position up to which the machine has folded the log.
        erased_through: The position of the last ContentErased whose texts are gone from the machine's files.
        seen: The time of the machine's last report.
        silent_seconds: The seconds since the last report, by the clock of the server.
        lag: The number of events that the machine has not folded yet.
        erasures_pending: The number of ContentErased events after ``erased_through``.
        file: The id of the file; "" if a program of an earlier version reported last.
    """

    machine: str
    position: int
    erased_through: int
    seen: datetime
    lag: int
    erasures_pending: int
    silent_seconds: float = 0.0
    file: str = ""


class SharedLog(Protocol):
    """The log of one tenant, as the ledger of one machine sees it. Every call may raise ``UnreachableError``."""

    tenant: str
    machine: str
    file: str  # settable: the id of the machine's file

    def lock(self, position: int, head: bytes, limit: int) -> Tail:
        """Take the lock of the log and return the tail behind a position; the lock lasts until publish or release.

        If the tail ``is_cut``, the lock is let go again.

        Raises:
            BusyError: Another machine kept the lock for longer than the timeout.
            UnreachableError: The log cannot be reached; nothing is locked.
        """
        ...

    def publish(self, publication: Publication) -> None:
        """Write a commit and let the lock go. A lost connection is settled here: the log has the commit after the return.

        Raises:
            ConflictError: Another machine wrote at these positions after the lock was lost; nothing of this commit is there.
            UnreachableError: The log has nothing of this commit.
            UnknownOutcomeError: The log could not be reached again in time, so nobody knows if it has the commit.
        """
        ...

    def append(self, publication: Publication) -> bool:
        """Write a commit without ``lock`` before it; return False, and write nothing, unless the log ends at ``before``.

        Raises:
            BusyError: Another machine kept the lock for longer than the timeout.
            UnreachableError: The log has nothing of this commit.
            UnknownOutcomeError: The log could not be reached again in time, so nobody knows if it has the commit.
        """
        ...

    def release(self) -> None:
        """Let the lock go without a change. Never raises: a lost connection has let it go already."""
        ...

    def tail(self, position: int, limit: int) -> Tail:
        """Return the tail behind a position without the lock, for a follower."""
        ...

    def begin(self, limit: int) -> Tail:
        """Record that this machine has nothing yet, so that erasures wait for it, and return the tail from the beginning."""
        ...

    def snapshot(self) -> AbstractContextManager[tuple[Tip, Iterator[LogRow], Iterator[SharedBlob]]]:
        """Yield the end, all rows in order and all blobs at one moment, for a new machine."""
        ...

    def follow(self, on_news: OnNews) -> Callable[[], None]:
        """Call a function whenever the log may have grown (a notice, or a second has passed); return the way to stop it.

        The function gets the end of the log if that is known. A function that returns True is called again within some
        milliseconds. All ledgers of a process share one listening connection, one statement a second and a few threads.
        """
        ...

    def report(self, position: int, erased_through: int) -> None:
        """Record how far this machine's file has come."""
        ...

    def replicas(self) -> Sequence[Replica]:
        """Return the files that follow this log, by the names of their machines."""
        ...

    def take_lease(self, work: str, holder: str, seconds: float) -> bool:
        """Take a lease on a piece of work for all machines; return False if another holder has it."""
        ...

    def renew_lease(self, work: str, holder: str, seconds: float) -> bool:
        """Renew a lease; return False if another holder has taken it."""
        ...

    def give_back_lease(self, work: str, holder: str) -> None:
        """End a lease. Never raises."""
        ...

    def close(self) -> None:
        """Let go of what this ledger alone uses; the pool of the process stays for others."""
        ...


# --- the row in a machine's file ------------------------------------------------------------------------------------------

REPLICA_SCHEMA = (
    f"CREATE TABLE {REPLICA} (id INTEGER PRIMARY KEY CHECK (id = 1), tenant TEXT NOT NULL, machine TEXT NOT NULL,"
    " erased_through INTEGER NOT NULL)"
)


class ReplicaRow(NamedTuple):
    """The log that a file follows, the machine to which the file belongs, and the last erasure that the files are purged of.

    Attributes:
        tenant: The tenant of the log.
        machine: The name of the machine.
        erased_through: The position of the last erasure.
        file: The id of the file; "" in a file of an earlier version.
        number: The file's number in the file system when the id was made.
    """

    tenant: str
    machine: str
    erased_through: int
    file: str = ""
    number: int = 0


def read_replica_row(connection: sqlite3.Connection) -> ReplicaRow | None:
    """Return the row of a machine's copy; None for a file with a log of its own."""
    if connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = ?", (REPLICA,)).fetchone() is None:
        return None
    row = connection.execute(f"SELECT tenant, machine, erased_through FROM main.{REPLICA}").fetchone()
    if row is None:
        return None
    tenant, name, erased_through = row
    machine, _, rest = name.partition(BETWEEN)
    file, _, number = rest.partition(BETWEEN)
    return ReplicaRow(tenant, machine, erased_through, file, int(number or 0))


def replica_row_of(path: StrPath, row: ReplicaRow) -> ReplicaRow:
    """Return the row with an id of the file: the row's own, or a new one if the file has none or is a copy."""
    number = os.stat(path).st_ino
    if row.file and row.number == number:
        return row
    return ReplicaRow(row.tenant, row.machine, row.erased_through, token_hex(6), number)


def note_erased_through(connection: sqlite3.Connection, through: int) -> None:
    """Note the last erasure that the files are purged of."""
    connection.execute(f"UPDATE main.{REPLICA} SET erased_through = ?", (through,))


def write_replica_row(connection: sqlite3.Connection, row: ReplicaRow) -> None:
    """Make a file a machine's copy, or change the row of such a file."""
    if connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = ?", (REPLICA,)).fetchone() is None:
        connection.execute(REPLICA_SCHEMA)
    name = BETWEEN.join((row.machine, row.file, str(row.number))) if row.file else row.machine
    connection.execute(
        f"INSERT OR REPLACE INTO main.{REPLICA} VALUES (1, ?, ?, ?)", (row.tenant, name, row.erased_through)
    )


def copy_replica_row(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Make a new file with the same log a machine's copy too, if the first file is such a copy."""
    if (row := read_replica_row(source)) is not None:
        write_replica_row(target, row)
