"""The search of a session: grep over its messages and summaries, and the expansion of summaries to messages."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ledger.core.snapshot import listed
from ledger.domain import times
from ledger.domain.errors import RejectedError
from ledger.domain.text import one_of
from ledger.english.porter import stem
from ledger.recall import recalling
from ledger.recall.asked import UNITS
from ledger.sessions import reading
from ledger.sessions.conversation import Conversation
from ledger.sessions.expanding import Expanding
from ledger.sessions.grepping import ORDERS, READ, RELEVANCE, GrepMatches, GrepQuery, GrepRequest, GrepSearch, Where
from ledger.sessions.rules import grep
from ledger.sessions.rules.compaction import EXPAND_TOKENS
from ledger.sessions.rules.message import ROLES, readable
from ledger.sessions.rules.session import SessionState as State
from ledger.sessions.search_answers import Expansion, GrepResult, Unexpanded
from projections.core.conditions import NEWEST, Start
from projections.core.rows import Connection
from projections.search import one_text, session_texts
from projections.search.passages import MESSAGE, SUMMARY
from projections.views.sessions import MessageRow as MessageRow

SCOPES = {"both": (MESSAGE, SUMMARY), "message": (MESSAGE,), "summary": (SUMMARY,)}
INSIDE = "no text has these words; these have them inside of longer words"
HITS = 1_001  # the most hits: a page of 1,000, and one hit more that shows if there is another page


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
    query, everywhere = _checked(request, limit, after), request.everywhere
    if conversation.kept_out == "ignored":
        return GrepResult(hits=(), total=0, searched=0, hint="this session is ignored")
    recalling.index_texts(conversation.engine)
    with conversation.engine.reading() as connection:
        state = conversation.state(connection)
        if state is None and not everywhere:
            return GrepResult(hits=(), total=0, searched=0, hint="nothing was said in this session yet")
        where = _where(conversation, connection, state, everywhere=everywhere)
        search = _search(conversation, connection, query, where)
        result, hint = search.page(), ""
        if not result.rows and query.limit:
            loosened = _loosened(conversation, connection, query, where)
            if loosened is not None and (inside := loosened.page()).rows:
                search, result, hint = loosened, inside, INSIDE
            else:
                hint = _hint(conversation, connection, query, state, result, everywhere=everywhere)
        searched = _searched(connection, query, where)
        hits = tuple(map(search.hit, result.rows))
    return GrepResult(
        hits=hits,
        places=tuple(result.places),
        total=result.total,
        searched=searched,
        is_exact=not result.left_off,
        hint=hint,
    )


def _loosened(conversation: Conversation, connection: Connection, query: GrepQuery, where: Where) -> GrepSearch | None:
    """Return the search for the words inside of longer words; None if the pattern has none, or if the words alone match."""
    pattern = query.pattern.loosened
    if pattern is None:
        return None
    if query.start.row is not None and not query.by_relevance:
        from_first = replace(query, start=Start(oldest_first=query.start.oldest_first))
        if _search(conversation, connection, from_first, where).run(counted=1).total:
            return None
    return _search(conversation, connection, replace(query, pattern=pattern, by_relevance=False), where)


def _checked(request: GrepRequest, limit: int, after: int | None) -> GrepQuery:
    pattern, role = _pattern(request.pattern), request.role
    one_of("scope", request.scope, tuple(SCOPES))
    one_of("order", request.order, ORDERS)
    if request.order == RELEVANCE and (pattern.inside or request.oldest_first):
        raise RejectedError(
            "order='relevance' ranks words: it goes with no %text% and no oldest_first; leave one of them out"
        )
    if role is not None:
        one_of("role", role, ROLES)
    if role is not None and request.scope == "summary":
        raise RejectedError("a summary has no role: leave the role out, or look among messages")
    return GrepQuery(
        pattern=pattern,
        corpora=SCOPES[request.scope] if role is None else (MESSAGE,),
        role=role,
        since=times.moment("since", request.since) if request.since is not None else "",
        until=times.moment("until", request.until) if request.until is not None else "",
        limit=listed(limit, HITS),
        include_hidden=request.include_hidden,
        start=Start(after, request.oldest_first),
        by_relevance=request.order == RELEVANCE,
    )


def _pattern(pattern: str) -> grep.GrepPattern:
    parsed = grep.parse(pattern, stem)
    if parsed.inside:
        return parsed
    if why := one_text.why_unreadable(parsed.expression):
        grep.refuse(pattern, why)
    for term in parsed.terms:
        if not one_text.matches(term.asked, term.words):
            grep.refuse(pattern, f"SQLite takes no character of {term.words!r:.40} for a letter")
    return parsed


def _where(conversation: Conversation, connection: Connection, state: State | None, *, everywhere: bool) -> Where:
    if everywhere or state is None:
        names_by_row = session_texts.of_user(connection, conversation.user)
        searched: dict[int, str | None] = {
            row: names[0] for row, names in names_by_row.items() if conversation.engine.keeps_out(*names) != "ignored"
        }
        return Where(conversation.user, searched, None)
    return Where(conversation.user, {state.row: conversation.name}, state.id)


def _search(conversation: Conversation, connection: Connection, query: GrepQuery, where: Where) -> GrepSearch:
    return GrepSearch(
        conversation.engine.seen(connection),
        query,
        where,
        lambda id, field: reading.of_interaction(conversation, connection, id, field),
    )


def _searched(connection: Connection, query: GrepQuery, where: Where) -> int:
    messages, summaries = session_texts.count(connection, list(where.names), hidden=query.include_hidden)
    return messages * (MESSAGE in query.corpora) + summaries * (SUMMARY in query.corpora)


def _hint(
    conversation: Conversation,
    connection: Connection,
    query: GrepQuery,
    state: State | None,
    result: GrepMatches,
    *,
    everywhere: bool,
) -> str:
    """Return a hint at another place or filter with a match, for a search that found nothing."""
    searched_sessions = _where(conversation, connection, state, everywhere=everywhere)

    def matches(query: GrepQuery, where: Where) -> bool:
        return _search(conversation, connection, query, where).is_somewhere()

    hints = [f"only {READ:,} long texts were read: bound the time"] if result.left_off else []
    free = replace(query, by_relevance=False, start=NEWEST, corpora=SCOPES["both"], role=None, since="", until="")
    if free != query and matches(free, searched_sessions):
        hints.append("something matches outside of this scope, role and time")
    elif not query.include_hidden and matches(replace(free, include_hidden=True), searched_sessions):
        hints.append("all matches are hidden or out of use: ask with include_hidden=True")
    other_sessions = _where(conversation, connection, None, everywhere=True)
    if state is not None:
        other_sessions.names.pop(state.row, None)
    if not everywhere and matches(free, other_sessions):
        hints.append("other sessions have it: ask sessions.grep")
    return "; ".join(hints) or "nothing matches; try fewer words, OR between them, or %a part of a word%"


# --- from a summary to its messages --------------------------------------------------------------------------


def expand(
    conversation: Conversation,
    what: str | int | Unexpanded | Iterable[str | int | Unexpanded],
    *,
    budget: int = EXPAND_TOKENS,
    unit: str = "tokens",
) -> Expansion:
    """Return the whole messages behind summaries or positions, oldest first.

    Messages are returned up to the first that does not fit the budget; the very first is always returned. The other messages are
    listed with their tokens, and ``expand(expansion.rest)`` returns them next.

    Args:
        conversation: The session.
        what: Ids of summaries or their beginnings, positions (45 or "45-67"), or the rest of an expansion.
        budget: The most that the messages may take, counted in ``unit``.
        unit: "tokens" or "chars".

    Raises:
        RejectedError: The budget is below 1, or an entry is neither an id nor a position.
    """
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise RejectedError(f"a budget is a whole number from 1, and {budget!r:.40} is not", rule="budget")
    one_of("unit", unit, tuple(UNITS))
    if not isinstance(what, str | int | Unexpanded | Iterable):
        raise RejectedError(f"expand() takes ids of summaries and positions of messages, and {what!r:.40} is neither")
    entries = (what,) if isinstance(what, str | int | Unexpanded) else tuple(what)
    names = tuple(entry.name if isinstance(entry, Unexpanded) else entry for entry in entries)
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise RejectedError(f"expand() takes a summary's id or a message's position, and {name!r:.40} is neither")
    with conversation.reading() as (connection, state):
        if state is None or conversation.kept_out == "ignored":
            return Expansion(messages=(), unknown=names, budget=budget, unit=unit)

        def chars(row: MessageRow) -> int:
            texts = reading.texts(conversation, connection, row)
            return len(readable(texts.content, texts.parts))

        expanding = Expanding(connection, state, budget, chars if unit == "chars" else lambda row: row.tokens)
        expanding.take(names)
        return Expansion(
            messages=tuple(reading.messages_shown(conversation, connection, expanding.rows, expanding.hidden)),
            rest=tuple(expanding.rest),
            unknown=tuple(expanding.unknown),
            used=expanding.used,
            budget=budget,
            unit=unit,
            over_budget=expanding.used > budget,
        )
