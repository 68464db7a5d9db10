"""The tools of a command's body: its author, the states and names under the lock, and ``emit`` for its events."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ledger.core.clock import Clock, Random, stored_time
from ledger.core.log_reading import first_position, last_upgrade, least, read_event
from ledger.core.tables import Tables
from ledger.core.who import Who
from ledger.domain import ids
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.text import check_text, keyed_digest
from ledger.events import AnyEvent, Blob, EventData, ProjectRegistered, Redacted, SessionOpened
from ledger.guards.guarding import Guard, GuardedText, ScannerHit, TakenSecret
from ledger.guards.scanner import Scanner
from ledger.log.event_store import Transaction
from ledger.policy.rules import PolicyState
from ledger.projects.rules import name_form
from projections.core.rows import Connection
from projections.core.sqlite import SQLiteRows

INLINE_BYTES = 256 * 1024  # a larger text lies in the blobs table


class Pooled:
    """Random bytes drawn 4,096 at a time; each open ledger has its own pool, so a forked process never shares one."""

    def __init__(self, source: Random) -> None:
        self._source, self._bytes, self._used, self._lock = source, b"", 0, threading.Lock()

    def __call__(self, size: int, /) -> bytes:
        with self._lock:
            if self._used + size > len(self._bytes):
                self._bytes, self._used = self._source(max(4_096, size)), 0
            start, self._used = self._used, self._used + size
            return self._bytes[start : start + size]


class Means:
    """The parts of an open ledger that the steps of a command share: its secret, clock, random bytes, guard and tables."""

    def __init__(self, secret: bytes, clock: Clock, random: Random, scanners: Sequence[Scanner] = ()) -> None:
        self.secret, self.clock = secret, clock
        self.random = Pooled(random)
        self.guard = Guard(scanners)
        self.tables = Tables(secret)

    def now(self) -> str:
        return stored_time(self.clock())

    def mac(self, purpose: str, user: str, value: str | bytes) -> bytes:
        """Return a keyed digest (HMAC-SHA256, 16 bytes) of a person's input, for one purpose and one user."""
        text = value.encode() if isinstance(value, str) else value
        owner = user.encode()
        return keyed_digest(self.secret, b"%b\0%d\0%b%b" % (purpose.encode(), len(owner), owner, text))

    def policy(self, user: str) -> PolicyState:
        """Return the policy in effect for a user, under the lock."""
        return self.tables.policy(user)


class Outcome(Struct, frozen=True):
    """The result of a command: the subject's new state, the appended events, and the flags of a repeated command."""

    subject: str
    state: Any
    events: Sequence[AnyEvent] = ()
    position: int = 0
    replayed: bool = False
    absorbed: bool = False
    names: Mapping[str, str] = {}  # the names of the subject's project and session, by id
    policy: PolicyState | None = None  # of the subject's user
    warnings: tuple[str, ...] = ()  # secrets taken out of the arguments, and texts in quarantine


