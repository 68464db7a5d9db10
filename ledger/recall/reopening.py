"""Receipts of recalls: what was given is recorded when asked for, and comes back identical however the ledger went on."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ledger import answers
from ledger.domain import confidence as rules
from ledger.domain.erasure import BLACK
from ledger.domain.errors import RejectedError
from ledger.domain.events import (
    LEDGER_STREAM,
    AnyEvent,
    ChunkAdded,
    Delivered,
    InteractionCaptured,
    MessageAppended,
    ProjectStateSet,
    RecallDelivered,
    ResponseAttached,
)
from ledger.domain.ids import KINDS
from ledger.domain.message import part_texts
from ledger.domain.question import folded
from ledger.domain.times import moment
from ledger.engine.engine import Engine
from ledger.engine.log_reading import first_position, read_event
from ledger.engine.past import at
from ledger.engine.snapshot import text_of
from ledger.engine.who import Who
from ledger.engine.work import Work
from ledger.memories.queries import memories_shown
from ledger.recall import fitting
from ledger.recall.asked import Asked
from ledger.recall.observing import current, observed
from ledger.recall.packing import finished, of_state
from ledger.recall.packs import Item, Pack, Passage, spoken_by
from projections.core.rows import Connection
from projections.search import passages
from projections.views import audit, conflicts, memories, projects, sessions

MATCH = "match"  # lies with the signals of a receipt
SOURCES = {"m": "memory", "i": "turn", "s": "message", "c": "chunk", "p": "state"}


def recorded(
    engine: Engine, asked: Asked, project: str | None, pack: Pack, who: Who, session: str | None = None
) -> str:
    """Appends what was given, to a ``session`` where it was asked for one, and returns the id of that event."""
    if engine.is_past:
        raise RejectedError(
            "a receipt is written, and this is a moment of the past: recall of the ledger itself", rule="readonly"
        )
    settings: dict[str, int | str | tuple[str, ...] | None] = {
        "limit": asked.k,
        "budget": asked.budget,
        "unit": asked.unit,
        "packing": asked.packing,
        "ranking": asked.ranking,
        "project": project,
        "kinds": asked.kinds,
        "among": asked.among,
        "statuses": asked.statuses,
        "observations": asked.observations,
    }
    observations = [item for item in (*pack.observations, *pack.cut) if item.observation is not None]
    if observations:
        settings["as_of"] = asked.now  # which their trends are of
    if asked.metadata:
        settings["metadata"] = len(asked.metadata)  # how many keys; what they are is anybody's words
    if asked.min_match is not None:
        settings["min_match"] = round(asked.min_match * rules.ONE)
    if asked.packing == "shares":
        settings["entry_chars"] = fitting.ENTRY_CHARS
    ranked = [item for item in (*pack.items, *pack.cut) if item.observation is None]
    order = (*sorted(ranked, key=lambda item: item.rank), *sorted(observations, key=lambda item: item.rank))
    items = tuple(map(_delivered, order))

    def body(work: Work) -> str:
        work.project, work.session = project, session
        query = work.body(asked.query)
        numbers = {"searched": pack.searched, "used": pack.used, "warnings": pack.warnings}
        work.emit(LEDGER_STREAM, RecallDelivered(query, pack.seen or 0, settings, items, **numbers))  # type: ignore[arg-type]
        return LEDGER_STREAM

    outcome = engine.writer.run("recall", replace(who, user=asked.user, key=None), body)
    return str(outcome.events[-1].envelope.event_id)


def reopen(engine: Engine, user: str, receipt: str) -> Pack | None:
    """The pack that a ``recall(…, receipt=True)`` gave, as it was given, with ``changed``: what of it is otherwise now.

    ``receipt`` is ``pack.receipt``. What was erased since has no text. None where this user has no such receipt.
    """
    with engine.reading() as connection:
        entry = audit.by_event(connection, receipt) if isinstance(receipt, str) else None
        event = read_event(connection, entry.position) if entry is not None else None
        if event is None or not isinstance(event.data, RecallDelivered) or event.envelope.user != user:
            return None
        data = event.data
        chars = data.settings.get("entry_chars")
        given = [each for each in data.items if each.subject[:1] != "o"]
        items = [_given(connection, each, rank, data.seen) for rank, each in enumerate(given, 1)]
        if isinstance(chars, int):
            items = [_shortened(item, chars) for item in items]
        items = _disputed_then(engine, items, data.seen)
        observations = _observations_given(engine, data)
        changes = [_changed(connection, item, data.seen) for item in items]
        changes += [_observation_changed(connection, item) for item in observations]
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
        changed=tuple(each for each in changes if each is not None),
        observations=tuple(item for item in observations if not item.cut),
        cut=(*pack.cut, *(item for item in observations if item.cut)),
    )


def _observations_given(engine: Engine, data: RecallDelivered) -> list[Item]:
    """The observations of a receipt as they stood."""
    given = [each for each in data.items if each.subject[:1] == "o"]
    as_of = data.settings.get("as_of")
    if not given or not isinstance(as_of, str):
        return []
    with _then(engine, data.seen).reading() as connection:
        found = current(connection, [each.subject for each in given], as_of)
    return [
        _as_given(each, observed(observation, rank) if (observation := found.get(each.subject)) else None, rank)
        for rank, each in enumerate(given, 1)
    ]


def _then(engine: Engine, seen: int) -> Engine:
    """The ledger as it stood at a position; as it is, inside the batch that has not been committed."""
    try:
        return at(engine, seen)
    except RejectedError:
        return engine


def _disputed_then(engine: Engine, items: list[Item], seen: int) -> list[Item]:
    """With the conflicts that stood open when the pack was given."""
    with _then(engine, seen).reading() as past:
        disputed = conflicts.open_among(past, (item.id for item in items if item.memory is not None))
    return [replace(item, conflicts=disputed[item.id]) if item.id in disputed else item for item in items]


def _given(connection: Connection, each: Delivered, rank: int, seen: int) -> Item:
    memory, passage, text, entry = None, None, None, None
    kind = each.subject[:1]
    first = first_position(connection, each.subject)
    if kind == "m" and first is not None:
        state = memories.get_at(connection, first, seen)
        memory = memories_shown(connection, [state])[0] if state is not None else None
        text = memory.content if memory is not None else None
    elif kind in "ics":
        passage = _passage_then(connection, each)
        text = passage.content
    elif kind == "p" and (event := read_event(connection, each.position)) is not None:
        entry = _entry(event)
        text = of_state(each.subject, entry).content if entry is not None else None
    return Item(
        rank=rank,
        score=rules.shown(each.score),
        match=rules.shown(each.signals.get(MATCH, 0)),
        source=SOURCES.get(kind, KINDS.get(kind, kind)),
        id=each.subject,
        content=text,
        signals=_signals(each),
        cut=each.cut,
        section=each.section,
        memory=memory,
        passage=passage,
        state=entry,
    )


def _passage_then(connection: Connection, each: Delivered) -> Passage:
    event = read_event(connection, each.position)
    data = event.data if event is not None else None
    whole: str | None = None
    heading: tuple[str, ...] = ()
    document = None
    begun, role, name = event, "", ""
    if event is not None and isinstance(data, ChunkAdded):
        whole, heading, document = data.content, data.heading_path or (), event.stream
    elif event is not None and isinstance(data, InteractionCaptured | ResponseAttached):
        whole = text_of(connection, getattr(data, each.field, None))
        begun = read_event(connection, event.first)
    elif isinstance(data, MessageAppended):
        whole = part_texts(data.parts) if each.field == "parts" else text_of(connection, data.content)
        role, name = data.role, folded(data.speaker or "")
    envelope = begun.envelope if begun is not None else None
    names = projects.names(connection, {envelope.project, envelope.session} if envelope is not None else set())
    text = whole[each.start : each.end] if whole is not None else None
    return Passage(
        id=each.subject,
        field=each.field,
        start=each.start,
        end=each.end,
        content=text,
        user=envelope.user if envelope is not None else None,
        project=names.get(envelope.project, envelope.project) if envelope and envelope.project else None,
        session=names.get(envelope.session, envelope.session) if envelope and envelope.session else None,
        occurred_at=moment("occurred_at", envelope.occurred_at or envelope.recorded_at) if envelope else "",
        position=each.position,
        document=document,
        heading_path=heading,
        speaker=spoken_by("chunk" if document else "", each.field, role, name, text or ""),
    )


def _changed(connection: Connection, item: Item, seen: int) -> str | None:
    """What became of an item since, in a few words."""
    if item.content is None:
        return f"{item.id}: erased"
    if item.memory is not None:
        row = first_position(connection, item.id)
        now = memories.get(connection, row) if row is not None else None
        if now is None:
            return f"{item.id}: gone, what made it was undone"
        after = memories_shown(connection, [now])[0]
        return _turn(item.memory, after) or _partly_erased(connection, item, seen)
    if item.passage is not None and not passages.stands(connection, item.passage.position, item.passage.field):
        return f"{item.id}: void, or removed"
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


def _as_given(each: Delivered, item: Item | None, rank: int) -> Item:
    """An observation with the score that it had; None for one that cannot be read any more."""
    known = (
        item if item is not None else Item(rank=rank, score=0.0, source="observation", id=each.subject, content=None)
    )
    score, match = rules.shown(each.score), rules.shown(each.signals.get(MATCH, 0))
    return replace(known, score=score, match=match, signals=_signals(each), cut=each.cut)


def _signals(each: Delivered) -> dict[str, float]:
    return {name: rules.shown(value) for name, value in each.signals.items() if name != MATCH}


def _observation_changed(connection: Connection, item: Item) -> str | None:
    """What became of an observation since."""
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
    return next((each.why for each in gone if each.first <= passage.position <= each.last), "")


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
    signals = {name: round(value * rules.ONE) for name, value in item.signals.items()}
    signals |= {MATCH: round(item.match * rules.ONE)} if item.match else {}
    return Delivered(
        subject=item.id,
        score=round(item.score * rules.ONE),
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


def _turn(before: answers.Memory, after: answers.Memory) -> str | None:
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
    return replace(item, content=fitting.shortened(item.content, chars)) if item.content is not None else item
