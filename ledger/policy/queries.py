"""The query for the parameters of a user's memory."""

from __future__ import annotations

from msgspec.structs import asdict

from ledger.core.reading_engine import ReadingEngine
from ledger.policy import answers
from ledger.policy.rules import policy_of
from projections.views import control


def policy(engine: ReadingEngine, user: str) -> answers.Policy:
    """Return the policy in effect, with the names of the parameters that were set."""
    with engine.reading() as connection:
        explicit = control.explicit(connection, user)
        policy = policy_of(explicit)
    return answers.Policy(**asdict(policy), explicit=tuple(sorted(explicit)))
