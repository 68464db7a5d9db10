"""The erasure of texts, the only act that removes text.

An erasure is an event that cannot be undone. The hash chain and the rest of each row stay.

The rows lose their texts in the transaction that records the erasure, and so do the tables. Then the files are purged
and searched, and only then is the erasure completed. If a crash leaves an erasure pending, the next process that opens
the ledger finishes the erasure.

An erasure is one append. The erasure of a whole user is a series of erasures, each complete in itself. A stop takes
effect between two of them, and the next call continues after the last complete one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import TypeVar

from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.steps import PlanOutdated, Stopping, check_size, optimistic
from ledger.core.work import Body, Outcome, Work
from ledger.domain.errors import ConflictError, RejectedError
from ledger.domain.quotes import Needles, excerpt
from ledger.domain.text import LIST_ITEMS, check_reason, counted
from ledger.erasure import answers, certificates, remaining
from ledger.erasure.asked import ErasureChoices, ErasureRequest, checked_choices, exceptions, request_for
from ledger.erasure.completing import finish, finish_erasures, recorded_report
from ledger.erasure.holding import refuse_held
from ledger.erasure.plan import LISTS, ErasurePlan, Listed, NothingLeft, check_decided, check_kept, check_reason_given
from ledger.erasure.planning import ErasurePlanner
from ledger.erasure.redacting import redact
from ledger.erasure.rows import ErasureRows, Span
from ledger.erasure.scanning import Scan
from ledger.events import LEDGER_STREAM, AnyEvent, ContentErased, Redaction
from ledger.types import Subject
from projections.core.rows import Connection
from projections.views import audit

T = TypeVar("T")

USER_EVENTS = 20_000  # the most events of one erasure in the series that erases a whole user
EVENT_BYTES = 600_000  # about the largest size of one ContentErased event
TEXTS = 4  # the most texts of one event that a dry run shows; texts with marks come first
NOBODY = "no actor was given, so the log does not say who erased: name the actor with actor=…"


def erase(
    engine: Engine,
    asker: Who,
    subject: Subject,
    reason: str,
    erasure_choices: ErasureChoices,
    *,
    exclusive: bool,
    dry_run: bool,
    stopping: Stopping,
) -> answers.ErasureReport:
    """Remove the texts of a subject, of one event or of a whole user.

    A message is erased with its repairs and, if the message is part of a captured turn, with its text in the
    interaction.

    A dry run returns three lists: ``derived`` (memories, summaries and observations made from the subject), ``sources``
    (the subjects from which the subject was made), and ``quotes`` (other events of this user that repeat its text).
    Each list that is not empty needs a choice; without a choice nothing is written.

    The report is "pending" until a search of the files finds no text; ``finish_erasures`` and every open for writing
    try again. The report is "stopped" if the erasure had to end early; the same call continues the erasure.
    """
    reason = check_reason("reason", reason)
    choices = checked_choices(erasure_choices)
    if engine.writer.batching and not dry_run:
        raise ConflictError("erase() cannot run inside a batch, because it rewrites whole files; leave the batch first")
    with engine.reading() as connection:
        request = request_for(connection, subject, asker.user)
        kept = exceptions(connection, asker.user, erasure_choices.keep)
    asker = _without_erased_name(asker, request)
    if dry_run:
        with engine.reading() as connection:
            plan = _plan(connection, request, asker.user, choices, kept)
        return _dry_run(engine, plan, asker)
    arguments = (request, choices, sorted(map(str, kept)), reason)
    if asker.key is not None and (earlier_report := _repeated(engine, asker, arguments)) is not None:
        return earlier_report
    if request.kind == "user" and len(parts := _parts(engine, asker.user)) > 1:
        return _erase_user(engine, parts, asker, choices, kept, reason, stopping)
    try:
        return _erase(engine, request, asker, choices, kept, reason, arguments, stopping, exclusive)
    except _NotBegun as stop:
        return _stopped(_empty(request, asker), stopping.why, stop.events)


class _NotBegun(Exception):
    """An erasure that had to stop before anything was recorded, with the number of its events."""

    def __init__(self, events: int) -> None:
        super().__init__()
        self.events = events


def _parts(engine: Engine, user: str) -> list[tuple[ErasureRequest, int]]:
    """Return the events of a user as a series of erasures in the order of the log, each with its number of events.

    The last erasure has no end, so that it also takes the events that are written meanwhile. But the erasures of the
    user without a name are recorded for that user, so there the last erasure ends where the log ends now.
    """
    with engine.reading() as connection:
        sql = "SELECT position FROM audit WHERE user = ? ORDER BY position"
        positions = [position for (position,) in connection.execute(sql, (user,))]
    ends = (positions[start : start + USER_EVENTS] for start in range(0, len(positions), USER_EVENTS))
    parts = [(ErasureRequest("user", first=part[0], last=part[-1]), len(part)) for part in ends]
    if user and parts:
        last, events = parts[-1]
        parts[-1] = replace(last, last=ErasureRequest("user").last), events
    return parts


def _erase_user(
    engine: Engine,
    parts: Sequence[tuple[ErasureRequest, int]],
    asker: Who,
    choices: Mapping[str, str | None],
    kept: frozenset[str | int],
    reason: str,
    stopping: Stopping,
) -> answers.ErasureReport:
    """Run the erasures of a whole user one after the other; begin only if no hold and no reason prevents any of them."""
    waiting: list[tuple[ErasureRequest, int]] = []
    for part, events in parts:
        if stopping.why:
            return _stopped(_empty(part, asker), stopping.why, sum(number for _, number in parts))
        with suppress(NothingLeft), engine.reading() as connection:
            plan = _plan(connection, part, asker.user, choices, kept)
            check_reason_given(plan, reason)
            refuse_held(connection, asker.user, [(target.position, target.stream) for target in plan.targets])
            waiting.append((part, events))
    if not waiting:
        raise NothingLeft
    reports: list[answers.ErasureReport] = []
    with suppress(_NotBegun):
        for part, _ in waiting:
            reports.append(_erase(engine, part, asker, choices, kept, reason, part, stopping))
    if not reports:
        return _stopped(_empty(waiting[0][0], asker), stopping.why, sum(events for _, events in waiting))
    pending = next((report for report in reports if report.state == "pending"), reports[-1])
    report = replace(reports[-1], earlier=tuple(reports[:-1]), state=pending.state, why=pending.why)
    events = sum(events for _, events in waiting[len(reports) :])
    return _stopped(report, stopping.why, events) if events else report


def _empty(request: ErasureRequest, asker: Who) -> answers.ErasureReport:
    """Return the report of an erasure that did not begin."""
    warnings = () if asker.actor else (NOBODY,)
    return answers.ErasureReport(state="", kind=request.kind, subject=request.subject, erased=(), warnings=warnings)


def _stopped(report: answers.ErasureReport, why: str, left: int) -> answers.ErasureReport:
    """Return the report of an erasure that stopped with ``left`` events still to do."""
    hold = f"{counted(left, 'event')} still {'holds its text' if left == 1 else 'hold their texts'}"
    text = f"{hold}; the same call continues with {'it' if left == 1 else 'them'}"
    text = f"{report.why}; {text}" if report.why else text
    return replace(report, state="stopped", stopped=why, left=left, why=text)


def _erase(
    engine: Engine,
    request: ErasureRequest,
    asker: Who,
    choices: Mapping[str, str | None],
    kept: frozenset[str | int],
    reason: str,
    arguments: object,
    stopping: Stopping,
    exclusive: bool = False,
) -> answers.ErasureReport:

    plans: list[ErasurePlan] = []

    def plan_on(connection: Connection) -> ErasurePlan:
        plan = _plan(connection, request, asker.user, choices, kept)
        check_decided(plan)
        check_reason_given(plan, reason)
        if stopping.why:
            raise _NotBegun(len(plan.targets))
        plans.append(plan)
        return plan

    def plan_on_snapshot() -> ErasurePlan:
        with engine.reading() as connection:
            return plan_on(connection)

    def decide(plan: ErasurePlan | None) -> Outcome:
        def body(work: Work) -> str:
            return _decide(engine, plan or plan_on(work.connection()), reason, exclusive, work)

        return engine.writer.run("erase", asker, body, arguments)

    outcome = optimistic(plan_on_snapshot, decide, at_last=lambda: decide(None))
    plan = plans[-1]
    act = outcome.events[0].envelope.command_id
    engine.unsearched[act] = list(dict.fromkeys(text for target in plan.targets for text in target.texts))
    return finish(engine, _report(plan, asker, None), act, plan.names, plan.kept)


def _dry_run(engine: Engine, plan: ErasurePlan, asker: Who) -> answers.ErasureReport:
    """Return the lists with their texts, the texts that would stay, and the hold that would prevent the erasure."""
    with engine.reading() as connection:
        stays, total = remaining.planned(connection, plan, asker.user)
        scan = Scan(text for target in plan.targets for text in target.texts)
        own = remaining.own_tables(connection, scan, {piece for piece, _, _ in scan.patterns})
        report = _report(plan, asker, ErasureRows(connection))
        report = replace(report, remaining=stays, remaining_total=total, own_tables=tuple(sorted(own)))
        try:
            refuse_held(connection, asker.user, [(target.position, target.stream) for target in plan.targets])
        except RejectedError as refusal:
            return replace(report, why=str(refusal))
    return report


def _plan(
    connection: Connection,
    request: ErasureRequest,
    owner: str,
    choices: Mapping[str, str | None],
    kept: frozenset[str | int],
) -> ErasurePlan:
    plan = ErasurePlanner(connection, owner, choices, kept).plan(request)
    check_kept(plan, kept)
    return plan


# --- a repeated request --------------------------------------------------------------------------------------


def _repeated(engine: Engine, asker: Who, arguments: object) -> answers.ErasureReport | None:
    """Return the report of the earlier erasure with this idempotency key, or None."""

    def not_repeated(work: Work) -> str:
        raise PlanOutdated

    try:
        outcome = engine.writer.run("erase", asker, not_repeated, arguments)
    except PlanOutdated:
        return None
    with engine.reading() as connection:
        entry = audit.at(connection, outcome.position)
        assert entry is not None
        return replace(recorded_report(engine, connection, entry.command_id), replayed=True)


# --- under the lock ------------------------------------------------------------------------------------------


def _decide(engine: Engine, plan: ErasurePlan, reason: str, exclusive: bool, work: Work) -> str:
    connection, owner = work.connection(), work.who.user
    since = ErasureRows(connection).since(plan.head)
    if any(plan.concerns(row, user, owner) for row, user in since):
        raise PlanOutdated
    refuse_held(connection, owner, [(target.position, target.stream) for target in plan.targets])
    if plan.asked.kind == "user":
        work.user = None if owner else owner
    check_size(len(plan.targets), exclusive=exclusive)
    _emit(engine, work, plan, reason)
    return LEDGER_STREAM


def _emit(engine: Engine, work: Work, plan: ErasurePlan, reason: str) -> None:
    request, redactions = plan.asked, [target.redaction for target in plan.targets]
    lists = zip_longest(_chunks(redactions), _lists(plan.blobs), _lists(plan.kept), fillvalue=())
    for targets, blobs, kept in lists:
        data = ContentErased(request.kind, request.subject, tuple(targets), tuple(blobs), tuple(kept), reason)
        work.emit(LEDGER_STREAM, data)
    work.afterwards.append(lambda events: redact(engine, work.transaction, events))


# --- certificates ------------------------------------------------------------------------------------------------


def apply_certificates(engine: Engine, texts_of_certificates: Iterable[str]) -> int:
    """Apply erasures from certificates to a ledger restored from an older backup, and return their number.

    Each row that a certificate names must be as it was before the erasure or as it was after it.

    Raises:
        RejectedError: A row is different, or a certificate is of another ledger or was changed. Nothing is erased then.
    """
    opened = [certificates.read(text, engine.created.ledger_id, engine.writer.mac) for text in texts_of_certificates]
    applied = 0
    with engine.reading() as connection:
        outstanding = certificates.outstanding(connection, opened)
        erased_texts = [text for _, data in outstanding for text in ErasureRows(connection).texts_gone(data.targets)]
    for event, data in outstanding:
        outcome = engine.writer.run("erase", _eraser(event), _erasing_again(engine, event, data))
        act = outcome.events[0].envelope.command_id
        engine.unsearched[act] = erased_texts
        applied += 1
    if outstanding:
        finish_erasures(engine)
    return applied


def _erasing_again(engine: Engine, event: AnyEvent, data: ContentErased) -> Body:
    def body(work: Work) -> str:
        work.user = event.envelope.user
        work.emit(LEDGER_STREAM, data)
        work.afterwards.append(lambda events: redact(engine, work.transaction, events))
        return LEDGER_STREAM

    return body


def _eraser(event: AnyEvent) -> Who:
    return Who(user=event.envelope.user or "", actor=event.envelope.actor or "", client="certificate")


def _without_erased_name(asker: Who, request: ErasureRequest) -> Who:
    """Return the asker; if the whole user is erased, without the names that equal the user's name."""
    if request.kind != "user":
        return asker
    if asker.key is not None:
        raise RejectedError(
            "the erasure of a whole user takes no idempotency_key, because a key belongs to the user who is erased"
        )
    hidden = {name: "" for name in ("actor", "agent", "client") if getattr(asker, name) == asker.user}
    return replace(asker, **hidden)


