"""The views of reports: the results of a check, an import, an extraction, or a search for duplicates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins
from rich.console import Group, RenderableType
from rich.text import Text

from ledger import answers
from ledger.cli.pieces import card_of, detailed, heading, listing, short, titled, unbroken, way_back, whole
from ledger.cli.shell_words import in_shell
from ledger.cli.views.tables import plain_value, table, under
from ledger.documents.answers import IngestReport
from ledger.domain.text import counted, one_line
from ledger.extraction.answers import Added
from ledger.importers.answers import MoveReport
from ledger.observations.answers import WithdrawalReport
from ledger.review.answers import ConflictReport, MergeReport

NOTE_CHARS = 400  # of a note about a place of a source, which says what the person may do


def stats(answer: answers.Stats) -> RenderableType:
    fields = to_builtins(answer)
    fields.pop("projections")
    suspended = [view.name for view in answer.projections if view.suspended_at is not None]
    behind = [
        view.name for view in answer.projections if view.position != answer.position and view.suspended_at is None
    ]
    shown_projections = counted(len(answer.projections), "projection") + (
        f", suspended: {', '.join(suspended)}" if suspended else ""
    )
    shown_projections += f", behind: {', '.join(behind)}" if behind else ", all up to date" if not suspended else ""
    return card_of(
        {name: plain_value(name, value) for name, value in fields.items()} | {"projections": shown_projections}
    )


def reinforcement(report: answers.Reinforcement) -> RenderableType:
    rows = [[Text(id), Text(f"{before:.2f} → {after:.2f}")] for id, before, after in report.reinforced]
    text = f"{len(rows)} of {counted(report.pool_size, 'memory')} reinforced by {report.matcher}"
    text += f", {report.echoes} {'echo' if report.echoes == 1 else 'echoes'}, {report.left_over} left over"
    return Group(*([listing("id", "confidence", rows=rows)] if rows else []), Text(text, style="dim"))


def extraction(report: answers.ExtractionReport) -> RenderableType:
    text = f"{len(report.kept)} kept and {len(report.dropped)} dropped by {report.extractor}"
    if report.session:
        messages = f"{counted(report.messages, 'message')} looked at, {report.skipped:,} of them small talk"
        text = f"{text}; {messages}; the cursor is at {report.cursor}"
    text += "".join(
        f"; {label} {reason}" for label, reason in (("failed:", report.failure), ("stopped:", report.stopped)) if reason
    )
    text = f"preview: {len(report.dropped)} found by {report.extractor}" if report.dry_run else text
    kept = titled("Kept", table(report.kept) if report.kept else None)
    rows = [[Text(one_line(entry.get("rule") or entry.get("what") or "")), _dropped(entry)] for entry in report.dropped]
    dropped = titled("Found" if report.dry_run else "Dropped", listing("rule", "what", rows=rows) if rows else None)
    return Group(Text(text), *kept, *dropped)


def _dropped(entry: Mapping[str, Any]) -> Text:
    return detailed(short(entry.get("content") or ""), entry.get("kind"), entry.get("reason"))


def messages_added(report: Added) -> RenderableType:
    """Return the result of adding messages, and the facts found in the messages."""
    where = f" to {'a new session' if report.new_session else 'the session'} {one_line(report.session)}".rstrip()
    head = f"{counted(report.messages, 'message')} {'would be ' if report.dry_run else ''}added{where}"
    others = ((report.known, "known"), (report.left_out, "left out"), (len(report.turns), "captured as turns"))
    head += "".join(f", {number:,} {label}" for number, label in others if number)
    head += "".join((f"; stopped: {report.stopped}" if report.stopped else "", "; repeated" if report.replayed else ""))
    parts: list[RenderableType] = [Text(head)]
    for title in ("learned", "proposed", "reinforced", "contradicted"):
        rows: list[list[RenderableType]] = [
            [Text(fact.id), Text(f"{fact.confidence:.2f}", style="bold"), detailed(short(fact.content), fact.why)]
            for fact in getattr(report, title)
        ]
        title_shown = f"{title.capitalize()}, for review" if title == "proposed" else title.capitalize()
        parts += titled(title_shown, listing("id", "conf", "content", rows=rows) if rows else None)
    parts += [unbroken(in_shell(one_line(reason))) for reason in report.reasons]
    if report.correlation_id and not report.replayed:
        parts.append(way_back(f"undo {report.correlation_id}"))
    return Group(*parts)


def imported(report: answers.ImportReport) -> RenderableType:
    """Return the result of an import, with the bad lines and the warnings."""
    counts = f"{report.captured:,} captured, {report.known:,} known already, {report.error_count:,} bad"
    text = f"{counted(report.lines, 'line')}: {counts}"
    lines = sorted((*report.errors, *report.warnings))
    rows = [[Text(str(number)), short(why)] for number, why in lines[:20]]
    unlisted = report.error_count + report.warning_count - len(rows)
    more = [Text(f"and {unlisted:,} more", style="dim")] if unlisted else []
    undo_id = [Text(f"correlation id {report.correlation_id}", style="dim")] if report.correlation_id else []
    return Group(Text(text), *undo_id, *([listing("line", "why", rows=rows, right=["line"])] if rows else []), *more)


def moved(report: MoveReport) -> RenderableType:
    """Return the result of an import from another program: what came, what was left out and why, and how to take it back."""
    new = ", ".join(_counted_records(count, what) for what, count in report.taken.items()) or "nothing"
    first, last = (report.first or "")[:10], (report.last or "")[:10]
    span = f", from {first} to {last}" if first != last else f", of {first}" if first else ""
    text = f"{report.kind}: {new} {'would come' if report.dry_run else 'came'}{span}"
    if report.known:
        text += f"; {report.known:,} known already"
    elif not (report.taken or report.skipped or report.unknown or report.notes):
        text += "; no record of this kind was found there"
    left = [[Text(f"{count:,}"), Text(reason)] for reason, count in report.skipped.items()]
    left += [
        [Text(f"{count:,}"), Text(f"of an unknown kind: {one_line(name)}")] for name, count in report.unknown.items()
    ]
    notes = [[Text(one_line(where)), short(in_shell(why), NOTE_CHARS)] for where, why in report.notes[:20]]
    unlisted = report.note_count - len(notes)
    return Group(
        Text(text),
        *([listing("left out", "why", rows=left, right=["left out"])] if left else []),
        *([listing("where", "note", rows=notes)] if notes else []),
        *([Text(f"and {unlisted:,} more notes", style="dim")] if unlisted > 0 else []),
        *([Text("the limit is reached: the same command goes on", style="dim")] if report.stopped == "limit" else []),
        *([way_back(f"undo {report.correlation_id} --cascade")] if report.correlation_id else []),
    )


def _counted_records(count: int, records: str) -> str:
    """Return a number with the records that are counted, whose name is a plural, such as "values of trusted state"."""
    head, *rest = records.split(" ", 1)
    noun = f"{head[:-3]}y" if head.endswith("ies") else head.removesuffix("s")
    return " ".join((counted(count, noun), *rest))


def vectors_made(report: answers.VectorReport) -> RenderableType:
    """Return the fields of an update, or in words what a dry run measured."""
    if not report.dry_run:
        return card_of(
            {
                name: plain_value(name, value)
                for name, value in to_builtins(report).items()
                if name not in ("memory_bytes", "others", "dry_run")
            }
        )
    texts, model = counted(report.left, "text"), one_line(report.model)
    lines = [f"{texts} without a vector of {model}, {report.kept:,} with one"]
    if report.left:
        lines.append(
            f"about {report.seconds:,.1f} s, {report.bytes / 2**20:,.1f} MiB on the disk,"
            f" {report.memory_bytes / 2**20:,.0f} MiB of memory for this process"
        )
    lines += [
        f"the {counted(each.vectors, 'vector')} of {one_line(each.model)} ({each.bytes / 2**20:,.1f} MiB) would stay, unused"
        for each in report.others
    ]
    return Text("\n".join(lines))


_LEVEL_STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "bold red"}


def health(report: answers.DoctorReport) -> RenderableType:
    """Return the findings of the doctor, the worst last, so that they are nearest to the prompt of the shell."""
    order = list(_LEVEL_STYLES)
    rows: list[list[RenderableType]] = [
        [
            Text(item.level, style=_LEVEL_STYLES[item.level]),
            Text(item.what),
            detailed(whole(item.found), in_shell(item.hint)),
        ]
        for item in sorted(report.findings, key=lambda finding: order.index(finding.level))
    ]
    counts = {level: sum(finding.level == level for finding in report.findings) for level in ("problem", "warning")}
    text = ", ".join(counted(number, level) for level, number in counts.items() if number) or "nothing is wrong"
    return Group(listing("", "what", "found", rows=rows), Text(f"\n{one_line(report.path)}: {text}", style="bold"))


def verified(report: answers.VerifyReport) -> RenderableType:
    """Return the result of a verification, and its limits."""
    head = Text("sound", style="green") if report.ok else Text("NOT SOUND", style="bold red")
    if report.first_wrong is not None:
        head.append(f", first at position {report.first_wrong:,}")
    walked = f"{report.since + 1:,} to {report.events:,}" if report.events > report.since else "none"
    signed = {None: "", True: ", signed by that key", False: ", NOT signed by that key"}[report.signed]
    against = f"the checkpoint of {counted(report.against, 'event')}{signed}" if report.against is not None else ""
    fields = {
        "ledger": head,
        "events": f"{report.events:,}",
        "walked": f"positions {walked}",
        "compared with": against,
        "projections": f"{len(report.projections)} compared with a fold of the log"
        if report.projections
        else "not compared",
        "head": report.head,
        "seconds": f"{report.seconds:.2f}",
    }
    problems = [Text(one_line(problem)) for problem in report.problems]
    notes = [Text(one_line(note), style="dim") for note in (*report.warnings, *_limits(report))]
    return Group(card_of(fields), *([heading("Problems"), *problems] if problems else []), *notes)


def _limits(report: answers.VerifyReport) -> list[str]:
    """Return notes on the limits of a verification."""
    notes = []
    if any(problem.startswith("the projection") for problem in report.problems):
        notes.append("where a projection differs, the log may be what was changed; rebuild only when the log is sound")
    if report.since:
        notes.append(
            f"positions 1 to {report.since:,} are covered by a sealed checkpoint and were skipped; --full walks them"
        )
    if report.against is None:
        notes.append(
            "whoever can write the file can compute all of this again: only a checkpoint kept elsewhere tells (--against)"
        )
    return notes


# --- documents, duplicates, contradictions, sources ------------------------------------------------------------------


def added(report: IngestReport) -> RenderableType:
    """Return the documents that were added, and the command that undoes all of them."""
    notes = [f"{len(report.errors):,} not added"] if report.errors else []
    parts: list[RenderableType] = [table(report.documents)] if report.documents else []
    parts += [Text(note, style="dim") for note in notes]
    if len(report.documents) > 1 and report.correlation_id is not None:
        parts.append(way_back(f"undo {report.correlation_id}"))
    return Group(*parts)


def merges_proposed(report: MergeReport) -> RenderableType:
    text = f"{counted(len(report.proposed), 'merge')} proposed, {counted(report.looked_at, 'memory')} looked at"
    short_of = f"of {report.cut_short:,} not all neighbors, there were too many" if report.cut_short else ""
    notes = [Text(note, style="dim") for note in (text, short_of) if note]
    return Group(*([table(report.proposed)] if report.proposed else []), *notes)


def conflicts_found(report: ConflictReport) -> RenderableType:
    summary = Text(f"{counted(len(report.found), 'conflict')} found", style="dim")
    return Group(*([table(report.found)] if report.found else []), summary)


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


def explanation(answer: answers.Explanation) -> RenderableType:
    """Return the sentences of an explanation, and the entries below them."""
    cause = [answer.cause] if answer.cause is not None else []
    parts = (("What it recorded", answer.events), ("What it reacted to", cause), ("What it led to", answer.led_to))
    return Group(Text(answer.text), *under([*parts, ("What made it void", answer.voided_by)]))


def bisection(answer: answers.Bisection) -> RenderableType:
    return Group(Text(answer.text), *under((("What it recorded", answer.explanation.events),)))
