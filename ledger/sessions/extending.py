"""The command that adds several messages in one append."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ledger.core.who import Who
from ledger.core.work import Work
from ledger.domain.errors import RejectedError
from ledger.sessions import answers
from ledger.sessions.conversation import Conversation
from ledger.sessions.from_empty import asker_from_empty, check_empty
from ledger.sessions.transcripts import Outside
from ledger.sessions.writing import TOGETHER, appended, count_tokens, history_change, opened, with_bodies


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
    emitted = [
        (
            line.created_at,
            appended(
                line.draft,
                *count_tokens(conversation, line.draft, line.token_count),
                line.model,
                line.metadata,
                line.raw,
            ),
        )
        for line in lines
    ]
    given = [(line.draft, line.model, line.created_at, line.token_count, {**line.metadata}, line.raw) for line in lines]
    arguments = (conversation.name, given, asker.occurred_at)
    asker, is_from_empty = asker_from_empty(asker)

    def body(work: Work) -> str:
        stream, first = opened(conversation, work)
        if is_from_empty:
            check_empty(conversation, work, stream, first)
        for created_at, data in emitted:
            work.occurred_at = created_at or asker.occurred_at
            work.emit(stream, with_bodies(work, data), first=first)
        return stream

    outcome = conversation.writer.run("session.extend", asker, body, arguments)
    return replace(history_change(conversation.name, outcome, "appended"), left_out=left_out)
