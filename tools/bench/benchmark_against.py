"""A comparison of the speed of the daily operations with that of an earlier commit, in one run on one machine.

    python3 tools/dev.py bench --against COMMIT            at 1,000 and 20,000 memories
    python3 tools/dev.py bench --against COMMIT --quick    at 1,000
    python3 tools/dev.py bench --against COMMIT --rows why,get --rounds 20

A child process for each of the two trees, with the same Python and the same dependencies, does the same operations on the
same texts. The two take turns in small groups (A B B A), so that a machine that drifts slows both.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tools.bench.daily_work import ONCE, ROWS  # noqa: E402
from tools.bench.measuring import amount, environment  # noqa: E402

ALLOWED = 1.15  # times the other commit's processor time
NOTE = """\
Ratios are ours / theirs; in brackets the quartiles of the neighbouring groups' ratios. Elapsed time includes the disk and other
work of the machine; trust the processor time (user and system, of the process and its children)."""


class Tree:
    """A child process that works with the product of one tree."""

    def __init__(self, tree: Path, folder: Path, sizes: Sequence[int]) -> None:
        folder.mkdir()
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", ROOT / "tools/bench/daily_work.py", folder, *map(str, sizes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder,
            env=environment | {"PYTHONPATH": str(tree)},
        )  # fmt: skip
        if not Path(self._answer()).is_relative_to(tree.resolve()):
            raise SystemExit(f"the child process does not import the ledger of {tree}")

    def measure(self, size: int, row: str) -> tuple[float, float]:
        assert self._process.stdin
        print(json.dumps([size, row, ROWS[row][1]]), file=self._process.stdin, flush=True)
        elapsed, busy = self._answer()
        return elapsed, busy

    def _answer(self) -> Any:
        assert self._process.stdout
        if not (line := self._process.stdout.readline()):
            raise SystemExit("a child process ended early; its output is above")
        return json.loads(line)

    def close(self) -> None:
        self._process.communicate()


def measure(ours: Tree, theirs: Tree, size: int, row: str, rounds: int) -> list[tuple[float, float, float, float]]:
    """Return the seconds of neighbouring groups of a row: elapsed (ours, theirs), then of the processor (ours, theirs)."""
    pairs = list[tuple[float, float, float, float]]()
    for turn in range(-1, 2 * rounds):  # the first pair warms up
        first, second = (ours, theirs) if turn % 2 else (theirs, ours)
        a, b = first.measure(size, row), second.measure(size, row)
        (our, their) = (a, b) if first is ours else (b, a)
        if turn >= 0:
            pairs.append((our[0], their[0], our[1], their[1]))
    return pairs


def line(row: str, size: int, pairs: Sequence[tuple[float, ...]]) -> tuple[str, float]:
    """Return a row of the table, and the ratio of the processor times."""
    columns = [statistics.median(column) for column in zip(*pairs, strict=True)]
    cells = [ROWS[row][0], "" if row in ONCE else f"{size:,}"]
    for our, their in ((0, 1), (2, 3)):
        low, _, high = statistics.quantiles([pair[our] / pair[their] for pair in pairs], n=4)
        ratio = columns[our] / columns[their]
        cells += [amount(columns[our], "s"), amount(columns[their], "s"), f"{ratio:.2f} ({low:.2f}–{high:.2f})"]
    return "| " + " | ".join(cells) + " |", ratio


def main() -> int:
    """Return 1 if a row takes more than 1.15 times the processor time of the other commit."""
    parser = argparse.ArgumentParser(prog="tools/dev.py bench", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--against", metavar="COMMIT", required=True, help="the commit to compare with")
    parser.add_argument("--quick", action="store_true", help="1,000 memories only")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"of {', '.join(ROWS)}")
    parser.add_argument("--rounds", type=int, default=4, help="each has two groups of a row for each tree (default 4)")
    parser.add_argument("--sizes", default="1000,20000", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [1_000] if options.quick else [int(size) for size in options.sizes.split(",")]
    rows = options.rows.split(",")
    if unknown := set(rows) - set(ROWS):
        parser.error(f"no row {', '.join(sorted(unknown))}; the rows are {', '.join(ROWS)}")
    return compare(options.against, sizes, rows, options.rounds)


def compare(commit: str, sizes: Sequence[int], rows: Sequence[str], rounds: int) -> int:
    slower = list[str]()
    with tempfile.TemporaryDirectory(prefix="against-") as name:
        scratch = Path(name)
        archive = subprocess.check_output(["git", "archive", commit, "ledger", "projections", "tools"], cwd=ROOT)
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            packed.extractall(scratch / "theirs", filter="data")
        ours, theirs = Tree(ROOT, scratch / "a", sizes), Tree(scratch / "theirs", scratch / "b", sizes)
        print(f"| | memories | elapsed | at {commit} | ratio | processor time | at {commit} | ratio |")
        print("|---|--:|--:|--:|--:|--:|--:|--:|")
        for row in rows:
            for size in sizes[:1] if row in ONCE else sizes:
                text, ratio = line(row, size, measure(ours, theirs, size, row, rounds))
                print(text, flush=True)
                slower += [f"{ROWS[row][0]} at {size:,}: {ratio:.2f}"] if ratio > ALLOWED else []
        ours.close()
        theirs.close()
    print("", NOTE, environment(), sep="\n")
    print(f"More than {ALLOWED} times the processor time: " + ("; ".join(slower) or "none"))
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main())
