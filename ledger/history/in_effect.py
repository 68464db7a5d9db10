"""The log as a plan reads it: what is in effect, what it would come to without some events or with others put back, and what
rests on what."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from ledger.domain.errors import UnknownEventError
from ledger.domain.events import (
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
from ledger.domain.ids import message_place
from ledger.domain.observation import NO_EVIDENCE, supports
from ledger.engine.log_reading import read_event, read_stream
from ledger.history.citations import ATTEMPTS, Citations
from projections.core.projector import FAMILIES
from projections.core.rows import Connection
from projections.views import audit, confidence, conflicts, control, documents, merges, observations

NAMES = type_names(of(effect="name"))  # others may use a name by now; an unused one harms nobody
LASTING = type_names((*of(effect="lasting"), *PUT_BACK))  # what nothing takes back, or only an act of its own
INERT = type_names(of(effect="inert"))
_RESTING = type_names(of(falls_with_cause=False))


class Reader:
    """The log and what is in effect, through one connection; what was read once is kept.

    What is in ``back`` counts as in effect, whatever keeps it out.
    """

    def __init__(self, connection: Connection, back: Collection[int] = ()) -> None:
        self.connection, self._back = connection, frozenset(back)
        self.citations = Citations(connection)
        self._events: dict[int, AnyEvent] = {}
        self._streams: dict[str, list[tuple[AnyEvent, bool]]] = {}
        self._were_out: dict[str, dict[int, list[tuple[int, int]]]] = {}
        self._found_in: dict[str, dict[int, list[str]]] = {}
        self._commands: dict[str, list[audit.Entry]] = {}

    def event(self, position: int) -> AnyEvent:
        if position not in self._events:
            event = read_event(self.connection, position)
            assert event is not None
            self._events[position] = event
        return self._events[position]

    def command(self, event: AnyEvent) -> list[audit.Entry]:
        """All that the command of an event did, in order."""
        command_id = event.envelope.command_id
        if command_id not in self._commands:
            self._commands[command_id] = audit.command_at(self.connection, event.position)
        return self._commands[command_id]

    def stream(self, stream: str) -> list[tuple[AnyEvent, bool]]:
        """The events of a subject, each with whether it is in effect; nothing is decided about what cannot be read."""
        if stream not in self._streams:
            sql = "SELECT o.position FROM events e CROSS JOIN voided o ON o.position = e.position WHERE e.stream = ?"
            out = {position for (position,) in self.connection.execute(sql, (stream,))} - self._back
            events = read_stream(self.connection, stream, 2**62)
            if any(isinstance(event.data, Unknown) for event in events):
                raise UnknownEventError(f"{stream} holds an event of a newer version, so nothing in it can become void")
            self._streams[stream] = [(event, event.position not in out) for event in events]
        return self._streams[stream]

    def was_out(self, stream: str) -> dict[int, list[tuple[int, int]]]:
        """The positions of a stream that were ever void, each with from where to where in the log."""
        if stream not in self._were_out:
            found: dict[int, list[tuple[int, int]]] = {}
            for table, until in (("voided", 2**62), ("were_voided", "o.to_position")):
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
        if (message := message_place(subject)) is not None:
            session, position = message
            appended = [
                (each, counts) for each, counts in self.stream(session) if each.position in (position, each.first)
            ]
            return len(appended) < 2 or any(
                each.position in but or not (counts or each.position in also) for each, counts in appended
            )
        return is_subject(subject) and self.state(subject, but, also) is None

    def stands(
        self, subject: str, but: Collection[int] = (), also: Collection[int] = (), gone: Collection[str] = ()
    ) -> bool:
        """Whether a subject that is cited is there, and rests in the end on something else than itself.

        A memory rests on what any attempt at it cites, an observation on what supports it. What goes round in a circle of
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
            for sources in self._underlying(each, but, also):
                if not sources:
                    return True
                waiting += sources
        return False

    def _underlying(self, subject: str, but: Collection[int], also: Collection[int]) -> Iterable[Sequence[str]]:
        """What a memory or an observation rests on, each by itself enough; with nothing in it, on itself."""
        if subject[0] == "o":
            evidence = [each for each, _ in supports(self.counting(subject, but, also)).values()]
            counting = [each.source for each in evidence if not each.withdrawn] or [each.source for each in evidence]
            if counting and self.state(subject, but, also) is not None:
                yield counting
            return

        def is_out(position: int) -> bool:
            return position in but or (position not in also and self.is_out(position))

        for event in self.counting(subject, but, also):
            if isinstance(event.data, ATTEMPTS):
                sources: Sequence[str] = event.data.sources
                if has_lost_its_message(self, event, is_out, lambda source: True):  # what it was found in is not there
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
        return (bool(sources) and all(map(is_gone, sources))) or has_lost_its_message(self, attempt, is_out, is_gone)

    def citing(self, subject: str) -> list[str]:
        """The memories that cite a subject, or a chunk of it, as a source, or did when they were not undone."""
        return [self.event(row).stream for row in documents.dependents(self.connection, subject)]

    def resting_on(self, subject: str) -> list[str]:
        """The memories that cite a subject, a chunk of it, or an observation that one of these or a message supports."""
        found = dict.fromkeys(self.citing(subject))
        for source in (subject, *observations.parts(self.connection, subject)):
            for row in observations.ever_supported_by(self.connection, source):
                found |= dict.fromkeys(self.citing(self.event(row).stream))
        return list(found)

    def found_in(self, session: str) -> dict[int, list[str]]:
        """The memories that rest on each message of a session, by its position."""
        if session not in self._found_in:
            self._found_in[session] = self.citations.memories(session)
        return self._found_in[session]

    def cause_of(self, event: AnyEvent) -> int | None:
        """The position of what an event reacted to, where it falls with that."""
        cause = event.envelope.causation_id
        entry = audit.by_event(self.connection, cause) if cause is not None and event.type not in _RESTING else None
        return entry.position if entry is not None and entry.user == event.envelope.user else None

    def caused_by(self, event: AnyEvent) -> list[audit.Entry]:
        """What reacted to an event, within the memory of the same user.

        An observation that was formed or supported is not among it: that rests on its sources, and one that is no longer
        live supports it no longer, without any event.
        """
        found = audit.caused_by(self.connection, event.envelope.event_id)
        return [entry for entry in found if entry.user == event.envelope.user and entry.type not in _RESTING]

    def reinforced_by(self, interaction: str) -> list[int]:
        """The reinforcements that people gave with an interaction as evidence, in effect or not: they fall with it."""
        return confidence.given_for(self.connection, interaction)

    def restated_by(self, interaction: str) -> list[str]:
        """The memories that an interaction was found to restate: what they were reinforced by rests on it."""
        found = (event.data for event, _ in self.stream(interaction) if isinstance(event.data, ReinforcementEvaluated))
        return [each.memory for data in found for each in data.matches]

    def joining(self, memory: str) -> list[str]:
        """The merges and conflicts that a memory is a member of."""
        rows = (*merges.ever_about(self.connection, memory), *conflicts.ever_about(self.connection, memory))
        return [self.event(row).stream for row in rows]

    def members_of(self, edge: AnyEvent) -> tuple[str, ...]:
        """Of an edge that a merged memory has: the memories that it was taken over from, for only theirs are."""
        if not follows(edge):
            return ()
        entries = self.command(edge)
        merged = (self.event(entry.position).data for entry in entries if entry.type == MemoriesMerged.__name__)
        return next((data.memories for data in merged if data.memory == edge.stream), ())

    def merged_from(self, memory: str) -> set[str]:
        """The memories that this one was merged into."""
        merged = (event.data for merge in self.joining(memory) for event, _ in self.stream(merge))
        return {data.memory for data in merged if isinstance(data, MemoriesMerged)}

    def is_out(self, position: int) -> bool:
        return position not in self._back and bool(control.voided(self.connection, position, position))


