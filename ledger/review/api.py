"""The namespaces ``ledger.merges`` and ``ledger.conflicts``: memories that say nearly the same, or cannot all be true."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack, get_args

from ledger.core.area import LIMIT, Area, found, page
from ledger.domain.confidence import ONE
from ledger.domain.errors import RejectedError
from ledger.domain.text import plural
from ledger.english import near
from ledger.memories.answers import Memory
from ledger.review import commands, queries
from ledger.review.answers import Conflict, ConflictReport, Merge, MergeReport
from ledger.types import ConflictStatus, MergeStatus, Page, WriteOptions

if TYPE_CHECKING:
    from ledger.core.engine import Engine


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
            return queries.list_merges(self._engine, self._scope.user, accepted_statuses, project, count, place)

        filters = {"user": self._scope.user, "statuses": accepted_statuses, "project": project}
        return page("merges", filters, limit, after, fetch, lambda merge: merge.id, oldest_first=oldest_first)

    def get(self, id: str) -> Merge:
        """Return a merge as it stands.

        Raises:
            NotFoundError: This user has no such merge.
            AmbiguousIdError: Several ids begin so.
        """
        return found("merge", id, queries.get_merge(self._engine, self._scope.user, id))


class Merges(MergesRead):
    """The merges of a user."""

    _engine: Engine

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
        return commands.find_merges(self._engine, self._scope.searcher(options), project=project, threshold=threshold)

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
        return commands.merge(self._engine, self._scope.asker(options), proposal, content, reason)

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
        return commands.merge(self._engine, self._scope.asker(options), ids, content, reason)

    def reject(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Merge:
        """Reject a proposal; no two of its memories are proposed together again."""
        return commands.reject_merge(self._engine, self._scope.asker(options), id, reason)


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
            return queries.list_conflicts(self._engine, self._scope.user, accepted_statuses, project, count, place)

        filters = {"user": self._scope.user, "statuses": accepted_statuses, "project": project}
        return page("conflicts", filters, limit, after, fetch, lambda conflict: conflict.id, oldest_first=oldest_first)

    def get(self, id: str) -> Conflict:
        """Return a conflict as it stands.

        Raises:
            NotFoundError: This user has no such conflict.
            AmbiguousIdError: Several ids begin so.
        """
        return found("conflict", id, queries.get_conflict(self._engine, self._scope.user, id))


class Conflicts(ConflictsRead):
    """The conflicts of a user."""

    _engine: Engine

    def find(self, *, project: str | None = None, **options: Unpack[WriteOptions]) -> ConflictReport:
        """Search active memories for new conflicts and record them; a second search records nothing twice.

        Raises:
            NotFoundError: This user has no such project.
            RejectedError: An ``idempotency_key`` was given; the search needs none.
        """
        return commands.find_conflicts(self._engine, self._scope.searcher(options), project=project)

    def resolve(self, id: str, *, keep: str, reason: str = "", **options: Unpack[WriteOptions]) -> Conflict:
        """Keep one memory of a conflict; that memory supersedes the memories that exclude it.

        Args:
            keep: The id of the memory to keep.
        """
        return commands.resolve(self._engine, self._scope.asker(options), id, keep, reason)

    def accept(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Conflict:
        """Decide that all memories of a conflict can be true; the conflict is not raised again while they keep their values."""
        return commands.accept(self._engine, self._scope.asker(options), id, reason)
