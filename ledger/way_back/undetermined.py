"""Decisions that could have come out otherwise without a source: listed, never invented.

Taking events out of force tells what follows from the rest of the log. It cannot tell what would have been recorded had
they never been there: a refusal that would not have been one, a match that was never tried, a text that would have been a
memory of its own. Whatever can be named of that is named here, with the reason.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ledger import answers
from ledger.domain import confidence as rules
from ledger.domain.events import (
    AnyEvent,
    CandidatesExtracted,
    ChunkAdded,
    CommandAnswered,
    CommandUndone,
    DocumentReplaced,
    DuplicateAbsorbed,
    MemoriesMerged,
    MemoryCaptured,
    MemoryPromoted,
    MemoryReinforced,
    MemoryRestored,
    MemoryRevised,
    MemorySuperseded,
    PolicyAdopted,
    ReinforcementEvaluated,
    WriteRefused,
)
from ledger.domain.memory import Memory
from ledger.domain.text import normalise
from ledger.policies import expiry
from ledger.way_back.plans import NAMES, SourcePlan
from projections import audit, control, memories, merges, observation_hits, served
from projections.projector import FAMILIES

_ASKED = ("WriteRefused", "CommandAnswered", "ReinforcementEvaluated", "CandidatesExtracted")
_ATTEMPTS = (MemoryCaptured, DuplicateAbsorbed)
Past = list[tuple[int, Memory | None]]  # from which position on a memory stood how
POOL = ("identity", "preference")  # the kinds that every project's interactions can reinforce


def _weight(state: Memory | None) -> object:
    return (
        None if state is None else (state.content, state.confidence, state.reference_count, state.tags, state.entities)
    )


def undetermined(plan: SourcePlan, secret: bytes, user: str) -> tuple[answers.Undetermined, ...]:
    """Every decision after the first event that falls which may have come out otherwise, in the order of the log."""
    if not plan.out and not plan.again:
        return ()
    found = {each.position: each for each in _Search(plan, secret, user).everything()}
    return tuple(found[position] for position in sorted(found))


class _Search:
    def __init__(self, plan: SourcePlan, secret: bytes, user: str) -> None:
        self._plan, self._secret, self._user = plan, secret, user
        self._connection = plan.reader.connection
        self._first = min(plan.out | plan.again)
        self._memories = sorted(stream for stream in plan.streams if stream[0] == "m")
        self._were = {stream: self._past(stream) for stream in self._memories}
        self._would_be = {stream: self._other_past(stream) for stream in self._memories}
        self._untried = self._gaps()
        self._saying: dict[tuple[object, ...], set[str]] = {}
        for stream in self._memories:
            for _, state in (*self._were[stream], *self._would_be[stream]):
                if state is not None:
                    self._saying.setdefault(memories.saying_of(state), set()).add(stream)

    def everything(self) -> Iterator[answers.Undetermined]:
        for event in self._plan.senseless:
            if not isinstance(event.data, DocumentReplaced | ChunkAdded) and self._did_more(event):
                yield _told(event, "what it acted on would not have been so")
        yield from self._documents()
        policies = [at for at in self._plan.out if self._plan.reader.event(at).type == PolicyAdopted.__name__]
        for position in self._asked():
            event = self._plan.reader.event(position)
            if why := self._otherwise(event, min(policies, default=None)):
                yield _told(event, why)
        for stream in self._memories:
            yield from self._of_memory(stream)
        yield from self._twins()
        yield from self._undone()
        yield from self._merged()

    def _merged(self) -> Iterator[answers.Undetermined]:
        """Merges of others, of members that would have stood otherwise: what they became follows from how they stood."""
        for stream in self._memories:
            for merge in merges.naming(self._connection, [stream]):
                for event, counts in self._plan.reader.stream(merge.id):
                    if not counts or event.position in self._plan.out or not isinstance(event.data, MemoriesMerged):
                        continue
                    if self._differ(stream, event.position, _weight):
                        yield _told(event, "a memory that was merged would have stood otherwise")

    def _undone(self) -> Iterator[answers.Undetermined]:
        """Undos of others that the source's own attempts let through: without them something would have been built on it."""
        for stream in self._plan.gone.intersection(self._memories):
            events = self._plan.reader.stream(stream)
            built = [e.position for e, counts in events if counts and not isinstance(e.data, _ATTEMPTS)]
            for event, counts in events if built else ():
                if not counts and event.position not in self._plan.out and isinstance(event.data, _ATTEMPTS):
                    for at in control.taken_out_at(self._connection, event.position):
                        undo = self._plan.reader.event(at)
                        if isinstance(undo.data, CommandUndone) and any(event.position < each < at for each in built):
                            yield _told(undo, "something would have been built on what it took back")

    def _documents(self) -> Iterator[answers.Undetermined]:
        """Texts that others took in where one of the source was: each would have been a document of its own."""
        for stream in sorted(self._plan.streams | self._plan.gone):
            for event, counts in self._plan.reader.stream(stream) if stream[0] == "d" else ():
                if isinstance(event.data, DocumentReplaced) and counts and self._is_anothers(event):
                    yield _told(event, "it would have been taken in as a document of its own")

    def _is_anothers(self, event: AnyEvent) -> bool:
        senseless = {each.position for each in self._plan.senseless}
        return event.position in senseless or (event.stream in self._plan.gone and event.position not in self._plan.out)

    # --- how the memories concerned were, and would have been -------------------------------------------------------

    def _past(self, stream: str) -> Past:
        row = self._plan.reader.stream(stream)[0][0].position
        return memories.past(self._connection, row)

    def _other_past(self, stream: str) -> Past:
        family, state, found = FAMILIES["m"], None, list[tuple[int, Memory | None]]()
        for event in self._plan.reader.counting(stream, self._plan.out, self._plan.again):
            state = family.evolve(state, event)
            found.append((event.position, state))
        return found

    def _differ(self, stream: str, position: int, how: Callable[[Memory | None], object]) -> bool:
        """Whether a memory was otherwise, just before an event, than it would have been."""
        return how(_at(self._were[stream], position)) != how(_at(self._would_be[stream], position))

    # --- decisions about what stood in the way, or did not ----------------------------------------------------------

    def _did_more(self, event: AnyEvent) -> bool:
        """Whether the rest of the command stands: alone, it would simply have been refused."""
        entries = audit.of_command(self._connection, event.envelope.command_id)
        return any(entry.position not in self._plan.out and entry.type not in NAMES for entry in entries)

    def _asked(self) -> list[int]:
        marks = ", ".join("?" * len(_ASKED))
        sql = f"SELECT position FROM audit WHERE position > ? AND user = ? AND type IN ({marks}) ORDER BY position"
        found = self._connection.execute(sql, (self._first, self._user, *_ASKED)).fetchall()
        return [position for (position,) in found if position not in self._plan.out]

    def _otherwise(self, event: AnyEvent, policy: int | None) -> str:
        data, touched = event.data, self._plan.streams
        if isinstance(data, WriteRefused):
            subject = data.subject or ""
            moved = subject in self._were and self._differ(subject, event.position, _status)
            refused = data.rule == "duplicate" or (data.rule == "transition" and (moved or subject[:1] != "m"))
            return "a refusal that may not have been one" if refused else ""
        if isinstance(data, CommandAnswered):
            return "it found things as it asked for them" if data.subject in touched else ""
        if isinstance(data, CandidatesExtracted):
            known = any(dropped.memory in touched for dropped in data.dropped)
            return "a value was dropped for a memory that changes" if known else ""
        if policy is not None and event.position > policy:
            return "made under a policy of the source"
        return self._evaluated(event)

    def _evaluated(self, event: AnyEvent) -> str:
        data: ReinforcementEvaluated = event.data
        if data.left_over and any(match.memory in self._plan.streams for match in data.matches):
            return "one of the memories left over would have been reinforced instead"
        project, position = event.envelope.project, event.position
        pools = (self._untried.get(None, ()), self._untried.get(project, ()) if project is not None else ())
        tried = not any(_covers(spans, position) for spans in pools)
        return "" if tried else "a memory was not tried as it would have been"

    def _gaps(self) -> dict[str | None, list[tuple[int, int]]]:
        """For each pool (a project's, and under None the one of every project), between which positions some memory
        would have been in it with a text that it did not have there."""
        found: dict[str | None, list[tuple[int, int]]] = {}
        for stream in self._memories:
            were, would_be = self._were[stream], self._would_be[stream]
            steps = sorted({position for past in (were, would_be) for position, _ in past})
            for start, end in zip(steps, [*steps[1:], 2**62], strict=True):
                state, was = _at(would_be, start + 1), _at(were, start + 1)
                if state is None or not (state.project or state.kind in POOL):
                    continue
                if _findable(state) is not None and _findable(state) != _findable(was):
                    found.setdefault(state.project, []).append((start, end))
        return {pool: _merged(spans) for pool, spans in found.items()}

    # --- one memory ----------------------------------------------------------------------------------------------

    def _of_memory(self, stream: str) -> Iterator[answers.Undetermined]:
        plan, state = self._plan, None
        for event in plan.reader.counting(stream, plan.out, plan.again):
            data, before = event.data, state
            state = FAMILIES["m"].evolve(state, event)
            if isinstance(data, DuplicateAbsorbed) and before is not None and not _same(data, before):
                yield _told(event, "what it says would have been a memory of its own")
            if isinstance(data, MemorySuperseded) and before is None and data.by not in plan.gone:
                yield _told(event, "there would have been nothing to supersede")
        yield from self._counted_before(stream)
        if state is not None:
            yield from self._faded(state)

    def _counted_before(self, stream: str) -> Iterator[answers.Undetermined]:
        """An interaction counts once: one that the source used up would have counted by itself."""
        for event, _ in self._plan.reader.stream(stream):
            data = event.data
            used = isinstance(data, MemoryReinforced) and event.position in self._plan.out and data.interaction
            if used and used not in self._plan.gone:
                for each, _ in self._plan.reader.stream(used):
                    if isinstance(each.data, ReinforcementEvaluated) and each.position not in self._plan.out:
                        yield _told(each, "the source had counted this interaction already")

    def _faded(self, state: Memory) -> Iterator[answers.Undetermined]:
        before: Memory | None = self._plan.reader.state(state.id)
        (now,) = self._connection.execute("SELECT max(recorded_at) FROM audit").fetchone()
        lost = before is not None and before.reference_count > 0 and not state.reference_count
        if lost and state.status == "active" and expiry.effective(state, now) < rules.EXPIRY_CONFIDENCE:
            yield _told(self._plan.reader.event(state.row), "unconfirmed, it may have faded and been superseded")

    # --- who says the same ---------------------------------------------------------------------------------------

    def _twins(self) -> Iterator[answers.Undetermined]:
        """Decisions of the duplicate rule, where a memory concerned said or would have said what was asked."""
        for stream in self._related():
            state: Memory | None = None
            for event in self._plan.reader.counting(stream, self._plan.out, self._plan.again):
                asked, state = _asked_for(event, state), FAMILIES["m"].evolve(state, event)
                if asked is None or event.position <= self._first:
                    continue
                others = self._saying.get(asked[:3], set()) - {stream}
                if any(self._answers(each, asked, event.position) for each in others):
                    yield _told(event, "whether another memory said the same would have been answered otherwise")

    def _answers(self, stream: str, asked: tuple[object, ...], position: int) -> bool:
        keys = {_key(_at(self._were[stream], position)), _key(_at(self._would_be[stream], position))}
        return len(keys) == 2 and asked in keys

    def _related(self) -> list[str]:
        """Every memory that ever said what one of those concerned says, said or would have said."""
        found = memories.saying(self._connection, self._user, self._saying) if self._saying else []
        return sorted({*found, *self._memories})


