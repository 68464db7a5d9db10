"""Receipts of recalls: a delivered pack is recorded on request, and can be reopened as it was, whatever was recorded since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import json
from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.engine import Engine, ReadingEngine, at
from ledger.core.reads import first_position, read_event, text_of
from ledger.domain import confidence as confidence_rules
from ledger.domain.errors import RejectedError
from ledger.domain.ids import KINDS, message_id
from ledger.domain.times import moment
from ledger.english.words import folded
from ledger.erasure.rules import BLACK
from ledger.events import (
    LEDGER_STREAM,
    AnyEvent,
    ChunkAdded,
    Delivered,
    InteractionCaptured,
    MessageAppended,
    ProjectStateSet,
    RecallDelivered,
    ResponseAttached,
    ValuePut,
)
from ledger.memories.answers import Memory
from ledger.memories.shown import memories_shown
from ledger.projects import answers
from ledger.recall.observing import current, observed
from ledger.recall.ordering import spoken_by
from ledger.recall.packs import Item, Pack, Passage, finished
from ledger.recall.request import AMONG_ITEMS, RecallRequest
from ledger.recall.unasked import ENTRY_CHARS, of_state, shortened
from ledger.sessions.rules.message import part_texts
from ledger.values.rules import ACTIVE, readable
from projections.core.rows import Connection
from projections.search import passages
from projections.views import audit, conflicts, memories, projects, sessions, values

if TYPE_CHECKING:
    from ledger.core.work import Work

MATCH = "match"  # stored among the signals of a receipt
SOURCES = {"m": "memory", "i": "turn", "s": "message", "c": "chunk", "p": "state"}


def recorded(
    engine: ReadingEngine, request: RecallRequest, project: str | None, pack: Pack, who: Who, session: str | None = None
) -> str:
    """Append the delivered pack, to a ``session`` if one is given, and return the id of that event."""
    if not isinstance(engine, Engine):
        raise RejectedError(
            "a receipt is written to the log, and a past moment is read-only: call recall() of the ledger itself",
            rule="readonly",
        )
    settings: dict[str, int | str | tuple[str, ...] | None] = {
        "limit": request.limit,
        "budget": request.budget,
        "unit": request.unit,
        "packing": request.packing,
        "ranking": request.ranking,
        "project": project,
        "kinds": request.kinds,
        "among": request.among,
        "statuses": request.statuses,
        "observations": request.observations,
    }
    everything = (*pack.items, *pack.observations, *pack.cut)
    observations = [item for item in everything if item.observation is not None]
    if observations:
        settings["as_of"] = request.now  # the time of the observations' trends
    if request.metadata:
        settings["metadata"] = len(request.metadata)  # only the number of keys: their words may be personal
    if request.min_match is not None:
        settings["min_match"] = round(request.min_match * confidence_rules.ONE)
    if request.packing == "shares":
        settings["entry_chars"] = ENTRY_CHARS
    beside = observations if request.observations != AMONG_ITEMS else []
    ranked = [item for item in everything if not beside or item.observation is None]
    order = (*sorted(ranked, key=lambda item: item.rank), *sorted(beside, key=lambda item: item.rank))
    items = tuple(map(_delivered, order))

    def body(work: Work) -> str:
        work.project, work.session = project, session
        query = work.body(request.question)
        numbers = {"searched": pack.searched, "used": pack.used, "warnings": pack.warnings}
        work.emit(LEDGER_STREAM, RecallDelivered(query, pack.seen or 0, settings, items, **numbers))  # type: ignore[arg-type]
        return LEDGER_STREAM

    outcome = engine.writer.run("recall", replace(who, user=request.user, key=None), body)
    return str(outcome.events[-1].envelope.event_id)


def reopen(engine: Engine, user: str, receipt: str) -> Pack | None:
    """Return the pack that ``recall(…, receipt=True)`` gave, with ``changed``: the differences to the present.

    ``receipt`` is ``pack.receipt``. A text that was erased since is missing. The result is None if this user has no such receipt.
    """
    with engine.reading() as connection:
        audited = audit.by_event(connection, receipt) if isinstance(receipt, str) else None
        event = read_event(connection, audited.position) if audited is not None else None
        if event is None or not isinstance(event.data, RecallDelivered) or event.envelope.user != user:
            return None
        data = event.data
        chars = data.settings.get("entry_chars")
        observations = _observations_given(engine, data)
        mixed = {item.id: item for item in observations} if data.settings.get("observations") == AMONG_ITEMS else {}
        delivered = [entry for entry in data.items if entry.subject[:1] != "o" or entry.subject in mixed]
        items = [
            replace(mixed[entry.subject], rank=rank)
            if entry.subject in mixed
            else _item_then(connection, entry, rank, data.seen)
            for rank, entry in enumerate(delivered, 1)
        ]
        if isinstance(chars, int):
            items = [_shortened(item, chars) for item in items]
        items = _disputed_then(engine, items, data.seen)
        changes = [_changed(connection, item, data.seen) for item in items if item.source != "observation"]
        changes += [_observation_changed(connection, item) for item in observations]
    beside = [item for item in observations if item.id not in mixed]
    budget, unit = data.settings.get("budget"), data.settings.get("unit")
    pack = finished(
        items,
        [item.cut for item in items],
        searched=data.searched,
        budget=budget if isinstance(budget, int) else None,
        unit=str(unit or "chars"),
        warnings=data.warnings or (),
    )
    return replace(
        pack,
        used=data.used,
        receipt=event.envelope.event_id,
        seen=data.seen,
        changed=tuple(change for change in changes if change is not None),
        observations=tuple(item for item in beside if not item.cut),
        cut=(*pack.cut, *(item for item in beside if item.cut)),
    )


def _observations_given(engine: Engine, data: RecallDelivered) -> list[Item]:
    """Return the observations of a receipt as they stood."""
    delivered = [entry for entry in data.items if entry.subject[:1] == "o"]
    as_of = data.settings.get("as_of")
    if not delivered or not isinstance(as_of, str):
        return []
    with _then(engine, data.seen).reading() as connection:
        observations_then = current(connection, [entry.subject for entry in delivered], as_of)
    return [
        _as_given(
            entry, observed(observation, rank) if (observation := observations_then.get(entry.subject)) else None, rank
        )
        for rank, entry in enumerate(delivered, 1)
    ]


def _then(engine: Engine, seen: int) -> ReadingEngine:
    """Return the ledger as it stood at a position. Inside an uncommitted batch, return the ledger as it is."""
    try:
        return at(engine, seen)
    except RejectedError:
        return engine


def _disputed_then(engine: Engine, items: list[Item], seen: int) -> list[Item]:
    """Return the items with the conflicts that were open when the pack was given."""
    with _then(engine, seen).reading() as past:
        disputed = conflicts.open_among(past, (item.id for item in items if item.memory is not None))
    return [replace(item, conflicts=disputed[item.id]) if item.id in disputed else item for item in items]


def _item_then(connection: Connection, delivered: Delivered, rank: int, seen: int) -> Item:
    memory, passage, text, entry = None, None, None, None
    kind = delivered.subject[:1]
    first = first_position(connection, delivered.subject)
    if kind == "m" and first is not None:
        state = memories.get_at(connection, first, seen)
        memory = memories_shown(connection, [state])[0] if state is not None else None
        text = memory.content if memory is not None else None
    elif kind in "icsv":
        passage = _passage_then(connection, delivered)
        text = passage.content
    elif kind == "p" and (event := read_event(connection, delivered.position)) is not None:
        entry = _entry(event)
        text = of_state(delivered.subject, entry).content if entry is not None else None
    return Item(
        rank=rank,
        score=confidence_rules.shown(delivered.score),
        match=confidence_rules.shown(delivered.signals.get(MATCH, 0)),
        source=SOURCES.get(kind, KINDS.get(kind, kind)),
        id=delivered.subject,
        content=text,
        signals=_signals(delivered),
        cut=delivered.cut,
        section=delivered.section,
        memory=memory,
        passage=passage,
        state=entry,
    )


def _passage_then(connection: Connection, delivered: Delivered) -> Passage:
    event = read_event(connection, delivered.position)
    data = event.data if event is not None else None
    whole: str | None = None
    heading: tuple[str, ...] = ()
    document: str | None = None
    metadata: dict[str, object] = {}
    begun, role, name = event, "", ""
    if event is not None and isinstance(data, ChunkAdded):
        whole, heading, document = data.content, data.heading_path or (), event.stream
        metadata = json.decode(data.own) or {}
    elif event is not None and isinstance(data, InteractionCaptured | ResponseAttached):
        whole = text_of(connection, getattr(data, delivered.field, None))
        begun = read_event(connection, event.first)
    elif isinstance(data, MessageAppended):
        whole = part_texts(data.parts) if delivered.field == "parts" else text_of(connection, data.content)
        role, name = data.role, folded(data.speaker or "")
    elif event is not None and isinstance(data, ValuePut):
        content = text_of(connection, data.content)
        whole = readable(content, data.type, data.fields or ()) if content is not None else None
        heading = (*(data.namespace or ()), data.name or "")
    envelope = begun.envelope if begun is not None else None
    names = projects.names(connection, {envelope.project, envelope.session} if envelope is not None else set())
    text = whole[delivered.start : delivered.end] if whole is not None else None
    return Passage(
        id=delivered.subject,
        field=delivered.field,
        start=delivered.start,
        end=delivered.end,
        content=text,
        user=envelope.user if envelope is not None else None,
        project=names.get(envelope.project, envelope.project) if envelope and envelope.project else None,
        session=names.get(envelope.session, envelope.session) if envelope and envelope.session else None,
        occurred_at=moment("occurred_at", envelope.occurred_at or envelope.recorded_at) if envelope else "",
        position=delivered.position,
        document=document,
        heading_path=heading,
        speaker=spoken_by("chunk" if document else "", delivered.field, role, name, text or ""),
        message=message_id(delivered.subject, delivered.position) if isinstance(data, MessageAppended) else None,
        metadata=metadata,
    )


def _changed(connection: Connection, item: Item, seen: int) -> str | None:
    """Return the change of an item since, in a few words, or None."""
    if item.content is None:
        return f"{item.id}: erased"
    if item.memory is not None:
        row = first_position(connection, item.id)
        now = memories.get(connection, row) if row is not None else None
        if now is None:
            return f"{item.id}: gone, what made it was undone"
        after = memories_shown(connection, [now])[0]
        return _memory_changed(item.memory, after) or _partly_erased(connection, item, seen)
    if item.passage is not None and not passages.stands(connection, item.passage.position, item.passage.field):
        return f"{item.id}: void, or removed"
    if item.source == "value" and (row := first_position(connection, item.id)) is not None:
        value = values.get(connection, row)
        if value is None or value.status != ACTIVE:
            return f"{item.id}: removed"
    if item.passage is not None and item.source == "message" and (why := _why_hidden(connection, item.passage)):
        return f"{item.id}: hidden since ({why})"
    if item.state is not None and (change := _state_changed(connection, item.id, item.state)) is not None:
        return change
    return _partly_erased(connection, item, seen)


def _state_changed(connection: Connection, project: str, before: answers.StateEntry) -> str | None:
    entries = projects.state_history(connection, project, before.category, before.name)
    latest = [entry for entry in entries if entry[-1] is None]
    if not latest:
        return f"{project}: {before.category}: {before.name} holds no more"
    return (
        f"{project}: {before.category}: {before.name} was set again" if latest[0][-2] != before.from_position else None
    )


def _as_given(delivered: Delivered, item: Item | None, rank: int) -> Item:
    """Return an observation with the score that it had; without its text the observation is shown as erased."""
    known = (
        item
        if item is not None
        else Item(rank=rank, score=0.0, source="observation", id=delivered.subject, content=None)
    )
    score, match = confidence_rules.shown(delivered.score), confidence_rules.shown(delivered.signals.get(MATCH, 0))
    return replace(known, score=score, match=match, signals=_signals(delivered), cut=delivered.cut)


def _signals(delivered: Delivered) -> dict[str, float]:
    return {name: confidence_rules.shown(value) for name, value in delivered.signals.items() if name != MATCH}


def _observation_changed(connection: Connection, item: Item) -> str | None:
    """Return the change of an observation since, in a few words, or None."""
    if item.content is None or item.observation is None:
        return f"{item.id}: erased"
    now = current(connection, [item.id], item.observation.as_of).get(item.id)
    if now is None:
        return f"{item.id}: gone, what made it was undone"
    before, after = item.observation, now.answer
    parts = [after.status] if after.status != before.status else []
    if after.content != before.content:
        parts.append("says something else")
    if after.freshness != before.freshness and after.proof_count:
        parts.append(after.freshness)
    if after.proof_count != before.proof_count:
        parts.append(f"sources {before.proof_count} → {after.proof_count}")
    return f"{item.id}: {', '.join(parts)}" if parts else None


def _why_hidden(connection: Connection, passage: Passage) -> str:
    row = first_position(connection, passage.id)
    gone = sessions.hidden(connection, row) if row is not None else []
    return next((part.why for part in gone if part.first <= passage.position <= part.last), "")


def _delivered(item: Item) -> Delivered:
    place: dict[str, Any] = {"position": 0}
    if item.memory is not None:
        place = {"position": item.memory.position}
    elif item.passage is not None:
        passage = item.passage
        place = {"position": passage.position, "field": passage.field, "start": passage.start, "end": passage.end}
    elif item.state is not None:
        place = {"position": item.state.from_position}
    elif item.observation is not None:
        place = {"position": item.observation.position}
    signals = {name: round(value * confidence_rules.ONE) for name, value in item.signals.items()}
    signals |= {MATCH: round(item.match * confidence_rules.ONE)} if item.match else {}
    return Delivered(
        subject=item.id,
        score=round(item.score * confidence_rules.ONE),
        signals=signals,
        cut=item.cut,
        section=item.section,
        **place,
    )


def _entry(event: AnyEvent) -> answers.StateEntry | None:
    data = event.data
    if not isinstance(data, ProjectStateSet):
        return None
    return answers.StateEntry(
        category=data.category,
        name=data.name,
        value=data.value,
        source=data.source,
        actor=event.envelope.actor,
        recorded_at=event.envelope.recorded_at,
        from_position=event.position,
    )


def _memory_changed(before: Memory, after: Memory) -> str | None:
    parts = []
    if before.status != after.status:
        by = f" by {after.superseded_by}" if after.status == "superseded" and after.superseded_by else ""
        parts.append(f"{before.status} → {after.status}{by}")
    if before.content != after.content and after.content is not None:
        parts.append("says something else")
    if before.quarantined != after.quarantined:
        parts.append("quarantined" if after.quarantined else "released")
    if before.confidence != after.confidence:
        parts.append(f"confidence {before.confidence:g} → {after.confidence:g}")
    if (before.valid_from, before.valid_to) != (after.valid_from, after.valid_to) and before.status == after.status:
        parts.append(f"valid {after.valid_from} to {after.valid_to or 'further notice'}")
    return f"{before.id}: {', '.join(parts)}" if parts else None


def _partly_erased(connection: Connection, item: Item, seen: int) -> str | None:
    sql = "SELECT 1 FROM events WHERE stream = ? AND erased_by > ? LIMIT 1"
    gone = BLACK in (item.whole or "") and connection.execute(sql, (item.id, seen)).fetchone() is not None
    return f"{item.id}: partly erased" if gone else None


def _shortened(item: Item, chars: int) -> Item:
    return replace(item, content=shortened(item.content, chars)) if item.content is not None else item
