"""The commands on projects: register, alias, join, and set the trusted state, which only a person may do."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from ledger.core.engine import Engine
from ledger.core.who import Who
from ledger.core.work import Outcome, Work
from ledger.domain.errors import ConflictError, NotFoundError, RejectedError
from ledger.domain.text import check_reason, check_text
from ledger.events import ProjectRegistered
from ledger.projects import answers, rules
from ledger.projects.queries import shown as project_shown
from ledger.projects.rules import VALUE_BYTES, ProjectState
from projections.views import projects


def add(engine: Engine, asker: Who, name: str, description: str = "") -> answers.ProjectInfo:
    """Register a project.

    A project that has this name or alias already is returned; it takes the description if it has none.
    """
    _name("a project's name", name)
    check_text("description", description, max_bytes=VALUE_BYTES, blank_allowed=True)

    def body(work: Work) -> str:
        known = engine.writer.named(work.who.user, "p", name)
        if known is not None:
            work.rows.flush()
            state: ProjectState = projects.whole(work.connection(), work.load(known, "p"))
            work.project = known
            _emit(work, state, rules.DescribeProject(work.cleaned(description)))
            work.absorbed = not work.emitted
            return known
        stream = work.new_id("p")
        work.emit(stream, ProjectRegistered(name, description))
        return stream

    return _answered(engine, engine.writer.run("projects.add", asker, body, (name, description)))


def add_alias(engine: Engine, asker: Who, project: str, alias: str) -> answers.ProjectInfo:
    """Give a project another name, under which everything recorded for the project is found from now on."""
    _name("an alias", alias)

    def body(work: Work, state: ProjectState) -> None:
        known = engine.writer.named(work.who.user, "p", alias)
        if known is not None and known != state.id:
            raise ConflictError(
                f"the name {alias!r:.60} belongs to another project; projects.join makes that project found under this one"
            )
        work.rows.flush()
        _emit(work, projects.whole(work.connection(), state), rules.AddProjectAlias(alias))

    return _change(engine, asker, "projects.add_alias", project, body, (project, alias))


def join(engine: Engine, asker: Who, target: str, name: str, reason: str = "") -> answers.ProjectInfo:
    """Make the records of one project found under another too; nothing that was written changes."""
    _name("a project's name", name)
    check_text("reason", reason, max_bytes=VALUE_BYTES, blank_allowed=True)

    def body(work: Work, state: ProjectState) -> None:
        joined = engine.writer.named(work.who.user, "p", name)
        if joined is None:
            raise NotFoundError(
                f"no project of this user is called {name!r:.60}; projects.add_alias gives a project a new name"
            )
        if joined not in work.together(state.id):
            _emit(work, state, rules.Join(joined, reason))

    return _change(engine, asker, "projects.join", target, body, (target, name, reason))


def archive(engine: Engine, asker: Who, project: str, reason: str = "") -> answers.ProjectInfo:
    """Leave a project out of lists and of packs for which no project is named."""
    return _simple(engine, asker, "projects.archive", project, rules.Archive(check_reason("reason", reason)))


def restore(engine: Engine, asker: Who, project: str, reason: str = "") -> answers.ProjectInfo:
    """Make an archived project active again."""
    return _simple(engine, asker, "projects.restore", project, rules.RestoreProject(check_reason("reason", reason)))


def _simple(engine: Engine, asker: Who, verb: str, project: str, command: rules.Command) -> answers.ProjectInfo:
    return _change(engine, asker, verb, project, lambda work, state: _emit(work, state, command), (project, command))


def set_state(
    engine: Engine, asker: Who, project: str, category: str, name: str, value: str, *, source: str = ""
) -> answers.ProjectInfo:
    """Set a value of trusted state: a person's statement, kept with its history, never set by a policy.

    ``category`` is one of status, decision, requirement, contact, milestone, fact, config.
    """
    _name("name", name)
    check_text("value", value, max_bytes=VALUE_BYTES)
    check_text("source", source, max_bytes=VALUE_BYTES, blank_allowed=True)
    rules.check_category(category)
    command = rules.SetState(category, name, value, source)
    return _by_person(engine, asker, "projects.set_state", project, command, register=True)


def remove_state(
    engine: Engine, asker: Who, project: str, category: str, name: str, reason: str = ""
) -> answers.ProjectInfo:
    """Take a value of trusted state out of use; the value stays in the history."""
    rules.check_category(category)
    check_text("reason", reason, max_bytes=VALUE_BYTES, blank_allowed=True)
    return _by_person(engine, asker, "projects.remove_state", project, rules.InvalidateState(category, name, reason))


def _by_person(
    engine: Engine, asker: Who, verb: str, project: str, command: rules.Command, *, register: bool = False
) -> answers.ProjectInfo:
    def body(work: Work, state: ProjectState) -> None:
        _check_person(work.who, state)
        work.rows.flush()
        if isinstance(
            command, rules.InvalidateState
        ):  # from every joined project, or another value would take its place
            for member in projects.members(work.connection(), state.id):
                if rules.project_entry(member, command.category, command.key) is not None:
                    _emit(work, member, command)
        else:
            _emit(work, projects.whole(work.connection(), state), _cleaned(work, command))

    return _change(engine, asker, verb, project, body, (project, command), register=register)


def _change(
    engine: Engine,
    asker: Who,
    verb: str,
    project: str,
    body: Callable[[Work, ProjectState], None],
    arguments: object,
    *,
    register: bool = False,
) -> answers.ProjectInfo:
    def on_project(work: Work) -> str:
        state = _known(engine, work, project, register)
        work.project = state.id
        body(work, state)
        work.absorbed = not work.emitted
        return state.id

    return _answered(engine, engine.writer.run(verb, asker, on_project, arguments))


def _known(engine: Engine, work: Work, project: str, register: bool) -> ProjectState:
    """Return the project with this name; ``register`` adds an unknown one in the same append."""
    check_text("project", project, blank_allowed=True)
    named = engine.writer.named(work.who.user, "p", project) if project.strip() else None
    if named is not None:
        state: ProjectState = work.load(named, "p")
        return state
    stream = work.project_named(project) if register else None
    if stream is None:
        raise NotFoundError(f"no project of this user is called {project!r:.60}")
    return ProjectState(0, stream, work.who.user, project, "", rules.ACTIVE, (), (), (), work.recorded_at, 0, 0)


def _answered(engine: Engine, outcome: Outcome) -> answers.ProjectInfo:
    with engine.reading(stale=True) as connection:  # the command is committed, even if the projection is suspended
        answer = project_shown(connection, outcome.state, replayed=outcome.replayed, absorbed=outcome.absorbed)
    return replace(answer, warnings=outcome.warnings) if outcome.warnings else answer


def _cleaned(work: Work, command: rules.Command) -> rules.Command:
    """Return the command without secrets in its value and source.

    The current value, with which the new one is compared, has no secrets either. The key stays, because it names the
    value.
    """
    if not isinstance(command, rules.SetState):
        return command
    return replace(command, value=work.cleaned(command.value), source=work.cleaned(command.source))


def _check_person(asker: Who, state: ProjectState) -> None:
    if asker.channel != "user" or asker.actor.startswith("policy:"):
        raise RejectedError(
            f"only a person sets trusted state, through the channel 'user' and not as a policy: here the channel is "
            f"{asker.channel!r} and the actor {asker.actor!r:.40}",
            rule="trust",
            subject=state.id if state.row else None,
        )


def _emit(work: Work, state: ProjectState, command: rules.Command) -> None:
    for event in rules.decide(command, state):
        work.emit(state.id, event, first=state.row)


def _name(what: str, name: str) -> None:
    check_text(what, name)
