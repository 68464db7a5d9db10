"""The log as an undo or a distrust reads it: the events in effect, and the subjects that rest on other subjects.

Most methods answer for a supposed log: ``without`` are positions of events that are taken as void, and ``restored`` are
positions of void events that are taken as in effect. ``without`` wins. With neither the answer is for the log as it is.

An attempt at a memory is an event that states the memory: the first statement, or a later equal statement that the
memory absorbed. A memory exists as long as one attempt is in effect, so each attempt has sources of its own.

A consequence is an event that nobody asked for, and that only followed from other events, such as a relation that a
merged memory took over from its members. A consequence can fall without the rest of its command.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from ledger.core.reads import read_event, read_stream
from ledger.domain.errors import UnknownEventError
from ledger.domain.ids import message_place
from ledger.events import (
    PUT_BACK,
    AnyEvent,
    MemoriesMerged,
    MemoryReinforced,
    ObservationRetracted,
    ReinforcementEvaluated,
    RelationAdded,
    Unknown,
    of,
    type_names,
)
from ledger.history.citations import ATTEMPTS, Citations
from ledger.observations.rules import FOLLOWING, supports
from projections.core.projector import FAMILIES
from projections.core.rows import Connection
from projections.views import audit, confidence, conflicts, control, documents, merges, observations

NAMES = type_names(of(effect="name"))  # a name stays, but for the registration of a project that no event uses any more
LASTING = type_names(
    (*of(effect="lasting"), *PUT_BACK)
)  # an undo cannot name such an event; a new undo or distrust reverses a redo or a trust
INERT = type_names(of(effect="inert"))  # such events report something and change no subject
_INDEPENDENT_OF_CAUSE = type_names(of(falls_with_cause=False))


class Reader:
    """The log and the events in effect, read through one connection and cached.

    The events at the positions ``restored`` count as in effect in every answer, whatever act made them void.
    """

    def __init__(self, connection: Connection, restored: Collection[int] = ()) -> None:
        self.connection = connection
        self._restored = frozenset(restored)
        self.citations: Citations = Citations(connection)
        self._events: dict[int, AnyEvent] = {}
        self._streams: dict[str, list[tuple[AnyEvent, bool]]] = {}
        self._void_spans: dict[str, dict[int, list[tuple[int, int]]]] = {}
        self._found_in: dict[str, dict[int, list[str]]] = {}
        self._commands: dict[str, list[audit.AuditRow]] = {}

    def event(self, position: int) -> AnyEvent:
        if position not in self._events:
            event = read_event(self.connection, position)
            assert event is not None
            self._events[position] = event
        return self._events[position]

    def command(self, event: AnyEvent) -> list[audit.AuditRow]:
        """Return the entries of an event's command, in order."""
        command_id = event.envelope.command_id
        if command_id not in self._commands:
            self._commands[command_id] = audit.command_at(self.connection, event.position)
        return self._commands[command_id]

    def stream(self, stream: str) -> list[tuple[AnyEvent, bool]]:
        """Return the events of a subject, each with True if the event is in effect.

        Raises:
            UnknownEventError: This version cannot read an event of the subject, so nothing is decided about it.
        """
        if stream not in self._streams:
            sql = "SELECT o.position FROM events e CROSS JOIN voided o ON o.position = e.position WHERE e.stream = ?"
            void = {position for (position,) in self.connection.execute(sql, (stream,))} - self._restored
            events = read_stream(self.connection, stream, 2**62)
            if any(isinstance(event.data, Unknown) for event in events):
                raise UnknownEventError(
                    f"{stream} has an event of a newer version of memory-ledger, so this version can make none of its"
                    " events void or put them back"
                )
            self._streams[stream] = [(event, event.position not in void) for event in events]
        return self._streams[stream]

    def void_spans(self, stream: str) -> dict[int, list[tuple[int, int]]]:
        """Return the positions of a stream that were ever void, each with the spans of the log in which they were."""
        if stream not in self._void_spans:
            spans: dict[int, list[tuple[int, int]]] = {}
            for table, until in (("voided", 2**62), ("were_voided", "o.to_position")):
                sql = (
                    f"SELECT o.position, o.from_position, {until} FROM events e"
                    f" CROSS JOIN {table} o ON o.position = e.position WHERE e.stream = ?"
                )
                for position, since, to in self.connection.execute(sql, (stream,)):
                    spans.setdefault(position, []).append((since, to))
            self._void_spans[stream] = spans
        return self._void_spans[stream]

    def events_in_effect(
        self, stream: str, without: Collection[int] = (), restored: Collection[int] = ()
    ) -> list[AnyEvent]:
        """Return the events of a subject that are in effect."""
        return [
            event
            for event, in_effect in self.stream(stream)
            if (in_effect or event.position in restored) and event.position not in without
        ]

    def state(self, stream: str, without: Collection[int] = (), restored: Collection[int] = ()) -> Any:
        """Return the state of a subject, or None if the subject does not exist."""
        family, state = FAMILIES[stream[0]], None
        for event in self.events_in_effect(stream, without, restored):
            state = family.evolve(state, event)
        return state

    def exists(self, subject: str, without: Collection[int] = (), restored: Collection[int] = ()) -> bool:
        """Return True if a cited subject exists.

        A cited id of a kind that this version does not know counts as existing. A chunk exists as long as the event
        that added the chunk is in effect, even if a newer text of the document no longer has the chunk.
        """

        def are_in_effect(events: Iterable[tuple[AnyEvent, bool]]) -> bool:
            return all(
                (in_effect or event.position in restored) and event.position not in without
                for event, in_effect in events
            )

        if subject.startswith("c_") and (place := documents.place_of(self.connection, subject)) is not None:
            added = self.event(place[0])
            events = self.stream(added.stream)
            return are_in_effect([events[0], events[added.version - 1]])  # the document's first event, and the addition
        if (message := message_place(subject)) is not None:
            session, position = message
            appended = [pair for pair in self.stream(session) if pair[0].position in (position, pair[0].first)]
            return len(appended) >= 2 and are_in_effect(appended)  # the session's first event, and the message
        return not is_subject(subject) or self.state(subject, without, restored) is not None

    def is_grounded(
        self, subject: str, without: Collection[int] = (), restored: Collection[int] = (), gone: Collection[str] = ()
    ) -> bool:
        """Return True if a cited subject exists and rests, in the end, on a source outside memories and observations.

        A memory rests on the sources of any attempt at it, an observation on its supports. Memories and observations
        that cite only each other in a circle rest on nothing. The subjects ``gone`` count as not existing.
        """
        seen, waiting = set[str](), [subject]
        while waiting:
            source = waiting.pop()
            if source in seen or source in gone:
                continue
            seen.add(source)
            if source[:2] not in ("m_", "o_"):
                if self.exists(source, without, restored):
                    return True
                continue
            for sources in self._grounds(source, without, restored):
                if not sources:
                    return True
                waiting += sources
        return False

    def _grounds(self, subject: str, without: Collection[int], restored: Collection[int]) -> Iterable[Sequence[str]]:
        """Yield the sources of each attempt at a memory, or of an observation; any source of any group is enough.

        An empty group means that the memory was stated without any source, which is ground enough.
        """
        if subject[0] == "o":
            evidence = [support for support, _ in supports(self.events_in_effect(subject, without, restored)).values()]
            not_withdrawn = [support.source for support in evidence if not support.withdrawn]
            # An observation may exist though all its sources were withdrawn. Then the sources that it ever had count.
            supporting = not_withdrawn or [support.source for support in evidence]
            if supporting and self.state(subject, without, restored) is not None:
                yield supporting
            return

        def is_void(position: int) -> bool:
            return position in without or (position not in restored and self.is_void(position))

        for event in self.events_in_effect(subject, without, restored):
            if isinstance(event.data, ATTEMPTS):
                sources: Sequence[str] = event.data.sources
                # A memory that was found in a message cites the session of the message. If the message is void, the session
                # is no ground. A captured turn with the same text is a source of its own and needs no look here.
                if has_lost_its_message(self, event, is_void, lambda turn: True):
                    sources = [source for source in sources if not source.startswith("s_")]
                    if not sources:
                        continue
                yield sources

    def has_lost_its_ground(
        self,
        attempt: AnyEvent,
        without: Collection[int] = (),
        restored: Collection[int] = (),
        gone: Collection[str] = (),
    ) -> bool:
        """Return True if an attempt at a memory has lost its ground.

        The ground is lost if the attempt cites sources and none of the sources is grounded, or if the message in which
        the memory was found is void and no captured turn with the text of the message is grounded.
        """

        def is_void(position: int) -> bool:
            return position in without or (position not in restored and self.is_void(position))

        def is_groundless(subject: str) -> bool:
            return not self.is_grounded(subject, without, restored, gone)

        sources = attempt.data.sources
        lost_all_sources = bool(sources) and all(map(is_groundless, sources))
        return lost_all_sources or has_lost_its_message(self, attempt, is_void, is_groundless)

    def citing(self, subject: str) -> list[str]:
        """Return the memories that cite a subject or one of its chunks as a source, in effect or not."""
        return [self.event(row).stream for row in documents.dependents(self.connection, subject)]

    def resting_on(self, subject: str) -> list[str]:
        """Return the memories that rest on a subject.

        These are the memories that cite the subject, one of its chunks, or an observation that the subject or one of
        its parts supports.
        """
        memories = dict.fromkeys(self.citing(subject))
        for source in (subject, *observations.parts(self.connection, subject)):
            for row in observations.ever_supported_by(self.connection, source):
                memories |= dict.fromkeys(self.citing(self.event(row).stream))
        return list(memories)

    def found_in(self, session: str) -> dict[int, list[str]]:
        """Return the memories that rest on each message of a session, by the message's position."""
        if session not in self._found_in:
            self._found_in[session] = self.citations.memories(session)
        return self._found_in[session]

    def cause_of(self, event: AnyEvent) -> int | None:
        """Return the position of the event that an event reacted to, if the event falls with that cause."""
        cause = event.envelope.causation_id
        entry = (
            audit.by_event(self.connection, cause)
            if cause is not None and event.type not in _INDEPENDENT_OF_CAUSE
            else None
        )
        return entry.position if entry is not None and entry.user == event.envelope.user else None

    def caused_by(self, event: AnyEvent) -> list[audit.AuditRow]:
        """Return the entries that reacted to an event, within the memory of the same user.

        The forming and supporting of observations is left out: an observation rests on its sources, and a source that
        is no longer live stops supporting it without any event.
        """
        caused = audit.caused_by(self.connection, event.envelope.event_id)
        return [
            entry for entry in caused if entry.user == event.envelope.user and entry.type not in _INDEPENDENT_OF_CAUSE
        ]

    def reinforced_by(self, interaction: str) -> list[int]:
        """Return the reinforcements that people gave with an interaction as evidence, which fall with it."""
        return confidence.given_for(self.connection, interaction)

    def restated_by(self, interaction: str) -> list[str]:
        """Return the memories that an interaction was found to restate; their reinforcement rests on it."""
        events = (event.data for event, _ in self.stream(interaction))
        evaluations = (data for data in events if isinstance(data, ReinforcementEvaluated))
        return [match.memory for data in evaluations for match in data.matches]

    def joining(self, memory: str) -> list[str]:
        """Return the merges and conflicts that a memory is a member of."""
        rows = (*merges.ever_about(self.connection, memory), *conflicts.ever_about(self.connection, memory))
        return [self.event(row).stream for row in rows]

    def members_of(self, edge: AnyEvent) -> tuple[str, ...]:
        """Return the memories from which a merged memory took over a relation; empty for any other relation."""
        if not is_consequence(edge):
            return ()
        entries = self.command(edge)
        merged = (self.event(entry.position).data for entry in entries if entry.type == MemoriesMerged.__name__)
        return next((data.memories for data in merged if data.memory == edge.stream), ())

    def merged_into(self, memory: str) -> set[str]:
        """Return the memories that this memory was merged into."""
        merged = (event.data for merge in self.joining(memory) for event, _ in self.stream(merge))
        return {data.memory for data in merged if isinstance(data, MemoriesMerged)}

    def is_void(self, position: int) -> bool:
        return position not in self._restored and bool(control.voided(self.connection, position, position))


