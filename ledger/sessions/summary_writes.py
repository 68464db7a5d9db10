"""The commands on summaries: record one in the place of what it was written from, take one out of use, bring it back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ledger.domain.errors import RejectedError
from ledger.domain.events import ContextReplaced, Ranges, SummaryCreated, SummaryRestored
from ledger.domain.session import Session as State
from ledger.domain.statuses import meant
from ledger.domain.text import check_reason
from ledger.domain.window import CONDENSED
from ledger.engine.who import Who
from ledger.engine.work import Work
from ledger.sessions import answers, reading, writing
from ledger.sessions.conversation import Conversation
from ledger.sessions.window import OpenWindow
from ledger.sessions.writing import invalidate
from projections.core.rows import Connection
from projections.views import sessions, summaries
from projections.views.sessions import besides
from projections.views.summaries import Summary


class Written(Struct, frozen=True):
    """A summary as it was written, before it is recorded."""

    kind: str
    level: str
    content: str
    tokens: int
    counter: str
    model: str = ""
    prompt: str = ""


class Sources(Struct, frozen=True):
    """What a summary is of: ranges of messages, how many and how large, from when to when; and the summaries that they
    stand under in the window, if it is written from these or takes their place."""

    ranges: Ranges
    messages: int
    tokens: int
    earliest: str
    latest: str
    summaries: tuple[Summary, ...] = ()


def of_messages(window: OpenWindow, first: int, last: int) -> Sources | None:
    """The messages that are in the window as themselves, between two positions; None where there are none."""
    free = sorted(besides((*window.hidden_ranges, *window.covered), (first, last)))
    what = "min(row), max(row), count(*), sum(tokens), min(time), max(time)"
    sql = f"SELECT {what} FROM messages WHERE session = ? AND row BETWEEN ? AND ?"
    sums = (window.connection.execute(sql, (window.state.row, *each)).fetchone() for each in free)
    found = [each for each in sums if each[2]]
    if not found:
        return None
    return Sources(
        ranges=tuple((each[0], each[1]) for each in found),
        messages=sum(each[2] for each in found),
        tokens=sum(each[3] for each in found),
        earliest=min(each[4] for each in found),
        latest=max(each[5] for each in found),
    )


def of_summaries(connection: Connection, row: int, given: Sequence[Summary]) -> Sources:
    """All that some summaries stand for."""
    ranges = joined(connection, row, [each for summary in given for each in summary.ranges])
    return Sources(
        ranges=ranges,
        messages=sum(each.messages for each in given),
        tokens=sum(each.source_tokens for each in given),
        earliest=min(each.earliest for each in given),
        latest=max(each.latest for each in given),
        summaries=tuple(given),
    )


def joined(connection: Connection, row: int, ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The ranges in order; two between which nothing of the session lies become one."""
    sql = "SELECT 1 FROM messages WHERE session = ? AND row > ? AND row < ? LIMIT 1"
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and connection.execute(sql, (row, found[-1][1], first)).fetchone() is None:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return tuple(found)


def record(work: Work, state: State, sources: Sources, written: Written, replaces: str | None = None) -> str:
    """The events of one summary: it stands for its messages, and what it was written from or replaces leaves the window."""
    underlying = sources.summaries if written.kind == CONDENSED else ()
    made = work.new_id("y")
    created = SummaryCreated(
        summary=made,
        kind=written.kind,
        level=written.level,
        depth=max((each.depth for each in underlying), default=-1) + 1,
        content=work.body(written.content),
        tokens=written.tokens,
        counter=written.counter,
        ranges=sources.ranges,
        messages=sources.messages,
        source_tokens=sources.tokens,
        first=sources.ranges[0][0],
        earliest=sources.earliest,
        latest=sources.latest,
        summaries=tuple(each.id for each in underlying),
        descendants=sum(each.descendants + 1 for each in underlying),
        descendant_tokens=sum(each.descendant_tokens + each.tokens for each in underlying),
        model=written.model,
        prompt=written.prompt,
        replaces=replaces,
    )
    work.emit(state.id, created, first=state.row)
    work.emit(state.id, ContextReplaced(made, tuple(each.id for each in sources.summaries)), first=state.row)
    return made


