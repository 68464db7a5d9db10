"""The rows of the benchmark about sessions: append, assemble, grep and compact, each against a limit."""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, json

from ledger import Ledger
from ledger.english.words import indexed
from ledger.sessions.rules import excerpts
from ledger.types import SummaryRequest
from tools.bench.measuring import (
    RAW_INSERT,
    Figure,
    Options,
    Row,
    Texts,
    compared,
    lasting,
    now,
    p95,
    raw_log,
    reading,
    remove,
    say,
)

GROUP = 20  # operations of the ledger, then as many of the limit
SHORT, LONG = 1_000, 100_000  # messages of a session
BUDGET = 8_000  # tokens
SEARCHED, SEARCHED_SHORT = 1_000_000, 100_000  # messages that grep looks through
SESSION = 10_000  # messages of each session that is searched
COMPACTED = 10_000
ROLES = ("user", "assistant")


def measure(options: Options) -> list[Figure]:
    quick = max(options.sizes) < LONG
    return [
        *append(options, SHORT if quick else LONG),
        *assemble(options, 20_000 if quick else LONG),
        *grep(options, SEARCHED_SHORT if quick else SEARCHED),
        *compact(options),
        *rank(options),
    ]


def transcript(count: int, texts: Texts) -> Iterator[dict[str, str]]:
    for number in range(count):
        yield {"role": ROLES[number % 2], "content": texts.words(texts.random.randint(8, 60))}


