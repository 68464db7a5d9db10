"""Distrust and trust: make void what an origin recorded and caused, and bring it back.

An origin is an actor, a client, an agent, a session, a document or an interaction. A source is something else: what a
memory or an observation cites. A trust ends a distrust.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.call import Time, Who, answer_of
from ledger.core.engine import Engine, ReadingEngine
from ledger.core.reads import NOWHERE, find_row, first_position, id_of_filter, read_event
from ledger.core.steps import EXCLUSIVE_ALLOWS, check_size, range_lists
from ledger.core.work import Work
from ledger.domain import ids, times
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.text import check_reason, check_text, one_of
from ledger.events import LEDGER_STREAM, CommandRedone, CommandUndone, OriginDistrusted
from ledger.history.alternative import Alternative
from ledger.history.receipts import receipts
from ledger.memories.answers import Belief
from ledger.memories.shown import belief
from ledger.observations.queries import UNSUPPORTED
from ledger.undo import answers, undoing
from ledger.undo.in_effect import Reader
from ledger.undo.origin_plan import OriginPlan
from ledger.undo.undoing import ActOutcome, ActPlan, void_again
from projections.core.rows import NEWEST, Connection, Start
from projections.views import control

NAMED = ("actor", "client", "agent")  # kinds of origins that go by a name
IDENTIFIED = {"i": "interaction", "s": "session", "d": "document"}  # kinds of origins by the first letter of their ids
KINDS = (*NAMED, *IDENTIFIED.values())
Position = int


class DistrustTarget(Struct, frozen=True):
    """The origin of a distrust, and the span of its events that the distrust is about.

    Attributes:
        kind: "actor", "client", "agent", "interaction", "session" or "document".
        name: The name of an actor, a client or an agent; the id of any other origin.
        since: The first position of the span.
        until: The position after the last position of the span; None if the span has no end.
    """

    kind: str
    name: str
    since: int = 1
    until: int | None = None

    def covers(self, other: DistrustTarget) -> bool:
        """Return True if both are about the same origin, and this span includes the other span."""
        ends_later = self.until is None or (other.until is not None and other.until <= self.until)
        return (self.kind, self.name) == (other.kind, other.name) and self.since <= other.since and ends_later


class DistrustReach(Struct, frozen=True):
    """The reach of a distrust or a trust besides the events themselves; ``DistrustReport`` explains the fields."""

    target: DistrustTarget
    memories: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    observations: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    receipts: tuple[str, ...] = ()
    beliefs: tuple[Belief, ...] = ()


def distrust(
    engine: Engine,
    asker: Who,
    origin: str,
    *,
    kind: str | None = None,
    since: Position | Time | None = None,
    until: Position | Time | None = None,
    reason: str = "",
    exclusive: bool = False,
    dry_run: bool = False,
) -> answers.DistrustReport:
    """Make void what an origin recorded and caused, and refuse its later writes.

    Memories that rest on nothing else cease to exist. The effect of the origin on memories of others ends: a memory that
    the origin superseded or retracted is active again, and a correction or another kind or project is reverted. The
    statements of others stay, and their decisions are not made again; the report lists the decisions of others that fit no
    more. ``trust`` reverses a distrust.

    Args:
        engine: The engine of the ledger.
        asker: The user, and the actor who distrusts.
        origin: The id of an interaction, a document or a session, or the name that ``kind`` asks for.
        kind: The kind of the origin; needed for the name of an actor, a client, an agent or a session.
        since: The first position, or the time, from which on events of the origin are void. With the position after
            the end of the log nothing becomes void, and only the later writes of the origin are refused.
        until: The position, or the time, from which on the origin counts again; its later writes are accepted.
        reason: The reason, which the log keeps.
        exclusive: Allow more than 50,000 events; nobody else can write until the distrust is done.
        dry_run: Only list the effect.

    Raises:
        NotFoundError: This user has no such origin.
        RejectedError: The kind is missing, the span is empty or in the future, or more than 50,000 events become void
            and ``exclusive`` is False.
    """
    reason = check_reason("reason", reason)
    check_text("origin", origin)
    arguments = (origin, kind, str(since), reason, *([str(until)] if until is not None else []))

    def make_plan(connection: Connection, head: int) -> ActPlan:
        target = find_origin(engine, connection, asker.user, origin, kind, since, until)
        if (distrusted_already := _covering(connection, asker.user, target)) is not None:
            return ActPlan(head, reach=DistrustReach(distrusted_already))
        closure = origin_plan(connection, asker.user, target)
        plan = _act_plan(engine, connection, head, closure, target, asker.user)
        alternative = Alternative(closure.reader, closure.fallen, closure.restored)
        return replace(plan, reach=_with_beliefs(plan.reach, alternative)) if dry_run else plan

    def emit(work: Work, plan: ActPlan) -> None:
        target: DistrustTarget = plan.reach.target
        allowed = f"{EXCLUSIVE_ALLOWS}, and since={plan.head + 1} only refuses what the origin writes from now on"
        check_size(plan.events, exclusive=exclusive, allowed=allowed)
        _emit_undos_taken_back(work, plan, reason)
        fields: dict[str, Any] = {"since": target.since, "until": target.until, "reason": reason}
        if plan.positions or not _is_distrusted(work, target):
            if not plan.positions and work.secret_in(target.name):  # nothing else would bring the name into the log
                raise RejectedError(
                    "the name of the origin holds a secret, and the origin has written nothing: the log would be the first"
                    " to hold that name",
                    rule="secret",
                )
            for spans in range_lists(plan.positions) or [()]:
                work.emit(LEDGER_STREAM, OriginDistrusted(target.kind, target.name, spans, **fields))

    return _distrust_report(
        engine, undoing.run_act(engine, "history.distrust", asker, make_plan, emit, arguments, dry_run), asker.user
    )


def trust(
    engine: Engine,
    asker: Who,
    origin: str,
    *,
    kind: str | None = None,
    reason: str = "",
    cascade: bool = False,
    exclusive: bool = False,
    dry_run: bool = False,
) -> answers.DistrustReport:
    """Bring back what a distrust made void; ``origin`` names the origin, or the distrust by its command id.

    The undos of the origin take effect again too. ``kind``, ``reason``, ``exclusive`` and ``dry_run`` are as in
    ``distrust``.

    Raises:
        NotFoundError: No distrust of this origin is in effect.
        DependentsError: Later commands were built on events that the undos of the origin make void again, and
            ``cascade`` is False. With ``cascade`` these commands become void too.
        ConflictError: An event that comes back does not fit, or needs something that is not there.
    """
    reason = check_reason("reason", reason)
    check_text("origin", origin)

    def make_plan(connection: Connection, head: int) -> ActPlan:
        in_effect = [distrust for distrust in control.distrusted(connection) if distrust.user == asker.user]
        matches = [distrust for distrust in in_effect if distrust.act == origin]
        if not matches:
            target = find_origin(engine, connection, asker.user, origin, kind)
            matches = [match for match in in_effect if (match.kind, match.source) == (target.kind, target.name)]
        if not matches:
            raise NotFoundError(f"no distrust of {origin!r:.60} is in effect for this user")
        ending = [distrust.act for distrust in matches]
        plan = undoing.restoring_plan(connection, head, ending, cascade or dry_run)
        fallen = void_again(connection, ending) | set(plan.cascaded.positions)
        restored = {position for _, _, positions in plan.ended_acts for position in positions}
        memories = tuple(subject for subject in plan.streams if subject[0] == "m")
        reader = Reader(connection)
        alternative = Alternative(reader, fallen, restored)
        changed, unsupported = _changed_observations(engine, alternative, plan.streams)
        reach = DistrustReach(
            _combined([_as_target(distrust) for distrust in matches]),
            memories,
            observations=changed,
            unsupported=unsupported,
            receipts=receipts(reader, asker.user, memories, restored),
        )
        return replace(plan, reach=_with_beliefs(reach, alternative) if dry_run else reach)

    def emit(work: Work, plan: ActPlan) -> None:
        check_size(plan.events, exclusive=exclusive)
        undoing.emit_restoring(work, plan, reason)

    done = undoing.run_act(
        engine,
        "history.trust",
        asker,
        make_plan,
        emit,
        (origin, kind, reason, *([cascade] if cascade else [])),
        dry_run,
    )
    return _distrust_report(engine, done, asker.user, trusted=True)


def distrusted(engine: ReadingEngine, user: str, *, start: Start = NEWEST, limit: int = -1) -> list[answers.Distrusted]:
    """Return the distrusted origins, at most ``limit`` of them from ``start`` on."""
    with engine.reading() as connection:
        rows = control.distrusted_of(connection, user, start, limit)
    return [
        answer_of(answers.Distrusted, row, origin=row.source, command_id=row.act, position=row.from_position)
        for row in rows
    ]


def _distrust_report(engine: Engine, done: ActOutcome, user: str, *, trusted: bool = False) -> answers.DistrustReport:
    plan, outcome = done.plan, done.outcome
    reach = plan.reach if isinstance(plan.reach, DistrustReach) else _reach_of_earlier_act(engine, plan, user)
    return answer_of(
        answers.DistrustReport,
        reach,
        kind=reach.target.kind,
        origin=reach.target.name,
        since=reach.target.since,
        until=reach.target.until,
        events=len(plan.positions) or plan.events,
        beliefs=reach.beliefs,
        position=outcome.position,
        dependents=plan.dependents or plan.cascaded.dependents,
        cascaded=plan.cascaded.commands,
        trusted=trusted,
        dry_run=done.dry_run,
        command_id=outcome.events[0].envelope.command_id if outcome.events else None,
        replayed=outcome.replayed,
    )


def _with_beliefs(reach: DistrustReach, alternative: Alternative) -> DistrustReach:
    """Return the reach with each memory concerned, as it is and as it would be."""
    reader = alternative.reader
    beliefs = (belief(reader.connection, id, reader.state(id), alternative.state(id)) for id in reach.memories)
    return replace(reach, beliefs=tuple(beliefs))


def _reach_of_earlier_act(engine: Engine, plan: ActPlan, user: str) -> DistrustReach:
    """Return the reach of an act that was carried out before under the same idempotency key, from its events.

    The events of a trust do not name the origin, so the target of a trust is empty.
    """
    data = plan.reach
    target = (
        DistrustTarget(data.kind, data.origin or "", data.since, data.until)
        if data is not None
        else DistrustTarget("", "")
    )
    memories = tuple(subject for subject in plan.streams if subject[0] == "m")
    with engine.reading() as connection:
        return DistrustReach(target, memories, receipts=receipts(Reader(connection), user, memories, plan.positions))


# --- the origin --------------------------------------------------------------------------------------------


def find_origin(
    engine: Engine,
    connection: Connection,
    user: str,
    origin: str,
    kind: str | None,
    since: Position | Time | None = None,
    until: Position | Time | None = None,
) -> DistrustTarget:
    """Return the origin with this kind and name or id; raise ``NotFoundError`` if this user has no such origin."""
    if kind is None:
        prefix = origin[:1] if ids.is_prefix(origin, origin[:1]) and len(origin) >= 3 else ""
        kind = IDENTIFIED.get(prefix, "")
    if kind:
        one_of("kind", kind, KINDS)
    else:
        raise RejectedError(f"the kind of {origin!r:.60} is needed: one of {', '.join(KINDS)}")
    name = origin if kind in NAMED else _id_of(connection, user, origin, kind)
    now = engine.writer.now()
    start = _position_of("since", connection, since, now) if since is not None else 1
    end = _position_of("until", connection, until, now) if until is not None else None
    if end is not None and end <= start:
        raise RejectedError(
            f"nothing lies between since (position {start}) and until (position {end}, which is not included)"
        )
    return DistrustTarget(kind, name, start, end)


def _id_of(connection: Connection, user: str, origin: str, kind: str) -> str:
    """Return the id of a session by its name or id, or of an interaction or a document by its id or the id's beginning."""
    letter = next(letter for letter, kind_of_letter in IDENTIFIED.items() if kind_of_letter == kind)
    if kind == "session":
        id = id_of_filter(connection, user, "s", origin)
    else:
        # A void subject has no row any more, but its first event is still in the log.
        position = find_row(connection, origin, letter, user) or first_position(connection, origin)
        event = read_event(connection, position) if position is not None else None
        is_own = event is not None and event.envelope.user == user and event.stream[0] == letter
        id = event.stream if event is not None and is_own else None
    if id is None or id == NOWHERE:
        raise NotFoundError(f"no {kind} of this user is called {origin!r:.60}")
    return id


