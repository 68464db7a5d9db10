"""The commands on a session's history: append, truncate, clear, name it, and set its summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Raw, json
from msgspec.structs import replace

from ledger.domain import ids, times
from ledger.domain import message as messages
from ledger.domain import session as domain
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.events import (
    NO_PARTS,
    NOTHING,
    AbstractSet,
    MessageAppended,
    MessageRepaired,
    MessagesHidden,
    SummaryInvalidated,
)
from ledger.domain.message import Draft
from ledger.domain.metadata import NO_PAIRS, Pairs, checked, event_form
from ledger.domain.session import Session as State
from ledger.domain.text import check_text
from ledger.engine.who import Time, Who
from ledger.engine.work import Outcome, Work
from ledger.sessions import answers, reading
from ledger.sessions.conversation import Conversation, session_name
from ledger.sessions.counting import check_tokens
from ledger.sessions.window import OpenWindow
from projections.core.rows import Connection
from projections.views import sessions, summaries
from projections.views.sessions import besides
from projections.views.summaries import Summary

LISTED = 2_000  # in one event (DESIGN 3)
SUMMARY_BYTES = 1024 * 1024


def append(
    conversation: Conversation,
    asker: Who,
    role: str,
    content: str = "",
    *,
    parts: Iterable[messages.Part] = (),
    created_at: Time | None = None,
    token_count: int | None = None,
    model: str = "",
    speaker: str = "",
    extra: Mapping[str, object] | None = None,
    metadata: Pairs = NO_PAIRS,
) -> answers.Message:
    """Adds a message: ``role`` is system, developer, user, assistant or tool; ``parts`` are objects with a type: text,
    tool_use (id, name, arguments), tool_result (id, text), media (uri, mime), reasoning (text).

    ``token_count`` is what the model's own tokenizer counted; without one the ledger's counter does. ``created_at`` is
    when it was said, if not now, and ``speaker`` the name of who said it, where several share a role. A session that a
    pattern keeps out, and an assistant's message of reasoning alone, store nothing, and the answer says so in
    ``skipped``.
    """
    draft = messages.draft(role, content, parts, speaker=speaker, extra=extra)
    check_text("model", model, blank_allowed=True)
    pairs = checked(metadata)
    if why := conversation.kept_out or ("transient" if draft.is_transient else ""):
        texts: dict[str, object] = {"content": draft.content, "reasoning": draft.reasoning, "parts": draft.whole_parts}
        texts |= {"metadata": pairs}
        return answers.skipped(role, conversation.name, why, texts)
    tokens, counter = count_tokens(conversation, draft, token_count)
    if created_at is not None:
        asker = replace(asker, occurred_at=times.with_offset("created_at", created_at))
    data = appended(draft, tokens, counter, model, pairs)

    def body(work: Work) -> str:
        stream, first = opened(conversation, work)
        work.emit(stream, with_bodies(work, data), first=first)
        return stream

    arguments = (conversation.name, draft, model, token_count, asker.occurred_at, *((pairs,) if pairs else ()))
    outcome = conversation.writer.run("session.append", asker, body, arguments)
    if outcome.replayed:
        return _again(conversation, outcome)
    if outcome.warnings:  # what is stored is not what was given
        return replace(_stored(conversation, outcome), warnings=outcome.warnings)
    envelope = outcome.events[-1].envelope
    at = envelope.occurred_at
    return answers.Message(
        id=ids.message_id(outcome.events[-1].stream, outcome.events[-1].position),
        position=outcome.events[-1].position,
        session=conversation.name,
        role=draft.role,
        content=draft.content,
        reasoning=draft.reasoning,
        parts=draft.whole_parts,
        extra=draft.extra.get("message", {}),
        metadata=pairs,
        tokens=tokens,
        counter=counter,
        model=model,
        speaker=draft.speaker,
        interaction=None,
        occurred_at=times.moment("created_at", at) if at else envelope.recorded_at,
        recorded_at=envelope.recorded_at,
    )


def _stored(conversation: Conversation, outcome: Outcome) -> answers.Message:
    conversation.writer.write_waiting()
    found = reading.get_message(conversation, outcome.events[-1].position)
    assert found is not None
    return found


def _again(conversation: Conversation, outcome: Outcome) -> answers.Message:
    found = reading.get_message(conversation, outcome.position)
    if found is None:
        raise NotFoundError(f"the message at position {outcome.position} was undone meanwhile")
    return replace(found, replayed=True)


def count_tokens(conversation: Conversation, draft: Draft, given: int | None) -> tuple[int, str]:
    """How many, and who counted them."""
    if given is not None:
        return check_tokens("token_count", given), "given"
    return conversation.counter.of_message(draft), conversation.counter.name


# --- how every command begins ----------------------------------------------------------------------------------


def opened(conversation: Conversation, work: Work) -> tuple[str, int]:
    """The session's id and row, under the lock; it is opened in this append where there is none, with row 0."""
    work.need("sessions", "summaries")
    found = conversation.writer.named(work.who.user, "s", conversation.name)
    state: State | None = work.find(found, "s") if found is not None else None
    if state is not None:
        work.project, work.session = state.project, state.id
        return state.id, state.row
    work.project = work.project_named(conversation.project)
    work.session = work.session_named(conversation.name)
    assert work.session is not None
    return work.session, 0


