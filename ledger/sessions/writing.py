"""The commands on a session: append, truncate and clear messages, add an alias, set the abstract and the metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from msgspec import Raw, json
from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.work import Outcome, Work
from ledger.domain import ids, times
from ledger.domain.errors import ConflictError, NotFoundError, RejectedError
from ledger.domain.metadata import NO_PAIRS, Pairs, checked, event_form, keys, of_row
from ledger.domain.text import check_text
from ledger.events import (
    NO_PARTS,
    NOTHING,
    AbstractSet,
    MessageAppended,
    MessageRepaired,
    MessagesHidden,
    SummaryInvalidated,
)
from ledger.sessions import answers, reading
from ledger.sessions.conversation import Conversation, session_name
from ledger.sessions.counting import check_tokens
from ledger.sessions.rules import session as session_rules
from ledger.sessions.rules.message import Draft, encoded_raw
from ledger.sessions.rules.session import SessionState as State
from ledger.sessions.transcripts import Outside
from ledger.sessions.window import OpenWindow
from ledger.types import Json
from projections.core.rows import Connection
from projections.views import sessions, summaries
from projections.views.sessions import besides
from projections.views.summaries import SummaryRow

TOGETHER = 5_000  # the most messages in one append
LISTED = 2_000  # the most ranges or ids in one event, which bounds the size of an event
SUMMARY_BYTES = 1024 * 1024


def append(
    conversation: Conversation,
    asker: Who,
    draft: Draft,
    *,
    token_count: int | None = None,
    model: str = "",
    metadata: Pairs = NO_PAIRS,
    raw: Json = None,
) -> answers.Message:
    """Append a checked message to the session.

    Nothing is stored if a pattern keeps the session out, or if an assistant's message has only reasoning; ``skipped`` of the
    answer then has the reason.

    Args:
        conversation: The session.
        asker: The identity of the caller.
        draft: The message.
        token_count: The count of the model's own tokenizer; without it the ledger's counter counts.
        model: The model that wrote the message.
        metadata: Keys and values of the caller.
        raw: JSON of the caller, returned equal but for its secrets.
    """
    check_text("model", model, blank_allowed=True)
    pairs, exact = checked(metadata), encoded_raw(raw)
    if why := conversation.kept_out or ("transient" if draft.is_transient and not exact else ""):
        texts: dict[str, object] = {"content": draft.content, "reasoning": draft.reasoning, "parts": draft.whole_parts}
        texts |= {"metadata": pairs, "raw": raw}
        return answers.skipped(draft.role, conversation.name, why, texts)
    line = Outside(draft, model, None, token_count, pairs, exact)
    arguments = (conversation.name, draft, model, token_count, asker.occurred_at, *((pairs,) if pairs else ()))
    arguments = (*arguments, {"raw": exact}) if exact else arguments
    outcome = _appended(conversation, "session.append", asker, [line], arguments)
    if outcome.replayed:
        return _again(conversation, outcome)
    if outcome.warnings:  # the stored text is not the text of the draft, or is in quarantine
        return replace(_stored(conversation, outcome), warnings=outcome.warnings)
    event = outcome.events[-1]
    at, data = event.envelope.occurred_at, event.data
    return answers.Message(
        id=ids.message_id(event.stream, event.position),
        position=event.position,
        session=conversation.name,
        role=draft.role,
        content=draft.content,
        reasoning=draft.reasoning,
        parts=draft.whole_parts,
        extra=draft.extra.get("message", {}),
        metadata=pairs,
        raw=raw,
        tokens=data.tokens,
        counter=data.counter,
        model=model,
        speaker=draft.speaker,
        interaction=None,
        occurred_at=times.moment("occurred_at", at) if at else event.envelope.recorded_at,
        recorded_at=event.envelope.recorded_at,
    )


def _stored(conversation: Conversation, outcome: Outcome) -> answers.Message:
    conversation.writer.write_waiting()
    message = reading.get_message(conversation, outcome.events[-1].position)
    assert message is not None
    return message


def _again(conversation: Conversation, outcome: Outcome) -> answers.Message:
    message = reading.get_message(conversation, outcome.position)
    if message is None:
        raise NotFoundError(f"the message at position {outcome.position} was undone while the command ran")
    return replace(message, replayed=True)


def extend(
    conversation: Conversation, asker: Who, lines: Sequence[Outside], left_out: int = 0
) -> answers.HistoryChange:
    """Add several checked messages to the session in one append.

    Raises:
        RejectedError: There are more than 5,000 messages.
        ConflictError: The session was changed after the expected position, or has messages although 0 was expected.
    """
    if len(lines) > TOGETHER:
        raise RejectedError(
            f"extend takes at most {TOGETHER:,} messages, because it makes one append; {len(lines):,} were given",
            rule="size",
            limit=TOGETHER,
            requested=len(lines),
        )
    none = answers.HistoryChange(session=conversation.name, change="none", left_out=left_out)
    if conversation.kept_out or not lines:
        return replace(none, skipped=conversation.kept_out)
    given = [(line.draft, line.model, line.created_at, line.token_count, {**line.metadata}, line.raw) for line in lines]
    outcome = _appended(conversation, "session.extend", asker, lines, (conversation.name, given, asker.occurred_at))
    return replace(history_change(conversation.name, outcome, "appended"), left_out=left_out)


def _appended(
    conversation: Conversation, verb: str, asker: Who, lines: Sequence[Outside], arguments: object
) -> Outcome:
    """Append checked messages in one command.

    ``expected`` 0 stands for a session without messages. The writer would also refuse a session that was cleared or only named
    before.
    """
    counted = events_of(conversation, lines)
    is_from_empty = asker.expected is not None and not asker.expected.position
    if is_from_empty:
        asker = replace(asker, expected=None)
    for line in lines:
        conversation.writer.guard.verdict_of_json(line.raw)  # before the lock is taken

    def body(work: Work) -> str:
        stream, first = opened(conversation, work)
        if is_from_empty:
            _check_empty(conversation, work, stream, first)
        for line, data in zip(lines, counted, strict=True):
            work.occurred_at = line.created_at or asker.occurred_at
            emit(work, stream, first, data)
        return stream

    return conversation.writer.run(verb, asker, body, arguments)


def _check_empty(conversation: Conversation, work: Work, stream: str, first: int) -> None:
    state: State | None = work.load(stream, "s") if first else None
    if state is None:
        return
    work.rows.flush()
    if count := OpenWindow(work.connection(), state).messages:
        raise ConflictError(
            f"the session {conversation.name!r:.60} has {count:,} messages, and expected 0 stands for a session without"
            " messages; nothing was written"
        )


# --- the beginning of every command ----------------------------------------------------------------------------


def opened(conversation: Conversation, work: Work) -> tuple[str, int]:
    """Return (id, row) of the session, under the writer's lock.

    A session that does not exist is opened in this append; its row then is 0.
    """
    work.need("sessions", "summaries")
    id = conversation.writer.named(work.who.user, "s", conversation.name)
    state: State | None = work.find(id, "s") if id is not None else None
    if state is not None:
        work.project, work.session = work.recorded_in(state.project), state.id
        return state.id, state.row
    work.project = work.project_named(conversation.project)
    work.session = work.session_named(conversation.name)
    assert work.session is not None
    return work.session, 0


def known(conversation: Conversation, work: Work) -> State:
    """Return the state of the session.

    Raises:
        NotFoundError: The session has no messages.
    """
    stream, first = opened(conversation, work)
    if not first:
        raise NotFoundError(f"no session of this user is called {conversation.name!r:.60}")
    work.rows.flush()
    state: State = work.load(stream, "s")
    return state


def change(
    conversation: Conversation,
    verb: str,
    body: Callable[[Work], None],
    arguments: object,
    asker: Who,
    change: str,
    *,
    optional: bool = False,
) -> answers.HistoryChange:
    """Run a command on the history and return its effect; an ``optional`` command does nothing if there is no session."""
    if conversation.kept_out:
        return answers.HistoryChange(session=conversation.name, change="none", skipped=conversation.kept_out)
    if optional and conversation.id is None:
        return answers.HistoryChange(session=conversation.name, change="none")

    def on_session(work: Work) -> str:
        body(work)
        assert work.session is not None
        return work.session

    outcome = conversation.writer.run(verb, asker, on_session, (conversation.name, arguments))
    return history_change(conversation.name, outcome, change)


# --- hiding ----------------------------------------------------------------------------------------------------


def truncate(conversation: Conversation, asker: Who, keep: int) -> answers.HistoryChange:
    """Hide all messages of the session but the last ``keep``.

    Hidden messages stay in the log, and ``at()`` still reads them at an earlier moment. Summaries of hidden messages go out of
    use.

    Raises:
        RejectedError: ``keep`` is not a whole number from 0.
    """
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 0:
        raise RejectedError(f"keep is a whole number from 0, and {keep!r:.40} is not", rule="keep", limit=0)

    def body(work: Work) -> None:
        state = known(conversation, work)
        window = OpenWindow(work.connection(), state)
        if window.messages <= keep:
            return
        above = 2**62
        visible = sessions.backwards(work.connection(), state.row, window.hidden_ranges)
        for _, row in zip(range(keep), visible, strict=False):
            above = row.row - 1
        hide(work, state, window, (state.row, above), "truncate")

    return change(conversation, "session.truncate", body, keep, asker, "truncated", optional=True)


def remove_last(conversation: Conversation, asker: Who, count: int) -> answers.HistoryChange:
    """Take the newest messages out of the session, as many as there are up to ``count``; they stay in the log.

    Raises:
        RejectedError: ``count`` is no whole number from 1.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise RejectedError(f"remove_last takes a whole number from 1, and {count!r:.40} is not", rule="count", limit=1)

    def body(work: Work) -> None:
        state = known(conversation, work)
        window = OpenWindow(work.connection(), state)
        visible = sessions.backwards(work.connection(), state.row, window.hidden_ranges, batch=min(count, 4_096))
        if newest := [row.row for row in islice(visible, count)]:
            hide(work, state, window, (newest[-1], 2**62), "remove")

    return change(conversation, "session.remove_last", body, count, asker, "removed", optional=True)


