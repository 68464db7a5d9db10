"""The graph of a session: its window from the oldest to the newest item, with the sources of each summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise

from ledger.core.call import Answer
from ledger.domain.text import mermaid_label, one_line
from ledger.sessions.answers import SessionInfo
from ledger.sessions.conversation import Conversation
from ledger.sessions.reading import info
from ledger.sessions.rules.window import FALLBACK, WindowItem
from ledger.sessions.window import OpenWindow
from projections.views import summaries
from projections.views.summaries import UNDER, WINDOW, SummaryRow

NO_SUMMARY = "FALLBACK, no summary: cut off"
MESSAGES = "messages"
MODEL_CHARS = 40


class Node(Answer, frozen=True, kw_only=True):
    """A node of the graph: a summary, or successive messages of the window.

    ``kind`` is "messages", "leaf" or "condensed". A summary stands for ``messages`` messages with ``source_tokens`` tokens, and
    takes ``tokens`` tokens itself. ``sources`` are the summaries from which it was written. If ``again`` is True, the summary
    appears earlier in the graph with its sources, which are left out here.
    """

    kind: str
    first: int  # the position of the oldest message
    last: int  # the position of the newest message
    messages: int
    tokens: int
    source_tokens: int
    earliest: str
    latest: str
    id: str = ""
    depth: int = -1
    level: str = ""
    status: str = ""
    model: str | None = ""
    sources: tuple[Node, ...] = ()
    again: bool = False

    @property
    def name(self) -> str:
        is_run = self.kind == MESSAGES
        return _count(self.messages, "message") if is_run else f"{self.id} {self.kind}, depth {self.depth}"

    @property
    def details(self) -> tuple[str, ...]:
        positions = f"#{self.first}" if self.first == self.last else f"#{self.first}–#{self.last}"
        times = span(self.earliest, self.latest)
        if self.kind == MESSAGES:
            return (_count(self.tokens, "token"), positions, times)
        size = (
            f"{_count(self.messages, 'message')} {positions}, {_count(self.source_tokens, 'token')} → {self.tokens:,}"
        )
        level = NO_SUMMARY if self.level == FALLBACK else self.level
        status = "" if self.status in (WINDOW, UNDER) else self.status
        model = f"by {one_line(self.model)[:MODEL_CHARS]}" if self.model else ""
        return (level, status, size, model, times, "drawn above" if self.again else "")


class SummaryGraph(Answer, frozen=True, kw_only=True):
    """The window of a session, oldest first; ``replaced`` are the summaries out of use, if the caller asked for them."""

    session: SessionInfo
    window: tuple[Node, ...]
    replaced: tuple[Node, ...] = ()

    @property
    def title(self) -> str:
        """Return the session's name and size on one harmless line."""
        about = self.session
        hidden = f", {about.hidden:,} hidden" if about.hidden else ""
        counts = f"{_count(about.messages, 'message')}, {_count(about.tokens, 'token')}{hidden}"
        window = f"window: {_count(about.window_items, 'item')}, {_count(about.window_tokens, 'token')}"
        return f"{one_line(about.name or about.id)} · {counts} · {window}"

    def as_mermaid(self) -> str:
        """Return a flowchart for Mermaid.

        Thick arrows lead along the window, thin arrows from a summary to its sources.
        """
        lines = ["flowchart LR", f'  s["{mermaid_label(self.title)}"]']
        for number, node in _numbered(self):
            ends = ("[[", "]]") if node.level == FALLBACK else ("[", "]") if node.kind == MESSAGES else ("(", ")")
            label = "<br/>".join(mermaid_label(text) for text in (node.name, *node.details) if text)
            lines.append(f'  {number}{ends[0]}"{label}"{ends[1]}')
        lines += [f"  {source} {'==>' if main else '-->'} {target}" for source, target, main in _edges(self)]
        return "\n".join(lines) + "\n"


