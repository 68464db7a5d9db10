"""The reads of merges and conflicts; what became of their members is looked at when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from ledger.domain import conflict as conflict_domain
from ledger.domain import merge as domain
from ledger.domain.confidence import shown
from ledger.domain.conflict import Conflict
from ledger.domain.errors import RejectedError
from ledger.domain.merge import Merge
from ledger.engine.answer import answer_of
from ledger.engine.engine import Engine
from ledger.engine.log_reading import first_position
from ledger.engine.snapshot import NOWHERE, PAGE_CAP, listed, load, scope_of
from ledger.memories.queries import memories_shown
from ledger.merges import answers as merge_answers
from ledger.policies import merging
from projections.core.rows import Connection
from projections.views import conflicts, merges, projects

S = TypeVar("S", Conflict, Merge)
_AT_A_TIME = 50  # rows; of those that are read, those whose status was asked for are shown


def list_merges(
    engine: Engine, user: str, status: str | Iterable[str] = domain.PROPOSED, *, project: str | None = None,
    limit: int | None = None, after: str | None = None,
) -> list[merge_answers.Merge]:  # fmt: skip
    """Merges, newest first: proposed ones unless another ``status`` is asked for (obsolete, merged, rejected, or "all")."""
    owner, wanted = user, _among(status, (*domain.STATUSES, domain.OBSOLETE), "merge")
    with engine.reading() as connection:
        about = scope_of(connection, owner, project)
        if about == [NOWHERE] or not (count := listed(limit, PAGE_CAP)):
            return []
        found = []
        stored = {domain.PROPOSED if each == domain.OBSOLETE else each for each in wanted}
        some = max(count, _AT_A_TIME)
        listing = lambda before: merges.listing(connection, owner, sorted(stored), before, some)  # noqa: E731
        for each in _behind(connection, listing, some, after):
            if about is None or each.project in about:
                answer = merge_answer(connection, each)
                found += [answer] if answer.status in wanted else []
                if len(found) >= count:
                    break
        return found


def get_merge(engine: Engine, user: str, id: str) -> merge_answers.Merge | None:
    """One merge as it stands, or None."""
    with engine.reading() as connection:
        state = load(connection, id, "g", user)
        return merge_answer(connection, state) if state is not None else None


def merge_answer(connection: Connection, state: Merge) -> merge_answers.Merge:
    members = [found for id in state.memories if (found := conflicts.member(connection, id)) is not None]
    why = merging.why_obsolete(connection, state) if state.status == domain.PROPOSED else ""
    content = state.content
    if state.status == domain.PROPOSED and not content and members:
        content = domain.best(members).content
    elif state.memory is not None:
        one = conflicts.member(connection, state.memory)
        content = one.content if one is not None else None
    return answer_of(
        merge_answers.Merge,
        state,
        status=domain.OBSOLETE if why else state.status,
        memories=tuple(memories_shown(connection, members)),
        content=content,
        similarity=shown(state.similarity),
        project=_name(connection, state.project),
        why=why,
    )


def list_conflicts(
    engine: Engine, user: str, status: str | Iterable[str] = conflict_domain.OPEN, *, project: str | None = None,
    limit: int | None = None, after: str | None = None,
) -> list[merge_answers.Conflict]:  # fmt: skip
    """Conflicts, newest first: open ones unless another ``status`` is asked for (resolved, lapsed, or "all")."""
    owner, wanted = user, _among(status, conflict_domain.STATUSES, "conflict")
    with engine.reading() as connection:
        about = scope_of(connection, owner, project)
        if about == [NOWHERE] or not (count := listed(limit, PAGE_CAP)):
            return []
        found = []
        some = max(count, _AT_A_TIME)
        listing = lambda before: conflicts.listing(connection, owner, before, some)  # noqa: E731
        for each in _behind(connection, listing, some, after):
            if about is None or each.project in about:
                answer = conflict_answer(connection, each)
                found += [answer] if answer.status in wanted else []
                if len(found) >= count:
                    break
        return found


def get_conflict(engine: Engine, user: str, id: str) -> merge_answers.Conflict | None:
    """One conflict as it stands, or None."""
    with engine.reading() as connection:
        state = load(connection, id, "k", user)
        return conflict_answer(connection, state) if state is not None else None


def conflict_answer(connection: Connection, state: Conflict) -> merge_answers.Conflict:
    status, members = conflicts.status_of(connection, state, conflicts.naming(connection, state.members))
    active = [each for each in members if each.status == "active" and not each.quarantined]
    newest = max(active, key=lambda each: (each.valid_from, each.row)).id if status == conflict_domain.OPEN else None
    return answer_of(
        merge_answers.Conflict,
        state,
        status=status,
        newest=newest,
        attribute=state.slot,
        memories=tuple(memories_shown(connection, members)),
        values=dict(zip(state.members, state.values, strict=False)),
        project=_name(connection, state.project),
    )


def _behind(
    connection: Connection, listing: Callable[[int | None], Sequence[S]], size: int, after: str | None
) -> Iterator[S]:
    """What comes after the subject of this id in a listing, newest first, read ``size`` rows at a time."""
    place = first_position(connection, after) if after is not None else None
    while some := listing(place):
        yield from some
        if len(some) < size:
            return
        place = some[-1].row


def _name(connection: Connection, project: str | None) -> str | None:
    return projects.names(connection, {project}).get(project, project) if project is not None else None


def _among(status: str | Iterable[str], known: tuple[str, ...], what: str) -> tuple[str, ...]:
    if not isinstance(status, Iterable):
        raise RejectedError(
            f"a status is a text or several, not a {type(status).__name__}; there are: {', '.join(known)}, and all"
        )
    wanted = (status,) if isinstance(status, str) else tuple(status)
    for each in wanted if wanted != ("all",) else ():
        if each not in known:
            raise RejectedError(f"no status of a {what} is called {each!r:.40}; there are: {', '.join(known)}, and all")
    return known if wanted == ("all",) else wanted
