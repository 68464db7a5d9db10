"""Undo and redo: taking the events of a command out of force, with everything that was built on them, and putting them back."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any, TypeVar, Unpack

from msgspec.structs import replace

from ledger import answers
from ledger.domain import ids
from ledger.domain.errors import Conflict, NotFound, Rejected, UnknownEvent
from ledger.domain.events import (
    LEDGER_STREAM,
    AnyEvent,
    CommandRedone,
    CommandUndone,
    ProjectAliasAdded,
    ProjectRegistered,
    Unknown,
)
from ledger.domain.text import check_text
from ledger.event_store import EventStore
from ledger.log_reading import read_event
from ledger.memory_writes import LIST_ITEMS, By, MemoryWrites, check_reason, who
from ledger.work import Who, Work
from projections import audit, control
from projections.projector import FAMILIES

_NAMES = ("ProjectRegistered", "SessionOpened")
_LASTING = ("LedgerCreated", "LedgerUpgraded", "CommandRedone", "ContentErased", "ErasureCompleted", "ProjectionParked")

T = TypeVar("T")
Spans = tuple[tuple[int, int], ...]


class Undoing(MemoryWrites):
    """The way back of the library door."""

    _store: EventStore

    def undo(
        self, target: str | int, reason: str = "", *, cascade: bool = False, dry_run: bool = False, **by: Unpack[By]
    ) -> answers.UndoReport:
        """Takes a command out of force: by its id, the id or position of one of its events, or a correlation id (an import).

        What later commands built on it is listed in a ``Conflict``, unless ``cascade`` takes them along. ``dry_run`` only
        lists. Undoing an undo is a redo. The keys of what is undone can be used again.
        """
        told = who(self._default, by)
        if dry_run:
            told = replace(told, key=None)  # nothing is done, so nothing is answered for
        reason = check_reason("reason", reason)

        def body(work: Work) -> str:
            commands = self._commands(work, target)
            if any(entry.type == CommandUndone.__name__ for entry in commands):
                return self._put_back(work, commands, reason, report, dry_run=dry_run)
            named = {entry.command_id for entry in commands}
            plan = _Plan(self._plan_reader(work), commands)
            if (built := sorted(plan.commands - named, key=plan.order)) and not (cascade or dry_run):
                raise Conflict(
                    f"{len(built)} later commands built on this one: {', '.join(built[:5])}{' …' if len(built) > 5 else ''}; "
                    "undo them first, or use cascade to undo them together"
                )
            _report(report, plan.commands if plan.positions else (), plan.positions, plan.streams)
            if plan.positions and not dry_run:
                _emit_undone(work, sorted(plan.commands, key=plan.order), ranges(plan.positions), reason)
            return LEDGER_STREAM

        report: dict[str, Any] = {}
        return self._undo("undo", told, body, report, (target, reason, cascade), dry_run)

    def redo(self, target: str | int, reason: str = "", **by: Unpack[By]) -> answers.UndoReport:
        """Puts back what an undo took out, named by the undo or by the command that it undid."""
        told = who(self._default, by)
        reason = check_reason("reason", reason)

        def body(work: Work) -> str:
            return self._put_back(work, self._commands(work, target), reason, report)

        report: dict[str, Any] = {}
        return self._undo("redo", told, body, report, (target, reason), dry_run=False)

    def _undo(
        self, verb: str, told: Who, body: Any, report: dict[str, Any], given: Any, dry_run: bool
    ) -> answers.UndoReport:
        outcome = self._writer.run(verb, told, body, given)
        self._writer.forget_names()
        if outcome.replayed:
            self._remind(report, outcome.position)
        done: dict[str, Any] = {"commands": (), "events": 0, "subjects": ()} | report
        command_id = outcome.events[0].envelope.command_id if outcome.events else None
        return answers.UndoReport(
            position=outcome.position, dry_run=dry_run, command_id=command_id, replayed=outcome.replayed, **done
        )

    def _remind(self, report: dict[str, Any], position: int) -> None:
        """What an undo or redo reported the first time, read from its event."""
        with self._store.snapshot() as connection:
            last = audit.at(connection, position)
            told = audit.of_command(connection, last.command_id) if last is not None else []
            events = [read_event(connection, entry.position) for entry in told]
            done = [event.data for event in events if event is not None]
            spans = [span for data in done if isinstance(data, CommandUndone | CommandRedone) for span in data.ranges]
            if spans:
                positions = list(control.positions(spans))
                entries = [entry for each in positions if (entry := audit.at(connection, each)) is not None]
                streams = {entry.subject for entry in entries} - {LEDGER_STREAM}
                _report(report, {entry.command_id for entry in entries}, positions, streams)

    # --- which commands ------------------------------------------------------------------------------------------

    def _commands(self, work: Work, target: str | int) -> list[audit.Entry]:
        """The entries of the command, or of all commands of a correlation; ``NotFound`` when they are not this user's."""
        self._writer.need("audit", "force", "sources")
        self._writer.settle()
        connection = work.connection()
        target = _target(target)
        first = audit.at(connection, target) if isinstance(target, int) else audit.by_event(connection, target)
        if first is not None:
            entries = audit.of_command(connection, first.command_id)
        else:
            entries = audit.of_correlation(connection, target) if isinstance(target, str) and target else []
        if not entries or any(entry.user != work.who.user for entry in entries):
            raise NotFound(
                f"no command of this user is named by {target!r:.60}: give a command's or event's id, or a position"
            )
        if lasting := [entry.type for entry in entries if entry.type in _LASTING]:
            raise Rejected(f"{lasting[0]} cannot be undone", rule="transition")
        for entry in entries:
            event = read_event(connection, entry.position)
            if event is None or isinstance(event.data, Unknown):
                raise UnknownEvent(
                    f"the {entry.type} at position {entry.position} is of a newer version, so it cannot be undone"
                )
        return entries

    def _plan_reader(self, work: Work) -> _Reader:
        return _Reader(work.connection(), self._writer)

    # --- redo ----------------------------------------------------------------------------------------------------

    def _put_back(
        self, work: Work, commands: list[audit.Entry], reason: str, report: dict[str, Any], *, dry_run: bool = False
    ) -> str:
        connection = work.connection()
        undo_ids = [entry.command_id for entry in commands if entry.type == CommandUndone.__name__]
        if not undo_ids:
            undo_ids = sorted({act for entry in commands for act in control.acts(connection, entry.position)})
        positions = {position for each in undo_ids for position in control.taken_out_by(connection, each)}
        reader = self._plan_reader(work)
        streams = {reader.event(position).stream for position in positions} - {LEDGER_STREAM}
        for stream in streams:
            _check_legal(reader, stream, positions)
        self._check_keys(reader, positions)
        self._check_names(reader, positions)
        named = {reader.event(position).envelope.command_id for position in positions}
        _report(report, named, positions, streams)
        if positions and not dry_run:
            for each in undo_ids:
                for part in _parts(ranges(control.taken_out_by(connection, each))):
                    work.emit(LEDGER_STREAM, CommandRedone(each, part, reason))
        return LEDGER_STREAM

    def _check_names(self, reader: _Reader, positions: Iterable[int]) -> None:
        for event in map(reader.event, positions):
            data = event.data
            name = data.alias if isinstance(data, ProjectAliasAdded) else None
            name = data.name if isinstance(data, ProjectRegistered) else name
            if name and self._writer.named(event.envelope.user or "", "p", name) not in (None, event.stream):
                raise Conflict(
                    f"the name {name!r:.60} of the command at position {event.position} stands for another project since; "
                    "it cannot be redone"
                )

    def _check_keys(self, reader: _Reader, positions: Iterable[int]) -> None:
        for position in positions:
            key = reader.event(position).key
            if key is not None and control.answer(self._writer.rows, key) is not None:
                raise Conflict(
                    f"the key of the command at position {position} was used again since; it cannot be redone"
                )


