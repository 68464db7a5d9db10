"""What is believed and why: candidates with their origin, packs of a recall, the confidence over time, the evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ledger import answers
from ledger.cli.pieces import card_of, counted, detailed, listing, moment, short, titled, whole
from ledger.cli.terminal_text import shortened
from ledger.cli.views.tables import QUOTED_CHARS, card, decimal, table, under
from ledger.domain.harmless import one_line
from ledger.domain.text import stems
from ledger.recall.packs import Item, Pack, dated

SEARCHED_CHARS = 20_000  # of a source, for the sentence to quote
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def review(queue: Sequence[answers.Candidate]) -> RenderableType:
    return listing("id", "conf", "candidate", rows=[_candidate_row(each) for each in queue])


def _candidate_row(candidate: answers.Candidate) -> list[RenderableType]:
    found, origin = candidate.memory, candidate.provenance
    duplicate = f"says what {candidate.same_as_active} says" if candidate.same_as_active else ""
    place = (origin.interaction or f"{origin.session} at {origin.position}") if origin is not None else ""
    by = f"{origin.rule} in {place}" if origin is not None else ", ".join(found.sources)
    denied = f"contradicted by turn {', '.join(candidate.contradicted_by)}" if candidate.contradicted_by else ""
    undo = f"undo: {candidate.undo}" if candidate.undo else ""
    text = detailed(short(found.content), found.kind, found.project, by, duplicate, denied, candidate.admission, undo)
    if origin is not None and origin.quote and _says_more(origin.quote, found.content or ""):
        text = Text.assemble(text, ("\n“" + shortened(origin.quote, QUOTED_CHARS) + "”", "italic"))
    return [Text(found.id), Text(decimal(found.confidence), style="bold"), text]


def _says_more(quote: str, content: str) -> bool:
    """Whether a quote is worth showing next to what was made of it: not when it only adds a heading like "Decision:"."""
    quoted, made = one_line(quote).casefold(), one_line(content).casefold()
    return made not in quoted or len(quoted) > len(made) + 24


# --- recall ----------------------------------------------------------------------------------------------------------


def pack(found: Pack) -> RenderableType:
    unit = "characters" if found.unit == "chars" else found.unit
    budget = f"{found.used:,} of {found.budget:,} {unit}" if found.budget is not None else f"{found.used:,} {unit}"
    count = counted(len(found.items), "item") if found.items else found.nothing
    count += f", {counted(len(found.observations), 'observation')}" if found.observations else ""
    searched = f", {found.searched:,} searched" if found.items else ""  # fewer than the items where some are unasked
    summary = f"{count}{searched}, {budget}, {len(found.cut)} cut"
    receipt = (f"receipt {found.receipt}",) if found.receipt else ()
    notes = [Text(one_line(each), style="dim") for each in (*found.warnings, *found.changed, *receipt)]
    if not found.items and not found.cut and not found.observations:
        return Group(Text(found.nothing), *notes)
    parts: list[RenderableType] = [_items(found.items)] if found.items else []
    parts += titled("Observations", _items(found.observations) if found.observations else None)
    cut = titled("Cut", _items(found.cut) if found.cut else None)
    return Group(*parts, Text(summary, style="dim"), *cut, *notes)


def _items(found: Sequence[Item]) -> RenderableType:
    return listing("#", "score", "id", "text", rows=[_item_row(item) for item in found], right=["#", "score"])


def _item_row(item: Item) -> list[RenderableType]:
    about: tuple[object, ...] = (item.source,)
    if item.memory is not None:
        about = (item.memory.kind, item.memory.project, item.memory.status if item.memory.status != "active" else "")
    elif item.passage is not None:
        where = " › ".join(item.passage.heading_path) or item.passage.session
        what = item.source if item.source == "message" else item.passage.field or item.source
        about = (what, where, moment(item.passage.occurred_at))
    elif item.observation is not None:
        about = (counted(item.observation.proof_count, "source"), item.observation.trend, item.observation.project)
    if item.section:
        about = (item.section, dated(item), *about)
    signals = ", ".join(f"{name} {value:.2f}" for name, value in item.signals.items())
    disputed = f"in conflict: {', '.join(item.conflicts)}" if item.conflicts else ""
    details = (*about, disputed, f"cut: {item.cut}" if item.cut else "", signals)
    score = f"{item.score:.2f}" if item.score else ""
    return [Text(str(item.rank)), Text(score), Text(item.id), detailed(short(item.content), *details)]


# --- why -------------------------------------------------------------------------------------------------------------


def why(answer: answers.Why) -> RenderableType:
    """The confidence over time with each step's reason; of an observation the evidence and its wordings."""
    if answer.wordings:
        parts: list[RenderableType] = [_head(answer, answer.observation)]
        parts += under((("Evidence", answer.evidence), ("Wordings", answer.wordings)))
        return Group(*parts, *titled("Events", history(answer.steps)))
    parts = [_head(answer, answer.memory)]
    parts += titled("Steps", table(answer.steps))
    parts += titled("Admitted", Text(answer.admission) if answer.admission else None)
    parts += titled("Quoted", _quoted_from(answer.provenance) if answer.provenance is not None else None)
    parts += titled("Sources", _quotes(answer) if answer.sources else None)
    parts += under((("Chunks", answer.chunks), ("Documents", answer.documents)))
    parts += titled("In conflict", Text(", ".join(answer.conflicts)) if answer.conflicts else None)
    own = [answer.memory] if answer.memory is not None else []
    chain = (
        [*reversed(answer.supersedes), *own, *answer.superseded_by] if answer.supersedes or answer.superseded_by else []
    )
    return Group(*parts, *under((("Supersession", chain),)))


