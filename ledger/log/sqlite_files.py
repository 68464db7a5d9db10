"""The SQLite file of a ledger: how it is made, opened, locked, watched, checkpointed and closed.

Only SQLite opens the file, because closing any other descriptor of the file would drop SQLite's locks. Every checkpoint
and every close of a connection holds ``<path>.lock``, a file of its own: the last close of a connection checkpoints, and two
checkpoints at the same time can lose a commit in SQLite before 3.51.3.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from typing import NamedTuple

from ledger.domain.errors import BusyError, ConflictError, LedgerError, NotFoundError, RejectedError, StorageError
from ledger.log import file_lock, platform
from ledger.log.file_lock import FileLock, Note, is_inherited, lock_of
from ledger.log.inspection import (
    APPLICATION_ID,
    COPY_TRIGGER,
    NO_SHARED_MEMORY,
    FileWithoutWal,
    bytes_of,
    foreign_wal,
    read_without_wal,
)
from ledger.log.paths import StrPath, checked_path

NEW = ".new.part"  # ends the name of a ledger that is being made
OLDEST = (3, 37, 0)  # the oldest version of SQLite on which the tests pass (tools/crash/sqlite_versions.py)
FORMAT = 1
LATE_CHECKPOINT_BYTES = 48 * 1024 * 1024  # the same while many large commits follow each other
CHECKPOINT_BYTES = 4 * 1024 * 1024  # a larger -wal is checkpointed after a commit
WAL_BYTES = 64 * 1024 * 1024  # above this each writer waits a moment for readers, so that the -wal can be emptied
HELP_SECONDS = 1.0  # the longest of these waits
CHECKPOINT_STEP_BYTES = 1024 * 1024  # growth after which a -wal that a reader kept is checkpointed again
LOOK_BYTES = 512 * 1024  # commits of this size together cause a look at the size of the -wal
COMMIT_BYTES = 48 * 1024  # the pages of one commit besides the states of its events
LOOKS = 100  # at the notes, while other processes' checkpoints begin and end
REPLICA = "replica"  # the table of a file that holds a machine's copy of a shared log

FOREIGN = {  # applications of the eventsourcing library write to this name with any recorder; here they get a clear refusal
    "stored_events": "CREATE VIEW stored_events AS SELECT NULL AS originator_id, NULL AS originator_version, NULL AS topic,"
    " NULL AS state WHERE 0",
    "stored_events_lie_elsewhere": "CREATE TRIGGER stored_events_lie_elsewhere INSTEAD OF INSERT ON stored_events BEGIN"
    " SELECT RAISE(ABORT, 'this file holds the log of a memory ledger: give the application a file of its own'); END",
}
SCHEMA = f"""
BEGIN;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE events (
    position INTEGER PRIMARY KEY, stream TEXT NOT NULL, version INTEGER NOT NULL, type TEXT NOT NULL,
    state TEXT NOT NULL, digest BLOB NOT NULL, head BLOB NOT NULL, key BLOB, erased_by INTEGER,
    UNIQUE (stream, version)
);
CREATE TABLE blobs (id TEXT NOT NULL PRIMARY KEY, data BLOB, erased_by INTEGER);
CREATE TABLE leases (work TEXT NOT NULL PRIMARY KEY, holder TEXT NOT NULL, until REAL NOT NULL);
CREATE TRIGGER events_follow BEFORE INSERT ON events BEGIN
    SELECT RAISE(ABORT, 'an event takes the position after the last')
    WHERE NEW.position IS NOT (SELECT coalesce(max(position), 0) + 1 FROM events);
    SELECT RAISE(ABORT, 'the stream has an event of this version')
    WHERE EXISTS (SELECT 1 FROM events WHERE stream = NEW.stream AND version = NEW.version);
END;
CREATE TRIGGER events_stay BEFORE DELETE ON events BEGIN
    SELECT RAISE(ABORT, 'an event is never deleted');