class Work:
    """The tools of one command's body: states and names as they are under the lock, and ``emit``."""

    def __init__(self, means: Means, transaction: Transaction, command: str, who: Who, recorded_at: str) -> None:
        self.transaction, self.command, self.who, self.recorded_at = transaction, command, who, recorded_at
        self.user: str | None = who.user  # for the events; None for events that belong to no user
        self.project: str | None = None
        self.session: str | None = None
        self.absorbed = False
        self._means, self._tables = means, means.tables
        self.occurred_at = who.occurred_at  # of the next event
        self.emitted: list[tuple[str, int, EventData, str | None, str | None]] = []
        self.blobs: list[tuple[str, bytes]] = []
        self.taken: dict[str, tuple[TakenSecret, ...]] = {}  # cleaned text -> the marks of the secrets taken out of it
        self.large: dict[str, GuardedText] = {}  # blob -> the findings in its text
        self.redactions: dict[int, tuple[Redacted, ...]] = {}  # index of an emitted event -> what was taken out of it
        self._registered: dict[tuple[str, str], str] = {}
        self.afterwards: list[Callable[[list[AnyEvent]], None]] = []  # called in the transaction after the fold

    @property
    def rows(self) -> SQLiteRows:
        return self._tables.rows

    @property
    def secret(self) -> bytes:
        return self._means.secret

    def emit(self, stream: str, data: EventData, *, first: int = 0) -> None:
        """Record an event of a subject; ``first`` is the subject's row, or 0 for a new subject."""
        self.emitted.append((stream, first, data, self.project, self.occurred_at))

    def unannounced(self) -> int:
        """Return the format of the newest emitted event if older products may write to the log; else 0.

        Those products would not know the event.
        """
        later = [since for emitted in self.emitted if (since := emitted[2].traits.since) > 1]
        if not later:
            return 0
        event = read_event(self.connection(), last_upgrade(self.connection()) or 1)
        return max(later) if event is not None and least(event)[1] < max(later) else 0

    def new_id(self, kind: str) -> str:
        return ids.subject_id(kind, self._means.random(ids.RANDOM_BYTES))

    def body(self, text: str, *, is_json: bool = False) -> str | Blob:
        """Return a text as an event stores it: the text itself, or above 256 KiB a reference to the blobs table."""
        if len(text) * 4 <= INLINE_BYTES or len(data := text.encode()) <= INLINE_BYTES:
            return text
        verdict = self._means.guard.of_large(text, self.taken, self.policy().secrets, is_json=is_json)
        data = verdict.text.encode()
        blob_id, salt = "b_" + self._means.random(16).hex(), self._means.random(16)
        self.blobs.append((blob_id, salt + data))
        self.large[blob_id] = verdict
        return Blob(blob_id, len(data), hashlib.sha256(salt + data).hexdigest())

    def cleaned(self, value: object) -> Any:
        """Return a text, or a struct with texts, without the secrets that the policy takes out; call it before deciding."""
        taken: dict[str, tuple[TakenSecret, ...]] = {}
        clean = self._means.guard.cleaned(value, taken)
        if not taken or self.policy().secrets != "redact":
            return value
        self.taken.update(taken)
        return clean

    def secret_in(self, *texts: str | None) -> bool:
        """Return True if one of the texts has a secret that the policy does not let pass."""
        if self.policy().secrets == "off":
            return False
        taken: dict[str, tuple[TakenSecret, ...]] = {}
        for text in texts:
            self._means.guard.cleaned(text or "", taken)
        return bool(taken)

    def threat(self, *texts: str | None) -> ScannerHit | None:
        """Return a scanner's first finding in the texts, for a text that is dropped and not refused.

        The result is None if the policy has threats off.
        """
        guard = self._means.guard
        findings = (guard.verdict(text).found for text in texts if text)
        first = next((finding for finding in findings if finding is not None), None)
        return first if first is not None and self.policy().threats != "off" else None

    def policy(self) -> PolicyState:
        """Return the policy in effect for the user."""
        return self._tables.policy(self.who.user)

    def connection(self) -> Connection:
        """Return the connection of this transaction, for reads beyond the rows."""
        return self._tables.connection()

    # --- subjects ------------------------------------------------------------------------------------------------

    def load(self, reference: str, kind: str) -> Any:
        """Return the state of a user's subject by id or unambiguous prefix; raise ``NotFoundError`` if there is none."""
        state = self.find(reference, kind)
        if state is None:
            raise NotFoundError(ids.absent(ids.KINDS[kind], reference))
        return state

    def find(self, reference: str, kind: str) -> Any:
        """Return the state of a user's subject by id or unambiguous prefix; None if there is none."""
        return self._tables.find(reference, kind, self.who.user)

    def need(self, *names: str) -> None:
        """Raise ``SuspendedError`` if one of these projections is suspended.

        Only a caller that shows a state without reading it under the lock needs this check; SQLite refuses the other reads.
        """
        self._tables.need(*names)

    def at_row(self, row: int, kind: str) -> Any:
        return self._tables.state_of(row, kind)

    def known_elsewhere(self, reference: str) -> bool:
        """Return True for the full id of a subject of any user."""
        return self._tables.projector.states.get(reference) is not None or (
            first_position(self._tables.connection(), reference) is not None
        )

    # --- names ---------------------------------------------------------------------------------------------------

    def project_named(self, name: str | None) -> str | None:
        """Return the id of a project by name, alias or id; an unknown name is registered in this append.

        Raises:
            RejectedError: The memory is off for the project.
        """
        return self.recorded_in(self._named("p", name, ProjectRegistered))

    def project_known(self, name: str) -> str:
        """Return the id of a project by name, alias or id.

        Raises:
            NotFoundError: This user has no such project.
        """
        id = self._tables.named(self.who.user, "p", name) if name.strip() else None
        if id is None:
            raise NotFoundError(f"no project of this user is called {name!r:.60}")
        return id

    def recorded_in(self, project: str | None) -> str | None:
        """Return the id of a project; raise ``RejectedError`` if the memory is off for it."""
        if project is not None and (off := self.policy().off) and not set(off).isdisjoint(self.together(project)):
            name = getattr(self.find(project, "p"), "name", None) or project
            raise RejectedError(
                f"the memory is off for the project {name!r:.60}, so nothing is recorded there; `memory-ledger on` in its "
                "folder, or policy.set(off=…) without the project, switches the memory on again",
                rule="off",
                subject=project,
            )
        return project

    def together(self, project: str | None) -> tuple[str | None, ...]:
        """Return a project and those joined to it, the project that they are found under first; (None,) for None."""
        return self._tables.together(project)

    def session_named(self, name: str | None) -> str | None:
        return self._named("s", name, SessionOpened)

    def _named(self, kind: str, name: str | None, event: Callable[[str], EventData]) -> str | None:
        if name is None:
            return None
        label = "a project's name" if kind == "p" else "a session's id"
        if not check_text(label, name, blank_allowed=True).strip():
            return None
        id = self._tables.named(self.who.user, kind, name)
        if id is not None:
            return id
        self.check_not_elsewhere(kind, name)
        key = (kind, name_form(name) if kind == "p" else name)
        if key not in self._registered:
            self._registered[key] = self.new_id(kind)
            self.emit(self._registered[key], event(name))
        return self._registered[key]

    def check_not_elsewhere(self, kind: str, name: str) -> None:
        """Raise ``RejectedError`` if a new name is the id of another user's subject."""
        if len(name) == ids.LENGTH and ids.is_prefix(name, kind) and self.known_elsewhere(name):
            label = "a project's name" if kind == "p" else "a session's id"
            raise RejectedError(
                f"{label} {name} is the id of another user's subject; a command changes one user's memory", rule="user"
            )


Body = Callable[[Work], str]
