"""Idempotency keys: a command that is repeated with its key and arguments gets the answer of the first time."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ledger.core.who import Who
from ledger.core.work import Means, Outcome, Work
from ledger.domain.errors import ConflictError, KeyReusedError, RejectedError
from ledger.domain.text import check_text
from ledger.events import LEDGER_STREAM, CommandAnswered
from ledger.policy.rules import PolicyState
from projections.views import control


class Key(Struct, frozen=True):
    """An idempotency key and its command's arguments as the log keeps them: keyed digests, never the texts."""

    key: bytes
    arguments: str


class GivenKey(Struct, frozen=True):
    """An idempotency key that a caller gave, with the digests of the arguments as they are and without secrets."""

    key: bytes
    exact: str
    clean: str

    def by(self, policy: PolicyState) -> Key:
        """Return the key as a user's policy records it."""
        return Key(self.key, self.exact if policy.secrets == "off" else self.clean)


def given(means: Means, command: str, who: Who, arguments: object) -> GivenKey:
    """Return the key of a command, before the lock is taken: digesting and cleaning long arguments takes time."""
    name = check_text("idempotency_key", who.key)
    text = encoded([command, arguments])
    exact, harmless = recorded(means, who.user, text), means.guard.harmless(text, arguments)
    clean = exact if harmless is text else recorded(means, who.user, harmless)
    return GivenKey(means.mac("key", who.user, name), exact, clean)


def recorded(means: Means, user: str, text: bytes) -> str:
    """Return the keyed digest of encoded arguments that the log keeps."""
    return means.mac("arguments", user, text).hex()


def answer(means: Means, key: Key, command: str) -> Outcome | None:
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


def bearer(means: Means, work: Work, subject: str) -> str:
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
