"""An evaluation of the rules that end a statement, tell conflicts from facts that are both true, and hear a wish to forget.

    python tools/evaluate/evaluate_endings.py [--half seen] [--list]

``tests/corpus/typed_denials.jsonl`` has two turns of a user: does the later one end what the first one says? In
``fact_pairs.jsonl`` are two facts: do they conflict? In ``wishes_to_forget.jsonl`` is a turn of a user, an answer, and a turn
that wishes that something is forgotten, or not. Each is told to a ledger of its own, without a model.
``--list`` shows the wrong and the missed: use it with ``--half seen`` only, because the unseen half is for totals.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from ledger import Ledger  # noqa: E402

CORPUS = ROOT / "tests" / "corpus"


@contextmanager
def empty_ledger() -> Iterator[Ledger]:
    with tempfile.TemporaryDirectory() as folder, Ledger.open(Path(folder) / "memory.db") as ledger:
        yield ledger


def ended(row: dict[str, Any]) -> str:
    """Return "yes" if the later turn ended a memory of the first one, "no" if not, "unlearned" without a memory."""
    with empty_ledger() as ledger:
        first, later = row["turns"]
        if not ledger.add(first, session="s").learned:
            return "unlearned"
        return "yes" if ledger.add([{"role": "user", "content": later}], session="t").changed else "no"


def conflict(row: dict[str, Any]) -> str:
    with empty_ledger() as ledger:
        ledger.remember(row["a"])
        ledger.remember(row["b"])
        return "yes" if ledger.conflicts.find().found else "no"


def wish(row: dict[str, Any]) -> str:
    with empty_ledger() as ledger:
        first, answer, later = row["turns"]
        said = [("user", first), ("assistant", answer), ("user", later)]
        added = ledger.add([{"role": role, "content": text} for role, text in said], session="s")
        return "yes" if any("retract" in reason and "erase" in reason for reason in added.reasons) else "no"


TABLES: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "typed_denials": ("ends", ended),
    "fact_pairs": ("conflict", conflict),
    "wishes_to_forget": ("forget", wish),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("seen", "unseen"))
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    for name, (key, judge) in TABLES.items():
        rows = [json.loads(line) for line in (CORPUS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
        for half in (options.half,) if options.half else ("seen", "unseen"):
            measure(name, half, key, judge, [row for row in rows if row["half"] == half], shown=options.list)
    return 0


def measure(
    name: str, half: str, key: str, judge: Callable[[dict[str, Any]], str], rows: list[dict[str, Any]], *, shown: bool
) -> None:
    verdicts = [(row, judge(row)) for row in rows]
    yes, no = ([verdict for row, verdict in verdicts if row[key] is wanted] for wanted in (True, False))
    print(
        f"{name}, {half}: {yes.count('yes')} of {len(yes)} found"
        f" ({yes.count('unlearned')} were never learned), {no.count('yes')} of {len(no)} wrongly"
    )
    for row, verdict in verdicts if shown else ():
        if (verdict == "yes") is not row[key]:
            print(f"  {verdict}: {row.get('turns') or (row['a'], row['b'])}")


if __name__ == "__main__":
    sys.exit(main())
