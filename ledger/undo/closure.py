"""The events that fall with the events of an act: the smallest set, derived in the order of the log.

An event falls if the act names it, or if something that it came from falls (its cause, its command, or what it cites,
joins or copies), or if it does not fit its subject as the remaining earlier events left it.

First the events that fall because something else is gone are closed over. Then the events that do not fit are derived
again for each subject from its first event. If an event fits after all, the derivation starts again from the named
events. So the result depends on the log and the act, and never on the order of work.

A plan is made on one snapshot and changes nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from itertools import count
from typing import Any

from ledger.domain.ids import message_id, shortened
from ledger.english.entities import name_form
from ledger.events import (
    AnyEvent,
    ChunkAdded,
    MemoriesMerged,
    MemoryPromoted,
    MemorySuperseded,
    MessageAppended,
    ObservationRetracted,
    RelationAdded,
    RelationRemoved,
    ids_in,
)
from ledger.history.citations import ATTEMPTS
from ledger.observations.rules import NO_EVIDENCE, supports
from ledger.undo.conversations import senseless, sessions_of
from ledger.undo.in_effect import EVERYTHING, NAMES, Reader, is_subject, use_of
from projections.core.projector import FAMILIES
from projections.views import audit, control, memories, observations

ROUNDS = 20  # then every event that ever failed to fit stays out; two events may each fit only without the other
_TAKING_ITS_PLACE = ("MemorySuperseded", "RelationRemoved", "MemoriesMerged")
Unfit = dict[int, tuple[AnyEvent, Any]]  # an event, and the state of its subject that the event does not fit


class World:
    """The log without the events ``out`` and with the events ``again``; the subjects ``gone`` do not exist in it.

    The sets are shared with the closure, so the world changes as events fall.
    """

    def __init__(self, reader: Reader, out: Collection[int], again: Collection[int], gone: Iterable[str]) -> None:
        self.reader, self.out, self.again = reader, out, again
        self.gone = set(gone)

    def counting(self, stream: str) -> list[AnyEvent]:
        return self.reader.counting(stream, self.out, self.again)

    def is_unsupported(self, event: AnyEvent) -> bool:
        """Return True if an event falls with what it was made of."""
        if isinstance(event.data, ATTEMPTS):
            return self.reader.is_unsupported(event, self.out, self.again, self.gone)
        return not self.gone.isdisjoint(ids_in(event.data, "rests_on"))

    def has_support(self, retracted: AnyEvent) -> bool:
        """Return True if an observation that was retracted for want of evidence would have had evidence after all.

        Evidence is a live source that it does not have in the log as it is.
        """
        return bool(self._proofs(retracted) - World(self.reader, (), (), ())._proofs(retracted))

    def _proofs(self, retracted: AnyEvent) -> set[str]:
        before = [event for event in self.counting(retracted.stream) if event.position < retracted.position]
        counted = {support.source for support, _ in supports(before).values() if not support.withdrawn}
        return {source for source in counted if self._is_live(source, retracted.position)}

    def _is_live(self, source: str, position: int) -> bool:
        if source[0] != "m":
            return not self.reader.is_gone(source, self.out, self.again)
        state = self._before(source, position)
        return state is not None and state.status == "active" and not state.quarantined

    def _before(self, memory: str, position: int) -> Any:
        """Return the state that a memory would have had just before an event."""
        state = None
        for event in self.counting(memory):
            if event.position < position:
                state = FAMILIES["m"].evolve(state, event)
        return state

    def would_have_edge(self, memory: str, edge: AnyEvent) -> bool:
        """Return True if a memory would have had the relation when another memory took it over."""
        stated, state = edge.data, self._before(memory, edge.position)
        form = (name_form(stated.subject or ""), stated.relation, name_form(stated.object or ""))
        return state is not None and any(relation.form == form for relation in state.edges)


class Closure:
    """The events ``out`` that fall, and the events ``again`` that count again because the acts that took them out fall.

    ``gone`` are the subjects that cease to exist, ``unfit`` the events that fall because they do not fit. ``_falls``
    says if an act can take out an event at all, and ``_falling_with`` names the events that go with it.
    """

    def __init__(self, reader: Reader, base: Iterable[int], gone: Iterable[str] = ()) -> None:
        self.reader, self.base, self._first_gone = reader, frozenset(base), frozenset(gone)
        self.unfit: Unfit = {}
        self._around: dict[str, list[str]] = {}  # the subjects to look at when a subject is no more
        self._begin()
        self._derive()
        self.used: list[tuple[AnyEvent, AnyEvent]] = []  # registrations that stand, each with a use of the project
        self._let_go_of_names()
        self.streams = {event.stream for event in map(reader.event, self.out | self.again) if is_subject(event.stream)}

    @property
    def gone(self) -> set[str]:
        return self._now.gone

    def _falls(self, event: AnyEvent) -> bool:
        raise NotImplementedError

    def _falling_with(self, event: AnyEvent) -> Iterable[int]:
        raise NotImplementedError

    def _of_command(self, event: AnyEvent) -> list[audit.AuditRow]:
        """Return the entries of an event's command at the first call for the command, and nothing after."""
        command = event.envelope.command_id
        if command in self._whole:
            return []
        self._whole.add(command)
        return self.reader.command(event)

    # --- rounds --------------------------------------------------------------------------------------------------

    def _begin(self, acts: Iterable[str] = ()) -> None:
        """Start again with nothing fallen but these undos; the unfit events are kept."""
        self.out: set[int] = set()
        self.again: set[int] = set()
        self.acts: dict[str, None] = {}
        self._given_back: dict[str, None] = dict.fromkeys(acts)
        self._now = World(self.reader, self.out, self.again, self._first_gone)
        self._ever = World(self.reader, self.out, EVERYTHING, self._first_gone)
        self._waiting = OrderedDict[str, None]()  # taking first keys one by one from a dict is quadratic
        self._looked_at: dict[str, None] = {}
        self._named: dict[int, AnyEvent] = {}
        self._whole = set[str]()  # the commands whose events were all taken
        for act in list(self._given_back):
            self._count_again(act)
        for subject in sorted(self._first_gone):
            self._wake(self.reader.resting_on(subject))

    def _derive(self) -> None:
        acts = dict[str, None]()
        for rounds in count():
            unfit, before = self.unfit, acts
            self._take(self.base | unfit.keys())
            self._run()
            self.unfit, acts = self._unfit(), self.acts
            if rounds >= ROUNDS:
                self.unfit, acts = unfit | self.unfit, before | acts
            if self.unfit.keys() == unfit.keys() and acts.keys() == before.keys():
                return
            if not self.unfit.keys() >= unfit.keys() or acts.keys() != before.keys():
                self._begin(acts)

    def _run(self) -> None:
        while self._waiting:
            stream, _ = self._waiting.popitem(last=False)
            self._look_at(stream)

    def _unfit(self) -> Unfit:
        """Return the events that do not fit their subject, folded without the events that fall for other reasons."""
        unfit: Unfit = {}
        but = self.out - self.unfit.keys()
        for stream in self._looked_at:
            family, state, set_aside = FAMILIES[stream[0]], None, set[int]()
            if stream[0] == "s":
                left = senseless(self.reader, stream, but, self.again, self.gone.__contains__)
                set_aside = {event.position for event in left}
            for event in self.reader.counting(stream, but, self.again):
                fits = event.position not in set_aside and family.admits(state, event.data)
                if fits and not self._follows_no_more(event):
                    state = family.evolve(state, event)
                else:
                    unfit[event.position] = (event, state)
        return unfit

    def _follows_no_more(self, event: AnyEvent) -> bool:
        """Return True if the ground of an event that only followed is gone.

        A merged memory has a relation from its members that none of them would have, or an observation was retracted
        for want of evidence that it would have had.
        """
        if isinstance(event.data, ObservationRetracted):
            return event.data.why == NO_EVIDENCE and self._now.has_support(event)
        members = self.reader.members_of(event) if isinstance(event.data, RelationAdded) else ()
        return bool(members) and not any(self._now.would_have_edge(member, event) for member in members)

    # --- what falls because something is gone ------------------------------------------------------------------------

    def _take(self, positions: Iterable[int]) -> None:
        waiting = [position for position in positions if position not in self.out]
        while waiting:
            event = self.reader.event(waiting.pop())
            if event.position in self.out or not self._falls(event):
                continue
            if event.type in NAMES:
                self._named[event.position] = event
                continue
            self.out.add(event.position)
            self._changed(event)
            waiting += [position for position in self._falling_with(event) if position not in self.out]

    def _let_go_of_names(self) -> None:
        """Let each registered project fall that nothing else uses.

        A project that others use stands, and so does every name that was given along with something else.
        """
        for event in self._named.values():
            if event.envelope.command == "projects.add":
                if (use := use_of(self.reader, event, self._is_void)) is not None:
                    self.used.append((event, use))
                else:
                    self.out.add(event.position)
                    self.gone.add(event.stream)

    def _is_void(self, position: int) -> bool:
        """Return True if an event does not count as a use of its project because it falls."""
        return position in self.out

    def _count_again(self, act: str) -> None:
        """Let an undo fall: the events that it took out count again, unless another act keeps them out."""
        self._given_back[act] = None
        for position in control.voided_by(self.reader.connection, act):
            if control.acts(self.reader.connection, position).keys() <= self._given_back.keys():
                self.again.add(position)
                self._changed(self.reader.event(position))

    def _changed(self, event: AnyEvent) -> None:
        """Wake the subjects that have to be looked at when an event falls or counts again."""
        if is_subject(event.stream):
            self._wake([event.stream])
        if isinstance(event.data, ChunkAdded):
            self._wake(self.reader.resting_on(event.data.chunk))
        if isinstance(event.data, MessageAppended):
            self._wake(self.reader.found_in(event.stream).get(event.position, ()))
            self._wake(self.reader.resting_on(message_id(event.stream, event.position)))
        if isinstance(event.data, RelationAdded | RelationRemoved):
            self._wake(self.reader.merged_from(event.stream))

    def _wake(self, streams: Iterable[str]) -> None:
        self._waiting.update(dict.fromkeys(streams))

    def _look_at(self, stream: str) -> None:
        self._looked_at[stream] = None
        self._take([event.position for event in self._now.counting(stream) if self._now.is_unsupported(event)])
        self._wake(self.reader.citing(stream) if stream[0] == "o" else ())  # the observation may have lost its evidence
        self._wake(observations.retired_without(self.reader.connection, stream))
        self._end(stream, self.reader.state(stream, self.out, self.again), self._now)
        if stream[0] != "s":  # a redo itself checks the conversations
            self._hold(stream)

    def _hold(self, stream: str) -> None:
        """Let those void events fall too that would fall if they were in effect.

        A redo does not bring such an event back then.
        """
        family, state, held = FAMILIES[stream[0]], None, list[int]()
        in_effect = {event.position for event in self._now.counting(stream)}
        for event in self._ever.counting(stream):
            if self._ever.is_unsupported(event) or (state is None and not family.admits(state, event.data)):
                held += [event.position] if event.position not in in_effect else []
            elif family.admits(state, event.data):
                state = family.evolve(state, event)
        self._take(held)
        self._end(stream, state, self._ever)

    def _end(self, stream: str, state: object, world: World) -> None:
        if state is not None or stream in world.gone:
            return
        world.gone.add(stream)
        if stream not in self._around:
            self._around[stream] = list(self._concerned(stream))
        self._wake(self._around[stream])
        if stream[0] == "i" and world is self._now:
            self._take(self.reader.reinforced_by(stream))

    def _concerned(self, gone: str) -> Iterator[str]:
        """Yield the subjects that have to be looked at when a subject is no more."""
        reader = self.reader
        yield from reader.resting_on(gone)
        yield from self._predecessors(gone)
        if gone[0] == "m":
            yield from reader.joining(gone)
            yield from memories.superseded_by(reader.connection, gone)
        elif gone[0] == "o":
            yield from observations.merged_into(reader.connection, gone)
        elif gone[0] == "i":
            yield from sessions_of(reader, gone)
            yield from reader.restated_by(gone)

    def _predecessors(self, gone: str) -> list[str]:
        """Return the subjects that a subject's commands superseded, merged, or took relations from."""
        acts = (
            event
            for event, _ in self.reader.stream(gone)
            if hasattr(event.data, "supersedes") or isinstance(event.data, RelationAdded | MemoryPromoted)
        )
        entries = (entry for act in acts for entry in self.reader.command(act))
        return [entry.subject for entry in entries if entry.type in _TAKING_ITS_PLACE]

    # --- for what an event falls ---------------------------------------------------------------------------------------

    def why(self, event: AnyEvent) -> str:
        """Return the reason for which an event falls by itself, or "" if it goes with its command."""
        if event.position in self.unfit:
            return self._why_unfit(event, self.unfit[event.position][1])
        if self._now.is_unsupported(event):
            return self._why_unsupported(event)
        cause = audit.by_event(self.reader.connection, event.envelope.causation_id or "")
        return f"was caused by position {cause.position}" if cause is not None and cause.position in self.out else ""

    @staticmethod
    def _why_unfit(event: AnyEvent, state: object) -> str:
        if state is None:
            return "would not be there"
        if event.stream[0] == "s":
            return f"would lack what this {event.type} was made from"
        return f"would be {getattr(state, 'status', 'something else')} there"

    def _why_unsupported(self, event: AnyEvent) -> str:
        data = event.data
        if isinstance(data, ATTEMPTS):
            lost = (
                source for source in data.sources if not self.reader.stands(source, self.out, self.again, self.gone)
            )
            messages = (message for message in sorted(self.reader.citations.behind(event)) if message in self.out)
            first = next(lost, None)
            return f"rests on {shortened(first)}" if first else f"was found in the message at {next(messages, 0)}"
        if isinstance(data, MemorySuperseded | RelationRemoved):
            return f"gave way to {shortened(data.by or '')}"
        if isinstance(data, MemoriesMerged):
            members = (*data.memories, data.memory)
            return f"joins {shortened(next(member for member in members if member in self.gone))}"
        return f"rests on {shortened(getattr(data, 'winner', None) or getattr(data, 'interaction', None) or '')}"
