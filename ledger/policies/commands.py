"""Changes of the parameters of one user's memory."""

from __future__ import annotations

from typing import Any

from ledger.domain.events import LEDGER_STREAM, PolicyAdopted
from ledger.domain.policy import checked
from ledger.engine.engine import Engine
from ledger.engine.work import Who, Work
from ledger.policies import queries


def adopt(engine: Engine, asker: Who, **parameters: Any) -> dict[str, Any]:
    """Changes the policy of one user from here on: matcher, gain, echo_gain, max_matches, extract, expire."""

    def body(work: Work) -> str:
        policy, given = work.policy(), checked(parameters)
        if any(getattr(policy, name) != value for name, value in given.items()):
            work.emit(LEDGER_STREAM, PolicyAdopted(given))
        return LEDGER_STREAM

    engine.writer.run("policy.set", asker, body, parameters)
    return queries.parameters(engine, asker.user)
