"""A person's no: what holds of a text though the memory that said it is gone, until a person takes it back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ledger.domain.events import (
    AnyEvent,
    DuplicateAbsorbed,
    MemoryCaptured,
    MemoryInvalidated,
    MemoryPromoted,
    MemoryRejected,
    MemoryRestored,
    MemoryRetracted,
)
from ledger.domain.memory import Memory, evolve

EXTRACTING = ("extract", "session.extract")  # commands that end a memory by what the user said, which a model found
NO = (MemoryRejected, MemoryRetracted, MemoryInvalidated)
BEGINNINGS = (MemoryCaptured, DuplicateAbsorbed)


def is_by_person(event: AnyEvent) -> bool:
    envelope = event.envelope
    asks = envelope.command not in EXTRACTING
    return asks and envelope.channel == "user" and not (envelope.actor or "").startswith("policy:")


def is_yes(event: AnyEvent) -> bool:
    """Whether a person said the text of a memory, or promoted it."""
    data = event.data
    stated = isinstance(data, BEGINNINGS) and data.status == "active" and data.origin is None
    return (stated or isinstance(data, MemoryPromoted)) and is_by_person(event)


def turned_down(
    stream: Iterable[AnyEvent],
    acts: Callable[[AnyEvent], Collection[str]],
    is_distrusted: Callable[[AnyEvent], bool],
) -> tuple[Memory, int] | None:
    """Of a memory that is gone: what it was, and the position of the person's no that outlives it.

    A no falls by itself where an act took it that took no beginning of its memory with it, and with who said it. Otherwise it
    only fell with its memory, and holds. ``acts`` are those that keep an event void.
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
