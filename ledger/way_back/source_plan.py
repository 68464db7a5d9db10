"""What falls with a source: all that it recorded and caused, and what has no support or makes no sense without that.

A plan is made on one snapshot and changes nothing; it goes on until nothing more falls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from ledger.domain.entities import name_form
from ledger.domain.events import (
    AnyEvent,
    ChunkAdded,
    CommandRedone,
    CommandUndone,
    ConflictResolved,
    EdgeAsserted,
    EdgeRetired,
    MemoriesMerged,
    MemoryPromoted,
    MemoryReinforced,
    MemorySuperseded,
    MessageAppended,
    SourceDistrusted,
    SourceTrusted,
)
from ledger.way_back.conversations import UNSAID, senseless, sessions_of
from ledger.way_back.in_force import (
    ATTEMPTS,
    EVERYTHING,
    LASTING,
    NAMES,
    WITHOUT_EFFECT,
    Reader,
    act_named,
    is_subject,
    rests_on,
)
from projections import audit, control
from projections.projector import FAMILIES

_JOINING = (MemoriesMerged, ConflictResolved)  # of several memories: without one of them the whole command falls
_TAKING_ITS_PLACE = ("MemorySuperseded", "EdgeRetired")


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
            self._take(each for gone in sorted(fresh) for each in self.reader.reinforced_by(gone))

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
        if stream[0] == "s":
            return
        family, state, held = FAMILIES[stream[0]], None, list[int]()
        in_force = {event.position for event in self._now.counting(stream)}
        for event in self._ever.counting(stream):
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
