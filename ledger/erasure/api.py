"""The namespaces ``ledger.erasures`` and ``ledger.holds``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from ledger.core.area import LIMIT, Area, page
from ledger.domain.errors import RejectedError
from ledger.erasure import answers, completing, holding
from ledger.types import EVERYTHING, Event, Page, Subject, WriteOptions
from projections.core.rows import Start

if TYPE_CHECKING:
    from ledger.core.engine import Engine


class Erasures(Area):
    """The erasures of this file, of every user; no report and no certificate holds a text that was erased."""

    _engine: Engine

    def list(
        self, *, limit: int = LIMIT, after: str | None = None, oldest_first: bool = False
    ) -> Page[answers.ErasureReport]:
        """List every erasure, newest first, each with its certificate."""

        def fetch(count: int, place: int | None) -> Sequence[answers.ErasureReport]:
            return completing.reports(self._engine, start=Start(place, oldest_first), limit=count)

        return page("erasures", {}, limit, after, fetch, lambda report: report.position, oldest_first=oldest_first)

    def finish(self) -> tuple[answers.ErasureReport, ...]:
        """Purge and search the files again for the pending erasures, and return the state of each."""
        return tuple(completing.finish_erasures(self._engine))

    def certificates(self) -> tuple[str, ...]:
        """Return the certificates of all erasures, oldest first.

        Keep the certificates apart from the backups: ``Ledger.recover`` takes them to erase the same texts in an older
        backup.
        """
        return tuple(completing.all_certificates(self._engine))


class Holds(Area):
    """The legal holds of a user; a subject on hold cannot be erased."""

    _engine: Engine

    def list(self, *, limit: int = LIMIT, after: str | None = None, oldest_first: bool = False) -> Page[answers.Hold]:
        """List the holds on this user's subjects, newest first."""

        def fetch(count: int, place: int | None) -> Sequence[answers.Hold]:
            return holding.holds(self._engine, self._scope.user, start=Start(place, oldest_first), limit=count)

        filters = {"user": self._scope.user}
        return page("holds", filters, limit, after, fetch, lambda hold: hold.position, oldest_first=oldest_first)

    def add(self, subject: Subject = EVERYTHING, *, reason: str = "", **options: Unpack[WriteOptions]) -> answers.Hold:
        """Keep a subject from being erased; a hold that exists already stays as it is (``absorbed``).

        Args:
            subject: The id of a memory, interaction, observation, document, session or project; ``Project(name)``,
                ``SessionName(name)``, ``DocumentPath(path)``; or ``EVERYTHING`` of this user.
            reason: Why the subject is on hold.

        Raises:
            NotFoundError: This user has no such subject.
            RejectedError: ``subject`` names a single event.
        """
        if isinstance(subject, Event):
            raise RejectedError("a single event cannot be held: hold the subject that the event belongs to, by its id")
        return holding.hold(self._engine, self._scope.asker(options), subject, reason)

    def remove(self, hold: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> answers.Hold:
        """End a hold.

        Args:
            hold: The id of the hold, from ``add`` or ``list``.
            reason: Why the hold ends.

        Raises:
            NotFoundError: This user has no such hold.
        """
        return holding.lift_hold(self._engine, self._scope.asker(options), hold, reason)
