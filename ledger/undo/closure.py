"""The set of events that an undo or a distrust makes void: the named events and all events that fall with them.

An undo names the events of a command, a distrust the events of an origin. Later events may have been built on the named
events and cannot stay without them: they fall with them. The closure is the smallest set of events that holds the named
events and all events that fall with them. Take this log:

    2  remember   memory A, "The vault is in Geneva."
    3  remember   memory B, "The coins are in the vault.", with A as its source
    4  supersede  memory A gives way to memory C, "The vault is in Zurich."

Undoing the first command takes the other two along: A no longer exists, so B has lost its only source, and there is no
memory that the third command could supersede. Undoing the third command takes nothing along but its own events: C is
gone and A is active again. No event has to bring A back, because the state of a subject is always folded from those of
its events that are in effect.

An event falls for one of three reasons:

1. The act names the event.
2. The event has lost its ground: the event that caused it falls, or its command (an undo takes whole commands), or a
   subject that the event cites, joins or copies from no longer exists. A memory that cites several sources keeps its
   ground as long as one of them exists.
3. The event does not fit its subject any more. Each subject is folded from its first event, without the events that
   fall. An event that the rules do not admit there falls, such as the superseding of a memory that is retracted. An event
   that decides what is so already fits, and changes nothing: the decision holds if an equal earlier one falls later.

Two sets describe the log after the act. ``fallen`` holds the events that the act makes void. ``restored`` holds events
that are void today and count again: if a distrusted origin had undone a command, that undo falls with the origin, and
the command is in effect again.

The reasons are applied in rounds. A round first lets events fall for reasons 1 and 2 until no more events fall. Then it
folds each examined subject to find the events of reason 3. If they are other events than in the round before, they fall
in the next round. An event of the round before may fit again, because another event of its subject that contradicted
it has fallen too. Then the next round starts afresh, with only the named events and the events of reason 3. The next
round also starts afresh if an undo was met among the falling events, because the events of that undo count again.

The result never depends on the order in which the subjects are examined. The rounds end when one of them changes
nothing. If twenty rounds were not enough, an event that did not fit once stays fallen, so that the rounds end. The
result is still the same for the same log and act, but it may hold more events than the smallest set.

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
from ledger.undo.conversations import orphaned_events, sessions_of
from ledger.undo.in_effect import EVERY_POSITION, NAMES, Reader, first_use, is_subject
from projections.core.projector import FAMILIES
from projections.views import audit, control, memories, observations

# After so many rounds an event that did not fit once stays fallen. Without a limit the rounds might never end: each of two
# events may fit only without the other.
ROUNDS = 20
_REPLACING = ("MemorySuperseded", "RelationRemoved", "MemoriesMerged")  # recorded when another subject takes the place
Unfit = dict[int, tuple[AnyEvent, Any]]  # by position: an event, and the state of its subject that does not admit it


class SupposedLog:
    """The log without the events ``fallen``, with the events ``restored``, and without the subjects ``gone``.

    The sets are shared with the closure, so the supposed log changes as events fall.
    """

    def __init__(self, reader: Reader, fallen: Collection[int], restored: Collection[int], gone: Iterable[str]) -> None:
        self.reader = reader
        self.fallen = fallen
        self.restored = restored
        self.gone: set[str] = set(gone)

    def events_in_effect(self, stream: str) -> list[AnyEvent]:
        return self.reader.events_in_effect(stream, self.fallen, self.restored)

    def has_lost_its_ground(self, event: AnyEvent) -> bool:
        """Return True if the subjects that an event was made from no longer exist."""
        if isinstance(event.data, ATTEMPTS):
            return self.reader.has_lost_its_ground(event, self.fallen, self.restored, self.gone)
        return not self.gone.isdisjoint(ids_in(event.data, "rests_on"))

    def gains_evidence(self, retracted: AnyEvent) -> bool:
        """Return True if an observation would have had live evidence at its retraction that it does not have today."""
        today = SupposedLog(self.reader, (), (), ())
        return bool(self._live_evidence(retracted) - today._live_evidence(retracted))

    def _live_evidence(self, retracted: AnyEvent) -> set[str]:
        """Return the live sources that an observation had just before its retraction."""
        before = [event for event in self.events_in_effect(retracted.stream) if event.position < retracted.position]
        sources = {support.source for support, _ in supports(before).values() if not support.withdrawn}
        return {source for source in sources if self._is_live(source, retracted.position)}

    def _is_live(self, source: str, position: int) -> bool:
        if source[0] != "m":
            return self.reader.exists(source, self.fallen, self.restored)
        state = self._state_before(source, position)
        return state is not None and state.status == "active" and not state.quarantined

    def _state_before(self, memory: str, position: int) -> Any:
        """Return the state that a memory would have had just before the event at a position."""
        state = None
        for event in self.events_in_effect(memory):
            if event.position < position:
                state = FAMILIES["m"].evolve(state, event)
        return state

    def has_relation(self, memory: str, copied: AnyEvent) -> bool:
        """Return True if a memory would have had a relation at the time when a merge copied the relation."""
        data, state = copied.data, self._state_before(memory, copied.position)
        form = (name_form(data.subject or ""), data.relation, name_form(data.object or ""))
        return state is not None and any(relation.form == form for relation in state.edges)


class Closure:
    """The events that an act makes void, derived from the events that the act names.

    ``UndoPlan`` and ``OriginPlan`` say by ``_may_fall``, ``_reverse_act`` and ``_falling_along`` how an undo differs from a
    distrust.

    Attributes:
        named_events: The positions of the events that the act names.
        fallen: The positions of the events that the act makes void.
        restored: The positions of the void events that count again, because the undos that made them void fall.
        falling_undos: The command ids of the undos that were met among the falling events in this round.
        gone: The subjects that no longer exist after the act.
        unfit: The events that fall because they do not fit their subject.
        projects_in_use: The registrations of projects that stay, each with an event that uses the project.
        streams: The subjects that the act concerns.
    """

    def __init__(self, reader: Reader, named_events: Iterable[int], gone: Iterable[str] = ()) -> None:
        self.reader = reader
        self.named_events: frozenset[int] = frozenset(named_events)
        self._gone_from_start = frozenset(gone)
        self.unfit: Unfit = {}
        self._affected_by: dict[str, list[str]] = {}  # a cache of ``_affected``, by the subject that is gone
        self._start()
        self._derive()
        self.projects_in_use: list[tuple[AnyEvent, AnyEvent]] = []
        self._let_unused_projects_fall()
        concerned = (event.stream for event in map(self.reader.event, self.fallen | self.restored))
        self.streams: set[str] = set(filter(is_subject, concerned))

    @property
    def gone(self) -> set[str]:
        return self._after.gone

    def _may_fall(self, event: AnyEvent) -> bool:
        """Return True if an act of this kind can make the event void."""
        raise NotImplementedError

    def _reverse_act(self, event: AnyEvent) -> None:
        """Reverse the effect of an event that may not fall itself, if the event is an act; an undo reverses no acts."""

    def _falling_along(self, event: AnyEvent) -> Iterable[int]:
        """Yield the positions of the events that fall whenever this event falls."""
        raise NotImplementedError

    def _rest_of_command(self, event: AnyEvent) -> list[audit.AuditRow]:
        """Return the entries of an event's command at the first call for the command, and no entries at later calls.

        The caller of the first call lets all the entries fall, so that later calls have nothing to add.
        """
        command = event.envelope.command_id
        if command in self._whole_commands:
            return []
        self._whole_commands.add(command)
        return self.reader.command(event)

    # --- rounds --------------------------------------------------------------------------------------------------

    def _start(self, undos: Iterable[str] = ()) -> None:
        """Prepare a round in which nothing has fallen yet but these undos; ``unfit`` is kept."""
        self.fallen: set[int] = set()
        self.restored: set[int] = set()
        self.falling_undos: dict[str, None] = {}
        # The undos whose events are in ``restored``: these undos of the round before, and later those of ``falling_undos``.
        self._reversed_undos: dict[str, None] = dict.fromkeys(undos)
        self._after = SupposedLog(self.reader, self.fallen, self.restored, self._gone_from_start)
        # The log as if no other undo or distrust were in effect: only the events that this act makes void are missing.
        self._without_other_acts = SupposedLog(self.reader, self.fallen, EVERY_POSITION, self._gone_from_start)
        self._queue = OrderedDict[str, None]()  # a plain dict takes quadratic time to give its first keys one by one
        self._examined: dict[str, None] = {}
        self._name_events: dict[int, AnyEvent] = {}
        self._whole_commands = set[str]()
        for undo in list(self._reversed_undos):
            self._reverse(undo)
        for subject in sorted(self._gone_from_start):
            self._enqueue(self.reader.resting_on(subject))

    def _derive(self) -> None:
        undos = dict[str, None]()
        for rounds in count():
            unfit_before, undos_before = self.unfit, undos
            self._let_fall(self.named_events | unfit_before.keys())
            while self._queue:
                stream, _ = self._queue.popitem(last=False)
                self._examine(stream)
            self.unfit, undos = self._find_unfit(), self.falling_undos
            if rounds >= ROUNDS:
                self.unfit, undos = unfit_before | self.unfit, undos_before | undos
            same_undos = undos.keys() == undos_before.keys()
            if same_undos and self.unfit.keys() == unfit_before.keys():
                return
            some_fit_after_all = bool(unfit_before.keys() - self.unfit.keys())
            if some_fit_after_all or not same_undos:
                self._start(undos)

    def _find_unfit(self) -> Unfit:
        """Return the events that do not fit their subject, folded without the events that fall for other reasons."""
        unfit: Unfit = {}
        without = self.fallen - self.unfit.keys()
        for stream in self._examined:
            family, state, orphaned = FAMILIES[stream[0]], None, set[int]()
            if stream[0] == "s":
                orphans = orphaned_events(self.reader, stream, without, self.restored, self.gone.__contains__)
                orphaned = {event.position for event in orphans}
            for event in self.reader.events_in_effect(stream, without, self.restored):
                fits = event.position not in orphaned and family.admits(state, event.data)
                if fits and not self._has_lost_its_occasion(event):
                    state = family.evolve(state, event)
                else:
                    unfit[event.position] = (event, state)
        return unfit

    def _has_lost_its_occasion(self, event: AnyEvent) -> bool:
        """Return True if a consequence of other events would not have followed from the events that stay.

        This holds for a relation that a merged memory took over from its members, if no member has the relation after
        the act, and for the retraction of an observation for want of evidence, if the observation has evidence then.
        """
        if isinstance(event.data, ObservationRetracted):
            return event.data.why == NO_EVIDENCE and self._after.gains_evidence(event)
        members = self.reader.members_of(event) if isinstance(event.data, RelationAdded) else ()
        return bool(members) and not any(self._after.has_relation(member, event) for member in members)

    # --- events that fall with others ----------------------------------------------------------------------------------

    def _let_fall(self, positions: Iterable[int]) -> None:
        """Add events to the fallen ones, each with the events that fall along with it; reverse the acts among them."""
        waiting = [position for position in positions if position not in self.fallen]
        while waiting:
            event = self.reader.event(waiting.pop())
            if event.position in self.fallen:
                continue
            if not self._may_fall(event):
                self._reverse_act(event)
                continue
            if event.type in NAMES:
                self._name_events[event.position] = event
                continue
            self.fallen.add(event.position)
            self._enqueue_affected(event)
            waiting += [position for position in self._falling_along(event) if position not in self.fallen]

    def _let_unused_projects_fall(self) -> None:
        """Let each registration of a project fall if no event that stays uses the project.

        Only ``projects.add`` registers a project for its own sake. A name that another command registered by the way,
        such as that of a session at its first message, stays.
        """
        for event in self._name_events.values():
            if event.envelope.command == "projects.add":
                if (use := first_use(self.reader, event, self._is_no_use)) is not None:
                    self.projects_in_use.append((event, use))
                else:
                    self.fallen.add(event.position)
                    self.gone.add(event.stream)

    def _is_no_use(self, position: int) -> bool:
        """Return True if an event keeps no project, because the event itself falls."""
        return position in self.fallen

    def _reverse(self, undo: str) -> None:
        """Let an undo fall: the events that it made void count again, unless another act keeps them void."""
        self._reversed_undos[undo] = None
        for position in control.voided_by(self.reader.connection, undo):
            if control.acts(self.reader.connection, position).keys() <= self._reversed_undos.keys():
                self.restored.add(position)
                self._enqueue_affected(self.reader.event(position))

    def _enqueue_affected(self, event: AnyEvent) -> None:
        """Enqueue the subjects that need to be examined when an event falls or counts again."""
        if is_subject(event.stream):
            self._enqueue([event.stream])
        if isinstance(event.data, ChunkAdded):
            self._enqueue(self.reader.resting_on(event.data.chunk))
        if isinstance(event.data, MessageAppended):
            self._enqueue(self.reader.found_in(event.stream).get(event.position, ()))
            self._enqueue(self.reader.resting_on(message_id(event.stream, event.position)))
        if isinstance(event.data, RelationAdded | RelationRemoved):
            self._enqueue(self.reader.merged_into(event.stream))

    def _enqueue(self, streams: Iterable[str]) -> None:
        self._queue.update(dict.fromkeys(streams))

    def _examine(self, stream: str) -> None:
        """Let the events of a subject fall that have lost their ground, and note if nothing is left of the subject."""
        self._examined[stream] = None
        events = self._after.events_in_effect(stream)
        self._let_fall([event.position for event in events if self._after.has_lost_its_ground(event)])
        self._enqueue(
            self.reader.citing(stream) if stream[0] == "o" else ()
        )  # the observation may have lost its evidence
        self._enqueue(observations.retired_without(self.reader.connection, stream))
        self._note_if_gone(stream, self.reader.state(stream, self.fallen, self.restored), self._after)
        # A redo checks a session anew (``orphaned_events``) and refuses events without their ground, so they need not fall.
        if stream[0] != "s":
            self._examine_void_events(stream)

    def _examine_void_events(self, stream: str) -> None:
        """Let those events of a subject fall too that another act made void and that have lost their ground.

        They are void already. But a redo of the other act would bring them back to a log without their ground, so this
        act keeps them void as well.
        """
        family, state, groundless = FAMILIES[stream[0]], None, list[int]()
        in_effect = {event.position for event in self._after.events_in_effect(stream)}
        for event in self._without_other_acts.events_in_effect(stream):
            cannot_begin = state is None and not family.admits(state, event.data)
            if cannot_begin or self._without_other_acts.has_lost_its_ground(event):
                groundless += [event.position] if event.position not in in_effect else []
            elif family.admits(state, event.data):
                state = family.evolve(state, event)
        self._let_fall(groundless)
        self._note_if_gone(stream, state, self._without_other_acts)

    def _note_if_gone(self, stream: str, state: object, log: SupposedLog) -> None:
        """Note that a subject without a state does not exist in a supposed log, and enqueue the affected subjects."""
        if state is not None or stream in log.gone:
            return
        log.gone.add(stream)
        if stream not in self._affected_by:
            self._affected_by[stream] = list(self._affected(stream))
        self._enqueue(self._affected_by[stream])
        if stream[0] == "i" and log is self._after:
            self._let_fall(self.reader.reinforced_by(stream))

    def _affected(self, gone: str) -> Iterator[str]:
        """Yield the subjects that need to be examined when a subject no longer exists."""
        reader = self.reader
        yield from reader.resting_on(gone)
        yield from self._replaced_by(gone)
        if gone[0] == "m":
            yield from reader.joining(gone)
            yield from memories.superseded_by(reader.connection, gone)
        elif gone[0] == "o":
            yield from observations.merged_into(reader.connection, gone)
        elif gone[0] == "i":
            yield from sessions_of(reader, gone)
            yield from reader.restated_by(gone)

    def _replaced_by(self, gone: str) -> list[str]:
        """Return the subjects that gave way to a subject: superseded, merged, or with a relation taken over."""
        replacing = (
            event
            for event, _ in self.reader.stream(gone)
            if hasattr(event.data, "supersedes") or isinstance(event.data, RelationAdded | MemoryPromoted)
        )
        entries = (entry for event in replacing for entry in self.reader.command(event))
        return [entry.subject for entry in entries if entry.type in _REPLACING]

    # --- reasons for people --------------------------------------------------------------------------------------------

    def why(self, event: AnyEvent) -> str:
        """Return the reason for which an event falls by itself, or "" if the event falls with its command."""
        if event.position in self.unfit:
            return self._why_unfit(event, self.unfit[event.position][1])
        if self._after.has_lost_its_ground(event):
            return self._why_groundless(event)
        cause = audit.by_event(self.reader.connection, event.envelope.causation_id or "")
        return f"was caused by position {cause.position}" if cause is not None and cause.position in self.fallen else ""

    @staticmethod
    def _why_unfit(event: AnyEvent, state: object) -> str:
        if state is None:
            return "would not be there"
        if event.stream[0] == "s":
            return f"would lack what this {event.type} was made from"
        return f"would be {getattr(state, 'status', 'something else')} there"

    def _why_groundless(self, event: AnyEvent) -> str:
        data, reader = event.data, self.reader
        if isinstance(data, ATTEMPTS):
            lost = (
                source
                for source in data.sources
                if not reader.is_grounded(source, self.fallen, self.restored, self.gone)
            )
            messages = (message for message in sorted(reader.citations.behind(event)) if message in self.fallen)
            first = next(lost, None)
            return f"rests on {shortened(first)}" if first else f"was found in the message at {next(messages, 0)}"
        if isinstance(data, MemorySuperseded | RelationRemoved):
            return f"gave way to {shortened(data.by or '')}"
        if isinstance(data, MemoriesMerged):
            members = (*data.memories, data.memory)
            return f"joins {shortened(next(member for member in members if member in self.gone))}"
        return f"rests on {shortened(getattr(data, 'winner', None) or getattr(data, 'interaction', None) or '')}"
