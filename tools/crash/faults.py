"""A test of a full or failing disk at every file operation: typed errors, no false promise, and work goes on once healed."""

from __future__ import annotations

import errno
import itertools
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ledger import LedgerError
from tools.crash import workload
from tools.crash.checking import Folds, look, lost
from tools.crash.result import Result
from tools.crash.shim import COUNT, FAIL, FOREVER, READS, WORKERS, Shim, Unavailable, together
from tools.crash.workload import Player, acknowledged

# The first script is played on an empty folder, the other scripts on a copy of a ledger with one life behind it.
SCRIPTS: tuple[tuple[str, ...], ...] = (("remember",), ("capture", "checkpoint", "reopen", "undo"))
LONG_SCRIPTS = (
    *SCRIPTS,
    ("supersede", "blob", "batch", "checkpoint", "recall"),
    ("propose", "rebuild", "promote", "reopen", "state"),
)
CONTROL_CASES = 60
# A short run takes one case in so many; the number is odd so that every kind has its turn. Another seed takes other cases.
SHORT_EVERY = 19

# (kind of operation that fails, error, True if the first failing write is cut short, end of the fault)
Kind = tuple[str, str, bool, str]
CHANGES: tuple[Kind, ...] = (
    ("operation", "ENOSPC", False, "once"),
    ("operation", "ENOSPC", False, "until healed"),
    ("operation", "EIO", False, "once"),
    ("operation", "EIO", False, "until healed"),
    ("operation", "ENOSPC", True, "once"),
)
READINGS: tuple[Kind, ...] = (("read", "EIO", False, "once"), ("read", "EIO", False, "until healed"))


def run(short: bool, seed: int) -> Result:
    started = time.monotonic()
    every = SHORT_EVERY if short else 1
    scripts = SCRIPTS if short else LONG_SCRIPTS
    common = {"seed": seed, "scripts": scripts, "of": WORKERS * every, "lies": False}
    shares = [common | {"number": (seed + number * every) % (WORKERS * every)} for number in range(WORKERS)]
    shares.append(common | {"number": 0, "of": WORKERS, "lies": True, "scripts": SCRIPTS})
    try:
        *answers, control = together("tools.crash.faults:work", shares)
    except Unavailable as error:
        return Result("faults", 0, (), time.monotonic() - started, skipped=str(error))
    failures = [failure for answer in answers for failure in answer["failures"]]
    if not control["failures"]:
        failures.append("control: errors were swallowed and acknowledged, but no fault showed a loss")
    totals = {name: sum(answer[name] for answer in answers) for name in ("cases", "refusals", "unnoticed")}
    share = f"one in {SHORT_EVERY} of" if short else "all of"
    notes = (
        f"{share} {len(CHANGES)} kinds of fault at each of {answers[0]['operations']} operations, {len(READINGS)} at each"
        f" of {answers[0]['reads']} reads",
        f"{totals['refusals']} commands refused with a typed error, {totals['unnoticed']} faults that no command noticed",
        f"control, errors swallowed and acknowledged: {len(control['failures'])} of {control['cases']} cases lost events",
    )
    return Result("faults", totals["cases"], tuple(failures), time.monotonic() - started, notes=notes)


def work(share: dict[str, Any]) -> dict[str, Any]:
    """Do a worker's share of all faults; for the control, a few of them."""
    workload.small_checkpoints()
    faults = Faults(Path(share["folder"]), share["seed"], lies=share["lies"])
    cases: list[tuple[int, int, Kind]] = []
    counts = {"operations": 0, "reads": 0}
    for number, script in enumerate(share["scripts"]):
        for name, mode, kinds in (("operations", COUNT, CHANGES), ("reads", READS, READINGS)):
            count = faults.count(number, script, mode)
            counts[name] += count
            cases += itertools.product([number], range(1, count + 1), kinds)
    cases = cases[share["number"] :: share["of"]]
    if share["lies"]:
        cases = cases[:: max(len(cases) // CONTROL_CASES, 1)]
    for number, operation, kind in cases:
        faults.fail(number, share["scripts"][number], operation, kind)
    return counts | {
        "failures": faults.failures, "cases": len(cases),
        "refusals": faults.refusals, "unnoticed": faults.unnoticed,
    }  # fmt: skip


class Faults:
    """A player of scripts that lets another operation fail each time; ``lies`` acknowledges commands that were refused."""

    def __init__(self, folder: Path, seed: int, *, lies: bool) -> None:
        self.place, self.before, self.lies, self.seed = folder / "ledger", folder / "before", lies, seed
        self.shim = Shim(self.place)
        self.failures: list[str] = []
        self.refusals = self.unnoticed = 0
        player = self._player(0)
        player.play(("remember", "capture"))
        player.give_up()
        shutil.copytree(self.place, self.before)

    def _player(self, number: int) -> Player:
        shutil.rmtree(self.place, ignore_errors=True)
        if number:
            shutil.copytree(self.before, self.place)
        else:
            self.place.mkdir(mode=0o700)
        return Player(self.place / "memory.db", f"{self.seed} {number}", lies=self.lies)

    def count(self, number: int, script: Sequence[str], mode: int) -> int:
        player = self._player(number)
        self.shim.arm(mode, FOREVER)
        player.play(script)
        player.give_up()
        counted = self.shim.count
        self.shim.rest()
        return counted

    def fail(self, number: int, script: Sequence[str], at: int, kind: Kind) -> None:
        """Play a case: the fault, two more commands once the disk is healed, and a full check."""
        operation, error, half, until = kind
        player, raised = self._player(number), list[str]()
        player.tolerated = (LedgerError,)
        last = FOREVER if until == "until healed" else at + half  # after half a write, the next one fails
        self.shim.arm(READS if operation == "read" else FAIL, at, last, error=getattr(errno, error), half=half)
        _play(player, script, raised)
        if (error, until) == ("ENOSPC", "until healed"):
            _play(player, ("verify",), raised)  # what is readable is sound, whether there is room or not
        self.shim.rest()
        self.refusals += len(player.refusals)
        self.unnoticed += not player.refusals
        player.tolerated = ()
        _play(player, ("remember",), raised)  # in the same open ledger, if it is still open
        player.give_up()
        acks = acknowledged((self.place / "ACK").read_bytes())
        remains = look(self.place / "memory.db", Folds())
        where = f"seed {self.seed}, script {number}, {operation} {at}, {error}{' after half a write' * half}, {until}"
        if wrong := [*raised, *remains.problems, *lost(acks, remains)]:
            self.failures.append(f"{where}: {'; '.join(wrong)}")


def _play(player: Player, script: Sequence[str], raised: list[str]) -> None:
    for step in ("open", *script):
        try:
            player.open() if step == "open" else player.do(step)
        except Exception as error:  # any error but a tolerated LedgerError is a failure
            raised.append(f"{step} raised {type(error).__name__}: {error}")
