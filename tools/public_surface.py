"""Every public method of the library, found by itself: those of Ledger, of the past, and of each namespace."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from ledger.api import Ledger, PastLedger

_IMPORTED = re.compile(r"from (ledger[\w.]*) import (\w+)")


def namespaces(owner: type[Any]) -> Iterator[tuple[str, type[Any]]]:
    """The name and the class of each namespace, from the property that makes it."""
    for name, member in inspect.getmembers(owner, lambda each: isinstance(each, property)):
        made = _IMPORTED.search(inspect.getsource(member.fget))
        if made is not None:
            yield name, getattr(importlib.import_module(made[1]), made[2])


def methods(owner: type[Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of a class and of its namespaces, by the name that one types after the object."""
    for prefix, each in (("", owner), *((f"{name}.", kind) for name, kind in namespaces(owner))):
        for name, member in inspect.getmembers(each, callable):
            if not name.startswith("_"):
                yield prefix + name, member


def writes() -> Iterator[str]:
    """The methods that take what every write takes."""
    for name, method in methods(Ledger):
        if any(each.kind is each.VAR_KEYWORD for each in inspect.signature(method).parameters.values()):
            yield name


def reads_of_the_past() -> Iterator[str]:
    return (name for name, _ in methods(PastLedger))
