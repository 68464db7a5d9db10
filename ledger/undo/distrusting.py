"""Distrust and trust: make void what a source recorded and caused, and bring it back.

A source is an actor, a client, an agent, a session, a document or an interaction. The public API calls it an origin.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ledger.core import bulk
from ledger.core.answer import answer_of
from ledger.core.engine import Engine
from ledger.core.log_reading import find_row, first_position, read_event
from ledger.core.reading_engine import ReadingEngine
from ledger.core.snapshot import NOWHERE, named
from ledger.core.who import Time, Who
from ledger.core.work import Work
from ledger.domain import ids, times
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.text import check_reason, check_text
from ledger.events import LEDGER_STREAM, CommandRedone, CommandUndone, OriginDistrusted
from ledger.history.alternative import Alternative
from ledger.history.receipts import receipts
from ledger.memories.answers import Belief
from ledger.memories.queries import belief
from ledger.observations.queries import UNSUPPORTED
from ledger.undo import answers, undoing
from ledger.undo.in_effect import Reader
from ledger.undo.source_plan import SourcePlan
from ledger.undo.undoing import ActPlan, Done, void_again
from projections.core.conditions import NEWEST, Start
from projections.core.rows import Connection
from projections.views import control

NAMED = ("actor", "client", "agent")  # sources that go by a name
IDENTIFIED = {"i": "interaction", "s": "session", "d": "document"}
KINDS = (*NAMED, *IDENTIFIED.values())
Position = int


class DistrustTarget(Struct, frozen=True):
    """The source of a distrust, and the span of its events that the distrust is about.

    Attributes:
        kind: "actor", "client", "agent", "interaction", "session" or "document".
        name: The name of an actor, a client or an agent; the id of any other source.
        since: The first position of the span.
        until: The position after the last position of the span; None if the span has no end.
    """

    kind: str
    name: str
    since: int = 1
    until: int | None = None

    def covers(self, other: DistrustTarget) -> bool:
        """Return True if this source includes the other source."""
        ends_later = self.until is None or (other.until is not None and other.until <= self.until)
        return (self.kind, self.name) == (other.kind, other.name) and self.since <= other.since and ends_later


class Details(Struct, frozen=True):
    """The reach of a distrust or a trust besides the events themselves; ``DistrustReport`` explains the fields."""

    source: DistrustTarget
    memories: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    observations: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    receipts: tuple[str, ...] = ()
    beliefs: tuple[Belief, ...] = ()


def distrust(
    engine: Engine,
    asker: Who,
    source: str,
    *,
    kind: str | None = None,
    since: Position | Time | None = None,
    until: Position | Time | None = None,
    reason: str = "",
    exclusive: bool = False,
    dry_run: bool = False,
) -> answers.DistrustReport:
    """Make void what a source recorded and caused, and refuse its later writes.

    Memories that rest on nothing else cease to exist. Memories that the source hid or moved come back. The statements
    of others stay, and their decisions are not made again. ``trust`` reverses a distrust.

    Args:
        engine: The engine of the ledger.
        asker: The user, and the actor who distrusts.
        source: The id of an interaction, a document or a session, or the name that ``kind`` asks for.
        kind: The kind of the source; needed for the name of an actor, a client, an agent or a session.
        since: The first position, or the time, from which on events of the source are void. With the position after
            the end of the log nothing becomes void, and only the later writes of the source are refused.
        until: The position, or the time, from which on the source counts again; its later writes are accepted.
        reason: The reason, which the log keeps.
        exclusive: Allow more than 50,000 events; nobody else can write until the distrust is done.
        dry_run: Only list the effect.

    Raises:
        NotFoundError: This user has no such source.
        RejectedError: The kind is missing, the span is empty or in the future, or more than 50,000 events become void
            and ``exclusive`` is False.
    """
    reason = check_reason("reason", reason)
    check_text("source", source)
    arguments = (source, kind, str(since), reason, *([str(until)] if until is not None else []))

    def make_plan(connection: Connection, head: int) -> ActPlan:
        target = find_source(engine, connection, asker.user, source, kind, since, until)
        if (distrusted_already := _covering(connection, asker.user, target)) is not None:
            return ActPlan(head, details=Details(distrusted_already))
        events = source_plan(connection, asker.user, target)
        plan = _act_plan(engine, connection, head, events, target, asker.user)
        alternative = Alternative(events.reader, events.fallen, events.restored)
        return replace(plan, details=_with_beliefs(plan.details, alternative)) if dry_run else plan

    def emit(work: Work, plan: ActPlan) -> None:
        target: DistrustTarget = plan.details.source
        allowed = f"{bulk.ALLOWED}, and since={plan.head + 1} only refuses what the source writes from now on"
        bulk.check_size(plan.events, exclusive=exclusive, allowed=allowed)
        _emit_undos_taken_back(work, plan, reason)
        fields: dict[str, Any] = {"since": target.since, "until": target.until, "reason": reason}
        if plan.positions or not _is_distrusted(work, target):
            if not plan.positions and work.secret_in(target.name):  # nothing else would bring the name into the log
                raise RejectedError(
                    "the name of the source holds a secret, and the source has written nothing: the log would be the first"
                    " to hold that name",
                    rule="secret",
                )
            for spans in bulk.parts(plan.positions) or [()]:
                work.emit(LEDGER_STREAM, OriginDistrusted(target.kind, target.name, spans, **fields))

    return _distrust_report(
        engine, undoing.run_act(engine, "history.distrust", asker, make_plan, emit, arguments, dry_run), asker.user
    )


def trust(
    engine: Engine,
    asker: Who,
    source: str,
    *,
    kind: str | None = None,
    reason: str = "",
    cascade: bool = False,
    exclusive: bool = False,
    dry_run: bool = False,
) -> answers.DistrustReport:
    """Bring back what a distrust made void; ``source`` names the source, or the distrust by its command id.

    The undos of the source take effect again too. ``kind``, ``reason``, ``exclusive`` and ``dry_run`` are as in
    ``distrust``.

    Raises:
        NotFoundError: No distrust of this source is in effect.
        DependentsError: Later commands were built on events that the undos of the source make void again, and
            ``cascade`` is False. With ``cascade`` these commands become void too.
        ConflictError: An event that comes back does not fit, or needs something that is not there.
    """
    reason = check_reason("reason", reason)
    check_text("source", source)

    def make_plan(connection: Connection, head: int) -> ActPlan:
        in_effect = [distrust for distrust in control.distrusted(connection) if distrust.user == asker.user]
        matches = [distrust for distrust in in_effect if distrust.act == source]
        if not matches:
            target = find_source(engine, connection, asker.user, source, kind)
            matches = [match for match in in_effect if (match.kind, match.source) == (target.kind, target.name)]
        if not matches:
            raise NotFoundError(f"no distrust of {source!r:.60} is in effect for this user")
        ending = [distrust.act for distrust in matches]
        plan = undoing.restoring_plan(connection, head, ending, cascade or dry_run)
        fallen = void_again(connection, ending) | set(plan.cascaded.positions)
        restored = {position for _, _, positions in plan.ended_acts for position in positions}
        memories = tuple(subject for subject in plan.streams if subject[0] == "m")
        reader = Reader(connection)
        alternative = Alternative(reader, fallen, restored)
        changed, unsupported = _changed_observations(engine, alternative, plan.streams)
        details = Details(
            _combined([_as_target(distrust) for distrust in matches]),
            memories,
            observations=changed,
            unsupported=unsupported,
            receipts=receipts(reader, asker.user, memories, restored),
        )
        return replace(plan, details=_with_beliefs(details, alternative) if dry_run else details)

    def emit(work: Work, plan: ActPlan) -> None:
        bulk.check_size(plan.events, exclusive=exclusive)
        undoing.emit_restoring(work, plan, reason)

    done = undoing.run_act(
        engine,
        "history.trust",
        asker,
        make_plan,
        emit,
        (source, kind, reason, *([cascade] if cascade else [])),
        dry_run,
    )
    return _distrust_report(engine, done, asker.user, trusted=True)


def distrusted(engine: ReadingEngine, user: str, *, start: Start = NEWEST, limit: int = -1) -> list[answers.Distrusted]:
    """Return the distrusted sources, at most ``limit`` of them from ``start`` on."""
    with engine.reading() as connection:
        rows = control.distrusted_of(connection, user, start, limit)
    return [
        answer_of(answers.Distrusted, row, origin=row.source, command_id=row.act, position=row.from_position)
        for row in rows
    ]


def _distrust_report(engine: Engine, done: Done, user: str, *, trusted: bool = False) -> answers.DistrustReport:
    plan, outcome = done.plan, done.outcome
    details = plan.details if isinstance(plan.details, Details) else _details_of(engine, plan, user)
    return answer_of(
        answers.DistrustReport,
        details,
        kind=details.source.kind,
        origin=details.source.name,
        since=details.source.since,
        until=details.source.until,
        events=len(plan.positions) or plan.events,
        beliefs=details.beliefs,
        position=outcome.position,
        dependents=plan.cascaded.dependents,
        cascaded=plan.cascaded.commands,
        trusted=trusted,
        dry_run=done.dry_run,
        command_id=outcome.events[0].envelope.command_id if outcome.events else None,
        replayed=outcome.replayed,
    )


def _with_beliefs(details: Details, alternative: Alternative) -> Details:
    """Return the details with each memory concerned, as it is and as it would be."""
    reader = alternative.reader
    beliefs = (belief(reader.connection, id, reader.state(id), alternative.state(id)) for id in details.memories)
    return replace(details, beliefs=tuple(beliefs))


def _details_of(engine: Engine, plan: ActPlan, user: str) -> Details:
    """Return the details of a distrust that was answered before, from its events."""
    data = plan.details
    source = (
        DistrustTarget(data.kind, data.origin or "", data.since, data.until)
        if data is not None
        else DistrustTarget("", "")
    )
    memories = tuple(subject for subject in plan.streams if subject[0] == "m")
    with engine.reading() as connection:
        return Details(source, memories, receipts=receipts(Reader(connection), user, memories, plan.positions))


# --- the source --------------------------------------------------------------------------------------------


def find_source(
    engine: Engine,
    connection: Connection,
    user: str,
    source: str,
    kind: str | None,
    since: Position | Time | None = None,
    until: Position | Time | None = None,
) -> DistrustTarget:
    """Return the source with this kind and name or id; raise ``NotFoundError`` if this user has no such source."""
    if kind is None:
        prefix = source[:1] if ids.is_prefix(source, source[:1]) and len(source) >= 3 else ""
        kind = IDENTIFIED.get(prefix, "")
    if kind not in KINDS:
        raise RejectedError(f"the kind of {source!r:.60} is needed: one of {', '.join(KINDS)}")
    name = source if kind in NAMED else _identified(connection, user, source, kind)
    now = engine.writer.now()
    start = _position_of("since", connection, since, now) if since is not None else 1
    end = _position_of("until", connection, until, now) if until is not None else None
    if end is not None and end <= start:
        raise RejectedError(
            f"nothing lies between since (position {start}) and until (position {end}, which is not included)"
        )
    return DistrustTarget(kind, name, start, end)


def _identified(connection: Connection, user: str, source: str, kind: str) -> str:
    letter = next(prefix for prefix, word in IDENTIFIED.items() if word == kind)
    name = named(connection, user, "s", source) if letter == "s" else None
    if letter in "id":
        row = find_row(connection, source, letter, user) or first_position(connection, source)
        event = read_event(connection, row) if row is not None else None  # a void subject has no row any more
        is_own = event is not None and event.envelope.user == user and event.stream[0] == letter
        name = event.stream if event is not None and is_own else None
    if name is None or name == NOWHERE:
        raise NotFoundError(f"no {kind} of this user is called {source!r:.60}")
    return name


def _changed_observations(
    engine: Engine, alternative: Alternative, streams: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the observations that will differ, and those of them that lose their last live source."""
    changed, unsupported = list[str](), list[str]()
    for now, then in alternative.observations(streams, engine.writer.now()):
        changed.append((now or then).id)  # type: ignore[union-attr]
        if then is not None and then.status == UNSUPPORTED and (now is None or now.status != UNSUPPORTED):
            unsupported.append(then.id)
    return tuple(changed), tuple(unsupported)


