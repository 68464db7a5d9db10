"""An evaluation of recall on transcripts with questions: the share of answers that it finds. It uses the public library only.

    python tools/evaluate/evaluate.py DATA… [--vectors wordllama] [--ranking score/3] [--dates FORMAT] [--merged] [--json]
    python tools/evaluate/evaluate.py DATA… --memories [--by-score] [--min-match 0]
    python tools/evaluate/evaluate.py DATA… --observations [--budget 1000 4000 …] [--merged] [--json]

DATA is a JSON list of conversations (plain or .gz), each with ``turns`` (dia_id, speaker, session, date_time, text) and
``qa`` (question, category, evidence: a list of dia_ids). Each conversation is imported into a ledger of its own, as
``interactions.import_file`` does it (two turns an interaction), and every question is a ``recall`` among turns. ``factory`` is
the same as a store for other scorers: ``ingest(turns)``, ``search(question, k)``, ``close()``. ``--dates`` is the format of
a ``date_time`` that cannot be read without guessing, as ``import --dates`` takes it: '%d.%m.%Y, %H:%M:%S' for REALTALK.

With ``--memories`` each turn is a memory instead, which is harder than the statements that memories are; ``--by-score``
undoes the rule that puts the newer of two similar statements before the older.

With ``--observations`` each conversation is consolidated by rules first. Every question is asked with observations and
without, within the same budgets of characters. The report has the share of a question's evidence turns among the items of
the pack, and the share among the items or the live sources of the observations shown. A source is an interaction, so both of
its turns count.
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
OBSERVATIONS = 3  # the default of recall
FIELDS = ("prompt", "response")
ADVERSARIAL = "adversarial"


class Store:
    """A ledger that holds one transcript, or several."""

    def __init__(
        self,
        vectors: str | None = None,
        ranking: str = "score/3",
        memories: bool = False,
        by_score: bool = False,
        min_match: float | None = None,
        dates: str | None = None,
    ) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="evaluate-")
        self._ranking: Any = ranking
        more: dict[str, Any] = {} if vectors is None else {"embedder": vectors}
        self._ledger = Ledger.open(Path(self._home.name) / "memory.db", **more)
        self._vectors, self._memories, self._by_score = vectors is not None, memories, by_score
        self._floor, self._dates = min_match, dates
        self._remembered: dict[str, str] = {}
        self._turns: dict[tuple[str, str], str] = {}

    def ingest(self, turns: Sequence[dict[str, str]]) -> None:
        if self._memories:
            for turn in turns:
                with suppress(RejectedError):  # a guard refuses turns that quote a system prompt or another role
                    memory = self._ledger.remember(f"{turn['speaker']}: {turn['text']}")
                    self._remembered.setdefault(memory.id, turn["dia_id"])
        else:
            self._import(turns)
        if self._vectors:
            self._ledger.vectors.update()

    def _import(self, turns: Sequence[dict[str, str]]) -> None:
        path = Path(self._home.name) / "transcript.json"
        path.write_text(json.dumps([{"sample_id": "transcript", "turns": turns}]), encoding="utf-8")
        self._ledger.interactions.import_file(path, dates=self._dates)
        path.unlink()
        for session in {turn["session"] for turn in turns}:
            for interaction in self._ledger.interactions.list(session=f"transcript/{session}").all():
                ids = zip(FIELDS, interaction.context["turns"], strict=True)
                self._turns |= {(interaction.id, field): turn_id for field, turn_id in ids if turn_id is not None}
        if len(self._turns) != len(turns):
            raise RuntimeError(f"the transcript has {len(turns)} turns, and only {len(self._turns)} were imported")

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
        """Consolidate the turns by rules and return the number of observations for each number of sources."""
        for project in self._ledger.projects.list().all():  # an import makes a project of each conversation
            self._ledger.consolidate("interactions", project=project.name, method="grouping")
        return Counter(observation.proof_count for observation in self._ledger.observations.list(limit=1_000).all())

    def pack(self, question: str, budget: int | None, observations: int) -> Packed:
        started = time.perf_counter()
        pack = self._ledger.recall(question, among=("turns",), budget=budget, unit="chars", observations=observations)
        took = time.perf_counter() - started
        shown = [item.observation for item in pack.observations if item.observation is not None]
        sources = {source.id for observation in shown for source in observation.sources if source.live}
        items = [self._turns[item.passage.id, item.passage.field] for item in pack.items if item.passage is not None]
        behind = {turn for (id, _), turn in self._turns.items() if id in sources}
        return Packed(items, behind, len(shown), 1000 * took)

    def close(self) -> None:
        self._ledger.close()
        self._home.cleanup()


class Packed(NamedTuple):
    """The turns found in a pack.

    Attributes:
        items: the turns among the items of the pack.
        behind: the turns behind its observations.
        shown: the number of its observations.
        ms: the milliseconds that the recall took.
    """

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
    """Return the scores of one question: recall at each depth, reciprocal rank and nDCG@10 with binary gains.

    Recall at k is the share of the question's evidence among the first k turns. The reciprocal rank is 0 beyond rank 20.
    """
    ranks = [rank for rank, id in enumerate(dict.fromkeys(ranked), 1) if id in gold]
    recalls = {f"recall@{k}": sum(rank <= k for rank in ranks) / len(gold) for k in DEPTHS}
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(gold), 10) + 1))
    gains = sum(1 / math.log2(rank + 1) for rank in ranks if rank <= 10)
    return recalls | {"MRR": 1 / ranks[0] if ranks and ranks[0] <= 20 else 0.0, "nDCG@10": gains / ideal}


def load(path: str) -> list[dict[str, Any]]:
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        conversations: list[dict[str, Any]] = json.load(file)
    return conversations


def merged(conversations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all conversations as a single one in one ledger, which makes recall harder."""
    turns, questions = [], []
    for conversation in conversations:
        mark = f"{conversation['sample_id']}/"
        turns += [
            turn | {"dia_id": mark + turn["dia_id"], "session": mark + turn["session"]}
            for turn in conversation["turns"]
        ]
        questions += [
            question | {"evidence": [mark + id for id in question["evidence"]]} for question in conversation["qa"]
        ]
    return [{"sample_id": "all", "turns": turns, "qa": questions}]


