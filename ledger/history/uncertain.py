"""Decisions that might have come out differently without a source: listed, never invented.

Making events void tells what follows from the rest of the log. It cannot tell what would have been recorded had
they never been there: a refusal that would not have been one, a match that was never tried, a text that would have been a
memory of its own. Whatever can be named of that is named here, with the reason.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from ledger import answers
from ledger.domain import confidence as rules
from ledger.domain.events import (
    AnyEvent,
    CandidatesExtracted,
    ChunkAdded,
    CommandAnswered,
    CommandUndone,
    DocumentReplaced,
    DocumentRestored,
    DuplicateAbsorbed,
    MemoriesMerged,
    MemoryCaptured,
    MemoryPromoted,
    MemoryReinforced,
    MemoryRestored,
    MemoryRevised,
    MemorySuperseded,
    ReinforcementEvaluated,
    SummaryCreated,
    WindowAssembled,
    WriteRefused,
    of,
    type_names,
)
from ledger.domain.memory import Memory
from ledger.domain.spans import Span, merged
from ledger.domain.text import normalise
from ledger.history import refused
from ledger.history.citations import ATTEMPTS
from ledger.history.elsewhere import in_conversations, named
from ledger.history.in_effect import NAMES, Reader
from ledger.history.observed import formed, looked_at
from ledger.history.source_plan import SourcePlan
from ledger.history.under_policy import Policies
from ledger.policies import expiry
from projections.core.projector import FAMILIES
from projections.core.rows import Connection
from projections.search import observation_hits
from projections.views import audit, control, delivered, memories, merges, projects

_ASKED = type_names(of(verdict=True))
Past = list[tuple[int, Memory | None]]  # from which position on a memory stood how
POOL = ("identity", "preference")  # the kinds that every project's interactions can reinforce


_UNITED = (  # what a merged memory takes over from its members
    *("content", "confidence", "reference_count", "tags", "metadata", "entities", "edges", "valid_from", "valid_to"),
)
_INHERITED = ("tags", "entities")  # what a successor takes over where it is not told its own


def _weight(state: Memory | None) -> object:
    return None if state is None else tuple(getattr(state, name) for name in _UNITED)


def uncertain_decisions(plan: SourcePlan, secret: bytes, user: str) -> tuple[answers.Uncertain, ...]:
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
        self._nowhere = {event.position for event in plan.senseless} | set(plan.groundless)
        self._groundless: dict[str, list[AnyEvent]] = {}
        for event in plan.groundless.values():
            self._groundless.setdefault(event.stream, []).append(event)
        self._stating: dict[tuple[object, ...], set[str]] = {}
        for stream in self._memories:
            for _, state in (*self._were[stream], *self._would_be[stream]):
                if state is not None:
                    self._stating.setdefault(memories.statement_of(state), set()).add(stream)

    def everything(self) -> Iterator[answers.Uncertain]:
        for event in self._plan.senseless:
            if not _is_added(event) and self._did_more(event):
                yield _uncertain(event, "what it acted on would not have been so")
        yield from self._documents()
        for position in self._asked():
            event = self._plan.reader.event(position)
            if why := self._why_different(event):
                yield _uncertain(event, why)
        plan, user = self._plan, self._user
        observed = (formed(plan, self._is_found_differently), looked_at(plan, user, self._found_differently_from()))
        for event, why in chain(Policies(plan, user).decided(), named(plan, user), in_conversations(plan), *observed):
            yield _uncertain(event, why)
        for stream in self._memories:
            yield from self._of_memory(stream)
        yield from self._duplicates()
        yield from self._undone()
        yield from self._merged()
        yield from self._succeeded()

    def _merged(self) -> Iterator[answers.Uncertain]:
        """Merges of others, of members that would have stood otherwise: what they became follows from how they stood."""
        for stream in self._memories:
            for merge in merges.naming(self._connection, [stream]):
                for event, counts in self._plan.reader.stream(merge.id):
                    if not counts or event.position in self._plan.out or not isinstance(event.data, MemoriesMerged):
                        continue
                    began = audit.command_at(self._connection, event.position)[0].position
                    if self._differ(stream, began, _weight):
                        yield _uncertain(event, "a memory that was merged would have stood otherwise")

    def _succeeded(self) -> Iterator[answers.Uncertain]:
        """Successors, by others, that took over what the source had put onto the memory before."""
        for stream in self._memories:
            for event, counts in self._plan.reader.stream(stream):
                data = event.data
                if (
                    not isinstance(data, MemorySuperseded)
                    or not counts
                    or data.by is None
                    or data.by in self._plan.gone
                ):
                    continue
                was, would = (_at(past[stream], event.position) for past in (self._were, self._would_be))
                for captured, _ in self._plan.reader.stream(data.by):
                    if captured.envelope.command_id == event.envelope.command_id and any(
                        _is_inherited(captured, was, would, name) for name in _INHERITED
                    ):
                        yield _uncertain(captured, "it took over tags or names that would not have been there")

    def _undone(self) -> Iterator[answers.Uncertain]:
        """Undos of others that the source's own attempts let through: without them something would have been built on it."""
        for stream in self._plan.gone.intersection(self._memories):
            events = self._plan.reader.stream(stream)
            built = [e.position for e, counts in events if counts and not isinstance(e.data, ATTEMPTS)]
            for event, counts in events if built else ():
                if not counts and event.position not in self._plan.out and isinstance(event.data, ATTEMPTS):
                    for at in control.voided_at(self._connection, event.position):
                        undo = self._plan.reader.event(at)
                        if isinstance(undo.data, CommandUndone) and any(event.position < each < at for each in built):
                            yield _uncertain(undo, "something would have been built on what it took back")

    def _documents(self) -> Iterator[answers.Uncertain]:
        """Texts that others took in where one of the source was: each would have been a document of its own."""
        added = set[str]()
        for stream in sorted(self._plan.streams | self._plan.gone):
            for event, counts in self._plan.reader.stream(stream) if stream[0] == "d" else ():
                command, again = event.envelope.command_id, isinstance(event.data, DocumentRestored)
                lost = event.position in (self._plan.groundless if again else self._nowhere)
                if counts and lost and _is_added(event) and command not in added:
                    added.add(command)
                    yield _uncertain(event, "it would have been taken in as a document of its own")

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

    def _is_found_differently(self, stream: str, position: int) -> bool:
        return stream in self._were and self._differ(stream, position, _findable)

    def _found_differently_from(self) -> list[int]:
        """The positions from which some memory was found otherwise than it would have been."""
        found = set[int]()
        for stream in self._memories:
            steps = {position for past in (self._were[stream], self._would_be[stream]) for position, _ in past}
            found |= {each for each in steps if self._differ(stream, each + 1, _findable)}
        return sorted(found)

    def _moved(self, position: int) -> refused.Moved:
        return ((each, _at(self._were[each], position), _at(self._would_be[each], position)) for each in self._memories)

    # --- decisions about what stood in the way, or did not ----------------------------------------------------------

    def _did_more(self, event: AnyEvent) -> bool:
        """Whether the rest of the command stands: alone, it would simply have been refused."""
        entries = audit.command_at(self._connection, event.position)
        return any(entry.position not in self._plan.out and entry.type not in NAMES for entry in entries)

    def _asked(self) -> list[int]:
        marks = ", ".join("?" * len(_ASKED))
        sql = f"SELECT position FROM audit WHERE position > ? AND user = ? AND type IN ({marks}) ORDER BY position"
        found = self._connection.execute(sql, (self._first, self._user, *_ASKED)).fetchall()
        return [position for (position,) in found if position not in self._plan.out]

    def _why_different(self, event: AnyEvent) -> str:
        data, touched = event.data, self._plan.streams
        if isinstance(data, WriteRefused):
            doubtful = refused.may_not_have_been(self._plan, event, lambda: self._moved(event.position))
            return "a refusal that may not have been one" if doubtful else ""
        if isinstance(data, CommandAnswered):
            return "it found things as it asked for them" if data.subject in touched else ""
        if isinstance(data, CandidatesExtracted):
            known = any(dropped.memory in touched for dropped in data.dropped)
            return "a value was dropped for a memory that changes" if known else ""
        return self._evaluated(event)

    def _evaluated(self, event: AnyEvent) -> str:
        data: ReinforcementEvaluated = event.data
        if data.left_over and any(match.memory in self._plan.streams for match in data.matches):
            return "one of the memories left over would have been reinforced instead"
        places = (None, *projects.together(self._connection, event.envelope.project))
        tried = not any(_covers(self._untried.get(each, ()), event.position) for each in places)
        return "" if tried else "a memory was not tried as it would have been"

    def _gaps(self) -> dict[str | None, tuple[Span, ...]]:
        """For each pool (a project's, and under None the one of every project), between which positions some memory
        would have been in it with a text that it did not have there."""
        found: dict[str | None, list[Span]] = {}
        for stream in self._memories:
            were, would_be = self._were[stream], self._would_be[stream]
            steps = sorted({position for past in (were, would_be) for position, _ in past})
            for start, end in zip(steps, [*steps[1:], 2**62], strict=True):
                state, was = _at(would_be, start + 1), _at(were, start + 1)
                if state is None or not (state.project or state.kind in POOL):
                    continue
                if _findable(state) is not None and _findable(state) != _findable(was):
                    found.setdefault(state.project, []).append((start, end))
        return {pool: merged(spans) for pool, spans in found.items()}

    # --- one memory ----------------------------------------------------------------------------------------------

    def _of_memory(self, stream: str) -> Iterator[answers.Uncertain]:
        plan, state = self._plan, None
        for event in plan.reader.counting(stream, plan.out, plan.again):
            data, before = event.data, state
            state = FAMILIES["m"].evolve(state, event)
            if isinstance(data, DuplicateAbsorbed) and before is not None and not _same(data, before):
                yield _uncertain(event, "what it says would have been a memory of its own")
        for event in self._groundless.get(stream, ()):
            if isinstance(event.data, MemorySuperseded) and event.data.by not in plan.gone:
                yield _uncertain(event, "there would have been nothing to supersede")
        yield from self._counted_before(stream)
        if state is not None:
            yield from self._faded(state)

    def _counted_before(self, stream: str) -> Iterator[answers.Uncertain]:
        """An interaction counts once: one that the source used up would have counted by itself."""
        for event, _ in self._plan.reader.stream(stream):
            data = event.data
            fell = event.position in self._plan.out and event.position not in self._plan.groundless
            used = isinstance(data, MemoryReinforced) and fell and data.interaction
            if used and used not in self._plan.gone:
                for each, _ in self._plan.reader.stream(used):
                    if isinstance(each.data, ReinforcementEvaluated) and each.position not in self._plan.out:
                        yield _uncertain(each, "the source had counted this interaction already")

    def _faded(self, state: Memory) -> Iterator[answers.Uncertain]:
        before: Memory | None = self._plan.reader.state(state.id)
        (now,) = self._connection.execute("SELECT max(recorded_at) FROM audit").fetchone()
        lost = before is not None and before.reference_count > 0 and not state.reference_count
        policy = control.policy(self._connection, state.user or "")
        faded = policy.expire and expiry.effective(state, policy, now) < rules.EXPIRY_CONFIDENCE
        if lost and state.status == "active" and faded:
            yield _uncertain(self._plan.reader.event(state.row), "unconfirmed, it may have faded and been superseded")

    # --- who says the same ---------------------------------------------------------------------------------------

    def _duplicates(self) -> Iterator[answers.Uncertain]:
        """Decisions of the duplicate rule, where a memory concerned said or would have said what was asked."""
        for stream in self._related():
            state: Memory | None = None
            for event in self._plan.reader.counting(stream, self._plan.out, self._plan.again):
                asked, state = _asked_for(event, state), FAMILIES["m"].evolve(state, event)
                if asked is None or event.position <= self._first:
                    continue
                others = self._stating.get(asked[:3], set()) - {stream}
                if any(self._answers(each, asked, event.position) for each in others):
                    yield _uncertain(event, "whether another memory said the same would have been answered otherwise")

    def _answers(self, stream: str, asked: tuple[object, ...], position: int) -> bool:
        keys = {_key(_at(self._were[stream], position)), _key(_at(self._would_be[stream], position))}
        return len(keys) == 2 and asked in keys

    def _related(self) -> list[str]:
        """Every memory that ever said what one of those concerned says, said or would have said."""
        found = memories.with_statements(self._connection, self._user, self._stating) if self._stating else []
        return sorted({*found, *self._memories})


