"""The ``ledger.merges`` namespace, which finds memories that say nearly the same, and merges them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack, get_args

from ledger.core.area import Area
from ledger.core.paging import LIMIT, found, page
from ledger.domain.confidence import ONE
from ledger.domain.errors import RejectedError
from ledger.domain.text import plural
from ledger.english import near
from ledger.memories.answers import Memory
from ledger.review import commands as merge_commands
from ledger.review import queries as merge_queries
from ledger.review.answers import Merge, MergeReport
from ledger.types import MergeStatus, Page, WriteOptions


class MergesRead(Area):
    """The merges of a user, now or as they were known at a moment."""

    def list(
        self,
        *,
        statuses: Iterable[MergeStatus] = ("proposed",),
        project: str | None = None,
        limit: int = LIMIT,
        after: str | None = None,
        oldest_first: bool = False,
    ) -> Page[Merge]:
        """List merges with their memories, newest first.

        Args:
            statuses: Only merges of these statuses; empty for every status. A proposal whose memories changed is "obsolete".
        """
        accepted_statuses = plural("statuses", statuses, get_args(MergeStatus))

        def fetch(count: int, start: str | None) -> list[Merge]:
            place = start, oldest_first
            return merge_queries.list_merges(self._engine, self._scope.user, accepted_statuses, project, count, place)

        filters = {"user": self._scope.user, "statuses": accepted_statuses, "project": project}
        return page("merges", filters, limit, after, fetch, lambda merge: merge.id, oldest_first=oldest_first)

    def get(self, id: str) -> Merge:
        """Return a merge as it stands.

        Raises:
            NotFoundError: This user has no such merge.
            AmbiguousIdError: Several ids begin so.
        """
        return found("merge", id, merge_queries.get_merge(self._engine, self._scope.user, id))


class Merges(MergesRead):
    """The merges of a user."""

    def find(
        self,
        *,
        project: str | None = None,
        threshold: float = near.THRESHOLD / ONE,
        **options: Unpack[WriteOptions],
    ) -> MergeReport:
        """Propose merges of active memories of one kind and project; a second search proposes nothing twice.

        Args:
            threshold: The least similarity of two word sets (Jaccard), from 0.5 to 1.

        Raises:
            NotFoundError: This user has no such project.
            RejectedError: An ``idempotency_key`` was given; the search needs none.
        """
        return merge_commands.find_merges(
            self._engine, self._scope.searcher(options), project=project, threshold=threshold
        )

    def apply(
        self, proposal: str, *, content: str | None = None, reason: str = "", **options: Unpack[WriteOptions]
    ) -> Memory:
        """Merge the memories of a proposal, and return the memory that supersedes them.

        Args:
            proposal: The id of the merge.
            content: The wording of the new memory; None for that of the most confident memory.

        Raises:
            RejectedError: The proposal is obsolete or was rejected.
        """
        if not isinstance(proposal, str) or not proposal.startswith("g_"):
            raise RejectedError(
                f"{proposal!r:.40} is not the id of a merge, like g_…; merges.combine([…]) merges memories by their ids"
            )
        return merge_commands.merge(self._engine, self._scope.asker(options), proposal, content, reason)

    def combine(
        self, memories: Iterable[str], *, content: str | None = None, reason: str = "", **options: Unpack[WriteOptions]
    ) -> Memory:
        """Merge 2 to 50 active memories of one kind and project, and return the memory that supersedes them.

        Args:
            memories: The ids of the memories.
            content: The wording of the new memory; None for that of the most confident memory.
        """
        ids = plural("memories", memories)
        if any(id.startswith("g_") for id in ids):
            raise RejectedError("combine takes the ids of memories, like m_…; merges.apply(id) applies a merge")
        return merge_commands.merge(self._engine, self._scope.asker(options), ids, content, reason)

    def reject(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Merge:
        """Reject a proposal; no two of its memories are proposed together again."""
        return merge_commands.reject_merge(self._engine, self._scope.asker(options), id, reason)
