"""The step that knows keys: the same key with the same command and arguments is answered as it was the first time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ledger.domain.errors import ConflictError, KeyReusedError, RejectedError
from ledger.domain.events import LEDGER_STREAM, CommandAnswered
from ledger.domain.text import check_text
from ledger.engine.who import Who
from ledger.engine.work import Outcome, Work
from projections.views import control

if TYPE_CHECKING:
    from ledger.engine.pipeline import Writer


class Key(Struct, frozen=True):
    """An idempotency key and the arguments that it stands for, as the log keeps them: keyed digests, never the texts."""

    key: bytes
    arguments: str


def given(writer: Writer, command: str, who: Who, key: str, arguments: object) -> Key:
    """The key that a command came with."""
    check_text("key", key)
    text = encoded([command, arguments])
    if writer.policy(who.user).secrets != "off":
        text = writer.guard.harmless(text, arguments)
    return Key(writer.mac("key", who.user, key), recorded(writer, who.user, text))


def recorded(writer: Writer, user: str, text: bytes) -> str:
    """Return the keyed digest of encoded arguments that the log keeps."""
    return writer.mac("arguments", user, text).hex()


def answer(writer: Writer, key: Key, command: str) -> Outcome | None:
    """What the first command with this key came to; None for a new key, ``KeyReusedError`` where it was another command."""
    tables = writer.tables
    known = control.answer(tables.rows, key.key)
    if known is None:
        return None
    arguments = known.arguments or key.arguments  # erased ones can only be believed
    if (known.command, arguments) != (command, key.arguments):
        raise KeyReusedError(
            f"this key was used at position {known.position} for {known.command!r} with other arguments; "
            "use another key, or repeat that command as it was"
        )
    state = tables.subject_at(known.subject, known.seen)
    if state is not None and state.user is None:
        raise ConflictError(f"what this key was used for at position {known.position} was erased; use another key")
    if state is None and known.subject != LEDGER_STREAM:
        raise ConflictError(f"this key was answered with {known.subject}, which was undone since; use another key")
    return Outcome(known.subject, state, (), known.position, replayed=True, names=tables.names_of(state))


def bearer(writer: Writer, work: Work, subject: str) -> str:
    """The stream whose last event carries the key; one that had nothing to append for its subject leaves CommandAnswered."""
    if any(stream == subject for stream, *_ in work.emitted):
        return subject
    state = writer.tables.subject(subject)
    work.emit(LEDGER_STREAM, CommandAnswered(subject, state.position if state is not None else 0))
    return LEDGER_STREAM


def encoded(arguments: object) -> bytes:
    """What a command was asked, as bytes to compare; ``RejectedError`` for what no command takes."""
    try:
        return msgspec.json.encode(arguments, enc_hook=str, order="deterministic")
    except (ValueError, OverflowError, RecursionError, TypeError) as error:
        raise RejectedError(f"an argument is nothing that can be recorded ({type(error).__name__})") from None