class _Reader:
    """The log as the plan of an undo needs it."""

    def __init__(self, connection: Any, writer: Any) -> None:
        self.connection, self._writer = connection, writer

    def event(self, position: int) -> AnyEvent:
        event = read_event(self.connection, position)
        assert event is not None
        return event

    def in_force(self, stream: str, but: set[int], also: set[int] = frozenset()) -> list[AnyEvent]:  # type: ignore[assignment]
        """The events of a stream that would count without some of them, or with others put back."""
        events = self._writer.projector.stream(stream, self._writer.rows)
        (last,) = self.connection.execute("SELECT max(version) FROM events WHERE stream = ?", (stream,)).fetchone()
        if len(events) != last:
            raise UnknownEvent(f"{stream} holds an event of a newer version, so nothing can be undone in it")
        return [event for event, counts in events if (counts or event.position in also) and event.position not in but]

    def citing(self, stream: str) -> list[AnyEvent]:
        """The first events in force of the memories that cite a subject as their source."""
        firsts = (self.event(row) for row in control.dependents(self.connection, stream))
        return [event for event in firsts if event.stream != stream]

    def caused_by(self, event_id: str) -> list[audit.Entry]:
        found = audit.caused_by(self.connection, event_id)
        return [entry for entry in found if not control.out_of_force(self.connection, entry.position, entry.position)]

    def naming(self, stream: str) -> list[audit.Entry]:
        """The entries in force that are about a project."""
        found = audit.trail(self.connection, user=None, project=stream, limit=10_000)
        return [entry for entry in found if not control.out_of_force(self.connection, entry.position, entry.position)]


