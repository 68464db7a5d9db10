"""The vocabulary: what a user reads uses the field's words, one for each thing, and names what exists."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from cyclopts import App
from places import ROOT

import ledger
from ledger import answers, types
from ledger.cli.derive import root
from ledger.doors import pytest_plugin
from projections.core.projector import projections
from tools.pages import reference

PRODUCT = sorted(each for room in ("ledger", "projections") for each in (ROOT / room).rglob("*.py"))
BANNED = {  # what to say instead
    r"told|tells of": "given, shows, reports",
    r"otherwise since|believed otherwise": "what changed, differs",
    r"(out of|in) force": "void, in effect",
    r"bears? (it |nothing )?out|borne out|witness(es)?": "supports, source, evidence",
    r"beneath": "underlying",
    r"moot": "obsolete",
    r"(is|was|are) parked": "suspended",
    r"receipts? of (an |all )?erasures?": "certificate",
    r"undetermined": "uncertain",
    r"(un)?settled|served": "resolved, lapsed, delivered",
    r"beside": "next to, besides",
    r"(un)?telling": "significant",
    r"what was said|nothing was said": "messages, content, text",
    r"mined|mining": "extracted",
    r"(come|comes|came) out otherwise|(held|stands?|reads) otherwise": "differs, changed",
    r"(goes|takes|taken|brings) along": "with it, cascaded",
    r"anew": "again",
    r"(is|was|are|were) taken in|takes in|ingest(s|ed|ion)?": "add, import",
    r"surest": "most confident",
    r"for want of": "without",
    r"the way back|the road": "undo, write path",
    r"travellers?": "past views",
    r"twins?": "duplicate",
    r"sayings?": "statements",
    r"summaris\w+": "summarizer, summarize",
    r"neighbour\w*": "neighbor",
    r"(adopt_policy|attach_response|run_policies|seed_extraction)": "the public name",
    r"(set_summary|response_summary|context_pack|session_id)": "the public name",
}
WORDS = re.compile("|".join(rf"\b(?:{each})\b" for each in BANNED), re.IGNORECASE)


def raised(path: Path) -> Iterator[tuple[int, str]]:
    """The texts in what a file raises, or hands to somebody who does."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and node.exc is not None:
            for each in ast.walk(node.exc):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each.lineno, each.value


