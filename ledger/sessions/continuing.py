"""The continuation of a session by messages: new messages are appended, and their turns are captured in the same append.

A text is stored once: the text of a prompt or a response is stored with the interaction, and the message refers to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Raw, Struct
from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.guarding import TakenSecret
from ledger.core.reads import load, read_known
from ledger.core.steps import Stopping, optimistic
from ledger.core.work import Outcome, Work
from ledger.domain.errors import RejectedError
from ledger.domain.late import late
from ledger.domain.metadata import NO_PAIRS, Pairs, event_form
from ledger.events import InteractionCaptured, MessageAppended, ResponseAttached
from ledger.interactions import rules as interaction_rules
from ledger.interactions.rules import InteractionState
from ledger.sessions import reading, writing
from ledger.sessions.answers import Message
from ledger.sessions.conversation import Conversation
from ledger.sessions.reconciling import clean, is_erased, line_of, reopened
from ledger.sessions.rules.aligning import Aligner, KnownPrefix, TranscriptMessage, loosely_same, same_but_for_ids
from ledger.sessions.rules.session import SessionState as State
from ledger.sessions.rules.turns import TurnPlace, places
from ledger.sessions.transcripts import Outside, outside
from projections.core.rows import Connection
from projections.views import audit, sessions
from projections.views.sessions import MessageRow as MessageRow

TOGETHER = 1_000  # the most messages in one append
_CHAT = late(r"\s*(?:user|human)\s*:.*^[ \t]*(?:assistant|ai|bot)\s*:", re.I | re.M | re.S)
INSTRUCTIONS = ("system", "developer")
LOOP = 1_000  # the most messages that are read back from the end to find a prompt without a response


class ContinuationPlan(Struct, frozen=True):
    """The comparison of some messages with a session whose last event was at the position ``seen``.

    ``known`` says how many of the messages the session has already. ``turn`` is the interaction at the end of the session that
    waits for its response. ``taken`` are the secrets that were redacted in the messages.
    """

    seen: int
    known: KnownPrefix
    turn: InteractionState | None
    taken: dict[str, tuple[TakenSecret, ...]]


class Continued(Struct):
    """The progress of appending messages.

    ``first`` is the position of the first appended event. ``correlation`` is the correlation id under which a repeated command
    was recorded.
    """

    known: KnownPrefix = KnownPrefix(0)
    appended: int = 0
    turns: dict[str, None] = {}
    first: int = 0
    correlation: str = ""
    replayed: bool = False
    stopped: str = ""


def messages_of(messages: object) -> tuple[list[Outside], int]:
    """Return the messages in a text, a message or a list of any provider's form, and the number of messages left out.

    Blank messages are left out. Instructions to the model are left out too, because they are no part of the conversation and
    change from call to call.
    """
    lines, left_out = outside(_listed(messages))
    spoken = [line for line in lines if line.draft.role not in INSTRUCTIONS]
    return spoken, left_out + len(lines) - len(spoken)


def reads_as_chat(messages: object) -> bool:
    """Return True if a text looks like several messages with roles.

    A text is stored as one message all the same, because the roles that a text names are not trusted.
    """
    return isinstance(messages, str) and _CHAT.match(messages) is not None


def _listed(messages: object) -> object:
    if isinstance(messages, str):
        if not messages.strip():
            raise RejectedError("messages is blank; it needs at least one character that is not whitespace")
        return [{"role": "user", "content": messages}]
    if isinstance(messages, Mapping) and (
        name := next((field for field in ("messages", "contents") if field in messages), "")
    ):
        messages = messages[name]
        if isinstance(messages, str | Mapping):
            raise RejectedError(f"messages are a list of messages, not {type(messages).__name__}")
    elif isinstance(messages, Mapping | Message) or _dumps(messages):
        messages = [messages]
    if isinstance(messages, Iterable) and not isinstance(messages, bytes | bytearray):
        return [dump() if (dump := _dumps(message)) else message for message in messages]
    raise RejectedError(
        f"messages are a text, a message ({{'role': 'user', 'content': …}}) or a list of messages, not {type(messages).__name__}"
    )


def _dumps(value: object) -> Callable[[], object] | None:
    """Return the method that returns a provider's object as a dictionary; None for other values."""
    dump = getattr(value, "model_dump", None)
    return dump if callable(dump) and not isinstance(value, type) else None


