"""The interface of a caller's own scanner of threats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol


class Scanner(Protocol):
    """A caller's own scanner. Its ``name`` has a version, as in "mine/2". A finding is a label or has a ``label``."""

    @property
    def name(self) -> str: ...

    def scan(self, text: str, /) -> Iterable[Any]: ...
