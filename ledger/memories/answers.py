"""The answers about memories: a memory, its origin, its confidence, and the review queue."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING

from msgspec import field

from ledger.core.call import Answer
from ledger.domain import confidence as confidence_rules
from ledger.domain import metadata as pairs_of
from ledger.domain.times import moment

if TYPE_CHECKING:
    from ledger.memories.state import MemoryState as MemoryState


class Relation(Answer, frozen=True, kw_only=True):
    """A memory's statement about two names, recorded at ``position``; without times it holds as long as the memory."""

    subject: str
    relation: str
    object: str
    valid_from: str | None
    valid_to: str | None
    position: int


class Memory(Answer, frozen=True):  # not kw_only, because long lists of memories are made faster by position
    """A memory in its present state.

    ``confidence`` is from 0 to 1, without decay. If the user's policy lets the memory decay (by ``decay_rule``), ``recall`` and
    ``effective_confidence`` subtract the decay. Times are UTC text; ``sources`` are ids. ``stated_at`` is the time when the
    memory was last stated again. After a write, ``warnings`` names redacted secrets and an unknown kind.
    """

    id: str
    content: str | None
    kind: str
    user: str | None
    agent: str | None
    project: str | None
    status: str
    confidence: float
    reference_count: int
    last_referenced_at: str | None
    entities: tuple[str, ...]
    tags: tuple[str, ...]
    sources: tuple[str, ...]
    valid_from: str
    valid_to: str | None
    supersedes: str | None
    superseded_by: str | None
    quarantined: bool
    position: int
    recorded_at: str
    active_at: str
    relations: tuple[Relation, ...] = ()
    replayed: bool = False
    absorbed: bool = False
    warnings: tuple[str, ...] = ()
    metadata: Mapping[str, pairs_of.Value] = field(default_factory=dict)
    stated_at: str | None = None
    decay_rule: str | None = None

    def __hash__(self) -> int:
        return hash((self.id, self.position))

    def _repr_html_(self) -> str:
        """Return the memory as a table for a notebook."""
        from ledger.domain.html import table

        shown = ("status", "kind", "confidence", "project", "valid_from", "valid_to", "tags", "sources", "id")
        values = ((name, getattr(self, name)) for name in shown)
        return table(
            self.content, ("field", "value"), ((name, value) for name, value in values if value not in (None, ()))
        )

    def effective_confidence(self, as_of: str | datetime | date) -> float:
        """Return the confidence at a moment: the confidence itself, unless the user's policy lets memories of this kind decay.

        A memory that decays loses 3 % a day after 30 idle days without a reference (the rule of ATOCore).
        """
        millionths = round(self.confidence * confidence_rules.ONE)
        return confidence_rules.shown(
            confidence_rules.effective(
                millionths,
                rule=self.decay_rule if self.status == "active" else None,
                reference_count=self.reference_count,
                active_at=self.active_at,
                as_of=moment("as_of", as_of),
            )
        )


class Belief(Answer, frozen=True, kw_only=True):
    """A memory in its present state (``now``) and in the other state (``would_be``); None if the memory does not exist there."""

    id: str
    now: Memory | None
    would_be: Memory | None


class Provenance(Answer, frozen=True, kw_only=True):
    """The origin of a memory: the rule that found it, and the quoted text in which the rule found it.

    The quote is the characters ``start`` to ``end`` of ``field`` of the interaction, or of the message at ``position`` in
    ``session``; ``role`` is the speaker of the message. A model names no characters, so ``quote`` then is the beginning of the
    message.
    """

    rule: str
    extractor: str
    interaction: str | None
    session: str | None = None
    role: str | None = None
    field: str
    start: int
    end: int
    position: int = 0  # of the message, if the source is a session
    quote: str | None


class Candidate(Answer, frozen=True, kw_only=True):
    """An entry of the review queue: a candidate, or an active memory that the turns ``contradicted_by`` deny.

    ``same_as_active`` is the id of an active memory with the same text. ``admission`` is a sentence about the line of the
    admission table that gave the status. ``wish`` is True if the user wishes that the memory is forgotten: ``retract`` or
    ``erase`` does so, and ``guards.release`` brings the memory back into use. ``undo`` is the call that takes an admitted memory
    out of use.
    """

    memory: Memory
    provenance: Provenance | None
    same_as_active: str | None
    contradicted_by: tuple[str, ...] = ()
    wish: bool = False
    admission: str = ""
    undo: str = ""

    @property
    def id(self) -> str:
        """Return the memory's id, for ``promote(candidate.id)``."""
        return self.memory.id

    @property
    def content(self) -> str | None:
        return self.memory.content


class ConfidencePoint(Answer, frozen=True, kw_only=True):
    position: int
    recorded_at: str
    type: str
    delta: float
    confidence: float
    interaction: str | None
    matcher: str | None
    echo: bool
    in_effect: bool