def _at(past: Past, position: int) -> Memory | None:
    """The last state before a position."""
    place = bisect_left(past, position, key=lambda each: each[0])
    return past[place - 1][1] if place else None


def _status(state: Memory | None) -> object:
    return state.status if state is not None else None


def _findable(state: Memory | None) -> object:
    held = state is not None and state.status == "active" and not state.quarantined
    return state.content if held and state is not None else None


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Half-open spans in order, those that touch as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _covers(spans: Sequence[tuple[int, int]], position: int) -> bool:
    """Whether a state that began before a position still stood at it."""
    place = bisect_left(spans, position, key=lambda each: each[0])
    return place > 0 and position <= spans[place - 1][1]


def _key(state: Memory | None) -> tuple[object, ...]:
    """What the duplicate rule compares."""
    return (*memories.saying_of(state), state.status) if state is not None else ()


def _asked_for(event: AnyEvent, before: Memory | None) -> tuple[object, ...] | None:
    """The text and status that a decision asked the duplicate rule about; None for one that asked nothing."""
    data = event.data
    if isinstance(data, MemoryCaptured) or (isinstance(data, DuplicateAbsorbed) and before is None):
        return (data.kind, event.envelope.project, normalise(data.content or ""), data.status)
    if before is None:
        return None
    said = memories.saying_of(before)
    if isinstance(data, MemoryRevised):
        return (*said[:2], normalise(data.content or ""), before.status)
    if isinstance(data, MemoryPromoted | MemoryRestored):
        return (*said, "active" if isinstance(data, MemoryPromoted) else data.status)
    return None


def _same(data: DuplicateAbsorbed, state: Memory) -> bool:
    return data.status == state.status and normalise(data.content or "") == normalise(state.content or "")


def _told(event: AnyEvent, why: str) -> answers.Undetermined:
    return answers.Undetermined(position=event.position, type=event.type, subject=event.stream, why=why)


def receipts(connection: Any, user: str, reached: Iterable[str]) -> tuple[str, ...]:
    """Where one of these was shown: interactions (``memories_used``), and the receipts of recalls that gave it, or an
    observation that it bears out."""
    wanted = set(reached)
    wanted |= observation_hits.citing(connection, wanted)
    sql = (
        "SELECT i.id, used.value FROM interactions i, json_each(i.memories_used) used"
        " WHERE i.user = ? AND i.memories_used IS NOT NULL ORDER BY i.row"
    )
    shown = dict.fromkeys(id for id, memory in connection.execute(sql, (user,)) if memory in wanted)
    given = [audit.at(connection, position) for position in served.of_subjects(connection, wanted, user)]
    return (*shown, *(entry.event_id for entry in given if entry is not None))
