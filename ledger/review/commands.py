"""The commands on near duplicates and conflicts: search, merge, reject and resolve."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from ledger.core.engine import Engine
from ledger.core.snapshot import NOWHERE, load, scope_of
from ledger.core.who import Who
from ledger.core.work import Outcome, Work
from ledger.domain.confidence import ONE, millionths
from ledger.domain.errors import NotFoundError, RejectedError, SuspendedError
from ledger.domain.text import check_reason, text_list
from ledger.english import near
from ledger.log.reading import read_tip
from ledger.memories import answers
from ledger.memories.commands import answered
from ledger.review import answers as merge_answers
from ledger.review import conflict_policy as conflict_rules
from ledger.review import merge_policy as merging
from ledger.review import merge_rules
from ledger.review import queries as merge_queries
from ledger.review.conflict_rules import ConflictState
from ledger.review.merge_rules import MergeState
from projections.core.rows import Connection
from projections.search import vectors
from projections.views import control, memories

F = TypeVar("F")
LOT = 100  # conflicts or proposals that a job records before it checks whether to stop
LEAST_THRESHOLD = 0.5  # below, two texts differ in more words than they share


# --- near duplicates -----------------------------------------------------------------------------------------


def find_merges(
    engine: Engine, asker: Who, *, project: str | None = None, threshold: float = near.THRESHOLD / ONE
) -> merge_answers.MergeReport:
    """Propose merges of active memories of one kind and project that say nearly the same, each with each of the others.

    ``threshold`` is the least similarity of two word sets (Jaccard; 0.85 as in rubino), at least 0.5. A proposal stays as it is
    until somebody calls ``merge`` or ``reject_merge``; a second search proposes nothing twice.
    """
    least = millionths("threshold", threshold)
    if least < LEAST_THRESHOLD * ONE:
        raise RejectedError(f"a threshold must be from {LEAST_THRESHOLD} to 1, and {threshold} is not")
    with engine.reading() as connection:
        scope = _scope(connection, asker.user, project)
        searched = merging.search(connection, asker.user, least, scope=scope, vectors=_known_vectors(engine))
    proposed = _propose_merges(engine, asker, searched.found)
    with engine.reading() as connection:
        states = [load(connection, id, "g", asker.user) for id in proposed]
        answer = tuple(merge_queries.merge_answer(connection, state) for state in states if state is not None)
    return merge_answers.MergeReport(proposed=answer, looked_at=searched.looked_at, cut_short=searched.cut_short)


def _known_vectors(engine: Engine) -> merging.Vectors | None:
    """Return a function that looks up the stored vector of a memory's present text; None without an embedder."""
    if engine.vectors is None:
        return None
    model, secret = engine.vectors.embedder.name, engine.writer.secret

    def known(connection: Connection, seen: merging.SearchedMemory) -> tuple[float, ...]:
        if not vectors.is_there(connection):
            return ()
        sql = "SELECT text, vector FROM vectors WHERE model = ? AND corpus = 'm' AND row = ?"
        text, data = connection.execute(sql, (model, seen.row)).fetchone() or (b"", b"")
        return struct.unpack(f"<{len(data) // 4}f", data) if text == vectors.mark(secret, seen.content) else ()

    return known


def _propose_merges(engine: Engine, asker: Who, matches: Sequence[merging.NearDuplicates]) -> list[str]:
    return _in_lots(engine, "merges.find", asker, matches, merging.TOGETHER, merging.propose)


def _in_lots(
    engine: Engine, verb: str, asker: Who, matches: Sequence[F], size: int, act: Callable[[Work, Sequence[F]], None]
) -> list[str]:
    """Record the matches of a search, ``size`` of them in each append, and return the ids of the subjects concerned."""
    concerned: dict[str, None] = {}
    for first in range(0, len(matches), size):
        lot = matches[first : first + size]

        def body(work: Work, lot: Sequence[F] = lot) -> str:
            act(work, lot)
            return work.emitted[-1][0] if work.emitted else "ledger"

        concerned |= {event.stream: None for event in engine.writer.run(verb, asker, body).events}
    return list(concerned)


def merge(
    engine: Engine, asker: Who, memories: str | Iterable[str], content: str | None = None, reason: str = ""
) -> answers.Memory:
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
            return merging.unite(work, [str(work.load(id, "m").id) for id in ids], content, reason)
        proposal: MergeState = work.load(str(memories), "g")
        if proposal.status == merge_rules.PROPOSED:
            work.rows.flush()
            if why := merging.why_obsolete(work.connection(), proposal):
                raise RejectedError(
                    f"cannot merge by {proposal.id}: {why}; look again with merges.find(), or name the "
                    "memories to merges.combine()",
                    rule="obsolete",
                    subject=proposal.id,
                )
        else:
            merge_rules.check_merged(proposal)
        return merging.unite(work, proposal.memories, content or proposal.content or None, reason, proposal)

    arguments = (memories if is_proposal else ids, content, reason)
    command = "merges.apply" if is_proposal else "merges.combine"
    return answered(engine.writer.run(command, asker, body, arguments))


