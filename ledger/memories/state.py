"""The state of a memory, and the change of the state by each event.

An erasure ends every status: a memory without content is erased, and no command is accepted for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from msgspec import UNSET, Struct
from msgspec.structs import replace

from ledger.domain import confidence as confidence_rules
from ledger.domain import metadata as pairs_of
from ledger.domain.times import moment
from ledger.english.entities import name_form
from ledger.erasure.rules import BLACK
from ledger.events import (
    AnyEvent,
    ConfidenceAdjusted,
    DuplicateAbsorbed,
    MemoryCaptured,
    MemoryCorrected,
    MemoryInvalidated,
    MemoryPromoted,
    MemoryQuarantined,
    MemoryReinforced,
    MemoryRejected,
    MemoryReleased,
    MemoryRestored,
    MemoryRetagged,
    MemoryRetracted,
    MemoryRevised,
    MemorySuperseded,
    Origin,
    RelationAdded,
    RelationRemoved,
    ValidityChanged,
)
from ledger.log.events import NOTHING

ERASED = "erased"
STATUSES = ("candidate", "active", "superseded", "invalid", "retracted", ERASED)
HIDDEN = ("superseded", "invalid", "retracted")
CONTENT_BYTES = 256 * 1024
CO_OCCURS = "co_occurs"  # the graph derives this relation for names in the same memory; a caller must not state it


class Edge(Struct, frozen=True):
    """A relation between two names that a memory states, with the names as they were written.

    The edge holds as long as its memory; with ``valid_from`` or ``valid_to`` only between these times. ``position`` is the
    position of the event that states the relation.
    """

    source: str
    relation: str
    target: str
    valid_from: str | None
    valid_to: str | None
    position: int

    @property
    def form(self) -> tuple[str, str, str]:
        """Return the key of the edge; two edges with the same key are the same edge."""
        return name_form(self.source), self.relation, name_form(self.target)


class MemoryState(Struct, frozen=True, gc=False):
    """The state that results from the events of one memory; the fields are the columns of its row, in order."""

    row: int  # the position of the first event of the stream
    id: str
    user: str | None
    agent: str | None
    project: str | None
    kind: str
    status: str
    content: str | None
    confidence: int
    reference_count: int
    last_referenced_at: str | None
    entities: tuple[str, ...]
    tags: tuple[str, ...]
    metadata: str | None
    sources: tuple[str, ...]
    edges: tuple[Edge, ...]
    valid_from: str
    valid_to: str | None
    supersedes: str | None
    superseded_by: str | None
    quarantined: bool
    before: str | None  # of a hidden memory, the status to which ``restore`` returns
    until_before: str | None  # of a superseded memory, the end of validity before the supersession
    underlying: str | None  # of an erased memory, the status that it would have if its content had not been erased
    origin: Origin | None
    admission: str  # the line of the admission table that gave the status; "" if a person gave the status
    recorded_at: str
    active_at: str  # the time of the last capture, promotion, change or restoration, from which idle days count
    stated_at: str | None  # the time when the memory was last stated again after its capture
    decided_at: int  # the position of the last event that is not a reinforcement by a matcher
    version: int
    position: int


def since(memory: MemoryState) -> tuple[str, int]:
    """Return the key that sorts memories by age, the newest last: the time since which a memory is stated, then its row."""
    return max(memory.valid_from, memory.stated_at or ""), memory.row


# --- evolve: only assignments ----------------------------------------------------------------------------------------

MemoryEvent = (
    MemoryCaptured | DuplicateAbsorbed | MemoryPromoted | MemoryRejected | MemoryReinforced | ConfidenceAdjusted
    | MemoryRevised | MemoryRetagged | MemoryCorrected | ValidityChanged | MemorySuperseded | MemoryInvalidated | MemoryRetracted
    | MemoryRestored | MemoryQuarantined | MemoryReleased | RelationAdded | RelationRemoved
)  # fmt: skip


def evolve(memory: MemoryState | None, event: AnyEvent) -> MemoryState | None:
    """Return the memory after an event that is in effect; None before the first capture."""
    data: MemoryEvent = event.data
    if memory is None:
        return _with_erasure(_captured(event, data)) if isinstance(data, (MemoryCaptured, DuplicateAbsorbed)) else None
    if memory.status == ERASED:  # this event may bring a wording that was not erased
        memory = replace(memory, status=memory.underlying or "active", underlying=None)
    matched = isinstance(data, MemoryReinforced) and data.matcher is not None
    place = {"version": event.version, "position": event.position}
    place |= {} if matched else {"decided_at": event.position}
    return _with_erasure(replace(memory, **place, **_changes(memory, event, data)))


def _with_erasure(memory: MemoryState) -> MemoryState:
    """Return the memory with the status "erased" if its content was erased."""
    return memory if memory.content is not None else replace(memory, status=ERASED, underlying=memory.status)


def _captured(event: AnyEvent, data: MemoryCaptured | DuplicateAbsorbed) -> MemoryState:
    envelope = event.envelope
    metadata = None if data.metadata is NOTHING else pairs_of.row_of(data.metadata)
    held = isinstance(data, DuplicateAbsorbed) and data.finding != ""
    return MemoryState(  # by position, because so many keywords would take msgspec longer than the rest of this function
        event.first, event.stream, envelope.user, envelope.agent, envelope.project, data.kind, data.status, data.content,
        data.confidence, data.reference_count, data.last_referenced_at, data.entities or (), data.tags or (),
        metadata, data.sources, (), data.valid_from or envelope.recorded_at, data.valid_to,
        data.supersedes, None, held, None, None, None, data.origin, data.admission,
        envelope.recorded_at, _stated(event, data, None), None,
        event.position, event.version, event.position,
    )  # fmt: skip


def happened(occurred_at: str | None, recorded_at: str) -> str:
    """Return ``occurred_at`` in UTC, at the latest the time of recording; without ``occurred_at`` the time of recording."""
    return recorded_at if occurred_at is None else min(moment("occurred_at", occurred_at), recorded_at)


def _time(event: AnyEvent, known: str | None) -> str:
    """Return the time of an event; an event that occurred earlier does not set the known time back."""
    envelope = event.envelope
    time = happened(envelope.occurred_at, envelope.recorded_at)
    return time if envelope.occurred_at is None else max(time, known or "")


def _stated(event: AnyEvent, data: MemoryCaptured | DuplicateAbsorbed, known: str | None) -> str:
    """Return the time of a statement; a finding was stated with the words that it was found in, which is its ``valid_from``."""
    if data.origin is None or data.valid_from is None:
        return _time(event, known)
    return max(min(data.valid_from, event.envelope.recorded_at), known or "")


def _reinforced(memory: MemoryState, event: AnyEvent, data: MemoryReinforced) -> dict[str, object]:
    return {
        "confidence": confidence_rules.reinforced(data.rule, memory.confidence, data.delta),
        "reference_count": memory.reference_count + 1,
        "last_referenced_at": _time(event, memory.last_referenced_at),
    }


def _hidden(memory: MemoryState, status: str) -> dict[str, object]:
    return {"status": status, "before": memory.status} if memory.status != status else {}


def _changes(memory: MemoryState, event: AnyEvent, data: MemoryEvent) -> dict[str, object]:
    now = _time(event, memory.active_at)
    match data:
        case MemoryReinforced():
            return _reinforced(memory, event, data)
        case MemoryPromoted():
            # "" in ``admission``: only a person promotes, or an agent on behalf of a person.
            return {"status": "active", "active_at": now, "admission": ""}
        case MemoryRejected() | MemoryInvalidated():
            return _hidden(memory, "invalid")
        case MemoryRetracted():
            return _hidden(memory, "retracted")
        case MemorySuperseded(by, valid_to):
            end = _earlier(memory.valid_to, max(valid_to or "", memory.valid_from))
            until = {"until_before": memory.valid_to, "valid_to": end}
            return _hidden(memory, "superseded") | until | {"superseded_by": by}
        case MemoryRestored():
            status = memory.before or memory.status
            return {"status": status, "before": None, "superseded_by": None, "active_at": now} | _reopened(memory)
        case ConfidenceAdjusted(_, confidence):
            return {"confidence": confidence, "active_at": now}
        case MemoryRevised(content):
            return {"content": content, "active_at": now}
        case MemoryRetagged(added, removed, metadata, unset):
            # After an undo the memory may already have an added tag.
            tags = dict.fromkeys((*memory.tags, *(added or ())))
            remaining = tuple(tag for tag in tags if tag not in (removed or ()))
            return {"tags": remaining, "metadata": pairs_of.changed(memory.metadata, metadata, unset or ())}
        case MemoryCorrected(kind, moved, entities):
            project = event.envelope.project if moved else memory.project
            names = memory.entities if entities is UNSET else entities or ()
            return {"kind": kind or memory.kind, "project": project, "entities": names, "active_at": now}
        case ValidityChanged(valid_from, valid_to):
            return {"valid_from": valid_from or memory.valid_from, "valid_to": valid_to}
        case RelationAdded():
            return {"edges": _with(memory.edges, event, data)}
        case RelationRemoved():
            return {"edges": tuple(edge for edge in memory.edges if not _is_removed(edge, data))}
        case MemoryQuarantined():
            return {"quarantined": True}
        case MemoryReleased():
            return {"quarantined": False}
        case DuplicateAbsorbed():
            return {"stated_at": _stated(event, data, memory.stated_at)}
        case MemoryCaptured():
            return {}
        case _:
            assert_never(data)


def _with(edges: tuple[Edge, ...], event: AnyEvent, data: RelationAdded) -> tuple[Edge, ...]:
    """Return the edges with a new edge in place of an edge with the same words.

    An edge of which a name was erased joins nothing and is not added.
    """
    if data.subject is None or data.relation is None or data.object is None:
        return edges
    edge = Edge(data.subject, data.relation, data.object, data.valid_from, data.valid_to, event.position)
    return (*(old for old in edges if _words_of(old) != _words_of(edge)), edge)


def _is_removed(edge: Edge, data: RelationRemoved) -> bool:
    """Return True if a removal removes this edge.

    Words are compared exactly, so that a later change of ``name_form`` does not change the state. If an erasure removed some
    words, only the other words are compared, so that a removed edge does not come back when a name is erased. If words of the
    removal itself were erased, an edge with all its words is removed only if it has the position that the removal names.
    """
    words = (data.subject, data.relation, data.object)
    if data.added and _has_erased(words) and not _has_erased(_words_of(edge)):
        return edge.position == data.added
    pairs = zip(_words_of(edge), words, strict=True)
    return all(word is None or BLACK in word or BLACK in name or word == name for name, word in pairs)


def _has_erased(words: Iterable[str | None]) -> bool:
    return any(word is None or BLACK in word for word in words)


def _words_of(edge: Edge) -> tuple[str, str, str]:
    return edge.source, edge.relation, edge.target


def _earlier(known: str | None, end: str) -> str:
    return end if known is None else min(known, end)


def _reopened(memory: MemoryState) -> dict[str, object]:
    """Return the end of validity that the memory had before it was superseded."""
    return {"valid_to": memory.until_before, "until_before": None} if memory.status == "superseded" else {}
