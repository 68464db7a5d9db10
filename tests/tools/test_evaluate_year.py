"""A quarter of an invented year, in which an agent without a configured model reads and hands in over MCP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

from tools.evaluate import evaluate_year as evaluation

TURNS, MOST = 60, 400


@pytest.fixture(scope="module")
def quarter() -> evaluation.Year:
    year = evaluation.load(evaluation.YEARS / "parent.jsonl")
    return year._replace(turns=year.turns[:TURNS])


def remembered(quarter: evaluation.Year, folder: Path, **reader: object) -> set[str]:
    folder.mkdir()
    for ledger in evaluation.play(quarter, folder, **reader):  # type: ignore[arg-type]
        return {memory.content or "" for memory in ledger.memories.list(limit=MOST)}
    return set()


def test_an_agent_over_mcp_learns_what_a_configured_model_does(quarter: evaluation.Year, tmp_path: Path) -> None:
    agent = evaluation.Agent(quarter)
    facts = {fact["content"] for turn in quarter.turns for fact in turn.get("facts", ())}
    by_model = facts & remembered(quarter, tmp_path / "model", model=evaluation.PerfectExtractor(quarter))
    by_agent = facts & remembered(quarter, tmp_path / "agent", agent=agent)
    assert len(by_model) >= 30
    assert len(by_agent & by_model) >= 0.95 * len(by_model)
    assert len(by_agent - by_model) <= 0.05 * len(by_model), "an outdated fact stays"
    assert (agent.counts["readings"], agent.counts["calls"]) == (3, 9)
    assert agent.counts["tokens read"] < 14_000 and agent.counts["tokens answered"] < 5_000
    assert len(facts & remembered(quarter, tmp_path / "rules")) <= 1, "rules alone do not"


def test_more_questions_are_asked_of_the_year_that_they_name(tmp_path: Path) -> None:
    more, year = tmp_path / "more.jsonl", evaluation.load(evaluation.YEARS / "parent.jsonl")
    rows = [{"type": "question", "id": name, "year": name} for name in ("parent", "shop")]
    lines = [json.dumps(row) for row in (*rows, {"type": "question", "id": "any"})]
    more.write_text("\n".join(lines), encoding="utf-8")
    assert [question["id"] for question in evaluation.asked_more(more, year).questions] == ["parent", "any"]
