"""The pages of the documentation, which the wheel has with it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from ledger.domain.errors import NotFoundError

DOCS = Path(__file__).resolve().parent.parent / "docs"


class PageOfDocs(Struct, frozen=True):
    """A page by the name that ``docs PAGE`` takes, with its first sentence."""

    page: str
    about: str


class Line(Struct, frozen=True):
    """A line that holds what was searched for."""

    page: str
    line: int
    text: str


def pages() -> list[PageOfDocs]:
    return [PageOfDocs(_name(each), _about(each)) for each in _files()]


def _files() -> list[Path]:
    """Those that are read from the beginning to the end first, then those where something is looked up."""
    return sorted(DOCS.rglob("*.md"), key=lambda each: ("Look up here" in each.read_text(encoding="utf-8")[:400], each))


def _name(path: Path) -> str:
    return path.relative_to(DOCS).with_suffix("").as_posix()


def _about(path: Path) -> str:
    """The first sentence under the heading."""
    body = path.read_text(encoding="utf-8").partition("\n")[2].strip().partition("\n\n")[0]
    return " ".join(body.split()).split(". ")[0].rstrip(".") + "."


def file(page: str) -> Path:
    for each in _files():
        if _name(each) == page.removesuffix(".md"):
            return each
    near = difflib.get_close_matches(page.replace(" ", "-"), map(_name, _files()), n=1)
    hint = f"; did you mean {near[0]}?" if near else "; `memory-ledger docs` lists them, docs --words searches them"
    raise NotFoundError(f"there is no page {page!r:.60}{hint}")


def found(words: Sequence[str], page: str | None = None) -> list[Line]:
    """The lines that hold every one of these texts, in any case; of one page or of all."""
    wanted = [each.casefold() for each in words]
    files = _files() if page is None else [file(page)]
    return [
        Line(_name(path), number, line.strip())
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if all(each in line.casefold() for each in wanted)
    ]


def show(text: str) -> None:
    """The page as a terminal shows it, through a pager; lines of code are as long as they are."""
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import CodeBlock, Markdown
    from rich.syntax import Syntax

    class Code(CodeBlock):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            code = Syntax("", self.lexer_name, theme=self.theme).highlight(str(self.text).rstrip())
            code.rstrip()
            yield from console.render(code, options.update(no_wrap=True, overflow="ignore"))

    class Page(Markdown):
        elements: ClassVar = {**Markdown.elements, "fence": Code, "code_block": Code}

    os.environ.setdefault("LESS", "FRX")  # colors as such; one screen without a pager
    console = Console()
    with console.pager(styles=True):
        console.print(Page(text), crop=False)
