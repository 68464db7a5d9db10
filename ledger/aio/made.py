"""The classes behind ``AsyncLedger``: made at import from the plain classes, whose calls they await.

A call passes its arguments to the same call of the plain object on a thread, and wraps what is awaited in turn: pages, sessions,
namespaces. ``ledger.pyi`` has the types; ``tools/pages/async_classes.py`` writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, update_wrapper
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any

from ledger.aio.area import AsyncArea, OpenedLedger
from ledger.aio.pages import AsyncHits, AsyncPage
from ledger.domain.late import shown_as

if TYPE_CHECKING:
    from ledger.types import Cancel

HOME = "ledger.aio.ledger"
MODULES = (
    *("ledger.sessions.api", "ledger.memories.api", "ledger.interactions.api", "ledger.documents.api"),
    *("ledger.values.api", "ledger.projects.api", "ledger.observations.api", "ledger.review.api", "ledger.graph.api"),
    *("ledger.history.api", "ledger.erasure.api", "ledger.guards.api", "ledger.policy.api", "ledger.jobs.api"),
    *("ledger.extraction.api", "ledger.vectors.api", "ledger.proof.api", "ledger.projections.api", "ledger.care.api"),
    "ledger.api",
)
KEPT = {"path", "Ledger.id", "name", "user", "as_of", "valid_at", "redactions"}  # properties that read no file
AT_ONCE = {"bind", "session"}  # these return an object and read no file
WAITING = {"wait"}  # these may wait for as long as they like
BY_HAND = {"batch", "close"}  # in ledger/aio/area.py
DECIDED = {  # one command without a plan, which the writer thread runs whole
    "Memories": {"tag", "correct", "set_metadata", "set_validity", "end", "set_confidence"},
    "Relations": {"unrelate"},
    "Ledger": {"remember", "propose", "promote", "reject", "supersede", "invalidate", "reinforce"},
}
BOUND = "The same file for another user or actor. Closing it is left to the code that opened the file."
Call = Callable[..., Any]
Wrap = Callable[..., object]


@cache
def plain_classes() -> dict[str, type]:
    """Return the plain classes by name, each after its base class."""
    return {
        name: kind
        for module in MODULES
        for name, kind in vars(import_module(module)).items()
        if isinstance(kind, type) and kind.__module__ == module and kind.__name__ == name
    }


def counterparts() -> dict[str, type]:
    """Return the classes that users see, by name, such as "AsyncMemories"."""
    made: dict[str, type] = {}
    for name, plain in plain_classes().items():
        bases = tuple(made[base.__name__] for base in plain.__bases__ if base.__name__ in made) or (AsyncArea,)
        members = {each: _member(plain, each, member, made) for each, member in public(plain)}
        body = {"__slots__": (), "__doc__": plain.__doc__, "__module__": HOME} | members
        made[name] = type(f"Async{name}", (OpenedLedger, *bases) if name == "Ledger" else bases, body)

    found = {kind.__name__: kind for kind in made.values()}
    bound = {"__slots__": (), "__doc__": BOUND, "__module__": HOME, "aclose": _leave_open}
    made["BoundLedger"] = shown_as(made["Ledger"])(type("AsyncBoundLedger", (made["Ledger"],), bound))
    return found


async def _leave_open(self: object) -> None:
    """Do nothing: the code that opened the ledger closes it."""


def public(plain: type) -> Iterator[tuple[str, object]]:
    """Yield the calls and properties that a class defines itself and that have a counterpart."""
    return (
        (name, member)
        for name, member in vars(plain).items()
        if name[0] != "_" and name not in BY_HAND and (callable(member) or isinstance(member, property | classmethod))
    )


def way(plain: type, name: str) -> str:
    """Return the threads that run a call: "read", "decide" for one command, or "work" for what may take long."""
    if plain.__name__.endswith("Read") or plain.__name__ == "PastLedger":
        return "read"
    return "decide" if name in DECIDED.get(plain.__name__, ()) else "work"


def _member(plain: type, name: str, member: object, made: dict[str, type]) -> object:
    """Return the counterpart of a call or property."""
    if isinstance(member, property):
        assert member.fget is not None
        wrap = _wrapping(member.fget, made)
        if name in KEPT or f"{plain.__name__}.{name}" in KEPT:
            return property(lambda self: getattr(self._sync, name), doc=member.__doc__)
        if wrap is not None:
            return property(lambda self: wrap(getattr(self._sync, name), self._threads), doc=member.__doc__)

        async def read(self: AsyncArea) -> object:
            return await self._threads.read(lambda: getattr(self._sync, name))

        return _like(member.fget, read)
    if isinstance(member, classmethod):
        return classmethod(_of_class(name, member.__func__))
    if isinstance(member, staticmethod):
        shown = signature(member.__func__)
        own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
        shown = shown.replace(parameters=[own, *shown.parameters.values()])
        return _like(member.__func__, _call(plain, name, member.__func__, None), shown)
    assert callable(member)
    return _like(member, _call(plain, name, member, _wrapping(member, made)))


def _call(plain: type, name: str, function: Call, wrap: Wrap | None) -> Call:
    """Return a call that is awaited, iterated, or answered at once."""
    threads = way(plain, name)

    async def call(self: AsyncArea, *places: object, **options: object) -> object:
        method = getattr(self._sync, name)
        answer = await getattr(self._threads, threads)(lambda: method(*places, **options))
        return answer if wrap is None else wrap(answer, self._threads)

    def at_once(self: AsyncArea, *places: object, **options: object) -> object:
        answer = getattr(self._sync, name)(*places, **options)
        return answer if wrap is None else wrap(answer, self._threads)

    async def wait(self: AsyncArea, *places: object, cancel: Cancel | None = None, **options: object) -> object:
        return await self._threads.wait(lambda stop: getattr(self._sync, name)(*places, cancel=stop, **options), cancel)

    def iterate(self: AsyncArea, *places: object, cancel: Cancel | None = None, **options: object) -> object:
        return self._threads.iterate(lambda stop: getattr(self._sync, name)(*places, cancel=stop, **options), cancel)

    if _returned(function) == "Iterator":
        return iterate
    return at_once if name in AT_ONCE else wait if name in WAITING else call


def _of_class(name: str, function: Call) -> Call:
    """Return the counterpart of a class method: it opens a ledger, or is about a file that is not open."""
    if _returned(function) != "Self":

        async def apart(cls: type[OpenedLedger], *places: object, **options: object) -> object:
            return await cls._apart(lambda plain: getattr(plain, name)(*places, **options))

        return _like(function, apart)

    def opened(cls: type[OpenedLedger], *places: object, **options: object) -> object:
        return cls._opened(name, lambda plain: getattr(plain, name)(*places, **options, group_commit=True))

    shown = signature(function)
    kept = [each for each in shown.parameters.values() if each.name != "group_commit"]
    return _like(function, opened, shown.replace(parameters=kept))


def _wrapping(function: Call, made: dict[str, type]) -> Wrap | None:
    """Return what turns a plain answer into one whose calls are awaited; None if the answer has no such calls."""
    returned = _returned(function)
    if returned in ("Page", "Hits"):
        kind: type = AsyncPage if returned == "Page" else AsyncHits
        return lambda answer, threads: kind(answer, threads.read)
    if returned not in plain_classes():
        return None
    name = "BoundLedger" if returned == "Ledger" else returned
    return lambda answer, threads: made[name](answer, threads)


def _returned(function: Call) -> str:
    """Return the name of the type that a function returns, without the module and what stands in brackets."""
    return str(function.__annotations__["return"]).partition("[")[0].rpartition(".")[2]


def _like(function: Call, call: Call, shown: Signature | None = None) -> Call:
    """Return a call with the name, the help and the parameters of a plain one, as tracebacks and completion show them."""
    if shown is not None:
        vars(call)["__signature__"] = shown
    call.__code__ = call.__code__.replace(co_name=function.__name__)
    return update_wrapper(call, function)
