"""The commands on memories: remember, propose, promote, reject, revise, supersede, take out of use and restore."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from msgspec.structs import replace

from ledger.core.pipeline import Writer
from ledger.core.who import Time, Who
from ledger.core.work import Outcome, Work
from ledger.domain import confidence as confidence_rules
from ledger.domain import metadata as pairs_of
from ledger.domain.errors import RejectedError, SuspendedError
from ledger.domain.text import TAGS, check_reason, check_text, check_word, plural, tag_list, text_list
from ledger.domain.times import validity
from ledger.events import MemoryCaptured
from ledger.graph import policy as graph_rules
from ledger.interactions import policy as reinforcement
from ledger.log.event_base import NOTHING
from ledger.memories import admission, answers
from ledger.memories import rules as memory_rules
from ledger.memories.asked import RememberRequest, SupersedeRequest, referenced
from ledger.memories.rules import CONTENT_BYTES, MemoryState
from ledger.memories.sources import session_of, source_list, with_sources
from ledger.observations import evidence
from ledger.types import Metadata

# --- new memories --------------------------------------------------------------------------------------------


def remember(writer: Writer, asker: Who, request: RememberRequest) -> answers.Memory:
    """Record a memory without review: active, or with the status that the admission table has for another caller's channel."""
    return _record(writer, asker, "remember", request)


def propose(writer: Writer, asker: Who, request: RememberRequest) -> answers.Memory:
    """Record a candidate. The candidate and its relations count only after ``promote``."""
    return _record(writer, asker, "propose", request)


def _record(
    writer: Writer, asker: Who, verb: Literal["remember", "propose"], request: RememberRequest
) -> answers.Memory:
    attempt = _stated(request, "active" if verb == "remember" else "candidate")
    if request.reference_count or request.last_referenced_at is not None:
        attempt = referenced(attempt, request)
    edges = graph_rules.edge_list(request.relations) if request.relations != () else ()

    def body(work: Work) -> str:
        work.project = work.project_named(request.project)
        work.session = work.session_named(request.session)
        draft = admission.by_channel(work, _in_time(work, attempt), verb)
        if (draft.last_referenced_at or "") > work.recorded_at:
            draft = replace(draft, last_referenced_at=work.recorded_at)
        if draft.sources:
            draft = with_sources(work, draft)
        id = admission.add(work, draft)
        if edges:
            graph_rules.say(work, id, draft, edges)
        return id

    return with_kind(answered(writer.run(verb, asker, body, (attempt, request.project, request.session, edges))))


def _stated(request: RememberRequest | SupersedeRequest, status: str) -> MemoryCaptured:
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
        kind = check_word("a kind", kind, memory_rules.KINDS, memory_rules.SYNONYMS)
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


# --- review --------------------------------------------------------------------------------------------------


def promote(writer: Writer, asker: Who, id: str, note: str = "", *, content: str | None = None) -> answers.Memory:
    """Make a candidate active; with ``content``, first give the candidate this wording in the same append.

    A memory that the candidate names in ``supersedes`` is superseded in the same append if that memory is still active. An active
    memory that a turn denies is confirmed: it gets one more reference, which adds nothing to its confidence.
    """
    note = check_reason("note", note)

    def body(work: Work, memory: MemoryState) -> None:
        replaced = _replaced(work, memory) if memory.status == "candidate" else None
        cleaned = None if content is None else work.cleaned(content)
        if cleaned is not None:
            _revise(work, memory, cleaned, note)
        if memory.status == "candidate":
            admission.admit(work, memory, "active", "promote", cleaned, frees=replaced)
        emit(work, memory, memory_rules.Promote(note))
        if memory.status == "active" and reinforcement.is_contradicted(work, memory):
            emit(work, memory, memory_rules.Reinforce(delta=0))
        if replaced is not None:
            project, work.project = work.project, replaced.project
            emit(work, replaced, memory_rules.Supersede(memory.id, memory.valid_from, note))
            work.project = project
        if memory.status == "candidate":
            besides = (replaced.row,) if replaced is not None else ()
            span = (memory.valid_from, memory.valid_to)
            graph_rules.retire_others(work, memory.id, memory.edges, *span, besides=besides)

    return change(writer, asker, "promote", id, body, (id, note, content))


