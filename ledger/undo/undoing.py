"""Undo and redo: make the events of commands void, with everything that was built on them, and bring them back.

An undo, a redo, a distrust and a trust are acts. Each act is planned on a snapshot, outside the lock of the writer. The
writer carries out the plan if nobody wrote since; otherwise the act is planned again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, count, zip_longest
from typing import Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.reads import read_all, read_event
from ledger.core.steps import PlanOutdated, check_size, optimistic, range_lists
from ledger.core.work import Outcome, Work
from ledger.domain.errors import LedgerError
from ledger.domain.text import LIST_ITEMS, check_reason
from ledger.events import (
    LEDGER_STREAM,
    AnyEvent,
    CommandRedone,
    CommandUndone,
    OriginDistrusted,
    OriginTrusted,
)
from ledger.memories.answers import Belief
from ledger.memories.shown import belief
from ledger.undo import answers
from ledger.undo.fitting import (
    Cascaded,
    check_lines,
    check_restorable,
    check_values,
    commands_to_cascade,
    dependents_error,
    project_in_use_error,
)
from ledger.undo.in_effect import Reader, is_consequence, is_subject
from ledger.undo.targets import VOIDING_TYPES, CommandGroup, commands_named, target_of
from ledger.undo.undo_plan import UndoPlan
from projections.core.rows import Connection
from projections.views import audit, control

T = TypeVar("T")


class ActPlan(Struct, frozen=True):
    """The effect of an act, planned when the log ended at ``head``.

    Attributes:
        head: The last position of the log at the time of the plan.
        positions: The events that become void.
        commands: The commands that are undone, or that come back.
        streams: The subjects concerned.
        ended_acts: The undos and distrusts that end, each with its event type and the positions that it made void.
        cascaded: The later commands that fall because of the events that become void again.
        dependents: The commands that fall though they were not named.
        turned_down: The refusals of people that stay in effect although the refused memories no longer exist.
        beliefs: The memories concerned, as they are and would be; only in a dry run.
        actors: The actors whose events become void.
        verbs: By command, the name of the call and the position of its first event.
        reach: The reach of a distrust or a trust besides the events; of an earlier distrust its event.
    """

    head: int
    positions: tuple[int, ...] = ()
    commands: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    ended_acts: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    cascaded: Cascaded = Cascaded()
    dependents: tuple[answers.Dependent, ...] = ()
    turned_down: tuple[answers.Dependent, ...] = ()
    beliefs: tuple[Belief, ...] = ()
    actors: tuple[str, ...] = ()
    verbs: Mapping[str, str] = {}
    reach: Any = None

    @property
    def events(self) -> int:
        """Return the number of events that become void or come back."""
        ended = sum(len(positions) for _, _, positions in self.ended_acts)
        return len(self.positions) + ended + len(self.cascaded.positions)


class Refused(Struct, frozen=True):
    """The error for which an act cannot be planned, as of the time when the log ended at ``head``."""

    head: int
    error: LedgerError


def undo(
    engine: Engine,
    asker: Who,
    target: str | int | CommandGroup,
    reason: str = "",
    *,
    cascade: bool = False,
    exclusive: bool = False,
    dry_run: bool = False,
) -> answers.UndoReport:
    """Make the events of commands void: of one command, named by its id or by an event's id or position, or of a group.

    Undoing an undo is a redo, and undoing a distrust is a trust. The idempotency keys of undone commands can be used
    again. The undo is one append.

    Args:
        engine: The engine of the ledger.
        asker: The user, and the actor who undoes.
        target: The command or the group of commands.
        reason: The reason, which the log keeps.
        cascade: Also make the commands void that were built on the named commands.
        exclusive: Allow more than 50,000 events; nobody else can write until the undo is done.
        dry_run: Only list the effect.

    Raises:
        DependentsError: Later commands were built on the named commands, and ``cascade`` is False.
        ConflictError: Only the registration of a project was named, and others use the project.
        RejectedError: More than 50,000 events become void, and ``exclusive`` is False.
    """
    reason = check_reason("reason", reason)
    checked_target = target if isinstance(target, CommandGroup) else target_of(target)

    def make_plan(connection: Connection, head: int) -> ActPlan:
        entries = commands_named(connection, asker.user, checked_target)
        if acts := sorted({entry.command_id for entry in entries if entry.type in VOIDING_TYPES}):
            plan_of_redo = restoring_plan(connection, head, acts, cascade or dry_run)
            return _with_beliefs(connection, plan_of_redo) if dry_run else plan_of_redo
        positions = [entry.position for entry in entries]
        return _plan_of_undo(connection, head, positions, cascade=cascade, dry_run=dry_run)

    def emit(work: Work, plan: ActPlan) -> None:
        check_size(plan.events, exclusive=exclusive)
        if plan.ended_acts:
            emit_restoring(work, plan, reason)
        elif plan.positions:
            _emit_undone(work, plan.commands, plan.positions, reason)

    verb, named = "undo", cast("object", target)
    if isinstance(target, CommandGroup):
        verb, named = "history.undo_all", (target.session, target.command, sorted(target.columns.items()))
    return _report(run_act(engine, verb, asker, make_plan, emit, (named, reason, cascade), dry_run))


def _plan_of_undo(connection: Connection, head: int, undone: Sequence[int], *, cascade: bool, dry_run: bool) -> ActPlan:
    """Return the plan that makes events void, with the commands that were built on them; a dry run lists beliefs too.

    Raises:
        DependentsError: Later commands were built on the events, and neither ``cascade`` nor ``dry_run`` is True.
        ConflictError: Nothing but the registration of a project would become void, and others use the project.
    """
    plan = UndoPlan(Reader(connection), undone)
    if (dependents := plan.dependents()) and not (cascade or dry_run):
        raise dependents_error(dependents, "this one")
    if plan.projects_in_use and not plan.fallen:
        raise project_in_use_error(*plan.projects_in_use[0])
    positions, streams = tuple(sorted(plan.fallen)), tuple(sorted(plan.streams))
    check_values(plan.reader, streams, plan.fallen)
    check_lines(plan.reader, streams, plan.fallen)
    beliefs = _beliefs(plan.reader, streams, plan.fallen) if dry_run else ()
    return ActPlan(
        head,
        positions,
        tuple(plan.commands),
        streams,
        dependents=dependents,
        turned_down=plan.turned_down,
        beliefs=beliefs,
        actors=tuple(sorted({plan.reader.event(position).envelope.actor or "" for position in positions})),
        verbs=_verbs(map(plan.reader.event, positions)),
    )


def redo(
    engine: Engine, asker: Who, target: str | int, reason: str = "", *, exclusive: bool = False, dry_run: bool = False
) -> answers.UndoReport:
    """Bring back the commands that an undo made void; ``target`` names the undo or an undone command.

    ``exclusive`` and ``dry_run`` are as in ``undo``.

    Raises:
        ConflictError: An event no longer fits, or needs something that is not there.
    """
    reason = check_reason("reason", reason)

    def make_plan(connection: Connection, head: int) -> ActPlan:
        entries = commands_named(connection, asker.user, target_of(target), redo=True)
        acts = {entry.command_id for entry in entries if entry.type == CommandUndone.__name__}
        if not acts:
            reader = Reader(connection)
            asked_for = [entry for entry in entries if not is_consequence(reader.event(entry.position))]
            voiding = (control.acts(connection, entry.position) for entry in asked_for or entries)
            acts = {act for types in voiding for act, type_ in types.items() if type_ == CommandUndone.__name__}
        plan = restoring_plan(connection, head, sorted(acts))
        return _with_beliefs(connection, plan) if dry_run else plan

    def emit(work: Work, plan: ActPlan) -> None:
        check_size(plan.events, exclusive=exclusive)
        emit_restoring(work, plan, reason)

    return _report(run_act(engine, "redo", asker, make_plan, emit, (target, reason), dry_run=dry_run))


def _with_beliefs(connection: Connection, plan: ActPlan) -> ActPlan:
    """Return a plan that brings events back, with the memories as they are and would be."""
    ending = {act for act, _, _ in plan.ended_acts}
    voided = {position for _, _, positions in plan.ended_acts for position in positions}
    restored = {position for position in voided if control.acts(connection, position).keys() <= ending}
    fallen = void_again(connection, ending) | set(plan.cascaded.positions)
    return replace(plan, beliefs=_beliefs(Reader(connection), plan.streams, fallen, restored - fallen))


def _beliefs(
    reader: Reader, streams: Iterable[str], fallen: Collection[int], restored: Collection[int] = ()
) -> tuple[Belief, ...]:
    """Return the memories among some subjects, each as it is and as it would be."""
    return tuple(
        belief(reader.connection, memory, reader.state(memory), reader.state(memory, fallen, restored))
        for memory in streams
        if memory[0] == "m"
    )


def _report(done: ActOutcome) -> answers.UndoReport:
    plan, outcome = done.plan, done.outcome
    return answers.UndoReport(
        commands=(commands := tuple(sorted(plan.commands))),
        verbs=tuple(plan.verbs.get(command, "") for command in commands),
        events=len(plan.positions) or len({position for _, _, positions in plan.ended_acts for position in positions}),
        subjects=plan.streams,
        position=outcome.position,
        dependents=plan.dependents or plan.cascaded.dependents,
        cascaded=plan.cascaded.commands,
        turned_down=plan.turned_down,
        memories=plan.beliefs,
        actors=plan.actors,
        reversed_by=_reversed_by(plan),
        dry_run=done.dry_run,
        command_id=outcome.events[0].envelope.command_id if outcome.events else None,
        replayed=outcome.replayed,
    )


def _verbs(events: Iterable[AnyEvent]) -> dict[str, str]:
    """Return by command the name of the call and the position of its first event; the events are in log order."""
    verbs = dict[str, str]()
    for event in events:
        verbs.setdefault(event.envelope.command_id, f"{event.envelope.command} at {event.position}")
    return verbs


# --- planning outside the lock, acting inside ------------------------------------------------------------------


def run_act(
    engine: Engine,
    verb: str,
    asker: Who,
    make_plan: Callable[[Connection, int], ActPlan],
    emit: Callable[[Work, ActPlan], None],
    arguments: object,
    dry_run: bool,
) -> ActOutcome:
    """Plan an act on a snapshot, and carry the plan out if nobody wrote since; a dry run only plans."""
    if dry_run:
        plan = _plan_on_snapshot(engine, make_plan)
        if isinstance(plan, Refused):
            raise plan.error
        return ActOutcome(plan, Outcome(LEDGER_STREAM, None, (), plan.head), True)
    carried_out: list[ActPlan] = []

    def decide(planned: ActPlan | Refused | None, last: bool = False) -> Outcome:
        def body(work: Work) -> str:
            plan = _valid_plan(engine, work, planned, make_plan, last=last)
            emit(work, plan)
            carried_out.append(plan)
            return LEDGER_STREAM

        return engine.writer.run(verb, asker, body, arguments)

    # The first attempt has no plan, because a repeated idempotency key needs no plan.
    plans = chain([None], (_plan_on_snapshot(engine, make_plan) for _ in count()))
    outcome = optimistic(lambda: next(plans), decide, at_last=lambda: decide(None, last=True))
    engine.writer.forget_names()
    plan = carried_out[-1] if carried_out else _plan_of_earlier_act(engine, outcome.position)
    return ActOutcome(plan, outcome, False)


def _plan_on_snapshot(engine: Engine, make_plan: Callable[[Connection, int], ActPlan]) -> ActPlan | Refused:
    """Return a plan made on a snapshot, or the refusal, which the writer raises and records."""
    with engine.reading() as connection:
        (head,) = connection.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()
        try:
            return make_plan(connection, head)
        except LedgerError as error:
            return Refused(head, error)


def _valid_plan(
    engine: Engine,
    work: Work,
    planned: ActPlan | Refused | None,
    make_plan: Callable[[Connection, int], ActPlan],
    *,
    last: bool,
) -> ActPlan:
    """Return the plan if nobody wrote since; at the last attempt, return a plan that is made under the lock.

    Raises:
        PlanOutdated: Somebody wrote since the plan was made, so the act has to be planned again.
    """
    if planned is not None and planned.head == work.transaction.position:
        if isinstance(planned, Refused):
            raise planned.error
        return planned
    if last:
        engine.writer.write_waiting()
        return make_plan(work.connection(), work.transaction.position)
    raise PlanOutdated


def _plan_of_earlier_act(engine: Engine, position: int) -> ActPlan:
    """Return the plan of an act that was carried out before under the same idempotency key, read from its events."""
    with engine.reading() as connection:
        events = read_all(connection, audit.command_at(connection, position))
        spans = [span for event in events for span in getattr(event.data, "ranges", ())]
        positions = sorted(set(control.positions(spans)))
        events_read = (read_event(connection, position) for position in positions)
        concerned = [event for event in events_read if event is not None]
        data = next((event.data for event in events if isinstance(event.data, OriginDistrusted)), None)
        ended = [act for event in events if (act := _ended_by(event.data))]
    streams = tuple(sorted({event.stream for event in concerned} - {LEDGER_STREAM}))
    undone = any(isinstance(event.data, CommandUndone) for event in events)
    return ActPlan(
        position,
        tuple(positions),
        tuple({event.envelope.command_id for event in concerned if not is_consequence(event)}),
        streams,
        tuple(ended),
        actors=tuple(sorted({event.envelope.actor or "" for event in concerned})) if undone else (),
        verbs=_verbs(concerned),
        reach=data,
    )


# --- putting back --------------------------------------------------------------------------------------------


def restoring_plan(connection: Connection, head: int, acts: Iterable[str], cascade: bool = False) -> ActPlan:
    """Return the plan that ends undos and distrusts and brings back the events that no other act keeps void.

    Raises:
        ConflictError: An event that comes back does not fit, or needs something that is not there.
        DependentsError: Later commands were built on events that become void again, and ``cascade`` is False.
    """
    reader, distrusts = Reader(connection), {distrust.act for distrust in control.distrusted(connection)}
    voided_by = {act: control.voided_by(connection, act) for act in acts}
    voided_by = {act: positions for act, positions in voided_by.items() if positions or act in distrusts}
    ending = voided_by.keys()
    fallen = void_again(connection, ending)
    candidates = set(chain.from_iterable(voided_by.values()))
    restored = {position for position in candidates if control.acts(connection, position).keys() <= ending} - fallen
    cascaded = commands_to_cascade(connection, restored, fallen, cascade)
    fallen |= set(cascaded.positions)
    streams = {reader.event(position).stream for position in restored} - {LEDGER_STREAM}
    check_restorable(reader, tuple(filter(is_subject, sorted(streams))), restored, fallen)
    returning = [reader.event(position) for position in sorted(restored)]
    commands = {event.envelope.command_id for event in returning if not is_consequence(event)}
    types = {act: (OriginDistrusted if act in distrusts else CommandUndone).__name__ for act in ending}
    ended_acts = tuple((act, types[act], tuple(positions)) for act, positions in voided_by.items())
    streams |= {reader.event(position).stream for position in fallen} - {LEDGER_STREAM}
    return ActPlan(
        head,
        commands=tuple(sorted(commands)),
        streams=tuple(sorted(streams)),
        ended_acts=ended_acts,
        cascaded=cascaded,
        verbs=_verbs(returning),
    )


def emit_restoring(work: Work, plan: ActPlan, reason: str) -> None:
    for act, type_, positions in plan.ended_acts:
        for ended in redos_in_distrust(work.connection(), act):  # without the distrust these redos end: undo again
            work.emit(LEDGER_STREAM, CommandUndone((ended.undone,), ended.ranges, reason))
        event = OriginTrusted if type_ == OriginDistrusted.__name__ else CommandRedone
        for spans in range_lists(positions) or [()]:
            work.emit(LEDGER_STREAM, event(act, spans, reason))
    if plan.cascaded.positions:
        _emit_undone(work, plan.cascaded.commands, plan.cascaded.positions, reason)


def redos_in_distrust(connection: Connection, act: str) -> list[CommandRedone]:
    """Return the redos that a distrust recorded to reverse the undos of its origin; an act of another kind has none."""
    if all(distrust.act != act for distrust in control.distrusted(connection)):
        return []
    events = read_all(connection, audit.of_command(connection, act))
    return [event.data for event in events if isinstance(event.data, CommandRedone)]


def void_again(connection: Connection, acts: Iterable[str]) -> set[int]:
    """Return the positions that become void when these acts end, because a distrust had reversed their undo."""
    redos = (redo for act in acts for redo in redos_in_distrust(connection, act))
    return {position for redo in redos for position in control.positions(redo.ranges)}


def _ended_by(data: Any) -> tuple[str, str, tuple[int, ...]] | None:
    """Return the act that an event ends, in the form of a plan but without the positions."""
    if isinstance(data, OriginTrusted):
        return data.distrusted, OriginDistrusted.__name__, ()
    if isinstance(data, CommandRedone):
        return data.undone, CommandUndone.__name__, ()
    return None


def _reversed_by(plan: ActPlan) -> str:
    types = {type_ for _, type_, _ in plan.ended_acts}
    return "distrust" if OriginDistrusted.__name__ in types else "undo" if types else "redo"


class ActOutcome(Struct, frozen=True):
    """The plan of an act with the outcome of the command; with ``dry_run`` the act was only planned."""

    plan: ActPlan
    outcome: Outcome
    dry_run: bool


def _emit_undone(work: Work, commands: Iterable[str], positions: Iterable[int], reason: str) -> None:
    """Record one event, or several of the same append if the lists are long."""
    for names, spans in zip_longest(_parts(tuple(commands)), _parts(control.ranges(positions)), fillvalue=()):
        work.emit(LEDGER_STREAM, CommandUndone(tuple(names), tuple(spans), reason))


def _parts(items: tuple[T, ...]) -> list[tuple[T, ...]]:
    """Return the items in parts of at most 2,000, the most that an event lists."""
    return [items[start : start + LIST_ITEMS] for start in range(0, len(items), LIST_ITEMS)]