END;
CREATE TRIGGER events_change_by_erasure_only BEFORE UPDATE ON events BEGIN
    SELECT RAISE(ABORT, 'an event changes only in its state, by an erasure that is named')
    WHERE NEW.position IS NOT OLD.position OR NEW.stream IS NOT OLD.stream OR NEW.version IS NOT OLD.version
        OR NEW.type IS NOT OLD.type OR NEW.digest IS NOT OLD.digest OR NEW.head IS NOT OLD.head
        OR NEW.key IS NOT OLD.key OR NEW.erased_by IS NULL
        OR NOT EXISTS (SELECT 1 FROM events WHERE position = NEW.erased_by AND type = 'ContentErased');
END;
CREATE TRIGGER blobs_are_new BEFORE INSERT ON blobs BEGIN
    SELECT RAISE(ABORT, 'a blob of this id exists')
    WHERE EXISTS (SELECT 1 FROM blobs WHERE id = NEW.id OR rowid = NEW.rowid);
END;
CREATE TRIGGER blobs_stay BEFORE DELETE ON blobs BEGIN
    SELECT RAISE(ABORT, 'a blob is never deleted');
END;
CREATE TRIGGER blobs_change_by_erasure_only BEFORE UPDATE ON blobs BEGIN
    SELECT RAISE(ABORT, 'a blob is only emptied, by an erasure that is named')
    WHERE NEW.rowid IS NOT OLD.rowid OR NEW.id IS NOT OLD.id OR NEW.data IS NOT NULL OR NEW.erased_by IS NULL
        OR NOT EXISTS (SELECT 1 FROM events WHERE position = NEW.erased_by AND type = 'ContentErased');
END;
{"; ".join(FOREIGN.values())};
COMMIT;
"""
PARTS = frozenset(re.findall(r"CREATE (?:TABLE|TRIGGER) (\w+)", SCHEMA)).difference(FOREIGN)
Tables = Callable[[sqlite3.Connection], None]  # makes the tables that a new file has besides the log's own


def no_tables(_: sqlite3.Connection) -> None:
    """Make no table besides those of the log."""


class Blank(NamedTuple):
    """A ledger without events: the bytes of its file, and the list of its schema."""

    image: bytes
    objects: tuple[tuple[str, str, str, str | None], ...]  # kind, name, table, SQL


LISTED = "SELECT type, name, tbl_name, sql FROM"


@cache
def blank(tables: Tables) -> Blank:
    """Return a ledger without events, made in memory, so that making a ledger means writing one file."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(SCHEMA)
        connection.execute("BEGIN")
        tables(connection)
        connection.execute("COMMIT")
        image = bytearray(connection.serialize())
        objects = tuple(connection.execute(f"{LISTED} sqlite_master"))
    image[18:20] = b"\2\2"  # these bytes of the header say WAL mode, which a database in memory cannot have
    return Blank(bytes(image), objects)


# Set on every connection and read back.
SETTINGS = {
    "synchronous": 2,  # FULL: a commit that returned survives a power cut
    "foreign_keys": 1,
    "trusted_schema": 0,
    "cell_size_check": 1,
    "secure_delete": 1,
    "wal_autocheckpoint": 0,
    "journal_size_limit": CHECKPOINT_BYTES,
    "cache_size": -65536,  # KiB
    "mmap_size": 0,
    "fullfsync": 1,  # this setting and the next change something on macOS only, where fsync does not reach the disk
    "checkpoint_fullfsync": 1,
}


# --- errors ----------------------------------------------------------------------------------------------------------

_REASONS = {
    sqlite3.SQLITE_BUSY: "another process kept it locked for longer than the timeout",
    sqlite3.SQLITE_LOCKED: "it is locked",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: proof.verify() says where, and Ledger.recover() copies a log up to there; a"
    " machine's copy of a shared log is moved away instead, and the next open copies the log again",
    sqlite3.SQLITE_NOTADB: "the file is not a ledger, or its first page is damaged",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_READONLY: "the file cannot be written",
    sqlite3.SQLITE_PERM: "the file may not be opened",
    sqlite3.SQLITE_NOMEM: "there is not enough memory",
    sqlite3.SQLITE_TOOBIG: "a value is too big",
}


