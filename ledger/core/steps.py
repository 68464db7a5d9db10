"""The steps that only some commands take: the idempotency key, the expected position, trust, the refusal, and findings.

Long commands stand here too: they plan without the lock, are bounded in size, and end when their caller stops them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ledger.core.call import Expected, Who
from ledger.core.guarding import BELIEFS, ScannerHit, Watched, refused
from ledger.core.reads import read_event
from ledger.core.work import Means, Outcome, Work
from ledger.domain.errors import ConflictError, KeyReusedError, RejectedError
from ledger.domain.text import LIST_ITEMS, check_text
from ledger.events import (
    LEDGER_STREAM,
    WAYS_BACK,
    CommandAnswered,
    ContentErased,
    DuplicateAbsorbed,
    ErasureCompleted,
    EventData,
    MemoryQuarantined,
    TextQuarantined,
    WriteRefused,
)
from ledger.log.event_store import Transaction
from ledger.types import Cancel
from projections.core.projector import FAMILIES
from projections.views import control, erasures

# --- idempotency keys: a command that is repeated with its key and arguments gets the answer of the first time -------------


class Key(Struct, frozen=True):
    """An idempotency key and its command's arguments as the log keeps them: keyed digests, never the texts."""

    key: bytes
    arguments: str


class GivenKey(Struct, frozen=True):
    """An idempotency key that a caller gave, with the digests of the arguments as they are and without secrets."""

    key: bytes
    exact: str
    clean: str

    def by(self, secrets: str) -> Key:
        """Return the key as a user's policy about ``secrets`` records it."""
        return Key(self.key, self.exact if secrets == "off" else self.clean)


def given_key(means: Means, command: str, who: Who, arguments: object) -> GivenKey:
    """Return the key of a command, before the lock is taken: digesting and cleaning long arguments takes time."""
    name = check_text("idempotency_key", who.key)
    text = encoded([command, arguments])
    exact, harmless = arguments_digest(means, who.user, text), means.guard.harmless(text, arguments)
    clean = exact if harmless is text else arguments_digest(means, who.user, harmless)
    return GivenKey(means.mac("key", who.user, name), exact, clean)


def arguments_digest(means: Means, user: str, text: bytes) -> str:
    """Return the keyed digest of encoded arguments that the log keeps."""
    return means.mac("arguments", user, text).hex()


def first_answer(means: Means, key: Key, command: str) -> Outcome | None:
    """Return the answer of the first command with this key; None for a new key.

    Raises:
        KeyReusedError: The key was used for another command or other arguments.
        ConflictError: The subject of the first answer was erased or undone since.
    """
    tables = means.tables
    known = control.answer(tables.rows, key.key)
    if known is None:
        return None
    arguments = known.arguments or key.arguments  # erased arguments cannot be compared
    if (known.command, arguments) != (command, key.arguments):
        raise KeyReusedError(
            f"this key was used at position {known.position} for {known.command!r} with other arguments; "
            "use another key, or repeat that command with the same arguments"
        )
    state = tables.subject_at(known.subject, known.seen)
    if state is not None and state.user is None:
        raise ConflictError(
            f"this key was used at position {known.position} for a subject that was erased since; use another key"
        )
    if state is None and known.subject != LEDGER_STREAM:
        raise ConflictError(f"this key was answered with {known.subject}, which was undone since; use another key")
    policy = tables.policy(state.user) if state is not None and state.user is not None else None
    return Outcome(known.subject, state, (), known.position, replayed=True, names=tables.names_of(state), policy=policy)


def key_bearer(means: Means, work: Work, subject: str) -> str:
    """Return the stream whose last event carries the key; emit CommandAnswered if the subject got no event."""
    if any(stream == subject for stream, *_ in work.emitted):
        return subject
    state = means.tables.subject(subject)
    work.emit(LEDGER_STREAM, CommandAnswered(subject, state.position if state is not None else 0))
    return LEDGER_STREAM


def encoded(arguments: object) -> bytes:
    """Return a command's arguments as bytes to compare; raise ``RejectedError`` if they cannot be encoded."""
    try:
        return msgspec.json.encode(arguments, enc_hook=str, order="deterministic")
    except (ValueError, OverflowError, RecursionError, TypeError) as error:
        raise RejectedError(f"an argument cannot be recorded ({type(error).__name__})") from None


# --- compare and set: nobody changed the subjects since the position that the caller expects -------------------------

