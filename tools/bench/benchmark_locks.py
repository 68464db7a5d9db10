"""The rows of the benchmark about long texts: how long others wait for them, and how long the guards read them.

The texts of a scan are made of the rules themselves: of each expression of the guards, and of the words of their lists.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, partial
from pathlib import Path

from ledger import Ledger
from ledger.answers import Document
from ledger.domain.scan import secrets, threats
from ledger.domain.scan.patterns import read
from tools.bench.measuring import Figure, Options, Texts, remove, say
from tools.crash.slow_patterns import _of_guards, attacks, text_of

CORPUS = Path(__file__).resolve().parents[2] / "tests" / "corpus" / "benign.jsonl"
SCANNED, SHORT, LONG = 8 * 1024, 256 * 1024, 1024 * 1024  # characters
TIMES, GROWTH, HELD_SECONDS = 8, 5, 0.050
DEAREST = 3  # so many of the texts that take longest are scanned at full length
NOUNS = ("key", "password", "pin", "door code", "login", "passwort", "pass phrase", "wi-fi key", "safe", "unlock")
LINKS = (" ", " is ", ": ", " is the ", " is 4711 ", "? It's ")
LISTS = ("little", "binding", "opening", "telling")
OTHER = {
    "roles": "user: ",
    "addresses": "https://a.b/c:d@e ",
    "base64": "aGVsbG8gd29ybGQ",
    "digits": "4111 1111 ",
    "orders": "ignore all previous ",
    "steps": "my password is a, all lowercase, no spaces ",
    "quotes": 'password: "a ',
}


def units() -> dict[str, str]:
    """Return short texts of the words of the rules; repeated they are hostile texts."""
    parts = read()["secrets"].parts
    words = {f"{name}: {word}": f"{word} " for name in LISTS for word in parts[name].split("|")[:2]}
    return {**words, **{noun + link: noun + link for noun in NOUNS for link in LINKS}, **OTHER}


def repeated(unit: str, chars: int) -> str:
    return (unit * (chars // len(unit) + 1))[:chars]


def measure(options: Options, held: Callable[[], AbstractContextManager[list[float]]]) -> list[Figure]:
    return [*_scans(), *_locks(options, held)]


# --- scans -----------------------------------------------------------------------------------------------------------


@cache
def _makers() -> dict[str, Callable[[int], str]]:
    """Return functions that make a hostile text of a length, by the name of the text."""
    makers: dict[str, Callable[[int], str]] = {name: partial(repeated, unit) for name, unit in units().items()}
    for name, _, _, pattern in _of_guards():
        for number, attack in enumerate(attacks(pattern, choices=1)):
            makers[f"{name} {number}"] = partial(text_of, attack)
    return makers


def _seconds(text: str) -> float:
    """Return the processor time of a scan for secrets and threats."""
    started = time.process_time()
    secrets.scan(text)
    threats.scan(text)
    return time.process_time() - started


def _scans() -> list[Figure]:
    makers = _makers()
    say(f"locks: scans of {len(makers):,} texts made of the rules")
    lines = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    english = repeated(" ".join(line["text"] for line in lines if line["language"] == "en"), LONG)
    plain = min(_seconds(english) for _ in range(2)) / LONG
    costs = {name: _seconds(make(SCANNED)) / SCANNED for name, make in makers.items()}
    worst, growth, dearest = 0.0, 0.0, ""
    for name in sorted(costs, key=lambda name: -costs[name])[:DEAREST]:
        few, more = (_seconds(makers[name](chars)) for chars in (SHORT, LONG))
        growth = max(growth, more / few)
        if more / LONG > worst:
            worst, dearest = more / LONG, name
    return [
        Figure(what="scan of plain English, a character", size=LONG, ours=plain),
        Figure(what=f"scan of the dearest text ({dearest}), a character", size=LONG, ours=worst, limit=plain,
               ratio=worst / plain, reach=f"≤ {TIMES} ×", met=worst <= TIMES * plain),
        Figure(what="scan of four times the text", size=LONG, ours=growth, unit=" ×", reach=f"≤ {GROWTH} ×",
               met=growth <= GROWTH),
    ]  # fmt: skip


# --- locks -----------------------------------------------------------------------------------------------------------


def _locks(options: Options, held: Callable[[], AbstractContextManager[list[float]]]) -> list[Figure]:
    commands: dict[str, Callable[[Ledger, str, int], object]] = {
        "capture() of 1 MB": lambda ledger, text, _: ledger.capture("What is it about?", text),
        "session.append() of 1 MB": lambda ledger, text, _: ledger.session("s").append("user", text),
        "remember() of 256 KB": lambda ledger, text, _: ledger.remember(text[: 256 * 1024]),
        "documents.add() of 1 MB, a chunk": lambda ledger, text, at: ledger.documents.add(text, path=f"{at}.txt"),
    }
    figures = []
    for name, command in commands.items():
        say(f"locks: {name}")
        path, texts, seconds = options.directory / "locks.db", Texts(11), list[float]()
        with Ledger.open(path) as ledger:
            for number in range(options.rounds):
                text = ". ".join(texts.words(12) for _ in range(LONG // 60))[:1_000_000]
                with held() as locks:
                    done = command(ledger, text, number)
                seconds.append(max(locks) / (done.added if isinstance(done, Document) else 1))
        remove(path)
        middle = statistics.median(seconds)
        goal = HELD_SECONDS if "chunk" not in name else None
        figures.append(
            Figure(what=f"{name}: longest lock", size=0, ours=middle, ours_p95=max(seconds), limit=goal,
                   ratio=middle / goal if goal else None, reach=f"≤ {HELD_SECONDS * 1000:.0f} ms" if goal else "",
                   met=middle <= goal if goal else None)
        )  # fmt: skip
    return figures
