"""The step that appends: what a command said becomes events, each in its envelope, at the end of the log."""

from __future__ import annotations

import time

import msgspec

from ledger.domain import ids
from ledger.domain.events import LEDGER_STREAM, AnyEvent, Envelope, Event, Recorded
from ledger.engine.keys import Key
from ledger.engine.work import Random, Work
from ledger.store import mapper


def append(work: Work, random: Random, key: Key | None, bearer: str) -> list[AnyEvent]:
    """Writes it all and gives the events; the last one on the stream ``bearer`` carries the key."""
    transaction = work.transaction
    versions: dict[str, int] = {}
    begun = {LEDGER_STREAM: 1}  # stream -> the position of its first event
    events: list[AnyEvent] = []
    stored, keys, position, command_id = [], [], transaction.position, ""
    arguments, last = (key.arguments, _last_on(bearer, work)) if key is not None else (None, -1)
    for at, (stream, first, data, project, occurred_at) in enumerate(work.emitted):
        position += 1
        new = not first and stream != LEDGER_STREAM
        version = versions.get(stream) or (1 if new else transaction.version(stream) + 1)
        versions[stream] = version + 1
        bound = key.key if key is not None and at == last else None  # the answer is the state after this event
        place = (project, occurred_at)
        envelope = _envelope(work, data, random(16), arguments, bound, place, command_id)
        if at in work.redactions:
            envelope = msgspec.structs.replace(envelope, redactions=work.redactions[at])
        command_id = envelope.command_id
        stored.append(mapper.to_stored(stream, version, envelope))
        keys.append(bound)
        begins = begun.setdefault(stream, first or position)
        events.append(Recorded(position, begins, stream, version, type(data).__name__, envelope, bound))
    for blob_id, content in work.blobs:
        transaction.put_blob(blob_id, content)
    transaction.append(stored, keys)
    return events


def _envelope(
    work: Work,
    data: Event,
    random: bytes,
    arguments: str | None,
    key: bytes | None,
    place: tuple[str | None, str | None],
    command_id: str,
) -> Envelope[object]:
    """``place`` is the project, and the time in the world."""
    who = work.who
    event_id = ids.uuid7(time.time_ns(), random[:8])
    return Envelope(
        event_id=event_id,
        schema=data.schema,
        recorded_at=work.recorded_at,
        occurred_at=place[1],
        begun=command_id or None,
        command=work.command,
        arguments=arguments,
        key=key.hex() if key is not None else None,
        causation_id=who.causation_id,
        correlation_id=who.correlation_id,
        actor=who.actor,
        client=who.client,
        channel=who.channel,
        user=work.user,
        agent=who.agent,
        project=place[0],
        session=work.session,
        salt=random[8:].hex(),
        data=data,
    )


def _last_on(stream: str, work: Work) -> int:
    """Where the last event of a stream is among those emitted; -1 where it has none."""
    return max((at for at, (each, *_) in enumerate(work.emitted) if each == stream), default=-1)
