"""The views of conversations: whole messages, search hits, a window, a compaction, the graph of summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from ledger.cli.pieces import card_of, detailed, heading, listing, moment, short, titled, whole
from ledger.cli.terminal_text import as_json, shortened, visible
from ledger.cli.views.beliefs import pack
from ledger.cli.views.tables import table
from ledger.domain.text import counted, one_line
from ledger.sessions.answers import CompactionReport, CompactionSkip, HistoryChange, Message
from ledger.sessions.assembled import Entry, Window
from ledger.sessions.diagram import NO_SUMMARY, Node, SummaryGraph, span
from ledger.sessions.rules.assembly import REASONS
from ledger.sessions.rules.compaction import SKIPS
from ledger.sessions.rules.message import readable
from ledger.sessions.rules.rendering import Rendered
from ledger.sessions.rules.window import EXCERPT, FALLBACK, NORMAL, UNWRITTEN
from ledger.sessions.search_answers import Expansion, Hit, Hits, Unexpanded
from projections.views.summaries import WINDOW

SKIPPED: Mapping[str, str] = {
    **SKIPS,
    "ignored": "a pattern keeps this session out altogether",
    "stateless": "a pattern keeps what is said in this session out",
    "empty": "the transcript has no messages; clear hides those of the session",
    "transient": "nothing but an assistant's reasoning, which is not stored",
    "under_way": "another compaction of this session is under way",
    "failed": "the summarizer failed",
    "unread": "the model found no memories in it because it failed; the next extraction reads it",
    "moved": "the window was no longer what was summarized",
}
NO_MODEL = {
    EXCERPT: "written without a model: an excerpt is the weightiest sentences of its messages, word for word; #N is the message",
    FALLBACK: "written without a model: a fallback is the cut beginning of its messages, and no summary",
}


def _messages_whole(messages: Sequence[Message]) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for message in messages:
        head = f"\n#{message.position} {message.speaker or message.role}"
        parts += [Text(head, style="bold"), _message(message, whole(_text_of(message)))]
    return parts or [Text("none", style="dim")]


def _text_of(message: Message) -> str | None:
    return None if message.content is None else message.text or message.reasoning or ""


def _message(message: Message, text: Text) -> Text:
    hidden = f"hidden by {message.hidden}" if message.hidden else ""
    reasoning = f"{counted(len(message.reasoning), 'character')} of reasoning" if message.reasoning else ""
    return detailed(
        text, counted(message.tokens, "token"), moment(message.occurred_at), message.model, reasoning, hidden
    )


def not_stored(why: str) -> RenderableType:
    return Text(f"not stored: {_why(why)}")


def change(answer: HistoryChange) -> RenderableType:
    """Return the change of a session's history."""
    if answer.skipped:
        return Text(f"nothing was done: {_why(answer.skipped)}")
    names = ("kept", "appended", "repaired", "hidden", "left_out")
    counts = {name: getattr(answer, name) for name in names}
    values = [f"{number:,} {name.replace('_', ' ')}" for name, number in counts.items() if number]
    out_of_use = {"out of use": Text("\n".join(answer.invalidated))} if answer.invalidated else {}
    title = {"none": "nothing to do", "appended": ""}.get(answer.change, answer.change)
    return Group(Text(": ".join(part for part in (title, ", ".join(values)) if part)), card_of(out_of_use))


# --- summaries and compaction ----------------------------------------------------------------------------------------


def compaction(report: CompactionReport) -> RenderableType:
    if report.position == 0:
        return Group(*(Text(f"nothing was done: {_why(skip.why)}") for skip in report.skipped))
    parts: list[RenderableType] = [table(report.created)] if report.created else []
    tokens = _from_to(report.tokens_before, report.tokens_after, "token")
    items = _from_to(report.items_before, report.items_after, "item")
    under = "" if report.under is None else f", {'within' if report.under else 'over'} {report.budget:,}"
    notes = [*([] if report.created else ["nothing was compacted"]), f"window: {tokens}, {items}{under}"]
    levels = {summary.level for summary in report.created}
    notes += [note for level, note in NO_MODEL.items() if level in levels]
    return Group(*parts, *(Text(note, style="dim") for note in notes), *_skips(report))


def _from_to(before: int, after: int, noun: str) -> str:
    return counted(after, noun) if before == after else f"{before:,} → {counted(after, noun)}"


def _skips(report: CompactionReport) -> list[Text]:
    """Return the reasons why no further summary was written; a reason that several runs of messages share is shown once."""
    by_reason: dict[tuple[str, str, str], list[CompactionSkip]] = {}
    for skip in report.skipped:
        by_reason.setdefault((skip.kind, skip.why, skip.error), []).append(skip)
    further = "further " if report.created else ""
    return [
        Text(f"no {further}{kind} summary{_runs(skips)}: {_why(why)}{f': {one_line(error)}' if error else ''}", "dim")
        if kind
        else Text(_why(why))
        for (kind, why, error), skips in by_reason.items()
    ]


def _runs(skips: Sequence[CompactionSkip]) -> str:
    sizes = [f"{counted(skip.messages, 'message')}, {counted(skip.tokens, 'token')}" for skip in skips if skip.messages]
    return f" of {len(sizes):,} runs" if len(sizes) > 1 else f" ({sizes[0]})" if sizes else ""


def _why(code: str) -> str:
    return SKIPPED.get(code, one_line(code))


# --- assemblies ------------------------------------------------------------------------------------------------------


