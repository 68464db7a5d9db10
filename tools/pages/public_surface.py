"""Every public method of the library, found by itself: those of Ledger, of the past, and of each namespace."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from ledger.api import Ledger

_IMPORTED = re.compile(r"from (ledger[\w.]*) import (\w+)")


def namespaces(owner: type[Any]) -> Iterator[tuple[str, type[Any]]]:
    """The name and the class of each namespace, from what its property says that it returns; of a session, too."""
    for name, member in inspect.getmembers(owner):
        made = member.fget if isinstance(member, property) else member if name == "session" else None
        if made is None or not (kind := _class(made)):
            continue
        yield name, kind
        if name == "session":
            yield from ((f"session.{inner}", each) for inner, each in namespaces(kind))


def _class(made: Callable[..., Any]) -> type[Any] | None:
    """The class of this product that a property or function returns, if it is a namespace."""
    name = str(made.__annotations__.get("return")).partition("[")[0]
    imported = next(
        (each[1] for each in _IMPORTED.finditer(inspect.getsource(made)) if each[2] == name), made.__module__
    )
    kind = getattr(importlib.import_module(imported), name, None)
    return kind if isinstance(kind, type) and kind.__module__.endswith(".api") else None


@functools.cache
def methods(owner: type[Any]) -> tuple[tuple[str, Callable[..., Any]], ...]:
    """The public methods of a class and of its namespaces, by the name that one types after the object."""
    return tuple(
        (prefix + name, member)
        for prefix, each in (("", owner), *((f"{name}.", kind) for name, kind in namespaces(owner)))
        for name, member in inspect.getmembers(each, callable)
        if not name.startswith("_")
    )


def writes() -> Iterator[str]:
    """The methods that take what every write takes."""
    for name, method in methods(Ledger):
        further = [each for each in inspect.signature(method).parameters.values() if each.kind is each.VAR_KEYWORD]
        if any("Unpack" in str(each.annotation) for each in further):
            yield name
