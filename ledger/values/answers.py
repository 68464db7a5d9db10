"""The answer about a keyed value: a frozen object with the same names in Python and in ``--json``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.core.call import Answer, answer_of
from ledger.domain.scan.keyed import decoded
from ledger.types import Json
from ledger.values import rules

if TYPE_CHECKING:
    from ledger.values.rules import ValueState as ValueState


class Value(Answer, frozen=True, kw_only=True):
    """A value under its key.

    ``value`` is the text or the JSON exactly as it was put, and None if it was erased. ``type`` is "text", or "json" for
    anything but a text. ``status`` is active, expired, removed or erased. ``size`` is in bytes. ``updated_at`` is the time of
    the last put, ``position`` that of the last change. ``match`` is the fit to a query, from 0 to 1. ``fields`` are the fields
    by which an object is searched, () for all. ``absorbed`` is True in
    the answer of a command that had nothing to change. A ``quarantined`` value is found by no recall and no query.
    """

    id: str
    namespace: tuple[str, ...] | None
    key: str | None
    value: Json
    type: str
    status: str
    user: str | None
    agent: str | None
    size: int | None
    indexed: bool
    fields: tuple[str, ...] | None
    expires_at: str | None
    recorded_at: str
    updated_at: str
    position: int
    match: float | None = None
    quarantined: bool = False
    replayed: bool = False
    absorbed: bool = False

    def __hash__(self) -> int:
        return hash((self.id, self.position))


def value(
    state: ValueState, content: str | None, now: str, match: float | None = None, *, quarantined: bool = False
) -> Value:
    """Return a value with its content; ``now`` is the time at which its expiry is judged."""
    is_over = state.status == rules.ACTIVE and state.has_expired(now)
    return answer_of(
        Value,
        state,
        namespace=None if state.place is None else rules.labels_of(state.place),
        key=state.name,
        value=None if content is None else decoded(content, state.type),
        status=rules.EXPIRED if is_over else state.status,
        match=match,
        quarantined=quarantined,
    )
