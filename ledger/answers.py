"""What comes back: frozen objects with the same names in Python and in ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import msgspec
from msgspec import Struct, field

from ledger.domain import confidence as rules
from ledger.domain.interaction import Interaction as InteractionState
from ledger.domain.memory import Memory as MemoryState
from ledger.domain.times import moment


class Memory(Struct, frozen=True, kw_only=True):
    """A memory as it stands. ``confidence`` is from 0 to 1; times are UTC text; ``sources`` are ids."""

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
    replayed: bool = False
    absorbed: bool = False

    def effective_confidence(self, as_of: str | datetime | date) -> float:
        """The confidence at a moment: after 30 idle days without a reference, 3 % less each day (ATOCore 7D)."""
        millionths = round(self.confidence * rules.ONE)
        return rules.shown(
            rules.effective(
                millionths,
                active=self.status == "active",
                reference_count=self.reference_count,
                active_at=self.active_at,
                as_of=moment("as_of", as_of),
            )
        )


def memory(state: MemoryState, names: Mapping[str, str], *, replayed: bool = False, absorbed: bool = False) -> Memory:
    return Memory(
        id=state.id,
        content=state.content,
        kind=state.kind,
        user=state.user,
        agent=state.agent,
        project=names.get(state.project, state.project) if state.project else None,
        status=state.status,
        confidence=rules.shown(state.confidence),
        reference_count=state.reference_count,
        last_referenced_at=state.last_referenced_at,
        entities=state.entities,
        tags=state.tags,
        sources=state.sources,
        valid_from=state.valid_from,
        valid_to=state.valid_to,
        supersedes=state.supersedes,
        superseded_by=state.superseded_by,
        quarantined=state.quarantined,
        position=state.position,
        recorded_at=state.recorded_at,
        active_at=state.active_at,
        replayed=replayed,
        absorbed=absorbed,
    )


class Provenance(Struct, frozen=True, kw_only=True):
    """Where a candidate comes from: the rule, the span it was found in, and that text."""

    rule: str
    extractor: str
    interaction: str | None
    field: str
    start: int
    end: int
    quote: str | None


class Candidate(Struct, frozen=True, kw_only=True):
    """One entry of the review queue."""

    memory: Memory
    provenance: Provenance | None
    same_as_active: str | None

    @property
    def id(self) -> str:
        """The memory's, for ``promote(candidate.id)``."""
        return self.memory.id

    @property
    def content(self) -> str | None:
        return self.memory.content


class Interaction(Struct, frozen=True, kw_only=True):
    """An interaction with its texts. ``reinforcement`` and ``extraction``: waiting, pending, done, failed or off."""

    id: str
    prompt: str | None
    response: str | None
    response_summary: str | None
    user: str | None
    agent: str | None
    project: str | None
    client: str | None
    session_id: str | None
    memories_used: tuple[str, ...]
    chunks_used: tuple[str, ...]
    context_pack: Any
    occurred_at: str
    recorded_at: str
    reinforcement: str
    extraction: str
    position: int
    replayed: bool = False
    absorbed: bool = False


def interaction(
    state: InteractionState, names: Mapping[str, str], prompt: str | None, answer: Mapping[str, str | None], pack: Any
) -> Interaction:
    """``answer`` has the response and its summary; ``pack`` is the context pack as it was given."""
    return Interaction(
        id=state.id,
        prompt=prompt,
        response=answer["response"],
        response_summary=answer["response_summary"],
        user=state.user,
        agent=state.agent,
        project=names.get(state.project, state.project) if state.project else None,
        client=state.client,
        session_id=names.get(state.session, state.session) if state.session else None,
        memories_used=state.memories_used,
        chunks_used=state.chunks_used,
        context_pack=pack,
        occurred_at=state.occurred_at or state.recorded_at,
        recorded_at=state.recorded_at,
        reinforcement=state.reinforcement,
        extraction=state.extraction,
        position=state.position,
    )


class StateEntry(Struct, frozen=True, kw_only=True):
    """One value of trusted state that a project has or had; ``to_position`` ends it."""

    category: str
    key: str | None
    value: str | None
    source: str | None
    actor: str | None
    recorded_at: str
    from_position: int
    to_position: int | None = None


class Project(Struct, frozen=True, kw_only=True):
    id: str
    name: str | None
    description: str | None
    aliases: tuple[str | None, ...]
    user: str | None
    state: tuple[StateEntry, ...]
    position: int
    recorded_at: str
    replayed: bool = False
    absorbed: bool = False


