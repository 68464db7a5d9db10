"""Context: a pack of the memories and turns that the next prompt needs, within one budget, each line with its day.

The pack has five sections. No item stands in two of them.

section   items
pinned    memories with the tag ``pinned``, newest first, in at most half of the budget
profile   memories about the user, his standing rules and preferences, in at most a quarter: matching ones, then the newest
answer    active memories and chunks of documents, as recall ranks them; then the current memories that come from the
          turns that match the question
turn      matching messages for which no memory stands: the user's own that state something, his others, then those of
          other speakers
latest    the user's latest statements about himself: the rest of the profile, then his newest turns in the first person

The sections are filled in this order. In the pack the newest day comes first, after the pinned memories, so that a
statement that still holds comes before the statement that it replaced. Other speakers' turns come last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.log_reading import first_position
from ledger.core.snapshot import LIST_CAP, NOWHERE, Snapshot, named
from ledger.domain import passages as pieces
from ledger.domain.errors import RejectedError
from ledger.domain.text import check_text, normalise
from ledger.english import question as questions
from ledger.english.alike import content_stems, share_stems
from ledger.english.porter import stem
from ledger.english.question import Question
from ledger.english.salience import stated_spans
from ledger.english.words import stems
from ledger.log.reading import read_tip
from ledger.memories.rules import MemoryState, since
from ledger.recall import ordering, packing, recalling, reopening
from ledger.recall.asked import CONTEXT, RecallRequest
from ledger.recall.asked import checked as checked_search
from ledger.recall.finding import Finder, RecallHit, of_memory, of_passage
from ledger.recall.observing import Observing
from ledger.recall.packs import Item, Pack
from projections.core.rows import Connection
from projections.search import passages
from projections.search.ranking import who
from projections.views import memories, sessions, summaries

if TYPE_CHECKING:
    from ledger.core.reading_engine import ReadingEngine
    from ledger.core.who import Who

Key = tuple[str, int]

AMONG = ("memories", "chunks", "turns")
PINNED, PROFILE, ANSWER, TURN, LATEST = "pinned", "profile", "answer", "turn", "latest"
PIN = "pinned"  # the tag of pinned memories
SHARES = {PINNED: 2, PROFILE: 4}
"""A section's largest part of the budget: the half and the quarter."""

RANKED = 30  # the most results of the search that are considered
LATEST_TURNS = 200  # the most newest turns that are considered
MISSES = 8  # the number of items in a row without room after which a section ends
OTHERS_MATCH = 0.5  # the least match with the question of a turn of another speaker than the user
LINE_CHARS = 200  # a longer turn or chunk is cut to its best piece
LEAST = {"tokens": 10, "chars": 16}  # the smallest size of a line
BATCH = 25


class ContextRequest(Struct, frozen=True, kw_only=True):
    """A request for a context: the search, and the session whose window already shows a part of the answer.

    Attributes:
        search: The question, the texts to search and the budget, which a context needs. Limit and packing are the context's own.
        session: A session whose window is left out.
        shown: The positions of the messages that the prompt contains; None for all messages of the session's window.
        latest: The part of the budget up to which the latest statements fill the pack; None for the whole.
    """

    search: RecallRequest
    session: str | None = None
    shown: frozenset[int] | None = None
    latest: int | None = None


def checked(request: ContextRequest) -> ContextRequest:
    """Return the request with a checked search of the context's limit and packing.

    Raises:
        RejectedError: A value is not valid, or there is no budget.
    """
    if request.search.budget is None:
        raise RejectedError("context needs a budget, a whole number; recall() works without a budget")
    search = checked_search(replace(request.search, limit=RANKED, packing=CONTEXT))
    session = None if request.session is None else check_text("session", request.session)
    return replace(request, search=search, session=session)


def context(engine: ReadingEngine, request: ContextRequest, receipt: Who | None = None) -> Pack:
    """Return the pack for the next prompt. With a ``receipt`` the pack is recorded."""
    request = checked(request)
    pack, about = packed(engine, request)
    if receipt is None:
        return pack
    return replace(pack, receipt=reopening.recorded(engine, request.search, about, pack, receipt))


