"""The search for near duplicates, which proposes merges: on a snapshot, and checked again under the lock.

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

from ledger.core.reads import find_row
from ledger.core.work import Work
from ledger.english import near
from ledger.events import MergeProposed
from ledger.review import rules
from ledger.review.proposing import Scope, Searched, are_as_seen, emit, merges_about
from ledger.review.rules import MergeState
from projections.views import conflicts, memories, merges, projects

WORDS_RULE = "words/1"
"""The rule for word sets: each two members have a Jaccard similarity of at least 0.85, none denies another, and no two
differ in their numbers."""

VECTORS_RULE = "vectors/1"
"""The rule for pairs: a cosine of the vectors of at least 0.92 and a similarity of the word sets of at least 0.5.

Both numbers are this product's own choice."""

COSINE, LEAST_WORDS = 0.92, 500_000


class SearchedMemory(Searched, frozen=True):
    """A memory as the search for near duplicates saw it."""

    kind: str
    words: near.WordSet


class NearDuplicates(Struct, frozen=True):
    """Memories that say nearly the same, and the least similarity of two of them."""

    members: tuple[SearchedMemory, ...]
    similarity: int
    rule: str = WORDS_RULE

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
        seen = _near(seen, changed, threshold if vectors is None else min(threshold, LEAST_WORDS))
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
        near.NearIndex(LEAST_WORDS, near.rarest_first(memory.words for memory in seen)),
        [],
        set[int](),
    )
    for memory in seen:
        for number, similarity in index.near(memory.words, most=near.NEIGHBORS, patience=near.PATIENCE):
            partner = seen[number]
            if taken & {memory.row, partner.row} or not together(partner, memory):
                continue
            if sum(map(mul, vector(memory), vector(partner))) >= COSINE:
                taken |= {memory.row, partner.row}
                pairs.append(NearDuplicates((partner, memory), similarity, VECTORS_RULE))
        index.add(memory.words)
    return pairs


def _active(connection: sqlite3.Connection, user: str, scope: Scope) -> list[SearchedMemory]:
    rows = memories.active_texts(connection, user, scope, "row, id, project, content, kind")
    return [SearchedMemory(row, id, at, content, kind, near.word_set(content)) for row, id, at, content, kind in rows]


def _near(seen: Sequence[SearchedMemory], changed: Collection[int], threshold: int) -> list[SearchedMemory]:
    """Return the changed memories and all memories near one of them, by an index of the changed ones."""
    new = [memory for memory in seen if memory.row in changed]
    index = near.NearIndex(threshold, near.rarest_first(memory.words for memory in new))
    for memory in new:
        index.add(memory.words)
    return [memory for memory in seen if memory.row in changed or index.near(memory.words, most=1)] if new else []


def _busy(connection: sqlite3.Connection, user: str) -> set[str]:
    """Return the memories in a proposal that waits for a decision."""
    waiting = merges.listing(connection, user, (rules.PROPOSED,))
    return {id for merge in waiting if not why_obsolete(connection, merge) for id in merge.memories}


def _apart(connection: sqlite3.Connection, user: str) -> set[tuple[str, str]]:
    """Return the pairs that were rejected or whose proposal was undone, and those that conflict in one slot."""
    groups = [merge.memories for merge in merges.listing(connection, user, (rules.REJECTED,))]
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
        if not are_as_seen(work, group.members):
            continue
        known = _known(work, group.ids)
        if known is None:
            continue
        work.project = group.members[0].project
        match = MergeProposed(group.ids, group.similarity, group.rule)
        if known:
            emit(work, known[0], rules.ProposeAgain(match))
        else:
            work.emit(work.new_id("g"), match)
    work.project = project


def _known(work: Work, ids: tuple[str, ...]) -> list[MergeState] | None:
    """Return the earlier merges of exactly these memories; None if the memories must not be proposed."""
    same = list[MergeState]()
    for merge in merges_about(work, ids):
        shared = set(ids) & set(merge.memories)
        if merge.status == rules.REJECTED and len(shared) > 1:
            return None
        work.rows.flush()
        if merge.status == rules.PROPOSED and not why_obsolete(work.connection(), merge):
            return None
        if merge.memories == ids:
            same.append(merge)
    return same
