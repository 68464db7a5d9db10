"""Reports: what a check, an import, an extraction or a search for duplicates came to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins
from rich.console import Group, RenderableType
from rich.text import Text

from ledger import answers
from ledger.cli.pieces import card_of, counted, detailed, heading, listing, short, titled, whole
from ledger.cli.views.tables import plain_value, table, under
from ledger.documents.answers import IngestReport
from ledger.domain.harmless import one_line
from ledger.extraction.answers import Added
from ledger.merges.answers import ConflictReport, MergeReport
from ledger.observations.answers import WithdrawalReport


def stats(found: answers.Stats) -> RenderableType:
    fields = to_builtins(found)
    fields.pop("projections")
    suspended = [each.name for each in found.projections if each.suspended_at is not None]
    behind = [each.name for each in found.projections if each.position != found.position and each.suspended_at is None]
    shown_projections = f"{len(found.projections)} projections" + (
        f", suspended: {', '.join(suspended)}" if suspended else ""
    )
    shown_projections += f", behind: {', '.join(behind)}" if behind else ", all up to date" if not suspended else ""
    return card_of(
        {name: plain_value(name, value) for name, value in fields.items()} | {"projections": shown_projections}
    )


def reinforcement(found: answers.Reinforcement) -> RenderableType:
    rows = [[Text(id), Text(f"{before:.2f} → {after:.2f}")] for id, before, after in found.reinforced]
    text = f"{len(rows)} of {found.pool_size} memories reinforced by {found.matcher}"
    text += f", {found.echoes} echoes, {found.left_over} left over"
    return Group(*([listing("id", "confidence", rows=rows)] if rows else []), Text(text, style="dim"))


def extraction(found: answers.ExtractionReport) -> RenderableType:
    text = f"{len(found.kept)} kept and {len(found.dropped)} dropped by {found.extractor}"
    if found.session:
        looked = f"{counted(found.messages, 'message')} looked at, {found.skipped:,} of them small talk"
        text = f"{text}; {looked}; the cursor is at {found.cursor}"
    text += "".join(f"; {what} {why}" for what, why in (("failed:", found.failure), ("stopped:", found.stopped)) if why)
    text = f"preview: {len(found.dropped)} found by {found.extractor}" if found.dry_run else text
    kept = titled("Candidates", table(found.kept) if found.kept else None)
    rows = [[Text(one_line(each.get("rule") or each.get("what") or "")), _found(each)] for each in found.dropped]
    dropped = titled("Found" if found.dry_run else "Dropped", listing("rule", "what", rows=rows) if rows else None)
    return Group(Text(text), *kept, *dropped)


def _found(entry: Mapping[str, Any]) -> Text:
    return detailed(short(entry.get("content") or ""), entry.get("kind"), entry.get("reason"))


def messages_added(found: Added) -> RenderableType:
    """What became of messages, and of what was in them."""
    where = f" to {'a new session' if found.new_session else 'the session'} {one_line(found.session)}".rstrip()
    head = f"{counted(found.messages, 'message')} {'would be ' if found.dry_run else ''}added{where}"
    others = ((found.known, "known"), (found.left_out, "left out"), (len(found.turns), "captured as turns"))
    head += "".join(f", {number:,} {what}" for number, what in others if number)
    head += "".join((f"; stopped: {found.stopped}" if found.stopped else "", "; repeated" if found.replayed else ""))
    parts: list[RenderableType] = [Text(head)]
    for title in ("learned", "proposed", "reinforced", "contradicted"):
        rows: list[list[RenderableType]] = [
            [Text(each.id), Text(f"{each.confidence:.2f}", style="bold"), detailed(short(each.content), each.why)]
            for each in getattr(found, title)
        ]
        named = f"{title.capitalize()}, for review" if title == "proposed" else title.capitalize()
        parts += titled(named, listing("id", "conf", "content", rows=rows) if rows else None)
    parts += [Text(one_line(each), style="dim") for each in found.reasons]
    if found.correlation_id and not found.replayed:
        parts.append(Text(f"undo {found.correlation_id} takes it back", style="dim"))
    return Group(*parts)


def imported(found: answers.ImportReport) -> RenderableType:
    """What an import did, with the bad lines and the warnings."""
    counts = f"{found.captured:,} captured, {found.known:,} known already, {found.error_count:,} bad"
    text = f"{counted(found.lines, 'line')}: {counts}"
    lines = sorted((*found.errors, *found.warnings))
    rows = [[Text(str(number)), short(why)] for number, why in lines[:20]]
    left = found.error_count + found.warning_count - len(rows)
    more = [Text(f"and {left:,} more", style="dim")] if left else []
    named = [Text(f"correlation id {found.correlation_id}", style="dim")] if found.correlation_id else []
    return Group(Text(text), *named, *([listing("line", "why", rows=rows, right=["line"])] if rows else []), *more)


_LEVEL_STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "bold red"}


def health(found: answers.DoctorReport) -> RenderableType:
    """What the doctor found, the worst last, where people look."""
    order = list(_LEVEL_STYLES)
    rows: list[list[RenderableType]] = [
        [Text(each.level, style=_LEVEL_STYLES[each.level]), Text(each.what), detailed(whole(each.found), each.hint)]
        for each in sorted(found.findings, key=lambda each: order.index(each.level))
    ]
    counts = {level: sum(each.level == level for each in found.findings) for level in ("problem", "warning")}
    text = ", ".join(counted(number, level) for level, number in counts.items() if number) or "nothing is wrong"
    return Group(listing("", "what", "found", rows=rows), Text(f"\n{one_line(found.path)}: {text}", style="bold"))


def verified(found: answers.VerifyReport) -> RenderableType:
    """What a check found, and what it could not have found."""
    head = Text("sound", style="green") if found.ok else Text("NOT SOUND", style="bold red")
    if found.first_wrong is not None:
        head.append(f", first at position {found.first_wrong:,}")
    walked = f"{found.since + 1:,} to {found.events:,}" if found.events > found.since else "none"
    signed = {None: "", True: ", signed by that key", False: ", NOT signed by that key"}[found.signed]
    against = f"the checkpoint of {found.against:,} events{signed}" if found.against is not None else ""
    fields = {
        "ledger": head,
        "events": f"{found.events:,}",
        "walked": f"positions {walked}",
        "compared with": against,
        "projections": f"{len(found.projections)} compared with a fold of the log"
        if found.projections
        else "not compared",
        "head": found.head,
        "seconds": f"{found.seconds:.2f}",
    }
    problems = [Text(one_line(each)) for each in found.problems]
    notes = [Text(one_line(each), style="dim") for each in (*found.warnings, *_unseen(found))]
    return Group(card_of(fields), *([heading("Problems"), *problems] if problems else []), *notes)


def _unseen(found: answers.VerifyReport) -> list[str]:
    notes = []
    if any(each.startswith("the projection") for each in found.problems):
        notes.append("where a projection differs, the log may be what was changed; rebuild only when the log is sound")
    if found.since:
        notes.append(
            f"positions 1 to {found.since:,} are covered by a sealed checkpoint and were skipped; --full walks them"
        )
    if found.against is None:
        notes.append(
            "whoever can write the file can compute all of this again: only a checkpoint kept elsewhere tells (--against)"
        )
    return notes


# --- documents, duplicates, contradictions, sources ------------------------------------------------------------------


def added(report: IngestReport) -> RenderableType:
    """The documents that were added, and how all of it is taken back."""
    notes = [f"{len(report.errors):,} not added"] if report.errors else []
    if len(report.documents) > 1 and report.correlation_id is not None:
        notes.append(f"undo {report.correlation_id} takes all of it back")
    parts: list[RenderableType] = [table(report.documents)] if report.documents else []
    return Group(*parts, *([Text("; ".join(notes), style="dim")] if notes else []))


def merges_proposed(found: MergeReport) -> RenderableType:
    text = f"{counted(len(found.proposed), 'merge')} proposed, {found.looked_at:,} memories looked at"
    short_of = f"of {found.cut_short:,} not all neighbors, there were too many" if found.cut_short else ""
    notes = [Text(each, style="dim") for each in (text, short_of) if each]
    return Group(*([table(found.proposed)] if found.proposed else []), *notes)


def conflicts_found(report: ConflictReport) -> RenderableType:
    entry = Text(f"{counted(len(report.found), 'conflict')} found", style="dim")
    return Group(*([table(report.found)] if report.found else []), entry)


def withdrawn(report: WithdrawalReport) -> RenderableType:
    parts = [
        f"{counted(len(report.sources), 'source')} withdrawn from {counted(len(report.observations), 'observation')}: "
        f"{len(report.retracted):,} retracted, {len(report.stale):,} stale"
    ]
    parts += [f"{len(report.failed):,} failed"] if report.failed else []
    rows = [[Text(id), Text("failed", style="red"), Text(why)] for id, why in report.failed]
    rows += [[Text(id), Text("retracted", style="dim"), Text("no source of it is left")] for id in report.retracted]
    rows += [[Text(id), Text("stale", style="yellow"), Text("until its wording was looked at")] for id in report.stale]
    head = Text(", ".join(parts))
    return Group(head, listing("id", "is", "why", rows=rows)) if rows else Group(head)


def explanation(found: answers.Explanation) -> RenderableType:
    """The sentences, and below them the entries."""
    cause = [found.cause] if found.cause is not None else []
    parts = (("What it recorded", found.events), ("What it reacted to", cause), ("What it led to", found.led_to))
    return Group(Text(found.text), *under([*parts, ("What made it void", found.voided_by)]))


def bisection(found: answers.Bisection) -> RenderableType:
    return Group(Text(found.text), *under((("What it recorded", found.explanation.events),)))
