"""Erasure: the one act that removes text, itself an event that cannot be undone; the chain and the rest of each row stay.

The rows lose their texts in the transaction that records it, and the tables with them. Then the files are purged and
searched, and only then the erasure is completed; what a crash left pending is finished by whoever opens the ledger next.

An erasure is one append. That of a whole user is several erasures, one after the other, each complete in itself: the next
call goes on where the last one stopped.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from typing import Any

from msgspec.structs import replace

from ledger import answers
from ledger.domain import erasure
from ledger.domain.errors import ConflictError, DamagedError, LedgerError, NotFoundError, RejectedError
from ledger.domain.events import (
    LEDGER_STREAM,
    LIST_ITEMS,
    AnyEvent,
    ContentErased,
    ErasureCompleted,
    OriginDistrusted,
    Redaction,
)
from ledger.domain.ids import is_prefix
from ledger.domain.text import check_text
from ledger.engine.engine import Engine
from ledger.engine.log_reading import Reading, find_row, read_event, read_stream
from ledger.engine.optimistic import Moved, optimistic
from ledger.engine.work import Outcome, Who, Work
from ledger.erasure import certificates, conversations
from ledger.erasure.holding import by_name, refuse_held
from ledger.erasure.planning import CHOICES, LISTS, Asked, Listed, NothingLeft, Plan, Planner, asked_for
from ledger.erasure.purging import Purge, Purging
from ledger.memories.given import check_reason
from ledger.policies import bulk
from ledger.store import lease
from ledger.store.event_store import Transaction
from projections.core import refolding
from projections.core.projector import ESSENTIAL, FAMILIES
from projections.core.rows import Connection
from projections.search import vectors
from projections.views import audit, erasures

USER_EVENTS = 20_000  # the most that one erasure takes of a whole user
EVENT_BYTES = 600_000  # about the most that one ContentErased takes
LEASE_SECONDS = 600.0
NOTHING: Any = object()
_log = logging.getLogger(__name__)

Span = tuple[str, int, int]


def erase(
    engine: Engine,
    asker: Who,
    subject: str | int = NOTHING,
    reason: str = "",
    *,
    session: str | None = None,
    project: str | None = None,
    document: str | None = None,
    derived: str | None = None,
    sources: str | None = None,
    quotes: str | None = None,
    keep: Iterable[str | int] = (),
    fields: Iterable[str] = (),
    spans: Iterable[Span] = (),
    exclusive: bool = False,
    dry_run: bool = False,
) -> answers.ErasureReport:
    """Removes texts for good: of a memory, an observation, an interaction, a document, a session or a project by its id
    (the last three by path or name too).

    A message goes by its position, with what was added to it and, of a captured turn, its text in the interaction; a
    summary by its id. ``erase(user="ada")``, with nothing else named, erases everything of that user and the user's name.
    A position erases that one event; of it, ``fields`` go whole ("data.reason", "actor") and ``spans`` are (field, start,
    end).

    A dry run lists what was ``derived`` from it (summaries of messages, and observations, too), its ``sources``, and the
    ``quotes``: other events of this user that say the same. Of each list that is not empty you say what happens: "erase",
    "cut" (only what repeats it is blacked out) or "keep"; ``keep`` names ids and positions that stay whatever is said.
    Nothing is written where a choice is missing. More than 50,000 events are ``RejectedError`` unless it is ``exclusive``:
    nobody else can write until it is done. A whole user goes in erasures of at most 20,000 events, each complete; the report
    is the last one's, with the ``earlier`` ones, and a call that was cut short is made again.

    ``RejectedError`` for what is on hold, or was erased already; ``NotFoundError`` for what is none of this
    user's. The report is
    "pending" until nothing was found in the files; ``finish_erasures()`` and every open for writing try again.
    """
    reason = check_reason("reason", reason)
    choices = _choices(derived=derived, sources=sources, quotes=quotes)
    kept = _kept(keep)
    if engine.writer.batching and not dry_run:
        raise ConflictError("erase() cannot run inside a batch, for it works on whole files; leave the batch first")
    with engine.reading() as connection:
        of_one = (_several("fields", fields), _several("spans", spans))
        asked = _asked(connection, subject, {"session": session, "project": project, "document": document},
                            *of_one, asker)  # fmt: skip
        kept = frozenset(_kept_whole(connection, asker.user, each) for each in kept)
    if dry_run:
        return _dry(engine, _plan(engine, asked, asker.user, choices, kept), asker.user)
    asker = _teller(asker, asked)
    given = (asked, choices, sorted(map(str, kept)), reason)
    if asker.key is not None and (known := _repeated(engine, asker, given)) is not None:
        return known
    if asked.kind == "user" and len(parts := _parts(engine, asker.user)) > 1:
        return _erase_user(engine, parts, asker, choices, kept, reason)
    return _erase(engine, asked, asker, choices, kept, reason, given, exclusive)


def _parts(engine: Engine, user: str) -> list[Asked]:
    """What is recorded of a user, in the order of the log, as so many erasures as it takes."""
    with engine.reading() as connection:
        sql = "SELECT position FROM audit WHERE user = ? ORDER BY position"
        found = [position for (position,) in connection.execute(sql, (user,))]
    ends = (found[start : start + USER_EVENTS] for start in range(0, len(found), USER_EVENTS))
    parts = [Asked("user", first=part[0], last=part[-1]) for part in ends]
    if (
        user and parts
    ):  # and what is written meanwhile; the erasures themselves are recorded for the user without a name
        parts[-1] = replace(parts[-1], last=Asked("user").last)
    return parts


def _erase_user(
    engine: Engine,
    parts: Sequence[Asked],
    asker: Who,
    choices: Mapping[str, str | None],
    kept: frozenset[str | int],
    reason: str,
) -> answers.ErasureReport:
    """One erasure after the other, once nothing stands in the way of any."""
    left: list[Asked] = []
    for part in parts:
        with suppress(NothingLeft):
            plan = _plan(engine, part, asker.user, choices, kept)
            _check_reason(plan, reason)
            with engine.reading() as connection:
                refuse_held(connection, asker.user, [(target.position, target.stream) for target in plan.targets])
            left.append(part)
    if not left:
        raise NothingLeft
    done: list[answers.ErasureReport] = []
    for part in left:
        done.append(_erase(engine, part, asker, choices, kept, reason, part))
    pending = next((each for each in done if each.state == "pending"), done[-1])
    return replace(done[-1], earlier=tuple(done[:-1]), state=pending.state, why=pending.why)


def _erase(
    engine: Engine,
    asked: Asked,
    asker: Who,
    choices: Mapping[str, str | None],
    kept: frozenset[str | int],
    reason: str,
    given: Any,
    exclusive: bool = False,
) -> answers.ErasureReport:

    def planned() -> Plan:
        plan = _plan(engine, asked, asker.user, choices, kept)
        _check_decided(plan)
        _check_reason(plan, reason)
        return plan

    def decide(plan: Plan) -> tuple[Plan, Outcome]:
        return plan, engine.writer.run("erase", asker, partial(_decide, engine, plan, reason, exclusive), given)

    plan, outcome = optimistic(planned, decide)
    act = outcome.events[0].envelope.command_id
    engine.unsearched[act] = list(dict.fromkeys(text for target in plan.targets for text in target.texts))
    return _finished(engine, _report(plan, "pending"), act)


def _dry(engine: Engine, plan: Plan, owner: str) -> answers.ErasureReport:
    """The lists, and whether a hold would be in the way."""
    with engine.reading() as connection:
        try:
            refuse_held(connection, owner, [(target.position, target.stream) for target in plan.targets])
        except RejectedError as refusal:
            return replace(_report(plan, "dry run"), why=str(refusal))
    return _report(plan, "dry run")


def _plan(
    engine: Engine, asked: Asked, owner: str, choices: Mapping[str, str | None], kept: frozenset[str | int]
) -> Plan:
    with engine.reading() as connection:
        plan = Planner(connection, owner, choices, kept).plan(asked)
    _check_kept(plan, kept)
    return plan


# --- what is asked -------------------------------------------------------------------------------------------


def _asked(
    connection: Connection,
    subject: Any,
    given: Mapping[str, str | None],
    fields: tuple[str, ...],
    spans: tuple[Span, ...],
    asker: Who,
) -> Asked:
    owner = asker.user
    called = [(kind, name) for kind, name in given.items() if name is not None]
    count = (subject is not NOTHING) + len(called)
    if count > 1:
        raise RejectedError(
            "an erasure names one thing: an id, a position, session=, project=, document=, or a whole user by user="
        )
    if (fields or spans) and not isinstance(subject, int):
        raise RejectedError("fields and spans are those of one event, which is named by its position")
    if not count:
        return Asked("user")
    if called:
        return by_name(connection, owner, *called[0])
    if isinstance(subject, int) and not isinstance(subject, bool):
        event = read_event(connection, subject) if 0 < subject < 2**63 else None
        if event is None or event.envelope.user != owner or event.position == 1:
            raise NotFoundError(f"no event of this user is at position {subject}")
        return Asked("event", event.stream, subject, _fields(fields), _spans(spans))
    if (place := _summary_at(connection, owner, subject)) is not None:
        return Asked("event", place[0], place[1])
    return asked_for(connection, check_text("what to erase", subject, max_bytes=1024), owner)


def _repeated(engine: Engine, asker: Who, given: Any) -> answers.ErasureReport | None:
    """What this key was used for, if it was."""

    def nothing(work: Work) -> str:
        raise Moved

    try:
        outcome = engine.writer.run("erase", asker, nothing, given)
    except Moved:
        return None
    with engine.reading() as connection:
        entry = audit.at(connection, outcome.position)
        assert entry is not None
        return replace(_remembered(engine, connection, entry.command_id), replayed=True)


# --- under the lock ------------------------------------------------------------------------------------------


def _decide(engine: Engine, plan: Plan, reason: str, exclusive: bool, work: Work) -> str:
    connection, owner = work.connection(), work.who.user
    since = Planner(connection, owner, {}, ()).since(plan.head)
    if any(plan.concerns(row, user, owner) for row, user in since):
        raise Moved
    refuse_held(connection, owner, [(target.position, target.stream) for target in plan.targets])
    if plan.asked.kind == "user":
        work.user = None if owner else owner
    bulk.check_size(len(plan.targets), exclusive=exclusive)
    _emit(engine, work, plan, reason)
    return LEDGER_STREAM


def _emit(engine: Engine, work: Work, plan: Plan, reason: str) -> None:
    asked, redactions = plan.asked, [each.redaction for each in plan.targets]
    lists = zip_longest(_chunks(redactions), _lists(plan.blobs), _lists(plan.kept), fillvalue=())
    for targets, blobs, kept in lists:
        data = ContentErased(asked.kind, asked.subject, tuple(targets), tuple(blobs), tuple(kept), reason)
        work.emit(LEDGER_STREAM, data)
    work.afterwards.append(lambda events: _redact(engine, work.transaction, events))


def _redact(engine: Engine, transaction: Transaction, events: Iterable[AnyEvent]) -> None:
    """The rows lose what the events say they lose, and the tables say what the log says now; all in one transaction."""
    erased = [event for event in events if isinstance(event.data, ContentErased)]
    by = {target.position: (event.position, target) for event in erased for target in event.data.targets}
    writer, connection = engine.writer, transaction.connection
    blob = Reading(lambda: connection).blob
    before = refolding.Fold(writer.secret, _concerned(connection, by), writer.projector.suspended, blob)
    for position, (at, target) in by.items():
        _redact_row(transaction, position, at, target)
    for event in erased:
        for each in event.data.blobs:
            transaction.erase_blob(each, event.position)
    after = refolding.Fold(writer.secret, _concerned(connection, by), writer.projector.suspended, blob)
    refolding.replace(connection, writer.rows, before, after)
    writer.rows.flush()
    gone = vectors.purge(connection, before.rows, after.rows, writer.projector.suspended)
    engine.erased_vectors |= dict.fromkeys(gone)
    refolding.empty(connection, writer.secret, writer.projector.suspended)
    writer.projector.forget()
    writer.forget_names()
    # A rebuild under way has folded the texts into tables of its own: it ends, and they are dropped.
    connection.execute("DELETE FROM leases WHERE work = 'rebuild'")
    lease.hold(connection, "erase", f"{os.getpid()}-erase", LEASE_SECONDS)


# --- completion ----------------------------------------------------------------------------------------------


def finish_erasures(engine: Engine) -> list[answers.ErasureReport]:
    """Tries again to purge and search what is pending, and says how each stands."""
    with engine.reading() as connection:
        acts = [each.act for each in erasures.pending(connection)]
    found = []
    for act in acts:
        with engine.reading() as connection:
            report = _remembered(engine, connection, act)
        found.append(_finished(engine, report, act))
    return found


def reports(engine: Engine, *, before: int | None = None, limit: int = -1) -> list[answers.ErasureReport]:
    """Every erasure of this ledger, newest first, with its certificate; the users' names are in none."""
    with engine.reading() as connection:
        return [_remembered(engine, connection, each.act) for each in erasures.newest(connection, before, limit)]