# --- the sizes of the events ---------------------------------------------------------------------------------------------


def _chunks(redactions: Sequence[Redaction]) -> Iterator[list[Redaction]]:
    chunk: list[Redaction] = []
    size = 0
    for redaction in redactions:
        takes = 220 + 40 * len(redaction.fields) + 50 * len(redaction.spans)
        if chunk and (len(chunk) == LIST_ITEMS or size + takes > EVENT_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(redaction)
        size += takes
    if chunk:
        yield chunk


def _lists(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + LIST_ITEMS] for start in range(0, len(items), LIST_ITEMS))


# --- the report --------------------------------------------------------------------------------------------------------------


def _report(plan: ErasurePlan, asker: Who, rows: ErasureRows | None) -> answers.ErasureReport:
    """Return the report with the lists; with ``rows`` (a dry run) the lists show their texts."""
    spans = {target.position: target.spans for target in plan.targets if target.spans}
    erased, derived, sources, quotes = (
        tuple(
            _shown(item, spans.get(item.row.position, ()), rows, plan.needles if name == "quotes" else Needles(()))
            for item in plan.lists[name]
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


def _shown(listed: Listed, spans: tuple[Span, ...], rows: ErasureRows | None, quoted: Needles) -> answers.Erased:
    row, marked, plain = listed.row, list[str](), list[str]()
    for part in row.parts if rows is not None else ():
        black = [(first, last) for field, first, last in spans if field == part.field]
        texts = rows.texts(part) if rows is not None and part.field in listed.fields else ()
        for text in texts:
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