def typed(error: sqlite3.Error, path: str = "") -> LedgerError:
    """Return the error that replaces an error of SQLite; ``path`` names the file if its reader may not know which is meant.

    It is a ``ConflictError`` for a broken constraint, a ``BusyError`` for a lock, else a ``StorageError``.
    """
    if isinstance(error, sqlite3.IntegrityError):
        text = str(error)
        return ConflictError("a row like this exists" if " constraint failed" in text else text)
    if "no such module: fts5" in str(error):
        return StorageError("this Python's SQLite was built without FTS5, which a ledger needs: use another Python")
    code = getattr(error, "sqlite_errorcode", 0)
    reason = _REASONS.get(code & 0xFF) or getattr(error, "sqlite_errorname", None) or type(error).__name__
    kind = BusyError if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) else StorageError
    return kind(f"the ledger{f' {path}' if path else ''} could not be read or written: {reason}")


def check_runtime() -> None:
    """Raise ``StorageError`` for a SQLite that is too old or was built without serialize, which a new ledger needs."""
    needed = ".".join(map(str, OLDEST))
    if sqlite3.sqlite_version_info < OLDEST or not hasattr(sqlite3.Connection, "serialize"):
        raise StorageError(
            f"this Python has SQLite {sqlite3.sqlite_version}, and a ledger needs {needed} or newer with FTS5 and"
            " serialize: use another Python, or one with a newer SQLite"
        )


def no_ledger(path: str) -> str:
    """Return the words for a file that is not a ledger."""
    return "a database of another program" if bytes_of(path) else "an empty file"


# --- making and opening ----------------------------------------------------------------------------------------------


