"""What conversations answer: messages whole, what a search found, a window, a compaction, the graph of summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from ledger.cli.pieces import card_of, counted, detailed, heading, listing, moment, short, titled, whole
from ledger.cli.terminal_text import as_json, shortened, visible
from ledger.cli.views.beliefs import pack
from ledger.cli.views.tables import table
from ledger.domain.assembly import REASONS
from ledger.domain.compaction import SKIPS
from ledger.domain.harmless import one_line
from ledger.domain.message import readable
from ledger.domain.rendering import Rendered
from ledger.domain.window import FALLBACK, NORMAL
from ledger.sessions.answers import CompactionReport, CompactionSkip, HistoryChange, Message
from ledger.sessions.assembled import Entry, Window
from ledger.sessions.diagram import NO_SUMMARY, Node, SummaryGraph, span
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
    "moved": "the window was no longer what was summarized",
}
NO_MODEL = "written without a model: each is the cut beginning of its messages, marked as a fallback, and no summary"


def _messages_whole(found: Sequence[Message]) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for each in found:
        head = f"\n#{each.position} {each.speaker or each.role}"
        parts += [Text(head, style="bold"), _message(each, whole(_text_of(each)))]
    return parts or [Text("none", style="dim")]


def _text_of(found: Message) -> str | None:
    return None if found.content is None else found.text or found.reasoning or ""


def _message(found: Message, text: Text) -> Text:
    hidden = f"hidden by {found.hidden}" if found.hidden else ""
    reasoning = f"{counted(len(found.reasoning), 'character')} of reasoning" if found.reasoning else ""
    return detailed(text, counted(found.tokens, "token"), moment(found.occurred_at), found.model, reasoning, hidden)


def not_stored(why: str) -> RenderableType:
    return Text(f"not stored: {_why(why)}")


def change(found: HistoryChange) -> RenderableType:
    """What became of a session's history."""
    if found.skipped:
        return Text(f"nothing was done: {_why(found.skipped)}")
    names = ("kept", "appended", "repaired", "hidden", "left_out")
    counts = {name: getattr(found, name) for name in names}
    values = [f"{number:,} {name.replace('_', ' ')}" for name, number in counts.items() if number]
    gone = {"out of use": Text("\n".join(found.invalidated))} if found.invalidated else {}
    what = {"none": "nothing to do", "appended": ""}.get(found.change, found.change)
    return Group(Text(": ".join(each for each in (what, ", ".join(values)) if each)), card_of(gone))


# --- summaries and compaction ----------------------------------------------------------------------------------------


def compaction(found: CompactionReport) -> RenderableType:
    if found.position == 0:
        return Group(*(Text(f"nothing was done: {_why(each.why)}") for each in found.skipped))
    parts: list[RenderableType] = [table(found.created)] if found.created else []
    tokens = _from_to(found.tokens_before, found.tokens_after, "token")
    items = _from_to(found.items_before, found.items_after, "item")
    under = "" if found.under is None else f", {'within' if found.under else 'over'} {found.budget:,}"
    notes = [*([] if found.created else ["nothing was compacted"]), f"window: {tokens}, {items}{under}"]
    if any(each.level == FALLBACK for each in found.created):
        notes.append(NO_MODEL)
    return Group(*parts, *(Text(each, style="dim") for each in notes), *_skips(found))


def _from_to(before: int, after: int, noun: str) -> str:
    return counted(after, noun) if before == after else f"{before:,} → {counted(after, noun)}"


def _skips(found: CompactionReport) -> list[Text]:
    """Why there is no other summary; what is so of several runs is said once."""
    alike: dict[tuple[str, str, str], list[CompactionSkip]] = {}
    for each in found.skipped:
        alike.setdefault((each.kind, each.why, each.error), []).append(each)
    further = "further " if found.created else ""
    return [
        Text(f"no {further}{kind} summary{_runs(each)}: {_why(why)}{f': {one_line(error)}' if error else ''}", "dim")
        if kind
        else Text(_why(why))
        for (kind, why, error), each in alike.items()
    ]


def _runs(found: Sequence[CompactionSkip]) -> str:
    sizes = [f"{counted(each.messages, 'message')}, {counted(each.tokens, 'token')}" for each in found if each.messages]
    return f" of {len(sizes):,} runs" if len(sizes) > 1 else f" ({sizes[0]})" if sizes else ""


def _why(code: str) -> str:
    return SKIPPED.get(code, one_line(code))


# --- assemblies ------------------------------------------------------------------------------------------------------


def rendered(found: Rendered) -> str:
    """The messages as a provider takes them, as JSON."""
    given = {"messages": found.messages, "system": found.system}
    return as_json({name: value for name, value in given.items() if value != ""}) + "\n"