def _at(past: Past, position: int) -> Memory | None:
    """The last state before a position."""
    place = bisect_left(past, position, key=lambda each: each[0])
    return past[place - 1][1] if place else None


def _is_inherited(event: AnyEvent, was: Memory | None, would: Memory | None, name: str) -> bool:
    """Whether a capture has what the memory before had, and would have had otherwise."""
    if not isinstance(event.data, ATTEMPTS) or was is None:
        return False
    known = getattr(was, name)
    return bool(known) and (getattr(event.data, name) or ()) == known != (getattr(would, name) if would else ())


def _findable(state: Memory | None) -> object:
    held = state is not None and state.status == "active" and not state.quarantined
    return state.content if held and state is not None else None


def _covers(spans: Sequence[Span], position: int) -> bool:
    """Whether a state that began before a position still stood at it."""
    place = bisect_left(spans, position, key=lambda each: each[0])
    return place > 0 and position <= spans[place - 1][1]


def _key(state: Memory | None) -> tuple[object, ...]:
    """What the duplicate rule compares."""
    return (*memories.statement_of(state), state.status) if state is not None else ()


def _asked_for(event: AnyEvent, before: Memory | None) -> tuple[object, ...] | None:
    """The text and status that a decision asked the duplicate rule about; None for one that asked nothing."""
    data = event.data
    if isinstance(data, MemoryCaptured) or (isinstance(data, DuplicateAbsorbed) and before is None):
        return (data.kind, event.envelope.project, normalise(data.content or ""), data.status)
    if before is None:
        return None
    statement = memories.statement_of(before)
    if isinstance(data, MemoryRevised):
        return (*statement[:2], normalise(data.content or ""), before.status)
    if isinstance(data, MemoryPromoted | MemoryRestored):
        return (*statement, "active" if isinstance(data, MemoryPromoted) else before.before or before.status)
    return None


