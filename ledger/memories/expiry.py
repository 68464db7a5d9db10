"""The expiry of idle memories, which a policy can switch on, and of candidates about which nobody decides.

By default no active memory decays or expires. With the policy ``decay="episodic"`` or ``"all"``, idle memories that were never
referenced lose confidence. With ``expire=True`` a memory that has decayed below 0.30 is superseded without a successor.

A candidate is rejected by rule after the idle days that the user's policy sets, as in ATOCore. This rejection is no judgement on
the text, which may be proposed again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import datetime, timedelta

from ledger.core.reads import read_event
from ledger.core.work import Work
from ledger.domain import confidence as confidence_rules
from ledger.domain.policy import PolicyState
from ledger.domain.times import days_between, fixed
from ledger.memories import rules as memory_rules
from ledger.memories.state import MemoryState
from projections.views import control, memories
from projections.views.memories import MemoryFilter

ACTOR = "confidence-decay"
RULE = "decay/1"
REJECTING, IDLE = "policy:expiry", "idle/1"
PAGE = 500


def faded(connection: sqlite3.Connection, as_of: str) -> Iterator[MemoryState]:
    """Yield the memories whose effective confidence at ``as_of`` is below 0.30, of every user whose policy lets them expire."""
    policies = {user: control.policy(connection, user) for user in control.users_with(connection, "expire", True)}
    if not policies:
        return
    try:
        last_active = fixed(datetime.fromisoformat(as_of) - timedelta(days=confidence_rules.DECAY_IDLE_DAYS))
    except OverflowError:
        return  # ``as_of`` is in the first month of the year 1, and no earlier date exists
    after = 0
    while page := memories.idle(connection, active_before=last_active, limit=PAGE, after=after):
        for memory in page:
            policy = policies.get(memory.user or "") if memory.user is not None else None
            if policy is not None and _has_faded(connection, memory, policy, as_of):
                yield memory
        after = page[-1].row


def _has_faded(connection: sqlite3.Connection, memory: MemoryState, policy: PolicyState, as_of: str) -> bool:
    idle = memory.status == "active" and not memory.reference_count
    long_idle = idle and days_between(memory.active_at, as_of) >= confidence_rules.DECAY_IDLE_DAYS
    faded = policy.expire and long_idle and effective(memory, policy, as_of) < confidence_rules.EXPIRY_CONFIDENCE
    return faded and _is_untouched(connection, memory, as_of, confidence_rules.DECAY_IDLE_DAYS)


def _is_untouched(connection: sqlite3.Connection, memory: MemoryState, as_of: str, days: int) -> bool:
    """Return True if no event changed the memory for so many days; the undo of an expiry counts as a change."""
    last = read_event(connection, memory.position)
    return last is not None and days_between(last.envelope.recorded_at, as_of) >= days


def effective(memory: MemoryState, policy: PolicyState, as_of: str) -> int:
    """Return the confidence of a memory at a time, in millionths, less the decay that the policy sets."""
    return confidence_rules.effective(
        memory.confidence,
        rule=policy.decay_of(memory.kind) if memory.status == "active" else None,
        reference_count=memory.reference_count,
        active_at=memory.active_at,
        as_of=as_of,
    )


def undecided(connection: sqlite3.Connection, as_of: str) -> Iterator[MemoryState]:
    """Yield the candidates of every user that were idle for the days after which the user's policy rejects them."""
    for user in memories.users(connection, "candidate", quarantined=True):
        days = control.policy(connection, user).candidate_days
        candidates = MemoryFilter(user=user, statuses=("candidate",))
        waiting = memories.listing(connection, candidates, limit=-1) if days else ()
        yield from (memory for memory in waiting if _has_waited(connection, memory, as_of, days))


def _has_waited(connection: sqlite3.Connection, memory: MemoryState, as_of: str, days: int) -> bool:
    """Return True if a candidate had no change, no second proposal and no undo for so many days."""
    if not days or memory.status != "candidate" or days_between(memory.active_at, as_of) < days:
        return False
    return _is_untouched(connection, memory, as_of, days)


def reject(work: Work, seen: MemoryState, as_of: str) -> str:
    """Reject a candidate under the writer's lock, unless it changed meanwhile."""
    memory: MemoryState | None = work.at_row(seen.row, "m")
    days = work.policy().candidate_days
    if memory is not None and _has_waited(work.connection(), memory, as_of, days):
        work.project = memory.project
        reason = f"nobody decided about it for {days} days, by {as_of[:10]}"
        for event in memory_rules.decide(memory_rules.RejectMemory(reason, IDLE), memory):
            work.emit(memory.id, event, first=memory.row)
    return seen.id


def record(work: Work, seen: MemoryState, as_of: str) -> str:
    """Supersede a memory without a successor under the writer's lock, if its confidence still is too low."""
    memory: MemoryState | None = work.at_row(seen.row, "m")
    policy = work.policy()
    if memory is not None and _has_faded(work.connection(), memory, policy, as_of):
        decayed = confidence_rules.shown(effective(memory, policy, as_of))
        reason = f"effective confidence {decayed:.2f} at {as_of[:10]}, below 0.30"
        for event in memory_rules.decide(memory_rules.Supersede(None, as_of, reason, RULE), memory):
            work.project = memory.project
            work.emit(memory.id, event, first=memory.row)
    return seen.id
