"""The answers about a ledger's file: statistics, backups, copies and checks."""

from __future__ import annotations

from msgspec import field

from ledger.core.call import Answer
from ledger.undo.answers import Dependent


class RebuildReport(Answer, frozen=True, kw_only=True):
    """The result of a rebuild: the number of events read, and the ``projections`` made again; the ``suspended`` ones failed.

    ``stopped`` is "timeout" or "cancelled" if the rebuild ended early: the tables are unchanged then. ``digest`` is "" if the
    rebuild ended early or no digest was requested. ``left_behind`` are your own tables and views (``my_``) that could not be
    read when a damaged file was made again as a whole.
    """

    events: int
    seconds: float
    digest: str
    suspended: tuple[str, ...] = ()
    projections: tuple[str, ...] = ()
    stopped: str = ""
    left_behind: tuple[str, ...] = ()


class ProjectionStatus(Answer, frozen=True, kw_only=True):
    name: str
    version: int
    position: int
    suspended_at: int | None
    error: str | None


class Stats(Answer, frozen=True, kw_only=True):
    """The numbers of a ledger: of one user, but for ``pending``, the work of all users that waits, and the file itself."""

    ledger_id: str
    position: int
    head: str
    format: int
    memories: dict[str, int]
    interactions: int
    projects: int
    documents: dict[str, int]
    pending: dict[str, int]
    projections: tuple[ProjectionStatus, ...]
    size_bytes: int
    wal_bytes: int
    sqlite_version: str
    vectors: dict[str, int] = field(default_factory=dict)  # by model
    observations: dict[str, int] = field(default_factory=dict)
    sessions: int = 0
    messages: int = 0
    summaries: int = 0  # the summaries in a window
    values: dict[str, int] = field(default_factory=dict)


class ExportReport(Answer, frozen=True, kw_only=True):
    path: str
    events: int
    blobs: int
    bytes_: int = field(name="bytes")
    warning: str = "it holds every text and the ledger's secret: keep it like the ledger itself"


class BackupReport(Answer, frozen=True, kw_only=True):
    """A backup that was made and checked: the number of its events, and the head after the last event (hex)."""

    path: str
    events: int
    head: str
    size_bytes: int
    seconds: float
    warning: str = "it holds every text and the ledger's secret: keep it like the ledger itself"


class ReplayReport(Answer, frozen=True, kw_only=True):
    """A ledger made from the log up to ``position``; ``head`` is the head of both logs there.

    A copy for reading has the ``ledger_id`` of the original ledger. A branch has an id of its own, and ``parent`` is the id of
    the original. ``events`` counts the events of the new file. ``erased_later`` counts the events whose text was erased after
    the position, and is missing here too. ``voided`` counts the events that were made void in a branch; ``dependents`` are the
    commands among them that depended on the named ones. Decisions of others are not made again. ``stopped`` is "timeout" or
    "cancelled" if nothing was made, else "".
    """

    path: str
    ledger_id: str
    parent: str | None
    position: int
    head: str
    events: int
    erased_later: int
    voided: int = 0
    dependents: tuple[Dependent, ...] = ()
    seconds: float
    stopped: str = ""
    warning: str = "it holds the ledger's texts and secret, and what the ledger erases from now on stays in it"


class RecoverReport(Answer, frozen=True, kw_only=True):
    """A ledger made from a backup.

    ``compared`` is True if the projections of the backup could be compared with a fold of the log; ``differing`` are the
    projections that differed from the fold. ``certificates`` counts the erasures that were done again. ``cut_before`` is the
    position of the first event that was left out, with all events after it, because no version can have written that event, or
    because the backup was cut off there. ``left_behind`` are your own tables and views (``my_``) in the backup.
    """

    path: str
    events: int
    head: str
    digest: str
    rebuilt: tuple[str, ...]
    suspended: tuple[str, ...]
    compared: bool
    differing: tuple[str, ...]
    certificates: int
    ok: bool
    seconds: float
    cut_before: int | None = None
    left_behind: tuple[str, ...] = ()


class Finding(Answer, frozen=True, kw_only=True):
    """A finding of the doctor; ``level`` is "ok", "note", "warning" or "problem", and ``hint`` is the remedy."""

    level: str
    what: str
    found: str
    hint: str = ""


class SharedCheck(Answer, frozen=True, kw_only=True):
    """The state of a machine's file beside the shared log; ``ok`` is True if the file follows the log.

    ``position`` is the end of the file, and ``end`` the end of the log, or None if the log cannot be read. ``behind_seconds`` are
    the seconds since the machine's last report if the file lacks events or erasures wait for the machine, and else 0; None if
    nobody knows. ``error`` is the type of the error that keeps the file from following, or "", and ``why`` its words.
    """

    ok: bool
    tenant: str
    machine: str
    position: int
    end: int | None = None
    erasures_pending: int = 0
    behind_seconds: float | None = None
    error: str = ""
    why: str = ""


class DoctorReport(Answer, frozen=True, kw_only=True):
    """The doctor's findings; ``ok`` is True if none is a problem."""

    path: str
    ok: bool
    findings: tuple[Finding, ...]
    seconds: float


class LostEvent(Answer, frozen=True, kw_only=True):
    """An event of a machine's file that the shared log does not have, without its text."""

    position: int
    type: str
    subject: str
    user: str | None
    command: str
    command_id: str
    recorded_at: str


class RejoinReport(Answer, frozen=True, kw_only=True):
    """The return of a machine to the shared log.

    ``kept`` is the name of the file that the machine had; opened without the log it is only read. It has the events of the
    shared log up to the position ``common``, and the ``lost`` events behind it. The new file at ``path`` has the shared log up
    to ``position``. An erasure does not reach the kept file: delete it when its lost events are not needed any more.
    """

    path: str
    kept: str
    common: int
    position: int
    lost: tuple[LostEvent, ...]
