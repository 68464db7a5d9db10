"""The comparison of a list of messages with a session: which messages the session has, lacks, or has otherwise.

Two messages are the same if role, content and parts are equal, and no other field that both have differs:

- Token counts are not compared, because two counters count the same text differently.
- Times are compared as instants, so two offsets make no difference. A time that only one message has makes no difference. Two
  different instants make two messages: "ok" said twice is not "ok" once, and ``at()`` must know the time of each. So
  ``created_at`` of a message that was appended without a time is None, and not the time of the append. A reconciliation
  compares by place and not by time, as seahorse does at its start: a program that writes its transcript again with other times
  must not hide a whole history. The session's message then keeps its time.
- Reasoning that only one message has makes no difference. Two different reasonings make two messages, because a model reads them
  again.
- The other fields of a provider's message or part (``extra``) are compared like reasoning, and added if the session's message
  has none. Marks for caching are not compared, because they move from turn to turn.
- The model is not compared, because it is the author and not the content. If the transcript names another model, the session's
  message gets this name. Metadata is not compared, and the metadata of the session's message stays, unless it has none.

A reconciliation compares from the beginning, place by place. ``Aligner`` finds the place at which a list of ``add`` continues the
session. An agent may pass its whole history, the end of its history, or a history whose older part was cut or rewritten. A queue
may pass the same list again. A person may edit a message and continue from there. Some clients pass only the new messages. Only
the messages themselves show which case a list is. The comparison never hides a message, and a message of the list is new only if
all messages after it are new.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, takewhile
from typing import Generic, TypeVar

from msgspec import UNSET, Struct, UnsetType, json
from msgspec.structs import replace

from ledger.domain.times import parse
from ledger.sessions.rules import message as messages
from ledger.sessions.rules.message import essence, together
from ledger.sessions.rules.provider_forms import OTHER, TEXT, TOOL_RESULT, Fields

A = TypeVar("A")
B = TypeVar("B")

# Our own numbers.
ENOUGH = 6  # if so many messages at the end are the same, a list is known even if the messages before them differ
DEEP = 64  # the comparison stops after so many equal messages
LOOKED = 1_000  # a repeated list is searched for among so many of the last messages of a session

UNCHANGED, APPEND, REPLACE = "unchanged", "append", "replace"
_IDS = ("id", "message_id", "uuid", "timestamp", "created", "date", "time")
_THINKING = ("thinking", "redacted_thinking")
_CLEARED = re.compile(r"[^\n]{0,160}\b(?:cleared|omitted|removed|elided|truncated|expired)\b[^\n]{0,60}", re.I)


class TranscriptMessage(Struct, frozen=True):
    """A message in the form in which the session and the transcript are compared.

    ``parts`` is what ``comparable`` returns of the parts, the number of the part with the content, and the speaker. "" and None
    mean that a field is missing.
    """

    role: str
    content: str
    parts: tuple[bytes, int, str] = (b"[]", -1, "")
    reasoning: str | None = None
    model: str | None = None
    created_at: str | None = None
    tokens: int | None = None
    extra: Fields | UnsetType | None = UNSET  # None if it was erased
    metadata: str | UnsetType = UNSET


# --- the same message ------------------------------------------------------------------------------------------------


def same(ours: TranscriptMessage, theirs: TranscriptMessage) -> bool:
    """Return True if two messages are the same by the rules of this module."""
    return _same_but_for_time(ours, theirs) and _same_time(ours.created_at, theirs.created_at)


def _same_but_for_time(ours: TranscriptMessage, theirs: TranscriptMessage) -> bool:
    return (
        ours.content == theirs.content
        and ours.role == theirs.role
        and ours.parts == theirs.parts
        and _compatible(ours.reasoning, theirs.reasoning)
        and _same_extra(ours.extra, theirs.extra)
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


def loosely_same(ours: TranscriptMessage, theirs: TranscriptMessage) -> bool:
    """Return True if two messages are the same but for cleared tool results, or for thinking that only one of them has."""
    if same(ours, theirs) or _cleared(ours, theirs):
        return True
    if ours.content != theirs.content:
        return False
    our_plain, their_plain = _without_thinking(ours), _without_thinking(theirs)
    return (our_plain is ours) != (their_plain is theirs) and same(our_plain, their_plain)


def same_but_for_ids(ours: TranscriptMessage, theirs: TranscriptMessage) -> bool:
    return same(_without_ids(ours), _without_ids(theirs))


def comparable(parts: Iterable[messages.Part], content_of: int, speaker: str | None) -> tuple[bytes, int, str]:
    """Return parts and speaker in a form that compares equal if their values are equal."""
    return json.encode([*parts], order="deterministic"), content_of, speaker or ""


def _without_thinking(line: TranscriptMessage) -> TranscriptMessage:
    """Return the message without Anthropic's thinking blocks; the same object if the message has none."""
    stored, content_of, speaker = line.parts
    if b'thinking"' not in stored:
        return line
    parts = messages.stored_parts(stored)
    indexes = [at for at, part in enumerate(parts) if part["type"] != OTHER or part["name"] not in _THINKING]
    if len(indexes) == len(parts):
        return line
    spoken, content_of = [parts[at] for at in indexes], indexes.index(content_of) if content_of in indexes else -1
    if content_of == 0 and len(spoken) == 1 and spoken[0]["type"] == TEXT:  # a text alone is no part
        spoken, content_of = [], -1
    extra = line.extra
    if extra and "parts" in extra:
        extra_by_number = {
            str(at): extra["parts"][str(old)] for at, old in enumerate(indexes) if str(old) in extra["parts"]
        }
        extra = {name: fields for name, fields in (extra | {"parts": extra_by_number}).items() if fields} or UNSET
    return replace(line, parts=comparable(spoken, content_of, speaker), extra=extra)


