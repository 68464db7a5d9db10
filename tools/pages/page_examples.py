"""A runner of the examples in the pages, which writes their output below them: ``page_examples.py [--update] [PAGE …]``.

A page is one session: its blocks run in order, in one namespace and one empty directory. In a page of several parts, each begun
by a rule (``---``), each part is a session. A ``python`` block shows each printed line as ``#> …`` below the statement that
prints it; a ``console`` block holds ``$ memory-ledger …`` lines, each with its output (``$ NAME=$(memory-ledger … --quiet)``
keeps an id for ``$NAME``). Clock and randomness are the same in every run; other values that differ from run to run (ids of
commands, hashes) are replaced by steady values of the same length.
A block that cannot run names the reason: ``python no-run: it needs a key of a provider``.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import itertools
import logging
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, NamedTuple, cast
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import ledger.aio  # noqa: E402, F401  # made of Ledger's methods at import: before an example replaces one
from ledger import Ledger  # noqa: E402

DOCS = ROOT / "ledger" / "docs"
README = ROOT / "README.md"
BLOCK = re.compile(r"^```(python|console)([^\n]*)\n(.*?)^```$", re.M | re.S)
RULE = "\n\n---\n\n"  # between two parts of a page
OUTPUT = re.compile(r"^ *#>.*\n", re.M)
UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
HASH = re.compile(r"\b[0-9a-f]{64}\b")
CURSOR = re.compile(r"(?<=--after )[\w-]+")
BEGIN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


class Block(NamedTuple):
    """An example: its language, the rest of the line behind that, its text, and the place of the text in the page."""

    language: str
    remark: str
    text: str
    start: int
    end: int

    @property
    def runs(self) -> bool:
        return not self.remark.strip().startswith("no-run")


def blocks(page: str) -> list[Block]:
    return [Block(match[1], match[2], match[3], match.start(3), match.end(3)) for match in BLOCK.finditer(page)]


def as_run(page: str) -> str:
    """Return the page with the output of its examples as it is today."""
    return RULE.join(_part_as_run(part) for part in page.split(RULE))


def _part_as_run(page: str) -> str:
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        session = Session()
        parts, end = [], 0
        for block in blocks(page):
            session.run(block)
        for block, text in zip(blocks(page), session.texts(), strict=True):
            parts += [page[end : block.start], text]
            end = block.end
    return "".join([*parts, page[end:]])


class Session:
    """The blocks of one page, run one after the other."""

    def __init__(self) -> None:
        self._namespace: dict[str, object] = {"__name__": "__main__", "print": self._print}
        self._sources: list[str] = []
        self._printed: dict[tuple[int, int], list[str]] = {}  # (block, line) -> the printed texts
        self._names: dict[str, str] = {}
        self._known: dict[str, str] = {}  # value that differs in each run -> its steady value
        self._clock = (BEGIN + timedelta(minutes=number) for number in itertools.count())
        self._random = Random(7)

    def run(self, block: Block) -> None:
        number = len(self._sources)
        if not block.runs:
            self._sources.append(block.text)
        elif block.language == "python":
            source = OUTPUT.sub("", block.text)
            self._sources.append(source)
            with self._surroundings():
                exec(compile(source, f"block {number}", "exec"), self._namespace)
        else:
            self._sources.append("".join(self._console(block.text)))

    def texts(self) -> Iterator[str]:
        """Yield each block with its output."""
        for number, source in enumerate(self._sources):
            printed = {line: texts for (block, line), texts in self._printed.items() if block == number}
            yield _with_output(source, printed) if printed else source

    def _print(self, *values: object, sep: str = " ", end: str = "\n", **_: object) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not frame.f_code.co_filename.startswith("block "):
            frame = frame.f_back
        assert frame is not None
        place = int(frame.f_code.co_filename.removeprefix("block ")), frame.f_lineno
        self._printed.setdefault(place, []).append(self._steady(sep.join(map(str, values)) + end))

    def _console(self, text: str) -> Iterator[str]:
        for command in re.findall(r"^\$ ((?:.*\\\n)*.*)\n", text, re.M):
            yield f"$ {command}\n"
            words = re.sub(r"\\\n", " ", command)
            kept = re.fullmatch(r"(\w+)=\$\((.*)\)", words.strip())
            output = self._shell(kept[2] if kept is not None else words)
            if kept is not None:
                self._names[kept[1]] = output.strip().splitlines()[0]
            else:
                yield output

    def _shell(self, words: str) -> str:
        from ledger.cli import app

        arguments = shlex.split(words, comments=True)
        for name, value in self._names.items():
            arguments = [re.sub(rf"\${name}\b", value, argument) for argument in arguments]
        assert arguments[0] == "memory-ledger", (
            f"a console block can only run memory-ledger, and this command does not begin with that name: {words!r}"
        )
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with (
            self._surroundings(),
            mock.patch.multiple(sys, stdout=out, stderr=out, stdin=io.TextIOWrapper(io.BytesIO(), encoding="utf-8")),
        ):
            app.run(arguments[1:])
        lines = out.buffer.getvalue().decode("utf-8").splitlines()
        return self._steady("".join(line.rstrip() + "\n" for line in lines))

    def _steady(self, text: str) -> str:
        """Return the text with steady values, numbered in order of appearance, for the values that differ in each run."""
        for pattern in (UUID, HASH, CURSOR):
            for value in pattern.findall(text):
                if value not in self._known:
                    digits = sha256(str(len(self._known)).encode()).hexdigest()
                    uuid = f"01a20000-{digits[:4]}-7{digits[4:7]}-8{digits[7:10]}-{digits[10:22]}"
                    self._known[value] = {UUID: uuid, HASH: digits, CURSOR: digits[:20]}[pattern]
                text = text.replace(value, self._known[value])
        return text

    @contextlib.contextmanager
    def _surroundings(self) -> Iterator[None]:
        """Run the body without a person's own settings, with ledgers whose time and ids are the same in every run."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(("LEDGER_", "MEMORY_LEDGER_"))}
        real = cast("Any", Ledger.open).__func__

        def opened(kind: type[Ledger], *arguments: Any, **options: Any) -> Ledger:
            steady: dict[str, Any] = {"clock": lambda: next(self._clock), "random": self._random.randbytes}
            given = {name: value for name, value in options.items() if value is not None}
            return cast("Ledger", real(kind, *arguments, **(steady | given)))

        logger = logging.getLogger("ledger")
        level, handlers = logger.level, logger.handlers[:]
        with (
            mock.patch.dict(os.environ, own | {"COLUMNS": "80"}, clear=True),
            mock.patch.object(Ledger, "open", classmethod(opened)),
        ):
            yield
        logger.handlers[:] = handlers
        logger.setLevel(level)