def invalidate_summary(
    conversation: Conversation, asker: Who, id: str, reason: str = "", *, subtree: bool = False
) -> answers.HistoryChange:
    """Takes a summary out of use, with every one that was written from it: what it was written from is in the window
    again. With ``subtree`` also all summaries under it, so that the messages themselves are."""
    check_reason("reason", reason)

    def body(work: Work) -> None:
        state = writing.known(conversation, work)
        known = summaries.of_session(work.connection(), state.row)
        row = reading.summary_row(work.connection(), state, id)
        if row.status == summaries.INVALID:
            return
        check_in_use(row, "invalidated")
        fallen, by_id = {row.id}, {each.id: each for each in known}
        waiting = list(row.summaries) if subtree else []
        while waiting:
            fallen.add(underlying := waiting.pop())
            waiting += by_id[underlying].summaries if underlying in by_id else ()
        invalidate(work, state, known, fallen, "asked", reason)

    return writing.change(
        conversation, "session.summaries.invalidate", body, (id, reason, subtree), asker, "invalidated"
    )


def restore_summary(conversation: Conversation, asker: Who, id: str, reason: str = "") -> answers.Summary:
    """Brings an invalidated summary back into the window, in the place of what it was written from; ``RejectedError`` where
    that is no longer all there: hidden meanwhile, or summed up by another; and in a session that a pattern keeps out."""
    writing.check_kept_in(conversation)
    check_reason("reason", reason)

    def body(work: Work) -> str:
        state = writing.known(conversation, work)
        connection = work.connection()
        row, window = reading.summary_row(connection, state, id), OpenWindow(connection, state)
        if row.status not in (summaries.WINDOW, summaries.UNDER):
            _check_restorable(connection, window, row)
            work.emit(state.id, SummaryRestored(row.id, row.summaries, reason), first=state.row)
        return state.id

    conversation.writer.run("session.summaries.restore", asker, body, (conversation.name, id, reason))
    return summary_now_of(conversation, id)


def summary_now_of(conversation: Conversation, id: str) -> answers.Summary:
    with conversation.reading() as (connection, state):
        return reading.summary_shown(
            conversation, connection, reading.summary_row(connection, conversation.needed(state), id)
        )


def check_in_use(row: Summary, what: str) -> None:
    """``RejectedError`` for a summary that stands neither in the window nor under another."""
    if row.status not in (summaries.WINDOW, summaries.UNDER):
        raise RejectedError(
            f"the summary {row.id} is {row.status}, so it cannot be {what}; one that stands in the window or under another can",
            rule="transition",
            subject=row.id,
        )


def _check_restorable(connection: Connection, window: OpenWindow, row: Summary) -> None:
    if row.status != summaries.INVALID:
        raise RejectedError(
            f"the summary {row.id} is {row.status}; only an invalidated one can be restored",
            rule="transition",
            subject=row.id,
        )
    known = {each.id: (each.status, each.summaries) for each in summaries.of_session(connection, row.session)}
    underlying, in_window = list(meant(row.summaries, known.get)), {each.id for each in window.summaries}
    if missing := [each for each in underlying if each not in in_window]:
        raise RejectedError(
            f"the summary {row.id} was written from {missing[0]}, which is not in the window; restore that first",
            rule="transition",
            subject=row.id,
        )
    others = [each for each in window.summaries if each.id not in underlying]
    taken = [*window.hidden_ranges, *(span for each in others for span in each.ranges)]
    count, tokens = sessions.count(connection, window.state.row, row.ranges)
    if summaries.touches(row.ranges, taken) or (count, tokens) != (row.messages, row.source_tokens):
        raise RejectedError(
            f"not all messages of the summary {row.id} are in the window: some are hidden, or another summary stands for them",
            rule="transition",
            subject=row.id,
        )