def all_certificates(engine: Engine) -> list[str]:
    """The certificates of all erasures, oldest first; they are kept apart from the backups, and ``recover`` takes them."""
    return [each.certificate for each in reports(engine)[::-1] if each.certificate is not None]


def _finished(engine: Engine, report: answers.ErasureReport, act: str) -> answers.ErasureReport:
    texts, raw = engine.unsearched.get(act), list(engine.erased_vectors)
    try:
        purge = Purging(engine.store, engine.writer, engine.created.ledger_id).run(texts, raw)
    except LedgerError as error:  # the texts are gone from the log; that their remains are left is no refusal
        purge = Purge(str(error))
    if purge.why:
        _log.warning("the erasure %s is pending: what it erased may still lie in the files", act)
    else:
        for each in raw:
            engine.erased_vectors.pop(each, None)
        _complete(engine, act, purge)
    with engine.reading() as connection:
        known = _remembered(engine, connection, act)
    return replace(
        report,
        state=known.state,
        why=purge.why,
        command_id=act,
        position=known.position,
        certificate=known.certificate,
        searched=purge.searched,
        bytes_searched=purge.bytes_searched,
        files=purge.files,
        hits=purge.hits,
    )


def _complete(engine: Engine, act: str, purge: Purge) -> None:
    def body(work: Work) -> str:
        connection = work.connection()
        begun = next((each for each in erasures.pending(connection) if each.act == act), None)
        if begun is not None:
            event = read_event(connection, begun.position)
            work.user = event.envelope.user if event is not None else None
            work.emit(LEDGER_STREAM, ErasureCompleted(act, purge.searched, purge.bytes_searched, purge.hits))
            connection.execute("DELETE FROM leases WHERE work = 'erase'")
        return LEDGER_STREAM

    engine.writer.run("erase", Who(actor="ledger"), body)
    engine.unsearched.pop(act, None)
    _log.info("the erasure %s is completed", act)