def _changed_observations(
    engine: Engine, alternative: Alternative, streams: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the observations that will differ, and those of them that lose their last live source."""
    changed, unsupported = list[str](), list[str]()
    for present, other in alternative.observations(streams, engine.writer.now()):
        changed.append((present or other).id)  # type: ignore[union-attr]
        if other is not None and other.status == UNSUPPORTED and (present is None or present.status != UNSUPPORTED):
            unsupported.append(other.id)
    return tuple(changed), tuple(unsupported)


def _act_plan(
    engine: Engine, connection: Connection, head: int, plan: OriginPlan, target: DistrustTarget, user: str
) -> ActPlan:
    changed = plan.changed_subjects()
    memories = tuple(sorted(subject for subject in changed if subject[0] == "m"))
    gone = tuple(sorted(subject for subject in plan.gone if subject in changed))
    alternative = Alternative(plan.reader, plan.fallen, plan.restored)
    changed_observations, unsupported = _changed_observations(engine, alternative, plan.streams)
    reach = DistrustReach(
        target,
        memories,
        gone,
        receipts=receipts(plan.reader, user, plan.streams, plan.fallen, gone),
        observations=changed_observations,
        unsupported=unsupported,
    )
    undos = ((undo, tuple(control.voided_by(connection, undo))) for undo in plan.falling_undos)
    return ActPlan(
        head,
        tuple(sorted(plan.fallen)),
        streams=tuple(sorted(plan.streams)),
        ended_acts=tuple((undo, CommandUndone.__name__, positions) for undo, positions in undos),
        dependents=plan.decisions_of_others(),
        reach=reach,
    )


def origin_plan(connection: Connection, user: str, target: DistrustTarget, reader: Reader | None = None) -> OriginPlan:
    """Return the plan of a distrust of an origin: the events that fall with the events that the origin recorded."""
    reader = reader or Reader(connection)
    last = target.until - 1 if target.until is not None else 2**62
    if target.kind in ("interaction", "document"):
        positions = (event.position for event, _ in reader.stream(target.name))
        return OriginPlan(reader, [position for position in positions if target.since <= position <= last])
    sql = f"SELECT position FROM audit WHERE position BETWEEN ? AND ? AND user = ? AND {target.kind} = ? ORDER BY position"
    recorded = [position for (position,) in connection.execute(sql, (target.since, last, user, target.name))]
    # The event that opened a session names the session, and stays. So a session that is distrusted as a whole still exists,
    # but no memory may rest on it: the plan takes it as gone.
    distrusted = [target, *_distrusted_origins(connection, user)]
    whole_sessions = {origin.name for origin in distrusted if origin.covers(DistrustTarget("session", origin.name))}
    return OriginPlan(reader, recorded, whole_sessions)


def _distrusted_origins(connection: Connection, user: str) -> list[DistrustTarget]:
    return [_as_target(distrust) for distrust in control.distrusted(connection) if distrust.user == user]


def _covering(connection: Connection, user: str, target: DistrustTarget) -> DistrustTarget | None:
    """Return a distrust of this user in effect that includes the target, or None."""
    return next((origin for origin in _distrusted_origins(connection, user) if origin.covers(target)), None)


def _as_target(row: control.DistrustedSource) -> DistrustTarget:
    return DistrustTarget(row.kind, row.source or "", row.since, row.until)


def _combined(parts: list[DistrustTarget]) -> DistrustTarget:
    """Return one target for several distrusts of the same origin, from the first ``since`` to the last ``until``."""
    ends = [part.until for part in parts if part.until is not None]
    until = max(ends) if len(ends) == len(parts) else None
    return replace(parts[0], since=min(part.since for part in parts), until=until)


def _is_distrusted(work: Work, target: DistrustTarget) -> bool:
    return _covering(work.connection(), work.who.user, target) is not None


def _position_of(name: str, connection: Connection, bound: Position | Time, now: str) -> int:
    """Return the position that a bound means: of a time, the position of the first event recorded at or after it."""
    if isinstance(bound, bool) or (isinstance(bound, int) and bound < 1):
        raise RejectedError(f"{name} is a position of at least 1, or a time, and {bound!r:.40} is neither")
    (last, latest) = connection.execute("SELECT max(position), max(recorded_at) FROM audit").fetchone()
    if isinstance(bound, int):
        if bound > last + 1:
            raise RejectedError(
                f"{name} is a position of the log, which ends at {last}, or the position after that, and not"
                f" {bound if bound < 10**18 else '…'}"
            )
        return bound
    start = times.moment(name, bound)
    if start > max(latest, now):
        raise RejectedError(f"{name} lies in the future ({start}); give a time up to now, or a position of the log")
    sql = "SELECT coalesce(min(position), (SELECT max(position) + 1 FROM audit)) FROM audit WHERE recorded_at >= ?"
    return int(connection.execute(sql, (start,)).fetchone()[0])


def _emit_undos_taken_back(work: Work, plan: ActPlan, reason: str) -> None:
    """Record that the distrust ends the undos that its origin made: a redo for each undo, in the same append."""
    for undo, _, positions in plan.ended_acts:
        for spans in range_lists(positions):
            work.emit(LEDGER_STREAM, CommandRedone(undo, spans, reason))
