"""The ``ledger.policy`` namespace: the parameters of a user's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

from ledger.core.area import Area
from ledger.domain.errors import RejectedError
from ledger.domain.policy import CHECKS
from ledger.policy import answers, commands, queries
from ledger.types import PolicyChanges, WriteOptions

if TYPE_CHECKING:
    from ledger.core.engine import Engine


class UserPolicyRead(Area):
    """The policy of a user, now or at a moment."""

    def get(self) -> answers.Policy:
        """Return the parameters in effect for this user."""
        return queries.policy(self._engine, self._scope.user)


class UserPolicy(UserPolicyRead):
    """The policy of a user."""

    _engine: Engine

    def set(self, *, reason: str = "", **changes: Unpack[PolicyChanges]) -> answers.Policy:
        """Change parameters of this user's policy from here on, and return the whole policy.

        Args:
            changes: Parameters by name, each with its range in ``PolicyChanges``; other parameters stay as they are.
        """
        if unknown := sorted(set(changes) - PolicyChanges.__optional_keys__):
            parameters_there = ", ".join(CHECKS)
            raise RejectedError(f"no policy parameter is called {unknown[0]!r:.60}; there are: {parameters_there}")
        options = {name: value for name, value in changes.items() if name in WriteOptions.__optional_keys__}
        parameters: dict[str, object] = {name: value for name, value in changes.items() if name not in options}
        asker = self._scope.asker(cast(WriteOptions, options))
        return commands.adopt(self._engine, asker, parameters, reason)
