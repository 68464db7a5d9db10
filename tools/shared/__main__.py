"""The kill loop of a shared log: ``python tools/shared`` kills machines and stops the server, and compares at the end.

Some machines write to one log. One after another is killed in the middle of its work and started again; after every few kills
the server is stopped at once, as in a crash. At the end every command that was acknowledged must be in the log exactly once,
and every machine, a new one and a rebuilt one must have the same tables.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

HERE = Path(os.path.abspath(__file__)).parent
ROOT = HERE.parent.parent
if str(HERE) in sys.path:
    sys.path.remove(str(HERE))
sys.path.insert(0, str(ROOT))

from ledger import Ledger  # noqa: E402
from ledger.log.shared import postgres  # noqa: E402, F401
from ledger.shared import sharing  # noqa: E402, F401 - so that a machine that is started again need not import it
from tools.shared.life import is_kept, text_of  # noqa: E402
from tools.shared.life import main as main_of_a_machine  # noqa: E402
from tools.shared.server import Server  # noqa: E402

FORKS = multiprocessing.get_context("fork")  # takes no time to import the product; nothing is open in this process yet
MACHINES = ("a", "b", "c", "d")
TENANT = "acme"
START_SECONDS = 60.0  # the longest wait for a machine that was started again
PAUSE_SECONDS = 0.05  # the longest wait before a kill of a machine that works


@dataclass
class Machine:
    name: str
    folder: Path
    url: str
    process: BaseProcess | None = None

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.db"

    @property
    def notes(self) -> Path:
        return self.folder / f"{self.name}.notes"

    @property
    def acknowledged(self) -> int:
        return len(self.notes.read_text(encoding="ascii").splitlines()) if self.notes.exists() else 0

    @property
    def last_errors(self) -> str:
        return (self.folder / f"{self.name}.errors").read_text(encoding="utf-8", errors="replace")[-4_000:]

    def start(self) -> None:
        self.process = FORKS.Process(target=self._live, daemon=True)
        self.process.start()

    def _live(self) -> None:
        descriptor = os.open(self.folder / f"{self.name}.errors", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(descriptor, 2)
        main_of_a_machine(str(self.path), self.url, TENANT, self.name, str(self.notes))

    def kill(self) -> None:
        assert self.process is not None
        if not self.process.is_alive():
            raise RuntimeError(f"the machine {self.name} ended by itself: {self.last_errors}")
        self.process.kill()
        self.process.join()

    def await_work(self) -> None:
        """Wait until the machine has had another command acknowledged."""
        before, until = self.acknowledged, time.monotonic() + START_SECONDS
        while self.acknowledged == before:
            if time.monotonic() > until or (self.process is not None and not self.process.is_alive()):
                raise RuntimeError(f"the machine {self.name} does not work: {self.last_errors}")
            time.sleep(0.01)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools/shared", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="of machines (default: 200)")
    parser.add_argument("--stops", type=int, default=50, help="of the server, at once (default: 50)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    started = time.monotonic()
    server = Server()
    try:
        with tempfile.TemporaryDirectory(prefix="shared-") as folder:
            url = server.url(server.new_database())
            machines = [Machine(name, Path(folder), url) for name in MACHINES]
            try:
                play(server, machines, options.kills, options.stops, random.Random(options.seed))
            finally:
                for machine in machines:
                    if machine.process is not None and machine.process.is_alive():
                        machine.kill()
            failures = compared(machines)
            for line in failures:
                print(f"  ! {line}")
            total = sum(machine.acknowledged for machine in machines)
            print(
                f"{'FAILED' if failures else 'ok'}: {options.kills} kills, {options.stops} stops of the server,"
                f" {total:,} commands acknowledged, {time.monotonic() - started:.0f} s"
            )
            return int(bool(failures))
    finally:
        server.close()


def play(server: Server, machines: list[Machine], kills: int, stops: int, chance: random.Random) -> None:
    for machine in machines:
        machine.start()
    events = ["kill"] * kills + ["stop"] * stops
    chance.shuffle(events)
    for event in events:
        machine = chance.choice(machines)
        machine.await_work()
        time.sleep(chance.uniform(0, PAUSE_SECONDS))
        if event == "kill":
            machine.kill()
            machine.start()
        else:
            server.stop("immediate")
            server.start()


def compared(machines: list[Machine]) -> list[str]:
    """Return what does not hold."""
    failures: list[str] = []
    rest = [Machine("new", machines[0].folder, machines[0].url)]
    ledgers = {
        machine.name: Ledger.open(
            machine.path, log=machine.url, tenant=TENANT, machine=machine.name, user="ada", actor="ada"
        )
        for machine in (*machines, *rest)
    }
    try:
        end = 0
        while (last := max(ledger.position for ledger in ledgers.values())) > end:  # the machines also finish erasures
            end = last
            for ledger in ledgers.values():
                ledger.wait(end, START_SECONDS)
            time.sleep(1)
        digests = {name: ledger.proof.digest() for name, ledger in ledgers.items()}
        ledgers[machines[0].name].maintenance.rebuild()
        digests["rebuilt"] = ledgers[machines[0].name].proof.digest()
        if len(set(digests.values())) != 1:
            failures.append(f"the tables differ: {digests}")
        for name, ledger in ledgers.items():
            failures += [f"{name}: {problem}" for problem in ledger.proof.verify(full=True).problems]
        written = Counter(memory.content for memory in ledgers["new"].memories.list().all())
        failures += [f"{text!r} is there {number} times" for text, number in written.items() if number > 1]
        for machine in machines:
            for number in range(1, machine.acknowledged + 1):
                text = text_of(machine.name, number)
                if is_kept(number) is not (text in written):
                    failures.append(f"{text!r} was acknowledged and is {'missing' if is_kept(number) else 'there'}")
        return failures
    finally:
        for ledger in ledgers.values():
            ledger.close()


if __name__ == "__main__":
    raise SystemExit(main())
