"""Context: a pack of the memories and turns that the next prompt needs, within one budget, each line with its day.

The pack has six sections. No item stands in two of them.

section   items
pinned    memories with the tag ``pinned``, newest first, in at most half of the budget
session   for a window: the rules, goals and preferences that come from its session, in at most half of the budget; after the
          answers the other memories that come from it and that its summaries do not say, the weightiest first
profile   memories about the user, his standing rules and preferences, in at most a quarter: matching ones, then the newest
answer    active memories and chunks of documents, and the current memories that come from the turns that match the question
turn      matching messages for which no memory stands: the user's own, those of other speakers with half of the question,
          and newer turns of the user that share a rare word with the best of the answers
latest    memories that a model learned, newest first; then, if nothing answers well, in at most a quarter, memories that were
          handed in and the user's statements about himself that no model has read, in turn, the newest of each first

The sections are filled in this order; answers and turns compete by their scores, and what states something counts 1.5 times.
In the pack the pinned memories come first, then the rules, goals and preferences of the session, then what answers, then the
rest of the profile, the other memories of the session, and the latest. What answers has
two parts, the items with a third of the best score and the others; in each the newest day comes first, so that a statement that
still holds comes before the statement that it replaced. Other speakers' turns come last among the answers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.engine import Snapshot
from ledger.core.reads import LIST_CAP, NOWHERE, first_position, id_of_filter
from ledger.domain import passages as pieces
from ledger.domain.errors import RejectedError
from ledger.domain.kinds import KINDS
from ledger.domain.text import check_text, flags, normalise
from ledger.english import question as questions
from ledger.english import weighing
from ledger.english.alike import are_of_one_form, content_stems, share_stems, stems_in_order
from ledger.english.question import Question, any_of
from ledger.english.salience import stated_spans
from ledger.english.words import stem, stems
from ledger.log.reading import read_tip
from ledger.memories.state import MemoryState, since
from ledger.recall import ordering, packs, recalling, reopening
from ledger.recall.finding import (
    Finder,
    Key,
    RecallHit,
    citing_memories,
    is_turn,
    key_of,
    may_observe,
    memories_matching,
    of_memory,
    of_passage,
    passages_matching,
    turn_of,
    warnings_of,
)
from ledger.recall.observing import Observing, beside
from ledger.recall.ordering import items_of, nowhere_warning, searched_in
from ledger.recall.packs import Item, Pack
from ledger.recall.request import CONTEXT, RecallRequest
from ledger.recall.request import checked as checked_search
from ledger.recall.unasked import PROFILE_KINDS
from projections.core.rows import Connection
from projections.search import passages
from projections.search.ranking import ScoredText, who
from projections.views import memories, sessions, summaries
from projections.views.interactions import BY_RULES

if TYPE_CHECKING:
    from ledger.core.call import Who
    from ledger.core.engine import ReadingEngine

AMONG = ("memories", "chunks", "turns")
PINNED, SESSION, PROFILE, ANSWER, TURN, LATEST = "pinned", "session", "profile", "answer", "turn", "latest"
PIN = "pinned"  # the tag of pinned memories
STANDING = ("rule", "goal", "preference")  # the kinds of a session's memories that stand in front of its window
OF_SESSION = 1_000  # the most memories of a session that are looked at, the newest (our choice)
SAID = 0.8  # the least part of a memory's stems that a sentence of a summary has that says it (as of sentences that repeat)
SHARES = {PINNED: 2, PROFILE: 4, LATEST: 4}
"""A section's largest part of the budget: the half and the quarter."""

STATED = 1.5  # the factor of a score of what states something
READ = 0.5  # the factor of the score of a turn in which a model found nothing (our choice)
NEAR_BEST = 0.35  # the least part of the best score of an item in the first part of the answers
ANSWERED = 0.5  # the match of an answer from which the latest turns are left out
HOPS, RARE, RELATED, HOPPED = 3, 8, 6, 0.5
"""The best answers whose rare words are searched for, the most texts that have a rare word, the most turns that are added, and
their part of the score. Chosen on two invented years; on two others they gave 9 more right answers of 87 (measured.md)."""

