"""The rule that a person's rejection of a text holds even after the memory with the text is gone, until it is revoked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ledger.events import (
    AnyEvent,
    DuplicateAbsorbed,
    MemoryCaptured,
    MemoryInvalidated,
    MemoryPromoted,
    MemoryRejected,
    MemoryRestored,
    MemoryRetracted,
)
from ledger.memories.state import MemoryState, evolve

EXTRACTING = (
    "extract",
    "session.extract",
    "learning.learn",
)  # if one of these commands ends a memory, a model decided and not a person
NO = (MemoryRejected, MemoryRetracted, MemoryInvalidated)  # the events by which a text is turned down
BEGINNINGS = (MemoryCaptured, DuplicateAbsorbed)


def is_by_person(event: AnyEvent) -> bool:
    """Return True if a person recorded an event: through the channel "user", and neither a policy nor an extraction."""
    envelope = event.envelope
    if envelope.command in EXTRACTING or (envelope.actor or "").startswith("policy:"):
        return False
    return envelope.channel == "user"


def is_yes(event: AnyEvent) -> bool:
    """Return True if a person stated the text of a memory, or promoted the memory."""
    data = event.data
    stated = isinstance(data, BEGINNINGS) and data.status == "active" and data.origin is None
    return (stated or isinstance(data, MemoryPromoted)) and is_by_person(event)


def turned_down(
    stream: Iterable[AnyEvent],
    acts: Callable[[AnyEvent], Collection[str]],
    is_distrusted: Callable[[AnyEvent], bool],
) -> tuple[MemoryState, int] | None:
    """Return a memory that may be gone and the position of the person's rejection that still holds; None without a rejection.

    A rejection that became void together with the captures of its memory still holds. It is revoked if an act made the rejection
    void and no capture of the memory, or if the author of the rejection is distrusted. ``acts`` returns the undos and distrusts
    that keep an event void.
    """
    events = list(stream)
    with_memory = {act for event in events if isinstance(event.data, BEGINNINGS) for act in acts(event)}
    memory, at = None, 0
    for event in events:
        is_judgement = isinstance(event.data, (*NO, MemoryRestored))
        if not with_memory.issuperset(acts(event)) or (is_judgement and is_distrusted(event)):
            continue
        memory = evolve(memory, event)
        if is_judgement:
            at = event.position if isinstance(event.data, NO) and is_by_person(event) else 0
    return (memory, at) if memory is not None and at and memory.status in ("invalid", "retracted") else None
