"""README and pages say what is true: their examples run, their links lead somewhere, and every table stands in one."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from places import ROOT

from ledger.cli.derive import parsed_call
from ledger.cli.manual import show
from ledger.cli.output import Usage
from ledger.core.settings import FIELDS, PREFIX
from tools.pages.page_examples import RULE, as_run, blocks
from tools.pages.reference import known_calls, surface

README = ROOT / "README.md"
DOCS = ROOT / "ledger" / "docs"
PAGES = (README, *sorted(DOCS.rglob("*.md")))
README_BYTES = 10_240
PAGE_BYTES = {1: range(2_048, 10_241), 2: range(10_241, 16_385)}  # by the parts of a page
PAGES_AT_MOST = 60
LINE_CHARS = 130
GENERATED = re.compile(r"api(-.*)?|commands|events|schema")
WRITTEN = [page for page in PAGES[1:] if not GENERATED.fullmatch(page.stem)]


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(read(page))], ids=lambda page: page.stem)
def test_the_examples_of_a_page_print_what_stands_below_them(page: Path) -> None:
    """What differs is written by ``python tools/pages/page_examples.py --update``; read it before you commit it."""
    assert as_run(read(page)) == read(page)


def test_few_examples_do_not_run_and_each_says_why() -> None:
    others = [each.remark for page in PAGES for each in blocks(read(page)) if not each.runs]
    assert len(others) <= 10 and all(re.fullmatch(r" no-run: \w.{10,}", each) for each in others)


def test_the_pages_are_few() -> None:
    """Generated pages count. A new page takes the place of one that is joined or deleted."""
    assert len(PAGES[1:]) <= PAGES_AT_MOST


def test_the_readme_is_short() -> None:
    assert len(README.read_bytes()) <= README_BYTES


READ_WHOLE = [page for page in WRITTEN if page.stem not in ("measured", "changelog", "index")]


@pytest.mark.parametrize("page", READ_WHOLE, ids=lambda page: page.stem)
def test_a_page_has_one_topic_and_is_read_in_one_go(page: Path) -> None:
    """``measured.md`` is all tables, a changelog is looked up and grows, and an index is short.

    Two subjects that are asked for together may share a page, with a rule between them; alone each would be short.
    """
    assert len(page.read_bytes()) in PAGE_BYTES[len(read(page).split(RULE))]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)
def test_no_line_of_prose_is_long(page: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```$", "", read(page), flags=re.M | re.S)
    lines = [line for line in prose.splitlines() if not line.lstrip().startswith("|")]
    assert [line for line in lines if len(line) > LINE_CHARS] == []


def anchors(page: Path) -> set[str]:
    """The names by which a page's headings can be linked to."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", read(page), flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def links(page: Path) -> list[tuple[Path, str]]:
    """The files and anchors that a page links to, but for addresses elsewhere."""
    targets = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", read(page))
    return [((page.parent / file).resolve() if file else page, anchor) for file, anchor in targets]


@pytest.mark.parametrize("page", [*PAGES, *(ROOT / "ledger" / "doors").rglob("*.md")], ids=lambda page: page.stem)
def test_a_line_that_installs_the_package_stands_beside_the_one_for_a_checkout(page: Path) -> None:
    text = read(page)
    extras = re.findall(r'pip install "belief-ledger\[(\w+)\]"', text)
    assert [extra for extra in extras if not re.search(rf"""pip install ['"]\.\[{extra}\]""", text)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [
        (file.name, anchor)
        for file, anchor in links(page)
        if not file.exists() or (anchor and anchor not in anchors(file))
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_link_leads_to_the_top_of_its_own_page(page: Path) -> None:
    title = re.sub(r"[^\w\- ]", "", read(page).partition("\n")[0].removeprefix("# ")).lower().replace(" ", "-")
    assert [anchor for file, anchor in links(page) if file == page and anchor in ("", title)] == []


def spans(page: Path) -> list[str]:
    """What stands between backticks in its prose."""
    return re.findall(r"`+([^`\n]+)`+", re.sub(r"^ *```.*?^ *```$", "", read(page), flags=re.M | re.S))


AREAS = "|".join(each.partition(".")[2] for each in surface() if "." in each)
CALLED = re.compile(rf"(?<![\w./-])(?:ledger\.)?((?:{AREAS})\.[a-z_]+)\b|(?<![\w./-])(?:ledger|session)\.([\w.]+)\(")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_call_that_a_page_names_is_there(page: Path) -> None:
    called = {"".join(each) for span in spans(page) for each in CALLED.findall(span)}
    assert called - known_calls() == set()


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != "commands"], ids=lambda page: page.stem)
def test_every_command_that_a_page_names_parses(page: Path) -> None:
    for span in spans(page):
        if span.startswith("memory-ledger ") and not re.search(r"COMMAND|…$", span):
            try:
                parsed_call(shlex.split(span)[1:])
            except Usage as error:  # one that is only named has no arguments
                assert "requires an argument" in str(error), span


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [README]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            waiting += [file for file, _ in links(page)]
    assert set(PAGES) - reached == set()


def test_the_menu_of_the_site_has_every_page_once() -> None:
    site = tomllib.loads((ROOT / "tools" / "pages" / "zensical.toml").read_text(encoding="utf-8"))
    named = [page for group in site["project"]["nav"] for pages in group.values() for page in pages]
    assert sorted(named) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES[1:])


@pytest.mark.parametrize(
    "table",
    [
        "events",
        "blobs",
        "memories",
        "confidence_steps",
        "audit",
        "checkpoint",
        "leases",
        "vectors",
        "messages",
        "summaries",
        "observations",
        "evidence",
    ],
)
def test_every_table_that_others_may_read_is_documented(table: str) -> None:
    assert f"`{table}`" in read(DOCS / "schema.md")


@pytest.mark.parametrize("setting", FIELDS)
def test_every_setting_is_documented_with_its_variable(setting: str) -> None:
    assert f"| `{setting}` | `{PREFIX}{setting.upper()}` |" in read(DOCS / "settings.md")


PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]*)\)")


def test_each_picture_is_small_has_words_and_stands_on_a_page() -> None:
    shown = [(words, (page.parent / file).resolve()) for page in PAGES for words, file in PICTURE.findall(read(page))]
    assert {file for _, file in shown} == set(DOCS.glob("*.png"))
    assert [file.name for words, file in shown if len(words) < 20 or file.stat().st_size > 60_000] == []


def test_a_terminal_shows_the_words_of_a_picture(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", "cat")
    show(read(DOCS / "web.md"))
    told = " ".join(capsys.readouterr().out.split())
    assert "The beliefs of a project, with their confidence" in told and "web-beliefs.png" not in told
