"""Answers as people read them in a terminal: each function takes an answer and returns something rich can print.

Nothing here asks a ledger or prints. Every stored text goes through ``terminal_text`` and becomes a ``Text``, so that
neither escape sequences nor rich's own markup in it have any effect. Times are UTC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import to_builtins
from rich.console import Group, RenderableType
from rich.text import Text

from ledger import answers
from ledger.cli import graphs
from ledger.cli.charts import StepChart
from ledger.cli.pieces import LISTED_CHARS, card_of, counted, detailed, heading, listing, moment, short, titled, whole
from ledger.cli.terminal_text import shortened
from ledger.documents import answers as document_answers
from ledger.domain.harmless import one_line
from ledger.domain.text import stems
from ledger.observations.answers import Observation
from ledger.recall.packs import Item, Pack

QUOTED_CHARS = 110
SEARCHED_CHARS = 20_000  # of a source, for the sentence to quote
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_STATUS_STYLES = {"active": "green", "candidate": "yellow", "superseded": "dim", "invalid": "red", "retracted": "dim"}


# --- small pieces ----------------------------------------------------------------------------------------------------


def _decimal(value: float, sign: str = "") -> str:
    """Two digits after the point, or as many as the millionths need."""
    text = f"{value:{sign}.6f}".rstrip("0")
    return text if len(text.partition(".")[2]) > 2 else f"{value:{sign}.2f}"


def _confidence(value: float) -> Text:
    return Text(_decimal(value), style="bold")


def _change(delta: float) -> Text:
    return Text(_decimal(delta, "+") if delta else "", style="green" if delta > 0 else "red")


def _status(status: str | None) -> Text:
    return Text(one_line(status or ""), style=_STATUS_STYLES.get(status or "", ""))


def compact(data: Any, chars: int = LISTED_CHARS) -> str:
    """What an event recorded, as short JSON without its blanks."""
    if isinstance(data, dict):
        data = {name: value for name, value in data.items() if value not in (None, "", [], {})}
    return shortened(json.dumps(data, ensure_ascii=False), chars)


def ids(answer: Any) -> list[str] | None:
    """The ids of what an answer lists, for ``--quiet``; None where it is no list of subjects."""
    if isinstance(answer, Pack):
        given = (*answer.items, *answer.observations)
        return [answer.receipt] if answer.receipt is not None else [item.id for item in given]
    if isinstance(answer, answers.Graph):
        return list(dict.fromkeys(id for each in answer.neighbors for id in each.memories))
    if isinstance(answer, list):
        found = [getattr(getattr(each, "memory", each), "id", None) for each in answer]
        return None if None in found else [str(each) for each in found]
    if isinstance(answer, document_answers.IngestReport):
        return [each.id for each in answer.documents]
    one = answers.Memory | Observation | answers.Interaction | answers.Project | document_answers.Document
    if isinstance(answer, one | document_answers.Chunk):
        return [answer.id]
    return None


# --- memories --------------------------------------------------------------------------------------------------------


def memories(found: Sequence[answers.Memory]) -> RenderableType:
    return listing("id", "conf", "memory", rows=[_memory_row(each) for each in found])


def _memory_row(memory: answers.Memory) -> list[RenderableType]:
    status = "" if memory.status == "active" else memory.status
    marks = ("quarantined" if memory.quarantined else "", " ".join(f"#{tag}" for tag in memory.tags))
    seen = f"{memory.reference_count} × confirmed" if memory.reference_count else ""
    details = (memory.kind, memory.project, status, seen, *marks)
    return [Text(memory.id), _confidence(memory.confidence), detailed(short(memory.content), *details)]


def changed(memory: answers.Memory) -> RenderableType:
    """A memory after a command."""
    return memories([memory])


def related(memory: answers.Memory) -> RenderableType:
    """A memory after a command on what it says of names: with all that it says of them now."""
    stated = [Text(one_line(f"{each.subject} {each.relation} {each.object}")) for each in memory.relations]
    return Group(memories([memory]), *titled("It says", Group(*stated or [Text("nothing of two names")])))


def memory(found: answers.Memory) -> RenderableType:
    return card_of(_memory_fields(found))


def _memory_fields(memory: answers.Memory) -> dict[str, object]:
    seen = f"{memory.reference_count} ×, last {moment(memory.last_referenced_at)}" if memory.reference_count else ""
    return {
        "id": memory.id,
        "memory": whole(memory.content),
        "status": _status(memory.status + (" (quarantined)" if memory.quarantined else "")),
        "confidence": _confidence(memory.confidence),
        "confirmed": seen,
        "kind": memory.kind,
        "project": memory.project,
        "user": memory.user,
        "agent": memory.agent,
        "tags": ", ".join(memory.tags),
        "entities": ", ".join(memory.entities),
        "sources": ", ".join(memory.sources),
        "relations": _edges(memory),
        "valid": _validity(memory),
        "supersedes": memory.supersedes,
        "superseded by": memory.superseded_by,
        "recorded": f"{moment(memory.recorded_at)} at position {memory.position}",
    }


def review(queue: Sequence[answers.Candidate]) -> RenderableType:
    return listing("id", "conf", "candidate", rows=[_candidate_row(each) for each in queue])


def _candidate_row(candidate: answers.Candidate) -> list[RenderableType]:
    found, origin = candidate.memory, candidate.provenance
    duplicate = f"says what {candidate.same_as_active} says" if candidate.same_as_active else ""
    place = (origin.interaction or f"{origin.session} at {origin.position}") if origin is not None else ""
    by = f"{origin.rule} in {place}" if origin is not None else ", ".join(found.sources)
    text = detailed(short(found.content), found.kind, found.project, by, duplicate)
    if origin is not None and origin.quote and _says_more(origin.quote, found.content or ""):
        text = Text.assemble(text, ("\n“" + shortened(origin.quote, QUOTED_CHARS) + "”", "italic"))
    return [Text(found.id), _confidence(found.confidence), text]


def _says_more(quote: str, content: str) -> bool:
    """Whether a quote is worth showing next to what was made of it: not when it only adds a heading like "Decision:"."""
    quoted, made = one_line(quote).casefold(), one_line(content).casefold()
    return made not in quoted or len(quoted) > len(made) + 24


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
    signals = ", ".join(f"{name} {value:.2f}" for name, value in item.signals.items())
    disputed = f"in conflict: {', '.join(item.conflicts)}" if item.conflicts else ""
    return [Text(str(item.rank)), Text(f"{item.score:.2f}" if item.score else ""), Text(item.id),
            detailed(short(item.content), *about, disputed, f"cut: {item.cut}" if item.cut else "", signals)]  # fmt: skip


# --- documents -------------------------------------------------------------------------------------------------------


def documents(found: Sequence[document_answers.Document]) -> RenderableType:
    rows = [[Text(each.id), Text(f"{each.chunk_count:,}"), _document(each)] for each in found]
    return listing("id", "chunks", "document", rows=rows, right=["chunks"])


def _document(found: document_answers.Document, *more: object) -> Text:
    status = "" if found.status == "active" else found.status
    kind = found.type if found.type != "markdown" else ""
    tags = " ".join(f"#{tag}" for tag in found.tags)
    size = counted(found.size, "character")
    return detailed(short(found.title), *more, found.path, found.project, kind, status, tags, size)


def added(report: document_answers.IngestReport) -> RenderableType:
    rows = [
        [Text(each.id), Text(f"{each.chunk_count:,}"), _document(each, _came_to(each))] for each in report.documents
    ]
    parts: list[RenderableType] = [listing("id", "chunks", "document", rows=rows, right=["chunks"])] if rows else []
    notes = [f"{len(report.errors):,} not taken in"] if report.errors else []
    if len(report.documents) > 1 and report.correlation_id is not None:
        notes.append(f"undo {report.correlation_id} takes all of it back")
    return Group(*parts, *([Text("; ".join(notes), style="dim")] if notes else []))


def _came_to(found: document_answers.Document) -> str:
    """What an ingestion came to."""
    if found.absorbed or found.replayed:
        return "known already"
    came = [f"{found.added:,} new"] * bool(found.added) + [f"{found.dropped:,} gone"] * bool(found.dropped)
    return ", ".join(came) or "as it was, but for what is said of it"


def changed_document(found: document_answers.Document) -> RenderableType:
    return documents([found])


def document(found: document_answers.Document) -> RenderableType:
    card = card_of(
        {
            "id": found.id,
            "title": whole(found.title),
            "path": found.path,
            "status": found.status,
            "type": found.type,
            "project": found.project,
            "user": found.user,
            "agent": found.agent,
            "tags": ", ".join(found.tags),
            "size": f"{counted(found.size, 'character')} in {counted(found.chunk_count, 'chunk')}",
            "recorded": f"{moment(found.recorded_at)}, taken in last {moment(found.updated_at)}",
        }
    )
    return Group(card, *titled("Chunks", _chunks(found.chunks) if found.chunks else None))


def _chunks(found: Sequence[document_answers.Chunk]) -> RenderableType:
    """Where each stands and under which headings; what they say, if it was asked for."""
    rows = []
    for each in found:
        above = _headings(each) if each.status != "erased" else Text("(erased)", style="dim italic")
        words = above if each.content is None else Text.assemble(above, "\n", whole(each.content.strip("\r\n")))
        place = (f"{each.line or ''}", f"{each.size or 0:,}") if each.status != "erased" else ("", "")
        rows.append([Text(each.id), *map(Text, place), words])
    return listing("id", "line", "chars", "under", rows=rows, right=["line", "chars"])


def _headings(chunk: document_answers.Chunk) -> Text:
    text = " › ".join(one_line(each) for each in chunk.heading_path or ())
    return Text(text or "(no heading)", style="cyan" if text else "dim")


def chunk(found: document_answers.Chunk) -> RenderableType:
    gone = {"replaced": " (its document was replaced by a newer text)", "removed": " (with its document)"}
    return card_of(
        {
            "id": found.id,
            "text": whole(found.content.strip("\r\n") if found.content is not None else None),
            "under": _headings(found),
            "status": found.status + gone.get(found.status, ""),
            "document": f"{found.document} {found.title or ''}",
            "path": found.path,
            "line": found.line,
            "index": found.index,
            "recorded": f"{moment(found.recorded_at)} at position {found.position}",
        }
    )


def _cited_chunks(found: Sequence[document_answers.Chunk]) -> RenderableType:
    rows = []
    for each in found:
        status = "" if each.status == "active" else each.status
        place = f"{each.path or each.title or each.document}" + (f", line {each.line}" if each.line else "")
        text = Text.assemble(_headings(each), "\n", short(each.content, QUOTED_CHARS))
        rows.append([Text(each.id), detailed(text, place, status)])
    return listing("id", "said", rows=rows)


graph = graphs.tree  # the view of that name


# --- what changed between two moments --------------------------------------------------------------------------------

_PARTS = ("added", "promoted", "superseded", "moved", "hidden", "restored", "revised")


def diff(found: answers.Diff) -> RenderableType:
    """Each part under its name, a memory at a time, with what is otherwise."""
    span = f"from position {found.from_position} ({moment(found.start)}) to {found.to_position} ({moment(found.end)})"
    parts: list[RenderableType] = []
    for name in _PARTS:
        pairs: tuple[answers.Changed, ...] = getattr(found, name)
        rows = [[Text(each.id), _changed(name, each)] for each in pairs]
        parts += titled(f"{name.capitalize()} ({len(pairs):,})", listing("id", "memory", rows=rows) if rows else None)
    nothing = [Text("nothing is believed otherwise")] if not parts else []
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
        return f"{_decimal(before.confidence)} → {_decimal(after.confidence)}"
    by = f" by {after.superseded_by}" if part == "superseded" and after.superseded_by else ""
    return f"{_memory_status(before)} → {_memory_status(after)}{by}"


def _memory_status(memory: answers.Memory) -> str:
    return memory.status + (" (quarantined)" if memory.quarantined else "")


def _revisions(before: answers.Memory, after: answers.Memory) -> list[str]:
    changes = {
        "text": ("" if before.content == after.content else f"was “{shortened(before.content or '', QUOTED_CHARS)}”"),
        "tags": _difference_of("tags", ", ".join(before.tags), ", ".join(after.tags)),
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


# --- why, history, audit ---------------------------------------------------------------------------------------------


def why(answer: answers.Why) -> RenderableType:
    parts: list[RenderableType] = [_why_head(answer)]
    chart = StepChart((step.recorded_at, step.confidence) for step in answer.steps)
    parts += titled("Confidence over time (UTC)", chart)
    parts += titled("Steps", steps(answer.steps))
    parts += titled("Said", _quoted_from(answer.provenance) if answer.provenance is not None else None)
    parts += titled("Sources", _quotes(answer) if answer.sources else None)
    parts += titled("Chunks", _cited_chunks(answer.chunks) if answer.chunks else None)
    parts += titled("Documents", documents(answer.documents) if answer.documents else None)
    parts += titled("In conflict", Text(", ".join(answer.conflicts)) if answer.conflicts else None)
    parts += titled("Supersession", _chain(answer) if answer.supersedes or answer.superseded_by else None)
    return Group(*parts)


def _quoted_from(origin: answers.Provenance) -> RenderableType:
    """The words that a memory was found in."""
    place = f"{origin.role} at {origin.position} of {origin.session}" if origin.session else origin.interaction
    return detailed(Text(f"“{shortened(origin.quote or '', QUOTED_CHARS)}”", style="italic"), place, origin.rule)


def _why_head(answer: answers.Why) -> RenderableType:
    if answer.memory is None:
        return card_of({"id": answer.id, "status": "not in force: what made it was undone"})
    wanted = ("id", "memory", "status", "confidence", "confirmed", "kind", "project", "valid")
    fields = _memory_fields(answer.memory)
    return card_of({name: fields[name] for name in wanted})


def steps(found: Sequence[answers.Step]) -> RenderableType:
    rows = [_step_row(each) for each in found]
    return listing("pos", "when", "conf", "change", "what", rows=rows, right=["pos", "change"])


def _step_row(step: answers.Step) -> list[RenderableType]:
    cited = step.data.get("interaction") if isinstance(step.data, dict) else None
    by = step.command if not step.actor else f"{step.command} by {step.actor}"
    force = "" if step.in_effect else "not in force"
    what = detailed(Text(one_line(step.type)), by, cited, force)
    if step.because:
        what = Text.assemble(what, ("\n" + shortened(step.because, LISTED_CHARS), "italic"))
    numbers = (_confidence(step.confidence), _change(step.delta))
    return [Text(str(step.position)), Text(moment(step.recorded_at)), *numbers, what]


def _quotes(answer: answers.Why) -> RenderableType:
    about = stems((answer.memory.content if answer.memory is not None else None) or "")
    rows = [[Text(each.id), Text(moment(each.occurred_at)), _closest_sentence(each, about)] for each in answer.sources]
    return listing("id", "when", "said", rows=rows)


def _closest_sentence(source: answers.Interaction, about: frozenset[str]) -> Text:
    """The sentence of an interaction that has most in common with a memory, the response before the prompt."""
    searched = "\n".join(text[:SEARCHED_CHARS] for text in (source.response, source.prompt) if text)
    sentences = [each for each in _SENTENCE.split(searched) if each.strip()]
    best = max(sentences, key=lambda each: len(stems(each) & about), default=None)
    return Text(f"“{shortened(best, QUOTED_CHARS)}”", style="italic") if best is not None else short(source.prompt)


def _quote(source: answers.Interaction) -> Text:
    asked = Text("> ", style="dim").append_text(short(source.prompt, QUOTED_CHARS))
    return asked if not source.response else asked.append("\n").append_text(short(source.response, QUOTED_CHARS))


def _chain(answer: answers.Why) -> RenderableType:
    """Oldest first, the memory itself among them."""
    own = [answer.memory] if answer.memory is not None else []
    return memories([*reversed(answer.supersedes), *own, *answer.superseded_by])


def confidence(points: Sequence[answers.ConfidencePoint]) -> RenderableType:
    rows = [_point_row(each) for each in points]
    chart = StepChart((each.recorded_at, each.confidence) for each in points)
    return Group(chart, Text(""), listing("pos", "when", "conf", "change", "what", rows=rows, right=["pos", "change"]))


def _point_row(point: answers.ConfidencePoint) -> list[RenderableType]:
    how = ("echo" if point.echo else "", point.matcher, point.interaction, "" if point.in_effect else "not in force")
    what = detailed(Text(one_line(point.type)), *how)
    return [Text(str(point.position)), Text(moment(point.recorded_at)), _confidence(point.confidence),
            _change(point.delta), what]  # fmt: skip


def history(found: Sequence[answers.Step]) -> RenderableType:
    return listing("pos", "when", "what", rows=[_history_row(each) for each in found], right=["pos"])


def _history_row(step: answers.Step) -> list[RenderableType]:
    by = step.command if not step.actor else f"{step.command} by {step.actor}"
    what = detailed(Text(one_line(step.type)), by, "" if step.in_effect else "not in force")
    return [Text(str(step.position)), Text(moment(step.recorded_at)), Text.assemble(what, "\n" + compact(step.data))]


def audit(entries: Sequence[answers.AuditEntry]) -> RenderableType:
    return listing("pos", "when", "subject", "what", rows=[_audit_row(each) for each in entries], right=["pos"])


def _audit_row(entry: answers.AuditEntry) -> list[RenderableType]:
    by = entry.command if not entry.actor else f"{entry.command} by {entry.actor}"
    place = (entry.client, entry.project, entry.session, "" if entry.in_effect else "not in force")
    what = detailed(Text(one_line(entry.type)), by, *place)
    return [Text(str(entry.position)), Text(moment(entry.recorded_at)), Text(one_line(entry.subject)), what]


def refusals(found: Sequence[answers.Refusal]) -> RenderableType:
    rows = [_refusal_row(each) for each in found]
    return listing("pos", "when", "command", "rule", "of", rows=rows, right=["pos"])


def _refusal_row(refusal: answers.Refusal) -> list[RenderableType]:
    known = {name: getattr(refusal, name) for name in ("limit", "current", "requested")}
    numbers = [f"{name} {value:,}" for name, value in known.items() if value is not None]
    details = [one_line(str(each)) for each in (refusal.finding, refusal.subject, refusal.actor, *numbers) if each]
    start = (str(refusal.position), moment(refusal.recorded_at), refusal.command, refusal.rule)
    return [Text(one_line(each)) for each in (*start, " · ".join(details))]


# --- interactions and projects ---------------------------------------------------------------------------------------


def interactions(found: Sequence[answers.Interaction]) -> RenderableType:
    rows = [[Text(each.id), Text(moment(each.occurred_at)), _turn(each)] for each in found]
    return listing("id", "when", "turn", rows=rows)


def _turn(found: answers.Interaction) -> Text:
    return detailed(_quote(found), found.project, found.session, found.client)


def captured(found: answers.Interaction) -> RenderableType:
    """An interaction after a command."""
    return interactions([found])


def interaction(found: answers.Interaction) -> RenderableType:
    pack = compact(found.context) if found.context else ""
    names = ("project", "session", "client", "user", "agent", "reinforcement", "extraction", "position")
    head = {"id": found.id, "when": moment(found.occurred_at), "recorded": moment(found.recorded_at)}
    lists = {"memories used": ", ".join(found.memories_used), "chunks used": ", ".join(found.chunks_used)}
    used = lists | {"context": pack}
    fields = head | {name: getattr(found, name) for name in names} | used
    given = {"Prompt": found.prompt, "Response": found.response, "Summary": found.summary}
    texts = [part for name, text in given.items() if text != "" for part in titled(name, whole(text))]
    return Group(card_of(fields), *texts)


def projects(found: Sequence[answers.Project]) -> RenderableType:
    return listing("id", "project", "about", rows=[_project_row(each) for each in found])


def _project_row(project: answers.Project) -> list[RenderableType]:
    aliases = [one_line(each) for each in project.aliases if each]
    also = f"also {', '.join(aliases)}" if aliases else ""
    known = f"{len(project.state)} of trusted state" if project.state else ""
    return [Text(project.id), short(project.name, 30), detailed(short(project.description or ""), also, known)]


def project(found: answers.Project) -> RenderableType:
    return Group(projects([found]), *titled("Trusted state", state(found.state) if found.state else None))


def state(entries: Sequence[answers.StateEntry]) -> RenderableType:
    return listing("category", "name", "value", rows=[_state_row(each) for each in entries])


def _state_row(entry: answers.StateEntry) -> list[RenderableType]:
    until = f"until position {entry.to_position}" if entry.to_position is not None else ""
    details = (f"since {moment(entry.recorded_at)}", f"by {entry.actor}" if entry.actor else "", entry.source, until)
    return [Text(one_line(entry.category)), short(entry.name, 24), detailed(short(entry.value), *details)]


# --- reports ---------------------------------------------------------------------------------------------------------


def report(found: Any) -> RenderableType:
    """Any report or set of numbers, field by field under the names it has in Python."""
    return card_of({name: _as_text(value) for name, value in to_builtins(found).items()})


def _as_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_as_text(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(_as_text(each) for each in value) if value else ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}" if isinstance(value, float) else str(value)


def stats(found: answers.Stats) -> RenderableType:
    fields = to_builtins(found)
    fields.pop("projections")
    suspended = [each.name for each in found.projections if each.suspended_at is not None]
    behind = [each.name for each in found.projections if each.position != found.position and each.suspended_at is None]
    shown_projections = f"{len(found.projections)} projections" + (
        f", suspended: {', '.join(suspended)}" if suspended else ""
    )
    shown_projections += f", behind: {', '.join(behind)}" if behind else ", all up to date" if not suspended else ""
    return card_of({name: _as_text(value) for name, value in fields.items()} | {"projections": shown_projections})


def reinforcement(found: answers.Reinforcement | answers.Memory) -> RenderableType:
    if isinstance(found, answers.Memory):
        return changed(found)
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
    kept = titled("Candidates", memories(found.kept) if found.kept else None)
    rows = [[Text(one_line(each.get("rule") or each.get("what") or "")), _found(each)] for each in found.dropped]
    dropped = titled("Found" if found.dry_run else "Dropped", listing("rule", "what", rows=rows) if rows else None)
    return Group(Text(text), *kept, *dropped)


def _found(entry: Mapping[str, Any]) -> Text:
    return detailed(short(entry.get("content") or ""), entry.get("kind"), entry.get("reason"))


def imported(found: answers.ImportReport | answers.Stats) -> RenderableType:
    """What an import did; of a whole log, the ledger that it made."""
    if isinstance(found, answers.Stats):
        return stats(found)
    counts = f"{found.captured:,} captured, {found.known:,} known already, {len(found.errors):,} bad"
    text = f"{counted(found.lines, 'line')}: {counts}"
    rows = [[Text(str(number)), short(why)] for number, why in found.errors[:20]]
    more = [Text(f"and {len(found.errors) - 20:,} more bad lines", style="dim")] if len(found.errors) > 20 else []
    named = [Text(f"correlation id {found.correlation_id}", style="dim")] if found.correlation_id else []
    return Group(Text(text), *named, *([listing("line", "why", rows=rows, right=["line"])] if rows else []), *more)


def undo(found: answers.UndoReport) -> RenderableType:
    if not found.events and found.command_id is None:
        return Text("there was nothing to do: no event became void, or came back", style="dim")
    what = f"{counted(found.events, 'event')} of {counted(len(found.commands), 'command')}"
    text = f"{'would concern' if found.dry_run else 'concerned'} {what} on {counted(len(found.subjects), 'subject')}"
    again = {"to go back": _reversal(found)} if found.command_id else {}
    concerned = {"commands": Text("\n".join(found.commands)), "subjects": ", ".join(found.subjects)}
    concerned |= {"void with it": _dependents(found.dependents)} if found.dependents else {}
    return Group(Text(text), card_of(concerned | again))


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
    """What a source had said and moved, and what nobody can know."""
    would = "would concern" if found.dry_run else "concerned"
    asker = f"{found.kind} {one_line(found.origin)} {_span(found)}: {would} {counted(found.events, 'event')}"
    lists = {
        "memories": found.memories,
        "observations": found.observations,
        "unsupported": found.unsupported,
        "gone": found.gone,
        "shown to": found.receipts,
    }
    card: dict[str, object] = {name: Text("\n".join(each)) for name, each in lists.items() if each}
    if found.dependents:
        card["void with it"] = _dependents(found.dependents)
    if found.command_id and not found.trusted:
        card["to go back"] = f"trust {found.command_id}"
    return Group(Text(asker), card_of(card), *_open_questions(found.uncertain))


def distrusted(found: Sequence[answers.Distrusted]) -> RenderableType:
    if not found:
        return Text("every source is trusted", style="dim")
    rows: list[list[RenderableType]] = [
        [Text(each.kind), detailed(short(each.origin), each.reason), Text(_span(each)), Text(each.command_id)]
        for each in found
    ]
    return listing("kind", "source", "what it wrote", "command", rows=rows)


def _span(found: answers.DistrustReport | answers.Distrusted) -> str:
    return f"from position {found.since}" + (f" to {found.until - 1}" if found.until is not None else "")


def what_if(found: answers.WhatIf) -> RenderableType:
    """Beliefs now and then, side by side."""
    groups = (("no longer held", found.lost), ("held again", found.gained), ("held otherwise", found.changed))
    rows: list[list[RenderableType]] = [
        [Text(name), Text(each.id), _belief(each.now), _belief(each.would_be)]
        for name, beliefs in groups
        for each in beliefs
    ]
    observed: list[list[RenderableType]] = [
        [Text(each.id), _observed(each.now), _observed(each.would_be)] for each in found.observations
    ]
    count = len(rows) + len(observed)
    doubts = Text(f"{counted(count, 'belief')} would differ at position {found.position}; nothing was written")
    table = [listing("", "memory", "now", "then", rows=rows)] if rows else []
    table += [listing("observation", "now", "then", rows=observed)] if observed else []
    return Group(*table, doubts, *_open_questions(found.uncertain))


def _observed(found: Observation | None) -> Text:
    if found is None:
        return Text("—", style="dim")
    proof = counted(found.proof_count, "source")
    return detailed(
        short(found.content, QUOTED_CHARS), found.status, _decimal(found.confidence), proof, found.freshness
    )


def _belief(memory: answers.Memory | None) -> Text:
    if memory is None:
        return Text("—", style="dim")
    return detailed(
        short(memory.content, QUOTED_CHARS), memory.status, _decimal(memory.confidence), f"×{memory.reference_count}"
    )


def _open_questions(found: Sequence[answers.Uncertain]) -> list[RenderableType]:
    if not found:
        return []
    rows: list[list[RenderableType]] = [
        [Text(str(each.position)), Text(each.type), Text(each.subject), Text(each.why)] for each in found
    ]
    return [
        Text("\nundetermined: it could have come out otherwise"),
        listing("position", "event", "subject", "why", rows=rows),
    ]


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


def line(found: object) -> RenderableType:
    """A single value."""
    return Text(one_line(str(found)))


# --- proofs ----------------------------------------------------------------------------------------------------------


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


def as_text(found: answers.Checkpoint | answers.Proof) -> str:
    """The text that is made to be kept."""
    return found.text if isinstance(found, answers.Checkpoint) else found.as_text()


# --- erasure ---------------------------------------------------------------------------------------------------------


def erasure(found: answers.ErasureReport) -> RenderableType:
    """The lists of an erasure, and how far it is."""
    names = ("erased", "derived", "sources", "quotes")
    rows = [_erased_row(name, each) for name in names for each in getattr(found, name)]
    table = [listing("position", "list", "what becomes of it", "text", rows=rows)] if rows else []
    return Group(*table, _erasure_state(found))


def _erased_row(name: str, each: answers.Erased) -> list[RenderableType]:
    fields = ", ".join(field.removeprefix("data.") for field in each.fields)
    becomes = Text(each.choice or "nobody has said", style="" if each.choice else "yellow")
    return [
        Text(str(each.position)),
        Text(name),
        becomes,
        detailed(short(each.excerpt or ""), each.type, each.subject, fields),
    ]


def _erasure_state(found: answers.ErasureReport) -> Text:
    what = " ".join(each for each in (found.kind, found.subject) if each)
    if found.state == "dry run":
        return Text(f"erasing {what} would change these events; nothing was written")
    if found.state == "pending":
        return Text(f"{what} is erased from the log; pending: {one_line(found.why)}", style="yellow")
    files = f"no plaintext found in {', '.join(found.files)}" if found.files else "the files were written again"
    kept = f"; {counted(found.hits, 'place')} where other events say the same" if found.hits else ""
    before = f", and {counted(len(found.earlier), 'erasure')} before it" if found.earlier else ""
    return Text(f"{what} is erased by {found.command_id}{before}: {files}{kept}")


def erasures(found: Sequence[answers.ErasureReport]) -> RenderableType:
    if not found:
        return Text("nothing is pending", style="dim")
    rows: list[list[RenderableType]] = [
        [
            Text(str(each.position)),
            Text(each.state),
            Text(each.kind),
            Text(each.subject or ""),
            Text(each.command_id or ""),
        ]
        for each in found
    ]
    return listing("position", "state", "kind", "subject", "command", rows=rows)


def held(found: answers.Hold) -> RenderableType:
    what = found.subject or "everything of this user"
    return Text(f"{what}: hold {found.id}, since position {found.position}")


def holds(found: Sequence[answers.Hold]) -> RenderableType:
    rows: list[list[RenderableType]] = [
        [Text(each.id), Text(each.subject or "everything"), short(each.reason), Text(each.recorded_at)]
        for each in found
    ]
    return listing("hold", "on", "reason", "since", rows=rows)
