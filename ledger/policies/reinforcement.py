"""Whenever an interaction has a response, the memories that it restates are reinforced: once each, best first; those that it
denies are named, and offered for review."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from msgspec import Struct

from ledger.domain import confidence as rules
from ledger.domain import interaction as interactions_domain
from ledger.domain import memory as memory_domain
from ledger.domain import substring
from ledger.domain.events import Denied, Matched, ReinforcementEvaluated
from ledger.domain.interaction import Interaction
from ledger.domain.matching import Match, Response, judge, sought
from ledger.domain.memory import Memory
from ledger.domain.policy import Policy
from ledger.engine.log_reading import find_row
from ledger.engine.work import Work
from projections.search import restatable
from projections.views import confidence, interactions, memories, projects

ACTOR = "policy:reinforcement"
MOST_DENIED = 20  # memories of one response that are named (ours)


class Found(Struct, frozen=True):
    """What a search outside the lock came to: the pool, the rows of the memories that the response restates, best first, and
    those that it denies."""

    matcher: str
    pool_size: int
    response: Response
    matches: tuple[tuple[int, Match], ...]
    denied: tuple[int, ...]


def evaluate(
    connection: sqlite3.Connection, secret: bytes, user: str, project: str | None, text: str, matcher: str
) -> Found:
    """Reads only; ``text`` is response and summary."""
    response, scope = Response(text), projects.together(connection, project)
    size, texts = restatable.candidates(connection, secret, user, scope, sought(response))
    if matcher == substring.NAME:  # a substring may begin inside a word, so no index of words can find it
        texts = [
            (each.row, each.content) for each in memories.pool(connection, user, scope) if each.content is not None
        ]
    judged = [(row, judge(matcher, response, content)) for row, content in texts]
    found = [(row, verdict.match) for row, verdict in judged if verdict.match is not None]
    found.sort(key=lambda each: (-each[1].fraction, -each[1].overlap, each[0]))
    denied = sorted(row for row, verdict in judged if verdict.denial)
    return Found(matcher, size, response, tuple(found), tuple(denied))


def record(work: Work, subject: Interaction, found: Found, policy: Policy) -> ReinforcementEvaluated:
    """Under the lock: looks at the best of the found ids again, and emits what is still so; the rest is only counted."""
    taken: list[tuple[Memory, Match]] = []
    looked_at, echoes = 0, set(subject.memories_used)
    for row, _ in found.matches:
        if len(taken) == policy.max_matches:
            break
        looked_at += 1
        memory = _active(work, row)
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
    for row in found.denied:
        if (memory := _active(work, row)) is not None and memory.id not in known:
            how = judge(found.matcher, found.response, memory.content or "").denial
            if how:
                yield Denied(memory.id, how)


def _active(work: Work, row: int) -> Memory | None:
    memory: Memory | None = work.at_row(row, "m")
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
