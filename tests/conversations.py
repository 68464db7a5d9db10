"""Conversations: what is said in them, summaries written as a compaction writes them, and what must hold of every window."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import probe
from absence import absent

from ledger import Ledger
from ledger.sessions import writing
from ledger.sessions.rules.window import CONDENSED, LEAF
from ledger.sessions.summary_writes import SummarySources, WrittenSummary, joined, of_messages, of_summaries, record
from ledger.sessions.window import OpenWindow
from ledger.sessions.writing import invalidate
from projections.views import summaries


def items(session: Any) -> list[Any]:
    with probe.session(session).reading() as (connection, state):
        return OpenWindow(connection, state).items() if state is not None else []


def summed(session: Any, first: int, last: int, text: str = "What they said.", **who: str) -> str:
    """Write a leaf summary of the window's items ``first`` to ``last``, all messages; return its id."""
    chosen = items(session)[first : last + 1]

    def sources(window: OpenWindow) -> SummarySources | None:
        return of_messages(window, chosen[0].place, chosen[-1].place)

    return written(session, sources, WrittenSummary(LEAF, "normal", text, 3, "given", "small", "leaf/1"), **who)


def condensed(session: Any, first: int, last: int, text: str = "All in all.", **who: str) -> str:
    """Write a summary of the summaries among the window's items ``first`` to ``last``; return its id."""
    chosen = {item.id for item in items(session)[first : last + 1]}

    def sources(window: OpenWindow) -> SummarySources:
        found = [each for each in window.summaries if each.id in chosen]
        return of_summaries(window.connection, window.state.row, found)

    return written(
        session, sources, WrittenSummary(CONDENSED, "normal", text, 2, "given", "small", "condensed/1"), **who
    )


def widened(session: Any, first: int, last: int, text: str = "The beginning …", **who: str) -> str:
    """Write a fallback summary that replaces the summary ``first`` and the messages up to ``last``; return its id."""
    chosen = items(session)[first : last + 1]

    def sources(window: OpenWindow) -> SummarySources:
        underlying = tuple(each for each in window.summaries if each.id == chosen[0].id)
        old, fresh = underlying[0], of_messages(window, chosen[1].place, chosen[-1].place)
        assert fresh is not None
        spans = joined(window.connection, window.state.row, (*old.ranges, *fresh.ranges))
        sums = old.messages + fresh.messages, old.source_tokens + fresh.tokens
        return SummarySources(
            spans, *sums, min(old.earliest, fresh.earliest), max(old.latest, fresh.latest), underlying
        )

    return written(session, sources, WrittenSummary(LEAF, "fallback", text, 3, "given"), **who)


def rewritten(session: Any, id: str, text: str = "Said again.", **who: str) -> str:
    """Write a summary that replaces another one and has the same sources; return its id."""

    def sources(window: OpenWindow) -> SummarySources:
        known = {each.id: each for each in summaries.of_session(window.connection, window.state.row)}
        old = known[id]
        underlying = tuple(known[each] for each in old.summaries)
        return SummarySources(old.ranges, old.messages, old.source_tokens, old.earliest, old.latest, underlying)

    kind = next(each.kind for each in session.summaries.list() if each.id == id)
    return written(
        session, sources, WrittenSummary(kind, "normal", text, 3, "given", "large", "x/1"), replaces=id, **who
    )


def written(session: Any, sources: Any, text: WrittenSummary, replaces: str | None = None, **who: str) -> str:
    made = ""

    def body(work: Any) -> str:
        nonlocal made
        state = writing.known(probe.session(session), work)
        found = sources(OpenWindow(work.connection(), state))
        assert found is not None
        if replaces is not None:
            invalidate(work, state, summaries.of_session(work.connection(), state.row), {replaces}, "rebuilt")
        made = record(work, state, found, text, replaces=replaces)
        return str(state.id)

    probe.session(session).writer.run("compact", probe.who(user=session.user, **who), body)
    return made


def standing(session: Any) -> dict[str, str]:
    """Return the status of each summary, in the order of writing."""
    return {each.id: each.status for each in session.summaries.list()[::-1]}


def check_window(ledger: Ledger, name: str, user: str = "") -> None:
    """Every message is in the window, hidden, or under exactly one summary of it, and the totals are the sums."""
    session = ledger.bind(user=user).session(name)
    if absent(session.info):
        return
    info = session.info()
    messages, window = every_message(session, include_hidden=True), items(session)
    visible = {each.position: each for each in messages if not each.hidden}
    assert [each.position for each in session.messages(limit=1_000)] == list(visible)
    assert (info.messages, info.tokens) == (len(visible), sum(each.tokens for each in visible.values()))
    assert info.hidden == len(messages) - len(visible)
    shown = [item.position for item in window if not item.is_summary]
    for item in window:
        if item.is_summary:
            under = [at for at in visible if any(first <= at <= last for first, last in item.ranges)]
            assert (item.messages, item.source_tokens) == (len(under), sum(visible[at].tokens for at in under))
            shown += under
    assert sorted(shown) == list(visible), "a message is in the window twice, or nowhere"
    assert (info.window_items, info.window_tokens) == (len(window), sum(item.tokens for item in window))
    assert info.summaries == sum(item.is_summary for item in window)
    places = [item.place for item in window]
    assert places == sorted(set(places)), "the window is not in order of place"
    for each in session.summaries.list():
        sources = [m for m in messages if any(first <= m.position <= last for first, last in each.ranges)]
        assert len(sources) >= each.messages, "a summary is in force, and a message that it was written from is not"
        assert each.status != "made", "a summary was left half-made"
        assert (each.content is None) == (each.status == "erased")
    assert {each.id for each in session.summaries.list(statuses=("window",))} == {
        item.id for item in window if item.is_summary
    }


WEATHER = {"type": "tool_use", "id": "call_1", "name": "weather", "arguments": {"city": "Bern", "days": [1, 2]}}
RAIN = {"type": "tool_result", "id": "call_1", "text": "It rains."}
PICTURE = {"type": "media", "uri": "https://a.example/cat.png", "mime": "image/png"}


def said(session, **options) -> list[str | None]:
    """Return what was said: of all messages, or of the page that a ``limit`` asks for."""
    found = session.messages(**options) if "limit" in options else every_message(session, **options)
    return [each.content for each in found]


def totals_agree(session) -> None:
    """Assert that a session's totals are the sums over its messages, which are in order of position."""
    info = session.info()
    shown, everything = every_message(session), every_message(session, include_hidden=True)
    assert (info.messages, info.tokens) == (len(shown), sum(each.tokens for each in shown))
    assert info.hidden == len(everything) - len(shown) == sum(bool(each.hidden) for each in everything)
    page = [each.position for each in session.messages(include_hidden=True, limit=1_000)]
    assert page == sorted(page)


def every_message(session: Any, **options: Any) -> list[Any]:
    """Return the messages of all pages, oldest first."""
    return sorted(session.messages(limit=1_000, **options).all(), key=attrgetter("position"))


def words(count: int) -> str:
    """Return a text of ``count`` tokens, as the ledger's own counter counts them."""
    return " ".join(["word"] * count)


def talk(session, count: int, tokens: int = 100, start: int = 0) -> None:
    """So many messages, each of so many tokens with the four of its frame and one of its number."""
    for number in range(start, start + count):
        role = ("user", "assistant")[number % 2]
        session.append(role, f"m {words(tokens - 4 - 1 - (-(-len(str(number)) // 3)))} {number}")
    assert session.messages(limit=1)[0].tokens == tokens
