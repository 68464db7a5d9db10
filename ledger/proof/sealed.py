"""The checkpoints that a log holds of itself, and the reads that sealing, proving and verifying share.

Every name stands behind ``main.``: where projections are folded privately, tables of the same names lie before the file's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Self

from msgspec import Struct

from ledger.domain.errors import LedgerError, StorageError
from ledger.domain.events import LEDGER_STREAM, CheckpointSealed, ContentErased
from ledger.proof.merkle import Tree
from ledger.store import copies, mapper
from ledger.store.integrity import GENESIS, CheckedRow, Erasures
from ledger.store.sqlite_files import typed

STEP = 4_096  # rows between two calls of ``progress``

Progress = Callable[[int, int], None]  # (rows walked, of how many)


class Seal(Struct, frozen=True):
    """A CheckpointSealed of the log, and where it lies."""

    position: int
    size: int
    root: bytes
    head: bytes
    peaks: tuple[bytes, ...]
    time: str

    def tree(self) -> Tree | None:
        """The tree to go on from; None where the seal contradicts itself."""
        try:
            tree = Tree(self.size, self.peaks)
        except ValueError:
            return None
        return tree if tree.root() == self.root and 0 < self.size < self.position else None


def seals(connection: sqlite3.Connection) -> Iterator[Seal]:
    """The checkpoints sealed in the log, the last first; what is none of this product's is passed over."""
    for position, version, state in _of_ledger(connection, "CheckpointSealed", "DESC"):
        try:
            envelope = mapper.decode(position, 1, LEDGER_STREAM, version, "CheckpointSealed", state).envelope
            data: CheckpointSealed = envelope.data
            peaks = tuple(bytes.fromhex(each) for each in data.peaks)
            root, head = bytes.fromhex(data.root), bytes.fromhex(data.head)
        except (LedgerError, AttributeError, ValueError):
            continue
        yield Seal(position, data.size, root, head, peaks, envelope.recorded_at)


def erasures(connection: sqlite3.Connection) -> Erasures:
    """What all erasures took; of a copy of a log up to a position, those behind its end too."""
    found, later = Erasures(), copies.erased_later(connection)
    for position, version, state in (*_of_ledger(connection, "ContentErased", "ASC"), *later):
        try:
            data = mapper.decode(position, 1, LEDGER_STREAM, version, "ContentErased", state).data
        except LedgerError:
            continue
        if isinstance(data, ContentErased):
            found.add(position, data)
    if later:
        (last,) = connection.execute("SELECT max(position) FROM main.events").fetchone()
        found.rows = {place: acts for place, acts in found.rows.items() if place <= last}
    return found


def _of_ledger(connection: sqlite3.Connection, type_: str, order: str) -> Iterator[tuple[int, int, str]]:
    sql = "SELECT position, version, state FROM main.events WHERE stream = ? AND type = ? ORDER BY version " + order
    return connection.execute(sql, (LEDGER_STREAM, type_))


def rows_after(connection: sqlite3.Connection, position: int, last: int = 2**62) -> Iterator[CheckedRow]:
    """The rows after a position; of one whose text is no text only place and head. ``StorageError`` names what cannot be read."""
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


def counted(rows: Iterator[CheckedRow], of: int, progress: Progress | None) -> Iterator[CheckedRow]:
    """The rows, told about as they go by."""
    if progress is None:
        yield from rows
        return
    for number, row in enumerate(rows, 1):
        yield row
        if not number % STEP or number == of:
            progress(number, of)


def _unreadable(place: int, error: sqlite3.Error) -> StorageError:
    return StorageError(f"position {place}: cannot be read, and nothing after it ({typed(error)})")


def head_at(connection: sqlite3.Connection, position: int) -> bytes | None:
    """The head that the row at a position has; before the first it is ``GENESIS``."""
    if not position:
        return GENESIS
    found = connection.execute("SELECT head FROM main.events WHERE position = ?", (position,)).fetchone()
    return found[0] if found else None


class Tip(Struct, frozen=True):
    """How far a log was walked: the size, the head after it, and the tree over it."""

    size: int
    head: bytes
    tree: Tree

    @classmethod
    def of(cls, seal: Seal, connection: sqlite3.Connection) -> Self | None:
        """A sealed checkpoint as a place to go on from; None where the log does not support it."""
        tree = seal.tree()
        fits = tree is not None and head_at(connection, seal.size) == seal.head
        return cls(seal.size, seal.head, tree) if fits and tree is not None else None
