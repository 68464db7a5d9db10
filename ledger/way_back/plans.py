"""Which events fall together: what an undo takes along, what a source caused, and what makes no sense without them.

A plan is made on one snapshot and changes nothing. It reads streams with some events left out, or others put back, and
goes on until nothing more falls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from ledger.citations import Citations
from ledger.domain import ids
from ledger.domain.entities import name_form
from ledger.domain.errors import UnknownEvent
from ledger.domain.events import (
    LEDGER_STREAM,
    AnyEvent,
    ChunkAdded,
    CommandRedone,
    CommandUndone,
    ConflictResolved,
    DuplicateAbsorbed,
    EdgeAsserted,
    EdgeRetired,
    Event,
    MemoriesMerged,
    MemoryCaptured,
    MemoryPromoted,
    MemoryReinforced,
    MemorySuperseded,
    MessageAppended,
    SourceDistrusted,
    SourceTrusted,
    Unknown,
)
from ledger.domain.observation import borne_out
from ledger.log_reading import finished_at, read_event, read_stream
from ledger.way_back.conversations import UNSAID, senseless, sessions_of
from projections import audit, conflicts, control, documents, merges, observations
from projections.projector import FAMILIES

ASKED = (  # the projections that a plan is made by
    *("audit", "force", "sources", "memories", "interactions", "projects", "documents", "confidence", "observations"),
    "quarantine",
)
NAMES = ("ProjectRegistered", "SessionOpened")  # others may use a name by now; an unused one harms nobody
LASTING = (  # what nothing takes back, or only an act of its own
    *("LedgerCreated", "LedgerUpgraded", "CommandRedone", "SourceTrusted", "ContentErased"),
    *("ErasureCompleted", "BulkFinished", "CheckpointSealed", "LegalHoldPlaced"),
    *("LegalHoldReleased", "ProjectionParked", "ProjectionResumed", "WriteRefused"),
)
_ACTS = ("BulkStarted", "CommandUndone", "SourceDistrusted")  # taken back by redo and trust, each by itself
ATTEMPTS = (MemoryCaptured, DuplicateAbsorbed)  # each is enough for a memory to be there
_JOINING = (MemoriesMerged, ConflictResolved)  # of several memories: without one of them the whole command falls
_RESTING = ("ObservationFormed", "EvidenceAdded", "ConsolidationCompleted", "ConsolidationFailed", "ModelCalled")
_TAKING_ITS_PLACE = ("MemorySuperseded", "EdgeRetired")
WITHOUT_EFFECT = (
    "WriteRefused",
    "CommandAnswered",
    "RecallServed",
    "ModelCalled",
    "ModelCallFailed",
    "BulkStarted",
    "CompactionSkipped",
    "ContextAssembled",
)

Spans = tuple[tuple[int, int], ...]
ranges = control.ranges


class Reader:
    """The log and what is in force, through one connection; what was read once is kept."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.citations = Citations(connection)
        self._events: dict[int, AnyEvent] = {}
        self._streams: dict[str, list[tuple[AnyEvent, bool]]] = {}
        self._were_out: dict[str, dict[int, list[tuple[int, int]]]] = {}
        self._found_in: dict[str, dict[int, list[str]]] = {}

    def event(self, position: int) -> AnyEvent:
        if position not in self._events:
            event = read_event(self.connection, position)
            assert event is not None
            self._events[position] = event
        return self._events[position]

    def stream(self, stream: str) -> list[tuple[AnyEvent, bool]]:
        """The events of a subject, each with whether it is in force; nothing is decided about what cannot be read."""
        if stream not in self._streams:
            sql = "SELECT o.position FROM events e CROSS JOIN out_of_force o ON o.position = e.position WHERE e.stream = ?"
            out = {position for (position,) in self.connection.execute(sql, (stream,))}
            events = read_stream(self.connection, stream, 2**62)
            if any(isinstance(event.data, Unknown) for event in events):
                raise UnknownEvent(
                    f"{stream} holds an event of a newer version, so nothing in it can be put out of force"
                )
            self._streams[stream] = [(event, event.position not in out) for event in events]
        return self._streams[stream]

    def was_out(self, stream: str) -> dict[int, list[tuple[int, int]]]:
        """The positions of a stream that were ever out of force, each with from where to where in the log."""
        if stream not in self._were_out:
            found: dict[int, list[tuple[int, int]]] = {}
            for table, until in (("out_of_force", 2**62), ("was_out_of_force", "o.to_position")):
                sql = (
                    f"SELECT o.position, o.from_position, {until} FROM events e"
                    f" CROSS JOIN {table} o ON o.position = e.position WHERE e.stream = ?"
                )
                for position, since, to in self.connection.execute(sql, (stream,)):
                    found.setdefault(position, []).append((since, to))
            self._were_out[stream] = found
        return self._were_out[stream]

    def counting(self, stream: str, but: Collection[int] = (), also: Collection[int] = ()) -> list[AnyEvent]:
        """The events of a stream that would count without some of them, or with others put back."""
        events = self.stream(stream)
        return [event for event, counts in events if (counts or event.position in also) and event.position not in but]

    def state(self, stream: str, but: Collection[int] = (), also: Collection[int] = ()) -> Any:
        """What the subject would be."""
        family, state = FAMILIES[stream[0]], None
        for event in self.counting(stream, but, also):
            state = family.evolve(state, event)
        return state

    def is_gone(self, subject: str, but: Collection[int] = (), also: Collection[int] = ()) -> bool:
        """Whether a subject that is cited is no more; one that this version does not keep is taken to be there.

        A chunk that a newer text no longer has was read all the same; it goes with the event that added it.
        """
        if subject.startswith("c_") and (place := documents.place_of(self.connection, subject)) is not None:
            added = self.event(place[0])
            events = self.stream(added.stream)
            needed = (events[0], events[added.version - 1])  # its document began, and it was added
            return any(each.position in but or not (counts or each.position in also) for each, counts in needed)
        return is_subject(subject) and self.state(subject, but, also) is None

    def stands(
        self, subject: str, but: Collection[int] = (), also: Collection[int] = (), gone: Collection[str] = ()
    ) -> bool:
        """Whether a subject that is cited is there, and rests in the end on something else than itself.

        A memory rests on what any attempt at it cites, an observation on what bears it out. What goes round in a circle of
        these stands on nothing, although each of them is cited by another.
        """
        seen, waiting = set[str](), [subject]
        while waiting:
            each = waiting.pop()
            if each in seen or each in gone:
                continue
            seen.add(each)
            if each[:2] not in ("m_", "o_"):
                if not self.is_gone(each, but, also):
                    return True
                continue
            for sources in self._beneath(each, but, also):
                if not sources:
                    return True
                waiting += sources
        return False

    def _beneath(self, subject: str, but: Collection[int], also: Collection[int]) -> Iterable[Sequence[str]]:
        """What a memory or an observation rests on, each by itself enough; with nothing in it, on itself."""
        if subject[0] == "o":
            borne = [each for each, _ in borne_out(self.counting(subject, but, also)).values()]
            counting = [each.source for each in borne if not each.withdrawn] or [each.source for each in borne]
            if counting and self.state(subject, but, also) is not None:
                yield counting
            return

        def is_out(position: int) -> bool:
            return position in but or (position not in also and self.is_out(position))

        for event in self.counting(subject, but, also):
            if isinstance(event.data, ATTEMPTS):
                sources: Sequence[str] = event.data.sources
                if is_unsaid(self, event, is_out, lambda source: True):  # what it was found in is not there
                    sources = [source for source in sources if not source.startswith("s_")]
                    if not sources:
                        continue
                yield sources

    def is_unsupported(
        self, attempt: AnyEvent, but: Collection[int] = (), also: Collection[int] = (), gone: Collection[str] = ()
    ) -> bool:
        """Whether an attempt at a memory cites something, and nothing of that stands; or was found in what nobody said."""

        def is_out(position: int) -> bool:
            return position in but or (position not in also and self.is_out(position))

        def is_gone(subject: str) -> bool:
            return not self.stands(subject, but, also, gone)

        sources = attempt.data.sources
        return (bool(sources) and all(map(is_gone, sources))) or is_unsaid(self, attempt, is_out, is_gone)

    def citing(self, subject: str) -> list[str]:
        """The memories that cite a subject, or a chunk of it, as a source, or did when they were not undone."""
        return [self.event(row).stream for row in documents.dependents(self.connection, subject)]

    def resting_on(self, subject: str) -> list[str]:
        """The memories that cite a subject, a chunk of it, or an observation that one of these bears out."""
        found = dict.fromkeys(self.citing(subject))
        chunks = documents.chunk_ids(self.connection, subject) if subject.startswith("d_") else ()
        for source in (subject, *chunks):
            for row in observations.ever_borne_out_by(self.connection, source):
                found |= dict.fromkeys(self.citing(self.event(row).stream))
        return list(found)

    def found_in(self, session: str) -> dict[int, list[str]]:
        """The memories that rest on each message of a session, by its position."""
        if session not in self._found_in:
            self._found_in[session] = self.citations.memories(session)
        return self._found_in[session]

    def caused_by(self, event: AnyEvent) -> list[audit.Entry]:
        """What reacted to an event, within the memory of the same user.

        An observation that was formed or borne out is not among it: that rests on its sources, and one that is no longer
        live bears it out no longer, without any event.
        """
        found = audit.caused_by(self.connection, event.envelope.event_id)
        return [entry for entry in found if entry.user == event.envelope.user and entry.type not in _RESTING]

    def joining(self, memory: str) -> list[str]:
        """The merges and conflicts that a memory is a member of."""
        rows = (*merges.ever_about(self.connection, memory), *conflicts.ever_about(self.connection, memory))
        return [self.event(row).stream for row in rows]

    def members_of(self, edge: AnyEvent) -> tuple[str, ...]:
        """Of an edge that a merged memory has: the memories that it was taken over from, for only theirs are."""
        if edge.envelope.command != "merge":
            return ()
        entries = audit.of_command(self.connection, edge.envelope.command_id)
        told = (self.event(entry.position).data for entry in entries if entry.type == MemoriesMerged.__name__)
        return next((data.memories for data in told if data.memory == edge.stream), ())

    def merged_from(self, memory: str) -> set[str]:
        """The memories that this one was merged into."""
        told = (event.data for merge in self.joining(memory) for event, _ in self.stream(merge))
        return {data.memory for data in told if isinstance(data, MemoriesMerged)}

    def is_out(self, position: int) -> bool:
        return bool(control.out_of_force(self.connection, position, position))

    def about(self, project: str) -> list[audit.Entry]:
        """The entries in force that are about a project."""
        found = audit.trail(self.connection, user=None, project=project, limit=2**31)
        return [entry for entry in found if not self.is_out(entry.position)]