class Step(Struct, frozen=True, kw_only=True):
    """One event behind a memory and what it did to the confidence; ``delta`` of the steps add up to it exactly."""

    position: int
    type: str
    recorded_at: str
    actor: str | None
    command: str
    delta: float
    confidence: float
    status: str | None
    in_force: bool
    because: str
    data: Any


class Why(Struct, frozen=True, kw_only=True):
    """Why the ledger believes a memory, or no longer does."""

    memory: Memory | None
    id: str
    confidence: float
    steps: tuple[Step, ...]
    sources: tuple[Interaction, ...]
    supersedes: tuple[Memory, ...]
    superseded_by: tuple[Memory, ...]


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One event of the trail; ``data`` is what it recorded, with ids for texts that lie elsewhere."""

    position: int
    subject: str
    type: str
    recorded_at: str
    command: str
    command_id: str
    user: str | None
    actor: str | None
    client: str | None
    channel: str
    agent: str | None
    project: str | None
    session_id: str | None
    event_id: str
    causation_id: str | None
    correlation_id: str | None
    in_force: bool
    data: Any = None


class ConfidencePoint(Struct, frozen=True, kw_only=True):
    position: int
    recorded_at: str
    type: str
    delta: float
    confidence: float
    interaction: str | None
    matcher: str | None
    echo: bool
    in_force: bool


class Refusal(Struct, frozen=True, kw_only=True):
    position: int
    rule: str
    command: str
    subject: str | None
    actor: str | None
    recorded_at: str
    limit: int | None
    current: int | None
    requested: int | None


class Hit(Struct, frozen=True, kw_only=True):
    rank: int
    score: float
    memory: Memory

    @property
    def id(self) -> str:
        return self.memory.id

    @property
    def content(self) -> str | None:
        return self.memory.content


class Pack(Struct, frozen=True, kw_only=True):
    """What a recall found: ranked hits within ``budget`` characters, what was cut for it, and how many were searched."""

    items: tuple[Hit, ...]
    cut: tuple[Hit, ...]
    searched: int
    budget: int | None
    used: int

    def as_text(self) -> str:
        """The memories as a plain list, one a line."""
        return "\n".join(f"- {' '.join((hit.memory.content or '').split())}" for hit in self.items)


class Reinforcement(Struct, frozen=True, kw_only=True):
    """What one interaction reinforced: pairs of memory id and confidence before and after."""

    interaction: str
    matcher: str
    pool_size: int
    reinforced: tuple[tuple[str, float, float], ...]
    echoes: int
    left_over: int
    replayed: bool = False


class ExtractionReport(Struct, frozen=True, kw_only=True):
    interaction: str
    extractor: str
    kept: tuple[Memory, ...]
    dropped: tuple[dict[str, Any], ...]
    preview: bool = False
    replayed: bool = False


class PolicyReport(Struct, frozen=True, kw_only=True):
    """What ``run_policies`` did."""

    reinforced_interactions: int = 0
    reinforced_memories: int = 0
    extracted_interactions: int = 0
    candidates: int = 0
    expired: int = 0
    failures: int = 0


class UndoReport(Struct, frozen=True, kw_only=True):
    """What an undo or redo did, or would do (``dry_run``): the commands, their events, and the subjects concerned."""

    commands: tuple[str, ...]
    events: int
    subjects: tuple[str, ...]
    position: int
    dry_run: bool = False
    command_id: str | None = None
    replayed: bool = False
    absorbed: bool = False


class RebuildReport(Struct, frozen=True, kw_only=True):
    events: int
    seconds: float
    digest: str
    parked: tuple[str, ...] = ()


class ProjectionStatus(Struct, frozen=True, kw_only=True):
    name: str
    version: int
    position: int
    parked_at: int | None
    error: str | None


class Stats(Struct, frozen=True, kw_only=True):
    ledger_id: str
    position: int
    head: str
    format: int
    memories: dict[str, int]
    interactions: int
    projects: int
    pending: dict[str, int]
    projections: tuple[ProjectionStatus, ...]
    size_bytes: int
    wal_bytes: int
    sqlite_version: str


class ImportReport(Struct, frozen=True, kw_only=True):
    """What an import did; ``errors`` are (line number, reason)."""

    path: str
    lines: int
    captured: int
    known: int
    errors: tuple[tuple[int, str], ...] = ()
    correlation_id: str | None = None
    seconds: float = 0.0


class ExportReport(Struct, frozen=True, kw_only=True):
    path: str
    events: int
    blobs: int
    bytes_: int = field(name="bytes")
    warning: str = "it holds every text and the ledger's secret: keep it like the ledger itself"


def plain(answer: Any) -> Any:
    """Any answer as dictionaries, lists, strings and numbers, ready for JSON."""
    return msgspec.to_builtins(answer)
