"""The rows of the benchmark about a starting process: the import, a new ledger, the first text, the first recalls.

``--rows start [--data FILE…]``; the texts and questions are those of ``benchmark_recall.py``.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

from ledger import Ledger
from tools.bench.benchmark_recall import fill, material
from tools.bench.measuring import Figure, Options, say

ROOT = Path(__file__).resolve().parents[2]
TEXT = "The deploy to staging runs on Tuesdays at noon, and Mira looks at the dashboards afterwards."
CHILD = f"""
import json, os, sys, time
now = time.process_time
started = now()
from ledger import Ledger
seconds = [now() - started]
import ledger.erasure.rules, ledger.memories.rules
started = now()
from ledger.guards.guarding import Guard
Guard().verdict({TEXT!r})
seconds.append(now() - started)
for name in ("first.db", "second.db"):
    started = now()
    Ledger.open(os.path.join(sys.argv[1], name)).close()
    seconds.append(now() - started)
print(json.dumps([*seconds, now(), os.path.getsize(os.path.join(sys.argv[1], "second.db"))]))
"""
MEMORIES, NEXT = 10_000, 20
RECALLING = """
import json, statistics, sys, time
from ledger import Ledger
from ledger.english.porter import stem

def spent(text):
    started = time.process_time()
    opened.recall(text)
    return time.process_time() - started

first, *others = json.loads(sys.argv[2])
with Ledger.open(sys.argv[1]) as opened:
    seconds, new, again = spent(first), [], []
    for text in others:
        spent(text)
        stem.cache_clear()
        new.append(spent(text))
        again.append(spent(text))
print(json.dumps([seconds, statistics.median(new), statistics.median(again)]))
"""
ROWS = (  # in the child's order: the label, and the seconds allowed
    ("from ledger import Ledger, in processor time", None),
    ("the guards loaded and the first text looked through, in processor time", 0.010),
    ("the first new ledger of a process, opened and closed, in processor time", None),
    ("a new ledger, opened and closed, in processor time", 0.020),
    ("all of this as a whole process, in processor time", None),
)


def measure(options: Options) -> list[Figure]:
    """Measure processes that are started one after the other, and return the medians."""
    say("how a process starts")
    runs = list[list[float]]()
    for number in range(options.rounds * 4):
        place = options.directory / f"start {number}"
        place.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(place)], capture_output=True, text=True, check=True, cwd=ROOT
        )
        runs.append(json.loads(done.stdout))
    # The first process is left out, because it compiles the changed modules.
    *seconds, size = (statistics.median(column) for column in zip(*runs[1:], strict=True))
    figures = [
        Figure(what=label, size=1, ours=took, reach=f"≤ {1e3 * most:.0f} ms" if most else "", met=took <= most if most else None)
        for (label, most), took in zip(ROWS, seconds, strict=True)
    ]  # fmt: skip
    file = Figure(what="the file of a new ledger", size=1, ours=size / 1024, unit="KiB")
    return [*figures, file, *measure_recalls(options)]


def measure_recalls(options: Options) -> list[Figure]:
    """Measure the first recall of processes, and later recalls that know the stem of no word."""
    path = options.directory / "recalled at a start.db"
    texts, questions = material(options)
    with Ledger.open(path) as ledger:
        fill(ledger, MEMORIES, texts)
    runs = list[list[float]]()
    for number in range(options.rounds * 4):
        asked = [questions[(number + at) % len(questions)] for at in range(NEXT + 1)]
        command = [sys.executable, "-c", RECALLING, str(path), json.dumps(asked)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        runs.append(json.loads(done.stdout))
    first, new, again = (statistics.median(column) for column in zip(*runs, strict=True))
    return [
        Figure(what="the first recall of a process, in processor time", size=MEMORIES, ours=first),
        Figure(what="a recall that meets all its words for the first time, against the same again", size=MEMORIES,
               ours=new, limit=again, ratio=new / again),
    ]  # fmt: skip
