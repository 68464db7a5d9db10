"""The command that changes the parameters of a user's memory."""

from __future__ import annotations

from collections.abc import Mapping

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.work import Work
from ledger.domain.errors import RejectedError
from ledger.domain.policy import OFF, PolicyState, checked, policy_of
from ledger.domain.text import check_reason
from ledger.events import LEDGER_STREAM, PolicyAdopted
from ledger.policy import answers, queries
from projections.views import control


def _check_expiry(policy: PolicyState) -> None:
    """Raise for an expiry that would never take a memory, for only a memory that decays can fall below 0.30."""
    if policy.expire and policy.decay == OFF:
        raise RejectedError(
            "expire=True supersedes only memories that have decayed, and decay is 'off': set decay='episodic' or"
            " decay='all' with it, or expire=False"
        )


def _ids_of(work: Work, names: object) -> tuple[str, ...]:
    """Return the ids of projects by their names, aliases or ids.

    Raises:
        NotFoundError: This user has no such project.
    """
    assert isinstance(names, tuple)
    return tuple(dict.fromkeys(work.project_known(name) for name in names))


def adopt(engine: Engine, asker: Who, parameters: Mapping[str, object], reason: str = "") -> answers.Policy:
    """Change parameters of one user's policy from here on; a parameter that was set keeps its value when a default changes."""
    reason = check_reason("reason", reason)

    def body(work: Work) -> str:
        changes = checked(parameters)
        work.rows.flush()  # an earlier command of a batch may have set some
        if "off" in changes:
            changes["off"] = _ids_of(work, changes["off"])
        explicit = control.explicit(work.connection(), asker.user)
        if any(name not in explicit or explicit[name] != value for name, value in changes.items()):
            _check_expiry(policy_of(explicit | changes))
            work.emit(LEDGER_STREAM, PolicyAdopted(changes, reason))
        return LEDGER_STREAM

    engine.writer.run("policy.set", asker, body, (parameters, reason))
    return queries.policy(engine, asker.user)
