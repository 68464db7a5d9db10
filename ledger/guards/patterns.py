"""What the guards look for: ``patterns.json``, which ``tools/pages/guard_patterns.py`` makes of files that people write."""

from __future__ import annotations

import os
import re
from functools import cache, cached_property

import msgspec
from msgspec import Struct

PATH = os.path.join(os.path.dirname(__file__), "patterns.json")


class Pattern(Struct, omit_defaults=True, eq=False, dict=True):
    """An expression with what a text must have for it to be tried; it is compiled when it first is."""

    label: str
    expression: str
    flags: int = 0
    heads: tuple[str, ...] = ()  # a word of the text begins with one of these, or one of the signs is in it
    signs: tuple[str, ...] = ()
    has: tuple[tuple[str, ...], ...] = ()  # of each one is in the text

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.expression, self.flags)

    def may_match(self, text: str) -> bool:
        """Whether ``has`` holds of a text in lower case. Plain loops: these are most of the time of a scan."""
        for texts in self.has:
            for each in texts:
                if each in text:
                    break
            else:
                return False
        return True


class Patterns(Struct, omit_defaults=True):
    """Those of one scanner, and its expressions for other ends, by name."""

    patterns: tuple[Pattern, ...]
    parts: dict[str, str] = {}


@cache
def read() -> dict[str, Patterns]:
    """By the name of the scanner."""
    with open(PATH, "rb") as file:
        return msgspec.json.decode(file.read(), type=dict[str, Patterns])


@cache
def part(scanner: str, name: str) -> re.Pattern[str]:
    """Return an expression of a scanner that is asked for by its name."""
    return re.compile(read()[scanner].parts[name])
