"""What every answer has: it is a frozen object, and plain data on request."""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import cache
from itertools import takewhile
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

LINE_CHARS, TEXT_CHARS = 120, 36  # of a repr, and of each text in it


class Answer(Struct, frozen=True, kw_only=True):
    """Something that a call returns, with the same names in Python and in ``--json``."""

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as dictionaries, lists, strings and numbers, ready for JSON."""
        plain: dict[str, object] = msgspec.json.decode(msgspec.json.encode(self))
        return plain

    def __repr__(self) -> str:
        """One short line: ids, states and numbers, how many of what is several, the beginning of a text; nothing empty."""
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
