"""The reconciliation of a session with a transcript kept elsewhere.

The session may have all messages already, lack messages at its end, or differ from some message on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count

from msgspec import UNSET, Raw, Struct, json
from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.guarding import TakenSecret
from ledger.core.reads import event_data
from ledger.core.steps import PlanOutdated, optimistic
from ledger.core.work import Work
from ledger.domain import times
from ledger.domain.metadata import event_form, of_row
from ledger.events import NOTHING, MessageRepaired
from ledger.sessions import answers, reading, writing
from ledger.sessions.conversation import Conversation
from ledger.sessions.reading import MessageTexts
from ledger.sessions.rules import aligning
from ledger.sessions.rules import message as messages
from ledger.sessions.rules.aligning import KnownMessage, TranscriptMessage, TranscriptPlan, comparable
from ledger.sessions.rules.session import SessionState as State
from ledger.sessions.transcripts import Outside, outside
from ledger.sessions.window import OpenWindow
from ledger.sessions.writing import TOGETHER, hide, history_change, with_dependents
from projections.core.rows import Connection
from projections.views import control, summaries
from projections.views.sessions import MessageRow as MessageRow
from projections.views.sessions import besides

RECONCILE, REPLACE = "session.reconcile", "session.replace"  # the commands, as their events name them
REPAIR_BYTES = 256 * 1024  # the most bytes of a reasoning that a repair adds


class _Planned(Struct, frozen=True):
    """A plan that makes a session equal to a transcript.

    ``seen`` is the position of the session's last event when the plan was made. ``taken`` are the secrets that were redacted.
    """

    seen: int
    plan: TranscriptPlan
    taken: dict[str, tuple[TakenSecret, ...]]


def reconcile(
    conversation: Conversation,
    asker: Who,
    transcript: Iterable[Mapping[str, object] | answers.Message],
    *,
    dry_run: bool = False,
) -> answers.HistoryChange:
    """Make the session equal to a transcript that is kept elsewhere.

    If the session is the beginning of the transcript, the missing messages are appended. If a message differs, the session is
    replaced from that message on: its messages from there are hidden and stay in the log, and summaries of hidden messages go out
    of use.

    Role, speaker, content and parts are compared; token counts and times are not. Reasoning (up to 256 KiB), time, ``extra`` or
    metadata that only the transcript has is added in place, and the name of the model is taken from the transcript. More than
    5,000 messages take several appends, and after an interruption a second call continues. An empty transcript is taken for a
    mistake: nothing changes, and ``skipped`` is "empty".

    Args:
        conversation: The session.
        asker: The identity of the caller.
        transcript: Objects with ``role`` and ``content``, and optionally with ``parts``, ``reasoning``, ``model``, ``speaker``,
            ``created_at`` and ``token_count``; messages of OpenAI chat completions and of Anthropic are read too.
        dry_run: True to only return the changes that would be made.
    """
    lines, none = _checked(conversation, transcript, dry_run=dry_run)
    if none.skipped or not lines:
        return replace(none, skipped=none.skipped or "empty")
    return _would_be(conversation, lines, none) if dry_run else _take_over(conversation, RECONCILE, lines, none, asker)


def replace_messages(
    conversation: Conversation, asker: Who, messages: Iterable[Mapping[str, object] | answers.Message]
) -> answers.HistoryChange:
    """Make these messages the whole history of the session; messages that the two have in common at the beginning stay.

    A message with another time is another message.
    """
    lines, none = _checked(conversation, messages)
    return none if none.skipped else _take_over(conversation, REPLACE, lines, none, asker)


def _checked(
    conversation: Conversation, transcript: object, *, dry_run: bool = False
) -> tuple[list[Outside], answers.HistoryChange]:
    """Return the messages of a transcript, and the answer if nothing changes."""
    lines, left_out = outside(transcript)
    why = conversation.kept_out
    return lines, answers.HistoryChange(
        session=conversation.name, change="none", skipped=why, left_out=left_out, dry_run=dry_run
    )


def _would_be(conversation: Conversation, lines: list[Outside], none: answers.HistoryChange) -> answers.HistoryChange:
    """Return the changes that a reconciliation would make."""
    planned = _plan(conversation, RECONCILE, lines)
    plan = planned.plan
    with conversation.reading() as (connection, state):
        rows = summaries.of_session(connection, state.row) if state is not None and plan.hidden else []
    in_use = {row.id: row for row in rows if row.status in (summaries.WINDOW, summaries.UNDER)}
    span = [(plan.hidden[0], 2**62)] if plan.hidden else []
    touched = {row.id for row in in_use.values() if summaries.touches(row.ranges, span)}
    invalidated = with_dependents(in_use, touched)
    change = "repaired" if plan.kind == aligning.UNCHANGED and plan.repairs else _CHANGES.get(plan.kind, "none")
    return replace(
        none,
        change=change,
        kept=plan.kept,
        appended=plan.appended,
        repaired=len(plan.repairs),
        hidden=len(plan.hidden),
        invalidated=tuple(id for id in in_use if id in invalidated),
        position=planned.seen,
    )


def _take_over(
    conversation: Conversation, verb: str, lines: list[Outside], total: answers.HistoryChange, asker: Who
) -> answers.HistoryChange:
    arguments = (conversation.name, [line.line for line in lines])
    planned = _plan(conversation, verb, lines)
    while True:
        # The plan is made again if another process wrote meanwhile.
        plans = chain([planned], (_plan(conversation, verb, lines) for _ in count()))

        def decide(plan: _Planned, asker: Who = asker) -> tuple[_Planned, answers.HistoryChange | None]:
            return plan, _apply(conversation, verb, lines, plan, asker, arguments)

        planned, done = optimistic(plans.__next__, decide)
        if done is None:  # both sides are empty
            return total
        if done.replayed and not _was_cut(planned.plan):
            return done
        if not done.replayed:
            total = _together(total, done, planned.plan)
            planned = replace(planned, seen=done.position, plan=_rest(planned.plan))
            if planned.plan.kind == aligning.UNCHANGED and not planned.plan.repairs:
                return total
        asker = replace(asker, key=None)  # the key belongs to the first append only


def _plan(conversation: Conversation, verb: str, lines: list[Outside]) -> _Planned:
    """Return the plan that makes the session equal to the transcript.

    Secrets in the transcript are redacted first, because they are redacted in the stored texts.
    """
    with conversation.reading() as (connection, state):
        taken = clean(conversation, connection, lines)
        known = list[KnownMessage]()
        if state is not None:
            visible = sorted(besides(OpenWindow(connection, state).hidden_ranges))
            for at, (row, texts) in enumerate(reading.all_texts(conversation, connection, state.row, tuple(visible))):
                line = line_of(connection, row, texts, lines[at] if at < len(lines) else None)
                known.append(KnownMessage(row.row, line))
    plan = aligning.reconcile(known, [line.line for line in lines], by_time=verb == REPLACE)
    return _Planned(state.position if state is not None else 0, plan, taken)


def clean(
    conversation: Conversation, connection: Connection, lines: list[Outside]
) -> dict[str, tuple[TakenSecret, ...]]:
    """Redact the secrets in a transcript, in place, if the user's policy says so; return the redacted secrets."""
    redacted: dict[str, tuple[TakenSecret, ...]] = {}
    if control.policy(connection, conversation.user).secrets == "redact":
        for at, line in enumerate(lines):
            cleaned = conversation.writer.guard.cleaned(line.draft, redacted)
            if cleaned is not line.draft:
                lines[at] = replace(line, draft=cleaned)
    return redacted


