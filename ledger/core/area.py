"""The base class of a ledger and its namespaces."""

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
            from ledger.core import other_names

            raise other_names.attribute_error(self, name)

        def __call__(self, *_: object, **__: object) -> None:
            from ledger.core import other_names

            raise other_names.call_error(type(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._engine.path!r} user={self._scope.user!r}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} cannot be pickled: open the ledger there by its path")
