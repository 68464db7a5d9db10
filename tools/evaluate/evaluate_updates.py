"""Whether recall gives the newer of two statements first: through the public library only.

    python tools/evaluate/evaluate_updates.py [updates.jsonl] [BEAM.json.gz …] [--vectors wordllama] [--list] [--json]

A file of pairs (JSON lines: kind, old, new, question) is one ledger: all the older statements, then all the newer ones. Of
the kind "update" the newer one has to come first, of the kind "both" either can be true, and neither may be moved. A file
of conversations, as ``evaluate.py`` takes it, is one ledger a conversation, of its user's turns; its pairs are the turns
behind the questions of the category "knowledge_update": the one that has the figures of the answer, and the first one.
``before`` is the order by scores alone: that of ``score`` without its factor ``newer``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ledger import Ledger

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tools.evaluate.evaluate import load  # noqa: E402

PAIRS = Path(__file__).resolve().parents[2] / "tests" / "corpus" / "updates.jsonl"
UPDATE, CATEGORY = "update", "knowledge_update"
_FIGURE = re.compile(r"\d[\d,.:]*\d|\d")


class Pair(NamedTuple):
    kind: str
    old: str
    new: str
    question: str


def pairs_of_lines(path: Path) -> list[Pair]:
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [Pair(row["kind"], row["old"], row["new"], row["question"]) for row in rows]


def pairs_of_conversation(conversation: dict[str, Any]) -> Iterator[Pair]:
    texts = {turn["dia_id"]: turn["text"] for turn in conversation["turns"]}
    for one in conversation["qa"]:
        if one["category"] == CATEGORY:
            wanted, evidence = set(_FIGURE.findall(one["answer"])), [texts[id] for id in one["evidence"]]
            shares = [len(wanted & set(_FIGURE.findall(text))) for text in evidence]
            current = max(range(len(shares)), key=lambda at: (shares[at], -at), default=0)
            if wanted and current and shares[current] > shares[0]:
                yield Pair(UPDATE, evidence[0], evidence[current], one["question"])


def outcomes(
    statements: Sequence[str], pairs: Sequence[Pair], vectors: str | None
) -> Iterator[tuple[Pair, bool, bool, bool]]:
    """Of each pair: whether both were found, and whether the newer one is first by its score, and in the pack."""
    options: dict[str, Any] = {"embedder": vectors} if vectors else {}
    with (
        tempfile.TemporaryDirectory(prefix="evaluate-") as home,
        Ledger.open(Path(home) / "memory.db", **options) as ledger,
    ):
        ledger.policy.set(secrets="off")  # of two passwords the newer one is wanted, too
        with ledger.batch():
            ids = {text: ledger.remember(text).id for text in statements}
        if vectors:
            ledger.vectors.update()
        for pair in pairs:
            items = ledger.recall(pair.question, among=["memories"], min_match=0, observations=0).items
            ranks = {item.id: item.rank for item in items}
            scores = {item.id: (-item.score / item.signals.get("newer", 1.0), item.rank) for item in items}
            old, new = ids[pair.old], ids[pair.new]
            if old in ranks and new in ranks:
                yield pair, True, scores[new] < scores[old], ranks[new] < ranks[old]
            else:
                yield pair, False, new in ranks, new in ranks


def of_file(path: Path, vectors: str | None) -> Iterator[tuple[Pair, bool, bool, bool]]:
    if path.suffix == ".jsonl":
        pairs = pairs_of_lines(path)
        yield from outcomes([*(each.old for each in pairs), *(each.new for each in pairs)], pairs, vectors)
    else:
        for conversation in load(str(path)):
            turns = [turn["text"] for turn in conversation["turns"] if turn["speaker"] == "user"]
            yield from outcomes(turns, list(pairs_of_conversation(conversation)), vectors)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", nargs="*", type=Path, default=[PAIRS])
    parser.add_argument("--vectors", metavar="MODEL", help="an embedder: wordllama, onnx:DIR")
    parser.add_argument("--list", action="store_true", help="list the pairs whose order is wrong")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    figures: dict[str, dict[str, int]] = {}
    for path in asked.data:
        count: Counter[str] = Counter()
        for pair, both, before, after in of_file(path, asked.vectors):
            count["pairs" if pair.kind == UPDATE else "both true"] += 1
            if pair.kind == UPDATE:
                count.update(found=int(both), before=int(before), after=int(after))
            else:
                count["moved"] += before != after
            if asked.list and (not after if pair.kind == UPDATE else before != after):
                print(f"{'' if both else 'not both found: '}{pair.old} → {pair.new} ({pair.question})")
        figures[path.name] = dict(count)
    if asked.json:
        print(json.dumps(figures, indent=2))
        return 0
    for name, each in figures.items():
        told = {key: each.get(key, 0) for key in ("pairs", "found", "before", "after", "both true", "moved")}
        print(
            "{0}: of {pairs} pairs {found} found; the current one is first in {before} before, in {after} after".format(
                name, **told
            )
        )
        if told["both true"]:
            print("  of {both true} that are both true {moved} moved".format(**told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
