"""The commands on near duplicates and contradictions: look for them, merge or refuse, resolve."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from ledger import answers
from ledger.domain import merge as domain
from ledger.domain import near
from ledger.domain.confidence import ONE, millionths
from ledger.domain.conflict import Conflict
from ledger.domain.errors import NotFoundError, RejectedError, SuspendedError
from ledger.domain.merge import Merge
from ledger.domain.text import check_reason, text_list
from ledger.engine.engine import Engine
from ledger.engine.snapshot import NOWHERE, load, scope_of
from ledger.engine.who import Who
from ledger.engine.work import Outcome, Work
from ledger.memories.commands import answered
from ledger.merges import answers as merge_answers
from ledger.merges import queries as merge_queries
from ledger.policies import conflicts as conflict_rules
from ledger.policies import merging
from ledger.store.reading import read_tip
from projections.core.rows import Connection
from projections.search import vectors
from projections.views import control, memories

F = TypeVar("F")
LOT = 100  # conflicts or proposals that a job records before it looks whether it has to stop
LEAST_THRESHOLD = 0.5  # below this texts have more apart than in common


# --- near duplicates -----------------------------------------------------------------------------------------


def find_merges(
    engine: Engine, asker: Who, *, project: str | None = None, threshold: float = near.THRESHOLD / ONE
) -> merge_answers.MergeReport:
    """Proposes merges: active memories of one kind and project that say nearly the same, each with each.

    ``threshold`` is the least similarity of two word sets (Jaccard; 0.85 is rubino's), at least 0.5. What is proposed
    stays as it is until somebody calls ``merge`` or ``reject_merge``; looking again proposes nothing twice.
    """
    least = millionths("threshold", threshold)
    if least < LEAST_THRESHOLD * ONE:
        raise RejectedError(f"a threshold is from {LEAST_THRESHOLD} to 1, and {threshold} is not")
    with engine.reading() as connection:
        scope = _scope(connection, asker.user, project)
        searched = merging.search(connection, asker.user, least, scope=scope, vectors=_known_vectors(engine))
    proposed = _propose_merges(engine, asker, searched.found)
    with engine.reading() as connection:
        states = [load(connection, id, "g", asker.user) for id in proposed]
        answer = tuple(merge_queries.merge_answer(connection, state) for state in states if state is not None)
    return merge_answers.MergeReport(proposed=answer, looked_at=searched.looked_at, cut_short=searched.cut_short)


def _known_vectors(engine: Engine) -> merging.Vectors | None:
    """What gives the vectors that were made already of the texts as they are; None without an embedder."""
    if engine.vectors is None:
        return None
    model, secret = engine.vectors.embedder.name, engine.writer.secret

    def known(connection: Connection, seen: merging.Seen) -> tuple[float, ...]:
        if not vectors.is_there(connection):
            return ()
        sql = "SELECT text, vector FROM vectors WHERE model = ? AND corpus = 'm' AND row = ?"
        text, data = connection.execute(sql, (model, seen.row)).fetchone() or (b"", b"")
        return struct.unpack(f"<{len(data) // 4}f", data) if text == vectors.mark(secret, seen.content) else ()

    return known


def _propose_merges(engine: Engine, asker: Who, found: Sequence[merging.Found]) -> list[str]:
    return _in_lots(engine, "merges.find", asker, found, merging.TOGETHER, merging.propose)


def _in_lots(
    engine: Engine, verb: str, asker: Who, found: Sequence[F], size: int, act: Callable[[Work, Sequence[F]], None]
) -> list[str]:
    """Records what a search found, so much in each append; the ids of the subjects concerned."""
    concerned: dict[str, None] = {}
    for first in range(0, len(found), size):
        lot = found[first : first + size]

        def body(work: Work, lot: Sequence[F] = lot) -> str:
            act(work, lot)
            return work.emitted[-1][0] if work.emitted else "ledger"

        concerned |= {event.stream: None for event in engine.writer.run(verb, asker, body).events}
    return list(concerned)


def merge(
    engine: Engine, asker: Who, memories: str | Iterable[str], content: str | None = None, reason: str = ""
) -> answers.Memory:
    """One memory takes the place of several, in one append; it comes back, and they are superseded by it.

    ``memories`` are ids of 2 to 50 active memories of one kind and project, or the id of a proposal. Without
    ``content`` the wording is that of the surest of them, then the most referred to, then the newest. It has their
    greatest confidence, their references added up, and their tags, names, sources and edges. Merging what was merged
    returns what it became. ``RejectedError`` for a candidate (promote it first), for a proposal whose members changed, and
    where another active memory has that wording.
    """
    reason = check_reason("reason", reason)
    is_proposal = isinstance(memories, str) and memories.startswith("g_")
    ids = () if is_proposal else text_list("memories", memories)

    def body(work: Work) -> str:
        if not is_proposal:
            return merging.unite(work, [str(work.load(each, "m").id) for each in ids], content, reason)
        proposal: Merge = work.load(str(memories), "g")
        if proposal.status == domain.PROPOSED:
            work.rows.flush()
            if why := merging.why_obsolete(work.connection(), proposal):
                raise RejectedError(
                    f"cannot merge by {proposal.id}: {why}; look again with merges.find(), or name the "
                    "memories to merges.combine()",
                    rule="obsolete",
                    subject=proposal.id,
                )
        else:
            domain.check_merged(proposal)
        return merging.unite(work, proposal.memories, content or proposal.content or None, reason, proposal)

    given = (memories if is_proposal else ids, content, reason)
    command = "merges.apply" if is_proposal else "merges.combine"
    return answered(engine.writer.run(command, asker, body, given))


def reject_merge(engine: Engine, asker: Who, id: str, reason: str = "") -> merge_answers.Merge:
    """Turns a proposal down: no two of its memories are ever proposed together again."""
    reason = check_reason("reason", reason)

    def body(work: Work) -> str:
        proposal: Merge = work.load(id, "g")
        work.need("projects")
        work.project = proposal.project
        for event in domain.decide(domain.Reject(reason), proposal):
            work.emit(proposal.id, event, first=proposal.row)
        return proposal.id

    outcome = engine.writer.run("merges.reject", asker, body, (id, reason))
    with engine.reading() as connection:
        answer = merge_queries.merge_answer(connection, _there(outcome))
    return replace(answer, replayed=outcome.replayed, absorbed=outcome.absorbed)


# --- conflicts -----------------------------------------------------------------------------------------------


def find_conflicts(engine: Engine, asker: Who, *, project: str | None = None) -> merge_answers.ConflictReport:
    """Records conflicts: active memories of one project that fill one slot with values that cannot both be so.

    A slot comes from an edge whose relation holds one value ("works_at"), or from a plain sentence ("Ana lives in
    Lisbon"). Nothing is picked or dropped; looking again records nothing twice.
    """
    with engine.reading() as connection:
        scope = _scope(connection, asker.user, project)
        found = conflict_rules.search(connection, asker.user, scope=scope)
    recorded = record_conflicts(engine, asker, found)
    with engine.reading() as connection:
        states = [load(connection, id, "k", asker.user) for id in recorded]
        answer = tuple(merge_queries.conflict_answer(connection, state) for state in states if state is not None)
    return merge_answers.ConflictReport(found=answer)


def record_conflicts(engine: Engine, asker: Who, found: Sequence[conflict_rules.Found]) -> list[str]:
    return _in_lots(engine, "conflicts.find", asker, found, conflict_rules.TOGETHER, conflict_rules.record)


def resolve(
    engine: Engine, asker: Who, id: str, keep: str | None = None, *, both: bool = False, reason: str = ""
) -> merge_answers.Conflict:
    """Ends a conflict: the memory ``keep`` supersedes what cannot be so together with it, in one append; or ``both`` can be so,
    and it is not raised again while they say what they say."""
    reason = check_reason("reason", reason)
    if (keep is None) == (both is False):
        raise RejectedError("a resolution is keep=MEMORY, or both=True, and one of the two")

    def body(work: Work) -> str:
        conflict: Conflict = work.load(id, "k")
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


# --- as policies ---------------------------------------------------------------------------------------------


def look_for_conflicts(engine: Engine, stop: Callable[[], bool]) -> int:
    """For every user whose policy says so; how many conflicts were recorded. ``stop`` is asked where more is left."""

    def look(connection: Connection, user: str, after: int | None) -> Sequence[conflict_rules.Found]:
        return conflict_rules.search(connection, user, after=after)

    return _for_each_user(engine, "conflicts", conflict_rules.ACTOR, look, partial(record_conflicts, engine), stop)


def look_for_merges(engine: Engine, stop: Callable[[], bool]) -> int:
    """For every user whose policy says so; how many merges were proposed. ``stop`` is asked where more is left."""

    def look(connection: Connection, user: str, after: int | None) -> Sequence[merging.Found]:
        return merging.search(connection, user, near.THRESHOLD, after=after, vectors=_known_vectors(engine)).found

    return _for_each_user(engine, "merge", merging.ACTOR, look, partial(_propose_merges, engine), stop)


def _for_each_user(
    engine: Engine,
    what: str,
    actor: str,
    look: Callable[[Connection, str, int | None], Sequence[F]],
    record: Callable[[Who, Sequence[F]], list[str]],
    stop: Callable[[], bool],
) -> int:
    """Looks through the memories of each user once, and then at what has changed since this process looked."""
    with engine.reading() as connection:
        users = [user for user in memories.users(connection) if control.wants(connection, user, what)]
    recorded = 0
    for user in users:
        with engine.reading() as connection:
            head, _ = read_tip(connection.cursor())
            if (after := engine.looked.get((what, user))) == head:
                continue
            if stop():
                break
            found = look(connection, user, after)
        try:
            for first in range(0, len(found), LOT):
                if first and stop():
                    return recorded
                recorded += len(record(Who(user=user, actor=actor), found[first : first + LOT]))
        except RejectedError as refusal:
            if refusal.rule != "trust":
                raise
        else:
            engine.looked[what, user] = head
    return recorded


def _scope(connection: Connection, user: str, project: str | None) -> merging.Scope:
    found = scope_of(connection, user, project)
    if found == [NOWHERE]:
        raise NotFoundError(f"no project of this user is called {project!r:.60}")
    return found


def _there(outcome: Outcome) -> Any:
    if outcome.state is None:
        raise SuspendedError(
            f"recorded at position {outcome.position}, but its projection was suspended by it, so it cannot be shown; "
            "maintenance.rebuild() makes it again",
        )
    return outcome.state
