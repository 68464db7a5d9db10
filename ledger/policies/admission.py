"""What a memory must pass to be one more of its status: no other says the same, and an active one fits the user's budget.

The same user, kind, normalised content and project within one status is one memory. A budget is how many characters the active
memories of a group may take, where the policy of a user bounds them. Two groups, as rubino has them (SEEDS 2b): ``user`` are
memories of the kind user_profile, ``memory`` all others. What is not active takes nothing, so that superseding and retracting
make room.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from msgspec.structs import replace

from ledger.domain import admitting
from ledger.domain import memory as memory_domain
from ledger.domain.errors import RejectedError
from ledger.domain.events import MemoryCaptured, MemoryRejected
from ledger.domain.memory import Memory
from ledger.domain.policy import REVIEW
from ledger.domain.text import normalise
from ledger.domain.turned_down import EXTRACTING, NO, is_yes
from ledger.engine.log_reading import read_event, read_stream
from ledger.engine.work import Work
from projections.views import control, duplicates, memories

GROUPS = {"user": "user_chars", "memory": "memory_chars"}


def duplicate(work: Work, attempt: MemoryCaptured, status: str) -> Memory | None:
    """The oldest memory in a status that says what this attempt says, in the project the command is about."""
    return same(work, attempt.kind, work.project, attempt.content, status)


def is_stated_by(memory: Memory, attempt: MemoryCaptured) -> bool:
    """Whether a memory says what an attempt in its own project says."""
    if memory.content is None or attempt.content is None:
        return False
    return memory.kind == attempt.kind and normalise(memory.content) == normalise(attempt.content)


def same(
    work: Work, kind: str, project: str | None, content: str | None, status: str, *, besides: Collection[int] = ()
) -> Memory | None:
    """The oldest memory in a status and project that says this; those in some rows do not count."""
    return next(_all_same(work, kind, project, content, status, besides), None)


def _all_same(
    work: Work, kind: str, project: str | None, content: str | None, status: str, besides: Collection[int] = ()
) -> Iterator[Memory]:
    if content is None:
        return
    rows = [duplicates.same(work.rows, number, status) for number in _numbers(work, kind, project, content)]
    for row in sorted(chain(*rows)):
        memory: Memory | None = work.at_row(row, "m") if row not in besides else None
        if memory is not None and normalise(memory.content or "") == normalise(content):
            yield memory


def _numbers(work: Work, kind: str, project: str | None, content: str | None) -> list[int]:
    """The fingerprints of a statement in a project and in those that are joined to it."""
    secret, user = work.secret, work.who.user
    numbers = [duplicates.content_fingerprint(secret, user, kind, place, content) for place in work.together(project)]
    return [each for each in numbers if each is not None]


def turned_down(work: Work, attempt: MemoryCaptured) -> tuple[str, Memory] | None:
    """The reason by which what this attempt says was turned down, and the memory that said it: one that is there, or one that
    went when a person had said no to it, unless a person said it since."""
    for reason, status in _TURNED_DOWN.items():
        stating = _all_same(work, attempt.kind, work.project, attempt.content, status)
        if (known := next((each for each in stating if not is_nobodys_no(work, each)), None)) is not None:
            return reason, known
    numbers = _numbers(work, attempt.kind, work.project, attempt.content)
    noes = [found for number in numbers if (found := duplicates.no_to(work.rows, number)) is not None]
    if not noes:
        return None
    row, position, status = max(noes, key=lambda each: each[1])
    connection = work.connection()
    for each in (row for number in numbers for row in duplicates.stating(work.rows, number)):
        memory: Memory | None = work.at_row(each, "m")
        later = read_stream(connection, memory.id, after=position) if memory is not None else ()
        if any(is_yes(event) and not control.acts(connection, event.position) for event in later):
            return None
    begun = read_event(connection, row)
    gone = memory_domain.evolve(None, begun) if begun is not None else None
    return (_REASONS[status], gone) if gone is not None else None


def is_nobodys_no(work: Work, memory: Memory) -> bool:
    """Whether a candidate was let go by rule, or a memory ended by what a model found in the user's words: he may say it anew."""
    ended = read_stream(work.connection(), memory.id, after=memory.row)
    last = next((event for event in reversed(list(ended)) if isinstance(event.data, NO)), None)
    by_rule = last is not None and isinstance(last.data, MemoryRejected) and bool(last.data.rule)
    return by_rule or (last is not None and last.envelope.command in EXTRACTING)


