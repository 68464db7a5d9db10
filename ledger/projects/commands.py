"""The commands on projects: add, name, link, join, archive, restore, and set the trusted state (only a person may set it)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.work import Outcome, Work
from ledger.domain.errors import ConflictError, NotFoundError, RejectedError
from ledger.domain.text import check_reason, check_text
from ledger.events import ProjectLinked, ProjectRegistered
from ledger.projects import answers, rules
from ledger.projects.choosing import chosen, machine_of, of
from ledger.projects.folders import Place, place_of
from ledger.projects.queries import shown as project_shown
from ledger.projects.rules import VALUE_BYTES, ProjectState
from projections.views import projects


def add(engine: Engine, asker: Who, name: str, description: str = "") -> answers.ProjectInfo:
    """Add a project, or return the project that already has this name or alias.

    A known project takes the description if it has none.
    """
    check_text("a project's name", name)
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

    return _answer(engine, engine.writer.run("projects.add", asker, body, (name, description)))


def add_alias(engine: Engine, asker: Who, project: str, alias: str) -> answers.ProjectInfo:
    """Give a project another name, which from now on finds everything that is recorded for the project."""
    check_text("an alias", alias)

    def body(work: Work, state: ProjectState) -> None:
        known = engine.writer.named(work.who.user, "p", alias)
        if known is not None and known != state.id:
            raise ConflictError(
                f"the name {alias!r:.60} belongs to another project; projects.join joins that project into this one"
            )
        work.rows.flush()
        _emit(work, projects.whole(work.connection(), state), rules.AddProjectAlias(alias))

    return _change(engine, asker, "projects.add_alias", project, body, (project, alias))


def rename(engine: Engine, asker: Who, project: str, name: str) -> answers.ProjectInfo:
    """Give a project another name; the former name stays an alias."""
    check_text("a project's name", name)

    def body(work: Work, state: ProjectState) -> None:
        known = projects.find(work.connection(), work.who.user, "p", name)
        if known is not None and known[1] != state.row:
            raise ConflictError(
                f"the name {name!r:.60} belongs to another project, or to one that was joined into this one; choose a name "
                "that no project has"
            )
        work.check_not_elsewhere("p", name)
        _emit(work, state, rules.Rename(name))

    return _change(engine, asker, "projects.rename", project, body, (project, name))


def link(engine: Engine, asker: Who, project: str, place: Place) -> answers.ProjectInfo:
    """Make a root a root of a project, whichever project it belonged to."""

    def body(work: Work, state: ProjectState) -> None:
        work.rows.flush()
        machine = machine_of(work.connection(), place)
        if projects.rooted(work.connection(), work.who.user, machine, place.root) != state.id:
            _emit(work, state, rules.LinkRoot(machine, place.root))

    return _change(engine, asker, "projects.link", project, body, (project, place.root))


def enter(engine: Engine, asker: Who, folder: str, project: str | None) -> answers.FolderProject:
    """Return the project of a folder; at the first use of its root also add the project and link the root.

    A link that is on record needs no command. Where the memory is off, nothing is recorded.
    """
    with engine.snapshot() as snapshot:
        found = of(snapshot, asker.user, folder, project)
    place = place_of(folder)
    if place is None or project is not None or found.linked or found.off:
        return found

    def body(work: Work) -> str:
        work.rows.flush()
        choice = chosen(work.connection(), work.who.user, place)
        stream = choice.id or work.project_named(choice.name)
        assert stream is not None
        state = work.find(stream, "p") if choice.id else None
        work.project = stream
        if not choice.linked:
            work.emit(stream, ProjectLinked(place.root, choice.machine), first=state.row if state else 0)
        work.absorbed = not work.emitted
        return stream

    engine.writer.run("projects.enter", asker, body, (place.root,))
    with engine.snapshot() as snapshot:
        return of(snapshot, asker.user, folder, project)


def join(engine: Engine, asker: Who, target: str, name: str, reason: str = "") -> answers.ProjectInfo:
    """Join a project into another, so that the names of both find the records of both; no record is changed."""
    check_text("a project's name", name)
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
    """Leave a project out of lists, and of packs that name no project."""
    return _run(engine, asker, "projects.archive", project, rules.Archive(check_reason("reason", reason)))


def restore(engine: Engine, asker: Who, project: str, reason: str = "") -> answers.ProjectInfo:
    """Make an archived project active again."""
    return _run(engine, asker, "projects.restore", project, rules.RestoreProject(check_reason("reason", reason)))


def _run(engine: Engine, asker: Who, verb: str, project: str, command: rules.Command) -> answers.ProjectInfo:
    return _change(engine, asker, verb, project, lambda work, state: _emit(work, state, command), (project, command))


def set_state(
    engine: Engine, asker: Who, project: str, category: str, name: str, value: str, *, source: str = ""
) -> answers.ProjectInfo:
    """Set a value of trusted state, which only a person may set; earlier values stay readable.

    ``category`` is one of status, decision, requirement, contact, milestone, fact, config.
    """
    check_text("name", name)
    check_text("value", value, max_bytes=VALUE_BYTES)
    check_text("source", source, max_bytes=VALUE_BYTES, blank_allowed=True)
    rules.check_category(category)
    command = rules.SetState(category, name, value, source)
    return _by_person(engine, asker, "projects.set_state", project, command, register=True)


def remove_state(
    engine: Engine, asker: Who, project: str, category: str, name: str, reason: str = ""
) -> answers.ProjectInfo:
    """Take a value of trusted state out of use; the value stays readable in the history."""
    rules.check_category(category)
    check_text("reason", reason, max_bytes=VALUE_BYTES, blank_allowed=True)
    return _by_person(engine, asker, "projects.remove_state", project, rules.InvalidateState(category, name, reason))


def _by_person(
    engine: Engine, asker: Who, verb: str, project: str, command: rules.Command, *, register: bool = False
) -> answers.ProjectInfo:
    def body(work: Work, state: ProjectState) -> None:
        _check_person(work.who, state)
        work.rows.flush()
        if isinstance(command, rules.InvalidateState):
            # Each joined project may have a value under this key, which would otherwise count instead.
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
        state = _project_named(engine, work, project, register)
        work.project = state.id
        body(work, state)
        work.absorbed = not work.emitted
        return state.id

    return _answer(engine, engine.writer.run(verb, asker, on_project, arguments))


def _project_named(engine: Engine, work: Work, project: str, register: bool) -> ProjectState:
    """Return the project with this name; ``register`` adds an unknown project in the same append."""
    check_text("project", project, blank_allowed=True)
    id = engine.writer.named(work.who.user, "p", project) if project.strip() else None
    if id is not None:
        state: ProjectState = work.load(id, "p")
        return state
    stream = work.project_named(project) if register else None
    stream = work.project_known(project) if stream is None else stream  # which raises
    return ProjectState(0, stream, work.who.user, project, "", rules.ACTIVE, (), (), (), (), work.recorded_at, 0, 0)


def _answer(engine: Engine, outcome: Outcome) -> answers.ProjectInfo:
    with engine.reading(stale=True) as connection:  # the command is committed, even if the projection is suspended
        answer = project_shown(connection, outcome.state, replayed=outcome.replayed, absorbed=outcome.absorbed)
    return replace(answer, warnings=outcome.warnings) if outcome.warnings else answer


def _cleaned(work: Work, command: rules.Command) -> rules.Command:
    """Return the command with the secrets in its value and source redacted.

    The stored value is redacted already, and ``decide`` compares the two. The key stays as it is, because it names the value.
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