RANKED = 30  # the results of the search among which a newer statement moves before the older
LATEST_TURNS = 200  # the most newest turns that are considered
MISSES = 8  # the number of items in a row without room after which a section ends
OTHERS_MATCH = 0.5  # the least match with the question of a turn of another speaker than the user
LINE_CHARS = 200  # a longer turn or chunk is cut to its best piece
LEAST = {"tokens": 10, "chars": 16}  # the smallest size of a line
BRACKETED = re.compile(r"\[[^\[\]]*\]")  # as a mark in place of a text
LEAST_TOLD = (
    2  # the fewest telling words beside a memory's own by which a turn says more than the memory (our own choice)
)
BATCH = 25


class ContextRequest(Struct, frozen=True, kw_only=True):
    """A request for a context: the search, and the session whose window already shows a part of the answer.

    Attributes:
        search: The question, the texts to search and the budget, which a context needs. Limit and packing are the context's own.
        session: A session whose window is left out.
        shown: The positions of the messages that the prompt contains; None for all messages of the session's window.
        latest: True to fill the room that is left with the latest memories and statements.
        filled: The part of the budget up to which they fill the pack; None for the whole.
        summaries: The texts of the summaries in the session's window; None if the session's memories have no section.
    """

    search: RecallRequest
    session: str | None = None
    shown: frozenset[int] | None = None
    latest: bool = True
    filled: int | None = None
    summaries: tuple[str, ...] | None = None


def checked(request: ContextRequest) -> ContextRequest:
    """Return the request with a checked search of the context's limit and packing.

    Raises:
        RejectedError: A value is not valid, or there is no budget.
    """
    if request.search.budget is None:
        raise RejectedError("context needs a budget, a whole number; recall() works without a budget")
    flags(latest=request.latest)
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
    asking = questions.read(search.question, numeric=True)
    sought = recalling.sought_of(engine, search, asking)
    with recalling.searchable(engine) as snapshot:
        connection = snapshot.connection
        tip = read_tip(connection.cursor())
        about = id_of_filter(connection, search.user, "p", search.project)
        scope = searched_in(connection, search.user, search.project, about)
        finder = Finder(engine, snapshot, search, scope, asking, sought)
        ranked, _ = ordering.ordered(finder, replace(search, min_match=0), asking)  # the budget is the floor
        chosen = _Choosing(snapshot, finder, request, asking)
        chosen.answer(ranked)
        warnings = (*warnings_of(snapshot), *nowhere_warning(about, search.project), *finder.warnings)
        warnings = (*warnings, *recalling.held_warning(finder, search, len(ranked)))
        searched = recalling.searched_among(engine, connection, finder, search, tip)
        pack = packs.finished(chosen.items, [""] * len(chosen.items), searched, search.budget, search.unit, warnings)
        if may_observe(snapshot, search, asking):
            observing = Observing(engine, snapshot, search, scope, asking)
            pack = beside(search, observing, pack)
            pack = replace(pack, warnings=(*pack.warnings, *observing.warnings))
        chosen.not_repeated(pack.observations)
        chosen.fill_up(pack.used)
        cut = (*chosen.left_out(), *pack.cut) if search.explain else pack.cut
        pack = packs.measured(replace(pack, items=tuple(chosen.items), cut=cut))
    return replace(pack, seen=tip[0]), about if about != NOWHERE else None