def reject(
    writer: Writer,
    asker: Who,
    id: str,
    reason: str = "",
) -> answers.Memory:
    """Reject a candidate, so that extraction does not propose the same text again."""
    return _change_with_reason(writer, asker, "reject", id, memory_rules.RejectMemory, reason)


# --- changes -------------------------------------------------------------------------------------------------


def revise(
    writer: Writer,
    asker: Who,
    id: str,
    content: str,
    reason: str = "",
) -> answers.Memory:
    """Give a memory another wording; the memory keeps its id, status and confidence. A new fact needs ``supersede``.

    An agent may revise candidates and memories within its confidence; a page, a tool or a file only candidates.
    """
    reason = check_reason("reason", reason)

    def body(work: Work, memory: MemoryState) -> None:
        if content != memory.content:
            admission.refuse_revision(work, memory)
        _revise(work, memory, content, reason)

    return change(writer, asker, "revise", id, body, (id, content, reason))


def _revise(work: Work, memory: MemoryState, content: str, why: str) -> None:
    content = work.cleaned(check_text("content", content, max_bytes=CONTENT_BYTES))
    command = memory_rules.ReviseMemory(content, why)
    if content != memory.content and memory.status in ("candidate", "active"):
        admission.admit(work, memory, memory.status, "revise", content, frees=memory)
    emit(work, memory, command)


def retag(
    writer: Writer,
    asker: Who,
    id: str,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
) -> answers.Memory:
    """Add and remove tags; a memory has at most 10, in lower case."""
    request = memory_rules.Retag(tag_list(add), tag_list(remove))

    def body(work: Work, memory: MemoryState) -> None:
        command = memory_rules.Retag(work.cleaned(request.add), request.remove)
        if len(set(memory.tags) - set(command.remove) | set(command.add)) > TAGS:
            raise RejectedError(f"a memory has at most {TAGS} tags", rule="size", limit=TAGS)
        emit(work, memory, command)

    return change(writer, asker, "memories.tag", id, body, (id, request))


def set_metadata(writer: Writer, asker: Who, id: str, metadata: Metadata, unset: Iterable[str]) -> answers.Memory:
    """Set the values of some metadata keys and remove other keys; the rest stay."""
    request = memory_rules.DescribeMemory(pairs_of.checked(metadata), pairs_of.keys("unset", unset))

    def body(work: Work, memory: MemoryState) -> None:
        emit(work, memory, memory_rules.DescribeMemory(work.cleaned(request.metadata), request.unset))

    return change(writer, asker, "memories.set_metadata", id, body, (id, request))


def set_validity(
    writer: Writer,
    asker: Who,
    id: str,
    valid_from: Time | None = None,
    valid_to: Time | None = None,
    reason: str = "",
) -> answers.Memory:
    """Set the time in which a memory is true in the world.

    The beginning is inclusive, the end exclusive. ``valid_to=None`` leaves the end open. A date alone as the end includes that
    day.
    """
    start, end = validity(valid_from, valid_to)
    command = memory_rules.SetValidity(start, end, check_reason("reason", reason))
    return change(
        writer, asker, "memories.set_validity", id, lambda work, memory: emit(work, memory, command), (id, command)
    )


def adjust(writer: Writer, asker: Who, id: str, confidence: float, reason: str = "") -> answers.Memory:
    """Set the confidence by hand, with a reason."""
    command = memory_rules.Adjust(confidence_rules.millionths("confidence", confidence), check_reason("reason", reason))

    def body(work: Work, memory: MemoryState) -> None:
        admission.refuse_raise(work, memory, command.confidence)
        emit(work, memory, command)

    return change(writer, asker, "memories.set_confidence", id, body, (id, command))