def look(conversation: Conversation, lines: list[Outside]) -> ContinuationPlan:
    """Compare the messages with the session, on a snapshot.

    Secrets in the messages are redacted first, because they are redacted in the stored texts.
    """
    with conversation.reading() as (connection, state):
        taken = clean(conversation, connection, lines)
        if state is None:
            return ContinuationPlan(0, KnownPrefix(0), None, taken)
        rows = sessions.backwards(connection, state.row)
        compared = [line.line for line in lines]
        aligner = Aligner((_Message(conversation, connection, row) for row in rows), compared, _is_exchange)
        first = (compared[0].role, writing.count_tokens(conversation, lines[0])[0])
        known = aligner.known(_same, lambda message: message.looks == first)
        if not known.count and (by_text := aligner.repeated(_same_but_for_ids)).count:
            known = by_text
        return ContinuationPlan(state.position, known, _open_turn(conversation, connection, state), taken)


class _Message:
    """A message of the session, whose texts are read when they are needed."""

    def __init__(self, conversation: Conversation, connection: Connection, row: MessageRow) -> None:
        self._conversation, self._connection, self._row = conversation, connection, row
        self.looks = row.role, row.tokens

    @cached_property
    def line(self) -> TranscriptMessage | None:
        """Return the message in the form for a comparison; None if a part of it was erased."""
        texts = reading.texts(self._conversation, self._connection, self._row)
        return None if is_erased(texts) else line_of(self._connection, self._row, texts, None)


def _same(ours: _Message, theirs: TranscriptMessage) -> bool:
    """Return True if a message of the session and a message of the list are the same; an erased message counts as the same."""
    return ours.looks[0] == theirs.role and (ours.line is None or loosely_same(ours.line, theirs))


def _same_but_for_ids(ours: _Message, theirs: TranscriptMessage) -> bool:
    return ours.line is not None and same_but_for_ids(ours.line, theirs)


def _is_exchange(part: Sequence[TranscriptMessage]) -> bool:
    return {"user", "assistant"} <= {line.role for line in part}


def _open_turn(conversation: Conversation, connection: Connection, state: State) -> InteractionState | None:
    """Return the captured turn at the end of a session if it has no response yet."""
    for _, row in zip(range(LOOP), sessions.backwards(connection, state.row), strict=False):
        if row.interaction is not None:
            turn: InteractionState | None = load(connection, row.interaction, "i", conversation.user)
            return turn if turn is not None and row.field == "prompt" and turn.response_at is None else None
        if row.role == "user" and not _is_result(connection, row):
            return None
    return None


def _is_result(connection: Connection, row: MessageRow) -> bool:
    data: MessageAppended = read_known(connection, row.row, row.session).data
    return bool(row.results) and data.content_of >= 0


# --- appending ---------------------------------------------------------------------------------------------------------


def go_on(
    conversation: Conversation, asker: Who, lines: list[Outside], stopping: Stopping, metadata: Pairs = NO_PAIRS
) -> Continued:
    """Append the new messages, 1,000 at a time, and capture their turns with ``metadata``.

    If the call is interrupted, the same call continues from there.
    """
    done, stored = Continued(turns={}), event_form(metadata)
    arguments = (conversation.name, [line.line for line in lines], *((stored,) if metadata else ()))
    looked, key = False, asker.key
    while True:
        requester = replace(asker, key=key)

        def decide(plan: ContinuationPlan, requester: Who = requester) -> tuple[ContinuationPlan, Outcome | None]:
            if plan.known.count == len(lines) and requester.key is None:
                return plan, None
            return plan, _append(conversation, requester, lines, plan, arguments, done.turns, stored)

        plan, outcome = optimistic(lambda: look(conversation, lines), decide)
        if not looked:
            done.known, looked = plan.known, True
        if outcome is None:
            return done
        if outcome.replayed:
            done.replayed = True
            done.first, done.correlation = _recorded(conversation, outcome)
            asker = replace(asker, correlation_id=done.correlation)
        elif outcome.events:
            done.first = done.first or outcome.events[0].position
            done.appended += min(TOGETHER, len(lines) - plan.known.count)
        key = None
        if done.known.count + done.appended >= len(lines):
            return done
        if stopping.why:
            done.stopped = stopping.why
            return done