def purge_what_a_crash_left(engine: Engine) -> None:
    """Erasures whose remains were not purged are completed, unless the projection that has them is suspended."""
    with engine.store.snapshot() as connection:
        if _is_suspended(connection):
            return
        waiting = erasures.pending(connection)
        if not waiting or _under_way(connection):
            return
    purging = Purging(engine.store, engine.writer, engine.created.ledger_id)
    if not purging.run(None).why:
        for each in waiting:
            _complete(engine, each.act, Purge(""))


def _remembered(engine: Engine, connection: Connection, act: str) -> answers.ErasureReport:
    """What the log says of an erasure."""
    issued = certificates.issue(connection, engine.created.ledger_id, engine.writer.mac, act)
    certificate = certificates.read(issued, engine.created.ledger_id, engine.writer.mac)
    if (entry := erasures.of(connection, act)) is None or not certificate.events:
        raise DamagedError(erasures.ERASURES.name, act, "it names no erasure of the log")
    done = read_event(connection, entry.completed_at) if entry.completed_at is not None else None
    if done is not None and not isinstance(done.data, ErasureCompleted):
        raise DamagedError(erasures.ERASURES.name, act, "the event that it names completes no erasure")
    first: ContentErased = certificate.events[0].data
    listed = tuple(_erased(connection, target) for event in certificate.events for target in event.data.targets)
    why = "" if done is not None else "what was erased may still lie in the files; erasures.finish() tries again"
    return answers.ErasureReport(
        state="completed" if done is not None else "pending",
        kind=first.kind,
        subject=first.subject,
        erased=listed,
        certificate=issued,
        why=why,
        command_id=act,
        position=entry.position,
        searched=done.data.searched if done is not None else (),
        bytes_searched=done.data.bytes_searched if done is not None else 0,
        hits=done.data.hits if done is not None else 0,
    )


