"""The events of an interaction: a prompt, its response, and what was made of them."""

from __future__ import annotations

from msgspec import Struct

from ledger.domain.events.base import NOTHING, Body, Code, Dropped, Event, Id, Json


class InteractionCaptured(Event, frozen=True):
    """One prompt and, where there was one already, its response. ``memories_used`` and ``chunks_used`` are what the model had
    been shown, ``context`` all that it was given; ``reinforce`` is false where the response is no evidence."""

    prompt: Body | None
    response: Body | None = ""
    summary: Body | None = ""
    memories_used: tuple[Id, ...] = ()
    chunks_used: tuple[Id, ...] = ()
    context: Json = NOTHING
    reinforce: bool = True


class ResponseAttached(Event, frozen=True):
    """The response of a turn that was captured without one."""

    response: Body | None = ""
    summary: Body | None = ""
    memories_used: tuple[Id, ...] = ()
    chunks_used: tuple[Id, ...] = ()


class Matched(Struct, frozen=True, omit_defaults=True):
    """One memory that the response restates: stems in common, stems in all, their share in millionths."""

    memory: Id
    overlap: int
    total: int
    fraction: int
    echo: bool = False


class ReinforcementEvaluated(Event, frozen=True):
    """Which memories a response restates, by a ``matcher``, among ``pool_size`` active ones; ``left_over`` counts
    the matches beyond those that a policy allows."""

    matcher: Code
    pool_size: int
    matches: tuple[Matched, ...] = ()
    left_over: int = 0


class ReinforcementFailed(Event, frozen=True):
    """The kind of failure; how many there were one after the other is folded."""

    error: Code


class CandidatesExtracted(Event, frozen=True):
    """What an extractor found in a turn: the memories it ``kept``, and what was ``dropped`` and why."""

    extractor: Code
    kept: tuple[Id, ...] = ()
    dropped: tuple[Dropped, ...] = ()


class ExtractionFailed(Event, frozen=True):
    """An extraction that failed; ``error`` is the kind of failure, and how many there were one after the other is counted."""

    extractor: Code
    error: Code