def _with_output(source: str, printed: dict[int, list[str]]) -> str:
    """Return the source with ``#>`` lines below the statements that printed."""
    ends: dict[int, int] = {}
    statements = [item for item in ast.walk(ast.parse(source)) if isinstance(item, ast.Expr)]
    for line in printed:
        around = [item for item in statements if item.lineno <= line <= (item.end_lineno or item.lineno)]
        ends[max(item.end_lineno or line for item in around)] = line
    lines = []
    for number, text in enumerate(source.splitlines(), 1):
        lines.append(text)
        if number in ends:
            indent = " " * (len(text) - len(text.lstrip()))
            shown = "".join(printed[ends[number]]).splitlines() or [""]
            lines += [f"{indent}#> {item}".rstrip() for item in shown]
    return "".join(item + "\n" for item in lines)


def pages() -> list[Path]:
    return [README, *sorted(DOCS.rglob("*.md"))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write what they print into the pages")
    parser.add_argument("page", nargs="*", help="pages by name; all of them without")
    options = parser.parse_args()
    different = 0
    for path in pages():
        text = path.read_text(encoding="utf-8")
        if (options.page and path.stem not in options.page) or not blocks(text):
            continue
        today = as_run(text)
        if today != text:
            different += 1
            print(f"{path.relative_to(ROOT)}: {'written' if options.update else 'differs'}")
            if options.update:
                path.write_text(today, encoding="utf-8")
    return 1 if different and not options.update else 0


if __name__ == "__main__":
    sys.exit(main())
