"""The doctor: everything that may be wrong with a ledger's file and the place where it lies, each with what to do about it.

It only looks, at a file that does not open, too, and says what to do.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from ledger import answers
from ledger.domain.errors import ConflictError, LedgerError, NotFoundError
from ledger.domain.events import TYPES
from ledger.engine.engine import Engine
from ledger.engine.log_reading import READER, WRITER, last_upgrade, least, read_event
from ledger.engine.work import now
from ledger.maintenance.opening import held_by_another
from ledger.maintenance.rebuilding import OF_PAGES, OF_PROJECTIONS
from ledger.proof.verifying import verify
from ledger.store import making, notes
from ledger.store.alone import APPLICATION_ID, foreign_wal
from ledger.store.file_lock import lock_of
from ledger.store.lease import is_alive
from ledger.store.paths import PART, StrPath, check_own_name, checked_path, path_name
from ledger.store.sqlite_files import (
    FORMAT,
    NEW,
    OLDEST,
    SETTINGS,
    WAL_BYTES,
    LedgerFile,
    examining,
    no_ledger,
    typed,
)
from projections.core import own_registry as registry
from projections.core.rebuild import FRESH, OLD, prefixed
from projections.views import erasures

FAULTS = (  # of versions of SQLite, from the first to the last that has it: a level, the fault, and the remedy
    # sqlite.org/wal.html names the first; the second was withdrawn by its makers a week later; the third is found by
    # tests/projections/test_integrity.py on each version that tools/crash/sqlite_versions.py tries, up to the last named here.
    (
        (3, 7, 0), (3, 51, 2), "note",
        "two checkpoints at once can lose a commit; this product holds a lock of its own at each, so it is not exposed",
        "let no other program write to the file, or use SQLite 3.51.3 or newer",
    ),
    (
        (3, 52, 0), (3, 52, 0), "warning",
        "SQLite's makers withdrew it, for it is not compatible with the versions before",
        "use SQLite 3.51.3, or one newer than 3.52.0",
    ),
    (
        (3, 45, 0), (3, 54, 1), "note",
        "a connection that has read a text index calls it malformed when another one has merged it since; this product"
        " reads each index again before its check, so it is not exposed",
        "where another program's integrity_check finds a malformed inverted index, ask it on a new connection",
    ),
)  # fmt: skip
READ_MARKS = {*range(123, 128)}  # bytes of the -shm that a reader locks (sqlite.org/walformat.html)
LEAST_FREE_BYTES = 8 * 1024 * 1024  # for a -wal and its checkpoint
LOCK_SECONDS = 1.0  # to wait for who checkpoints
AHEAD = timedelta(minutes=1)  # of the clock, before a time is called the future's

Progress = Callable[[int, int], None]

RECOVER = (
    "never write to it again; recover your last backup at a new place (recover BACKUP --db NEW), and keep this file"
)
REBUILD = "rebuild makes the projections again from the log, which is sound"


def doctor(engine: Engine, *, progress: Progress | None = None) -> answers.DoctorReport:
    """Looks at everything that may be wrong with this ledger, and says what to do about it; changes nothing.

    ``progress`` is called with (steps done, steps).
    """
    if engine.writer.batching:
        raise ConflictError("maintenance.doctor() cannot run inside a batch; leave the batch first")
    displaced, path = engine.store.displaced(), engine.store.path
    if displaced and not os.path.lexists(path):
        report = answers.DoctorReport(path=path, ok=False, findings=(), seconds=0.0)
    else:
        report = examine(path, progress=progress)
    if displaced:
        finding = answers.Finding(level="problem", what="file", found=displaced)
        return replace(report, ok=False, findings=(finding, *report.findings))
    return report


def examine(path: StrPath, *, progress: Progress | None = None) -> answers.DoctorReport:
    """Looks at a file and the place where it lies; only what is no file at all is refused (``NotFoundError``)."""
    started, name = time.monotonic(), os.path.abspath(path_name(path))
    if "\0" in name or not os.path.lexists(name):
        raise NotFoundError(f"there is no ledger at {name[:1000]!r}")
    visit = _Visit(name, progress)
    visit.all()
    findings = tuple(visit.findings)
    ok = not any(each.level == "problem" for each in findings)
    return answers.DoctorReport(path=name, ok=ok, findings=findings, seconds=time.monotonic() - started)


class _Visit:
    """One look at one file."""

    def __init__(self, path: str, progress: Progress | None) -> None:
        self.path, self._progress = path, progress
        self.findings: list[answers.Finding] = []

    def tell(self, level: str, what: str, found: str, hint: str = "") -> None:
        self.findings.append(answers.Finding(level=level, what=what, found=found, hint=hint))

    @contextmanager
    def at(self, what: str) -> Iterator[None]:
        """What cannot be looked at is a problem, and the rest is looked at all the same."""
        try:
            yield
        except sqlite3.Error as error:
            self.tell("problem", what, f"{typed(error)}", RECOVER)
        except LedgerError as error:
            self.tell("problem", what, str(error))
        except OSError as error:
            self.tell("problem", what, f"cannot be looked at: {error.strerror}")

    def all(self) -> None:
        self.runtime()
        if not self.place():
            return
        for what, look in {
            "-wal": self.wal,
            "permissions": self.permissions,
            "files next to it": self.leftovers,
            "lock": self.lock,
            "file times": self.file_times,
            "disk space": self.disk,
            "settings": self.settings,
        }.items():
            with self.at(what):
                look()
        with self.at("file"), examining(self.path) as connection:
            connection.execute("BEGIN")
            if self.kind(connection):
                self.check(connection)
                self.work_under_way(connection)

    # --- the runtime and the place -------------------------------------------------------------------------------

    def runtime(self) -> None:
        version, name = sqlite3.sqlite_version_info, f"SQLite {sqlite3.sqlite_version}"
        if version < OLDEST:
            self.tell("problem", "SQLite", f"{name} is too old for a ledger, which needs {'.'.join(map(str, OLDEST))}",
                      "use a Python with a newer SQLite")  # fmt: skip
            return
        faults = [fault for fault in FAULTS if fault[0] <= version <= fault[1]]
        for first, last, level, text, hint in faults:
            span = ".".join(map(str, first)) + (f" to {'.'.join(map(str, last))}" if last != first else "")
            self.tell(level, "SQLite", f"{name} has a fault of {span}: {text}", hint)
        if not faults:
            self.tell("ok", "SQLite", f"{name}, of which no fault is known that concerns a ledger")

    def place(self) -> bool:
        """Whether it is a file that may be looked into."""
        try:
            check_own_name(os.path.basename(self.path))
        except LedgerError as error:  # to open and close the -shm of a ledger would drop its locks
            self.tell("problem", "place", str(error), "name the ledger's own file with --db")
            return False
        try:
            self.path = checked_path(self.path)
        except LedgerError as error:
            self.tell("problem", "place", str(error), "move the ledger, or change the mode of the directory")
            return stat.S_ISREG(os.lstat(self.path).st_mode)
        return True

    def permissions(self) -> None:
        for suffix in ("", "-wal", "-shm", ".lock"):
            name = self.path + suffix
            with suppress(FileNotFoundError):
                found = os.lstat(name)
                mode = stat.S_IMODE(found.st_mode)
                if mode & 0o077:
                    what = "be written" if mode & 0o022 else "be read"
                    self.tell("warning", "permissions", f"{name} has mode {mode:04o}: it can {what} by others",
                              f"chmod 600 {name}")  # fmt: skip
                if found.st_uid != os.geteuid():
                    self.tell("note", "permissions", f"{name} belongs to the user {found.st_uid}, not to this process")
        if not any(each.what == "permissions" for each in self.findings):
            self.tell("ok", "permissions", "nobody else can read or write the file")

    def leftovers(self) -> None:
        directory, name = os.path.split(self.path)
        for each in sorted(os.listdir(directory)):
            locked = os.path.lexists(
                os.path.join(directory, each + ".lock")
            )  # by who makes it: told as an unfinished copy
            if each in (name + NEW, name + PART) and not locked:
                self.tell("note", "files next to it", f"{each} was being made, or is",
                          "when no backup, recovery or repair is running, remove it; it may hold texts")  # fmt: skip
            elif each.startswith(".shadow-"):
                self.tell("note", "files next to it", f"{each} is left of a check that was killed", "remove it")
        size = _bytes_of(self.path + "-wal")
        if size > WAL_BYTES:
            readers = ", ".join(readers_of(self.path)) or "nobody that can be seen here"
            self.tell("warning", "-wal", f"it has {_mebibytes(size)}, and should stay near 4 MiB; it is read by {readers}",
                      "a reader keeps a snapshot open, or a backup is running: end it, and write or close once")  # fmt: skip
        elif size:
            self.tell("ok", "-wal", f"{_mebibytes(size)}; a copy of the file alone would lack what is in it")

    def wal(self) -> None:
        """Whether the -wal is this file's, which nobody may be checkpointing meanwhile."""
        with lock_of(self.path).hold(LOCK_SECONDS, create=False):
            if why := foreign_wal(self.path):
                self.tell("problem", "-wal", why)

    def file_times(self) -> None:
        """A file system that keeps whole seconds cannot tell two changes within one."""
        _, time_ns = notes.written(self.path)
        if time_ns and not time_ns % 1_000_000_000:
            self.tell("note", "file times", "the file system seems to keep times in whole seconds: a file of the same size"
                      " that is copied over an open ledger within a second of a checkpoint is not noticed",
                      "copy nothing over a ledger that is open; recover BACKUP --db NEW makes a new one")  # fmt: skip

    def lock(self) -> None:
        lock = lock_of(self.path)
        if not lock.acquire(0, create=False):
            self.tell("note", "lock", "another process holds it at this moment: it checkpoints, opens or closes")
            return
        lock.release()
        self.tell(
            "ok", "lock", "free" if os.path.lexists(lock.path) else "there is none yet; opening for writing makes it"
        )

    def disk(self) -> None:
        found = os.statvfs(os.path.dirname(self.path))
        free, size = found.f_bavail * found.f_frsize, _bytes_of(self.path) + _bytes_of(self.path + "-wal")
        text = f"{_mebibytes(free)} free, and the ledger has {_mebibytes(size)}"
        if found.f_flag & os.ST_RDONLY:
            self.tell("note", "disk space", "it lies where nothing can be written: it can be read, with readonly")
        elif free < LEAST_FREE_BYTES:
            self.tell("problem", "disk space", text, "commands are refused when the disk is full; make room")
        elif free < 2 * size:
            self.tell("warning", "disk space", text, "a rebuild or a backup needs about as much again; make room")
        else:
            self.tell("ok", "disk space", text)

    def settings(self) -> None:
        """What each connection of this product is set to, and reads back."""
        with suppress(LedgerError):  # what it says is told by the look into the file
            file = LedgerFile(self.path, readonly=True)
            connection = file.connect()
            try:
                mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
            finally:
                with file.hold():
                    connection.close()
            if file.is_copy:
                self.tell("note", "settings", f"the journal mode is {mode}: a copy for reading, which takes no command")
            elif mode == "wal":
                self.tell(
                    "ok", "settings", f"{len(SETTINGS)} settings of a connection are as they should be, and WAL is on"
                )
            else:
                self.tell("note", "settings", f"the journal mode is {mode}: a backup that was not written to yet",
                          "opening it for writing turns WAL on")  # fmt: skip

    # --- into the file -------------------------------------------------------------------------------------------

    def kind(self, connection: sqlite3.Connection) -> bool:
        (found,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (parts,) = connection.execute("SELECT count(*) FROM sqlite_master WHERE name IN ('events', 'blobs')").fetchone()
        if parts < 2 and found != APPLICATION_ID:
            self.tell(
                "problem",
                "format",
                f"this is {no_ledger(self.path)}, not a ledger",
                "name the ledger's own file with --db",
            )
            return False
        with suppress(sqlite3.Error):  # what is damaged is told by the check of the log
            if what := held_by_another(connection):
                self.tell("problem", "format", f"this file has {what}", "name the ledger's own file with --db")
                return False
        if version > FORMAT:
            self.tell("warning", "format", f"the file has format {version}, and this version writes {FORMAT}",
                      "use the newer version; this one may read it")  # fmt: skip
        else:
            self.tell("ok", "format", f"a ledger of format {version}")
        return True

    def check(self, connection: sqlite3.Connection) -> None:
        """The whole check of ``verify``, each problem with what to do."""
        writable = self.formats(connection)
        report = verify(connection, self.path, full=True, progress=self._progress)
        pages = [each for each in report.problems if OF_PAGES(each)]
        log = [each for each in report.problems if each not in pages and not OF_PROJECTIONS(each)]
        theirs = [each for each in report.problems if OF_PROJECTIONS(each)]
        for each in log:
            self.tell("problem", "log", each, RECOVER)
        for each in pages:
            self.tell("problem", "pages", each, RECOVER if log or not writable else REBUILD)
        for each in theirs if writable and not log else ():
            self.tell("problem", "projections", each, REBUILD)
        if theirs and log:
            text = f"{len(theirs)} tables are not what this log gives, which says little while the log is damaged"
            self.tell("note", "projections", text)
        if not log:
            self.tell("ok", "log", f"{report.events:,} events, unbroken from the first to the last")
        if not log and not pages:
            self.tell("ok", "pages", "SQLite's integrity check finds nothing")
        if theirs and not log and not writable:
            self.tell("note", "projections", "they are not those of this version, which may not write them",
                      "it folds them for itself to read; the newer version folds them again when it opens the file")  # fmt: skip
        elif report.projections and not report.problems:
            text = f"{len(report.projections)} are, row by row, what a fold of the log gives"
            self.tell("ok", "projections", text)
        for each in report.warnings:
            suspended = "suspended" in each
            what = "projections" if suspended or "projection" in each else "log"
            self.tell(
                "note" if "not at hand" in each else "warning",
                what,
                each,
                "rebuild folds them again" if suspended else "",
            )

    def work_under_way(self, connection: sqlite3.Connection) -> None:
        for look in (self.unknown, self.clock, self.leases, self.copies, self.suspended, self.unfinished, self.equal):
            with suppress(sqlite3.Error, LedgerError, ValueError, TypeError):  # what is damaged was told already
                look(connection)

    def formats(self, connection: sqlite3.Connection) -> bool:
        """Whether this version may write the log, by what its last upgrade asks for."""
        try:
            position = last_upgrade(connection) or 1
            event = read_event(connection, position)
            reader, writer = least(event) if event is not None else (0, 0)
        except (sqlite3.Error, LedgerError, AttributeError, ValueError):  # the check of the log tells what is wrong
            return True
        if reader > READER or writer > WRITER:
            self.tell(
                "problem" if reader > READER else "warning",
                "format",
                f"the event at position {position} asks for a reader of format {reader} and a writer of {writer},"
                f" and this product reads {READER} and writes {WRITER}",
                "use the newer version",
            )
        return writer <= WRITER

    def unknown(self, connection: sqlite3.Connection) -> None:
        sql = (
            "SELECT type, CASE json_valid(state) WHEN 1 THEN json_extract(state, '$.schema') END, count(*) FROM events"
            " GROUP BY 1, 2 ORDER BY 3 DESC"
        )
        listed = [
            f"{count:,} {type_[:60]}" + (f" of schema {schema}" if type_ in TYPES else "")
            for type_, schema, count in connection.execute(sql)
            if type_ not in TYPES or (isinstance(schema, int) and schema > TYPES[type_].schema)
        ]
        if listed:
            self.tell("note", "unknown events",
                      f"of types or schemas that this version does not know: {', '.join(listed[:5])}",
                      "they are kept as they are, and shown as unknown; a newer version may know them")  # fmt: skip

    def clock(self, connection: sqlite3.Connection) -> None:
        (last,) = connection.execute("SELECT max(position) FROM events").fetchone()
        event = read_event(connection, last)
        if event is None:
            return
        recorded = datetime.fromisoformat(event.envelope.recorded_at).astimezone(UTC)
        if recorded > now() + AHEAD:
            self.tell("warning", "clock", f"the last event says {event.envelope.recorded_at}, which is in the future",
                      "set the clock right; order is the position, but decay and validity look at the time")  # fmt: skip
        else:
            self.tell("ok", "clock", f"the last event was recorded at {event.envelope.recorded_at}")

    def leases(self, connection: sqlite3.Connection) -> None:
        running = False
        sql = f"SELECT work, holder, until FROM leases WHERE work NOT GLOB '{making.COPY}*'"
        for work, holder, until in connection.execute(sql):
            alive = until > time.time() and is_alive(holder)
            running |= alive
            state = "runs" if alive else "was killed; the next one takes over"
            self.tell("note", "leases", f"a {str(work)[:40]} by the process {str(holder).split('-')[0][:20]} {state}")
        left = [name for prefix in (FRESH, OLD) for name, _ in prefixed(connection, prefix)]
        if left and not running:
            self.tell(
                "note", "tables", f"{len(left)} are left of a rebuild that was killed", "the next rebuild drops them"
            )

    def copies(self, connection: sqlite3.Connection) -> None:
        """Files that a backup, an export or a repair is made under, wherever they lie."""
        for part, is_made in making.unfinished(connection, self.path):
            if is_made:
                self.tell("note", "unfinished copy", f"{part} is being made")
            elif os.path.lexists(part):
                self.tell("warning", "unfinished copy", f"{part} is left of a copy that was killed, and may hold texts",
                          "open the ledger for writing: that removes it")  # fmt: skip

    def suspended(self, connection: sqlite3.Connection) -> None:
        sql = "SELECT name, suspended_at, error FROM projections WHERE suspended_at IS NOT NULL ORDER BY name"
        for name, at, error in connection.execute(sql):
            self.tell("problem", "projections", f"{name} is suspended at position {at}: {error}",
                      "rebuild tries again, after an update that can fold that event")  # fmt: skip

        for entry in registry.entries(connection).values():
            if entry.suspended_at is not None:
                self.tell("problem", "projections", f"{entry.name}, one of your own, is suspended at position"
                          f" {entry.suspended_at}: {entry.error}",
                          "mend its fold and raise its version; the next open with the class folds it again")  # fmt: skip

    def unfinished(self, connection: sqlite3.Connection) -> None:
        """Erasures whose remains were not purged: each writable open goes on with them."""
        with suppress(sqlite3.Error):  # without those tables something above says so
            for each in erasures.pending(connection):
                self.tell("warning", "unfinished", f"an erasure of position {each.position} is not finished",
                          "open the ledger for writing: that goes on with it")  # fmt: skip

    def equal(self, connection: sqlite3.Connection) -> None:
        """Nothing that is written makes any, but an undo or redo brings back what was captured again meanwhile."""
        sql = "SELECT count(*) FROM duplicates WHERE status = 'active' GROUP BY fingerprint HAVING count(*) > 1"
        if count := sum(row[0] for row in connection.execute(sql)):
            self.tell("note", "memories", f"{count:,} active memories say the same as another one",
                      "an undo or a redo brought one back; merges.find proposes to make one of them")  # fmt: skip


def readers_of(path: str) -> list[str]:
    """The processes that read the -wal at this moment, by SQLite's locks on the -shm, where the system lists locks."""
    found = set[int]()
    with suppress(OSError, ValueError):
        inode = str(os.stat(path + "-shm").st_ino)
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            kind, _, mode, process, place, first, last = line.split()[1:8]
            if (kind, mode, place.split(":")[-1]) == ("POSIX", "READ", inode) and READ_MARKS & {int(first), int(last)}:
                found.add(int(process))
    return [_process(each) for each in sorted(found)]


def _process(number: int) -> str:
    name = ""
    with suppress(OSError):
        name = f" ({Path(f'/proc/{number}/comm').read_text(encoding='utf-8', errors='replace').strip()})"
    return f"process {number}{name}" if number > 0 else "a process elsewhere"


def _bytes_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _mebibytes(size: int) -> str:
    return f"{size / 1024 / 1024:,.1f} MiB"
