"""Whenever an interaction has a response, the memories that it restates are reinforced: once each, best first."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from msgspec import Struct

from ledger.domain import confidence as rules
from ledger.domain import interaction as interactions_domain
from ledger.domain import memory as memory_domain
from ledger.domain.events import Matched, ReinforcementEvaluated
from ledger.domain.interaction import Interaction
from ledger.domain.matching import Match, Response, match
from ledger.domain.memory import Memory
from ledger.domain.policy import Policy
from ledger.engine.work import Work
from projections.search import memory_hits as search
from projections.views import confidence, memories

ACTOR = "policy:reinforcement"


class Found(Struct, frozen=True):
    """What a search outside the lock came to: the pool, and the memories that the response restates, best first."""

    matcher: str
    pool_size: int
    response: Response
    matches: tuple[tuple[Memory, Match], ...]


def evaluate(connection: sqlite3.Connection, user: str, project: str | None, text: str, matcher: str) -> Found:
    """Reads only; ``text`` is response and summary."""
    response = Response(text)
    found = [
        (memory, hit)
        for memory in _candidates(connection, response, user, project, matcher)
        if memory.content is not None and (hit := match(matcher, response, memory.content)) is not None
    ]
    found.sort(key=lambda each: (-each[1].fraction, -each[1].overlap, each[0].row))
    return Found(matcher, memories.pool_size(connection, user, project), response, tuple(found))


def _candidates(
    connection: sqlite3.Connection, response: Response, user: str, project: str | None, matcher: str
) -> Iterable[Memory]:
    if matcher == "substring/1":  # a substring may begin inside a word, so no index of words can find it
        return memories.pool(connection, user, project)
    return search.restatable(connection, response.stems, user, project)


def record(work: Work, subject: Interaction, found: Found, policy: Policy) -> ReinforcementEvaluated:
    """Under the lock: looks at the best of the found ids again, and emits what is still so; the rest is only counted."""
    taken: list[tuple[Memory, Match]] = []
    looked_at, echoes = 0, set(subject.memories_used)
    for seen, _ in found.matches:
        if len(taken) == policy.max_matches:
            break
        looked_at += 1
        memory = _eligible(work, seen, subject)
        if memory is not None and (hit := match(found.matcher, found.response, memory.content or "")) is not None:
            taken.append((memory, hit))
    matched = tuple(Matched(m.id, hit.overlap, hit.total, hit.fraction, m.id in echoes) for m, hit in taken)
    evaluated = ReinforcementEvaluated(found.matcher, found.pool_size, matched, len(found.matches) - looked_at)
    if taken or subject.reinforcement not in ("done", "waiting"):
        for event in interactions_domain.decide(interactions_domain.RecordReinforcement(evaluated), subject):
            work.emit(subject.id, event, first=subject.row)
        for (memory, _), each in zip(taken, matched, strict=True):
            _reinforce(work, memory, each, found.matcher, subject, policy)
    return evaluated


def _eligible(work: Work, seen: Memory, subject: Interaction) -> Memory | None:
    memory: Memory | None = work.at_row(seen.row, "m")
    if memory is None or memory.status != "active" or memory.quarantined:
        return None
    return None if confidence.counted(work.rows, memory.row, subject.id) else memory


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