def _cleared(ours: TranscriptMessage, theirs: TranscriptMessage) -> bool:
    """Return True if two messages differ only in tool results, in whose place ``theirs`` has notes that they were cleared."""
    our_parts, their_parts = (messages.stored_parts(line.parts[0]) for line in (ours, theirs))
    if len(our_parts) != len(their_parts):
        return False
    with_notes, any_cleared = list[messages.Part](), False
    for old, new in zip(our_parts, their_parts, strict=True):
        is_same_result = (
            old["type"] == new["type"] == TOOL_RESULT and old["id"] == new["id"] and old.get("extra") is None
        )
        note = new.get("text") or theirs.content
        if is_same_result and (old != new or ours.content != theirs.content):
            if not _CLEARED.fullmatch(note):
                return False
            any_cleared, old = True, new
        with_notes.append(old)
    _, content_of, speaker = ours.parts
    return any_cleared and same(
        replace(ours, content=theirs.content, parts=comparable(with_notes, content_of, speaker)), theirs
    )


def _without_ids(line: TranscriptMessage) -> TranscriptMessage:
    """Return the message without the ids and times of a client, which change from call to call."""
    if not line.extra or "message" not in line.extra:
        return line
    providers = line.extra["message"].items()
    without = {by: {name: value for name, value in fields.items() if name not in _IDS} for by, fields in providers}
    return replace(line, extra=line.extra | {"message": without})


# --- from the beginning, place by place ------------------------------------------------------------------------------


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


def reconcile(
    known: Sequence[KnownMessage], outside: Sequence[TranscriptMessage], *, by_time: bool = False
) -> TranscriptPlan:
    """Return the plan that makes the session equal to the transcript; the time grows with the shorter of the two.

    Messages are compared in order, from the first until two differ, and never searched for by their texts. All messages of the
    session from there on are hidden, also if the transcript ends earlier than the session. An empty transcript hides all.

    Args:
        known: The messages of the session.
        outside: The messages of the transcript.
        by_time: True if two different times make two messages.

    Raises:
        RejectedError: A time that has to be compared is not a time.
    """
    compare = same if by_time else _same_but_for_time
    kept = _common((message.line for message in known), outside, compare)
    hidden = tuple(message.position for message in islice(known, kept, None))
    appended = len(outside) - kept
    kind = REPLACE if hidden else APPEND if appended else UNCHANGED
    return TranscriptPlan(kind, kept, appended, hidden, tuple(_repairs(known, outside, kept)))


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


# --- from the end of the session -------------------------------------------------------------------------------------


class KnownPrefix(Struct, frozen=True):
    """The part of a list that a session already has.

    ``count`` is the number of these messages, from the beginning of the list. ``differs`` is the number (from 1) of the message
    from which on the list differs from the session, or 0. The first ``unseen`` of the known messages were not compared with the
    session; they may be a summary of its messages. ``again`` is, for a list that counts as new, the number of the session's last
    messages that the list contains after other messages. ``by_text`` is True if the messages are the same except for their ids.
    """

    count: int
    differs: int = 0
    unseen: int = 0
    again: int = 0
    by_text: bool = False


