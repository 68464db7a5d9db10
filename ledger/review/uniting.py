"""The memory that several memories become by a merge: its properties, and the append in which it supersedes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.work import Work
from ledger.domain.errors import RejectedError
from ledger.domain.metadata import Pairs, event_form, in_all, of_row
from ledger.domain.text import TAGS, check_text
from ledger.events import MemoriesMerged, MemoryCaptured, RelationAdded
from ledger.memories import admission
from ledger.memories import rules as memory_rules
from ledger.memories.changes import refuse_threat
from ledger.memories.rules import EDGES
from ledger.memories.state import CONTENT_BYTES, Edge, MemoryState
from ledger.review import rules
from ledger.review.proposing import emit, merges_about
from ledger.review.rules import MergeState

MEMBERS = 50  # of one merge, as ATOCore looks at batches of 50
SOURCES = 2_000


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


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def best(members: Sequence[MemoryState]) -> MemoryState:
    """Return the member that gives the wording if nobody gave one: the most confident, then most referenced, then newest."""
    return max(members, key=lambda memory: (memory.confidence, memory.reference_count, memory.row))


# --- under the lock --------------------------------------------------------------------------------------------------


def unite(work: Work, ids: Sequence[str], content: str | None, reason: str, proposal: MergeState | None = None) -> str:
    """Merge the memories into a new memory, which supersedes them; return its id, or the id of an earlier merge of the same."""
    members: list[MemoryState] = list({state.id: state for id in ids if (state := work.load(id, "m"))}.values())
    if len(members) < 2 or len(members) > MEMBERS:
        raise RejectedError(
            f"a merge takes 2 to {MEMBERS} different memories, and {len(members)} were given",
            rule="size",
            limit=MEMBERS,
            requested=len(members),
        )
    named = tuple(sorted(member.id for member in members))
    if (became := _became(work, named, members)) is not None:
        work.absorbed = True
        return became
    _check(work, members)
    chosen = best(members)
    text = (chosen.content or "") if content is None else check_text("content", content, max_bytes=CONTENT_BYTES)
    work.project = chosen.project
    refuse_threat(work, text, "merge into")
    _refuse_duplicate(work, members, text)
    together = replace(chosen, content="".join(member.content or "" for member in members))
    admission.check_budget(work, chosen.kind, text, frees=together)
    merged = _emit_merged(work, members, chosen, text)
    for member in members:  # the merged memory covers the whole time of its members
        command = memory_rules.Supersede(merged, None, reason, rules.MERGE_RULE)
        for event in memory_rules.decide(command, member):
            work.emit(member.id, event, first=member.row)
    if proposal is None:
        waiting = [
            merge for merge in merges_about(work, named) if (merge.status, merge.memories) == (rules.PROPOSED, named)
        ]
        proposal = waiting[0] if waiting else None
    if proposal is None:
        work.emit(work.new_id("g"), MemoriesMerged(merged, named, rules.MERGE_RULE, reason))
    else:
        emit(work, proposal, rules.Unite(merged, reason))
    return merged


def _became(work: Work, named: tuple[str, ...], members: Sequence[MemoryState]) -> str | None:
    """Return the memory that exactly these members became, while none of them is active again."""
    if any(member.status != "superseded" for member in members):
        return None
    done = [merge for merge in merges_about(work, named) if (merge.status, merge.memories) == (rules.MERGED, named)]
    return next((merge.memory for merge in done if merge.memory == members[0].superseded_by), None)


def _check(work: Work, members: Sequence[MemoryState]) -> None:
    for member in members:
        if member.status == "candidate":
            raise RejectedError(
                f"cannot merge {member.id}: it is a candidate; promote it first", rule="transition", subject=member.id
            )
        if member.status != "active":
            raise memory_rules.refusal(memory_rules.Supersede(None, ""), member)
        if member.quarantined:
            raise RejectedError(f"cannot merge {member.id}: it is quarantined; release it first", rule="merge")
    kinds, places = {member.kind for member in members}, {work.together(member.project)[0] for member in members}
    for property_name, several in (("kind", len(kinds)), ("project", len(places))):
        if several > 1:
            raise RejectedError(
                f"only memories of one {property_name} can be merged, and these have {several}", rule="merge"
            )


def _refuse_duplicate(work: Work, members: Sequence[MemoryState], content: str) -> None:
    first = members[0]
    rows = {member.row for member in members}
    same = admission.same(work, first.kind, first.project, content, "active", besides=rows)
    if same is not None:
        raise RejectedError(
            f"cannot merge into this wording: {same.id} is active and says the same; include it in the merge",
            rule="duplicate",
            subject=same.id,
        )


def _emit_merged(work: Work, members: Sequence[MemoryState], chosen: MemoryState, content: str) -> str:
    union = united(members)
    merged = work.new_id("m")
    captured = MemoryCaptured(
        content=content,
        kind=chosen.kind,
        status="active",
        confidence=union.confidence,
        entities=union.entities,
        tags=union.tags,
        metadata=event_form(union.metadata),
        sources=union.sources,
        valid_from=union.valid_from,
        valid_to=union.valid_to,
        supersedes=chosen.id,
        reference_count=union.reference_count,
        last_referenced_at=union.last_referenced_at,
    )
    work.emit(merged, captured)
    for edge in union.edges:
        work.emit(merged, RelationAdded(edge.source, edge.relation, edge.target, edge.valid_from, edge.valid_to))
    return merged