def evaluate(
    conversations: Iterable[dict[str, Any]], open_store: Any, note: Any = None
) -> tuple[dict[str, list[dict[str, float]]], list[float]]:
    """Return the scores of all questions by category, and the milliseconds of each query.

    Adversarial questions are left out, because they have no answer.
    """
    rows: dict[str, list[dict[str, float]]] = defaultdict(list)
    took: list[float] = []
    for conversation in conversations:
        store = open_store()
        try:
            store.ingest(conversation["turns"])
            for question in conversation["qa"]:
                if question["category"] == ADVERSARIAL or not question["evidence"]:
                    continue
                started = time.perf_counter()
                ranked = store.search(question["question"], max(DEPTHS))
                took.append(1000 * (time.perf_counter() - started))
                rows[question["category"]].append(score(ranked, set(question["evidence"])))
        finally:
            store.close()
        if note is not None:
            note(conversation["sample_id"])
    return rows, took


def compare(
    conversations: Iterable[dict[str, Any]], budgets: Sequence[int | None], note: Any = None, dates: str | None = None
) -> tuple[Counter[int], dict[int | None, list[dict[str, float]]]]:
    """Return the proof counts of the observations, and the scores of every question by budget.

    A score has the share of the evidence in a pack without observations, in the items of a pack with observations, and in
    these items or the sources of the observations.
    """
    proofs: Counter[int] = Counter()
    rows: dict[int | None, list[dict[str, float]]] = {budget: [] for budget in budgets}
    for conversation in conversations:
        store = Store(dates=dates)
        try:
            store.ingest(conversation["turns"])
            proofs += store.consolidate()
            for question in conversation["qa"]:
                gold = set(question["evidence"])
                if question["category"] == ADVERSARIAL or not gold:
                    continue
                for budget, scores in rows.items():
                    off, on = (
                        store.pack(question["question"], budget, observations) for observations in (0, OBSERVATIONS)
                    )
                    scores.append(
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
    parser.add_argument(
        "--by-score", action="store_true", help="order memories by score alone, without the newer first"
    )
    parser.add_argument("--min-match", type=float, help="the least match, as recall takes it")
    parser.add_argument("--dates", metavar="FORMAT", help="the format of the dates, as import --dates takes it")
    parser.add_argument("--merged", action="store_true", help="every conversation of a file in one ledger")
    parser.add_argument("--observations", action="store_true", help="recall with observations beside recall without")
    parser.add_argument(
        "--budget", type=int, nargs="+", default=BUDGETS, help="characters of a pack, with --observations"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.observations:
        return _compared(options)
    report: dict[str, Any] = {}
    for path in options.data:
        conversations = merged(load(path)) if options.merged else load(path)
        note = (lambda name: print(f"  {name}", file=sys.stderr)) if sys.stderr.isatty() else None
        rows, took = evaluate(
            conversations,
            partial(
                Store,
                options.vectors,
                options.ranking,
                options.memories,
                options.by_score,
                options.min_match,
                options.dates,
            ),
            note,
        )
        everything = [row for category in rows.values() for row in category]
        groups = {"all": everything, **dict(sorted(rows.items()))} if everything else {}
        scores = {name: {"n": len(group), **means(group)} for name, group in groups.items()}
        if not everything:
            print(f"{path}: no question with evidence", file=sys.stderr)
            return 1
        late = sorted(took)[min(len(took) - 1, round(0.95 * len(took)))]
        report[Path(path).name] = {"scores": scores, "ms": {"p50": statistics.median(took), "p95": late}}
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        for name, figures in report.items():
            _show(name, figures)
    return 0


def _compared(options: argparse.Namespace) -> int:
    report: dict[str, Any] = {}
    for path in options.data:
        conversations = merged(load(path)) if options.merged else load(path)
        note = (lambda name: print(f"  {name}", file=sys.stderr)) if sys.stderr.isatty() else None
        proofs, rows = compare(conversations, (*options.budget, None), note, options.dates)
        if not rows[None]:
            print(f"{path}: no question with evidence", file=sys.stderr)
            return 1
        shares = {str(budget or "none"): {"n": len(figures), **means(figures)} for budget, figures in rows.items()}
        report[Path(path).name] = {"observations": dict(sorted(proofs.items())), "budgets": shares}
    if options.json:
        print(json.dumps(report, indent=2))
        return 0
    for name, figures in report.items():
        made = ", ".join(f"{count} with {proof}" for proof, count in figures["observations"].items())
        print(f"{name}: {sum(figures['observations'].values())} observations (by sources: {made or 'none'})")
        columns = list(figures["budgets"]["none"])
        print(f"  {'budget':10}" + "".join(f"{column:>12}" for column in columns))
        for budget, scores in figures["budgets"].items():
            print(f"  {budget:10}" + "".join(f"{scores[column]:>12.4g}" for column in columns))
    return 0


def _show(name: str, figures: dict[str, Any]) -> None:
    columns = [key for key in figures["scores"]["all"] if key != "n"]
    print(f"{name}: {figures['ms']['p50']:.1f} ms a query (p50), {figures['ms']['p95']:.1f} ms (p95)")
    print(f"  {'category':26}{'n':>5}" + "".join(f"{column:>11}" for column in columns))
    for category, scores in figures["scores"].items():
        print(f"  {category:26}{scores['n']:>5}" + "".join(f"{scores[column]:>11.4f}" for column in columns))


if __name__ == "__main__":
    sys.exit(main())
