"""The queries of a session: its messages, its summaries and its state, now or at a moment of the past."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import UNSET, Struct

from ledger.core.call import answer_of
from ledger.core.engine import ReadingEngine
from ledger.core.reads import (
    LIST_LIMIT,
    MEMORY_CAP,
    NOWHERE,
    bounded_limit,
    event_data,
    load,
    read_known,
    read_messages,
    scope_of,
    start_behind,
    text_of,
)
from ledger.domain import ids
from ledger.domain.errors import NotFoundError
from ledger.domain.metadata import NO_PAIRS, Pairs, of_row
from ledger.events import NOTHING, AnyEvent, MessageAppended, MessageRepaired, Ranges, Recorded
from ledger.sessions import answers
from ledger.sessions.conversation import Conversation
from ledger.sessions.rules import message as messages
from ledger.sessions.rules.provider_forms import Fields
from ledger.sessions.rules.session import SessionState as State
from ledger.sessions.rules.window import WindowItem
from ledger.sessions.window import OpenWindow
from projections.core.rows import NEWEST, Connection, Start
from projections.search.session_texts import SearchedRow
from projections.views import interactions, quarantine, sessions, summaries
from projections.views.projects import names
from projections.views.sessions import MessageRow as MessageRow
from projections.views.sessions import besides
from projections.views.summaries import SummaryRow as SummaryRow


class MessageTexts(Struct, frozen=True):
    """The texts of a message from the log, with later repairs applied."""

    event: Recorded[MessageAppended]
    content: str | None
    reasoning: str | None
    parts: tuple[messages.Part, ...]
    model: str | None
    extra: Fields | None  # in the stored form; None if it was erased
    raw: str | None  # JSON; "" for none, None if it was erased


# --- messages ------------------------------------------------------------------------------------------------


def list_messages(
    conversation: Conversation,
    limit: int,
    start: Start = NEWEST,
    *,
    hidden: bool = False,
    pairs: Pairs = NO_PAIRS,
) -> list[answers.Message]:
    """Return the first ``limit`` messages from ``start`` on, messages under a summary included.

    With ``hidden``, messages that were truncated, replaced or cleared are included too, each with the reason.
    """
    with conversation.reading() as (connection, state):
        if state is None:
            return []
        hidden_spans = sessions.hidden(connection, state.row)
        without = [] if hidden else [(span.first, span.last) for span in hidden_spans]
        if start.row is not None:
            without.append((0, start.row) if start.oldest_first else (start.row, 2**62))
        batch = min(limit, 4_096)
        if start.oldest_first:
            rows = sessions.forwards(connection, state.row, besides(without), batch=batch, pairs=pairs)
        else:
            rows = sessions.backwards(connection, state.row, without, batch=batch, pairs=pairs)
        return messages_shown(conversation, connection, list(islice(rows, limit)), hidden_spans)


def get_message(conversation: Conversation, position: int | str) -> answers.Message | None:
    """Return a message by its position or id, hidden or not; None if the session has no such message."""
    with conversation.reading() as (connection, state):
        if isinstance(position, str) and state is not None and (place := ids.message_place(position)) is not None:
            position = place[1] if place[0] == state.id else position
        row = sessions.at_position(connection, position) if state is not None and type(position) is int else None
        if state is None or row is None or row.session != state.row:
            return None
        return messages_shown(conversation, connection, [row], sessions.hidden(connection, state.row))[0]


def messages_shown(
    conversation: Conversation, connection: Connection, rows: Sequence[MessageRow], gone: Sequence[sessions.Hidden] = ()
) -> list[answers.Message]:
    why = HiddenReason(gone)
    return [
        _message_shown(conversation, row, texts(conversation, connection, row), why.of(row.row), connection)
        for row in rows
    ]


def _message_shown(
    conversation: Conversation, row: MessageRow, message_texts: MessageTexts, hidden: str, connection: Connection
) -> answers.Message:
    return answers.Message(
        id=ids.message_id(message_texts.event.stream, row.row),
        position=row.row,
        session=conversation.name,
        role=row.role,
        content=message_texts.content,
        reasoning=message_texts.reasoning,
        parts=message_texts.parts,
        tokens=row.tokens,
        counter=message_texts.event.data.counter,
        model=message_texts.model,
        speaker=message_texts.event.data.speaker,
        extra=(message_texts.extra or {}).get("message", {}),
        metadata=of_row(row.metadata),
        raw=messages.decoded_raw(message_texts.raw),
        interaction=row.interaction,
        occurred_at=row.time,
        recorded_at=message_texts.event.envelope.recorded_at,
        hidden=hidden,
        quarantined=is_held(connection, row),
    )


def texts(conversation: Conversation, connection: Connection, row: MessageRow) -> MessageTexts:
    """Return the texts of a message; the text of a captured turn comes from its interaction."""
    return texts_of(conversation, connection, row, read_known(connection, row.row, row.session))


def all_texts(
    conversation: Conversation, connection: Connection, session: int, ranges: Ranges
) -> Iterator[tuple[MessageRow, MessageTexts]]:
    """Yield the messages of a session in these ranges with their texts, oldest first."""
    for row, event in read_messages(connection, session, ranges):
        yield row, texts_of(conversation, connection, row, event)


def texts_of(conversation: Conversation, connection: Connection, row: MessageRow, event: AnyEvent) -> MessageTexts:
    data: MessageAppended = event.data
    content = text_of(connection, data.content)
    if data.interaction is not None:
        content = of_interaction(conversation, connection, data.interaction, data.field)
    reasoning, model, extra = text_of(connection, data.reasoning), data.model, data.extra
    for position in row.repairs:
        repaired: MessageRepaired = event_data(connection, position)
        reasoning = reasoning if repaired.reasoning is UNSET else repaired.reasoning
        model = model if repaired.model is UNSET else repaired.model
        extra = extra if bytes(repaired.extra) == bytes(NOTHING) else repaired.extra
    more = messages.stored_extra(extra)
    parts = messages.with_extra(messages.whole_parts(data.parts, content, data.content_of), more, content)
    raw = text_of(connection, data.raw)
    return MessageTexts(event, content, reasoning, parts, model, None if bytes(extra) == b"null" else more, raw)


def of_interaction(conversation: Conversation, connection: Connection, interaction: str, field: str) -> str | None:
    state = load(connection, interaction, "i", conversation.user)
    at = (state.prompt_at if field == "prompt" else state.response_at) if state is not None else None
    return text_of(connection, getattr(event_data(connection, at), field)) if at else None


# --- summaries -----------------------------------------------------------------------------------------------


def abstract(conversation: Conversation) -> str:
    """Return the summary of the whole session that a person wrote, or ""."""
    with conversation.reading() as (connection, state):
        return abstract_of(connection, state)


def abstract_of(connection: Connection, state: State | None) -> str:
    if state is None or state.summary_at is None:
        return ""
    return text_of(connection, event_data(connection, state.summary_at).content) or ""


def list_summaries(
    conversation: Conversation, statuses: Sequence[str], limit: int, start: Start = NEWEST
) -> list[answers.Summary]:
    """Return the summaries of these statuses, from ``start`` on."""
    with conversation.reading() as (connection, state):
        if state is None:
            return []
        rows = summaries.listing(connection, state.row, statuses, start, limit)
        return [summary_shown(conversation, connection, row) for row in rows]


def summary_shown(conversation: Conversation, connection: Connection, row: SummaryRow) -> answers.Summary:
    event = read_known(connection, row.row, row.session)
    content = text_of(connection, event.data.content)
    return answers.summary(row, conversation.name, content, event.envelope.recorded_at)


def summary_row(connection: Connection, state: State, id: object) -> SummaryRow:
    row = None
    if isinstance(id, str) and len(id) > 2 and ids.is_prefix(id, "y"):
        row = summaries.find(connection, state.row, id)
    if row is None:
        raise NotFoundError(f"no summary of this session has the id {id!r:.40}")
    return row


def window_items(conversation: Conversation) -> list[WindowItem]:
    """Return the messages and summaries of the window, oldest first, without their texts."""
    with conversation.reading() as (connection, state):
        return OpenWindow(connection, state).items() if state is not None and conversation.kept_out != "ignored" else []


# --- state ---------------------------------------------------------------------------------------------------


def get_info(conversation: Conversation) -> answers.SessionInfo | None:
    """Return the state of the session; None while the session has no messages."""
    with conversation.reading() as (connection, state):
        return info(connection, state) if state is not None else None


def info(connection: Connection, state: State) -> answers.SessionInfo:
    window = OpenWindow(connection, state)
    project = names(connection, [state.project]).get(state.project or "") if state.project else None
    return answer_of(
        answers.SessionInfo,
        state,
        aliases=tuple(alias for alias in state.aliases if alias is not None),
        metadata=of_row(state.metadata),
        project=project or state.project,
        messages=window.messages,
        tokens=window.message_tokens,
        hidden=state.messages - window.messages,
        summaries=len(window.summaries),
        window_items=window.count,
        window_tokens=window.tokens,
        has_abstract=state.summary_at is not None and _has_content(connection, state, state.summary_at),
        turns=interactions.count_in(connection, state.id),
    )


def _has_content(connection: Connection, state: State, position: int) -> bool:
    return read_known(connection, position, state.row).data.content not in ("", None)


def list_sessions(
    engine: ReadingEngine,
    user: str,
    *,
    project: str | None = None,
    pairs: Pairs = NO_PAIRS,
    limit: int | None = LIST_LIMIT,
    after: str | None = None,
    oldest_first: bool = False,
) -> list[answers.SessionInfo]:
    """Return the sessions of a user in the order in which they were opened; ``project`` is the project of their opening."""
    with engine.reading() as connection:
        projects = scope_of(connection, user, project)
        if projects == [NOWHERE]:
            return []
        start = start_behind(connection, after, oldest_first=oldest_first)
        with sessions.listing(connection, user=user, projects=projects, pairs=pairs, start=start) as states:
            shown = (state for state in states if engine.keeps_out(*state.names) != "ignored")
            return [info(connection, state) for state in islice(shown, bounded_limit(limit, MEMORY_CAP))]


def is_held(connection: Connection, row: MessageRow | SearchedRow | SummaryRow) -> bool:
    """Return True if the text of a message or summary is in quarantine.

    The text of a captured turn is stored with its interaction.
    """
    at: int | None = row.row
    if not isinstance(row, SummaryRow) and row.interaction is not None:
        at = interactions.text_at(connection, row.interaction, row.field or "")
    return at is not None and bool(quarantine.among(connection, [at]))


class HiddenReason:
    """The reasons why messages are hidden, by position; hidden ranges never overlap."""

    def __init__(self, gone: Sequence[sessions.Hidden]) -> None:
        self._gone = sorted(gone, key=lambda span: span.first)
        self._firsts = [span.first for span in self._gone]

    def of(self, position: int) -> str:
        at = bisect_right(self._firsts, position) - 1
        return self._gone[at].why if at >= 0 and position <= self._gone[at].last else ""
