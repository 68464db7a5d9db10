"""A comparison of the stemmer with SQLite's FTS5, on every word of some files. A difference would hide texts from questions.

    python tools/evaluate/evaluate_stems.py FILE… [--list]
    python tools/evaluate/evaluate_stems.py --families PAIRS.jsonl… [--list]

FILE is any text, plain or .gz, such as the data of ``evaluate.py``. ``--list`` shows the words with different stems.

With ``--families`` the files have pairs of words as JSON lines, {"a": "allergic", "b": "allergy", "same": true}, and the rule
of ``ledger/english/words.py`` is compared with them:

    found      pairs of one family that the rule finds, and those of them that have one stem
    wrong      pairs of two families that the rule takes for one, and those of them that have one stem

``--list`` shows the pairs that it misses or takes wrongly.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from ledger.english.words import are_kin, indexed_words, stem
from projections.core.sqlite import TOKENIZER

TOGETHER = 1_000  # words in a text of the index


def differing(words: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield each word, its stem, and its term in an index of FTS5, if these differ."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.text_factory = lambda term: term.decode(errors="replace")  # FTS5 can cut a character apart
        connection.execute(f"CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='{TOKENIZER}')")
        connection.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(texts, instance)")
        left = iter(words)
        while group := list(islice(left, TOGETHER)):
            connection.execute("INSERT INTO texts (texts) VALUES ('delete-all')")
            connection.execute("INSERT INTO texts (rowid, text) VALUES (1, ?)", (" ".join(group),))
            term_at = dict(connection.execute('SELECT "offset", term FROM terms'))
            for at, word in enumerate(group):
                if stem(word) != term_at.get(at, ""):
                    yield word, stem(word), term_at.get(at, "")


def print_families(path: Path, *, wrong_too: bool) -> None:
    """Print how many pairs of a file the rule of families takes as they are, and with ``wrong_too`` the others."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    taken = [(row["a"], row["b"], row["same"], are_kin(row["a"], row["b"])) for row in rows]
    found = [stem(left) == stem(right) for left, right, same, kin in taken if same and kin]
    wrong = [stem(left) == stem(right) for left, right, same, kin in taken if kin and not same]
    same_count, other_count = sum(same for *_, same, _ in taken), sum(not same for *_, same, _ in taken)
    called = len(found) + len(wrong)
    print(
        f"{path.name}: found {len(found)} of {same_count} of one family (recall {len(found) / max(same_count, 1):.0%},"
        f" {sum(found)} by the stem), wrong {len(wrong)} of {other_count} of two ({sum(wrong)} by the stem);"
        f" precision {len(found) / max(called, 1):.0%}"
    )
    for left, right, same, kin in taken if wrong_too else ():
        if same != kin:
            print(f"  {'missed' if same else 'wrong'}: {left}, {right}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--families", action="store_true", help="the files have pairs of words, of one family or not")
    parser.add_argument("--list", action="store_true", help="show the words or pairs that differ")
    options = parser.parse_args(arguments)
    if options.families:
        for path in options.files:
            print_families(path, wrong_too=options.list)
        return 0
    words = set[str]()
    for path in options.files:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode(errors="replace")
        words.update(indexed_words(text))
    differences = list(differing(sorted(words)))
    print(f"{len(words):,} different words, {len(differences)} with another stem than in the index")
    for word, ours, term in differences if options.list else ():
        print(f"  {word}: {ours!r}, in the index {term!r}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