@pytest.mark.parametrize("path", PRODUCT, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_raised_has_the_words_of_the_field(path: Path) -> None:
    assert [(line, text) for line, text in raised(path) if WORDS.search(text)] == []


# --- what is read besides ---------------------------------------------------------------------------------------------

PAGES = (ROOT / "README.md", *sorted((ROOT / "ledger" / "docs").glob("*.md")))
ALLOWED = {  # page -> texts in which a banned word is right
    "sql": ("`session_id`",),  # a column next to `session`, which is the name
    "import-export": ("`response_summary`", "`session_id`", "`context_pack`"),  # of the files that are read
}


def docstrings() -> dict[str, str]:
    """What every public class, method and property says about itself, by its name."""
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
    """What a module loads when it is asked for."""
    return list(module._HOMES)


def _members(of: str, each: type) -> Iterator[tuple[str, str]]:
    for name, value in vars(each).items():
        if not name.startswith("_") and (isinstance(value, property) or inspect.isfunction(value)):
            yield f"{of}.{name}", inspect.getdoc(value) or ""


def commands(app: App, name: str = "") -> Iterator[tuple[str, str]]:
    """The help of every command of the command line, and of each of its parameters."""
    yield name, f"{app.help} {app.help_epilogue}"
    if app.default_command is not None:
        for each in inspect.signature(app.default_command).parameters.values():
            yield f"{name} {each.name}", get_args(each.annotation)[-1].help
    for under in app:
        if not under.startswith("-"):
            yield from commands(app[under], f"{name} {under}".strip())


def banned(texts: dict[str, str]) -> dict[str, list[str]]:
    found = {name: [match.group() for match in WORDS.finditer(text)] for name, text in texts.items()}
    return {name: words for name, words in found.items() if words}


def test_public_docstrings_have_the_words_of_the_field() -> None:
    assert banned(docstrings()) == {}


def test_the_help_of_the_command_line_has_the_words_of_the_field() -> None:
    texts = dict(commands(root(whole=True)))
    assert "memories list kinds" in texts and banned(texts) == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_have_the_words_of_the_field(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for allowed in ALLOWED.get(page.stem, ()):
        text = text.replace(allowed, "")
    assert banned({page.stem: text}) == {}


# --- names inside -----------------------------------------------------------------------------------------------------

WORDS_OF_NAMES = {  # a part of a name -> what to say instead
    "told|retold|heard|said|unsaid|saying|sayings": "what it is: given, options, shown, text, stated",
    "telling": "significant",
    "standing": "status, current, what is in use",
    "borne|bears|witness|evident": "supports, source, evidence",
    "beneath": "underlying",
    "beside": "what it is next to something",
    "parked|park|parks": "suspended, suspend",
    "served": "delivered",
    "moot|settled|unsettled|settle": "obsolete, resolved, lapsed",
    "undetermined": "uncertain",
    "otherwise": "differs, changed, alternative",
    "twin|twins": "duplicate",
    "mine|mined|mining|miner": "extract, own",
    "traveller|travellers|travelling": "past views",
    "anew": "again",
    "along": "cascaded",
    "surest|picture": "most confident, diagram",
    r"summaris\w+": "summarize, summarizer",
    r"neighbour\w*": "neighbor",
    "force": "void, in effect",
    r"ingest\w*": "add, import",
}
PART = re.compile("|".join(rf"(?:{each})" for each in WORDS_OF_NAMES))
AS_THEY_ARE = {  # names that are somebody else's, or were promised
    "force": "an option of compact()",
    "ingest": "a command of the command line",
    "IngestReport": "an answer of documents.add()",
    "said_by": "a field of what a model answers",
}


def named(path: Path) -> Iterator[str]:
    """What a file gives a name to: modules, classes, functions, parameters, variables and attributes."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname


def misnamed(names: Iterable[str]) -> list[str]:
    parts = {
        name: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_") for name in {*names} - AS_THEY_ARE.keys()
    }
    return sorted(name for name, each in parts.items() if any(PART.fullmatch(part) for part in each))


@pytest.mark.parametrize("path", PRODUCT, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_inside_have_the_words_of_the_field(path: Path) -> None:
    assert misnamed(named(path)) == []


def test_tables_and_columns_have_the_words_of_the_field() -> None:
    tables = [(each.name, table) for each in projections(b"") for table in each.tables]
    columns = {column.split()[0] for _, table in tables for column in table.columns}
    assert misnamed({*columns, *(name for name, _ in tables), *(table.name for _, table in tables)}) == []


# --- what is named exists ---------------------------------------------------------------------------------------------

CALL = re.compile(r"(?<![\w.=/])((?:[A-Za-z]\w*\.)*[a-z_]\w*)\(")
OTHERS = {  # of a page; of what somebody plugs in; of a tool; to come
    "page.all",
    "memory.effective_confidence",
    "answer",
    "embed",
    "factory",
    "replay",
}


def calls(text: str) -> set[str]:
    """What is named as a call in a text: ``history.trust(…)``, ``rebuild()``."""
    return set(CALL.findall(text))


@functools.cache
def known() -> frozenset[str]:
    named = vars(answers) | {name: getattr(answers, name) for name in lazy(answers)}
    named |= {name: getattr(ledger, name) for name in ledger.__all__}
    own = {f"{name}.{part}" for name, each in named.items() for part in dir(each)}
    members = {part for each in named.values() if isinstance(each, type) for part in dir(each)}
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