def packed(engine: ReadingEngine, request: ContextRequest) -> tuple[Pack, str | None]:
    """Return the pack, and the id of the project that the request is about."""
    search = request.search
    asking = questions.read(search.query, numeric=True)
    sought = recalling.sought_of(engine, search, asking)
    with recalling.searchable(engine) as snapshot:
        connection = snapshot.connection
        tip = read_tip(connection.cursor())
        about = named(connection, search.user, "p", search.project)
        scope = recalling.searched_in(connection, search.user, search.project, about)
        finder = Finder(engine, snapshot, search, scope, asking, sought)
        ranked, weak = ordering.ordered(finder, search, asking)
        chosen = _Choosing(snapshot, finder, request, asking)
        chosen.answer(ranked[:RANKED])
        warnings = (*snapshot.warnings, *recalling.nowhere_warning(about, search.project), *finder.warnings)
        searched = recalling.searched_among(engine, connection, finder, search, tip)
        pack = packing.finished(chosen.items, [""] * len(chosen.items), searched, search.budget, search.unit, warnings)
        pack = recalling.with_observations(search, Observing(engine, snapshot, search, scope, asking), pack)
        chosen.not_repeated(pack.observations)
        chosen.fill_up(pack.used)
        cut = (*chosen.left_out(), *pack.cut) if search.explain else pack.cut
        pack = packing.measured(replace(pack, items=tuple(chosen.items), cut=cut))
        if search.explain:
            pack = packing.with_weak(pack, recalling.items_of(connection, weak[: recalling.RANKED - len(cut)]))
    return replace(pack, seen=tip[0]), about if about != NOWHERE else None


