"""A summary before it is recorded: who writes it, from which texts, and the first of its answers that is short enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from ledger.domain import escalation
from ledger.domain.errors import RejectedError
from ledger.domain.escalation import Attempt
from ledger.domain.message import readable
from ledger.domain.window import CONDENSED, Ranges
from ledger.engine.stopping import check_seconds
from ledger.engine.who import Who
from ledger.engine.work import Work
from ledger.language.port import NamedSummarizer, SummaryRequest
from ledger.language.summarizing import (
    PROMPTS,
    ModelAttempt,
    answer_of,
    as_summarizer,
    emit_attempts,
)
from ledger.sessions import reading, writing
from ledger.sessions.conversation import Conversation
from ledger.sessions.summary_writes import Sources, Written
from projections.core.rows import Connection
from projections.views.summaries import Summary

SUMMARY_CHARS = 64 * 1024  # of a summary, however few tokens somebody counts in it


def check_patience(conversation: Conversation, timeout: object) -> None:
    """``RejectedError`` where no model can be waited for: under the lock of a batch, or for a time that is none."""
    if conversation.writer.batching:
        raise RejectedError(
            "a compaction asks a model and takes its time, so it cannot be part of a batch", rule="batch"
        )
    check_seconds(timeout)


def writer_of(conversation: Conversation, given: object) -> NamedSummarizer | None:
    return as_summarizer(given) if given is not None else conversation.engine.summarizer


def source_texts(
    conversation: Conversation, connection: Connection, row: int, kind: str, sources: Sources
) -> list[str]:
    """What a summary is written from, each message or summary as one text."""
    if kind == CONDENSED:
        return [summary_text(conversation, connection, each) for each in sources.summaries]
    return list(message_texts(conversation, connection, row, sources))


def message_texts(conversation: Conversation, connection: Connection, row: int, sources: Sources) -> Iterator[str]:
    for each, texts in reading.all_texts(conversation, connection, row, sources.ranges):
        name = f"{each.role} {speaker}" if (speaker := texts.event.data.speaker) else each.role
        yield f"{name} ({each.time[:16]}): {readable(texts.content, texts.parts)}"


def summary_text(conversation: Conversation, connection: Connection, each: Summary) -> str:
    content = reading.summary_shown(conversation, connection, each).content or ""
    return f"{each.earliest[:16]} to {each.latest[:16]}, {each.messages} messages: {content}"


def first_short_enough(
    conversation: Conversation,
    writer: NamedSummarizer,
    kind: str,
    tries: Sequence[Attempt],
    texts: list[str],
    previous: list[str],
    timeout: float,
    counted: Callable[[], None] | None,
    model_attempts: list[ModelAttempt],
) -> Written | None:
    """The first answer that is short enough; None where none is. Into ``model_attempts`` goes each call of a language model."""
    attempt = escalation.following(tries)
    while attempt is not None:
        asked = SummaryRequest(
            kind=kind,
            level=attempt.level,
            texts=tuple(texts),
            previous=tuple(previous),
            target_tokens=attempt.target_tokens,
            temperature=attempt.temperature,
            prompt_version=PROMPTS[kind],
        )
        if counted is not None:
            counted()
        text = answer_of(writer, asked, timeout, model_attempts)
        tokens = conversation.counter.of_text(text)
        accepted = len(text) <= SUMMARY_CHARS and escalation.accepts(attempt, text, tokens)
        if model_attempts and not accepted:
            model_attempts[-1] = replace(model_attempts[-1], outcome="too_long" if text else "empty")
        if accepted:
            return Written(kind, attempt.level, text, tokens, conversation.counter.name, writer.name, PROMPTS[kind])
        attempt = escalation.following(tries, attempt, text)
    return None


def record_calls(
    conversation: Conversation,
    asker: Who,
    writer: NamedSummarizer,
    model_attempts: Sequence[ModelAttempt],
    ranges: Ranges,
    why: str,
) -> None:
    """Calls that came to nothing, in a command of their own."""

    def body(work: Work) -> str:
        state = writing.known(conversation, work)
        emit_attempts(work, writer, model_attempts, ranges, why=why)
        return state.id

    conversation.writer.run("session.compact", asker, body)
