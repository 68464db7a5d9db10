"""The writing of a summary before it is recorded: the summarizer, the source texts, and the choice of an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.steps import check_seconds
from ledger.core.work import Work
from ledger.domain.errors import RejectedError
from ledger.english.weighing import MessageToWeigh
from ledger.models.day import check_day
from ledger.models.port import SUMMARIZER, NamedSummarizer, SummaryRequest
from ledger.models.summarizing import PROMPTS, ModelAttempt, answer_of, as_summarizer, emit_attempts
from ledger.sessions import reading, writing
from ledger.sessions.conversation import Conversation
from ledger.sessions.rules import escalation, excerpts
from ledger.sessions.rules.escalation import Attempt
from ledger.sessions.rules.excerpts import Kept
from ledger.sessions.rules.message import readable
from ledger.sessions.rules.window import CONDENSED, Ranges
from ledger.sessions.summary_writes import SummarySources, WrittenSummary
from projections.core.rows import Connection
from projections.views.summaries import SummaryRow

KEEP_PART = 3
"""The texts that a summary must not lose take at most a third of its target (our choice)."""

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
    return as_summarizer(summarizer) if summarizer is not None else conversation.present.parts.get(SUMMARIZER)


def source_texts(
    conversation: Conversation, connection: Connection, row: int, kind: str, sources: SummarySources
) -> SourceTexts:
    """Return the texts of the sources of a summary, and what must not be lost of them."""
    if kind == CONDENSED:
        summed = [summary_text(conversation, connection, summary) for summary in sources.summaries]
        return SourceTexts(summed, said=[line for text in summed for line in excerpts.lines_of(text)])
    said = said_in(conversation, connection, row, sources.ranges)
    return SourceTexts([message.dated for message in said], said=said)


def said_in(conversation: Conversation, connection: Connection, row: int, ranges: Ranges) -> list[MessageToWeigh]:
    """Return the messages in these ranges with their texts, to be weighed."""
    return [
        MessageToWeigh(
            message.row,
            message.role,
            readable(texts.content, texts.parts),
            texts.event.data.speaker or "",
            message.time,
        )
        for message, texts in reading.all_texts(conversation, connection, row, ranges)
    ]


def summary_text(conversation: Conversation, connection: Connection, summary: SummaryRow) -> str:
    content = reading.summary_shown(conversation, connection, summary).content or ""
    return f"{summary.earliest[:16]} to {summary.latest[:16]}, {summary.messages} messages: {content}"


class SourceTexts(Struct, frozen=True):
    """The texts to summarize, the summaries before them, and the messages whose weightiest sentences must not be lost.

    Of summaries these are the lines of excerpts in them.
    """

    texts: Sequence[str]
    previous: Sequence[str] = ()
    said: Sequence[MessageToWeigh] = ()


def first_short_enough(
    conversation: Conversation,
    writer: NamedSummarizer,
    kind: str,
    tries: Sequence[Attempt],
    source: SourceTexts,
    timeout: float,
    counted: Callable[[], None] | None,
    model_attempts: list[ModelAttempt],
) -> WrittenSummary | None:
    """Return the first answer of the summarizer that is short enough; None if no answer is.

    If the answer lost a sentence that must not be lost, it is asked for once more. What is lost then too is appended
    word for word, as far as the size of an answer allows. Each call of a language model is appended to ``model_attempts``.
    """
    count = conversation.counter.of_text

    def asked(attempt: Attempt, keep: Sequence[Kept], draft: str = "") -> tuple[str, bool]:
        """Return an answer, and True if it is short enough."""
        request = SummaryRequest(
            kind=kind,
            level=attempt.level,
            texts=tuple(source.texts),
            previous=tuple(source.previous),
            target_tokens=attempt.target_tokens,
            temperature=attempt.temperature,
            prompt_version=PROMPTS[kind],
            keep=tuple(kept.line for kept in keep),
            draft=draft,
        )
        if writer.model is not None:
            check_day(conversation.present, writer.model)
        if counted is not None:
            counted()
        text = answer_of(writer, request, timeout, model_attempts)
        accepted = len(text) <= SUMMARY_CHARS and escalation.accepts(attempt, text, count(text))
        if model_attempts and not accepted:
            model_attempts[-1] = replace(model_attempts[-1], outcome="too_long" if text else "empty")
        return text, accepted

    attempt = escalation.following(tries)
    while attempt is not None:
        keep = excerpts.must_keep(source.said, attempt.target_tokens // KEEP_PART, count)
        text, accepted = asked(attempt, keep)
        if accepted and (lost := excerpts.lost(keep, text)):
            first, before = text, len(model_attempts)
            text, is_short = asked(attempt, lost, first)
            is_better = is_short and len(excerpts.lost(keep, text)) < len(lost)
            text = text if is_better else first
            if model_attempts and is_short:
                unused = before - 1 if is_better else before
                model_attempts[unused] = replace(model_attempts[unused], outcome="incomplete")
            for kept in excerpts.lost(keep, text):
                longer = f"{text}\n{kept.line}"
                text = longer if escalation.accepts(attempt, longer, count(longer)) else text
        if accepted:
            return WrittenSummary(
                kind, attempt.level, text, count(text), conversation.counter.name, writer.name, PROMPTS[kind]
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