class _Choosing:
    """The choice of the items of a context, section by section."""

    def __init__(self, snapshot: Snapshot, finder: Finder, request: ContextRequest, asking: Question) -> None:
        self._snapshot, self._connection, self._finder = snapshot, snapshot.connection, finder
        self._search, self._request = request.search, request
        self._telling = [frozenset(map(stem, forms)) for forms in asking.concepts]
        self._budget = packs.inside(request.search.budget, request.search.unit) or 0
        self._room = self._budget
        self._profile: list[RecallHit] = []
        self._best = 0.0  # the best match of an answer
        self._contents = set[str]()
        self._latest = list[tuple[frozenset[str], list[str]]]()
        self._chosen, self._cut = dict[Key, tuple[RecallHit, Item]](), dict[Key, Item]()
        self._window = _window_of(self._connection, request)
        self._in_window = set[Key]()  # the memories of the session that its window says

    @property
    def items(self) -> list[Item]:
        """Return the chosen items in the order of the pack, part by part.

        Other speakers' turns come last among the answers. In each part the newest day comes first, and of a day the memories
        come before the turns, the newest of the turns first.
        """
        pairs = sorted(self._chosen.values(), key=lambda pair: _when(pair[0]), reverse=True)
        pairs.sort(key=lambda pair: is_turn(pair[0]))
        pairs.sort(key=lambda pair: _when(pair[0])[0][:10], reverse=True)
        near = NEAR_BEST * max((_weight(hit) for hit, _ in pairs), default=0.0)
        pairs.sort(key=lambda pair: _part(pair[0], pair[1].section, near))
        return [replace(item, rank=rank) for rank, (_, item) in enumerate(pairs, 1)]

    # --- sections ------------------------------------------------------------------------------------------------

    def answer(self, ranked: Sequence[RecallHit]) -> None:
        """Choose the pinned memories, the user's profile, and the answers to the question."""
        texts, turns = [hit for hit in ranked if not is_turn(hit)], [hit for hit in ranked if is_turn(hit)]
        left_out = list[RecallHit]()
        if "memories" in self._search.among:
            self._take(self._pinned(), PINNED)
            standing, left_out = self._of_session()
            self._take(standing, SESSION, share=2)
            matching = [hit for hit in texts if hit.candidate.kind in PROFILE_KINDS]
            self._profile = self._of_states(self._newest(PROFILE_KINDS))
            self._take([*matching, *self._profile], PROFILE)
        believed, uncited = self._resolved(turns, self._telling)
        texts = _with_believed(texts, believed)
        own = [hit for hit in uncited if _is_own(hit) and tells(hit)]
        unread = set(map(key_of, self._unread(own)))
        for turn in own:
            if key_of(turn) not in unread:
                turn.candidate.score *= READ
                turn.candidate.signals = {**turn.candidate.signals, "read": READ}
        others = [hit for hit in uncited if not _is_own(hit) and hit.candidate.match >= OTHERS_MATCH]
        answers = sorted([*texts, *own, *others], key=_weight, reverse=True)
        self._best = max((hit.candidate.match for hit in answers), default=0.0)
        answers += self._related(answers)
        self._take(sorted(answers, key=_weight, reverse=True), ANSWER)
        self._take(left_out, SESSION)

    def _of_session(self) -> tuple[list[RecallHit], list[RecallHit]]:
        """Return the session's rules, goals and preferences, and its other memories that the window does not say.

        What the window does not say comes first, of that what the user is (in the year stories his allergies are that), then
        what weighs most.
        """
        window, summaries = self._window, self._request.summaries
        if window is None or summaries is None:
            return [], []
        condition, values = self._finder.memories.condition()
        states = memories.of_session(self._connection, condition, values, window.session, OF_SESSION)
        said = [stems(sentence) for text in summaries for _, sentence in weighing.sentences(text)]
        weights = weighing.weights([state.content or "" for state in states])
        shown = self._cited_in(window, states)
        ranked = list[tuple[bool, bool, float, RecallHit]]()
        for state, weight in zip(states, weights, strict=True):
            hit = of_memory(state, self._finder.policy, self._search.now)
            if is_said := state.row in shown or _is_said(state.content or "", said):
                self._in_window.add(key_of(hit))
            ranked.append((is_said, state.kind not in PROFILE_KINDS, -weight, hit))
        ranked.sort(key=lambda each: each[:3])
        standing = [hit for *_, hit in ranked if hit.candidate.kind in STANDING]
        return standing, [hit for is_said, *_, hit in ranked if not is_said and hit.candidate.kind not in STANDING]

    def _cited_in(self, window: _Window, states: Sequence[MemoryState]) -> set[int]:
        """Return the rows of the memories whose messages in the session the window shows, all that a memory may rest on."""
        turns = {source for state in states for source in state.sources if source.startswith("i_")}
        places, shown = dict[str, list[tuple[str, int]]](), set[int]()
        for (id, part), place in sessions.places(self._connection, turns).items():
            places.setdefault(id, []).append((part, place))
        for state in states:
            at = state.origin.position if state.origin is not None else 0
            field = state.origin.field if state.origin is not None and not at else ""
            parts = chain.from_iterable(places.get(source, ()) for source in state.sources)
            cited = [place for part, place in parts if part == (field or part)]
            cited += [at] if at else []
            if cited and all(map(window.shows, cited)):
                shown.add(state.row)
        return shown

    def _related(self, answers: Sequence[RecallHit]) -> list[RecallHit]:
        """Return newer turns that share a rare word with the best answers, that no model has read and no memory stands for.

        A change is often told without the words of a question on it, but with a name from the statement that it changes. A
        related turn among the answers has at least the score of one that is not.
        """
        if "turns" not in self._search.among:
            return []
        known, related = {key_of(hit): hit for hit in answers}, dict[Key, RecallHit]()
        for answer in answers[:HOPS]:
            rare = self._finder.rare(answer.candidate.text, RARE)
            rows = (
                passages_matching(self._snapshot, any_of([rare]), self._finder.passages, limit=RARE * HOPS)
                if rare
                else ()
            )
            for turn in [of_passage(row) for row, _ in rows if row.corpus in (passages.TURN, passages.MESSAGE)]:
                if _when(turn) > _when(answer):
                    turn.candidate.score = HOPPED * answer.candidate.score
                    turn.candidate.signals = {"related": answer.candidate.score, "rare word": HOPPED}
                    related.setdefault(key_of(turn), turn)
        own = [turn for turn in self._unread(related.values()) if tells(turn)][:RELATED]
        for turn in own:
            hit = known.get(key_of(turn))
            if hit is not None and hit.candidate.score < turn.candidate.score:
                hit.candidate.score, hit.candidate.signals = turn.candidate.score, turn.candidate.signals
        return self._resolved([turn for turn in own if key_of(turn) not in known])[1]

    def fill_up(self, used: int) -> None:
        """Fill the rest of the budget with memories, and with the user's latest statements about himself."""
        search, request = self._search, self._request
        budget = search.budget or 0
        if request.filled is not None:
            budget = min(budget, request.filled)
        self._room = packs.inside(budget, search.unit) or 0 if not used else max(0, budget - used)
        if not request.latest:
            return
        asks, stated = bool(search.question.strip()), list[MemoryState]()
        if "memories" in search.among:
            stated = [memory for memory in self._newest(KINDS) if not _is_by_rules(memory)]
            learned = [memory for memory in stated if memory.origin is not None]
            self._take(self._of_states(learned), LATEST, share=1)
        if asks and self._best >= ANSWERED:
            return
        handed_in = self._of_states(memory for memory in stated if memory.origin is None)
        in_turn = (hit for pair in zip_longest(handed_in, self._unread_turns()) for hit in pair if hit is not None)
        self._take(chain(in_turn, self._profile), LATEST, share=None if asks else 1)

    def _unread_turns(self) -> Iterator[RecallHit]:
        """Yield the user's newest statements about himself that no model has read, or the memories that stand for them.

        Without a question a window has no turns of its own session: its summaries are the better choice of them.
        """
        before, explain = 2**62, self._search.explain
        without = (
            self._window.session
            if self._window and self._request.summaries is not None and not self._search.question.strip()
            else ""
        )
        for _ in range(LATEST_TURNS // BATCH if "turns" in self._search.among else 0):
            newest = passages.newest(self._connection, self._finder.passages, BATCH, before)
            if not newest or not (self._fits or explain):
                break
            before = newest[-1].row
            own = self._unread([of_passage(row) for row in newest if row.session != without and of_himself(row.text)])
            believed, uncited = self._resolved(_stating_first(sorted(own, key=_when, reverse=True)))
            yield from (*believed, *uncited)

    def _unread(self, turns: Collection[RecallHit]) -> list[RecallHit]:
        """Return the turns of the user that no model has read: a model that found nothing in a turn had its reasons."""
        self._finder.set_roles(turns)
        rows = {_row_of(turn) for turn in turns}
        # the marks of what a model has read keep no past
        read = sessions.read_by_model(self._connection, rows) if self._snapshot.position is None else set[int]()
        return [turn for turn in turns if _is_own(turn) and _row_of(turn) not in read]

    def _newest(self, kinds: Sequence[str]) -> list[MemoryState]:
        condition, values = self._finder.memories.condition()
        return memories.newest(self._connection, condition, values, kinds, self._most)

    def not_repeated(self, items: Iterable[Item]) -> None:
        """Note the contents of other items of the pack, so that they are not repeated."""
        self._contents |= {normalise(item.content or "") for item in items}

    def left_out(self) -> list[Item]:
        """Return the items that were not chosen, with the reasons."""
        return [replace(item, rank=rank) for rank, item in enumerate(self._cut.values(), len(self._chosen) + 1)]

    def _pinned(self) -> list[RecallHit]:
        hits = memories_matching(self._snapshot, f'words : "{PIN}"', wanted=self._finder.memories, limit=self._most)
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

    def _take(self, hits: Iterable[RecallHit], section: str, share: int | None = None) -> None:
        """Put the hits that fit into a section, in their order. A turn that answers is in a section of its own.

        Args:
            hits: The hits.
            section: The section.
            share: The divisor of the budget, of which the section takes at most one part; None for the section's own.
        """
        left, misses, rest = self._budget // (share or SHARES.get(section, 1)), 0, iter(hits)
        while found := list(islice(rest, BATCH)):
            if misses >= MISSES and not self._search.explain:
                return
            batch = [self._shortened(hit) for hit in found if key_of(hit) not in self._chosen]
            for hit, item in zip(batch, items_of(self._connection, batch), strict=True):
                part = TURN if section == ANSWER and is_turn(hit) else section
                size = self._offer(hit, replace(item, section=part), left if misses < MISSES else 0)
                fits = bool(size) or self._cut.get(key_of(hit), item).cut == "repeated"
                left, misses = left - size, 0 if fits else misses + 1
                if misses >= MISSES and not self._search.explain:
                    return

    def _offer(self, hit: RecallHit, item: Item, left: int) -> int:
        """Put in an item if it fits, and return its size."""
        key, words = key_of(hit), normalise(item.content or "")
        if key in self._chosen:
            return 0
        size = packs.sizes([item], self._search.unit)[0]
        why = "repeated" if words in self._contents else ""
        if item.section == LATEST and key in self._in_window:
            why = "window"
        latest = item.content or "" if item.section == LATEST and is_turn(hit) else ""
        stems, in_order = content_stems(latest), stems_in_order(latest)
        if not why and any(
            share_stems(stems, newer) and not are_of_one_form(in_order, newer_in_order)
            for newer, newer_in_order in self._latest
        ):
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
        self._latest += [(stems, in_order)] if stems else []
        self._room -= size
        return size

    def _shortened(self, hit: RecallHit) -> RecallHit:
        """Return a hit with less text: only the statements of a user's turn, and only the best piece of a long text."""
        row = hit.passage
        if row is None:
            return hit
        start, end = _stated_span(row.text) if is_turn(hit) and _is_own(hit) else (0, len(row.text))
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

        A memory has the score of the best of its turns.

        A memory that cites a turn stands for the turn, unless the turn has a telling word of the question that no such memory
        has: then the turn says more than was learned from it. Without a question the turn says more if the words beside those
        of the memories tell something. If the memory was superseded, its last successor stands for the
        turn, whatever words the successor has. A turn that the session's window shows is in neither list.

        Args:
            turns: The turns.
            telling: The stems of each telling word of the question, with its other forms.
        """
        of_hits = {key_of(turn): turn_of(turn.passage) for turn in turns if turn.passage is not None}
        citing, shown = citing_memories(self._connection, set(of_hits.values())), self._shown(turns)
        believed, uncited, reasons = dict[int, ScoredText](), list[RecallHit](), list[tuple[RecallHit, str]]()
        for turn in turns:
            memories_of = citing.get(of_hits[key_of(turn)], ())
            for now in filter(None, map(self._now, memories_of)):
                believed.setdefault(now, turn.candidate)
            holds = all(map(self._finder.holding.holds, memories_of))  # what became of the memory became of the turn
            more = _says_more(turn, memories_of, telling) if telling else _leaves_more(turn, memories_of)
            if memories_of and not (holds and more):
                reasons.append((turn, f"cited by {memories_of[0].id}"))
            elif key_of(turn) in shown:
                reasons.append((turn, "window"))
            else:
                uncited.append(turn)
        if self._search.explain:
            items = items_of(self._connection, [turn for turn, _ in reasons])
            for (turn, why), item in zip(reasons, items, strict=True):
                self._cut.setdefault(key_of(turn), replace(item, cut=why))
        states = {state.row: state for state in self._finder.memories_at(believed)}
        standing = [of_memory(states[row], self._finder.policy, self._search.now) for row in believed if row in states]
        for hit in standing:
            turn_text = believed[hit.candidate.row]
            hit.candidate.score, hit.candidate.signals = turn_text.score, {"turn": turn_text.score}
        return standing, uncited

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
                shown.add(key_of(turn))
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
    id = id_of_filter(connection, request.search.user, "s", request.session)
    row = first_position(connection, id) if id is not None and id != NOWHERE else None
    if id is None or row is None:
        return None
    hidden = [(part.first, part.last) for part in sessions.hidden(connection, row)]
    summed = [part for summary in summaries.in_window(connection, row) for part in summary.ranges]
    return _Window(id, request.shown, (*hidden, *summed))


_OF_USER = frozenset(stems("user"))  # a memory names the speaker, and a message does not


def _is_said(text: str, said: Iterable[frozenset[str]]) -> bool:
    """Return True if a sentence of a summary has nearly all stems of a short memory, and all its figures."""
    own = content_stems(text) - _OF_USER
    figures = {word for word in own if any(map(str.isdigit, word))}
    return bool(own) and any(figures <= sentence and len(own & sentence) >= SAID * len(own) for sentence in said)


CLOSING = ("'", '"', "’", "”", "»", ")")  # no clause begins with one
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


def _with_believed(texts: Sequence[RecallHit], believed: Iterable[RecallHit]) -> list[RecallHit]:
    """Return the texts with the memories that stand for turns.

    A memory that a model or a person worded has the score of its turn besides its own: they match the question in other words. A
    rule repeats the words of the turn, so that the better score counts.
    """
    by_key = {key_of(hit): hit for hit in texts}
    for hit in believed:
        known = by_key.setdefault(key_of(hit), hit)
        if known is hit or known.memory is None:
            continue
        own, of_turn = known.candidate, hit.candidate.score
        score = max(own.score, of_turn) if _is_by_rules(known.memory) else own.score + of_turn
        if score > own.score:
            own.score, own.signals = score, {**own.signals, "turn": score - own.score}
    return list(by_key.values())


def _weight(hit: RecallHit) -> float:
    """Return the score of a hit, which counts more if the hit states something."""
    states = states_something(hit.passage.text) and _is_own(hit) if is_turn(hit) and hit.passage is not None else True
    return hit.candidate.score * (STATED if states else 1.0)


def _part(hit: RecallHit, section: str, near: float) -> int:
    """Return the number of the part of the pack in which an item stands."""
    if section == PINNED:
        return 0
    if section == SESSION:
        return 1 if hit.candidate.kind in STANDING else 6
    if section == LATEST:
        return 7
    weight = max(_weight(hit), hit.candidate.signals.get("related", 0.0))  # a change stands with what it changes
    if section == PROFILE and not weight:
        return 5
    return 4 if _is_others(hit) else 2 if weight >= near else 3


def _is_by_rules(memory: MemoryState) -> bool:
    return memory.origin is not None and memory.origin.extractor.startswith(BY_RULES)


def _row_of(turn: RecallHit) -> int:
    """Return the row of the message or of the captured turn."""
    row = turn.passage
    assert row is not None
    return row.position if row.corpus == passages.MESSAGE else row.subject


def _says_more(turn: RecallHit, citing: Sequence[MemoryState], telling: Iterable[frozenset[str]]) -> bool:
    """Return True if a turn has a telling word of the question that no memory which cites the turn has."""
    said = stems(turn.passage.text) if turn.passage is not None else frozenset()
    learned = frozenset[str]().union(*(stems(memory.content or "") for memory in citing))
    return any(forms & said and not forms & learned for forms in telling)


def _leaves_more(turn: RecallHit, citing: Sequence[MemoryState]) -> bool:
    """Return True if rules found each memory in some words of a turn, and the clauses beside these words tell something."""
    row, origins = turn.passage, [memory.origin for memory in citing]
    if row is None or any(origin is None or origin.end <= origin.start for origin in origins):
        return False
    left, learned = row.text, frozenset[str]().union(*(stems(memory.content or "") for memory in citing))
    for origin in origins:
        if origin is None:
            continue
        start, end = max(origin.start - row.start, 0), max(origin.end - row.start, 0)
        left = left[:start] + " " * (min(end, len(left)) - start) + left[end:]
    left = BRACKETED.sub("", left)
    told = stems(" ".join(left[start:end] for start, end in stated_spans(left)))
    return len(told - learned) >= LEAST_TOLD


def _is_others(hit: RecallHit) -> bool:
    """Return True for a turn that the user did not say."""
    return is_turn(hit) and not _is_own(hit)


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
    if start and stated_text.lstrip().startswith(CLOSING):
        return 0, len(text)  # the rest of a sentence behind a quoted question is no clause
    return end - len(stated_text.lstrip(" ,;-")), start + len(stated_text.rstrip())


def _when(hit: RecallHit) -> tuple[str, int]:
    return hit.candidate.time, hit.candidate.position
