"""What every answer has: it is a frozen object, and plain data on request."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct


class Answer(Struct, frozen=True, kw_only=True):
    """Something that a call returns, with the same names in Python and in ``--json``."""

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as dictionaries, lists, strings and numbers, ready for JSON."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


A = TypeVar("A", bound=Answer)


def answer_of(kind: type[A], state: Struct, **different: Any) -> A:
    """Return the answer with every field that the state has under the same name and type, and with what is ``different``."""
    return kind(**{name: getattr(state, name) for name in _shared(kind, type(state))} | different)


@cache
def _shared(kind: type[Answer], state: type[Struct]) -> tuple[str, ...]:
    types = state.__annotations__  # as they are written
    return tuple(name for name, type in kind.__annotations__.items() if types.get(name) == type)