# --- certificates ------------------------------------------------------------------------------------------------


def apply_certificates(engine: Engine, given: Iterable[str]) -> int:
    """Erases in a ledger that came back from an older backup what was erased since; how many acts it took.

    What a certificate names must be as it was before that erasure, or as it was after it. Otherwise, and for a certificate
    of another ledger or one that was changed, ``RejectedError``, with nothing erased.
    """
    read = [certificates.read(each, engine.created.ledger_id, engine.writer.mac) for each in given]
    applied = 0
    with engine.reading() as connection:
        left = certificates.outstanding(connection, read)
        planner = Planner(connection, "", {}, ())
        texts = [text for _, data in left for text in planner.texts_gone(data.targets)]
    for event, data in left:
        outcome = engine.writer.run("erase", _who_again(event), _again(engine, event, data))
        act = outcome.events[0].envelope.command_id
        engine.unsearched[act] = texts
        applied += 1
    if left:
        finish_erasures(engine)
    return applied


def _again(engine: Engine, event: AnyEvent, data: ContentErased) -> Any:
    def body(work: Work) -> str:
        work.user = event.envelope.user
        work.emit(LEDGER_STREAM, data)
        work.afterwards.append(lambda events: _redact(engine, work.transaction, events))
        return LEDGER_STREAM

    return body


