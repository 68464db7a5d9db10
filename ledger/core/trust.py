"""The refusal of writes from distrusted sources, which would otherwise count until somebody noticed them."""

from __future__ import annotations

from collections.abc import Collection

from ledger.core.work import Work
from ledger.domain.errors import RejectedError
from ledger.events import CommandAnswered, ErasureCompleted

_SOURCES = ("actor", "client", "agent", "session")  # the kinds of a writer's source that can be distrusted
_OF_THE_LEDGER = (CommandAnswered, ErasureCompleted)  # events without a statement of their own


def check(work: Work, distrusted: Collection[tuple[str | None, str, str | None]]) -> None:
    if all(isinstance(data, _OF_THE_LEDGER) for _, _, data, *_ in work.emitted):
        return
    who = work.who
    for kind, source in zip(_SOURCES, (who.actor, who.client, who.agent, work.session), strict=True):
        if (who.user, kind, source) in distrusted:
            raise RejectedError(
                f"the {kind} {source!r:.60} is distrusted and may not write until another writer ends that by history.trust()",
                rule="trust",
            )
