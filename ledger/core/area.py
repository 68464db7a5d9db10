"""The base class of a ledger and its namespaces, with the errors for names that users bring from other products.

Only a name that is not there reads the tables of mem0's, Zep's, LangMem's and ChromaDB's names. The tables offer no second way
to do anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ledger.core.call import Who
from ledger.domain import times
from ledger.domain.errors import RejectedError
from ledger.domain.late import name_as_known
from ledger.types import Since

if TYPE_CHECKING:
    from ledger.core.engine import ReadingEngine


def callback(progress: Callable[[int, int], None] | None) -> Callable[[int, int], None] | None:
    """Return a progress callback, called with (done, total); raise ``RejectedError`` if it cannot be called."""
    if progress is not None and not callable(progress):
        raise RejectedError(f"progress takes a function of two numbers, done and total, not {progress!r:.40}")
    return progress


class Area:
    """A ledger or a namespace, with its engine and its user. It refers to no ledger, so there are no cycles of references."""

    __slots__ = ("_engine", "_scope")

    _engine: ReadingEngine

    def __init__(self, engine: ReadingEngine, scope: Who | None = None) -> None:
        if scope is None:
            raise TypeError(f"{type(self).__name__} cannot be made directly: Ledger.open(path) opens a ledger")
        self._engine, self._scope = engine, scope

    def _bounds(self, since: Since | None, until: Since | None) -> dict[str, str]:
        """Return the bounds that are not None as stored times; a duration counts back from the present of the engine."""
        bounds = {name: value for name, value in (("since", since), ("until", until)) if value is not None}
        return {name: times.since(name, value, self._engine.now()) for name, value in bounds.items()}

    def __init_subclass__(cls) -> None:
        """Name the methods after the class that users know, as an error about their arguments shows them."""
        name_as_known(cls)

    if not TYPE_CHECKING:  # a type checker must still report an unknown name, and the call of a namespace, as an error

        def __getattr__(self, name: str) -> object:
            raise attribute_error(self, name)

        def __call__(self, *_: object, **__: object) -> None:
            raise call_error(type(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._engine.path!r} user={self._scope.user!r}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} cannot be pickled: open the ledger there by its path")


# --- names of other products -----------------------------------------------------------------------------------------

_SEARCH = "ledger.recall(question) searches"
_CHANGE = "ledger.supersede(id, text) records a new fact, and ledger.revise(id, text) another wording"
_REMOVE = "ledger.retract(id) takes a memory out of use, and ledger.erase(id) removes its text for good"
_RECORD = "ledger.remember(text) records a statement, and ledger.add(messages) a conversation"
_LIST = "ledger.memories.list() lists memories"
CALLS = {
    "search": _SEARCH,
    "query_memories": _SEARCH,
    "get": "ledger.memories.get(id) returns a memory",
    "get_all": _LIST,
    "list": _LIST,
    "memory": f"ledger.memories.get(id) returns a memory, and {_LIST}",
    "add_memory": _RECORD,
    "put": _RECORD,
    "save": _RECORD,
    "store": _RECORD,
    "update": _CHANGE,
    "upsert": _CHANGE,
    "delete": _REMOVE,
    "forget": _REMOVE,
    "delete_all": "ledger.erase(types.EVERYTHING) removes all texts of the user for good",
    "audit": "ledger.history.audit() lists events",
    "log": "ledger.history.audit() lists events, newest first, and ledger.history.log() reads them in order",
    "diff": "ledger.history.diff(…) compares two moments",
    "what_if": "ledger.history.what_if(…) shows what would be believed without something",
}
"""Calls that neither a ledger nor ``ledger.memories`` has."""

HINTED = ("Ledger", "PastLedger", "Memories")  # the classes on which users type the calls of CALLS

CALLED = {
    "History": "ledger.why(id) says why something is believed, ledger.history.events(id) lists all of its events, and "
    "ledger.history.audit(subject=id) says who recorded them",
    "Ledger": "ledger.recall(question) searches, and ledger.remember(text) records",
    "Sessions": "ledger.session(name) is one conversation",
}
"""Hints for objects that users call, by the name of the class; other namespaces list their calls."""


class UnknownCallError(AttributeError):
    """The call of another product's method on a ledger; the message names our method."""


def attribute_error(owner: object, name: str) -> AttributeError:
    """Return the error for an attribute that a ledger or a namespace does not have."""
    kind = type(owner).__name__.removesuffix("Read")
    if _writes(type(owner), name):
        known = kind.removeprefix("Past")
        return AttributeError(f"{known} has no {name!r} as of a moment: it only reads; call it on the open ledger")
    if kind in HINTED and (hint := CALLS.get(name)) is not None:
        return UnknownCallError(f"{kind} has no {name!r}: {hint}")
    return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=owner)


def _writes(kind: type, name: str) -> bool:
    """Return True if a class only reads the past, and its class that also writes has the call."""
    reads = next((base for base in kind.__mro__[:2] if base.__name__.endswith("Read")), None)
    if reads is None or (kind is not reads and kind.__name__ != "PastLedger"):
        return False
    writing: list[type] = reads.__subclasses__()
    return any(hasattr(wider, name) for wider in writing)


def call_error(kind: type) -> TypeError:
    """Return the error for a ledger or a namespace that was called like a method."""
    name = kind.__name__.removesuffix("Read")
    own = (call for call in dir(kind) if not call.startswith("_") and callable(getattr(kind, call)))
    return TypeError(f"{name} cannot be called: {CALLED.get(name) or 'its calls are ' + ', '.join(own)}")
