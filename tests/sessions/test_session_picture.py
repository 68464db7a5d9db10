"""The picture of a session: every item of the window and every summary beneath it, each once, harmless in every syntax."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from absence import absent
from summarizing import invalidate, summarise

from ledger import Ledger, Session
from ledger.sessions.diagram import span

EVIL = 'a"] --> b;\\ <script>&#35;\x1b[31m\u202e}'


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db") as opened:
        yield opened


def said(ledger: Ledger, count: int, name: str = "chat", tokens: int = 10) -> tuple[Session, list[int]]:
    session = ledger.session(name)
    told = [
        session.append("user", f"word {number}", occurred_at=f"2026-03-0{number % 9 + 1}T10:00:00Z", token_count=tokens)
        for number in range(count)
    ]
    return session, [each.position for each in told]


def graph(ledger: Ledger) -> tuple[Session, list[int], str, tuple[str, str]]:
    """Two leaves under a condensed summary, and five plain messages around them."""
    session, at = said(ledger, 9)
    leaves = tuple(summarise(ledger, session, "leaf", [(at[first], at[first + 1])]) for first in (2, 4))
    return session, at, summarise(ledger, session, "both", of=leaves), (leaves[0], leaves[1])


def test_a_session_without_messages_has_no_picture(ledger: Ledger) -> None:
    assert absent(ledger.session("chat").summaries.graph)


def test_messages_side_by_side_are_one_node(ledger: Ledger) -> None:
    session, at = said(ledger, 3)
    (run,) = session.summaries.graph().window
    assert (run.kind, run.messages, run.tokens, run.first, run.last) == ("messages", 3, 30, at[0], at[-1])
    assert (run.earliest[:10], run.latest[:10]) == ("2026-03-01", "2026-03-03")
    times = "2026-03-01 10:00 – 2026-03-03 10:00"
    assert (run.name, run.details) == ("3 messages", ("30 tokens", f"#{at[0]}–#{at[-1]}", times))


def test_the_window_is_in_the_order_of_time_with_the_graph_beneath(ledger: Ledger) -> None:
    session, at, top, leaves = graph(ledger)
    before, node, after = session.summaries.graph().window
    assert (before.last, node.first, node.last, after.first) == (at[1], at[2], at[5], at[6])
    assert (node.id, node.kind, node.depth, node.messages, node.source_tokens) == (top, "condensed", 1, 4, 40)
    assert [each.id for each in node.sources] == list(leaves)
    assert before.messages + node.messages + after.messages == session.info().messages
    assert sum(each.tokens for each in (before, node, after)) == session.info().window_tokens


def test_the_flowchart_names_every_summary_and_run_once(ledger: Ledger) -> None:
    session, at, top, leaves = graph(ledger)
    found = session.summaries.graph()
    node = found.window[1]
    assert node.name == f"{top} condensed, depth 1"
    assert node.details[:3] == ("normal", "", f"4 messages #{at[2]}–#{at[5]}, 40 tokens → 5")
    drawn = found.as_mermaid()
    assert all(f"{top} --> {leaf}" in drawn for leaf in leaves)
    assert len(re.findall(r"^  (?:y_\w+|m\d+)[\[(]", drawn, re.M)) == 5
    assert f"s ==> m{at[0]}" in drawn and f"{top} ==> m{at[6]}" in drawn


def test_what_stands_for_nothing_is_drawn_only_where_asked_for(ledger: Ledger) -> None:
    session, _, top, leaves = graph(ledger)
    session.summaries.invalidate(top)
    assert session.summaries.graph().replaced == () and top not in session.summaries.graph().as_mermaid()
    found = session.summaries.graph(include_replaced=True)
    assert [each.id for each in found.window if each.id] == list(leaves)
    assert [(each.id, each.status) for each in found.replaced] == [(top, "invalid")]
    assert [(each.id, each.again) for each in found.replaced[0].sources] == [(leaf, True) for leaf in leaves]
    assert found.as_mermaid().count(f'{leaves[0]}("') == 1, "one node, whoever points at it"


def test_a_fallback_says_that_it_is_no_summary(ledger: Ledger) -> None:
    session = ledger.session("endless")
    for _ in range(40):
        session.append("user", "x " * 9_000)
    session.compact()
    found = session.summaries.graph()
    assert found.window[0].level == "fallback"
    assert "FALLBACK" in found.as_mermaid()


def test_a_summary_names_its_model_and_nothing_in_it_is_syntax(ledger: Ledger) -> None:
    def write(asked: object) -> str:
        return "short"

    class Model:
        name = EVIL.replace("\x1b", "")
        summarize = staticmethod(write)

    session, _ = said(ledger, 50, EVIL)
    session.compact(summarizer=Model())
    drawn = session.summaries.graph().as_mermaid()
    assert not re.search("[\x1b\u202e]", drawn)
    for line in drawn.splitlines():
        label = re.search(r'[\[(]"(.*)"[\])]', line)
        assert label is None or not set(label[1].replace("<br/>", "")) & set('"<>[](){}&\\'), line


def test_the_picture_of_the_past_is_that_of_then(ledger: Ledger) -> None:
    session, at, top, _ = graph(ledger)
    before = ledger.at(at[-1]).session("chat").summaries.graph()
    assert [each.kind for each in before.window] == ["messages"] and top in session.summaries.graph().as_mermaid()


def test_a_summary_taken_out_by_others_is_beneath_what_is_apart(ledger: Ledger) -> None:
    session, at = said(ledger, 4)
    leaf = summarise(ledger, session, "leaf", [(at[0], at[1])])
    invalidate(ledger, session, leaf)
    assert [each.id for each in session.summaries.graph(include_replaced=True).replaced] == [leaf]


def test_a_picture_states_the_common_date_of_two_times_once() -> None:
    day = "2026-03-01T10:00:00.000000Z"
    assert span(day, day) == "2026-03-01 10:00"
    assert span(day, "2026-03-01T11:30:00.000000Z") == "2026-03-01 10:00 – 11:30"
    assert span(day, "2026-03-02T10:00:00.000000Z") == "2026-03-01 10:00 – 2026-03-02 10:00"
