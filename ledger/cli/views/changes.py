"""The views of changes: between two moments, by an undo, a distrust or an erasure, and of hypothetical changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ledger import answers
from ledger.cli.pieces import card_of, detailed, listing, moment, short, titled, way_back
from ledger.cli.shell_words import in_shell
from ledger.cli.terminal_text import shortened
from ledger.cli.views.tables import QUOTED_CHARS, decimal, plain_value
from ledger.domain.ids import KINDS, kind_of
from ledger.domain.text import counted, one_line
from ledger.observations.answers import Observation

Belief = answers.Memory | Observation
EXCERPT_CHARS = 400
_PARTS = ("added", "promoted", "superseded", "moved", "hidden", "restored", "revised")


def diff(answer: answers.Diff) -> RenderableType:
    """Return the changed memories under the names of the changes, with their differences."""
    span = (
        f"from position {answer.from_position} ({moment(answer.start)}) to {answer.to_position} ({moment(answer.end)})"
    )
    parts: list[RenderableType] = []
    for name in _PARTS:
        pairs: tuple[answers.Changed, ...] = getattr(answer, name)
        rows = [[Text(pair.id), _changed(name, pair)] for pair in pairs]
        parts += titled(f"{name.capitalize()} ({len(pairs):,})", listing("id", "memory", rows=rows) if rows else None)
    nothing = [Text("no belief changed")] if not parts else []
    return Group(Text(span, style="dim"), *nothing, *parts)


def _changed(part: str, pair: answers.Changed) -> Text:
    before, after = pair.before, pair.after
    memory = after or before
    assert memory is not None  # a changed memory exists at the start or at the end
    if part == "revised" and before is not None and after is not None:
        return detailed(short(after.content), *_revisions(before, after))
    return detailed(short(memory.content), memory.kind, memory.project, _transition(part, before, after))


def _transition(part: str, before: answers.Memory | None, after: answers.Memory | None) -> str:
    if after is None:
        return "gone: what made it was undone"
    if before is None:
        return _memory_status(after)
    if part == "moved":
        return f"{decimal(before.confidence)} → {decimal(after.confidence)}"
    by = f" by {after.superseded_by}" if part == "superseded" and after.superseded_by else ""
    return f"{_memory_status(before)} → {_memory_status(after)}{by}"


def _memory_status(memory: answers.Memory) -> str:
    return memory.status + (" (quarantined)" if memory.quarantined else "")


def _revisions(before: answers.Memory, after: answers.Memory) -> list[str]:
    changes = {
        "text": ("" if before.content == after.content else f"was “{shortened(before.content or '', QUOTED_CHARS)}”"),
        "tags": _difference_of("tags", ", ".join(before.tags), ", ".join(after.tags)),
        "metadata": _difference_of(
            "metadata", plain_value("metadata", before.metadata), plain_value("metadata", after.metadata)
        ),
        "entities": _difference_of("entities", ", ".join(before.entities), ", ".join(after.entities)),
        "edges": _difference_of("relations", _edges(before), _edges(after)),
        "validity": _difference_of("valid", _validity(before), _validity(after)),
    }
    return [change for change in changes.values() if change]


def _edges(memory: answers.Memory) -> str:
    return ", ".join(f"{edge.subject} {edge.relation} {edge.object}" for edge in memory.relations)


def _difference_of(name: str, before: str, after: str) -> str:
    return "" if before == after else f"{name} {before or 'none'} → {after or 'none'}"


def _validity(memory: answers.Memory) -> str:
    return f"from {moment(memory.valid_from)}" + (f" to {moment(memory.valid_to)}" if memory.valid_to else "")


# --- undo, distrust, what if ---


def undo(report: answers.UndoReport) -> RenderableType:
    if not report.events and report.command_id is None:
        return Text("there was nothing to do: no event became void, or came back", style="dim")
    by = f" by {', '.join(one_line(actor) or '(nobody)' for actor in report.actors)}" if report.actors else ""
    events = f"{counted(report.events, 'event')} of {counted(len(report.commands), 'command')}{by}"
    verb = "would concern" if report.dry_run else "concerned"
    text = f"{verb} {events} on {counted(len(report.subjects), 'subject')}"
    commands = zip(report.commands, report.verbs or ("",) * len(report.commands), strict=True)
    concerned = {
        "commands": Text("\n".join(f"{id}  {name}" for id, name in commands)),
        "subjects": ", ".join(report.subjects),
    }
    concerned |= {"void with it": _dependents(report.dependents)} if report.dependents else {}
    concerned |= {"stays turned down": _dependents(report.turned_down)} if report.turned_down else {}
    refused = report.dry_run and report.dependents and not report.cascaded
    notes = [Text("goes with --cascade only, for later commands built on it", style="yellow")] if refused else []
    return Group(Text(text), card_of(concerned), *notes, *_memories(report.memories), *_ways_back(report))


def _memories(beliefs: Sequence[answers.Belief]) -> list[RenderableType]:
    rows = [[Text(pair.id), _compared(pair.now, pair.would_be)] for pair in beliefs if pair.now or pair.would_be]
    return titled(f"Memories ({len(rows):,})", listing("id", "now → then", rows=rows) if rows else None)


def _dependents(dependents: Sequence[answers.Dependent]) -> Text:
    more = [f"and {len(dependents) - 20:,} more"] if len(dependents) > 20 else []
    return Text("\n".join([*map(str, dependents[:20]), *more]))


def _ways_back(report: answers.UndoReport) -> list[Text]:
    if report.command_id is None:
        return []
    if report.reversed_by == "redo":
        return [way_back(f"redo {report.command_id}")]
    if report.reversed_by == "distrust":
        return [Text("take it back: distrust the origin again", style="dim")]
    more = [Text(f"and {len(report.commands) - 5:,} more", style="dim")] if len(report.commands) > 5 else []
    return [*(way_back(f"undo {command}") for command in report.commands[:5]), *more]


def distrust(report: answers.DistrustReport) -> RenderableType:
    """Return the effect of a distrust or a trust."""
    verb = "would concern" if report.dry_run else "concerned"
    span = f"from position {report.since}{_until(report)}"
    text = f"{report.kind} {one_line(report.origin)} {span}: {verb} {counted(report.events, 'event')}"
    lists = {
        "memories": tuple(id for id in report.memories if id not in report.gone) if not report.beliefs else (),
        "observations": report.observations,
        "unsupported": report.unsupported,
        "gone": tuple(id for id in report.gone if not report.beliefs or id[0] != "m"),
        "shown to": report.receipts,
    }
    card: dict[str, object] = {name: Text("\n".join(listed)) for name, listed in lists.items() if listed}
    if report.dependents:
        card["void with it"] = _dependents(report.dependents)
    back = [way_back(f"history trust {report.command_id}")] if report.command_id and not report.trusted else []
    return Group(Text(text), card_of(card), *_memories(report.beliefs), Text(report.note, style="dim"), *back)


def _until(report: answers.DistrustReport) -> str:
    return f" to {report.until - 1}" if report.until is not None else ""


def what_if(answer: answers.WhatIf) -> RenderableType:
    """Return each belief that would differ, in its present state and in the other state."""
    different = [pair for pair in answer.changed if pair.now is not None and pair.would_be is not None]
    vanishing = [pair for pair in answer.changed if pair.would_be is None]  # not believed in the present state either
    appearing = [pair for pair in answer.changed if pair.now is None]
    groups = (
        ("No longer held", answer.lost),
        ("Held again", answer.gained),
        ("Held otherwise", different),
        ("Not held, and not there any more", vanishing),
        ("Not held, and there again", appearing),
    )
    parts: list[RenderableType] = []
    for title, beliefs in (*groups, ("Observations", answer.observations)):
        rows = [[Text(pair.id), _compared(pair.now, pair.would_be)] for pair in beliefs]
        parts += titled(f"{title} ({len(rows):,})", listing("id", "belief", rows=rows) if rows else None)
    count = sum(len(beliefs) for _, beliefs in groups) + len(answer.observations)
    same = f"{counted(answer.unchanged, 'other')} would be held as now"
    text = f"{counted(count, 'belief')} would differ at position {answer.position}, {same}; nothing was written"
    return Group(*parts, Text(f"{text}; {answer.note}", style="dim"))


def _compared(now: Belief | None, then: Belief | None) -> Text:
    belief = now or then
    assert belief is not None  # a belief that exists in neither state does not differ
    details = [f"{when} {_held(state)}" for when, state in (("now", now), ("then", then))]
    wording = then.content if then is not None and now is not None and then.content != now.content else None
    text = detailed(short(belief.content, QUOTED_CHARS), " → ".join(details))
    return text if wording is None else Text.assemble(text, "\n", short(wording, QUOTED_CHARS))


def _held(belief: Belief | None) -> str:
    if belief is None:
        return "not there"
    if isinstance(belief, Observation):
        return (
            f"{belief.status} {decimal(belief.confidence)}, {counted(belief.proof_count, 'source')}, {belief.freshness}"
        )
    return f"{belief.status} {decimal(belief.confidence)}, {belief.reference_count} × referenced"


# --- erasure ---


def erasure(report: answers.ErasureReport) -> RenderableType:
    """Return the state of an erasure, the sizes of its lists, its events, and the events that stay."""
    lists: dict[str, tuple[answers.Erased, ...]] = {
        name: getattr(report, name) for name in ("erased", "derived", "sources", "quotes")
    }
    counts = {
        name: _kinds(listed) + (_choices(listed) if name != "erased" else "")
        for name, listed in lists.items()
        if listed
    }
    rows = [_erased_row(name, event) for name, listed in lists.items() for event in listed]
    events = titled("Events", listing("pos", "list", "choice", "text", rows=rows, right=["pos"]) if rows else None)
    stays = [[Text(str(event.position)), _remaining(event)] for event in report.remaining]
    more = report.remaining_total - len(stays)
    stays += [[Text(""), Text(f"and {more:,} more", style="dim")]] if more else []
    title = f"What stays ({counted(report.remaining_total, 'event')})"
    notes = [Text(f"warning: {in_shell(warning)}", style="yellow") for warning in report.warnings]
    if report.own_tables:
        tables = ", ".join(report.own_tables)
        own = f"warning: tables of your own still hold the text, and only you may change them: {tables}"
        notes.append(Text(one_line(own), style="yellow"))
    return Group(
        _erasure_state(report),
        *notes,
        *([card_of(counts)] if counts else []),
        *events,
        *titled(title, listing("pos", "text", rows=stays, right=["pos"]) if stays else None),
    )


def _kinds(listed: Sequence[answers.Erased]) -> str:
    """Return the number of events, and the number of subjects of each kind."""
    subjects = dict.fromkeys(event.subject for event in listed)
    counts = Counter(KINDS.get(kind_of(subject), subject) for subject in subjects)
    kinds = ", ".join(counted(number, kind) for kind, number in counts.items())
    return f"{counted(len(listed), 'event')} of {kinds}"


def _choices(listed: Sequence[answers.Erased]) -> str:
    choices = Counter(event.choice or "undecided" for event in listed)
    return ": " + (
        next(iter(choices))
        if len(choices) == 1
        else ", ".join(f"{choice} {number:,}" for choice, number in choices.items())
    )


def _erased_row(name: str, event: answers.Erased) -> list[RenderableType]:
    fields = ", ".join(field.removeprefix("data.") for field in event.fields)
    choice = Text(event.choice or "undecided", style="" if event.choice else "yellow")
    text = detailed(short(event.excerpt or "", EXCERPT_CHARS), event.type, event.subject, fields)
    return [Text(str(event.position)), Text(name), choice, text]


def _remaining(event: answers.Remaining) -> Text:
    return detailed(short(event.excerpt or "", EXCERPT_CHARS), event.type, event.subject, event.why)


def _erasure_state(report: answers.ErasureReport) -> Text:
    subject = " ".join(part for part in (report.kind, report.subject) if part)
    if report.state == "dry run":
        held = f"; {one_line(report.why)}" if report.why else ""
        return Text(f"dry run: erasing {subject} would change these events; nothing was written{held}")
    before = f", and {counted(len(report.earlier), 'erasure')} before it" if report.earlier else ""
    if report.state == "stopped":
        done = (
            f"a part of {subject} is erased by {report.command_id}{before}"
            if report.command_id
            else "nothing is erased yet"
        )
        return Text(f"{done}; {one_line(report.why)}", style="yellow")
    if report.state == "pending":
        return Text(f"{subject} is erased from the log; pending: {one_line(report.why)}", style="yellow")
    files = f"no plaintext found in {', '.join(report.files)}" if report.files else "the files were written again"
    hits = f" but in {counted(report.hits, 'place')} of other events that say the same" if report.hits else ""
    return Text(f"{subject} is erased by {report.command_id}{before}: {files}{hits}")
