"""The commands on summaries: record a summary in the place of its sources, invalidate a summary, and restore a summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.work import Work
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.ids import message_place
from ledger.domain.text import check_reason, check_text
from ledger.events import ContextReplaced, Ranges, SummaryCreated, SummaryRestored
from ledger.sessions import answers, reading, writing
from ledger.sessions.conversation import Conversation
from ledger.sessions.counting import check_tokens
from ledger.sessions.rules.session import SessionState as State
from ledger.sessions.rules.statuses import unerased
from ledger.sessions.rules.window import CONDENSED, LEAF
from ledger.sessions.window import OpenWindow
from ledger.sessions.writing import invalidate
from projections.core.rows import Connection
from projections.views import sessions, summaries
from projections.views.sessions import besides
from projections.views.summaries import SummaryRow


class WrittenSummary(Struct, frozen=True):
    """A summary that was written and is not recorded yet."""

    kind: str
    level: str
    content: str
    tokens: int
    counter: str
    model: str = ""
    prompt: str = ""


class SummarySources(Struct, frozen=True):
    """The sources of a summary: ranges of messages, with their number, size and times.

    ``summaries`` are the summaries in the window that stand for these messages, and whose place the new summary takes.
    """

    ranges: Ranges
    messages: int
    tokens: int
    earliest: str
    latest: str
    summaries: tuple[SummaryRow, ...] = ()


def of_messages(window: OpenWindow, first: int, last: int) -> SummarySources | None:
    """Return the messages between two positions that no summary stands for; None without such messages."""
    free = sorted(besides((*window.hidden_ranges, *window.covered), (first, last)))
    columns = "min(row), max(row), count(*), sum(tokens), min(time), max(time)"
    sql = f"SELECT {columns} FROM messages WHERE session = ? AND row BETWEEN ? AND ?"
    sums = (window.connection.execute(sql, (window.state.row, *span)).fetchone() for span in free)
    stretches = [stretch for stretch in sums if stretch[2]]
    if not stretches:
        return None
    return SummarySources(
        ranges=tuple((stretch[0], stretch[1]) for stretch in stretches),
        messages=sum(stretch[2] for stretch in stretches),
        tokens=sum(stretch[3] for stretch in stretches),
        earliest=min(stretch[4] for stretch in stretches),
        latest=max(stretch[5] for stretch in stretches),
    )


def of_summaries(
    connection: Connection, row: int, rows: Sequence[SummaryRow], more: SummarySources | None = None
) -> SummarySources:
    """Return the messages that some summaries stand for, with these summaries, and with ``more`` messages."""
    spans = [span for summary in rows for span in summary.ranges]
    found = [more] if more is not None else []
    counted: list[SummaryRow | SummarySources] = [*rows, *found]
    return SummarySources(
        ranges=joined(connection, row, [*spans, *(span for each in found for span in each.ranges)]),
        messages=sum(each.messages for each in counted),
        tokens=sum(summary.source_tokens for summary in rows) + sum(each.tokens for each in found),
        earliest=min(each.earliest for each in counted),
        latest=max(each.latest for each in counted),
        summaries=tuple(rows),
    )


def joined(connection: Connection, row: int, ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the ranges in order; two ranges become one if no message of the session lies between them."""
    sql = "SELECT 1 FROM messages WHERE session = ? AND row > ? AND row < ? LIMIT 1"
    result: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if result and connection.execute(sql, (row, result[-1][1], first)).fetchone() is None:
            result[-1] = (result[-1][0], last)
        else:
            result.append((first, last))
    return tuple(result)


