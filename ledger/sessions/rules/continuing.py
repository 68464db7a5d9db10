"""The comparison of a list of messages with a session, to find the new messages and their turns.

An agent may pass its whole history, the end of its history, or a history whose older part was cut or rewritten. A queue may
pass the same list again. A person may edit a message and continue from there. Some clients pass only the new messages. Only the
messages themselves show which case a list is. The comparison never hides a message, and a message of the list is new only if
all messages after it are new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from ledger.extraction.lines import own_texts
from ledger.sessions.rules.message import Draft, calls

A = TypeVar("A")
B = TypeVar("B")

# Our own numbers.
ENOUGH = 6  # if so many messages at the end are the same, a list is known even if the messages before them differ
DEEP = 64  # the comparison stops after so many equal messages
LOOKED = 1_000  # a repeated list is searched for among so many of the last messages of a session


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


class Newest(Generic[A]):
    """The messages of a session, newest first, which are read only as far as needed."""

    def __init__(self, newest_first: Iterator[A]) -> None:
        self._unread, self._read = newest_first, list[A]()

    def at(self, back: int) -> A | None:
        """Return the message so many messages before the newest, or None."""
        while len(self._read) <= back and (message := next(self._unread, None)) is not None:
            self._read.append(message)
        return self._read[back] if back < len(self._read) else None

    def last(self, most: int) -> list[A]:
        """Return the newest messages, at most ``most``, oldest first."""
        self.at(most - 1)
        return self._read[:most][::-1]


def known(
    session: Newest[A],
    messages: Sequence[B],
    same: Callable[[A, B], bool],
    is_exchange: Callable[[Sequence[B]], bool],
    may_begin: Callable[[A], bool],
) -> KnownPrefix:
    """Return the part of a list that the session already has.

    Either the list continues from the end of the session, or the session contains the whole list, or the list begins with at
    least an exchange that the session contains. Otherwise the whole list is new.

    Args:
        session: The messages of the session.
        messages: The list.
        same: Returns True if a message of the session and a message of the list are the same.
        is_exchange: Returns True if messages of the list contain a user's message and an answer.
        may_begin: Returns True if the list can begin at a message of the session, without reading that message.
    """
    if not messages:
        return KnownPrefix(0)
    runs = _ends_alike(session, messages, same)
    exchanges = {end: run for end, run in runs.items() if is_exchange(messages[end - run : end])}
    end, run = _longest(_sure(runs))
    at_end = KnownPrefix(end, unseen=end - run if run < DEEP else 0)
    if end and (run >= ENOUGH or session.at(run) is None):
        return at_end
    ours = session.last(LOOKED)
    starts = [at for at, message in enumerate(ours) if may_begin(message)]
    best = max(at_end, _begins_alike(ours, starts, messages, same, is_exchange), key=lambda part: part.count)
    return best if best.count else KnownPrefix(0, again=_longest(exchanges)[1])


def repeated(
    session: Newest[A],
    messages: Sequence[B],
    same: Callable[[A, B], bool],
    is_exchange: Callable[[Sequence[B]], bool],
) -> KnownPrefix:
    """Return the part of a list that the session already has, by a stricter rule than ``known``.

    The list counts as known only if it contains the whole session, or at least the last six messages of the session.
    """
    end, run = _longest(_sure(_ends_alike(session, messages, same)))
    enough = run >= ENOUGH or session.at(run) is None
    return KnownPrefix(end, by_text=True) if end and enough and is_exchange(messages[:end]) else KnownPrefix(0)


def _ends_alike(session: Newest[A], messages: Sequence[B], same: Callable[[A, B], bool]) -> dict[int, int]:
    """Return the places in the list at which the end of the session may be, each with the number of equal messages before it."""
    alive, back = list(range(1, len(messages) + 1)), 0
    runs: dict[int, int] = {}
    while alive and (len(alive) > 1 or back < DEEP):
        ours = session.at(back)
        if ours is None:
            break
        for end in alive:
            if same(ours, messages[end - 1 - back]):
                runs[end] = back + 1
        back += 1
        alive = [end for end in alive if runs.get(end, 0) == back and end > back]
    return runs


def _sure(runs: dict[int, int]) -> dict[int, int]:
    """Return the runs that cover all of the list up to their end, or at least ``ENOUGH`` messages."""
    return {end: run for end, run in runs.items() if run == end or run >= ENOUGH}


def _longest(runs: dict[int, int]) -> tuple[int, int]:
    end = min(runs, key=lambda end: (-runs[end], end), default=0)
    return end, runs.get(end, 0)


def _begins_alike(
    ours: Sequence[A],
    starts: Iterable[int],
    messages: Sequence[B],
    same: Callable[[A, B], bool],
    is_exchange: Callable[[Sequence[B]], bool],
) -> KnownPrefix:
    """Return the beginning of the list that is the same as a part of the session.

    The session may contain the whole list. Or the list differs from the session after an exchange; then later messages of the
    list may be in the session too, after messages that the list lacks.
    """
    best = KnownPrefix(0)
    for start in starts:
        run = _run(ours, start, messages, same)
        if run == len(messages):
            return KnownPrefix(run)
        if run > best.count and is_exchange(messages[:run]):
            count, place = run, start + run
            while (
                count < len(messages)
                and (match := next((at for at in range(place, len(ours)) if same(ours[at], messages[count])), None))
                is not None
            ):
                count, place = count + 1, match + 1
            if count > best.count:
                best = KnownPrefix(count, run + 1)
    return best


def _run(ours: Sequence[A], start: int, messages: Sequence[B], same: Callable[[A, B], bool]) -> int:
    run = 0
    while run < len(messages) and start + run < len(ours) and same(ours[start + run], messages[run]):
        run += 1
    return run


# --- turns -----------------------------------------------------------------------------------------------------------


class TurnPlace(Struct, frozen=True):
    """The part that a message is of a turn: ``field`` is "prompt" or "response".

    ``turn`` is the number of the turn among those that begin in the list, or -1 for a turn that began before the list.
    """

    field: str
    turn: int


def places(drafts: Sequence[Draft]) -> list[TurnPlace | None]:
    """Return for each message its place in a turn; None if it is neither a prompt nor a response.

    A text of a user begins a turn. The first answer that calls no tool ends the turn.
    """
    result, turn, is_open = list[TurnPlace | None](), -1, True
    for draft in drafts:
        place = None
        if draft.role == "user" and says(draft):
            turn, is_open = turn + 1, True
            place = TurnPlace("prompt", turn)
        elif is_open and draft.role == "assistant" and says(draft) and not calls(draft.parts):
            is_open, place = False, TurnPlace("response", turn)
        result.append(place)
    return result


def says(draft: Draft) -> bool:
    """Return True if the content of a message is a text of its author, and not the result of a tool."""
    if not draft.parts:
        return bool(draft.content.strip())
    part = draft.content_of
    is_own = part < 0 or draft.parts[part]["type"] == "text"
    return is_own and bool(draft.content.strip()) and bool(own_texts(draft.content, draft.whole_parts, part).strip())
