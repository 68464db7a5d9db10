"""The rule of relations: two names stand in one relation at a time, and the newest active memory decides which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ledger.core.work import Work
from ledger.domain.errors import RejectedError
from ledger.domain.text import check_text
from ledger.events import MemoryCaptured, RelationRemoved
from ledger.memories import rules as memory_rules
from ledger.memories.rules import Relate
from ledger.memories.state import Edge, MemoryState
from ledger.types import Triple
from projections.views import graph

RETIRED = 1_000  # edges that one command may retract, for it holds the writer's lock meanwhile


def edge_list(relations: Iterable[Triple]) -> tuple[memory_rules.Relate, ...]:
    """Return each (source, relation, target) as a command, after a check of its texts."""
    if isinstance(relations, str) or not isinstance(relations, Iterable):
        raise RejectedError(
            f"relations must be a list of (subject, relation, object), and this is of type {type(relations).__name__}"
        )
    commands = []
    for triple in relations:
        if isinstance(triple, str) or not isinstance(triple, Sequence) or len(triple) != 3:
            raise RejectedError(f"each relation must be three texts: (subject, relation, object), not {triple!r:.60}")
        parts = [
            check_text(f"the {part_name} of an edge", part, max_bytes=4 * memory_rules.NAME_CHARS)
            for part_name, part in zip(("source", "relation", "target"), triple, strict=True)
        ]
        commands.append(memory_rules.Relate(*parts))
        if len(commands) > memory_rules.EDGES:
            raise RejectedError(
                f"a memory has at most {memory_rules.EDGES} relations",
                rule="size",
                limit=memory_rules.EDGES,
                requested=len(commands),
            )
    return tuple(commands)


def relate(work: Work, memory: MemoryState, command: Relate) -> None:
    """Add an edge to a memory, and retract the edges of other memories that it contradicts."""
    events = memory_rules.decide(command, memory)
    if events and memory.status == "active":
        asserted = memory_rules.checked(command)
        retire_others(work, memory.id, [asserted], memory.valid_from, memory.valid_to, besides=(memory.row,))
    for event in events:
        work.emit(memory.id, event, first=memory.row)


def say(work: Work, id: str, attempt: MemoryCaptured, edges: Sequence[Relate], *, besides: int = 0) -> None:
    """Record the edges of an attempt on the memory that it began in this append, or on the memory that absorbed it.

    ``besides`` is the row of a memory that ends in the same append; its edges stay, in case the memory is restored.
    """
    known = None if any(id == stream and first == 0 for stream, first, *_ in work.emitted) else work.load(id, "m")
    row, stated = (0, ()) if known is None else (known.row, known.edges)
    start, end = (attempt.valid_from, attempt.valid_to) if known is None else (known.valid_from, known.valid_to)
    for command in edges:
        events = memory_rules.relation_stated(command, stated)
        asserted = memory_rules.checked(command)
        if events and attempt.status == "active":
            retire_others(work, id, [asserted], start or work.recorded_at, end, besides=(row, besides))
        for event in events:
            work.emit(id, event, first=row)
        stated = (*(edge for edge in stated if edge.form != asserted.form), asserted)


def retire_others(
    work: Work, by: str, edges: Sequence[Edge], start: str, end: str | None, *, besides: Sequence[int] = ()
) -> None:
    """Retract the edges of this user's other active memories that join the same two names by another relation in the same time.

    ``start`` and ``end`` bound the time in which the memory ``by`` holds.

    Raises:
        RejectedError: More than a thousand edges would be retracted.
    """
    if not edges:
        return
    work.rows.flush()
    for edge in edges:
        since, until = _during(edge.valid_from, edge.valid_to, start, end)
        source, relation, target = edge.form
        pair = graph.Pair(work.who.user, source, target, relation)
        matches = graph.other_relations(work.connection(), pair, since, until, limit=RETIRED + 1)
        if len(matches) > RETIRED:
            raise RejectedError(
                f"more than {RETIRED:,} edges of other memories contradict this relation of the two names; supersede or "
                "retract those memories first",
                rule="size",
                limit=RETIRED,
            )
        for row, (source, relation, target) in matches:
            contradicting: MemoryState | None = work.at_row(row, "m") if row not in besides else None
            if contradicting is not None and contradicting.id != by:
                words = (source, relation, target)
                asserted = (
                    known_edge.position
                    for known_edge in contradicting.edges
                    if (known_edge.source, known_edge.relation, known_edge.target) == words
                )
                retracted = RelationRemoved(*words, by, added=next(asserted, 0))
                _emit_once(work, contradicting, retracted)


def _emit_once(work: Work, memory: MemoryState, retracted: RelationRemoved) -> None:
    """Emit a retraction under the other memory's project, unless another new edge already caused it."""
    if not any(stream == memory.id and data == retracted for stream, _, data, *_ in work.emitted):
        project, work.project = work.project, memory.project
        work.emit(memory.id, retracted, first=memory.row)
        work.project = project


def _during(start: str | None, end: str | None, least: str, most: str | None) -> tuple[str, str | None]:
    """Return the time in which both spans hold."""
    ends = [time for time in (end, most) if time is not None]
    return max(start or least, least), min(ends, default=None)