def record(
    work: Work, state: State, sources: SummarySources, written: WrittenSummary, replaces: str | None = None
) -> str:
    """Emit the events of a summary, and return its id.

    The summary stands for its messages. Its sources, and a summary that it replaces, leave the window.
    """
    underlying = sources.summaries if written.kind == CONDENSED else ()
    made = work.new_id("y")
    created = SummaryCreated(
        summary=made,
        kind=written.kind,
        level=written.level,
        depth=max((summary.depth for summary in underlying), default=-1) + 1,
        content=work.body(written.content),
        tokens=written.tokens,
        counter=written.counter,
        ranges=sources.ranges,
        messages=sources.messages,
        source_tokens=sources.tokens,
        first=sources.ranges[0][0],
        earliest=sources.earliest,
        latest=sources.latest,
        summaries=tuple(summary.id for summary in underlying),
        descendants=sum(summary.descendants + 1 for summary in underlying),
        descendant_tokens=sum(summary.descendant_tokens + summary.tokens for summary in underlying),
        model=written.model,
        prompt=written.prompt,
        replaces=replaces,
    )
    work.emit(state.id, created, first=state.row)
    work.emit(state.id, ContextReplaced(made, tuple(summary.id for summary in sources.summaries)), first=state.row)
    return made


def add_summary(
    conversation: Conversation,
    asker: Who,
    content: str,
    sources: Sequence[str | int],
    *,
    token_count: int | None = None,
    model: str = "",
) -> answers.Summary:
    """Record a summary that was written elsewhere, in the place of its messages or of the summaries that it was written from.

    Raises:
        RejectedError: The sources are no stretch of the window, are of both kinds, or a pattern keeps the session out.
        NotFoundError: This session has no such message or summary.
    """
    writing.check_kept_in(conversation)
    check_text("content", content, max_bytes=writing.SUMMARY_BYTES)
    check_text("model", model, blank_allowed=True)
    given = check_tokens("token_count", token_count) if token_count is not None else None

    def body(work: Work) -> str:
        state = writing.known(conversation, work)
        window, text = OpenWindow(work.connection(), state), work.cleaned(content)
        kind, found = _stretch(window, sources)
        tokens = conversation.counter.of_text(text) if given is None else given
        counter = conversation.counter.name if given is None else "given"
        record(work, state, found, WrittenSummary(kind, "normal", text, tokens, counter, model))
        return state.id

    arguments = (conversation.name, content, tuple(sources), given, model)
    outcome = conversation.writer.run("session.summaries.add", asker, body, arguments)
    with conversation.reading() as (connection, state):
        rows = summaries.of_session(connection, conversation.needed(state).row)
        row = max((row for row in rows if row.row <= outcome.position), key=lambda row: row.row)
        return replace(reading.summary_shown(conversation, connection, row), replayed=outcome.replayed)


def _stretch(window: OpenWindow, sources: Sequence[str | int]) -> tuple[str, SummarySources]:
    """Return the kind of a summary of these messages or summaries, and its sources.

    Raises:
        RejectedError: The sources are not a stretch of the window: one is not in it, or an item between two of them is missing.
        NotFoundError: This session has no such message or summary.
    """
    connection, state = window.connection, window.state
    found: SummarySources | None
    of_both = {isinstance(source, str) and source.startswith("y_") for source in sources}
    if len(of_both) != 1:
        raise RejectedError(
            "sources are the messages that the summary stands for, or the summaries that it was written from: give one of the"
            " two, and at least one source"
        )
    if of_both == {True}:
        rows = {row.id: row for row in (reading.summary_row(connection, state, id) for id in sources)}
        chosen = sorted(rows.values(), key=lambda row: row.first)
        if out := [row.id for row in chosen if row.status != summaries.WINDOW]:
            raise RejectedError(
                f"the summary {out[0]} is not in the window, so no summary can take its place", subject=out[0]
            )
        first, last = chosen[0].first, max(span[1] for row in chosen for span in row.ranges)
        between = of_messages(window, first, last) is not None
        kind, found = CONDENSED, of_summaries(connection, state.row, chosen)
    else:
        positions = {_position(connection, state, source) for source in sources}
        first, last = min(positions), max(positions)
        chosen, free = [], of_messages(window, first, last)
        if free is None or sessions.count(connection, state.row, [(at, at) for at in positions])[0] != free.messages:
            free, between = None, True
        kind, found, between = LEAF, free, free is None
    inside = {row.id for row in window.summaries if first <= row.first <= last} - {row.id for row in chosen}
    if between or inside or found is None:
        raise RejectedError(
            f"the sources are no stretch of the window: between {first} and {last} it has other messages or summaries, or not all"
            " of them are there; name every item of the stretch",
            rule="transition",
        )
    return kind, found