class Aligner(Generic[A, B]):
    """A search for the part of a list that a session already has.

    The messages of the session are read only as far as needed. ``is_exchange`` returns True if messages of the list contain a
    user's message and an answer.
    """

    def __init__(self, newest_first: Iterator[A], messages: Sequence[B], is_exchange: Callable[[Sequence[B]], bool]):
        self._unread, self._read = newest_first, list[A]()
        self._messages, self._is_exchange = messages, is_exchange

    def known(self, same: Callable[[A, B], bool], may_begin: Callable[[A], bool]) -> KnownPrefix:
        """Return the part of the list that the session already has.

        Either the list continues from the end of the session, or the session contains the whole list, or the list begins with at
        least an exchange that the session contains. Otherwise the whole list is new.

        Args:
            same: Returns True if a message of the session and a message of the list are the same.
            may_begin: Returns True if the list can begin at a message of the session, without reading that message.
        """
        runs = self._runs(same)
        end, run = _longest(runs)
        at_end = KnownPrefix(end, unseen=end - run if run < DEEP else 0)
        if end and self._is_enough(run):
            return at_end
        best = max(at_end, self._beginning(same, may_begin), key=lambda part: part.count)
        exchanges = (run for end, run in runs.items() if self._is_exchange(self._messages[end - run : end]))
        return best if best.count else KnownPrefix(0, again=max(exchanges, default=0))

    def repeated(self, same: Callable[[A, B], bool]) -> KnownPrefix:
        """Return the part of the list that the session already has, by a stricter rule than ``known``.

        The list counts as known only if it contains the whole session, or at least the last six messages of the session.
        """
        end, run = _longest(self._runs(same))
        is_known = end > 0 and self._is_enough(run) and self._is_exchange(self._messages[:end])
        return KnownPrefix(end, by_text=True) if is_known else KnownPrefix(0)

    def _at(self, back: int) -> A | None:
        """Return the message so many messages before the newest, or None."""
        self._read += islice(self._unread, max(0, back + 1 - len(self._read)))
        return self._read[back] if back < len(self._read) else None

    def _is_enough(self, run: int) -> bool:
        return run >= ENOUGH or self._at(run) is None

    def _runs(self, same: Callable[[A, B], bool]) -> dict[int, int]:
        """Return the numbers of messages of the list that may end as the session does, each with the length of the equal end."""
        alive, back = list(range(1, len(self._messages) + 1)), 0
        runs: dict[int, int] = {}
        while alive and (len(alive) > 1 or back < DEEP) and (ours := self._at(back)) is not None:
            alive = [end for end in alive if same(ours, self._messages[end - 1 - back])]
            back += 1
            runs |= dict.fromkeys(alive, back)
            alive = [end for end in alive if end > back]
        return runs

    def _beginning(self, same: Callable[[A, B], bool], may_begin: Callable[[A], bool]) -> KnownPrefix:
        """Return the beginning of the list that is the same as a part of the session.

        The session may contain the whole list. Or the list differs from the session after an exchange; then later messages of the
        list may be in the session too, after messages that the list lacks.
        """
        self._at(LOOKED - 1)
        messages, ours, best = self._messages, self._read[:LOOKED][::-1], KnownPrefix(0)
        for start in (at for at, message in enumerate(ours) if may_begin(message)):
            run = count = _common(islice(ours, start, None), messages, same)
            if run == len(messages):
                return KnownPrefix(run)
            if run > best.count and self._is_exchange(messages[:run]):
                later = iter(ours[start + run :])
                while count < len(messages) and any(same(message, messages[count]) for message in later):
                    count += 1
                best = KnownPrefix(count, run + 1)
        return best


def _longest(runs: dict[int, int]) -> tuple[int, int]:
    """Return the longest run that covers all of the list up to its end, or at least ``ENOUGH`` messages, and its end."""
    sure = {end: run for end, run in runs.items() if run == end or run >= ENOUGH}
    end = min(sure, key=lambda end: (-sure[end], end), default=0)
    return end, sure.get(end, 0)


def _common(ours: Iterable[A], theirs: Iterable[B], same: Callable[[A, B], bool]) -> int:
    """Return the number of messages from the beginning that are the same."""
    return sum(1 for _ in takewhile(lambda pair: same(*pair), zip(ours, theirs, strict=False)))