def clear(conversation: Conversation, asker: Who) -> answers.HistoryChange:
    """Hide every message, invalidate every summary, and set the abstract to ""."""

    def body(work: Work) -> None:
        state = known(conversation, work)
        window = OpenWindow(work.connection(), state)
        if window.messages:
            hide(work, state, window, (state.row, 2**62), "clear")
        if _summary_now(work, state):
            work.emit(state.id, AbstractSet(""), first=state.row)

    return change(conversation, "session.clear", body, None, asker, "cleared", optional=True)


# --- the session as a whole --------------------------------------------------------------------------------------


def set_summary(conversation: Conversation, asker: Who, summary: str) -> str:
    """Set the summary of the whole session ("" removes it), and return the stored text, without secrets.

    Earlier summaries stay in the log.
    """
    check_text("the summary", summary, max_bytes=SUMMARY_BYTES, blank_allowed=True)
    if conversation.kept_out:
        return ""

    def body(work: Work) -> str:
        stream, first = opened(conversation, work)
        state = work.find(stream, "s") if first else None
        stored.append(work.cleaned(summary))
        if _summary_now(work, state) != stored[-1]:
            work.emit(stream, AbstractSet(work.body(stored[-1])), first=first)
        return stream

    stored = [summary]
    conversation.writer.run("session.set_abstract", asker, body, (conversation.name, summary))
    return stored[-1]


