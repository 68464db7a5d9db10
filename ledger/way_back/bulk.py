"""Acts above 10,000 events: several appends under one name, between BulkStarted and BulkFinished.

The first append names the whole act. Every part looks at what is left of it under the lock, so that it does not matter who
goes on after a crash, nor whether two do: whoever opens the ledger does, and whoever has a command for the same user, before
that decides anything (``Writer.run``). So nothing of that user comes between two parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from ledger.domain.errors import UnknownEvent
from ledger.domain.events import (
    LEDGER_STREAM,
    AnyEvent,
    BulkFinished,
    BulkStarted,
    CommandRedone,
    CommandUndone,
    Event,
    SourceDistrusted,
    SourceTrusted,
)
from ledger.log_reading import began, finished_at
from ledger.memory_writes import LIST_ITEMS
from ledger.policies import evidence
from ledger.work import Outcome, Who, Work
from ledger.writing import Writer
from projections import audit, control

ACTS = ("undo", "redo", "distrust", "trust", *evidence.ACTS)
BULK_EVENTS = 10_000  # the most that one append takes out of force, or puts back

Spans = tuple[tuple[int, int], ...]
Part = Callable[[Spans], Event]


def parts(positions: Iterable[int]) -> list[Spans]:
    """Positions as ranges, at most 2,000 an event (DESIGN 3)."""
    spans = control.ranges(positions)
    return [spans[start : start + LIST_ITEMS] for start in range(0, len(spans), LIST_ITEMS)]


def announce(work: Work, positions: Iterable[int], **told: Any) -> str:
    """The first append of a bulk act: all that it is about."""
    for spans in parts(positions):
        work.emit(LEDGER_STREAM, BulkStarted(ranges=spans, **told))
    return LEDGER_STREAM


def finish_all(writer: Writer, others: dict[str, Callable[[str, list[AnyEvent]], None]]) -> int:
    """Finishes every act that was cut; ``others`` are those that take more than events out of force and back."""
    with writer.store.snapshot() as connection:
        waiting = control.bulks(connection)
        announced = {act: began(connection, act) for act, _ in waiting}
    for act, _ in waiting:
        kind = announced[act][0].data.act
        if kind in others:
            others[kind](act, announced[act])
        elif kind in ACTS:  # another one is for the newer version that began it
            go_on(writer, act)
    return len(waiting)


def go_on(writer: Writer, act: str) -> None:
    """One part after the other, each an append of its own, until the act is finished, by us or by others."""
    while _step(writer, act) is not None:
        pass


def _step(writer: Writer, act: str) -> Outcome | None:
    with writer.store.snapshot() as connection:
        if all(each != act for each, _ in control.bulks(connection)):
            return None
        first = began(connection, act)[0]
    envelope = first.envelope
    who = Who(
        user=envelope.user or "",
        actor=envelope.actor or "",
        client=envelope.client or "",
        channel=envelope.channel,
        agent=envelope.agent or "",
        correlation_id=act,
        part_of=act,
    )

    def body(work: Work) -> str:
        connection, work.user = work.connection(), envelope.user  # one that was erased is nobody, and not ""
        if any(each == act for each, _ in control.bulks(connection)):
            told = [event.data for event in began(connection, act)]
            if told[0].act in evidence.ACTS:
                if not evidence.part(work, told):
                    work.emit(LEDGER_STREAM, BulkFinished(act))
                return LEDGER_STREAM
            left = _left(connection, act, told)
            for spans in parts(left[:BULK_EVENTS]):
                work.emit(LEDGER_STREAM, _part(told[0])(spans))
            if not left:
                work.emit(LEDGER_STREAM, BulkFinished(act))
        return LEDGER_STREAM

    return writer.run(first.envelope.command, who, body)


def under_way(connection: Any, kinds: Collection[str]) -> list[str]:
    """The acts of these kinds that began and have not finished."""
    return [act for act, _ in control.bulks(connection) if began(connection, act)[0].data.act in kinds]


def kind_of(connection: Any, act: str) -> str | None:
    """What an act of several appends does, by the command that announced it; None where it is a command like any other."""
    announced = began(connection, act)
    return announced[0].data.act if announced else None


def parts_of(connection: Any, act: str) -> list[audit.Entry]:
    """The entries of the parts that followed an announcement, up to the end of the act."""
    end = finished_at(connection, act)
    return [each for each in audit.of_correlation(connection, act) if end is None or each.position <= end]


def _left(connection: Any, act: str, told: list[BulkStarted]) -> list[int]:
    """The positions of the act that it has not reached yet."""
    wanted = sorted({position for each in told for position in control.positions(each.ranges)})
    if told[0].act in ("undo", "distrust"):
        done = set(control.taken_out_by(connection, act))
        return [position for position in wanted if position not in done]
    out = set(control.taken_out_by(connection, told[0].target or ""))
    return [position for position in wanted if position in out]


def _part(told: BulkStarted) -> Part:
    reason = told.reason
    match told.act:
        case "undo":
            return lambda spans: CommandUndone((), spans, reason)
        case "redo":
            return lambda spans: CommandRedone(told.target or "", spans, reason)
        case "distrust":
            return lambda spans: SourceDistrusted(told.kind, told.target, spans, told.since, reason)
        case "trust":
            return lambda spans: SourceTrusted(told.target or "", spans, reason)
        case act:
            raise UnknownEvent(f"a bulk act {act!r:.40} was begun by a newer version, which has to finish it")
