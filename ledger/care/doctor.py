"""The doctor: a check of a ledger's file and of the place where it is, with a remedy for each problem.

The doctor changes nothing, and also examines a file that does not open.
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

from ledger.care import answers
from ledger.care.opening import held_by_another
from ledger.core.call import now
from ledger.core.engine import Engine
from ledger.core.reads import READER, WRITER, last_upgrade, least_formats, read_event
from ledger.domain.errors import COPY_REMEDY, ConflictError, LedgerError, NotFoundError
from ledger.domain.text import counted, one_line
from ledger.english.matching import DEFAULT_MATCHER, MATCHERS
from ledger.events import TYPES
from ledger.log import file_lock, platform
from ledger.log.file_lock import lock_of
from ledger.log.inspection import APPLICATION_ID, examining, foreign_wal
from ledger.log.lease import COPY_LEASE, is_alive, unfinished_copies
from ledger.log.paths import HOOKS_LOG, PART, StrPath, check_own_name, checked_path, path_name
from ledger.log.shared.port import read_replica_row
from ledger.log.sqlite_files import FORMAT, NEW, OLDEST, SETTINGS, WAL_BYTES, LedgerFile, no_ledger, typed
from ledger.models import day
from ledger.models.port import MODEL
from ledger.proof.schema_check import NOT_OURS
from ledger.proof.verifying import verify
from ledger.shared import health as shared_health
from projections.core import own_registry as registry
from projections.core.rebuild import FRESH, OLD, prefixed
from projections.views import erasures

FAULTS = (  # faults of SQLite: the first and the last version with the fault, a level, the fault, the remedy
    # Sources: sqlite.org/wal.html for the first; the makers withdrew the second a week after its release; the third is
    # shown by tests/projections/test_integrity.py on each version that tools/crash/sqlite_versions.py tries.
    (
        (3, 7, 0), (3, 51, 2), "note",
        "two checkpoints at once can lose a commit; this product holds a lock of its own at each, so it is not exposed",
        "let no other program write to the file, or use SQLite 3.51.3 or newer",
    ),
    (
        (3, 52, 0), (3, 52, 0), "warning",
        "SQLite's makers withdrew this version, because it is not compatible with earlier versions",
        "use SQLite 3.51.3, or one newer than 3.52.0",
    ),
    (
        (3, 45, 0), (3, 54, 1), "note",
        "a connection that has read a text index calls the index malformed after another connection merged it; this"
        " product reads each index again before its check, so it is not exposed",
        "if another program's integrity_check reports a malformed inverted index, run it again on a new connection",
    ),
)  # fmt: skip
READ_MARKS = {*range(123, 128)}  # the bytes of the -shm that a reader locks (sqlite.org/walformat.html)
LEAST_FREE_BYTES = 8 * 1024 * 1024  # the least free space, enough for a -wal and its checkpoint
LOCK_SECONDS = 1.0  # the wait for another process that checkpoints
HOOK_ERRORS = 3  # the errors of hooks that are shown
AHEAD = timedelta(minutes=1)  # the tolerance before a time counts as in the future

Progress = Callable[[int, int], None]

RECOVER = (
    "never write to it again; recover your last backup at a new place (recover BACKUP --db NEW), and keep this file"
)
COPY_AGAIN = f"never write to it again: {COPY_REMEDY}"
REBUILD = "rebuild makes the projections again from the log, which is sound"


def doctor(engine: Engine, *, progress: Progress | None = None) -> answers.DoctorReport:
    """Examine this ledger and report every problem with its remedy; nothing is changed.

    ``progress`` is called with (steps done, steps).

    Raises:
        ConflictError: A batch is open.
    """
    if engine.writer.batching:
        raise ConflictError("maintenance.doctor() cannot run inside a batch; leave the batch first")
    displaced, path = engine.store.displaced(), engine.store.path
    if displaced and not os.path.lexists(path):
        report = answers.DoctorReport(path=path, ok=False, findings=(), seconds=0.0)
    else:
        log = engine.named_log if engine.store.shared is None else engine.store.shared.log
        bounds = day.bounds_of(engine, engine.parts.get(MODEL))
        report = examine(path, bounds=bounds, log_of=shared_health.log_of(log), progress=progress)
        failures = tuple(shared_health.of_follower(engine, report.findings))
        report = replace(report, ok=report.ok and not failures, findings=(*report.findings, *failures))
    if displaced:
        finding = answers.Finding(level="problem", what="file", found=displaced)
        return replace(report, ok=False, findings=(finding, *report.findings))
    return report


def examine(
    path: StrPath,
    *,
    bounds: day.DayBounds,
    log_of: shared_health.LogOf | None = None,
    progress: Progress | None = None,
) -> answers.DoctorReport:
    """Examine a file and the place where it is, and ask the log that it follows; raise NotFoundError if there is no file."""
    started, name = time.monotonic(), os.path.abspath(path_name(path))
    if "\0" in name or not os.path.lexists(name):
        raise NotFoundError(f"there is no ledger at {name[:1000]!r}")
    examination = _Examination(name, bounds, log_of, progress)
    examination.all()
    findings = tuple(examination.findings)
    ok = not any(finding.level == "problem" for finding in findings)
    return answers.DoctorReport(path=name, ok=ok, findings=findings, seconds=time.monotonic() - started)


class _Examination:
    """An examination of a ledger file, which collects the findings."""

    def __init__(
        self, path: str, bounds: day.DayBounds, log_of: shared_health.LogOf | None, progress: Progress | None
    ) -> None:
        self.path, self._bounds, self._log_of, self._progress = path, bounds, log_of, progress
        self.findings: list[answers.Finding] = []

    def report(self, level: str, what: str, text: str, hint: str = "") -> None:
        self.findings.append(answers.Finding(level=level, what=what, found=text, hint=hint))

    @contextmanager
    def at(self, what: str) -> Iterator[None]:
        """Record a failure to read as a problem of this part, so that the next part is examined all the same."""
        try:
            yield
        except sqlite3.Error as error:
            self.report("problem", what, f"{typed(error)}", RECOVER)
        except LedgerError as error:
            self.report("problem", what, str(error))
        except OSError as error:
            self.report("problem", what, f"cannot be examined: {error.strerror}")

    def all(self) -> None:
        self.runtime()
        if not self.place():
            return
        for what, check in {
            "-wal": self.wal,
            "permissions": self.permissions,
            "files next to it": self.leftovers,
            "lock": self.lock,
            "file times": self.file_times,
            "hooks": self.hooks,
            "disk space": self.disk,
            "settings": self.settings,
        }.items():
            with self.at(what):
                check()
        with self.at("file"), examining(self.path) as connection:
            connection.execute("BEGIN")
            if self.kind(connection):
                self.check(connection)
                self.work_under_way(connection)

    # --- the runtime and the place -------------------------------------------------------------------------------

    def runtime(self) -> None:
        version, name = sqlite3.sqlite_version_info, f"SQLite {sqlite3.sqlite_version}"
        if version < OLDEST:
            self.report("problem", "SQLite", f"{name} is too old for a ledger, which needs {'.'.join(map(str, OLDEST))}",
                      "use a Python with a newer SQLite")  # fmt: skip
            return
        faults = [fault for fault in FAULTS if fault[0] <= version <= fault[1]]
        for first, last, level, text, hint in faults:
            span = ".".join(map(str, first)) + (f" to {'.'.join(map(str, last))}" if last != first else "")
            self.report(level, "SQLite", f"{name} has a fault of {span}: {text}", hint)
        if not faults:
            self.report("ok", "SQLite", f"{name}, of which no fault is known that concerns a ledger")

    def place(self) -> bool:
        """Return True if the file may be opened."""
        try:
            check_own_name(os.path.basename(self.path))
        except LedgerError as error:  # to open and close the -shm of a ledger would drop its locks
            self.report("problem", "place", str(error), "name the ledger's own file with --db")
            return False
        try:
            self.path = checked_path(self.path)
        except LedgerError as error:
            self.report("problem", "place", str(error), "move the ledger, or change the mode of the directory")
            return stat.S_ISREG(os.lstat(self.path).st_mode)
        return True

    def permissions(self) -> None:
        if not platform.HAS_MODES:
            self.report("note", "permissions", "not checked: this system has no modes of files",
                        "keep the ledger in a folder that only its user may open")  # fmt: skip
            return
        for suffix in ("", "-wal", "-shm", ".lock"):
            name = self.path + suffix
            with suppress(FileNotFoundError):
                status = os.lstat(name)
                mode = stat.S_IMODE(status.st_mode)
                if mode & 0o077:
                    what = "be written" if mode & 0o022 else "be read"
                    self.report("warning", "permissions", f"{name} has mode {mode:04o}: it can {what} by others",
                              f"chmod 600 {name}")  # fmt: skip
                if platform.is_of_another_user(status):
                    self.report("note", "permissions", f"{name} belongs to another user, {status.st_uid}")
        if not any(finding.what == "permissions" for finding in self.findings):
            self.report("ok", "permissions", "nobody else can read or write the file")

    def leftovers(self) -> None:
        directory, name = os.path.split(self.path)
        for entry in sorted(os.listdir(directory)):
            # A copy that a process is making has a lock; ``copies`` reports such copies.
            locked = os.path.lexists(os.path.join(directory, entry + ".lock"))
            if entry in (name + NEW, name + PART) and not locked:
                self.report("note", "files next to it", f"{entry} is an unfinished copy",
                          "when no backup, recovery or repair is running, remove it; it may hold texts")  # fmt: skip
            elif entry.startswith(platform.SCRATCH):
                self.report("note", "files next to it", f"{entry} was left by a check that was killed, or a check runs",
                          "after a kill, the next open for writing removes it")  # fmt: skip
        size = _bytes_of(self.path + "-wal")
        if size > WAL_BYTES:
            readers = ", ".join(readers_of(self.path)) or "no process that is visible here"
            self.report("warning", "-wal", f"it has {_mebibytes(size)} but should stay near 4 MiB; it is read by {readers}",
                      "a reader keeps a snapshot open, or a backup is running: end that, then write or close once")  # fmt: skip
        elif size:
            self.report("ok", "-wal", f"{_mebibytes(size)}; a copy of the file alone would lack the events in the -wal")

    def wal(self) -> None:
        """Check that the -wal belongs to this file, while no process can checkpoint it."""
        with lock_of(self.path).hold(LOCK_SECONDS, create=False):
            if why := foreign_wal(self.path):
                self.report("problem", "-wal", why)

    def file_times(self) -> None:
        """Note a file system that keeps whole seconds and cannot tell apart two changes within one second."""
        _, time_ns = file_lock.written(self.path)
        if time_ns and not time_ns % 1_000_000_000:
            self.report("note", "file times", "the file system seems to keep times in whole seconds: a file of the same size"
                      " that is copied over an open ledger within a second of a checkpoint is not noticed",
                      "copy nothing over a ledger that is open; recover BACKUP --db NEW makes a new one")  # fmt: skip

    def hooks(self) -> None:
        """Show the last errors of the hooks of coding agents, which nobody sees elsewhere."""
        log = Path(self.path + HOOKS_LOG)
        with suppress(FileNotFoundError):
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            for line in lines[-HOOK_ERRORS:]:
                self.report("warning", "hooks", one_line(line), f"mend the cause, then remove {log}")

    def lock(self) -> None:
        lock = lock_of(self.path)
        if not lock.acquire(0, create=False):
            self.report("note", "lock", "another process holds the lock now: it checkpoints, opens or closes")
            return
        lock.release()
        self.report(
            "ok", "lock", "free" if os.path.lexists(lock.path) else "there is none yet; opening for writing makes it"
        )

    def disk(self) -> None:
        free, is_readonly = platform.disk_space(os.path.dirname(self.path))
        size = _bytes_of(self.path) + _bytes_of(self.path + "-wal")
        text = f"{_mebibytes(free)} free, and the ledger has {_mebibytes(size)}"
        if is_readonly:
            self.report("note", "disk space", "the place takes no writes: the ledger can be read with readonly")
        elif free < LEAST_FREE_BYTES:
            self.report("problem", "disk space", text, "commands are refused when the disk is full; make room")
        elif free < 2 * size:
            self.report("warning", "disk space", text, "a rebuild or a backup needs about as much again; make room")
        else:
            self.report("ok", "disk space", text)

    def settings(self) -> None:
        """Check that a connection reads back the settings that this product gives it."""
        with suppress(LedgerError):  # the check of the file reports the error
            file = LedgerFile(self.path, readonly=True)
            connection = file.connect()
            try:
                mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
            finally:
                with file.hold():
                    connection.close()
            if file.is_copy:
                self.report(
                    "note", "settings", f"the journal mode is {mode}: a copy for reading, which takes no command"
                )
            elif mode == "wal":
                self.report(
                    "ok", "settings", f"{len(SETTINGS)} settings of a connection are as they should be, and WAL is on"
                )
            else:
                self.report("note", "settings", f"the journal mode is {mode}: a backup that was not written to yet",
                          "opening it for writing turns WAL on")  # fmt: skip

    # --- into the file -------------------------------------------------------------------------------------------

    def kind(self, connection: sqlite3.Connection) -> bool:
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (parts,) = connection.execute("SELECT count(*) FROM sqlite_master WHERE name IN ('events', 'blobs')").fetchone()
        if parts < 2 and application_id != APPLICATION_ID:
            self.report(
                "problem",
                "format",
                f"this is {no_ledger(self.path)}, not a ledger",
                "name the ledger's own file with --db",
            )
            return False
        with suppress(sqlite3.Error):  # the check of the log reports damage
            if what := held_by_another(connection):
                self.report("problem", "format", f"this file has {what}", "name the ledger's own file with --db")
                return False
        if version > FORMAT:
            self.report("warning", "format", f"the file has format {version}, but this version writes {FORMAT}",
                      "use the newer version; this version may be able to read the file")  # fmt: skip
        else:
            self.report("ok", "format", f"a ledger of format {version}")
        return True

    def check(self, connection: sqlite3.Connection) -> None:
        """Run the whole check of ``verify`` and report each problem with its remedy."""
        writable = self.formats(connection)
        report = verify(connection, self.path, full=True, progress=self._progress)
        log, pages, tables = report.of("log"), report.of("pages"), report.of("projections")
        remedy = COPY_AGAIN if self._is_copy_of_shared_log(connection) else RECOVER
        for problem in log:
            self.report("problem", "log", problem, remedy)
        for problem in pages:
            self.report("problem", "pages", problem, remedy if log or not writable else REBUILD)
        for problem in tables if writable and not log else ():
            hint = "" if problem.endswith(NOT_OURS) else REBUILD
            self.report("problem", "projections", problem, hint)
        if tables and log:
            differ = f"{counted(len(tables), 'table')} {'differs' if len(tables) == 1 else 'differ'}"
            text = f"{differ} from this log, which says little while the log is damaged"
            self.report("note", "projections", text)
        if not log:
            self.report("ok", "log", f"{counted(report.events, 'event')}, unbroken from the first to the last")
        if not log and not pages:
            self.report("ok", "pages", "SQLite's integrity check finds nothing")
        if tables and not log and not writable:
            self.report("note", "projections", "the tables are not those of this version, which may not write them",
                      "this version reads private tables; the newer version folds the file's again on opening")  # fmt: skip
        elif report.projections and not report.problems:
            text = f"{len(report.projections)} are equal, row by row, to a fold of the log"
            self.report("ok", "projections", text)
        for warning in report.warnings:
            suspended = "suspended" in warning
            what = "projections" if suspended or "projection" in warning else "log"
            level = "note" if "without its class" in warning else "warning"
            self.report(level, what, warning, "rebuild folds them again" if suspended else "")

    def _is_copy_of_shared_log(self, connection: sqlite3.Connection) -> bool:
        with suppress(sqlite3.Error, TypeError):  # the damage may be in this row
            return read_replica_row(connection) is not None
        return False

    def work_under_way(self, connection: sqlite3.Connection) -> None:
        checks = (self.unknown, self.clock, self.leases, self.copies, self.suspended, self.unfinished, self.equal)
        for check in (*checks, self.matchers, self.shared, self.model_command):
            with suppress(sqlite3.Error, LedgerError, ValueError, TypeError):  # damage was reported already
                check(connection)

    def formats(self, connection: sqlite3.Connection) -> bool:
        """Return True if this version may write the log, by the formats that its last upgrade asks for."""
        try:
            position = last_upgrade(connection) or 1
            event = read_event(connection, position)
            reader, writer = least_formats(event) if event is not None else (0, 0)
        except (sqlite3.Error, LedgerError, AttributeError, ValueError):  # the check of the log reports the damage
            return True
        if reader > READER or writer > WRITER:
            self.report(
                "problem" if reader > READER else "warning",
                "format",
                f"the event at position {position} asks for a reader of format {reader} and a writer of {writer},"
                f" but this product reads {READER} and writes {WRITER}",
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
            self.report("note", "unknown events",
                      f"of types or schemas that this version does not know: {', '.join(listed[:5])}",
                      "they are kept as they are, and shown as unknown; a newer version may know them")  # fmt: skip

    def matchers(self, connection: sqlite3.Connection) -> None:
        """Report policies in effect that name a matcher which this version does not have."""
        sql = (
            "SELECT json_extract(parameters, '$.matcher'), count(DISTINCT user) FROM policies"
            " WHERE undone_at IS NULL GROUP BY 1 ORDER BY 1"
        )
        for name, users in connection.execute(sql):
            if name is not None and name not in MATCHERS:
                self.report("note", "policy",
                          f"the policy of {users:,} {'user' if users == 1 else 'users'} names the matcher {name!r:.40},"
                          f" which this version does not have; {DEFAULT_MATCHER} takes its place",
                          f"policy.set(matcher={DEFAULT_MATCHER!r}) says so in the log")  # fmt: skip

    def clock(self, connection: sqlite3.Connection) -> None:
        (last,) = connection.execute("SELECT max(position) FROM events").fetchone()
        event = read_event(connection, last)
        if event is None:
            return
        recorded = datetime.fromisoformat(event.envelope.recorded_at).astimezone(UTC)
        if recorded > now() + AHEAD:
            self.report("warning", "clock", f"the last event says {event.envelope.recorded_at}, which is in the future",
                      "set the clock right; events are ordered by position, but decay and validity use the time")  # fmt: skip
        else:
            self.report("ok", "clock", f"the last event was recorded at {event.envelope.recorded_at}")

    def leases(self, connection: sqlite3.Connection) -> None:
        running = False
        sql = f"SELECT work, holder, until FROM leases WHERE work NOT GLOB '{COPY_LEASE}*'"
        for work, holder, until in connection.execute(sql):
            alive = until > time.time() and is_alive(holder)
            running |= alive
            state = "runs" if alive else "was killed; the next process takes over"
            self.report("note", "leases", f"a {str(work)[:40]} by the process {str(holder).split('-')[0][:20]} {state}")
        left = [name for prefix in (FRESH, OLD) for name, _ in prefixed(connection, prefix)]
        if left and not running:
            self.report(
                "note", "tables", f"{len(left)} were left by a rebuild that was killed", "the next rebuild drops them"
            )

    def copies(self, connection: sqlite3.Connection) -> None:
        """Report the files that a backup, an export or a repair is made under, wherever they are."""
        for part, is_made in unfinished_copies(connection, self.path):
            if is_made:
                self.report("note", "unfinished copy", f"{part} is being made")
            elif os.path.lexists(part):
                self.report("warning", "unfinished copy", f"{part} was left by a copy that was killed, and may hold texts",
                          "open the ledger for writing, which removes the file")  # fmt: skip

    def suspended(self, connection: sqlite3.Connection) -> None:
        sql = "SELECT name, suspended_at, error FROM projections WHERE suspended_at IS NOT NULL ORDER BY name"
        for name, at, error in connection.execute(sql):
            self.report("problem", "projections", f"{name} is suspended at position {at}: {error}",
                      "rebuild tries again, after an update that can fold that event")  # fmt: skip

        for entry in registry.entries(connection).values():
            if entry.suspended_at is not None:
                self.report("problem", "projections", f"{entry.name}, which you added, is suspended at position"
                          f" {entry.suspended_at}: {entry.error}",
                          "mend its fold and raise its version; the next open with its class folds it again")  # fmt: skip

    def unfinished(self, connection: sqlite3.Connection) -> None:
        """Report erasures whose texts were not purged yet; each open for writing continues them."""
        with suppress(sqlite3.Error):  # the check of the schema reports missing tables
            for erasure in erasures.pending(connection):
                self.report("warning", "unfinished", f"an erasure of position {erasure.position} is not finished",
                          "open the ledger for writing, which continues the erasure")  # fmt: skip

    def shared(self, connection: sqlite3.Connection) -> None:
        self.findings += shared_health.findings(connection, self._log_of)

    def model_command(self, connection: sqlite3.Connection) -> None:
        self.findings += day.findings(connection, self._bounds)

    def equal(self, connection: sqlite3.Connection) -> None:
        """Report active memories with the same text.

        No command writes any, but an undo or redo may bring back a memory that was captured again meanwhile.
        """
        sql = "SELECT count(*) FROM duplicates WHERE status = 'active' GROUP BY fingerprint HAVING count(*) > 1"
        if count := sum(row[0] for row in connection.execute(sql)):
            self.report("note", "memories", f"{count:,} active memories have the same text as another",
                      "an undo or a redo brought a memory back; merges.find proposes to merge them")  # fmt: skip


def readers_of(path: str) -> list[str]:
    """Return the processes that read the -wal now, by SQLite's locks on the -shm, if the system lists locks."""
    processes = set[int]()
    with suppress(OSError, ValueError):
        inode = str(os.stat(path + "-shm").st_ino)
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            kind, _, mode, process, place, first, last = line.split()[1:8]
            if (kind, mode, place.split(":")[-1]) == ("POSIX", "READ", inode) and READ_MARKS & {int(first), int(last)}:
                processes.add(int(process))
    return [_process(process_id) for process_id in sorted(processes)]


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
