"""The errors that a ledger raises on purpose: one small family of types."""

from __future__ import annotations

import copyreg

from ledger.domain import secrecy


class LedgerError(Exception):
    """The base of all errors that a ledger raises on purpose. Its message repeats no secret."""

    def __init__(self, message: str = "", *rest: object) -> None:
        super().__init__(secrecy.redacted(message) if isinstance(message, str) else message, *rest)

    def __reduce__(self) -> tuple[object, ...]:  # a subclass may make its message of other arguments than the message
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class RejectedError(LedgerError):
    """A rule refused the request. The message says what was asked, what was true, and what would have been allowed.

    ``rule`` names the rule in one word. ``subject`` is the id of the concerned subject. ``limit``, ``current`` and ``requested``
    are numbers in the rule's own unit, if it has one. ``finding`` is the label that a ``scanner`` gave.
    """

    def __init__(
        self,
        message: str,
        *,
        rule: str = "validation",
        subject: str | None = None,
        limit: int | None = None,
        current: int | None = None,
        requested: int | None = None,
        finding: str = "",
        scanner: str = "",
    ) -> None:
        super().__init__(message)
        self.rule = rule
        self.subject = subject
        self.limit = limit
        self.current = current
        self.requested = requested
        self.finding = finding
        self.scanner = scanner


class ReadOnlyError(RejectedError, AttributeError):
    """A command was given to a past moment, which is read-only."""


class NotFoundError(LedgerError):
    """A command named a subject that does not exist for this user."""


class AmbiguousIdError(NotFoundError):
    """The beginning of an id fits several subjects; ``candidates`` are the ids of the first five."""

    def __init__(self, message: str, *, candidates: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.candidates = candidates


class ConflictError(LedgerError):
    """The ledger changed: a key was used for another command, a newer process changed the tables, later commands depend."""


class BusyError(ConflictError):
    """Another writer kept the ledger locked for longer than the timeout. Nothing was written, and the call may be repeated."""


class KeyReusedError(ConflictError):
    """An idempotency key was used before, for another command or with other arguments."""


class DependentsError(ConflictError):
    """Later commands depend on the commands to undo. ``dependents`` lists them with position, subject and reason."""

    def __init__(self, message: str, *, dependents: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.dependents = dependents


class SuspendedError(ConflictError):
    """The ``projection`` failed on an event and waits for a rebuild. Until then it can be neither read nor used to decide."""

    def __init__(self, message: str, *, projection: str = "") -> None:
        super().__init__(message)
        self.projection = projection


class DivergedError(ConflictError):
    """This file holds events that the shared log does not have, so the file takes no command. Reads go on.

    ``shared.rejoin(path)`` keeps the file under another name, lists its lost events, and folds the shared log again.
    """


class NewerFormatError(ConflictError):
    """The log needs a newer version of this product: a newer version wrote it, or reserved it."""


class UnknownEventError(LedgerError):
    """The log holds an event that this version does not know. The event is kept bit-exact and never interpreted."""


class StorageError(LedgerError):
    """The file or the disk failed: it is full, unreadable, damaged, or not a ledger."""


class UnreachableError(StorageError):
    """The shared log cannot be reached. Nothing was written. Reads go on from this machine's file."""


class UnknownOutcomeError(StorageError):
    """The connection to the shared log was lost during a commit and did not come back in time.

    The command may be recorded or not. Repeat the command with the same key.
    """


COPY_REMEDY = (
    "the file is a machine's copy of a shared log: move it and its -wal away, and the next open copies the log again"
)


class DamagedError(StorageError):
    """A row of a ``table`` is damaged. ``row`` is its key, or None if the key cannot be read.

    A damaged row of a projection loses nothing: ``rebuild()`` makes the projection again from the log. In the log, which is the
    table ``events``, ``row`` is the position: ``verify`` lists the damage, and ``recover`` copies the sound part. A machine's
    copy of a shared log (``is_copy``) needs no backup, because the shared log has all of it.
    """

    def __init__(
        self, table: str, row: object = None, why: str = "it cannot be read", *, is_copy: bool = False
    ) -> None:
        place = f"row {row} of the table {table}" if isinstance(row, int) else f"a row of the table {table}"
        super().__init__(
            f"the log is damaged: position {row} {why}. readonly=True reads what there is, proof.verify() says all that is "
            f"wrong; {COPY_REMEDY if is_copy else 'recover() your last backup at a new place'}"
            if table == "events"
            else f"{place} is damaged ({why}): maintenance.rebuild() makes the projections again from the log, and "
            "nothing in the log is lost"
        )
        self.table = table
        self.row = row
        self.why = why
        self.is_copy = is_copy


class ModelError(LedgerError):
    """A model of the caller raised an exception or gave an unusable answer. The ledger is unchanged.

    ``kind`` is the kind of failure in one word (the class of the model's exception, "TimeoutError", "Cancelled",
    "NotUnderstood"). ``status`` is the HTTP status, if any. ``retry_after`` is the number of seconds that a server asked to
    wait. The call was given up after ``attempts`` calls and ``milliseconds``. The error repeats no text of the provider, which
    may hold secrets.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "ModelError",
        status: int | None = None,
        retry_after: float | None = None,
        attempts: int = 1,
        milliseconds: int = 0,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        self.attempts = attempts
        self.milliseconds = milliseconds
