"""The rows of the benchmark about a starting process: import, new ledger, first text, first question, a hook."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from ledger import Ledger
from tools.bench.measuring import Figure, Options, Texts, say

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
from ledger.core.guarding import Guard
Guard().verdict({TEXT!r})
seconds.append(now() - started)
for name in ("first.db", "second.db"):
    started = now()
    Ledger.open(os.path.join(sys.argv[1], name)).close()
    seconds.append(now() - started)
print(json.dumps([*seconds, now(), os.path.getsize(os.path.join(sys.argv[1], "second.db"))]))
"""
ROWS = (  # in the child's order: the label, and the seconds allowed
    ("from ledger import Ledger, in processor time", None),
    ("the guards loaded and the first text looked through, in processor time", 0.010),
    ("the first new ledger of a process, opened and closed, in processor time", None),
    ("a new ledger, opened and closed, in processor time", 0.020),
    ("all of this as a whole process, in processor time", None),
)

HOOK_SECONDS = 0.3
MEMORIES = 10_000  # of the ledger that is asked once
QUESTION = "the user and the deploy to staging"
ASK = f"""
import sys
from ledger import Ledger
with Ledger.open(sys.argv[1], user="ada", readonly=True) as ledger:
    ledger.recall({QUESTION!r})
"""


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
    figures += _first_question(options)
    return [*figures, Figure(what="the file of a new ledger", size=1, ours=size / 1024, unit="KiB")]


def _first_question(options: Options) -> list[Figure]:
    """Measure processes that open a ledger, ask one question and end: the library and the command line."""
    path, texts = str(options.directory / "start.db"), Texts(11)
    with Ledger.open(path, user="ada") as ledger:
        for _ in range(0, MEMORIES, 1_000):
            with ledger.batch():
                for _ in range(1_000):
                    ledger.remember(texts.words(12))
        ledger.recall(QUESTION)  # takes the texts into the index
    rows = {
        "a process that imports, opens a ledger and recalls once, in processor time": ["-c", ASK, path],
        "`memory-ledger recall`, in processor time": [
            "-m",
            "ledger",
            "recall",
            QUESTION,
            "--db",
            path,
            "--user",
            "ada",
        ],
    }
    figures = []
    for label, arguments in rows.items():
        took = [_processor_time([sys.executable, *arguments]) for _ in range(options.rounds * 4)][1:]
        figures.append(Figure(what=label, size=MEMORIES, ours=statistics.median(took)))
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": "/home/ada/shop", "prompt": QUESTION}
    hook = [sys.executable, "-m", "ledger.doors.hooks", "--db", path, "--user", "ada"]
    took = [_processor_time(hook, json.dumps(event)) for _ in range(options.rounds * 4)][1:]
    label = "the hook of a coding agent before a prompt, a whole process, in processor time"
    middle = statistics.median(took)
    figures.append(Figure(what=label, size=MEMORIES, ours=middle, reach="≤ 300 ms", met=middle <= HOOK_SECONDS))
    return figures


def _processor_time(command: list[str], text: str = "") -> float:
    """Return the seconds of processor time, user and system, that a process takes with a text on its standard input."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, input=text.encode(), capture_output=True, check=True, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