def has_lost_its_message(
    reader: Reader, event: AnyEvent, is_out: Callable[[int], bool], is_gone: Callable[[str], bool]
) -> bool:
    """Whether a memory rests on a message that is void, and no captured turn has its text still."""
    for position in reader.citations.behind(event):
        if is_out(position):
            turn = getattr(reader.event(position).data, "interaction", None)
            if turn is None or is_gone(turn):
                return True
    return False


def use_of(reader: Reader, registered: AnyEvent, is_out: Callable[[int], bool]) -> AnyEvent | None:
    """Something besides what falls that is in a project, about it, or cites it: then the name stands, whoever registered it."""
    project, idle = registered.stream, INERT + LASTING
    sql = "SELECT position, type FROM audit WHERE project = ? ORDER BY position"
    used = [at for at, type_ in reader.connection.execute(sql, (project,)) if type_ not in idle]
    cited = (event for memory in reader.citing(project) for event, _ in reader.stream(memory))
    used += [event.position for event in cited if isinstance(event.data, ATTEMPTS) and project in event.data.sources]
    found = next((at for at in used if at != registered.position and not is_out(at)), None)
    return reader.event(found) if found is not None else None


def follows(event: AnyEvent) -> bool:
    """Whether an event is no act of anybody but only followed from what there was, so that it goes and comes back without its
    command: a relation that a merge copied, an observation's retirement for want of evidence, or into another, or what one of
    the memories gained that a response restates, for each of them has it by itself."""
    if isinstance(event.data, MemoryReinforced):
        return event.data.matcher is not None
    if isinstance(event.data, ObservationRetracted):
        return event.data.why in (NO_EVIDENCE, "merged")
    return isinstance(event.data, RelationAdded) and event.envelope.command in ("merges.apply", "merges.combine")


def is_subject(stream: str) -> bool:
    return stream[1:2] == "_" and stream[0] in FAMILIES


class _Everything(frozenset[int]):
    """All positions, whatever they are."""

    def __contains__(self, position: object) -> bool:
        return True


EVERYTHING = _Everything()
