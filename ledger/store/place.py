"""Whether the files of an open ledger are still the ones that were opened, and what is in them is still of this ledger."""

from __future__ import annotations

import os
from collections.abc import Callable

from ledger.domain.errors import StorageError

Identity = tuple[int, int]  # device and inode


class Place:
    """What SQLite has open of one ledger: the file, its -wal and its -shm; the last two from the first transaction on.

    The file itself is written by checkpoints alone. So where it was written to, one look at what ``alone`` finds in it tells
    a checkpoint from somebody who copied another file over it, which leaves every name and inode as it was.
    """

    def __init__(self, path: str, alone: Callable[[], bytes | None]) -> None:
        self._paths, self._alone = (path, path + "-wal", path + "-shm"), alone
        self._written, self._overwritten = 0, False
        self._own: tuple[Identity | None, ...] = (self._found()[0], None, None)
        self.first: bytes | None = None  # settable: the head after the first event
        self._seen = self._written

    def check(self) -> None:
        """For the writer, in a transaction: ``StorageError`` where one of them is not the one that was opened."""
        found = self._found()
        if found != self._own or self._overwritten:
            if self._own[1:] == (None, None) and found[0] == self._own[0] and None not in found:
                self._own = found
            elif displaced := self.displaced():
                raise StorageError(displaced)

    @property
    def was_written(self) -> bool:
        """Whether the file itself was written to since it was looked into, as of the last ``check``."""
        return self._written != self._seen

    def wrote(self) -> None:
        """A checkpoint of our own, behind a ``check``: what it wrote needs no look."""
        if not self.was_written:
            self._found()
            self._seen = self._written

    def look_inside(self) -> None:
        """Whether another ledger, or what is none, was copied over it; for whoever holds the file lock.

        An older copy of the same ledger cannot be told from a checkpoint that readers kept from its end.
        """
        seen, first = self._written, self._alone()
        self._overwritten |= first is not None and self.first is not None and first != self.first
        self._seen = seen

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
            return (
                f"another file was copied over {self._paths[0]} while it was open; nothing more is written. Close every "
                f"process that has it open, remove {self._paths[1]} and {self._paths[2]}, which belong to the file that "
                "was there, and copy the file once more"
            )
        return ""

    @property
    def is_replaced(self) -> bool:
        """Whether another file lies where one of ours did, which a last close would delete or write over by its name;
        for whoever holds the file lock."""
        found = self._found()
        if self.was_written:
            self.look_inside()
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
                self._written = status.st_mtime_ns
            found.append((status.st_dev, status.st_ino))
        return tuple(found)
