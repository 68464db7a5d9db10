"""An exhaustive search of the protocol of shared logs: ``python -m tools.shared.searching`` takes some minutes.

It goes through every order of the steps of three machines that give five commands, with a crash between any two of them.
"""

from __future__ import annotations

import sys

from tools.shared import protocol
from tools.shared.protocol import Log, Machine, State, check, steps


def renamed(state: State) -> State:
    """Return a state with its events numbered by their places, and its machines sorted, which makes no difference."""
    known = [number for number, _ in (*state.log, *sorted(each.entry for each in state.machines), *state.net)]
    names = {0: 0} | {number: place for place, number in enumerate(dict.fromkeys(filter(None, known)), 1)}

    def entries(old: Log) -> Log:
        return tuple((names[number], names[erased]) for number, erased in old)

    machines = [
        each._replace(
            file=entries(each.file), texts=tuple(names[text] for text in each.texts), at=entries(each.at),
            entry=entries((each.entry,))[0],
        )
        for each in state.machines
    ]  # fmt: skip
    return state._replace(
        log=entries(state.log), texts=tuple(names[text] for text in state.texts), net=tuple(sorted(entries(state.net))),
        machines=tuple(sorted(machines)), done=names[state.done],
    )  # fmt: skip


def search(machines: int = protocol.MACHINES) -> int:
    """Return the number of states that can be reached; raise ``WrongError`` for one that is not sound."""
    waiting = [State(machines=(Machine(),) * machines)]
    seen = {hash(waiting[0])}  # 64 bits of each state, for the memory of a machine
    while waiting:
        for state in steps(waiting.pop()):
            numbers = [number for number, _ in state.log]
            check(len({*numbers}) == len(numbers), "an event is in the log twice", state)
            if (mark := hash(found := renamed(state))) not in seen:
                seen.add(mark)
                waiting.append(found)
    return len(seen)


if __name__ == "__main__":
    protocol.EVENTS, protocol.CRASHES = map(int, sys.argv[1:] or (protocol.EVENTS, protocol.CRASHES))
    states = search()
    print(f"{states:,} states, {protocol.EVENTS} events, {protocol.CRASHES} crashes: all are sound")
