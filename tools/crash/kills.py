"""A test that kills ledgers before the k-th file operation, and four writers at random times: no acknowledged event is lost."""

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
REBUILDS = 3  # only one ledger in so many lives the life with a rebuild, because that takes as long as five other lives
PATIENCE_SECONDS = 120
KILLS = 20  # the kills of each control
INGESTS, ERASURES, BACKUPS = range(len(LIVES) - 3, len(LIVES))
CONTROLS = (  # the seeded fault, and the lives in which a kill must show it
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
        shares[0] | {"wrong": fault, "lives": [*lives], "enumerated": KILLS, "random": 0} for fault, lives in CONTROLS
    ]
    try:
        answers = together("tools.crash.kills:work", shares)
    except Unavailable as error:
        return Result("kills", 0, (), time.monotonic() - started, skipped=str(error))
    answers, controls = answers[:WORKERS], answers[WORKERS:]
    failures = [failure for answer in answers for failure in answer["failures"]]
    failures += [f"control {answer['wrong']}: no kill showed it" for answer in controls if not answer["failures"]]
    totals = {name: sum(answer[name] for answer in answers) for name in ("enumerated", "random", "survived")}
    notes = (
        f"{totals['enumerated']} before the k-th operation of {answers[0]['operations']} in {len(LIVES)} lives,"
        f" {totals['random']} of {WRITERS} writers at random; {totals['survived']} lives ended before their kill",
        *(
            f"control {answer['wrong']}: {len(answer['failures'])} of {answer['enumerated']} kills failed"
            for answer in controls
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
    """Do a worker's share: its enumerated kills, and then its random kills."""
    small_checkpoints()
    if wrong := getattr(workload, share["wrong"], None):
        wrong()
    folder = Path(share["folder"])
    return Kills(folder, share).run()


class Kills:
    """Ledgers that live through one life after another, each life ended by a kill before another operation."""

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
        """Return the number of operations of each life without a kill; this also loads every module before the first kill."""
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
        """Play the lives of one ledger.

        After a third of the kills nothing is checked, and the next life begins on the remains.
        """
        path, folds = self._fresh(), Folds()
        promised: list[Ack] = []
        played = [life for life in self.share["lives"] if "rebuild" not in LIVES[life] or turn % REBUILDS == 0]
        if played[0]:  # a later life begins on an existing ledger
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
            # without this, every further kill would report the same losses again
            promised.clear()
            for file in path.parent.glob("ACK*"):
                file.unlink()

    def _crowd(self, turn: int) -> None:
        """Run four writers on one ledger and kill each at a time of its own, three times."""
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
    """Return the operation of a turn: early turns are spread over all operations, and every operation has its turn once."""
    step = max(round(operations * 0.618), 1)
    while gcd(step, operations) > 1:
        step += 1
    return 1 + turn * step % operations


def fork(play: Callable[[], None]) -> int:
    """Start a child process that plays and ends; an alarm ends a child that hangs."""
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
    player.tolerated = (RejectedError, ConflictError)  # another writer changed the memory, or is rebuilding
    player.open()
    while True:
        player.do(choose.choice(("remember", "remember", "capture", "batch", "supersede", "state", "rebuild")))
