"""The rewriting of a summary from the same sources; the new summary takes the place of the old summary."""

from __future__ import annotations

from ledger.core.call import Who
from ledger.core.work import Work
from ledger.domain.errors import ConflictError, ModelError, NotFoundError, RejectedError
from ledger.models.summarizing import TIMEOUT_SECONDS, ModelAttempt, emit_attempts
from ledger.sessions import answers, reading, summary_writes, writing
from ledger.sessions.conversation import Conversation
from ledger.sessions.drafting import (
    SourceTexts,
    check_patience,
    first_short_enough,
    record_calls,
    source_texts,
    writer_of,
)
from ledger.sessions.rules import escalation
from ledger.sessions.rules.compaction import ELEMENT_TOKENS, LEAF_CHUNK_TOKENS
from ledger.sessions.rules.window import CONDENSED
from ledger.sessions.summary_writes import SummarySources, check_in_use, record
from ledger.sessions.writing import invalidate
from projections.views import erasures, summaries
from projections.views.summaries import SummaryRow

REWRITTEN_TOKENS = 2 * LEAF_CHUNK_TOKENS  # a leaf has at most the tokens of a chunk and one more message


def rewrite(
    conversation: Conversation, asker: Who, id: str, *, summarizer: object = None, timeout: float = TIMEOUT_SECONDS
) -> answers.Summary:
    """Write a summary again from the same sources, and put the new summary in the place of the old summary.

    The old summary stays in the log. Summaries that were written from the old summary go out of use.

    Args:
        summarizer: The summarizer to use in place of the ledger's.

    Raises:
        RejectedError: There is no summarizer, the summary is out of use, no answer was short enough, or the call has an
            idempotency key: a second call would have to return the first summary, which cannot be rebuilt. Nothing is changed.
        ModelError: The summarizer failed. Nothing is changed.
    """
    if asker.key is not None:
        raise RejectedError(
            "summaries.rewrite() takes no idempotency_key: the new summary is in summaries.list(), and its replaces is the old id"
        )
    check_patience(conversation, timeout)
    writing.check_kept_in(conversation)
    writer = writer_of(conversation, summarizer)
    if writer is None:
        raise RejectedError(
            "summaries.rewrite() needs a summarizer: give one, or open the ledger with one", rule="model"
        )
    row, sources, source, seen, size = _to_rewrite(conversation, id)
    tries = escalation.attempts(row.kind, size + ELEMENT_TOKENS * max(0, len(sources.summaries) - 1))
    model_attempts = list[ModelAttempt]()

    def record_attempts(why: str) -> None:
        """Record the calls that led to no summary, in a separate command."""
        calls = tuple(model_attempts)
        model_attempts.clear()
        if calls:
            record_calls(conversation, asker, writer, calls, sources.ranges, why)

    try:
        written = first_short_enough(conversation, writer, row.kind, tries, source, timeout, None, model_attempts)
    except ModelError:
        record_attempts("failed")
        raise
    if written is None:
        record_attempts("refused")
        raise RejectedError(
            f"no answer of {writer.name!r:.60} was short enough for a summary", rule="refused", subject=row.id
        )
    made = ""

    def body(work: Work) -> str:
        nonlocal made
        state = writing.known(conversation, work)
        now = reading.summary_row(work.connection(), state, row.id)
        check_in_use(now, "rewritten")
        if erasures.last(work.connection()) != seen:
            raise ConflictError(
                "a text was erased while the summary was written, and the summary may repeat that text; call rewrite() again"
            )
        everything = summaries.of_session(work.connection(), state.row)
        invalidate(work, state, everything, {row.id}, "rewritten")
        made = record(work, state, sources, written, replaces=row.id)
        emit_attempts(work, writer, model_attempts, sources.ranges, made)
        return state.id

    try:
        conversation.writer.run("session.summaries.rewrite", asker, body, (conversation.name, id, writer.name))
    except (RejectedError, ConflictError, NotFoundError):
        record_attempts("moved")
        raise
    return summary_writes.summary_now_of(conversation, made)


def _to_rewrite(conversation: Conversation, id: str) -> tuple[SummaryRow, SummarySources, SourceTexts, int, int]:
    """Return a summary in use, its sources, their texts, the position of the last erasure, and the tokens of the texts."""
    with conversation.reading() as (connection, state):
        row = reading.summary_row(connection, conversation.needed(state), id)
        check_in_use(row, "rewritten")
        rows = {row.id: row for row in summaries.of_session(connection, row.session)}
        underlying = tuple(rows[id] for id in row.summaries if id in rows)
        sources = SummarySources(row.ranges, row.messages, row.source_tokens, row.earliest, row.latest, underlying)
        source = source_texts(conversation, connection, row.session, row.kind, sources)
        seen = erasures.last(connection)
    size = sum(summary.tokens for summary in underlying) if row.kind == CONDENSED else row.source_tokens
    if size > REWRITTEN_TOKENS:
        raise RejectedError(
            f"the sources of the summary {row.id} have {size:,} tokens; at most {REWRITTEN_TOKENS:,} can be rewritten at once:"
            " invalidate the summary and compact again",
            rule="size",
            subject=row.id,
            limit=REWRITTEN_TOKENS,
            requested=size,
        )
    return row, sources, source, seen, size