_OF_A_SUBJECT = "SELECT position FROM main.events WHERE stream = ? AND position > ?"
_ERASED = "SELECT erased_by FROM main.events WHERE stream = ? AND erased_by > ?"
_CHANGES_OF_THE_LEDGER = "SELECT position FROM audit WHERE type = ? AND user = ? AND position > ?"
_ACTS = f"SELECT position FROM audit WHERE type IN ({', '.join(repr(kind.__name__) for kind in WAYS_BACK)}) AND position > ?"
_NAMED = (
    "SELECT stream, type, (SELECT position FROM main.events AS f WHERE f.stream = e.stream AND f.version = 1)"
    " FROM main.events AS e WHERE position BETWEEN ? AND ?"
)
_AMONG = "SELECT 1 FROM audit WHERE type = ? AND user = ? AND position BETWEEN ? AND ? LIMIT 1"


def check_expected(work: Work, expected: Expected) -> None:
    """Raise ``ConflictError`` if somebody else changed a subject of the command after the expected position.

    A change is a later event of the subject, or a later act that made events of it void, restored or erased them. On the
    ledger's own stream, which all users share, it is a later event of the same type for this user, or such an act on one.
    An act changes every subject whose events it names.
    """
    check_end(work, expected)
    for (stream, type_), first in _changed(work).items():
        if stream == LEDGER_STREAM:
            change = f"another {type_}"
            changes = _of_the_ledger(work, type_, expected.position)
        else:
            change, changes = f"a change of {stream}", _of_a_subject(work, stream, first, expected.position)
        if others := [position for position in changes if position not in expected.own]:
            raise ConflictError(
                f"{change} was recorded at position {min(others)}, after the expected {expected.position}; nothing was written"
            )


def check_end(work: Work, expected: Expected) -> None:
    """Raise ``RejectedError`` if the expected position is beyond the end of the log."""
    last = work.transaction.position
    if expected.position > last:
        raise RejectedError(
            f"expected is a position of the log, which ends at {last}, but {expected.position} is beyond the end",
            limit=last,
            requested=expected.position,
        )


def _changed(work: Work) -> dict[tuple[str, str], int]:
    """Return the first position of each changed subject, and of each type of event on the ledger's own stream."""
    changed: dict[tuple[str, str], int] = {}
    for stream, first, data, *_ in work.emitted:
        erased = isinstance(data, ContentErased)
        if spans := _named_by(data):
            subjects = (subject for span in spans for subject in work.connection().execute(_NAMED, span))
            for stream_named, type_, row in subjects:
                # an erasure on the stream that all users share takes only a text
                if not (erased and stream_named == LEDGER_STREAM):
                    changed[stream_named, type_ if stream_named == LEDGER_STREAM else ""] = row or 0
        else:
            changed[stream, type(data).__name__ if stream == LEDGER_STREAM else ""] = first
    return changed


def _named_by(data: EventData) -> Sequence[tuple[int, int]]:
    """Return the ranges of positions that an act names."""
    if isinstance(data, ContentErased):
        return [(target.position, target.position) for target in data.targets]
    return data.ranges if isinstance(data, WAYS_BACK) else ()


def _of_a_subject(work: Work, stream: str, first: int, after: int) -> Iterator[int]:
    """Yield the positions after ``after`` of a subject's changes: its events, the acts on it, and its erasures.

    Acts leave another version of the subject's row. Erasures do not.
    """
    family = FAMILIES[stream[0]]
    work.rows.flush()
    connection = work.connection()
    versions = (
        f"SELECT to_position FROM {family.closed.name} WHERE row = ? AND to_position > ?",
        f"SELECT from_position FROM {family.live.name} WHERE row = ? AND from_position > ?",
    )
    queries = [(_OF_A_SUBJECT, stream), *((sql, first) for sql in versions)]
    if erasures.last(connection) > after:
        queries.append((_ERASED, stream))
    for sql, key in queries:
        yield from (position for (position,) in connection.execute(sql, (key, after)))


def _of_the_ledger(work: Work, type_: str, after: int) -> Iterator[int]:
    """Yield the positions after ``after`` at which this user's events of a type were recorded, made void or restored."""
    work.rows.flush()
    connection, user = work.connection(), work.who.user
    yield from (position for (position,) in connection.execute(_CHANGES_OF_THE_LEDGER, (type_, user, after)))
    for (position,) in connection.execute(_ACTS, (after,)).fetchall():
        event = read_event(connection, position)
        data: Any = event.data if event is not None else None
        if data is not None and any(
            connection.execute(_AMONG, (type_, user, *span)).fetchone() for span in data.ranges
        ):
            yield position


