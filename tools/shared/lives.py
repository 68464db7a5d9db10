"""Play random lives of three machines that share a log in memory, or in PostgreSQL with ``--postgres``.

``python3 -m tools.shared.lives [--lives 200] [--commands 100]`` plays many.

Each machine lags at random, restarts, and loses its connection. In the end the digests of all machines, of a fresh one and of
a rebuilt one are equal, the logs are sound, and every erasure is completed. A seed that fails is named.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledger import Ledger, LedgerError
from ledger.domain.errors import BusyError, DivergedError, StorageError, UnreachableError
from tools.shared.double import LOST_AFTER, LOST_BEFORE, Machines, assert_equal

if TYPE_CHECKING:
    from tools.shared.server import Server

NAMES = ("a", "b", "c")
SETTLED_SECONDS = 60.0  # that an erasure has until the server has vacuumed the texts away
KEEP: Any = {"derived": "keep", "sources": "keep", "quotes": "keep"}
ACTORS = ("ada", "ada", "ada", "bob", "eve")
ANSWERS = ("Noted.", "I will remember that.", "Since you like it, I book a table.")
THINGS = ("tea", "coffee", "a boat", "the cello", "a bicycle", "Porto", "long walks", "old maps")


class Life:
    """A life of three machines; the commands of one seed are always the same."""

    def __init__(self, folder: Path, seed: int, machines: Machines | None = None) -> None:
        self.machines, self.choice = machines or Machines(folder), random.Random(seed)
        self.ledgers = {name: self.machines.open(name) for name in NAMES}
        self.large = 0
        self.refusals: dict[str, int] = {}
        self.done: dict[str, int] = {}

    def play(self, commands: int) -> None:
        """Give commands to random machines, with restarts, lost connections and news between them."""
        try:
            for _ in range(commands):
                self._disturb()
                self._command()
            self.finish()
        finally:
            self.machines.close()

    def finish(self) -> None:
        """Let every machine catch up and check that all machines, a fresh one among them, are equal and sound."""
        for _ in range(3):
            self.machines.news()
        fresh = self.machines.open("fresh")
        for _ in range(2):
            self.machines.news()
        assert_equal(fresh, *self.ledgers.values())
        end = time.monotonic() + SETTLED_SECONDS
        while unsettled := [report.why for report in fresh.erasures.list() if report.state != "completed"]:
            assert time.monotonic() < end, unsettled  # a transaction of another machine keeps old rows for a moment
            time.sleep(0.1)
            self.machines.news()

    def _disturb(self) -> None:
        dice = self.choice.random()
        name = self.choice.choice(NAMES)
        if dice < 0.25:
            self.machines.news(name)
        elif dice < 0.28:
            self.ledgers[name].close()
            self.ledgers[name] = self.machines.open(name)
        elif dice < 0.33:
            self.machines.logs[name].failure = self.choice.choice((LOST_BEFORE, LOST_AFTER))
        elif dice < 0.35:
            self.machines.server.is_away = True
            for machine in NAMES:
                try:
                    self.ledgers[machine].remember("Nobody hears this.")
                except UnreachableError:
                    continue
                raise AssertionError("a command was taken without the log")
            self.machines.news()
            self.machines.server.is_away = False

    def _command(self) -> None:
        ledger = self.ledgers[self.choice.choice(NAMES)].bind(actor=self.choice.choice(ACTORS))
        steps = [name for name in dir(self) if name.startswith("do_")]
        weights = [6 if name in ("do_remember", "do_capture") else 1 for name in steps]
        step = self.choice.choices(steps, weights)[0]
        try:
            getattr(self, step)(ledger)
            self.done[step] = self.done.get(step, 0) + 1
        except LedgerError as error:
            if isinstance(error, StorageError | DivergedError | BusyError):
                raise
            self.refusals[f"{step} {error}"[:90]] = self.refusals.get(f"{step} {error}"[:90], 0) + 1

    # --- the commands ------------------------------------------------------------------------------------------------

    def text(self) -> str:
        return f"Ada likes {self.choice.choice(THINGS)} in the year {self.choice.randrange(1990, 2030)}"

    def memory(self, ledger: Ledger) -> str:
        """Return a memory that this machine knows, which another machine may have changed meanwhile."""
        memories = ledger.memories.list(limit=20, statuses=["active", "candidate", "retracted", "superseded"])
        return self.choice.choice(memories).id if len(memories) else ledger.remember(self.text()).id

    def do_remember(self, ledger: Ledger) -> None:
        key = f"k{self.choice.randrange(30)}" if self.choice.random() < 0.3 else None
        ledger.remember(self.text(), idempotency_key=key)

    def do_capture(self, ledger: Ledger) -> None:
        response = self.choice.choice(ANSWERS)
        ledger.capture(
            self.text(), response, session=f"s{self.choice.randrange(3)}", project=self.choice.choice(THINGS)
        )

    def do_large(self, ledger: Ledger) -> None:
        if self.large < 2:
            self.large += 1
            ledger.capture("Read this.", f"{self.text()} " + "word " * 60_000)

    def do_propose(self, ledger: Ledger) -> None:
        ledger.propose(self.text())

    def do_promote(self, ledger: Ledger) -> None:
        ledger.promote(self.memory(ledger))

    def do_supersede(self, ledger: Ledger) -> None:
        ledger.supersede(self.memory(ledger), self.text(), reason="a later word")

    def do_retract(self, ledger: Ledger) -> None:
        ledger.retract(self.memory(ledger))

    def do_tag(self, ledger: Ledger) -> None:
        ledger.memories.tag(self.memory(ledger), add=[self.choice.choice(THINGS)[:5]])

    def do_value(self, ledger: Ledger) -> None:
        ledger.projects.set_state(self.choice.choice(THINGS), "status", "door", self.choice.choice(THINGS))

    def do_message(self, ledger: Ledger) -> None:
        ledger.session(f"s{self.choice.randrange(3)}").append("user", self.text())

    def do_batch(self, ledger: Ledger) -> None:
        with ledger.batch():
            for _ in range(self.choice.randrange(1, 5)):
                ledger.remember(self.text())
            if self.choice.random() < 0.5:
                self.machines.server.end_idle_session()  # the lock is free, and the batch may find out that it lost
                if self.choice.random() < 0.5:
                    self.ledgers[self.choice.choice(NAMES)].remember(self.text())

    def do_undo(self, ledger: Ledger) -> None:
        ledger.undo(self.choice.randrange(1, ledger.position + 1), cascade=self.choice.random() < 0.7)

    def do_redo(self, ledger: Ledger) -> None:
        undone = [entry.position for entry in ledger.history.audit(limit=50) if entry.type == "CommandUndone"]
        if undone:
            ledger.redo(self.choice.choice(undone))

    def do_distrust(self, ledger: Ledger) -> None:
        ledger.history.distrust("eve" if self.choice.random() < 0.8 else "bob", kind="actor")

    def do_trust(self, ledger: Ledger) -> None:
        ledger.history.trust("eve", kind="actor")

    def do_erase(self, ledger: Ledger) -> None:
        ledger.erase(self.memory(ledger), reason="asked", **KEEP)

    def do_erase_turn(self, ledger: Ledger) -> None:
        turns = ledger.interactions.list(limit=20)
        if len(turns):
            ledger.erase(self.choice.choice(turns).id, reason="asked", **KEEP)

    def do_rebuild(self, ledger: Ledger) -> None:
        ledger.maintenance.rebuild()

    def do_recall(self, ledger: Ledger) -> None:
        ledger.recall(self.text())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--lives", type=int, default=200)
    parser.add_argument("--commands", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first life")
    parser.add_argument(
        "--postgres", action="store_true", help="over a server of PostgreSQL in the place of the double"
    )
    given = parser.parse_args()
    server = _server() if given.postgres else None
    try:
        play_all(given, server)
    finally:
        if server is not None:
            server.close()


def _server() -> Server:
    from tools.shared.server import Server

    return Server()


def _machines(folder: Path, server: Server | None) -> Machines:
    if server is None:
        return Machines(folder)
    from tools.shared.real import RealMachines

    return RealMachines(folder, server)


def play_all(given: argparse.Namespace, server: Server | None) -> None:
    done, refused, started = Counter[str](), 0, time.monotonic()
    for seed in range(given.first, given.first + given.lives):
        with tempfile.TemporaryDirectory() as folder:
            life = Life(Path(folder), seed, _machines(Path(folder), server))
            try:
                life.play(given.commands)
            except BaseException:
                print(f"the life with the seed {seed} failed")
                raise
            done.update(life.done)
            refused += sum(life.refusals.values())
    kinds = ", ".join(f"{name.removeprefix('do_')} {count}" for name, count in done.most_common())
    print(f"{given.lives} lives in {time.monotonic() - started:.0f} s: {kinds}; {refused} commands were refused")


if __name__ == "__main__":
    main()