def is_unsaid(reader: Reader, event: AnyEvent, is_out: Callable[[int], bool], is_gone: Callable[[str], bool]) -> bool:
    """Whether a memory rests on a message that is out of force, and no captured turn has its text still."""
    for position in reader.citations.behind(event):
        if is_out(position):
            turn = getattr(reader.event(position).data, "interaction", None)
            if turn is None or is_gone(turn):
                return True
    return False


def rests_on(data: Event, gone: Collection[str]) -> bool:
    """Whether one of these memories is what a merge was made of, or was kept over others."""
    if isinstance(data, MemoriesMerged):
        return not set(data.memories).isdisjoint(gone)
    return isinstance(data, ConflictResolved) and data.winner in gone


def is_subject(stream: str) -> bool:
    return stream[1:2] == "_" and stream[0] in FAMILIES


class _Everything(frozenset[int]):
    """All positions, whatever they are."""

    def __contains__(self, position: object) -> bool:
        return True


EVERYTHING = _Everything()


class UndoPlan:
    """The commands that fall together: the ones named, what they caused, and what makes no sense without them."""

    def __init__(self, reader: Reader, named: Iterable[str]) -> None:
        self.reader = reader
        self.commands: set[str] = set()
        self.positions: set[int] = set()
        self.streams: set[str] = set()
        self._order: dict[str, int] = {}
        self._gone: set[str] = set()
        waiting = set(named)
        while waiting:
            fresh = {position for command in waiting for position in self._add(command)}
            concerned = {self.reader.event(position).stream for position in fresh} - {LEDGER_STREAM}
            self.streams |= concerned
            waiting = self._caused(fresh) | {each for stream in concerned for each in self._built_on(stream)}
            waiting |= {each for stream in sorted(concerned - self._gone) for each in self._gone_with(stream)}
            waiting |= {each for position in fresh for each in self._read_in(self.reader.event(position))}
            waiting -= self.commands

    @property
    def in_order(self) -> list[str]:
        return sorted(self.commands, key=self._order.__getitem__)

    def later_than(self, named: Collection[str]) -> list[str]:
        """The commands that built on those named; not those of which nothing is in force any more."""
        return [command for command in self.in_order if command not in named and self._is_in_force(command)]

    def _is_in_force(self, command: str) -> bool:
        entries = audit.of_command(self.reader.connection, command)
        return any(entry.position in self.positions and not self.reader.is_out(entry.position) for entry in entries)

    def _add(self, command: str) -> list[int]:
        """Takes a command in; the positions that this puts out of force."""
        entries = audit.of_command(self.reader.connection, command)
        self.commands.add(command)
        self._order[command] = entries[0].position
        fresh = [entry.position for entry in entries if self._falls(entry)]
        self.positions |= set(fresh)
        return fresh

    def _falls(self, entry: audit.Entry) -> bool:
        if (entry.type in NAMES and entry.command != "register_project") or entry.type in LASTING + _ACTS:
            return False
        return CommandUndone.__name__ not in control.acts(self.reader.connection, entry.position).values()

    def _caused(self, positions: Iterable[int]) -> set[str]:
        """The commands that reacted; what they did to observations may rest on other sources, and is stale at the worst."""
        caused = (self.reader.caused_by(self.reader.event(position)) for position in positions)
        found = (entry for entries in caused for entry in entries if not entry.subject.startswith("o_"))
        return {entry.command_id for entry in found if not self.reader.is_out(entry.position)}

    def _built_on(self, stream: str) -> set[str]:
        """The commands whose events no longer make sense on what the subject becomes; where it will not be there, also those
        that are out of force."""
        family, state, found = FAMILIES[ids.kind_of(stream)], None, set[str]()
        for event in self.reader.counting(stream, self.positions):
            if family.admits(state, event.data):
                state = family.evolve(state, event)
            else:
                found.add(event.envelope.command_id)
        if self.reader.state(stream, self.positions, EVERYTHING) is None:
            left = self.reader.counting(stream, self.positions, EVERYTHING)
            found |= {event.envelope.command_id for event in left if event.type not in LASTING + WITHOUT_EFFECT}
        if ids.kind_of(stream) == "s":
            found |= self._said_without(stream)
        return found

    def _said_without(self, session: str) -> set[str]:
        """The commands of a session that were built on what is gone."""
        left = senseless(self.reader, session, self.positions, (), self._gone.__contains__)
        return {event.envelope.command_id for event in left}

    def _gone_with(self, stream: str) -> set[str]:
        """Where a subject goes: the memories with no other source, and the commands about a project."""
        if self.reader.state(stream, self.positions) is not None:
            left = {"m": [stream], "o": self.reader.citing(stream)}.get(ids.kind_of(stream), ())
            return {event.envelope.command_id for event in self._unsupported(left)}
        self._gone.add(stream)
        found = {event.envelope.command_id for event in self._unsupported(self.reader.resting_on(stream))}
        if ids.kind_of(stream) == "i":
            for session in sessions_of(self.reader, stream):
                found |= self._said_without(session)
        if ids.kind_of(stream) == "m":
            joined = (
                each for other in self.reader.joining(stream) for each in self.reader.counting(other, self.positions)
            )
            found |= {each.envelope.command_id for each in joined if rests_on(each.data, {stream})}
        if ids.kind_of(stream) == "p":
            entries = self.reader.about(stream)
            found |= {entry.command_id for entry in entries if entry.position not in self.positions}
        return found

    def _unsupported(self, memories: Iterable[str]) -> Iterable[AnyEvent]:
        """The attempts at memories that cite something, and stand on nothing any more; of those out of force the ones that
        would not, whatever is put back later."""
        for memory in memories:
            for event, counts in self.reader.stream(memory):
                if event.position in self.positions or not isinstance(event.data, ATTEMPTS):
                    continue
                sources, also = event.data.sources, () if counts else EVERYTHING
                stood = any(self.reader.stands(source, (), also) for source in sources)
                if stood and not any(self.reader.stands(source, self.positions, also) for source in sources):
                    yield event

    def _read_in(self, added: AnyEvent) -> set[str]:
        """Where a chunk goes of a document that stays, or a message of a session: the memories with no other source."""
        if isinstance(added.data, ChunkAdded):
            citing = self.reader.resting_on(added.data.chunk)
            return {event.envelope.command_id for event in self._unsupported(citing)}
        if not isinstance(added.data, MessageAppended):
            return set()
        found = self.reader.found_in(added.stream).get(added.position, ())
        events = (event for memory in found for event in self.reader.counting(memory, self.positions))
        return {
            event.envelope.command_id for event in events if is_unsaid(self.reader, event, self._is_out, self._is_gone)
        }

    def _is_out(self, position: int) -> bool:
        return position in self.positions or self.reader.is_out(position)

    def _is_gone(self, subject: str) -> bool:
        return not self.reader.stands(subject, self.positions)


