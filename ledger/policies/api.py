"""``ledger.policy``, the parameters of a user's memory, and ``ledger.jobs``, the work that is done in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Unpack, cast, get_args

from ledger import answers
from ledger.domain.errors import RejectedError
from ledger.engine.paging import plural
from ledger.engine.scope import Area, callback
from ledger.jobs import running
from ledger.policies import commands, queries
from ledger.types import Job, PolicyChanges, Time, WriteOptions

if TYPE_CHECKING:
    pass


class UserPolicyRead(Area):
    """The policy of a user, now or at a moment."""

    def get(self) -> answers.Policy:
        """Return the parameters in effect for this user."""
        return answers.Policy(**queries.parameters(self._engine, self._scope.user))


class UserPolicy(UserPolicyRead):
    """The policy of a user."""

    def set(self, **changes: Unpack[PolicyChanges]) -> answers.Policy:
        """Change parameters of this user's policy from here on, and return the whole of it.

        Args:
            changes: Parameters by name, each with its range in ``PolicyChanges``; what is not given stays as it is.
        """
        if unknown := sorted(set(changes) - PolicyChanges.__optional_keys__):
            parameters_there = ", ".join(answers.Policy.__struct_fields__)
            raise RejectedError(f"no policy parameter is called {unknown[0]!r:.60}; there are: {parameters_there}")
        options = {name: value for name, value in changes.items() if name in WriteOptions.__optional_keys__}
        parameters: dict[str, Any] = {name: value for name, value in changes.items() if name not in options}
        asker = self._scope.asker(cast(WriteOptions, options))
        return answers.Policy(**commands.adopt(self._engine, asker, **parameters))


class Jobs(Area):
    """The background work of this file, for every user."""

    def run(
        self,
        *,
        jobs: Iterable[Job] = (),
        now: Time | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> answers.JobReport:
        """Do what is pending for every user; what failed fewer than three times is pending too.

        Args:
            jobs: Which jobs; none for all of them.
            now: The time at which fading is judged; None for the clock's.
            progress: Called with (done, found so far).

        Raises:
            RejectedError: A model would be called inside a batch.
        """
        wanted = plural("jobs", jobs, get_args(Job))
        return running.run_policies(self._engine, as_of=now, only=wanted, progress=callback(progress))

    def work(
        self,
        *,
        jobs: Iterable[Job] = (),
        follow: bool = False,
        stop: threading.Event | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Iterator[answers.JobReport]:
        """Do what is pending next to other workers, each piece under a lease, and yield what each pass did.

        Args:
            jobs: Which jobs; none for all of them.
            follow: Then wait for more, until ``stop`` is set.
            stop: An event that ends the work after the piece under way.
            progress: Called with (done, found so far).

        Raises:
            RejectedError: Inside a batch, which other workers cannot see into.
        """
        wanted = plural("jobs", jobs, get_args(Job))
        return running.work(self._engine, follow=follow, only=wanted, stop=stop, progress=callback(progress))
