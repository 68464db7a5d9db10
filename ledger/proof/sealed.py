"""The checkpoints that a log holds, and the reads that sealing, proving and verifying share.

Every table name has the prefix ``main.``, because a private fold of the projections has tables of the same names.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Self

from msgspec import Struct

from ledger.domain.errors import LedgerError, StorageError
from ledger.events import LEDGER_STREAM, CheckpointSealed, ContentErased
from ledger.log import registry
from ledger.log.envelope import GENESIS
from ledger.log.inspection import erased_later
from ledger.log.integrity import CheckedRow, ErasedContents
from ledger.log.sqlite_files import typed
from ledger.proof.merkle import Tree

STEP = 4_096  # rows between two calls of ``progress``

Progress = Callable[[int, int], None]  # (rows walked, rows to walk)


class Seal(Struct, frozen=True):
    """A CheckpointSealed event of the log and its position."""

    position: int
    size: int
    root: bytes
    head: bytes
    peaks: tuple[bytes, ...]
    time: str

    def tree(self) -> Tree | None:
        """Return the tree to continue from, or None if the seal contradicts itself."""
        try:
            tree = Tree(self.size, self.peaks)
        except ValueError:
            return None
        return tree if tree.root() == self.root and 0 < self.size < self.position else None


def seals(connection: sqlite3.Connection) -> Iterator[Seal]:
    """Yield the checkpoints sealed in the log, the last first; malformed ones are skipped."""
    for position, version, state in _of_ledger(connection, "CheckpointSealed", "DESC"):
        try:
            envelope = registry.decode(position, 1, LEDGER_STREAM, version, "CheckpointSealed", state).envelope
            data: CheckpointSealed = envelope.data
            peaks = tuple(bytes.fromhex(peak) for peak in data.peaks)
            root, head = bytes.fromhex(data.root), bytes.fromhex(data.head)
        except (LedgerError, AttributeError, ValueError):
            continue
        yield Seal(position, data.size, root, head, peaks, envelope.recorded_at)


def erasures(connection: sqlite3.Connection) -> ErasedContents:
    """Return the rows and blobs whose texts were erased.

    A copy up to a position also counts the later erasures of its rows.
    """
    taken, later = ErasedContents(), erased_later(connection)
    for position, version, state in (*_of_ledger(connection, "ContentErased", "ASC"), *later):
        try:
            data = registry.decode(position, 1, LEDGER_STREAM, version, "ContentErased", state).data
        except LedgerError:
            continue
        if isinstance(data, ContentErased):
            taken.add(position, data)
    if later:
        (last,) = connection.execute("SELECT max(position) FROM main.events").fetchone()
        taken.rows = {place: acts for place, acts in taken.rows.items() if place <= last}
    return taken


def _of_ledger(connection: sqlite3.Connection, type_: str, order: str) -> Iterator[tuple[int, int, str]]:
    sql = "SELECT position, version, state FROM main.events WHERE stream = ? AND type = ? ORDER BY version " + order
    return connection.execute(sql, (LEDGER_STREAM, type_))


def rows_after(connection: sqlite3.Connection, position: int, last: int = 2**62) -> Iterator[CheckedRow]:
    """Yield the rows after a position; a row with undecodable text has only its position and head.

    Raises:
        StorageError: A row cannot be read; the message names its position.
    """
    sql = (
        "SELECT position, stream, version, type, state, digest, head, erased_by FROM main.events"
        " WHERE position > ? AND position <= ? ORDER BY position"
    )
    while True:
        try:
            for row in connection.execute(sql, (position, last)):
                yield row
                position = row[0]
            return
        except sqlite3.OperationalError as error:
            if "decode" not in str(error):
                raise _unreadable(position + 1, error) from error
        except sqlite3.Error as error:
            raise _unreadable(position + 1, error) from error
        position, head = connection.execute(
            "SELECT position, head FROM main.events WHERE position > ? ORDER BY position LIMIT 1", (position,)
        ).fetchone()
        yield (position, None, None, None, None, None, head, None)  # type: ignore[misc]


def counted(rows: Iterator[CheckedRow], total: int, progress: Progress | None) -> Iterator[CheckedRow]:
    """Yield the rows and call ``progress`` with (rows walked, ``total``) every ``STEP`` rows."""
    if progress is None:
        yield from rows
        return
    for number, row in enumerate(rows, 1):
        yield row
        if not number % STEP or number == total:
            progress(number, total)


def _unreadable(place: int, error: sqlite3.Error) -> StorageError:
    return StorageError(f"position {place}: cannot be read, nor can any position after it ({typed(error)})")


def head_at(connection: sqlite3.Connection, position: int) -> bytes | None:
    """Return the head of the row at a position, or ``GENESIS`` for position 0."""
    if not position:
        return GENESIS
    row = connection.execute("SELECT head FROM main.events WHERE position = ?", (position,)).fetchone()
    return row[0] if row else None


class CheckedTip(Struct, frozen=True):
    """The part of a log that was checked already: its size, the head after its last event, and its tree."""

    size: int
    head: bytes
    tree: Tree

    @classmethod
    def of(cls, seal: Seal, connection: sqlite3.Connection) -> Self | None:
        """Return a sealed checkpoint as a tip to continue from, or None if the log does not match the seal."""
        tree = seal.tree()
        fits = tree is not None and head_at(connection, seal.size) == seal.head
        return cls(seal.size, seal.head, tree) if fits and tree is not None else None
