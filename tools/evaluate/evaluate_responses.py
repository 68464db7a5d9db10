"""An evaluation of the matcher: wrong confirmations and missed restatements of memories by responses, by class.

    python tools/evaluate/evaluate_responses.py [tests/corpus/response_pairs.jsonl] [--half seen] [--list]
    python tools/evaluate/evaluate_responses.py tests/corpus/affirmations.jsonl

Each line has a memory, a response of an assistant, its class, and a careful reader's verdict: the response confirms the memory
or it does not. ``wrong`` counts the pairs that the matcher confirms against the reader, ``missed`` the pairs that only the
reader confirms, and ``denied`` the denials that the turn would record. ``--list`` shows wrong and missed pairs: use it with
``--half seen`` only, because the unseen half is for totals.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ledger.english.matching import DEFAULT_MATCHER, MATCHERS, Response, judge

FILE = Path(__file__).resolve().parents[2] / "tests" / "corpus" / "response_pairs.jsonl"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=FILE)
    parser.add_argument("--half", choices=("seen", "unseen"))
    parser.add_argument("--matcher", choices=tuple(MATCHERS), default=DEFAULT_MATCHER)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    rows = [json.loads(line) for line in options.file.read_text(encoding="utf-8").splitlines()]
    for half in (options.half,) if options.half else ("seen", "unseen"):
        measure(half, [row for row in rows if row["half"] == half], options.matcher, shown=options.list)
    return 0


def measure(half: str, rows: list[dict[str, Any]], matcher: str, *, shown: bool) -> None:
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        verdict = judge(matcher, Response(row["response"]), row["memory"])
        outcome = "right" if bool(verdict.match) == row["confirms"] else "missed" if row["confirms"] else "wrong"
        counted = counts.setdefault(row["class"], Counter())
        counted.update(["confirming" if row["confirms"] else "other", outcome])
        counted["denied"] += bool(verdict.denial)
        if shown and (outcome != "right" or verdict.denial):
            print(f"{outcome:<6} {verdict.denial:<8} {row['class']}: {row['memory']!r} of {row['response']!r}")
    total = sum(counts.values(), Counter[str]())
    print(
        f"{half}: {len(rows)} pairs, wrong {total['wrong']} of {total['other']}"
        f" ({total['wrong'] / max(1, total['other']):.1%}),"
        f" missed {total['missed']} of {total['confirming']} ({total['missed'] / max(1, total['confirming']):.1%})"
    )
    for name, counted in sorted(counts.items()):
        print(
            f"  {name:<16} wrong {counted['wrong']:>2} of {counted['other']:>2}"
            f"  missed {counted['missed']:>2} of {counted['confirming']:>2}  denied {counted['denied']:>2}"
        )


if __name__ == "__main__":
    sys.exit(main())
