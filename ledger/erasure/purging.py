"""The purge after an erasure: the removal of the erased texts from every file that may hold them.

SQLite overwrites deleted data (``secure_delete``), but three places keep old text. A full-text index keeps deleted
words until its segments are merged. The -wal keeps old pages until it is truncated. A page that was divided may keep a
copy in its free part. Therefore the files are searched, in a separate process (``ledger.erasure.scanning``), and
written again if a text is found.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from ledger.core.command import Writer
from ledger.core.reads import FoldReading
from ledger.domain.errors import StorageError
from ledger.erasure import remaining, scanning
from ledger.erasure.scanning import FORMS, Scan
from ledger.log.event_store import EventStore
from ledger.log.lease import remove_unfinished_copies
from ledger.log.paths import PART
from ledger.log.sqlite_files import NEW, typed
from projections.core.projector import text_indexes
from projections.core.rebuild import Rebuild, RebuildUnderWay

MERGED_PAGES = 500  # pages of a text index merged in one transaction
PATIENCE_SECONDS = 1.0  # the wait for readers and writers that keep the -wal from being emptied
COMPANIONS = (
    "",
    "-wal",
    "-shm",
    "-journal",
    *(new + end for new in (NEW, PART) for end in ("", "-wal", "-shm", "-journal")),
)
_WAL_IN_USE = "a reader or a writer is active, so the -wal, which may hold the texts, cannot be emptied yet"


class Purge(Struct, frozen=True):
    """The result of a purge.

    Attributes:
        why: The reason why texts may still be in the files; "" if the purge is done.
        searched: The forms of the texts that were searched for, such as "utf-8" and "base64".
        bytes_searched: The number of bytes that were searched.
        files: The names of the files that were searched.
        hits: The places with a text that may stay, because another event of the log holds the text.
        held: These other events: position -> a piece of the text.
        own_tables: The tables that people added themselves and that hold such a text.
    """

    why: str
    searched: tuple[str, ...] = ()
    bytes_searched: int = 0
    files: tuple[str, ...] = ()
    hits: int = 0
    held: Mapping[int, str] = {}
    own_tables: tuple[str, ...] = ()


class Purging:
    """A purge of one ledger's files."""

    def __init__(self, store: EventStore, writer: Writer, ledger_id: str) -> None:
        self.store = store
        self.writer = writer
        self._ledger_id = ledger_id

    def run(self, texts: Iterable[str] | None, raw: Sequence[bytes] = (), *, indexed: bool = True) -> Purge:
        """Purge and search the files.

        Args:
            texts: The erased texts, or None if they are no longer known; the whole file is then written again instead.
            raw: Bytes that reveal the texts: the vectors that were computed from them.
            indexed: True to merge the text indexes too.
        """
        self._drop_remains()
        if indexed:
            for owner, index in text_indexes():
                self._merge_index(owner, index.name)
        if texts is None:
            self._write_again()
        if not self._truncate():
            return Purge(_WAL_IN_USE)
        if texts is None:
            return Purge("")
        searched_texts = list(texts)
        purge = self._search(searched_texts, raw)
        if purge.why:
            self._write_again()
            if not self._truncate():
                return Purge(_WAL_IN_USE)
            purge = self._search(searched_texts, raw)
        return purge

    def _drop_remains(self) -> None:
        """Remove unfinished copies of the file, and the tables of a rebuild that ended or that the erasure ended."""
        remove_unfinished_copies(self.store)
        with suppress(RebuildUnderWay):  # a rebuild that began after the erasure has dropped the old tables itself
            Rebuild(self.store, self.writer.secret, self._ledger_id, FoldReading, None).drop_remains()

    def _merge_index(self, owner: str, index: str) -> None:
        """Merge all segments of a text index into one, which holds no deleted word."""
        sql = f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)"
        pages = -MERGED_PAGES
        while True:
            with self.store.transact() as transaction:
                self.writer.attend(transaction)
                if owner in self.writer.projector.suspended:
                    return
                before = transaction.connection.total_changes
                transaction.connection.execute(sql, (pages,))
                if transaction.connection.total_changes - before < 2 and pages > 0:
                    return
            pages = MERGED_PAGES

    def _truncate(self) -> bool:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.store.checkpoint():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def _write_again(self) -> None:
        """Write every page of the file again, in one transaction.

        The temporary copy is kept in memory, so that no text reaches another disk.
        """
        with self.store.lent() as connection:
            try:
                connection.execute("PRAGMA temp_store = MEMORY")
                connection.execute("VACUUM")
            except sqlite3.Error as error:
                raise typed(error) from error
            finally:
                connection.execute("PRAGMA temp_store = DEFAULT")

    # --- the search ----------------------------------------------------------------------------------------------

    def _search(self, texts: list[str], raw: Sequence[bytes]) -> Purge:
        paths = [self.store.path + end for end in COMPANIONS if os.path.lexists(self.store.path + end)]
        names = tuple(map(os.path.basename, paths))
        read, hits = _search_in_process(paths, texts, raw)
        scan = Scan(texts, raw)
        pieces = {scan.patterns[number][0] for number, _, _ in hits}
        allowed, held = self._still_held(scan, pieces) if pieces else (set[int](), {})
        own = self._own_tables(scan, pieces)
        allowed = allowed.union(*own.values())
        remains = {path for number, path, _ in hits if scan.patterns[number][0] not in allowed}
        count = sum(count for number, _, count in hits if scan.patterns[number][0] in allowed)
        found_in = ", ".join(sorted(map(os.path.basename, remains)))
        why = f"a text is still found in {found_in}" if remains else ""
        return Purge(why, FORMS, read, names, count, held, tuple(sorted(own)))

    def _own_tables(self, scan: Scan, pieces: set[int]) -> dict[str, set[int]]:
        """Return the tables of other people that hold one of these pieces.

        Only their owner may change such tables, so their text does not keep the erasure pending.
        """
        with self.store.snapshot() as connection:
            return remaining.own_tables(connection, scan, pieces)

    def _still_held(self, scan: Scan, pieces: set[int]) -> tuple[set[int], Mapping[int, str]]:
        """Return the pieces that an event of the log still holds, such as a kept one or another user's."""
        with self.store.snapshot() as connection:
            return remaining.holders(connection, scan, pieces)


def _search_in_process(
    paths: list[str], texts: list[str], raw: Sequence[bytes]
) -> tuple[int, list[tuple[int, str, int]]]:
    """Return (bytes read, hits) from the separate search process.

    The texts go through a pipe and are written nowhere.
    """
    request = json.dumps({"paths": paths, "texts": texts, "raw": [vector.hex() for vector in raw]}).encode()
    command = [sys.executable, "-I", "-S", scanning.__file__]
    try:
        done = subprocess.run(command, input=request, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        answer = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise StorageError(f"the files could not be searched ({type(error).__name__})") from None
    return answer["bytes"], [(number, path, count) for number, path, count in answer["hits"]]
