"""Near-duplicate memories: found on a snapshot, proposed once, and made one when somebody says so.

A proposal changes nothing. Nothing merges by itself (of ATOCore's tiers the automatic one is never the default): the policy
only proposes, and ``merge`` is somebody's act. Each memory stands in one open proposal at the most, so that a proposal stays
what its reader saw; two that were turned down together are never proposed together again, in whatever company.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from itertools import combinations
from operator import mul

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain import memory as memory_domain
from ledger.domain import merge as domain
from ledger.domain import near
from ledger.domain.errors import RejectedError
from ledger.domain.events import MemoriesMerged, MemoryCaptured, MergeProposed, RelationAdded
from ledger.domain.memory import CONTENT_BYTES, Memory
from ledger.domain.merge import Merge
from ledger.domain.metadata import event_form
from ledger.domain.text import check_text
from ledger.engine.log_reading import find_row
from ledger.engine.work import Work
from ledger.policies import admission
from projections.views import conflicts, memories, merges, projects

ACTOR = "policy:merge"
TOGETHER = 100  # proposals of one append


class Seen(Struct, frozen=True):
    """A memory as the search saw it."""

    row: int
    id: str
    project: str | None
    kind: str
    content: str
    words: near.WordSet


class Found(Struct, frozen=True):
    """Memories that say nearly the same, and the least similarity of two of them."""

    members: tuple[Seen, ...]
    similarity: int
    rule: str = domain.WORDS_RULE

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(sorted(each.id for each in self.members))


class Searched(Struct, frozen=True):
    """``cut_short`` counts the memories whose neighbors were not all looked for (see ``near.PATIENCE``)."""

    found: tuple[Found, ...] = ()
    looked_at: int = 0
    cut_short: int = 0


Scope = Sequence[str | None] | None  # projects, of which None is that of global memories; None for all


Together = Callable[[Seen, Seen], bool]
Vectors = Callable[[sqlite3.Connection, Seen], Sequence[float]]  # of a text as it is; none where it has none


def search(
    connection: sqlite3.Connection,
    user: str,
    threshold: int,
    *,
    scope: Scope = None,
    after: int | None = None,
    vectors: Vectors | None = None,
) -> Searched:
    """The near duplicates of a user that nobody was told of yet; with ``after`` only those that have changed since then,
    and what is near them. ``vectors`` add pairs that words alone do not."""
    changed = None if after is None else set(memories.changed(connection, user, after))
    if changed is not None and not changed:
        return Searched()
    busy = _busy(connection, user)
    seen = [each for each in _active(connection, user, scope) if each.id not in busy]
    if changed is not None:
        seen = _near(seen, changed, threshold if vectors is None else min(threshold, domain.LEAST_WORDS))
    apart = _apart(connection, user)
    main = cache(partial(projects.main, connection))
    places: dict[tuple[str | None, str], list[Seen]] = {}
    for each in seen:
        places.setdefault((main(each.project), each.kind), []).append(each)

    def together(one: Seen, other: Seen) -> bool:
        return (min(one.id, other.id), max(one.id, other.id)) not in apart and not near.opposed(one.words, other.words)

    found, cut_short = list[Found](), 0
    for group in places.values():
        clusters = near.clusters([(each, each.words) for each in group], threshold, together=together)
        found += [Found(cluster.ids, cluster.similarity) for cluster in clusters.found]
        cut_short += clusters.cut_short
        if vectors is not None:
            taken = {each.row for cluster in clusters.found for each in cluster.ids}
            rest = [each for each in group if each.row not in taken]
            found += _by_vectors(rest, partial(vectors, connection), together)
    return Searched(tuple(found), len(seen), cut_short)


def _by_vectors(seen: Sequence[Seen], vector: Callable[[Seen], Sequence[float]], together: Together) -> list[Found]:
    """Pairs whose vectors are near, of those that have about half of their words in common; each memory in one."""
    index, found, taken = near.Index(domain.LEAST_WORDS, near.rarest_first(each.words for each in seen)), [], set[int]()
    for each in seen:
        for number, similarity in index.near(each.words, most=near.NEIGHBORS, patience=near.PATIENCE):
            other = seen[number]
            if taken & {each.row, other.row} or not together(other, each):
                continue
            if sum(map(mul, vector(each), vector(other))) >= domain.COSINE:
                taken |= {each.row, other.row}
                found.append(Found((other, each), similarity, domain.VECTORS_RULE))
        index.add(each.words)
    return found


def _active(connection: sqlite3.Connection, user: str, scope: Scope) -> list[Seen]:
    rows = memories.active_texts(connection, user, scope, "row, id, project, kind, content")
    return [Seen(row, id, at, kind, content, near.word_set(content)) for row, id, at, kind, content in rows]


def _near(seen: Sequence[Seen], changed: Collection[int], threshold: int) -> list[Seen]:
    """Those that have changed, and whatever is near one of them: an index of the few, by which all are looked up."""
    new = [each for each in seen if each.row in changed]
    index = near.Index(threshold, near.rarest_first(each.words for each in new))
    for each in new:
        index.add(each.words)
    return [each for each in seen if each.row in changed or index.near(each.words, most=1)] if new else []


def _busy(connection: sqlite3.Connection, user: str) -> set[str]:
    """The memories in a proposal that somebody still has to decide about."""
    waiting = merges.listing(connection, user, (domain.PROPOSED,))
    return {id for each in waiting if not why_obsolete(connection, each) for id in each.memories}


def _apart(connection: sqlite3.Connection, user: str) -> set[tuple[str, str]]:
    """Pairs that were turned down or whose proposal was undone, and those that say different things of one slot."""
    groups = [each.memories for each in merges.listing(connection, user, (domain.REJECTED,))]
    groups += [each.memories for each in merges.undone(connection, user)]
    groups += [each.members for each in conflicts.listing(connection, user)]
    return {pair for group in groups for pair in combinations(sorted(group), 2)}


def why_obsolete(connection: sqlite3.Connection, merge: Merge) -> str:
    """Why a proposal is about nothing any more: what became of a member since; "" where nothing did."""
    for id in merge.memories:
        row = find_row(connection, id, "m", merge.user or "")
        now = memories.get(connection, row) if row is not None else None
        if row is None or now is None:
            return f"{id} is gone"
        if now.status != "active" or now.quarantined:
            return f"{id} is {'quarantined' if now.status == 'active' else now.status}"
        then = memories.get_at(connection, row, merge.proposed_at)
        if then is not None and (then.content, then.project, then.kind) != (now.content, now.project, now.kind):
            return f"{id} says something else by now"
    return ""


# --- under the lock --------------------------------------------------------------------------------------------------


def propose(work: Work, found: Sequence[Found]) -> None:
    """Proposes what is still as it was seen, and not proposed or turned down meanwhile."""
    project = work.project
    for each in found:
        states = [work.find(member.id, "m") for member in each.members]
        if not all(_is_as_seen(*pair) for pair in zip(each.members, states, strict=True)):
            continue
        known = _known(work, each.ids)
        if known is None:
            continue
        work.project = each.members[0].project
        command = domain.Propose(each.ids, each.similarity, each.rule)
        if known == []:
            work.emit(work.new_id("g"), MergeProposed(each.ids, each.similarity, each.rule))
        else:
            for event in domain.decide(command, known[0]):
                work.emit(known[0].id, event, first=known[0].row)
    work.project = project


def _is_as_seen(seen: Seen, now: Memory | None) -> bool:
    if now is None or now.status != "active" or now.quarantined:
        return False
    return (now.content, now.project, now.kind) == (seen.content, seen.project, seen.kind)


def _known(work: Work, ids: tuple[str, ...]) -> list[Merge] | None:
    """The merge of exactly these memories, if there was one; None where they are not to be proposed."""
    same = list[Merge]()
    for merge in _about(work, ids):
        shared = set(ids) & set(merge.memories)
        if merge.status == domain.REJECTED and len(shared) > 1:
            return None
        work.rows.flush()
        if merge.status == domain.PROPOSED and not why_obsolete(work.connection(), merge):
            return None
        if merge.memories == ids:
            same.append(merge)
    return same


def _about(work: Work, ids: Sequence[str]) -> list[Merge]:
    rows = dict.fromkeys(row for id in ids for row in merges.about(work.rows, id))
    return [merge for row in rows if (merge := work.at_row(row, "g")) is not None]


def unite(work: Work, ids: Sequence[str], content: str | None, reason: str, proposal: Merge | None = None) -> str:
    """The one memory that takes the place of these, and which they are superseded by; the id of what they became already."""
    members: list[Memory] = list({state.id: state for each in ids if (state := work.load(each, "m"))}.values())
    if len(members) < 2 or len(members) > domain.MEMBERS:
        raise RejectedError(
            f"a merge is of 2 to {domain.MEMBERS} memories, and these are {len(members)}",
            rule="size",
            limit=domain.MEMBERS,
            requested=len(members),
        )
    named = tuple(sorted(each.id for each in members))
    if (became := _became(work, named, members)) is not None:
        work.absorbed = True
        return became
    _check(work, members)
    chosen = domain.best(members)
    text = (chosen.content or "") if content is None else check_text("content", content, max_bytes=CONTENT_BYTES)
    work.project = chosen.project
    admission.refuse_threat(work, text, "merge into")
    _refuse_duplicate(work, members, text)
    together = replace(chosen, content="".join(each.content or "" for each in members))
    admission.check_budget(work, chosen.kind, text, frees=together)
    merged = _emit_merged(work, members, chosen, text)
    for each in members:  # what they said is said by the one for all of its time, so they hold at none
        command = memory_domain.Supersede(merged, each.valid_from, reason, domain.RULE)
        for event in memory_domain.decide(command, each):
            work.emit(each.id, event, first=each.row)
    if proposal is None:
        waiting = [each for each in _about(work, named) if (each.status, each.memories) == (domain.PROPOSED, named)]
        proposal = waiting[0] if waiting else None
    if proposal is None:
        work.emit(work.new_id("g"), MemoriesMerged(merged, named, domain.RULE, reason))
    else:
        for made in domain.decide(domain.Unite(merged, reason), proposal):
            work.emit(proposal.id, made, first=proposal.row)
    return merged


def _became(work: Work, named: tuple[str, ...], members: Sequence[Memory]) -> str | None:
    """What exactly these became, while none of them is active again."""
    if any(each.status != "superseded" for each in members):
        return None
    done = [each for each in _about(work, named) if (each.status, each.memories) == (domain.MERGED, named)]
    return next((each.memory for each in done if each.memory == members[0].superseded_by), None)


def _check(work: Work, members: Sequence[Memory]) -> None:
    for each in members:
        if each.status == "candidate":
            raise RejectedError(
                f"cannot merge {each.id}: it is a candidate; promote it first", rule="transition", subject=each.id
            )
        if each.status != "active":
            raise memory_domain.refusal(memory_domain.Supersede(None, ""), each)
        if each.quarantined:
            raise RejectedError(f"cannot merge {each.id}: it is quarantined; release it first", rule="merge")
    kinds, places = {each.kind for each in members}, {work.together(each.project)[0] for each in members}
    for what, several in (("kind", len(kinds)), ("project", len(places))):
        if several > 1:
            raise RejectedError(f"memories that are merged have one {what}, and these have several", rule="merge")


def _refuse_duplicate(work: Work, members: Sequence[Memory], content: str) -> None:
    first = members[0]
    rows = {each.row for each in members}
    other = admission.same(work, first.kind, first.project, content, "active", besides=rows)
    if other is not None:
        raise RejectedError(
            f"cannot merge into this wording: {other.id} is active and says the same; merge it with them",
            rule="duplicate",
            subject=other.id,
        )


def _emit_merged(work: Work, members: Sequence[Memory], chosen: Memory, content: str) -> str:
    union = domain.united(members)
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
