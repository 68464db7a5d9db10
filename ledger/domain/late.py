"""What waits until it is first used: regular expressions, parts of an object, and public names that lie elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from typing import Generic, TypeVar, cast

T = TypeVar("T")


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


class once(Generic[T]):
    """``functools.cached_property`` in half of its time: Python 3.11 takes a lock there, at every first read."""

    def __init__(self, read: Callable[..., T]) -> None:
        self._read, self._name, self.__doc__ = read, read.__name__, read.__doc__

    def __get__(self, owner: object, kind: type | None = None) -> T:
        value = owner.__dict__[self._name] = self._read(owner)
        return value


def names_of(module: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a module: its names, each with the module that it is loaded from."""

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return load
