"""The ``ledger.conflicts`` namespace, which finds memories that cannot all be true, and records decisions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack, get_args

from ledger.core.area import Area
from ledger.core.paging import LIMIT, found, page
from ledger.domain.text import plural
from ledger.review import commands as merge_commands
from ledger.review import queries as merge_queries
from ledger.review.answers import Conflict, ConflictReport
from ledger.types import ConflictStatus, Page, WriteOptions


class ConflictsRead(Area):
    """The conflicts of a user, now or as they were known at a moment."""

    def list(
        self,
        *,
        statuses: Iterable[ConflictStatus] = ("open",),
        project: str | None = None,
        limit: int = LIMIT,
        after: str | None = None,
        oldest_first: bool = False,
    ) -> Page[Conflict]:
        """List conflicts with their memories, newest first.

        Args:
            statuses: Only conflicts of these statuses; empty for every status.
        """
        accepted_statuses = plural("statuses", statuses, get_args(ConflictStatus))

        def fetch(count: int, start: str | None) -> list[Conflict]:
            place = start, oldest_first
            return merge_queries.list_conflicts(
                self._engine, self._scope.user, accepted_statuses, project, count, place
            )

        filters = {"user": self._scope.user, "statuses": accepted_statuses, "project": project}
        return page("conflicts", filters, limit, after, fetch, lambda conflict: conflict.id, oldest_first=oldest_first)

    def get(self, id: str) -> Conflict:
        """Return a conflict as it stands.

        Raises:
            NotFoundError: This user has no such conflict.
            AmbiguousIdError: Several ids begin so.
        """
        return found("conflict", id, merge_queries.get_conflict(self._engine, self._scope.user, id))


class Conflicts(ConflictsRead):
    """The conflicts of a user."""

    def find(self, *, project: str | None = None, **options: Unpack[WriteOptions]) -> ConflictReport:
        """Search active memories for new conflicts and record them; a second search records nothing twice.

        Raises:
            NotFoundError: This user has no such project.
            RejectedError: An ``idempotency_key`` was given; the search needs none.
        """
        return merge_commands.find_conflicts(self._engine, self._scope.searcher(options), project=project)

    def resolve(self, id: str, *, keep: str, reason: str = "", **options: Unpack[WriteOptions]) -> Conflict:
        """Keep one memory of a conflict; that memory supersedes the memories that exclude it.

        Args:
            keep: The id of the memory to keep.
        """
        return merge_commands.resolve(self._engine, self._scope.asker(options), id, keep, reason=reason)

    def accept(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Conflict:
        """Decide that all memories of a conflict can be true; the conflict is not raised again while they keep their values."""
        return merge_commands.resolve(self._engine, self._scope.asker(options), id, both=True, reason=reason)
