"""Calls that docstrings, error messages and pages name: each is part of the public API."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

import ledger
from ledger import answers, importers, shared, types
from ledger.doors import pytest_plugin
from tools.pages import reference

PRODUCT = sorted(each for room in ("ledger", "projections") for each in (ROOT / room).rglob("*.py"))


def raised(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of the texts in the errors that a file raises."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and node.exc is not None:
            for each in ast.walk(node.exc):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each.lineno, each.value


PAGES = (ROOT / "README.md", *sorted((ROOT / "ledger" / "docs").glob("*.md")))


def docstrings() -> dict[str, str]:
    """Return the docstring of every public class, method and property, by its name."""
    found: dict[str, str] = {}
    for prefix, area in reference.surface().items():
        found[prefix] = inspect.getdoc(area) or ""
        found |= {f"{prefix}.{each.name}": inspect.getdoc(each.value) or "" for each in reference.methods(area)}
    for module in (answers, types):
        names = {name for name in (*vars(module), *lazy(module)) if not name.startswith("_")}
        of = {f"{module.__name__}.{name}": getattr(module, name) for name in sorted(names)}
        for name, each in of.items():
            if isinstance(each, type) and str(each.__module__).startswith("ledger"):
                found |= {name: inspect.getdoc(each) or ""} | dict(_members(name, each))
    found |= {name: inspect.getdoc(getattr(ledger, name)) or "" for name in ledger.__all__}
    return found | {f"shared {name}": text for name, text in types.SHARED.items()}


def lazy(module: Any) -> list[str]:
    """Return the names that a module loads on first use."""
    return list(module._HOMES)


def _members(of: str, each: type) -> Iterator[tuple[str, str]]:
    for name, value in vars(each).items():
        if not name.startswith("_") and (isinstance(value, property) or inspect.isfunction(value)):
            yield f"{of}.{name}", inspect.getdoc(value) or ""


CALL = re.compile(r"(?<![\w.=/])((?:[A-Za-z]\w*\.)*[a-z_]\w*)\(")
OTHERS = {  # of a page; of what somebody plugs in; of a tool; to come
    "page.all",
    "memory.effective_confidence",
    "answer",
    "embed",
    "embed_query",
    "factory",
    "replay",
    *("histogram_quantile", "rate", "sum"),  # of Prometheus
}


def calls(text: str) -> set[str]:
    """Return the calls that a text names: ``history.trust(…)``, ``rebuild()``."""
    return set(CALL.findall(text))


@functools.cache
def known() -> frozenset[str]:
    named = vars(answers) | {name: getattr(answers, name) for name in lazy(answers)}
    named |= {name: getattr(ledger, name) for name in ledger.__all__}
    own = {f"{name}.{part}" for name, each in named.items() for part in dir(each)}
    members = {part for each in named.values() if isinstance(each, type) for part in dir(each)}
    own |= {f"shared.{name}" for name in vars(shared)} | set(vars(importers))
    own |= set(vars(pytest_plugin)) | set(vars(pytest_plugin.Clock))
    return frozenset(reference.known_calls() | own | members | set(ledger.__all__) | set(vars(types)) | OTHERS)


def test_a_call_that_a_message_or_a_docstring_names_is_there() -> None:
    texts = docstrings() | {f"{path.name}:{line}": text for path in PRODUCT for line, text in raised(path)}
    missing = {name: sorted(calls(text) - known()) for name, text in texts.items()}
    assert {name: each for name, each in missing.items() if each} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_call_that_a_page_names_is_there(page: Path) -> None:
    """In its prose; its examples are run."""
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    assert sorted(calls(" ".join(re.findall(r"`[^`\n]+`", prose))) - known()) == []