def _head(answer: answers.Why, found: object) -> RenderableType:
    if found is None:
        return card_of({"id": answer.id, "status": "not in effect: what made it was undone"})
    return card(found, without=("recorded_at", "active_at", "position", "sources", "user", "agent", "written_from"))


def _quoted_from(origin: answers.Provenance) -> RenderableType:
    """The words that a memory was found in."""
    place = f"{origin.role} at {origin.position} of {origin.session}" if origin.session else origin.interaction
    return detailed(Text(f"“{shortened(origin.quote or '', QUOTED_CHARS)}”", style="italic"), place, origin.rule)


def _quotes(answer: answers.Why) -> RenderableType:
    about = stems((answer.memory.content if answer.memory is not None else None) or "")
    rows = [[Text(each.id), Text(moment(each.occurred_at)), _closest_sentence(each, about)] for each in answer.sources]
    return listing("id", "when", "text", rows=rows)


def _closest_sentence(source: answers.Interaction, about: frozenset[str]) -> Text:
    """The sentence of an interaction that has most in common with a memory, the response before the prompt."""
    searched = "\n".join(text[:SEARCHED_CHARS] for text in (source.response, source.prompt) if text)
    sentences = [each for each in _SENTENCE.split(searched) if each.strip()]
    best = max(sentences, key=lambda each: len(stems(each) & about), default=None)
    return Text(f"“{shortened(best, QUOTED_CHARS)}”", style="italic") if best is not None else short(source.prompt)


def history(found: Sequence[answers.Step]) -> RenderableType:
    """Every event with what it recorded."""
    rows = [[Text(str(each.position)), Text(moment(each.recorded_at)), _event(each)] for each in found]
    return listing("pos", "when", "what", rows=rows, right=["pos"])


def _event(step: answers.Step) -> Text:
    from ledger.cli.terminal_text import compact

    by = step.command if not step.actor else f"{step.command} by {step.actor}"
    what = detailed(Text(one_line(step.type)), by, "" if step.in_effect else "not in effect")
    return Text.assemble(what, "\n" + compact(step.data))


# --- blame -----------------------------------------------------------------------------------------------------------


def blame(found: answers.Blame) -> RenderableType:
    """The words in their order, each with its event; below them the steps of the confidence."""
    rows = [[*_of(each.event), detailed(whole(each.text.strip("\n")), *_about(each.event))] for each in found.words]
    parts: list[RenderableType] = [listing("pos", "when", "words", rows=rows, right=["pos"]) if rows else whole(None)]
    if found.erased:
        gone = ", ".join(map(str, found.erased))
        parts.append(
            Text(f"erased: what was worded at {gone}; words that outlived it count as those of a later wording", "dim")
        )
    steps = [
        [*_of(each.event), Text(decimal(each.delta, "+")), Text(decimal(each.confidence)), _step(each.event)]
        for each in found.confidence
    ]
    columns = ("pos", "when", "change", "conf", "what")
    return Group(*parts, *titled("Confidence", listing(*columns, rows=steps, right=columns[:1]) if steps else None))


def _of(event: answers.AuditEntry) -> list[RenderableType]:
    return [Text(str(event.position)), Text(moment(event.recorded_at))]


def _step(event: answers.AuditEntry) -> Text:
    return detailed(Text(event.type), *_about(event))


def _about(event: answers.AuditEntry) -> list[str]:
    by = event.command if not event.actor else f"{event.command} by {event.actor}"
    why = f"“{shortened(event.reason, QUOTED_CHARS)}”" if event.reason else ""
    return [by, event.subject, why, "" if event.in_effect else "not in effect"]
