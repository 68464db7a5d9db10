"""SIGKILL before the k-th file operation, and at random times with four writers: what was acknowledged is there."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import gcd
from pathlib import Path
from typing import Any

from ledger import ConflictError, RejectedError
from tools.crash import workload
from tools.crash.checking import Folds, look, lost
from tools.crash.result import Result
from tools.crash.shim import COUNT, FOREVER, KILL, WORKERS, Shim, Unavailable, together
from tools.crash.workload import LIVES, Ack, Player, acknowledged, small_checkpoints

SHORT, LONG = 120, 20_000
WRITERS = 4
REBUILDS = 3  # one ledger in so many lives the life with a rebuild, which takes as long as five others
PATIENCE_SECONDS = 120
KILLS = 30  # of each control
INGESTS, ERASURES, BACKUPS = range(len(LIVES) - 3, len(LIVES))
CONTROLS = (  # what is wrong, and the lives in which it must be seen
    ("early", range(INGESTS)),
    ("texts_garbled", (0, 1)),
    ("documents_in_parts", (INGESTS,)),
    ("erasures_left", (ERASURES,)),
    ("backups_in_place", (BACKUPS,)),
)
AT_RANDOM = 5  # one kill in so many is of a writer at a random time


def run(short: bool, seed: int) -> Result:
    started, total = time.monotonic(), SHORT if short else LONG
    shares = [_share(seed, number, total) for number in range(WORKERS)]
    shares += [
        shares[0] | {"wrong": each, "lives": [*lives], "enumerated": KILLS, "random": 0} for each, lives in CONTROLS
    ]
    try:
        found = together("tools.crash.kills:work", shares)
    except Unavailable as error:
        return Result("kills", 0, (), time.monotonic() - started, skipped=str(error))
    found, controls = found[:WORKERS], found[WORKERS:]
    failures = [told for each in found for told in each["failures"]]
    failures += [f"control {each['wrong']}: no kill showed it" for each in controls if not each["failures"]]
    totals = {name: sum(each[name] for each in found) for name in ("enumerated", "random", "survived")}
    notes = (
        f"{totals['enumerated']} before the k-th operation of {found[0]['operations']} in {len(LIVES)} lives,"
        f" {totals['random']} of {WRITERS} writers at random; {totals['survived']} lives ended before their kill",
        *(
            f"control {each['wrong']}: {len(each['failures'])} of {each['enumerated']} kills failed"
            for each in controls
        ),
    )
    return Result(
        "kills", totals["enumerated"] + totals["random"], tuple(failures), time.monotonic() - started, notes=notes
    )


def _share(seed: int, number: int, total: int) -> dict[str, Any]:
    random_kills = max(total // AT_RANDOM // WORKERS // WRITERS, 1) * WRITERS
    return {
        "seed": seed, "number": number, "of": WORKERS, "wrong": "", "lives": list(range(len(LIVES))),
        "enumerated": total // WORKERS - random_kills, "random": random_kills,
    }  # fmt: skip


def work(share: dict[str, Any]) -> dict[str, Any]:
    """One worker's share: its enumerated kills, and then its random ones."""
    small_checkpoints()
    if wrong := getattr(workload, share["wrong"], None):
        wrong()
    folder = Path(share["folder"])
    return Kills(folder, share).run()


