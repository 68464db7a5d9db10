"""A caller's own scanner of threats: the interface, and the check of what is plugged in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from ledger.domain.errors import RejectedError

LABEL_CHARS = 64  # the most characters of a scanner's name, and of a label that is kept


class Scanner(Protocol):
    """A caller's own scanner. Its ``name`` has a version, as in "mine/2". A finding is a label or has a ``label``."""

    @property
    def name(self) -> str: ...

    def scan(self, text: str, /) -> Iterable[Any]: ...


def as_scanners(objects: object) -> tuple[Scanner, ...]:
    """Return the scanners that a caller plugs in, checked.

    Raises:
        RejectedError: The argument is not several objects with a name and ``scan(text)``.
    """
    if isinstance(objects, str) or not isinstance(objects, Iterable):
        raise RejectedError(
            f"scanners must be a list of objects with a name and scan(text); a {type(objects).__name__} was given"
        )
    scanners = tuple(objects)
    for scanner in scanners:
        name = getattr(scanner, "name", None)
        if (
            not isinstance(name, str)
            or not 0 < len(name) <= LABEL_CHARS
            or not callable(getattr(scanner, "scan", None))
        ):
            raise RejectedError(
                f"a scanner must have a name of 1 to {LABEL_CHARS} characters and a method scan(text); "
                f"{type(scanner).__name__} lacks one of them"
            )
    return scanners
