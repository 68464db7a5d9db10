"""The commands on merges and conflicts: search, decide, and search for every user whose policy wants that."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.reads import NOWHERE, load, scope_of
from ledger.core.work import Work
from ledger.domain.confidence import ONE, millionths
from ledger.domain.errors import NotFoundError, RejectedError, SuspendedError
from ledger.domain.text import check_reason, text_list
from ledger.english import near
from ledger.log.reading import read_tip
from ledger.memories import rules as memory_rules
from ledger.memories.admission import answered
from ledger.memories.answers import Memory
from ledger.memories.state import MemoryState
from ledger.review import conflict_policy, merge_policy, queries, rules
from ledger.review.answers import Conflict, ConflictReport, Merge, MergeReport
from ledger.review.conflict_policy import ConflictingMemories
from ledger.review.merge_policy import NearDuplicates, SearchedMemory
from ledger.review.proposing import Scope, emit
from ledger.review.rules import ConflictState, Dismiss, Keep, MergeState
from ledger.review.uniting import unite
from ledger.vectors import part as vector_part
from projections.core.rows import Connection
from projections.search import vectors
from projections.views import conflicts, control, memories

M = TypeVar("M", bound=NearDuplicates | ConflictingMemories)
S = TypeVar("S", bound=MergeState | ConflictState)
A = TypeVar("A", bound=Merge | Conflict)
LOT = 100  # matches of one append; a job checks between two appends whether to stop
LEAST_THRESHOLD = 0.5  # below, two texts differ in more words than they share


# --- search --------------------------------------------------------------------------------------------------


class Search(Struct, Generic[M, S, A], frozen=True):
    """A search: its command, the letter of its ids, its switch in a user's policy, and its steps."""

    command: str
    kind: str
    switch: str
    look: Callable[[Engine, Connection, str, int | None], Sequence[M]]  # (engine, snapshot, user, changed since)
    propose: Callable[[Work, Sequence[M]], None]
    answer: Callable[[Connection, S], A]


def find_merges(
    engine: Engine, asker: Who, *, project: str | None = None, threshold: float = near.THRESHOLD / ONE
) -> MergeReport:
    """Propose merges of active memories of one kind and project that say nearly the same, each with each of the others.

    ``threshold`` is the least similarity of two word sets (Jaccard; 0.85 as in rubino), at least 0.5. A proposal stays as it is
    until somebody calls ``merge`` or ``reject_merge``; a second search proposes nothing twice.
    """
    least = millionths("threshold", threshold)
    if least < LEAST_THRESHOLD * ONE:
        raise RejectedError(f"a threshold must be from {LEAST_THRESHOLD} to 1, and {threshold} is not")
    with engine.reading() as connection:
        scope = _scope(connection, asker.user, project)
        searched = merge_policy.search(connection, asker.user, least, scope=scope, vectors=_known_vectors(engine))
    proposed = _recorded(engine, asker, MERGES, searched.found)
    return MergeReport(proposed=proposed, looked_at=searched.looked_at, cut_short=searched.cut_short)


def find_conflicts(engine: Engine, asker: Who, *, project: str | None = None) -> ConflictReport:
    """Record conflicts: active memories of one project that fill one slot with values that cannot all be true.

    A slot comes from an edge whose relation holds one value ("works_at"), or from a plain sentence ("Ana lives in
    Lisbon"). No memory is preferred or dropped; a second search records nothing twice.
    """
    with engine.reading() as connection:
        scope = _scope(connection, asker.user, project)
        matches = conflict_policy.search(connection, asker.user, scope=scope)
    return ConflictReport(found=_recorded(engine, asker, CONFLICTS, matches))


def _scope(connection: Connection, user: str, project: str | None) -> Scope:
    scope = scope_of(connection, user, project)
    if scope == [NOWHERE]:
        raise NotFoundError(f"no project of this user is called {project!r:.60}")
    return scope


