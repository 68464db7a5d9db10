"""The way of a command into the log that machines share: join, take in what the others wrote, publish, or let go.

The order of locks is always the same: the file of this machine first, then the shared log.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ledger.domain.errors import DivergedError, StorageError
from ledger.events import ContentErased
from ledger.log.envelope import LogRow, digest, link
from ledger.log.shared.port import Publication, SharedBlob, SharedLog, Tail, Tip
from ledger.log.writing import OutdatedError, Outgoing, Transaction

TAIL = 1_000  # the most events that are taken in while the lock of the shared log is held


class Joining:
    """The shared log as the writer of one file uses it."""

    def __init__(self, log: SharedLog) -> None:
        self.log = log
        # settable: folds the events that were just written to the file, up to the end of the transaction's log
        self.fold: Callable[[Transaction], None] | None = None
        self.is_hoping: bool = False  # the transaction has no lock of the shared log
        self._is_alone = True  # nobody else wrote before the last command
        self._tip: Tip | None = None  # the end of the shared log, while its lock is held or hoped for
        self._is_caught_up = False  # the transaction has the savepoint ``caught_up``
        self.asked_at: float | None = None  # while an answer of the shared log is waited for

    @contextmanager
    def _asking(self) -> Iterator[None]:
        self.asked_at = time.monotonic()
        try:
            yield
        finally:
            self.asked_at = None

    # --- a command -----------------------------------------------------------------------------------------------

    def join(self, transaction: Transaction, *, hopes: bool = False) -> None:
        """Take the lock of the shared log and bring the file to the end of the shared log.

        More events than ``TAIL`` are taken in without the lock and committed first. A transaction that ``hopes`` sends nothing
        while nobody else writes: the file's end is taken for that of the shared log, and ``publish`` compares the two.

        Raises:
            DivergedError: The file has events that the shared log does not have.
        """
        if hopes and self._is_alone:
            self._tip, self.is_hoping = Tip(transaction.position, transaction.head), True
            transaction.outgoing = Outgoing()
            return
        while (tail := self._locked(transaction)).is_cut:
            while tail.is_cut:
                self._take_in_and_keep(transaction, tail)
                tail = self.log.tail(transaction.position, TAIL)
            self._take_in_and_keep(transaction, tail)
        self._tip, self._is_alone = tail.tip, not tail.rows
        self.take_in(transaction, tail)
        if tail.rows:
            transaction.connection.execute("SAVEPOINT caught_up")
            self._is_caught_up = True
        transaction.outgoing = Outgoing()

    def _locked(self, transaction: Transaction) -> Tail:
        with self._asking():
            return self.log.lock(transaction.position, transaction.head, TAIL)

    def _take_in_and_keep(self, transaction: Transaction, tail: Tail) -> None:
        self.take_in(transaction, tail)
        transaction.writing.keep(transaction)

    def publish(self, transaction: Transaction) -> bool:
        """Write a transaction's part to the shared log and let its lock go; return False if there was nothing to write.

        Raises:
            OutdatedError: Another machine wrote while the transaction had no lock, or nobody asked the log at all.
        """
        outgoing, before = transaction.outgoing, self._tip
        assert outgoing is not None and before is not None
        if outgoing.is_empty:
            if self.is_hoping:
                raise OutdatedError
            self._release()
            self._is_caught_up = False
            return False
        publication = Publication(
            before=before,
            after=Tip(transaction.position, transaction.head),
            rows=[LogRow(*row) for row in outgoing.rows],
            blobs=[SharedBlob(*blob) for blob in outgoing.blobs],
            redactions=outgoing.redactions,
            erased_blobs=outgoing.erased_blobs,
        )
        with self._asking():
            if self.is_hoping:
                self._is_alone = self.log.append(publication)
                if not self._is_alone:
                    raise OutdatedError
            else:
                self.log.publish(publication)
        self._tip, self._is_caught_up, self.is_hoping = None, False, False
        return True

    def let_go(self, cursor: sqlite3.Cursor) -> None:
        """Let the lock go without a change, and commit the events of other machines that the transaction took in."""
        is_caught_up, self._is_caught_up = self._is_caught_up, False
        self._release()
        if is_caught_up and cursor.connection.in_transaction:
            cursor.execute("ROLLBACK TO caught_up")
            cursor.execute("COMMIT")

    def _release(self) -> None:
        is_locked = self._tip is not None and not self.is_hoping
        self._tip, self.is_hoping = None, False
        if is_locked:
            self.log.release()

    # --- the events of other machines ----------------------------------------------------------------------------

    def take_in(self, transaction: Transaction, tail: Tail) -> None:
        """Write and fold the events of a tail; an erasure is carried out before the events behind it are folded.

        Raises:
            DivergedError: The file has events that the shared log does not have.
            StorageError: The tail does not follow from the head before it.
        """
        check_same(transaction.position, transaction.head, tail)
        check_links(transaction.position, transaction.head, tail)
        blobs = sorted(tail.blobs, key=lambda blob: blob.position, reverse=True)
        for rows in _parts(tail.rows):
            while blobs and blobs[-1].position <= rows[-1].position:
                blob = blobs.pop()
                transaction.put_blob(blob.id, blob.data, blob.erased_by)
            transaction.append_rows(rows)
            if self.fold is not None:
                self.fold(transaction)
            else:
                transaction.outdate()


def check_same(position: int, head: bytes, tail: Tail) -> None:
    """Raise ``DivergedError`` if the shared log has another head at the file's position, or ends before it."""
    if tail.head_there != head:
        where = f"ends at {tail.tip.position:,}" if tail.tip.position < position else "has another event there"
        raise DivergedError(
            f"this file ends at position {position:,}, and the shared log {where}: the shared log was set back, or the file"
            " was written without it. The file takes no command; reads go on. shared.rejoin(path) keeps this file under"
            " another name, lists its lost events, and folds the shared log again"
        )


def check_links(position: int, head: bytes, tail: Tail) -> None:
    """Raise ``StorageError`` at the first row that does not follow from the head before it."""
    for row in tail.rows:
        position += 1
        is_linked = row.position == position and row.head == link(
            head, position, row.stream, row.version, row.type, row.digest
        )
        if not is_linked or (row.erased_by is None and digest(row.state.encode()) != row.digest):
            raise StorageError(
                f"the shared log is damaged: the event at position {position:,} does not follow from the events before it,"
                " so nothing of it was taken in"
            )
        head = row.head
    if not tail.is_cut and (position, head) != tail.tip:
        raise StorageError(
            f"the shared log is damaged: it is said to end at {tail.tip.position:,}, and its events end at {position:,}"
        )


def _parts(rows: Sequence[LogRow]) -> Iterator[list[LogRow]]:
    """Divide rows after each erasure."""
    part: list[LogRow] = []
    for row in rows:
        part.append(row)
        if row.type == ContentErased.__name__:
            yield part
            part = []
    if part:
        yield part
