"""Searching a session: grep over its messages and summaries, and expand from a summary down to what was said."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta

from msgspec.structs import replace

from ledger.domain import grep, times
from ledger.domain.compaction import EXPAND_TOKENS
from ledger.domain.errors import RejectedError
from ledger.domain.message import ROLES, readable
from ledger.domain.session import Session as State
from ledger.domain.text import one_of
from ledger.engine.snapshot import listed
from ledger.engine.who import Time
from ledger.recall import recalling
from ledger.recall.asked import UNITS
from ledger.sessions import reading
from ledger.sessions.conversation import Conversation
from ledger.sessions.expanding import Expanding
from ledger.sessions.grepping import READ, Asked, Found, Search, Where
from ledger.sessions.search_answers import Expansion, GrepResult, Unexpanded
from projections.core.rows import Connection
from projections.search import one_text, session_texts
from projections.search.passages import MESSAGE, SUMMARY
from projections.search.stems import stem
from projections.views.sessions import Message as MessageRow

SCOPES = {"both": (MESSAGE, SUMMARY), "message": (MESSAGE,), "summary": (SUMMARY,)}
HITS = 1_001  # a page, and whether there is another
_LAST = re.compile(r"\s*([1-9]\d{0,4})\s*([hdwm])\s*")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "m": 30 * 24}


def grep_messages(
    conversation: Conversation,
    pattern: str,
    *,
    scope: str = "both",
    role: str | None = None,
    since: Time | None = None,
    before: Time | None = None,
    last: str | None = None,
    limit: int = 20,
    everywhere: bool = False,
    hidden: bool = False,
    after: int = 2**62,
) -> GrepResult:
    """The messages and summaries that a pattern (``ledger.domain.grep``) matches, newest first: of this session, or
    ``everywhere`` in the user's.

    ``scope`` is "both", "message" or "summary"; with a ``role`` messages of this only. ``since`` is inclusive, ``before``
    is not, both of the time when something was said (a summary's reaches into it); ``last`` is "12h", "7d", "2w" or "3m"
    (months of 30 days) up to now. With ``hidden`` also messages that were hidden, and summaries that were replaced or
    stand for nothing any more. A message is searched with its tool calls and results, as one text. At most ``limit`` hits
    (up to 500). The total is counted up to 10,000; where the index alone cannot tell, up to 20,000 texts are read for the
    hits and 1,000 for the total.
    """
    asked = replace(_asked(conversation, pattern, scope, role, since, before, last, limit, hidden), after=after)
    if conversation.kept_out == "ignored":
        return GrepResult(hits=(), total=0, searched=0, hint="this session is ignored")
    recalling.index_texts(conversation.engine)
    with conversation.engine.reading() as connection:
        state = conversation.state(connection)
        if state is None and not everywhere:
            return GrepResult(hits=(), total=0, searched=0, hint="nothing was said in this session yet")
        where = _where(conversation, connection, state, everywhere=everywhere)
        search = _search(conversation, connection, asked, where)
        found = search.run()
        searched = _searched(connection, asked, where)
        hint = (
            ""
            if found.rows or not asked.limit
            else _hint(conversation, connection, asked, state, found, everywhere=everywhere)
        )
        hits = tuple(map(search.hit, found.rows))
    return GrepResult(
        hits=hits,
        places=tuple(found.places),
        total=found.total,
        searched=searched,
        is_exact=not found.left_off,
        hint=hint,
    )


def _asked(
    conversation: Conversation,
    pattern: str,
    scope: str,
    role: str | None,
    since: object,
    before: object,
    last: object,
    limit: int,
    hidden: bool,
) -> Asked:
    asked = _pattern(pattern)
    one_of("scope", scope, tuple(SCOPES))
    if role is not None:
        one_of("role", role, ROLES)
    if role is not None and scope == "summary":
        raise RejectedError("a summary has no role: leave the role out, or look among messages")
    if last is not None and since is not None:
        raise RejectedError("since and last both say from when; give one of them")
    return Asked(
        pattern=asked,
        corpora=SCOPES[scope] if role is None else (MESSAGE,),
        role=role,
        since=_ago(conversation, last)
        if last is not None
        else times.moment("since", since)
        if since is not None
        else "",
        before=times.moment("before", before) if before is not None else "",
        limit=listed(limit, HITS),
        hidden=hidden,
    )


def _pattern(pattern: str) -> grep.Pattern:
    asked = grep.parse(pattern, stem)
    if asked.infix:
        return asked
    if why := one_text.why_unreadable(asked.expression):
        grep.refuse(pattern, why)
    for term in asked.terms:
        if not one_text.matches(term.asked, term.words):
            grep.refuse(pattern, f"SQLite knows no letter of {term.words!r:.40}")
    return asked


def _ago(conversation: Conversation, last: object) -> str:
    match = _LAST.fullmatch(last) if isinstance(last, str) else None
    if match is None:
        raise RejectedError(f"last is a number with h, d, w or m (months of 30 days), like 7d, and {last!r:.40} is not")
    now = times.parse("now", conversation.engine.writer.now())
    try:
        return times.fixed(now - timedelta(hours=int(match[1]) * _HOURS[match[2]]))
    except OverflowError:
        return ""


def _where(conversation: Conversation, connection: Connection, state: State | None, *, everywhere: bool) -> Where:
    if everywhere or state is None:
        known = session_texts.of_user(connection, conversation.user)
        open_: dict[int, str | None] = {
            row: names[0] for row, names in known.items() if conversation.engine.keeps_out(*names) != "ignored"
        }
        return Where(conversation.user, open_, None)
    return Where(conversation.user, {state.row: conversation.name}, state.id)


def _search(conversation: Conversation, connection: Connection, asked: Asked, where: Where) -> Search:
    return Search(
        conversation.engine.seen(connection),
        asked,
        where,
        lambda id, field: reading.of_interaction(conversation, connection, id, field),
    )


def _searched(connection: Connection, asked: Asked, where: Where) -> int:
    messages, summaries = session_texts.count(connection, list(where.names), hidden=asked.hidden)
    return messages * (MESSAGE in asked.corpora) + summaries * (SUMMARY in asked.corpora)


def _hint(
    conversation: Conversation,
    connection: Connection,
    asked: Asked,
    state: State | None,
    found: Found,
    *,
    everywhere: bool,
) -> str:
    """Where something is that matches, since nothing was found here."""
    here = _where(conversation, connection, state, everywhere=everywhere)

    def some(asked: Asked, where: Where) -> bool:
        return _search(conversation, connection, asked, where).is_somewhere()

    hints = [f"only the newest {READ:,} texts were read: bound the time"] if found.left_off else []
    free = replace(asked, corpora=SCOPES["both"], role=None, since="", before="")
    if free != asked and some(free, here):
        hints.append("something matches outside of this scope, role and time")
    elif not asked.hidden and some(replace(free, hidden=True), here):
        hints.append("what matches is hidden or out of use: ask with include_hidden=True")
    others = _where(conversation, connection, None, everywhere=True)
    if state is not None:
        others.names.pop(state.row, None)
    if not everywhere and some(free, others):
        hints.append("other sessions have it: ask sessions.grep")
    return "; ".join(hints) or "nothing matches; try fewer words, OR between them, or %a part of a word%"


# --- from a summary to what was said -------------------------------------------------------------------------


def expand(
    conversation: Conversation,
    what: str | int | Unexpanded | Iterable[str | int | Unexpanded],
    *,
    budget: int = EXPAND_TOKENS,
    unit: str = "tokens",
) -> Expansion:
    """What summaries (by id or its beginning) stand for, down to the messages, or messages by their positions (45, or
    "45-67"): whole, tool results too, in the order in which they were said.

    As many as ``budget`` allows, up to the first that does not fit; that one is given whole where it is the first of
    all. What is left is listed with its tokens, to be expanded in its turn (``expand(expansion.rest)``), and what this
    session does not have is in ``unknown``.
    """
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise RejectedError(f"a budget is a whole number from 1, and {budget!r:.40} is not", rule="budget")
    one_of("unit", unit, tuple(UNITS))
    if not isinstance(what, str | int | Unexpanded | Iterable):
        raise RejectedError(f"what is expanded are ids and positions, and {what!r:.40} is neither")
    given = (what,) if isinstance(what, str | int | Unexpanded) else tuple(what)
    wanted = tuple(each.name if isinstance(each, Unexpanded) else each for each in given)
    for each in wanted:
        if isinstance(each, bool) or not isinstance(each, str | int):
            raise RejectedError(
                f"what is expanded is a summary's id or a message's position, and {each!r:.40} is neither"
            )
    with conversation.reading() as (connection, state):
        if state is None or conversation.kept_out == "ignored":
            return Expansion(messages=(), unknown=wanted, budget=budget, unit=unit)

        def chars(row: MessageRow) -> int:
            texts = reading.texts(conversation, connection, row)
            return len(readable(texts.content, texts.parts))

        expanding = Expanding(connection, state, budget, chars if unit == "chars" else lambda row: row.tokens)
        expanding.take(wanted)
        return Expansion(
            messages=tuple(reading.messages_shown(conversation, connection, expanding.rows, expanding.hidden)),
            rest=tuple(expanding.rest),
            unknown=tuple(expanding.unknown),
            used=expanding.used,
            budget=budget,
            unit=unit,
            over_budget=expanding.used > budget,
        )
