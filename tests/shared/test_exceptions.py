"""The list of the tests that ``--shared`` leaves out."""

from __future__ import annotations

import ast

import pytest
from places import TESTS
from shared_exceptions import EXCEPTIONS, REASONS, reason_of


@pytest.mark.parametrize("place", REASONS)
def test_each_exception_names_a_folder_a_file_or_a_test_that_exists(place):
    file, _, name = place.partition("::")
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


def test_each_test_of_a_listed_file_is_left_out_and_no_other(monkeypatch):
    monkeypatch.setitem(REASONS, "a/test_b.py", "file")
    monkeypatch.setitem(REASONS, "a/test_c.py::test_d", "test")

    assert reason_of("tests/a/test_b.py::test_x[1-2]") == "file"
    assert reason_of("tests/a/test_c.py::test_d[1::2]") == "test"
    assert reason_of("tests/a/test_c.py::test_de") == ""
