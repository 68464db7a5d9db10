"""The plan that reconciles a session with a transcript that is kept elsewhere.

A plan says which messages stay, are repaired, are hidden or are appended.

Two messages are the same if role, content and parts are equal, and no other field that both have differs:

- Token counts are not compared, because two counters count the same text differently.
- Times are compared as instants, so two offsets make no difference. A time that only one message has makes no difference. Two
  different instants make two messages: "ok" said twice is not "ok" once, and ``at()`` must know the time of each. So
  ``created_at`` of a message that was appended without a time is None, and not the time of the append.
- Reasoning that only one message has makes no difference. Two different reasonings make two messages, because a model reads them
  again.
- The other fields of a provider's message or part (``extra``) are compared like reasoning, and added if the session's message
  has none. Marks for caching are not compared, because they move from turn to turn.
- The model is not compared, because it is the author and not the content. If the transcript names another model, the session's
  message gets this name. Metadata is not compared, and the metadata of the session's message stays, unless it has none.
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

    ``parts`` has any form that compares equal for equal parts. "" and None mean that a field is missing.
    """

    role: str
    content: str
    parts: Hashable = ()
    reasoning: str | None = None
    model: str | None = None
    created_at: str | None = None
    tokens: int | None = None
    extra: Fields | UnsetType | None = UNSET  # None if it was erased
    metadata: str | UnsetType = UNSET


class KnownMessage(Struct, frozen=True):
    """A message of the session, with its position in the log."""

    position: int
    line: TranscriptMessage


class Repair(Struct, frozen=True):
    """The fields that the message at ``position`` lacks and the transcript has; None for a field without a repair.

    A ``model`` also replaces another name of a model.
    """

    position: int
    reasoning: str | None = None
    model: str | None = None
    created_at: str | None = None
    extra: Fields | None = None
    metadata: str | None = None


class TranscriptPlan(Struct, frozen=True):
    """The changes that make the session equal to the transcript.

    The first ``kept`` messages stay, with ``repairs``. The session's messages at the positions ``hidden`` are hidden. The
    ``appended`` messages of the transcript from ``kept`` on are appended. ``kind`` is "replace" if messages are hidden, else
    "append" if messages are appended, else "unchanged", with repairs or without.
    """

    kind: str
    kept: int
    appended: int = 0
    hidden: tuple[int, ...] = ()
    repairs: tuple[Repair, ...] = ()


def reconcile(known: Sequence[KnownMessage], outside: Sequence[TranscriptMessage]) -> TranscriptPlan:
    """Return the plan that makes the session equal to the transcript; the time grows with the shorter of the two.

    Messages are compared in order, from the first until two differ, and never searched for by their texts. All messages of the
    session from there on are hidden, also if the transcript ends earlier than the session. An empty transcript hides all.

    Raises:
        RejectedError: A time that has to be compared is not a time.
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
