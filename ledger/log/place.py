"""The check that the files of an open ledger are those that were opened, and that no other program wrote to the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ledger.domain.errors import StorageError
from ledger.log import notes
from ledger.log.file_lock import FileLock
from ledger.log.notes import Note

Identity = tuple[int, int]  # device and inode
LOOKS = 100  # at the notes, while other processes' checkpoints begin and end


class Alone(NamedTuple):
    """The contents of the file itself, without its -wal, as far as they can be read.

    A checkpoint that readers kept from its end leaves pages of several moments. Then only the first row can be trusted, and
    a missing first row proves nothing.
    """

    is_ledger: bool
    first: bytes = b""  # the head after LedgerCreated
    position: int = 0  # of the last event; -1 if it cannot be read
    head: bytes = b""  # after the last event


class OpenFiles:
    """The files of one ledger that SQLite has open: the file, and from the first transaction on its -wal and its -shm.

    Only checkpoints write to the file itself, and the lock file has a note of each of ours. Any other change of the file's
    size or time means that somebody copied another file over it, which keeps every name and inode.
    """

    def __init__(self, path: str, lock: FileLock, alone: Callable[[], Alone]) -> None:
        self._paths, self._lock, self._alone = (path, path + "-wal", path + "-shm"), lock, alone
        self._written = self._known = notes.written(path)
        self._overwritten, self._depth, self._turn = False, 0, 0
        self._own: tuple[Identity | None, ...] = (self._identities()[0], None, None)
        self.first: bytes | None = None  # settable: the head after the first event

    def check(self) -> None:
        """Raise ``StorageError`` in a writer's transaction if one of the files was replaced or overwritten."""
        identities = self._identities()
        if self._written != self._known:
            self._look_again()
        if identities != self._own or self._overwritten:
            if self._own[1:] == (None, None) and identities[0] == self._own[0] and None not in identities:
                self._own = identities
            if displaced := self.displaced():
                raise StorageError(displaced)

    def _look_again(self) -> None:
        """Find out if a noted checkpoint or another program wrote to the file."""
        path, lock = self._paths[0], self._lock
        for _ in range(LOOKS):
            before = notes.read(lock.path)
            written = notes.written(path)
            if before is None or before.begun:
                if not lock.acquire(0):
                    return  # a checkpoint is running; the next look compares the state in which it left the file
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
        """Judge a file to which a killed checkpoint may have written without a final note; the caller holds the lock."""
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
        """Note a checkpoint of ours, or a close that may make one: its beginning durably, then the state of the file after it.

        The caller holds the lock and has looked at ``is_replaced``. A caller who knows that everything is durably in the file
        calls the yielded function with True. Then the file has at least the event at the ``tip``, read before the checkpoint,
        and the head after it. A disk that takes no note does not prevent a checkpoint, which may be the way to get room again.
        """
        path, wal, _ = self._paths
        if self._depth or not notes.written(path)[0]:  # a context around this one notes it, or the file was moved away
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

    def note_as_opened(self, alone: Alone | None = None) -> None:
        """Note the file at its opening as sound, whoever wrote to it before; the caller holds the lock.

        ``alone`` saves a look into a file whose contents are known.
        """
        note = notes.read(self._lock.path)
        if note is None or note.begun or note.written != self._known:
            if note is None:
                note = Note(0, int.from_bytes(os.urandom(6)), False, self._known)
            alone, wal_bytes = alone or self._alone(), notes.written(self._paths[1])[0]
            tip = (alone.position, alone.head) if alone.position > 0 and not wal_bytes else (0, b"")
            turn = note.turn if note.begun else note.turn + 1
            note = Note(note.number + 1, turn, False, self._known, alone.first or note.first, *tip)
            self._note(note)
        self._turn = note.turn

    def _note(self, note: Note, *, durable: bool = False) -> None:
        with suppress(OSError):
            notes.write(self._lock.path, note, durable=durable)

    def displaced(self) -> str:
        """Return a sentence about the file that was replaced or overwritten; empty if none was."""
        for path, own, identity in zip(self._paths, self._own, self._identities(), strict=True):
            if own is not None and own != identity:
                fate = "renamed or deleted" if identity is None else "replaced by another"
                return (
                    f"{path} was {fate} while it was open; nothing more is written. Stop the program that moves it, close"
                    " this ledger, and open it again at its new place: proof.verify() tells if the log is complete"
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
        """Return True if another file lies in the place of one of ours, which a last close would delete or overwrite by name.

        The caller holds the file lock.
        """
        identities = self._identities()
        if self._written != self._known and not self._depth:
            self._look_again()
        return self._overwritten or any(
            None not in pair and pair[0] != pair[1] for pair in zip(self._own, identities, strict=True)
        )

    def _identities(self) -> tuple[Identity | None, ...]:
        identities: list[Identity | None] = []
        for path in self._paths:
            try:
                status = os.stat(path)
            except OSError:  # also if the directory is now a file
                identities.append(None)
                continue
            if not identities:
                self._written = status.st_size, status.st_mtime_ns
            identities.append((status.st_dev, status.st_ino))
        return tuple(identities)
