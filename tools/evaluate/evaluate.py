"""How well recall finds the turns that hold the answers, on transcripts with questions: through the public library only.

    python tools/evaluate/evaluate.py DATA… [--vectors wordllama] [--ranking score/3] [--merged] [--json]
    python tools/evaluate/evaluate.py DATA… --memories [--by-score] [--min-match 0]
    python tools/evaluate/evaluate.py DATA… --observations [--budget 1000 4000 …] [--merged] [--json]

DATA is a JSON list of conversations (plain or .gz), each with ``turns`` (dia_id, speaker, session, date_time, text) and
``qa`` (question, category, evidence: a list of dia_ids). Each conversation is imported into a ledger of its own, as
``memory-ledger import`` does it (two turns an interaction), and every question is a ``recall`` among turns. ``factory`` is
the same as a store for other scorers: ``ingest(turns)``, ``search(question, k)``, ``close()``.

With ``--memories`` each turn is a memory instead, which is harder than the statements that memories are; ``--by-score``
undoes what moved the newer of two before the older.

With ``--observations`` each conversation is consolidated by rules first, and every question asked with observations and
without, within the same budgets of characters: which share of its evidence turns is among the items of the pack, and which
among the items or the live sources of the observations shown (a source is an interaction, so both of its turns count).
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
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ledger import Ledger, RejectedError

DEPTHS = (1, 5, 10, 20)
BUDGETS = (1_000, 2_000, 4_000)  # characters of a pack with and without observations
OBSERVATIONS = 3  # as recall has it
FIELDS = ("prompt", "response")
ADVERSARIAL = "adversarial"


class Store:
    """One ledger that holds one transcript, or several."""

    def __init__(
        self,
        vectors: str | None = None,
        ranking: str = "score/3",
        memories: bool = False,
        by_score: bool = False,
        min_match: float | None = None,
    ) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="evaluate-")
        self._ranking: Any = ranking
        more: dict[str, Any] = {} if vectors is None else {"embedder": vectors}
        self._ledger = Ledger.open(Path(self._home.name) / "memory.db", **more)
        self._vectors, self._memories, self._by_score = vectors is not None, memories, by_score
        self._floor = min_match
        self._remembered: dict[str, str] = {}
        self._turns: dict[tuple[str, str], str] = {}

    def ingest(self, turns: Sequence[dict[str, str]]) -> None:
        if self._memories:
            for turn in turns:
                with suppress(RejectedError):  # a guard's: some turns quote what speaks as somebody else
                    memory = self._ledger.remember(f"{turn['speaker']}: {turn['text']}")
                    self._remembered.setdefault(memory.id, turn["dia_id"])
        else:
            self._import(turns)
        if self._vectors:
            self._ledger.vectors.update()

    def _import(self, turns: Sequence[dict[str, str]]) -> None:
        path = Path(self._home.name) / "transcript.json"
        path.write_text(json.dumps([{"sample_id": "transcript", "turns": turns}]), encoding="utf-8")
        self._ledger.interactions.import_file(path)
        path.unlink()
        for session in {turn["session"] for turn in turns}:
            for each in self._ledger.interactions.list(session=f"transcript/{session}").all():
                told = zip(FIELDS, each.context["turns"], strict=True)
                self._turns |= {(each.id, field): id for field, id in told if id is not None}
        if len(self._turns) != len(turns):
            raise RuntimeError(f"{len(self._turns)} of {len(turns)} turns came in")

    def search(self, question: str, k: int) -> list[str]:
        among: Any = ("memories",) if self._memories else ("turns",)
        pack = self._ledger.recall(question, among=among, limit=k, ranking=self._ranking, min_match=self._floor)
        if self._memories:
            items = list(pack.items)
            if self._by_score:
                items.sort(key=lambda item: -item.score / item.signals.get("newer", 1.0))
            return [self._remembered[item.id] for item in items]
        return [self._turns[item.passage.id, item.passage.field] for item in pack.items if item.passage is not None]

    def consolidate(self) -> Counter[int]:
        """How many observations have how many sources, once the turns are consolidated by rules."""
        for project in self._ledger.projects.list().all():  # each conversation is one
            self._ledger.consolidate("interactions", project=project.name, method="grouping")
        return Counter(each.proof_count for each in self._ledger.observations.list(limit=1_000).all())

    def pack(self, question: str, budget: int | None, observations: int) -> Packed:
        started = time.perf_counter()
        pack = self._ledger.recall(question, among=("turns",), budget=budget, unit="chars", observations=observations)
        took = time.perf_counter() - started
        told = [item.observation for item in pack.observations if item.observation is not None]
        sources = {each.id for one in told for each in one.sources if each.live}
        items = [self._turns[item.passage.id, item.passage.field] for item in pack.items if item.passage is not None]
        behind = {turn for (id, _), turn in self._turns.items() if id in sources}
        return Packed(items, behind, len(told), 1000 * took)

    def close(self) -> None:
        self._ledger.close()
        self._home.cleanup()


class Packed(NamedTuple):
    """The turns among the items of a pack, those behind its observations, how many of these it has, and milliseconds."""

    items: list[str]
    behind: set[str]
    shown: int
    ms: float


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


def compare(
    conversations: Iterable[dict[str, Any]], budgets: Sequence[int | None], note: Any = None
) -> tuple[Counter[int], dict[int | None, list[dict[str, float]]]]:
    """The proof counts of the observations, and of every question, by budget: the share of its evidence in a pack without
    observations, in the items of one with them, and in these or in the sources of the observations."""
    proofs: Counter[int] = Counter()
    rows: dict[int | None, list[dict[str, float]]] = {budget: [] for budget in budgets}
    for conversation in conversations:
        store = Store()
        try:
            store.ingest(conversation["turns"])
            proofs += store.consolidate()
            for one in conversation["qa"]:
                gold = set(one["evidence"])
                if one["category"] == ADVERSARIAL or not gold:
                    continue
                for budget, found in rows.items():
                    off, on = (store.pack(one["question"], budget, observations) for observations in (0, OBSERVATIONS))
                    found.append(
                        {
                            "without": len(gold & set(off.items)) / len(gold),
                            "items": len(gold & set(on.items)) / len(gold),
                            "or sources": len(gold & {*on.items, *on.behind}) / len(gold),
                            "shown": on.shown,
                            "ms off": off.ms,
                            "ms on": on.ms,
                        }
                    )
        finally:
            store.close()
        if note is not None:
            note(conversation["sample_id"])
    return proofs, rows


def means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.fmean(row[name] for row in rows) for name in rows[0]}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", nargs="+")
    parser.add_argument(
        "--vectors", metavar="MODEL", help="an embedder, as the command embed takes it: wordllama, onnx:DIR"
    )
    parser.add_argument("--ranking", default="score/3")
    parser.add_argument("--memories", action="store_true", help="every turn as a memory")
    parser.add_argument("--by-score", action="store_true", help="memories without the newer first")
    parser.add_argument("--min-match", type=float, help="the floor, as recall takes it")
    parser.add_argument("--merged", action="store_true", help="every conversation of a file in one ledger")
    parser.add_argument("--observations", action="store_true", help="recall with observations beside recall without")
    parser.add_argument(
        "--budget", type=int, nargs="+", default=BUDGETS, help="characters of a pack, with --observations"
    )
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    if asked.observations:
        return _compared(asked)
    found: dict[str, Any] = {}
    for path in asked.data:
        conversations = merged(load(path)) if asked.merged else load(path)
        note = (lambda name: print(f"  {name}", file=sys.stderr)) if sys.stderr.isatty() else None
        rows, took = evaluate(
            conversations,
            partial(Store, asked.vectors, asked.ranking, asked.memories, asked.by_score, asked.min_match),
            note,
        )
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


def _compared(asked: argparse.Namespace) -> int:
    found: dict[str, Any] = {}
    for path in asked.data:
        conversations = merged(load(path)) if asked.merged else load(path)
        note = (lambda name: print(f"  {name}", file=sys.stderr)) if sys.stderr.isatty() else None
        proofs, rows = compare(conversations, (*asked.budget, None), note)
        if not rows[None]:
            print(f"{path}: no question with evidence", file=sys.stderr)
            return 1
        told = {str(budget or "none"): {"n": len(each), **means(each)} for budget, each in rows.items()}
        found[Path(path).name] = {"observations": dict(sorted(proofs.items())), "budgets": told}
    if asked.json:
        print(json.dumps(found, indent=2))
        return 0
    for name, each in found.items():
        made = ", ".join(f"{count} with {proof}" for proof, count in each["observations"].items())
        print(f"{name}: {sum(each['observations'].values())} observations (by sources: {made or 'none'})")
        columns = list(each["budgets"]["none"])
        print(f"  {'budget':10}" + "".join(f"{column:>12}" for column in columns))
        for budget, scores in each["budgets"].items():
            print(f"  {budget:10}" + "".join(f"{scores[column]:>12.4g}" for column in columns))
    return 0


def _show(name: str, found: dict[str, Any]) -> None:
    columns = [key for key in found["scores"]["all"] if key != "n"]
    print(f"{name}: {found['ms']['p50']:.1f} ms a query (p50), {found['ms']['p95']:.1f} ms (p95)")
    print(f"  {'category':26}{'n':>5}" + "".join(f"{column:>11}" for column in columns))
    for category, scores in found["scores"].items():
        print(f"  {category:26}{scores['n']:>5}" + "".join(f"{scores[column]:>11.4f}" for column in columns))


if __name__ == "__main__":
    sys.exit(main())
