"""The rules on a change of a memory: who may make it, how far it may go, and if another memory then says the same."""

from __future__ import annotations

from ledger.core.reads import read_stream
from ledger.core.work import Work
from ledger.domain.confidence import shown
from ledger.domain.errors import RejectedError
from ledger.domain.policy import REVIEW
from ledger.domain.text import normalise
from ledger.events import MemoryCaptured, MemoryPromoted, MemoryRestored, MemoryRevised
from ledger.memories import admission_rules as admitting
from ledger.memories.admission import check_budget, same
from ledger.memories.state import MemoryState
from ledger.memories.turned_down import BEGINNINGS, is_by_person
from projections.views import control

_OWN_WORDS = admitting.OWN_WORDS.recorded


def admit(
    work: Work,
    memory: MemoryState,
    status: str,
    verb: str,
    content: str | None = None,
    *,
    frees: MemoryState | None = None,
) -> None:
    """Raise ``RejectedError`` if a change of status or content breaks the rules of duplicates or of the budget.

    ``frees`` is an active memory that ends with the change, or whose wording changes.
    """
    text = memory.content if content is None else content
    duplicate_memory = same(work, memory.kind, memory.project, text, status, besides=(memory.row,))
    if duplicate_memory is not None:
        raise RejectedError(
            f"cannot {verb} {memory.id}: {duplicate_memory.id} is {status} and says the same; keep one of them",
            rule="duplicate",
            subject=memory.id,
        )
    if status == "active":
        check_budget(work, memory.kind, text, frees=frees)


def refuse_revision(work: Work, memory: MemoryState) -> None:
    """Raise ``RejectedError`` if the caller could not have remembered a text with the status and confidence of this memory.

    A revision keeps both, so another caller's words would count as much as those of the person who stated the memory.
    """
    if memory.status != "active" or work.who.channel == "user" or work.policy().admit == REVIEW:
        return
    row = admitting.of_channel(work.who.channel)
    if row.status == "active" and (row.most is None or memory.confidence <= row.most):
        return
    bound = (
        f"a text that comes through the channel {work.who.channel!r} waits for review"
        if row.status != "active" or row.most is None
        else f"a text of an agent has a confidence of at most {shown(row.most):g}"
    )
    raise RejectedError(
        f"cannot revise {memory.id}, which is active with a confidence of {shown(memory.confidence):g}: {bound}; "
        "supersede it, or let a person revise it",
        rule="admission",
        subject=memory.id,
    )


def most_by(work: Work, memory: MemoryState) -> int | None:
    """Return the greatest confidence to which a command may raise a memory, in millionths; None for no bound.

    Only a person raises it above the confidence that the admission table leaves to an agent.
    """
    if work.who.channel == "user":
        return None
    return max(memory.confidence, admitting.AGENT_CONFIDENCE)


def refuse_raise(work: Work, memory: MemoryState, confidence: int) -> None:
    """Raise ``RejectedError`` if only a person may set a memory's confidence so high."""
    if (most := most_by(work, memory)) is not None and confidence > most:
        raise RejectedError(
            f"cannot set the confidence of {memory.id} to {shown(confidence):g} through the channel {work.who.channel!r}, which"
            f" may set at most {shown(most):g}; a person may set it higher",
            rule="admission",
            subject=memory.id,
        )


def refuse_threat(work: Work, content: str, verb: str) -> None:
    """Raise ``RejectedError`` if the new text of a memory looks like a threat.

    The new text would be quarantined while the old memory ends, and recall would return neither.
    """
    if (finding := work.threat(content)) is not None:
        raise RejectedError(
            f"cannot {verb} this wording: it looks like a threat ({finding.label}, by {finding.scanner}), so it would be "
            "quarantined while the memory that it replaces is taken out of use; give other words",
            rule="threat",
            finding=finding.label,
            scanner=finding.scanner,
        )


def is_stated_by(memory: MemoryState, attempt: MemoryCaptured) -> bool:
    """Return True if a memory has the same kind and text as an attempt; the project is not compared."""
    if memory.content is None or attempt.content is None:
        return False
    return memory.kind == attempt.kind and normalise(memory.content) == normalise(attempt.content)


def is_decided(work: Work, memory: MemoryState) -> bool:
    """Return True if a person wrote, promoted, revised or restored a memory."""
    connection = work.connection()
    for event in read_stream(connection, memory.id):
        written = isinstance(event.data, BEGINNINGS) and event.data.origin is None
        decided = isinstance(event.data, MemoryPromoted | MemoryRevised | MemoryRestored)
        if (written or decided) and is_by_person(event) and not control.acts(connection, event.position):
            return True
    return False


def is_of_rules(work: Work, memory: MemoryState) -> bool:
    """Return True if a memory comes from the rules' reading of the user's own turns alone, and no person acted on the memory."""
    for event in read_stream(work.connection(), memory.id):
        if control.acts(work.connection(), event.position):
            continue
        if isinstance(event.data, BEGINNINGS):
            origin = event.data.origin
            if origin is None or not origin.extractor.startswith("rules/") or event.data.admission != _OWN_WORDS:
                return False
        elif is_by_person(event):
            return False
    return True
