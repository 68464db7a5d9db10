"""A full or failing disk at every file operation, once and until healed: typed errors, no false promise, and then it works."""

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

# The first is played on an empty folder, the others on a copy of what one life of a ledger left.
SCRIPTS: tuple[tuple[str, ...], ...] = (("remember",), ("capture", "checkpoint", "reopen", "undo"))
LONG_SCRIPTS = (
    *SCRIPTS,
    ("supersede", "blob", "batch", "checkpoint", "recall"),
    ("propose", "rebuild", "promote", "reopen", "state"),
)
CONTROL_CASES = 60
SHORT_EVERY = (
    19  # the short form takes one case in so many, odd so that every kind has its turn; another seed takes others
)

# (what fails, with which error, whether the first write concerned is cut short, until when)
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
        *found, control = together("tools.crash.faults:work", shares)
    except Unavailable as error:
        return Result("faults", 0, (), time.monotonic() - started, skipped=str(error))
    failures = [told for each in found for told in each["failures"]]
    if not control["failures"]:
        failures.append("control: errors were swallowed and acknowledged, and no fault showed it")
    totals = {name: sum(each[name] for each in found) for name in ("cases", "refusals", "unnoticed")}
    which = f"one in {SHORT_EVERY} of" if short else "all of"
    notes = (
        f"{which} {len(CHANGES)} kinds of fault at each of {found[0]['operations']} operations, {len(READINGS)} at each"
        f" of {found[0]['reads']} reads",
        f"{totals['refusals']} commands refused with a typed error, {totals['unnoticed']} faults that no command noticed",
        f"control, errors swallowed and acknowledged: {len(control['failures'])} of {control['cases']} cases lost some",
    )
    return Result("faults", totals["cases"], tuple(failures), time.monotonic() - started, notes=notes)


def work(share: dict[str, Any]) -> dict[str, Any]:
    """One worker's share of all faults; for the control, a few of them."""
    workload.small_checkpoints()
    faults = Faults(Path(share["folder"]), share["seed"], lies=share["lies"])
    cases: list[tuple[int, int, Kind]] = []
    counts = {"operations": 0, "reads": 0}
    for number, script in enumerate(share["scripts"]):
        for name, mode, kinds in (("operations", COUNT, CHANGES), ("reads", READS, READINGS)):
            found = faults.count(number, script, mode)
            counts[name] += found
            cases += itertools.product([number], range(1, found + 1), kinds)
    cases = cases[share["number"] :: share["of"]]
    if share["lies"]:
        cases = cases[:: max(len(cases) // CONTROL_CASES, 1)]
    for number, at, kind in cases:
        faults.fail(number, share["scripts"][number], at, kind)
    return counts | {
        "failures": faults.failures, "cases": len(cases),
        "refusals": faults.refusals, "unnoticed": faults.unnoticed,
    }  # fmt: skip


class Faults:
    """Plays scripts again and again, and lets another operation fail each time. ``lies`` acknowledges what was refused."""

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
        """One case: the fault, two more commands once the disk is healed, and a look at everything."""
        what, error, half, until = kind
        player, told = self._player(number), list[str]()
        player.tolerated = (LedgerError,)
        last = FOREVER if until == "until healed" else at + half  # after half a write, the next one fails
        self.shim.arm(READS if what == "read" else FAIL, at, last, error=getattr(errno, error), half=half)
        _play(player, script, told)
        self.shim.rest()
        self.refusals += len(player.refusals)
        self.unnoticed += not player.refusals
        player.tolerated = ()
        _play(player, ("remember",), told)  # in the same open ledger, if it is still open
        player.give_up()
        acks = acknowledged((self.place / "ACK").read_bytes())
        found = look(self.place / "memory.db", Folds())
        where = f"seed {self.seed}, script {number}, {what} {at}, {error}{' after half a write' * half}, {until}"
        if wrong := [*told, *found.problems, *lost(acks, found)]:
            self.failures.append(f"{where}: {'; '.join(wrong)}")


def _play(player: Player, script: Sequence[str], told: list[str]) -> None:
    for step in ("open", *script):
        try:
            player.open() if step == "open" else player.do(step)
        except Exception as error:  # no LedgerError, or one after the disk was healed
            told.append(f"{step} raised {type(error).__name__}: {error}")
