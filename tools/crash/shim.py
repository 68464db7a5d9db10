"""The Python side of the shim, a library in C that counts, kills, fails or records file operations of a program."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(os.path.abspath(__file__)).parent
ROOT = HERE.parent.parent
OFF, COUNT, KILL, FAIL, TRACE, READS = range(6)
WORKERS = 2
FOREVER = 2**62


class Unavailable(Exception):
    """The reason why there is no shim here."""


def build(folder: Path) -> Path:
    """Compile the shim into a folder."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        raise Unavailable("the shim needs Linux and a C compiler (cc or gcc)")
    library = folder / "shim.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(HERE / "shim.c"), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"the shim does not compile: {done.stderr.strip()[-300:]}")
    return library


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a private folder that is removed afterwards.

    The folder lies in memory if possible, because the tests are about the order of operations and not about the disk.
    """
    memory = Path("/dev/shm")
    place = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="crash-", dir=place) as folder:
        yield Path(os.path.realpath(folder))


def together(work: str, shares: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run ``module:function`` in one process for each share, behind the shim, and return the answers in order.

    A share gets a ``folder`` of its own. Shares and answers travel as JSON.
    """
    with scratch() as folder:
        environment = os.environ | {"LD_PRELOAD": str(build(folder)), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tools.crash.shim", work]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        workers: list[subprocess.Popen[str]] = []
        try:
            for number, share in enumerate(shares):
                own = folder / str(number)
                own.mkdir(mode=0o700)
                worker = subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)  # type: ignore[call-overload]
                workers.append(worker)
                worker.stdin.write(json.dumps(share | {"folder": str(own)}) + "\n")
                worker.stdin.flush()
            return [_answer(worker) for worker in workers]
        finally:  # after an interruption nobody waits for the remaining workers
            for worker in workers:
                if worker.poll() is None:
                    worker.kill()
                    worker.wait()


def _answer(worker: subprocess.Popen[str]) -> dict[str, Any]:
    output = worker.communicate()[0]
    if worker.returncode:
        raise RuntimeError(f"a worker ended with {worker.returncode}")
    answer: dict[str, Any] = json.loads(output)
    return answer


class Shim:
    """The shim that this process was started behind."""

    def __init__(self, folder: Path) -> None:
        self._library = ctypes.CDLL(None)
        if not hasattr(self._library, "shim_arm"):
            raise Unavailable("this process was not started behind the shim")
        self._library.shim_count.restype = ctypes.c_long
        self._library.shim_watch(os.fsencode(os.path.realpath(folder)))

    def arm(
        self, mode: int, first: int = 0, last: int = FOREVER, *, error: int = 0, half: bool = False, to: int = -1
    ) -> None:
        """Count operations from 1 from now on; the mode concerns the operations ``first`` to ``last``."""
        longs = (ctypes.c_long(first), ctypes.c_long(last))
        self._library.shim_arm(mode, *longs, error, int(half), to)

    def rest(self) -> None:
        self.arm(OFF)

    @property
    def count(self) -> int:
        return int(self._library.shim_count())


def main() -> None:
    module, function = sys.argv[1].split(":")
    answer = getattr(importlib.import_module(module), function)(json.loads(sys.stdin.readline()))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