def reject_merge(engine: Engine, asker: Who, id: str, reason: str = "") -> merge_answers.Merge:
    """Reject a proposal: no two of its memories are ever proposed together again."""
    reason = check_reason("reason", reason)

    def body(work: Work) -> str:
        proposal: MergeState = work.load(id, "g")
        work.need("projects")
        work.project = proposal.project
        for event in merge_rules.decide(merge_rules.RejectMerge(reason), proposal):
            work.emit(proposal.id, event, first=proposal.row)
        return proposal.id

    outcome = engine.writer.run("merges.reject", asker, body, (id, reason))
    with engine.reading() as connection:
        answer = merge_queries.merge_answer(connection, _there(outcome))
    return replace(answer, replayed=outcome.replayed, absorbed=outcome.absorbed)


# --- conflicts -----------------------------------------------------------------------------------------------


def find_conflicts(engine: Engine, asker: Who, *, project: str | None = None) -> merge_answers.ConflictReport:
    """Record conflicts: active memories of one project that fill one slot with values that cannot all be true.

    A slot comes from an edge whose relation holds one value ("works_at"), or from a plain sentence ("Ana lives in
    Lisbon"). No memory is preferred or dropped; a second search records nothing twice.
    """
    with engine.reading() as connection:
        scope = _scope(connection, asker.user, project)
        matches = conflict_rules.search(connection, asker.user, scope=scope)
    recorded = record_conflicts(engine, asker, matches)
    with engine.reading() as connection:
        states = [load(connection, id, "k", asker.user) for id in recorded]
        answer = tuple(merge_queries.conflict_answer(connection, state) for state in states if state is not None)
    return merge_answers.ConflictReport(found=answer)


def record_conflicts(engine: Engine, asker: Who, matches: Sequence[conflict_rules.ConflictingMemories]) -> list[str]:
    return _in_lots(engine, "conflicts.find", asker, matches, conflict_rules.TOGETHER, conflict_rules.record)


def resolve(
    engine: Engine, asker: Who, id: str, keep: str | None = None, *, both: bool = False, reason: str = ""
) -> merge_answers.Conflict:
    """End a conflict: the memory ``keep`` supersedes the memories that exclude it, in one append, or ``both`` can be true.

    With ``both`` the conflict is not raised again while the memories keep their values.
    """
    reason = check_reason("reason", reason)
    if (keep is None) == (both is False):
        raise RejectedError("a resolution needs either keep=MEMORY or both=True, and not both of them")

    def body(work: Work) -> str:
        conflict: ConflictState = work.load(id, "k")
        work.project = conflict.project
        if keep is None:
            conflict_rules.both(work, conflict, reason)
        else:
            conflict_rules.keep(work, conflict, work.load(keep, "m"), reason)
        return conflict.id

    command = "conflicts.accept" if both else "conflicts.resolve"
    outcome = engine.writer.run(command, asker, body, (id, keep, reason))
    with engine.reading() as connection:
        answer = merge_queries.conflict_answer(connection, _there(outcome))
    return replace(answer, replayed=outcome.replayed, absorbed=outcome.absorbed)


# --- searches by policies ------------------------------------------------------------------------------------


def look_for_conflicts(engine: Engine, stop: Callable[[], bool]) -> int:
    """Search for conflicts of every user whose policy allows the search, and return the number recorded.

    ``stop`` is called between lots; when it returns True, the rest is left.
    """

    def look(connection: Connection, user: str, after: int | None) -> Sequence[conflict_rules.ConflictingMemories]:
        return conflict_rules.search(connection, user, after=after)

    return _for_each_user(engine, "conflicts", conflict_rules.ACTOR, look, partial(record_conflicts, engine), stop)


def look_for_merges(engine: Engine, stop: Callable[[], bool]) -> int:
    """Search for merges of every user whose policy allows the search, and return the number proposed.

    ``stop`` is called between lots; when it returns True, the rest is left.
    """

    def look(connection: Connection, user: str, after: int | None) -> Sequence[merging.NearDuplicates]:
        return merging.search(connection, user, near.THRESHOLD, after=after, vectors=_known_vectors(engine)).found

    return _for_each_user(engine, "merge", merging.ACTOR, look, partial(_propose_merges, engine), stop)


def _for_each_user(
    engine: Engine,
    search_name: str,
    actor: str,
    look: Callable[[Connection, str, int | None], Sequence[F]],
    record: Callable[[Who, Sequence[F]], list[str]],
    stop: Callable[[], bool],
) -> int:
    """Search all memories of each user once, and from then on the memories that changed since this process last searched."""
    with engine.reading() as connection:
        users = [user for user in memories.users(connection) if control.wants(connection, user, search_name)]
    recorded = 0
    for user in users:
        with engine.reading() as connection:
            head, _ = read_tip(connection.cursor())
            if (after := engine.looked.get((search_name, user))) == head:
                continue
            if stop():
                break
            matches = look(connection, user, after)
        try:
            for first in range(0, len(matches), LOT):
                if first and stop():
                    return recorded
                recorded += len(record(Who(user=user, actor=actor), matches[first : first + LOT]))
        except RejectedError as refusal:
            if refusal.rule != "trust":
                raise
        else:
            engine.looked[search_name, user] = head
    return recorded


def _scope(connection: Connection, user: str, project: str | None) -> merging.Scope:
    scope = scope_of(connection, user, project)
    if scope == [NOWHERE]:
        raise NotFoundError(f"no project of this user is called {project!r:.60}")
    return scope


def _there(outcome: Outcome) -> Any:
    if outcome.state is None:
        raise SuspendedError(
            f"recorded at position {outcome.position}, but that event suspended its projection, so the result cannot be "
            "shown; maintenance.rebuild() makes the projection again",
        )
    return outcome.state
