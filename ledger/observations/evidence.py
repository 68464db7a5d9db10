"""The rules of evidence: the sources that can support an observation, duplicates, and the withdrawal and return of sources.

The withdrawal of a source, and its return, concerns every observation that the source supports, in one append.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from ledger.core.steps import check_size
from ledger.core.work import Work
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.text import normalise
from ledger.events import EvidenceSource
from ledger.observations import rules
from ledger.observations.rules import ObservationState, Support
from projections.core.rows import Connection
from projections.views import observations

BY_HAND = "by_hand"  # the consolidator of an observation that a person writes
KINDS = ("m", "i", "c")  # the ids of memories, interactions and chunks begin so; messages can be evidence too
_UNDO = (
    "undo the withdrawal of the source with exclusive=True"  # the advice, because restore has no parameter exclusive
)


# --- sources --------------------------------------------------------------------------------------------------------


def live(work: Work, sources: Iterable[str]) -> set[str]:
    """Return the sources that count as proof; called under the writer's lock."""
    work.rows.flush()
    return observations.live(work.connection(), sources)


def dated(work: Work, sources: Sequence[str]) -> tuple[EvidenceSource, ...]:
    """Return live sources as evidence, with the time at which each source was true in the world.

    Raises:
        RejectedError: A source is not live.
    """
    alive = live(work, sources)
    if dead := [source for source in sources if source not in alive]:
        raise RejectedError(
            f"{dead[0]} is not in use (hidden, quarantined, undone or erased), so it cannot be evidence; restore it first",
            rule="evidence",
            subject=dead[0],
        )
    times = observations.times_of(work.connection(), sources)
    return tuple(EvidenceSource(source, times[source]) for source in sources)


# --- duplicates ------------------------------------------------------------------------------------------------------


def duplicate(
    work: Work, project: str | None, tags: Sequence[str], text: str, *, besides: int = 0
) -> ObservationState | None:
    """Return the oldest active observation of this user and scope with the same text, without the one in the row ``besides``."""
    statements = ((work.secret, work.who.user, place, tags, text) for place in work.together(project))
    numbers = [number for statement in statements if (number := observations.statement(*statement)) is not None]
    for row in sorted(row for number in numbers for row in observations.with_statement(work.rows, number)):
        known: ObservationState | None = work.at_row(row, "o") if row != besides else None
        if known is not None and normalise(known.text or "") == normalise(text):
            return known
    return None


def refuse_duplicate(work: Work, observation: ObservationState, text: str, verb: str) -> None:
    """Raise ``RejectedError`` if another active observation of the scope has the same text."""
    same = duplicate(work, observation.project, observation.tags, text, besides=observation.row)
    if same is not None:
        raise RejectedError(
            f"cannot {verb} {observation.id}: {same.id} is active and says the same; keep one of them",
            rule="duplicate",
            subject=observation.id,
        )


# --- withdrawing and putting back ------------------------------------------------------------------------------------


def _flushed(work: Work) -> Connection:
    work.rows.flush()
    return work.connection()


def _changeable(work: Work, row: int) -> ObservationState | None:
    """Return the observation in a row; None if the observation was erased."""
    state: ObservationState | None = work.at_row(row, "o")
    return None if state is None or state.status == rules.ERASED else state


def withdraw(work: Work, sources: Collection[str], reason: str, *, exclusive: bool = False) -> None:
    """Withdraw sources from all observations.

    An active observation without another live source is retracted; an active observation with one is marked stale.
    """
    rows = observations.supported_by(_flushed(work), sources)
    check_size(len(rows), exclusive=exclusive)
    touched: list[tuple[ObservationState, list[Support], list[str]]] = []
    for row in rows:
        if (state := _changeable(work, row)) is not None:
            supports = observations.support_of(work.rows, row)
            others = [support.source for support in supports if not support.withdrawn and support.source not in sources]
            touched.append((state, supports, others))
    alive = live(work, {source for _, _, others in touched for source in others})
    for state, supports, others in touched:
        emit(work, state, rules.Withdraw(tuple(sources), "asked", reason), supports)
        if state.status == "active" and alive.isdisjoint(others):
            emit(work, state, rules.Retire("no_evidence"))
        elif state.status == "active":
            emit(work, state, rules.MarkStale("withdrawn"))
    check_size(len(work.emitted), exclusive=exclusive)


def put_back(work: Work, sources: Collection[str], alive: Collection[str], reason: str = "") -> None:
    """Put withdrawn sources back; ``alive`` are those of the sources that are live.

    An observation that was retracted for want of evidence becomes active again if one of its sources is live. A wording that was
    stale only because of the withdrawal is fresh again once no other withdrawn source is missing.
    """
    rows = observations.waiting_for(_flushed(work), sources, alive)
    check_size(len(rows), exclusive=False, allowed=_UNDO)
    for row in rows:
        if (state := _changeable(work, row)) is None:
            continue
        supports = observations.support_of(work.rows, row)
        own = [support for support in supports if support.source in sources and support.withdrawn in ("", "asked")]
        evidence = tuple(EvidenceSource(support.source, support.at) for support in own if support.withdrawn)
        emit(work, state, rules.Add(evidence, BY_HAND, restores=True), supports)
        lives = any(support.source in alive for support in own)
        if lives and (state.status, state.retracted) == ("retracted", "no_evidence"):
            emit(work, state, rules.RestoreObservation(reason))
            state = replace(state, status="active")
        waits_for_others = any(support.withdrawn == "asked" for support in supports if support.source not in sources)
        if (state.status, state.stale, waits_for_others) == ("active", "withdrawn", False):
            emit(work, state, rules.Refresh("restored", BY_HAND))
    check_size(len(work.emitted), exclusive=False, allowed=_UNDO)


def emit(work: Work, state: ObservationState, command: rules.Command, supports: Sequence[Support] = ()) -> None:
    work.project = state.project
    for event in rules.decide(command, state, supports):
        work.emit(state.id, event, first=state.row)


def to_withdraw(work: Work, id: str) -> list[str]:
    """Return the full id of a memory, an interaction, a chunk or a message; of a document the ids of all its chunks.

    A source that was undone is found too.

    Raises:
        NotFoundError: This user has no such source.
    """
    connection = _flushed(work)
    ids = observations.sources_named(connection, id, work.who.user)
    if not ids:
        raise no_source(id)
    return ids


def no_source(id: str) -> NotFoundError:
    nobody = "no memory, interaction, chunk, document or message of this user has the id"
    return NotFoundError(f"{nobody} {id!r:.40}, so there is nothing to withdraw")
