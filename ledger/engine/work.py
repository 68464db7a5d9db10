"""What the body of a command works with: who acts, the states and names under the lock, and what it says happened."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ledger.domain import ids
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.events import AnyEvent, Blob, Event, ProjectRegistered, Redacted, SessionOpened
from ledger.domain.policy import Policy
from ledger.domain.project import name_form
from ledger.domain.text import check_text
from ledger.engine.log_reading import first_position, last_upgrade, least, read_event
from ledger.engine.who import Who
from ledger.guards.guarding import Found, Taken, Verdict
from ledger.store.event_store import Transaction
from projections.core.rows import Connection
from projections.core.sqlite import SQLiteRows

if TYPE_CHECKING:
    from ledger.engine.pipeline import Writer


INLINE_BYTES = 256 * 1024  # a text above this lies in the blobs table


Clock = Callable[[], datetime]
Random = Callable[[int], bytes]


def now() -> datetime:
    return datetime.now(UTC)


def system_random(size: int) -> bytes:
    return os.urandom(size)


class Pooled:
    """Random bytes taken 4,096 at a time; one pool for each open ledger, so that a forked process never shares one."""

    def __init__(self, source: Random) -> None:
        self._source, self._bytes, self._used, self._lock = source, b"", 0, threading.Lock()

    def __call__(self, size: int, /) -> bytes:
        with self._lock:
            if self._used + size > len(self._bytes):
                self._bytes, self._used = self._source(max(4_096, size)), 0
            start, self._used = self._used, self._used + size
            return self._bytes[start : start + size]


class Outcome(Struct, frozen=True):
    """What a command came to: the subject's state afterwards, the events appended, and whether anything was new."""

    subject: str
    state: Any
    events: Sequence[AnyEvent] = ()
    position: int = 0
    replayed: bool = False
    absorbed: bool = False
    names: Mapping[str, str] = {}  # what the subject's project is called
    policy: Policy | None = None  # of the user whom the subject is of
    warnings: tuple[str, ...] = ()  # what was taken out of what was given, by field and kind


