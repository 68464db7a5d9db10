"""The reconciliation of a session with a transcript kept elsewhere.

A plan names the messages that stay, are repaired, are hidden or are appended.

Two messages are the same if role, content and parts are equal, and nothing that both have differs in content or time:

- Token counts are not compared, because two counters differ about the same text.
- Times are compared as instants, so one moment written with two offsets is the same. A time that only one side has is
  compatible. Two different instants make two messages: "ok" said twice is not "ok" once, and a session that kept the other
  time would answer wrongly what had been said by then. So for a message that was appended without a time of its own,
  ``created_at`` of the session's message is None, not the time of the append.
- Reasoning that only one side has is compatible. Two different reasonings make two messages, because a model reads them again.
- The other fields of a provider's message or part (``extra``) are compared as reasoning is, and added if the session's message
  has none. Fields about caching are not compared, because they move from turn to turn.
- The model is not compared: the model says who wrote a message, not its content. If the transcript names another model, the
  session's message takes that name. Metadata is not compared, and the session's stays as it is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import islice

from msgspec import UNSET, Struct, UnsetType

from ledger.domain.times import parse
from ledger.sessions.rules.message import essence, together
from ledger.sessions.rules.provider_forms import Fields

UNCHANGED, APPEND, REPLACE = "unchanged", "append", "replace"


class TranscriptMessage(Struct, frozen=True):
    """A message in the form in which the session and the transcript are compared.

    ``parts`` has any form in which equal parts are equal. "" and None mean that a field is missing.
    """

    role: str
    content: str
    parts: Hashable = ()
    reasoning: str | None = None
    model: str | None = None
    created_at: str | None = None
    tokens: int | None = None
    extra: Fields | UnsetType | None = UNSET  # None where it was erased
    metadata: str | UnsetType = UNSET


class KnownMessage(Struct, frozen=True):
    """A message of the session, with its position in the log."""

    position: int
    line: TranscriptMessage


class Repair(Struct, frozen=True):
    """The fields that the message at ``position`` lacks and the transcript has; None for a field without a repair.

    A ``model`` also replaces another name.
    """

    position: int
    reasoning: str | None = None
    model: str | None = None
    created_at: str | None = None
    extra: Fields | None = None
    metadata: str | None = None


class TranscriptPlan(Struct, frozen=True):
    """The changes that make the session equal to the transcript.

    The first ``kept`` messages stay, with ``repairs``. The session's messages at the positions ``hidden`` leave the session, in
    their order. The messages of the transcript from ``kept`` on, ``appended`` of them, are appended. ``kind`` is "replace" if any
    are hidden, else "append" if any are appended, else "unchanged", with repairs or without.
    """

    kind: str
    kept: int
    appended: int = 0
    hidden: tuple[int, ...] = ()
    repairs: tuple[Repair, ...] = ()


def reconcile(known: Sequence[KnownMessage], outside: Sequence[TranscriptMessage]) -> TranscriptPlan:
    """Return the plan that makes the session equal to the transcript, in time that grows with the shorter of the two.

    Messages are compared by place, from the first until two differ, and never looked for by their texts. All messages of the
    session after that are hidden. So they are if the transcript ends earlier than the session, and an empty transcript hides all.

    Raises:
        RejectedError: A time that has to be compared is no time.
    """
    kept = _common(known, outside)
    hidden = tuple(message.position for message in islice(known, kept, None))
    appended = len(outside) - kept
    kind = REPLACE if hidden else APPEND if appended else UNCHANGED
    return TranscriptPlan(kind, kept, appended, hidden, tuple(_repairs(known, outside, kept)))


def _common(known: Sequence[KnownMessage], outside: Sequence[TranscriptMessage]) -> int:
    kept = 0
    for ours, theirs in zip(known, outside, strict=False):
        if not same(ours.line, theirs):
            break
        kept += 1
    return kept


def same(ours: TranscriptMessage, theirs: TranscriptMessage) -> bool:
    """Return True if two messages are the same by the rules of this module."""
    return (
        ours.content == theirs.content
        and ours.role == theirs.role
        and ours.parts == theirs.parts
        and _compatible(ours.reasoning, theirs.reasoning)
        and _same_extra(ours.extra, theirs.extra)
        and _same_time(ours.created_at, theirs.created_at)
    )


def _compatible(ours: str | None, theirs: str | None) -> bool:
    return ours == theirs or not ours or not theirs


def _same_extra(ours: Fields | UnsetType | None, theirs: Fields | UnsetType | None) -> bool:
    if not ours or not theirs or ours == theirs:
        return True
    our_fields, their_fields = essence(ours), essence(theirs)
    return all(our_fields[name] == their_fields[name] for name in our_fields.keys() & their_fields.keys())


def _same_time(ours: str | None, theirs: str | None) -> bool:
    if not ours or not theirs or ours == theirs:
        return True
    return parse("created_at", ours) == parse("created_at", theirs)


def _repairs(known: Sequence[KnownMessage], outside: Sequence[TranscriptMessage], kept: int) -> Iterator[Repair]:
    for ours, theirs in islice(zip(known, outside, strict=False), kept):
        line = ours.line
        reasoning = None if line.reasoning else theirs.reasoning or None
        model = theirs.model if theirs.model and theirs.model != line.model else None
        created_at = None if line.created_at else theirs.created_at or None
        missing = theirs.extra and not essence(theirs.extra).keys() <= essence(line.extra or None).keys()
        extra = together(line.extra or {}, theirs.extra) if theirs.extra and missing else None
        metadata = None if line.metadata else theirs.metadata or None
        if reasoning or model or created_at or extra or metadata:
            yield Repair(ours.position, reasoning, model, created_at, extra, metadata)