def _known_vectors(engine: Engine) -> merge_policy.Vectors | None:
    """Return a function that looks up the stored vector of a memory's present text; None without an embedder."""
    if (search := engine.parts.get(vector_part.SEARCH)) is None:
        return None
    model, secret = search.embedder.name, engine.writer.secret

    def known(connection: Connection, seen: SearchedMemory) -> tuple[float, ...]:
        if not vectors.is_there(connection):
            return ()
        sql = "SELECT text, vector FROM vectors WHERE model = ? AND corpus = 'm' AND row = ?"
        text, data = connection.execute(sql, (model, seen.row)).fetchone() or (b"", b"")
        return struct.unpack(f"<{len(data) // 4}f", data) if text == vectors.mark(secret, seen.content) else ()

    return known


def _recorded(engine: Engine, asker: Who, search: Search[M, S, A], matches: Sequence[M]) -> tuple[A, ...]:
    ids = record(engine, asker, search, matches)
    with engine.reading() as connection:
        states = [load(connection, id, search.kind, asker.user) for id in ids]
        return tuple(search.answer(connection, state) for state in states if state is not None)


def record(engine: Engine, asker: Who, search: Search[M, S, A], matches: Sequence[M]) -> list[str]:
    """Record the matches of a search, ``LOT`` of them in each append, and return the ids of the subjects concerned."""
    concerned: dict[str, None] = {}
    for first in range(0, len(matches), LOT):

        def body(work: Work, first: int = first) -> str:
            search.propose(work, matches[first : first + LOT])
            return work.emitted[-1][0] if work.emitted else "ledger"

        concerned |= {event.stream: None for event in engine.writer.run(search.command, asker, body).events}
    return list(concerned)


def look_for(engine: Engine, search: Search[M, S, A], stop: Callable[[], bool]) -> int:
    """Search for every user whose policy wants the search, and return the number of merges or conflicts recorded.

    All memories of each user are searched once, and from then on the memories that changed since this process last searched.
    ``stop`` is called between lots; when it returns True, the rest is left.
    """
    with engine.reading() as connection:
        users = [user for user in memories.users(connection) if control.wants(connection, user, search.switch)]
    recorded = 0
    for user in users:
        with engine.reading() as connection:
            head, _ = read_tip(connection.cursor())
            if (after := engine.looked.get((search.switch, user))) == head:
                continue
            if stop():
                break
            matches = search.look(engine, connection, user, after)
        try:
            for first in range(0, len(matches), LOT):
                if first and stop():
                    return recorded
                actor = f"policy:{search.switch}"
                recorded += len(record(engine, Who(user=user, actor=actor), search, matches[first : first + LOT]))
        except RejectedError as refusal:
            if refusal.rule != "trust":
                raise
        else:
            engine.looked[search.switch, user] = head
    return recorded


def _near_duplicates(engine: Engine, connection: Connection, user: str, after: int | None) -> Sequence[NearDuplicates]:
    return merge_policy.search(connection, user, near.THRESHOLD, after=after, vectors=_known_vectors(engine)).found


def _conflicting(engine: Engine, connection: Connection, user: str, after: int | None) -> Sequence[ConflictingMemories]:
    return conflict_policy.search(connection, user, after=after)


MERGES = Search("merges.find", "g", "merge", _near_duplicates, merge_policy.propose, queries.merge_answer)
CONFLICTS = Search("conflicts.find", "k", "conflicts", _conflicting, conflict_policy.propose, queries.conflict_answer)


# --- decide --------------------------------------------------------------------------------------------------


