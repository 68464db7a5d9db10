"""``ledger.erasures`` and ``ledger.holds``: what was erased, and what may not be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ledger import answers
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.ids import kind_of
from ledger.engine.paging import LIMIT, page
from ledger.engine.scope import Area
from ledger.erasure import erasing, holding
from ledger.types import EVERYTHING, DocumentPath, Event, Page, Project, SessionName, Subject, WriteOptions

if TYPE_CHECKING:
    pass


class Erasures(Area):
    """The erasures of this file, of every user; no report and no certificate holds a text that was erased."""

    def list(self, *, limit: int = LIMIT, after: str | None = None) -> Page[answers.ErasureReport]:
        """List every erasure, newest first, each with its certificate."""

        def fetch(count: int, start: int | None) -> Sequence[answers.ErasureReport]:
            return erasing.reports(self._engine, before=start, limit=count)

        return page("erasures", {}, limit, after, fetch, lambda each: each.position)

    def finish(self) -> tuple[answers.ErasureReport, ...]:
        """Purge and search the files again for pending erasures, and return how each of them stands."""
        return tuple(erasing.finish_erasures(self._engine))

    def certificates(self) -> tuple[str, ...]:
        """Return the certificates of all erasures, oldest first.

        Keep them apart from the backups: with them ``Ledger.recover`` erases the same texts in what an older backup holds.
        """
        return tuple(erasing.all_certificates(self._engine))


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
        return holding.hold(self._engine, self._scope.asker(options), **as_asked(subject), reason=reason)

    def remove(self, hold: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> answers.Hold:
        """End a hold.

        Args:
            hold: Its id, as ``add`` and ``list`` give it.

        Raises:
            NotFoundError: There is no such hold on this user's things.
        """
        return holding.lift_hold(self._engine, self._scope.asker(options), hold, reason, by_id=True)


def as_asked(subject: Subject) -> dict[str, Any]:
    """The keywords by which an erasure or a hold names a subject; without any it is the whole user."""
    match subject:
        case Project(name):
            return {"project": name}
        case SessionName(name):
            return {"session": name}
        case DocumentPath(path):
            return {"document": path}
        case Event(position, fields, spans) if isinstance(position, int):
            return {"subject": position, "fields": fields, "spans": spans}
        case str():
            if subject == EVERYTHING:
                return {}
            if not kind_of(subject):
                raise NotFoundError(
                    f"no subject of this user has the id {subject!r:.40}; a project is named by Project(name), a session by "
                    "SessionName(name), a document by DocumentPath(path)"
                )
            return {"subject": subject}
    raise RejectedError(
        "a subject is an id, Project(name), SessionName(name), DocumentPath(path), Event(position) or EVERYTHING, "
        f"and {subject!r:.60} is none of these"
    )
