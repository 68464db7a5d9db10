"""Regular expressions that are compiled when they are first used: most of what a process loads it never asks."""

from __future__ import annotations

import re
from functools import cached_property
from typing import cast


class _Late:
    def __init__(self, expression: str, flags: int) -> None:
        self._expression, self._flags = expression, flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._expression, self._flags)

    def __getattr__(self, name: str) -> object:
        """Reached once for each name: from then on it is found as any attribute is."""
        found = getattr(self._compiled, name)
        setattr(self, name, found)
        return found


def late(expression: str, flags: int = 0) -> re.Pattern[str]:
    """What ``re.compile`` gives, to call methods of."""
    return cast("re.Pattern[str]", _Late(expression, flags))
