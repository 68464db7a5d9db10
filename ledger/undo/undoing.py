"""Undo and redo: the events of commands become void, with everything that was built on them, and come back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain, count, zip_longest
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ledger.core import bulk
from ledger.core.engine import Engine
from ledger.core.log_reading import read_all, read_event
from ledger.core.optimistic import Moved, optimistic
from ledger.core.snapshot import NOWHERE, named
from ledger.core.who import Who
from ledger.core.work import Outcome, Work
from ledger.domain import ids
from ledger.domain.errors import LedgerError, NotFoundError, RejectedError
from ledger.domain.text import LIST_ITEMS, check_reason, check_text
from ledger.events import (
    LEDGER_STREAM,
    VOIDING,
    AnyEvent,
    CommandRedone,
    CommandUndone,
    OriginDistrusted,
    OriginTrusted,
    type_names,
)
from ledger.memories.answers import Belief
from ledger.memories.queries import belief
from ledger.undo import answers
from ledger.undo.fitting import Cascaded, built_later, built_on, check, check_values, in_use
from ledger.undo.in_effect import LASTING, Reader, follows, is_subject
from ledger.undo.undo_plan import UndoPlan
from projections.core.rows import Connection
from projections.views import audit, control

T = TypeVar("T")
_VOIDING = type_names(VOIDING)


class ActPlan(Struct, frozen=True):
    """The effect of an act: positions by their purpose, as seen when the log ended at ``head``."""

    head: int
    positions: tuple[int, ...] = ()
    commands: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    acts: tuple[tuple[str, str, tuple[int, ...]], ...] = ()  # (act that ends, its type, positions that come back)
    cascaded: Cascaded = Cascaded()
    dependents: tuple[answers.Dependent, ...] = ()
    turned_down: tuple[answers.Dependent, ...] = ()
    beliefs: tuple[Belief, ...] = ()
    actors: tuple[str, ...] = ()
    verbs: Mapping[str, str] = {}  # by command: the name of the call, and the position of its first event
    details: Any = None

    @property
    def events(self) -> int:
        """Return the number of events that become void or come back."""
        return len(self.positions) + sum(len(positions) for _, _, positions in self.acts) + len(self.cascaded.positions)


class Refused(Struct, frozen=True):
    """The error for which there is no plan, as seen when the log ended at ``head``."""

    head: int
    error: LedgerError


class CommandGroup(Struct, frozen=True, kw_only=True):
    """A group of commands: all that pass every filter.

    Attributes:
        session: The session of the commands, by name.
        command: The verb, such as "extract".
        columns: Columns of the trail with their values, such as a correlation id (an import, a run).
    """

    session: str | None = None
    command: str | None = None
    columns: Mapping[str, str] = MappingProxyType({})


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
    """Make commands void: one command, named by its id or by an event's id or position, or a group.

    If later commands were built on them, the call is a ``DependentsError`` that lists these, unless ``cascade`` takes them
    along. ``dry_run`` only lists. Undoing an undo is a redo, and undoing a distrust trusts. The idempotency keys of undone
    commands can be used again. All of it is one append; more than 50,000 events are ``RejectedError`` unless it is
    ``exclusive``: then nobody else can write until it is done.
    """
    reason = check_reason("reason", reason)
    checked_target = target if isinstance(target, CommandGroup) else target_of(target)

    def make(connection: Connection, head: int) -> ActPlan:
        entries = commands_named(connection, asker.user, checked_target)
        if acts := sorted({entry.command_id for entry in entries if entry.type in _VOIDING}):
            return _shown(connection, back(connection, head, acts, cascade or dry_run), dry_run)
        plan = UndoPlan(Reader(connection), [entry.position for entry in entries])
        if (dependents := plan.dependents()) and not (cascade or dry_run):
            raise built_later(dependents, "this one")
        if plan.used and not plan.out:
            raise in_use(*plan.used[0])
        positions, streams = tuple(sorted(plan.out)), tuple(sorted(plan.streams))
        check_values(plan.reader, streams, plan.out)
        beliefs = _beliefs(plan.reader, streams, plan.out) if dry_run else ()
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

    def emit(work: Work, plan: ActPlan) -> None:
        bulk.check_size(plan.events, exclusive=exclusive)
        if plan.acts:
            emit_back(work, plan, reason)
        elif plan.positions:
            _emit_undone(work, plan.commands, plan.positions, reason)

    # An idempotency key stands for these arguments, in the form of older versions.
    if isinstance(target, CommandGroup):
        verb = "history.undo_all"
        arguments: tuple[object, ...] = (
            None,
            reason,
            cascade,
            target.session,
            target.command,
            *sorted(target.columns.items()),
        )
    else:
        verb, arguments = "undo", (target, reason, cascade, None, None)
    return _report(act(engine, verb, asker, make, emit, arguments, dry_run))


def redo(
    engine: Engine, asker: Who, target: str | int, reason: str = "", *, exclusive: bool = False, dry_run: bool = False
) -> answers.UndoReport:
    """Put back what an undo took out, named by the undo or by a command that it undid; ``exclusive`` as in ``undo``."""
    reason = check_reason("reason", reason)

    def make(connection: Connection, head: int) -> ActPlan:
        entries = commands_named(connection, asker.user, target_of(target))
        acts = {entry.command_id for entry in entries if entry.type == CommandUndone.__name__}
        if not acts:
            reader = Reader(connection)
            acted = [entry for entry in entries if not follows(reader.event(entry.position))]
            out = (control.acts(connection, entry.position) for entry in acted or entries)
            acts = {act for keeping in out for act, type_ in keeping.items() if type_ == CommandUndone.__name__}
        return _shown(connection, back(connection, head, sorted(acts)), dry_run)

    def emit(work: Work, plan: ActPlan) -> None:
        bulk.check_size(plan.events, exclusive=exclusive)
        emit_back(work, plan, reason)

    return _report(act(engine, "redo", asker, make, emit, (target, reason), dry_run=dry_run))


def _shown(connection: Connection, plan: ActPlan, dry_run: bool) -> ActPlan:
    """Return a plan that puts back; in a dry run with the beliefs that would result."""
    if not dry_run:
        return plan
    ending = {act for act, _, _ in plan.acts}
    held = {position for _, _, positions in plan.acts for position in positions}
    again = {position for position in held if control.acts(connection, position).keys() <= ending}
    out = voided_again(connection, ending) | set(plan.cascaded.positions)
    return replace(plan, beliefs=_beliefs(Reader(connection), plan.streams, out, again - out))


def _beliefs(
    reader: Reader, streams: Iterable[str], out: Collection[int], again: Collection[int] = ()
) -> tuple[Belief, ...]:
    """Return the memories among some subjects, each as it is and as it would be."""
    return tuple(
        belief(reader.connection, memory, reader.state(memory), reader.state(memory, out, again))
        for memory in streams
        if memory[0] == "m"
    )


def _report(done: Done) -> answers.UndoReport:
    plan, outcome = done.plan, done.outcome
    return answers.UndoReport(
        commands=(commands := tuple(sorted(plan.commands))),
        verbs=tuple(plan.verbs.get(command, "") for command in commands),
        events=len(plan.positions) or len({position for _, _, positions in plan.acts for position in positions}),
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


def act(
    engine: Engine,
    verb: str,
    asker: Who,
    make: Callable[[Connection, int], ActPlan],
    emit: Callable[[Work, ActPlan], None],
    arguments: object,
    dry_run: bool,
) -> Done:
    """Run an act: plan it on a snapshot and carry it out if nobody wrote since; a dry run only plans."""
    if dry_run:
        plan = _planned(engine, make)
        if isinstance(plan, Refused):
            raise plan.error
        return Done(plan, Outcome(LEDGER_STREAM, None, (), plan.head), True)
    used: list[ActPlan] = []

    def decide(planned: ActPlan | Refused | None, last: bool = False) -> Outcome:
        def body(work: Work) -> str:
            plan = _still(engine, work, planned, make, last=last)
            emit(work, plan)
            used.append(plan)
            return LEDGER_STREAM

        return engine.writer.run(verb, asker, body, arguments)

    plans = chain([None], (_planned(engine, make) for _ in count()))  # no plan is needed for a repeated idempotency key
    outcome = optimistic(lambda: next(plans), decide, at_last=lambda: decide(None, last=True))
    engine.writer.forget_names()
    plan = used[-1] if used else _done_before(engine, outcome.position)
    return Done(plan, outcome, False)


def _planned(engine: Engine, make: Callable[[Connection, int], ActPlan]) -> ActPlan | Refused:
    """Return a plan made on a snapshot, or the refusal; the writer raises the refusal, because it records refusals."""
    with engine.reading() as connection:
        (head,) = connection.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()
        try:
            return make(connection, head)
        except LedgerError as error:
            return Refused(head, error)


def _still(
    engine: Engine,
    work: Work,
    planned: ActPlan | Refused | None,
    make: Callable[[Connection, int], ActPlan],
    *,
    last: bool,
) -> ActPlan:
    if planned is not None and planned.head == work.transaction.position:
        if isinstance(planned, Refused):
            raise planned.error
        return planned
    if last:
        engine.writer.write_waiting()
        return make(work.connection(), work.transaction.position)
    raise Moved


def _done_before(engine: Engine, position: int) -> ActPlan:
    """Return the plan of an act that was done before, read from its events."""
    with engine.reading() as connection:
        events = read_all(connection, audit.command_at(connection, position))
        spans = [span for event in events for span in getattr(event.data, "ranges", ())]
        positions = sorted(set(control.positions(spans)))
        events_read = (read_event(connection, position) for position in positions)
        back = [event for event in events_read if event is not None]
        data = next((event.data for event in events if isinstance(event.data, OriginDistrusted)), None)
        ended = [act for event in events if (act := _ended_by(event.data))]
    streams = tuple(sorted({event.stream for event in back} - {LEDGER_STREAM}))
    undone = any(isinstance(event.data, CommandUndone) for event in events)
    return ActPlan(
        position,
        tuple(positions),
        tuple({event.envelope.command_id for event in back if not follows(event)}),
        streams,
        tuple(ended),
        actors=tuple(sorted({event.envelope.actor or "" for event in back})) if undone else (),
        verbs=_verbs(back),
        details=data,
    )


# --- which commands ------------------------------------------------------------------------------------------


def commands_named(
    connection: Connection,
    user: str,
    target: str | int | CommandGroup,
) -> list[audit.AuditRow]:
    """Return the entries of the commands named by a target or a group.

    Raises:
        NotFoundError: There is no such command of this user.
        RejectedError: Such a command cannot be undone.
    """
    entries = _grouped(connection, user, target) if isinstance(target, CommandGroup) else _named(connection, target)
    if not entries or any(entry.user != user for entry in entries):
        if isinstance(target, CommandGroup):
            raise NotFoundError("no command of this user is in that group")
        hint = "give a command's or event's id, a position, or a correlation id"
        if isinstance(target, str) and ids.is_prefix(target, target[:1]):
            last = audit.trail(connection, user=user, subject=target, limit=1)
            hint = "no subject with this id is known"
            if last:
                hint = f"it is a subject, and its last command ({last[0].command}) is at position {last[0].position}"
        raise NotFoundError(
            f"no command of this user is named by {target!r:.60}: {hint}; history.undo_all() takes a session, a verb or an actor"
        )
    distrusts = {entry.command_id for entry in entries if entry.type == OriginDistrusted.__name__}
    taken = [entry for entry in entries if entry.type != CommandRedone.__name__ or entry.command_id not in distrusts]
    if lasting := [entry for entry in taken if entry.type in LASTING]:
        text = f"{lasting[0].type} cannot be undone: {_instead(connection, lasting[0])}"
        raise RejectedError(text, rule="transition")
    return entries


def _grouped(connection: Connection, user: str, group: CommandGroup) -> list[audit.AuditRow]:
    session = named(connection, user, "s", group.session) if group.session is not None else None
    if session == NOWHERE or (group.session is not None and session is None):
        return []
    bounds: dict[str, str] = dict(group.columns)
    entries = audit.trail(connection, user=user, session=session, command=group.command, limit=2**31, **bounds)
    hidden = (*LASTING, *_VOIDING)
    return [entry for entry in reversed(entries) if entry.user == user and entry.type not in hidden]


# --- putting back --------------------------------------------------------------------------------------------


def back(connection: Connection, head: int, acts: Iterable[str], cascade: bool = False) -> ActPlan:
    """Return the plan that ends these acts and puts back the events that they keep void.

    Raises:
        ConflictError: Something no longer fits without these acts, or was built on what becomes void again.
    """
    reader, distrusts = Reader(connection), {distrust.act for distrust in control.distrusted(connection)}
    held = [(act, control.voided_by(connection, act)) for act in acts]
    held = [(act, kept) for act, kept in held if kept or act in distrusts]
    ending = {act for act, _ in held}
    but = voided_again(connection, ending)
    candidates = {position for _, kept in held for position in kept}
    positions = {position for position in candidates if set(control.acts(connection, position)) <= ending}
    positions -= but
    cascaded = built_on(connection, positions, but, cascade)
    but |= set(cascaded.positions)
    streams = {reader.event(position).stream for position in positions} - {LEDGER_STREAM}
    check(reader, tuple(filter(is_subject, sorted(streams))), positions, but)
    back = [reader.event(position) for position in sorted(positions)]
    commands = {event.envelope.command_id for event in back if not follows(event)}
    types = {act: (OriginDistrusted if act in distrusts else CommandUndone).__name__ for act in ending}
    kept_by = tuple((act, types[act], tuple(kept)) for act, kept in held)
    streams |= {reader.event(position).stream for position in but} - {LEDGER_STREAM}
    return ActPlan(head, (), tuple(sorted(commands)), tuple(sorted(streams)), kept_by, cascaded, verbs=_verbs(back))


def emit_back(work: Work, plan: ActPlan, reason: str) -> None:
    for act, type_, positions in plan.acts:
        for redone in redone_by(work.connection(), act):  # undos that a distrust had taken back take effect again
            work.emit(LEDGER_STREAM, CommandUndone((redone.undone,), redone.ranges, reason))
        event = OriginTrusted if type_ == OriginDistrusted.__name__ else CommandRedone
        for spans in bulk.parts(positions) or [()]:
            work.emit(LEDGER_STREAM, event(act, spans, reason))
    if plan.cascaded.positions:
        _emit_undone(work, plan.cascaded.commands, plan.cascaded.positions, reason)


def redone_by(connection: Connection, act: str) -> list[CommandRedone]:
    """Return the undos of a source that its distrust took back."""
    if all(distrust.act != act for distrust in control.distrusted(connection)):
        return []
    events = read_all(connection, audit.of_command(connection, act))
    return [event.data for event in events if isinstance(event.data, CommandRedone)]


def voided_again(connection: Connection, acts: Iterable[str]) -> set[int]:
    """Return the positions that become void when these acts end, because a distrust had put them back."""
    redone = (event for act in acts for event in redone_by(connection, act))
    return {position for event in redone for position in control.positions(event.ranges)}


def _ended_by(data: Any) -> tuple[str, str, tuple[int, ...]] | None:
    """Return the act that an event ends, in the form of a plan but without the positions."""
    if isinstance(data, OriginTrusted):
        return data.distrusted, OriginDistrusted.__name__, ()
    if isinstance(data, CommandRedone):
        return data.undone, CommandUndone.__name__, ()
    return None


def _reversed_by(plan: ActPlan) -> str:
    types = {type_ for _, type_, _ in plan.acts}
    return "distrust" if OriginDistrusted.__name__ in types else "undo" if types else "redo"


class Done(Struct, frozen=True):
    """An act that was carried out, or only planned."""

    plan: ActPlan
    outcome: Outcome
    dry_run: bool


def _named(connection: Connection, target: str | int) -> list[audit.AuditRow]:
    first = audit.at(connection, target) if isinstance(target, int) else audit.by_event(connection, target)
    if first is not None:
        return audit.of_command(connection, first.command_id)
    return audit.of_correlation(connection, target) if isinstance(target, str) and target else []


_INSTEAD = {
    "LegalHoldPlaced": "lift the hold",
    "LegalHoldReleased": "place the hold again",
    "ProjectionSuspended": "rebuild folds the projection again",
    "WriteRefused": "nothing was written",
}


def _instead(connection: Connection, entry: audit.AuditRow) -> str:
    """Return the alternative to undoing a lasting act; of a redo and a trust the opposite act, named in full."""
    event = read_event(connection, entry.position)
    data = event.data if event is not None else None
    if isinstance(data, CommandRedone):
        back = (audit.at(connection, position) for position in control.positions(data.ranges))
        commands = list(dict.fromkeys(entry.command_id for entry in back if entry is not None))
        more = f" … ({len(commands)} in all)" if len(commands) > 5 else ""
        return f"undo again what it put back: undo {', '.join(commands[:5])}{more}"
    if isinstance(data, OriginTrusted):
        about = _distrust_in(connection, data.distrusted)
        named = f"{about.origin!r:.60} (kind {about.kind})" if about is not None and about.origin else "the source"
        return f"distrust {named} again"
    return _INSTEAD.get(entry.type, "it is for good")


def _distrust_in(connection: Connection, command: str) -> OriginDistrusted | None:
    """Return the distrust that a command recorded, or None."""
    events = read_all(connection, audit.of_command(connection, command))
    return next((event.data for event in events if isinstance(event.data, OriginDistrusted)), None)


def _emit_undone(work: Work, commands: Iterable[str], positions: Iterable[int], reason: str) -> None:
    """Record one event, or several of the same append if the lists are long."""
    for names, spans in zip_longest(_parts(tuple(commands)), _parts(control.ranges(positions)), fillvalue=()):
        work.emit(LEDGER_STREAM, CommandUndone(tuple(names), tuple(spans), reason))


def _parts(items: tuple[T, ...]) -> list[tuple[T, ...]]:
    """Return the items in parts of at most 2,000, the most that an event lists."""
    return [items[start : start + LIST_ITEMS] for start in range(0, len(items), LIST_ITEMS)]


def target_of(given: str | int) -> str | int:
    """Return the target of an undo after checking its type and size."""
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise RejectedError(
            "a command is named by its id, by the id or the position of one of its events, and not by a"
            f" {type(given).__name__}"
        )
    if isinstance(given, int):
        if not 0 < given < 2**63:
            raise NotFoundError(f"no command of this user is named by position {given if abs(given) < 10**18 else '…'}")
        return given
    return check_text("what to undo", given, blank_allowed=True)
