"""Distrust and trust: a source with all that it caused becomes void, and comes back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ledger.core import bulk
from ledger.core.answer import answer_of
from ledger.core.engine import Engine
from ledger.core.log_reading import find_row, first_position, read_event
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
from ledger.undo.undoing import ActPlan, Done, voided_again
from projections.core.conditions import NEWEST, Start
from projections.core.rows import Connection
from projections.views import control

NAMED = ("actor", "client", "agent")  # sources that go by a name
IDENTIFIED = {"i": "interaction", "s": "session", "d": "document"}
KINDS = (*NAMED, *IDENTIFIED.values())
Position = int


class DistrustTarget(Struct, frozen=True):
    """An origin: a name for actors, clients and agents, an id for the other kinds, and the span of its events."""

    kind: str
    name: str
    since: int = 1
    until: int | None = None

    def covers(self, other: DistrustTarget) -> bool:
        """Return True if this source includes the other source."""
        ends = self.until is None or (other.until is not None and other.until <= self.until)
        return (self.kind, self.name) == (other.kind, other.name) and self.since <= other.since and ends


class Details(Struct, frozen=True):
    """The reach of a distrust besides the events themselves."""

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
    """Make void what a source recorded from ``since`` on with all that it caused, and refuse its later writes.

    With ``until`` only what it recorded before that falls, and its later writes are accepted.

    ``source`` is the id of an interaction, a document or a session, or with ``kind`` the name of an actor, a client, an
    agent or a session. Memories that rest on nothing else go, what the source hid or moved comes back, and what others
    said stays; decisions of others are not made again. The report lists what was reached. ``trust`` puts all of it
    back.

    More than 50,000 events are ``RejectedError`` unless the act is ``exclusive``: then nobody else can write until it
    is done. With the next position as ``since``, which the refusal names, the source is refused at once and nothing
    else happens.
    """
    reason = check_reason("reason", reason)
    check_text("source", source)
    arguments = (source, kind, str(since), reason, *([str(until)] if until is not None else []))

    def make(connection: Connection, head: int) -> ActPlan:
        origin = find_source(engine, connection, asker.user, source, kind, since, until)
        if (known := _covering(connection, asker.user, origin)) is not None:
            return ActPlan(head, details=Details(known))
        plan = source_plan(connection, asker.user, origin)
        made = _plan_of(engine, connection, head, plan, origin, asker.user)
        alternative = Alternative(plan.reader, plan.out, plan.again)
        return replace(made, details=_with_beliefs(made.details, alternative)) if dry_run else made

    def emit(work: Work, plan: ActPlan) -> None:
        about: DistrustTarget = plan.details.source
        allowed = f"{bulk.ALLOWED}, and since={plan.head + 1} only refuses what the source writes from now on"
        bulk.check_size(plan.events, exclusive=exclusive, allowed=allowed)
        _emit_undos_taken_back(work, plan, reason)
        fields: dict[str, Any] = {"since": about.since, "until": about.until, "reason": reason}
        if plan.positions or not _is_distrusted(work, about):
            if not plan.positions and work.secret_in(about.name):  # nothing else would bring the name into the log
                raise RejectedError(
                    "the name of the source holds a secret, and the source has written nothing: the log would be the first"
                    " to hold that name",
                    rule="secret",
                )
            for spans in bulk.parts(plan.positions) or [()]:
                work.emit(LEDGER_STREAM, OriginDistrusted(about.kind, about.name, spans, **fields))

    return _distrust_report(
        engine, undoing.act(engine, "history.distrust", asker, make, emit, arguments, dry_run), asker.user
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
    """Put back what a distrust made void; ``source`` names the source, or the distrust by its command id.

    The undos of the source take effect again too. If something was built meanwhile on events that they make void, the
    call is a ``ConflictError``, unless ``cascade`` takes that along. ``dry_run`` only lists, also what a cascade would
    take; ``exclusive`` as in ``distrust``.
    """
    reason = check_reason("reason", reason)
    check_text("source", source)

    def make(connection: Connection, head: int) -> ActPlan:
        in_effect = [distrust for distrust in control.distrusted(connection) if distrust.user == asker.user]
        matches = [distrust for distrust in in_effect if distrust.act == source]
        if not matches:
            about = find_source(engine, connection, asker.user, source, kind)
            matches = [match for match in in_effect if (match.kind, match.source) == (about.kind, about.name)]
        if not matches:
            raise NotFoundError(f"no distrust of {source!r:.60} is in effect for this user")
        ending = [distrust.act for distrust in matches]
        plan = undoing.back(connection, head, ending, cascade or dry_run)
        undone = voided_again(connection, ending) | set(plan.cascaded.positions)
        about = _whole([_as_source(distrust) for distrust in matches])
        memories = tuple(subject for subject in plan.streams if subject[0] == "m")
        back = {position for _, _, positions in plan.acts for position in positions}
        reader = Reader(connection)
        shown = receipts(reader, asker.user, memories, back)
        alternative = Alternative(reader, undone, back)
        changed, left = _observations_moved(engine, alternative, plan.streams)
        details = Details(about, memories, (), changed, left, shown)
        return replace(plan, details=_with_beliefs(details, alternative) if dry_run else details)

    def emit(work: Work, plan: ActPlan) -> None:
        bulk.check_size(plan.events, exclusive=exclusive)
        undoing.emit_back(work, plan, reason)

    done = undoing.act(
        engine, "history.trust", asker, make, emit, (source, kind, reason, *([cascade] if cascade else [])), dry_run
    )
    return _distrust_report(engine, done, asker.user, trusted=True)


def distrusted(engine: Engine, user: str, *, start: Start = NEWEST, limit: int = -1) -> list[answers.Distrusted]:
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


# --- who is meant --------------------------------------------------------------------------------------------


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
    start = _position("since", connection, since, now) if since is not None else 1
    end = _position("until", connection, until, now) if until is not None else None
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
        fits = event is not None and event.envelope.user == user and event.stream[0] == letter
        name = event.stream if event is not None and fits else None
    if name is None or name == NOWHERE:
        raise NotFoundError(f"no {kind} of this user is called {source!r:.60}")
    return name


def _observations_moved(
    engine: Engine, alternative: Alternative, streams: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the observations that will differ, and those of them that lose their last live source."""
    changed, unsupported = list[str](), list[str]()
    for now, then in alternative.observations(streams, engine.writer.now()):
        changed.append((now or then).id)  # type: ignore[union-attr]
        if then is not None and then.status == UNSUPPORTED and (now is None or now.status != UNSUPPORTED):
            unsupported.append(then.id)
    return tuple(changed), tuple(unsupported)