def set_metadata(conversation: Conversation, asker: Who, metadata: Pairs, unset: Iterable[str]) -> answers.SessionInfo:
    """Set the values of some metadata keys of the session and remove the keys ``unset``; other keys stay.

    Raises:
        RejectedError: The metadata is not flat JSON or too large, or a pattern keeps the session out.
    """
    request = session_rules.DescribeSession(checked(metadata), keys("unset", unset))
    check_kept_in(conversation)

    def body(work: Work) -> str:
        work.need("interactions")  # the answer counts its turns
        stream, first = opened(conversation, work)
        state: State | None = work.load(stream, "s") if first else None
        command = session_rules.DescribeSession(work.cleaned(request.metadata), request.unset)
        for event in session_rules.describe(command, of_row(state.metadata if state is not None else None)):
            work.emit(stream, event, first=first)
        return stream

    conversation.writer.run("session.set_metadata", asker, body, (conversation.name, request))
    return _info(conversation)


def _info(conversation: Conversation) -> answers.SessionInfo:
    info = reading.get_info(conversation)
    if info is None:
        raise NotFoundError(f"the session {conversation.name!r:.60} was undone while the command ran")
    return info


def check_kept_in(conversation: Conversation) -> None:
    """Check that no pattern keeps the session out, for a command whose answer has no field ``skipped``.

    Raises:
        RejectedError: A pattern keeps the session out.
    """
    if conversation.kept_out:
        raise RejectedError(
            f"the session {conversation.name!r:.60} is {conversation.kept_out} by a pattern, so it cannot be changed",
            rule="pattern",
        )


