"""A merge: memories that say nearly the same, proposed to become one memory, and the decision about them.

none ──► proposed ──merge──► merged      a merge without a proposal begins as merged
            └─────reject──► rejected     restored members that are near again are proposed again; rejected ones never
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.errors import RejectedError
from ledger.domain.metadata import Pairs, in_all, of_row
from ledger.domain.text import TAGS
from ledger.events import AnyEvent, EventData, MemoriesMerged, MergeProposed, MergeRejected
from ledger.memories.rules import EDGES, Edge, MemoryState

PROPOSED, MERGED, REJECTED = "proposed", "merged", "rejected"
OBSOLETE = "obsolete"  # never stored: the status of a proposal whose members changed, found at the time of reading
STATUSES = (PROPOSED, MERGED, REJECTED)

WORDS_RULE = "words/1"
"""The rule for word sets: each two members have a Jaccard similarity of at least 0.85, none denies another, and no two
differ in their numbers."""

VECTORS_RULE = "vectors/1"
"""The rule for pairs: a cosine of the vectors of at least 0.92 and a similarity of the word sets of at least 0.5.

Both numbers are this product's own choice."""

COSINE, LEAST_WORDS = 0.92, 500_000

RULE = "merge/1"
"""The rule by which the new memory follows from the members: see ``united``."""

MEMBERS = 50  # of one merge, as ATOCore looks at batches of 50
SOURCES = 2_000


class MergeState(Struct, frozen=True):
    """The state that folds out of one merge's events; the fields are the columns of its row, in order."""

    row: int
    id: str
    user: str | None
    project: str | None
    memories: tuple[str, ...]
    status: str
    similarity: int
    rule: str
    content: str | None
    model: str | None
    memory: str | None  # the memory that the members became
    reason: str | None
    proposed_at: int  # the position of the last proposal; 0 without a proposal
    recorded_at: str
    version: int
    position: int


class Propose(Struct, frozen=True):
    memories: tuple[str, ...]
    similarity: int
    rule: str


class Unite(Struct, frozen=True):
    memory: str
    reason: str = ""


class RejectMerge(Struct, frozen=True):
    reason: str = ""


Command = Propose | Unite | RejectMerge


def decide(command: Command, merge: MergeState) -> list[EventData]:
    """Return the events that a command on a known merge leads to; none when the state asked for is already reached.

    Raises:
        RejectedError: The status does not allow the command.
    """
    match command, merge.status:
        case Propose(memories, similarity, rule), "proposed" | "merged":
            return [MergeProposed(memories, similarity, rule)]
        case Unite(memory, reason), "proposed":
            return [MemoriesMerged(memory, merge.memories, RULE, reason)]
        case RejectMerge(reason), "proposed":
            return [MergeRejected(reason)]
        case (Propose() | RejectMerge(), "rejected"):
            return []
        case _:
            raise _refusal("merge" if isinstance(command, Unite) else "reject", merge)


def check_merged(merge: MergeState) -> None:
    """Raise ``RejectedError`` if the proposal was rejected; a merge that was made may be asked for again."""
    if merge.status == REJECTED:
        raise _refusal("merge", merge)


def _refusal(verb: str, merge: MergeState) -> RejectedError:
    hints = {
        MERGED: f"it became {merge.memory}; undo that command, which brings the members back",
        REJECTED: "it was rejected; name the memories themselves, or undo the rejection",
    }
    return RejectedError(f"cannot {verb} {merge.id}: {hints[merge.status]}", rule="transition", subject=merge.id)


MergeEvent = MergeProposed | MemoriesMerged | MergeRejected


def evolve(merge: MergeState | None, event: AnyEvent) -> MergeState | None:
    data: MergeEvent = event.data
    if merge is None:
        return _begun(event, data) if isinstance(data, MergeProposed | MemoriesMerged) else None
    return replace(merge, version=event.version, position=event.position, **_changes(event, data))


def _begun(event: AnyEvent, data: MergeProposed | MemoriesMerged) -> MergeState:
    envelope = event.envelope
    begun = MergeState(
        row=event.first,
        id=event.stream,
        user=envelope.user,
        project=envelope.project,
        memories=(),
        status=PROPOSED,
        similarity=0,
        rule="",
        content="",
        model="",
        memory=None,
        reason="",
        proposed_at=0,
        recorded_at=envelope.recorded_at,
        version=event.version,
        position=event.position,
    )
    return replace(begun, **_changes(event, data))


def _changes(event: AnyEvent, data: MergeEvent) -> dict[str, object]:
    match data:
        case MergeProposed(memories, similarity, rule, content, model):
            fields = {"memories": memories, "similarity": similarity, "rule": rule, "content": content, "model": model}
            return {"status": PROPOSED, "memory": None, "reason": "", "proposed_at": event.position} | fields
        case MemoriesMerged(memory, memories, _, reason):
            return {"status": MERGED, "memory": memory, "memories": memories, "reason": reason}
        case MergeRejected(reason):
            return {"status": REJECTED, "reason": reason}
        case _:
            assert_never(data)


def admits(merge: MergeState | None, data: EventData) -> bool:
    """Return True if an event recorded earlier is still possible in this state, after earlier events became void."""
    if merge is None:
        return isinstance(data, MergeProposed | MemoriesMerged)
    return merge.status == PROPOSED or isinstance(data, MergeProposed)


# --- the united memory -----------------------------------------------------------------------------------------------


class United(Struct, frozen=True):
    """The combined properties of several memories, except their wording."""

    confidence: int
    reference_count: int
    last_referenced_at: str | None
    entities: tuple[str, ...]
    tags: tuple[str, ...]
    metadata: Pairs
    sources: tuple[str, ...]
    edges: tuple[Edge, ...]
    valid_from: str
    valid_to: str | None


def united(members: Sequence[MemoryState]) -> United:
    """Return the combined properties of several memories.

    The result has the greatest confidence, the sum of the references and the latest reference. Everything else is united, as in
    ATOCore. Metadata are kept only if all members have them. At most ten tags are kept: those of most members, then the oldest.
    The validity runs from the earliest beginning to the latest end. Of more than 64 edges, or 2,000 sources, the oldest stay.
    """
    inorder = sorted(members, key=lambda memory: memory.row)
    counts = Counter(tag for memory in inorder for tag in memory.tags)
    ends = [memory.valid_to for memory in inorder]
    return United(
        confidence=max(memory.confidence for memory in inorder),
        reference_count=sum(memory.reference_count for memory in inorder),
        last_referenced_at=max(
            (memory.last_referenced_at for memory in inorder if memory.last_referenced_at), default=None
        ),
        entities=_once(name for memory in inorder for name in memory.entities),
        tags=tuple(tag for tag, _ in counts.most_common(TAGS)),
        metadata=in_all([of_row(memory.metadata) for memory in inorder]),
        sources=_once(source for memory in inorder for source in memory.sources)[:SOURCES],
        edges=tuple({edge.form: edge for memory in inorder for edge in memory.edges}.values())[:EDGES],
        valid_from=min(memory.valid_from for memory in inorder),
        valid_to=None if None in ends else max(end for end in ends if end is not None),
    )


def _once(names: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def best(members: Sequence[MemoryState]) -> MemoryState:
    """Return the member that gives the wording if nobody gave one: the most confident, then most referenced, then newest."""
    return max(members, key=lambda memory: (memory.confidence, memory.reference_count, memory.row))
