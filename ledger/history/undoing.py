"""Undo and redo: making the events of commands void, with everything that was built on them, and putting them back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain, count, zip_longest
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ledger import answers
from ledger.domain import ids
from ledger.domain.errors import LedgerError, NotFoundError, RejectedError
from ledger.domain.events import (
    LEDGER_STREAM,
    VOIDING,
    AnyEvent,
    CommandRedone,
    CommandUndone,
    OriginDistrusted,
    OriginTrusted,
    type_names,
)
from ledger.domain.text import LIST_ITEMS, check_reason, check_text
from ledger.engine.engine import Engine
from ledger.engine.log_reading import read_all, read_event
from ledger.engine.optimistic import Moved, optimistic
from ledger.engine.snapshot import NOWHERE, named
from ledger.engine.who import Who
from ledger.engine.work import Outcome, Work
from ledger.history.fitting import Cascaded, built_later, built_on, check, in_use
from ledger.history.in_effect import LASTING, Reader, follows, is_subject
from ledger.history.undo_plan import UndoPlan
from ledger.memories.queries import belief
from ledger.policies import bulk
from projections.core.rows import Connection
from projections.views import audit, control

T = TypeVar("T")
_VOIDING = type_names(VOIDING)


class Plan(Struct, frozen=True):
    """What an act will do: positions by what they are for, as seen when the log ended at ``head``."""

    head: int
    positions: tuple[int, ...] = ()
    commands: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    acts: tuple[tuple[str, str, tuple[int, ...]], ...] = ()  # (act, its type, positions that it gives back)
    cascaded: Cascaded = Cascaded()
    dependents: tuple[answers.Dependent, ...] = ()
    turned_down: tuple[answers.Dependent, ...] = ()
    beliefs: tuple[answers.Belief, ...] = ()
    actors: tuple[str, ...] = ()
    verbs: Mapping[str, str] = {}  # of each command what was called, and where it begins
    details: Any = None

    @property
    def events(self) -> int:
        """How many events it makes void or gives back."""
        return len(self.positions) + sum(len(each) for _, _, each in self.acts) + len(self.cascaded.positions)


class Refused(Struct, frozen=True):
    """Why there is no plan, as seen when the log ended at ``head``."""

    head: int
    error: LedgerError


def undo(
    engine: Engine,
    asker: Who,
    target: str | int | None = None,
    reason: str = "",
    *,
    session: str | None = None,
    command: str | None = None,
    group: Mapping[str, str | None] | None = None,
    cascade: bool = False,
    exclusive: bool = False,
    dry_run: bool = False,
) -> answers.UndoReport:
    """Makes commands void: one, by its id or the id or position of one of its events; or a group.

    A group is a correlation id (an import, a run), or a ``session`` or a verb (``command``) or both: all that was
    extracted in a session is ``undo(session="s1", command="extract")``. What later commands built on it is listed in
    a ``ConflictError``, unless ``cascade`` takes them along. ``dry_run`` only lists. Undoing an undo is a redo, and undoing
    a distrust trusts. The keys of what is undone can be used again. All of it is one append; more than 50,000 events
    are ``RejectedError`` unless it is ``exclusive``: nobody else can write until it is done.
    """
    reason = check_reason("reason", reason)
    given = target_of(target) if target is not None else None
    bounds = {name: value for name, value in (group or {}).items() if value is not None}
    if (target is None) == (session is None and command is None and not bounds):
        raise RejectedError(
            "an undo names a command, or else a group by session= and command=, and not both or neither"
        )

    def make(connection: Connection, head: int) -> Plan:
        entries = commands_named(connection, asker.user, given, session, command, bounds)
        if acts := sorted({entry.command_id for entry in entries if entry.type in _VOIDING}):
            return _shown(connection, back(connection, head, acts, cascade or dry_run), dry_run)
        plan = UndoPlan(Reader(connection), [entry.position for entry in entries])
        if (dependents := plan.dependents()) and not (cascade or dry_run):
            raise built_later(dependents, "this one")
        if plan.used and not plan.out:
            raise in_use(*plan.used[0])
        positions, streams = tuple(sorted(plan.out)), tuple(sorted(plan.streams))
        beliefs = _beliefs(plan.reader, streams, plan.out) if dry_run else ()
        return Plan(
            head,
            positions,
            tuple(plan.commands),
            streams,
            dependents=dependents,
            turned_down=plan.turned_down,
            beliefs=beliefs,
            actors=tuple(sorted({plan.reader.event(each).envelope.actor or "" for each in positions})),
            verbs=_verbs(map(plan.reader.event, positions)),
        )

    def emit(work: Work, plan: Plan) -> None:
        bulk.check_size(plan.events, exclusive=exclusive)
        if plan.acts:
            emit_back(work, plan, reason)
        elif plan.positions:
            _emit_undone(work, plan.commands, plan.positions, reason)

    verb = "undo" if target is not None else "history.undo_all"
    asked = (target, reason, cascade, session, command, *sorted(bounds.items()))
    return _report(act(engine, verb, asker, make, emit, asked, dry_run))


def redo(
    engine: Engine, asker: Who, target: str | int, reason: str = "", *, exclusive: bool = False, dry_run: bool = False
) -> answers.UndoReport:
    """Puts back what an undo took out, named by the undo or by a command that it undid; ``exclusive`` as in ``undo``."""
    reason = check_reason("reason", reason)

    def make(connection: Connection, head: int) -> Plan:
        entries = commands_named(connection, asker.user, target_of(target), None, None)
        acts = {entry.command_id for entry in entries if entry.type == CommandUndone.__name__}
        if not acts:
            reader = Reader(connection)
            acted = [entry for entry in entries if not follows(reader.event(entry.position))]
            out = (control.acts(connection, entry.position) for entry in acted or entries)
            acts = {act for found in out for act, type_ in found.items() if type_ == CommandUndone.__name__}
        return _shown(connection, back(connection, head, sorted(acts)), dry_run)

    def emit(work: Work, plan: Plan) -> None:
        bulk.check_size(plan.events, exclusive=exclusive)
        emit_back(work, plan, reason)

    return _report(act(engine, "redo", asker, make, emit, (target, reason), dry_run=dry_run))


def _shown(connection: Connection, plan: Plan, dry_run: bool) -> Plan:
    """A plan that puts back, in a dry run with what would be believed then."""
    if not dry_run:
        return plan
    ending = {act for act, _, _ in plan.acts}
    held = {each for _, _, positions in plan.acts for each in positions}
    again = {each for each in held if control.acts(connection, each).keys() <= ending}
    out = voided_again(connection, ending) | set(plan.cascaded.positions)
    return replace(plan, beliefs=_beliefs(Reader(connection), plan.streams, out, again - out))


def _beliefs(
    reader: Reader, streams: Iterable[str], out: Collection[int], again: Collection[int] = ()
) -> tuple[answers.Belief, ...]:
    """The memories among some subjects, each as it is and as it would be."""
    return tuple(
        belief(reader.connection, each, reader.state(each), reader.state(each, out, again))
        for each in streams
        if each[0] == "m"
    )


def _report(done: Done) -> answers.UndoReport:
    plan, outcome = done.plan, done.outcome
    return answers.UndoReport(
        commands=(commands := tuple(sorted(plan.commands))),
        verbs=tuple(plan.verbs.get(each, "") for each in commands),
        events=len(plan.positions) or len({each for _, _, positions in plan.acts for each in positions}),
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
    """By its command what was called, and at which position: of events in the order of the log."""
    found = dict[str, str]()
    for each in events:
        found.setdefault(each.envelope.command_id, f"{each.envelope.command} at {each.position}")
    return found


# --- planning outside the lock, acting inside ------------------------------------------------------------------


def act(
    engine: Engine,
    verb: str,
    asker: Who,
    make: Callable[[Connection, int], Plan],
    emit: Callable[[Work, Plan], None],
    given: object,
    dry_run: bool,
) -> Done:
    """Runs an act that is planned on a snapshot and carried out if nobody wrote since; a dry run only plans."""
    if dry_run:
        plan = _planned(engine, make)
        if isinstance(plan, Refused):
            raise plan.error
        return Done(plan, Outcome(LEDGER_STREAM, None, (), plan.head), True)
    used: list[Plan] = []

    def decide(planned: Plan | Refused | None, last: bool = False) -> Outcome:
        def body(work: Work) -> str:
            plan = _still(engine, work, planned, make, last=last)
            emit(work, plan)
            used.append(plan)
            return LEDGER_STREAM

        return engine.writer.run(verb, asker, body, given)

    plans = chain([None], (_planned(engine, make) for _ in count()))  # none is needed where the key is known
    outcome = optimistic(lambda: next(plans), decide, at_last=lambda: decide(None, last=True))
    engine.writer.forget_names()
    plan = used[-1] if used else _done_before(engine, outcome.position)
    return Done(plan, outcome, False)


def _planned(engine: Engine, make: Callable[[Connection, int], Plan]) -> Plan | Refused:
    """A plan on a snapshot, or why there is none: that is for the writer to say, who keeps refusals."""
    with engine.reading() as connection:
        (head,) = connection.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()
        try:
            return make(connection, head)
        except LedgerError as error:
            return Refused(head, error)


def _still(
    engine: Engine, work: Work, planned: Plan | Refused | None, make: Callable[[Connection, int], Plan], *, last: bool
) -> Plan:
    if planned is not None and planned.head == work.transaction.position:
        if isinstance(planned, Refused):
            raise planned.error
        return planned
    if last:
        engine.writer.write_waiting()
        return make(work.connection(), work.transaction.position)
    raise Moved


def _done_before(engine: Engine, position: int) -> Plan:
    """What an act did the first time, read from its events."""
    with engine.reading() as connection:
        events = read_all(connection, audit.command_at(connection, position))
        spans = [span for event in events for span in getattr(event.data, "ranges", ())]
        positions = sorted(set(control.positions(spans)))
        back = [event for each in positions if (event := read_event(connection, each)) is not None]
        data = next((event.data for event in events if isinstance(event.data, OriginDistrusted)), None)
        ended = [each for event in events if (each := _ended_by(event.data))]
    streams = tuple(sorted({event.stream for event in back} - {LEDGER_STREAM}))
    undone = any(isinstance(event.data, CommandUndone) for event in events)
    return Plan(
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
    target: str | int | None,
    session: str | None,
    command: str | None,
    bounds: Mapping[str, str] = {},
) -> list[audit.Entry]:
    """The entries of the commands meant; ``NotFoundError`` when they are not this user's."""
    entries = _grouped(connection, user, session, command, bounds) if target is None else _one(connection, target)
    if not entries or any(entry.user != user for entry in entries):
        if target is None:
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


