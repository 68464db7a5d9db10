"""Names that users bring from mem0, Zep, LangMem and ChromaDB, each with the call of this product.

Only a name that is not there reads these tables. They offer no second way to do anything.
"""

from __future__ import annotations

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
