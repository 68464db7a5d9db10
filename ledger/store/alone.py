"""The file itself, without its -wal: which ledger it is, and whether the -wal next to it is its own."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing, suppress
from string import ascii_letters, digits

from ledger.store import copies, notes
from ledger.store.place import Alone

APPLICATION_ID = 0x4C656467  # "Ledg"


def alone(path: str, *, is_copy: bool = False) -> Alone:
    """Return the contents of the file itself; of a copy for reading only where ``is_copy`` expects one."""
    if not bytes_of(path):
        return Alone(False)
    first, last = "position = 1 AND stream = 'ledger' AND type = 'LedgerCreated'", "1 ORDER BY position DESC LIMIT 1"
    sql = "SELECT position, head FROM events WHERE typeof(head) = 'blob' AND"
    try:
        with closing(sqlite3.connect(uri_of(path, "immutable=1"), uri=True)) as connection:
            (application_id,) = connection.execute("PRAGMA application_id").fetchone()
            if application_id != APPLICATION_ID or (copies.is_copy(connection) and not is_copy):
                return Alone(False)
            begun = connection.execute(f"{sql} {first}").fetchone()
            if begun is None:
                return Alone(True)
            return Alone(True, begun[1], *connection.execute(f"{sql} {last}").fetchone())
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return Alone(getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_NOTADB, position=-1)


_HEADER = (
    "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read(20)[18:])"  # 1 1 for a file outside of WAL mode
)


def foreign_wal(path: str) -> str:
    """Return the reason why the -wal next to a file is another file's, as a sentence; empty where nothing says so.

    SQLite would read its pages into this file without a word. For the holder of the file lock. The -wal of a file that is as
    the notes say is its own. Otherwise a file outside of WAL mode, such as a backup, has none; and a file of another ledger,
    or one that is older than the last checkpoint, is not the one whose -wal this is.
    """
    note = notes.read(f"{path}.lock")
    if not bytes_of(f"{path}-wal") or not bytes_of(path):
        return ""
    if note is not None and not note.begun and note.written == notes.written(path):
        return ""
    contents = alone(path, is_copy=True)
    if not contents.is_ledger and (note is None or not note.first):
        return ""  # of another program: the file and its -wal are told apart from a ledger elsewhere
    if contents.first and _mode_of(path) == b"\1\1":
        why = "the file is a backup that has no -wal of its own"
    elif note is None:
        return ""
    elif contents.first and note.first and contents.first != note.first:
        why = "the file is another ledger's"
    elif note.begun or not note.position or contents.position < 0:
        return ""  # pages of several moments, and after a power cut none at all, which the -wal has
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
    """Return the head after an event in the file itself; None where it cannot be read."""
    with (
        suppress(sqlite3.Error, UnicodeDecodeError),
        closing(sqlite3.connect(uri_of(path, "immutable=1"), uri=True)) as connection,
    ):
        row = connection.execute("SELECT head FROM events WHERE position = ?", (position,)).fetchone()
        return row[0] if row is not None else b""
    return None


def _mode_of(path: str) -> bytes:
    """Return the two bytes of a file that say its journal mode, read by a process beside: see the top of this module."""
    import subprocess  # slow to load, and few need it

    command = [sys.executable, "-I", "-S", "-c", _HEADER, path]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=30)
        return done.stdout
    return b""


_PLAIN = frozenset("/-._~" + ascii_letters + digits)


def uri_of(path: str, query: str) -> str:
    """Built by us and percent-encoded, so that no character of a name can say anything to SQLite."""
    given = (chr(byte) for byte in os.fsencode(path))
    quoted = "".join(each if each in _PLAIN else f"%{ord(each):02X}" for each in given)
    return f"file://{quoted}?{query}"


def bytes_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
