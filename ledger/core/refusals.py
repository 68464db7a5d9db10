"""The record of refusals: a refused write leaves the rule's label and numbers in the log, and never the refused text."""

from __future__ import annotations

import msgspec

from ledger.core.keys import encoded
from ledger.core.who import Who
from ledger.core.work import Means, Work
from ledger.domain.errors import RejectedError
from ledger.events import LEDGER_STREAM, WriteRefused
from ledger.log.event_store import Transaction

REMEMBERED = 10_000  # refusals in memory, so that an equal refusal is recorded only once


class RefusalCounter:
    """The refusals recorded since the ledger was opened; a malformed call is not one of them.

    The file does not say which text was refused, because a digest of a short text could be guessed. So the refusals are kept
    in memory, and another process may record an equal refusal again.
    """

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def record(
        self,
        means: Means,
        transaction: Transaction,
        command: str,
        who: Who,
        refusal: RejectedError,
        arguments: object,
    ) -> Work | None:
        """Return the work that records a refusal; None if the call was malformed, or an equal refusal is recorded."""
        outcome = means.guard.without_secret_names(who)
        if refusal.rule == "validation" or outcome is None:
            return None
        attempt = means.mac("refused", outcome.user, encoded([refusal.rule, outcome.actor, command, arguments]))
        if attempt in self._known:
            return None
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known.add(attempt)
        numbers = (refusal.limit, refusal.current, refusal.requested)
        work = Work(means, transaction, command, msgspec.structs.replace(outcome, key=None), means.now())
        work.emit(
            LEDGER_STREAM, WriteRefused(refusal.rule, refusal.subject, *numbers, refusal.finding, refusal.scanner)
        )
        return work

    def forget(self) -> None:
        """Forget the recorded refusals, which may have been rolled back."""
        self._known.clear()
