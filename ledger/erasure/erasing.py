"""Erasure: the one act that removes text, itself an event that cannot be undone; the chain and the rest of each row stay.

The rows lose their texts in the transaction that records it, and the tables with them. Then the files are purged and
searched, and only then the erasure is completed; what a crash left pending is finished by whoever opens the ledger next.

An erasure is one append. That of a whole user is several erasures, one after the other, each complete in itself: whoever
stops it stops it between two of them, and the next call goes on where the last one stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from typing import TypeVar

from msgspec.structs import replace

from ledger import answers
from ledger.domain.errors import ConflictError, RejectedError
from ledger.domain.events import LEDGER_STREAM, AnyEvent, ContentErased, Redaction
from ledger.domain.quotes import Needles, excerpt
from ledger.domain.text import LIST_ITEMS, check_reason
from ledger.engine.engine import Engine
from ledger.engine.optimistic import Moved, optimistic
from ledger.engine.stopping import Stopping
from ledger.engine.who import Who
from ledger.engine.work import Body, Outcome, Work
from ledger.erasure import certificates, remaining
from ledger.erasure.asked import Asked, checked_choices, exceptions
from ledger.erasure.asked import asked as subject_of_erasure
from ledger.erasure.completing import finish_erasures, finished, remembered
from ledger.erasure.holding import refuse_held
from ledger.erasure.plan import LISTS, Listed, NothingLeft, Plan, check_decided, check_kept, check_reason_given
from ledger.erasure.planning import Planner
from ledger.erasure.redacting import redact
from ledger.erasure.rows import Rows, Span
from ledger.erasure.scanning import Scan
from ledger.policies import bulk
from ledger.types import Subject
from projections.views import audit

T = TypeVar("T")

USER_EVENTS = 20_000  # the most that one erasure takes of a whole user
EVENT_BYTES = 600_000  # about the most that one ContentErased takes
TEXTS = 4  # of one event that a dry run shows, those first in which something is marked
NOBODY = "no actor was given, so nobody is recorded as who erased: name one with actor=…"


def erase(
    engine: Engine,
    asker: Who,
    subject: Subject,
    reason: str,
    *,
    derived: str | None,
    sources: str | None,
    quotes: str | None,
    keep: Iterable[str | int],
    exclusive: bool,
    dry_run: bool,
    stopping: Stopping,
) -> answers.ErasureReport:
    """Removes the texts of a subject, of one event or of a whole user; a message goes with what was added to it and, of a
    captured turn, with its text in the interaction.

    A dry run lists what was ``derived`` from it (summaries of messages, and observations, too), its ``sources``, and the
    ``quotes``: other events of this user that say the same. Each list that is not empty needs a choice; nothing is written
    where one is missing. The report is "pending" until nothing was found in the files; ``finish_erasures`` and every open
    for writing try again; it is "stopped" where it had to end before everything was erased, and the same call goes on.
    """
    reason = check_reason("reason", reason)
    choices = checked_choices(derived=derived, sources=sources, quotes=quotes)
    if engine.writer.batching and not dry_run:
        raise ConflictError("erase() cannot run inside a batch, for it works on whole files; leave the batch first")
    with engine.reading() as connection:
        asked = subject_of_erasure(connection, subject, asker.user)
        kept = exceptions(connection, asker.user, keep)
    asker = _hiding(asker, asked)
    if dry_run:
        return _dry(engine, _plan(engine, asked, asker.user, choices, kept), asker)
    given = (asked, choices, sorted(map(str, kept)), reason)
    if asker.key is not None and (known := _repeated(engine, asker, given)) is not None:
        return known
    if asked.kind == "user" and len(parts := _parts(engine, asker.user)) > 1:
        return _erase_user(engine, parts, asker, choices, kept, reason, stopping)
    try:
        return _erase(engine, asked, asker, choices, kept, reason, given, stopping, exclusive)
    except _NotBegun as left:
        return _stopped(_empty(asked, asker), stopping.why, left.events)


class _NotBegun(Exception):
    """An erasure that had to end before it was recorded; of how many ``events``."""

    def __init__(self, events: int) -> None:
        super().__init__()
        self.events = events


def _parts(engine: Engine, user: str) -> list[tuple[Asked, int]]:
    """What is recorded of a user, in the order of the log, as so many erasures as it takes, each with how many events."""
    with engine.reading() as connection:
        sql = "SELECT position FROM audit WHERE user = ? ORDER BY position"
        found = [position for (position,) in connection.execute(sql, (user,))]
    ends = (found[start : start + USER_EVENTS] for start in range(0, len(found), USER_EVENTS))
    parts = [(Asked("user", first=part[0], last=part[-1]), len(part)) for part in ends]
    if (
        user and parts
    ):  # and what is written meanwhile; the erasures themselves are recorded for the user without a name
        last, events = parts[-1]
        parts[-1] = replace(last, last=Asked("user").last), events
    return parts


def _erase_user(
    engine: Engine,
    parts: Sequence[tuple[Asked, int]],
    asker: Who,
    choices: Mapping[str, str | None],
    kept: frozenset[str | int],
    reason: str,
    stopping: Stopping,
) -> answers.ErasureReport:
    """One erasure after the other, once nothing stands in the way of any."""
    left: list[tuple[Asked, int]] = []
    for part, events in parts:
        if stopping.why:
            return _stopped(_empty(part, asker), stopping.why, sum(number for _, number in parts))
        with suppress(NothingLeft):
            plan = _plan(engine, part, asker.user, choices, kept)
            check_reason_given(plan, reason)
            with engine.reading() as connection:
                refuse_held(connection, asker.user, [(target.position, target.stream) for target in plan.targets])
            left.append((part, events))
    if not left:
        raise NothingLeft
    done: list[answers.ErasureReport] = []
    with suppress(_NotBegun):
        for part, _ in left:
            done.append(_erase(engine, part, asker, choices, kept, reason, part, stopping))
    if not done:
        return _stopped(_empty(left[0][0], asker), stopping.why, sum(events for _, events in left))
    pending = next((each for each in done if each.state == "pending"), done[-1])
    report = replace(done[-1], earlier=tuple(done[:-1]), state=pending.state, why=pending.why)
    events = sum(events for _, events in left[len(done) :])
    return _stopped(report, stopping.why, events) if events else report


def _empty(asked: Asked, asker: Who) -> answers.ErasureReport:
    """Of an erasure that was not begun."""
    warnings = () if asker.actor else (NOBODY,)
    return answers.ErasureReport(state="", kind=asked.kind, subject=asked.subject, erased=(), warnings=warnings)


def _stopped(report: answers.ErasureReport, why: str, left: int) -> answers.ErasureReport:
    """What an erasure came to that had to end; the same call goes on with what is left."""
    text = f"{left:,} events were not looked at yet and hold their texts; the same call goes on with them"
    text = f"{report.why}; {text}" if report.why else text
    return replace(report, state="stopped", stopped=why, left=left, why=text)


def _erase(
    engine: Engine,
    asked: Asked,
    asker: Who,
    choices: Mapping[str, str | None],
    kept: frozenset[str | int],
    reason: str,
    given: object,
    stopping: Stopping,
    exclusive: bool = False,
) -> answers.ErasureReport:

    def planned() -> Plan:
        plan = _plan(engine, asked, asker.user, choices, kept)
        check_decided(plan)
        check_reason_given(plan, reason)
        if stopping.why:
            raise _NotBegun(len(plan.targets))
        return plan

    def decide(plan: Plan) -> tuple[Plan, Outcome]:
        return plan, engine.writer.run("erase", asker, partial(_decide, engine, plan, reason, exclusive), given)

    plan, outcome = optimistic(planned, decide)
    act = outcome.events[0].envelope.command_id
    engine.unsearched[act] = list(dict.fromkeys(text for target in plan.targets for text in target.texts))
    return finished(engine, _report(plan, asker, None), act, plan.names, plan.kept)


def _dry(engine: Engine, plan: Plan, asker: Who) -> answers.ErasureReport:
    """The lists with their texts, what would stay, and whether a hold would be in the way."""
    with engine.reading() as connection:
        stays, total = remaining.planned(connection, plan, asker.user)
        scan = Scan(text for target in plan.targets for text in target.texts)
        own = remaining.own_tables(connection, scan, {piece for piece, _, _ in scan.patterns})
        report = _report(plan, asker, Rows(connection))
        report = replace(report, remaining=stays, remaining_total=total, own_tables=tuple(sorted(own)))
        try:
            refuse_held(connection, asker.user, [(target.position, target.stream) for target in plan.targets])
        except RejectedError as refusal:
            return replace(report, why=str(refusal))
    return report


def _plan(
    engine: Engine, asked: Asked, owner: str, choices: Mapping[str, str | None], kept: frozenset[str | int]
) -> Plan:
    with engine.reading() as connection:
        plan = Planner(connection, owner, choices, kept).plan(asked)
    check_kept(plan, kept)
    return plan


# --- what is asked -------------------------------------------------------------------------------------------


def _repeated(engine: Engine, asker: Who, given: object) -> answers.ErasureReport | None:
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
        return replace(remembered(engine, connection, entry.command_id), replayed=True)


# --- under the lock ------------------------------------------------------------------------------------------


def _decide(engine: Engine, plan: Plan, reason: str, exclusive: bool, work: Work) -> str:
    connection, owner = work.connection(), work.who.user
    since = Rows(connection).since(plan.head)
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
    work.afterwards.append(lambda events: redact(engine, work.transaction, events))


# --- completion ----------------------------------------------------------------------------------------------


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
        texts = [text for _, data in left for text in Rows(connection).texts_gone(data.targets)]
    for event, data in left:
        outcome = engine.writer.run("erase", _who_again(event), _again(engine, event, data))
        act = outcome.events[0].envelope.command_id
        engine.unsearched[act] = texts
        applied += 1
    if left:
        finish_erasures(engine)
    return applied


def _again(engine: Engine, event: AnyEvent, data: ContentErased) -> Body:
    def body(work: Work) -> str:
        work.user = event.envelope.user
        work.emit(LEDGER_STREAM, data)
        work.afterwards.append(lambda events: redact(engine, work.transaction, events))
        return LEDGER_STREAM

    return body


def _who_again(event: AnyEvent) -> Who:
    return Who(user=event.envelope.user or "", actor=event.envelope.actor or "", client="certificate")


def _hiding(asker: Who, asked: Asked) -> Who:
    """Who erases; of a whole user nothing may name that user again."""
    if asked.kind != "user":
        return asker
    if asker.key is not None:
        raise RejectedError("the erasure of a whole user has no idempotency_key, for a key is one of the user's")
    hidden = {name: "" for name in ("actor", "agent", "client") if getattr(asker, name) == asker.user}
    return replace(asker, **hidden)


# --- rows ------------------------------------------------------------------------------------------------------------


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


def _lists(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + LIST_ITEMS] for start in range(0, len(items), LIST_ITEMS))


# --- what is given, and what comes back --------------------------------------------------------------------------------------


def _report(plan: Plan, asker: Who, rows: Rows | None) -> answers.ErasureReport:
    """The lists; of a dry run, which gives the ``rows``, with their texts."""
    spans = {target.position: target.spans for target in plan.targets if target.spans}
    erased, derived, sources, quotes = (
        tuple(
            _shown(each, spans.get(each.row.position, ()), rows, plan.needles if name == "quotes" else Needles(()))
            for each in plan.lists[name]
        )
        for name in ("erased", *LISTS)
    )
    return answers.ErasureReport(
        state="dry run" if rows is not None else "pending",
        kind=plan.asked.kind,
        subject=plan.asked.subject,
        position=plan.head,
        erased=erased,
        derived=derived,
        sources=sources,
        quotes=quotes,
        warnings=() if asker.actor else (NOBODY,),
    )


def _shown(listed: Listed, spans: tuple[Span, ...], rows: Rows | None, quoted: Needles) -> answers.Erased:
    row, marked, plain = listed.row, list[str](), list[str]()
    for part in row.parts if rows is not None else ():
        black = [(first, last) for field, first, last in spans if field == part.field]
        given = rows.texts(part) if rows is not None and part.field in listed.fields else ()
        for text in given:
            here = black or quoted.spans(text) or ()
            (marked if here else plain).append(excerpt(text, here))
    return answers.Erased(
        position=row.position,
        subject=row.stream,
        type=row.type,
        fields=listed.fields,
        choice=listed.choice,
        spans=spans,
        excerpt=" | ".join([*marked, *plain][:TEXTS]) if rows is not None else None,
    )