class LedgerFile:
    """A file that holds, or will hold, a ledger: it is checked, made if needed, and gives connections that are set up."""

    def __init__(
        self,
        path: StrPath,
        *,
        readonly: bool = False,
        busy_timeout_seconds: float = 30.0,
        create: bool = True,
        tables: Tables = no_tables,
        shared: bool = False,
    ) -> None:
        self.is_opened_to_read = readonly
        self.readonly: bool = readonly
        self.busy_timeout_seconds = busy_timeout_seconds
        self.created: bool = False
        self.immutable: bool = False
        self.is_copy: bool = False
        self.is_replica: bool = False
        self._is_new = False  # whether no file was there, not even an empty one
        self._is_for_shared_log = shared
        self.place: OpenFiles
        self.wal_bytes: int = WAL_BYTES  # settable
        self._help_above = 0  # the size above which helping is tried again
        self._checkpoint_above, self._unseen = {True: CHECKPOINT_BYTES, False: LATE_CHECKPOINT_BYTES}, 0
        try:
            check_runtime()
            self.path: str = checked_path(path)
            self._wal = self.path + "-wal"
            self._open(create and not readonly, tables)
        except sqlite3.Error as error:
            raise typed(error, os.fsdecode(path)) from error
        except UnicodeDecodeError as error:  # SQLite's own message quoted a damaged name
            raise StorageError(f"the ledger {os.fsdecode(path)} cannot be opened: its schema is damaged") from error
        except OSError as error:
            raise StorageError(f"the ledger {os.fsdecode(path)} cannot be opened: {error.strerror}") from error

    def _open(self, create: bool, tables: Tables) -> None:
        if is_inherited(self.path):
            raise ConflictError(
                "this ledger was opened by the process that this one was forked from: "
                "start a fresh process ('spawn'), or fork before the ledger is opened"
            )
        if not create and not os.path.lexists(self.path):
            raise NotFoundError(f"there is no ledger at {self.path}")
        self.lock: FileLock = lock_of(self.path)
        locked_before = os.path.lexists(self.lock.path)
        with self.hold():
            if create and not bytes_of(self.path):
                self._make(tables)
                self.place = OpenFiles(self.path, self.lock, self._alone)
                self.place.note_as_opened(FileWithoutWal(True))  # it has no event yet
            else:
                if why := foreign_wal(self.path):
                    raise RejectedError(why, rule="wal")
                try:
                    self._identify()
                except BaseException:
                    if not (locked_before or self.readonly):
                        self.lock.remove()  # it is new, and lies next to a file that it does not belong to
                    raise
                self.place = OpenFiles(self.path, self.lock, self._alone)
                if self.readonly:
                    self.immutable = not self._shared_memory_works()
                else:
                    self.place.note_as_opened()
                    with self.place.checkpointing():  # a close in here checkpoints the -wal that a crash left
                        self._turn_to_wal()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the file lock, taken within the busy timeout; a reader may find no lock file and then needs no lock."""
        with self.lock.hold(self.busy_timeout_seconds, create=not self.readonly):
            yield

    def _make(self, tables: Tables) -> None:
        """Make the whole file under another name and rename it, so that it exists complete or not at all."""
        if bytes_of(self._wal) or bytes_of(self.path + "-journal"):
            raise RejectedError(
                f"{self.path} is missing, but its -wal or -journal exists and may hold its last commits: "
                "put the file back, or move the -wal and the -journal away",
                rule="path",
            )
        new = self.path + NEW
        for suffix in ("", "-journal", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(new + suffix)
        with open(platform.new_private_file(new), "wb") as file:
            file.write(blank(tables).image)
            file.flush()
            os.fsync(file.fileno())
        self._is_new = not os.path.lexists(self.path)
        platform.move(new, self.path)
        self.created = True

    def remove_unused(self) -> None:
        """Remove the file if this object made it, it has no event after the first, and nobody else has it open.

        The connections of this object are closed by now.
        """
        if not self._is_new or not bytes_of(self.path):
            return
        with suppress(LedgerError, sqlite3.Error, OSError), self.hold():
            if self.place.is_replaced:
                return
            with self.place.checkpointing(), closing(self._connection_to_change()) as connection:
                is_used = "SELECT EXISTS (SELECT 1 FROM events WHERE position > 1)"
                if connection.execute(is_used).fetchone()[0]:
                    return
                connection.execute("PRAGMA journal_mode = DELETE")  # fails while another connection is open
                connection.execute("BEGIN EXCLUSIVE")
                if connection.execute(is_used).fetchone()[0]:
                    return
            os.unlink(self.path)  # closed by now, since Windows deletes no open file; the lock keeps everybody else out
            self.lock.remove()

    def _connection_to_change(self) -> sqlite3.Connection:
        return sqlite3.connect(platform.file_uri(self.path, "mode=rw"), uri=True, isolation_level=None)

    def _identify(self) -> None:
        """Check that the file is a ledger of a known format, without writing, so that any other file stays unchanged."""
        version, names = self._ledger_facts()
        self.is_copy = COPY_TRIGGER in names
        self.is_replica = REPLICA in names
        self.readonly = self.readonly or self.is_copy or (self.is_replica and not self._is_for_shared_log)
        if version > FORMAT and not self.readonly:
            raise RejectedError(
                f"{self.path} has format {version} of a newer version, which this version may only read (readonly=True);"
                f" this version writes format {FORMAT}",
                rule="format",
                limit=FORMAT,
                requested=version,
            )
        if version < 1 or not names >= PARTS:
            raise StorageError(f"{self.path} is damaged: a table or a trigger of the log is missing")

    def _ledger_facts(self) -> tuple[int, set[str]]:
        """Return the format and the names in a ledger's schema."""
        try:
            application_id, version, names = self._facts("mode=ro" if bytes_of(self._wal) else "immutable=1")
            if application_id == APPLICATION_ID:
                return version, names
            raise RejectedError(f"{self.path} is {no_ledger(self.path)}, not a ledger", rule="format")
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_NOTADB:
                raise
            raise StorageError(f"{self.path} is not a ledger, or its first page is damaged") from error

    def _facts(self, query: str) -> tuple[int, int, set[str]]:
        connection = sqlite3.connect(platform.file_uri(self.path, query), uri=True, timeout=self.busy_timeout_seconds)
        try:
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            application_id = connection.execute("PRAGMA application_id").fetchone()[0]
            return application_id, connection.execute("PRAGMA user_version").fetchone()[0], names
        except sqlite3.OperationalError as error:
            if query == "mode=ro" and error.sqlite_errorcode & 0xFF in NO_SHARED_MEMORY:
                raise RejectedError(
                    f"{self.path} has commits in its -wal, and its directory does not allow the -shm that is needed to read"
                    " them: copy the file and its -wal to a directory that can be written",
                    rule="readonly",
                ) from error
            raise
        finally:
            connection.close()

    def _shared_memory_works(self) -> bool:
        try:
            self._facts("mode=ro")
        except RejectedError:
            if bytes_of(self._wal):
                raise
            return False
        return True

    def _alone(self) -> FileWithoutWal:
        return read_without_wal(self.path, is_copy=self.is_copy)

    def check(self) -> None:
        """Raise ``StorageError`` in a writer's transaction if this file was replaced or overwritten."""
        self.place.check()

    @contextmanager
    def closing_one(self) -> Iterator[bool]:
        """Hold the file lock for the close of a connection, which may checkpoint; yield False if it must stay open."""
        with self.hold():
            if self.place.is_replaced:
                yield False
            elif self.readonly:
                yield True
            else:
                with self.place.checkpointing():
                    yield True

    def _turn_to_wal(self) -> None:
        """Set WAL mode again after a tool turned it off. The change ignores the busy timeout, hence the loop."""
        connection = self._connection_to_change()
        deadline = time.monotonic() + self.busy_timeout_seconds
        try:
            while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                try:
                    connection.execute("PRAGMA journal_mode = WAL")
                except sqlite3.OperationalError:
                    if time.monotonic() >= deadline:
                        raise
                    time.sleep(0.005)
        finally:
            connection.close()

    def connect(self) -> sqlite3.Connection:
        """Return a new connection, with every setting set and read back."""
        query = "mode=rw" if not self.readonly else "immutable=1" if self.immutable else "mode=ro"
        connection = sqlite3.connect(
            platform.file_uri(self.path, query),
            uri=True,
            timeout=self.busy_timeout_seconds,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
        try:
            for name, value in SETTINGS.items():
                connection.execute(f"PRAGMA {name} = {value}")
                accepted = connection.execute(f"PRAGMA {name}").fetchone()
                if accepted != (value,) and (name, accepted) != ("mmap_size", None):
                    raise StorageError(f"SQLite does not accept PRAGMA {name} = {value}")
            if displaced := self.place.displaced():
                raise StorageError(displaced)
        except BaseException:
            with self.closing_one() as may_close:
                if may_close:
                    connection.close()
            raise
        return connection

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def after_commit(self, connection: sqlite3.Connection, *, wrote: int | None = None, soon: bool = True) -> None:
        """Make a PASSIVE checkpoint if the -wal has grown, unless another is running; the commit stands in any case.

        ``wrote`` is the approximate number of bytes of the commit. After few bytes the size of the -wal is not read, which
        saves a system call. Pass ``soon=False`` while similar commits follow: pages that they write twice then go into the
        file once.
        """
        self._unseen += LOOK_BYTES if wrote is None else wrote + COMMIT_BYTES
        if self._unseen < LOOK_BYTES:
            return
        self._unseen = 0
        least, step = CHECKPOINT_BYTES, CHECKPOINT_STEP_BYTES
        if not soon:
            least, step = LATE_CHECKPOINT_BYTES, LATE_CHECKPOINT_BYTES // 4
        size = self._wal_bytes()
        is_too_large = size > max(self.wal_bytes, self._help_above)
        if size <= self._checkpoint_above[soon] and not is_too_large:
            if size <= least:
                self._checkpoint_above[soon] = least
            return
        self._unseen = LOOK_BYTES  # so that every commit looks until the checkpoint is done
        if is_too_large:
            self._help(connection)
            return
        with suppress(sqlite3.Error, OSError):
            if self.lock.acquire(0):
                try:
                    if self.place.is_replaced:
                        return
                    with self.place.checkpointing(_tip(connection)) as is_whole:
                        sql = "PRAGMA wal_checkpoint(PASSIVE)"
                        busy, pages, checkpointed = connection.execute(sql).fetchone()
                        is_whole(not busy and pages == checkpointed)
                    self._checkpoint_above[soon], self._unseen = size + step, 0
                finally:
                    self.lock.release()

    def _wal_bytes(self) -> int:
        try:
            return os.stat(self._wal).st_size
        except FileNotFoundError:
            return 0

    def _help(self, connection: sqlite3.Connection) -> None:
        """Empty the -wal after a short wait for readers and other checkpoints; a reader that stays may keep it."""
        with suppress(sqlite3.Error, OSError):
            if self.lock.acquire(HELP_SECONDS):
                try:
                    if not self.place.is_replaced:
                        self.truncate(connection, HELP_SECONDS)
                finally:
                    self.lock.release()
        left = self._wal_bytes()
        self._help_above = left + self.wal_bytes // 4 if left > self.wal_bytes else 0

    def truncate(self, connection: sqlite3.Connection, wait_seconds: float = 0) -> bool:
        """Write the -wal into the file and empty it; return False if a reader or a writer is still busy after the wait."""
        with self.hold(), self.place.checkpointing(_tip(connection)) as is_whole:
            connection.execute(f"PRAGMA busy_timeout = {int(wait_seconds * 1000)}")
            try:
                busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise
                return False
            finally:
                connection.execute(f"PRAGMA busy_timeout = {int(self.busy_timeout_seconds * 1000)}")
            is_whole(not busy)
            return not busy


def _tip(connection: sqlite3.Connection) -> tuple[int, bytes]:
    with suppress(sqlite3.Error):  # the checkpoint that follows reports the error
        row = connection.execute("SELECT position, head FROM events ORDER BY position DESC LIMIT 1").fetchone()
        if row is not None and isinstance(row[1], bytes):
            return row[0], row[1]
    return 0, b""


# --- the files that are open -------------------------------------------------------------------------------------------

Identity = tuple[int, int]  # device and inode


class OpenFiles:
    """The files of one ledger that SQLite has open: the file, and from the first transaction on its -wal and its -shm.

    Only checkpoints write to the file itself, and the lock file has a note of each of ours. Any other change of the file's
    size or time means that somebody copied another file over it, which keeps every name and inode.
    """

    def __init__(self, path: str, lock: FileLock, alone: Callable[[], FileWithoutWal]) -> None:
        self._paths, self._lock, self._alone = (path, path + "-wal", path + "-shm"), lock, alone
        self._written = self._known = file_lock.written(path)
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
            before = file_lock.read_note(lock.path)
            written = file_lock.written(path)
            if before is None or before.begun:
                if not lock.acquire(0):
                    return  # a checkpoint is running; the next look compares the state in which it left the file
                try:
                    self._judge()
                finally:
                    lock.release()
                return
            if before == file_lock.read_note(lock.path):
                self._overwritten |= written != before.written or before.turn != self._turn
                self._known = written
                return

    def _judge(self) -> None:
        """Judge a file to which a killed checkpoint may have written without a final note; the caller holds the lock."""
        note, written = file_lock.read_note(self._lock.path), file_lock.written(self._paths[0])
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
        # A context around this one notes it, or the file was moved away.
        if self._depth or not file_lock.written(path)[0]:
            yield lambda is_whole: None
            return
        before, whole = file_lock.read_note(self._lock.path), list[bool]()
        note = before or Note(0, self._turn, False, self._known)
        begun = Note(note.number + 1, note.turn, True, note.written, note.first, note.position, note.head)
        self._note(begun, durable=bool(file_lock.written(wal)[0]))
        self._depth += 1
        try:
            yield whole.append
        finally:
            self._depth -= 1
            self._known = file_lock.written(path)
            if before is not None and not before.begun and before.written == self._known:
                self._note(before)
            else:
                position, head = tip if any(whole) else (0, b"")
                first = (self.first if position else None) or note.first
                self._note(Note(note.number + 2, note.turn, False, self._known, first, position, head))

    def note_as_opened(self, alone: FileWithoutWal | None = None) -> None:
        """Note the file at its opening as sound, whoever wrote to it before; the caller holds the lock.

        ``alone`` saves a look into a file whose contents are known.
        """
        note = file_lock.read_note(self._lock.path)
        if note is None or note.begun or note.written != self._known:
            if note is None:
                note = Note(0, int.from_bytes(os.urandom(6)), False, self._known)
            alone, wal_bytes = alone or self._alone(), file_lock.written(self._paths[1])[0]
            tip = (alone.position, alone.head) if alone.position > 0 and not wal_bytes else (0, b"")
            turn = note.turn if note.begun else note.turn + 1
            note = Note(note.number + 1, turn, False, self._known, alone.first or note.first, *tip)
            self._note(note)
        self._turn = note.turn

    def _note(self, note: Note, *, durable: bool = False) -> None:
        with suppress(OSError):
            file_lock.write_note(self._lock.path, note, durable=durable)

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
