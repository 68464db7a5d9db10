"""The answers about observations and their sources: frozen objects with the same names in Python and in ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING

from ledger.core.call import Answer, answer_of
from ledger.domain import confidence as confidence_rules
from ledger.domain.times import moment

if TYPE_CHECKING:
    from ledger.observations.rules import ObservationState as ObservationState


class ObservationSource(Answer, frozen=True, kw_only=True):
    """A source of an observation.

    ``at`` is the time at which the source was true in the world. ``live`` is True if the source counts as proof. ``withdrawn`` is
    the reason of a withdrawal ("asked" by a person, or "contradicted"), or "". A source that is neither live nor withdrawn was
    itself hidden, quarantined, undone or erased.
    """

    id: str
    at: str
    live: bool
    withdrawn: str = ""


class Observation(Answer, frozen=True, kw_only=True):
    """An observation in its present state.

    - ``proof_count``: the number of its distinct live sources; ``confidence``: from 0 to 1
    - ``status``: active, unsupported (active, but without a live source), retracted or erased
    - ``freshness``: "stale" if the wording needs a check: the observation was marked stale (``stale`` is the reason), has no live
      source, or a source in ``written_from`` is no longer live; else "fresh"
    - ``scope``: its tags, sorted and joined with "|"
    - ``trend``: the trend of its evidence at ``as_of``
    - ``quarantined``: True if the wording is in quarantine, so that recall does not return the observation
    """

    id: str
    content: str | None
    scope: str
    user: str | None
    agent: str | None
    project: str | None
    tags: tuple[str, ...]
    status: str
    confidence: float
    proof_count: int
    sources: tuple[ObservationSource, ...]
    freshness: str
    stale: str
    trend: str
    rule: str
    consolidator: str
    written_from: tuple[str, ...]
    retracted: str
    merged_into: str | None
    recorded_at: str
    revised_at: str
    as_of: str
    position: int
    quarantined: bool = False
    replayed: bool = False
    absorbed: bool = False
    warnings: tuple[str, ...] = ()  # after a write: the secrets that were redacted, by field and kind

    def trend_at(self, as_of: str | datetime | date) -> str:
        """Return the trend of the live evidence at a moment: new, stable, strengthening, weakening or dormant.

        Args:
            as_of: The moment.
        """
        return confidence_rules.trend(
            (source.at for source in self.sources if source.live), as_of=moment("as_of", as_of)
        )


def observation(
    state: ObservationState,
    names: Mapping[str, str],
    sources: tuple[ObservationSource, ...],
    alive: frozenset[str] | set[str],
    as_of: str,
    *,
    quarantined: bool = False,
) -> Observation:
    """Return the answer for an observation; ``alive`` holds the live sources among ``written_from``."""
    live = [source for source in sources if source.live]
    fresh = not state.stale and bool(live) and state.text is not None and alive.issuperset(state.written_from)
    return answer_of(
        Observation,
        state,
        content=state.text,
        scope=state.scope,
        project=names.get(state.project or "", state.project),
        status="unsupported" if state.status == "active" and not live else state.status,
        confidence=confidence_rules.shown(confidence_rules.proven(state.rule, state.confidence, len(live))),
        proof_count=len(live),
        sources=sources,
        freshness="fresh" if fresh else "stale",
        trend=confidence_rules.trend((source.at for source in live), as_of=as_of),
        as_of=as_of,
        quarantined=quarantined,
    )


class Evidence(Answer, frozen=True, kw_only=True):
    """A source of an observation with its time and its present content; None if the source was undone or erased."""

    id: str
    at: str
    live: bool
    withdrawn: str
    content: str | None
    status: str


class Wording(Answer, frozen=True, kw_only=True):
    """A wording that an observation has had since a position, with its author and rule.

    ``why`` is "formed", the kind of the revision, or "again" if somebody recorded the same text a second time. ``reason`` is the
    author's comment. ``in_effect`` is False if the wording was undone.
    """

    position: int
    recorded_at: str
    content: str | None
    why: str
    reason: str | None
    actor: str | None
    consolidator: str
    rule: str
    confidence: float
    written_from: tuple[str, ...]
    in_effect: bool


class WithdrawalReport(Answer, frozen=True, kw_only=True):
    """The effect of withdrawing sources, or the expected effect (``dry_run``).

    ``observations`` are the observations that lost a source. Of these, ``retracted`` have no other live source, and ``stale``
    need a check of their wording. ``failed`` are the observations that still count one of the sources, as (id, reason). All
    other entries are ids.
    """

    sources: tuple[str, ...]
    observations: tuple[str, ...]
    retracted: tuple[str, ...]
    stale: tuple[str, ...]
    position: int
    failed: tuple[tuple[str, str], ...] = ()
    dry_run: bool = False
    command_id: str | None = None
    replayed: bool = False
    absorbed: bool = False

    @property
    def ok(self) -> bool:
        return not self.failed


class Consolidated(Answer, frozen=True, kw_only=True):
    """A step of a consolidation, done or (in a dry run) planned: ``what`` is formed, revised, retracted or refreshed.

    ``id`` is None only in a dry run. ``content`` is the new wording, "" if the wording stays.
    """

    what: str
    id: str | None
    content: str = ""
    sources: tuple[str, ...] = ()


class ConsolidationReport(Answer, frozen=True, kw_only=True):
    """The results of a consolidation.

    ``sources`` is the number of new sources that were read. ``formed``, ``revised``, ``retracted`` and ``refreshed`` count steps
    on observations. ``skipped`` counts the steps that were not taken, by reason. ``left`` is the number of new sources that were
    not read because of a limit or a stop. ``calls`` is the number of calls of a model.
    """

    consolidator: str
    over: str
    project: str | None
    tags: tuple[str, ...]
    sources: int
    formed: int
    revised: int
    retracted: int
    refreshed: int
    skipped: dict[str, int]
    left: int
    calls: int
    actions: tuple[Consolidated, ...]
    position: int
    dry_run: bool = False
