"""How a list of messages goes on with a session: which of them it has already, and which are the turns of the rest.

Nothing is ever hidden by it, and a message of the list is new only if all that follow are. An agent gives its whole history,
the end of it, or a history whose older part was cut or rewritten; a queue gives the same list again; somebody edits a message
and goes on from there; and some give only what is new. Which of these a list is, the messages themselves have to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from ledger.domain.message import Draft, calls
from ledger.domain.turns import own_texts

A = TypeVar("A")
B = TypeVar("B")

ENOUGH = 6  # messages alike at the end of a session, before which a list may say something else than it (ours)
DEEP = 64  # ... after which nobody looks further (ours)
LOOKED = 1_000  # messages of a session, the last ones, among which a repeated list is looked for (ours)


class Known(Struct, frozen=True):
    """How many messages of a list a session has, and with the number of which (from 1) the list differs from it, or 0.

    ``unseen`` of those, at the list's beginning, stand for what the session has there, as a summary of it does; ``again`` are
    the last ones of a session that stand behind others in a list that is all new. ``by_text``: their ids are others.
    """

    count: int
    differs: int = 0
    unseen: int = 0
    again: int = 0
    by_text: bool = False


class Newest(Generic[A]):
    """The messages of a session from its end, read as far as they are asked for."""

    def __init__(self, newest_first: Iterator[A]) -> None:
        self._rest, self._read = newest_first, list[A]()

    def at(self, back: int) -> A | None:
        while len(self._read) <= back and (found := next(self._rest, None)) is not None:
            self._read.append(found)
        return self._read[back] if back < len(self._read) else None

    def last(self, most: int) -> list[A]:
        """At most so many, oldest first."""
        self.at(most - 1)
        return self._read[:most][::-1]


def known(
    session: Newest[A],
    given: Sequence[B],
    same: Callable[[A, B], bool],
    is_exchange: Callable[[Sequence[B]], bool],
    may_begin: Callable[[A], bool],
) -> Known:
    """What of a list is there: it goes on with how the session ends, or is there as a whole, or begins as some part of it does,
    with an exchange at least. Else all of it is new. ``may_begin`` says without reading it where the first can be."""
    if not given:
        return Known(0)
    runs = _ends_alike(session, given, same)
    exchanges = {end: run for end, run in runs.items() if is_exchange(given[end - run : end])}
    end, run = _longest(_sure(runs))
    at_end = Known(end, unseen=end - run if run < DEEP else 0)
    if end and (run >= ENOUGH or session.at(run) is None):
        return at_end
    ours = session.last(LOOKED)
    starts = [at for at, each in enumerate(ours) if may_begin(each)]
    best = max(at_end, _begins_alike(ours, starts, given, same, is_exchange), key=lambda each: each.count)
    return best if best.count else Known(0, again=_longest(exchanges)[1])


def repeated(
    session: Newest[A],
    given: Sequence[B],
    same: Callable[[A, B], bool],
    is_exchange: Callable[[Sequence[B]], bool],
) -> Known:
    """The same, where only a list that begins with all of the session, or with much of its end, counts as known."""
    end, run = _longest(_sure(_ends_alike(session, given, same)))
    enough = run >= ENOUGH or session.at(run) is None
    return Known(end, by_text=True) if end and enough and is_exchange(given[:end]) else Known(0)


def _ends_alike(session: Newest[A], given: Sequence[B], same: Callable[[A, B], bool]) -> dict[int, int]:
    """After how many messages the list stands where the session ends, each with how many of them are alike."""
    alive, back = list(range(1, len(given) + 1)), 0
    runs: dict[int, int] = {}
    while alive and (len(alive) > 1 or back < DEEP):
        ours = session.at(back)
        if ours is None:
            break
        for end in alive:
            if same(ours, given[end - 1 - back]):
                runs[end] = back + 1
        back += 1
        alive = [end for end in alive if runs.get(end, 0) == back and end > back]
    return runs


def _sure(runs: dict[int, int]) -> dict[int, int]:
    """Those that are all of the list up to there, or ``ENOUGH``."""
    return {end: run for end, run in runs.items() if run == end or run >= ENOUGH}


def _longest(runs: dict[int, int]) -> tuple[int, int]:
    end = min(runs, key=lambda end: (-runs[end], end), default=0)
    return end, runs.get(end, 0)


def _begins_alike(
    ours: Sequence[A],
    starts: Iterable[int],
    given: Sequence[B],
    same: Callable[[A, B], bool],
    is_exchange: Callable[[Sequence[B]], bool],
) -> Known:
    """The list is somewhere in the session, or parts from it after an exchange: then what follows may be there too, behind what
    it leaves out."""
    best = Known(0)
    for start in starts:
        run = _run(ours, start, given, same)
        if run == len(given):
            return Known(run)
        if run > best.count and is_exchange(given[:run]):
            count, place = run, start + run
            while (
                count < len(given)
                and (found := next((at for at in range(place, len(ours)) if same(ours[at], given[count])), None))
                is not None
            ):
                count, place = count + 1, found + 1
            if count > best.count:
                best = Known(count, run + 1)
    return best


def _run(ours: Sequence[A], start: int, given: Sequence[B], same: Callable[[A, B], bool]) -> int:
    run = 0
    while run < len(given) and start + run < len(ours) and same(ours[start + run], given[run]):
        run += 1
    return run


# --- turns -----------------------------------------------------------------------------------------------------------


class Place(Struct, frozen=True):
    """What a message is in a turn: its "prompt" or its "response"; ``turn`` counts those that begin in the list, and is -1 in
    one that was open before."""

    field: str
    turn: int


def places(drafts: Sequence[Draft]) -> list[Place | None]:
    """The turns among messages: what a user says begins one, and the first answer that calls no tool ends it."""
    found, turn, is_open = list[Place | None](), -1, True
    for draft in drafts:
        place = None
        if draft.role == "user" and says(draft):
            turn, is_open = turn + 1, True
            place = Place("prompt", turn)
        elif is_open and draft.role == "assistant" and says(draft) and not calls(draft.parts):
            is_open, place = False, Place("response", turn)
        found.append(place)
    return found


def says(draft: Draft) -> bool:
    """Whether somebody says its content: it is not what a tool gave."""
    if not draft.parts:
        return bool(draft.content.strip())
    of = draft.content_of
    own = of < 0 or draft.parts[of]["type"] == "text"
    return own and bool(draft.content.strip()) and bool(own_texts(draft.content, draft.whole_parts, of).strip())