def _grouped(
    connection: Connection, user: str, session: str | None, command: str | None, bounds: Mapping[str, str]
) -> list[audit.Entry]:
    where = named(connection, user, "s", session) if session is not None else None
    if where == NOWHERE or (session is not None and where is None):
        return []
    found = audit.trail(connection, user=user, session=where, command=command, limit=2**31, **bounds)
    hidden = (*LASTING, *_VOIDING)
    return [entry for entry in reversed(found) if entry.user == user and entry.type not in hidden]


# --- putting back --------------------------------------------------------------------------------------------


def back(connection: Connection, head: int, acts: Iterable[str], cascade: bool = False) -> Plan:
    """What the acts keep void, if all of it still fits without what they put back; ``ConflictError`` where not."""
    reader, distrusts = Reader(connection), {each.act for each in control.distrusted(connection)}
    held = [(act, control.voided_by(connection, act)) for act in acts]
    held = [(act, kept) for act, kept in held if kept or act in distrusts]
    ending = {act for act, _ in held}
    but = voided_again(connection, ending)
    positions = {each for _, kept in held for each in kept if set(control.acts(connection, each)) <= ending}
    positions -= but
    cascaded = built_on(connection, positions, but, cascade)
    but |= set(cascaded.positions)
    streams = {reader.event(each).stream for each in positions} - {LEDGER_STREAM}
    check(reader, filter(is_subject, sorted(streams)), positions, but)
    back = [reader.event(each) for each in sorted(positions)]
    commands = {each.envelope.command_id for each in back if not follows(each)}
    types = {act: (OriginDistrusted if act in distrusts else CommandUndone).__name__ for act in ending}
    kept_by = tuple((act, types[act], tuple(kept)) for act, kept in held)
    streams |= {reader.event(each).stream for each in but} - {LEDGER_STREAM}
    return Plan(head, (), tuple(sorted(commands)), tuple(sorted(streams)), kept_by, cascaded, verbs=_verbs(back))