def _act_plan(
    engine: Engine, connection: Connection, head: int, plan: SourcePlan, source: DistrustTarget, user: str
) -> ActPlan:
    changed = plan.changed_subjects()
    memories = tuple(sorted(subject for subject in changed if subject[0] == "m"))
    gone = tuple(sorted(subject for subject in plan.gone if subject in changed))
    alternative = Alternative(plan.reader, plan.fallen, plan.restored)
    changed_observations, unsupported = _changed_observations(engine, alternative, plan.streams)
    details = Details(
        source,
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
        details=details,
    )


def source_plan(connection: Connection, user: str, source: DistrustTarget, reader: Reader | None = None) -> SourcePlan:
    """Return the plan of a distrust of a source: the events that fall with the events that the source recorded."""
    reader = reader or Reader(connection)
    if source.kind in ("interaction", "document"):
        positions = (event.position for event, _ in reader.stream(source.name))
        last = source.until - 1 if source.until is not None else 2**62
        return SourcePlan(reader, [position for position in positions if source.since <= position <= last])
    sql = f"SELECT position FROM audit WHERE position BETWEEN ? AND ? AND user = ? AND {source.kind} = ? ORDER BY position"
    last = source.until - 1 if source.until is not None else 2**62
    recorded = [position for (position,) in connection.execute(sql, (source.since, last, user, source.name))]
    distrusted = [source, *_distrusted_sources(connection, user)]
    # No memory can rest on a session that is distrusted as a whole.
    whole_sessions = {target.name for target in distrusted if target.covers(DistrustTarget("session", target.name))}
    return SourcePlan(reader, recorded, whole_sessions)


