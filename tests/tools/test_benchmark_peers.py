"""The comparison with other products: its texts, and the process in which a system works."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.bench import benchmark_peers as peers


def test_each_fact_is_about_something_else_and_its_question_names_it() -> None:
    known = peers.facts(10_300)
    assert len(known) == len({fact for fact, _ in known}) == len({question for _, question in known}) == 10_300
    assert all(fact.startswith(question.removeprefix("What is ").removesuffix("?")) for fact, question in known)


def test_a_system_at_work_writes_and_is_asked(tmp_path: Path) -> None:
    system = peers.Peer("ours", Path(sys.executable), tmp_path / "memory.db")
    known = peers.facts(3)
    seconds, _, _ = system.do("write", [fact for fact, _ in known])
    assert len(seconds) == 3 and min(seconds) > 0
    _, _, answers = system.do("ask", [known[1][1]])
    assert answers[0][0] == known[1][0]
    system.end()


def test_what_cannot_be_installed_has_a_row_that_says_so(tmp_path: Path) -> None:
    figures = peers.measure(50, {"ours": Path(sys.executable)}, tmp_path)
    assert [each.what.partition(": ")[2] for each in figures] == ["it cannot be installed here"] * 4
