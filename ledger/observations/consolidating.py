"""Consolidation: what several sources have in common becomes observations, by rules or by a model, as far as something is new."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from ledger.domain import ids
from ledger.domain.errors import LedgerError, ModelError, NotFoundError, RejectedError
from ledger.domain.events import LEDGER_STREAM
from ledger.domain.grouping import GROUPING
from ledger.domain.policy import TURNS
from ledger.domain.text import tag_list
from ledger.engine.engine import Engine
from ledger.engine.log_reading import find_row
from ledger.engine.snapshot import NOWHERE, named
from ledger.engine.who import Who
from ledger.engine.work import Work
from ledger.interactions.commands import has_to_wait
from ledger.memories.sources import source_list
from ledger.observations import by_model, rounds
from ledger.observations.answers import ConsolidationReport
from ledger.observations.rounds import ASKED, INTERACTIONS, MEMORIES, MESSAGES, Run, emit_failed_run
from ledger.policies import consolidation
from projections.core.rows import Connection
from projections.views import consolidations, control, observations, projects
from projections.views.consolidations import Scope

Progress = Callable[[int, int], None]

ATTEMPTS = 3  # so often a run fails by itself before it waits for new sources, or for somebody to ask
AT_ONCE, BY_A_MODEL = 10_000, 200  # new sources of one scope that run_policies() looks at, by rules and by a model


def consolidate(
    engine: Engine,
    asker: Who,
    over: str | Iterable[str] = MEMORIES,
    *,
    project: str | None = None,
    tags: Iterable[str] = (),
    using: str | None = None,
    limit: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ConsolidationReport:
    """Looks at what is new in one scope, and at observations gone stale: what sources have in common becomes observations.

    ``over`` is "memories", "interactions" or "messages" (of sessions; new since the last completed run of this scope), or
    the ids of those to look at. The scope is a user's memories in one ``project``, or in none, that have all of the
    ``tags``; observations of another scope are neither seen nor changed. ``using`` is "grouping" (rules: what says nearly
    the same; nothing is worded again) or "model"; by default the model that the ledger was opened with, if there is one. At
    most ``limit`` sources are looked at. Appends 200 sources at a time, and nothing where nothing is new. ``dry_run``
    appends nothing, not even that a model was asked. ``progress`` is called with (sources done, sources).

    ``ModelError`` where the model fails, which is recorded; the sources are new as before.
    """
    run = _consolidation(engine, over, project, tags, using, limit, asker)
    run.dry_run, run.progress = dry_run, progress
    if run.consolidator == GROUPING:
        rounds.by_rules(engine, run)
    else:
        by_model.by_model(engine, run)
    return run.report()


class Pending(Struct, frozen=True):
    """A scope in which sources of a kind ("memories", "interactions", "messages") are new, or an observation went stale."""

    scope: Scope
    over: str


def pending_scopes(engine: Engine, user: str | None = None) -> list[Pending]:
    """Every user's projects (those of one ``user``) in which a memory, or a turn where the policy says so, has changed since
    the last look, or a stale observation."""
    consolidator = by_model.consolidator_of(engine, None)
    with engine.reading() as connection:
        marked = consolidations.newly_marked(connection)
        return [
            Pending(scope, over)
            for scope, over, newest in _wanted_scopes(connection, user)
            if _worth_trying(connection, scope, over, consolidator, newest)
            and max(newest, marked.get((scope.user, scope.project), 0))
            > observations.looked_at(connection, scope.user, scope.project, over, consolidator)
        ]


def _wanted_scopes(connection: Connection, only: str | None) -> Iterator[tuple[Scope, str, int]]:
    """The scopes with sources that the policies want consolidated, each with the position of its newest change."""
    wanted: dict[str, bool] = {}
    for user, project, newest in consolidations.scopes(connection, only):
        if user not in wanted:
            wanted[user] = control.wants(connection, user, "consolidate")
        if wanted[user]:
            yield Scope(user, project), MEMORIES, newest
    for user in control.users_with(connection, "consolidate", TURNS):
        if only not in (None, user):
            continue
        for project, newest in consolidations.projects_of_turns(connection, user):
            yield Scope(user, project), INTERACTIONS, newest
        for project, newest in consolidations.projects_of_messages(connection, user):
            yield Scope(user, project), MESSAGES, newest


def _worth_trying(connection: Connection, scope: Scope, over: str, consolidator: str, newest: int) -> bool:
    """After three failures it waits for new sources, or for somebody to ask."""
    failed = consolidations.failures(connection, scope, over, consolidator)
    return len(failed) < ATTEMPTS or newest > failed[-1]


def consolidate_by_policy(
    engine: Engine, pending: Pending, stop: Callable[[], bool], correlation: str | None = None, *, least: int = 1
) -> dict[str, int]:
    """Consolidate a scope as its policy says; a model is asked only where at least ``least`` sources are new or changed."""
    asker = Who(user=pending.scope.user, actor=consolidation.ACTOR, correlation_id=correlation)
    using = by_model.consolidator_of(engine, None)
    most = AT_ONCE if using == GROUPING else BY_A_MODEL
    run = Run(pending.over, pending.scope, asker, consolidator=using, limit=most, least=least, looks=True, stop=stop)
    try:
        look = rounds.by_rules if using == GROUPING else by_model.by_model
        look(engine, run)
    except Exception as error:
        if isinstance(error, ModelError) and error.kind == "Cancelled":
            return {**run.counts, "sources": run.sources}
        if not isinstance(error, ModelError) and not has_to_wait(error):  # recorded, or may not be
            _record_failed_run(engine, run, type(error).__name__)
        return {**run.counts, "sources": run.sources, "failures": 1}
    return {**run.counts, "sources": run.sources}


def _record_failed_run(engine: Engine, run: Run, error: str) -> None:
    def body(work: Work) -> str:
        emit_failed_run(work, run, max(run.position, 1), error)
        return LEDGER_STREAM

    with suppress(LedgerError):  # what is distrusted or suspended leaves nothing
        engine.writer.run("consolidate", run.asker, body)


def _consolidation(
    engine: Engine,
    over: Any,
    project: str | None,
    tags: Iterable[str],
    using: str | None,
    limit: int | None,
    asker: Who,
) -> Run:
    if asker.key is not None:
        raise RejectedError(
            "a consolidation has no idempotency_key: called again it goes on from where the last one ended"
        )
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise RejectedError(f"limit must be a whole number from 1, or None for all; not {limit!r:.40}")
    if using not in (None, "grouping", "model"):
        raise RejectedError(f'method is "grouping" or "model", or None for either; not {using!r:.40}')
    labels = tuple(sorted(tag_list(tags))) if tags else ()
    asked = () if over in (MEMORIES, INTERACTIONS, MESSAGES) else _named_sources(over)
    if labels and over in (INTERACTIONS, MESSAGES):
        raise RejectedError(f"{over} have no tags; consolidate them without, or memories with them")
    with engine.reading() as connection:
        place = named(connection, asker.user, "p", project)
        if place is NOWHERE:
            raise NotFoundError(f"no project of this user is called {project!r:.60}")
        if asked:
            asked, place = _found(connection, asked, asker.user, project, place)
    over = ASKED if asked else over
    return Run(
        over, Scope(asker.user, place, labels), asker, project, asked, by_model.consolidator_of(engine, using), limit
    )


def _named_sources(given: Any) -> tuple[str, ...]:
    if isinstance(given, str):
        if not ids.kind_of(given):
            raise RejectedError(f'over is "memories", "interactions", "messages" or ids of them; not {given!r:.60}')
        given = (given,)
    found = source_list(given, messages=True)
    if not found or any(each[:1] not in "mi" and ids.message_place(each) is None for each in found):
        raise RejectedError("over takes the ids of memories, interactions and messages, one at least")
    return found


def _found(
    connection: Connection, asked: Sequence[str], user: str, project: str | None, place: str | None
) -> tuple[tuple[str, ...], str | None]:
    """The full ids of the sources, and the project that they are in: one for all of them."""
    full: list[str] = []
    places: set[str | None] = set()
    for given in asked:
        if ids.message_place(given) is not None:
            named = observations.sources_named(connection, given, user)
            if not named:
                raise NotFoundError(f"no message of this user has the id {given!r:.60}")
            full += named
            places.add(observations.project_of(connection, named[0]))
            continue
        row = find_row(connection, given, given[0], user)
        if row is None:
            raise NotFoundError(f"no memory or interaction of this user has the id {given!r:.40}")
        table = "memories" if given[0] == "m" else "interactions"
        id, where = connection.execute(f"SELECT id, project FROM {table} WHERE row = ?", (row,)).fetchone()
        full.append(id)
        places.add(where)
    if len(places) > 1 or (project is not None and not places <= {*projects.together(connection, place)}):
        raise RejectedError(
            "an observation is of one project: name sources of one, or consolidate each project by itself"
        )
    return tuple(full), places.pop()