# --- trust -----------------------------------------------------------------------------------------------------------

_SOURCES = ("actor", "client", "agent", "session")  # the kinds of a writer's source that can be distrusted
_WITHOUT_STATEMENT = (CommandAnswered, ErasureCompleted)  # events without a statement of their own


def check_trusted(work: Work, distrusted: Collection[tuple[str | None, str, str | None]]) -> None:
    """Refuse writes from distrusted sources, which would otherwise count until somebody noticed them."""
    if all(isinstance(data, _WITHOUT_STATEMENT) for _, _, data, *_ in work.emitted):
        return
    who = work.who
    for kind, source in zip(_SOURCES, (who.actor, who.client, who.agent, work.session), strict=True):
        if (who.user, kind, source) in distrusted:
            raise RejectedError(
                f"the {kind} {source!r:.60} is distrusted and may not write until another writer ends that by history.trust()",
                rule="trust",
            )


# --- refusals: the log keeps the label and numbers of the rule, and never the refused text ---------------------------

REMEMBERED = 10_000  # refusals in memory, so that an equal refusal is recorded only once


class RefusalCounter:
    """The refusals recorded since the ledger was opened; a malformed call is not one of them.

    The file does not say which text was refused, because a digest of a short text could be guessed. So the refusals are kept
    in memory, and another process may record an equal refusal again.
    """

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def record(
        self,
        means: Means,
        transaction: Transaction,
        command: str,
        who: Who,
        refusal: RejectedError,
        arguments: object,
    ) -> Work | None:
        """Return the work that records a refusal; None if the call was malformed, or an equal refusal is recorded."""
        outcome = means.guard.without_secret_names(who)
        if refusal.rule == "validation" or outcome is None:
            return None
        attempt = means.mac("refused", outcome.user, encoded([refusal.rule, outcome.actor, command, arguments]))
        if attempt in self._known:
            return None
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known.add(attempt)
        numbers = (refusal.limit, refusal.current, refusal.requested)
        work = Work(means, transaction, command, msgspec.structs.replace(outcome, key=None), means.now())
        work.emit(
            LEDGER_STREAM, WriteRefused(refusal.rule, refusal.subject, *numbers, refusal.finding, refusal.scanner)
        )
        return work

    def forget(self) -> None:
        """Forget the recorded refusals, which may have been rolled back."""
        self._known.clear()


# --- findings: what the guards found in the events, before they are written -------------------------------------------


def act_on_findings(work: Work, watched: Watched) -> int:
    """Take the secrets out of the emitted events, refuse or quarantine threats, and return the number of events added.

    Raises:
        RejectedError: The policy refuses threats, and a memory has one.
    """
    before = len(work.emitted)
    for at, data in watched.data.items():
        stream, first, _, project, occurred_at = work.emitted[at]
        work.emitted[at] = (stream, first, data, project, occurred_at)
    work.redactions |= watched.redactions
    if watched.flagged:
        _quarantine(work, watched.flagged)
    return len(work.emitted) - before


def _quarantine(work: Work, flagged: Sequence[tuple[int, ScannerHit]]) -> None:
    policy = work.policy().threats
    if policy == "off":
        return
    if policy == "refuse":
        for at, threat in flagged:
            stream, _, data, *_ = work.emitted[at]
            if type(data) in BELIEFS:
                raise refused(threat, stream if work.emitted[at][1] else None)
    held: set[str] = set()
    base = work.transaction.position + 1 + (work.unannounced() > 0)
    project, time = work.project, work.occurred_at
    for at, threat in flagged:
        stream, first, data, work.project, _ = work.emitted[at]
        work.occurred_at = None
        if isinstance(data, DuplicateAbsorbed):  # the memory does not have the attempt's words, so the memory stays
            data = replace(data, finding=threat.label, scanner=threat.scanner)
            work.emitted[at] = (stream, first, data, work.project, work.emitted[at][4])
        elif stream[0] == "m" and stream[1] == "_":
            if stream not in held and not _is_held(work, stream, first):
                work.emit(stream, MemoryQuarantined("", threat.label, threat.scanner), first=first)
            held.add(stream)
        else:
            work.emit(LEDGER_STREAM, TextQuarantined(base + at, threat.label, threat.scanner))
    work.project, work.occurred_at = project, time