def _summary_now(work: Work, state: State | None) -> str:
    work.rows.flush()
    return reading.abstract_of(work.connection(), state)


def add_alias(conversation: Conversation, asker: Who, alias: str) -> answers.SessionInfo:
    """Give the session another name.

    If another session with messages has the name and this session has no messages, the messages come to this session. Hidden
    messages do not count.

    Raises:
        ConflictError: Both sessions have messages.
        RejectedError: The messages are those of "main", which many clients share; or a pattern keeps the session out.
    """
    session_name(alias)
    check_kept_in(conversation)
    if why := conversation.engine.keeps_out(alias):
        raise RejectedError(
            f"the name {alias!r:.60} is {why} by a pattern, and a session with that name would be kept out; choose another name",
            rule="pattern",
        )

    def body(work: Work) -> str:
        work.need("interactions")  # the answer counts its turns
        stream, first = opened(conversation, work)
        if not first:  # opened in this append
            named = (work.who.user, conversation.name, work.project)
            state = State(0, stream, *named, (), None, None, 0, 0, None, 0, 0, 0, "", "", 1, 0)
        else:
            state = work.load(stream, "s")
        id_of_alias = conversation.writer.named(work.who.user, "s", alias)
        if id_of_alias is None:
            work.check_not_elsewhere("s", alias)
        alias_state = work.find(id_of_alias, "s") if id_of_alias is not None else None
        if alias == conversation.name:
            alias_state = state
        rows = {session.id: session.row for session in (state, alias_state) if session is not None}
        if alias_state is not None:
            state, alias_state = (_with_visible_messages(work, session) for session in (state, alias_state))
        for owner, event in session_rules.add_alias(session_rules.AddSessionAlias(alias, alias_state), state):
            work.emit(owner, event, first=rows[owner])
        return stream

    conversation.writer.run("session.add_alias", asker, body, (conversation.name, alias))
    return _info(conversation)


def _with_visible_messages(work: Work, state: State) -> State:
    """Return the state with only the visible messages counted."""
    work.rows.flush()
    return replace(state, messages=OpenWindow(work.connection(), state).messages if state.row else 0)


# --- events ----------------------------------------------------------------------------------------------------------


def count_tokens(conversation: Conversation, line: Outside) -> tuple[int, str]:
    """Return the number of tokens of a message, and the name of the counter."""
    if line.token_count is not None:
        return check_tokens("token_count", line.token_count), "given"
    return conversation.counter.of_message(*line.draft.read), conversation.counter.name


def events_of(conversation: Conversation, lines: Iterable[Outside]) -> list[MessageAppended]:
    """Return the events that append checked messages. Their tokens are counted, so call it before the lock is taken."""
    return [_event(line, *count_tokens(conversation, line)) for line in lines]


def _event(line: Outside, tokens: int, counter: str) -> MessageAppended:
    draft = line.draft
    return MessageAppended(
        role=draft.role,
        tokens=tokens,
        counter=counter,
        content=draft.content,
        reasoning=draft.reasoning,
        parts=draft.encoded if draft.parts else NO_PARTS,
        content_of=draft.content_of,
        model=line.model,
        speaker=draft.speaker,
        extra=Raw(json.encode(draft.extra)) if draft.extra else NOTHING,
        metadata=event_form(line.metadata),
        raw=line.raw,
    )


