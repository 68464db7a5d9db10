"""Changes of the parameters of one user's memory."""

from __future__ import annotations

from collections.abc import Mapping

from ledger import answers
from ledger.domain.events import LEDGER_STREAM, PolicyAdopted
from ledger.domain.policy import checked, policy_of
from ledger.domain.text import check_reason
from ledger.engine.engine import Engine
from ledger.engine.who import Who
from ledger.engine.work import Work
from ledger.policies import queries


def adopt(engine: Engine, asker: Who, parameters: Mapping[str, object], reason: str = "") -> answers.Policy:
    """Changes parameters of the policy of one user from here on."""
    reason = check_reason("reason", reason)

    def body(work: Work) -> str:
        given = checked(parameters)
        now, wanted = work.policy(), policy_of(given)
        if any(getattr(now, name) != getattr(wanted, name) for name in given):
            work.emit(LEDGER_STREAM, PolicyAdopted(given, reason))
        return LEDGER_STREAM

    engine.writer.run("policy.set", asker, body, (parameters, reason))
    return queries.policy(engine, asker.user)
