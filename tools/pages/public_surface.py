"""The public methods of the library, found by inspection: of Ledger, of the past, and of each namespace."""

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
    """Yield the name and the class of each namespace from the return type of its property, those of a session too."""
    for name, member in inspect.getmembers(owner):
        accessor = member.fget if isinstance(member, property) else member if name == "session" else None
        if accessor is None or not (kind := _class(accessor)):
            continue
        yield name, kind
        if name == "session":
            yield from ((f"session.{inner}", inner_kind) for inner, inner_kind in namespaces(kind))


def _class(accessor: Callable[..., Any]) -> type[Any] | None:
    """Return the class of this product that a property or function returns, if it is a namespace."""
    name = str(accessor.__annotations__.get("return")).partition("[")[0]
    imported = next(
        (match[1] for match in _IMPORTED.finditer(inspect.getsource(accessor)) if match[2] == name), accessor.__module__
    )
    kind = getattr(importlib.import_module(imported), name, None)
    return kind if isinstance(kind, type) and kind.__module__.endswith(".api") else None


@functools.cache
def methods(owner: type[Any]) -> tuple[tuple[str, Callable[..., Any]], ...]:
    """Return the public methods of a class and of its namespaces, by the name that a user types after the object."""
    return tuple(
        (prefix + name, member)
        for prefix, place in (("", owner), *((f"{name}.", kind) for name, kind in namespaces(owner)))
        for name, member in inspect.getmembers(place, callable)
        if not name.startswith("_")
    )


def writes() -> Iterator[str]:
    """Yield the names of the methods that take the options of every write."""
    for name, method in methods(Ledger):
        keywords = [
            parameter
            for parameter in inspect.signature(method).parameters.values()
            if parameter.kind is parameter.VAR_KEYWORD
        ]
        if any("Unpack" in str(parameter.annotation) for parameter in keywords):
            yield name