def _plan_of(
    engine: Engine, connection: Connection, head: int, plan: SourcePlan, source: DistrustTarget, user: str
) -> ActPlan:
    changed = plan.changed()
    memories = tuple(sorted(subject for subject in changed if subject[0] == "m"))
    gone = tuple(sorted(subject for subject in plan.gone if subject in changed))
    observed, left = _observations_moved(engine, Alternative(plan.reader, plan.out, plan.again), plan.streams)
    details = Details(
        source,
        memories,
        gone,
        receipts=receipts(plan.reader, user, plan.streams, plan.out, gone),
        observations=observed,
        unsupported=left,
    )
    acts = tuple((act, CommandUndone.__name__, tuple(control.voided_by(connection, act))) for act in plan.acts)
    return ActPlan(head, tuple(sorted(plan.out)), (), tuple(sorted(plan.streams)), acts=acts, details=details)


def source_plan(connection: Connection, user: str, source: DistrustTarget, reader: Reader | None = None) -> SourcePlan:
    reader = reader or Reader(connection)
    if source.kind in ("interaction", "document"):
        positions = (event.position for event, _ in reader.stream(source.name))
        last = source.until - 1 if source.until is not None else 2**62
        return SourcePlan(reader, [position for position in positions if source.since <= position <= last])
    sql = f"SELECT position FROM audit WHERE position BETWEEN ? AND ? AND user = ? AND {source.kind} = ? ORDER BY position"
    last = source.until - 1 if source.until is not None else 2**62
    base = [position for (position,) in connection.execute(sql, (source.since, last, user, source.name))]
    known = [source, *_known(connection, user)]
    return SourcePlan(
        reader, base, {origin.name for origin in known if origin.covers(DistrustTarget("session", origin.name))}
    )


def _known(connection: Connection, user: str) -> list[DistrustTarget]:
    """Return the distrusted sources of this user."""
    return [_as_source(distrust) for distrust in control.distrusted(connection) if distrust.user == user]


def _covering(connection: Connection, user: str, source: DistrustTarget) -> DistrustTarget | None:
    """Return a source under distrust that includes this source, or None."""
    return next((known for known in _known(connection, user) if known.covers(source)), None)


def _as_source(known: control.DistrustedSource) -> DistrustTarget:
    return DistrustTarget(known.kind, known.source or "", known.since, known.until)


def _whole(parts: list[DistrustTarget]) -> DistrustTarget:
    """Return what several distrusts of one source are about, from the first position to the last."""
    ends = [part.until for part in parts if part.until is not None]
    until = max(ends) if len(ends) == len(parts) else None
    return replace(parts[0], since=min(part.since for part in parts), until=until)


def _is_distrusted(work: Work, source: DistrustTarget) -> bool:
    return _covering(work.connection(), work.who.user, source) is not None


def _position(name: str, connection: Connection, bound: Position | Time, now: str) -> int:
    """Return the position of a bound: the position itself, or that of the first event recorded at or after a time."""
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
    """Record that the undos of the source are taken back."""
    for act, _, positions in plan.acts:
        for spans in bulk.parts(positions):
            work.emit(LEDGER_STREAM, CommandRedone(act, spans, reason))
