"""One command, one append: decide under the writer's lock, write the events, fold them, commit.

``Writer.run`` is the only way into the log. A command's body reads through ``Work``, says what happened with ``emit``, and
nothing is written before the body has returned: a refusal leaves no trace but its own event.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC
from typing import Any

import msgspec

from ledger.domain import ids
from ledger.domain.errors import ConflictError, KeyReusedError, RejectedError, SuspendedError
from ledger.domain.events import (
    LEDGER_STREAM,
    WAYS_BACK,
    AnyEvent,
    Blob,
    CommandAnswered,
    Envelope,
    ErasureCompleted,
    Event,
    MemoryQuarantined,
    Recorded,
    TextQuarantined,
    WriteRefused,
    of,
)
from ledger.domain.policy import Policy
from ledger.domain.project import name_form
from ledger.domain.text import check_text, keyed_digest
from ledger.engine import expecting
from ledger.engine.log_reading import Reading, check_log_since, check_tables, decode_known, find_row, first_position
from ledger.engine.work import Body, Clock, Outcome, Pooled, Random, Who, Work
from ledger.guards.guarding import Guard
from ledger.store import mapper
from ledger.store.event_store import EventStore, Transaction
from projections.core.projector import ESSENTIAL, FAMILIES, OWNERS, Projector, checkpoint, suspend, text_indexes
from projections.core.sqlite import SQLiteRows, take_in
from projections.views import control, memories, projects

_OF_THE_LEDGER = (CommandAnswered, ErasureCompleted)  # what says nothing of its own
_CHANGING: tuple[type[Any], ...] = (
    *WAYS_BACK,
    *of(governs=("policy", "session")),
)  # after these names, trust and policies may be others
_SAYING_MUCH = (
    *("capture", "interactions.add_response", "session.append", "session.reconcile", "session.replace"),
    *("session.set_abstract", "session.compact"),
)
_SOURCES = ("actor", "client", "agent", "session")  # what can be distrusted of whoever writes
INLINE_BYTES = 256 * 1024  # a text above this lies in the blobs table
REFUSED = 10_000  # refusals remembered, so that equal ones are recorded once
_log = logging.getLogger(__name__)  # ids, types and times, never a text
BATCH_SECONDS, BATCH_EVENTS = 5.0, 10_000


class Writer:
    """Owns the writing side of one open ledger: the transaction, the clock, the ids, the fold."""

    def __init__(self, store: EventStore, secret: bytes, ledger_id: str, clock: Clock, random: Random) -> None:
        self.store, self.secret, self.ledger_id, self.clock = store, secret, ledger_id, clock
        self.random = Pooled(random)
        self.guard = Guard()
        self.rows: SQLiteRows
        self.projector = Projector(secret, Reading(self.connection))
        self.generation = 0
        self._transaction: Transaction | None = None
        self._rows_of: object = None
        self.looked_at = 0  # the log was searched for what this product cannot go on from up to here
        self._changes = -1  # of the store, when this writer last looked
        self._left_at = -1  # the last position that this writer knows to be folded
        self._refused: set[bytes] = set()
        self._names: dict[tuple[str, str, str], str] = {}
        self._labels: dict[str, str] = {}
        self._policies: dict[str, Policy] = {}
        self._distrusted: set[tuple[str | None, str, str | None]] | None = None  # (user, kind, source)
        self._batch_started, self._batch_events, self._batch_thread = 0.0, 0, 0

    # --- running one command -------------------------------------------------------------------------------------

    def run(self, command: str, who: Who, body: Body, arguments: object = None) -> Outcome:
        """Runs a command's body under the lock; its events are one append, folded and committed with it."""
        if command in _SAYING_MUCH or self.guard.scanners:
            self.guard.ahead(arguments)
        answer = self._run(command, who, body, arguments)
        if isinstance(answer, RejectedError):
            raise answer
        return answer

    def _run(self, command: str, who: Who, body: Body, arguments: object) -> Outcome | RejectedError:
        if self._batch_thread == threading.get_ident() and not self._batch_is_full:
            return self._try(self._under_way(), command, who, body, arguments)
        with self.store.transact() as transaction:
            self._renew(transaction)
            return self._try(transaction, command, who, body, arguments)

    def _try(
        self, transaction: Transaction, command: str, who: Who, body: Body, arguments: object
    ) -> Outcome | RejectedError:
        """The outcome, or the refusal, which leaves its own trace in the same transaction."""
        try:
            self.begin(transaction)
            return self._decide(transaction, command, who, body, arguments)
        except RejectedError as refusal:
            self._refuse(transaction, command, who, refusal, arguments)
            return refusal
        except BaseException as error:
            if not self._batch_thread:  # in a batch the rows of the commands before this one are kept
                self.forget()
            if (explained := self.store.explained(error, transaction.connection)) is not None:
                raise explained from error
            raise

    def _decide(self, transaction: Transaction, command: str, who: Who, body: Body, arguments: object) -> Outcome:
        self.guard.check_people(who)
        key, digest = self._key(who, command, arguments)
        if key is not None and (known := control.answer(self.rows, key)) is not None:
            return self._replay(known, command, digest)
        work = Work(self, transaction, command, who, self.now())
        subject = bearer = body(work)
        if who.expected is not None:
            expecting.check(work, who.expected, transaction.position)
        self._refuse_distrusted(work)
        added = self.guard.watch(work) if work.emitted else 0
        if key is not None and all(stream != subject for stream, *_ in work.emitted):
            state = self._subject_state(subject)
            work.emit(LEDGER_STREAM, CommandAnswered(subject, state.position if state is not None else 0))
            bearer = LEDGER_STREAM
        events = self.append(work, key, digest, bearer) if work.emitted else []
        if added:  # what the guards said is no part of the answer
            events = [each for each in events if not isinstance(each.data, MemoryQuarantined | TextQuarantined)]
        outcome = self._outcome(subject, events, transaction.position, absorbed=work.absorbed)
        return msgspec.structs.replace(outcome, redacted=True) if work.redactions else outcome

    def _refuse_distrusted(self, work: Work) -> None:
        """What a distrusted source writes would count until somebody noticed, so it is not taken."""
        distrusted = self._distrusted  # another thread may forget it meanwhile
        if distrusted is None:
            found = control.refused(self.connection())
            distrusted = self._distrusted = {(each.user, each.kind, each.source) for each in found}
        if not distrusted or all(isinstance(data, _OF_THE_LEDGER) for _, _, data, *_ in work.emitted):
            return
        who = work.who
        for kind, source in zip(_SOURCES, (who.actor, who.client, who.agent, work.session), strict=True):
            if (who.user, kind, source) in distrusted:
                raise RejectedError(
                    f"the {kind} {source!r:.60} is distrusted; somebody else has to end that by history.trust() before it writes",
                    rule="trust",
                )

    def _outcome(self, subject: str, events: Sequence[AnyEvent], position: int, *, absorbed: bool) -> Outcome:
        """The answer, read under the lock. What this very command parked has none, and the command stands."""
        try:
            state = self._subject_state(subject)
        except SuspendedError:
            state = None
        return Outcome(subject, state, events, position, absorbed=absorbed, names=self._names_of(state))

    def _names_of(self, state: Any) -> dict[str, str]:
        """What people call the project and session of a subject."""
        given = [
            each for each in (getattr(state, "project", None), getattr(state, "session", None)) if each is not None
        ]
        if not given or "projects" in self.projector.suspended:
            return {}
        known = self.labels(*given)
        return {each: known[each] for each in given if each in known}

    def _key(self, who: Who, command: str, arguments: object) -> tuple[bytes | None, str | None]:
        if who.key is None:
            return None, None
        check_text("key", who.key, max_bytes=1024)
        told = self._told(who, command, arguments)
        return self.mac("key", who.user, who.key), self.mac("arguments", who.user, told).hex()

    def _told(self, who: Who, command: str, arguments: object) -> bytes:
        told = encoded([command, arguments])
        return told if self.policy(who.user).secrets == "off" else self.guard.harmless(told)

    def mac(self, purpose: str, user: str, given: str | bytes) -> bytes:
        """A keyed digest (HMAC-SHA256, 16 bytes) of something a person gave, for one purpose and one user."""
        text = given.encode() if isinstance(given, str) else given
        owner = user.encode()
        return keyed_digest(self.secret, b"%b\0%d\0%b%b" % (purpose.encode(), len(owner), owner, text))

    def _replay(self, known: control.Answer, command: str, digest: str | None) -> Outcome:
        if (known.command, known.arguments or digest) != (command, digest):  # erased arguments can only be believed
            raise KeyReusedError(
                f"this key was used at position {known.position} for {known.command!r} with other arguments; "
                "use another key, or repeat that command as it was"
            )
        state = self._state_at(known.subject, known.seen)
        if state is not None and state.user is None:
            raise ConflictError(f"what this key was used for at position {known.position} was erased; use another key")
        if state is None and known.subject != LEDGER_STREAM:
            raise ConflictError(f"this key was answered with {known.subject}, which was undone since; use another key")
        return Outcome(known.subject, state, (), known.position, replayed=True, names=self._names_of(state))

    def _refuse(
        self, transaction: Transaction, command: str, who: Who, refusal: RejectedError, arguments: object
    ) -> None:
        """A refusal by a rule leaves its label and numbers, equal ones once per open ledger; a malformed call leaves nothing.

        Nothing in the file says what was refused: a digest of a short text could be guessed. So those recorded are remembered
        here, and again by whoever opens the ledger next.
        """
        told = self.guard.nameless(who)
        if refusal.rule == "validation" or told is None:
            return
        who = told
        attempt = self.mac("refused", who.user, encoded([refusal.rule, who.actor, command, arguments]))
        if attempt in self._refused:
            return
        if len(self._refused) >= REFUSED:
            self._refused.clear()
        self._refused.add(attempt)
        numbers = (refusal.limit, refusal.current, refusal.requested)
        data = WriteRefused(refusal.rule, refusal.subject, *numbers, refusal.finding, refusal.scanner)
        work = Work(self, transaction, command, msgspec.structs.replace(who, key=None), self.now())
        work.emit(LEDGER_STREAM, data)
        self.append(work, None, None, LEDGER_STREAM)

    # --- appending -----------------------------------------------------------------------------------------------

    def append(self, work: Work, key: bytes | None, digest: str | None, subject: str) -> list[AnyEvent]:
        transaction = work.transaction
        versions: dict[str, int] = {}
        begun = {LEDGER_STREAM: 1}  # stream -> the position of its first event
        events: list[AnyEvent] = []
        stored, keys, position, command_id, changing = [], [], transaction.position, "", False
        bearer = _last_of(subject, work.emitted) if key is not None else -1
        for at, (stream, first, data, project, occurred_at) in enumerate(work.emitted):
            position += 1
            changing = changing or isinstance(data, _CHANGING)
            new = not first and stream != LEDGER_STREAM
            version = versions.get(stream) or (1 if new else transaction.version(stream) + 1)
            versions[stream] = version + 1
            bound = key if at == bearer else None  # the last event of the subject: the answer is its state after it
            place = (project, occurred_at)
            envelope = self._envelope(work, data, digest, bound, place, command_id)
            if at in work.redactions:
                envelope = msgspec.structs.replace(envelope, redactions=work.redactions[at])
            command_id = envelope.command_id
            stored.append(mapper.to_stored(stream, version, envelope))
            keys.append(bound)
            begins = begun.setdefault(stream, first or position)
            events.append(Recorded(position, begins, stream, version, type(data).__name__, envelope, bound))
        for blob_id, content in work.blobs:
            transaction.put_blob(blob_id, content)
        transaction.append(stored, keys)
        try:
            self._fold(transaction, events)
            for act in work.afterwards:
                act(events)
        except BaseException:
            transaction.spoil()  # the events without their rows must not be committed, by a batch that goes on neither
            raise
        if work.who.expected is not None:
            work.who.expected.own.update(each.position for each in events)
        if _log.isEnabledFor(logging.DEBUG):
            for event in events:
                _log.debug("%s: %s at %d of %s", work.command, event.type, event.position, event.stream)
        self._batch_events += len(events)
        self._left_at = transaction.position
        if changing:
            self.forget_names()  # under the lock: whoever comes next must not decide by what was so before
        return events

    def _envelope(
        self,
        work: Work,
        data: Event,
        digest: str | None,
        key: bytes | None,
        place: tuple[str | None, str | None],
        command_id: str,
    ) -> Envelope[Any]:
        """``place`` is the project, and the time in the world."""
        who, random = work.who, self.random(16)
        event_id = ids.uuid7(time.time_ns(), random[:8])
        return Envelope(
            event_id=event_id,
            schema=data.schema,
            recorded_at=work.recorded_at,
            occurred_at=place[1],
            begun=command_id or None,
            command=work.command,
            arguments=digest,
            key=key.hex() if key is not None else None,
            causation_id=who.causation_id,
            correlation_id=who.correlation_id,
            actor=who.actor,
            client=who.client,
            channel=who.channel,
            user=work.user,
            agent=who.agent,
            project=place[0],
            session=work.session,
            salt=random[8:].hex(),
            data=data,
        )

    def _fold(self, transaction: Transaction, events: Sequence[AnyEvent]) -> None:
        projector = self.projector
        for event in events:
            projector.fold(event, self.rows)
        if not self._batch_thread:
            projector.flush(self.rows)
        if projector.poisoned:
            self._suspend(transaction)
        elif not self._batch_thread:
            checkpoint(transaction.connection, transaction.position, transaction.head)

    def _suspend(self, transaction: Transaction) -> None:
        """Parks what could not fold an event; ``DamagedError`` where its own rows are to blame, and not the event."""
        failed = {name for name, *_ in self.projector.poisoned}
        if (damaged := self.store.find_damage(transaction.connection, failed)) is not None:
            raise damaged
        poisoned, self.projector.poisoned = self.projector.poisoned, []
        who = Who(actor="ledger")
        work = Work(self, transaction, "suspend", who, self.now())
        for name, at, error in poisoned:
            _log.warning("the projection %s is suspended at position %d (%s)", name, at, error)
            work.emit(LEDGER_STREAM, suspend(transaction.connection, name, at, error))
        self.append(work, None, None, LEDGER_STREAM)

    def now(self) -> str:
        moment = self.clock()
        utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
        if utc.microsecond:  # without any they are left out
            return mapper.encode(utc).decode()[1:-1]  # in a tenth of the time that isoformat takes
        return utc.isoformat(timespec="microseconds")[:26] + "Z"

    # --- the state under the lock --------------------------------------------------------------------------------

    def begin(self, transaction: Transaction) -> None:
        self.attend(transaction)
        if transaction.position != self._left_at:
            self._catch_up(transaction)
        if blocked := self.projector.suspended.intersection(ESSENTIAL):
            name = min(blocked)
            raise SuspendedError(
                f"the projection {name!r} is suspended, so nothing can be decided; maintenance.rebuild() makes it again",
                projection=name,
            )

    def _catch_up(self, transaction: Transaction) -> None:
        """Folds what somebody wrote to the log alone: nothing is decided without it."""
        folded = transaction.connection.execute("SELECT position FROM checkpoint").fetchone()
        if not self._batch_thread and folded is not None and 0 < folded[0] < transaction.position:
            self.forget()
            for event in decode_known(transaction.connection, folded[0] + 1, transaction.position):
                self.projector.fold(event, self.rows)
            self.projector.flush(self.rows)
            checkpoint(transaction.connection, transaction.position, transaction.head)
        self._left_at = transaction.position

    def attend(self, transaction: Transaction) -> None:
        """Works in this transaction from here, whatever is suspended."""
        if self._rows_of is not transaction.connection:
            self.rows, self._rows_of = SQLiteRows(transaction.connection), transaction.connection
            self.rows.refused = self.projector.refused
        self._transaction = transaction
        if not self._batch_thread:
            self.projector.forget()
        if transaction.changed or self._changes != self.store.changes:  # a rebuild's transactions may have come between
            self._look_again(transaction)
            transaction.changed = False  # a batch comes here again with every command
            self._changes = self.store.changes

    def _look_again(self, transaction: Transaction) -> None:
        """Somebody else committed: what was kept of names and tables may be old, and the log beyond this product."""
        check_log_since(transaction.connection, self.looked_at)
        self.looked_at = transaction.position
        self.forget()
        self.projector.poisoned.clear()
        self.generation, self.projector.suspended = check_tables(transaction.connection, self.secret)

    def forget(self) -> None:
        self._left_at = -1
        self.forget_names()
        self.projector.forget()
        if self._rows_of is not None:
            self.rows.discard()

    def policy(self, user: str) -> Policy:
        """The policy in force for a user, under the lock; read once while nobody else writes."""
        if user not in self._policies:
            self.rows.flush()  # in a batch one may have been adopted just now
            self._policies[user] = control.policy(self.connection(), user)
        return self._policies[user]

    def forget_names(self) -> None:
        """An act may have taken names or trust away, or given them back."""
        self._names.clear()
        self._labels.clear()
        self._policies.clear()
        self._distrusted = None

    def state_of(self, row: int, kind: str) -> Any:
        family = FAMILIES[kind]
        self.need(OWNERS[kind])
        found = self.rows.get(family.live, (row,))
        if found is None:
            return None
        state = family.from_row(found)
        self.projector.states[state.id] = state
        return state

    def need(self, *names: str) -> None:
        """A parked projection answers nothing."""
        for name in names:
            if name in self.projector.suspended:
                raise SuspendedError(
                    f"the projection {name!r} is suspended; maintenance.rebuild() makes it again", projection=name
                )

    def find(self, given: str, kind: str, user: str) -> Any:
        """The state of a subject of this user by its id or an unambiguous prefix of it, or None."""
        known = self.projector.states.get(given) if isinstance(given, str) else None
        if known is None:
            self.need(OWNERS[kind])
            if not isinstance(given, str) or len(given) < ids.LENGTH:
                self.rows.flush()
            row = find_row(self.connection(), given, kind, user)
            known = self.state_of(row, kind) if row is not None else None
        return known if known is not None and known.user == user else None

    def named(self, user: str, kind: str, name: str) -> str | None:
        key = (user, kind, name)
        if key not in self._names:
            self.need("projects")
            form = name_form(name) if kind == "p" else name
            row = self.rows.get(projects.NAMES, (user, kind, form))
            if row is None:
                return self._by_id(user, kind, name)
            self._names[key] = row[3]
        return self._names[key]

    def _by_id(self, user: str, kind: str, given: str) -> str | None:
        is_id = len(given) == ids.LENGTH and ids.is_prefix(given, kind)
        return given if is_id and self.find(given, kind, user) is not None else None

    def labels(self, *given: str | None) -> dict[str, str]:
        """The names that people gave to these projects and sessions."""
        missing = [each for each in given if each is not None and each not in self._labels]
        for each in missing:
            state = self._subject_state(each)
            if state is not None and state.name is not None:
                self._labels[each] = state.name
        return self._labels

    def _subject_state(self, subject: str) -> Any:
        kind = ids.kind_of(subject)
        if not kind or subject in self.projector.states:
            return self.projector.states.get(subject)
        first = first_position(self.connection(), subject)
        return self.state_of(first, kind) if first is not None else None

    def _state_at(self, subject: str, position: int) -> Any:
        """A subject as it stood at a position: what a repeated command answered the first time."""
        state = self._subject_state(subject)
        if ids.kind_of(subject) != "m" or (state is not None and state.position <= position):
            return state
        self.rows.flush()
        first = first_position(self.connection(), subject)
        known = memories.get_at(self.connection(), first, position) if first is not None else None
        return known or state

    def connection(self) -> Any:
        """The connection of the transaction under way, with every event of it written."""
        assert self._transaction is not None
        self._transaction.flush()
        return self._transaction.connection

    # --- batch ---------------------------------------------------------------------------------------------------

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Many commands, one commit; at every 5 seconds or 10,000 events what there is gets committed."""
        if self._batch_thread == threading.get_ident():
            yield
            return
        with self.store.transact() as transaction:
            self.begin(transaction)
            self._batch_thread, transaction.deferred = threading.get_ident(), True
            self._batch_started, self._batch_events = time.monotonic(), 0
            try:
                yield
                self.settle()
            except BaseException:
                self.forget()
                self._refused.clear()  # those that it recorded are rolled back
                raise
            finally:
                self._batch_thread, transaction.deferred = 0, False

    @property
    def batching(self) -> bool:
        """Whether this thread is inside ``batch``."""
        return self._batch_thread == threading.get_ident()

    def settle(self) -> None:
        """Writes what this thread's batch has kept back, so that it can be read, without committing it."""
        if self._transaction is not None and self._batch_thread == threading.get_ident():
            self.projector.flush(self.rows)
            if self.projector.poisoned:
                self._suspend(self._transaction)
                self.projector.flush(self.rows)
            self._transaction.flush()
            checkpoint(self._transaction.connection, self._transaction.position, self._transaction.head)

    def _renew(self, transaction: Transaction) -> None:
        """Commits a batch that has grown to its bounds, and goes on in a new transaction."""
        if self._batch_thread and self._batch_is_full:
            self.settle()
            transaction.renew()
            self.projector.forget()
            self._batch_started, self._batch_events = time.monotonic(), 0

    @property
    def _batch_is_full(self) -> bool:
        return self._batch_events >= BATCH_EVENTS or time.monotonic() - self._batch_started >= BATCH_SECONDS

    def _under_way(self) -> Transaction:
        assert self._transaction is not None
        return self._transaction

    def index_waiting(self) -> None:
        """Takes the texts that wait into the text indexes, for whoever is about to search them, unless somebody is writing."""
        self.store.write_now(self._index_waiting)

    def _index_waiting(self, transaction: Transaction) -> None:
        self.begin(transaction)
        self.rows.flush()
        for owner, index in text_indexes():
            if owner not in self.projector.suspended:
                take_in(transaction.connection, index)
        self.rows.discard()

    # --- texts ---------------------------------------------------------------------------------------------------

    def body(self, work: Work, text: str) -> str | Blob:
        """A text as an event holds it: itself, or above 256 KiB a reference to the blobs table."""
        if len(text) * 4 <= INLINE_BYTES or len(data := text.encode()) <= INLINE_BYTES:
            return text
        verdict = self.guard.of_large(work, text)
        data = verdict.text.encode()
        blob_id, salt = "b_" + self.random(16).hex(), self.random(16)
        work.blobs.append((blob_id, salt + data))
        work.large[blob_id] = verdict
        return Blob(blob_id, len(data), hashlib.sha256(salt + data).hexdigest())


def encoded(arguments: object) -> bytes:
    """What a command was asked, as bytes to compare; ``RejectedError`` for what no command takes."""
    try:
        return msgspec.json.encode(arguments, enc_hook=str, order="deterministic")
    except (ValueError, OverflowError, RecursionError, TypeError) as error:
        raise RejectedError(f"an argument is nothing that can be recorded ({type(error).__name__})") from None


def _last_of(subject: str, emitted: Sequence[tuple[str, int, Event, str | None, str | None]]) -> int:
    """Where the last event of a subject is among those emitted; -1 where it has none."""
    return max((at for at, (stream, *_) in enumerate(emitted) if stream == subject), default=-1)