def _recorded(conversation: Conversation, outcome: Outcome) -> tuple[int, str]:
    """Return the position and the correlation id under which a repeated command was recorded."""
    with conversation.engine.reading() as connection:
        entries = audit.command_at(connection, outcome.position)
    return (entries[0].position, entries[0].correlation_id or "") if entries else (outcome.position, "")


def _append(
    conversation: Conversation,
    asker: Who,
    lines: Sequence[Outside],
    plan: ContinuationPlan,
    arguments: object,
    turns: dict[str, None],
    metadata: Raw,
) -> Outcome:
    first = plan.known.count
    new = lines[first : first + TOGETHER]
    counted = writing.events_of(conversation, new)
    captured = dict[str, None]()

    def body(work: Work) -> str:
        stream, row, _ = reopened(conversation, work, plan.seen, plan.taken)
        _Appending(work, stream, row, plan.turn, captured, metadata).emit(new, counted)
        return stream

    texts = (conversation.name, [line.line for line in new], metadata)
    outcome = conversation.writer.run("add", asker, body, arguments, texts=texts)
    turns |= captured
    return outcome


class _Appending:
    """An append of messages under the writer's lock, which also captures the turns among the messages."""

    def __init__(
        self,
        work: Work,
        stream: str,
        row: int,
        turn: InteractionState | None,
        captured: dict[str, None],
        metadata: Raw,
    ) -> None:
        self.work, self.stream, self.row, self.captured, self.metadata = work, stream, row, captured, metadata
        captured.clear()
        current: InteractionState | None = work.at_row(turn.row, "i") if turn is not None else None
        self.open = current if current is not None and current.response_at is None else None

    def emit(self, lines: Sequence[Outside], counted: Sequence[MessageAppended]) -> None:
        turn_places = places([line.draft for line in lines])
        self.work.need("interactions", "quarantine")
        responses = {
            place.turn: at for at, place in enumerate(turn_places) if place is not None and place.field == "response"
        }
        ids: dict[int, str] = {}
        for line, place, data in zip(lines, turn_places, counted, strict=True):
            self.work.occurred_at = line.created_at or self.work.who.occurred_at
            if place is not None and place.field == "prompt":
                at = responses.get(place.turn)
                ids[place.turn] = self._capture(line, lines[at] if at is not None else None)
            elif place is not None and place.turn < 0 and (place := self._answer(line, place)) is not None:
                ids[-1] = self.open.id if self.open is not None else ""
            if place is not None:
                data = replace(data, content="", interaction=ids[place.turn], field=place.field)
            writing.emit(self.work, self.stream, self.row, data)

    def _capture(self, prompt: Outside, response: Outside | None) -> str:
        id = self.work.new_id("i")
        answer = self.work.body(response.draft.content) if response is not None else ""
        texts = self.work.body(prompt.draft.content), answer
        is_evidence = self.work.who.channel != "agent"  # an agent's report of its own words is no evidence
        self.work.emit(id, InteractionCaptured(*texts, reinforce=is_evidence, metadata=self.metadata))
        self.captured[id] = None
        return id

    def _answer(self, line: Outside, place: TurnPlace) -> TurnPlace | None:
        """Attach a response to the prompt of an earlier append, and return its place; None if no prompt waits for a response."""
        if self.open is None:
            return None
        attached = ResponseAttached(self.work.body(line.draft.content), metadata=self.metadata)
        for event in interaction_rules.decide(interaction_rules.Attach(attached), self.open):
            self.work.emit(self.open.id, event, first=self.open.row)
        self.captured[self.open.id] = None
        return place
