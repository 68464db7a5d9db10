"""After an erasure: nothing of the texts is left in the pages, the text index, the -wal and what lies next to the file.

SQLite overwrites what it deletes (``secure_delete``), but a full-text index keeps deleted words until its segments are
merged, the -wal keeps old pages until it is truncated, and a page that was divided may keep a copy in its free part. So
the files are searched, in a process of its own (``ledger.erasure.scanning``), and written again if anything is found.
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

from ledger.domain.errors import StorageError
from ledger.engine.log_reading import Reading
from ledger.engine.pipeline import Writer
from ledger.erasure import remaining, scanning
from ledger.erasure.scanning import FORMS, Scan
from ledger.store.event_store import EventStore
from ledger.store.making import remove_unfinished
from ledger.store.paths import PART
from ledger.store.sqlite_files import NEW, typed
from projections.core.projector import text_indexes
from projections.core.rebuild import Rebuild, RebuildUnderWay

MERGED_PAGES = 500  # of the text index, in one transaction
PATIENCE_SECONDS = 1.0  # for readers and writers who keep the -wal from being emptied
COMPANIONS = (
    "",
    "-wal",
    "-shm",
    "-journal",
    *(new + end for new in (NEW, PART) for end in ("", "-wal", "-shm", "-journal")),
)


class Purge(Struct, frozen=True):
    """What came of it: why it is not done yet ("" when it is), and what was searched for what."""

    why: str
    searched: tuple[str, ...] = ()
    bytes_searched: int = 0
    files: tuple[str, ...] = ()
    hits: int = 0  # places that hold such a text and may, for another event of the log does
    held: Mapping[int, str] = {}  # those events: position -> a piece of text that it holds
    own_tables: tuple[str, ...] = ()  # of people's own, that hold one


class Purging:
    """One purge of one ledger's files."""

    def __init__(self, store: EventStore, writer: Writer, ledger_id: str) -> None:
        self.store, self.writer, self._ledger_id = store, writer, ledger_id

    def run(self, texts: Iterable[str] | None, raw: Sequence[bytes] = (), *, indexed: bool = True) -> Purge:
        """Purges and searches. Without texts, for nobody knows them any more, the whole file is written again instead.

        ``raw`` are bytes that tell of the texts: the vectors that were made of them.
        """
        self._drop_remains()
        if indexed:
            for owner, index in text_indexes():
                self._merge_index(owner, index.name)
        if texts is None:
            self._write_again()
        if not self._truncate():
            return Purge("somebody reads or writes, so that the -wal, which may hold the texts, cannot be emptied yet")
        if texts is None:
            return Purge("")
        given = list(texts)
        found = self._search(given, raw)
        if found.why:
            self._write_again()
            if not self._truncate():
                return Purge(
                    "somebody reads or writes, so that the -wal, which may hold the texts, cannot be emptied yet"
                )
            found = self._search(given, raw)
        return found

    def _drop_remains(self) -> None:
        """The copies that were being made by whoever was killed; the tables of a rebuild that was, or that the erasure ended."""
        remove_unfinished(self.store)
        with suppress(RebuildUnderWay):  # one that began after the erasure has dropped them itself
            Rebuild(self.store, self.writer.secret, self._ledger_id, Reading, None).drop_remains()

    def _merge_index(self, owner: str, index: str) -> None:
        """All segments of a text index into one, in which no deleted word is left."""
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
        """Every page of the file, in one transaction; the copy on the way is in memory, for no text goes to another disk."""
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
        read, hits = _ask(paths, texts, raw)
        scan = Scan(texts, raw)
        pieces = {scan.patterns[number][0] for number, _, _ in hits}
        rightly, held = self._still_held(scan, pieces) if pieces else (set[int](), {})
        own = self._own_tables(scan, pieces)
        rightly = rightly.union(*own.values())
        remains = {path for number, path, _ in hits if scan.patterns[number][0] not in rightly}
        count = sum(count for number, _, count in hits if scan.patterns[number][0] in rightly)
        found_in = ", ".join(sorted(map(os.path.basename, remains)))
        why = f"a text is still found in {found_in}" if remains else ""
        return Purge(why, FORMS, read, names, count, held, tuple(sorted(own)))

    def _own_tables(self, scan: Scan, pieces: set[int]) -> dict[str, set[int]]:
        """Nobody but their owner may change these, so that what they hold keeps no erasure from its end."""
        with self.store.snapshot() as connection:
            return remaining.own_tables(connection, scan, pieces)

    def _still_held(self, scan: Scan, pieces: set[int]) -> tuple[set[int], Mapping[int, str]]:
        """Those that some event of the log still holds: kept, of another user, or too common to be anybody's."""
        with self.store.snapshot() as connection:
            return remaining.holders(connection, scan, pieces)


def _ask(paths: list[str], texts: list[str], raw: Sequence[bytes]) -> tuple[int, list[tuple[int, str, int]]]:
    """What the process beside finds; the texts go through a pipe and are written nowhere."""
    asked = json.dumps({"paths": paths, "texts": texts, "raw": [each.hex() for each in raw]}).encode()
    command = [sys.executable, "-I", "-S", scanning.__file__]
    try:
        done = subprocess.run(command, input=asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        answer = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise StorageError(f"the files could not be searched ({type(error).__name__})") from None
    return answer["bytes"], [(number, path, count) for number, path, count in answer["hits"]]
