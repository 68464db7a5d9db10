"""No regular expression takes longer than its text: time at four times the length is compared, never a time by itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import needs
import pytest

from ledger import Ledger
from ledger.domain.scan import secrets, threats
from ledger.domain.scan.patterns import is_tool_limitation
from ledger.english import clauses, entities, first_person, meaning, question, slots
from ledger.english import extractor as extraction
from ledger.observations import grouping
from tools.crash import slow_patterns
from tools.crash.slow_patterns import GIVE_UP_S, Expression, grows, seconds, slow

KIB = 1024


@cache
def expressions() -> list[Expression]:
    return slow_patterns.expressions()


@needs.alarms
def test_the_time_of_every_expression_grows_with_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """``tools/crash/slow_patterns.py`` does the same with more texts, up to 1 MiB, on a machine that does nothing else."""
    monkeypatch.setattr(slow_patterns, "SHORT_S", 0.1)
    monkeypatch.setattr(slow_patterns, "FIRST_S", 0.5)
    found = [each for expression in expressions() for each in slow(expression, last=16 * KIB, choices=1)]
    assert found == []


@needs.alarms
@pytest.mark.parametrize("expression", [r"\\+[nrt\"']", r"(?:\s+|x)*y", r"\w+@", r"a.*b.*c", r"(?:[._-]\w+)+$"])
def test_an_expression_whose_time_grows_faster_is_told(monkeypatch: pytest.MonkeyPatch, expression: str) -> None:
    monkeypatch.setattr(slow_patterns, "GIVE_UP_S", 0.3)  # instead of two seconds for each that takes longer
    assert list(slow(Expression("of a test", re.compile(expression), ("finditer",))))


@needs.alarms
@pytest.mark.parametrize("expression", [r"(?<!\\)\\++[nrt\"']", r"=(?:\s++|x)*+y", r"(?<!\w)\w++@", r"[a-z]{1,9} now"])
def test_a_pattern_with_linear_time_is_not_called_slow(expression: str) -> None:
    assert list(slow(Expression("of a test", re.compile(expression), ("finditer",)))) == []


def test_the_expressions_of_every_module_are_collected() -> None:
    names = {each.name for each in expressions()}
    assert len(names) > 250
    for name in ("secrets._ESCAPED", "first_person._SAYS", "slots._TOKEN", "clauses._QUOTED"):
        assert any(each.endswith(name) for each in names), name
    for name in ("secrets 0 private_key", "secrets item", "threats 0 prompt_injection", "claims 0 tool_limitation"):
        assert name in names
    uses = {each.name: each.uses for each in expressions()}
    assert uses["ledger.english.slots._TOKEN"] == ("finditer",)


READERS: dict[str, Callable[[str], Any]] = {
    "secrets": secrets.scan,
    "threats": threats.scan,
    "claims": is_tool_limitation,
    "what a user says": lambda text: list(first_person.statements(text)),
    "extraction": lambda text: extraction.extract_all({"": text}),
    "clauses": lambda text: clauses.clauses(clauses.unquoted(text)),
    "entities": entities.found,
    "slots": lambda text: list(slots.of_text(text)),
    "sentences": meaning.SENTENCE.split,
    "days": question.days,
    "addresses": grouping._ADDRESS.findall,
}
UNITS = {
    "backslashes": ("password is ", "\\", ""),
    "blanks": ("password is", " ", "x"),
    "lines": ("my name is", "\n", "x"),
    "passwords": ("", "my password is the the ", "x"),
    "pins": ("", "the door code is the 12:1 ", ""),
    "figures": ("pin ", "1 ", "x"),
    "keys": ("a", "_a", " b: x"),
    "someone": ("well, I really live in aa", " ", "\0"),
    "orders": ("ignore all", " -", "x"),
    "quotes": ("password: ", '"', "x"),
}


@needs.alarms
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_the_time_of_every_reader_grows_with_its_text(reader: Callable[[str], Any], unit: tuple[str, str, str]) -> None:
    beginning, body, end = unit
    assert grows(reader, lambda chars: beginning + body * (chars // len(body)) + end, last=64 * KIB) is None


@needs.alarms
def test_a_turn_of_backslashes_is_captured_in_the_time_of_its_text(tmp_path: Any) -> None:
    with Ledger.open(tmp_path / "m.db") as ledger:
        made = lambda chars: "password is " + "\\" * chars  # noqa: E731
        assert grows(lambda text: ledger.capture("please look", text), made, last=512 * KIB) is None


@needs.alarms
@pytest.mark.parametrize("text", ["a" + "_a" * 28 + " b: x", "well, I really live in aa" + " " * 2_000 + "\0"])
def test_a_time_that_doubled_with_each_part_has_gone(text: str) -> None:
    assert seconds(lambda given: (list(slots.of_text(given)), list(first_person.statements(given))), text) < GIVE_UP_S
