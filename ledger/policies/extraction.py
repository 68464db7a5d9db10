"""What is asked of everything that is extracted: whether it is new, and fit to become a memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger.domain.events import MemoryCaptured
from ledger.domain.extraction import Dropped as Passed
from ledger.domain.extraction import Extracted
from ledger.domain.ids import LENGTH
from ledger.domain.matching import DEFAULT_MATCHER, Response, match
from ledger.domain.memory import Memory
from ledger.domain.text import normalise
from ledger.engine.work import Work
from ledger.guards import claims
from ledger.policies.admission import duplicate, turned_down

ACTOR = "policy:extraction"


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


def unfit(work: Work, attempt: MemoryCaptured) -> str | None:
    """Why what was extracted becomes no memory: it claims that a tool cannot do something, or a scanner found a threat."""
    if claims.is_tool_limitation(attempt.content or ""):
        return "tool_limitation"
    texts = (attempt.content, *(attempt.entities or ()), *(attempt.tags or ()))
    threat = work.threat(*texts)
    return "threat" if threat is not None and work.policy().threats == "refuse" else None


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
