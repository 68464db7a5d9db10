"""What a ledger and its namespaces have in common: what they work on, and for whom."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import TYPE_CHECKING, Any

from ledger.domain import times
from ledger.domain.errors import RejectedError
from ledger.engine.who import Who, explaining
from ledger.types import Since

if TYPE_CHECKING:
    from ledger.engine.engine import Engine


def callback(progress: Callable[[int, int], None] | None) -> Callable[[int, int], None] | None:
    """What is called with (done, of how many), which has to be something that can be called."""
    if progress is not None and not callable(progress):
        raise RejectedError(f"progress is a function of two numbers, and {progress!r:.40} is none")
    return progress


class Area:
    """One namespace, or a ledger: what it works on, and for whom. It holds no ledger, so nothing refers back to one."""

    __slots__ = ("_engine", "_scope")

    _engine: Engine

    def __init__(self, engine: Engine, scope: Who | None = None) -> None:
        if scope is None:
            raise TypeError(f"no {type(self).__name__} is made so: Ledger.open(path) opens a ledger")
        self._engine, self._scope = engine, scope

    def _bounds(self, since: Since | None, until: Since | None) -> dict[str, str]:
        """The bounds that are given, as stored times; a duration counts back from now, or from the moment asked about."""
        given = {name: value for name, value in (("since", since), ("until", until)) if value is not None}
        return {name: times.since(name, value, self._engine.writer.now()) for name, value in given.items()}

    def __init_subclass__(cls) -> None:
        """Let each public method name our argument where somebody passes one of another product."""
        for name, member in list(vars(cls).items()):
            if isinstance(member, classmethod):
                setattr(cls, name, classmethod(explaining(member.__func__)))
            elif isfunction(member) and not name.startswith("_"):
                setattr(cls, name, explaining(member))

    if not TYPE_CHECKING:  # to a type checker, a namespace that is called is a mistake

        def __call__(self, *_: object, **__: object) -> None:
            from ledger.engine import other_names

            raise other_names.call_error(type(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._engine.path!r} user={self._scope.user!r}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} cannot be pickled: open the ledger there by its path")
