"""The official tests of contracts: each entry of the table is complete, and the page of the doors shows it."""

from __future__ import annotations

import ast
import tomllib

import pytest
from places import ROOT

from tools.doors.official import CONTRACTS, Contract, OfficialResult
from tools.doors.stand_ins.naming import is_named

STAND_INS = ROOT / "tools" / "doors" / "stand_ins"


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_contract_has_its_door_its_extra_and_its_line_in_the_page(name: str) -> None:
    contract = CONTRACTS[name]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert contract.door in extras and (ROOT / "ledger" / "doors" / f"{contract.door}.py").exists()
    page = (ROOT / "ledger" / "docs" / "doors.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
    assert f"{contract.package} {contract.version}" in line


@pytest.mark.parametrize("name", CONTRACTS)
def test_what_takes_the_place_of_a_class_is_there(name: str) -> None:
    for stand_in in CONTRACTS[name].replaced.values():
        module, _, own = stand_in.rpartition(".")
        tree = ast.parse((STAND_INS / f"{module}.py").read_text(encoding="utf-8"))
        assert own in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


@pytest.mark.parametrize(
    ("nodeid", "part", "named"),
    [
        ("tests/test_store.py::test_a[x]", "test_a", True),
        ("tests/test_store.py::test_a[x]", "test_a[x]", True),
        ("tests/test_store.py::test_a[x]", "test_a[y]", False),
        ("tests/test_store.py::test_ab", "test_a", False),
        ("tests/test_store.py::test_ab", "test_a*", True),
        ("tests/test_store.py::TestStore::test_ab[x]", "test_ab", True),
        ("tests/test_store.py::TestStore::test_ab", "TestStore*", True),
        ("tests/test_a.py::test_b", "test_a", False),
    ],
)
def test_a_test_is_named_whole_or_by_the_beginning(nodeid: str, part: str, named: bool) -> None:
    assert is_named(nodeid, part) is named


CONTRACT = Contract("langgraph", "`BaseStore`", "langgraph-checkpoint", "4.3.2", ("tests/test_store.py",), {})


def test_the_line_of_a_result_counts_what_passed_of_what_was_run_and_gives_the_reasons() -> None:
    result = OfficialResult(CONTRACT, 3, ("tests/test_store.py::test_a",), {"about a table": 2})
    assert result.line() == "| `BaseStore` | langgraph-checkpoint 4.3.2 | 3 of 4 | 2 about a table |"
    assert not result.ok


@pytest.mark.parametrize(
    ("passed", "failed", "problem", "ok"),
    [(3, (), "", True), (0, (), "", False), (3, ("a",), "", False), (3, (), "no test is called x", False)],
)
def test_a_result_is_good_only_if_tests_ran_and_every_reason_is_used(
    passed: int, failed: tuple[str, ...], problem: str, ok: bool
) -> None:
    assert OfficialResult(CONTRACT, passed, failed, {}, problem).ok is ok
