"""README and pages say what is true: their examples run, their links lead somewhere, and every table stands in one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from places import ROOT

README = ROOT / "README.md"
DOCS = ROOT / "ledger" / "docs"
PAGES = (README, *sorted(DOCS.glob("*.md")))
README_BYTES = 10_240
PRINTED: dict[
    str, tuple[tuple[str, ...], ...]
] = {  # page -> what each of its examples prints, in parts; the last one ends it
    "README": (("```memory\n- Ada prefers dark roast coffee.\n", "MemoryCaptured", "MemoryPromoted her own words\n"),),
    "consolidation": (("grouping/1 3 1 The user prefers dark roast coffee.\nTrue\n",),),
    "documents": (("True 1 1 True\n('Coffee', 'Water')\nreplaced True\n",),),
    "extraction": (
        ("2 1 ['The user lives in Lisbon.'] active\nuser said: I moved to Lisbon last week.\n", "superseded 0\n"),
    ),
    "graph": (("works_at out Acme 1\n", "co_occurs both New York 1\n", "['left', 'co_occurs'", "\nAna de Souza\n"),),
    "history": (("The vault is in Geneva.\n[True]\nTrue\ncompleted True\n",),),
    "jobs": (("['PostgreSQL for the archive']\n0 0\n",),),
    "merges-conflicts": (
        ("1 1\n", "2 The user drinks dark roast coffee", "ana: lives_in ['lisbon', 'rome'] True\n", "resolved True\n"),
    ),
    "models": (("The ships bring tea (asked for at most ", "prompt leaf/1).\n", "small leaf/1 True 1 1 0\n"),),
    "observations": (
        (
            "2 0.9 fresh strengthening dormant\n1 stale\nfresh\nTrue 0\n",
            "2026-01-10 True The user drinks coffee each morning.\n2026-02-20 False The user bought a coffee grinder.\n",
        ),
    ),
    "recall": (
        (
            "1 1.05 The user prefers green tea. {",
            "turn Which tea",
            "```memory\n- The user prefers green tea.\n```",
            "nothing found, 1 searched",
            "superseded by m_",
            "',)\n",
        ),
    ),
    "recall-observations": (
        (
            "1 0.95 Dark roast is",
            "'proof': 0.05} 3 new\n",
            "(3 sources, new)\n```\n() ('m_",
            ": stale, sources 3 → 2')\n",
        ),
    ),
    "sessions": (
        (
            "18 normal summarize 33\n",
            "True summary ('The user drinks green tea.',)\n<conversation_summaries>\n",
            "On day 9 comes ship number 9; it carries 9 tons of green tea.\n2 50\n",
            "True 1\n",
        ),
    ),
    "tutorial": (("The user prefers green tea.", "MemoryCaptured", "True\n"),),
    "vectors": (("letters 1 26\n1 {'letters': 1}\n",),),
}


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def examples(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", read(page), re.S)


def test_every_example_is_one_whose_output_is_known() -> None:
    assert {page.stem: len(examples(page)) for page in PAGES if examples(page)} == {
        name: len(outputs) for name, outputs in PRINTED.items()
    }


@pytest.mark.parametrize(
    ("name", "number"), [(name, at) for name, outputs in PRINTED.items() for at in range(len(outputs))]
)
def test_the_examples_run_as_they_stand(
    name: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = README if name == "README" else DOCS / f"{name}.md"
    exec(compile(examples(page)[number], page.name, "exec"), {})
    printed, expected = capsys.readouterr().out, PRINTED[name][number]
    assert [part for part in expected if part not in printed] == []
    assert printed.endswith(expected[-1])


def test_the_readme_is_short() -> None:
    assert len(README.read_bytes()) <= README_BYTES


def anchors(page: Path) -> set[str]:
    """The names by which a page's headings can be linked to."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", read(page), flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def links(page: Path) -> list[tuple[Path, str]]:
    """The files and anchors that a page links to, but for addresses elsewhere."""
    targets = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", read(page))
    return [((page.parent / file).resolve() if file else page, anchor) for file, anchor in targets]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [
        (file.name, anchor)
        for file, anchor in links(page)
        if not file.exists() or (anchor and anchor not in anchors(file))
    ] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [README]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            waiting += [file for file, _ in links(page)]
    assert set(PAGES) - reached == set()


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
