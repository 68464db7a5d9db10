"""The parameters of one user's memory."""

from __future__ import annotations

from msgspec.structs import asdict

from ledger import answers
from ledger.engine.engine import Engine
from projections.views import control


def policy(engine: Engine, user: str) -> answers.Policy:
    """The policy in effect."""
    with engine.reading() as connection:
        return answers.Policy(**asdict(control.policy(connection, user)))
