"""The answer about a user's policy."""

from __future__ import annotations

from ledger.core.call import Answer
from ledger.domain import policy as policy


class Policy(policy.PolicyState, Answer, frozen=True, kw_only=True):
    """The parameters of a user's memory, as ``PolicyChanges`` describes them; shares and confidences are from 0 to 1.

    ``explicit`` names the parameters that somebody set: they keep their values when a default changes.
    """

    explicit: tuple[str, ...] = ()
