"""Consolidation: new sources become evidence of observations, by rules or by a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.reads import NOWHERE, find_row, id_of_filter
from ledger.core.work import Work
from ledger.domain import ids
from ledger.domain.errors import LedgerError, ModelError, NotFoundError, RejectedError
from ledger.domain.policy import TURNS
from ledger.domain.text import tag_list
from ledger.events import LEDGER_STREAM
from ledger.interactions.commands import has_to_wait
from ledger.memories.sources import source_list
from ledger.models.port import NO_FAILURES
from ledger.observations import by_model, rounds
from ledger.observations import policy as consolidation
from ledger.observations.answers import ConsolidationReport
from ledger.observations.grouping import GROUPING
from ledger.observations.rounds import ASKED, INTERACTIONS, MEMORIES, MESSAGES, ConsolidationRun, emit_failed_run
from projections.core.rows import Connection
from projections.views import consolidations, control, observations, projects
from projections.views.consolidations import Scope

Progress = Callable[[int, int], None]

ATTEMPTS = 3  # after so many failed runs the jobs wait for new sources, or for a call of ``consolidate``
AT_ONCE, BY_A_MODEL = (
    10_000,
    200,
)  # the most new sources of a scope that a job reads in one run, by rules and by a model


def consolidate(
    engine: Engine,
    asker: Who,
    over: str | Iterable[str] = MEMORIES,
    *,
    project: str | None = None,
    tags: Iterable[str] = (),
    method: str | None = None,
    limit: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ConsolidationReport:
    """Read the new sources and the stale observations of a scope, and record what the sources have in common as observations.

    ``over`` is "memories", "interactions" or "messages" (those that are new since the last completed run of this scope), or the
    ids of the sources to read. The scope is a user's sources in one ``project``, or without a project; of memories, those with
    all of the ``tags``. Observations of another scope are neither read nor changed. ``method`` is "grouping" (rules: sources that
    say nearly the same) or "model"; by default the model that the ledger was opened with, else the rules. At most ``limit``
    sources are read. By rules each 200 sources are one append, by a model each call is one; without new sources nothing is
    appended. ``dry_run`` appends nothing, not even the calls of a model. ``progress`` is called with (sources done, sources).

    Raises:
        ModelError: The model failed, which is recorded; the sources stay new.
    """
    run = _consolidation(engine, over, project, tags, method, limit, asker)
    run.dry_run, run.progress = dry_run, progress
    if run.consolidator == GROUPING:
        rounds.by_rules(engine, run)
    else:
        by_model.by_model(engine, run)
    return run.report()


class Pending(Struct, frozen=True):
    """A scope with new sources or a stale observation; ``over`` is "memories", "interactions" or "messages"."""

    scope: Scope
    over: str


def pending_scopes(engine: Engine, user: str | None = None) -> list[Pending]:
    """Return the scopes of every user, or of one ``user``, with a change since the last consolidation.

    A change is a changed memory, a stale observation, or (if the policy includes turns) a changed turn or a new message.
    """
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
    """Yield each scope and kind of source that a policy lets be consolidated, with the position of the newest change."""
    allowed: dict[str, bool] = {}
    for user, project, newest in consolidations.scopes(connection, only):
        if user not in allowed:
            allowed[user] = control.wants(connection, user, "consolidate")
        if allowed[user]:
            yield Scope(user, project), MEMORIES, newest
    for user in control.users_with(connection, "consolidate", TURNS):
        if only not in (None, user):
            continue
        for project, newest in consolidations.projects_of_turns(connection, user):
            yield Scope(user, project), INTERACTIONS, newest
        for project, newest in consolidations.projects_of_messages(connection, user):
            yield Scope(user, project), MESSAGES, newest


def _worth_trying(connection: Connection, scope: Scope, over: str, consolidator: str, newest: int) -> bool:
    """Return False after three failed runs, until there are new sources or a run that a person asked for is completed."""
    failed = consolidations.failures(connection, scope, over, consolidator)
    return len(failed) < ATTEMPTS or newest > failed[-1]


def consolidate_by_policy(
    engine: Engine, pending: Pending, stop: Callable[[], bool], correlation: str | None = None, *, least: int = 1
) -> dict[str, int]:
    """Consolidate a scope by its policy; ask a model only if at least ``least`` sources and stale observations wait."""
    asker = Who(user=pending.scope.user, actor=consolidation.ACTOR, correlation_id=correlation)
    consolidator = by_model.consolidator_of(engine, None)
    most = AT_ONCE if consolidator == GROUPING else BY_A_MODEL
    run = ConsolidationRun(
        pending.over, pending.scope, asker, consolidator=consolidator, limit=most, least=least, looks=True, stop=stop
    )
    try:
        consolidate_run = rounds.by_rules if consolidator == GROUPING else by_model.by_model
        consolidate_run(engine, run)
    except Exception as error:
        if isinstance(error, ModelError) and error.kind in NO_FAILURES:
            return {**run.counts, "sources": run.sources}
        # A model's failure is recorded already. An error that passes by itself, such as a busy file, is no failed run.
        if not isinstance(error, ModelError) and not has_to_wait(error):
            _record_failed_run(engine, run, type(error).__name__)
        return {**run.counts, "sources": run.sources, "failures": 1}
    return {**run.counts, "sources": run.sources}


def _record_failed_run(engine: Engine, run: ConsolidationRun, error: str) -> None:
    def body(work: Work) -> str:
        emit_failed_run(work, run, max(run.position, 1), error)
        return LEDGER_STREAM

    with suppress(LedgerError):  # a distrusted origin or a suspended projection refuses this command too
        engine.writer.run("consolidate", run.asker, body)


def _consolidation(
    engine: Engine,
    over: Any,
    project: str | None,
    tags: Iterable[str],
    method: str | None,
    limit: int | None,
    asker: Who,
) -> ConsolidationRun:
    if asker.key is not None:
        raise RejectedError(
            "a consolidation takes no idempotency_key: a second call continues from the end of the last run anyway"
        )
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise RejectedError(f"limit must be a whole number from 1, or None for all; not {limit!r:.40}")
    if method not in (None, "grouping", "model"):
        raise RejectedError(f'method must be "grouping" or "model", or None for either; not {method!r:.40}')
    labels = tuple(sorted(tag_list(tags))) if tags else ()
    source_ids = () if over in (MEMORIES, INTERACTIONS, MESSAGES) else _named_sources(over)
    if labels and over in (INTERACTIONS, MESSAGES):
        raise RejectedError(f"{over} have no tags; consolidate them without tags, or consolidate memories")
    with engine.reading() as connection:
        place = id_of_filter(connection, asker.user, "p", project)
        if place is NOWHERE:
            raise NotFoundError(f"no project of this user is called {project!r:.60}")
        if source_ids:
            source_ids, place = _full_ids(connection, source_ids, asker.user, project, place)
    over = ASKED if source_ids else over
    return ConsolidationRun(
        over,
        Scope(asker.user, place, labels),
        asker,
        project,
        source_ids,
        by_model.consolidator_of(engine, method),
        limit,
    )


def _named_sources(over: Any) -> tuple[str, ...]:
    if isinstance(over, str):
        if not ids.kind_of(over):
            raise RejectedError(f'over is "memories", "interactions", "messages" or ids of them; not {over!r:.60}')
        over = (over,)
    source_ids = source_list(over, messages=True)
    if not source_ids or any(id[:1] not in "mi" and ids.message_place(id) is None for id in source_ids):
        raise RejectedError("over takes the ids of memories, interactions and messages, at least one")
    return source_ids


def _full_ids(
    connection: Connection, source_ids: Sequence[str], user: str, project: str | None, place: str | None
) -> tuple[tuple[str, ...], str | None]:
    """Return the full ids of the sources, and the one project that they all belong to."""
    full: list[str] = []
    places: set[str | None] = set()
    for id_given in source_ids:
        if ids.message_place(id_given) is not None:
            messages = observations.sources_named(connection, id_given, user)
            if not messages:
                raise NotFoundError(f"no message of this user has the id {id_given!r:.60}")
            full += messages
            places.add(observations.project_of(connection, messages[0]))
            continue
        row = find_row(connection, id_given, id_given[0], user)
        if row is None:
            raise NotFoundError(f"no memory or interaction of this user has the id {id_given!r:.40}")
        table = "memories" if id_given[0] == "m" else "interactions"
        id, where = connection.execute(f"SELECT id, project FROM {table} WHERE row = ?", (row,)).fetchone()
        full.append(id)
        places.add(where)
    if len(places) > 1 or (project is not None and not places <= {*projects.together(connection, place)}):
        raise RejectedError(
            "the sources belong to several projects, and an observation belongs to one; consolidate each project by itself"
        )
    return tuple(full), places.pop()
