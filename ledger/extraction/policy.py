"""The rules for every text that is extracted: the text must be new, and fit to become a memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger.core.work import Work
from ledger.domain.ids import LENGTH
from ledger.domain.scan.patterns import is_tool_limitation
from ledger.domain.text import normalise
from ledger.english.extractor import DroppedFinding as Passed
from ledger.english.extractor import Extracted
from ledger.english.matching import DEFAULT_MATCHER, Response, match
from ledger.events import MemoryCaptured
from ledger.memories.admission import duplicate, turned_down
from ledger.memories.state import MemoryState

ACTOR = "policy:extraction"


def finding(extracted: Extracted | Passed) -> dict[str, Any]:
    """Return the finding of a rule, as a dry run shows it."""
    return {
        "kind": extracted.kind,
        "content": extracted.content,
        "rule": extracted.rule,
        "field": extracted.field,
        "start": extracted.start,
        "end": extracted.end,
        "reason": getattr(extracted, "reason", ""),
    }


def unfit(work: Work, attempt: MemoryCaptured) -> str | None:
    """Return the reason why an attempt is not accepted; None if it is.

    An attempt is refused if it claims that a tool cannot do something, or if a scanner found a threat.
    """
    if is_tool_limitation(attempt.content or ""):
        return "tool_limitation"
    texts = (attempt.content, *(attempt.entities or ()), *(attempt.tags or ()))
    threat = work.threat(*texts)
    return "threat" if threat is not None and work.policy().threats == "refuse" else None


def judged(
    work: Work, attempt: MemoryCaptured, earlier: set[tuple[str, str]], echoes: Sequence[MemoryState]
) -> tuple[str | None, MemoryState | None]:
    """Return the answer of ``known``, or "repeated" if the same pass has found the text before; ``earlier`` holds its texts."""
    value = (attempt.kind, normalise(attempt.content or ""))
    if value in earlier:
        return "repeated", None
    earlier.add(value)
    return known(work, attempt, echoes)


def known(work: Work, attempt: MemoryCaptured, echoes: Sequence[MemoryState]) -> tuple[str | None, MemoryState | None]:
    """Return the reason why a text is not new, and the memory that has the text; (None, None) for a new text.

    A text that only restates one of the ``echoes``, memories that the model had just been shown, is no evidence. A text
    that a person rejected stays rejected.
    """
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


def injected(work: Work, id: str) -> MemoryState | None:
    """Return the memory with a full id from ``memories_used``, or None; a shorter text names no memory."""
    state: MemoryState | None = work.find(id, "m") if len(id) == LENGTH else None
    return state
