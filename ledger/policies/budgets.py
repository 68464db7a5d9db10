"""Storage budgets: how many characters the active memories of a group may take, where the policy of a user bounds them.

Two groups, as rubino has them (SEEDS 2b): ``user`` are memories of the kind user_profile, ``memory`` all others. What is not
active takes nothing, so that superseding and retracting make room.
"""

from __future__ import annotations

from collections.abc import Mapping

from ledger.domain.errors import RejectedError
from ledger.domain.memory import Memory
from ledger.engine.work import Work
from projections.views import memories

GROUPS = {"user": "user_chars", "memory": "memory_chars"}


def group_of(kind: str) -> str:
    return "user" if kind == "user_profile" else "memory"


def check(
    work: Work,
    kind: str,
    content: str | None,
    *,
    frees: Memory | None = None,
    pending: Mapping[str, int] | None = None,
) -> None:
    """``RejectedError`` (rule "budget:user" or "budget:memory") when one more active memory would not fit; ``frees`` is an active
    one that ends with it, or that it is another wording of, ``pending`` what the same append adds to each group besides."""
    group = group_of(kind)
    limit = getattr(work.policy(), GROUPS[group])
    if not limit or content is None:
        return
    work.rows.flush()  # what the commands before this one in a batch have kept counts too
    freed = len(frees.content or "") if frees is not None and group_of(frees.kind) == group else 0
    current = memories.active_chars(work.connection(), work.who.user, user_profile=group == "user")
    current += (pending or {}).get(group, 0)
    requested = len(content) - freed
    if requested > 0 and current + requested > limit:
        raise RejectedError(
            f"the budget of the group {group!r} is {limit:,} characters; its active memories take {current:,}, and this"
            f" would add {requested:,}: retract or supersede some, or policy.set({GROUPS[group]}=…)",
            rule=f"budget:{group}",
            limit=limit,
            current=current,
            requested=requested,
        )
