"""Legal holds: what is on hold cannot be erased, until the hold is lifted."""

from __future__ import annotations

from ledger import answers
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.events import LEDGER_STREAM, LegalHoldPlaced, LegalHoldReleased
from ledger.domain.text import check_text
from ledger.engine.engine import Engine
from ledger.engine.log_reading import read_event
from ledger.engine.snapshot import NOWHERE, named
from ledger.engine.work import Outcome, Who, Work
from ledger.erasure.planning import Asked, asked_for
from ledger.memories.given import check_reason
from projections.core.rows import Connection
from projections.views import audit, documents, erasures
from projections.views.erasures import Held

Places = list[tuple[int, str]]  # positions that are to be erased, each with its stream


def hold(
    engine: Engine,
    asker: Who,
    subject: str | None = None,
    reason: str = "",
    *,
    session: str | None = None,
    project: str | None = None,
    document: str | None = None,
) -> answers.Hold:
    """Keeps a memory, an interaction, a document, a session or a project (by id; the last three also by name or path)
    from being erased.

    Without a subject nothing of the user can be erased. What is on hold already stays as it is.
    """
    reason = check_reason("reason", reason)
    if subject is not None:
        check_text("subject", subject, max_bytes=1024)
    given = {"session": session, "project": project, "document": document}
    called = next(((kind, name) for kind, name in given.items() if name is not None), None)

    def held_stream(connection: Connection) -> str | None:
        if called is not None:
            return by_name(connection, asker.user, *called).subject
        return _subject(connection, subject, asker.user) if subject is not None else None

    def body(work: Work) -> str:
        stream = held_stream(work.connection())
        if any(each.subject == stream for each in erasures.holds(work.connection(), asker.user)):
            work.absorbed = True
        else:
            work.emit(LEDGER_STREAM, LegalHoldPlaced(stream, reason))
        return LEDGER_STREAM

    outcome = engine.writer.run("holds.add", asker, body, (subject or called, reason))
    with engine.reading() as connection:
        stream = held_stream(connection)
        held = next((each for each in erasures.holds(connection, asker.user) if each.subject == stream), None)
        if held is None:
            raise NotFoundError("the hold was lifted meanwhile")
        return _shown(connection, held, outcome)


def lift_hold(
    engine: Engine, asker: Who, hold: str | None = None, reason: str = "", *, by_id: bool = False
) -> answers.Hold:
    """Ends a hold, by its id or, unless ``by_id``, by what is held; without either, the one on the whole user."""
    reason = check_reason("reason", reason)
    if hold is not None or by_id:
        check_text("hold", hold, max_bytes=1024)
    lifted: list[answers.Hold] = []

    def body(work: Work) -> str:
        connection = work.connection()
        held = {each.act: each for each in erasures.holds(connection, asker.user)}
        found = held.get(hold or "")
        if found is None and not by_id:
            stream = _subject(connection, hold, asker.user) if hold is not None else None
            found = next((each for each in held.values() if each.subject == stream), None)
        if found is None:
            what = f"called {hold!r:.60}" if hold is not None else "on all of this user"
            raise NotFoundError(f"there is no hold {what}; holds.list() lists them")
        lifted.append(_shown(connection, found, None))
        work.emit(LEDGER_STREAM, LegalHoldReleased(found.act, reason))
        return LEDGER_STREAM

    outcome = engine.writer.run("holds.remove", asker, body, (hold, reason))
    return lifted[0] if lifted else _lifted(engine, outcome)


def _lifted(engine: Engine, outcome: Outcome) -> answers.Hold:
    """What a repeated command lifted the first time."""
    with engine.reading() as connection:
        event = read_event(connection, outcome.position)
        act = event.data.hold if event is not None else ""
        entry = next(each for each in audit.of_command(connection, act) if each.type == LegalHoldPlaced.__name__)
        placed = read_event(connection, entry.position)
        assert placed is not None
        held = Held(act, entry.position, placed.envelope.user, placed.data.subject)
        return _shown(connection, held, outcome)


def holds(engine: Engine, user: str, *, before: int | None = None, limit: int = -1) -> list[answers.Hold]:
    """The holds on this user's things, newest first; so many of them before a position."""
    with engine.reading() as connection:
        return [_shown(connection, held, None) for held in erasures.newest_holds(connection, user, before, limit)]


def by_name(connection: Connection, owner: str, kind: str, name: str) -> Asked:
    """A session or a project by its name, a document by its path; each by its id too."""
    if kind == "document":
        known = documents.known_as(connection, owner, check_text("document", name, max_bytes=4096), "")
        return Asked(kind, known.id) if known is not None else asked_for(connection, name, owner, only="d")
    found = named(connection, owner, kind[0], name)
    if found is None or found == NOWHERE:
        raise NotFoundError(f"no {kind} of this user is called {name!r:.60}")
    return Asked(kind, found)


def _subject(connection: Connection, given: str, user: str) -> str:
    """The id of what is to be held."""
    for kind in ("s", "p"):
        found = named(connection, user, kind, given)
        if found is not None and found != NOWHERE:
            return found
    stream = asked_for(connection, given, user, part="is held with its {whole}").subject
    assert stream is not None
    return stream


def _shown(connection: Connection, held: Held, outcome: Outcome | None) -> answers.Hold:
    event = read_event(connection, held.position)
    assert event is not None
    return answers.Hold(
        id=held.act,
        subject=held.subject,
        user=held.user,
        reason=event.data.reason,
        position=held.position,
        recorded_at=event.envelope.recorded_at,
        absorbed=outcome is not None and not outcome.events and not outcome.replayed,
        replayed=outcome is not None and outcome.replayed,
    )


def refuse_held(connection: Connection, user: str, places: Places) -> None:
    """``RejectedError`` when anything that is to be erased is on hold, by itself or with its project, session or user."""
    by_subject = {each.subject: each for each in erasures.holds(connection, user)}
    if not by_subject:
        return
    if None in by_subject:
        raise _refusal(by_subject[None], "all of this user")
    around = any(subject is not None and subject[0] in "ps" for subject in by_subject)
    for position, stream in places:
        entry = audit.at(connection, position) if around else None
        for subject in (stream, *((entry.project, entry.session) if entry is not None else ())):
            if subject is not None and subject in by_subject:
                raise _refusal(by_subject[subject], subject)


def _refusal(held: Held, what: str) -> RejectedError:
    return RejectedError(
        f"nothing was erased: {what} is on hold since position {held.position}; holds.remove({held.act!r}) would allow it",
        rule="hold",
        subject=held.subject,
    )
