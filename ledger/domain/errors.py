"""What a ledger says when it will not do what was asked: one small family of typed errors."""

from __future__ import annotations

import copyreg

from ledger.domain import secrecy


class LedgerError(Exception):
    """The family; catching it catches everything a ledger raises on purpose. Its message repeats no secret."""

    def __init__(self, message: str = "", *rest: object) -> None:
        super().__init__(secrecy.redacted(message) if isinstance(message, str) else message, *rest)

    def __reduce__(self) -> tuple[object, ...]:  # as it is: a family member may make its message of other arguments
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class RejectedError(LedgerError):
    """A rule refused the request. The message says what was asked, what was true, and what would have been allowed.

    ``rule`` names the rule in one word; ``subject`` is the id it was about; ``limit``, ``current`` and ``requested`` are
    numbers in the rule's own unit where it has one. ``finding`` is what a ``scanner`` found, as labels.
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
        self.rule, self.subject, self.limit, self.current, self.requested = rule, subject, limit, current, requested
        self.finding, self.scanner = finding, scanner


class ReadOnlyError(RejectedError, AttributeError):
    """A command was given to a moment of the past."""


class NotFoundError(LedgerError):
    """A command named a subject that does not exist for this user."""


class AmbiguousIdError(NotFoundError):
    """The beginning of an id fits several subjects; ``candidates`` are the ids of the first five."""

    def __init__(self, message: str, *, candidates: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.candidates = candidates


class ConflictError(LedgerError):
    """The world moved: a key was used for something else, a newer process changed the tables, others built on it."""


class BusyError(ConflictError):
    """Somebody kept the ledger locked for longer than the timeout: nothing was written, and the same call may be made again."""


class KeyReusedError(ConflictError):
    """An idempotency key was used before, for another command or with other arguments."""


class DependentsError(ConflictError):
    """Later commands built on what would become void: ``dependents`` has each of them, with position, subject and reason."""

    def __init__(self, message: str, *, dependents: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.dependents = dependents


class SuspendedError(ConflictError):
    """The ``projection`` failed on an event and waits for a rebuild, so what it holds can be neither read nor used to decide."""

    def __init__(self, message: str, *, projection: str = "") -> None:
        super().__init__(message)
        self.projection = projection


class NewerFormatError(ConflictError):
    """The log says that this product is too old for it: a newer version wrote it, or may read it alone."""


class UnknownEventError(LedgerError):
    """The log holds an event that this version does not know; it is kept bit-exact and never interpreted."""


class StorageError(LedgerError):
    """The file or the disk refused: full, unreadable, not a ledger, damaged."""


class DamagedError(StorageError):
    """A row of a ``table`` cannot be: ``row`` is its key, None where not even that can be read.

    Of a projection, ``rebuild()`` makes it again from the log, and nothing in the log is lost by it. Of the log itself, which
    is the table ``events``, ``row`` is the position: ``verify`` says what is wrong, and ``recover`` copies what is sound.
    """

    def __init__(self, table: str, row: object = None, why: str = "it cannot be read") -> None:
        place = f"row {row} of the table {table}" if isinstance(row, int) else f"a row of the table {table}"
        super().__init__(
            f"the log is damaged: position {row} {why}. readonly=True reads what there is, proof.verify() says all that is "
            "wrong; recover() your last backup at a new place"
            if table == "events"
            else f"{place} is damaged ({why}): maintenance.rebuild() makes the projections again from the log, and "
            "nothing in the log is lost"
        )
        self.table, self.row = table, row


class ModelError(LedgerError):
    """A model that the caller named raised, or gave what cannot be used; the ledger is as it was before.

    ``kind`` is the kind of failure in one word (the class of what the model raised, "TimeoutError", "Cancelled",
    "NotUnderstood"), ``status`` that of HTTP where there was one, ``retry_after`` the seconds that a server asked to wait.
    After ``attempts`` calls and ``milliseconds`` it was given up. Nothing here is the provider's text, which may hold secrets.
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
        self.kind, self.status, self.retry_after = kind, status, retry_after
        self.attempts, self.milliseconds = attempts, milliseconds