class _Choosing:
    """The choice of the items of a context, section by section."""

    def __init__(self, snapshot: Snapshot, finder: Finder, request: ContextRequest, asking: Question) -> None:
        self._snapshot, self._connection, self._finder = snapshot, snapshot.connection, finder
        self._search, self._request = request.search, request
        self._telling = [frozenset(map(stem, forms)) for forms in asking.concepts]
        self._budget = packing.inside(request.search.budget, request.search.unit) or 0
        self._room = self._budget
        self._profile: list[RecallHit] = []
        self._contents = set[str]()
        self._latest = list[frozenset[str]]()
        self._chosen, self._cut = dict[Key, tuple[RecallHit, Item]](), dict[Key, Item]()
        self._window = _window_of(self._connection, request)

    @property
    def items(self) -> list[Item]:
        """Return the chosen items in the order of the pack.

        Pinned items come first and other speakers' turns last. Between them the newest day comes first, and of a day the
        memories come before the user's turns.
        """
        texts = [(hit, item) for hit, item in self._chosen.values() if not _is_turn(hit)]
        turns = [(hit, item) for hit, item in self._chosen.values() if _is_turn(hit)]
        turns.sort(key=lambda pair: _when(pair[0]), reverse=True)
        pairs = sorted([*texts, *turns], key=lambda pair: _when(pair[0])[0][:10], reverse=True)
        pairs.sort(key=lambda pair: 0 if pair[1].section == PINNED else 2 if _is_others(pair[0]) else 1)
        return [replace(item, rank=rank) for rank, (_, item) in enumerate(pairs, 1)]

    # --- sections ------------------------------------------------------------------------------------------------

    def answer(self, ranked: Sequence[RecallHit]) -> None:
        """Choose the pinned memories, the user's profile, and the answers to the question."""
        texts, turns = [hit for hit in ranked if not _is_turn(hit)], [hit for hit in ranked if _is_turn(hit)]
        if "memories" in self._search.among:
            self._take(self._pinned(), PINNED)
            matching = [hit for hit in texts if hit.candidate.kind in recalling.PROFILE_KINDS]
            condition, values = self._finder.memories.condition()
            kinds = recalling.PROFILE_KINDS
            self._profile = self._of_states(memories.newest(self._connection, condition, values, kinds, self._most))
            self._take([*matching, *self._profile], PROFILE)
        believed, uncited = self._resolved(turns, self._telling)
        self._take([*texts, *believed], ANSWER)
        own = [hit for hit in uncited if _is_own(hit) and tells(hit)]
        others = [hit for hit in uncited if not _is_own(hit) and hit.candidate.match >= OTHERS_MATCH]
        self._take([*_stating_first(own), *others], TURN)

    def fill_up(self, used: int) -> None:
        """Fill the rest of the budget with the user's latest statements about himself."""
        search = self._search
        budget = search.budget or 0
        if self._request.latest is not None:
            budget = min(budget, self._request.latest)
        self._room = packing.inside(budget, search.unit) or 0 if not used else max(0, budget - used)
        self._take(self._profile, LATEST)
        if "turns" not in search.among or not (self._fits or search.explain):
            return
        before = 2**62
        for _ in range(LATEST_TURNS // BATCH):
            newest = passages.newest(self._connection, self._finder.passages, BATCH, before)
            if not newest or not (self._fits or search.explain):
                break
            before = newest[-1].row
            messages = [row.position for row in newest if row.corpus == passages.MESSAGE]
            roles = sessions.roles(self._connection, messages) if messages else {}
            own = [row for row in newest if roles.get(row.position, "user") == "user" and of_himself(row.text)]
            believed, uncited = self._resolved(_stating_first(sorted(map(of_passage, own), key=_when, reverse=True)))
            self._take([*believed, *uncited], LATEST)

    def not_repeated(self, items: Iterable[Item]) -> None:
        """Note the contents of other items of the pack, so that they are not repeated."""
        self._contents |= {normalise(item.content or "") for item in items}

    def left_out(self) -> list[Item]:
        """Return the items that were not chosen, with the reasons."""
        return [replace(item, rank=rank) for rank, item in enumerate(self._cut.values(), len(self._chosen) + 1)]

    def _pinned(self) -> list[RecallHit]:
        hits = self._snapshot.memory_hits(f'words : "{PIN}"', wanted=self._finder.memories, limit=self._most)
        return self._of_states([state for state, _ in hits if PIN in state.tags])

    def _of_states(self, states: Iterable[MemoryState]) -> list[RecallHit]:
        return [
            of_memory(state, self._finder.policy, self._search.now) for state in sorted(states, key=since, reverse=True)
        ]

    # --- filling a section ---------------------------------------------------------------------------------------

    @property
    def _most(self) -> int:
        """Return the largest number of lines that the budget has room for."""
        return min(LIST_CAP, self._budget // LEAST[self._search.unit] + 1)

    @property
    def _fits(self) -> bool:
        """Return True if there is room for a line."""
        return self._room >= LEAST[self._search.unit]

    def _take(self, hits: Sequence[RecallHit], section: str) -> None:
        """Put the hits that fit into a section, in their order."""
        left, misses = self._budget // SHARES.get(section, 1), 0
        for start in range(0, len(hits), BATCH):
            if misses >= MISSES and not self._search.explain:
                return
            batch = [self._shortened(hit) for hit in hits[start : start + BATCH] if _key(hit) not in self._chosen]
            for hit, item in zip(batch, recalling.items_of(self._connection, batch), strict=True):
                size = self._offer(hit, replace(item, section=section), left if misses < MISSES else 0)
                left, misses = left - size, 0 if size else misses + 1
                if misses >= MISSES and not self._search.explain:
                    return

    def _offer(self, hit: RecallHit, item: Item, left: int) -> int:
        """Put in an item if it fits, and return its size."""
        key, words = _key(hit), normalise(item.content or "")
        if key in self._chosen:
            return 0
        size = packing.sizes([item], self._search.unit)[0]
        why = "repeated" if words in self._contents else ""
        stems = content_stems(item.content or "") if item.section == LATEST and _is_turn(hit) else frozenset()
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
        self._chosen[key] = hit, item
        self._contents.add(words)
        self._latest += [stems] if stems else []
        self._room -= size
        return size

    def _shortened(self, hit: RecallHit) -> RecallHit:
        """Return a hit with less text: only the statements of a user's turn, and only the best piece of a long text."""
        row = hit.passage
        if row is None:
            return hit
        start, end = _stated_span(row.text) if _is_turn(hit) and _is_own(hit) else (0, len(row.text))
        if end - start > LINE_CHARS:
            spans = [(start + first, start + last) for first, last in pieces.split(row.text[start:end], LINE_CHARS)]
            start, end = max(spans, key=lambda span: self._finder.score_of(row.text[span[0] : span[1]]))
        piece = replace(row, start=row.start + start, until=row.start + end, text=row.text[start:end])
        return RecallHit(hit.candidate, passage=piece)

    # --- turns that stay out -------------------------------------------------------------------------------------

    def _resolved(
        self, turns: Sequence[RecallHit], telling: Sequence[frozenset[str]] = ()
    ) -> tuple[list[RecallHit], list[RecallHit]]:
        """Return the current memories that come from some turns, and the turns that no memory stands for, each in their order.

        A memory that cites a turn stands for the turn, unless the turn has a telling word of the question that no such memory
        has: then the turn says more than was learned from it. If the memory was superseded, its last successor stands for the
        turn, whatever words the successor has. A turn that the session's window shows is in neither list.

        Args:
            turns: The turns.
            telling: The stems of each telling word of the question, with its other forms.
        """
        citing, shown = self._citing(turns), self._shown(turns)
        believed, uncited, reasons = dict[int, None](), list[RecallHit](), list[tuple[RecallHit, str]]()
        for turn in turns:
            memories_of = citing.get(_key(turn), ())
            believed |= dict.fromkeys(now for memory in memories_of if (now := self._now(memory)) is not None)
            if memories_of and not _says_more(turn, memories_of, telling):
                reasons.append((turn, f"cited by {memories_of[0].id}"))
            elif _key(turn) in shown:
                reasons.append((turn, "window"))
            else:
                uncited.append(turn)
        if self._search.explain:
            items = recalling.items_of(self._connection, [turn for turn, _ in reasons])
            for (turn, why), item in zip(reasons, items, strict=True):
                self._cut.setdefault(_key(turn), replace(item, cut=why))
        states = {state.row: state for state in self._finder.memories_at(believed)}
        return [
            of_memory(states[row], self._finder.policy, self._search.now) for row in believed if row in states
        ], uncited

    def _citing(self, turns: Sequence[RecallHit]) -> dict[Key, list[MemoryState]]:
        """Return the memories that cite each turn, without memories that were never believed."""
        rows = {_key(turn): turn.passage for turn in turns if turn.passage is not None}
        sources = sorted({row.id for row in rows.values()})
        messages = [row.position for row in rows.values() if row.corpus == passages.MESSAGE]
        of_turns, of_messages = dict[str, list[MemoryState]](), dict[int, list[MemoryState]]()
        for source, memory in memories.citing(self._connection, sources, messages):
            if memory.status == "candidate" or memory.before == "candidate":
                continue
            if source.startswith("s_") and memory.origin is not None:
                of_messages.setdefault(memory.origin.position, []).append(memory)
            else:
                of_turns.setdefault(source, []).append(memory)
        cited = dict[Key, list[MemoryState]]()
        for key, row in rows.items():
            is_message = row.corpus == passages.MESSAGE
            if citing := of_messages.get(row.position) if is_message else of_turns.get(row.id):
                cited[key] = citing
        return cited

    def _now(self, memory: MemoryState) -> int | None:
        """Return the row of the memory, or of its last successor if it was superseded; None if a successor does not exist."""
        seen, last = set[int](), memory
        while last.superseded_by is not None and last.row not in seen:
            seen.add(last.row)
            row = first_position(self._connection, last.superseded_by)
            later = memories.get(self._connection, row) if row is not None else None
            if later is None:
                return None
            last = later
        return last.row

    def _shown(self, turns: Sequence[RecallHit]) -> set[Key]:
        """Return the turns that the session's window shows."""
        if self._window is None:
            return set()
        within = [turn for turn in turns if turn.passage is not None and turn.passage.session == self._window.session]
        ids = sorted({turn.passage.id for turn in within if turn.passage and turn.passage.corpus == passages.TURN})
        places = sessions.places(self._connection, ids)
        shown = set[Key]()
        for turn in within:
            row = turn.passage
            assert row is not None
            place = places.get((row.id, row.field)) if row.corpus == passages.TURN else row.position
            if place is not None and self._window.shows(place):
                shown.add(_key(turn))
        return shown


class _Window(Struct, frozen=True):
    """The messages that a session's window shows: either only ``positions``, or all positions except the ranges ``without``."""

    session: str
    positions: frozenset[int] | None
    without: tuple[tuple[int, int], ...]

    def shows(self, position: int) -> bool:
        """Return True if the window shows the message at a position."""
        if self.positions is not None:
            return position in self.positions
        return not any(first <= position <= last for first, last in self.without)


def _window_of(connection: Connection, request: ContextRequest) -> _Window | None:
    id = named(connection, request.search.user, "s", request.session)
    row = first_position(connection, id) if id is not None and id != NOWHERE else None
    if id is None or row is None:
        return None
    hidden = [(part.first, part.last) for part in sessions.hidden(connection, row)]
    summed = [part for summary in summaries.in_window(connection, row) for part in summary.ranges]
    return _Window(id, request.shown, (*hidden, *summed))


FIRST_PERSON = re.compile(r"(?<!\w)(?:i|i['’]?m|i['’]?ve|me|my|mine|we|us|our|ours)(?!\w)", re.IGNORECASE)
NAMED = re.compile(r"\d|(?<=[^\W\d_]|,|;) [^\W\d_a-z]\w")  # a figure, or a capital inside a sentence
STATED_WORDS = 8  # the least number of words that is a sign of a fact


def states_something(text: str) -> bool:
    """Return True if a text likely states a fact of the user's life and is not a request.

    The clauses that are not questions must have two of three signs: a first person, a name or a figure, eight words. In the
    evaluation data (two invented years) 97 of 100 turns with a fact have two signs, and 42 of 100 everyday turns.
    """
    words = " ".join(text[start:end] for start, end in stated_spans(text))
    signs = (FIRST_PERSON.search(words), NAMED.search(words), len(words.split()) >= STATED_WORDS)
    return sum(map(bool, signs)) >= 2


def of_himself(text: str) -> bool:
    """Return True if the clauses of a text that are not questions are in the first person, or state a fact."""
    return states_something(text) or any(FIRST_PERSON.search(text, start, end) for start, end in stated_spans(text))


def _stating_first(turns: Sequence[RecallHit]) -> list[RecallHit]:
    """Return the turns that likely state a fact, then the other turns, each in their order."""
    return sorted(turns, key=lambda turn: turn.passage is None or not states_something(turn.passage.text))


def tells(turn: RecallHit) -> bool:
    """Return True if a turn contains more than questions."""
    return turn.passage is not None and bool(stated_spans(turn.passage.text))


def _says_more(turn: RecallHit, citing: Sequence[MemoryState], telling: Iterable[frozenset[str]]) -> bool:
    """Return True if a turn has a telling word of the question that no memory which cites the turn has."""
    if any(memory.status != "active" for memory in citing):
        return False  # what became of the memory became of the turn
    said = stems(turn.passage.text) if turn.passage is not None else frozenset()
    learned = frozenset[str]().union(*(stems(memory.content or "") for memory in citing))
    return any(forms & said and not forms & learned for forms in telling)


def _key(hit: RecallHit) -> Key:
    """Return the key by which a memory or a text is recognized, so that it stands only once in a context."""
    return (hit.candidate.corpus, hit.candidate.key)


def _is_turn(hit: RecallHit) -> bool:
    return hit.candidate.corpus == passages.TURN


def _is_others(hit: RecallHit) -> bool:
    """Return True for a turn that the user did not say."""
    return _is_turn(hit) and not _is_own(hit)


def _is_own(hit: RecallHit) -> bool:
    """Return True if the user is the speaker."""
    return who(hit.candidate)[1]


def _stated_span(text: str) -> tuple[int, int]:
    """Return the span from the first to the last clause that is not a question; an empty span if all clauses are questions."""
    spans = stated_spans(text)
    if not spans:
        return 0, 0
    start, end = spans[0][0], spans[-1][1]
    stated_text = text[start:end]
    return end - len(stated_text.lstrip(" ,;-")), start + len(stated_text.rstrip())


def _when(hit: RecallHit) -> tuple[str, int]:
    return hit.candidate.time, hit.candidate.position
