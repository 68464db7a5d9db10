"""The rows of the benchmark about questions in SQL: a question on the views against the same question on the tables.

Both go through ``query()``, which takes some 0.3 ms more than SQLite alone; the time of SQLite alone is printed too.
"""

from __future__ import annotations

import sqlite3
import statistics
from functools import partial
from pathlib import Path

from ledger import Ledger
from tools.bench.measuring import Figure, Options, Texts, lasting, p95, reading, remove, say

ROUNDS = 40
QUESTIONS = {  # label -> the SQL on the views, and the SQL on the tables
    "of one project, by its name": (
        "SELECT id, content FROM beliefs WHERE project = 'project 3'",
        "SELECT m.id, m.content FROM projects p JOIN memories m ON m.user = p.user AND m.project = p.id"
        " WHERE p.name = 'project 3'",
    ),
    "active, and sure": (
        "SELECT id, content, confidence FROM beliefs WHERE status = 'active' AND confidence >= 0.98",
        "SELECT id, content, confidence / 1e6 AS confidence FROM memories WHERE status = 'active' AND confidence >= 980000",
    ),
    "how many of each kind": (
        "SELECT kind, count(*) AS n FROM beliefs GROUP BY kind",
        "SELECT kind, count(*) AS n FROM memories GROUP BY kind",
    ),
    "the newest 50": (
        "SELECT id, content, project FROM beliefs ORDER BY first_position DESC LIMIT 50",
        "SELECT m.id, m.content, p.name AS project FROM memories m LEFT JOIN projects p ON p.id = m.project"
        " ORDER BY m.row DESC LIMIT 50",
    ),
}


def measure(options: Options) -> list[Figure]:
    size = 100_000 if max(options.sizes) >= 100_000 else 20_000
    say(f"questions: {size:,} memories")
    path, texts = options.directory / "questions.db", Texts(11)
    with Ledger.open(path) as ledger:
        with ledger.batch():
            for number in range(size):
                content, kind, project = texts.memory()
                ledger.remember(content, kind=kind, project=project, confidence=(number % 100) / 100)
        figures = [_figure(ledger, path, size, label, *statements) for label, statements in QUESTIONS.items()]
    remove(path)
    return figures


def _figure(ledger: Ledger, path: Path, size: int, label: str, view: str, table: str) -> Figure:
    ours, through, limit = list[float](), list[float](), list[float]()
    with reading(path) as connection:
        connection.row_factory = sqlite3.Row
        assert sorted(map(tuple, connection.execute(table))) == sorted(
            tuple(row.values()) for row in ledger.query(view)
        )
        for _ in range(ROUNDS):
            ours.append(lasting(partial(ledger.query, view)))
            through.append(lasting(partial(ledger.query, table, every_user=True)))
            limit.append(lasting(partial(_by_hand, connection, table)))
    ratio, by_hand = (statistics.median(ours) / statistics.median(other) for other in (limit, through)[::-1])
    say(f"  {label}: {by_hand:.2f} × of SQLite without query(), which takes {statistics.median(limit) * 1e6:.0f} µs")
    return Figure(
        what=f"query() on the views, and on the tables: {label}",
        size=size,
        ours=statistics.median(ours),
        ours_p95=p95(ours),
        limit=statistics.median(through),
        limit_p95=p95(through),
        ratio=ratio,
        reach="≤ 2 ×",
        met=ratio <= 2,
    )


def _by_hand(connection: sqlite3.Connection, sql: str) -> int:
    return len([dict(row) for row in connection.execute(sql)])