class Kills:
    """Ledgers that live through one life after another, each ended by a kill before another operation."""

    def __init__(self, folder: Path, share: dict[str, Any]) -> None:
        self.folder, self.share, self.shim = folder, share, Shim(folder)
        self.failures: list[str] = []
        self.killed = self.survived = 0

    def run(self) -> dict[str, Any]:
        operations = self._count()
        turn = self.share["number"] + self.share["seed"] * self.share["enumerated"] * self.share["of"]
        while self.killed < self.share["enumerated"]:
            self._lives(turn, operations)
            turn += self.share["of"]
        enumerated, self.killed, turn = self.killed, 0, 0
        while self.killed < self.share["random"]:
            self._crowd(turn)
            turn += 1
        return {
            "failures": self.failures, "enumerated": enumerated, "random": self.killed,
            "survived": self.survived, "operations": operations, "wrong": self.share["wrong"],
        }  # fmt: skip

    def _count(self) -> list[int]:
        """How many operations each life has when nobody kills it; everything is loaded after this, too."""
        path, counts = self._fresh(), []
        for life, script in enumerate(LIVES):
            self.shim.arm(COUNT)
            player = Player(path, f"count {life}")
            player.play(script)
            player.give_up()
            counts.append(self.shim.count)
        self.shim.rest()
        return counts

    def _fresh(self) -> Path:
        place = self.folder / "ledger"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(mode=0o700)
        return place / "memory.db"

    def _lives(self, turn: int, operations: Sequence[int]) -> None:
        """One ledger, and its lives; a third of the kills is not looked at, and the next life begins on what it left."""
        path, folds = self._fresh(), Folds()
        promised: list[Ack] = []
        played = [life for life in self.share["lives"] if "rebuild" not in LIVES[life] or turn % REBUILDS == 0]
        if played[0]:  # a later life begins on a ledger that is there
            os.waitpid(fork(partial(self._play, path, f"{self.share['seed']} {turn}", 0, FOREVER)), 0)
        for life in played:
            nth_turn = turn // REBUILDS if "rebuild" in LIVES[life] else turn
            before, name = nth(nth_turn, operations[life]), f"{self.share['seed']} {turn} {life}"
            self._count_death(fork(partial(self._play, path, name, life, before)))
            if (turn + life) % 3 or life == played[-1]:
                self._check(path, folds, promised, f"seed {name}, before operation {before}")

    def _play(self, path: Path, name: str, life: int, before: int) -> None:
        self.shim.arm(KILL, before)
        Player(path, name, early=self.share["wrong"] == "early").play(LIVES[life])

    def _count_death(self, child: int) -> None:
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            self.killed += 1
        elif os.waitstatus_to_exitcode(status) == 0:
            self.survived += 1
        else:
            self.failures.append(f"a program ended by itself with {os.waitstatus_to_exitcode(status)}")

    def _check(self, path: Path, folds: Folds, promised: list[Ack], where: str) -> None:
        acks = [ack for file in path.parent.glob("ACK*") for ack in acknowledged(file.read_bytes())]
        found = look(path, folds)
        wrong = [*found.problems, *lost([*acks, *promised], found)]
        if found.written:
            promised.append(found.written)
        if wrong:
            self.failures.append(f"{where}: {'; '.join(wrong)}")
            # what is lost would be found lost again after every further kill
            promised.clear()
            for file in path.parent.glob("ACK*"):
                file.unlink()

    def _crowd(self, turn: int) -> None:
        """Four writers on one ledger, each killed at a time of its own; three times."""
        path, folds, choose = (
            self._fresh(),
            Folds(),
            random.Random(f"{self.share['seed']} {self.share['number']} {turn}"),
        )
        promised: list[Ack] = []
        for again in range(3):
            children = []
            for number in range(WRITERS):
                name = f"writer {turn} {again} {number}"
                children.append(fork(partial(write_for_ever, path, name, number)))
            for child in children:
                time.sleep(choose.uniform(0.002, 0.03))
                os.kill(child, signal.SIGKILL)
            for child in children:
                self._count_death(child)
            self._check(path, folds, promised, f"{WRITERS} writers, seed {self.share['seed']}, turn {turn}.{again}")


def nth(turn: int, operations: int) -> int:
    """The operation of a turn: spread over all of them from the first turns on, and all of them once in so many turns."""
    step = max(round(operations * 0.618), 1)
    while gcd(step, operations) > 1:
        step += 1
    return 1 + turn * step % operations


def fork(play: Callable[[], None]) -> int:
    """A child process that plays and ends; one that hangs is ended by an alarm."""
    child = os.fork()
    if not child:
        code = 7
        signal.alarm(PATIENCE_SECONDS)
        try:
            play()
            code = 0
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    return child


def write_for_ever(path: Path, name: str, number: int) -> None:
    choose = random.Random(name)
    player = Player(path, name, file=f"ACK{number}")
    player.tolerated = (RejectedError, ConflictError)  # of another writer's memory, or while another rebuilds
    player.open()
    while True:
        player.do(choose.choice(("remember", "remember", "capture", "batch", "supersede", "state", "rebuild")))