_TURNED_DOWN = {"rejected": "invalid", "retracted": "retracted"}
_REASONS = {status: reason for reason, status in _TURNED_DOWN.items()}


def capture(work: Work, attempt: MemoryCaptured, *, replaces: Memory | None = None) -> str:
    """Emits a new memory, or absorbs the attempt into the one that is there; its id either way.

    ``replaces`` is an active memory that ends in the same append, and so makes room for this one.
    """
    attempt = work.cleaned(attempt)
    known = duplicate(work, attempt, attempt.status)
    if known is not None:
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
    """What is to be remembered, of the status and confidence that the table of admission has for the channel of the command."""
    if verb == "propose" or work.who.channel == "user" or work.policy().admit == REVIEW:
        return attempt
    row = admitting.of_channel(work.who.channel)
    confidence = attempt.confidence if row.most is None else min(attempt.confidence, row.most)
    return replace(attempt, status=row.status, confidence=confidence, admission=row.recorded)


def _refuse_turned_down(work: Work, attempt: MemoryCaptured) -> None:
    """What a person turned down comes back by a person."""
    if (found := turned_down(work, attempt)) is not None:
        reason, memory = found
        raise RejectedError(
            f"cannot propose this: it was {reason} as {memory.id}; a person's remember, the restore of that memory, or the undo "
            "of what turned it down brings it back",
            rule="turned_down",
            subject=memory.id,
        )


def absorb(work: Work, known: Memory, attempt: MemoryCaptured) -> None:
    """Records the full attempt on the memory, once an hour per actor, session and sources: it is said again."""
    who = work.who
    number = duplicates.attempt_digest(work.secret, who.actor, work.session, work.recorded_at, attempt.sources)
    if not duplicates.attempted(work.rows, known.row, number):
        work.emit(known.id, memory_domain.absorbed(attempt), first=known.row)


def refuse_threat(work: Work, content: str, verb: str) -> None:
    """What is kept in quarantine would take the place of what is not: nobody would recall either."""
    if (found := work.threat(content)) is not None:
        raise RejectedError(
            f"cannot {verb} this wording: it looks like a threat ({found.label}, by {found.scanner}): it would be quarantined, "
            "and what it replaces taken out of use; give it other words",
            rule="threat",
            finding=found.label,
            scanner=found.scanner,
        )


def admit(
    work: Work, memory: Memory, status: str, verb: str, content: str | None = None, *, frees: Memory | None = None
) -> None:
    """``RejectedError`` when a change of its status or content would make a second memory of one status say the same, or take the
    active ones beyond the budget; ``frees`` is an active one that ends with it, or that it is another wording of."""
    text = memory.content if content is None else content
    other = same(work, memory.kind, memory.project, text, status, besides=(memory.row,))
    if other is not None:
        raise RejectedError(
            f"cannot {verb} {memory.id}: {other.id} is {status} and says the same; keep one of them",
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
    frees: Memory | None = None,
    pending: Mapping[str, int] | None = None,
) -> None:
    """``RejectedError`` (rule "budget:user" or "budget:memory") when one more active memory would not fit; ``frees`` is an active
    one that ends with it, or that it is another wording of, ``pending`` what the same append adds to each group besides."""
    group = group_of(kind)
    limit = getattr(work.policy(), GROUPS[group])
    if not limit or content is None:
        return
    work.rows.flush()  # what the commands before this one in a batch have kept counts too
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