def has_lost_its_message(
    reader: Reader, event: AnyEvent, is_void: Callable[[int], bool], is_lost: Callable[[str], bool]
) -> bool:
    """Return True if a memory rests on a void message, and the captured turn with the same text is lost or missing."""
    for position in reader.citations.behind(event):
        if is_void(position):
            turn = getattr(reader.event(position).data, "interaction", None)
            if turn is None or is_lost(turn):
                return True
    return False


def first_use(reader: Reader, registered: AnyEvent, is_no_use: Callable[[int], bool]) -> AnyEvent | None:
    """Return the first event that uses a registered project, or None.

    An event uses a project if it is in the project, is about the project, or cites the project. While an event uses the
    project, the registration stays, whoever registered the project.
    """
    project, never_uses = registered.stream, INERT + LASTING
    sql = "SELECT position, type FROM audit WHERE project = ? ORDER BY position"
    uses = [position for position, type_ in reader.connection.execute(sql, (project,)) if type_ not in never_uses]
    citing = (event for memory in reader.citing(project) for event, _ in reader.stream(memory))
    uses += [event.position for event in citing if isinstance(event.data, ATTEMPTS) and project in event.data.sources]
    position = next((use for use in uses if use != registered.position and not is_no_use(use)), None)
    return reader.event(position) if position is not None else None


def is_consequence(event: AnyEvent) -> bool:
    """Return True if an event is a consequence: nobody asked for the event, which only followed from other events.

    Such an event falls and returns without the rest of its command. Consequences are the relations that a merge copied,
    the retraction of an observation for want of evidence or into another observation, and the reinforcement of a memory
    that a response restates, because each restated memory is reinforced independently of the others.
    """
    if isinstance(event.data, MemoryReinforced):
        return event.data.matcher is not None
    if isinstance(event.data, ObservationRetracted):
        return event.data.why in FOLLOWING
    return isinstance(event.data, RelationAdded) and event.envelope.command in ("merges.apply", "merges.combine")


def is_subject(stream: str) -> bool:
    return stream[1:2] == "_" and stream[0] in FAMILIES


class _EveryPosition(frozenset[int]):
    """A set that contains every position."""

    def __contains__(self, position: object) -> bool:
        return True


EVERY_POSITION = _EveryPosition()