class Work:
    """What the body of one command may use: states and names as they stand under the lock, and ``emit``."""

    def __init__(self, writer: Writer, transaction: Transaction, command: str, who: Who, recorded_at: str) -> None:
        self.transaction, self.command, self.who, self.recorded_at = transaction, command, who, recorded_at
        self.user: str | None = who.user  # as the events say; None where they are to be nobody's
        self.project: str | None = None
        self.session: str | None = None
        self.absorbed = False
        self._writer, self._tables = writer, writer.tables
        self.occurred_at = who.occurred_at  # of what is emitted next
        self.emitted: list[tuple[str, int, Event, str | None, str | None]] = []
        self.blobs: list[tuple[str, bytes]] = []
        self.taken: dict[str, tuple[Taken, ...]] = {}  # cleaned text -> the marks in it
        self.large: dict[str, Verdict] = {}  # blob -> what was found in its text
        self.redactions: dict[int, tuple[Redacted, ...]] = {}  # number among those emitted -> what was taken out
        self._registered: dict[tuple[str, str], str] = {}
        self.afterwards: list[Callable[[list[AnyEvent]], None]] = []  # in the same transaction, once all is folded

    @property
    def rows(self) -> SQLiteRows:
        return self._tables.rows

    @property
    def secret(self) -> bytes:
        return self._writer.secret

    def emit(self, stream: str, data: Event, *, first: int = 0) -> None:
        """Records that something happened to a subject; ``first`` is its row, or 0 for one that begins here."""
        self.emitted.append((stream, first, data, self.project, self.occurred_at))

    def unannounced(self) -> int:
        """The format of what is emitted, where older products may write to the log and would not know it; else 0."""
        later = [since for each in self.emitted if (since := each[2].traits.since) > 1]
        if not later:
            return 0
        event = read_event(self.connection(), last_upgrade(self.connection()) or 1)
        return max(later) if event is not None and least(event)[1] < max(later) else 0

    def new_id(self, kind: str) -> str:
        return ids.subject_id(kind, self._writer.random(ids.RANDOM_BYTES))

    def body(self, text: str) -> str | Blob:
        """A text as an event holds it: itself, or above 256 KiB a reference to the blobs table."""
        if len(text) * 4 <= INLINE_BYTES or len(data := text.encode()) <= INLINE_BYTES:
            return text
        verdict = self._writer.guard.of_large(self, text)
        data = verdict.text.encode()
        blob_id, salt = "b_" + self._writer.random(16).hex(), self._writer.random(16)
        self.blobs.append((blob_id, salt + data))
        self.large[blob_id] = verdict
        return Blob(blob_id, len(data), hashlib.sha256(salt + data).hexdigest())

    def cleaned(self, given: object) -> Any:
        """A text, or a struct with its texts, without the secrets that the policy takes out: before it is decided by them."""
        taken: dict[str, tuple[Taken, ...]] = {}
        clean = self._writer.guard.cleaned(given, taken)
        if not taken or self.policy().secrets != "redact":
            return given
        self.taken.update(taken)
        return clean

    def secret_in(self, *texts: str | None) -> bool:
        """Whether one of these has a secret in it that the policy does not let pass."""
        if self.policy().secrets == "off":
            return False
        taken: dict[str, tuple[Taken, ...]] = {}
        for text in texts:
            self._writer.guard.cleaned(text or "", taken)
        return bool(taken)

    def threat(self, *texts: str | None) -> Found | None:
        """What a scanner finds in one of these texts, unless the policy has threats off: for what is dropped, not refused."""
        guard = self._writer.guard
        found = (guard.verdict(text).found for text in texts if text)
        first = next((each for each in found if each is not None), None)
        return first if first is not None and self.policy().threats != "off" else None

    def policy(self) -> Policy:
        """The policy in effect for the user."""
        return self._tables.policy(self.who.user)

    def connection(self) -> Connection:
        """The connection of this transaction, for reads that go beyond the rows."""
        return self._tables.connection()

    # --- subjects ------------------------------------------------------------------------------------------------

    def load(self, given: str, kind: str) -> Any:
        """The state of a subject of this user by id or unambiguous prefix; ``NotFoundError`` otherwise."""
        state = self.find(given, kind)
        if state is None:
            raise NotFoundError(ids.absent(ids.KINDS[kind], given))
        return state

    def find(self, given: str, kind: str) -> Any:
        """The same, or None."""
        return self._tables.find(given, kind, self.who.user)

    def need(self, *names: str) -> None:
        """``SuspendedError`` when one of these projections is suspended: what decides nothing, and shows what was done.

        What is read under the lock needs no such word, for SQLite refuses it.
        """
        self._tables.need(*names)

    def at_row(self, row: int, kind: str) -> Any:
        return self._tables.state_of(row, kind)

    def known_elsewhere(self, given: str) -> bool:
        """Whether this is the full id of a subject, whoever's it is."""
        return self._tables.projector.states.get(given) is not None or (
            first_position(self._tables.connection(), given) is not None
        )

    # --- names ---------------------------------------------------------------------------------------------------

    def project_named(self, name: str | None) -> str | None:
        """The id of a project by name, alias or id; an unknown name is registered in this append."""
        return self._named("p", name, ProjectRegistered)

    def together(self, project: str | None) -> tuple[str | None, ...]:
        """A project with those that are joined to it, the one that they are found under first; (None,) for none."""
        return self._tables.together(project)

    def session_named(self, name: str | None) -> str | None:
        return self._named("s", name, SessionOpened)

    def _named(self, kind: str, name: str | None, event: Callable[[str], Event]) -> str | None:
        if name is None:
            return None
        what = "a project's name" if kind == "p" else "a session's id"
        if not check_text(what, name, blank_allowed=True).strip():
            return None
        found = self._tables.named(self.who.user, kind, name)
        if found is not None:
            return found
        self.check_not_elsewhere(kind, name)
        key = (kind, name_form(name) if kind == "p" else name)
        if key not in self._registered:
            self._registered[key] = self.new_id(kind)
            self.emit(self._registered[key], event(name))
        return self._registered[key]

    def check_not_elsewhere(self, kind: str, name: str) -> None:
        """``RejectedError`` where a new name is the id of what another user has."""
        if len(name) == ids.LENGTH and ids.is_prefix(name, kind) and self.known_elsewhere(name):
            what = "a project's name" if kind == "p" else "a session's id"
            raise RejectedError(
                f"{what} {name} is the id of another user's; a command acts on one user's memory", rule="user"
            )


Body = Callable[[Work], str]
