"""The writing of a summary before it is recorded: the summarizer, the source texts, and the choice of an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from ledger.core.stopping import check_seconds
from ledger.core.who import Who
from ledger.core.work import Work
from ledger.domain.errors import RejectedError
from ledger.models.port import NamedSummarizer, SummaryRequest
from ledger.models.summarizing import PROMPTS, ModelAttempt, answer_of, as_summarizer, emit_attempts
from ledger.sessions import reading, writing
from ledger.sessions.conversation import Conversation
from ledger.sessions.rules import escalation
from ledger.sessions.rules.escalation import Attempt
from ledger.sessions.rules.message import readable
from ledger.sessions.rules.window import CONDENSED, Ranges
from ledger.sessions.summary_writes import SummarySources, WrittenSummary
from projections.core.rows import Connection
from projections.views.summaries import SummaryRow

SUMMARY_CHARS = 64 * 1024  # the most characters of a summary, whatever number of tokens a counter returns


def check_patience(conversation: Conversation, timeout: object) -> None:
    """Check that the call may wait for a model.

    Raises:
        RejectedError: The call is part of a batch, which holds the writer's lock; or ``timeout`` is not a number of seconds.
    """
    if conversation.writer.batching:
        raise RejectedError(
            "a compaction waits for a model, so it cannot be part of a batch; call it outside of the batch",
            rule="batch",
        )
    check_seconds(timeout)


def writer_of(conversation: Conversation, summarizer: object) -> NamedSummarizer | None:
    return as_summarizer(summarizer) if summarizer is not None else conversation.present.summarizer


def source_texts(
    conversation: Conversation, connection: Connection, row: int, kind: str, sources: SummarySources
) -> list[str]:
    """Return the texts of the sources of a summary, one text for each message or summary."""
    if kind == CONDENSED:
        return [summary_text(conversation, connection, summary) for summary in sources.summaries]
    return list(message_texts(conversation, connection, row, sources))


def message_texts(
    conversation: Conversation, connection: Connection, row: int, sources: SummarySources
) -> Iterator[str]:
    for message, texts in reading.all_texts(conversation, connection, row, sources.ranges):
        name = f"{message.role} {speaker}" if (speaker := texts.event.data.speaker) else message.role
        yield f"{name} ({message.time[:16]}): {readable(texts.content, texts.parts)}"


def summary_text(conversation: Conversation, connection: Connection, summary: SummaryRow) -> str:
    content = reading.summary_shown(conversation, connection, summary).content or ""
    return f"{summary.earliest[:16]} to {summary.latest[:16]}, {summary.messages} messages: {content}"


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
) -> WrittenSummary | None:
    """Return the first answer of the summarizer that is short enough; None if no answer is.

    Each call of a language model is appended to ``model_attempts``.
    """
    attempt = escalation.following(tries)
    while attempt is not None:
        request = SummaryRequest(
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
        text = answer_of(writer, request, timeout, model_attempts)
        tokens = conversation.counter.of_text(text)
        accepted = len(text) <= SUMMARY_CHARS and escalation.accepts(attempt, text, tokens)
        if model_attempts and not accepted:
            model_attempts[-1] = replace(model_attempts[-1], outcome="too_long" if text else "empty")
        if accepted:
            return WrittenSummary(
                kind, attempt.level, text, tokens, conversation.counter.name, writer.name, PROMPTS[kind]
            )
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
    """Record calls of a model that led to no summary, in a separate command."""

    def body(work: Work) -> str:
        state = writing.known(conversation, work)
        emit_attempts(work, writer, model_attempts, ranges, why=why)
        return state.id

    conversation.writer.run("session.compact", asker, body)
