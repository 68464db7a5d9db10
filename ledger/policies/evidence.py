"""The rules of evidence: what may bear an observation out, who says the same already, and how a source is withdrawn and put back.

Withdrawing a source, or putting it back, concerns every observation that it supports, in one append.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from ledger.domain import observation as domain
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.events import Evidence
from ledger.domain.observation import Observation, Support
from ledger.domain.text import normalise
from ledger.engine.work import Work
from ledger.policies.bulk import check_size
from projections.core.rows import Connection
from projections.views import observations

BY_HAND = "by_hand"  # the consolidator of what a person writes
KINDS = ("m", "i", "c")  # memories, interactions and chunks can bear something out, and messages
_UNDO = "undo the withdrawal of the source with exclusive=True"  # a restore is an everyday act, and takes no such word


# --- what may support it --------------------------------------------------------------------------------------------


def live(work: Work, sources: Iterable[str]) -> set[str]:
    """Which of these sources count, under the lock."""
    work.rows.flush()
    return observations.live(work.connection(), sources)


def dated(work: Work, sources: Sequence[str]) -> tuple[Evidence, ...]:
    """Live sources, by their full ids, as evidence: each with when what it says was so. ``RejectedError`` for one that is not."""
    alive = live(work, sources)
    if dead := [each for each in sources if each not in alive]:
        raise RejectedError(
            f"{dead[0]} is not in use (hidden, quarantined, undone or erased), so it supports nothing; restore it first",
            rule="evidence",
            subject=dead[0],
        )
    times = observations.times_of(work.connection(), sources)
    return tuple(Evidence(each, times[each]) for each in sources)


# --- who says it -----------------------------------------------------------------------------------------------------


def duplicate(
    work: Work, project: str | None, tags: Sequence[str], text: str, *, besides: int = 0
) -> Observation | None:
    """The oldest active observation of this user with these words in this scope."""
    statements = ((work.secret, work.who.user, place, tags, text) for place in work.together(project))
    numbers = [number for each in statements if (number := observations.statement(*each)) is not None]
    for row in sorted(row for number in numbers for row in observations.with_statement(work.rows, number)):
        known: Observation | None = work.at_row(row, "o") if row != besides else None
        if known is not None and normalise(known.text or "") == normalise(text):
            return known
    return None


def refuse_duplicate(work: Work, observation: Observation, text: str, verb: str) -> None:
    """``RejectedError`` when the change would make a second observation of one scope say the same."""
    other = duplicate(work, observation.project, observation.tags, text, besides=observation.row)
    if other is not None:
        raise RejectedError(
            f"cannot {verb} {observation.id}: {other.id} is active and says the same; keep one of them",
            rule="duplicate",
            subject=observation.id,
        )


# --- withdrawing and putting back ------------------------------------------------------------------------------------


def _committed(work: Work) -> Connection:
    work.rows.flush()
    return work.connection()


def _changeable(work: Work, row: int) -> Observation | None:
    """The observation, unless it was erased."""
    state: Observation | None = work.at_row(row, "o")
    return None if state is None or state.status == domain.ERASED else state


def withdraw(work: Work, sources: Collection[str], reason: str, *, exclusive: bool = False) -> None:
    """These sources bear nothing out any more: what has no other live one is retracted, the rest is stale."""
    rows = observations.supported_by(_committed(work), sources)
    check_size(len(rows), exclusive=exclusive)
    touched: list[tuple[Observation, list[Support], list[str]]] = []
    for row in rows:
        if (state := _changeable(work, row)) is not None:
            supports = observations.support_of(work.rows, row)
            left = [each.source for each in supports if not each.withdrawn and each.source not in sources]
            touched.append((state, supports, left))
    alive = live(work, {source for _, _, left in touched for source in left})
    for state, supports, left in touched:
        emit(work, state, domain.Withdraw(tuple(sources), "asked", reason), supports)
        if state.status == "active" and alive.isdisjoint(left):
            emit(work, state, domain.Retire("no_evidence"))
        elif state.status == "active":
            emit(work, state, domain.MarkStale("withdrawn"))
    check_size(len(work.emitted), exclusive=exclusive)


def put_back(work: Work, sources: Collection[str], alive: Collection[str], reason: str = "") -> None:
    """What was withdrawn of these sources counts again, and what was retracted for want of the ``alive`` ones is restored."""
    rows = observations.waiting_for(_committed(work), sources, alive)
    check_size(len(rows), exclusive=False, allowed=_UNDO)
    for row in rows:
        if (state := _changeable(work, row)) is None:
            continue
        supports = observations.support_of(work.rows, row)
        own = [each for each in supports if each.source in sources and each.withdrawn in ("", "asked")]
        evidence = tuple(Evidence(each.source, each.at) for each in own if each.withdrawn)
        emit(work, state, domain.Add(evidence, BY_HAND, restores=True), supports)
        lives = any(each.source in alive for each in own)
        if lives and (state.status, state.retracted) == ("retracted", "no_evidence"):
            emit(work, state, domain.Restore(reason))
            state = replace(state, status="active")
        others = any(each.withdrawn == "asked" for each in supports if each.source not in sources)
        if (state.status, state.stale, others) == ("active", "withdrawn", False):
            emit(work, state, domain.Refresh("restored", BY_HAND))
    check_size(len(work.emitted), exclusive=False, allowed=_UNDO)


def emit(work: Work, state: Observation, command: domain.Command, supports: Sequence[Support] = ()) -> None:
    work.project = state.project
    for event in domain.decide(command, state, supports):
        work.emit(state.id, event, first=state.row)


def to_withdraw(work: Work, given: str) -> list[str]:
    """The full ids of what a caller names: a memory, an interaction, a chunk, a message, or all the chunks of a document; also
    one that was undone. ``NotFoundError`` when it is none of this user's."""
    connection = _committed(work)
    found = observations.sources_named(connection, given, work.who.user)
    if not found:
        raise no_source(given)
    return found


def no_source(given: str) -> NotFoundError:
    what = "no memory, interaction, chunk, document or message of this user has the id"
    return NotFoundError(f"{what} {given!r:.40}, so there is nothing to withdraw")
