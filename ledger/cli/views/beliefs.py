"""The views of beliefs: candidates with their origin, the pack of a recall, reasons, evidence and blame."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ledger import answers
from ledger.cli.pieces import card_of, detailed, listing, moment, short, titled, whole
from ledger.cli.shell_words import in_shell
from ledger.cli.terminal_text import shortened
from ledger.cli.views.tables import QUOTED_CHARS, card, decimal, table, under
from ledger.domain.text import counted, one_line
from ledger.english.words import stems
from ledger.recall.packs import Item, Pack, dated

SEARCHED_CHARS = 20_000  # the part of a source that is searched for a sentence to quote
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def review(queue: Sequence[answers.Candidate]) -> RenderableType:
    admitted = any(candidate.undo for candidate in queue)  # review --admitted lists memories, which are active
    return listing(
        "id", "conf", "memory" if admitted else "candidate", rows=[_candidate_row(candidate) for candidate in queue]
    )


def _candidate_row(candidate: answers.Candidate) -> list[RenderableType]:
    memory, origin = candidate.memory, candidate.provenance
    duplicate = f"says what {candidate.same_as_active} says" if candidate.same_as_active else ""
    place = (origin.interaction or f"{origin.session} at {origin.position}") if origin is not None else ""
    by = f"{origin.rule} in {place}" if origin is not None else ", ".join(memory.sources)
    denied = f"contradicted by turn {', '.join(candidate.contradicted_by)}" if candidate.contradicted_by else ""
    unquoted = (candidate.undo or "").replace("'", "")  # a quoted id would keep the call from being translated
    undo = f"undo: {in_shell(unquoted)}" if unquoted else ""
    text = detailed(
        short(memory.content), memory.kind, memory.project, by, duplicate, denied, candidate.admission, undo
    )
    if origin is not None and origin.quote and _says_more(origin.quote, memory.content or ""):
        text = Text.assemble(text, ("\n“" + shortened(origin.quote, QUOTED_CHARS) + "”", "italic"))
    return [Text(memory.id), Text(decimal(memory.confidence), style="bold"), text]


def _says_more(quote: str, content: str) -> bool:
    """Return True if a quote says more than the memory that was made from it; a heading like "Decision:" is not more."""
    quoted, remembered = one_line(quote).casefold(), one_line(content).casefold()
    return remembered not in quoted or len(quoted) > len(remembered) + 24


# --- recall ----------------------------------------------------------------------------------------------------------


def pack(answer: Pack) -> RenderableType:
    unit = "characters" if answer.unit == "chars" else answer.unit
    budget = f"{answer.used:,} of {answer.budget:,} {unit}" if answer.budget is not None else f"{answer.used:,} {unit}"
    count = counted(len(answer.items), "item") if answer.items else answer.nothing
    count += f", {counted(len(answer.observations), 'observation')}" if answer.observations else ""
    # More items than were searched are possible, because some items need no search.
    searched = f", {answer.searched:,} searched" if answer.items else ""
    summary = f"{count}{searched}, {budget}, {len(answer.cut)} cut"
    receipt = (f"receipt {answer.receipt}",) if answer.receipt else ()
    notes = [Text(one_line(note), style="dim") for note in (*answer.warnings, *answer.changed, *receipt)]
    if not answer.items and not answer.cut and not answer.observations:
        return Group(Text(answer.nothing), *notes)
    parts: list[RenderableType] = [_items(answer.items)] if answer.items else []
    parts += titled("Observations", _items(answer.observations) if answer.observations else None)
    cut = titled("Cut", _items(answer.cut) if answer.cut else None)
    return Group(*parts, Text(summary, style="dim"), *cut, *notes)


def _items(items: Sequence[Item]) -> RenderableType:
    return listing("#", "score", "id", "text", rows=[_item_row(item) for item in items], right=["#", "score"])


def _item_row(item: Item) -> list[RenderableType]:
    about: tuple[object, ...] = (item.source,)
    if item.memory is not None:
        about = (item.memory.kind, item.memory.project, item.memory.status if item.memory.status != "active" else "")
    elif item.passage is not None:
        place = " › ".join(item.passage.heading_path) or item.passage.session
        source = item.source if item.source == "message" else item.passage.field or item.source
        about = (source, place, moment(item.passage.occurred_at))
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
    """Return the steps of the confidence with their reasons; for an observation its evidence and wordings."""
    if answer.value is not None:
        return Group(card(answer.value), *titled("Events", history(answer.steps)))
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


def _head(answer: answers.Why, belief: object) -> RenderableType:
    if belief is None:
        return card_of({"id": answer.id, "status": "not in effect: what made it was undone"})
    return card(belief, without=("recorded_at", "active_at", "position", "sources", "user", "agent", "written_from"))


def _quoted_from(origin: answers.Provenance) -> RenderableType:
    """Return the quoted words in which a memory was found."""
    place = f"{origin.role} at {origin.position} of {origin.session}" if origin.session else origin.interaction
    return detailed(Text(f"“{shortened(origin.quote or '', QUOTED_CHARS)}”", style="italic"), place, origin.rule)


def _quotes(answer: answers.Why) -> RenderableType:
    about = stems((answer.memory.content if answer.memory is not None else None) or "")
    rows = [
        [Text(source.id), Text(moment(source.occurred_at)), _closest_sentence(source, about)]
        for source in answer.sources
    ]
    return listing("id", "when", "text", rows=rows)


def _closest_sentence(source: answers.Interaction, about: frozenset[str]) -> Text:
    """Return the sentence of an interaction that shares most words with a memory; the response comes before the prompt."""
    searched = "\n".join(text[:SEARCHED_CHARS] for text in (source.response, source.prompt) if text)
    sentences = [sentence for sentence in _SENTENCE.split(searched) if sentence.strip()]
    best = max(sentences, key=lambda sentence: len(stems(sentence) & about), default=None)
    return Text(f"“{shortened(best, QUOTED_CHARS)}”", style="italic") if best is not None else short(source.prompt)


def history(steps: Sequence[answers.Step]) -> RenderableType:
    """Return the events of a subject with their data."""
    rows = [[Text(str(step.position)), Text(moment(step.recorded_at)), _event(step)] for step in steps]
    return listing("pos", "when", "what", rows=rows, right=["pos"])


def _event(step: answers.Step) -> Text:
    from ledger.cli.terminal_text import compact

    by = step.command if not step.actor else f"{step.command} by {step.actor}"
    title = detailed(Text(one_line(step.type)), by, "" if step.in_effect else "not in effect")
    return Text.assemble(title, "\n" + compact(step.data))


# --- blame -----------------------------------------------------------------------------------------------------------


def blame(answer: answers.Blame) -> RenderableType:
    """Return the words in order with their events, and below them the steps of the confidence."""
    rows = [
        [*_place(words.event), detailed(whole(words.text.strip("\n")), *_about(words.event))] for words in answer.words
    ]
    parts: list[RenderableType] = [listing("pos", "when", "words", rows=rows, right=["pos"]) if rows else whole(None)]
    if answer.erased:
        erased = ", ".join(map(str, answer.erased))
        parts.append(
            Text(f"erased: the wordings at {erased}; words that outlived them count as those of a later wording", "dim")
        )
    steps = [
        [*_place(step.event), Text(decimal(step.delta, "+")), Text(decimal(step.confidence)), _step(step.event)]
        for step in answer.confidence
    ]
    columns = ("pos", "when", "change", "conf", "what")
    return Group(*parts, *titled("Confidence", listing(*columns, rows=steps, right=columns[:1]) if steps else None))


def _place(event: answers.AuditEntry) -> list[RenderableType]:
    return [Text(str(event.position)), Text(moment(event.recorded_at))]


def _step(event: answers.AuditEntry) -> Text:
    return detailed(Text(event.type), *_about(event))


def _about(event: answers.AuditEntry) -> list[str]:
    by = event.command if not event.actor else f"{event.command} by {event.actor}"
    why = f"“{shortened(event.reason, QUOTED_CHARS)}”" if event.reason else ""
    return [by, event.subject, why, "" if event.in_effect else "not in effect"]
