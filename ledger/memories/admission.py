"""The admission of a new memory: the statement of a caller, the rules that admit it, and the event that records it.

A user never has two memories with the same kind, normalised content, project and status. If the user's policy sets a budget, it
bounds the characters of the active memories of a group. As in rubino there are two groups: ``user`` for memories of the kind
user_profile, and ``memory`` for all other memories. Only active memories count, so superseding and retracting make room.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Literal

from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.command import Writer
from ledger.core.reads import read_event, read_stream
from ledger.core.work import Outcome, Work
from ledger.domain import confidence as confidence_rules
from ledger.domain import metadata as pairs_of
from ledger.domain.errors import RejectedError, SuspendedError
from ledger.domain.kinds import KINDS, SYNONYMS
from ledger.domain.policy import REVIEW
from ledger.domain.text import check_text, check_word, normalise, plural, tag_list, text_list
from ledger.domain.times import validity
from ledger.events import MemoryCaptured, MemoryRejected
from ledger.graph import policy as graph_rules
from ledger.log.events import NOTHING
from ledger.memories import admission_rules as admitting
from ledger.memories import rules as memory_rules
from ledger.memories import shown
from ledger.memories.answers import Memory
from ledger.memories.asked import RememberRequest, SupersedeRequest, referenced
from ledger.memories.sources import source_list, with_sources
from ledger.memories.state import CONTENT_BYTES, MemoryState, evolve, happened
from ledger.memories.turned_down import NO, is_by_person, is_yes
from projections.views import control, duplicates, memories

GROUPS = {"user": "user_chars", "memory": "memory_chars"}


def remember(writer: Writer, asker: Who, request: RememberRequest) -> Memory:
    """Record a memory without review: active, or with the status that the admission table has for another caller's channel."""
    return _record(writer, asker, "remember", request)


def propose(writer: Writer, asker: Who, request: RememberRequest) -> Memory:
    """Record a candidate. The candidate and its relations count only after ``promote``."""
    return _record(writer, asker, "propose", request)


def _record(writer: Writer, asker: Who, verb: Literal["remember", "propose"], request: RememberRequest) -> Memory:
    attempt = event_of(request, "active" if verb == "remember" else "candidate")
    if request.reference_count or request.last_referenced_at is not None:
        attempt = referenced(attempt, request)
    edges = graph_rules.edge_list(request.relations) if request.relations != () else ()

    def body(work: Work) -> str:
        work.project = work.project_named(request.project)
        work.session = work.session_named(request.session)
        draft = by_channel(work, in_time(work, attempt), verb)
        if (draft.last_referenced_at or "") > work.recorded_at:
            draft = replace(draft, last_referenced_at=work.recorded_at)
        if draft.sources:
            draft = with_sources(work, draft)
        id = add(work, draft)
        if edges:
            graph_rules.say(work, id, draft, edges)
        return id

    return with_kind(answered(writer.run(verb, asker, body, (attempt, request.project, request.session, edges))))


def event_of(request: RememberRequest | SupersedeRequest, status: str) -> MemoryCaptured:
    """Return the event of a request, with every argument checked.

    If a ``SupersedeRequest`` has no kind, entities or tags, these are empty, and the superseded memory's are taken later.
    """
    inherits = isinstance(request, SupersedeRequest)
    is_bounded = request.valid_from is not None or request.valid_to is not None
    start, end = validity(request.valid_from, request.valid_to) if is_bounded else (None, None)
    entities = () if inherits and request.entities is None else plural("entities", request.entities)
    tags = () if inherits and request.tags is None else plural("tags", request.tags)
    kind = request.kind or ""
    if not (inherits and request.kind is None):
        kind = check_word("a kind", kind, KINDS, SYNONYMS)
    sources, metadata, confidence = plural("sources", request.sources), request.metadata, request.confidence
    return MemoryCaptured(
        content=check_text("content", request.content, max_bytes=CONTENT_BYTES),
        kind=kind,
        status=status,
        confidence=confidence_rules.ONE
        if confidence == 1.0 and confidence is not True
        else confidence_rules.millionths("confidence", confidence),
        entities=text_list("entities", entities) if entities else (),
        tags=tag_list(tags) if tags else (),
        sources=source_list(sources) if sources else (),
        valid_from=start,
        valid_to=end,
        metadata=NOTHING if metadata is pairs_of.NO_PAIRS else pairs_of.event_form(pairs_of.checked(metadata)),
    )


def duplicate(work: Work, attempt: MemoryCaptured, status: str) -> MemoryState | None:
    """Return the oldest memory of a status that says the same as an attempt, in the project of the command."""
    return same(work, attempt.kind, work.project, attempt.content, status)


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
    rejected_memory = evolve(None, capture) if capture is not None else None
    return (_REASONS[status], rejected_memory) if rejected_memory is not None else None


def is_nobodys_no(work: Work, memory: MemoryState) -> bool:
    """Return True if a memory ended without a person's rejection, so that its text may be proposed again.

    Such an end is a rejection by a rule, an end that a model found in the user's words, or one that an agent recorded.
    """
    events = read_stream(work.connection(), memory.id, after=memory.row)
    last = next((event for event in reversed(list(events)) if isinstance(event.data, NO)), None)
    by_rule = last is not None and isinstance(last.data, MemoryRejected) and bool(last.data.rule)
    return by_rule or (last is not None and not is_by_person(last))


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

    ``frees`` is a memory that ends with the change, or whose wording changes: an active one makes room. ``pending`` holds the
    characters that the same append already adds to each group.
    """
    group = group_of(kind)
    limit = getattr(work.policy(), GROUPS[group])
    if not limit or content is None:
        return
    work.rows.flush()  # memories of earlier commands in the same batch count too
    frees = frees if frees is not None and frees.status == "active" and group_of(frees.kind) == group else None
    freed = len(frees.content or "") if frees is not None else 0
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


def answered(outcome: Outcome) -> Memory:
    if outcome.state is None:
        raise SuspendedError(
            f"the command was recorded at position {outcome.position}, but it suspended the projection 'memories', "
            "so the memory cannot be shown; maintenance.rebuild() makes the projection again",
        )
    state: MemoryState = outcome.state
    rule = outcome.policy.decay_of(state.kind) if outcome.policy is not None else None
    answer = shown.memory(state, outcome.names, decay_rule=rule, replayed=outcome.replayed, absorbed=outcome.absorbed)
    return replace(answer, warnings=outcome.warnings) if outcome.warnings else answer


def with_kind(answer: Memory) -> Memory:
    """Return the answer with a warning if its kind is none of the product's kinds, because it may be a typing error."""
    if answer.kind in KINDS:
        return answer
    unknown = f"the kind {answer.kind!r} is kept as a word of your own; known: {', '.join(KINDS)}"
    return replace(answer, warnings=(*answer.warnings, unknown))


def in_time(work: Work, attempt: MemoryCaptured) -> MemoryCaptured:
    """Return the attempt with ``valid_from`` set to the command's ``occurred_at``, unless the caller set ``valid_from``.

    Raises:
        RejectedError: The attempt's validity would end before it begins.
    """
    if attempt.valid_from is None and work.occurred_at is not None:
        attempt = replace(attempt, valid_from=happened_in(work))
    if attempt.valid_to is not None and attempt.valid_to <= (attempt.valid_from or work.recorded_at):
        raise RejectedError(
            f"the validity would begin now and end at {attempt.valid_to}: give valid_from, when it began"
        )
    return attempt


def happened_in(work: Work) -> str:
    """Return the time from which a statement holds: the command's ``occurred_at``, at the latest now."""
    return happened(work.occurred_at, work.recorded_at)
