"""Near-duplicate memories: found on a snapshot, proposed once, and merged on request.

A proposal changes nothing, and nothing merges by itself; ATOCore, too, does not merge automatically by default. A memory
stands in at most one open proposal, so that a proposal stays as its reader saw it. Two memories that were rejected together
are never proposed together again, whatever the other members.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from itertools import combinations
from operator import mul

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.log_reading import find_row
from ledger.core.work import Work
from ledger.domain.errors import RejectedError
from ledger.domain.metadata import event_form
from ledger.domain.text import check_text
from ledger.english import near
from ledger.events import MemoriesMerged, MemoryCaptured, MergeProposed, RelationAdded
from ledger.memories import admission
from ledger.memories import rules as memory_domain
from ledger.memories.rules import CONTENT_BYTES, MemoryState
from ledger.review import merge_rules
from ledger.review.merge_rules import MergeState
from projections.views import conflicts, memories, merges, projects

ACTOR = "policy:merge"
TOGETHER = 100  # proposals of one append


class SearchedMemory(Struct, frozen=True):
    """A memory as the search saw it."""

    row: int
    id: str
    project: str | None
    kind: str
    content: str
    words: near.WordSet


class NearDuplicates(Struct, frozen=True):
    """Memories that say nearly the same, and the least similarity of two of them."""

    members: tuple[SearchedMemory, ...]
    similarity: int
    rule: str = merge_rules.WORDS_RULE

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(sorted(member.id for member in self.members))


class DuplicateSearch(Struct, frozen=True):
    """The results of a search.

    ``cut_short`` counts the memories whose neighbors were not all compared (see ``near.PATIENCE``).
    """

    found: tuple[NearDuplicates, ...] = ()
    looked_at: int = 0
    cut_short: int = 0


Scope = Sequence[str | None] | None  # projects, in which None stands for memories without a project; None for all


Together = Callable[[SearchedMemory, SearchedMemory], bool]
Vectors = Callable[
    [sqlite3.Connection, SearchedMemory], Sequence[float]
]  # the vector of a present text; empty without one


def search(
    connection: sqlite3.Connection,
    user: str,
    threshold: int,
    *,
    scope: Scope = None,
    after: int | None = None,
    vectors: Vectors | None = None,
) -> DuplicateSearch:
    """Return the near duplicates of a user that are not yet proposed.

    With ``after``, only memories that changed since then, and memories near them, are compared. ``vectors`` add pairs that words
    alone do not find.
    """
    changed = None if after is None else set(memories.changed(connection, user, after))
    if changed is not None and not changed:
        return DuplicateSearch()
    busy = _busy(connection, user)
    seen = [memory for memory in _active(connection, user, scope) if memory.id not in busy]
    if changed is not None:
        seen = _near(seen, changed, threshold if vectors is None else min(threshold, merge_rules.LEAST_WORDS))
    apart = _apart(connection, user)
    main = cache(partial(projects.main, connection))
    places: dict[tuple[str | None, str], list[SearchedMemory]] = {}
    for memory in seen:
        places.setdefault((main(memory.project), memory.kind), []).append(memory)

    def together(first: SearchedMemory, second: SearchedMemory) -> bool:
        return (min(first.id, second.id), max(first.id, second.id)) not in apart and not near.opposed(
            first.words, second.words
        )

    groups, cut_short = list[NearDuplicates](), 0
    for group in places.values():
        clusters = near.clusters([(memory, memory.words) for memory in group], threshold, together=together)
        groups += [NearDuplicates(cluster.ids, cluster.similarity) for cluster in clusters.found]
        cut_short += clusters.cut_short
        if vectors is not None:
            taken = {memory.row for cluster in clusters.found for memory in cluster.ids}
            rest = [memory for memory in group if memory.row not in taken]
            groups += _by_vectors(rest, partial(vectors, connection), together)
    return DuplicateSearch(tuple(groups), len(seen), cut_short)


def _by_vectors(
    seen: Sequence[SearchedMemory], vector: Callable[[SearchedMemory], Sequence[float]], together: Together
) -> list[NearDuplicates]:
    """Return pairs whose vectors are near, of memories that share about half of their words; a memory is in at most one pair."""
    index, pairs, taken = (
        near.NearIndex(merge_rules.LEAST_WORDS, near.rarest_first(memory.words for memory in seen)),
        [],
        set[int](),
    )
    for memory in seen:
        for number, similarity in index.near(memory.words, most=near.NEIGHBORS, patience=near.PATIENCE):
            partner = seen[number]
            if taken & {memory.row, partner.row} or not together(partner, memory):
                continue
            if sum(map(mul, vector(memory), vector(partner))) >= merge_rules.COSINE:
                taken |= {memory.row, partner.row}
                pairs.append(NearDuplicates((partner, memory), similarity, merge_rules.VECTORS_RULE))
        index.add(memory.words)
    return pairs


def _active(connection: sqlite3.Connection, user: str, scope: Scope) -> list[SearchedMemory]:
    rows = memories.active_texts(connection, user, scope, "row, id, project, kind, content")
    return [SearchedMemory(row, id, at, kind, content, near.word_set(content)) for row, id, at, kind, content in rows]


def _near(seen: Sequence[SearchedMemory], changed: Collection[int], threshold: int) -> list[SearchedMemory]:
    """Return the changed memories and all memories near one of them, by an index of the changed ones."""
    new = [memory for memory in seen if memory.row in changed]
    index = near.NearIndex(threshold, near.rarest_first(memory.words for memory in new))
    for memory in new:
        index.add(memory.words)
    return [memory for memory in seen if memory.row in changed or index.near(memory.words, most=1)] if new else []


def _busy(connection: sqlite3.Connection, user: str) -> set[str]:
    """Return the memories in a proposal that waits for a decision."""
    waiting = merges.listing(connection, user, (merge_rules.PROPOSED,))
    return {id for merge in waiting if not why_obsolete(connection, merge) for id in merge.memories}


def _apart(connection: sqlite3.Connection, user: str) -> set[tuple[str, str]]:
    """Return the pairs that were rejected or whose proposal was undone, and those that conflict in one slot."""
    groups = [merge.memories for merge in merges.listing(connection, user, (merge_rules.REJECTED,))]
    groups += [merge.memories for merge in merges.undone(connection, user)]
    groups += [conflict.members for conflict in conflicts.listing(connection, user)]
    return {pair for group in groups for pair in combinations(sorted(group), 2)}


def why_obsolete(connection: sqlite3.Connection, merge: MergeState) -> str:
    """Return the reason why a proposal is obsolete: the change of a member since the proposal; "" without a change."""
    for id in merge.memories:
        row = find_row(connection, id, "m", merge.user or "")
        now = memories.get(connection, row) if row is not None else None
        if row is None or now is None:
            return f"{id} is gone"
        if now.status != "active" or now.quarantined:
            return f"{id} is {'quarantined' if now.status == 'active' else now.status}"
        then = memories.get_at(connection, row, merge.proposed_at)
        if then is not None and (then.content, then.project, then.kind) != (now.content, now.project, now.kind):
            return f"{id} has another content, project or kind by now"
    return ""


# --- under the lock --------------------------------------------------------------------------------------------------


def propose(work: Work, matches: Sequence[NearDuplicates]) -> None:
    """Propose the groups whose members are as the search saw them, unless they were proposed or rejected meanwhile."""
    project = work.project
    for group in matches:
        states = [work.find(member.id, "m") for member in group.members]
        if not all(_is_as_seen(*pair) for pair in zip(group.members, states, strict=True)):
            continue
        known = _known(work, group.ids)
        if known is None:
            continue
        work.project = group.members[0].project
        command = merge_rules.Propose(group.ids, group.similarity, group.rule)
        if known == []:
            work.emit(work.new_id("g"), MergeProposed(group.ids, group.similarity, group.rule))
        else:
            for event in merge_rules.decide(command, known[0]):
                work.emit(known[0].id, event, first=known[0].row)
    work.project = project


def _is_as_seen(seen: SearchedMemory, now: MemoryState | None) -> bool:
    if now is None or now.status != "active" or now.quarantined:
        return False
    return (now.content, now.project, now.kind) == (seen.content, seen.project, seen.kind)


def _known(work: Work, ids: tuple[str, ...]) -> list[MergeState] | None:
    """Return the earlier merges of exactly these memories; None if the memories must not be proposed."""
    same = list[MergeState]()
    for merge in _about(work, ids):
        shared = set(ids) & set(merge.memories)
        if merge.status == merge_rules.REJECTED and len(shared) > 1:
            return None
        work.rows.flush()
        if merge.status == merge_rules.PROPOSED and not why_obsolete(work.connection(), merge):
            return None
        if merge.memories == ids:
            same.append(merge)
    return same


def _about(work: Work, ids: Sequence[str]) -> list[MergeState]:
    rows = dict.fromkeys(row for id in ids for row in merges.about(work.rows, id))
    return [merge for row in rows if (merge := work.at_row(row, "g")) is not None]


def unite(work: Work, ids: Sequence[str], content: str | None, reason: str, proposal: MergeState | None = None) -> str:
    """Merge the memories into a new memory, which supersedes them; return its id, or the id of an earlier merge of the same."""
    members: list[MemoryState] = list({state.id: state for id in ids if (state := work.load(id, "m"))}.values())
    if len(members) < 2 or len(members) > merge_rules.MEMBERS:
        raise RejectedError(
            f"a merge takes 2 to {merge_rules.MEMBERS} different memories, and {len(members)} were given",
            rule="size",
            limit=merge_rules.MEMBERS,
            requested=len(members),
        )
    named = tuple(sorted(member.id for member in members))
    if (became := _became(work, named, members)) is not None:
        work.absorbed = True
        return became
    _check(work, members)
    chosen = merge_rules.best(members)
    text = (chosen.content or "") if content is None else check_text("content", content, max_bytes=CONTENT_BYTES)
    work.project = chosen.project
    admission.refuse_threat(work, text, "merge into")
    _refuse_duplicate(work, members, text)
    together = replace(chosen, content="".join(member.content or "" for member in members))
    admission.check_budget(work, chosen.kind, text, frees=together)
    merged = _emit_merged(work, members, chosen, text)
    for member in members:  # the merged memory covers the whole time of its members
        command = memory_domain.Supersede(merged, member.valid_from, reason, merge_rules.RULE)
        for event in memory_domain.decide(command, member):
            work.emit(member.id, event, first=member.row)
    if proposal is None:
        waiting = [
            merge for merge in _about(work, named) if (merge.status, merge.memories) == (merge_rules.PROPOSED, named)
        ]
        proposal = waiting[0] if waiting else None
    if proposal is None:
        work.emit(work.new_id("g"), MemoriesMerged(merged, named, merge_rules.RULE, reason))
    else:
        for made in merge_rules.decide(merge_rules.Unite(merged, reason), proposal):
            work.emit(proposal.id, made, first=proposal.row)
    return merged


def _became(work: Work, named: tuple[str, ...], members: Sequence[MemoryState]) -> str | None:
    """Return the memory that exactly these members became, while none of them is active again."""
    if any(member.status != "superseded" for member in members):
        return None
    done = [merge for merge in _about(work, named) if (merge.status, merge.memories) == (merge_rules.MERGED, named)]
    return next((merge.memory for merge in done if merge.memory == members[0].superseded_by), None)


def _check(work: Work, members: Sequence[MemoryState]) -> None:
    for member in members:
        if member.status == "candidate":
            raise RejectedError(
                f"cannot merge {member.id}: it is a candidate; promote it first", rule="transition", subject=member.id
            )
        if member.status != "active":
            raise memory_domain.refusal(memory_domain.Supersede(None, ""), member)
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
    union = merge_rules.united(members)
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