def append(options: Options, longest: int) -> Iterator[Figure]:
    """Measure a durable message against a row of the log written into a raw table of the same length."""
    for size in sorted({SHORT, longest}):
        say(f"append: one durable message, in a session of {size:,}")
        path, texts = options.directory / "append.db", Texts(size)
        ours, limit = list[float](), list[float]()
        with Ledger.open(path) as ledger:
            session = ledger.session("long")
            session.reconcile(transcript(size, texts))
            raw = raw_log(path, path.with_suffix(".raw"), rows=True)
            rows = like_messages(path)
            for turn in range(-1, options.samples // GROUP):
                group = [lasting(partial(session.append, "user", texts.words(30))) for _ in range(GROUP)]
                bare_group = [raw.write(RAW_INSERT, [next(rows)]) for _ in range(GROUP)]
                if turn >= 0:
                    ours += group
                    limit += bare_group
            raw.remove()
        remove(path)
        yield compared("session.append()", size, ours, limit, 0.35)


def like_messages(path: Path) -> Iterator[Row]:
    """Yield rows like those of the messages at the end of a log, at positions and versions that follow."""
    with reading(path) as connection:
        sql = "SELECT * FROM events WHERE type = 'MessageAppended' ORDER BY position DESC LIMIT 500"
        patterns = connection.execute(sql).fetchall()
        last, version = connection.execute("SELECT max(position), max(version) FROM events").fetchone()
    while True:
        for _, stream, _, *rest in patterns:
            last, version = last + 1, version + 1
            yield (last, stream, version, *rest)


def assemble(options: Options, longest: int) -> Iterator[Figure]:
    """Measure the same budget of a long session against that of a short session."""
    path = options.directory / "assemble.db"
    took: dict[int, list[float]] = {}
    with Ledger.open(path) as ledger:
        sessions = {size: ledger.session(f"of {size}") for size in (SHORT, longest)}
        for size, session in sessions.items():
            say(f"assemble: a session of {size:,}")
            session.reconcile(transcript(size, Texts(size)))
            took[size] = []
        for _ in range(60):
            for size, session in sessions.items():
                took[size].append(lasting(partial(session.window, BUDGET)))
    remove(path)
    ours, limit = took[longest], took[SHORT]
    ratio = statistics.median(ours) / statistics.median(limit)
    yield Figure(
        what=f"window({BUDGET:,}), against a session of {SHORT:,}",
        size=longest,
        ours=statistics.median(ours),
        ours_p95=p95(ours),
        limit=statistics.median(limit),
        limit_p95=p95(limit),
        ratio=ratio,
        reach="≤ 3 ×",
        met=ratio <= 3,
    )


def grep(options: Options, count: int) -> Iterator[Figure]:
    """Measure two words in all sessions against the same words asked of the text index by hand: the 20 best with their rows."""
    path, texts = options.directory / "grep.db", Texts(3)
    with Ledger.open(path) as ledger:
        for number in range(count // SESSION):
            if number % 10 == 0:
                say(f"grep: filling {number * SESSION:,} of {count:,}")
            ledger.session(f"session {number}").reconcile(transcript(SESSION, texts))
        draw, sql = (
            Texts(4),
            (
                "SELECT m.* FROM passage_search CROSS JOIN passages m ON m.row = passage_search.rowid"
                " WHERE passage_search MATCH ? ORDER BY rank LIMIT 20"
            ),
        )
        patterns = [draw.words(2) for _ in range(60)]
        ours, limit = list[float](), list[float]()
        with reading(path) as connection:
            for pattern in patterns:
                look = partial(ledger.sessions.grep, pattern)
                look()  # fill the cache for both
                ours.append(lasting(look))
                match = "{text} : (" + " AND ".join(f'"{word}"' for word in indexed(pattern).split()) + ")"
                limit.append(lasting(partial(fetched, connection, sql, match)))
    remove(path)
    ratio = statistics.median(ours) / statistics.median(limit)
    yield Figure(
        what="grep, two words, everywhere",
        size=count,
        ours=statistics.median(ours),
        ours_p95=p95(ours),
        limit=statistics.median(limit),
        limit_p95=p95(limit),
        ratio=ratio,
        reach="≤ 2 ×",
        met=ratio <= 2,
    )


def fetched(connection: sqlite3.Connection, sql: str, match: str) -> list[Row]:
    return connection.execute(sql, (match,)).fetchall()


def stub(request: SummaryRequest) -> str:
    """Return a summary without a model: the first words of each text, as far as the target reaches."""
    return " ".join(text[:40] for text in request.texts)[: request.target_tokens * 2]


def compact(options: Options) -> Iterator[Figure]:
    """Measure compacting a session of 10,000 messages until nothing is due against writing the appended rows in one commit."""
    ours, limit, read = list[float](), list[float](), list[float]()
    count = 0
    for number in range(options.rounds):
        say(f"compact: {number + 1} of {options.rounds}")
        path = options.directory / "compact.db"
        with Ledger.open(path) as ledger:
            session = ledger.session("long")
            session.reconcile(transcript(COMPACTED, Texts(number)))
            before, started = ledger.position, now()
            report = session.compact(BUDGET, summarizer=stub)
            while report.created:
                report = session.compact(BUDGET, summarizer=stub)
            ours.append(now() - started)
        with reading(path) as connection:
            rows = connection.execute("SELECT * FROM events WHERE position > ? ORDER BY position", (before,)).fetchall()
            read.append(lasting(partial(contents, connection, before)))
        count = len(rows)
        raw = raw_log(path, path.with_suffix(".raw"), rows=False)
        limit.append(raw.write(RAW_INSERT, rows))
        raw.remove()
        remove(path)
    label = f"compact {COMPACTED:,} messages"
    yield compared(f"{label}, against inserting the {count} events", COMPACTED, ours, limit, 0.20)
    both = [sum(pair) for pair in zip(limit, read, strict=True)]
    yield compared(f"{label}, against reading them and inserting", COMPACTED, ours, both, None)


def rank(options: Options) -> Iterator[Figure]:
    """Measure the processor time of compacting 10,000 messages without a model, and its part for the choice of sentences."""
    whole, ranking, chosen = list[float](), list[float](), excerpts.excerpt

    def timed(*arguments: Any) -> str:
        started = time.process_time()
        text = chosen(*arguments)
        ranking[-1] += time.process_time() - started
        return text

    excerpts.excerpt = cast("Any", timed)
    try:
        for number in range(options.rounds):
            say(f"rank: {number + 1} of {options.rounds}")
            path = options.directory / "rank.db"
            with Ledger.open(path) as ledger:
                session = ledger.session("long")
                session.reconcile(transcript(COMPACTED, Texts(number)))
                ranking.append(0.0)
                started = time.process_time()
                while session.compact(BUDGET).created:
                    pass
                whole.append(time.process_time() - started)
            remove(path)
    finally:
        excerpts.excerpt = chosen
    label = f"compact {COMPACTED:,} messages without a model, processor time"
    yield Figure(what=label, size=COMPACTED, ours=statistics.median(whole))
    yield Figure(what=f"{label} of the choice of sentences", size=COMPACTED, ours=statistics.median(ranking))


class Content(Struct):
    content: str


class Message(Struct):
    data: Content


def contents(connection: sqlite3.Connection, last: int) -> int:
    """Return the length of all messages, read by hand, because a summary is not possible without reading."""
    decode = json.Decoder(Message).decode
    sql = "SELECT state FROM events WHERE type = 'MessageAppended' AND position <= ? ORDER BY position"
    return sum(len(decode(state).data.content) for (state,) in connection.execute(sql, (last,)))
