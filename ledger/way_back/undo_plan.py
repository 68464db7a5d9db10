"""What an undo takes along: the commands that its own caused, that were built on them, or that make no sense without them.

A plan is made on one snapshot and changes nothing; it goes on until nothing more falls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ledger.domain import ids
from ledger.domain.errors import Conflict
from ledger.domain.events import (
    LEDGER_STREAM,
    AnyEvent,
    ChunkAdded,
    CommandUndone,
    MessageAppended,
)
from ledger.way_back.conversations import senseless, sessions_of
from ledger.way_back.in_force import (
    ATTEMPTS,
    EVERYTHING,
    LASTING,
    NAMES,
    WITHOUT_EFFECT,
    Reader,
    is_unsaid,
    rests_on,
)
from projections import audit, control
from projections.projector import FAMILIES

_ACTS = ("BulkStarted", "CommandUndone", "SourceDistrusted")  # taken back by redo and trust, each by itself


def built_later(built: Sequence[str], on: str) -> Conflict:
    """What keeps an act from being done without a cascade: the commands that were built on what it puts out of force."""
    first, many = ", ".join(built[:5]), "s" * (len(built) != 1)
    return Conflict(
        f"{len(built)} later command{many} built on {on}: {first}{' …' if len(built) > 5 else ''}; "
        "undo them first, or use cascade to undo them together"
    )


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
        return not self._is_undone(entry.position)

    def _is_undone(self, position: int) -> bool:
        return CommandUndone.__name__ in control.acts(self.reader.connection, position).values()

    def _caused(self, positions: Iterable[int]) -> set[str]:
        """The commands that reacted; what they did to observations may rest on other sources, and is stale at the worst."""
        caused = (self.reader.caused_by(self.reader.event(position)) for position in positions)
        found = (entry for entries in caused for entry in entries if not entry.subject.startswith("o_"))
        return {entry.command_id for entry in found if not self.reader.is_out(entry.position)}

    def _built_on(self, stream: str) -> set[str]:
        """The commands whose events no longer make sense on what the subject becomes; where it will not be there, also those
        that only a distrust keeps out of force."""
        family, state, found = FAMILIES[ids.kind_of(stream)], None, set[str]()
        for event in self.reader.counting(stream, self.positions):
            if family.admits(state, event.data):
                state = family.evolve(state, event)
            else:
                found.add(event.envelope.command_id)
        if self.reader.state(stream, self.positions, EVERYTHING) is None:
            left = self.reader.counting(stream, self.positions, EVERYTHING)
            found |= {
                event.envelope.command_id
                for event in left
                if event.type not in LASTING + WITHOUT_EFFECT and not self._is_undone(event.position)
            }
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
            given = (each for each in self.reader.reinforced_by(stream) if not self._is_undone(each))
            found |= {self.reader.event(each).envelope.command_id for each in given}
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
        """The attempts at memories that cite something, and stand on nothing any more; of those that only a distrust
        keeps out of force the ones that would not, whatever is put back later."""
        for memory in memories:
            for event, counts in self.reader.stream(memory):
                if event.position in self.positions or not isinstance(event.data, ATTEMPTS):
                    continue
                if not counts and self._is_undone(event.position):
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