def _is_held(work: Work, stream: str, first: int) -> bool:
    state = work.find(stream, "m") if first else None
    return state is not None and state.quarantined


# --- long commands: a plan without the lock, and a check of the plan under it ----------------------------------------

P = TypeVar("P")
R = TypeVar("R")
ATTEMPTS = 4


class PlanOutdated(Exception):
    """The state that a plan rests on has changed."""


def optimistic(plan: Callable[[], P], decide: Callable[[P], R], *, at_last: Callable[[], R] | None = None) -> R:
    """Return the result of ``decide``, which runs a command by a plan and raises ``PlanOutdated`` if the plan no longer holds.

    After ``ATTEMPTS`` failures ``at_last`` plans and decides under the lock, where nothing changes.

    Raises:
        ConflictError: Every attempt failed and there is no ``at_last``.
    """
    for _ in range(ATTEMPTS):
        try:
            return decide(plan())
        except PlanOutdated:
            continue
    if at_last is None:
        raise ConflictError(
            f"other writers changed the same subjects during all {ATTEMPTS} attempts; nothing was written, try again"
        )
    return at_last()


# --- the size of one act ----------------------------------------------------------------------------------------------

MOST_EVENTS = 50_000  # of one act, for which others wait: about 20 seconds of the writer's lock

EXCLUSIVE_ALLOWS = "exclusive=True allows it all the same"

Spans = tuple[tuple[int, int], ...]


def range_lists(positions: Iterable[int]) -> list[Spans]:
    """Return positions as lists of ranges, at most 2,000 ranges an event, for lists in events are bounded."""
    spans = control.ranges(positions)
    return [spans[start : start + LIST_ITEMS] for start in range(0, len(spans), LIST_ITEMS)]


def check_size(events: int, *, exclusive: bool, allowed: str = EXCLUSIVE_ALLOWS) -> None:
    """Raise ``RejectedError`` if an act concerns more events than others should have to wait for, unless it is ``exclusive``."""
    if events > MOST_EVENTS and not exclusive:
        raise RejectedError(
            f"this concerns {events:,} events, and more than {MOST_EVENTS:,} would keep others waiting for long; {allowed}",
            rule="size",
            limit=MOST_EVENTS,
            requested=events,
        )


# --- the end of a long call --------------------------------------------------------------------------------------------

LOOK_SECONDS = 0.1  # the pause between two calls of the cancel function while the call waits


class Stopping:
    """The deadline and the cancellation of a call; the work done before the end stays."""

    def __init__(self, timeout: float | None = None, cancel: Cancel | None = None) -> None:
        check_call(timeout, cancel)
        self._until = None if timeout is None else time.monotonic() + timeout
        self._cancel = cancel
        self._why = ""

    @property
    def why(self) -> str:
        """Return the reason to end, "cancelled" or "timeout", which then never changes; "" while the call may go on."""
        if not self._why and is_called_off(self._cancel):
            self._why = "cancelled"
        if not self._why and self._until is not None and time.monotonic() >= self._until:
            self._why = "timeout"
        return self._why

    def wait(self, seconds: float) -> None:
        """Wait for a number of seconds, or until the call has to end."""
        end = time.monotonic() + seconds
        while not self.why and (left := min(end, self._until or end) - time.monotonic()) > 0:
            if isinstance(self._cancel, threading.Event):
                self._cancel.wait(left)
            else:
                time.sleep(min(left, LOOK_SECONDS) if self._cancel is not None else left)


def is_called_off(cancel: Cancel | None) -> bool:
    """Return True if the event is set or the function returns a true value."""
    if cancel is None:
        return False
    return cancel.is_set() if isinstance(cancel, threading.Event) else bool(cancel())


def check_call(timeout: object, cancel: object) -> None:
    """Raise ``RejectedError`` for a timeout that is not a time, or a cancel that is neither an event nor a function."""
    if timeout is not None:
        check_seconds(timeout)
    if cancel is not None and not isinstance(cancel, threading.Event) and not callable(cancel):
        raise RejectedError(f"cancel is a threading.Event or a function, and {cancel!r:.40} is neither")


def check_seconds(timeout: object, name: str = "timeout") -> None:
    """Raise ``RejectedError`` for a timeout that is not a number of seconds up to a day."""
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not number or not 0 < timeout <= 86_400:  # type: ignore[operator]
        raise RejectedError(
            f"{name} is a number of seconds above 0 and up to 86,400 (a day), and {timeout!r:.40} is not"
        )
