"""The commands on projects: register, alias, and trusted state, which only a person sets."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from ledger import answers
from ledger.domain import project as domain
from ledger.domain.errors import ConflictError, NotFoundError, RejectedError
from ledger.domain.events import ProjectRegistered
from ledger.domain.project import VALUE_BYTES, Project
from ledger.domain.text import check_text
from ledger.engine.pipeline import Writer
from ledger.engine.who import Who
from ledger.engine.work import Outcome, Work
from ledger.projects.queries import shown as project_shown


def add(writer: Writer, asker: Who, name: str, description: str = "") -> answers.Project:
    """Makes a project known; one that is known by this name or alias comes back as it is."""
    _name("a project's name", name)
    check_text("description", description, max_bytes=VALUE_BYTES, blank_allowed=True)

    def body(work: Work) -> str:
        known = writer.named(work.who.user, "p", name)
        if known is not None:
            work.absorbed = True
            return known
        stream = work.new_id("p")
        work.emit(stream, ProjectRegistered(name, description))
        return stream

    return _answered(writer.run("projects.add", asker, body, (name, description)))


def add_alias(writer: Writer, asker: Who, project: str, alias: str) -> answers.Project:
    """Another name for a project; what was recorded under the project is found by it from now on."""
    _name("an alias", alias)

    def body(work: Work, state: Project) -> None:
        known = writer.named(work.who.user, "p", alias)
        if known is not None and known != state.id:
            raise ConflictError(f"the name {alias!r:.60} stands for another project already")
        _emit(work, state, domain.AddAlias(alias))

    return _change(writer, asker, "projects.add_alias", project, body, (project, alias))


def set_state(
    writer: Writer, asker: Who, project: str, category: str, name: str, value: str, *, source: str = ""
) -> answers.Project:
    """Trusted state: a person's statement, kept with its history, never set by a policy.

    ``category`` is one of status, decision, requirement, contact, milestone, fact, config.
    """
    _name("name", name)
    check_text("value", value, max_bytes=VALUE_BYTES)
    check_text("source", source, max_bytes=VALUE_BYTES, blank_allowed=True)
    domain.check_category(category)
    command = domain.SetState(category, name, value, source)
    return _by_person(writer, asker, "projects.set_state", project, command, register=True)


def remove_state(
    writer: Writer, asker: Who, project: str, category: str, name: str, reason: str = ""
) -> answers.Project:
    """Takes a value of trusted state out of use; it stays in the history."""
    domain.check_category(category)
    check_text("reason", reason, max_bytes=VALUE_BYTES, blank_allowed=True)
    return _by_person(writer, asker, "projects.remove_state", project, domain.InvalidateState(category, name, reason))


def _by_person(
    writer: Writer, asker: Who, verb: str, project: str, command: domain.Command, *, register: bool = False
) -> answers.Project:
    def body(work: Work, state: Project) -> None:
        _check_person(work.who, state)
        _emit(work, state, _cleaned(work, command))

    return _change(writer, asker, verb, project, body, (project, command), register=register)


def _change(
    writer: Writer,
    asker: Who,
    verb: str,
    project: str,
    body: Callable[[Work, Project], None],
    arguments: object,
    *,
    register: bool = False,
) -> answers.Project:
    def on_project(work: Work) -> str:
        state = _known(writer, work, project, register)
        work.project = state.id
        body(work, state)
        return state.id

    return _answered(writer.run(verb, asker, on_project, arguments))


def _known(writer: Writer, work: Work, project: str, register: bool) -> Project:
    """The project of that name; with ``register`` an unknown one begins in this append."""
    check_text("project", project, blank_allowed=True)
    named = writer.named(work.who.user, "p", project) if project.strip() else None
    if named is not None:
        state: Project = work.load(named, "p")
        return state
    stream = work.project_named(project) if register else None
    if stream is None:
        raise NotFoundError(f"no project of this user is called {project!r:.60}")
    return Project(0, stream, work.who.user, project, "", (), (), work.recorded_at, 0, 0)


def _answered(outcome: Outcome) -> answers.Project:
    return project_shown(outcome.state, replayed=outcome.replayed, absorbed=outcome.absorbed)


def _cleaned(work: Work, command: domain.Command) -> domain.Command:
    """A value is compared with the one that is there, which has no secret in it; a key names it."""
    if not isinstance(command, domain.SetState):
        return command
    return replace(command, value=work.cleaned(command.value), source=work.cleaned(command.source))


def _check_person(asker: Who, state: Project) -> None:
    if asker.channel != "user" or asker.actor.startswith("policy:"):
        raise RejectedError(
            f"trusted state is set by a person: the channel is {asker.channel!r} and the actor {asker.actor!r:.40}; "
            "it would have to be the channel 'user'",
            rule="trust",
            subject=state.id if state.row else None,
        )


def _emit(work: Work, state: Project, command: domain.Command) -> None:
    for event in domain.decide(command, state):
        work.emit(state.id, event, first=state.row)


def _name(what: str, name: str) -> None:
    check_text(what, name)
