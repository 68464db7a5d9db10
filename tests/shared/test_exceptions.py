"""The option ``--shared``, and the list of the tests that it leaves out."""

from __future__ import annotations

import ast
import shutil

import pytest
from places import TESTS
from shared_everywhere import SharedEverywhere
from shared_exceptions import EXCEPTIONS, REASONS, REASONS_IN_MEMORY, reason_of

from ledger import Ledger


@pytest.mark.parametrize("place", [*REASONS, *REASONS_IN_MEMORY])
def test_each_exception_names_a_folder_a_file_or_a_test_that_exists(place):
    file, _, name = place.partition("[")[0].partition("::")
    path = TESTS / file
    assert path.exists()
    assert path.is_dir() == place.endswith("/")
    if name:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert name.rpartition("::")[2] in {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }


def test_no_place_has_two_reasons():
    assert len(REASONS) == sum(len(places) for places in EXCEPTIONS.values())
    assert not REASONS.keys() & REASONS_IN_MEMORY.keys()


def test_each_test_of_a_listed_file_is_left_out_and_no_other(monkeypatch):
    monkeypatch.setitem(REASONS, "a/test_b.py", "file")
    monkeypatch.setitem(REASONS, "a/test_c.py::test_d", "test")
    monkeypatch.setitem(REASONS, "a/test_c.py::test_f[1::2]", "case")

    assert reason_of("tests/a/test_b.py::test_x[1-2]") == "file"
    assert reason_of("tests/a/test_c.py::test_d[1::2]") == "test"
    assert reason_of("tests/a/test_c.py::test_de") == ""
    assert reason_of("tests/a/test_c.py::test_f[1::2]") == "case"
    assert reason_of("tests/a/test_c.py::test_f[1::3]") == ""


def test_what_cannot_hold_in_memory_is_left_out_there_alone():
    place = next(iter(REASONS_IN_MEMORY))
    assert reason_of(f"tests/{place}", in_memory=True) and not reason_of(f"tests/{place}")


@pytest.fixture
def shared_everywhere():
    plugin = SharedEverywhere("memory")
    yield plugin
    plugin.pytest_unconfigure()


def test_each_ledger_of_such_a_run_has_a_shared_log_of_its_own(shared_everywhere, tmp_path):
    with Ledger.open(tmp_path / "a.db") as a, Ledger.open(tmp_path / "b.db") as b:
        a.remember("Ada likes green tea")
        assert (a.position, b.position) == (2, 1)
    ends = [server.tip.position for server in shared_everywhere.logs.servers.values()]
    assert ends == [2, 1]


def test_a_file_of_such_a_run_keeps_its_log_when_it_is_opened_again(shared_everywhere, tmp_path):
    with Ledger.open(tmp_path / "a.db") as ledger:
        ledger.remember("Ada likes green tea")
    with Ledger.open(tmp_path / "a.db") as ledger:
        ledger.remember("Ada lives in Porto")
    assert [server.tip.position for server in shared_everywhere.logs.servers.values()] == [3]


def test_a_copy_of_a_file_has_another_log_than_the_file(shared_everywhere, tmp_path):
    with Ledger.open(tmp_path / "a.db") as ledger:
        ledger.remember("Ada likes green tea")
    shutil.copy(tmp_path / "a.db", tmp_path / "copy.db")
    with Ledger.open(tmp_path / "copy.db") as copy:
        copy.remember("Ada lives in Porto")
    assert [server.tip.position for server in shared_everywhere.logs.servers.values()] == [2, 3]
