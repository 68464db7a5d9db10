"""The policy of reinforcement: the memories that a response restates gain confidence, once for each turn.

Memories that the response denies are recorded, and offered for review.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from msgspec import Struct

from ledger.core.reads import find_row
from ledger.core.work import Work
from ledger.domain import confidence as confidence_rules
from ledger.domain.policy import PolicyState
from ledger.english.matching import SUBSTRING, Match, Response, judge, sought
from ledger.events import Denied, Matched, ReinforcementEvaluated
from ledger.interactions import rules as interaction_rules
from ledger.interactions.rules import InteractionState
from ledger.memories import rules as memory_rules
from ledger.memories.state import MemoryState
from projections.search import memory_hits
from projections.views import confidence, interactions, memories, projects

ACTOR = "policy:reinforcement"
MOST_DENIED = 20  # the most denied memories that are recorded for a response (our own choice)


class RestatementSearch(Struct, frozen=True):
    """The memories that a response restates or denies, searched outside the writer's lock.

    Attributes:
        matcher: The name of the rule that compared the texts.
        pool_size: The number of memories that the response was compared with.
        response: The response with its summary, divided into words.
        matches: (row, match) of the restated memories, best match first.
        denied: The rows of the denied memories.
    """

    matcher: str
    pool_size: int
    response: Response
    matches: tuple[tuple[int, Match], ...]
    denied: tuple[int, ...]


def evaluate(
    connection: sqlite3.Connection, secret: bytes, user: str, project: str | None, text: str, matcher: str
) -> RestatementSearch:
    """Search for the memories that a text restates or denies; ``text`` is the response and its summary."""
    response, scope = Response(text), projects.together(connection, project)
    size, texts = memory_hits.candidates(connection, secret, user, scope, sought(response))
    if matcher == SUBSTRING:  # an index of words cannot find a substring that begins inside a word
        texts = [
            (memory.row, memory.content)
            for memory in memories.pool(connection, user, scope)
            if memory.content is not None
        ]
    judged = [(row, judge(matcher, response, content)) for row, content in texts]
    matches = [(row, verdict.match) for row, verdict in judged if verdict.match is not None]
    matches.sort(key=lambda hit: (-hit[1].fraction, -hit[1].overlap, hit[0]))
    denied = sorted(row for row, verdict in judged if verdict.denial)
    return RestatementSearch(matcher, size, response, tuple(matches), tuple(denied))


def record(
    work: Work, subject: InteractionState, evaluation: RestatementSearch, policy: PolicyState
) -> ReinforcementEvaluated:
    """Reinforce the best matches, each checked again under the lock, and return the evaluation.

    Matches beyond the policy's limit are only counted.
    """
    accepted: list[tuple[MemoryState, Match]] = []
    looked_at, echoes = 0, set(subject.memories_used)
    for row, _ in evaluation.matches:
        if len(accepted) == policy.max_matches:
            break
        looked_at += 1
        memory = _active(work, row)
        if memory is None or confidence.counted(work.rows, memory.row, subject.id):
            continue
        if (hit := judge(evaluation.matcher, evaluation.response, memory.content or "").match) is not None:
            accepted.append((memory, hit))
    matched = tuple(
        Matched(memory.id, hit.overlap, hit.total, hit.fraction, memory.id in echoes) for memory, hit in accepted
    )
    left_over, denied = len(evaluation.matches) - looked_at, tuple(_denied(work, evaluation, subject))[:MOST_DENIED]
    evaluated = ReinforcementEvaluated(evaluation.matcher, evaluation.pool_size, matched, left_over, denied)
    if accepted or denied or subject.reinforcement not in ("done", "waiting"):
        for event in interaction_rules.decide(interaction_rules.RecordReinforcement(evaluated), subject):
            work.emit(subject.id, event, first=subject.row)
        for (memory, _), match in zip(accepted, matched, strict=True):
            _reinforce(work, memory, match, evaluation.matcher, subject, policy)
    return evaluated


def _denied(work: Work, evaluation: RestatementSearch, subject: InteractionState) -> Iterator[Denied]:
    """Yield the memories that the response denies, checked under the lock, without the denials already recorded."""
    known = {denial.memory for denial in subject.denials}
    for row in evaluation.denied:
        if (memory := _active(work, row)) is not None and memory.id not in known:
            how = judge(evaluation.matcher, evaluation.response, memory.content or "").denial
            if how:
                yield Denied(memory.id, how)


def _active(work: Work, row: int) -> MemoryState | None:
    memory: MemoryState | None = work.at_row(row, "m")
    return memory if memory is not None and memory.status == "active" and not memory.quarantined else None


def is_contradicted(work: Work, memory: MemoryState) -> bool:
    """Return True if a turn denies the memory, and nobody decided about the memory since."""
    work.rows.flush()
    return memory.row in contradicted(work.connection(), work.who.user, memory.id)


def contradicted(connection: sqlite3.Connection, user: str, only: str = "") -> dict[int, tuple[str, ...]]:
    """Return the rows of the active memories that turns deny, each with the ids of these turns.

    A turn does not count if somebody decided about the memory after it. ``only`` is the id of a memory, or "" for all.
    """
    turns_by_row: dict[int, tuple[str, ...]] = {}
    for turn in interactions.denying(connection, user, only):
        for denial in turn.denials:
            row = find_row(connection, denial.memory, "m", user)
            memory = memories.get(connection, row) if row is not None else None
            # A quarantine is a decision too, unless it began with the denial, as by a user's wish to forget.
            if memory is not None and memory.status == "active" and memory.decided_at < denial.position:
                turns_by_row[memory.row] = (*turns_by_row.get(memory.row, ()), turn.id)
    return turns_by_row


def _reinforce(
    work: Work, memory: MemoryState, matched: Matched, matcher: str, subject: InteractionState, policy: PolicyState
) -> None:
    command = memory_rules.Reinforce(
        delta=confidence_rules.millionths("gain", policy.echo_gain if matched.echo else policy.gain),
        interaction=subject.id,
        matcher=matcher,
        fraction=matched.fraction,
        echo=matched.echo,
    )
    for event in memory_rules.decide(command, memory):
        work.emit(memory.id, event, first=memory.row)
