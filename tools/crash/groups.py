"""A test that kills a process whose 40 tasks and 8 threads write in groups: no acknowledged event is lost."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ledger import Ledger
from ledger.aio import AsyncLedger
from ledger.core import batches
from tools.crash.checking import Folds, look, lost
from tools.crash.kills import fork
from tools.crash.result import Result
from tools.crash.shim import WORKERS, together
from tools.crash.workload import Ack, acknowledged

SHORT, LONG = 16, 1_000
TASKS, THREADS = 40, 8
CONTROL_KILLS = 4
FIRST = 30  # acknowledgements before a kill, so that whole groups are under way


def run(short: bool, seed: int) -> Result:
    started, total = time.monotonic(), SHORT if short else LONG
    shares = [
        {"seed": seed, "number": number, "kills": total // WORKERS, "wrong": False} for number in range(WORKERS)
    ] + [{"seed": seed, "number": WORKERS, "kills": CONTROL_KILLS, "wrong": True}]
    *answers, control = together("tools.crash.groups:work", shares)
    failures = [failure for answer in answers for failure in answer["failures"]]
    if not control["failures"]:
        failures.append("control early: no kill showed it")
    kills, acks = (sum(answer[name] for answer in answers) for name in ("kills", "acks"))
    notes = (
        f"{kills} kills of {TASKS} tasks and {THREADS} threads, {acks:,} acknowledgements",
        f"control early: {len(control['failures'])} of {control['kills']} kills failed",
    )
    return Result("groups", kills, tuple(failures), time.monotonic() - started, notes=notes)


def work(share: dict[str, Any]) -> dict[str, Any]:
    """Kill writers of one ledger again and again, and check the ledger after each kill."""
    folder = Path(share["folder"]) / "ledger"
    folder.mkdir(mode=0o700)
    path, folds, failures = folder / "memory.db", Folds(), list[str]()
    choose = random.Random(f"{share['seed']} {share['number']}")
    promised, known = list[Ack](), 0
    if share["wrong"]:
        acknowledge_early()
    for turn in range(share["kills"]):
        ack = folder / f"ACK{turn}"
        child = fork(partial(write_for_ever, path, ack, f"{share['seed']} {share['number']} {turn}"))
        ended = 0
        while not ended and (not ack.exists() or ack.read_bytes().count(b"\n") < FIRST):
            time.sleep(0.005)
            ended, _ = os.waitpid(child, os.WNOHANG)
        if ended:
            failures.append(f"turn {share['number']}.{turn}: the writers ended by themselves")
            continue
        time.sleep(choose.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        acks = acknowledged(ack.read_bytes())
        known += len(acks)
        found = look(path, folds)
        if wrong := [*found.problems, *lost([*acks, *promised], found)]:
            failures.append(f"seed {share['seed']}, turn {share['number']}.{turn}: {'; '.join(wrong)}")
        if found.written:
            promised.append(found.written)
    return {"failures": failures, "kills": share["kills"], "acks": known}


def write_for_ever(path: Path, ack: Path, name: str) -> None:
    """Write with tasks of one ledger and with threads of another one on the same file, each with group commit."""
    descriptor = os.open(ack, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def acknowledge(memory: Any) -> None:
        os.write(descriptor, (json.dumps([memory.position, memory.id, "active", memory.content]) + "\n").encode())

    def threads() -> None:
        with Ledger.open(path, group_commit=True) as ledger:

            def write(thread: int) -> None:
                for number in range(10**9):
                    acknowledge(ledger.remember(f"{name} thread {thread} remembers {number}."))

            writers = [threading.Thread(target=write, args=(number,)) for number in range(THREADS)]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()

    async def tasks() -> None:
        async with await AsyncLedger.open(path) as ledger:

            async def write(task: int) -> None:
                for number in range(10**9):
                    acknowledge(await ledger.remember(f"{name} task {task} remembers {number}."))

            await asyncio.gather(*map(write, range(TASKS)))

    threading.Thread(target=threads).start()
    asyncio.run(tasks())


def acknowledge_early() -> None:
    """Acknowledge each command when it is decided and not after the commit, a fault that a kill must show."""
    decide = batches.QueuedCommand.decide

    def decided(self: batches.QueuedCommand) -> None:
        decide(self)
        self.deliver([self])
        time.sleep(0.002)  # so that the commit comes later than the acknowledgement is written

    def release(settled: Sequence[batches.ThreadCommand]) -> None:
        for queued in settled:
            with suppress(RuntimeError):  # the second delivery, after the commit
                queued.done.release()

    fault: Any = batches
    fault.QueuedCommand.decide, fault.ThreadCommand.deliver = decided, staticmethod(release)