class _Plan:
    """The commands that fall together: the ones named, what they caused, and what makes no sense without them."""

    def __init__(self, reader: _Reader, named: list[audit.Entry]) -> None:
        self._reader = reader
        self.commands: set[str] = set()
        self.positions: set[int] = set()
        self.streams: set[str] = set()
        self._order: dict[str, int] = {}
        waiting = {entry.command_id for entry in named}
        while waiting:
            for command in waiting:
                self._add(command)
            waiting = self._dependents() - self.commands

    def order(self, command: str) -> int:
        return self._order[command]

    def _add(self, command: str) -> None:
        entries = audit.of_command(self._reader.connection, command)
        self.commands.add(command)
        self._order[command] = entries[0].position
        for entry in entries:
            if entry.type in _NAMES and entry.command != "register_project":
                continue  # others may have used the name since; an unused one harms nobody
            if not control.out_of_force(self._reader.connection, entry.position, entry.position):
                self.positions.add(entry.position)
                if entry.subject != LEDGER_STREAM:
                    self.streams.add(entry.subject)

    def _dependents(self) -> set[str]:
        caused = (self._reader.caused_by(self._reader.event(position).envelope.event_id) for position in self.positions)
        found = {entry.command_id for entries in caused for entry in entries}
        for stream in self.streams:
            found |= self._built_on(stream)
        return found

    def _built_on(self, stream: str) -> set[str]:
        family = FAMILIES[ids.kind_of(stream)]
        state, found = None, set[str]()
        for event in self._reader.in_force(stream, self.positions):
            if family.admits(state, event.data):
                state = family.evolve(state, event)
            else:
                found.add(event.envelope.command_id)
        return found if state is not None else found | self._unsupported(stream) | self._within(stream)

    def _within(self, gone: str) -> set[str]:
        """The commands about a project that goes."""
        entries = self._reader.naming(gone) if ids.kind_of(gone) == "p" else []
        return {entry.command_id for entry in entries if entry.position not in self.positions}

    def _unsupported(self, gone: str) -> set[str]:
        """The commands behind memories that have no other source than subjects that go."""
        found = set[str]()
        for event in self._reader.citing(gone):
            for counted in self._reader.in_force(event.stream, self.positions):
                sources = getattr(counted.data, "sources", ())
                if gone in sources and all(source == gone or source in self.streams for source in sources):
                    found.add(counted.envelope.command_id)
        return found


def _check_legal(reader: _Reader, stream: str, again: set[int]) -> None:
    """``Conflict`` when events put back do not fit what happened since."""
    family, state = FAMILIES[ids.kind_of(stream)], None
    for event in reader.in_force(stream, set(), again):
        if isinstance(event.data, Unknown) or not family.admits(state, event.data):
            raise Conflict(
                f"{event.type} at position {event.position} does not fit what happened to {stream} since; undo that first"
            )
        state = family.evolve(state, event)


def _emit_undone(work: Work, commands: list[str], spans: Spans, reason: str) -> None:
    """One event, or where the lists are long several of the same append."""
    for names, part in zip_longest(_parts(tuple(commands)), _parts(spans), fillvalue=()):
        work.emit(LEDGER_STREAM, CommandUndone(tuple(names), tuple(part), reason))


def _parts(items: tuple[T, ...]) -> list[tuple[T, ...]]:
    """At most 2,000 items an event (DESIGN 3)."""
    return [items[start : start + LIST_ITEMS] for start in range(0, len(items), LIST_ITEMS)]


def _report(report: dict[str, Any], commands: Iterable[str], positions: Iterable[int], streams: Iterable[str]) -> None:
    report |= {"commands": tuple(sorted(commands)), "events": len(set(positions)), "subjects": tuple(sorted(streams))}


def _target(given: str | int) -> str | int:
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise Rejected(f"an undo names a command's or event's id, or a position, and not a {type(given).__name__}")
    if isinstance(given, int):
        return given if 0 < given < 2**63 else 0
    return check_text("what to undo", given, max_bytes=1024, blank_allowed=True)


def ranges(positions: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Positions as inclusive ranges, in order."""
    found: list[tuple[int, int]] = []
    for position in sorted(positions):
        if found and found[-1][1] == position - 1:
            found[-1] = (found[-1][0], position)
        else:
            found.append((position, position))
    return tuple(found)
