"""The grep of sessions: the text index yields candidates in order, and the pattern checks their texts."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.call import Time
from ledger.core.reads import bounded_limit
from ledger.domain import times
from ledger.domain.errors import RejectedError
from ledger.domain.text import one_of
from ledger.english.words import stem
from ledger.recall import recalling
from ledger.sessions import reading
from ledger.sessions.conversation import Conversation
from ledger.sessions.reading import HiddenReason, is_held
from ledger.sessions.rules import grep
from ledger.sessions.rules.grep import GrepPattern, Span
from ledger.sessions.rules.message import ROLES
from ledger.sessions.rules.snippet import snippet
from ledger.sessions.search_answers import GrepResult, Hit
from projections.core.rows import NEWEST, Connection, Start
from projections.search import one_text, passages, session_texts
from projections.search.passages import MESSAGE, SUMMARY, TURN
from projections.search.session_texts import SearchedRow
from projections.views import sessions
from projections.views.summaries import SummaryRow

COUNTED = 10_000
"""The most matches that are counted; the answer says if there may be more."""

READ, READ_ON = 20_000, 1_000
"""The most texts that a grep reads whole to find its hits, and the most that it reads for the total.

A text is read whole if neither the index nor a single passage shows that the text matches.
"""

GLANCED = 2_000
"""The most rows of the index that are read for a hint at matches outside of the searched part."""

HITS = 1_001  # the most hits: a page of 1,000, and one hit more that shows if there is another page
SNIPPET_CHARS = 240

NEWEST_FIRST, RELEVANCE = "newest", "relevance"
SCOPES: dict[str, tuple[str, ...]] = {"both": (MESSAGE, SUMMARY), "message": (MESSAGE,), "summary": (SUMMARY,)}
INSIDE = "no text has these words; these have them inside of longer words"

Row = SearchedRow | SummaryRow
Candidate = tuple[int, bool]
"""A row of the index that may match, and True if the row matches for sure; else the whole text has to be read."""


class GrepRequest(Struct, frozen=True, kw_only=True):
    """An unchecked request to grep messages and summaries.

    Attributes:
        pattern: The pattern, as ``ledger.sessions.rules.grep`` describes it.
        scope: "both", "message" or "summary".
        role: Only messages of this role.
        since: The earliest time, inclusive. A summary passes if its time overlaps the range.
        until: The latest time, exclusive.
        include_hidden: True to include hidden messages, and summaries that were replaced or invalidated.
        everywhere: True to search all sessions of the user.
        order: "newest", or "relevance" for the best matches by BM25 first.
        oldest_first: True to begin with the oldest match.
    """

    pattern: str
    scope: str = "both"
    role: str | None = None
    since: Time | None = None
    until: Time | None = None
    include_hidden: bool = False
    everywhere: bool = False
    order: str = NEWEST_FIRST
    oldest_first: bool = False


class GrepQuery(Struct, frozen=True, kw_only=True):
    """A checked request for one page of a grep; a time is text, and "" means no bound."""

    pattern: GrepPattern
    corpora: tuple[str, ...]  # "message" and "summary"
    role: str | None
    since: str
    until: str
    limit: int
    include_hidden: bool
    start: Start  # the place of the last hit of the page before, after which this page begins
    by_relevance: bool


class Where(Struct, frozen=True):
    """The sessions to search: their names by row; ``only`` is the id of the session if a single session is searched."""

    names: dict[int, str | None]
    only: str | None = None


class GrepMatches(Struct):
    """The matching rows, each after the place from which a next page can go on; ``left_off`` if there may be more matches."""

    found: list[tuple[int, Row]] = []
    total: int = 0
    read: int = 0
    left_off: bool = False


# --- the request -----------------------------------------------------------------------------------------------------


def grep_messages(
    conversation: Conversation, request: GrepRequest, *, limit: int = HITS, after: int | None = None
) -> GrepResult:
    """Return the messages and summaries that a pattern matches, in the requested order.

    A message is searched with its tool calls and results, as one text. If no text has the words of the pattern, texts with these
    words inside of longer words are returned, and ``hint`` says so. Matches are counted up to 10,000. At most 20,000 texts are
    read whole for the hits, and 1,000 for the total.

    Args:
        conversation: The session; with ``everywhere`` in the request, all sessions of the user are searched.
        request: The pattern and the filters.
        limit: The most hits, up to 1,001.
        after: The place of a hit, after which the hits begin.
    """
    query = _checked(request, limit, after)
    if conversation.kept_out == "ignored":
        return GrepResult(hint="this session is ignored")
    recalling.index_texts(conversation.engine)
    with conversation.reading() as (connection, state):
        if request.everywhere:
            where = _every_session(conversation, connection)
        elif state is not None:
            where = Where({state.row: conversation.name}, state.id)
        else:
            return GrepResult(hint="nothing was said in this session yet")
        search, hint = GrepSearch(conversation, connection, query, where), ""
        matches = search.page()
        if not matches.found and query.limit:
            inside = _inside(search)
            if inside is not None and (loosened := inside.page()).found:
                search, matches, hint = inside, loosened, INSIDE
            else:
                hint = _hint(search, matches)
        messages, summaries = session_texts.count(connection, list(where.names), hidden=query.include_hidden)
        return GrepResult(
            hits=tuple(search.hit(row) for _, row in matches.found),
            places=tuple(place for place, _ in matches.found),
            total=matches.total,
            searched=messages * (MESSAGE in query.corpora) + summaries * (SUMMARY in query.corpora),
            is_exact=not matches.left_off,
            hint=hint,
        )


def _checked(request: GrepRequest, limit: int, after: int | None) -> GrepQuery:
    pattern, role = _pattern(request.pattern), request.role
    one_of("scope", request.scope, tuple(SCOPES))
    one_of("order", request.order, (NEWEST_FIRST, RELEVANCE))
    by_relevance = request.order == RELEVANCE
    if by_relevance and (pattern.inside or request.oldest_first):
        raise RejectedError(
            "order='relevance' ranks words: it goes with no %text% and no oldest_first; leave one of them out"
        )
    if role is not None:
        one_of("role", role, ROLES)
        if request.scope == "summary":
            raise RejectedError("a summary has no role: leave the role out, or look among messages")
    return GrepQuery(
        pattern=pattern,
        corpora=SCOPES[request.scope] if role is None else (MESSAGE,),
        role=role,
        since=times.moment("since", request.since) if request.since is not None else "",
        until=times.moment("until", request.until) if request.until is not None else "",
        limit=bounded_limit(limit, HITS),
        include_hidden=request.include_hidden,
        start=Start(after, request.oldest_first),
        by_relevance=by_relevance,
    )


def _pattern(pattern: str) -> GrepPattern:
    parsed = grep.parse(pattern, stem)
    if not parsed.inside and (why := one_text.why_unreadable(parsed.expression)):
        grep.refuse(pattern, why)
    for term in parsed.terms:
        if not one_text.matches(term.asked, term.words):
            grep.refuse(pattern, f"SQLite takes no character of {term.words!r:.40} for a letter")
    return parsed


def _every_session(conversation: Conversation, connection: Connection) -> Where:
    names, keeps_out = session_texts.of_user(connection, conversation.user), conversation.engine.keeps_out
    return Where({row: known[0] for row, known in names.items() if keeps_out(*known) != "ignored"})


def _inside(search: GrepSearch) -> GrepSearch | None:
    """Return the search for the words inside of longer words; None if the pattern has none, or if the words alone match."""
    query = search.query
    pattern = query.pattern.loosened
    if pattern is None:
        return None
    if query.start.row is not None and not query.by_relevance:
        from_first = search.with_query(replace(query, start=Start(oldest_first=query.start.oldest_first)))
        if from_first.run(counted=1).total:
            return None
    return search.with_query(replace(query, pattern=pattern, by_relevance=False))


def _hint(search: GrepSearch, matches: GrepMatches) -> str:
    """Return a hint at another place or filter with a match, for a search that found nothing."""
    query = search.query
    free = replace(query, by_relevance=False, start=NEWEST, corpora=SCOPES["both"], role=None, since="", until="")
    hints = [f"only {READ:,} long texts were read: bound the time"] if matches.left_off else []
    if free != query and search.with_query(free).is_somewhere():
        hints.append("something matches outside of this scope, role and time")
    elif not query.include_hidden and search.with_query(replace(free, include_hidden=True)).is_somewhere():
        hints.append("all matches are hidden or out of use: ask with include_hidden=True")
    if search.where.only is not None:
        others = _every_session(search.conversation, search.connection)
        for row in search.where.names:
            others.names.pop(row, None)
        if GrepSearch(search.conversation, search.connection, free, others).is_somewhere():
            hints.append("other sessions have it: ask sessions.grep")
    return "; ".join(hints) or "nothing matches; try fewer words, OR between them, or %a part of a word%"


# --- the search ------------------------------------------------------------------------------------------------------


class GrepSearch:
    """A search for a pattern on a snapshot."""

    def __init__(self, conversation: Conversation, connection: Connection, query: GrepQuery, where: Where) -> None:
        self.conversation = conversation
        self.connection = connection
        self.query = query
        self.where = where
        self._snapshot, self._pattern = conversation.engine.seen(connection), query.pattern
        self._gone: dict[int, list[sessions.Hidden]] = {}
        self._why: dict[int, HiddenReason] = {}

    def with_query(self, query: GrepQuery) -> GrepSearch:
        return GrepSearch(self.conversation, self.connection, query, self.where)

    def is_somewhere(self) -> bool:
        """Return True if something matches among the first rows of the index."""
        return self.run(1, GLANCED).total > 0

    def page(self) -> GrepMatches:
        """Return the matches of the requested page, in the requested order."""
        return self._ranked() if self.query.by_relevance else self.run()

    def _ranked(self) -> GrepMatches:
        """Return the page of the best of at most 10,000 matches by BM25; of equal matches the newest comes first."""
        query = self.query
        matches = self.with_query(replace(query, limit=COUNTED, start=NEWEST)).run()
        scores = self._scores(matches)
        best = sorted(matches.found, key=lambda match: (-scores.get(match[0], 0.0), -match[0]))
        if best and (last := query.start.row) is not None:
            at = next((number for number, (place, _) in enumerate(best, 1) if place == last), None)
            if at is None:
                raise RejectedError("the item at this cursor is not listed any more: list again from the beginning")
            best = best[at:]
        return GrepMatches(best[: query.limit], len(best), matches.read, matches.left_off)

    def _scores(self, matches: GrepMatches) -> dict[int, float]:
        """Return the BM25 scores of matches by place; a text of several passages has the score of its best passage."""
        expression = session_texts.asked(self._pattern.any_row, self.where.only, (MESSAGE, SUMMARY, TURN))
        known = session_texts.scores(self.connection, self._snapshot.schema, expression)
        scores, texts = dict[int, float](), dict[int, str]()
        for place, row in matches.found:
            if parts := known.keys() & session_texts.parts(place, row.row):
                scores[place] = max(known[part] for part in parts)
            else:  # the text waits for the index, or is a text of an earlier moment
                texts[place] = self._text(row)
        return scores | session_texts.scores_aside(texts, self._pattern.any_row)

    def run(self, counted: int = COUNTED, looked_at: int | None = None) -> GrepMatches:
        """Return the matches of a page, with the number of all matches up to ``counted``.

        At most ``looked_at`` rows of the index are read.
        """
        matches = GrepMatches()
        for place, row, is_sure in self._owned(looked_at):
            enough = READ_ON if len(matches.found) == self.query.limit else READ
            if matches.total >= counted or matches.read >= enough:
                matches.left_off = True
                break
            if not is_sure:
                matches.read += 1
                if not self._matches(self._text(row)):
                    continue
            matches.total += 1
            if len(matches.found) < self.query.limit:
                matches.found.append((place, row))
        return matches

    # --- candidates ----------------------------------------------------------------------------------------------

    def _owned(self, looked_at: int | None) -> Iterator[tuple[int, Row, bool]]:
        """Yield (place, message or summary, True if it matches for sure) of the candidates that pass the filters, in order."""
        yielded, candidates, size = set[int](), islice(self._candidates(), looked_at), session_texts.FEWEST
        while batch := list(islice(candidates, size)):
            size = min(2 * size, session_texts.MOST)
            owners: dict[int, Row] = {}
            rows = [row for row, _ in batch]
            if SUMMARY in self.query.corpora:
                owners |= session_texts.summaries(self.connection, rows, others=self.query.include_hidden)
            if MESSAGE in self.query.corpora:
                owners |= session_texts.messages(self.connection, [row for row in rows if row not in owners])
            for row, is_sure in batch:
                owner = owners.get(row)
                if owner is not None and owner.row not in yielded and self._passes_filters(owner):
                    yielded.add(owner.row)
                    place = session_texts.place(row, owner.row, oldest_first=self.query.start.oldest_first)
                    yield place, owner, is_sure

    def _candidates(self) -> Iterator[Candidate]:
        """Return an iterator over the rows of the index that may match, in order."""
        first, start = self._first_visible(), self.query.start
        user, position = self.conversation.user, self._snapshot.position
        if self._pattern.inside:
            return self._scanned(first)
        waiting = session_texts.waiting(self.connection, self._snapshot.schema)
        ended = passages.gone(self.connection, position, "m.user = ?", (user,)) if position is not None else ()
        unindexed = sorted({row for row in (*waiting, *(row for row, *_ in ended)) if start.includes(row)})
        if not start.oldest_first:
            unindexed.reverse()
        streams = [((row, False) for row in unindexed), *self._indexed((MESSAGE, SUMMARY), first)]
        if self.where.only is not None:
            streams += self._indexed((TURN,), 0)  # the text of a turn lies before its message, which may be visible
        return heapq.merge(*streams, key=lambda candidate: candidate[0], reverse=not start.oldest_first)

    def _scanned(self, first: int) -> Iterator[Candidate]:
        """Yield the rows whose passage contains texts inside of words, by reading all passages.

        A scan of 100,000 messages takes about 0.2 seconds. An index of trigrams would need three to five times the space of the
        index of words.
        """
        only = (self.where.only, next(iter(self.where.names))) if self.where.only is not None else None
        user, has = self.conversation.user, self._pattern.search
        for row, text, pieces in session_texts.scanned(self.connection, user, only, first, self.query.start):
            if pieces > 1 or has(text):  # a match may lie across two passages
                yield row, pieces == 1

    def _indexed(self, corpora: Sequence[str], first: int) -> list[Iterator[Candidate]]:
        """Return streams of rows from the index.

        A text of several passages has several rows, and each row may have another word of the pattern. Such a text is found by
        any word, and has to be read whole.
        """

        def stream(expression: str, several: bool | None) -> Iterator[Candidate]:
            query = session_texts.asked(expression, self.where.only, corpora, several)
            rows = session_texts.ordered(self.connection, self._snapshot.schema, query, first, self.query.start)
            return ((row, not several) for row in rows)

        if self._pattern.expression == self._pattern.any_row:
            return [stream(self._pattern.expression, None)]
        return [stream(self._pattern.any_row, True), stream(self._pattern.expression, False)]

    def _first_visible(self) -> int:
        """Return the position before which all messages of the searched session are hidden, or 0."""
        if self.where.only is None or self.query.include_hidden:
            return 0
        (row,) = self.where.names
        visible = sessions.besides([(hidden.first, hidden.last) for hidden in self._hidden(row)])
        return next((first for first, last in reversed(visible) if last > row), 0)

    # --- filters -------------------------------------------------------------------------------------------------

    def _passes_filters(self, row: Row) -> bool:
        query = self.query
        if row.session not in self.where.names:
            return False
        if isinstance(row, SummaryRow):
            return (not query.until or row.earliest < query.until) and row.latest >= query.since
        if row.time < query.since or (query.until and row.time >= query.until):
            return False
        return query.role in (None, row.role) and (query.include_hidden or not self._why_hidden(row))

    def _hidden(self, session: int) -> list[sessions.Hidden]:
        if session not in self._gone:
            self._gone[session] = sessions.hidden(self.connection, session)
        return self._gone[session]

    def _why_hidden(self, row: SearchedRow) -> str:
        if row.session not in self._why:
            self._why[row.session] = HiddenReason(self._hidden(row.session))
        return self._why[row.session].of(row.row)

    # --- hits ----------------------------------------------------------------------------------------------------

    def _text(self, row: Row) -> str:
        if isinstance(row, SearchedRow) and row.interaction is not None:
            return reading.of_interaction(self.conversation, self.connection, row.interaction, row.field or "") or ""
        return session_texts.text(self.connection, row.row)

    def _matches(self, text: str) -> bool:
        return self._pattern.search(text) if self._pattern.inside else one_text.matches(self._pattern.expression, text)

    def _places(self, text: str) -> list[Span]:
        return self._pattern.places(text) if self._pattern.inside else one_text.spans(self._pattern.any_term, text)

    def hit(self, row: Row) -> Hit:
        text = self._text(row)
        spans = self._places(text)
        shown = snippet(text, spans, SNIPPET_CHARS)
        hit = partial(
            Hit,
            position=row.row,
            session=self.where.names[row.session],
            snippet=shown,
            spans=tuple(self._places(shown)),
            score=len(spans),
            quarantined=is_held(self.connection, row),
            tokens=row.tokens,
        )
        if isinstance(row, SearchedRow):
            why = self._why_hidden(row)
            return hit(kind=MESSAGE, occurred_at=row.time, until=row.time, role=row.role, hidden=why)
        return hit(
            kind=SUMMARY,
            occurred_at=row.earliest,
            until=row.latest,
            id=row.id,
            summary_kind=row.kind,
            depth=row.depth,
            level=row.level,
            status=row.status,
        )
