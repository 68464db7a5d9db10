"""A test of power loss after every file operation, under six models of the unsynced data that a disk keeps.

The recorded operations are played on a model of a disk. The model knows for every file the durable bytes and the writes since
its last sync, and for every folder the same of its names. Writes made in order may survive in any order. Bytes that were not
written never change (SQLite assumes the same, and calls it powersafe overwrite).
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tools.crash import workload
from tools.crash.checking import Folds, Found, look, lost
from tools.crash.kills import fork
from tools.crash.result import Result
from tools.crash.shim import TRACE, WORKERS, Shim, Unavailable, together
from tools.crash.workload import Ack, Player, acknowledged

SHORT, LONG = 1_000, 200_000
MODELS = ("killed", "dropped", "prefix", "subset", "torn", "garbage")
SECTOR = 512

# "folders_never_synced" is a fault of the disk: SQLite syncs the folder by itself when it first syncs a new -wal, so that
# a product without a sync of its own would lose no acknowledged event.
CONTROLS = (
    *("synchronous_normal", "synchronous_off", "early", "projections_apart", "folders_never_synced"),
    "texts_garbled",
)
CONTROL_IMAGES = 1_200  # the most images of a control
ENOUGH = 20  # a control ends when so many of its images have failed

# The scripts that are played while the operations are recorded, one after the other until there are enough images.
SCRIPTS: tuple[tuple[str, ...], ...] = (
    ("remember", "backup", "ingest", "erase", "ingest"),
    ("remember", "capture", "supersede", "reopen", "undo", "checkpoint", "batch"),
    ("remember", "propose", "promote", "state", "recall", "reopen", "capture", "adjust", "remember"),
    ("capture", "batch", "checkpoint", "blob", "reopen", "supersede"),
    ("remember", "capture", "rebuild", "remember", "reopen", "undo"),
)
SLOW = (
    10  # the first script gets a tenth of the images: opening its images may search all files, and open a second ledger
)


# --- the record ------------------------------------------------------------------------------------------------------

_HEAD = struct.Struct("=cQqIIQ")


class Operation(NamedTuple):
    """A record of the shim: o(pen) c(reate) w(rite) t(runcate) s(ync) u(nlink) r(ename) l(ink) a(cknowledge)."""

    kind: str
    inode: int = 0
    offset: int = 0
    path: str = ""
    other: str = ""
    data: bytes = b""


def parse(trace: bytes) -> list[Operation]:
    operations, start = [], 0
    while start < len(trace):
        kind, inode, offset, path, other, data = _HEAD.unpack_from(trace, start)
        start += _HEAD.size
        parts = []
        for length in (path, other, data):
            parts.append(trace[start : start + length])
            start += length
        operations.append(
            Operation(kind.decode(), inode, offset, os.fsdecode(parts[0]), os.fsdecode(parts[1]), parts[2])
        )
    return operations


# --- the disk --------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class File:
    """The bytes of an inode: as they are read now, and as they are on the disk for certain."""

    now: bytearray = field(default_factory=bytearray)
    durable: bytes = b""


class Pending(NamedTuple):
    """A change that is not yet durable: a write, a truncation, or a change of names."""

    kind: str
    file: File | None = None
    offset: int = 0
    data: bytes = b""
    name: str = ""
    other: str = ""


class Disk:
    """A folder on a disk, with its certain content at first; ``sync_names=False`` is a program that never syncs the folder."""

    def __init__(self, folder: str, image: dict[str, bytes], *, sync_names: bool = True) -> None:
        self.folder, self.sync_names = folder, sync_names
        self.names = {name: File(bytearray(content), content) for name, content in image.items()}
        self.durable_names = dict(self.names)
        self.pending: list[Pending] = []
        self.promised = b""
        self._files: dict[int, File] = {}

    def apply(self, operation: Operation) -> None:
        kind, inode, offset, path, other, data = operation
        if path.endswith("-shm"):  # SQLite makes this file anew after a crash
            return
        if kind == "a":
            self.promised += data
        elif kind in "oc":
            self._open(inode, path, new=kind == "c")
        elif kind == "s":
            self._sync(inode, path)
        elif kind in "wt" and inode in self._files:
            self._change(Pending(kind, self._files[inode], offset, data))
        elif kind in "url":
            self._rename(Pending(kind, name=self._name(path), other=self._name(other)))

    def _name(self, path: str) -> str:
        return os.path.relpath(path, self.folder) if path else ""

    def _open(self, inode: int, path: str, *, new: bool) -> None:
        name = self._name(path)
        if name == ".":
            return
        if new:
            file = self._files[inode] = File()
            self._rename(Pending("c", file, name=name))
        elif name in self.names:
            self._files[inode] = self.names[name]

    def _change(self, change: Pending) -> None:
        assert change.file is not None
        _write(change.file.now, change)
        self.pending.append(change)

    def _rename(self, change: Pending) -> None:
        _name(self.names, change)
        self.pending.append(change)

    def _sync(self, inode: int, path: str) -> None:
        if path == self.folder:
            if self.sync_names:
                self.durable_names = dict(self.names)
                self.pending = [change for change in self.pending if change.kind in "wt"]
        elif file := self._files.get(inode):
            file.durable = bytes(file.now)
            self.pending = [change for change in self.pending if change.kind not in "wt" or change.file is not file]

    def image(self, model: str, choose: random.Random) -> dict[str, bytes]:
        """Return the files after a power loss at this moment, by name."""
        if model == "killed":
            return {name: bytes(file.now) for name, file in self.names.items() if _stays(name)}
        names, contents = dict(self.durable_names), dict[File, bytearray]()
        for change in kept(model, self.pending, choose):
            if change.kind in "wt":
                assert change.file is not None
                _write(contents.setdefault(change.file, bytearray(change.file.durable)), change)
            else:
                _name(names, change)
        return {name: bytes(contents.get(file, file.durable)) for name, file in names.items() if _stays(name)}


def _stays(name: str) -> bool:
    return name != "ACK"


def _write(content: bytearray, change: Pending) -> None:
    if change.kind == "t":
        del content[change.offset :]
        content.extend(bytes(change.offset - len(content)))
    else:
        content.extend(bytes(max(change.offset - len(content), 0)))
        content[change.offset : change.offset + len(change.data)] = change.data


def _name(names: dict[str, File], change: Pending) -> None:
    if change.kind == "c":
        assert change.file is not None
        names[change.name] = change.file
    elif change.kind == "l":
        if file := names.get(change.name):
            names[change.other] = file
    elif (file := names.pop(change.name, None)) and change.kind == "r":
        names[change.other] = file


# --- what is lost ----------------------------------------------------------------------------------------------------


def kept(model: str, pending: Sequence[Pending], choose: random.Random) -> list[Pending]:
    """Return the unsynced changes that reached the disk under a model of loss."""
    if model == "dropped":
        return []
    if model == "prefix":
        return list(pending[: choose.randint(0, len(pending))])
    if model == "subset":
        share = choose.random()
        return [change for change in pending if choose.random() < share]
    if model == "torn":
        return _torn(pending, choose)
    return [_garbage(change, choose) for change in pending if choose.random() < 0.75]


def _torn(pending: Sequence[Pending], choose: random.Random) -> list[Pending]:
    """Return a prefix of whose last write only some sectors arrived: those before a boundary, or those after it."""
    writes = [index for index, change in enumerate(pending) if change.kind == "w"]
    if not writes:
        return list(pending)
    last = choose.choice(writes)
    torn = pending[last]
    edges = range(torn.offset // SECTOR * SECTOR + SECTOR, torn.offset + len(torn.data), SECTOR)
    cut = (choose.choice(edges) if edges else torn.offset) - torn.offset
    if choose.random() < 0.5:
        part = torn._replace(data=torn.data[:cut])
    else:
        part = torn._replace(offset=torn.offset + cut, data=torn.data[cut:])
    return [*pending[:last], *([part] if part.data else [])]


def _garbage(change: Pending, choose: random.Random) -> Pending:
    """Return a write of which some sectors hold random bytes, within the bytes that were written."""
    if change.kind != "w":
        return change
    data, bad = bytearray(change.data), choose.random()
    start = 0
    while start < len(data):
        end = min(len(data), (change.offset + start) // SECTOR * SECTOR + SECTOR - change.offset)
        if choose.random() < bad:
            data[start:end] = choose.randbytes(end - start)
        start = end
    return change._replace(data=bytes(data))


# --- the test --------------------------------------------------------------------------------------------------------


def run(short: bool, seed: int) -> Result:
    started, images = time.monotonic(), SHORT if short else LONG
    shares = [{"seed": f"{seed}.{number}", "images": images // WORKERS} for number in range(WORKERS)]
    shares[0]["controls"] = CONTROLS[::2]
    shares[1]["controls"] = CONTROLS[1::2]
    try:
        answers = together("tools.crash.power_loss:work", shares)
    except Unavailable as error:
        return Result("power-loss", 0, (), time.monotonic() - started, skipped=str(error))
    failures = [failure for answer in answers for failure in answer["failures"]]
    controls = {name: counts for answer in answers for name, counts in answer["controls"].items()}
    failures += [
        f"control {name}: {built} images, and none failed" for name, (built, bad) in controls.items() if not bad
    ]
    totals = {name: sum(answer[name] for answer in answers) for name in ("built", "distinct", "operations", "traces")}
    notes = (
        f"{totals['distinct']} distinct of {totals['built']} images, after each of {totals['operations']} operations"
        f" in {totals['traces']} scripts",
        *(f"control {name}: {bad} of {built} images failed" for name, (built, bad) in controls.items()),
    )
    return Result("power-loss", totals["built"], tuple(failures), time.monotonic() - started, notes=notes)


def work(share: dict[str, Any]) -> dict[str, Any]:
    """Do a worker's share: the controls, and then scripts until there are enough images."""
    workload.small_checkpoints()
    folder = Path(share["folder"])
    controls = {}
    for name in share["controls"]:
        control = Losses(folder, f"{share['seed']} {name}", wrong=name)
        control.play(SCRIPTS[1], CONTROL_IMAGES)
        controls[name] = (control.built, len(control.failures))
    losses = Losses(folder, share["seed"])
    while losses.built < share["images"]:
        script, left = SCRIPTS[losses.traces % len(SCRIPTS)], share["images"] - losses.built
        losses.play(script, min(left, share["images"] // SLOW) if script is SCRIPTS[0] else left)
    return {
        "failures": losses.failures, "controls": controls, "built": losses.built,
        "distinct": losses.distinct, "operations": losses.operations, "traces": losses.traces,
    }  # fmt: skip


class Losses:
    """A recorder of scripts that checks the remains of every power loss; ``wrong`` names a fault seeded on purpose.

    A script begins on the remains of a power loss of the script before it; after a round of all scripts, on an empty folder.
    """

    def __init__(self, folder: Path, seed: str, wrong: str = "") -> None:
        self.folder, self.seed, self.wrong = folder, seed, wrong
        self.failures: list[str] = []
        self.built = self.distinct = self.operations = self.traces = 0
        self._choose = random.Random(seed)
        self._begin()

    def _begin(self) -> None:
        """Begin on an empty folder, where nothing is promised."""
        self._image, self._promised = dict[str, bytes](), list[Ack]()

    def play(self, script: Sequence[str], most: int) -> None:
        """Play a script and lose power after each operation under every model.

        Evenly spread operations are taken where all of them would make more than ``most`` images.
        """
        operations, folder = self._record(script)
        names = len(operations) - sum(operation.kind in "oa" for operation in operations)
        step = max(round(names * len(MODELS) / most), 1)
        self.traces += 1
        self.operations += names // step
        disk = Disk(folder, self._image, sync_names=self.wrong != "folders_never_synced")
        self._folds, self._known = Folds(every=True), dict[bytes, Found]()
        self._whole(operations, folder)
        seen, survivor = 0, self._choose.randrange(len(operations) // 3, len(operations))
        for number, operation in enumerate(operations):
            disk.apply(operation)
            seen += operation.kind not in "oa"
            if number == survivor:
                left = disk.image(self._choose.choice(MODELS), self._choose)
                promised = self._promised + acknowledged(disk.promised)
            if self.wrong and not disk.promised:  # nothing can be lost yet
                continue
            if seen % step == 0 or number == len(operations) - 1:
                self._lose(disk, number)
            if self.wrong and len(self.failures) >= ENOUGH:
                return
        self._image, self._promised = left, promised
        if self.traces % len(SCRIPTS) == 0:
            self._begin()

    def _record(self, script: Sequence[str]) -> tuple[list[Operation], str]:
        """Play a script in a child process, and return its file operations and its folder."""
        place, trace = self.folder / "recorded", self.folder / "trace"
        _put(self._image, place)
        shim = Shim(place)
        out = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)

        def play() -> None:
            if wrong := getattr(workload, self.wrong, None):
                wrong()
            shim.arm(TRACE, to=out)
            Player(place / "memory.db", f"{self.seed} {self.traces}", early=self.wrong == "early").play(script)

        status = os.waitpid(fork(play), 0)[1]
        os.close(out)
        if status:
            raise RuntimeError(f"a recorded program ended with {status} without any fault")
        return parse(trace.read_bytes()), str(place)

    def _whole(self, operations: Sequence[Operation], folder: str) -> None:
        """Fold the whole log first, so that every prefix of it is known."""
        disk = Disk(folder, self._image)
        for operation in operations:
            disk.apply(operation)
        remains = self._look(disk.image("killed", random.Random(0)))
        if not self.wrong:
            wrong = [*remains.problems, *lost(self._promised + acknowledged(disk.promised), remains)]
            self.failures += [f"seed {self.seed}, script {self.traces}, undisturbed: {problem}" for problem in wrong]

    def _lose(self, disk: Disk, number: int) -> None:
        promised = self._promised + acknowledged(disk.promised)
        for model in MODELS:
            image = disk.image(model, random.Random(f"{self.seed} {self.traces} {number} {model}"))
            self.built += 1
            mark = hashlib.sha256(b"".join(_marks(image))).digest()
            if mark not in self._known:
                self._known[mark] = self._look(image)
                self.distinct += 1
            remains = self._known[mark]
            wrong = [*remains.problems, *lost(promised, remains)]
            if self._folds.halves(len(remains.streams)):
                wrong.append("half a command is there")
            if wrong:
                where = f"seed {self.seed}, script {self.traces}, operation {number}, {model}"
                self.failures.append(f"{where}: {'; '.join(wrong)}")

    def _look(self, image: dict[str, bytes]) -> Found:
        place = self.folder / "image"
        _put(image, place)
        return look(place / "memory.db", self._folds)


def _put(image: dict[str, bytes], place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(mode=0o700)
    for name, content in image.items():
        with open(os.open(place / name, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(content)


def _marks(image: dict[str, bytes]) -> Iterator[bytes]:
    for name in sorted(image):
        yield f"{name} {len(image[name])} ".encode()
        yield image[name]
