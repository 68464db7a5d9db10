"""The pages of the documentation, which are part of the wheel."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from ledger.domain.errors import NotFoundError

DOCS = Path(__file__).resolve().parent.parent / "docs"
FIRST = (  # the pages that the README names first
    *("ten-calls", "tutorial", "coding-agents", "chat-loop", "concepts"),
    *("learning", "undo", "deployment", "operations", "api"),
)


class PageOfDocs(Struct, frozen=True):
    """A page of the documentation: the name that ``docs PAGE`` takes, and what the page's first sentence says it is about."""

    page: str
    about: str


class ManualHit(Struct, frozen=True):
    """A line of a page that matches a search."""

    page: str
    line: int
    text: str


def pages() -> list[PageOfDocs]:
    return [PageOfDocs(_name(path), _about(path)) for path in _files()]


def _files() -> list[Path]:
    """Return the files of the pages: the ten to begin with, the other pages to read, and the pages to look things up."""

    def place(path: Path) -> tuple[int, bool, Path]:
        begins = FIRST.index(_name(path)) if _name(path) in FIRST else len(FIRST)
        return begins, "Look up here" in path.read_text(encoding="utf-8")[:400], path

    return sorted(DOCS.rglob("*.md"), key=place)


def _name(path: Path) -> str:
    return path.relative_to(DOCS).with_suffix("").as_posix()


def _about(path: Path) -> str:
    """Return what a page is about: its first sentence without the words that every page begins with."""
    body = path.read_text(encoding="utf-8").partition("\n")[2].strip().partition("\n\n")[0]
    sentence = " ".join(body.split()).split(". ")[0].rstrip(".") + "."
    about = re.sub(r"^(After this page (you (can|know) )?|Look up here )", "", sentence)
    about = re.sub(r"\[([^][]+)\]\([^][()]+\)", r"\1", about)  # a link is its text in a shell
    return about[0].upper() + about[1:]


def file(page: str) -> Path:
    """Return the file of a page.

    Raises:
        NotFoundError: There is no such page.
    """
    for path in _files():
        if _name(path) == page.removesuffix(".md"):
            return path
    part = re.compile(rf"^## {re.escape(page.removesuffix('.md').replace('-', ' '))}$", re.MULTILINE | re.IGNORECASE)
    around = [_name(path) for path in _files() if part.search(path.read_text(encoding="utf-8"))]
    near = difflib.get_close_matches(page.replace(" ", "-"), map(_name, _files()), n=1)
    if around:
        hint = f"; the page {around[0]} has a part with this name"
    elif near:
        hint = f"; did you mean {near[0]}?"
    else:
        hint = "; `memory-ledger docs` lists the pages, docs --words searches them"
    raise NotFoundError(f"there is no page {page!r:.60}{hint}")


def search(words: Sequence[str], page: str | None = None) -> list[ManualHit]:
    """Return the lines of a page, or of all pages, that contain all of these words; capitals make no difference."""
    folded = [word.casefold() for word in words]
    files = _files() if page is None else [file(page)]
    return [
        ManualHit(_name(path), number, line.strip())
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if all(word in line.casefold() for word in folded)
    ]


def show(text: str) -> None:
    """Show a page in a terminal through a pager, without wrapping lines of code."""
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import CodeBlock, Markdown
    from rich.syntax import Syntax

    class Code(CodeBlock):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            code = Syntax("", self.lexer_name, theme=self.theme).highlight(str(self.text).rstrip())
            code.rstrip()
            yield from console.render(code, options.update(no_wrap=True, overflow="ignore"))

    class ManualPage(Markdown):
        elements: ClassVar = {**Markdown.elements, "fence": Code, "code_block": Code}

    os.environ.setdefault("LESS", "FRX")  # less shows colors, and exits at once if the page fits on one screen
    console = Console()
    with console.pager(styles=True):
        console.print(ManualPage(text), crop=False)