def window(found: Window) -> RenderableType:
    """One line for each entry, and what all of them come to."""
    if found.skipped:
        return Text(f"nothing is read of this session: {_why(found.skipped)}")
    rows = [_entry_row(each) for each in found.entries]
    entries = [listing("what", "tokens", "time", "words", rows=rows, right=["tokens"])] if rows else []
    woven = titled("Remembered", pack(found.pack)) if found.pack is not None else []
    return Group(*entries, *woven, heading("In all"), *map(Text, _totals(found)))


def _entry_row(found: Entry) -> list[RenderableType]:
    item = found.item
    text = short(readable(found.content, found.parts) if found.content is not None else None)
    text.no_wrap, text.overflow = True, "ellipsis"
    what = FALLBACK if item.level == FALLBACK else item.summary_kind or item.role
    what = what if found.shortened is None else f"{what}, shortened"
    kind = Text(what, style="yellow" if what == FALLBACK else "")
    return [kind, Text(f"{item.tokens:,}"), Text(moment(item.time)), text]


def _totals(found: Window) -> list[str]:
    frame = f", {found.overhead:,} of them around summaries and memories" if found.overhead else ""
    over = "; over budget" if found.over_budget else ""
    gone = found.evicted
    left = (
        f"left out: {counted(gone.items, 'older item')}, {counted(gone.messages, 'message')}, "
        f"{counted(gone.tokens, 'token')}"
    )
    return [
        f"{_entries(len(found.entries))}, {found.used:,} of {counted(found.budget, 'token')}{frame}{over}",
        *([left] if gone.items else []),
        *(f"{each}: {REASONS.get(each, '')}" for each in found.reasons),
        *([f"receipt {found.receipt}"] if found.receipt else []),
    ]


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"


# --- search ----------------------------------------------------------------------------------------------------------


def hits(found: Hits) -> RenderableType:
    searched = f"{found.searched:,} searched"
    if not found:
        hint = one_line(found.hint)
        hint = hint.replace("include_hidden=True", "--include-hidden")
        return Text(f"nothing found, {searched}{f': {hint}' if hint else ''}")
    total = f"{'' if found.is_exact else 'at least '}{found.total:,} found"
    rows = [_hit_row(each) for each in found]
    return Group(listing("pos", "what", "text", rows=rows, right=["pos"]), Text(f"{total}, {searched}", "dim"))


def _hit_row(found: Hit) -> list[RenderableType]:
    level = NO_SUMMARY if found.level == FALLBACK else found.level if found.level != NORMAL else ""
    status = found.status if found.status != WINDOW else ""
    depth = f"depth {found.depth}" if found.depth is not None else ""
    hidden = f"hidden by {found.hidden}" if found.hidden else ""
    details = (found.session, span(found.occurred_at, found.until), found.id, depth, level, status, hidden)
    return [Text(str(found.position)), Text(found.role or found.summary_kind or found.kind),
            detailed(_marked(found), *details)]  # fmt: skip


def _marked(found: Hit) -> Text:
    """The snippet on one line, with what matches set off."""
    text, at = Text(), 0
    for first, end in found.spans:
        text.append(_inline(found.snippet[at:first]))
        text.append(_inline(found.snippet[first:end]), style="bold yellow")
        at = end
    return text.append(_inline(found.snippet[at:]))


def _inline(text: str) -> str:
    return visible(text).replace("\n", " ")


def expansion(found: Expansion) -> RenderableType:
    """The messages whole, and what is left to expand."""
    over = ", the first alone is over it" if found.over_budget else ""
    text = f"{counted(len(found.messages), 'message')}, {found.used:,} of {counted(found.budget, 'token')}{over}"
    rest = [Text(_left(each), style="dim") for each in found.rest]
    unknown = [one_line(str(each)) for each in found.unknown]
    missing = [Text(f"not in this session: {', '.join(unknown)}", style="dim")] if unknown else []
    return Group(*_messages_whole(found.messages), Text(f"\n{text}", style="dim"), *rest, *missing)


def _left(found: Unexpanded) -> str:
    where = f"#{found.first}–#{found.last}" if found.first != found.last else f"#{found.first}"
    size = f"{counted(found.messages, 'message')}, {counted(found.tokens, 'token')}"
    return f"left: {where}, {size}: expand {found.name}"


# --- the picture -----------------------------------------------------------------------------------------------------


def graph(found: SummaryGraph) -> RenderableType:
    """The window as a tree, and apart from it what is out of use."""
    tree = _grown(Tree(Text(found.title, style="bold")), found.window)
    apart = [_grown(Tree(Text("out of use", style="dim")), found.replaced)] if found.replaced else []
    return Group(tree, *apart)


def _grown(tree: Tree, nodes: Sequence[Node]) -> Tree:
    for node in nodes:
        details = [each for each in node.details if each]
        label = Text(node.name)
        for each in details:
            label.append(" · ")
            label.append(shortened(each, 200), style="yellow" if each == NO_SUMMARY else "dim")
        _grown(tree.add(label), node.sources)
    return tree