def _who_again(event: AnyEvent) -> Who:
    return Who(user=event.envelope.user or "", actor=event.envelope.actor or "", client="certificate")


def _teller(asker: Who, asked: Asked) -> Who:
    """Who erases; of a whole user nothing may name that user again."""
    if asked.kind != "user":
        return asker
    if asker.key is not None:
        raise RejectedError("the erasure of a whole user has no idempotency_key, for a key is one of the user's")
    hidden = {name: "" for name in ("actor", "agent", "client") if getattr(asker, name) == asker.user}
    return replace(asker, **hidden)


# --- rows ------------------------------------------------------------------------------------------------------------


def _redact_row(transaction: Transaction, position: int, at: int, target: Redaction) -> None:
    sql = "SELECT type, state FROM events WHERE position = ?"
    type_, state = transaction.connection.execute(sql, (position,)).fetchone()
    after = erasure.redacted(type_, state, target.fields, target.spans)
    if (erasure.digest(state), erasure.digest(after)) != (target.before, target.after):
        raise ConflictError(f"position {position} was erased by somebody else meanwhile; nothing was erased, try again")
    transaction.redact(position, after, at)


def _concerned(connection: Connection, positions: Iterable[int]) -> list[AnyEvent]:
    """Whatever the rows of these events follow from: their streams, and the acts that made any of it void and back."""
    found: dict[int, AnyEvent] = {}
    for position in positions:
        if position not in found:
            event = read_event(connection, position)
            assert event is not None
            events = read_stream(connection, event.stream, 2**62) if event.stream != LEDGER_STREAM else [event]
            found |= {each.position: each for each in events}
    acts = refolding.acts_on(connection, found)
    for event in list(found.values()):
        if isinstance(event.data, OriginDistrusted):
            acts |= refolding.ends_of_distrust(connection, event.envelope.command_id)
    for position in acts:
        event = read_event(connection, position)
        assert event is not None
        found.setdefault(position, event)
    return list(found.values())


def _is_suspended(connection: Connection) -> bool:
    """Whether a projection is suspended by which it is decided what is left to do."""
    needed = (*ESSENTIAL, "erasures")
    found = connection.execute("SELECT name FROM projections WHERE suspended_at IS NOT NULL").fetchall()
    return any(name in needed for (name,) in found)


def _under_way(connection: Connection) -> bool:
    """Whether the process that erased is still at it."""
    holder = lease.holder_of(connection, "erase")
    return holder is not None and not holder.startswith(f"{os.getpid()}-")


# --- what is written down ------------------------------------------------------------------------------------------------


