"""Legal holds: a subject on hold cannot be erased until the hold is lifted."""

from __future__ import annotations

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.reads import read_event
from ledger.core.work import Outcome, Work
from ledger.domain.errors import DamagedError, NotFoundError, RejectedError
from ledger.domain.text import check_reason, check_text
from ledger.erasure import answers
from ledger.erasure.asked import request_for_subject
from ledger.events import LEDGER_STREAM, LegalHoldPlaced, LegalHoldReleased
from ledger.types import EVERYTHING, DocumentPath, Project, SessionName, Subject
from projections.core.rows import NEWEST, Connection, Start
from projections.views import audit, erasures, observations, projects
from projections.views.erasures import HoldRow

Places = list[tuple[int, str]]  # the positions that an erasure would take, each with its stream


def hold(engine: Engine, asker: Who, subject: Subject, reason: str) -> answers.Hold:
    """Keep a subject from being erased; ``EVERYTHING`` keeps all of the user.

    A subject that is on hold already stays as it is.
    """
    reason = check_reason("reason", reason)
    kinds: dict[type, str] = {Project: "project", SessionName: "session", DocumentPath: "document"}
    named = (kinds[type(subject)], *subject) if isinstance(subject, tuple) and type(subject) in kinds else subject

    def held_stream(connection: Connection) -> str | None:
        return request_for_subject(connection, subject, asker.user, "is held with its {whole}").subject

    def body(work: Work) -> str:
        stream = held_stream(work.connection())
        if any(hold_row.subject == stream for hold_row in erasures.holds(work.connection(), asker.user)):
            work.absorbed = True
        else:
            work.emit(LEDGER_STREAM, LegalHoldPlaced(stream, reason))
        return LEDGER_STREAM

    outcome = engine.writer.run("holds.add", asker, body, (named if subject is not EVERYTHING else None, reason))
    with engine.reading() as connection:
        stream = held_stream(connection)
        hold_row = next(
            (hold_row for hold_row in erasures.holds(connection, asker.user) if hold_row.subject == stream), None
        )
        if hold_row is None:
            raise NotFoundError("the hold was added, but lifted before it could be returned")
        return _shown(connection, hold_row, outcome)


def lift_hold(engine: Engine, asker: Who, hold: str, reason: str) -> answers.Hold:
    """End a hold."""
    reason = check_reason("reason", reason)
    check_text("hold", hold)
    lifted: list[answers.Hold] = []

    def body(work: Work) -> str:
        connection = work.connection()
        hold_row = next((hold_row for hold_row in erasures.holds(connection, asker.user) if hold_row.act == hold), None)
        if hold_row is None:
            raise NotFoundError(f"this user has no hold {hold!r:.60}; holds.list() lists the holds")
        lifted.append(_shown(connection, hold_row, None))
        work.emit(LEDGER_STREAM, LegalHoldReleased(hold_row.act, reason))
        return LEDGER_STREAM

    outcome = engine.writer.run("holds.remove", asker, body, (hold, reason))
    return lifted[0] if lifted else _lifted(engine, outcome)


def _lifted(engine: Engine, outcome: Outcome) -> answers.Hold:
    """Return the hold that a repeated command lifted the first time."""
    with engine.reading() as connection:
        event = read_event(connection, outcome.position)
        act = event.data.hold if event is not None else ""
        entries = audit.of_command(connection, act)
        entry = next((placing for placing in entries if placing.type == LegalHoldPlaced.__name__), None)
        placed = read_event(connection, entry.position) if entry is not None else None
        if entry is None or placed is None:
            raise DamagedError(audit.AUDIT.name, None, f"no command in the table placed the hold {act:.60}")
        hold_row = HoldRow(act, entry.position, placed.envelope.user, placed.data.subject)
        return _shown(connection, hold_row, outcome)


def holds(engine: Engine, user: str, *, start: Start = NEWEST, limit: int = -1) -> list[answers.Hold]:
    """Return the holds on this user's subjects, at most ``limit`` of them from ``start`` on."""
    with engine.reading() as connection:
        return [
            _shown(connection, hold_row, None) for hold_row in erasures.holds_listing(connection, user, start, limit)
        ]


def _shown(connection: Connection, hold_row: HoldRow, outcome: Outcome | None) -> answers.Hold:
    event = read_event(connection, hold_row.position)
    assert event is not None
    return answers.Hold(
        id=hold_row.act,
        subject=hold_row.subject,
        user=hold_row.user,
        reason=event.data.reason,
        position=hold_row.position,
        recorded_at=event.envelope.recorded_at,
        absorbed=outcome is not None and not outcome.events and not outcome.replayed,
        replayed=outcome is not None and outcome.replayed,
    )


def refuse_held(connection: Connection, user: str, places: Places) -> None:
    """Raise RejectedError if a subject of these events is on hold, or the project, session or user of an event or memory is."""
    by_subject = {hold_row.subject: hold_row for hold_row in erasures.holds(connection, user)}
    if not by_subject:
        return
    if None in by_subject:
        raise _refusal(by_subject[None], "all of this user")
    is_place_held = any(subject is not None and subject[0] in "ps" for subject in by_subject)
    for position, stream in places:
        entry = audit.at(connection, position) if is_place_held else None
        within = (*projects.together(connection, entry.project), entry.session) if entry is not None else ()
        if is_place_held and stream[0] == "m":  # a memory may belong to another project than its events
            within += projects.together(connection, observations.project_of(connection, stream))
        for subject in (stream, *within):
            if subject is not None and subject in by_subject:
                raise _refusal(by_subject[subject], subject)


def _refusal(hold_row: HoldRow, what: str) -> RejectedError:
    return RejectedError(
        f"nothing was erased: {what} is on hold since position {hold_row.position};"
        f" holds.remove({hold_row.act!r}) would allow it",
        rule="hold",
        subject=hold_row.subject,
    )
