"""A benchmark of embedders: the time of 1,000 turns, of a question, and the memory, each in a process of its own.

    python tools/bench/benchmark_embedders.py [minilm wordllama onnx:DIRECTORY …]

The turns are the first 1,000 messages of the invented years in ``tools/evaluate/years``, and the questions are asked there. The
time is processor time, so that other work on the machine counts only as far as it slows the core. A model that is not installed
is left out. At the end the model reads long texts, which must not need more memory than short ones by far.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from ledger import Ledger, RejectedError  # noqa: E402
from ledger.vectors.embedders import as_embedder, checked_vectors  # noqa: E402
from tools.bench.measuring import Figure, environment, say, table  # noqa: E402

MODELS = ("wordllama", "minilm")
TURNS, QUESTIONS = 1_000, 60
LONG_TEXTS, LONG_CHARS = 64, 8_000
GOALS = {"minilm": (5.3, 0.005, 316.0)}  # seconds of the turns, seconds of a question, MiB


def measure(models: tuple[str, ...] = MODELS) -> list[Figure]:
    """Return the figures of each model that is installed."""
    figures = list[Figure]()
    for model in models:
        command = [sys.executable, str(Path(__file__).resolve()), "--worker", model]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            say(f"{model} cannot be measured here")
            continue
        turns, question, memory, memory_of_long = json.loads(done.stdout)
        goals = GOALS.get(model, (None, None, None))
        for what, size, ours, unit, goal in (
            ("the vectors of turns, processor time", TURNS, turns, "s", goals[0]),
            ("the vector of a question, processor time", QUESTIONS, question, "s", goals[1]),
            ("most memory of the process", TURNS, memory, "MiB", goals[2]),
            (f"most memory after texts of {LONG_CHARS:,} characters", LONG_TEXTS, memory_of_long, "MiB", None),
        ):
            figures.append(
                Figure(
                    what=f"{model}: {what}", size=size, ours=ours, unit=unit, limit=goal,
                    ratio=None if goal is None else ours / goal, reach="" if goal is None else "≤ 1 ×",
                    met=None if goal is None else ours <= goal,
                )
            )  # fmt: skip
    return figures


def work(model: str) -> None:
    """Print the figures of a model as JSON: seconds of the turns and of a question, MiB before and after long texts."""
    texts, questions = list[str](), list[str]()
    for path in sorted((ROOT / "tools/evaluate/years").glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        texts += [line[role] for line in lines if line["type"] == "turn" for role in ("user", "assistant")]
        questions += [line["question"] for line in lines if line["type"] == "question"]
    embedder = as_embedder(model)
    checked_vectors(embedder, ["loads the model"])
    with tempfile.TemporaryDirectory() as folder, Ledger.open(Path(folder) / "memory.db", embedder=embedder) as ledger:
        with ledger.batch():
            session = ledger.session("year")
            for text in texts[:TURNS]:
                session.append("user", text)
        began = time.process_time()
        embedded = ledger.vectors.update().embedded
        turns = (time.process_time() - began) / embedded * TURNS
    spent = list[float]()
    for question in questions[:QUESTIONS]:
        began = time.process_time()
        checked_vectors(embedder, [question], are_queries=True)
        spent.append(time.process_time() - began)
    memory = _most_memory()
    checked_vectors(embedder, [(text * LONG_CHARS)[:LONG_CHARS] for text in texts[:LONG_TEXTS]])
    print(json.dumps([turns, statistics.median(spent), memory, _most_memory()]))


def _most_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def main() -> int:
    figures = measure(tuple(sys.argv[1:]) or MODELS)
    print(table(figures, markdown=False), "", environment(), sep="\n")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        try:
            work(sys.argv[2])
        except RejectedError as error:
            sys.exit(str(error))
    else:
        sys.exit(main())
