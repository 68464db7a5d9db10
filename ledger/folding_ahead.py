"""A second process that folds the next batches of a rebuild while the first writes those before; both ends of the pipe.

The first process asks in lines of text, ``fold FIRST LAST WRITTEN EXPAND`` or ``digest POSITION NAME …``, some of them before
it hears the answers, and the second answers in MessagePack, behind the length in 8 bytes; a length of zero says that it
cannot. It reads the log and the tables through a connection of its own, and writes nothing. The new texts are taken
apart by the one of the two that waits for the other. Whatever goes wrong here costs time only, for the first
process folds by itself then. The secret goes through the pipe as well: it is on no command line and in no environment.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import IO

import msgspec

import ledger
from ledger.log_reading import Reading
from ledger.sqlite_files import LedgerFile
from projections.ahead import Folded, RowsAhead, unpacked
from projections.digests import digests_at
from projections.projector import Projector, projections
from projections.rebuild import FRESH, Faltered

PATIENCE_SECONDS = 60.0  # for one batch
LENGTH_BYTES = 8
CACHE_KIB = 8_192  # of the file: the log is read once, and few rows are read again
_PROGRAM = (
    "import json, sys; told = json.loads(sys.stdin.buffer.readline()); sys.path[:] = told['sys_path'];"
    " from ledger.folding_ahead import fold; fold(told)"
)


def can_help() -> bool:
    """Whether there is a second processor, and a Python to run on it."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    program = os.path.basename(sys.executable or "").lower()  # of a server or a frozen program it is no Python
    return processors > 1 and program.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


# --- the end that asks -----------------------------------------------------------------------------------------------


class FoldingAhead:
    """One second process; see ``projections.rebuild.Ahead``."""

    def __init__(self, path: str, secret: bytes) -> None:
        root = os.path.dirname(os.path.dirname(os.path.abspath(ledger.__file__)))
        told = {"path": path, "secret": secret.hex(), "versions": _versions(), "sys_path": [*sys.path, root]}
        command = [sys.executable, "-I", "-c", _PROGRAM]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere, bufsize=0)
        except OSError as error:
            raise Faltered(f"no second process: {error.strerror}") from None
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self._unheard = -1
        self._waited = False  # for the last batch: the other process is the slower one
        try:
            self._say(json.dumps(told))
        except Faltered:
            self.close()
            raise

    def ask(self, first: int, last: int, written: int) -> None:
        self._say(f"fold {first} {last} {written} {int(not self._waited)}")

    def receive(self) -> Folded:
        self._waited = not self._is_ready(0)
        return unpacked(self._hear())

    def ask_digests(self, position: int, names: Sequence[str]) -> None:
        self._say(f"digest {position} {' '.join(names)}")

    def receive_digests(self) -> dict[str, str]:
        while self._unheard > 1:  # batches that nobody wanted in the end
            self._hear()
        return msgspec.msgpack.decode(self._hear(), type=dict[str, str])

    def close(self) -> None:
        self._process.kill()  # it only reads
        self._process.wait()
        self._to.close()
        self._from.close()

    def _say(self, line: str) -> None:
        if self._to.closed:
            raise Faltered("the second process was given up")
        try:
            _write(self._to, line.encode() + b"\n")
        except OSError:
            raise Faltered("the second process ended") from None
        self._unheard += 1

    def _hear(self) -> bytearray:
        try:
            length = int.from_bytes(self._read(LENGTH_BYTES), "big")
            if not length:
                raise Faltered("the second process cannot")
            data = self._read(length)
        except Faltered:
            self.close()  # what it still says would be taken for an answer to something else
            raise
        self._unheard -= 1
        return data

    def _read(self, size: int) -> bytearray:
        if self._from.closed:
            raise Faltered("the second process was given up")
        found = bytearray(size)
        left = memoryview(found)
        while left:
            if not self._is_ready(PATIENCE_SECONDS):
                raise Faltered("the second process takes too long")
            count = os.readv(self._from.fileno(), [left])
            if not count:
                raise Faltered("the second process ended")
            left = left[count:]
        return found

    def _is_ready(self, seconds: float) -> bool:
        """Whether the other end says something, or ends, within so many seconds."""
        if self._from.closed:
            return True
        with selectors.DefaultSelector() as ready:
            ready.register(self._from, selectors.EVENT_READ)
            return bool(ready.select(seconds))


@contextmanager
def folding_ahead(path: str, secret: bytes) -> Iterator[FoldingAhead]:
    """A second process for one rebuild of the ledger at ``path``; ``Faltered`` where there can be none."""
    if not can_help():
        raise Faltered("one processor")
    process = FoldingAhead(path, secret)
    try:
        yield process
    finally:
        process.close()


def _write(pipe: IO[bytes], data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[pipe.write(left) :]


def _versions() -> dict[str, int]:
    return {each.name: each.version for each in projections(b"")}


# --- the end that folds ----------------------------------------------------------------------------------------------


def fold(told: dict[str, object]) -> None:
    """What the second process does until its input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, for both: the first one says what to do
    gc.disable()  # folding makes many objects and no cycles
    pipe, sys.stdout = os.fdopen(os.dup(1), "wb", 0), sys.stderr
    if told["versions"] != _versions():  # the product was replaced under the process that asks
        pipe.write(bytes(LENGTH_BYTES))
        return
    secret = bytes.fromhex(str(told["secret"]))
    connection = LedgerFile(str(told["path"]), create=False).connect()
    connection.execute("PRAGMA query_only = ON")
    connection.execute(f"PRAGMA cache_size = {-CACHE_KIB}")
    with _answering(pipe) as answers:
        for answer in _answered(connection, secret):
            answers.put(answer)


def _answered(connection: sqlite3.Connection, secret: bytes) -> Iterator[bytes]:
    """The answer to each line that is read."""
    reading = Reading(lambda: connection)
    projector, rows = Projector(secret, reading), RowsAhead(connection, FRESH)
    for line in sys.stdin.buffer:
        what, position, *more = line.decode().split()
        if what == "digest":
            yield msgspec.msgpack.encode(digests_at(connection, int(position), more))
            continue
        last, written, expand = map(int, more)
        rows.written(written)
        for event in reading.events(int(position), last):
            projector.fold(event, rows)
        if projector.poisoned:
            yield b""
            return
        yield rows.hand_over(last, expand=bool(expand))
        projector.forget()


@contextmanager
def _answering(pipe: IO[bytes]) -> Iterator[SimpleQueue[bytes | None]]:
    """What is put in goes through the pipe, as fast as it is read there; nobody waits for that here."""
    answers = SimpleQueue[bytes | None]()

    def write() -> None:
        with suppress(OSError):  # nobody reads any more
            while (data := answers.get()) is not None:
                _write(pipe, len(data).to_bytes(LENGTH_BYTES, "big") + data)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield answers
    finally:
        answers.put(None)
        thread.join()
