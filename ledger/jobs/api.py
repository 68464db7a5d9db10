"""``ledger.jobs``: the background work of a file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import get_args

from ledger import answers
from ledger.domain.text import plural
from ledger.engine.area import Area, callback
from ledger.jobs import running
from ledger.types import Job, Time


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
