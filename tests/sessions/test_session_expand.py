"""Expanding: from a summary down to what was said, whole, as far as the tokens reach, and nothing silently dropped."""

from __future__ import annotations

from typing import Any

import pytest
from summarizing import summarise

from ledger import Ledger
from ledger.domain.errors import RejectedError
from ledger.sessions.search_answers import Expansion


def filled(ledger: Ledger, count: int, tokens: int = 10) -> tuple[Any, list[int]]:
    session = ledger.session("monday")
    return session, [session.append("user", f"said {n}", token_count=tokens).position for n in range(count)]


def given(found: Expansion) -> list[int]:
    return [message.position for message in found.messages]


def graph(ledger: Ledger) -> tuple[Any, list[int], list[str], str]:
    """Eight messages under four leaves under one condensed summary."""
    session, at = filled(ledger, 8)
    leaves = [summarise(ledger, session, f"leaf {n}", [(at[2 * n], at[2 * n + 1])]) for n in range(4)]
    return session, at, leaves, summarise(ledger, session, "all of it", of=leaves)


def test_a_condensed_summary_expands_down_to_its_messages_in_order(ledger: Ledger) -> None:
    session, at, leaves, top = graph(ledger)
    found = session.expand(top)
    assert given(found) == at and found.rest == () and (found.used, found.over_budget) == (80, False)
    assert given(session.expand(leaves[2])) == at[4:6]
    assert given(session.expand(top[:-3])) == ([] if leaves else at), "an ambiguous beginning is unknown"


def test_expand_lists_messages_beyond_the_budget_with_their_tokens(ledger: Ledger) -> None:
    session, at, leaves, top = graph(ledger)
    found = session.expand(top, budget=35)
    assert given(found) == at[:3] and found.used == 30
    assert [(each.first, each.last, each.messages, each.tokens, each.summary) for each in found.rest] == [
        (at[3], at[3], 1, 10, None),
        (at[4], at[5], 2, 20, leaves[2]),
        (at[6], at[7], 2, 20, leaves[3]),
    ]
    again = session.expand([each.summary or each.first for each in found.rest])
    assert given(again) == at[3:]


def test_a_single_message_over_the_budget_is_returned_whole_and_marked(ledger: Ledger) -> None:
    session, at = filled(ledger, 2, tokens=9_000)
    found = session.expand(at)
    assert given(found) == at[:1] and found.over_budget and found.used == 9_000
    assert [(each.first, each.tokens) for each in found.rest] == [(at[1], 9_000)]


def test_a_tool_result_is_given_whole(ledger: Ledger) -> None:
    session = ledger.session("monday")
    result = {"type": "tool_result", "id": "c1", "text": "hail " * 2_000}
    at = session.append("tool", parts=[result, {"type": "media", "uri": "file:a.png"}]).position
    (message,) = session.expand(at).messages
    assert message.parts[0] == result and message.content == result["text"]


def test_messages_are_asked_for_by_position_in_any_order_with_summaries(ledger: Ledger) -> None:
    session, at, leaves, _ = graph(ledger)
    assert given(session.expand(at[3])) == [at[3]]
    assert given(session.expand([at[7], leaves[1], str(at[0]), at[2]])) == [at[0], at[2], at[3], at[7]]


def test_expand_lists_unknown_ids_and_raises_nothing(ledger: Ledger) -> None:
    session, at = filled(ledger, 1)
    other = ledger.session("tuesday").append("user", "elsewhere").position
    wanted = [at[0], other, 10**15, -1, 0, "y_nothing", "%", "", 10**30]
    assert session.expand(wanted).unknown == tuple(wanted[1:])
    assert ledger.session("new").expand("y_0").unknown == ("y_0",)
    with pytest.raises(RejectedError):
        session.expand(at, budget=0)
    with pytest.raises(RejectedError):
        session.expand([None])  # type: ignore[list-item]


def test_hidden_messages_are_marked_and_can_be_expanded(ledger: Ledger) -> None:
    session, _, _, top = graph(ledger)
    session.truncate(2)
    assert [message.hidden for message in session.expand(top).messages] == ["truncate"] * 6 + [""] * 2


def test_an_earlier_moment_expands_what_it_had(ledger: Ledger) -> None:
    session, at, leaves, top = graph(ledger)
    session.clear()
    past = ledger.at(at[-1] + 2).session("monday")
    assert given(past.expand([leaves[0], top])) == at[:2]
    assert past.expand(top).unknown == (top,)


def test_a_summary_of_another_user_cannot_be_expanded(ledger: Ledger) -> None:
    _, at, leaves, top = graph(ledger)
    other = ledger.bind(user="eve").session("monday")
    other.append("user", "mine")
    assert other.expand([top, *leaves, *at]).messages == ()
