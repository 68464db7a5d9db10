"""The graph of a session: its window from the oldest to the newest, with the summaries that each summary was written from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise

from ledger.domain.harmless import mermaid_label, one_line
from ledger.domain.window import FALLBACK, WindowItem
from ledger.engine.answer import Answer
from ledger.sessions.answers import SessionInfo
from ledger.sessions.conversation import Conversation
from ledger.sessions.reading import info
from ledger.sessions.window import OpenWindow
from projections.views import summaries
from projections.views.summaries import UNDER, WINDOW, Summary

NO_SUMMARY = "FALLBACK, no summary: cut off"
MESSAGES = "messages"
MODEL_CHARS = 40


class Node(Answer, frozen=True, kw_only=True):
    """Messages that stand side by side in the window as themselves (``kind`` "messages"), or a summary ("leaf" or
    "condensed"), which stands for so many messages with ``source_tokens`` and takes ``tokens``. ``sources`` are the
    summaries that it was written from; they are left out where ``again`` says that it is drawn before, with them."""

    kind: str
    first: int  # position of its oldest message, and the newest
    last: int
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
        where = f"#{self.first}" if self.first == self.last else f"#{self.first}–#{self.last}"
        times = span(self.earliest, self.latest)
        if self.kind == MESSAGES:
            return (_count(self.tokens, "token"), where, times)
        size = f"{_count(self.messages, 'message')} {where}, {_count(self.source_tokens, 'token')} → {self.tokens:,}"
        level = NO_SUMMARY if self.level == FALLBACK else self.level
        status = "" if self.status in (WINDOW, UNDER) else self.status
        model = f"by {one_line(self.model)[:MODEL_CHARS]}" if self.model else ""
        return (level, status, size, model, times, "drawn above" if self.again else "")


class SummaryGraph(Answer, frozen=True, kw_only=True):
    """The window of a session, oldest first; ``replaced`` are the summaries that stand for nothing any more, where asked for."""

    session: SessionInfo
    window: tuple[Node, ...]
    replaced: tuple[Node, ...] = ()

    @property
    def title(self) -> str:
        """The session and what it takes, on one harmless line."""
        about = self.session
        hidden = f", {about.hidden:,} hidden" if about.hidden else ""
        counts = f"{_count(about.messages, 'message')}, {_count(about.tokens, 'token')}{hidden}"
        window = f"window: {_count(about.window_items, 'item')}, {_count(about.window_tokens, 'token')}"
        return f"{one_line(about.name or about.id)} · {counts} · {window}"

    def as_mermaid(self) -> str:
        """Return a flowchart for Mermaid: the window along thick arrows, and from a summary arrows to its sources."""
        lines = ["flowchart LR", f'  s["{mermaid_label(self.title)}"]']
        for number, node in _numbered(self):
            ends = ("[[", "]]") if node.level == FALLBACK else ("[", "]") if node.kind == MESSAGES else ("(", ")")
            label = "<br/>".join(mermaid_label(each) for each in (node.name, *node.details) if each)
            lines.append(f'  {number}{ends[0]}"{label}"{ends[1]}')
        lines += [f"  {source} {'==>' if main else '-->'} {target}" for source, target, main in _edges(self)]
        return "\n".join(lines) + "\n"


def diagram(
    about: SessionInfo, known: Sequence[Summary], window: Iterable[WindowItem], *, everything: bool = False
) -> SummaryGraph:
    """The graph of a window (oldest first), of the summaries that there are of its session; with ``everything`` also of
    those that stand neither in it nor under one that does."""
    rows = {each.id: each for each in known}
    drawn: set[str] = set()
    nodes: list[Node] = []
    for is_summary, items in groupby(window, key=lambda item: item.is_summary):
        side_by_side = [*items]
        nodes += [_node(item.id, rows, drawn) for item in side_by_side] if is_summary else [_run(side_by_side)]
    roots = _roots(known, drawn) if everything else ()
    return SummaryGraph(session=about, window=tuple(nodes), replaced=tuple(_node(id, rows, drawn) for id in roots))


def _run(items: Sequence[WindowItem]) -> Node:
    """Messages side by side as one node."""
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


def _node(id: str, rows: Mapping[str, Summary], drawn: set[str]) -> Node:
    """A summary with all that is under it, which is drawn once."""
    row, again = rows[id], id in drawn
    drawn.add(id)
    underlying = () if again else tuple(_node(each, rows, drawn) for each in row.summaries if each in rows)
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


def _roots(known: Sequence[Summary], drawn: set[str]) -> list[str]:
    """Those not drawn yet that are under none of the others, in the order in which they were written."""
    left = [each for each in known if each.id not in drawn]
    underlying = {id for each in left for id in each.summaries}
    return [each.id for each in left if each.id not in underlying]


def span(earliest: str, latest: str) -> str:
    """From one stored time to another, to the minute, in UTC; what they have in common is said once."""
    start, end = (each[:16].replace("T", " ") for each in (earliest, latest))
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
    """What it is called in a drawing: an id is of letters, digits and _."""
    return node.id or f"m{node.first}"


def _numbered(found: SummaryGraph) -> Iterator[tuple[str, Node]]:
    """Every node once."""
    yield from {_number(node): node for node in _all((*found.window, *found.replaced)) if not node.again}.items()


def _edges(found: SummaryGraph) -> Iterator[tuple[str, str, bool]]:
    """(from, to, whether it is the order of the window)."""
    order = ["s", *map(_number, found.window)]
    yield from ((before, after, True) for before, after in pairwise(order))
    for node in _all((*found.window, *found.replaced)):
        yield from ((_number(node), _number(each), False) for each in node.sources)


# --- asked for -------------------------------------------------------------------------------------------------------


def dag(conversation: Conversation, *, everything: bool = False) -> SummaryGraph | None:
    """The graph of its window and of the summaries under it.

    With ``everything`` also of the summaries that stand for nothing any more. None while nothing was said in it, and
    where it is ignored.
    """
    with conversation.reading() as (connection, state):
        if state is None or conversation.kept_out == "ignored":
            return None
        known = summaries.of_session(connection, state.row)
        return diagram(info(connection, state), known, OpenWindow(connection, state).forwards(), everything=everything)