def merge(
    engine: Engine, asker: Who, memories: str | Iterable[str], content: str | None = None, reason: str = ""
) -> Memory:
    """Merge several memories into a new memory in one append, and return the new memory, which supersedes the others.

    ``memories`` are ids of 2 to 50 active memories of one kind and project, or the id of a proposal. Without ``content`` the
    wording is that of the most confident member, then the most often referenced, then the newest. The new memory has the
    greatest confidence, the sum of the references, and all tags, names, sources and edges of its members. A repeated merge
    returns the memory that the members became.

    Raises:
        RejectedError: A member is a candidate (promote it first), the members of the proposal changed, or another active memory
            has that wording.
    """
    reason = check_reason("reason", reason)
    is_proposal = isinstance(memories, str) and memories.startswith("g_")
    ids = () if is_proposal else text_list("memories", memories)

    def body(work: Work) -> str:
        if not is_proposal:
            return unite(work, [str(work.load(id, "m").id) for id in ids], content, reason)
        proposal: MergeState = work.load(str(memories), "g")
        if proposal.status == rules.PROPOSED:
            work.rows.flush()
            if why := merge_policy.why_obsolete(work.connection(), proposal):
                raise RejectedError(
                    f"cannot merge by {proposal.id}: {why}; look again with merges.find(), or name the "
                    "memories to merges.combine()",
                    rule="obsolete",
                    subject=proposal.id,
                )
        else:
            rules.check_not_rejected(proposal)
        return unite(work, proposal.memories, content or proposal.content or None, reason, proposal)

    arguments = (memories if is_proposal else ids, content, reason)
    command = "merges.apply" if is_proposal else "merges.combine"
    return answered(engine.writer.run(command, asker, body, arguments))


def reject_merge(engine: Engine, asker: Who, id: str, reason: str = "") -> Merge:
    """Reject a proposal: no two of its memories are ever proposed together again."""
    dismiss = Dismiss(check_reason("reason", reason))

    def body(work: Work, merge: MergeState) -> None:
        emit(work, merge, dismiss)

    return _decide(engine, asker, "merges.reject", MERGES, (id, dismiss.reason), body)


def resolve(engine: Engine, asker: Who, id: str, keep: str, reason: str = "") -> Conflict:
    """End a conflict: the memory ``keep`` supersedes the memories that clash with it, in one append; the others stay."""
    reason = check_reason("reason", reason)

    def body(work: Work, conflict: ConflictState) -> None:
        winner: MemoryState = work.load(keep, "m")
        members = [state for id in conflict.members if (state := work.find(id, "m")) is not None]
        active = [member for member in members if member.status == "active" and not member.quarantined]
        connection = work.connection()
        losers = [
            member
            for member in active
            if member.row != winner.row and conflicts.clashes(connection, winner, member, conflict)
        ]
        kept = (winner, *losers) if winner in active else active
        if not emit(work, conflict, Keep(winner.id, tuple(member.id for member in kept), reason)):
            return
        for member in losers:
            command = memory_rules.Supersede(winner.id, winner.valid_from, reason, rules.CONFLICT_RULE)
            for event in memory_rules.decide(command, member):
                work.emit(member.id, event, first=member.row)

    return _decide(engine, asker, "conflicts.resolve", CONFLICTS, (id, keep, reason), body)


def accept(engine: Engine, asker: Who, id: str, reason: str = "") -> Conflict:
    """End a conflict: all memories can be true. It is not raised again while the memories keep their values."""
    dismiss = Dismiss(check_reason("reason", reason))

    def body(work: Work, conflict: ConflictState) -> None:
        emit(work, conflict, dismiss)

    return _decide(engine, asker, "conflicts.accept", CONFLICTS, (id, None, dismiss.reason), body)


def _decide(
    engine: Engine,
    asker: Who,
    command: str,
    search: Search[M, S, A],
    arguments: tuple[object, ...],
    body: Callable[[Work, S], None],
) -> A:
    """Run a decision on the merge or conflict whose id is the first argument, and return its answer."""

    def on_subject(work: Work) -> str:
        reviewed: S = work.load(str(arguments[0]), search.kind)
        work.need("projects")
        work.project = reviewed.project
        body(work, reviewed)
        return reviewed.id

    outcome = engine.writer.run(command, asker, on_subject, arguments)
    if outcome.state is None:
        raise SuspendedError(
            f"recorded at position {outcome.position}, but that event suspended its projection, so the result cannot be "
            "shown; maintenance.rebuild() makes the projection again",
        )
    with engine.reading() as connection:
        answer = search.answer(connection, outcome.state)
    return replace(answer, replayed=outcome.replayed, absorbed=outcome.absorbed)
