"""A merge: memories that say nearly the same, proposed to become one, and what somebody decided about them.

none ──► proposed ──merge──► merged      what somebody merges without a proposal begins as merged
            └─────reject──► rejected     restored members that are near again are proposed again; rejected ones never
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.errors import RejectedError
from ledger.domain.events import AnyEvent, Event, MemoriesMerged, MergeProposed, MergeRejected
from ledger.domain.memory import EDGES, Edge, Memory
from ledger.domain.metadata import Pairs, in_all, of_row
from ledger.domain.text import TAGS

PROPOSED, MERGED, REJECTED = "proposed", "merged", "rejected"
OBSOLETE = "obsolete"  # of a proposal: at the time of reading, its members are others than those it was about
STATUSES = (PROPOSED, MERGED, REJECTED)

WORDS_RULE = "words/1"
"""Word sets of Jaccard similarity from 0.85 on, each of the members with each; none denies what another says, and no two have
numbers of their own."""

VECTORS_RULE = "vectors/1"
"""Two whose vectors have a cosine from 0.92 on and whose word sets a similarity from 0.5 on. Both numbers are ours."""

COSINE, LEAST_WORDS = 0.92, 500_000

RULE = "merge/1"
"""How the one memory follows from the members: see ``united``."""

MEMBERS = 50  # of one merge, as ATOCore looks at batches of 50
SOURCES = 2_000


class Merge(Struct, frozen=True):
    """Everything that folds out of one merge's events; the columns of its row, in order."""

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
    memory: str | None  # what the members became
    reason: str | None
    proposed_at: int  # the position of the last proposal; 0 where there was none
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


class Reject(Struct, frozen=True):
    reason: str = ""


Command = Propose | Unite | Reject


def decide(command: Command, merge: Merge) -> list[Event]:
    """The events that a command on a known merge leads to; none when what it asks for is already so."""
    match command, merge.status:
        case Propose(memories, similarity, rule), "proposed" | "merged":
            return [MergeProposed(memories, similarity, rule)]
        case Unite(memory, reason), "proposed":
            return [MemoriesMerged(memory, merge.memories, RULE, reason)]
        case Reject(reason), "proposed":
            return [MergeRejected(reason)]
        case (Propose() | Reject(), "rejected"):
            return []
        case _:
            raise _refusal("merge" if isinstance(command, Unite) else "reject", merge)


def check_merged(merge: Merge) -> None:
    """``RejectedError`` when what was proposed was turned down; what was merged is asked for again."""
    if merge.status == REJECTED:
        raise _refusal("merge", merge)


def _refusal(asked: str, merge: Merge) -> RejectedError:
    allowed = {
        MERGED: f"it became {merge.memory}; undo that command, which brings the members back",
        REJECTED: "it was rejected; name the memories themselves, or undo the rejection",
    }
    return RejectedError(f"cannot {asked} {merge.id}: {allowed[merge.status]}", rule="transition", subject=merge.id)


MergeEvent = MergeProposed | MemoriesMerged | MergeRejected


def evolve(merge: Merge | None, event: AnyEvent) -> Merge | None:
    data: MergeEvent = event.data
    if merge is None:
        return _begun(event, data) if isinstance(data, MergeProposed | MemoriesMerged) else None
    return replace(merge, version=event.version, position=event.position, **_changes(event, data))


def _begun(event: AnyEvent, data: MergeProposed | MemoriesMerged) -> Merge:
    envelope = event.envelope
    begun = Merge(
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


def admits(merge: Merge | None, data: Event) -> bool:
    """Whether an event recorded earlier still makes sense on this state, once others before it are void."""
    if merge is None:
        return isinstance(data, MergeProposed | MemoriesMerged)
    return merge.status == PROPOSED or isinstance(data, MergeProposed)


# --- what the members become -----------------------------------------------------------------------------------------


class United(Struct, frozen=True):
    """What several memories have together, but for their words."""

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


def united(members: Sequence[Memory]) -> United:
    """The greatest confidence, the references added up, the latest of them, and everything else united (ATOCore 7A).

    Of the metadata it has what all members have. At most ten tags: those that most members have, then the oldest. It holds
    from when the first of them did to when the last of them does. Of more than 64 edges, or 2,000 sources, the oldest stay.
    """
    inorder = sorted(members, key=lambda each: each.row)
    counts = Counter(tag for each in inorder for tag in each.tags)
    ends = [each.valid_to for each in inorder]
    return United(
        confidence=max(each.confidence for each in inorder),
        reference_count=sum(each.reference_count for each in inorder),
        last_referenced_at=max((each.last_referenced_at for each in inorder if each.last_referenced_at), default=None),
        entities=_once(name for each in inorder for name in each.entities),
        tags=tuple(tag for tag, _ in counts.most_common(TAGS)),
        metadata=in_all([of_row(each.metadata) for each in inorder]),
        sources=_once(source for each in inorder for source in each.sources)[:SOURCES],
        edges=tuple({edge.form: edge for each in inorder for edge in each.edges}.values())[:EDGES],
        valid_from=min(each.valid_from for each in inorder),
        valid_to=None if None in ends else max(end for end in ends if end is not None),
    )


def _once(given: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(given))


def best(members: Sequence[Memory]) -> Memory:
    """Whose wording the one memory takes where nobody gave another: the surest, then the most referred to, then the newest."""
    return max(members, key=lambda each: (each.confidence, each.reference_count, each.row))