def emit_back(work: Work, plan: Plan, reason: str) -> None:
    for act, type_, positions in plan.acts:
        for redone in redone_by(work.connection(), act):  # the undos that a distrust had taken back are made again
            work.emit(LEDGER_STREAM, CommandUndone((redone.undone,), redone.ranges, reason))
        event = OriginTrusted if type_ == OriginDistrusted.__name__ else CommandRedone
        for spans in bulk.parts(positions) or [()]:
            work.emit(LEDGER_STREAM, event(act, spans, reason))
    if plan.cascaded.positions:
        _emit_undone(work, plan.cascaded.commands, plan.cascaded.positions, reason)


def redone_by(connection: Connection, act: str) -> list[CommandRedone]:
    """The undos of a source that its distrust took back."""
    if all(each.act != act for each in control.distrusted(connection)):
        return []
    events = read_all(connection, audit.of_command(connection, act))
    return [event.data for event in events if isinstance(event.data, CommandRedone)]


def voided_again(connection: Connection, acts: Iterable[str]) -> set[int]:
    """What becomes void when these acts end: a distrust had put it back."""
    redone = (each for act in acts for each in redone_by(connection, act))
    return {position for each in redone for position in control.positions(each.ranges)}


def _ended_by(data: Any) -> tuple[str, str, tuple[int, ...]] | None:
    """The act that an event ends, as a plan names it, but without the positions."""
    if isinstance(data, OriginTrusted):
        return data.distrusted, OriginDistrusted.__name__, ()
    if isinstance(data, CommandRedone):
        return data.undone, CommandUndone.__name__, ()
    return None


