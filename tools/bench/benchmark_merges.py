"""A benchmark of the search for near duplicates and contradictions: its processor seconds at ten times the size.

``python3 tools/bench/benchmark_merges.py [SIZE …]`` takes 1,000, 10,000 and 100,000 texts by default. The texts are made up.
"prose" has words as frequent as in prose; one in ten notes is a near duplicate of an earlier note, and one in fifty is a fact
about one of many people. The other shapes are hard for one of the filters. ``ledger`` is the same through the library: a whole
search, and a second search after one new memory.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from pathlib import Path

from ledger import Ledger
from ledger.english import near

CITIES = ("Lisbon", "Rome", "Athens", "Porto", "Oslo")


def prose(count: int) -> Iterator[str]:
    pick = random.Random(7)
    vocabulary = round(30 * (14 * count) ** 0.6)  # a vocabulary grows with the text (Heaps' law)
    weights = list(accumulate(1 / (number + 3) for number in range(vocabulary)))
    kept: list[list[str]] = []
    for number in range(count):
        if number % 50 == 7:
            yield f"Person{number // 100} lives in {pick.choice(CITIES)}."
            continue
        if kept and number % 10 == 3:
            words = list(pick.choice(kept))
            words[pick.randrange(len(words))] = "again"
        else:
            words = [f"w{rank}" for rank in pick.choices(range(vocabulary), cum_weights=weights, k=pick.randint(8, 24))]
            kept.append(words)
        yield " ".join(words)


def template(count: int) -> Iterator[str]:
    shared = " ".join(f"t{index}" for index in range(20))
    return (f"{shared} {number}" for number in range(count))


def nearly_alike(count: int) -> Iterator[str]:
    shared = " ".join(f"t{index}" for index in range(20))
    return (f"{shared} a{number} b{number} c{number}" for number in range(count))


def few_words(count: int) -> Iterator[str]:
    pick = random.Random(7)
    return (" ".join(pick.sample([f"t{index}" for index in range(30)], 20)) for _ in range(count))


def copies(count: int) -> Iterator[str]:
    return (f"the same {number % 3} thing" for number in range(count))


SHAPES: dict[str, Callable[[int], Iterator[str]]] = {
    "prose": prose,
    "one template": template,
    "nearly alike": nearly_alike,
    "few words": few_words,
    "copies": copies,
}


def clustered(shape: str, count: int) -> float:
    items = [(number, near.word_set(text)) for number, text in enumerate(SHAPES[shape](count))]
    started = time.process_time()
    near.clusters(items)
    return time.process_time() - started


def in_a_ledger(count: int) -> tuple[float, float, int, int]:
    with tempfile.TemporaryDirectory() as directory, Ledger.open(Path(directory) / "memory.db") as ledger:
        with ledger.batch():
            for text in prose(count):
                ledger.remember(text)
        started = time.process_time()
        report = ledger.jobs.run()
        whole = time.process_time() - started
        ledger.remember("Person1 lives in Berlin.")
        started = time.process_time()
        ledger.jobs.run()
        return whole, time.process_time() - started, report.merges, report.conflicts


def print_times(name: str, sizes: list[int], seconds: list[float]) -> None:
    figures = "  ".join(f"{size:>9,}: {took:8.3f} s" for size, took in zip(sizes, seconds, strict=True))
    ratios = ", ".join(f"{after / before:.1f}" for before, after in pairwise(seconds))
    print(f"{name:<24}{figures}   × {ratios}", flush=True)


def main() -> None:
    sizes = [int(size.replace(",", "")) for size in sys.argv[1:]] or [1_000, 10_000, 100_000]
    for shape in SHAPES:
        print_times(
            shape, sizes, [min(clustered(shape, size) for _ in range(3 if size < 50_000 else 1)) for size in sizes]
        )
    results = [in_a_ledger(size) for size in sizes]
    print_times("ledger, whole", sizes, [result[0] for result in results])
    print_times("ledger, one new memory", sizes, [result[1] for result in results])
    print("merges and conflicts found:", ", ".join(f"{result[2]:,} and {result[3]:,}" for result in results))


if __name__ == "__main__":
    main()
