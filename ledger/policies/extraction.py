"""Whenever an interaction has a response, the values that the rules find in it become candidates for review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ledger.domain import interaction as interactions_domain
from ledger.domain.events import CandidatesExtracted, Dropped, MemoryCaptured, Origin
from ledger.domain.extraction import EXTRACTOR, Extracted, Extraction, extract_all
from ledger.domain.extraction import Dropped as Passed
from ledger.domain.ids import LENGTH
from ledger.domain.interaction import Interaction
from ledger.domain.matching import DEFAULT_MATCHER, Response, match
from ledger.domain.memory import Memory
from ledger.domain.text import normalise
from ledger.engine.work import Work
from ledger.guards import claims
from ledger.policies.admission import absorb, duplicate, turned_down

ACTOR = "policy:extraction"


def search(fields: Mapping[str, str | None]) -> Extraction:
    """What the rules find in the texts of an interaction; reads nothing else."""
    return extract_all({name: text for name, text in fields.items() if text})


def finding(each: Extracted | Passed) -> dict[str, Any]:
    """What a rule found, as a dry run shows it."""
    return {
        "kind": each.kind,
        "content": each.content,
        "rule": each.rule,
        "field": each.field,
        "start": each.start,
        "end": each.end,
        "reason": getattr(each, "reason", ""),
    }


def record(
    work: Work, subject: Interaction, found: Extraction, *, quarantined: bool = False
) -> tuple[list[str], list[Dropped]]:
    """Under the lock: what is new becomes a candidate, and everything else is listed with its reason.

    Of a turn in quarantine nothing is kept.
    """
    kept: list[str] = []
    dropped = [Dropped(each.rule, each.field, each.start, each.end, each.reason) for each in found.dropped]
    echoes = [memory for each in subject.memories_used if (memory := injected(work, each)) is not None]
    earlier: set[tuple[str, str]] = set()
    for each in found.kept:
        attempt = work.cleaned(_attempt(each, subject))
        reason, has_it = judged(work, attempt, earlier, echoes)
        reason = "quarantined" if quarantined else reason or unfit(work, attempt)
        if reason is None:
            kept.append(work.new_id("m"))
            work.emit(kept[-1], attempt)
        else:
            if reason == "duplicate" and has_it is not None:
                absorb(work, has_it, attempt)
            dropped.append(
                Dropped(each.rule, each.field, each.start, each.end, reason, has_it.id if has_it is not None else None)
            )
    data = CandidatesExtracted(EXTRACTOR, tuple(kept), tuple(dropped))
    for event in interactions_domain.decide(interactions_domain.RecordExtraction(data), subject):
        work.emit(subject.id, event, first=subject.row)
    return kept, dropped


def unfit(work: Work, attempt: MemoryCaptured) -> str | None:
    """Why what was extracted becomes no memory: it claims that a tool cannot do something, or a scanner found a threat."""
    if claims.is_tool_limitation(attempt.content or ""):
        return "tool_limitation"
    texts = (attempt.content, *(attempt.entities or ()), *(attempt.tags or ()))
    threat = work.threat(*texts)
    return "threat" if threat is not None and work.policy().threats == "refuse" else None


def _attempt(found: Extracted, subject: Interaction) -> MemoryCaptured:
    origin = Origin(found.rule, EXTRACTOR, found.field, found.start, found.end)
    return MemoryCaptured(
        content=found.content,
        kind=found.kind,
        status="candidate",
        confidence=found.confidence,
        sources=(subject.id,),
        origin=origin,
    )


def judged(
    work: Work, attempt: MemoryCaptured, earlier: set[tuple[str, str]], echoes: Sequence[Memory]
) -> tuple[str | None, Memory | None]:
    """The same as ``known``, within one pass: ``earlier`` is what it came upon so far."""
    value = (attempt.kind, normalise(attempt.content or ""))
    if value in earlier:
        return "repeated", None
    earlier.add(value)
    return known(work, attempt, echoes)


def known(work: Work, attempt: MemoryCaptured, echoes: Sequence[Memory]) -> tuple[str | None, Memory | None]:
    """Why a value is nothing new, and the memory that has it: an echo is no evidence, a rejected one stays rejected."""
    content = attempt.content or ""
    for memory in echoes:
        if memory.content and match(DEFAULT_MATCHER, Response(content), memory.content) is not None:
            return "echo", memory
    if (believed := duplicate(work, attempt, "active")) is not None:
        return "known", believed
    if (refused := turned_down(work, attempt)) is not None:
        return refused
    waiting = duplicate(work, attempt, "candidate")
    return ("duplicate" if waiting is not None else None), waiting


def injected(work: Work, given: str) -> Memory | None:
    """The memory of a whole id: a shorter one in ``memories_used`` is none of this user's."""
    state: Memory | None = work.find(given, "m") if len(given) == LENGTH else None
    return state