def known(conversation: Conversation, work: Work) -> State:
    """The session, which has to be there."""
    stream, first = opened(conversation, work)
    if not first:
        raise NotFoundError(f"no session of this user is called {conversation.name!r:.60}")
    work.rows.flush()
    state: State = work.load(stream, "s")
    return state


def change(
    conversation: Conversation, verb: str, body: Callable[[Work], None], arguments: object, asker: Who, change: str
) -> answers.HistoryChange:
    """Runs a command on the history, and says what it came to."""
    if conversation.kept_out:
        return answers.HistoryChange(session=conversation.name, change="none", skipped=conversation.kept_out)

    def whole(work: Work) -> str:
        body(work)
        assert work.session is not None
        return work.session

    outcome = conversation.writer.run(verb, asker, whole, (conversation.name, arguments))
    return texts_of(conversation.name, outcome, change)


# --- hiding ----------------------------------------------------------------------------------------------------


def truncate(conversation: Conversation, asker: Who, keep: int) -> answers.HistoryChange:
    """Takes all but the last messages out of the session. They stay in the log, and can be read as they were with ``at()``.
    Summaries of what is hidden stand for nothing any more."""
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 0:
        raise RejectedError(f"keep is a whole number from 0, and {keep!r:.40} is not", rule="keep", limit=0)

    def body(work: Work) -> None:
        state = known(conversation, work)
        window = OpenWindow(work.connection(), state)
        if window.messages <= keep:
            return
        above = 2**62
        found = sessions.backwards(work.connection(), state.row, window.hidden_ranges)
        for _, row in zip(range(keep), found, strict=False):
            above = row.row - 1
        hide(work, state, window, (state.row, above), "truncate")

    return change(conversation, "session.truncate", body, keep, asker, "truncated")


def clear(conversation: Conversation, asker: Who) -> answers.HistoryChange:
    """Begins the session again: every message is hidden, every summary stands for nothing, and the set one is blank."""

    def body(work: Work) -> None:
        state = known(conversation, work)
        window = OpenWindow(work.connection(), state)
        if window.messages:
            hide(work, state, window, (state.row, 2**62), "clear")
        if _summary_now(work, state):
            work.emit(state.id, AbstractSet(""), first=state.row)

    return change(conversation, "session.clear", body, None, asker, "cleared")


# --- the session as a whole --------------------------------------------------------------------------------------


def set_summary(conversation: Conversation, asker: Who, summary: str) -> str:
    """Sets the summary of the whole session ("" takes it away), and returns it; the ones before stay in the log."""
    check_text("the summary", summary, max_bytes=SUMMARY_BYTES, blank_allowed=True)
    if conversation.kept_out:
        return ""

    def body(work: Work) -> str:
        stream, first = opened(conversation, work)
        state = work.find(stream, "s") if first else None
        kept.append(work.cleaned(summary))
        if _summary_now(work, state) != kept[-1]:
            work.emit(stream, AbstractSet(work.body(kept[-1])), first=first)
        return stream

    kept = [summary]
    conversation.writer.run("session.set_abstract", asker, body, (conversation.name, summary))
    return kept[-1]


def check_kept_in(conversation: Conversation) -> None:
    """``RejectedError`` where a pattern keeps the session out, and no answer could say that nothing was done."""
    if conversation.kept_out:
        raise RejectedError(
            f"the session {conversation.name!r:.60} is {conversation.kept_out}: nothing in it changes", rule="pattern"
        )


def _summary_now(work: Work, state: State | None) -> str:
    work.rows.flush()
    return reading.abstract_of(work.connection(), state)


def add_alias(conversation: Conversation, asker: Who, alias: str) -> answers.SessionInfo:
    """Another name for the session. A name that stands for a session with a history brings it along, if this one has
    none; ``ConflictError`` where both have one (what is hidden is none), ``RejectedError`` for the history of
    "main", which many share, and in a session that a pattern keeps out."""
    session_name(alias)
    check_kept_in(conversation)
    if why := conversation.engine.keeps_out(alias):
        raise RejectedError(
            f"the name {alias!r:.60} is {why}: a session that took it would be kept out", rule="pattern"
        )

    def body(work: Work) -> str:
        work.need("interactions")  # the answer counts its turns
        stream, first = opened(conversation, work)
        if not first:  # opened in this append
            state = State(
                0, stream, work.who.user, conversation.name, work.project, (), None, 0, 0, None, 0, 0, 0, "", "", 1, 0
            )
        else:
            state = work.load(stream, "s")
        known = conversation.writer.named(work.who.user, "s", alias)
        if known is None:
            work.check_not_elsewhere("s", alias)
        other = work.find(known, "s") if known is not None else None
        if alias == conversation.name:
            other = state
        rows = {each.id: each.row for each in (state, other) if each is not None}
        if other is not None:
            state, other = (_as_shown(work, each) for each in (state, other))
        for owner, event in domain.add_alias(domain.AddAlias(alias, other), state):
            work.emit(owner, event, first=rows[owner])
        return stream

    conversation.writer.run("session.add_alias", asker, body, (conversation.name, alias))
    found = reading.get_info(conversation)
    if found is None:
        raise NotFoundError(f"the session {conversation.name!r:.60} was undone meanwhile")
    return found


