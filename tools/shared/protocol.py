"""The protocol of a command, of joining and of an erasure as a state machine.

A machine may crash between any two steps, a message may arrive after its sender gave up, and the server may take the lock from a
machine that is silent. One erasure is among the events. ``tools.shared.searching`` goes through all that can happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

MACHINES, EVENTS, CRASHES = 3, 5, 1
NEW = 99  # the number of an event until it has a place

Entry = tuple[int, int]  # the number of an event, and that of the event whose text it erases; 0 for a text of its own
Log = tuple[Entry, ...]
Texts = tuple[int, ...]  # the numbers of the events whose text is there


class Machine(NamedTuple):
    """A machine with its file; a second file of a machine, and a copy, is a machine of its own here.

    Attributes:
        step: "" for a machine without a command, which is decided otherwise, and sent, locked, settling or done.
        at: The end of the log at which the command was decided.
        reported: 1 if the machine has purged its files of the erasure, 0 if not, -1 if it does not follow the log.
    """

    file: Log = ()
    texts: Texts = ()
    is_open: bool = False
    reported: int = -1
    step: str = ""
    at: Log = ()
    entry: Entry = (0, 0)
    has_lock: bool = False

    def with_log(self, log: Log, texts: Texts) -> Machine:
        """Take in the rows of the log as they are there; an erasure takes its text out of the file."""
        new = log[len(self.file) :]
        kept = {*self.texts, *({number for number, _ in new} & {*texts})} - {erased for _, erased in new}
        return self._replace(file=self.file + new, texts=tuple(sorted(kept)))

    def without_command(self) -> Machine:
        return self._replace(step="", at=(), entry=(0, 0), has_lock=False)


class State(NamedTuple):
    """``net`` holds the appends that are under way, also those of machines that gave up; ``done`` is the completed erasure."""

    log: Log = ()
    texts: Texts = ()
    net: tuple[Entry, ...] = ()
    machines: tuple[Machine, ...] = (Machine(),) * MACHINES
    given: int = 0
    done: int = 0
    crashes: int = 0

    def with_machine(self, old: Machine, new: Machine) -> State:
        machines = [*self.machines]
        machines[machines.index(old)] = new
        return self._replace(machines=tuple(machines))

    def with_event(self, entry: Entry) -> State:
        """Write an event; an erasure takes its text out of the log in the same commit.

        An append that was sent at the end before is refused from now on, so it is forgotten.
        """
        texts = tuple(sorted({*self.texts, entry[0]} - {entry[1]}))
        return self._replace(log=(*self.log, entry), texts=texts, net=())


class WrongError(Exception):
    """A rule of the protocol is broken."""


def check(holds: bool, rule: str, state: State) -> None:
    if not holds:
        raise WrongError(f"{rule}: {state}")


def steps(state: State) -> Iterator[State]:
    """Yield every state that one step of anybody leads to."""
    is_locked = any(machine.has_lock for machine in state.machines)
    for entry in state.net:  # an append is lost, or arrives; it waits for the lock
        yield state._replace(net=tuple(other for other in state.net if other != entry))
        if not is_locked:
            yield state.with_event(entry)
    for machine in {*state.machines}:
        if machine.has_lock:  # the server takes it from a silent machine
            yield state.with_machine(machine, machine._replace(has_lock=False))
        if machine.is_open and state.crashes < CRASHES:
            yield state.with_machine(machine, machine.without_command())._replace(crashes=state.crashes + 1)
        yield from (steps_of_command if machine.step else steps_of)(state, machine, is_locked)


def is_erased(machine: Machine) -> int:
    return int(any(erased for _, erased in machine.file))


def steps_of(state: State, machine: Machine, is_locked: bool) -> Iterator[State]:
    """Yield the steps of a machine that has no command."""
    if machine.reported < 0:  # it joins, and reports before it copies, so that erasures wait for it
        yield state.with_machine(machine, machine._replace(reported=0))
    elif not machine.is_open:
        copied = machine.with_log(state.log, state.texts)
        yield state.with_machine(machine, copied._replace(is_open=True, reported=is_erased(copied)))
    else:
        yield state.with_machine(machine, machine.with_log(state.log, state.texts))
        yield state.with_machine(machine, machine._replace(reported=is_erased(machine)))  # its files are purged
        for _, erased in machine.file:
            if erased and all(each.reported for each in state.machines):
                kept = any(erased in each.texts for each in state.machines)
                check(not kept, "an erasure is completed, and a file holds its text", state)
                yield state._replace(done=erased)
        if state.given < EVENTS:  # decided at the end of the file, and sent without the lock
            targets = [] if is_erased(machine) else [number for number, _ in machine.file]
            for entry in [(NEW, target) for target in (0, *targets)]:
                sent = state.with_machine(machine, machine._replace(step="sent", at=machine.file, entry=entry))
                net = tuple(sorted((*state.net, entry))) if machine.file == state.log else state.net
                yield sent._replace(given=state.given + 1, net=net)


def steps_of_command(state: State, machine: Machine, is_locked: bool) -> Iterator[State]:
    """Yield the steps of a machine with a command; the lock is taken to look what became of it."""
    done = state.with_machine(machine, machine._replace(step="done", has_lock=False))
    if machine.step == "done":  # the file gets the event, and the caller the answer
        kept = machine.with_log((*machine.at, machine.entry), (*machine.texts, machine.entry[0]))
        check(state.log[: len(kept.file)] == kept.file, "a file has another history than the log", state)
        yield state.with_machine(machine, kept.without_command())
    elif machine.step == "locked":  # publish; a machine that lost the lock finds out
        settling = machine._replace(step="settling", has_lock=False)
        yield done.with_event(machine.entry) if machine.has_lock else state.with_machine(machine, settling)
    elif machine.step == "sent" and (machine.entry in state.log or machine.at != state.log):  # the server answers
        joined = machine.with_log(state.log, state.texts)._replace(step="locked", at=state.log, has_lock=True)
        if machine.entry in state.log:
            yield done
        elif not is_locked:  # it is decided again, with the lock
            entry = (machine.entry[0], 0 if is_erased(joined) else machine.entry[1])
            yield state.with_machine(machine, joined._replace(entry=entry))
        yield state.with_machine(machine, machine._replace(step="settling"))
    elif machine.step == "sent":  # no answer
        yield state.with_machine(machine, machine._replace(step="settling"))
    elif machine.entry in state.log:
        yield done
    elif not is_locked:  # it is written if nobody else wrote, else the caller hears that nothing was written
        refused = state.with_machine(machine, machine.without_command())
        check(machine.at == state.log or machine.entry not in state.net, "a refused command can arrive", state)
        yield done.with_event(machine.entry) if machine.at == state.log else refused
