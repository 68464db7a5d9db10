"""The grep of sessions on a snapshot: the text index yields candidates in order, and the pattern checks their texts."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.snapshot import Snapshot
from ledger.core.who import Time
from ledger.domain.errors import RejectedError
from ledger.sessions.reading import HiddenReason, is_held
from ledger.sessions.rules.grep import GrepPattern, Span
from ledger.sessions.rules.snippet import snippet
from ledger.sessions.search_answers import Hit
from projections.core.conditions import NEWEST, Start
from projections.search import one_text, session_texts
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

SNIPPET_CHARS = 240

NEWEST_FIRST, RELEVANCE = "newest", "relevance"
ORDERS = (NEWEST_FIRST, RELEVANCE)

Row = SearchedRow | SummaryRow


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
    by_relevance: bool = False


class Where(Struct, frozen=True):
    """The sessions to search: their names by row; ``only`` is the id of the session if a single session is searched."""

    user: str
    names: dict[int, str | None]
    only: str | None


class GrepMatches(Struct):
    """The result of a grep; ``left_off`` is True if there may be more matches."""

    rows: list[Row]
    places: list[int] = []  # the places of the rows, after which a next page can begin
    total: int = 0
    read: int = 0
    left_off: bool = False


class GrepSearch:
    """A search for a pattern; ``of_turn(interaction, field)`` returns the text of a captured turn."""

    def __init__(
        self, snapshot: Snapshot, query: GrepQuery, where: Where, of_turn: Callable[[str, str], str | None]
    ) -> None:
        self._snapshot, self._connection = snapshot, snapshot.connection
        self._query, self._where, self._of_turn = query, where, of_turn
        self._hidden_spans: dict[int, list[sessions.Hidden]] = {}
        self._why: dict[int, HiddenReason] = {}
        self._pattern = query.pattern
        self._doubts: set[int] = set()  # rows of the index that may not match, so that the whole text has to be read

    def is_somewhere(self) -> bool:
        """Return True if something matches among the first rows of the index."""
        return self.run(1, GLANCED).total > 0

    def page(self) -> GrepMatches:
        """Return the matches of the requested page, in the requested order."""
        return self._ranked() if self._query.by_relevance else self.run()

    def _ranked(self) -> GrepMatches:
        """Return the page of the best of at most 10,000 matches by BM25; of equal matches the newest comes first."""
        query = self._query
        every = GrepSearch(self._snapshot, replace(query, limit=COUNTED, start=NEWEST), self._where, self._of_turn)
        matches = every.run()
        scores = every.scores(matches)
        best = sorted(range(len(matches.rows)), key=lambda at: (-scores[at], -matches.places[at]))
        if matches.rows and (last := query.start.row) is not None:
            place = next((number for number, at in enumerate(best) if matches.places[at] == last), None)
            if place is None:
                raise RejectedError("the item at this cursor is not listed any more: list again from the beginning")
            best = best[place + 1 :]
        shown = best[: query.limit]
        rows, places = [matches.rows[at] for at in shown], [matches.places[at] for at in shown]
        return GrepMatches(rows, places, len(best), matches.read, matches.left_off)

    def scores(self, matches: GrepMatches) -> list[float]:
        """Return the BM25 scores of matches; a text of several passages has the score of its best passage."""
        known = session_texts.scores(
            self._connection,
            self._snapshot.schema,
            session_texts.asked(self._pattern.any_row, self._where.only, (MESSAGE, SUMMARY, TURN)),
        )
        scores, texts = dict[int, float](), dict[int, str]()
        for at, (row, place) in enumerate(zip(matches.rows, matches.places, strict=True)):
            passages = [score for part in session_texts.parts(place, row.row) if (score := known.get(part)) is not None]
            if passages:
                scores[at] = max(passages)
            else:  # the text waits for the index, or is a text of an earlier moment
                texts[at] = self.text(row)
        scores |= session_texts.scores_aside(texts, self._pattern.any_row)
        return [scores.get(at, 0.0) for at in range(len(matches.rows))]

    def run(self, counted: int = COUNTED, looked_at: int | None = None) -> GrepMatches:
        """Return the matches of a page, with the number of all matches up to ``counted``.

        At most ``looked_at`` rows of the index are read.
        """
        result = GrepMatches([])
        for place, row, is_sure in self._candidates(looked_at):
            enough = READ_ON if len(result.rows) == self._query.limit else READ
            if result.total >= counted or result.read >= enough:
                result.left_off = True
                break
            if not is_sure:
                result.read += 1
                if not self._matches(self.text(row)):
                    continue
            result.total += 1
            if len(result.rows) < self._query.limit:
                result.rows.append(row)
                result.places.append(place)
        return result

    # --- candidates ----------------------------------------------------------------------------------------------

    def _candidates(self, looked_at: int | None) -> Iterator[tuple[int, Row, bool]]:
        """Yield (place, row, True if the row surely matches) of the candidates that pass the filters, in order."""
        yielded, rows, size = set[int](), islice(self._rows(), looked_at), session_texts.FEWEST
        while batch := list(islice(rows, size)):
            size = min(2 * size, session_texts.MOST)
            rows_by_index: dict[int, Row] = {}
            if SUMMARY in self._query.corpora:
                rows_by_index |= session_texts.summaries(self._connection, batch, others=self._query.include_hidden)
            if MESSAGE in self._query.corpora:
                rows_by_index |= session_texts.messages(
                    self._connection, [row for row in batch if row not in rows_by_index]
                )
            for row in batch:
                message = rows_by_index.get(row)
                if message is not None and message.row not in yielded and self._passes_filters(message):
                    yielded.add(message.row)
                    place = session_texts.place(row, message.row, oldest_first=self._query.start.oldest_first)
                    yield place, message, row not in self._doubts

    def _rows(self) -> Iterator[int]:
        """Return an iterator over the rows of the index that may match, in order."""
        first, start = self._first_visible(), self._query.start
        if self._pattern.inside:
            return self._scanned(first)
        streams = self._ordered((MESSAGE, SUMMARY), first)
        if self._where.only is not None:
            streams += self._ordered((TURN,), 0)  # the text of a turn lies before its message, which may be visible
        waiting = session_texts.waiting(self._connection, self._snapshot.schema)
        ended = self._snapshot.passages_gone("m.user = ?", (self._where.user,))
        others = {*waiting, *(row[0] for row in ended)}
        unindexed = sorted((row for row in others if start.includes(row)), reverse=not start.oldest_first)
        return heapq.merge(*streams, self._doubted(unindexed), reverse=not start.oldest_first)

    def _scanned(self, first: int) -> Iterator[int]:
        """Yield the rows whose passage contains texts inside of words, by reading all passages.

        A scan of 100,000 messages takes about 0.2 seconds. An index of trigrams would need three to five times the space of the
        index of words.
        """
        only = (self._where.only, next(iter(self._where.names))) if self._where.only is not None else None
        passages = session_texts.scanned(self._connection, self._where.user, only, first, self._query.start)
        has = self._pattern.search
        for row, text, pieces in passages:
            if pieces > 1:  # a match may lie across two passages
                self._doubts.add(row)
                yield row
            elif has(text):
                yield row

    def _ordered(self, corpora: Sequence[str], first: int) -> list[Iterator[int]]:
        """Return streams of rows from the index.

        A text of several passages has several rows, and each row may have another word of the pattern. Such a text is found by
        any word, and its rows are marked as doubtful.
        """

        def stream(expression: str, several: bool | None) -> Iterator[int]:
            query = session_texts.asked(expression, self._where.only, corpora, several)
            return session_texts.ordered(self._connection, self._snapshot.schema, query, first, self._query.start)

        if self._pattern.expression == self._pattern.any_row:
            return [stream(self._pattern.expression, None)]
        return [stream(self._pattern.expression, False), self._doubted(stream(self._pattern.any_row, True))]

    def _doubted(self, rows: Iterable[int]) -> Iterator[int]:
        for row in rows:
            self._doubts.add(row)
            yield row

    def _first_visible(self) -> int:
        """Return the position before which all messages of the searched session are hidden, or 0."""
        if self._where.only is None or self._query.include_hidden:
            return 0
        (row,) = self._where.names
        visible = sessions.besides([(hidden.first, hidden.last) for hidden in self._hidden(row)])
        return next((first for first, last in reversed(visible) if last > row), 0)

    # --- filters -------------------------------------------------------------------------------------------------

    def _passes_filters(self, row: Row) -> bool:
        query = self._query
        if row.session not in self._where.names:
            return False
        if isinstance(row, SummaryRow):
            return (not query.until or row.earliest < query.until) and row.latest >= query.since
        if row.time < query.since or (query.until and row.time >= query.until):
            return False
        return query.role in (None, row.role) and (query.include_hidden or not self._why_hidden(row))

    def _hidden(self, session: int) -> list[sessions.Hidden]:
        if session not in self._hidden_spans:
            self._hidden_spans[session] = sessions.hidden(self._connection, session)
        return self._hidden_spans[session]

    def _why_hidden(self, row: SearchedRow) -> str:
        if row.session not in self._why:
            self._why[row.session] = HiddenReason(self._hidden(row.session))
        return self._why[row.session].of(row.row)

    # --- hits ----------------------------------------------------------------------------------------------------

    def text(self, row: Row) -> str:
        if isinstance(row, SearchedRow) and row.interaction is not None:
            return self._of_turn(row.interaction, row.field or "") or ""
        return session_texts.text(self._connection, row.row)

    def _matches(self, text: str) -> bool:
        if self._pattern.inside:
            return self._pattern.search(text)
        return one_text.matches(self._pattern.expression, text)

    def _places(self, text: str) -> list[Span]:
        return self._pattern.places(text) if self._pattern.inside else one_text.spans(self._pattern.any_term, text)

    def hit(self, row: Row) -> Hit:
        text = self.text(row)
        spans = self._places(text)
        shown_text = snippet(text, spans, SNIPPET_CHARS)
        shown = {
            "position": row.row,
            "session": self._where.names[row.session],
            "snippet": shown_text,
            "spans": tuple(self._places(shown_text)),
            "score": len(spans),
            "quarantined": is_held(self._connection, row),
            "tokens": row.tokens,
        }
        if isinstance(row, SearchedRow):
            place = {"occurred_at": row.time, "until": row.time, "role": row.role, "hidden": self._why_hidden(row)}
            return Hit(kind=MESSAGE, **shown, **place)  # type: ignore[arg-type]
        fields = {"id": row.id, "summary_kind": row.kind, "depth": row.depth, "level": row.level, "status": row.status}
        return Hit(kind=SUMMARY, occurred_at=row.earliest, until=row.latest, **shown, **fields)  # type: ignore[arg-type]
