"""The commands on memories that exist: promote, reject, revise, correct, supersede, take out of use and restore."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from ledger.core.call import Time, Who
from ledger.core.command import Writer
from ledger.core.reads import read_stream
from ledger.core.work import Work
from ledger.domain import confidence as confidence_rules
from ledger.domain import metadata as pairs_of
from ledger.domain.errors import RejectedError
from ledger.domain.kinds import KINDS, SYNONYMS
from ledger.domain.text import TAGS, check_reason, check_text, check_word, plural, tag_list, text_list
from ledger.domain.times import validity
from ledger.events import MemoryCaptured
from ledger.graph import policy as graph_rules
from ledger.interactions import policy as reinforcement
from ledger.memories import admission, admission_rules, answers
from ledger.memories import rules as memory_rules
from ledger.memories.admission import answered, event_of, happened_in, in_time, with_kind
from ledger.memories.asked import SupersedeRequest
from ledger.memories.changes import admit, is_stated_by, most_by, refuse_raise, refuse_revision, refuse_threat
from ledger.memories.sources import own, session_of, source_list, with_sources
from ledger.memories.state import CONTENT_BYTES, HIDDEN, MemoryState
from ledger.observations.policy import put_back
from ledger.types import Metadata
from projections.views import confidence as timeline
from projections.views import memories

# --- review --------------------------------------------------------------------------------------------------


def promote(writer: Writer, asker: Who, id: str, note: str = "", *, content: str | None = None) -> answers.Memory:
    """Make a candidate active; with ``content``, first give the candidate this wording in the same append.

    The memory that the candidate names in ``supersedes`` is superseded in the same append: up to then if it is active, and
    without having held if it is a candidate, whose own predecessor then is superseded too. An active memory that a turn denies
    is confirmed: it gets one more reference, which adds nothing to its confidence.

    Raises:
        RejectedError: Another memory took the place of the one that the candidate names.
    """
    note = check_reason("note", note)

    def body(work: Work, memory: MemoryState) -> None:
        replaced = _replaced(work, memory, "promote") if memory.status == "candidate" else []
        cleaned = None if content is None else work.cleaned(content)
        if cleaned is not None:
            _revise(work, memory, cleaned, note)
        if memory.status == "candidate":
            admit(work, memory, "active", "promote", cleaned, frees=replaced[-1] if replaced else None)
        emit(work, memory, memory_rules.Promote(note))
        if memory.status == "active" and reinforcement.is_contradicted(work, memory):
            emit(work, memory, memory_rules.Reinforce(delta=0))
        _give_way(work, replaced, memory, note)
        if memory.status == "candidate":
            besides = tuple(old.row for old in replaced)
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
            refuse_revision(work, memory)
        _revise(work, memory, content, reason)

    return change(writer, asker, "revise", id, body, (id, content, reason))


def _revise(work: Work, memory: MemoryState, content: str, why: str) -> None:
    content = work.cleaned(check_text("content", content, max_bytes=CONTENT_BYTES))
    command = memory_rules.ReviseMemory(content, why)
    if content != memory.content and memory.status in ("candidate", "active"):
        admit(work, memory, memory.status, "revise", content, frees=memory)
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


def correct(
    writer: Writer,
    asker: Who,
    id: str,
    *,
    kind: str | None = None,
    project: str | None = None,
    entities: Iterable[str] | None = None,
    reason: str = "",
) -> answers.Memory:
    """Correct the kind, the project or the entities of a memory; None keeps the present value."""
    if kind is not None:
        kind = check_word("a kind", kind, KINDS, SYNONYMS)
    names = None if entities is None else text_list("entities", plural("entities", entities))
    request = memory_rules.Correct(kind, entities=names, reason=check_reason("reason", reason))

    def body(work: Work, memory: MemoryState) -> None:
        command = replace(request, entities=work.cleaned(request.entities))
        if project is not None:
            work.project = None  # the event that adds a new project belongs to no project
            project_id = work.project_named(project)
            moved = project_id not in work.together(memory.project)
            work.project = project_id if moved else memory.project
            command = replace(command, moved=moved)
        if memory.status in ("candidate", "active"):
            corrected = replace(memory, kind=kind or memory.kind, project=work.project)
            admit(work, corrected, memory.status, "correct", frees=memory)
        emit(work, memory, command)

    return with_kind(change(writer, asker, "memories.correct", id, body, (id, request, project)))


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
        refuse_raise(work, memory, command.confidence)
        emit(work, memory, command)

    return change(writer, asker, "memories.set_confidence", id, body, (id, command))


def reinforce(
    writer: Writer,
    asker: Who,
    id: str,
    amount: float | None = None,
    *,
    source: str | None = None,
) -> answers.Memory:
    delta = None if amount is None else confidence_rules.millionths("amount", amount)

    def body(work: Work, memory: MemoryState) -> None:
        interaction = work.load(own(work, source_list(source)[0]), "i") if source is not None else None
        if interaction is not None and timeline.counted(work.rows, memory.row, interaction.id):
            return
        policy = work.policy()
        echo = interaction is not None and memory.id in interaction.memories_used
        by_policy = confidence_rules.millionths("gain", policy.echo_gain if echo else policy.gain)
        name = interaction.id if interaction is not None else None
        gain = delta if delta is not None else by_policy
        if (most := most_by(work, memory)) is not None:
            gain = min(gain, most - memory.confidence)
        emit(work, memory, memory_rules.Reinforce(delta=gain, interaction=name, echo=echo))

    return change(writer, asker, "reinforce", id, body, (id, delta, source))


def supersede(writer: Writer, asker: Who, id: str, request: SupersedeRequest) -> answers.Memory:
    """Replace a memory by a new fact in one append, and return the new memory (the successor).

    The admission table has the status and the greatest confidence of a successor that comes through another channel than a
    person's. The old memory of a successor that waits for review stays active until ``promote``.

    If the new text equals the old text, nothing is recorded. If another active memory already has the new text, that memory
    becomes the successor and no memory is created. The edges of the old memory end; ``relations`` become the successor's edges.
    """
    verb, status = ("propose", "candidate") if request.propose else ("supersede", "active")
    stated, reason = event_of(request, status), check_reason("reason", request.reason)
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
            valid_from=stated.valid_from or happened_in(work),
            supersedes=old.id,
        )
        attempt = admission.by_channel(work, in_time(work, attempt), verb)
        if attempt.sources:
            attempt = with_sources(work, attempt)
        _check_may_be_over(work, old)
        at_once = attempt.status == "active" or (request.propose and old.status == "candidate")
        return _succeed(work, old, attempt, reason, edges, at_once=at_once)

    return with_kind(answered(writer.run("supersede", asker, body, arguments)))


def end(writer: Writer, asker: Who, id: str, reason: str = "") -> answers.Memory:
    """Supersede a memory without a successor, from when it happened or now on."""
    reason = check_reason("reason", reason)

    def body(work: Work, memory: MemoryState) -> None:
        _check_may_be_over(work, memory)
        _end(work, memory, None, happened_in(work), reason)

    return change(writer, asker, "memories.end", id, body, (id, reason))


def _check_may_be_over(work: Work, memory: MemoryState) -> None:
    """Raise ``RejectedError`` unless a caller may say that a memory is true no longer.

    Who says so of a candidate says that it was true until then, so nobody says so who could not state it without a review.
    """
    may_state = work.who.channel == "user" or admission_rules.of_channel(work.who.channel).status == "active"
    if memory.status not in ("candidate", "active") or (memory.status == "candidate" and not may_state):
        raise memory_rules.refusal(memory_rules.Supersede(None, ""), memory)


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
        if memory.status in HIDDEN:
            admit(work, memory, memory.before or "active", "restore")
        emit(work, memory, memory_rules.RestoreMemory(reason))
        status = (memory.before or "active") if memory.status in HIDDEN else memory.status
        alive = [memory.id] if status == "active" and not memory.quarantined else []
        put_back(work, [memory.id], alive, reason)

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


def emit(work: Work, memory: MemoryState, command: memory_rules.Command) -> None:
    for event in memory_rules.decide(command, memory):
        work.emit(memory.id, event, first=memory.row)


def _replaced(work: Work, successor: MemoryState, verb: str) -> list[MemoryState]:
    """Return what a candidate would replace: the candidates that it and they name, and last the active memory behind them.

    Memories that are over, or gone by an undo, are passed over.

    Raises:
        RejectedError: None of them is active, and another memory took their place.
    """
    found, above, named = list[MemoryState](), [successor.id], successor.supersedes
    while named is not None and named not in above:
        old: MemoryState | None = work.find(named, "m")
        if old is not None and old.status in ("candidate", "active"):
            found.append(old)
            if old.status == "active":
                return found
        above.append(named)
        if old is None:
            named = next((event.data.supersedes for event in read_stream(work.connection(), named, limit=1)), None)
        else:
            named = old.supersedes if old.superseded_by in (None, *above) else None
    work.rows.flush()
    if holders := memories.active_below(work.connection(), above[1:]):
        raise RejectedError(
            f"cannot {verb} {successor.id}: {holders[0]} holds in the place of {successor.supersedes}, which it would replace;"
            f" supersede or retract {holders[0]}, or reject {successor.id}",
            rule="superseded",
            subject=holders[0],
        )
    return found


def _give_way(work: Work, replaced: Sequence[MemoryState], successor: MemoryState, why: str) -> None:
    """Supersede what a memory replaces; a candidate held at no time, because nobody says that it was true."""
    project = work.project
    for old in replaced:
        work.project = old.project
        emit(
            work,
            old,
            memory_rules.Supersede(successor.id, successor.valid_from if old.status == "active" else None, why),
        )
    work.project = project


def _end(
    work: Work, memory: MemoryState, by: str | None, valid_to: str | None, why: str, *, proposed: bool = False
) -> None:
    """Supersede a memory; a candidate was true until then, so what it would replace gives way to it.

    For a successor that is only ``proposed``, nothing that is active gives way, and the candidate held at no time then.
    """
    verb = "end" if by is None else "supersede"
    replaced = _replaced(work, memory, verb) if memory.status == "candidate" else []
    if proposed and replaced:
        replaced, valid_to = [], None
    _give_way(work, replaced, memory, why)
    emit(work, memory, memory_rules.Supersede(by, valid_to, why))


def _succeed(
    work: Work,
    old: MemoryState,
    attempt: MemoryCaptured,
    why: str,
    edges: tuple[memory_rules.Relate, ...],
    *,
    at_once: bool,
) -> str:
    attempt = work.cleaned(attempt)
    # The old memory is compared first: after an undo another, older memory may have the same text.
    if is_stated_by(old, attempt):
        work.absorbed = True
        return old.id
    refuse_threat(work, attempt.content or "", "supersede by")
    successor = admission.add(work, attempt, replaces=old)
    if at_once:
        proposed = attempt.status == "candidate"
        _end(work, old, successor, attempt.valid_from or work.recorded_at, why, proposed=proposed)
    if edges:
        graph_rules.say(work, successor, attempt, edges, besides=old.row)
    return successor
