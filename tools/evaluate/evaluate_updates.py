"""An evaluation of recall's order of an older and a newer statement, with recall's defaults and the public library only.

    python tools/evaluate/evaluate_updates.py [pairs.jsonl] [--vectors wordllama] [--half seen] [--list] [--json]

A file has pairs as JSON lines: kind, old, new, question, language, half. Each half is one ledger: all the older statements,
then all the newer ones. In a pair of the kind "update" the newer statement has to come first on the page, or stand there
without the older statement. In a pair of the kind "both" either statement can be true, and neither should be moved. The rule
was chosen on the half "seen", without a look at the other half.

    first     updates with the newer statement first on the page
    by score  the same if the page were ordered by scores alone
    alone     updates with only the older statement on the page
    moved     pairs that are both true, with the newer statement moved before the older
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ledger import Ledger

PAIRS = Path(__file__).resolve().parents[2] / "tests" / "corpus" / "update_pairs.jsonl"
UPDATE, HALVES = "update", ("seen", "unseen")


class Pair(NamedTuple):
    kind: str
    old: str
    new: str
    question: str
    half: str


class Outcome(NamedTuple):
    """The ranks of a pair on the page, and its ranks by scores alone; None where a statement is not on the page."""

    pair: Pair
    old: int | None
    new: int | None
    old_by_score: int | None
    new_by_score: int | None

    @property
    def is_first(self) -> bool:
        return is_before(self.new, self.old)

    @property
    def is_first_by_score(self) -> bool:
        return is_before(self.new_by_score, self.old_by_score)


def is_before(new: int | None, old: int | None) -> bool:
    """Return True if the newer statement is on the page, and the older one is not before it."""
    return new is not None and (old is None or new < old)


def pairs_of(path: Path) -> list[Pair]:
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [Pair(row["kind"], row["old"], row["new"], row["question"], row.get("half", "")) for row in rows]


def outcomes(pairs: Sequence[Pair], vectors: str | None) -> Iterator[Outcome]:
    """Yield the outcome of each pair in a ledger that holds all pairs."""
    options: dict[str, Any] = {"embedder": vectors} if vectors else {}
    with (
        tempfile.TemporaryDirectory(prefix="evaluate-") as home,
        Ledger.open(Path(home) / "memory.db", **options) as ledger,
    ):
        ledger.policy.set(secrets="off")  # some pairs are about changed passwords, which the guard would refuse
        with ledger.batch():
            texts = [*(pair.old for pair in pairs), *(pair.new for pair in pairs)]
            ids = {text: ledger.remember(text).id for text in texts}
        if vectors:
            ledger.vectors.update()
        for pair in pairs:
            items = ledger.recall(pair.question).items
            scores = sorted(items, key=lambda item: (-item.score / item.signals.get("newer", 1.0), item.rank))
            ranks = {item.id: item.rank for item in items}
            by_score = {item.id: rank for rank, item in enumerate(scores, 1)}
            old, new = ids[pair.old], ids[pair.new]
            yield Outcome(pair, ranks.get(old), ranks.get(new), by_score.get(old), by_score.get(new))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", nargs="*", type=Path, default=[PAIRS])
    parser.add_argument("--vectors", metavar="MODEL", help="an embedder: wordllama, onnx:DIR")
    parser.add_argument("--half", choices=HALVES, help="only this half of the pairs")
    parser.add_argument("--list", action="store_true", help="list the pairs of the half in --half whose order is wrong")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.list and not options.half:
        parser.error("--list needs --half, because it shows the texts of one half only")
    pairs = [pair for path in options.data for pair in pairs_of(path)]
    figures: dict[str, Counter[str]] = {}
    for half in dict.fromkeys(pair.half for pair in pairs):
        if options.half in (None, half):
            figures[half] = Counter()
            for outcome in outcomes([pair for pair in pairs if pair.half == half], options.vectors):
                count(figures[half], outcome)
                if options.list and is_wrong(outcome):
                    pair = outcome.pair
                    print(f"{pair.kind} {outcome.old} {outcome.new}: {pair.old} → {pair.new} ({pair.question})")
    if options.json:
        print(json.dumps(figures, indent=2))
        return 0
    for half, counted in figures.items():
        updates, both = counted["updates"] or 1, counted["both true"] or 1
        print(
            f"{half or 'pairs'}: of {counted['updates']} updates the newer first in {counted['first']}"
            f" ({counted['first'] / updates:.0%}), by score {counted['by score']}, the older alone {counted['alone']};"
            f" of {counted['both true']} both true {counted['moved']} moved ({counted['moved'] / both:.0%})"
        )
    return 0


def is_wrong(outcome: Outcome) -> bool:
    if outcome.pair.kind == UPDATE:
        return not outcome.is_first
    return outcome.is_first != outcome.is_first_by_score


def count(figures: Counter[str], outcome: Outcome) -> None:
    if outcome.pair.kind == UPDATE:
        is_alone = outcome.old is not None and outcome.new is None
        signs = {"first": outcome.is_first, "by score": outcome.is_first_by_score, "alone": is_alone}
        figures.update({"updates": 1} | {name: int(sign) for name, sign in signs.items()})
    else:
        figures.update({"both true": 1, "moved": int(is_wrong(outcome))})


if __name__ == "__main__":
    sys.exit(main())