def line_of(connection: Connection, row: MessageRow, texts: MessageTexts, theirs: Outside | None) -> TranscriptMessage:
    """Return a message of the session in the form for a comparison; of an erased message, the message of the transcript."""
    data, envelope = texts.event.data, texts.event.envelope
    parts = comparable(messages.stored_parts(data.parts), data.content_of, data.speaker)
    line = TranscriptMessage(
        role=row.role,
        content=texts.content or "",
        parts=parts,
        reasoning=texts.reasoning or None,
        model=texts.model or None,
        created_at=row.time if envelope.occurred_at or _was_dated(connection, row) else _same(row.time, theirs),
        extra=texts.extra or UNSET,
        metadata=row.metadata or UNSET,
    )
    if theirs is None or not is_erased(texts):
        return line
    return replace(theirs.line, role=row.role, created_at=line.created_at)


def is_erased(texts: MessageTexts) -> bool:
    data = texts.event.data
    return None in (texts.content, data.reasoning, texts.extra) or b"null" in (bytes(data.parts), bytes(data.metadata))


def _was_dated(connection: Connection, row: MessageRow) -> bool:
    return any(event_data(connection, position).occurred_at is not UNSET for position in row.repairs)


def _apply(
    conversation: Conversation,
    verb: str,
    lines: Sequence[Outside],
    planned: _Planned,
    asker: Who,
    arguments: object,
) -> answers.HistoryChange | None:
    """Make one append: hide the messages that differ, repair fields, and append the first 5,000 missing messages.

    The answer is None if both the session and the transcript are empty.
    """
    plan = planned.plan
    if not planned.seen and plan.kind == aligning.UNCHANGED:
        return None
    new = lines[plan.kept : plan.kept + min(plan.appended, TOGETHER)]
    counted = writing.events_of(conversation, new)

    def body(work: Work) -> str:
        if plan.kind == aligning.UNCHANGED and not plan.repairs:
            return _unchanged(conversation, work)
        stream, first, state = reopened(conversation, work, planned.seen, planned.taken)
        if plan.hidden and state is not None:
            work.rows.flush()
            window = OpenWindow(work.connection(), state)
            hide(work, state, window, (plan.hidden[0], 2**62), "replace")
        for repair in plan.repairs[:TOGETHER]:
            _repair(work, stream, first, repair)
        for line, data in zip(new, counted, strict=True):
            work.occurred_at = line.created_at
            writing.emit(work, stream, first, data)
        return stream

    texts = [line.line for line in new], plan.repairs[:TOGETHER]
    outcome = conversation.writer.run(verb, asker, body, arguments, texts=texts)
    change = _CHANGES.get(plan.kind, "repaired")
    return history_change(conversation.name, outcome, change)