def _same(data: DuplicateAbsorbed, state: Memory) -> bool:
    """Whether a memory says what was absorbed; what was found in a conversation confirms what is believed."""
    confirms = data.origin is not None and state.status == "active"
    return (data.status == state.status or confirms) and normalise(data.content or "") == normalise(state.content or "")


def _is_added(event: AnyEvent) -> bool:
    """Whether an event is part of taking a text in; one that was removed is restored by that."""
    restored = isinstance(event.data, DocumentRestored) and event.envelope.command == "documents.add"
    return restored or isinstance(event.data, DocumentReplaced | ChunkAdded)


def _uncertain(event: AnyEvent, why: str) -> answers.Uncertain:
    return answers.Uncertain(position=event.position, type=event.type, subject=event.stream, why=why)


# --- where it was shown ----------------------------------------------------------------------------------------------


def receipts(
    reader: Reader, user: str, streams: Iterable[str], fallen: Iterable[int], gone: Iterable[str] = ()
) -> tuple[str, ...]:
    """Where something of a source was shown: interactions (``memories_used``, ``chunks_used``), then the receipts of the
    recalls and assemblies that gave it.

    A memory of these ``streams`` counts as a whole, and so does an observation that one of them supports. Of documents,
    sessions and turns only the words of events that fell count, or all where the subject itself is ``gone``.
    """
    connection, wanted = reader.connection, _reached(reader, streams, fallen, gone)
    turns = {
        row: id
        for used in ("memories_used", "chunks_used")
        for row, id, subject in connection.execute(
            f"SELECT i.row, i.id, used.value FROM interactions i, json_each(i.{used}) used"
            f" WHERE i.user = ? AND i.{used} IS NOT NULL",
            (user,),
        )
        if subject in wanted
    }
    recalls = _receipts_at(connection, delivered.showing(connection, wanted, user))
    woven = delivered.showing(connection, dict.fromkeys(recalls.values(), ()), user)  # recalls that assemblies showed
    found = recalls | _receipts_at(connection, woven)
    shown = dict.fromkeys(found[position] for position in sorted(found))
    return (*(turns[row] for row in sorted(turns)), *shown)


