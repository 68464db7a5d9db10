"""The help of the public surface: every method says in the imperative what it does, and what each parameter takes."""

from __future__ import annotations

import re

import pytest

import ledger
from ledger import answers, types
from ledger.types import SHARED
from tools.pages import reference

METHODS = {
    f"{prefix}.{each.name}": each for prefix, area in reference.surface().items() for each in reference.methods(area)
}
NO_VERBS = {"a", "an", "the", "what", "which", "whether", "how", "this", "it", "one", "such", "all", "every"}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_says_first_what_it_does(name: str) -> None:
    """In the imperative: "List …", "Return …", and not "Lists …" or "The …"; a property says what it is."""
    first = METHODS[name].doc.first
    assert first.endswith((".", "…)", ")")) or ":" in first
    word = first.split()[0].strip(":,")
    assert word[0].isupper()
    if not METHODS[name].is_property:
        assert word.lower() not in NO_VERBS and not re.fullmatch(r"\w+[^s]s|\w\w+[^r]ing|\w+ed", word), word


@pytest.mark.parametrize("name", METHODS)
def test_each_parameter_has_help(name: str) -> None:
    """In its own ``Args:``, or in the table of what many methods share; and no help is for a parameter that is not there."""
    method = METHODS[name]
    taken = [each.name for each in method.parameters]
    assert [each for each in taken if each not in method.doc.args and each not in SHARED] == []
    assert sorted(set(method.doc.args) - set(taken)) == []


def test_the_help_that_is_shared_is_used() -> None:
    taken = {each.name for method in METHODS.values() for each in method.parameters if each.name not in method.doc.args}
    assert set(SHARED) - taken == set()


def test_a_parameter_without_help_is_found() -> None:
    def silent(depth: int) -> None:
        """Dig.

        Args:
            width: How wide.
        """

    doc = reference.doc_of(silent)
    assert (doc.first, doc.args, "depth" in doc.args) == ("Dig.", {"width": "How wide."}, False)


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_answers_can_be_imported(name: str) -> None:
    """From ``ledger.answers``, ``ledger.types`` or ``ledger``: nobody has to know where a class lives."""
    method = METHODS[name]
    of = method.value.fget if method.is_property else method.value
    answer = str(of.__annotations__["return"]).replace("Self", "Ledger").replace("None", "")
    named = re.findall(r"\b[A-Z]\w+", answer)
    assert [each for each in named if not any(hasattr(home, each) for home in (answers, types, ledger))] == []


PAGES = reference.pages()


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_of_the_api_are_those_that_the_docstrings_give(name: str) -> None:
    """``python tools/pages/reference.py`` writes them."""
    assert (reference.DOCS / name).read_text(encoding="utf-8") == PAGES[name]