class _World:
    """The log without what ``out`` holds: as it is, with some events ``again``; or whatever is put back later. In it the
    ``gone`` are no more."""

    def __init__(self, reader: Reader, out: Collection[int], again: Collection[int], gone: set[str]) -> None:
        self.reader, self.out, self.again, self.gone = reader, out, again, gone

    def counting(self, stream: str) -> list[AnyEvent]:
        return self.reader.counting(stream, self.out, self.again)

    def unsupported(self, event: AnyEvent) -> bool:
        """Whether an event fits its subject, and yet falls with what it was made of."""
        data = event.data
        if isinstance(data, ATTEMPTS):
            return self.reader.is_unsupported(event, self.out, self.again, self.gone)
        if isinstance(data, MemorySuperseded | EdgeRetired):
            return data.by in self.gone
        if isinstance(data, EdgeAsserted):
            members = self.reader.members_of(event)
            return bool(members) and not any(self._says(each, event) for each in members)
        if isinstance(data, _JOINING):
            return rests_on(data, self.gone)
        return isinstance(data, MemoryReinforced) and data.interaction in self.gone

    def _says(self, memory: str, edge: AnyEvent) -> bool:
        """Whether a memory would have had the edge when another took it over from it."""
        state = None
        for event in self.counting(memory):
            if event.position < edge.position:
                state = FAMILIES["m"].evolve(state, event)
        said = edge.data
        form = (name_form(said.source or ""), said.relation, name_form(said.target or ""))
        return state is not None and any(each.form == form for each in state.edges)


