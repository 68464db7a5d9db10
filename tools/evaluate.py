"""How well recall finds the turns that hold the answers, on transcripts with questions: through the public library only.

    python tools/evaluate.py DATA… [--vectors wordllama] [--ranking score/1] [--merged] [--json]

DATA is a JSON list of conversations (plain or .gz), each with ``turns`` (dia_id, speaker, session, date_time, text) and
``qa`` (question, category, evidence: a list of dia_ids). Each conversation is imported into a ledger of its own, as
``memory-ledger import`` does it (two turns an interaction), and every question is a ``recall`` among turns. ``factory`` is
the same as a store for other scorers: ``ingest(turns)``, ``search(question, k)``, ``close()``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ledger import Ledger

DEPTHS = (1, 5, 10, 20)
FIELDS = ("prompt", "response")
ADVERSARIAL = "adversarial"


class Store:
    """One ledger that holds one transcript, or several."""

    def __init__(self, vectors: str | None = None, ranking: str = "score/1") -> None:
        self._home = tempfile.TemporaryDirectory(prefix="evaluate-")
        self._ranking = ranking
        more: dict[str, Any] = {} if vectors is None else {"embedder": vectors}
        self._ledger = Ledger.open(Path(self._home.name) / "memory.db", **more)
        self._vectors = vectors is not None
        self._turns: dict[tuple[str, str], str] = {}

    def ingest(self, turns: Sequence[dict[str, str]]) -> None:
        path = Path(self._home.name) / "transcript.json"
        path.write_text(json.dumps([{"sample_id": "transcript", "turns": turns}]), encoding="utf-8")
        self._ledger.import_file(path)
        path.unlink()
        for session in {turn["session"] for turn in turns}:
            for each in self._ledger.interactions(session_id=f"transcript/{session}", limit=500):
                told = zip(FIELDS, each.context_pack["turns"], strict=True)
                self._turns |= {(each.id, field): id for field, id in told if id is not None}
        if len(self._turns) != len(turns):
            raise RuntimeError(f"{len(self._turns)} of {len(turns)} turns came in")
        if self._vectors:
            self._ledger.embed()

    def search(self, question: str, k: int) -> list[str]:
        pack = self._ledger.recall(question, among="turns", k=k, ranking=self._ranking)
        return [self._turns[item.passage.id, item.passage.field] for item in pack.items if item.passage is not None]

    def close(self) -> None:
        self._ledger.close()
        self._home.cleanup()


def factory() -> Store:
    return Store()


def factory_wordllama() -> Store:
    return Store("wordllama")


# --- scores ----------------------------------------------------------------------------------------------------------


def score(ranked: Sequence[str], gold: set[str]) -> dict[str, float]:
    """Of one question: the share of its evidence in the first k, 1 / the rank of the first, and nDCG with binary gains."""
    ranks = [rank for rank, id in enumerate(dict.fromkeys(ranked), 1) if id in gold]
    found = {f"recall@{k}": sum(rank <= k for rank in ranks) / len(gold) for k in DEPTHS}
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(gold), 10) + 1))
    gains = sum(1 / math.log2(rank + 1) for rank in ranks if rank <= 10)
    return found | {"MRR": 1 / ranks[0] if ranks and ranks[0] <= 20 else 0.0, "nDCG@10": gains / ideal}


def load(path: str) -> list[dict[str, Any]]:
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        found: list[dict[str, Any]] = json.load(file)
    return found


def merged(conversations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """All conversations as one, in one ledger: harder."""
    turns, questions = [], []
    for each in conversations:
        mark = f"{each['sample_id']}/"
        turns += [turn | {"dia_id": mark + turn["dia_id"], "session": mark + turn["session"]} for turn in each["turns"]]
        questions += [one | {"evidence": [mark + id for id in one["evidence"]]} for one in each["qa"]]
    return [{"sample_id": "all", "turns": turns, "qa": questions}]


def evaluate(
    conversations: Iterable[dict[str, Any]], open_store: Any, note: Any = None
) -> tuple[dict[str, list[dict[str, float]]], list[float]]:
    """The scores of every question by its category, and milliseconds a query; adversarial questions have no answer."""
    rows: dict[str, list[dict[str, float]]] = defaultdict(list)
    took: list[float] = []
    for conversation in conversations:
        store = open_store()
        try:
            store.ingest(conversation["turns"])
            for one in conversation["qa"]:
                if one["category"] == ADVERSARIAL or not one["evidence"]:
                    continue
                started = time.perf_counter()
                ranked = store.search(one["question"], max(DEPTHS))
                took.append(1000 * (time.perf_counter() - started))
                rows[one["category"]].append(score(ranked, set(one["evidence"])))
        finally:
            store.close()
        if note is not None:
            note(conversation["sample_id"])
    return rows, took


def means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.fmean(row[name] for row in rows) for name in rows[0]}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", nargs="+")
    parser.add_argument(
        "--vectors", metavar="MODEL", help="an embedder, as the command embed takes it: wordllama, onnx:DIR"
    )
    parser.add_argument("--ranking", default="score/1")
    parser.add_argument("--merged", action="store_true", help="every conversation of a file in one ledger")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    found: dict[str, Any] = {}
    for path in asked.data:
        conversations = merged(load(path)) if asked.merged else load(path)
        note = (lambda name: print(f"  {name}", file=sys.stderr)) if sys.stderr.isatty() else None
        rows, took = evaluate(conversations, partial(Store, asked.vectors, asked.ranking), note)
        everything = [row for each in rows.values() for row in each]
        groups = {"all": everything, **dict(sorted(rows.items()))} if everything else {}
        told = {name: {"n": len(each), **means(each)} for name, each in groups.items()}
        if not everything:
            print(f"{path}: no question with evidence", file=sys.stderr)
            return 1
        late = sorted(took)[min(len(took) - 1, round(0.95 * len(took)))]
        found[Path(path).name] = {"scores": told, "ms": {"p50": statistics.median(took), "p95": late}}
    if asked.json:
        print(json.dumps(found, indent=2))
    else:
        for name, each in found.items():
            _show(name, each)
    return 0


def _show(name: str, found: dict[str, Any]) -> None:
    columns = [key for key in found["scores"]["all"] if key != "n"]
    print(f"{name}: {found['ms']['p50']:.1f} ms a query (p50), {found['ms']['p95']:.1f} ms (p95)")
    print(f"  {'category':26}{'n':>5}" + "".join(f"{column:>11}" for column in columns))
    for category, scores in found["scores"].items():
        print(f"  {category:26}{scores['n']:>5}" + "".join(f"{scores[column]:>11.4f}" for column in columns))


if __name__ == "__main__":
    sys.exit(main())
