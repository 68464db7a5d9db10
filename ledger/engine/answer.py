"""What every answer has: it is a frozen object, and plain data on request."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import takewhile
from typing import Any, TypeVar

import msgspec
from msgspec import Struct


class Answer(Struct, frozen=True, kw_only=True):
    """Something that a call returns, with the same names in Python and in ``--json``."""

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as dictionaries, lists, strings and numbers, ready for JSON."""
        plain: dict[str, object] = msgspec.json.decode(msgspec.json.encode(self))
        return plain


A = TypeVar("A", bound=Answer)


def answer_of(kind: type[A], state: Struct, /, **different: object) -> A:
    """Return the answer with every field that the state has under the same name and type, and with what is ``different``."""
    made: A = _call(kind, type(state), tuple(different))(kind, state, different)
    return made


@cache
def _call(kind: type[Answer], state: type[Struct], different: tuple[str, ...]) -> Callable[..., Any]:
    """The call with every field written out, by place where the answer allows it: msgspec looks for each name among all."""
    types = state.__annotations__  # as they are written
    fields = {name: f"state.{name}" for name, type in kind.__annotations__.items() if types.get(name) == type}
    fields |= {name: f"different[{name!r}]" for name in different}
    by_place = takewhile(fields.__contains__, kind.__match_args__)
    values = [fields.pop(name) for name in by_place] + [f"{name}={value}" for name, value in fields.items()]
    call: Callable[..., object] = eval(f"lambda kind, state, different: kind({', '.join(values)})")
    return call
