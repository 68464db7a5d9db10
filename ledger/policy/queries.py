"""The query for the parameters of a user's memory."""

from __future__ import annotations

from msgspec.structs import asdict, replace

from ledger.core.engine import ReadingEngine
from ledger.domain.policy import policy_of
from ledger.policy import answers
from projections.views import control, projects


def policy(engine: ReadingEngine, user: str) -> answers.Policy:
    """Return the policy in effect, with the names of the parameters that were set, and projects by name."""
    with engine.reading() as connection:
        explicit = control.explicit(connection, user)
        policy = policy_of(explicit)
        names = projects.names(connection, policy.off)
    policy = replace(policy, off=tuple(names.get(id, id) for id in policy.off))
    return answers.Policy(**asdict(policy), explicit=tuple(sorted(explicit)))