def rendered(answer: Rendered) -> str:
    """Return the messages as JSON in the form that a provider takes."""
    fields = {"messages": answer.messages, "system": answer.system}
    return as_json({name: value for name, value in fields.items() if value != ""}) + "\n"


def window(answer: Window) -> RenderableType:
    """Return a row for each entry of a window, and the totals."""
    if answer.skipped:
        return Text(f"nothing is read of this session: {_why(answer.skipped)}")
    rows = [_entry_row(entry) for entry in answer.entries]
    entries = [listing("what", "tokens", "time", "words", rows=rows, right=["tokens"])] if rows else []
    memories = titled("Remembered", pack(answer.pack)) if answer.pack is not None else []
    return Group(*entries, *memories, heading("In all"), *map(Text, _totals(answer)))


def _entry_row(entry: Entry) -> list[RenderableType]:
    item = entry.item
    text = short(readable(entry.content, entry.parts) if entry.content is not None else None)
    text.no_wrap, text.overflow = True, "ellipsis"
    kind = item.level if item.level in UNWRITTEN else item.summary_kind or item.role
    kind = kind if entry.shortened is None else f"{kind}, shortened"
    label = Text(kind, style="yellow" if kind == FALLBACK else "")
    return [label, Text(f"{item.tokens:,}"), Text(moment(item.time)), text]


def _totals(window: Window) -> list[str]:
    frame = f", {window.overhead:,} of them around summaries and memories" if window.overhead else ""
    over = "; over budget" if window.over_budget else ""
    evicted = window.evicted
    left_out = (
        f"left out: {counted(evicted.items, 'older item')}, {counted(evicted.messages, 'message')}, "
        f"{counted(evicted.tokens, 'token')}"
    )
    return [
        f"{counted(len(window.entries), 'entry')}, {window.used:,} of {counted(window.budget, 'token')}{frame}{over}",
        *([left_out] if evicted else []),
        *(f"{reason}: {REASONS.get(reason, '')}" for reason in window.reasons),
        *([f"receipt {window.receipt}"] if window.receipt else []),
    ]


# --- search ----------------------------------------------------------------------------------------------------------


def hits(answer: Hits) -> RenderableType:
    searched = f"{answer.searched:,} searched"
    if not answer:
        hint = one_line(answer.hint)
        hint = hint.replace("include_hidden=True", "--include-hidden")
        return Text(f"nothing found, {searched}{f': {hint}' if hint else ''}")
    total = f"{'' if answer.is_exact else 'at least '}{answer.total:,} found"
    rows = [_hit_row(hit) for hit in answer]
    return Group(listing("pos", "what", "text", rows=rows, right=["pos"]), Text(f"{total}, {searched}", "dim"))


def _hit_row(hit: Hit) -> list[RenderableType]:
    level = NO_SUMMARY if hit.level == FALLBACK else hit.level if hit.level != NORMAL else ""
    status = hit.status if hit.status != WINDOW else ""
    depth = f"depth {hit.depth}" if hit.depth is not None else ""
    hidden = f"hidden by {hit.hidden}" if hit.hidden else ""
    details = (hit.session, span(hit.occurred_at, hit.until), hit.id, depth, level, status, hidden)
    return [Text(str(hit.position)), Text(hit.role or hit.summary_kind or hit.kind),
            detailed(_marked(hit), *details)]  # fmt: skip


def _marked(hit: Hit) -> Text:
    """Return the snippet of a hit on one line, with the matches highlighted."""
    text, at = Text(), 0
    for first, end in hit.spans:
        text.append(_inline(hit.snippet[at:first]))
        text.append(_inline(hit.snippet[first:end]), style="bold yellow")
        at = end
    return text.append(_inline(hit.snippet[at:]))


def _inline(text: str) -> str:
    return visible(text).replace("\n", " ")


def expansion(answer: Expansion) -> RenderableType:
    """Return the expanded messages whole, and the parts that remain to be expanded."""
    over = ", the first alone is over it" if answer.over_budget else ""
    text = f"{counted(len(answer.messages), 'message')}, {answer.used:,} of {counted(answer.budget, 'token')}{over}"
    remaining = [Text(_unexpanded(part), style="dim") for part in answer.rest]
    unknown = [one_line(str(name)) for name in answer.unknown]
    missing = [Text(f"not in this session: {', '.join(unknown)}", style="dim")] if unknown else []
    return Group(*_messages_whole(answer.messages), Text(f"\n{text}", style="dim"), *remaining, *missing)


def _unexpanded(part: Unexpanded) -> str:
    positions = f"#{part.first}–#{part.last}" if part.first != part.last else f"#{part.first}"
    size = f"{counted(part.messages, 'message')}, {counted(part.tokens, 'token')}"
    return f"left: {positions}, {size}: expand {part.name}"


# --- the picture -----------------------------------------------------------------------------------------------------


def graph(answer: SummaryGraph) -> RenderableType:
    """Return the window as a tree, and the summaries out of use as a second tree."""
    tree = _with_nodes(Tree(Text(answer.title, style="bold")), answer.window)
    out_of_use = [_with_nodes(Tree(Text("out of use", style="dim")), answer.replaced)] if answer.replaced else []
    return Group(tree, *out_of_use)


def _with_nodes(tree: Tree, nodes: Sequence[Node]) -> Tree:
    for node in nodes:
        label = Text(node.name)
        for detail in filter(None, node.details):
            label.append(" · ")
            label.append(shortened(detail, 200), style="yellow" if detail == NO_SUMMARY else "dim")
        _with_nodes(tree.add(label), node.sources)
    return tree
