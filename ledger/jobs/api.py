"""The namespace ``ledger.jobs``: the background work of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, get_args

from ledger.core.area import Area, callback
from ledger.core.steps import Stopping
from ledger.domain.text import plural
from ledger.jobs import answers, running
from ledger.types import Cancel, Job, Time

if TYPE_CHECKING:
    from ledger.core.engine import Engine


class Jobs(Area):
    """The background work of this file, for every user."""

    _engine: Engine

    def run(
        self,
        *,
        jobs: Iterable[Job] = (),
        now: Time | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> answers.JobReport:
        """Do the pending work of every user, and repeat work that failed fewer than three times.

        Args:
            jobs: The jobs to run; none for all of them.
            now: The time at which decay is judged; None for the clock's.
            dry_run: Only with ``jobs=["expiry"]``: return in ``expiring`` the memories and candidates that would end now, and
                end none.
            timeout: Seconds after which the run stops between two pieces, and calls off a model's call; finished work stays, the
                rest is pending, and ``stopped`` says so.
            cancel: An event or a function that says when to stop, as with ``timeout``.
            progress: Called with (subjects done, subjects found so far).

        Raises:
            RejectedError: A model would be called inside a batch, or a dry run is requested for another job than the expiry.
        """
        chosen = plural("jobs", jobs, get_args(Job))
        stopping = Stopping(timeout, cancel)
        return running.run_policies(
            self._engine, as_of=now, only=chosen, dry_run=dry_run, stopping=stopping, progress=callback(progress)
        )

    def work(
        self,
        *,
        jobs: Iterable[Job] = (),
        follow: bool = False,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Iterator[answers.JobReport]:
        """Do pending work beside other workers, each piece under a lease, and yield a report of each pass.

        Args:
            jobs: The jobs to run; none for all of them.
            follow: Wait for more work after each pass, until ``timeout`` or ``cancel``.
            timeout: Seconds after which the work ends, as ``run`` does; the last report says ``stopped`` if work was left.
            cancel: An event or a function that says when to end, as with ``timeout``.
            progress: Called with (subjects done, subjects found so far).

        Raises:
            RejectedError: The call is inside a batch, which other workers cannot see into.
        """
        chosen = plural("jobs", jobs, get_args(Job))
        stopping = Stopping(timeout, cancel)
        return running.work(self._engine, follow=follow, only=chosen, stopping=stopping, progress=callback(progress))
