"""The comparison of a list of messages with a session, to find the new messages and their turns.

An agent gives its whole history, the end of its history, or a history whose older part was cut or rewritten. A queue gives
the same list again. A person edits a message and goes on from there. Some clients give only the new messages. Only the
messages themselves show which of these a list is. The comparison never hides a message, and a message of the list is new only
if all messages after it are new.
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
ENOUGH = 6  # so many messages alike at the end make a list known, even if the messages before them differ
DEEP = 64  # after so many messages alike the comparison stops
LOOKED = 1_000  # a repeated list is looked for among so many of the last messages of a session


class KnownPrefix(Struct, frozen=True):
    """The part of a list that a session has.

    ``count`` is the number of messages that the session has. ``differs`` is the number (from 1) of the message from which on the
    list differs from the session, or 0. ``unseen`` of the known messages, at the list's beginning, stand for messages of the
    session, as a summary does. ``again`` is the number of the session's last messages that stand behind other messages in a list
    that is all new. ``by_text`` says that the messages are alike except for their ids.
    """

    count: int
    differs: int = 0
    unseen: int = 0
    again: int = 0
    by_text: bool = False


class Newest(Generic[A]):
    """The messages of a session, newest first, read only as far as they are needed."""

    def __init__(self, newest_first: Iterator[A]) -> None:
        self._rest, self._read = newest_first, list[A]()

    def at(self, back: int) -> A | None:
        while len(self._read) <= back and (message := next(self._rest, None)) is not None:
            self._read.append(message)
        return self._read[back] if back < len(self._read) else None

    def last(self, most: int) -> list[A]:
        """Return at most so many messages, oldest first."""
        self.at(most - 1)
        return self._read[:most][::-1]


def known(
    session: Newest[A],
    given: Sequence[B],
    same: Callable[[A, B], bool],
    is_exchange: Callable[[Sequence[B]], bool],
    may_begin: Callable[[A], bool],
) -> KnownPrefix:
    """Return the part of a list that the session has.

    The list goes on from the end of the session, or is in the session as a whole, or begins with at least an exchange that some
    part of the session begins with. Otherwise all of the list is new.

    Args:
        session: The messages of the session.
        given: The list.
        same: Returns True if a message of the session and a message of the list are the same.
        is_exchange: Returns True if messages of the list hold a user's message and an answer.
        may_begin: Returns True if the list can begin at a message of the session, without reading that message.
    """
    if not given:
        return KnownPrefix(0)
    runs = _ends_alike(session, given, same)
    exchanges = {end: run for end, run in runs.items() if is_exchange(given[end - run : end])}
    end, run = _longest(_sure(runs))
    at_end = KnownPrefix(end, unseen=end - run if run < DEEP else 0)
    if end and (run >= ENOUGH or session.at(run) is None):
        return at_end
    messages = session.last(LOOKED)
    starts = [at for at, message in enumerate(messages) if may_begin(message)]
    best = max(at_end, _begins_alike(messages, starts, given, same, is_exchange), key=lambda part: part.count)
    return best if best.count else KnownPrefix(0, again=_longest(exchanges)[1])


def repeated(
    session: Newest[A],
    given: Sequence[B],
    same: Callable[[A, B], bool],
    is_exchange: Callable[[Sequence[B]], bool],
) -> KnownPrefix:
    """Return the part of a list that the session has, by a stricter rule than ``known``.

    The list counts as known only if it begins with all of the session, or with much of the session's end.
    """
    end, run = _longest(_sure(_ends_alike(session, given, same)))
    enough = run >= ENOUGH or session.at(run) is None
    return KnownPrefix(end, by_text=True) if end and enough and is_exchange(given[:end]) else KnownPrefix(0)


def _ends_alike(session: Newest[A], messages: Sequence[B], same: Callable[[A, B], bool]) -> dict[int, int]:
    """Return the places in the list at which the session's end stands, each with the number of messages that are alike."""
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
    """Return the part of the list that begins like some part of the session.

    The whole list may be in the session. Or the list differs from the session after an exchange; then the messages that follow
    may be in the session too, behind messages that the list leaves out.
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
    """The role of a message in a turn: ``field`` is "prompt" or "response".

    ``turn`` counts the turns that begin in the list; it is -1 for a turn that was open before.
    """

    field: str
    turn: int


def places(drafts: Sequence[Draft]) -> list[TurnPlace | None]:
    """Return the place of each message in the turns among them, or None.

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
    """Return True if the content is a text of the message's author, and not the result of a tool."""
    if not draft.parts:
        return bool(draft.content.strip())
    part = draft.content_of
    is_own = part < 0 or draft.parts[part]["type"] == "text"
    return is_own and bool(draft.content.strip()) and bool(own_texts(draft.content, draft.whole_parts, part).strip())
