"""The step that trusts: what a distrusted source writes would count until somebody noticed, so it is not taken."""

from __future__ import annotations

from collections.abc import Collection

from ledger.domain.errors import RejectedError
from ledger.domain.events import CommandAnswered, ErasureCompleted
from ledger.engine.work import Work

_SOURCES = ("actor", "client", "agent", "session")  # what can be distrusted of whoever writes
_OF_THE_LEDGER = (CommandAnswered, ErasureCompleted)  # what says nothing of its own


def check(work: Work, distrusted: Collection[tuple[str | None, str, str | None]]) -> None:
    if all(isinstance(data, _OF_THE_LEDGER) for _, _, data, *_ in work.emitted):
        return
    who = work.who
    for kind, source in zip(_SOURCES, (who.actor, who.client, who.agent, work.session), strict=True):
        if (who.user, kind, source) in distrusted:
            raise RejectedError(
                f"the {kind} {source!r:.60} is distrusted; somebody else has to end that by history.trust() before it writes",
                rule="trust",
            )
