"""The admission of a memory to a status: no other memory may say the same, and an active memory must fit the user's budget.

A user never has two memories with the same kind, normalised content, project and status. If the user's policy sets a budget, it
bounds the characters of the active memories of a group. As in rubino there are two groups: ``user`` for memories of the kind
user_profile, and ``memory`` for all other memories. Only active memories count, so superseding and retracting make room.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from msgspec.structs import replace

from ledger.core.log_reading import read_event, read_stream
from ledger.core.work import Work
from ledger.domain.confidence import shown
from ledger.domain.errors import RejectedError
from ledger.domain.text import normalise
from ledger.events import MemoryCaptured, MemoryPromoted, MemoryRejected, MemoryRestored, MemoryRevised
from ledger.memories import admission_rules as admitting
from ledger.memories import rules as memory_rules
from ledger.memories.rules import MemoryState
from ledger.memories.turned_down import BEGINNINGS, NO, is_by_person, is_yes
from ledger.policy.rules import REVIEW
from projections.views import control, duplicates, memories

GROUPS = {"user": "user_chars", "memory": "memory_chars"}


def duplicate(work: Work, attempt: MemoryCaptured, status: str) -> MemoryState | None:
    """Return the oldest memory of a status that says the same as an attempt, in the project of the command."""
    return same(work, attempt.kind, work.project, attempt.content, status)


def is_stated_by(memory: MemoryState, attempt: MemoryCaptured) -> bool:
    """Return True if a memory has the same kind and text as an attempt; the project is not compared."""
    if memory.content is None or attempt.content is None:
        return False
    return memory.kind == attempt.kind and normalise(memory.content) == normalise(attempt.content)


def same(
    work: Work, kind: str, project: str | None, content: str | None, status: str, *, besides: Collection[int] = ()
) -> MemoryState | None:
    """Return the oldest memory of a kind, status and project with this text, without the memories in the rows ``besides``."""
    return next(_all_same(work, kind, project, content, status, besides), None)


def _all_same(
    work: Work, kind: str, project: str | None, content: str | None, status: str, besides: Collection[int] = ()
) -> Iterator[MemoryState]:
    if content is None:
        return
    rows = [duplicates.same(work.rows, number, status) for number in _numbers(work, kind, project, content)]
    for row in sorted(chain(*rows)):
        memory: MemoryState | None = work.at_row(row, "m") if row not in besides else None
        if memory is not None and normalise(memory.content or "") == normalise(content):
            yield memory


def _numbers(work: Work, kind: str, project: str | None, content: str | None) -> list[int]:
    """Return the fingerprints of a text in a project and in the projects joined to it."""
    secret, user = work.secret, work.who.user
    numbers = [duplicates.content_fingerprint(secret, user, kind, place, content) for place in work.together(project)]
    return [number for number in numbers if number is not None]


def turned_down(work: Work, attempt: MemoryCaptured) -> tuple[str, MemoryState] | None:
    """Return ("rejected" or "retracted", the memory) if a person turned the text of an attempt down; else None.

    Either a memory with the text still has this status, or a person rejected such a memory before it was undone, and no person
    has stated the text since.
    """
    for reason, status in _TURNED_DOWN.items():
        stating = _all_same(work, attempt.kind, work.project, attempt.content, status)
        if (known := next((memory for memory in stating if not is_nobodys_no(work, memory)), None)) is not None:
            return reason, known
    numbers = _numbers(work, attempt.kind, work.project, attempt.content)
    rejections = [no for number in numbers if (no := duplicates.no_to(work.rows, number)) is not None]
    if not rejections:
        return None
    row, position, status = max(rejections, key=lambda rejection: rejection[1])
    connection = work.connection()
    for stating_row in (row for number in numbers for row in duplicates.stating(work.rows, number)):
        memory: MemoryState | None = work.at_row(stating_row, "m")
        later = read_stream(connection, memory.id, after=position) if memory is not None else ()
        if any(is_yes(event) and not control.acts(connection, event.position) for event in later):
            return None
    capture = read_event(connection, row)
    rejected_memory = memory_rules.evolve(None, capture) if capture is not None else None
    return (_REASONS[status], rejected_memory) if rejected_memory is not None else None


def is_nobodys_no(work: Work, memory: MemoryState) -> bool:
    """Return True if a memory ended without a person's rejection, so that its text may be proposed again.

    Such an end is a rejection by a rule, an end that a model found in the user's words, or one that an agent recorded.
    """
    events = read_stream(work.connection(), memory.id, after=memory.row)
    last = next((event for event in reversed(list(events)) if isinstance(event.data, NO)), None)
    by_rule = last is not None and isinstance(last.data, MemoryRejected) and bool(last.data.rule)
    return by_rule or (last is not None and not is_by_person(last))


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


_OWN_WORDS = admitting.OWN_WORDS.recorded
_TURNED_DOWN = {"rejected": "invalid", "retracted": "retracted"}
_REASONS = {status: reason for reason, status in _TURNED_DOWN.items()}


def add(work: Work, attempt: MemoryCaptured, *, replaces: MemoryState | None = None) -> str:
    """Record a new memory, or absorb the attempt into the memory that says the same; return the memory's id.

    ``replaces`` is an active memory that ends in the same append, and so makes room in the budget. A candidate that names a
    memory to replace is never absorbed into a candidate that does not, because only the former's promotion ends that memory.
    """
    attempt = work.cleaned(attempt)
    known = duplicate(work, attempt, attempt.status)
    waits_to_replace = attempt.status == "candidate" and attempt.supersedes is not None
    if known is not None and not (waits_to_replace and known.supersedes != attempt.supersedes):
        absorb(work, known, attempt)
        work.absorbed = True
        return known.id
    if work.who.channel != "user" and (attempt.status == "candidate" or attempt.admission):
        _refuse_turned_down(work, attempt)
    if attempt.status == "active":
        check_budget(work, attempt.kind, attempt.content, frees=replaces)
    stream = work.new_id("m")
    work.emit(stream, attempt)
    return stream


def by_channel(work: Work, attempt: MemoryCaptured, verb: str) -> MemoryCaptured:
    """Return the attempt with the status and confidence that the admission table has for the channel of the command.

    Proposals, a person's statements, and statements under a policy that asks for review stay unchanged.
    """
    if verb == "propose" or work.who.channel == "user" or work.policy().admit == REVIEW:
        return attempt
    row = admitting.of_channel(work.who.channel)
    confidence = attempt.confidence if row.most is None else min(attempt.confidence, row.most)
    return replace(attempt, status=row.status, confidence=confidence, admission=row.recorded)


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


def _refuse_turned_down(work: Work, attempt: MemoryCaptured) -> None:
    """Raise ``RejectedError`` if a person turned the text down, because only a person can bring such a text back."""
    if (refusal := turned_down(work, attempt)) is not None:
        reason, memory = refusal
        raise RejectedError(
            f"cannot propose this text: it was {reason} as {memory.id}; a person's remember, the restore of that memory, or "
            "the undo of the command that turned it down brings it back",
            rule="turned_down",
            subject=memory.id,
        )


def absorb(work: Work, known: MemoryState, attempt: MemoryCaptured) -> None:
    """Record the full attempt on the memory that says the same, once an hour for each actor, session and list of sources."""
    number = duplicates.attempt_digest(work.secret, work.who.actor, work.session, work.recorded_at, attempt.sources)
    if not duplicates.attempted(work.rows, known.row, number):
        work.emit(known.id, memory_rules.absorbed(attempt), first=known.row)


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


def group_of(kind: str) -> str:
    return "user" if kind == "user_profile" else "memory"


def check_budget(
    work: Work,
    kind: str,
    content: str | None,
    *,
    frees: MemoryState | None = None,
    pending: Mapping[str, int] | None = None,
) -> None:
    """Raise ``RejectedError`` (rule "budget:user" or "budget:memory") if an active memory with this content would not fit.

    ``frees`` is an active memory that ends with the change, or whose wording changes. ``pending`` holds the characters that the
    same append already adds to each group.
    """
    group = group_of(kind)
    limit = getattr(work.policy(), GROUPS[group])
    if not limit or content is None:
        return
    work.rows.flush()  # memories of earlier commands in the same batch count too
    freed = len(frees.content or "") if frees is not None and group_of(frees.kind) == group else 0
    current = memories.active_chars(work.connection(), work.who.user, user_profile=group == "user")
    current += (pending or {}).get(group, 0)
    requested = len(content) - freed
    if requested > 0 and current + requested > limit:
        raise RejectedError(
            f"the budget of the group {group!r} is {limit:,} characters; its active memories take {current:,}, and this"
            f" would add {requested:,}: retract or supersede some, or policy.set({GROUPS[group]}=…)",
            rule=f"budget:{group}",
            limit=limit,
            current=current,
            requested=requested,
        )