def _position(connection: Connection, state: State, source: str | int) -> int:
    """Return the position of a message of the session, named by its position or its id."""
    place = message_place(source) if isinstance(source, str) else (state.id, source)
    row = sessions.at_position(connection, place[1]) if place is not None and place[0] == state.id else None
    if row is None or row.session != state.row:
        raise NotFoundError(f"this session has no message or summary {source!r:.40}")
    return row.row


def invalidate_summary(
    conversation: Conversation, asker: Who, id: str, reason: str = "", *, subtree: bool = False
) -> answers.HistoryChange:
    """Take a summary out of use, and every summary that was written from it; their sources are in the window again.

    With ``subtree`` all summaries under the summary go out of use too, so that the messages are in the window.
    """
    check_reason("reason", reason)

    def body(work: Work) -> None:
        state = writing.known(conversation, work)
        rows = summaries.of_session(work.connection(), state.row)
        row = reading.summary_row(work.connection(), state, id)
        if row.status == summaries.INVALID:
            return
        check_in_use(row, "invalidated")
        invalidated, by_id = {row.id}, {summary.id: summary for summary in rows}
        waiting = list(row.summaries) if subtree else []
        while waiting:
            invalidated.add(underlying := waiting.pop())
            waiting += by_id[underlying].summaries if underlying in by_id else ()
        invalidate(work, state, rows, invalidated, "asked", reason)

    return writing.change(
        conversation, "session.summaries.invalidate", body, (id, reason, subtree), asker, "invalidated"
    )


def restore_summary(conversation: Conversation, asker: Who, id: str, reason: str = "") -> answers.Summary:
    """Put an invalidated summary into the window again, in the place of its sources.

    Raises:
        RejectedError: Not all sources are in the window (hidden, or under another summary), or a pattern keeps the session out.
    """
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

    outcome = conversation.writer.run("session.summaries.restore", asker, body, (conversation.name, id, reason))
    return replace(summary_now_of(conversation, id), replayed=outcome.replayed)


def summary_now_of(conversation: Conversation, id: str) -> answers.Summary:
    with conversation.reading() as (connection, state):
        return reading.summary_shown(
            conversation, connection, reading.summary_row(connection, conversation.needed(state), id)
        )


def check_in_use(row: SummaryRow, action: str) -> None:
    """Check that a summary is in the window or under another summary; ``action`` is a word for the error, like "rewritten".

    Raises:
        RejectedError: The summary is out of use.
    """
    if row.status not in (summaries.WINDOW, summaries.UNDER):
        raise RejectedError(
            f"the summary {row.id} is {row.status} and cannot be {action}; only a summary in the window or under another can",
            rule="transition",
            subject=row.id,
        )


def _check_restorable(connection: Connection, window: OpenWindow, row: SummaryRow) -> None:
    if row.status != summaries.INVALID:
        raise RejectedError(
            f"the summary {row.id} is {row.status}; only an invalidated one can be restored",
            rule="transition",
            subject=row.id,
        )
    states = {
        summary.id: (summary.status, summary.summaries) for summary in summaries.of_session(connection, row.session)
    }
    underlying, in_window = list(unerased(row.summaries, states.get)), {summary.id for summary in window.summaries}
    if missing := [id for id in underlying if id not in in_window]:
        raise RejectedError(
            f"the summary {row.id} was written from {missing[0]}, which is not in the window; restore that first",
            rule="transition",
            subject=row.id,
        )
    others = [summary for summary in window.summaries if summary.id not in underlying]
    unavailable = [*window.hidden_ranges, *(span for summary in others for span in summary.ranges)]
    count, tokens = sessions.count(connection, window.state.row, row.ranges)
    if summaries.touches(row.ranges, unavailable) or (count, tokens) != (row.messages, row.source_tokens):
        raise RejectedError(
            f"not all messages of the summary {row.id} are in the window: some are hidden, or another summary stands for them",
            rule="transition",
            subject=row.id,
        )
