"""``ledger.guards``: the texts that are kept out of recall, the commands that rules refused, and a scan of everything stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Unpack

from ledger.core.area import LIMIT, Area, callback, page
from ledger.core.steps import Stopping
from ledger.domain.errors import RejectedError
from ledger.guards import answers, quarantining, queries
from ledger.guards.answers import Quarantined, ScanReport
from ledger.memories.answers import Memory
from ledger.types import Cancel, Page, WriteOptions
from projections.core.rows import Start

if TYPE_CHECKING:
    from ledger.core.engine import Engine


class GuardsRead(Area):
    """The quarantine and the refusals of a user's memory, now or at a moment."""

    def quarantined(
        self, *, limit: int = LIMIT, after: str | None = None, oldest_first: bool = False
    ) -> Page[Quarantined]:
        """List the memories and texts in quarantine, newest first, with label and scanner. No answer contains a text."""

        def fetch(count: int, start: str | None) -> list[Quarantined]:
            behind = _place(start) if start is not None else None
            return quarantining.quarantined(
                self._engine, self._scope.user, limit=count, after=behind, oldest_first=oldest_first
            )

        filters = {"user": self._scope.user}
        return page(
            "quarantined",
            filters,
            limit,
            after,
            fetch,
            lambda item: f"{item.since}:{item.position}",
            oldest_first=oldest_first,
        )

    def refusals(
        self, *, limit: int = LIMIT, after: str | None = None, oldest_first: bool = False
    ) -> Page[answers.Refusal]:
        """List the commands that rules refused, newest first: labels and numbers, never a text."""

        def fetch(count: int, place: int | None) -> list[answers.Refusal]:
            return queries.refusals(self._engine, self._scope.user, limit=count, start=Start(place, oldest_first))

        filters = {"user": self._scope.user}
        return page(
            "refusals", filters, limit, after, fetch, lambda refusal: refusal.position, oldest_first=oldest_first
        )


class Guards(GuardsRead):
    """The guards of a user's memory."""

    _engine: Engine

    @property
    def redactions(self) -> Mapping[str, int]:
        """Return the number of secrets of each kind that this open ledger removed from texts, of every user."""
        return quarantining.redactions(self._engine)

    def quarantine(
        self, subject: str | int, *, reason: str = "", **options: Unpack[WriteOptions]
    ) -> Memory | Quarantined:
        """Keep a memory or a text out of recall, reinforcement and extraction until ``release``.

        Args:
            subject: The id of a memory, interaction, chunk, summary or observation; a message by the position of its event.
        """
        return quarantining.quarantine_text(self._engine, self._scope.asker(options), subject, reason)

    def release(self, subject: str | int, *, reason: str = "", **options: Unpack[WriteOptions]) -> Memory | Quarantined:
        """End the quarantine of a memory or text, whoever began it. A later scan does not begin it again.

        Args:
            subject: An id or position, as ``quarantine`` takes it.
        """
        return quarantining.release_text(self._engine, self._scope.asker(options), subject, reason)

    def scan(
        self,
        *,
        since: int | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> ScanReport:
        """Run today's scanners over everything stored, of every user, and quarantine or release by their findings.

        A person's own quarantine or release is never overruled. Secrets are only reported: ``erase`` removes them.

        Args:
            since: The position of the first event to scan; None for all.
            dry_run: Change nothing, and report the changes that a scan would make.
            timeout: Seconds after which the scan stops, between two pieces of 500 events. The finished pieces stay, ``stopped``
                of the report is "timeout", and ``since=report.reached + 1`` continues.
            cancel: An event or a function that says when to stop, as ``timeout`` does.
            progress: A function that is called with (position, last position).

        Raises:
            RejectedError: ``since`` is not a position.
        """
        if since is not None and (isinstance(since, bool) or not isinstance(since, int) or not 1 <= since < 2**63):
            raise RejectedError(f"since must be a position, a whole number from 1, but {since!r:.40} was given")
        return quarantining.rescan(
            self._engine,
            since=since - 1 if since is not None else None,
            dry_run=dry_run,
            stopping=Stopping(timeout, cancel),
            progress=callback(progress),
        )


def _place(start: str) -> tuple[int, int]:
    """Return (since, position) of the item that a page ended with."""
    try:
        since, position = map(int, str(start).split(":"))
    except ValueError:
        raise RejectedError("after is not a cursor of this listing: pass page.next of the page before") from None
    return since, position
