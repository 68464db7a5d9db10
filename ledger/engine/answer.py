"""What every answer has: it is a frozen object, and plain data on request."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct


class Answer(Struct, frozen=True, kw_only=True):
    """Something that a call returns, with the same names in Python and in ``--json``."""

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as dictionaries, lists, strings and numbers, ready for JSON."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain
