"""The rule by which a person's rejection of a text outlives the memory with that text, until a person revokes the rejection."""

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
from ledger.memories.rules import MemoryState, evolve

EXTRACTING = ("extract", "session.extract")  # in these commands a model, and no person, ends a memory
NO = (MemoryRejected, MemoryRetracted, MemoryInvalidated)
BEGINNINGS = (MemoryCaptured, DuplicateAbsorbed)


def is_by_person(event: AnyEvent) -> bool:
    envelope = event.envelope
    asks = envelope.command not in EXTRACTING
    return asks and envelope.channel == "user" and not (envelope.actor or "").startswith("policy:")


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
    """Return a memory that is gone, and the position of the person's rejection that outlives it; None without one.

    A rejection is revoked if an act made it void that made no beginning of its memory void, or if its author is distrusted.
    If the rejection only became void together with its memory, it still holds. ``acts`` returns the acts that keep an event void.
    """
    events = list(stream)
    with_memory = {act for event in events if isinstance(event.data, BEGINNINGS) for act in acts(event)}
    memory, at = None, 0
    for event in events:
        judges = isinstance(event.data, (*NO, MemoryRestored))
        if not with_memory.issuperset(acts(event)) or (judges and is_distrusted(event)):
            continue
        memory = evolve(memory, event)
        if judges:
            at = event.position if isinstance(event.data, NO) and is_by_person(event) else 0
    return (memory, at) if memory is not None and at and memory.status in ("invalid", "retracted") else None
