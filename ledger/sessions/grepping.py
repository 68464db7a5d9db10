"""One grep on one snapshot: candidates of the text index, newest first, and what of them the pattern truly matches."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from ledger.domain.grep import Pattern, Span
from ledger.domain.snippet import snippet
from ledger.engine.snapshot import Snapshot
from ledger.sessions.reading import Why, is_held
from ledger.sessions.search_answers import Hit
from projections.search import one_text, session_texts
from projections.search.passages import MESSAGE, SUMMARY, TURN
from projections.search.session_texts import SearchedRow
from projections.views import sessions
from projections.views.summaries import Summary

COUNTED = 10_000
"""So many matches are counted; where there are more, the total says so."""

READ, READ_ON = 20_000, 1_000
"""So many texts are read for one grep, the newest, to find what is shown; where the index alone cannot tell, a total counts
what is among the first ``READ_ON``."""

GLANCED = 2_000
"""So many rows of the index are looked at to say where else something matches."""

SNIPPET_CHARS = 240

Row = SearchedRow | Summary


class Asked(Struct, frozen=True, kw_only=True):
    """A grep, checked. Times are half-open, as text; "" for no bound."""

    pattern: Pattern
    corpora: tuple[str, ...]  # "message" and "summary"
    role: str | None
    since: str
    before: str
    limit: int
    hidden: bool
    after: int = 2**62  # the place of the last hit of the page before: only what comes behind it


class Where(Struct, frozen=True):
    """The sessions that are searched, by row, with their names; the one session's id where it is only one."""

    user: str
    names: dict[int, str | None]
    only: str | None


class Found(Struct):
    """What a grep came to; ``left_off`` where there may be more."""

    rows: list[Row]
    places: list[int] = []  # of each row: what goes on behind it
    total: int = 0
    read: int = 0
    left_off: bool = False


class Search:
    """``of_turn`` gives the text of a captured turn, by interaction and field."""

    def __init__(
        self, snapshot: Snapshot, asked: Asked, where: Where, of_turn: Callable[[str, str], str | None]
    ) -> None:
        self._snapshot, self._connection = snapshot, snapshot.connection
        self._asked, self._where, self._of_turn = asked, where, of_turn
        self._gone: dict[int, list[sessions.Hidden]] = {}
        self._why: dict[int, Why] = {}
        self._pattern = asked.pattern
        self._doubts: set[int] = set()  # rows that the index alone cannot tell about

    def is_somewhere(self) -> bool:
        """Whether it is worth to look here, as far as a glance can tell."""
        return self.run(1, GLANCED).total > 0

    def run(self, counted: int = COUNTED, looked_at: int | None = None) -> Found:
        found = Found([])
        for place, row, is_sure in self._candidates(looked_at):
            enough = READ_ON if len(found.rows) == self._asked.limit else READ
            if found.total >= counted or found.read >= enough:
                found.left_off = True
                break
            if not is_sure:
                found.read += 1
                if not self._matches(self.text(row)):
                    continue
            found.total += 1
            if len(found.rows) < self._asked.limit:
                found.rows.append(row)
                found.places.append(place)
        return found

    # --- candidates ----------------------------------------------------------------------------------------------

    def _candidates(self, looked_at: int | None) -> Iterator[tuple[int, Row, bool]]:
        """What may match and is asked for, the newest first, with its place, and whether it is sure to match."""
        known, rows, size = set[int](), islice(self._rows(), looked_at), session_texts.FEWEST
        while batch := list(islice(rows, size)):
            size = min(2 * size, session_texts.MOST)
            found: dict[int, Row] = {}
            if SUMMARY in self._asked.corpora:
                found |= session_texts.summaries(self._connection, batch, others=self._asked.hidden)
            if MESSAGE in self._asked.corpora:
                found |= session_texts.messages(self._connection, [row for row in batch if row not in found])
            for row in batch:
                message = found.get(row)
                if message is not None and message.row not in known and self._is_wanted(message):
                    known.add(message.row)
                    yield session_texts.place(row, message.row), message, row not in self._doubts

    def _rows(self) -> Iterator[int]:
        """Rows of the index."""
        first = self._first_visible()
        if self._pattern.infix:
            only = next(iter(self._where.names)) if self._where.only is not None else None
            return self._doubted(session_texts.every(self._connection, only, first, self._asked.after))
        streams = self._newest((MESSAGE, SUMMARY), first)
        if self._where.only is not None:
            streams += self._newest((TURN,), 0)  # a turn's text comes before its message, and that is hidden or not
        late = session_texts.waiting(self._connection, self._snapshot.schema)
        then = self._snapshot.passages_gone("m.user = ?", (self._where.user,))
        aside = sorted((row for row in {*late, *(row[0] for row in then)} if row < self._asked.after), reverse=True)
        return heapq.merge(*streams, self._doubted(aside), reverse=True)

    def _newest(self, corpora: Sequence[str], first: int) -> list[Iterator[int]]:
        """What the index finds. Of a text that lies in several rows each may have another of the words: these are found by
        one of them, and doubted."""

        def stream(expression: str, several: bool | None) -> Iterator[int]:
            asked = session_texts.asked(expression, self._where.only, corpora, several)
            return session_texts.newest(self._connection, self._snapshot.schema, asked, first, self._asked.after)

        if self._pattern.expression == self._pattern.any_row:
            return [stream(self._pattern.expression, None)]
        return [stream(self._pattern.expression, False), self._doubted(stream(self._pattern.any_row, True))]

    def _doubted(self, rows: Iterable[int]) -> Iterator[int]:
        for row in rows:
            self._doubts.add(row)
            yield row

    def _first_visible(self) -> int:
        """The position before which all that is searched is hidden."""
        if self._where.only is None or self._asked.hidden:
            return 0
        (row,) = self._where.names
        left = sessions.besides([(each.first, each.last) for each in self._hidden(row)])
        return next((first for first, last in reversed(left) if last > row), 0)

    # --- what is asked for ---------------------------------------------------------------------------------------

    def _is_wanted(self, row: Row) -> bool:
        asked = self._asked
        if row.session not in self._where.names:
            return False
        if isinstance(row, Summary):
            return (not asked.before or row.earliest < asked.before) and row.latest >= asked.since
        if row.time < asked.since or (asked.before and row.time >= asked.before):
            return False
        return asked.role in (None, row.role) and (asked.hidden or not self._why_hidden(row))

    def _hidden(self, session: int) -> list[sessions.Hidden]:
        if session not in self._gone:
            self._gone[session] = sessions.hidden(self._connection, session)
        return self._gone[session]

    def _why_hidden(self, row: SearchedRow) -> str:
        if row.session not in self._why:
            self._why[row.session] = Why(self._hidden(row.session))
        return self._why[row.session].of(row.row)

    # --- what is shown -------------------------------------------------------------------------------------------

    def text(self, row: Row) -> str:
        if isinstance(row, SearchedRow) and row.interaction is not None:
            return self._of_turn(row.interaction, row.field or "") or ""
        return session_texts.text(self._connection, row.row)

    def _matches(self, text: str) -> bool:
        if self._pattern.infix:
            return bool(self._pattern.places(text))
        return one_text.matches(self._pattern.expression, text)

    def _places(self, text: str) -> list[Span]:
        return self._pattern.places(text) if self._pattern.infix else one_text.spans(self._pattern.any_term, text)

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
