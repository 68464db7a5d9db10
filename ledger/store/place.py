"""Whether the files of an open ledger are still the ones that were opened, and nobody else wrote to the file itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ledger.domain.errors import StorageError
from ledger.store import notes
from ledger.store.file_lock import FileLock
from ledger.store.notes import Note

Identity = tuple[int, int]  # device and inode
LOOKS = 100  # at the notes, while checkpoints of others begin and end


class Alone(NamedTuple):
    """The contents of the file itself, without its -wal, as far as they can be read.

    A checkpoint that readers kept from its end leaves pages of several moments. Then nothing but the first row says anything,
    and its absence nothing.
    """

    is_ledger: bool
    first: bytes = b""  # the head after LedgerCreated
    position: int = 0  # of the last event; -1 where not even that can be read
    head: bytes = b""  # ... after that event


class Place:
    """What SQLite has open of one ledger: the file, its -wal and its -shm; the last two from the first transaction on.

    The file itself is written by checkpoints alone, and each of ours is noted in the lock file. Every other change of its size
    or its time is somebody's who copied another file over it, which leaves every name and inode as it was.
    """

    def __init__(self, path: str, lock: FileLock, alone: Callable[[], Alone]) -> None:
        self._paths, self._lock, self._alone = (path, path + "-wal", path + "-shm"), lock, alone
        self._written = self._known = notes.written(path)
        self._overwritten, self._depth, self._turn = False, 0, 0
        self._own: tuple[Identity | None, ...] = (self._found()[0], None, None)
        self.first: bytes | None = None  # settable: the head after the first event

    def check(self) -> None:
        """For the writer, in a transaction: ``StorageError`` where one of them is not the one that was opened."""
        found = self._found()
        if self._written != self._known:
            self._look_again()
        if found != self._own or self._overwritten:
            if self._own[1:] == (None, None) and found[0] == self._own[0] and None not in found:
                self._own = found
            if displaced := self.displaced():
                raise StorageError(displaced)

    def _look_again(self) -> None:
        """Find out who wrote to the file: a checkpoint that is noted, or somebody else."""
        path, lock = self._paths[0], self._lock
        for _ in range(LOOKS):
            before = notes.read(lock.path)
            written = notes.written(path)
            if before is None or before.begun:
                if not lock.acquire(0):
                    return  # a checkpoint is under way, and the next look compares how it left the file
                try:
                    self._judge()
                finally:
                    lock.release()
                return
            if before == notes.read(lock.path):
                self._overwritten |= written != before.written or before.turn != self._turn
                self._known = written
                return

    def _judge(self) -> None:
        """For the holder of the lock: a checkpoint that was killed wrote to the file, and nobody noted how it left the file."""
        note, written = notes.read(self._lock.path), notes.written(self._paths[0])
        if note is None or note.turn != self._turn or (not note.begun and note.written != written):
            self._overwritten = True
        elif note.begun:
            alone = self._alone()
            self._overwritten |= not alone.is_ledger or bool(alone.first and self.first and alone.first != self.first)
            if not self._overwritten:
                self._note(Note(note.number + 1, note.turn, False, written, alone.first or note.first))
        self._known = written

    @contextmanager
    def checkpointing(self, tip: tuple[int, bytes] = (0, b"")) -> Iterator[Callable[[bool], None]]:
        """A checkpoint of ours, or a close that may make one, is noted: its beginning durably, then how it left the file.

        For the holder of the lock, behind a look at ``is_replaced``. Whoever knows that everything is in the file, and durably,
        calls what this gives; then the file has at least the event at the ``tip`` that was read before, and the head after it.
        A disk that takes no note keeps no checkpoint from being made, for that may be the way to have room again.
        """
        path, wal, _ = self._paths
        if self._depth or not notes.written(path)[0]:  # noted already; or the file lies elsewhere by now
            yield lambda is_whole: None
            return
        before, whole = notes.read(self._lock.path), list[bool]()
        note = before or Note(0, self._turn, False, self._known)
        begun = Note(note.number + 1, note.turn, True, note.written, note.first, note.position, note.head)
        self._note(begun, durable=bool(notes.written(wal)[0]))
        self._depth += 1
        try:
            yield whole.append
        finally:
            self._depth -= 1
            self._known = notes.written(path)
            if before is not None and not before.begun and before.written == self._known:
                self._note(before)
            else:
                position, head = tip if any(whole) else (0, b"")
                first = (self.first if position else None) or note.first
                self._note(Note(note.number + 2, note.turn, False, self._known, first, position, head))

    def note_as_opened(self) -> None:
        """For the holder of the lock, when the file was opened: it is as it should be, whoever wrote to it before."""
        note = notes.read(self._lock.path)
        if note is None or note.begun or note.written != self._known:
            if note is None:
                note = Note(0, int.from_bytes(os.urandom(6)), False, self._known)
            alone, wal_bytes = self._alone(), notes.written(self._paths[1])[0]
            tip = (alone.position, alone.head) if alone.position > 0 and not wal_bytes else (0, b"")
            turn = note.turn if note.begun else note.turn + 1
            note = Note(note.number + 1, turn, False, self._known, alone.first or note.first, *tip)
            self._note(note)
        self._turn = note.turn

    def _note(self, note: Note, *, durable: bool = False) -> None:
        with suppress(OSError):
            notes.write(self._lock.path, note, durable=durable)

    def displaced(self) -> str:
        """Which of them is not the one that was opened, as a sentence; empty while all are."""
        for path, own, found in zip(self._paths, self._own, self._found(), strict=True):
            if own is not None and own != found:
                fate = "renamed or deleted" if found is None else "replaced by another"
                return (
                    f"{path} was {fate} while it was open; nothing more is written. Stop whoever moves it, close this "
                    "ledger, and open it again where it lies now: proof.verify() tells whether all is there"
                )
        if self._overwritten:
            path, wal, shm = self._paths
            return (
                f"{path} was written by another program while it was open, or another file was copied over it; nothing more "
                f"is written. Close every process that has it open. If a file was copied over it, remove {wal} and {shm}, "
                "which belong to the file that was there, and copy the file once more. Then open the ledger again"
            )
        return ""

    @property
    def is_replaced(self) -> bool:
        """Whether another file lies where one of ours did, which a last close would delete or write over by its name;
        for whoever holds the file lock."""
        found = self._found()
        if self._written != self._known and not self._depth:
            self._look_again()
        return self._overwritten or any(
            None not in pair and pair[0] != pair[1] for pair in zip(self._own, found, strict=True)
        )

    def _found(self) -> tuple[Identity | None, ...]:
        found: list[Identity | None] = []
        for path in self._paths:
            try:
                status = os.stat(path)
            except OSError:  # nor can anybody reach it where its directory is a file by now
                found.append(None)
                continue
            if not found:
                self._written = status.st_size, status.st_mtime_ns
            found.append((status.st_dev, status.st_ino))
        return tuple(found)
