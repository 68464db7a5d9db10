"""An evaluation of updates and look-ups: recall's order of statements that say nearly the same, with the public library only.

    python tools/evaluate/evaluate_updates.py [pairs.jsonl] [--vectors wordllama] [--half seen] [--list] [--json]

A file has pairs as JSON lines: kind, old, new, question, language, half. Each half is one ledger: all the older statements,
then all the newer ones. In a pair of the kind "update" the newer statement has to come first on the page, or stand there
without the older statement. In a pair of the kind "both" either statement can be true, and neither should be moved. The rule
was chosen on the half "seen", without a look at the other half.

    first     updates with the newer statement first on the page
    by score  the same if the page were ordered by scores alone
    alone     updates with only the older statement on the page
    moved     pairs that are both true, with the newer statement moved before the older

Without files, look-ups in facts of one form (``forms.py``) are printed beside the updates: a rule that moves the newer of two
statements must not move "Hana's locker is 15." before "Gus's locker is 14.", which is asked for. Each half is one ledger of 14
forms. Some facts were updated: the newest statement of the fact is the right one.

    first        look-ups with the right statement first on the page
    among five   look-ups with the right statement among the first five
    updated      the look-ups whose fact was updated, and those of them with the newest statement first
    words alone  the same by the telling words of the question: "locker Gus"
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from ledger import Ledger  # noqa: E402
from tools.evaluate.forms import FORMS, Form, told_and_asked  # noqa: E402

PAIRS = ROOT / "tests" / "corpus" / "update_pairs.jsonl"
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


@contextmanager
def holding(texts: Sequence[str], vectors: str | None) -> Iterator[tuple[Ledger, dict[str, str]]]:
    """Give a ledger that holds some statements, in their order, and the id of each statement."""
    options: dict[str, Any] = {"embedder": vectors} if vectors else {}
    with (
        tempfile.TemporaryDirectory(prefix="evaluate-") as home,
        Ledger.open(Path(home) / "memory.db", **options) as ledger,
    ):
        ledger.policy.set(secrets="off")  # some pairs are about changed passwords, which the guard would refuse
        with ledger.batch():
            ids = {text: ledger.remember(text).id for text in texts}
        if vectors:
            ledger.vectors.update()
        yield ledger, ids


def looked_up(forms: Sequence[Form], vectors: str | None) -> Counter[str]:
    """Return the figures of the look-ups in a ledger that holds the facts of all forms."""
    told, lookups = told_and_asked(forms)
    figures = Counter[str]()
    with holding(told, vectors) as (ledger, ids):
        for lookup in lookups:
            found = [item.id for item in ledger.recall(lookup.question).items[:5]]
            right = ids[lookup.statement]
            is_first = found[:1] == [right]
            figures.update({"look-ups": 1, "first": is_first, "among five": right in found})
            figures.update({"updated": lookup.is_updated, "updated first": lookup.is_updated and is_first})
            found = [item.id for item in ledger.recall(lookup.telling_words).items[:5]]
            figures.update({"words alone first": found[:1] == [right], "words alone among five": right in found})
    return figures


def outcomes(pairs: Sequence[Pair], vectors: str | None) -> Iterator[Outcome]:
    """Yield the outcome of each pair in a ledger that holds all pairs."""
    with holding([*(pair.old for pair in pairs), *(pair.new for pair in pairs)], vectors) as (ledger, ids):
        for pair in pairs:
            items = ledger.recall(pair.question).items
            scores = sorted(items, key=lambda item: (-item.score / item.signals.get("newer", 1.0), item.rank))
            ranks = {item.id: item.rank for item in items}
            by_score = {item.id: rank for rank, item in enumerate(scores, 1)}
            old, new = ids[pair.old], ids[pair.new]
            yield Outcome(pair, ranks.get(old), ranks.get(new), by_score.get(old), by_score.get(new))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", nargs="*", type=Path, help="files of pairs; none: the pairs of the tests, and look-ups")
    parser.add_argument("--vectors", metavar="MODEL", help="an embedder: wordllama, onnx:DIR")
    parser.add_argument("--half", choices=HALVES, help="only this half of the pairs")
    parser.add_argument("--list", action="store_true", help="list the pairs of the half in --half whose order is wrong")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.list and not options.half:
        parser.error("--list needs --half, because it shows the texts of one half only")
    pairs = [pair for path in options.data or [PAIRS] for pair in pairs_of(path)]
    figures, lookups = dict[str, Counter[str]](), dict[str, Counter[str]]()
    for half in dict.fromkeys(pair.half for pair in pairs):
        if options.half in (None, half):
            figures[half] = Counter()
            for outcome in outcomes([pair for pair in pairs if pair.half == half], options.vectors):
                count(figures[half], outcome)
                if options.list and is_wrong(outcome):
                    pair = outcome.pair
                    print(f"{pair.kind} {outcome.old} {outcome.new}: {pair.old} → {pair.new} ({pair.question})")
            if not options.data:
                lookups[half] = looked_up([form for form in FORMS if form.half == half], options.vectors)
    if options.json:
        print(json.dumps(figures | {f"{half}, look-ups": counted for half, counted in lookups.items()}, indent=2))
        return 0
    for half, counted in figures.items():
        updates, both = counted["updates"] or 1, counted["both true"] or 1
        print(
            f"{half or 'pairs'}: of {counted['updates']} updates the newer first in {counted['first']}"
            f" ({counted['first'] / updates:.0%}), by score {counted['by score']}, the older alone {counted['alone']};"
            f" of {counted['both true']} both true {counted['moved']} moved ({counted['moved'] / both:.0%})"
        )
    for half, counted in lookups.items():
        print(
            f"{half}: of {counted['look-ups']} look-ups in facts of one form the right one first in {counted['first']},"
            f" among five {counted['among five']}; of {counted['updated']} updated {counted['updated first']} first;"
            f" by words alone {counted['words alone first']}, among five {counted['words alone among five']}"
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
