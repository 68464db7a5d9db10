"""Tools for loading at first use: regular expressions, parts of an object, public names of other modules; names of classes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from types import FunctionType
from typing import Generic, TypeVar, cast

T = TypeVar("T")
K = TypeVar("K")


class _Late:
    def __init__(self, expression: str, flags: int) -> None:
        self._expression, self._flags = expression, flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._expression, self._flags)

    def __getattr__(self, name: str) -> object:
        """Return an attribute of the pattern. Each name comes here only once, because the attribute is then set."""
        attribute = getattr(self._compiled, name)
        setattr(self, name, attribute)
        return attribute


def late(expression: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern like that of ``re.compile``, compiled when its first method is called."""
    return cast("re.Pattern[str]", _Late(expression, flags))


class once(Generic[T]):
    """A property that is computed once. It takes half the time of ``functools.cached_property``, which locks in Python 3.11."""

    def __init__(self, read: Callable[..., T]) -> None:
        self._read, self._name, self.__doc__ = read, read.__name__, read.__doc__

    def __get__(self, owner: object, kind: type | None = None) -> T:
        value = owner.__dict__[self._name] = self._read(owner)
        return value


def names_of(module: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a module whose names are loaded from other modules at first use."""

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return load


def name_as_known(kind: type) -> None:
    """Name the functions of a class after the class that users know: an error then says Ledger, not LedgerRead."""
    known = kind.__name__.removesuffix("Read")
    for name, member in vars(kind).items():
        if isinstance(member, FunctionType):
            member.__qualname__ = f"{known}.{name}"


def shown_as(known: type) -> Callable[[type[K]], type[K]]:
    """Return a decorator that gives a class the name of the class that users know, as errors of Python show it."""

    def renamed(kind: type[K]) -> type[K]:
        kind.__name__ = kind.__qualname__ = known.__name__
        return kind

    return renamed