def diagram(
    about: SessionInfo, rows_of_session: Sequence[SummaryRow], window: Iterable[WindowItem], *, everything: bool = False
) -> SummaryGraph:
    """Return the graph of a window (oldest first) with the summaries of its session.

    With ``everything``, summaries that are neither in the window nor under a summary of the window are included.
    """
    rows = {row.id: row for row in rows_of_session}
    drawn: set[str] = set()
    nodes: list[Node] = []
    for is_summary, items in groupby(window, key=lambda item: item.is_summary):
        successive = [*items]
        nodes += [_node(item.id, rows, drawn) for item in successive] if is_summary else [_run(successive)]
    roots = _roots(rows_of_session, drawn) if everything else ()
    return SummaryGraph(session=about, window=tuple(nodes), replaced=tuple(_node(id, rows, drawn) for id in roots))


def _run(items: Sequence[WindowItem]) -> Node:
    """Return successive messages as one node."""
    tokens = sum(item.tokens for item in items)
    return Node(
        kind=MESSAGES,
        first=items[0].place,
        last=items[-1].place,
        messages=len(items),
        tokens=tokens,
        source_tokens=tokens,
        earliest=min(item.time for item in items),
        latest=max(item.time for item in items),
    )


def _node(id: str, rows: Mapping[str, SummaryRow], drawn: set[str]) -> Node:
    """Return a summary with all summaries under it; a summary that is in the graph already has no sources here."""
    row, again = rows[id], id in drawn
    drawn.add(id)
    underlying = () if again else tuple(_node(source, rows, drawn) for source in row.summaries if source in rows)
    return Node(
        kind=row.kind,
        first=row.ranges[0][0],
        last=row.ranges[-1][1],
        messages=row.messages,
        tokens=row.tokens,
        source_tokens=row.source_tokens,
        earliest=row.earliest,
        latest=row.latest,
        id=row.id,
        depth=row.depth,
        level=row.level,
        status=row.status,
        model=row.model,
        sources=underlying,
        again=again,
    )


def _roots(rows: Sequence[SummaryRow], drawn: set[str]) -> list[str]:
    """Return the summaries not drawn yet that are under no other summary, in the order in which they were written."""
    undrawn = [row for row in rows if row.id not in drawn]
    underlying = {id for row in undrawn for id in row.summaries}
    return [row.id for row in undrawn if row.id not in underlying]


def span(earliest: str, latest: str) -> str:
    """Return two stored times as a span in UTC, with minutes and without seconds; a common day is written once."""
    start, end = (time[:16].replace("T", " ") for time in (earliest, latest))
    if start == end:
        return start
    return f"{start} – {end[11:] if start[:10] == end[:10] else end}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# --- nodes and edges -------------------------------------------------------------------------------------------------


def _all(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        yield from _all(node.sources)


def _number(node: Node) -> str:
    """Return the name of a node in a drawing; an id has only letters, digits and _."""
    return node.id or f"m{node.first}"


def _numbered(graph: SummaryGraph) -> Iterator[tuple[str, Node]]:
    """Yield every node once."""
    yield from {_number(node): node for node in _all((*graph.window, *graph.replaced)) if not node.again}.items()


def _edges(graph: SummaryGraph) -> Iterator[tuple[str, str, bool]]:
    """Yield the edges as (from, to, True for the order of the window)."""
    order = ["s", *map(_number, graph.window)]
    yield from ((before, after, True) for before, after in pairwise(order))
    for node in _all((*graph.window, *graph.replaced)):
        yield from ((_number(node), _number(source), False) for source in node.sources)


# --- the query -------------------------------------------------------------------------------------------------------


def dag(conversation: Conversation, *, everything: bool = False) -> SummaryGraph | None:
    """Return the graph of the session's window and of the summaries under it.

    With ``everything`` the summaries out of use are included. The answer is None while the session has no messages, and if the
    session is ignored.
    """
    with conversation.reading() as (connection, state):
        if state is None or conversation.kept_out == "ignored":
            return None
        rows = summaries.of_session(connection, state.row)
        return diagram(info(connection, state), rows, OpenWindow(connection, state).forwards(), everything=everything)
