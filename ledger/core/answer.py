"""The base class of every answer: a frozen object that turns into plain data on request."""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import cache
from itertools import takewhile
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

LINE_CHARS, TEXT_CHARS = 120, 36  # the most characters of a repr, and of each text in it


class Answer(Struct, frozen=True, kw_only=True):
    """The answer of a call, with the same names in Python and in ``--json``."""

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as dictionaries, lists, strings and numbers, ready for JSON."""
        plain: dict[str, object] = msgspec.json.decode(msgspec.json.encode(self))
        return plain

    def __repr__(self) -> str:
        """Return one short line: ids, states, numbers, the size of collections and the beginning of texts; nothing empty."""
        shown, left = list[str](), LINE_CHARS
        for name in self.__struct_fields__:
            if (value := getattr(self, name)) not in (None, "", (), [], {}):
                shown.append(f"{name}={_short(value)}")
                left -= len(shown[-1]) + 2
            if left < 0:
                shown[-1] = "…"
                break
        return f"{type(self).__name__}({', '.join(shown)})"


def _short(value: object) -> str:
    if isinstance(value, Struct):
        return f"{type(value).__name__}({getattr(value, 'id', '…')})"
    if isinstance(value, Sized) and not isinstance(value, str | bytes):
        return f"{len(value)} items" if len(value) != 1 else "1 item"
    return repr(value if not isinstance(value, str) or len(value) <= TEXT_CHARS else value[: TEXT_CHARS - 1] + "…")


A = TypeVar("A", bound=Answer)


def answer_of(kind: type[A], state: Struct, /, **different: object) -> A:
    """Return an answer with the state's fields of the same name and type, and with the ``different`` fields."""
    answer: A = _call(kind, type(state), tuple(different))(kind, state, different)
    return answer


@cache
def _call(kind: type[Answer], state: type[Struct], different: tuple[str, ...]) -> Callable[..., Any]:
    """Return a call with every field written out, by position where possible, because msgspec is slow with keywords."""
    types = state.__annotations__  # as text
    fields = {name: f"state.{name}" for name, type in kind.__annotations__.items() if types.get(name) == type}
    fields |= {name: f"different[{name!r}]" for name in different}
    by_place = takewhile(fields.__contains__, kind.__match_args__)
    values = [fields.pop(name) for name in by_place] + [f"{name}={value}" for name, value in fields.items()]
    call: Callable[..., object] = eval(f"lambda kind, state, different: kind({', '.join(values)})")
    return call
