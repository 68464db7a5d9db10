"""``ledger.erasures`` and ``ledger.holds``: what was erased, and what may not be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from ledger import answers
from ledger.domain.errors import RejectedError
from ledger.engine.area import Area
from ledger.engine.paging import LIMIT, page
from ledger.erasure import completing, holding
from ledger.types import EVERYTHING, Event, Page, Subject, WriteOptions


class Erasures(Area):
    """The erasures of this file, of every user; no report and no certificate holds a text that was erased."""

    def list(self, *, limit: int = LIMIT, after: str | None = None) -> Page[answers.ErasureReport]:
        """List every erasure, newest first, each with its certificate."""

        def fetch(count: int, start: int | None) -> Sequence[answers.ErasureReport]:
            return completing.reports(self._engine, before=start, limit=count)

        return page("erasures", {}, limit, after, fetch, lambda each: each.position)

    def finish(self) -> tuple[answers.ErasureReport, ...]:
        """Purge and search the files again for pending erasures, and return how each of them stands."""
        return tuple(completing.finish_erasures(self._engine))

    def certificates(self) -> tuple[str, ...]:
        """Return the certificates of all erasures, oldest first.

        Keep them apart from the backups: with them ``Ledger.recover`` erases the same texts in what an older backup holds.
        """
        return tuple(completing.all_certificates(self._engine))


class Holds(Area):
    """Legal holds of a user: what is on hold cannot be erased."""

    def list(self, *, limit: int = LIMIT, after: str | None = None) -> Page[answers.Hold]:
        """List the holds on this user's things, newest first."""

        def fetch(count: int, start: int | None) -> Sequence[answers.Hold]:
            return holding.holds(self._engine, self._scope.user, before=start, limit=count)

        return page("holds", {"user": self._scope.user}, limit, after, fetch, lambda each: each.position)

    def add(self, subject: Subject = EVERYTHING, *, reason: str = "", **options: Unpack[WriteOptions]) -> answers.Hold:
        """Keep something from being erased; what is on hold already stays as it is (``absorbed``).

        Args:
            subject: The id of a memory, interaction, observation, document, session or project; ``Project(name)``,
                ``SessionName(name)``, ``DocumentPath(path)``; or ``EVERYTHING`` of this user.
        """
        if isinstance(subject, Event):
            raise RejectedError("one event is not held by itself: hold the subject that it belongs to, by its id")
        return holding.hold(self._engine, self._scope.asker(options), subject, reason)

    def remove(self, hold: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> answers.Hold:
        """End a hold.

        Args:
            hold: Its id, as ``add`` and ``list`` give it.

        Raises:
            NotFoundError: There is no such hold on this user's things.
        """
        return holding.lift_hold(self._engine, self._scope.asker(options), hold, reason)