def supersede(writer: Writer, asker: Who, id: str, request: SupersedeRequest) -> answers.Memory:
    """Replace a memory by a new fact in one append, and return the new memory (the successor).

    The admission table has the status and the greatest confidence of a successor that comes through another channel than a
    person's. The old memory of a successor that waits for review stays active until ``promote``.

    If the new text equals the old text, nothing is recorded. If another active memory already has the new text, that memory
    becomes the successor and no memory is created. The edges of the old memory end; ``relations`` become the successor's edges.
    """
    stated, reason = _stated(request, "active"), check_reason("reason", request.reason)
    entities = None if request.entities is None else stated.entities
    tags = None if request.tags is None else stated.tags
    edges = graph_rules.edge_list(request.relations)
    arguments = (id, stated, reason, edges, entities is None, tags is None)

    def body(work: Work) -> str:
        old: MemoryState = work.load(id, "m")
        work.project, work.session = old.project, session_of(work, old)
        attempt = replace(
            stated,
            kind=stated.kind or old.kind,
            entities=old.entities if entities is None else entities,
            tags=old.tags if tags is None else tags,
            valid_from=stated.valid_from or _happened(work),
            supersedes=old.id,
        )
        attempt = admission.by_channel(work, _in_time(work, attempt), "supersede")
        if attempt.sources:
            attempt = with_sources(work, attempt)
        if old.status != "active":
            raise memory_rules.refusal(memory_rules.Supersede(None, ""), old)
        return _succeed(work, old, attempt, reason, edges)

    return with_kind(answered(writer.run("supersede", asker, body, arguments)))


def end(writer: Writer, asker: Who, id: str, reason: str = "") -> answers.Memory:
    """Supersede a memory without a successor, from when it happened or now on."""
    reason = check_reason("reason", reason)

    def body(work: Work, memory: MemoryState) -> None:
        emit(work, memory, memory_rules.Supersede(None, _happened(work), reason))

    return change(writer, asker, "memories.end", id, body, (id, reason))


# --- edges ---------------------------------------------------------------------------------------------------


def relate(
    writer: Writer,
    asker: Who,
    memory_id: str,
    source: str,
    relation: str,
    target: str,
    *,
    valid_from: Time | None = None,
    valid_to: Time | None = None,
) -> answers.Memory:
    """Add an edge to a memory: ``relate(id, "Ana", "works_at", "Acme")``.

    The edge holds while the memory is active, and only from ``valid_from`` to ``valid_to`` where these are given. Edges of other
    active memories that join the same two names by another relation in the same time are retracted.
    """
    start, end = validity(valid_from, valid_to)
    command = replace(graph_rules.edge_list([(source, relation, target)])[0], valid_from=start, valid_to=end)

    def body(work: Work, memory: MemoryState) -> None:
        graph_rules.relate(work, memory, command)

    return change(writer, asker, "graph.relate", memory_id, body, (memory_id, command))


def unrelate(
    writer: Writer,
    asker: Who,
    memory_id: str,
    source: str,
    relation: str,
    target: str,
    reason: str = "",
) -> answers.Memory:
    """Remove an edge from a memory; without such an edge nothing is recorded."""
    edge = graph_rules.edge_list([(source, relation, target)])[0]
    command = memory_rules.Unrelate(edge.source, edge.relation, edge.target, check_reason("reason", reason))
    return change(
        writer,
        asker,
        "graph.unrelate",
        memory_id,
        lambda work, memory: emit(work, memory, command),
        (memory_id, command),
    )


# --- hiding and restoring ------------------------------------------------------------------------------------


def invalidate(
    writer: Writer,
    asker: Who,
    id: str,
    reason: str = "",
) -> answers.Memory:
    """Mark a memory as wrong."""
    return _change_with_reason(writer, asker, "invalidate", id, memory_rules.Invalidate, reason)


def retract(
    writer: Writer,
    asker: Who,
    id: str,
    reason: str = "",
) -> answers.Memory:
    """Take a memory out of use without saying that it is wrong; ``restore`` brings the memory back."""
    return _change_with_reason(writer, asker, "retract", id, memory_rules.Retract, reason)


def restore(
    writer: Writer,
    asker: Who,
    id: str,
    reason: str = "",
) -> answers.Memory:
    """Return a memory to the status it had before it was superseded, invalidated, rejected or retracted."""
    reason = check_reason("reason", reason)

    def body(work: Work, memory: MemoryState) -> None:
        if memory.status in memory_rules.HIDDEN:
            admission.admit(work, memory, memory.before or "active", "restore")
        emit(work, memory, memory_rules.RestoreMemory(reason))
        status = (memory.before or "active") if memory.status in memory_rules.HIDDEN else memory.status
        alive = [memory.id] if status == "active" and not memory.quarantined else []
        evidence.put_back(work, [memory.id], alive, reason)

    return change(writer, asker, "restore", id, body, (id, reason))


def quarantine(
    writer: Writer,
    asker: Who,
    id: str,
    reason: str = "",
) -> answers.Memory:
    """Keep a candidate or an active memory out of recall and reinforcement until ``release``."""
    return _change_with_reason(writer, asker, "guards.quarantine", id, memory_rules.QuarantineMemory, reason)