def _as_shown(work: Work, state: State) -> State:
    """With the messages that are not hidden as all that it has."""
    work.rows.flush()
    return replace(state, messages=OpenWindow(work.connection(), state).messages if state.row else 0)


# --- what the events are made of -------------------------------------------------------------------------------------


def appended(draft: Draft, tokens: int, counter: str, model: str = "", pairs: Pairs = NO_PAIRS) -> MessageAppended:
    return MessageAppended(
        role=draft.role,
        tokens=tokens,
        counter=counter,
        content=draft.content,
        reasoning=draft.reasoning,
        parts=draft.encoded if draft.parts else NO_PARTS,
        content_of=draft.content_of,
        model=model,
        speaker=draft.speaker,
        extra=Raw(json.encode(draft.extra)) if draft.extra else NOTHING,
        metadata=event_form(pairs),
    )


def with_bodies(work: Work, data: MessageAppended) -> MessageAppended:
    """The message with its large texts left to the blobs table."""
    texts = {"content": data.content, "reasoning": data.reasoning}
    large = {
        name: body for name, text in texts.items() if isinstance(text, str) and (body := work.body(text)) is not text
    }
    return replace(data, **large) if large else data


def hide(work: Work, state: State, window: OpenWindow, span: tuple[int, int], why: str) -> None:
    """Hides what is visible of a session in a span of positions, and takes every summary of it out of use."""
    connection = work.connection()
    ranges = sorted(besides(window.hidden_ranges, span))
    tight = [each for each in (_up_to_last(connection, state.row, each) for each in ranges) if each is not None]
    for start in range(0, len(tight), LISTED):
        some = tuple(tight[start : start + LISTED])
        work.emit(state.id, MessagesHidden(why, some, *sessions.count(connection, state.row, some)), first=state.row)
    known = summaries.of_session(connection, state.row)
    touched = {each.id for each in known if summaries.touches(each.ranges, tight)}
    invalidate(work, state, known, touched, "hidden")


def _up_to_last(connection: Connection, row: int, span: tuple[int, int]) -> tuple[int, int] | None:
    """The span up to its last message: from where the range before it ends, so that the two are one gap."""
    sql = "SELECT row FROM messages WHERE session = ? AND row BETWEEN ? AND ? ORDER BY row DESC LIMIT 1"
    last = connection.execute(sql, (row, *span)).fetchone()
    return (span[0], last[0]) if last is not None else None


def invalidate(
    work: Work, state: State, known: Sequence[Summary], fallen: set[str], why: str, reason: str = ""
) -> tuple[str, ...]:
    """Takes summaries out of use, with all that was written from them; what these were written from is in the window again."""
    in_use = {each.id: each for each in known if each.status in (summaries.WINDOW, summaries.UNDER)}
    gone = with_those_above(in_use, fallen)
    returned = [id for each in gone for id in in_use[each].summaries if id in in_use and id not in gone]
    order = [each for each in in_use if each in gone]
    for start in range(0, max(len(order), len(returned)), LISTED):
        lists = (tuple(order[start : start + LISTED]), tuple(sorted(returned)[start : start + LISTED]))
        work.emit(state.id, SummaryInvalidated(lists[0], why, lists[1], reason), first=state.row)
    return tuple(order)


def with_those_above(in_use: Mapping[str, Summary], fallen: set[str]) -> set[str]:
    """Summaries that fall, with all that were written from them."""
    gone = {id for id in fallen if id in in_use}
    for each in in_use.values():  # in the order of writing: what was written from another comes after it
        if not gone.isdisjoint(each.summaries):
            gone.add(each.id)
    return gone


def texts_of(session: str, outcome: Outcome, change: str) -> answers.HistoryChange:
    """What the events of a command came to."""
    data = [event.data for event in outcome.events]
    hidden = sum(each.messages for each in data if isinstance(each, MessagesHidden))
    gone = [id for each in data if isinstance(each, SummaryInvalidated) for id in each.summaries]
    return answers.HistoryChange(
        session=session,
        change=change if data else "none",
        appended=sum(isinstance(each, MessageAppended) for each in data),
        repaired=sum(isinstance(each, MessageRepaired) for each in data),
        hidden=hidden,
        invalidated=tuple(gone),
        position=outcome.events[-1].position if outcome.events else outcome.position,
        replayed=outcome.replayed,
        warnings=outcome.warnings,
    )
