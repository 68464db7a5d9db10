"""Power loss after every file operation, under six models of what a disk keeps of what was not synced.

The recorded operations are played on a model of a disk, which knows for every file what is durable and what was written
since its last sync, and for every folder the same of its names. A file written in order may come back in any order; bytes
that were not written never change (SQLite assumes the same, and calls it powersafe overwrite).
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

SHORT, LONG = 2_000, 200_000
MODELS = ("killed", "dropped", "prefix", "subset", "torn", "garbage")
SECTOR = 512

# "folders_never_synced" is a fault of the disk: SQLite syncs the folder by itself when it first syncs a new -wal, so that
# a product that left it out would lose nothing that was acknowledged.
CONTROLS = (
    *("synchronous_normal", "synchronous_off", "early", "projections_apart", "folders_never_synced"),
    "texts_garbled",
)
CONTROL_IMAGES = 1_200  # at most; it ends when so many have failed
ENOUGH = 20

# What is played while the operations are recorded; one after the other, as long as images are wanted.
SCRIPTS: tuple[tuple[str, ...], ...] = (
    ("remember", "backup", "ingest", "erase", "ingest"),
    ("remember", "capture", "supersede", "reopen", "undo", "checkpoint", "batch"),
    ("remember", "propose", "promote", "state", "recall", "reopen", "capture", "adjust", "remember"),
    ("capture", "batch", "checkpoint", "blob", "reopen", "supersede"),
    ("remember", "capture", "rebuild", "remember", "reopen", "undo"),
)
SLOW = 10  # the first one has a tenth of the images: opening one of them may search all files, and open a second ledger


# --- the record ------------------------------------------------------------------------------------------------------

_HEAD = struct.Struct("=cQqIIQ")


class Operation(NamedTuple):
    """One record of the shim: o(pen) c(reate) w(rite) t(runcate) s(ync) u(nlink) r(ename) l(ink) a(cknowledge)."""

    kind: str
    inode: int = 0
    offset: int = 0
    path: str = ""
    other: str = ""
    data: bytes = b""


def parse(trace: bytes) -> list[Operation]:
    found, at = [], 0
    while at < len(trace):
        kind, inode, offset, path, other, data = _HEAD.unpack_from(trace, at)
        at += _HEAD.size
        parts = []
        for length in (path, other, data):
            parts.append(trace[at : at + length])
            at += length
        found.append(Operation(kind.decode(), inode, offset, os.fsdecode(parts[0]), os.fsdecode(parts[1]), parts[2]))
    return found


# --- the disk --------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class File:
    """The bytes of one inode: as they are read now, and as they are on the disk for certain."""

    now: bytearray = field(default_factory=bytearray)
    durable: bytes = b""


class Pending(NamedTuple):
    """Something done and not yet durable: a write, a truncation, or a change of names."""

    kind: str
    file: File | None = None
    offset: int = 0
    data: bytes = b""
    name: str = ""
    other: str = ""


class Disk:
    """One folder, and what is in it for certain at first. ``sync_names=False`` is a program that never syncs it."""

    def __init__(self, folder: str, image: dict[str, bytes], *, sync_names: bool = True) -> None:
        self.folder, self.sync_names = folder, sync_names
        self.names = {name: File(bytearray(content), content) for name, content in image.items()}
        self.durable_names = dict(self.names)
        self.pending: list[Pending] = []
        self.promised = b""
        self._files: dict[int, File] = {}

    def apply(self, operation: Operation) -> None:
        kind, inode, offset, path, other, data = operation
        if path.endswith("-shm"):  # made again after a crash
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
                self.pending = [each for each in self.pending if each.kind in "wt"]
        elif file := self._files.get(inode):
            file.durable = bytes(file.now)
            self.pending = [each for each in self.pending if each.kind not in "wt" or each.file is not file]

    def image(self, model: str, choose: random.Random) -> dict[str, bytes]:
        """The files after a power loss at this moment, by name."""
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
    """What reached the disk of what nobody had synced, under one model of loss."""
    if model == "dropped":
        return []
    if model == "prefix":
        return list(pending[: choose.randint(0, len(pending))])
    if model == "subset":
        share = choose.random()
        return [each for each in pending if choose.random() < share]
    if model == "torn":
        return _torn(pending, choose)
    return [_garbage(each, choose) for each in pending if choose.random() < 0.75]


def _torn(pending: Sequence[Pending], choose: random.Random) -> list[Pending]:
    """A prefix, of whose last write some sectors arrived: those before a boundary, or those after it."""
    writes = [at for at, each in enumerate(pending) if each.kind == "w"]
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
    """A write some of whose sectors hold anything at all, within the bytes that were written."""
    if change.kind != "w":
        return change
    data, bad = bytearray(change.data), choose.random()
    at = 0
    while at < len(data):
        end = min(len(data), (change.offset + at) // SECTOR * SECTOR + SECTOR - change.offset)
        if choose.random() < bad:
            data[at:end] = choose.randbytes(end - at)
        at = end
    return change._replace(data=bytes(data))


# --- the test --------------------------------------------------------------------------------------------------------


def run(short: bool, seed: int) -> Result:
    started, images = time.monotonic(), SHORT if short else LONG
    shares = [{"seed": f"{seed}.{number}", "images": images // WORKERS} for number in range(WORKERS)]
    shares[0]["controls"] = CONTROLS[::2]
    shares[1]["controls"] = CONTROLS[1::2]
    try:
        found = together("tools.crash.power_loss:work", shares)
    except Unavailable as error:
        return Result("power-loss", 0, (), time.monotonic() - started, skipped=str(error))
    failures = [told for each in found for told in each["failures"]]
    controls = {name: told for each in found for name, told in each["controls"].items()}
    failures += [
        f"control {name}: {built} images, and none failed" for name, (built, bad) in controls.items() if not bad
    ]
    totals = {name: sum(each[name] for each in found) for name in ("built", "distinct", "operations", "traces")}
    notes = (
        f"{totals['distinct']} distinct of {totals['built']} images, after each of {totals['operations']} operations"
        f" in {totals['traces']} scripts",
        *(f"control {name}: {bad} of {built} images failed" for name, (built, bad) in controls.items()),
    )
    return Result("power-loss", totals["built"], tuple(failures), time.monotonic() - started, notes=notes)


def work(share: dict[str, Any]) -> dict[str, Any]:
    """One worker's share: the controls, and then scripts until there are as many images as wanted."""
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
    """Records scripts, and checks what every power loss leaves of them. ``wrong`` names what is wrong on purpose.

    A script begins on what one of the power losses of the script before it left; every fourth on an empty folder.
    """

    def __init__(self, folder: Path, seed: str, wrong: str = "") -> None:
        self.folder, self.seed, self.wrong = folder, seed, wrong
        self.failures: list[str] = []
        self.built = self.distinct = self.operations = self.traces = 0
        self._choose = random.Random(seed)
        self._begin()

    def _begin(self) -> None:
        """On an empty folder, where nothing is promised."""
        self._image, self._promised = dict[str, bytes](), list[Ack]()

    def play(self, script: Sequence[str], most: int) -> None:
        """One script: every operation under every model; evenly spread ones where that is more than ``most`` images."""
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
        """Plays a script in a child process, and gives what it did to the disk."""
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
            raise RuntimeError(f"a program that was only recorded ended with {status}")
        return parse(trace.read_bytes()), str(place)

    def _whole(self, operations: Sequence[Operation], folder: str) -> None:
        """The whole log is folded first, so that every prefix of it is known."""
        disk = Disk(folder, self._image)
        for operation in operations:
            disk.apply(operation)
        found = self._look(disk.image("killed", random.Random(0)))
        if not self.wrong:
            wrong = [*found.problems, *lost(self._promised + acknowledged(disk.promised), found)]
            self.failures += [f"seed {self.seed}, script {self.traces}, undisturbed: {told}" for told in wrong]

    def _lose(self, disk: Disk, number: int) -> None:
        promised = self._promised + acknowledged(disk.promised)
        for model in MODELS:
            image = disk.image(model, random.Random(f"{self.seed} {self.traces} {number} {model}"))
            self.built += 1
            mark = hashlib.sha256(b"".join(_marks(image))).digest()
            if mark not in self._known:
                self._known[mark] = self._look(image)
                self.distinct += 1
            found = self._known[mark]
            wrong = [*found.problems, *lost(promised, found)]
            if self._folds.halves(len(found.streams)):
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
