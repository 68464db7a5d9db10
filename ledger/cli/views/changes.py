"""What changed, and what would: between two moments, by an undo, a distrust or an erasure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ledger import answers
from ledger.cli.pieces import card_of, counted, detailed, listing, moment, short, titled
from ledger.cli.shell_words import in_shell
from ledger.cli.terminal_text import shortened
from ledger.cli.views.tables import QUOTED_CHARS, decimal, plain_value
from ledger.domain.harmless import one_line
from ledger.domain.ids import KINDS, kind_of
from ledger.observations.answers import Observation

Belief = answers.Memory | Observation
EXCERPT_CHARS = 400
_PARTS = ("added", "promoted", "superseded", "moved", "hidden", "restored", "revised")


def diff(found: answers.Diff) -> RenderableType:
    """Each part under its name, a memory at a time, with what is otherwise."""
    span = f"from position {found.from_position} ({moment(found.start)}) to {found.to_position} ({moment(found.end)})"
    parts: list[RenderableType] = []
    for name in _PARTS:
        pairs: tuple[answers.Changed, ...] = getattr(found, name)
        rows = [[Text(each.id), _changed(name, each)] for each in pairs]
        parts += titled(f"{name.capitalize()} ({len(pairs):,})", listing("id", "memory", rows=rows) if rows else None)
    nothing = [Text("no belief changed")] if not parts else []
    return Group(Text(span, style="dim"), *nothing, *parts)


def _changed(part: str, pair: answers.Changed) -> Text:
    before, after = pair.before, pair.after
    one = after or before
    assert one is not None  # a pair is of a memory that was there at one end
    if part == "revised" and before is not None and after is not None:
        return detailed(short(after.content), *_revisions(before, after))
    return detailed(short(one.content), one.kind, one.project, _turn_of(part, before, after))


def _turn_of(part: str, before: answers.Memory | None, after: answers.Memory | None) -> str:
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
    return [each for each in changes.values() if each]


def _edges(memory: answers.Memory) -> str:
    return ", ".join(f"{each.subject} {each.relation} {each.object}" for each in memory.relations)


def _difference_of(name: str, before: str, after: str) -> str:
    return "" if before == after else f"{name} {before or 'none'} → {after or 'none'}"


def _validity(memory: answers.Memory) -> str:
    return f"from {moment(memory.valid_from)}" + (f" to {moment(memory.valid_to)}" if memory.valid_to else "")


# --- undo, distrust, what if ---


def undo(found: answers.UndoReport) -> RenderableType:
    if not found.events and found.command_id is None:
        return Text("there was nothing to do: no event became void, or came back", style="dim")
    by = f" by {', '.join(one_line(each) or '(nobody)' for each in found.actors)}" if found.actors else ""
    what = f"{counted(found.events, 'event')} of {counted(len(found.commands), 'command')}{by}"
    text = f"{'would concern' if found.dry_run else 'concerned'} {what} on {counted(len(found.subjects), 'subject')}"
    again = {"to go back": _reversal(found)} if found.command_id else {}
    named = zip(found.commands, found.verbs or ("",) * len(found.commands), strict=True)
    concerned = {
        "commands": Text("\n".join(f"{id}  {verb}" for id, verb in named)),
        "subjects": ", ".join(found.subjects),
    }
    concerned |= {"void with it": _dependents(found.dependents)} if found.dependents else {}
    concerned |= {"stays turned down": _dependents(found.turned_down)} if found.turned_down else {}
    refused = found.dry_run and found.dependents and not found.cascaded
    notes = [Text("goes with --cascade only, for later commands built on it", style="yellow")] if refused else []
    return Group(Text(text), card_of(concerned | again), *notes, *_memories(found.memories))


def _memories(found: Sequence[answers.Belief]) -> list[RenderableType]:
    rows = [[Text(each.id), _compared(each.now, each.would_be)] for each in found if each.now or each.would_be]
    return titled(f"Memories ({len(rows):,})", listing("id", "now → then", rows=rows) if rows else None)


def _dependents(found: Sequence[answers.Dependent]) -> Text:
    more = [f"and {len(found) - 20:,} more"] if len(found) > 20 else []
    return Text("\n".join([*map(str, found[:20]), *more]))


def _reversal(found: answers.UndoReport) -> str:
    if found.reversed_by == "redo":
        return f"redo {found.command_id}"
    if found.reversed_by == "distrust":
        return "distrust the source again"
    more = f", and {len(found.commands) - 5:,} more" if len(found.commands) > 5 else ""
    return ", ".join(f"undo {each}" for each in found.commands[:5]) + more


def distrust(found: answers.DistrustReport) -> RenderableType:
    """What an origin wrote and changed."""
    would = "would concern" if found.dry_run else "concerned"
    span = f"from position {found.since}{_until(found)}"
    asker = f"{found.kind} {one_line(found.origin)} {span}: {would} {counted(found.events, 'event')}"
    lists = {
        "memories": tuple(each for each in found.memories if each not in found.gone) if not found.beliefs else (),
        "observations": found.observations,
        "unsupported": found.unsupported,
        "gone": tuple(each for each in found.gone if not found.beliefs or each[0] != "m"),
        "shown to": found.receipts,
    }
    card: dict[str, object] = {name: Text("\n".join(each)) for name, each in lists.items() if each}
    if found.dependents:
        card["void with it"] = _dependents(found.dependents)
    if found.command_id and not found.trusted:
        card["to go back"] = f"history trust {found.command_id}"
    return Group(Text(asker), card_of(card), *_memories(found.beliefs), Text(found.note, style="dim"))


def _until(found: answers.DistrustReport) -> str:
    return f" to {found.until - 1}" if found.until is not None else ""


def what_if(found: answers.WhatIf) -> RenderableType:
    """Each belief that would differ, as it is now and as it would be."""
    stays = [each for each in found.changed if each.now is not None and each.would_be is not None]
    goes = [each for each in found.changed if each.would_be is None]  # that was not believed anyway
    comes = [each for each in found.changed if each.now is None]
    groups = (
        ("No longer held", found.lost),
        ("Held again", found.gained),
        ("Held otherwise", stays),
        ("Not held, and not there any more", goes),
        ("Not held, and there again", comes),
    )
    parts: list[RenderableType] = []
    for title, beliefs in (*groups, ("Observations", found.observations)):
        rows = [[Text(each.id), _compared(each.now, each.would_be)] for each in beliefs]
        parts += titled(f"{title} ({len(rows):,})", listing("id", "belief", rows=rows) if rows else None)
    count = sum(len(each) for _, each in groups) + len(found.observations)
    same = f"{counted(found.unchanged, 'other')} would be held as now"
    text = f"{counted(count, 'belief')} would differ at position {found.position}, {same}; nothing was written"
    return Group(*parts, Text(f"{text}; {found.note}", style="dim"))


def _compared(now: Belief | None, then: Belief | None) -> Text:
    one = now or then
    assert one is not None  # what is held neither now nor then is no difference
    details = [f"{when} {_held(each)}" for when, each in (("now", now), ("then", then))]
    wording = then.content if then is not None and now is not None and then.content != now.content else None
    text = detailed(short(one.content, QUOTED_CHARS), " → ".join(details))
    return text if wording is None else Text.assemble(text, "\n", short(wording, QUOTED_CHARS))


def _held(found: Belief | None) -> str:
    if found is None:
        return "not there"
    if isinstance(found, Observation):
        return f"{found.status} {decimal(found.confidence)}, {counted(found.proof_count, 'source')}, {found.freshness}"
    return f"{found.status} {decimal(found.confidence)}, {found.reference_count} × referenced"


# --- erasure ---


def erasure(found: answers.ErasureReport) -> RenderableType:
    """How far an erasure is, how much it takes of what, its lists, and what stays."""
    lists: dict[str, tuple[answers.Erased, ...]] = {
        name: getattr(found, name) for name in ("erased", "derived", "sources", "quotes")
    }
    counts = {name: _kinds(each) + (_choices(each) if name != "erased" else "") for name, each in lists.items() if each}
    rows = [_erased_row(name, each) for name, listed in lists.items() for each in listed]
    events = titled("Events", listing("pos", "list", "choice", "text", rows=rows, right=["pos"]) if rows else None)
    stays = [[Text(str(each.position)), _remaining(each)] for each in found.remaining]
    more = found.remaining_total - len(stays)
    stays += [[Text(""), Text(f"and {more:,} more", style="dim")]] if more else []
    title = f"What stays ({counted(found.remaining_total, 'event')})"
    notes = [Text(f"warning: {in_shell(each)}", style="yellow") for each in found.warnings]
    if found.own_tables:
        own = f"warning: tables of your own hold it still, and only you may change them: {', '.join(found.own_tables)}"
        notes.append(Text(one_line(own), style="yellow"))
    return Group(
        _erasure_state(found),
        *notes,
        *([card_of(counts)] if counts else []),
        *events,
        *titled(title, listing("pos", "text", rows=stays, right=["pos"]) if stays else None),
    )


def _kinds(listed: Sequence[answers.Erased]) -> str:
    """How many things of each kind these events are of."""
    subjects = Counter(KINDS.get(kind_of(each), each) for each in {each.subject: None for each in listed})
    kinds = ", ".join(_plural(number, kind) for kind, number in subjects.items())
    return f"{counted(len(listed), 'event')} of {kinds}"


def _plural(number: int, kind: str) -> str:
    return f"{number:,} memories" if kind == "memory" and number > 1 else counted(number, kind)


def _choices(listed: Sequence[answers.Erased]) -> str:
    choices = Counter(each.choice or "undecided" for each in listed)
    return ": " + (
        next(iter(choices)) if len(choices) == 1 else ", ".join(f"{each} {n:,}" for each, n in choices.items())
    )


def _erased_row(name: str, each: answers.Erased) -> list[RenderableType]:
    fields = ", ".join(field.removeprefix("data.") for field in each.fields)
    choice = Text(each.choice or "undecided", style="" if each.choice else "yellow")
    text = detailed(short(each.excerpt or "", EXCERPT_CHARS), each.type, each.subject, fields)
    return [Text(str(each.position)), Text(name), choice, text]


def _remaining(each: answers.Remaining) -> Text:
    return detailed(short(each.excerpt or "", EXCERPT_CHARS), each.type, each.subject, each.why)


def _erasure_state(found: answers.ErasureReport) -> Text:
    what = " ".join(each for each in (found.kind, found.subject) if each)
    if found.state == "dry run":
        held = f"; {one_line(found.why)}" if found.why else ""
        return Text(f"dry run: erasing {what} would change these events; nothing was written{held}")
    before = f", and {counted(len(found.earlier), 'erasure')} before it" if found.earlier else ""
    if found.state == "stopped":
        done = (
            f"a part of {what} is erased by {found.command_id}{before}" if found.command_id else "nothing is erased yet"
        )
        return Text(f"{done}; {one_line(found.why)}", style="yellow")
    if found.state == "pending":
        return Text(f"{what} is erased from the log; pending: {one_line(found.why)}", style="yellow")
    files = f"no plaintext found in {', '.join(found.files)}" if found.files else "the files were written again"
    kept = f" but in {counted(found.hits, 'place')} of other events that say the same" if found.hits else ""
    return Text(f"{what} is erased by {found.command_id}{before}: {files}{kept}")