def _reached(
    reader: Reader, streams: Iterable[str], fallen: Iterable[int], gone: Iterable[str]
) -> dict[str, list[int]]:
    """The ids under which something of a source may have been shown, each with the positions of its events that are meant."""
    touched = set(streams)
    found: dict[str, list[int]] = {stream: [] for stream in touched if stream[0] in "mo"}
    # of a session nothing goes but what falls: others may have been distrusted from it before
    ceased = (event.position for stream in gone if stream[0] != "s" for event, _ in reader.stream(stream))
    for position in sorted({*fallen, *ceased}):
        event = reader.event(position)
        found.setdefault(event.stream, []).append(position)
        if isinstance(event.data, ChunkAdded):
            found.setdefault(event.data.chunk, []).append(position)
        elif isinstance(event.data, SummaryCreated):
            found.setdefault(event.data.summary, []).append(position)
    return found | {each: [] for each in observation_hits.citing(reader.connection, {*touched, *found})}


def _receipts_at(connection: Connection, positions: Iterable[int]) -> dict[int, str]:
    """The receipts of recalls and assemblies, by position: the id of the event, or of the first of several."""
    found: dict[int, str] = {}
    for position in positions:
        entry = audit.at(connection, position)
        if entry is not None and entry.type == WindowAssembled.__name__:
            entries = audit.command_at(connection, position)
            entry = next((each for each in entries if each.type == entry.type), entry)
        if entry is not None:
            found[position] = entry.event_id
    return found
