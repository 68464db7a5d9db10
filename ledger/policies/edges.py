"""The rule of relations: two names stand in one relation at a time, and the newest active memory that says so has the word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ledger.domain import memory as memory_domain
from ledger.domain.errors import RejectedError
from ledger.domain.events import MemoryCaptured, RelationRemoved
from ledger.domain.memory import Edge, Memory, Relate
from ledger.domain.text import check_text
from ledger.engine.work import Work
from ledger.types import Triple
from projections.views import graph

RETIRED = 1_000  # edges that one command takes out: it holds the writer's lock meanwhile


def edge_list(given: Iterable[Triple]) -> tuple[memory_domain.Relate, ...]:
    """(source, relation, target) of each edge, as texts."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise RejectedError(f"relations are several of (subject, relation, object), not a {type(given).__name__}")
    found = []
    for each in given:
        if isinstance(each, str) or not isinstance(each, Sequence) or len(each) != 3:
            raise RejectedError("each relation is three texts: (subject, relation, object)")
        parts = [
            check_text(f"the {what} of an edge", part, max_bytes=4 * memory_domain.NAME_CHARS)
            for what, part in zip(("source", "relation", "target"), each, strict=True)
        ]
        found.append(memory_domain.Relate(*parts))
        if len(found) > memory_domain.EDGES:
            raise RejectedError(
                f"a memory has at most {memory_domain.EDGES} relations",
                rule="size",
                limit=memory_domain.EDGES,
                requested=len(found),
            )
    return tuple(found)


def relate(work: Work, memory: Memory, command: Relate) -> None:
    """One more edge of a memory, and others' edges retracted that it contradicts."""
    events = memory_domain.decide(command, memory)
    if events and memory.status == "active":
        asserted = memory_domain.checked(command)
        retire_others(work, memory.id, [asserted], memory.valid_from, memory.valid_to, besides=(memory.row,))
    for event in events:
        work.emit(memory.id, event, first=memory.row)


def say(work: Work, id: str, attempt: MemoryCaptured, edges: Sequence[Relate], *, besides: int = 0) -> None:
    """The edges that come with an attempt: of the memory that it began in this append, or of the one that says it already.

    ``besides`` is the row of a memory that ends with it, and keeps its edges for the day it comes back.
    """
    known = None if any(id == stream and first == 0 for stream, first, *_ in work.emitted) else work.load(id, "m")
    row, stated = (0, ()) if known is None else (known.row, known.edges)
    start, end = (attempt.valid_from, attempt.valid_to) if known is None else (known.valid_from, known.valid_to)
    for command in edges:
        events = memory_domain.relation_stated(command, stated)
        asserted = memory_domain.checked(command)
        if events and attempt.status == "active":
            retire_others(work, id, [asserted], start or work.recorded_at, end, besides=(row, besides))
        for event in events:
            work.emit(id, event, first=row)
        stated = (*(each for each in stated if each.form != asserted.form), asserted)


def retire_others(
    work: Work, by: str, edges: Sequence[Edge], start: str, end: str | None, *, besides: Sequence[int] = ()
) -> None:
    """Retires what other active memories of this user say of the same two names in another relation, over a time in common.

    ``start`` and ``end`` are when the memory ``by`` holds. ``RejectedError`` where that would be more than a thousand edges.
    """
    if not edges:
        return
    work.rows.flush()
    for edge in edges:
        since, until = _during(edge.valid_from, edge.valid_to, start, end)
        source, relation, target = edge.form
        pair = graph.Pair(work.who.user, source, target, relation)
        found = graph.other_relations(work.connection(), pair, since, until, limit=RETIRED + 1)
        if len(found) > RETIRED:
            raise RejectedError(
                f"more than {RETIRED:,} memories say otherwise of these two names; supersede or retract them first",
                rule="size",
                limit=RETIRED,
            )
        for row, (source, relation, target) in found:
            other: Memory | None = work.at_row(row, "m") if row not in besides else None
            if other is not None and other.id != by:
                words = (source, relation, target)
                asserted = (each.position for each in other.edges if (each.source, each.relation, each.target) == words)
                retracted = RelationRemoved(*words, by, added=next(asserted, 0))
                _emit_once(work, other, retracted)


def _emit_once(work: Work, other: Memory, retracted: RelationRemoved) -> None:
    """Several new edges may contradict one; it is an event of the other memory's project."""
    if not any(stream == other.id and data == retracted for stream, _, data, *_ in work.emitted):
        project, work.project = work.project, other.project
        work.emit(other.id, retracted, first=other.row)
        work.project = project


def _during(start: str | None, end: str | None, least: str, most: str | None) -> tuple[str, str | None]:
    """The time in which both hold."""
    ends = [each for each in (end, most) if each is not None]
    return max(start or least, least), min(ends, default=None)
