"""The patterns of the guards, from ``patterns.json``, which ``guard_patterns.py`` makes from ``tools/pages/patterns``.

The rule "claims/1" is one of these patterns: a model's claim that a tool is unable to do something must not become a memory.
"The edit tool fails on large files" is true of one moment and one machine; as a memory it keeps an agent from trying again.
rubino refuses such claims where facts are inserted; its pattern is not known, so the pattern is our own. The rule is applied
to extracted texts, never to texts that a person writes.
"""

from __future__ import annotations

import re
from functools import cache, cached_property

import msgspec
from msgspec import Struct

MARK_BEGINS = "[redacted:"  # the beginning of the mark of a secret that was taken out
PATH = __file__.removesuffix(".py") + ".json"


class ScannerPattern(Struct, omit_defaults=True, eq=False, dict=True):
    """An expression, compiled at first use, with the texts that must occur before it is tried."""

    label: str
    expression: str
    flags: int = 0
    heads: tuple[str, ...] = ()  # beginnings of words; a text must have one of them, or one of the signs
    signs: tuple[str, ...] = ()
    has: tuple[tuple[str, ...], ...] = ()  # groups of words; a text must have one of each group
    beliefs_only: bool = False  # a match in a turn, message or document is no finding

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.expression, self.flags)

    def may_match(self, text: str) -> bool:
        """Return True if a text in lower case satisfies ``has``."""
        # Plain loops, because most of the time of a scan is spent here.
        for group in self.has:
            for needle in group:
                if needle in text:
                    break
            else:
                return False
        return True


class ScannerPatterns(Struct, omit_defaults=True):
    """The patterns of a scanner, and its named expressions for other purposes."""

    patterns: tuple[ScannerPattern, ...]
    parts: dict[str, str] = {}


_held: dict[str, dict[str, ScannerPatterns]] = {}  # of the file; threads that read it at the same time keep the first's


def read() -> dict[str, ScannerPatterns]:
    """Return the patterns by the name of the scanner: the same objects to every thread, since patterns are equal by identity."""
    if (known := _held.get(PATH)) is not None:
        return known
    with open(PATH, "rb") as file:
        return _held.setdefault(PATH, msgspec.json.decode(file.read(), type=dict[str, ScannerPatterns]))


@cache
def part(scanner: str, name: str) -> re.Pattern[str]:
    """Return a named expression of a scanner."""
    return re.compile(read()[scanner].parts[name])


def is_tool_limitation(text: str) -> bool:
    """Return True if a text claims that a tool, or the agent itself, cannot do something."""
    (claim,) = read()["claims"].patterns
    return claim.compiled.search(text) is not None
