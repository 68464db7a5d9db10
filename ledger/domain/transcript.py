"""Reconciling a session with a transcript kept elsewhere: what of it stays, what is mended, hidden and appended.

Two messages are the same when role, content and parts are equal and nothing told of both differs in what was said or when:

- Token counts are not compared: two counters differ about the same text.
- Times are compared as instants, so one moment written with two offsets is one. A time that only one side has is
  compatible. Two different instants are two messages: "ok" said twice is not "ok" once, and a session that kept the other
  time would answer wrongly what had been said by then. So for a message that was appended without a time of its own,
  ``created_at`` of ours is None, not the time of the append.
- Reasoning that only one side has is compatible; two different reasonings are two messages, for a model reads it again.
- What a provider's message or a part of it has besides (``extra``) is compared as reasoning is, and added where ours has
  none; but for what to cache, which moves from turn to turn.
- The model is not compared: it says who wrote, not what; under an alias of its name the conversation is the same. Ours
  stays as it is; so with metadata.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import islice

from msgspec import UNSET, Struct, UnsetType

from ledger.domain.message import essence, together
from ledger.domain.provider_forms import Fields
from ledger.domain.times import parse

UNCHANGED, APPEND, REPLACE = "unchanged", "append", "replace"


class Line(Struct, frozen=True):
    """A message as both sides tell it. ``parts`` in any form in which equal parts are equal; "" and None: not told."""

    role: str
    content: str
    parts: Hashable = ()
    reasoning: str | None = None
    model: str | None = None
    created_at: str | None = None
    tokens: int | None = None
    extra: Fields | UnsetType | None = UNSET  # None where it was erased
    metadata: str | UnsetType = UNSET


class Known(Struct, frozen=True):
    """A message of the session, with the log position it is known by."""

    position: int
    line: Line


class Repair(Struct, frozen=True):
    """What the message at ``position`` had not been told and the transcript tells; None: nothing to mend."""

    position: int
    reasoning: str | None = None
    model: str | None = None
    created_at: str | None = None
    extra: Fields | None = None
    metadata: str | None = None


class Plan(Struct, frozen=True):
    """How the session comes to say what the transcript says.

    The first ``kept`` messages stay, with ``repairs``; the session's messages at ``hidden`` leave it, in their order; the
    transcript's from ``kept`` on, ``appended`` of them, are appended. ``kind`` is "replace" where any are hidden, else
    "append" where any are appended, else "unchanged", with repairs or without.
    """

    kind: str
    kept: int
    appended: int = 0
    hidden: tuple[int, ...] = ()
    repairs: tuple[Repair, ...] = ()


def reconcile(known: Sequence[Known], outside: Sequence[Line]) -> Plan:
    """The plan that makes the session equal to the transcript, in time that grows with the shorter of the two.

    Messages are compared by place, from the first until two differ, and never looked for by what they say. All of ours
    after that are hidden; also where the transcript only ends earlier than the session, and all of them where it is empty.
    Raises RejectedError where a time has to be compared and is none.
    """
    kept = _common(known, outside)
    hidden = tuple(each.position for each in islice(known, kept, None))
    appended = len(outside) - kept
    kind = REPLACE if hidden else APPEND if appended else UNCHANGED
    return Plan(kind, kept, appended, hidden, tuple(_repairs(known, outside, kept)))


def _common(known: Sequence[Known], outside: Sequence[Line]) -> int:
    kept = 0
    for ours, theirs in zip(known, outside, strict=False):
        if not same(ours.line, theirs):
            break
        kept += 1
    return kept


def same(ours: Line, theirs: Line) -> bool:
    """Whether two messages are the same, by the rules of this module."""
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
    own, other = essence(ours), essence(theirs)
    return all(own[name] == other[name] for name in own.keys() & other.keys())


def _same_time(ours: str | None, theirs: str | None) -> bool:
    if not ours or not theirs or ours == theirs:
        return True
    return parse("created_at", ours) == parse("created_at", theirs)


def _repairs(known: Sequence[Known], outside: Sequence[Line], kept: int) -> Iterator[Repair]:
    for ours, theirs in islice(zip(known, outside, strict=False), kept):
        line = ours.line
        reasoning = None if line.reasoning else theirs.reasoning or None
        model = None if line.model else theirs.model or None
        created_at = None if line.created_at else theirs.created_at or None
        missing = theirs.extra and not essence(theirs.extra).keys() <= essence(line.extra or None).keys()
        extra = together(line.extra or {}, theirs.extra) if theirs.extra and missing else None
        metadata = None if line.metadata else theirs.metadata or None
        if reasoning or model or created_at or extra or metadata:
            yield Repair(ours.position, reasoning, model, created_at, extra, metadata)