def reopened(
    conversation: Conversation, work: Work, seen: int, taken: Mapping[str, tuple[TakenSecret, ...]]
) -> tuple[str, int, State | None]:
    """Return (id, row, state) of the session, under the writer's lock, for a plan that redacted the secrets ``taken``.

    Raises:
        PlanOutdated: The last event of the session is not at the position ``seen`` any more.
    """
    work.taken.update(taken)
    stream, row = writing.opened(conversation, work)
    state: State | None = work.load(stream, "s") if row else None
    if (state.position if state is not None else 0) != seen:
        raise PlanOutdated
    return stream, row, state


def _unchanged(conversation: Conversation, work: Work) -> str:
    id = conversation.writer.named(work.who.user, "s", conversation.name)
    return id if id is not None else writing.opened(conversation, work)[0]


def _repair(work: Work, stream: str, first: int, repair: aligning.Repair) -> None:
    reasoning = repair.reasoning
    if reasoning is not None and len(reasoning.encode()) > REPAIR_BYTES:
        reasoning = None
    change = MessageRepaired(
        message=repair.position,
        reasoning=UNSET if reasoning is None else reasoning,
        model=UNSET if repair.model is None else repair.model,
        occurred_at=UNSET if repair.created_at is None else times.moment("created_at", repair.created_at),
        extra=NOTHING if repair.extra is None else Raw(json.encode(repair.extra)),
        metadata=event_form(of_row(repair.metadata)),
    )
    if change != MessageRepaired(repair.position):
        work.emit(stream, change, first=first)


def _same(time: str, theirs: Outside | None) -> str | None:
    """Return the time of recording if the transcript has the same time, because it was read from this session; else None."""
    at = theirs.created_at if theirs is not None else None
    return time if at is not None and times.moment("created_at", at) == time else None


def _rest(plan: TranscriptPlan) -> TranscriptPlan:
    """Return the part of a plan that remains after one append."""
    appended = max(0, plan.appended - TOGETHER)
    kind = aligning.APPEND if appended else aligning.UNCHANGED
    return TranscriptPlan(kind, plan.kept + plan.appended - appended, appended, (), plan.repairs[TOGETHER:])


def _was_cut(plan: TranscriptPlan) -> bool:
    """Return True if an earlier run of the command with the same key was interrupted before its last append."""
    return plan.kind == aligning.APPEND and plan.kept >= TOGETHER


_CHANGES = {aligning.APPEND: "appended", aligning.REPLACE: "replaced"}
_WEIGHTS = ("none", "repaired", "appended", "replaced")  # from the weakest to the strongest change


def _together(total: answers.HistoryChange, done: answers.HistoryChange, plan: TranscriptPlan) -> answers.HistoryChange:
    """Return one answer for several appends, with the strongest of their changes."""
    return replace(
        done,
        change=max(total.change, done.change, key=_WEIGHTS.index),
        kept=plan.kept if total.change == "none" else total.kept,
        appended=total.appended + done.appended,
        repaired=total.repaired + done.repaired,
        hidden=total.hidden + done.hidden,
        left_out=total.left_out,
        invalidated=(*total.invalidated, *done.invalidated),
    )