def emit(work: Work, stream: str, first: int, data: MessageAppended) -> None:
    """Append a message, with its long texts in the table of long texts."""
    texts = {"content": data.content, "reasoning": data.reasoning, "raw": data.raw}
    large = {
        name: body
        for name, text in texts.items()
        if isinstance(text, str) and (body := work.body(text, is_json=name == "raw")) is not text
    }
    work.emit(stream, replace(data, **large) if large else data, first=first)


def hide(work: Work, state: State, window: OpenWindow, span: tuple[int, int], why: str) -> None:
    """Hide the visible messages in a span of positions, and take every summary of these messages out of use."""
    connection = work.connection()
    spans = sorted(besides(window.hidden_ranges, span))
    ranges = [span for span in (_up_to_last(connection, state.row, span) for span in spans) if span is not None]
    for start in range(0, len(ranges), LISTED):
        listed = tuple(ranges[start : start + LISTED])
        work.emit(
            state.id, MessagesHidden(why, listed, *sessions.count(connection, state.row, listed)), first=state.row
        )
    rows = summaries.of_session(connection, state.row)
    touched = {row.id for row in rows if summaries.touches(row.ranges, ranges)}
    invalidate(work, state, rows, touched, "hidden")


def _up_to_last(connection: Connection, row: int, span: tuple[int, int]) -> tuple[int, int] | None:
    """Return the span up to its last message, or None if it has no message.

    The beginning of the span stays, so that hidden ranges next to each other leave no gap between them.
    """
    sql = "SELECT row FROM messages WHERE session = ? AND row BETWEEN ? AND ? ORDER BY row DESC LIMIT 1"
    last = connection.execute(sql, (row, *span)).fetchone()
    return (span[0], last[0]) if last is not None else None


def invalidate(
    work: Work, state: State, rows: Sequence[SummaryRow], ids_to_end: set[str], why: str, reason: str = ""
) -> tuple[str, ...]:
    """Take summaries out of use, and all summaries that were written from them; return the ids of all of these.

    The sources of these summaries are in the window again.
    """
    in_use = {row.id: row for row in rows if row.status in (summaries.WINDOW, summaries.UNDER)}
    ended = with_dependents(in_use, ids_to_end)
    returned = [source for id in ended for source in in_use[id].summaries if source in in_use and source not in ended]
    order = [id for id in in_use if id in ended]
    for start in range(0, max(len(order), len(returned)), LISTED):
        lists = (tuple(order[start : start + LISTED]), tuple(sorted(returned)[start : start + LISTED]))
        work.emit(state.id, SummaryInvalidated(lists[0], why, lists[1], reason), first=state.row)
    return tuple(order)


def with_dependents(in_use: Mapping[str, SummaryRow], ids_to_end: set[str]) -> set[str]:
    """Return some summaries together with all summaries that were written from them."""
    ended = {id for id in ids_to_end if id in in_use}
    for summary in in_use.values():  # in the order of writing, so that a summary comes after its sources
        if not ended.isdisjoint(summary.summaries):
            ended.add(summary.id)
    return ended


def history_change(session: str, outcome: Outcome, change: str) -> answers.HistoryChange:
    """Return the effect of a command on the history, from its events."""
    data = [event.data for event in outcome.events]
    hidden = sum(body.messages for body in data if isinstance(body, MessagesHidden))
    invalidated = [id for body in data if isinstance(body, SummaryInvalidated) for id in body.summaries]
    return answers.HistoryChange(
        session=session,
        change=change if data else "none",
        appended=sum(isinstance(body, MessageAppended) for body in data),
        repaired=sum(isinstance(body, MessageRepaired) for body in data),
        hidden=hidden,
        invalidated=tuple(invalidated),
        position=outcome.events[-1].position if outcome.events else outcome.position,
        replayed=outcome.replayed,
        warnings=outcome.warnings,
    )
