"""The requests for a new memory, which the commands check."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.call import Time
from ledger.domain.errors import RejectedError
from ledger.domain.metadata import NO_PAIRS
from ledger.domain.times import moment
from ledger.events import MemoryCaptured
from ledger.types import Metadata, Triple

REFERENCES = 1_000_000_000  # the most that an import says of a memory (our own choice)


class RememberRequest(Struct, frozen=True, kw_only=True):
    """A statement to remember or propose; ``Ledger.remember`` describes the fields, which are its parameters."""

    content: str
    kind: str
    confidence: float
    project: str | None = None
    session: str | None = None
    entities: Iterable[str] = ()
    tags: Iterable[str] = ()
    sources: Iterable[str] = ()
    relations: Iterable[Triple] = ()
    valid_from: Time | None = None
    valid_to: Time | None = None
    metadata: Metadata = NO_PAIRS
    reference_count: int = 0
    last_referenced_at: Time | None = None


class SupersedeRequest(Struct, frozen=True, kw_only=True):
    """The fact that takes the place of a memory; ``Ledger.supersede`` describes the fields, which are its parameters."""

    content: str
    reason: str = ""
    kind: str | None = None
    confidence: float = 1.0
    entities: Iterable[str] | None = None
    tags: Iterable[str] | None = None
    sources: Iterable[str] = ()
    relations: Iterable[Triple] = ()
    valid_from: Time | None = None
    valid_to: Time | None = None
    metadata: Metadata = NO_PAIRS
    propose: bool = False


def referenced(attempt: MemoryCaptured, request: RememberRequest) -> MemoryCaptured:
    """Return the attempt with the references that it had elsewhere; they raise no confidence, for the request has that too."""
    count, last = request.reference_count, request.last_referenced_at
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= REFERENCES:
        raise RejectedError(f"reference_count is a whole number from 0 to {REFERENCES:,}, and {count!r:.40} is not")
    if not count:
        raise RejectedError("last_referenced_at is the time of the last reference: give reference_count from 1 on too")
    return replace(
        attempt, reference_count=count, last_referenced_at=None if last is None else moment("last_referenced_at", last)
    )
