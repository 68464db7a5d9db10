"""An evaluation of the rules that find statements of users about themselves without a model: precision and recall by rule.

    python tools/evaluate/evaluate_sentences.py [tests/corpus/self_descriptions.jsonl] [--half seen] [--list]

Each line is a message with the facts that a careful reader would keep. Half of the messages are traps, and most traps have no
fact. A statement is right, and a fact is found, if the statement has at least three fifths of the fact's content words. A
statement from a message without a fact is junk. ``tests/corpus/typed_sentences.jsonl`` has messages as people type.
``--list`` shows the wrong statements and the missed facts: use it with ``--half seen`` only, because the unseen half is for
totals.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from ledger.english.words import STOP_WORDS, stem, words
from ledger.extraction import lines as turns
from ledger.extraction.rule_findings import by_rules

FILE = Path(__file__).resolve().parents[2] / "tests" / "corpus" / "self_descriptions.jsonl"
ENOUGH = 0.6


def stems(text: str) -> set[str]:
    return {stem(word) for word in words(text.lower()) if word not in STOP_WORDS and word != "user"}


def covers(statement: str, fact: str) -> bool:
    needed = stems(fact)
    return len(needed & stems(statement)) >= ENOUGH * len(needed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=FILE)
    parser.add_argument("--half", choices=("seen", "unseen"))
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.file.read_text(encoding="utf-8").splitlines()]
    for half in (options.half,) if options.half else ("seen", "unseen"):
        measure(half, [row for row in rows if row["half"] == half], shown=options.list)
    return 0


def measure(half: str, rows: list[dict[str, Any]], *, shown: bool) -> None:
    right, wrong, missed, facts, junk = Counter[str](), Counter[str](), 0, 0, 0
    telling, taught = 0, 0
    for row in rows:
        line = turns.ConversationLine(position=0, text_at=0, role="user", text=row["text"], time="")
        says = [fact if isinstance(fact, str) else fact["says"] for fact in row["facts"]]
        statements = by_rules([line]).kept
        junk += len(statements) if not says else 0
        telling += bool(says)
        taught += any(covers(statement.content, fact) for statement in statements for fact in says)
        for statement in statements:
            good = any(covers(statement.content, fact) for fact in says)
            (right if good else wrong)[statement.rule] += 1
            if shown:
                print("right" if good else "WRONG", f"{statement.content!r} of {row['text']!r}")
        lost = [fact for fact in says if not any(covers(statement.content, fact) for statement in statements)]
        facts, missed = facts + len(says), missed + len(lost)
        if shown and lost:
            print("missed", lost, "of", repr(row["text"]))
    kept = right.total() + wrong.total()
    print(
        f"{half}: {len(rows)} messages, {kept} statements, precision {right.total() / max(1, kept):.3f},"
        f" {facts - missed} of {facts} facts found ({(facts - missed) / max(1, facts):.2f}),"
        f" {junk} statements from the {len(rows) - telling} messages without a fact, something right from {taught} of the"
        f" {telling} others"
    )
    for rule in sorted(right | wrong):
        print(f"  {rule:<28} right {right[rule]:>3}  wrong {wrong[rule]:>3}")


if __name__ == "__main__":
    sys.exit(main())
