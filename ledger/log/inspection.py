"""The inspection of a ledger's file, which changes nothing, and the mark of a copy of a log up to a position.

A file may be read without its -wal, have the -wal of another file, or be damaged. A copy takes no further event. Its log is the
same as the ledger's, byte for byte, so what was erased after that position lies in a table next to the log.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple

from ledger.log import file_lock, platform
from ledger.log.file_lock import lock_of

APPLICATION_ID = 0x4C656467  # "Ledg"
NO_SHARED_MEMORY = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def bytes_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


# --- the file itself, and the -wal of another file -------------------------------------------------------------------


class FileWithoutWal(NamedTuple):
    """The contents of the file itself, without its -wal, as far as they can be read.

    A checkpoint that readers kept from its end leaves pages of several moments. Then only the first row can be trusted, and
    a missing first row proves nothing.
    """

    is_ledger: bool
    first: bytes = b""  # the head after LedgerCreated
    position: int = 0  # of the last event; -1 if it cannot be read
    head: bytes = b""  # after the last event


def read_without_wal(path: str, *, is_copy: bool = False) -> FileWithoutWal:
    """Return the contents of the file itself, without its -wal.

    A copy for reading only counts as a ledger if ``is_copy`` is true.
    """
    if not bytes_of(path):
        return FileWithoutWal(False)
    first, last = "position = 1 AND stream = 'ledger' AND type = 'LedgerCreated'", "1 ORDER BY position DESC LIMIT 1"
    sql = "SELECT position, head FROM events WHERE typeof(head) = 'blob' AND"
    try:
        with closing(sqlite3.connect(platform.file_uri(path, "immutable=1"), uri=True)) as connection:
            (application_id,) = connection.execute("PRAGMA application_id").fetchone()
            if application_id != APPLICATION_ID or (is_marked_copy(connection) and not is_copy):
                return FileWithoutWal(False)
            creation = connection.execute(f"{sql} {first}").fetchone()
            if creation is None:
                return FileWithoutWal(True)
            return FileWithoutWal(True, creation[1], *connection.execute(f"{sql} {last}").fetchone())
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return FileWithoutWal(getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_NOTADB, position=-1)


def foreign_wal(path: str) -> str:
    """Return a sentence with the reason why the -wal belongs to another file than this file; empty if no reason is known.

    SQLite would read the pages of a foreign -wal into this file without a warning. The caller holds the file lock.

    A file that is as the notes say owns its -wal. Otherwise the -wal is foreign to a file outside of WAL mode, such as
    a backup, to the file of another ledger, and to a file that is older than the last checkpoint.
    """
    note = file_lock.read_note(f"{path}.lock")
    if not bytes_of(f"{path}-wal") or not bytes_of(path):
        return ""
    if note is not None and not note.begun and note.written == file_lock.written(path):
        return ""
    contents = read_without_wal(path, is_copy=True)
    if not contents.is_ledger and (note is None or not note.first):
        return ""  # a database of another program: the caller refuses it with a better message
    if contents.first and _mode_of(path) == b"\1\1":
        why = "the file is a backup that has no -wal of its own"
    elif note is None:
        return ""
    elif contents.first and note.first and contents.first != note.first:
        why = "the file is another ledger's"
    elif note.begun or not note.position or contents.position < 0:
        return ""  # the file has pages of several moments, or none after a power cut; the -wal has the missing pages
    elif not contents.is_ledger:
        why = "the file is no ledger"
    elif contents.position < note.position:
        why = "the file is older than its last checkpoint"
    elif _head_at(path, note.position) not in (None, note.head):
        why = "the file holds other events than at its last checkpoint"
    else:
        return ""
    return (
        f"{path}-wal belongs to another file than {path}: {why}. If no process has it open, and the file is the one that you"
        f" want, move {path}-wal and {path}-shm away and open it again; otherwise put back the file whose -wal this is"
    )


def _head_at(path: str, position: int) -> bytes | None:
    """Return the head after an event in the file itself; None if the file cannot be read."""
    with (
        suppress(sqlite3.Error, UnicodeDecodeError),
        closing(sqlite3.connect(platform.file_uri(path, "immutable=1"), uri=True)) as connection,
    ):
        row = connection.execute("SELECT head FROM events WHERE position = ?", (position,)).fetchone()
        return row[0] if row is not None else b""
    return None


_MODE_PROGRAM = (
    # prints the bytes 1 1 for a file outside of WAL mode
    "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read(20)[18:])"
)


def _mode_of(path: str) -> bytes:
    """Return the two bytes of a file's header that state its journal mode.

    Another process reads them: if this process opened the file, closing it would drop SQLite's locks.
    """
    import subprocess  # slow to load and rarely needed

    command = [sys.executable, "-I", "-S", "-c", _MODE_PROGRAM, path]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=30)
        return done.stdout
    return b""


# --- a file that may be damaged --------------------------------------------------------------------------------------


@contextmanager
def examining(path: str) -> Iterator[sqlite3.Connection]:
    """Lend a connection that only reads and trusts nothing, for a file that may be damaged.

    The connection is closed under the file lock. Errors of SQLite are raised unchanged.
    """
    lock, query = lock_of(path), "mode=ro"
    with lock.hold(30.0, create=False):
        connection = sqlite3.connect(platform.file_uri(path, query), uri=True, timeout=30.0, isolation_level=None)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            connection.close()
            if error.sqlite_errorcode & 0xFF not in NO_SHARED_MEMORY or bytes_of(path + "-wal"):
                raise
            connection = sqlite3.connect(platform.file_uri(path, "immutable=1"), uri=True, isolation_level=None)
        except BaseException:
            connection.close()
            raise
    try:
        connection.execute("PRAGMA trusted_schema = 0")
        yield connection
    finally:
        with lock.hold(30.0, create=False):
            connection.close()


# --- copies of a log up to a position --------------------------------------------------------------------------------

COPY_TRIGGER = "events_end"  # the trigger that refuses further events
COPY_SCHEMA = f"""
CREATE TABLE erased_later (position INTEGER PRIMARY KEY, version INTEGER NOT NULL, state TEXT NOT NULL);
CREATE TRIGGER {COPY_TRIGGER} BEFORE INSERT ON events BEGIN
    SELECT RAISE(ABORT, 'a copy of a ledger up to a position takes no event');
END;
"""
COPY_REFUSES = (
    "this is a copy of a ledger up to a position; it is for reading and accepts no command: replay(…, branch=True) makes"
    " a copy that is a ledger of its own"
)
COPY_PASSES = (
    "this is a copy of a ledger up to a position, and a file made from it would pass for the ledger:"
    " replay(…, branch=True) makes a copy that does not"
)
ErasedLater = tuple[int, int, str]  # position, version and state of a ContentErased after the copy's end


def mark_copy(connection: sqlite3.Connection, later: Iterable[ErasedLater]) -> None:
    """Mark a file as a copy, with the erasures that came after its end."""
    connection.executescript(COPY_SCHEMA)
    connection.executemany("INSERT INTO erased_later VALUES (?, ?, ?)", later)


def is_marked_copy(connection: sqlite3.Connection) -> bool:
    sql = "SELECT 1 FROM main.sqlite_master WHERE type = 'trigger' AND name = ?"
    return connection.execute(sql, (COPY_TRIGGER,)).fetchone() is not None


def erased_later(connection: sqlite3.Connection) -> list[ErasedLater]:
    """Return the erasures after the end of a copy that took texts out of the copy, in the order of the log."""
    if not is_marked_copy(connection):
        return []
    return connection.execute("SELECT position, version, state FROM main.erased_later ORDER BY position").fetchall()
