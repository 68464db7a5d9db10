"""The files of patterns next to this one, and what a text must have for a pattern of them to be tried.

A file is made of blocks with an empty line between them. A line of a block is ``name: value``; the indented lines after it
belong to its value. A line that begins with ``#`` is a comment. A block is a pattern or a part of patterns:

``label``       what a match is called
``begins``      beginnings of words, of which the first five letters count: a word of the text begins with one of them …
``signs``       … or one of these is in the text. Nothing is asked where both are missing
``has``         one of these texts is in the text too; several ``has`` must all hold. ``␣`` is a blank
``expression``  a regular expression; its lines are joined without anything between them, so none begins or ends with a blank
``part``        the name of a part: ``{name}`` in an expression stands for it, or for a value of that name in the same block

``has`` only saves time: it follows from the expression. ``begins`` and ``signs`` are a condition of their own. The files are
no TOML, for ``tomllib`` alone took as long as the first text of a process may.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from itertools import chain
from pathlib import Path

from ledger.guards.letters import HEAD

_NAME = re.compile(r"\{([a-z_]+)\}")
_BREAK = re.compile(r"\s*\n\s*")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")


class Pattern:
    """An expression with what a text must have for it to be tried; it is compiled when it first is."""

    def __init__(self, label: str, expression: str, flags: int, texts: dict[str, list[list[str]]]) -> None:
        self.label, self.expression, self._flags = label, expression, flags
        begins, self.signs = chain(*texts["begins"]), list(chain(*texts["signs"]))
        self.heads = {f"{each}{end}"[:HEAD].encode() for each in begins for end in ("", "s")}
        self.has = texts["has"]

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.expression, self._flags)

    def may_match(self, text: str) -> bool:
        """Whether ``has`` holds of a text in lower case. Plain loops: these are most of the time of a scan."""
        for texts in self.has:
            for each in texts:
                if each in text:
                    break
            else:
                return False
        return True


@cache
def read(name: str, flags: int = 0, fold: Callable[[str], str] = str) -> tuple[list[Pattern], dict[str, str]]:
    """The patterns and the parts of a file; letters beyond ASCII are folded as the texts are."""
    parts, patterns = dict[str, str](), list[Pattern]()
    for block in _blocks(Path(__file__).with_name(name).read_text(encoding="utf-8")):
        values = {key: _BREAK.sub("", value) for key, value in block}
        expression = values["expression"]
        known = parts | values
        while (whole := _NAME.sub(lambda found: known.get(found[1], found[0]), expression)) != expression:  # noqa: B023
            expression = whole
        expression = _BEYOND_ASCII.sub(lambda found: fold(found[0]), expression)
        if "part" in values:
            parts[values["part"]] = expression
        else:
            texts: dict[str, list[list[str]]] = {"begins": [], "signs": [], "has": []}
            for key, value in block:
                if key in texts:
                    texts[key].append([fold(each).replace("␣", " ") for each in value.split()])
            patterns.append(Pattern(values["label"], expression, flags, texts))
    return patterns, parts


def _blocks(text: str) -> Iterator[list[tuple[str, str]]]:
    """The names and values of each block."""
    lines = re.sub(r"(?m)^#.*\n", "", text).strip()
    for block in lines.split("\n\n"):
        pairs = (each.partition(":") for each in re.split(r"\n(?! )", block))
        yield [(key, value.strip()) for key, _, value in pairs]
