"""What comes back of observations and their sources: frozen objects with the same names in Python and in ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING

from ledger.domain import confidence as rules
from ledger.domain.times import moment
from ledger.engine.answer import Answer, answer_of

if TYPE_CHECKING:
    from ledger.domain.observation import Observation as ObservationState


class ObservationSource(Answer, frozen=True, kw_only=True):
    """A source of an observation. ``at``: when what it says was so in the world; ``live``: it counts as proof.

    ``withdrawn`` is "" or why it was: "asked", "contradicted". A source that is not live without that was hidden,
    quarantined, undone or erased itself.
    """

    id: str
    at: str
    live: bool
    withdrawn: str = ""


class Observation(Answer, frozen=True, kw_only=True):
    """An observation as it stands. ``proof_count`` is the number of its distinct live sources, ``confidence`` from 0 to 1.

    ``status`` is active, unsupported (active, and without a live source), retracted or erased. ``freshness`` is "stale" when the
    wording has to be looked at again: it was marked (``stale`` says why), or something that it was ``written_from`` is no
    longer live. ``scope`` is its tags, sorted and joined with "|". ``trend`` is that at ``as_of``. What is
    ``quarantined`` is not recalled.
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
    warnings: tuple[str, ...] = ()  # of a write: the secrets that were redacted, by field and kind

    def trend_at(self, as_of: str | datetime | date) -> str:
        """Return how its live evidence comes in at a moment: new, stable, strengthening, weakening or dormant."""
        return rules.trend((each.at for each in self.sources if each.live), as_of=moment("as_of", as_of))


def observation(
    state: ObservationState,
    names: Mapping[str, str],
    sources: tuple[ObservationSource, ...],
    alive: frozenset[str] | set[str],
    as_of: str,
    *,
    quarantined: bool = False,
) -> Observation:
    """``alive`` are the live ones of what it was written from."""
    live = [each for each in sources if each.live]
    fresh = not state.stale and bool(live) and state.text is not None and alive.issuperset(state.written_from)
    return answer_of(
        Observation,
        state,
        content=state.text,
        scope=state.scope,
        project=names.get(state.project or "", state.project),
        status="unsupported" if state.status == "active" and not live else state.status,
        confidence=rules.shown(rules.proven(state.rule, state.confidence, len(live))),
        proof_count=len(live),
        sources=sources,
        freshness="fresh" if fresh else "stale",
        trend=rules.trend((each.at for each in live), as_of=as_of),
        as_of=as_of,
        quarantined=quarantined,
    )


class Evidence(Answer, frozen=True, kw_only=True):
    """A source of an observation, dated, with what it says now; None where they are gone or were erased."""

    id: str
    at: str
    live: bool
    withdrawn: str
    content: str | None
    status: str


class Wording(Answer, frozen=True, kw_only=True):
    """What an observation said from a position on: by whom and by which rule. ``why`` is "formed", the kind of a revision,
    or "again", where somebody wrote the same and added evidence; ``reason`` is what they said of it."""

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
    """What withdrawing sources did, or would do (``dry_run``): the observations that lost one, those of them ``retracted``
    because they have no other, and those that are ``stale`` until they are looked at again. ``failed`` still count one of
    the sources; (id, why). All are ids."""

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
    """One thing that a consolidation did or would do: ``what`` is formed, revised, retracted or refreshed; with an ``id`` that is
    None only in a dry run. ``content`` is the wording it came to, "" where it stays."""

    what: str
    id: str | None
    content: str = ""
    sources: tuple[str, ...] = ()


class ConsolidationReport(Answer, frozen=True, kw_only=True):
    """What a consolidation did: of how many new ``sources``, with what counts of observations; ``skipped`` counts what was not
    taken, by reason. ``left`` new sources were not looked at because of a limit. ``calls`` are those of a model."""

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