def _distrusted_sources(connection: Connection, user: str) -> list[DistrustTarget]:
    """Return the distrusted sources of this user."""
    return [_as_target(distrust) for distrust in control.distrusted(connection) if distrust.user == user]


def _covering(connection: Connection, user: str, source: DistrustTarget) -> DistrustTarget | None:
    """Return a source under distrust that includes this source, or None."""
    known = _distrusted_sources(connection, user)
    return next((target for target in known if target.covers(source)), None)


def _as_target(row: control.DistrustedSource) -> DistrustTarget:
    return DistrustTarget(row.kind, row.source or "", row.since, row.until)


def _combined(parts: list[DistrustTarget]) -> DistrustTarget:
    """Return one target for several distrusts of one source, from the first position to the last."""
    ends = [part.until for part in parts if part.until is not None]
    until = max(ends) if len(ends) == len(parts) else None
    return replace(parts[0], since=min(part.since for part in parts), until=until)


def _is_distrusted(work: Work, source: DistrustTarget) -> bool:
    return _covering(work.connection(), work.who.user, source) is not None


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
    """Record that the undos of the source end, each as a redo."""
    for undo, _, positions in plan.ended_acts:
        for spans in bulk.parts(positions):
            work.emit(LEDGER_STREAM, CommandRedone(undo, spans, reason))