def _chunks(redactions: Sequence[Redaction]) -> Iterator[list[Redaction]]:
    chunk: list[Redaction] = []
    size = 0
    for each in redactions:
        takes = 220 + 40 * len(each.fields) + 50 * len(each.spans)
        if chunk and (len(chunk) == LIST_ITEMS or size + takes > EVENT_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(each)
        size += takes
    if chunk:
        yield chunk


def _lists(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (items[start : start + LIST_ITEMS] for start in range(0, len(items), LIST_ITEMS))


# --- what is given, and what comes back --------------------------------------------------------------------------------------


def _choices(**given: str | None) -> dict[str, str | None]:
    for name, choice in given.items():
        if choice is not None and choice not in CHOICES:
            raise RejectedError(f"{name} is one of {', '.join(CHOICES)}, and {choice!r:.40} is not")
    return given


def _kept(given: Iterable[str | int]) -> frozenset[str | int]:
    kept = (given,) if isinstance(given, str | int) else tuple(given)
    for each in kept:
        if isinstance(each, bool) or not isinstance(each, str | int):
            raise RejectedError(f"keep takes ids and positions, and {each!r:.40} is neither")
    return frozenset(kept)


def _kept_whole(connection: Connection, owner: str, given: str | int) -> str | int:
    """What ``keep`` names, an id by an unambiguous prefix as a whole one: what is not found must not be erased for it."""
    if isinstance(given, int):
        return given
    if (place := _summary_at(connection, owner, given)) is not None:
        return place[1]
    row = find_row(connection, given, given[:1], owner) if given[:1] in FAMILIES else None
    event = read_event(connection, row) if row is not None else None
    if event is None:
        raise NotFoundError(f"keep names {given!r:.60}, and nothing of this user has that id")
    return event.stream


def _summary_at(connection: Connection, owner: str, given: Any) -> tuple[str, int] | None:
    """(session, position) of the event that has the text of a summary, by its id."""
    if not isinstance(given, str) or not is_prefix(given, "y"):
        return None
    position = conversations.place_of(connection, given)
    event = read_event(connection, position) if position is not None else None
    return (event.stream, event.position) if event is not None and event.envelope.user == owner else None


def _check_kept(plan: Plan, kept: frozenset[str | int]) -> None:
    listed = {place for name in LISTS for each in plan.lists[name] for place in (each.row.position, each.row.stream)}
    if strange := sorted(map(str, kept - listed)):
        raise RejectedError(f"keep names {strange[0]:.60}, which is in none of the lists; a dry run shows them")


def _several(name: str, given: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise RejectedError(f"{name} are several, in a list, and {given!r:.40} is not")
    return tuple(given)


def _fields(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(check_text("a field", each, max_bytes=1024) for each in given)


def _spans(given: tuple[Span, ...]) -> tuple[Span, ...]:
    for each in given:
        if not isinstance(each, tuple | list) or len(each) != 3 or [type(part) for part in each] != [str, int, int]:
            raise RejectedError(f"a span is (field, start, end) in characters, and {each!r:.60} is not")
    return tuple((field, first, last) for field, first, last in given)


def _check_decided(plan: Plan) -> None:
    if undecided := plan.undecided:
        listed = ", ".join(f"{name} ({count} event{'s' * (count != 1)})" for name, count in undecided.items())
        choices = ", ".join(f"{name}=" for name in undecided)
        raise RejectedError(
            f"nothing was erased: others hold what is to go, and nobody said what becomes of them: {listed}; "
            f"look at them with dry_run, then give {choices} as one of {', '.join(CHOICES)}, and keep= for exceptions"
        )


def _check_reason(plan: Plan, reason: str) -> None:
    if plan.needles.found(reason):
        raise RejectedError("nothing was erased: the reason says what is to be erased, and it stays in the log")


def _report(plan: Plan, state: str) -> answers.ErasureReport:
    erased, derived, sources, quotes = (
        tuple(_shown(each, state) for each in plan.lists[name]) for name in ("erased", *LISTS)
    )
    return answers.ErasureReport(
        state=state,
        kind=plan.asked.kind,
        subject=plan.asked.subject,
        position=plan.head,
        erased=erased,
        derived=derived,
        sources=sources,
        quotes=quotes,
    )


def _shown(listed: Listed, state: str) -> answers.Erased:
    return answers.Erased(
        position=listed.row.position,
        subject=listed.row.stream,
        type=listed.row.type,
        fields=listed.fields,
        choice=listed.choice,
        excerpt=listed.excerpt if state == "dry run" else None,
    )


def _erased(connection: Connection, target: Redaction) -> answers.Erased:
    entry = audit.at(connection, target.position)
    fields = tuple(dict.fromkeys((*target.fields, *(field for field, _, _ in target.spans))))
    return answers.Erased(
        position=target.position,
        subject=entry.subject if entry is not None else "",
        type=entry.type if entry is not None else "",
        fields=fields,
        choice="cut" if target.spans and not target.fields else "erase",
    )