def _reversed_by(plan: Plan) -> str:
    types = {type_ for _, type_, _ in plan.acts}
    return "distrust" if OriginDistrusted.__name__ in types else "undo" if types else "redo"


class Done(Struct, frozen=True):
    """An act carried out, or only planned."""

    plan: Plan
    outcome: Outcome
    dry_run: bool


def _one(connection: Connection, target: str | int) -> list[audit.Entry]:
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


def _instead(connection: Connection, entry: audit.Entry) -> str:
    """What can be done about an act that nothing takes back; a redo and a trust by their opposites, named in full."""
    event = read_event(connection, entry.position)
    data = event.data if event is not None else None
    if isinstance(data, CommandRedone):
        back = (audit.at(connection, each) for each in control.positions(data.ranges))
        found = list(dict.fromkeys(each.command_id for each in back if each is not None))
        more = f" … ({len(found)} in all)" if len(found) > 5 else ""
        return f"undo again what it put back: undo {', '.join(found[:5])}{more}"
    if isinstance(data, OriginTrusted):
        about = _distrust_in(connection, data.distrusted)
        named = f"{about.origin!r:.60} (kind {about.kind})" if about is not None and about.origin else "the source"
        return f"distrust {named} again"
    return _INSTEAD.get(entry.type, "it is for good")


def _distrust_in(connection: Connection, command: str) -> OriginDistrusted | None:
    """The distrust that a command is."""
    events = read_all(connection, audit.of_command(connection, command))
    return next((event.data for event in events if isinstance(event.data, OriginDistrusted)), None)


def _emit_undone(work: Work, commands: Iterable[str], positions: Iterable[int], reason: str) -> None:
    """One event, or where the lists are long several of the same append."""
    for names, spans in zip_longest(_parts(tuple(commands)), _parts(control.ranges(positions)), fillvalue=()):
        work.emit(LEDGER_STREAM, CommandUndone(tuple(names), tuple(spans), reason))


def _parts(items: tuple[T, ...]) -> list[tuple[T, ...]]:
    """At most 2,000 items an event (DESIGN 3)."""
    return [items[start : start + LIST_ITEMS] for start in range(0, len(items), LIST_ITEMS)]


def target_of(given: str | int) -> str | int:
    """What a caller names, checked."""
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise RejectedError(
            f"a command is named by its or its event's id, or a position, and not by a {type(given).__name__}"
        )
    if isinstance(given, int):
        if not 0 < given < 2**63:
            raise NotFoundError(f"no command of this user is named by position {given if abs(given) < 10**18 else '…'}")
        return given
    return check_text("what to undo", given, blank_allowed=True)
