"""``ledger.guards``: what is kept out of recall, what rules refused, and a scan of everything stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Unpack

from ledger import answers
from ledger.domain.errors import RejectedError
from ledger.engine.area import Area, callback
from ledger.engine.paging import LIMIT, page
from ledger.engine.stopping import Stopping
from ledger.guards import quarantining, queries
from ledger.guards.answers import Quarantined, ScanReport
from ledger.types import Cancel, Page, WriteOptions


class GuardsRead(Area):
    """What the guards of a user's memory hold back, now or at a moment."""

    def quarantined(self, *, limit: int = LIMIT, after: str | None = None) -> Page[Quarantined]:
        """List what is in quarantine, newest first, with the label and the scanner. Never a text."""

        def fetch(count: int, start: str | None) -> list[Quarantined]:
            behind = _place(start) if start is not None else None
            return quarantining.quarantined(self._engine, self._scope.user, limit=count, after=behind)

        filters = {"user": self._scope.user}
        return page("quarantined", filters, limit, after, fetch, lambda each: f"{each.since}:{each.position}")

    def refusals(self, *, limit: int = LIMIT, after: str | None = None) -> Page[answers.Refusal]:
        """List what rules refused, newest first: labels and numbers, never a text."""

        def fetch(count: int, start: int | None) -> list[answers.Refusal]:
            return queries.refusals(self._engine, self._scope.user, limit=count, after=start)

        return page("refusals", {"user": self._scope.user}, limit, after, fetch, lambda each: each.position)


class Guards(GuardsRead):
    """The guards of a user's memory."""

    @property
    def redactions(self) -> Mapping[str, int]:
        """How many secrets of each kind were removed from texts through this open ledger, of every user."""
        return quarantining.redactions(self._engine)

    def quarantine(
        self, subject: str | int, *, reason: str = "", **options: Unpack[WriteOptions]
    ) -> answers.Memory | Quarantined:
        """Keep a memory or a text out of recall, reinforcement and extraction until ``release``.

        Args:
            subject: The id of a memory, interaction, chunk, summary or observation; a message by the position of its event.
        """
        return quarantining.quarantine_text(self._engine, self._scope.asker(options), subject, reason)

    def release(
        self, subject: str | int, *, reason: str = "", **options: Unpack[WriteOptions]
    ) -> answers.Memory | Quarantined:
        """End the quarantine of a memory or text, whoever began it; a later scan does not begin it again.

        Args:
            subject: What ``quarantine`` takes.
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
        """Run today's scanners over everything stored, of every user, and quarantine or release what they now decide.

        Nobody's own quarantine or release is overruled. Secrets are only reported: ``erase`` removes them.

        Args:
            since: The position of the first event to scan; None for all.
            dry_run: Change nothing, and report what would be.
            timeout: Seconds after which it stops between two pieces of 500 events; what was decided stays, ``stopped`` says so,
                and ``since=report.reached + 1`` goes on.
            cancel: An event or a function that says when to stop, as with ``timeout``.
            progress: Called with (position, last position).
        """
        if since is not None and (isinstance(since, bool) or not isinstance(since, int) or not 1 <= since < 2**63):
            raise RejectedError(f"since is a position, from 1, and {since!r:.40} is none")
        return quarantining.rescan(
            self._engine,
            since=since - 1 if since is not None else None,
            dry_run=dry_run,
            stopping=Stopping(timeout, cancel),
            progress=callback(progress),
        )


def _place(start: str) -> tuple[int, int]:
    """Since when and at which position the last item of a page is in quarantine."""
    try:
        since, position = map(int, str(start).split(":"))
    except ValueError:
        raise RejectedError("this is no cursor: give what page.next says") from None
    return since, position