def release(
    writer: Writer,
    asker: Who,
    id: str,
    reason: str = "",
) -> answers.Memory:
    return _change_with_reason(writer, asker, "guards.release", id, memory_rules.Release, reason)


# --- shared steps --------------------------------------------------------------------------------------------


def _change_with_reason(
    writer: Writer,
    asker: Who,
    verb: str,
    id: str,
    command: Callable[[str], memory_rules.Command],
    why: str,
) -> answers.Memory:
    why = check_reason("reason", why)
    return change(writer, asker, verb, id, lambda work, memory: emit(work, memory, command(why)), (id, why))


def change(
    writer: Writer, asker: Who, verb: str, id: str, body: Callable[[Work, MemoryState], None], arguments: object
) -> answers.Memory:
    def on_memory(work: Work) -> str:
        memory: MemoryState = work.load(id, "m")
        work.project = memory.project
        body(work, memory)
        work.absorbed = not work.emitted
        return memory.id

    return answered(writer.run(verb, asker, on_memory, arguments))


def answered(outcome: Outcome) -> answers.Memory:
    if outcome.state is None:
        raise SuspendedError(
            f"the command was recorded at position {outcome.position}, but it suspended the projection 'memories', "
            "so the memory cannot be shown; maintenance.rebuild() makes the projection again",
        )
    state: MemoryState = outcome.state
    rule = outcome.policy.decay_of(state.kind) if outcome.policy is not None else None
    answer = answers.memory(state, outcome.names, decay_rule=rule, replayed=outcome.replayed, absorbed=outcome.absorbed)
    return replace(answer, warnings=outcome.warnings) if outcome.warnings else answer


def with_kind(answer: answers.Memory) -> answers.Memory:
    """Return the answer with a warning if its kind is none of the product's kinds, because it may be a typing error."""
    if answer.kind in memory_rules.KINDS:
        return answer
    unknown = f"the kind {answer.kind!r} is kept as a word of your own; known: {', '.join(memory_rules.KINDS)}"
    return replace(answer, warnings=(*answer.warnings, unknown))


def emit(work: Work, memory: MemoryState, command: memory_rules.Command) -> None:
    for event in memory_rules.decide(command, memory):
        work.emit(memory.id, event, first=memory.row)


def _replaced(work: Work, candidate: MemoryState) -> MemoryState | None:
    """Return the active memory that a candidate would replace, if any."""
    subject = work.find(candidate.supersedes, "m") if candidate.supersedes is not None else None
    state: MemoryState | None = work.at_row(subject.row, "m") if subject is not None else None
    return state if state is not None and state.status == "active" else None


def _succeed(
    work: Work, old: MemoryState, attempt: MemoryCaptured, why: str, edges: tuple[memory_rules.Relate, ...]
) -> str:
    attempt = work.cleaned(attempt)
    # The old memory is compared first: after an undo another, older memory may have the same text.
    if admission.is_stated_by(old, attempt):
        work.absorbed = True
        return old.id
    admission.refuse_threat(work, attempt.content or "", "supersede by")
    successor = admission.add(work, attempt, replaces=old)
    if attempt.status == "active":
        emit(work, old, memory_rules.Supersede(successor, attempt.valid_from or work.recorded_at, why))
    if edges:
        graph_rules.say(work, successor, attempt, edges, besides=old.row)
    return successor


def _happened(work: Work) -> str:
    """Return the time from which a statement holds: the command's ``occurred_at``, at the latest now."""
    return memory_rules.happened(work.occurred_at, work.recorded_at)


def _in_time(work: Work, attempt: MemoryCaptured) -> MemoryCaptured:
    """Return the attempt with ``valid_from`` set to the command's ``occurred_at``, unless the caller set ``valid_from``.

    Raises:
        RejectedError: The attempt's validity would end before it begins.
    """
    if attempt.valid_from is None and work.occurred_at is not None:
        attempt = replace(attempt, valid_from=_happened(work))
    if attempt.valid_to is not None and attempt.valid_to <= (attempt.valid_from or work.recorded_at):
        raise RejectedError(
            f"the validity would begin now and end at {attempt.valid_to}: give valid_from, when it began"
        )
    return attempt
