"""The ``ledger.observations`` namespace, which lists and reads observations, adds them by hand, and withdraws sources."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack, get_args

from ledger.core.area import LIMIT, Area, found, page
from ledger.domain import confidence as confidence_rules
from ledger.domain.text import one_of, plural
from ledger.observations import commands as observation_commands
from ledger.observations import queries as observation_queries
from ledger.observations.answers import Observation, WithdrawalReport
from ledger.types import Freshness, ObservationStatus, Page, Trend, WriteOptions

if TYPE_CHECKING:
    from ledger.core.engine import Engine


class ObservationsRead(Area):
    """The observations of a user, now or as they were known at a moment."""

    def list(
        self,
        *,
        project: str | None = None,
        tags: Iterable[str] = (),
        trends: Iterable[Trend] = (),
        statuses: Iterable[ObservationStatus] = ("active",),
        freshness: Freshness | None = None,
        limit: int = LIMIT,
        after: str | None = None,
        oldest_first: bool = False,
    ) -> Page[Observation]:
        """List observations with their sources, newest first.

        Args:
            tags: Only observations that have all of these tags.
            trends: Only observations whose evidence has one of these trends; empty for every trend.
            statuses: Only observations of these statuses; empty for every status. "unsupported" is active without a live
                source.
            freshness: "fresh" for content that matches its sources, "stale" for content that may not; None for both.

        Raises:
            RejectedError: A limit, cursor, status, trend or freshness is not valid.
        """
        accepted_statuses = plural("statuses", statuses, get_args(ObservationStatus))
        tags, accepted_trends = plural("tags", tags), plural("trends", trends, get_args(Trend))
        if freshness is not None:
            one_of("freshness", freshness, get_args(Freshness))

        def fetch(count: int, start: str | None) -> list[Observation]:
            return observation_queries.listing(
                self._engine,
                self._scope.user,
                project=project,
                tags=tags,
                trends=accepted_trends,
                statuses=accepted_statuses,
                freshness=freshness,
                place=(start, oldest_first),
                limit=count,
            )

        filters = {
            "project": project,
            "tags": tags,
            "trends": accepted_trends,
            "statuses": accepted_statuses,
            "freshness": freshness,
        }
        return page(
            "observations",
            filters | {"user": self._scope.user},
            limit,
            after,
            fetch,
            lambda observation: observation.id,
            oldest_first=oldest_first,
        )

    def get(self, id: str) -> Observation:
        """Return an observation of any status with its sources; ``why(id)`` also shows the content of the sources.

        Raises:
            NotFoundError: This user has no such observation.
            AmbiguousIdError: Several ids begin so.
        """
        return found("observation", id, observation_queries.get(self._engine, self._scope.user, id))


class Observations(ObservationsRead):
    """The observations of a user."""

    _engine: Engine

    def add(
        self,
        content: str,
        sources: Iterable[str],
        *,
        confidence: float = confidence_rules.BY_HAND / confidence_rules.ONE,
        project: str | None = None,
        tags: Iterable[str] = (),
        reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> Observation:
        """Add an observation by hand: a text in your words that states what several sources have in common.

        If an active observation of this project and these tags has the same text, the sources become evidence of that
        observation. The call then returns that observation with ``absorbed=True``.

        Args:
            content: The text.
            sources: Ids of memories, interactions, chunks and messages in use, at least one.
            confidence: The confidence, from 0 to 1; that of rules and models is from 0.5.
            tags: At most 10 tags.

        Raises:
            RejectedError: There is no source, or a source is not in use or belongs to another project.
            NotFoundError: A source does not exist.
        """
        return observation_commands.observe(
            self._engine,
            self._scope.asker(options),
            content,
            plural("sources", sources),
            confidence=confidence,
            project=project,
            tags=plural("tags", tags),
            why=reason,
        )

    def withdraw(
        self,
        sources: Iterable[str],
        *,
        exclusive: bool = False,
        dry_run: bool = False,
        reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> WithdrawalReport:
        """Withdraw sources from every observation.

        The sources stay as they are, and ``restore`` of a source brings its evidence back. An observation with another live
        source is stale until its content is checked; an observation without one is retracted.

        Args:
            sources: Ids of memories, interactions, chunks, documents and messages, at least one.
            exclusive: True to allow more than 50,000 events, which keep other writers waiting until they are done.

        Raises:
            NotFoundError: A source does not exist.
        """
        return observation_commands.withdraw_source(
            self._engine,
            self._scope.asker(options),
            plural("sources", sources),
            reason,
            exclusive=exclusive,
            dry_run=dry_run,
        )
