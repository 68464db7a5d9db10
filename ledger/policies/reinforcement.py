"""Whenever an interaction has a response, the memories that it restates are reinforced: once each, best first; those that it
denies are named, and offered for review."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ledger.domain import confidence as rules
from ledger.domain import interaction as interactions_domain
from ledger.domain import memory as memory_domain
from ledger.domain.events import Denied, Matched, ReinforcementEvaluated
from ledger.domain.interaction import Interaction
from ledger.domain.matching import SOMEBODY, Match, Response, judge
from ledger.domain.memory import Memory
from ledger.domain.policy import Policy
from ledger.engine.log_reading import find_row
from ledger.engine.work import Work
from projections.search import memory_hits as search
from projections.views import confidence, interactions, memories, projects

ACTOR = "policy:reinforcement"
MOST_DENIED = 20  # memories of one response that are named (ours)


class Found(Struct, frozen=True):
    """What a search outside the lock came to: the pool, the memories that the response restates, best first, and those that
    it denies."""

    matcher: str
    pool_size: int
    response: Response
    matches: tuple[tuple[Memory, Match], ...]
    denied: tuple[Memory, ...]


def evaluate(connection: sqlite3.Connection, user: str, project: str | None, text: str, matcher: str) -> Found:
    """Reads only; ``text`` is response and summary."""
    response, scope = Response(text), projects.together(connection, project)
    candidates = _candidates(connection, response, user, scope, matcher)
    judged = [(each, judge(matcher, response, each.content)) for each in candidates if each.content is not None]
    found = [(memory, verdict.match) for memory, verdict in judged if verdict.match is not None]
    found.sort(key=lambda each: (-each[1].fraction, -each[1].overlap, each[0].row))
    denied = sorted((memory for memory, verdict in judged if verdict.denial), key=lambda each: each.row)
    return Found(matcher, memories.pool_size(connection, user, scope), response, tuple(found), tuple(denied))


def _candidates(
    connection: sqlite3.Connection, response: Response, user: str, scope: Sequence[str | None], matcher: str
) -> Iterable[Memory]:
    if matcher == "substring/1":  # a substring may begin inside a word, so no index of words can find it
        return memories.pool(connection, user, scope)
    return search.restatable(connection, response.reaching - {SOMEBODY} | response.stems, user, scope)


def record(work: Work, subject: Interaction, found: Found, policy: Policy) -> ReinforcementEvaluated:
    """Under the lock: looks at the best of the found ids again, and emits what is still so; the rest is only counted."""
    taken: list[tuple[Memory, Match]] = []
    looked_at, echoes = 0, set(subject.memories_used)
    for seen, _ in found.matches:
        if len(taken) == policy.max_matches:
            break
        looked_at += 1
        memory = _active(work, seen)
        if memory is None or confidence.counted(work.rows, memory.row, subject.id):
            continue
        if (hit := judge(found.matcher, found.response, memory.content or "").match) is not None:
            taken.append((memory, hit))
    matched = tuple(Matched(m.id, hit.overlap, hit.total, hit.fraction, m.id in echoes) for m, hit in taken)
    left, denied = len(found.matches) - looked_at, tuple(_denied(work, found, subject))[:MOST_DENIED]
    evaluated = ReinforcementEvaluated(found.matcher, found.pool_size, matched, left, denied)
    if taken or denied or subject.reinforcement not in ("done", "waiting"):
        for event in interactions_domain.decide(interactions_domain.RecordReinforcement(evaluated), subject):
            work.emit(subject.id, event, first=subject.row)
        for (memory, _), each in zip(taken, matched, strict=True):
            _reinforce(work, memory, each, found.matcher, subject, policy)
    return evaluated


def _denied(work: Work, found: Found, subject: Interaction) -> Iterator[Denied]:
    """What the response still denies and was not found to deny before."""
    known = {each.memory for each in subject.denials}
    for seen in found.denied:
        if seen.id not in known and (memory := _active(work, seen)) is not None:
            how = judge(found.matcher, found.response, memory.content or "").denial
            if how:
                yield Denied(memory.id, how)


def _active(work: Work, seen: Memory) -> Memory | None:
    memory: Memory | None = work.at_row(seen.row, "m")
    return memory if memory is not None and memory.status == "active" and not memory.quarantined else None


def is_contradicted(work: Work, memory: Memory) -> bool:
    work.rows.flush()
    return memory.row in contradicted(work.connection(), work.who.user, memory.id)


def contradicted(connection: sqlite3.Connection, user: str, only: str = "") -> dict[int, tuple[str, ...]]:
    """The rows of the active memories (``only`` of one) that turns deny, with these turns, where nothing was decided about the
    memory since."""
    found: dict[int, tuple[str, ...]] = {}
    for turn in interactions.denying(connection, user, only):
        for denial in turn.denials:
            row = find_row(connection, denial.memory, "m", user)
            memory = memories.get(connection, row) if row is not None else None
            if memory is None or memory.status != "active" or memory.quarantined:
                continue
            if memory.decided_at < denial.position:
                found[memory.row] = (*found.get(memory.row, ()), turn.id)
    return found


def _reinforce(
    work: Work, memory: Memory, matched: Matched, matcher: str, subject: Interaction, policy: Policy
) -> None:
    command = memory_domain.Reinforce(
        delta=rules.millionths("gain", policy.echo_gain if matched.echo else policy.gain),
        interaction=subject.id,
        matcher=matcher,
        fraction=matched.fraction,
        echo=matched.echo,
    )
    for event in memory_domain.decide(command, memory):
        work.emit(memory.id, event, first=memory.row)
