"""The tools of a command's body, and the tables that its steps read and write under the lock.

A body gets ``Work``: its author, the states and names under the lock, and ``emit`` for its events. ``Tables`` are the
projections' tables: caught up with the log, read, and folded into. Names, policies and distrusted sources are kept in memory
while no other process writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from msgspec import Struct

from ledger.core.call import Clock, Pooled, Random, Who, stored_time
from ledger.core.guarding import Guard, GuardedText, ScannerHit, TakenSecret
from ledger.core.own import Own
from ledger.core.reads import (
    FoldReading,
    check_log_since,
    check_tables,
    decode_known,
    find_row,
    first_position,
    last_upgrade,
    least_formats,
    read_event,
)
from ledger.domain import ids
from ledger.domain.errors import NotFoundError, RejectedError, SuspendedError
from ledger.domain.policy import PolicyState
from ledger.domain.scan.scanner import Scanner
from ledger.domain.text import check_text, keyed_digest, name_form
from ledger.events import (
    WAYS_BACK,
    AnyEvent,
    Blob,
    ContentErased,
    EventData,
    LedgerUpgraded,
    ProjectRegistered,
    Redacted,
    SessionOpened,
    of,
)
from ledger.log.event_store import Transaction
from ledger.log.reading import tables_closed
from projections.core.projector import (
    ESSENTIAL,
    FAMILIES,
    OWNERS,
    Projector,
    check_end,
    checkpoint,
    tables_of,
    text_indexes,
)
from projections.core.rows import Connection
from projections.core.sqlite import SQLiteRows, fill_index
from projections.views import control, memories, projects

INLINE_BYTES = 256 * 1024  # a larger text lies in the blobs table
_OPEN = nullcontext()  # nothing is suspended
# these events may change a policy, a name or the distrusted sources
CHANGING = frozenset[type[Any]]((*WAYS_BACK, *of(governs=("policy", "project", "session"))))


class Means:
    """The parts of an open ledger that the steps of a command share: its secret, clock, random bytes, guard and tables."""

    def __init__(self, secret: bytes, clock: Clock, random: Random, scanners: Sequence[Scanner] = ()) -> None:
        self.secret = secret
        self.clock = clock
        self.random: Pooled = Pooled(random)
        self.guard: Guard = Guard(scanners)
        self.tables: Tables = Tables(secret)

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
        self.transaction = transaction
        self.command = command
        self.who = who
        self.recorded_at = recorded_at
        self.user: str | None = who.user  # for the events; None for events that belong to no user
        self.project: str | None = None
        self.session: str | None = None
        self.absorbed = False
        self._means, self._tables = means, means.tables
        self.occurred_at: str | None = who.occurred_at  # of the next event
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
        return max(later) if event is not None and least_formats(event)[1] < max(later) else 0

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


class Tables:
    """The tables that every step of a command reads and writes, besides the log. A batch keeps the rows back."""

    def __init__(self, secret: bytes) -> None:
        self.rows: SQLiteRows
        self.projector: Projector = Projector(secret, FoldReading(self.connection))
        self.own: Own | None = None  # the user's own projections
        self.looked_at: int = (
            0  # the position up to which the log was checked for events that this version does not know
        )
        self._secret = secret
        self._transaction: Transaction | None = None
        self._rows_of: object = None
        self._changes = -1  # of the last transaction that was attended
        self._folded = -1  # the last position that is known to be folded
        self._names: dict[tuple[str, str, str], str] = {}
        self._together: dict[str, tuple[str | None, ...]] = {}
        self._labels: dict[str, str] = {}
        self._policies: dict[str, PolicyState] = {}
        self._distrusted: set[tuple[str | None, str, str | None]] | None = None

    # --- one transaction after another ---------------------------------------------------------------------------

    def begin(self, transaction: Transaction) -> None:
        """Bring the tables to the end of the log, so that commands can be decided.

        Raises:
            SuspendedError: A projection that every decision needs is suspended.
        """
        self.attend(transaction)
        if transaction.position != self._folded:
            self._catch_up(transaction)
        if self.projector.suspended and (blocked := self.projector.suspended.intersection(ESSENTIAL)):
            name = min(blocked)
            raise SuspendedError(
                f"the projection {name!r} is suspended, so no command can be decided; maintenance.rebuild() makes it again",
                projection=name,
            )

    def attend(self, transaction: Transaction) -> None:
        """Work in this transaction from here, even if projections are suspended."""
        if self._rows_of is not transaction.connection:
            self.rows, self._rows_of = SQLiteRows(transaction.connection), transaction.connection
            self.rows.refused = self.projector.refused
        self._transaction = transaction
        if not transaction.deferred:
            self.projector.states.clear()
        if self._changes != transaction.changes:
            self._look_again(transaction)
            self._changes = transaction.changes

    def _look_again(self, transaction: Transaction) -> None:
        """Check the log and forget names and tables after another writer's commit."""
        check_end(transaction.connection)
        check_log_since(transaction.connection, self.looked_at)
        self.looked_at = transaction.committed  # what is behind it may be rolled back
        self.forget()
        self.projector.poisoned.clear()
        _, suspended = check_tables(transaction.connection, self._secret)
        self.projector.leave_out(suspended)

    def _catch_up(self, transaction: Transaction) -> None:
        """Fold events that were written to the log only, because a decision needs them in the tables."""
        if not transaction.deferred:
            self._fold_behind(transaction)
        self._folded = transaction.position

    def take_in(self, transaction: Transaction, erased: Callable[[AnyEvent], None]) -> None:
        """Fold the events of other machines that were just written to the log, in a batch too, which holds no rows back now.

        ``erased`` carries out an erasure in this file; no event may stand behind it yet. The user's own projections stay behind
        until the next event of this machine.
        """
        self.attend(transaction)
        events = self._fold_behind(transaction)
        self._folded = transaction.position
        self.learn(events)
        if self.own is not None:
            self.own.forget()
        for event in events:
            if isinstance(event.data, ContentErased):
                erased(event)
        if any(isinstance(event.data, ContentErased | LedgerUpgraded) for event in events):
            transaction.outdate()
            self.attend(transaction)

    def _fold_behind(self, transaction: Transaction) -> Sequence[AnyEvent]:
        row = transaction.connection.execute("SELECT position FROM checkpoint WHERE id = 1").fetchone()
        if row is None or not 0 < row[0] < transaction.position:
            return ()
        if row[0] != self._folded:  # else all that is kept in memory is of this position
            self.forget()
        events = list(decode_known(transaction.connection, row[0] + 1, transaction.position))
        for event in events:
            self.projector.fold(event, self.rows)
        self.projector.flush(self.rows)
        checkpoint(transaction.connection, transaction.position, transaction.head)
        return events

    def forget(self) -> None:
        """Drop all rows and facts in memory, which may differ from the file."""
        self._folded = -1
        self.forget_names()
        self.projector.forget()
        if self._rows_of is not None:
            self.rows.discard()
        if self.own is not None:
            self.own.forget()

    def connection(self) -> Connection:
        """Return the connection of the open transaction, after writing every event of it."""
        assert self._transaction is not None
        self._transaction.flush()
        return self._transaction.connection

    def closed(self) -> AbstractContextManager[None]:
        """Return a context in which reading a suspended projection raises an error."""
        if not self.projector.suspended:
            return _OPEN
        assert self._transaction is not None
        return tables_closed(self._transaction.connection, tables_of(self.projector.suspended))

    # --- folding -------------------------------------------------------------------------------------------------

    def fold(self, transaction: Transaction, events: Sequence[AnyEvent]) -> None:
        """Fold events that were just appended; a later append suspends the projections that cannot fold them."""
        projector, rows, own = self.projector, self.rows, self.own
        if own is not None:
            own.begin(transaction, events[0].position - 1)
        for event in events:
            changes = projector.fold(event, rows)
            if own is not None:
                own.fold(transaction, event, changes)
        if not transaction.deferred:
            projector.flush(rows, together=False)
            if own is not None:
                own.flush(transaction)
            if not projector.poisoned:
                checkpoint(transaction.connection, transaction.position, transaction.head)
        self._folded = transaction.position

    def flush(self) -> None:
        """Write the rows that a batch keeps back."""
        self.projector.flush(self.rows)

    def checkpoint(self, transaction: Transaction) -> None:
        """Write the events that a batch keeps back, after their rows, and the checkpoint."""
        transaction.flush()
        if self.own is not None:
            self.own.flush(transaction)
        checkpoint(transaction.connection, transaction.position, transaction.head)

    @property
    def are_many_waiting(self) -> bool:
        """Return True if so many texts wait for a text index that they are due."""
        return self._rows_of is not None and self.rows.are_many_waiting

    def index_slice(self, transaction: Transaction) -> None:
        """Move some of the texts that are due into the text indexes, so few that another writer hardly waits."""
        self.begin(transaction)
        self.rows.index_slice()

    def index_waiting(self, transaction: Transaction) -> None:
        """Move the waiting texts into the text indexes, where reads of the same transaction see them at once."""
        self.begin(transaction)
        self.rows.flush()
        for owner, index in text_indexes():
            if owner not in self.projector.suspended:
                fill_index(transaction.connection, index)
        self.rows.discard()
        for verb in ("SAVEPOINT", "RELEASE"):  # makes FTS5 write its counts of texts and words
            transaction.connection.execute(f"{verb} indexed")

    # --- subjects ------------------------------------------------------------------------------------------------

    def need(self, *names: str) -> None:
        """Raise ``SuspendedError`` if one of these projections is suspended."""
        for name in names:
            if name in self.projector.suspended:
                raise SuspendedError(
                    f"the projection {name!r} is suspended; maintenance.rebuild() makes it again", projection=name
                )

    def state_of(self, row: int, kind: str) -> Any:
        family = FAMILIES[kind]
        self.need(OWNERS[kind])
        values = self.rows.get(family.live, (row,))
        if values is None:
            return None
        state = family.from_row(values)
        self.projector.states[state.id] = state
        return state

    def find(self, reference: str, kind: str, user: str) -> Any:
        """Return the state of a user's subject by its id or an unambiguous prefix; None if there is none."""
        state = self.projector.states.get(reference) if isinstance(reference, str) else None
        if state is None:
            if not isinstance(reference, str) or len(reference) < ids.LENGTH:
                self.rows.flush()
            row = find_row(self.connection(), reference, kind, user)
            state = self.state_of(row, kind) if row is not None else None
        return state if state is not None and state.user == user else None

    def subject(self, id: str) -> Any:
        """Return the state of any user's subject by its full id; None if there is none."""
        kind = ids.kind_of(id)
        if not kind or id in self.projector.states:
            return self.projector.states.get(id)
        first = first_position(self.connection(), id)
        return self.state_of(first, kind) if first is not None else None

    def subject_at(self, id: str, position: int) -> Any:
        """Return a subject's state at a position, which a repeated command answers again."""
        state = self.subject(id)
        if ids.kind_of(id) != "m" or (state is not None and state.position <= position):
            return state
        self.rows.flush()
        first = first_position(self.connection(), id)
        earlier = memories.get_at(self.connection(), first, position) if first is not None else None
        return earlier or state

    # --- kept in memory ------------------------------------------------------------------------------------------

    def forget_names(self) -> None:
        """Forget names, policies and distrust, which an act may have changed."""
        self._names.clear()
        self._together.clear()
        self._labels.clear()
        self._policies.clear()
        self._distrusted = None

    def learn(self, events: Iterable[AnyEvent]) -> None:
        """Forget the names after an event that may change them, so that the next command reads them again."""
        for event in events:
            if type(event.envelope.data) in CHANGING:
                self.forget_names()

    def policy(self, user: str) -> PolicyState:
        """Return the policy in effect for a user."""
        if user not in self._policies:
            self.rows.flush()  # an earlier command of the batch may have adopted a policy
            self._policies[user] = control.policy(self.connection(), user)
        return self._policies[user]

    def distrusted(self) -> set[tuple[str | None, str, str | None]]:
        """Return (user, kind, source) of every distrusted source."""
        known = self._distrusted  # a local name, because another thread may set the attribute to None
        if known is None:
            refusals = control.refused(self.connection())
            known = self._distrusted = {(refusal.user, refusal.kind, refusal.source) for refusal in refusals}
        return known

    def named(self, user: str, kind: str, name: str) -> str | None:
        """Return the id of a user's project or session by name, alias or id."""
        key = (user, kind, name)
        if key not in self._names:
            form = name_form(name) if kind == "p" else name
            row = self.rows.get(projects.NAMES, (user, kind, form))
            if row is None:
                is_id = len(name) == ids.LENGTH and ids.is_prefix(name, kind)
                is_known = is_id and self.find(name, kind, user) is not None
                return (self.together(name)[0] if kind == "p" else name) if is_known else None
            self._names[key] = self.together(row[3])[0] or "" if kind == "p" else row[3]
        return self._names[key]

    def together(self, project: str | None) -> tuple[str | None, ...]:
        """Return a project and those joined to it, the project that they are found under first; (None,) for None."""
        if project is None:
            return (None,)
        if project not in self._together:
            self.rows.flush()  # an earlier command of the batch may have joined projects
            self._together[project] = projects.together(self.connection(), project)
        return self._together[project]

    def names_of(self, state: Any) -> dict[str, str]:
        """Return the names of a subject's project and session by their ids."""
        places = (getattr(state, "project", None), getattr(state, "session", None))
        place_ids = [place_id for place_id in places if place_id is not None]
        if not place_ids or "projects" in self.projector.suspended:
            return {}
        for place_id in place_ids:
            if place_id not in self._labels:
                place = self.subject((self.together(place_id)[0] or "") if place_id[0] == "p" else place_id)
                if place is not None and place.name is not None:
                    self._labels[place_id] = place.name
        return {place_id: self._labels[place_id] for place_id in place_ids if place_id in self._labels}
