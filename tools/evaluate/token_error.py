"""How far the estimate of tokens is from real tokenizers: for each text file and vocabulary, the estimate's share of the count.

    python tools/evaluate/token_error.py prose.txt code.py --vocabulary cl100k_base --vocabulary path/to/tokenizer.json

A vocabulary is a name that ``tiktoken`` knows or a file that ``tokenizers`` reads; one whose package is not installed is
left out. A file counts paragraph by paragraph, as messages would; "under" are those whose estimate is too low.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ledger.domain.tokens import estimate


def counter(vocabulary: str) -> Callable[[str], int] | None:
    """The number of tokens of a text in a vocabulary, None where what reads it is not installed."""
    package = "tokenizers" if vocabulary.endswith(".json") else "tiktoken"
    try:
        module = importlib.import_module(package)
    except ImportError:
        print(f"{vocabulary}: left out, {package} is not installed", file=sys.stderr)
        return None
    if package == "tokenizers":
        tokenizer = module.Tokenizer.from_file(vocabulary)
        return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
    encoding = module.get_encoding(vocabulary)
    return lambda text: len(encoding.encode(text, disallowed_special=()))


def line(name: str, texts: list[str], vocabulary: str, count: Callable[[str], int]) -> str:
    pairs = [(estimate(text), real) for text in texts if (real := count(text))]
    shares = sorted(guessed / real for guessed, real in pairs)
    total = sum(guessed for guessed, _ in pairs) / sum(real for _, real in pairs)
    under = sum(share < 1 for share in shares) / len(shares)
    lowest = shares[len(shares) // 100]
    return f"{name:30.30} {Path(vocabulary).name:20.20} {total:7.0%} {under:7.0%} {lowest:7.0%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--vocabulary", action="append", default=[])
    asked = parser.parse_args()
    counters = {name: found for name in asked.vocabulary or ["cl100k_base", "o200k_base"] if (found := counter(name))}
    print(f"{'file':30} {'vocabulary':20} {'total':>7} {'under':>7} {'p1':>7}")
    for path in asked.files:
        texts = [text for text in path.read_text(encoding="utf-8").split("\n\n") if text.strip()]
        for name, count in counters.items():
            if texts:
                print(line(path.name, texts, name, count))


if __name__ == "__main__":
    main()
