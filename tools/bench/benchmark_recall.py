"""The rows of the benchmark about recall: against the same words asked of the text index by hand, and right after a write.

The texts are sentences of ``tests/corpus``, and the questions are made of their words. With ``--data`` the texts are turns of
transcripts with the questions that people asked about them, in the form that ``tools/evaluate/evaluate.py`` takes.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from ledger import Ledger, RejectedError
from ledger.english import question
from ledger.english.words import STOP_WORDS
from tools.bench.measuring import Figure, Options, Row, Texts, lasting, p95, reading, remove, say
from tools.evaluate.evaluate import load

CORPUS = Path(__file__).resolve().parents[2] / "tests" / "corpus" / "benign.jsonl"
BY_HAND = (  # the best hits by FTS5's own rank, with their rows
    "SELECT m.* FROM search CROSS JOIN memories m ON m.row = search.rowid WHERE search MATCH ? ORDER BY rank LIMIT 20"
)
REACH = {1_000: 4.0, 10_000: 2.0, 100_000: 1.5}  # times the time by hand
LONGEST = 1_200  # characters of a text
QUESTIONS, ROUNDS = 60, 3


def by_hand(connection: sqlite3.Connection, text: str) -> list[Row]:
    match = f"{{content words}} : ({question.read(text).expression})"
    return connection.execute(BY_HAND, (match,)).fetchall()


def measure_words(paths: dict[int, Path]) -> list[Figure]:
    """Measure a recall of six words and the same words asked of the text index by hand, in turns.

    The same 60 questions are asked at each size.
    """
    figures, medians = [], dict[int, float]()
    texts = Texts(99)
    questions = [texts.words(6) for _ in range(60)]
    for size, path in paths.items():
        ours, limit = list[float](), list[float]()
        with Ledger.open(path) as ledger, reading(path) as connection:
            for text in questions:
                ledger.recall(text)  # fill the cache for both
                ours.append(lasting(partial(ledger.recall, text)))
                limit.append(lasting(partial(by_hand, connection, text)))
        medians[size] = statistics.median(ours)
        ratio, more = medians[size] / statistics.median(limit), medians[size] - statistics.median(limit)
        goals = {100_000: ("≤ 2 × or + 5 ms", ratio <= 2 or more <= 0.005), 1_000_000: ("≤ 3 ×", ratio <= 3)}
        reach, met = goals.get(size, ("", None))
        figures.append(
            Figure(what="recall, six words", size=size, ours=medians[size], ours_p95=p95(ours),
                   limit=statistics.median(limit), limit_p95=p95(limit), ratio=ratio, reach=reach, met=met)
        )  # fmt: skip
    return figures


def measure(options: Options) -> list[Figure]:
    """Measure questions at each size in processor time, the least of three rounds, then a write and a recall in turns."""
    texts, questions = material(options)
    figures, path = [], options.directory / "questions.db"
    sizes = [size for size in REACH if size <= max(options.sizes)]
    for size in sizes:
        say(f"recall: questions to {size:,} texts")
        with Ledger.open(path) as ledger:
            fill(ledger, size, texts)
            with reading(path) as connection:
                times = [turn(ledger, connection, text) for text in questions]
            ours, limit = ([pair[index] for pair in times] for index in (0, 1))
            ratio = statistics.median(ours) / statistics.median(limit)
            figures.append(
                Figure(what="recall of a question, in processor time", size=size, ours=statistics.median(ours),
                       ours_p95=p95(ours), limit=statistics.median(limit), limit_p95=p95(limit), ratio=ratio,
                       reach=f"≤ {REACH[size]:g} ×", met=ratio <= REACH[size])
            )  # fmt: skip
            if size == sizes[-1]:
                figures.append(after_writes(ledger, questions, size))
        remove(path)
    return [*figures, *measure_context(options)]


def measure_context(options: Options) -> list[Figure]:
    """Measure ``context`` against ``recall`` of the same question in processor time, over as many memories as turns."""
    figures, path = [], options.directory / "context.db"
    for size in (1_000, 10_000):
        say(f"context: {size:,} memories and {size:,} turns")
        texts = Texts(13)
        with Ledger.open(path) as ledger:
            with ledger.batch():
                for number in range(size):
                    content, kind, _project = texts.memory()
                    ledger.remember(content, kind=kind)
                    prompt, response = texts.turn()
                    ledger.capture(f"I say {prompt}", response, session=f"day {number // 20}", reinforce=False)
            ours, limit = list[float](), list[float]()
            for _ in range(QUESTIONS):
                text = texts.words(6)
                ours.append(min(spent(partial(ledger.context, text)) for _ in range(ROUNDS)))
                limit.append(min(spent(partial(ledger.recall, text)) for _ in range(ROUNDS)))
        ratio = statistics.median(ours) / statistics.median(limit)
        figures.append(
            Figure(what="context of a question, against recall, in processor time", size=size,
                   ours=statistics.median(ours), ours_p95=p95(ours), limit=statistics.median(limit),
                   limit_p95=p95(limit), ratio=ratio, reach="≤ 2.5 ×", met=ratio <= 2.5)
        )  # fmt: skip
        remove(path)
    return figures


def turn(ledger: Ledger, connection: sqlite3.Connection, text: str) -> tuple[float, float]:
    rounds = [(spent(partial(ledger.recall, text)), spent(partial(by_hand, connection, text))) for _ in range(ROUNDS)]
    ours, limit = zip(*rounds, strict=True)
    return min(ours), min(limit)


def after_writes(ledger: Ledger, questions: list[str], size: int) -> Figure:
    """Measure a recall right after a ``remember()`` against the same recall again."""
    first, again = list[float](), list[float]()
    for number, text in enumerate(questions):
        ledger.remember(f"Number {number} was asked: {text}")
        first.append(spent(partial(ledger.recall, text)))
        again.append(spent(partial(ledger.recall, text)))
    ours, limit = statistics.median(first), statistics.median(again)
    return Figure(what="recall right after a remember(), against the same again", size=size, ours=ours,
                  ours_p95=p95(first), limit=limit, limit_p95=p95(again), ratio=ours / limit)  # fmt: skip


def spent(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


# --- texts and questions ---------------------------------------------------------------------------------------------


def material(options: Options) -> tuple[list[str], list[str]]:
    """Return texts, and questions about them."""
    draw = random.Random(3)
    if options.data:
        conversations = [conversation for path in options.data for conversation in load(path)]
        turns = [turn for conversation in conversations for turn in conversation["turns"]]
        texts = [f"{turn['speaker']}: {turn['text']}"[:LONGEST] for turn in turns]
        rows = [row for conversation in conversations for row in conversation["qa"]]
        questions = [row["question"] for row in rows if row["evidence"]]
    else:
        texts = [json.loads(line)["text"][:LONGEST] for line in CORPUS.read_text(encoding="utf-8").splitlines()]
        questions = [
            f"What was said of {' and '.join(words)}?" for words in map(partial(_telling, draw), texts) if words
        ]
    draw.shuffle(texts)
    draw.shuffle(questions)
    return texts, questions[:QUESTIONS]


def _telling(draw: random.Random, text: str) -> list[str]:
    words = sorted({word.lower() for word in re.findall(r"[^\W\d_]{4,}", text)} - STOP_WORDS)
    return draw.sample(words, 3) if len(words) >= 3 else []


def fill(ledger: Ledger, size: int, texts: list[str]) -> None:
    """Remember each text, then one to three sentences of any texts; the guards refuse some of them."""
    draw, count = random.Random(4), 0
    sentences = [
        sentence for text in texts for sentence in re.split(r"(?<=[.!?])\s+", text) if 20 < len(sentence) < 300
    ]
    with ledger.batch():
        while count < size:
            text = texts[count] if count < len(texts) else " ".join(draw.sample(sentences, draw.choice((1, 2, 2, 3))))
            with suppress(RejectedError):
                ledger.remember(text)
            count += 1
