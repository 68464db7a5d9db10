"""What a program imports from ``ledger``: the ledger, its errors and the answers of every day, each loaded on first use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ledger
from ledger import Ledger, answers
from ledger.recall.packs import day


def test_the_answers_of_every_day_are_imported_from_the_package() -> None:
    with Ledger.temporary(user="ada") as memory:
        added = memory.add("I prefer tea.")
        answer = {
            ledger.Added: added,
            ledger.Interaction: memory.interactions.get(added.turns[0]),
            ledger.Message: memory.session(added.session).messages()[0],
            ledger.Pack: memory.recall("tea", among=["turns"]),
            ledger.Memory: memory.remember("Ada likes tea."),
            ledger.Candidate: memory.propose("Ada likes honey.") and memory.review()[-1],
            ledger.Window: memory.session(added.session).window(100),
            ledger.AuditEntry: memory.history.audit()[0],
            ledger.Why: memory.why(memory.memories.list()[0].id),
        }
    assert {kind: type(value) for kind, value in answer.items()} == {kind: kind for kind in answer}


def test_every_public_name_is_there_and_an_answer_is_the_one_of_its_module() -> None:
    assert len(ledger.__all__) == len({*ledger.__all__}) and [*ledger.__all__] == sorted(ledger.__all__)
    for name in ledger.__all__:
        assert getattr(ledger, name).__name__ == name and name in dir(ledger)
    assert ledger.Memory is answers.Memory and ledger.Pack is answers.Pack
    with pytest.raises(AttributeError, match="module 'ledger' has no attribute 'Fact'"):
        ledger.Fact  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_loads_no_answers() -> None:
    program = "import sys, ledger; print([name for name in sys.modules if name[:6] == 'ledger' and name.endswith('.answers')])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"


def test_an_answer_has_the_same_home_for_a_type_checker_as_at_run_time() -> None:
    tree = ast.parse(Path(answers.__file__).read_text(encoding="utf-8"))
    imports = [node for part in tree.body if isinstance(part, ast.If) for node in ast.walk(part)]
    typed = {alias.name: node.module for node in imports if isinstance(node, ast.ImportFrom) for alias in node.names}
    late: dict[str, str] = vars(answers)["_HOMES"]
    assert typed == late and len(late) > 80
    assert {name: getattr(answers, name).__module__ for name in late} == late


def test_a_printed_pack_is_its_text() -> None:
    with Ledger.temporary() as memory:
        assert str(memory.recall("tea")) == ""
        memory.remember("Ada likes tea.")
        pack = memory.recall("tea")
        fact = memory.memories.list()[0]
    assert str(pack) == f"{pack}" == pack.as_text() == f"```memory\n- {day(fact.valid_from)}: Ada likes tea.\n```"
    assert repr(pack).startswith("<Pack of 1, ")