class SourcePlan:
    """What a source recorded and all it caused, event by event; other people's acts stay, where they still make sense.

    ``base`` is what the source recorded. ``out`` falls, ``acts`` are the undos of the source that are taken back, and ``gone``
    the subjects that cease to be. Of others ``senseless`` are the events that do not fit what their subject would be, and
    ``groundless`` those on a subject that would not be there: they would change nothing, and are out of force so that nobody
    takes them for what was built on it.
    """

    def __init__(self, reader: Reader, base: Iterable[int], gone: Iterable[str] = ()) -> None:
        self.reader, self.base = reader, frozenset(base)
        self.out: set[int] = set()
        self.acts: dict[str, None] = {}
        self.again: set[int] = set()
        self.gone: set[str] = set(gone)
        self.senseless: list[AnyEvent] = []
        self.groundless: dict[int, AnyEvent] = {}
        self._now = _World(reader, self.out, self.again, self.gone)
        self._ever = _World(reader, self.out, EVERYTHING, set(gone))
        self._waiting: dict[str, None] = {}
        for subject in self.gone:
            self._wake(reader.resting_on(subject))
        self._take(self.base)
        self._settle()
        self.streams = {event.stream for event in map(reader.event, self.out | self.again) if is_subject(event.stream)}

    def changed(self) -> set[str]:
        """The subjects that count other events then than they do."""
        return {stream for stream in self.streams if self._now.counting(stream) != self.reader.counting(stream)}

    # --- what falls ----------------------------------------------------------------------------------------------

    def _take(self, positions: Iterable[int]) -> None:
        waiting = [position for position in positions if position not in self.out]
        while waiting:
            event = self.reader.event(waiting.pop())
            if event.position in self.out or event.type in LASTING + WITHOUT_EFFECT or self._only_a_name(event):
                if isinstance(event.data, CommandRedone | SourceTrusted):
                    waiting += [each for each in control.positions(event.data.ranges) if each not in self.out]
                continue
            if isinstance(event.data, CommandUndone):
                self._take_back(event)
                continue
            if isinstance(event.data, SourceDistrusted):
                continue  # that one is judged by itself
            self.out.add(event.position)
            if is_subject(event.stream):
                self._wake([event.stream])
            if isinstance(event.data, ChunkAdded):
                self._wake(self.reader.resting_on(event.data.chunk))
            if isinstance(event.data, MessageAppended):
                self._wake(self.reader.found_in(event.stream).get(event.position, ()))
            if isinstance(event.data, EdgeAsserted):
                self._wake(self.reader.merged_from(event.stream))
            if isinstance(event.data, _JOINING):
                command = audit.of_command(self.reader.connection, event.envelope.command_id)
                waiting += [entry.position for entry in command if not self.reader.is_out(entry.position)]
            waiting += [entry.position for entry in self.reader.caused_by(event)]

    @staticmethod
    def _only_a_name(event: AnyEvent) -> bool:
        return event.type in NAMES and event.envelope.command != "register_project"

    def _take_back(self, undo: AnyEvent) -> None:
        """An undo by the source: what it took out counts again."""
        act = act_named(self.reader.connection, undo)
        if act in self.acts:
            return
        self.acts[act] = None
        for position in control.taken_out_by(self.reader.connection, act):
            if set(control.acts(self.reader.connection, position)) <= set(self.acts):
                self.again.add(position)
                if is_subject(stream := self.reader.event(position).stream):
                    self._wake([stream])

    def _wake(self, streams: Iterable[str]) -> None:
        self._waiting |= dict.fromkeys(streams)

    def _settle(self) -> None:
        told = set[str]()  # of these, the reinforcements that name them were looked for
        while self._waiting or self.gone - told:
            while self._waiting:
                stream = next(iter(self._waiting))
                del self._waiting[stream]
                self._look_at(stream)
            fresh, told = self.gone - told, set(self.gone)
            self._take(self._reinforcements_by(fresh))

    def _look_at(self, stream: str) -> None:
        """Folds a subject without what fell; what has no support or makes no sense any more falls too."""
        family, state, fell = FAMILIES[stream[0]], None, list[int]()
        left = senseless(self.reader, stream, self.out, self.again, self.gone.__contains__) if stream[0] == "s" else []
        self.senseless += [event for event in left if isinstance(event.data, UNSAID)]
        aside = {event.position for event in left}
        for event in self._now.counting(stream):
            if event.position in aside or self._now.unsupported(event):
                fell.append(event.position)
            elif not family.admits(state, event.data):
                fell.append(event.position)
                if state is not None:
                    self.senseless.append(event)
                else:
                    self.groundless[event.position] = event
            else:
                state = family.evolve(state, event)
        self._take(fell)
        self._wake(self.reader.citing(stream) if stream[0] == "o" else ())  # it may have lost what bore it out
        self._end(stream, state, self._now)
        self._hold(stream)

    def _hold(self, stream: str) -> None:
        """What is out of force already, and would fall as well were it in force: a redo does not bring it back then.

        Of conversations a redo itself looks whether they still fit.
        """
        family, state, held = FAMILIES[stream[0]], None, list[int]()
        in_force = {event.position for event in self._now.counting(stream)}
        for event in self._ever.counting(stream) if stream[0] != "s" else ():
            if self._ever.unsupported(event) or (state is None and not family.admits(state, event.data)):
                held += [event.position] if event.position not in in_force else []
            elif family.admits(state, event.data):
                state = family.evolve(state, event)
        self._take(held)
        self._end(stream, state, self._ever)

    def _end(self, stream: str, state: Any, world: _World) -> None:
        if state is not None or stream in world.gone:
            return
        world.gone.add(stream)
        self._wake(self.reader.resting_on(stream))
        self._wake(self.reader.joining(stream) if stream[0] == "m" else ())
        self._wake(self._predecessors(stream))
        self._wake(sessions_of(self.reader, stream) if stream[0] == "i" else ())

    def _predecessors(self, gone: str) -> list[str]:
        """The memories that the events of a subject superseded in the same command, or whose edges they retired."""
        commands = {
            event.envelope.command_id
            for event, _ in self.reader.stream(gone)
            if hasattr(event.data, "supersedes") or isinstance(event.data, EdgeAsserted | MemoryPromoted)
        }
        entries = [entry for each in commands for entry in audit.of_command(self.reader.connection, each)]
        return [entry.subject for entry in entries if entry.type in _TAKING_ITS_PLACE]

    def _reinforcements_by(self, interactions: Collection[str]) -> list[int]:
        """Reinforcements that people gave with one of these interactions as evidence; a policy's are caused by it."""
        if not interactions:
            return []
        sql = "SELECT position, interaction FROM confidence_steps WHERE interaction IS NOT NULL AND matcher IS NULL"
        return [position for position, named in self.reader.connection.execute(sql) if named in interactions]


def act_named(connection: Any, event: AnyEvent) -> str:
    """The act that an undo or a distrust is or belongs to: its command, or the one that began the bulk."""
    began = event.envelope.correlation_id
    first = audit.by_event(connection, began) if began else None
    is_part = first is not None and any(
        entry.type == "BulkStarted" for entry in audit.of_command(connection, first.command_id)
    )
    if not is_part or not began:
        return event.envelope.command_id
    end = finished_at(connection, began)  # after that anybody may name it as the correlation of something else
    return began if end is None or event.position < end else event.envelope.command_id
