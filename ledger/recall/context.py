"""Context: within one budget everything that the next prompt needs of what is remembered, each line with its day.

section   what stands in it; nothing stands twice
pinned    memories with the tag ``pinned``, newest first, in at most half of the budget
profile   who the user is, his standing rules and preferences, in at most a quarter: what matches the question, then the newest
answer    memories that are believed and chunks of documents, as recall ranks them; then what is believed by now of what the
          turns said that the question found
turn      messages about it that no memory cites: the user's own that state something, his others, then others'
latest    the user's latest statements about himself: the rest of the profile, then his newest turns in the first person

They are filled in this order. In the pack the turns stand last and the newest of them first, so that a statement that holds
comes before the one that it replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain import passages as pieces
from ledger.domain import question as questions
from ledger.domain.alike import content_stems, share_stems
from ledger.domain.errors import RejectedError
from ledger.domain.memory import Memory, since
from ledger.domain.salience import stated_spans
from ledger.domain.text import check_text, normalise
from ledger.engine.log_reading import first_position
from ledger.engine.snapshot import LIST_CAP, NOWHERE, Snapshot, named
from ledger.recall import ordering, packing, recalling, reopening
from ledger.recall.asked import CONTEXT, Asked, checked
from ledger.recall.finding import Finder, Found, of_memory, of_passage
from ledger.recall.observing import Observing
from ledger.recall.packs import Item, Pack
from ledger.store.reading import read_tip
from projections.core.rows import Connection
from projections.search import passages
from projections.search.ranking import who
from projections.views import memories, projects, sessions, summaries

if TYPE_CHECKING:
    from ledger.engine.engine import Engine
    from ledger.engine.who import Who

Key = tuple[str, int]

AMONG = ("memories", "chunks", "turns")
PINNED, PROFILE, ANSWER, TURN, LATEST = "pinned", "profile", "answer", "turn", "latest"
PIN = "pinned"  # the tag
SHARES = {PINNED: 2, PROFILE: 4}
"""These sections take at most the half and the quarter of the budget."""

RANKED = 30  # of what the search finds, so many are looked at
LATEST_TURNS = 200  # that are looked at
MISSES = 8  # in a row that do not fit end a section
OTHERS_MATCH = 0.5  # of the question, that a turn has to say which is not the user's
LINE_CHARS = 200  # of a longer turn or chunk the piece that answers
LEAST = {"tokens": 10, "chars": 16}  # no line takes less
BATCH = 25


class ContextRequest(Struct, frozen=True, kw_only=True):
    """A prompt to fill: the search, and the session whose window shows some of it already.

    ``shown`` are the positions of the messages that the prompt has; None for all that stand in the session's window.
    ``latest`` is how far the latest statements fill the budget.
    """

    asked: Asked
    session: str | None = None
    shown: frozenset[int] | None = None
    latest: int | None = None


def request_of(
    engine: Engine, user: str, question: object, *, budget: int, unit: str, project: str | None,
    session: str | None = None, among: Iterable[str] = AMONG, explain: bool = False,
    shown: frozenset[int] | None = None, latest: int | None = None,
) -> ContextRequest:  # fmt: skip
    """Return what was asked for, checked."""
    if budget is None:
        raise RejectedError("context fills a budget, and None is no bound; recall finds without one")
    asked = checked(
        query=question,
        user=user,
        project=project,
        among=among,
        k=RANKED,
        budget=budget,
        unit=unit,
        now=engine.writer.now(),
        observations=recalling.OBSERVATIONS,
        packing=CONTEXT,
        explain=explain,
    )
    name = None if session is None else check_text("session", session)
    return ContextRequest(asked=asked, session=name, shown=shown, latest=latest)


def context(engine: Engine, request: ContextRequest, receipt: Who | None = None) -> Pack:
    """Return what the next prompt needs; with a ``receipt`` what was given is recorded."""
    pack, about = packed(engine, request)
    if receipt is None:
        return pack
    return replace(pack, receipt=reopening.recorded(engine, request.asked, about, pack, receipt))


def packed(engine: Engine, request: ContextRequest) -> tuple[Pack, str | None]:
    """Return the pack, and the id of the project that it is about."""
    asked = request.asked
    asking = questions.read(asked.query, numeric=True)
    sought = recalling.sought_of(engine, asked, asking)
    with recalling.searchable(engine) as snapshot:
        connection = snapshot.connection
        tip = read_tip(connection.cursor())
        about = named(connection, asked.user, "p", asked.project)
        scope = None if asked.project is None else [None, *projects.together(connection, about)]
        finder = Finder(engine, snapshot, asked, scope, asking, sought)
        ranked, weak = ordering.ordered(finder, asked, asking)
        chosen = _Choosing(snapshot, finder, request)
        chosen.answer(ranked[:RANKED])
        warnings = (*snapshot.warnings, *recalling.nowhere_warning(about, asked.project), *finder.warnings)
        searched = recalling.searched_among(engine, connection, finder, asked, tip)
        pack = packing.finished(chosen.items, [""] * len(chosen.items), searched, asked.budget, asked.unit, warnings)
        pack = recalling.with_observations(asked, Observing(engine, snapshot, asked, scope, asking), pack)
        chosen.not_repeated(pack.observations)
        chosen.fill_up(pack.used)
        cut = (*chosen.left_out(), *pack.cut) if asked.explain else pack.cut
        pack = packing.measured(replace(pack, items=tuple(chosen.items), cut=cut))
        if asked.explain:
            pack = packing.with_weak(pack, recalling.items_of(connection, weak[: recalling.RANKED - len(cut)]))
    return replace(pack, seen=tip[0]), about if about != NOWHERE else None


class _Choosing:
    """The items of one context, chosen section by section."""

    def __init__(self, snapshot: Snapshot, finder: Finder, request: ContextRequest) -> None:
        self._snapshot, self._connection, self._finder = snapshot, snapshot.connection, finder
        self._asked, self._request = request.asked, request
        self._budget = packing.inside(request.asked.budget, request.asked.unit) or 0
        self._room = self._budget
        self._profile: list[Found] = []
        self._contents = set[str]()
        self._latest = list[frozenset[str]]()
        self._chosen, self._cut = dict[Key, tuple[Found, Item]](), dict[Key, Item]()
        self._window = _window_of(self._connection, request)

    @property
    def items(self) -> list[Item]:
        """Return the chosen items in the order of the pack: turns last, the user's before others, the newest first."""
        texts = [item for found, item in self._chosen.values() if not _is_turn(found)]
        turns = [(found, item) for found, item in self._chosen.values() if _is_turn(found)]
        turns.sort(key=lambda each: _when(each[0]), reverse=True)
        turns.sort(key=lambda each: not _is_own(each[0]))
        return [replace(item, rank=rank) for rank, item in enumerate([*texts, *(item for _, item in turns)], 1)]

    # --- sections ------------------------------------------------------------------------------------------------

    def answer(self, ranked: Sequence[Found]) -> None:
        """Choose what is pinned, who the user is, and what answers the question."""
        texts, turns = [each for each in ranked if not _is_turn(each)], [each for each in ranked if _is_turn(each)]
        if "memories" in self._asked.among:
            self._take(self._pinned(), PINNED)
            matching = [each for each in texts if each.candidate.kind in recalling.PROFILE_KINDS]
            condition, values = self._finder.memories.condition()
            kinds = recalling.PROFILE_KINDS
            self._profile = self._of_states(memories.newest(self._connection, condition, values, kinds, self._most))
            self._take([*matching, *self._profile], PROFILE)
        believed, uncited = self._resolved(turns)
        self._take([*texts, *believed], ANSWER)
        own = [each for each in uncited if _is_own(each) and tells(each)]
        others = [each for each in uncited if not _is_own(each) and each.candidate.match >= OTHERS_MATCH]
        self._take([*_stating_first(own), *others], TURN)

    def fill_up(self, used: int) -> None:
        """Choose what the user said last about himself, in what is left of the budget."""
        asked = self._asked
        budget = asked.budget or 0
        if self._request.latest is not None:
            budget = min(budget, self._request.latest)
        self._room = packing.inside(budget, asked.unit) or 0 if not used else max(0, budget - used)
        self._take(self._profile, LATEST)
        if "turns" not in asked.among or not (self._fits or asked.explain):
            return
        before = 2**62
        for _ in range(LATEST_TURNS // BATCH):
            newest = passages.newest(self._connection, self._finder.passages, BATCH, before)
            if not newest or not (self._fits or asked.explain):
                break
            before = newest[-1].row
            messages = [each.position for each in newest if each.corpus == passages.MESSAGE]
            roles = sessions.roles(self._connection, messages) if messages else {}
            own = [each for each in newest if roles.get(each.position, "user") == "user" and of_himself(each.text)]
            believed, uncited = self._resolved(_stating_first(sorted(map(of_passage, own), key=_when, reverse=True)))
            self._take([*believed, *uncited], LATEST)

    def not_repeated(self, items: Iterable[Item]) -> None:
        """Note what stands in the pack besides what was chosen."""
        self._contents |= {normalise(item.content or "") for item in items}

    def left_out(self) -> list[Item]:
        """What was not chosen, with the reasons."""
        return [replace(item, rank=rank) for rank, item in enumerate(self._cut.values(), len(self._chosen) + 1)]

    def _pinned(self) -> list[Found]:
        hits = self._snapshot.memory_hits(f'words : "{PIN}"', wanted=self._finder.memories, limit=self._most)
        return self._of_states([state for state, _ in hits if PIN in state.tags])

    def _of_states(self, states: Iterable[Memory]) -> list[Found]:
        return [
            of_memory(each, self._finder.policy, self._asked.now) for each in sorted(states, key=since, reverse=True)
        ]

    # --- what goes in --------------------------------------------------------------------------------------------

    @property
    def _most(self) -> int:
        """How many lines the budget has room for at the most."""
        return min(LIST_CAP, self._budget // LEAST[self._asked.unit] + 1)

    @property
    def _fits(self) -> bool:
        """Return True if there is room for a line."""
        return self._room >= LEAST[self._asked.unit]

    def _take(self, found: Sequence[Found], section: str) -> None:
        """Put into a section what fits, in this order."""
        left, misses = self._budget // SHARES.get(section, 1), 0
        for start in range(0, len(found), BATCH):
            if misses >= MISSES and not self._asked.explain:
                return
            some = [self._shortened(each) for each in found[start : start + BATCH] if _key(each) not in self._chosen]
            for each, item in zip(some, recalling.items_of(self._connection, some), strict=True):
                size = self._offer(each, replace(item, section=section), left if misses < MISSES else 0)
                left, misses = left - size, 0 if size else misses + 1
                if misses >= MISSES and not self._asked.explain:
                    return

    def _offer(self, found: Found, item: Item, left: int) -> int:
        """Put in an item if it fits, and return what it takes."""
        key, words = _key(found), normalise(item.content or "")
        if key in self._chosen:
            return 0
        size = packing.sizes([item], self._asked.unit)[0]
        why = "repeated" if words in self._contents else ""
        stems = content_stems(item.content or "") if item.section == LATEST and _is_turn(found) else frozenset()
        if not why and any(share_stems(stems, newer) for newer in self._latest):
            why = "repeated"
        if not why and size > self._room:
            why = "budget"
        elif not why and size > left:
            why = f"share of {item.section}" if item.section in SHARES else "budget"
        if why:
            self._cut[key] = replace(item, cut=why)
            return 0
        self._cut.pop(key, None)
        self._chosen[key] = found, item
        self._contents.add(words)
        self._latest += [stems] if stems else []
        self._room -= size
        return size

    def _shortened(self, found: Found) -> Found:
        """Return a turn of the user's without the questions around what it tells, and of a long text the best piece."""
        row = found.passage
        if row is None:
            return found
        start, end = _stated_span(row.text) if _is_turn(found) and _is_own(found) else (0, len(row.text))
        if end - start > LINE_CHARS:
            spans = [(start + first, start + last) for first, last in pieces.split(row.text[start:end], LINE_CHARS)]
            start, end = max(spans, key=lambda span: self._finder.score_of(row.text[span[0] : span[1]]))
        piece = replace(row, start=row.start + start, until=row.start + end, text=row.text[start:end])
        return Found(found.candidate, passage=piece)

    # --- which turns stay out ------------------------------------------------------------------------------------

    def _resolved(self, turns: Sequence[Found]) -> tuple[list[Found], list[Found]]:
        """(what is believed by now of what some turns say, the turns that no memory cites), each in their order.

        A turn leads to the memory that took the place of what it said, whatever words that has. What the session's window
        shows is neither.
        """
        citing, shown = self._citing(turns), self._shown(turns)
        believed, uncited, reasons = dict[int, None](), list[Found](), list[tuple[Found, str]]()
        for each in turns:
            memories_of = citing.get(_key(each), ())
            believed |= dict.fromkeys(now for memory in memories_of if (now := self._now(memory)) is not None)
            if memories_of:
                reasons.append((each, f"cited by {memories_of[0].id}"))
            elif _key(each) in shown:
                reasons.append((each, "window"))
            else:
                uncited.append(each)
        if self._asked.explain:
            items = recalling.items_of(self._connection, [each for each, _ in reasons])
            for (each, why), item in zip(reasons, items, strict=True):
                self._cut.setdefault(_key(each), replace(item, cut=why))
        states = {state.row: state for state in self._finder.memories_at(believed)}
        return [
            of_memory(states[row], self._finder.policy, self._asked.now) for row in believed if row in states
        ], uncited

    def _citing(self, turns: Sequence[Found]) -> dict[Key, list[Memory]]:
        """The memories that cite each turn, but for those that nobody ever believed."""
        rows = {_key(each): each.passage for each in turns if each.passage is not None}
        sources = sorted({row.id for row in rows.values()})
        messages = [row.position for row in rows.values() if row.corpus == passages.MESSAGE]
        of_turns, of_messages = dict[str, list[Memory]](), dict[int, list[Memory]]()
        for source, memory in memories.citing(self._connection, sources, messages):
            if memory.status == "candidate" or memory.before == "candidate":
                continue
            if source.startswith("s_") and memory.origin is not None:
                of_messages.setdefault(memory.origin.position, []).append(memory)
            else:
                of_turns.setdefault(source, []).append(memory)
        found = dict[Key, list[Memory]]()
        for key, row in rows.items():
            is_message = row.corpus == passages.MESSAGE
            if of := of_messages.get(row.position) if is_message else of_turns.get(row.id):
                found[key] = of
        return found

    def _now(self, memory: Memory) -> int | None:
        """The row of the memory itself, or of what superseded it at last."""
        seen, last = set[int](), memory
        while last.superseded_by is not None and last.row not in seen:
            seen.add(last.row)
            row = first_position(self._connection, last.superseded_by)
            later = memories.get(self._connection, row) if row is not None else None
            if later is None:
                return None
            last = later
        return last.row

    def _shown(self, turns: Sequence[Found]) -> set[Key]:
        """The turns that the window of the session shows."""
        if self._window is None:
            return set()
        within = [each for each in turns if each.passage is not None and each.passage.session == self._window.session]
        ids = sorted({each.passage.id for each in within if each.passage and each.passage.corpus == passages.TURN})
        places = sessions.places(self._connection, ids)
        found = set[Key]()
        for each in within:
            row = each.passage
            assert row is not None
            place = places.get((row.id, row.field)) if row.corpus == passages.TURN else row.position
            if place is not None and self._window.shows(place):
                found.add(_key(each))
        return found


class _Window(Struct, frozen=True):
    """The messages that the window of a session shows: some, or all but those of some ranges of positions."""

    session: str
    positions: frozenset[int] | None
    without: tuple[tuple[int, int], ...]

    def shows(self, position: int) -> bool:
        """Return True if the message at a position is shown."""
        if self.positions is not None:
            return position in self.positions
        return not any(first <= position <= last for first, last in self.without)


def _window_of(connection: Connection, request: ContextRequest) -> _Window | None:
    id = named(connection, request.asked.user, "s", request.session)
    row = first_position(connection, id) if id is not None and id != NOWHERE else None
    if id is None or row is None:
        return None
    hidden = [(each.first, each.last) for each in sessions.hidden(connection, row)]
    summed = [each for summary in summaries.in_window(connection, row) for each in summary.ranges]
    return _Window(id, request.shown, (*hidden, *summed))


FIRST_PERSON = re.compile(r"(?<!\w)(?:i|i['’]?m|i['’]?ve|me|my|mine|we|us|our|ours)(?!\w)", re.IGNORECASE)
NAMED = re.compile(r"\d|(?<=[^\W\d_]|,|;) [^\W\d_a-z]\w")  # a figure, or a capital inside of a sentence
STATED_WORDS = 8


def states_something(text: str) -> bool:
    """Return True if a text likely states something of the user's life, and is no request.

    Without the clauses that ask it has two of three signs: a first person, a name or a figure, eight words. In two invented
    years 97 of 100 turns with a fact have them, and 42 of 100 everyday turns.
    """
    words = " ".join(text[start:end] for start, end in stated_spans(text))
    signs = (FIRST_PERSON.search(words), NAMED.search(words), len(words.split()) >= STATED_WORDS)
    return sum(map(bool, signs)) >= 2


def of_himself(text: str) -> bool:
    """Return True if the clauses of a text that do not ask are in the first person, or state something otherwise."""
    return states_something(text) or any(FIRST_PERSON.search(text, start, end) for start, end in stated_spans(text))


def _stating_first(turns: Sequence[Found]) -> list[Found]:
    """Return the turns as they are ranked, those before others that likely state something."""
    return sorted(turns, key=lambda turn: turn.passage is None or not states_something(turn.passage.text))


def tells(found: Found) -> bool:
    """Return True if a turn does more than ask, so that it can say something of what is asked."""
    return found.passage is not None and bool(stated_spans(found.passage.text))


def _key(found: Found) -> Key:
    """What makes an item one: the memory, or the text that a passage is of."""
    return (found.candidate.corpus, found.candidate.key)


def _is_turn(found: Found) -> bool:
    return found.candidate.corpus == passages.TURN


def _is_own(found: Found) -> bool:
    """Return True if the user said it."""
    return who(found.candidate)[1]


def _stated_span(text: str) -> tuple[int, int]:
    """Return the span from the first to the last clause that does not ask; an empty one where all of a text asks."""
    spans = stated_spans(text)
    if not spans:
        return 0, 0
    start, end = spans[0][0], spans[-1][1]
    stated_text = text[start:end]
    return end - len(stated_text.lstrip(" ,;-")), start + len(stated_text.rstrip())


def _when(found: Found) -> tuple[str, int]:
    return found.candidate.time, found.candidate.position
