"""The tools of every benchmark: figures and their table, repeatable texts, and a raw SQLite file to compare with."""

from __future__ import annotations

import importlib
import os
import platform
import random
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from msgspec import Struct


def import_first(*names: str) -> Any:
    """Return the first of these modules that exists: an earlier commit, which we compare with, has other folders."""
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    return importlib.import_module(names[-1])


_files = import_first("ledger.log.sqlite_files", "ledger.store.sqlite_files")
CHECKPOINT_BYTES, CHECKPOINT_STEP_BYTES, SETTINGS = _files.CHECKPOINT_BYTES, _files.CHECKPOINT_STEP_BYTES, _files.SETTINGS

WORDS, PROJECTS = 5_000, 20
CHUNK = 10_000  # rows read and written at a time by the limits
RAW_INSERT = "INSERT INTO events VALUES (?,?,?,?,?,?,?,?,?)"

now = time.perf_counter
Row = tuple[Any, ...]


class Figure(Struct, frozen=True, kw_only=True):
    """A line of the table; times in seconds, other amounts as ``unit`` says. ``met`` is None if there is no goal."""

    what: str
    size: int
    ours: float
    ours_p95: float | None = None
    limit: float | None = None
    limit_p95: float | None = None
    unit: str = "s"
    ratio: float | None = None
    reach: str = ""
    met: bool | None = None


class Options(Struct, frozen=True):
    sizes: tuple[int, ...]
    rows: tuple[str, ...]
    directory: Path
    samples: int  # single commands measured at each size
    turns: int  # interactions in one round of an import
    rounds: int
    data: Sequence[str] = ()  # files of transcripts with questions


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# --- the texts -------------------------------------------------------------------------------------------------------


class Texts:
    """A source of sentences and turns of distinct, repeatable text; word frequencies are as unequal as in a language."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        maker = random.Random(7)
        syllables = [a + b for a in "bcdfghjklmnprstvwz" for b in "aeiou"]
        words: dict[str, None] = dict.fromkeys(("the", "of", "and", "to", "is", "in", "for", "with", "user", "on"))
        while len(words) < WORDS:
            stem = "".join(maker.choices(syllables, k=maker.choice((2, 2, 3, 3, 4))))
            words[stem + maker.choice(("", "", "n", "r", "s", "ed", "ing", "er"))] = None
        named = list(words)[:10]
        others = sorted(list(words)[10:], key=lambda word: len(word) + maker.random() * 4)
        self._words = named + others  # frequent words are short
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(WORDS)))

    def words(self, count: int) -> str:
        return " ".join(self.random.choices(self._words, cum_weights=self._weights, k=count))

    def memory(self) -> tuple[str, str, str]:
        """Return (content, kind, project)."""
        kind = self.random.choice(("knowledge", "knowledge", "preference", "project", "episodic"))
        return self.words(self.random.randint(6, 14)), kind, self.project()

    def project(self) -> str:
        return f"project {self.random.randrange(PROJECTS)}"

    def turn(self) -> tuple[str, str]:
        """Return (prompt, response)."""
        return self.words(self.random.randint(8, 20)), self.words(self.random.randint(30, 90))


# --- the hand-written limit ------------------------------------------------------------------------------------------


class Raw:
    """A plain SQLite file with the ledger's settings and checkpoint policy, and nothing else of the ledger."""

    def __init__(self, path: Path, tables: Iterable[str]) -> None:
        self.path, self._wal, self._above = path, f"{path}-wal", CHECKPOINT_BYTES
        self.connection = sqlite3.connect(path, isolation_level=None, cached_statements=512)
        self.connection.execute("PRAGMA journal_mode = WAL")
        for name, value in SETTINGS.items():
            self.connection.execute(f"PRAGMA {name} = {value}")
        for sql in tables:
            self.connection.execute(sql)

    def write(self, sql: str, rows: Sequence[Row]) -> float:
        """Return the seconds to write these rows in one commit, a checkpoint included when it is due."""
        started, execute = now(), self.connection.execute
        execute("BEGIN IMMEDIATE")
        if len(rows) == 1:
            execute(sql, rows[0])
        else:
            self.connection.executemany(sql, rows)
        execute("COMMIT")
        self._checkpoint()
        return now() - started

    def write_waiting(self) -> None:
        """Bring the -wal to its full length, as after long use, so that further writes go over it and do not extend it."""
        self.connection.execute("CREATE TABLE passing (data BLOB)")
        self.write("INSERT INTO passing VALUES (zeroblob(?))", [(CHECKPOINT_BYTES + CHECKPOINT_STEP_BYTES,)])
        self.connection.execute("DROP TABLE passing")
        self._checkpoint()

    def _checkpoint(self) -> None:
        size = os.stat(self._wal).st_size
        if size > self._above:
            self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._above = size + CHECKPOINT_STEP_BYTES
        elif size <= CHECKPOINT_BYTES:
            self._above = CHECKPOINT_BYTES

    def remove(self) -> None:
        self.connection.close()
        remove(self.path)


def remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm", ".lock"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection that reads a ledger file from outside, in one snapshot."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("BEGIN")
        yield connection


def schema(connection: sqlite3.Connection, name: str) -> list[str]:
    """Return the statements that make a table and its indexes, the table first; triggers are left out."""
    sql = "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND type IN ('table', 'index') AND sql IS NOT NULL"
    return [statement for (statement,) in connection.execute(f"{sql} ORDER BY type DESC", (name,))]


def raw_log(source: Path, path: Path, *, rows: bool) -> Raw:
    """Return a raw table like the log of a ledger, with its rows or empty."""
    with reading(source) as connection:
        raw = Raw(path, schema(connection, "events"))
        if rows:
            cursor = connection.execute("SELECT * FROM events ORDER BY position")
            while chunk := cursor.fetchmany(CHUNK):
                raw.write(RAW_INSERT, chunk)
            raw.write_waiting()
    return raw


def compared(what: str, size: int, ours: Sequence[float], limit: Sequence[float], least: float | None) -> Figure:
    """Return a figure of the medians of the ledger and the limit; the ratio is limit / ours."""
    ratio = statistics.median(limit) / statistics.median(ours)
    return Figure(
        what=what,
        size=size,
        ours=statistics.median(ours),
        ours_p95=p95(ours),
        limit=statistics.median(limit),
        limit_p95=p95(limit),
        ratio=ratio,
        reach=f"≥ {least:.2f} ×" if least is not None else "",
        met=ratio >= least if least is not None else None,
    )


def rate(what: str, size: int, ours: float, least: float | None) -> Figure:
    """Return a figure of the number a second, and of the number that is the goal."""
    if least is None:
        return Figure(what=what, size=size, ours=ours, unit="/s")
    reach = f"≥ {least:,.0f}/s"
    return Figure(what=what, size=size, ours=ours, unit="/s", ratio=ours / least, reach=reach, met=ours >= least)


def p95(values: Sequence[float]) -> float | None:
    return statistics.quantiles(values, n=20)[-1] if len(values) >= 20 else None


def lasting(work: Callable[[], object]) -> float:
    started = now()
    work()
    return now() - started


# --- the table --------------------------------------------------------------------------------------------------------


def cells(figure: Figure) -> tuple[str, ...]:
    met = "" if figure.met is None else "yes" if figure.met else "NO"
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f} ×"
    ours, limit = (
        "" if value is None else amount(value, figure.unit) + (f" (p95 {amount(worst, figure.unit)})" if worst else "")
        for value, worst in ((figure.ours, figure.ours_p95), (figure.limit, figure.limit_p95))
    )
    return (figure.what, f"{figure.size:,}", ours, limit, ratio, figure.reach, met)


def amount(value: float, unit: str) -> str:
    if unit != "s":
        return f"{value:,.0f} {unit}"
    scale, name = next(
        (s, n) for least, s, n in ((1, 1, "s"), (1e-3, 1e3, "ms"), (0, 1e6, "µs")) if abs(value) >= least
    )
    return f"{value * scale:.3g} {name}"


def table(figures: Sequence[Figure], *, markdown: bool) -> str:
    head = ("what", "size", "ours", "limit", "ratio", "reach", "met?")
    lines = [head, *map(cells, figures)]
    if markdown:
        rows = ["| " + " | ".join(line) + " |" for line in lines]
        return "\n".join([rows[0], "|---|--:|--:|--:|--:|--:|---|", *rows[1:]])
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def environment() -> str:
    """Return the machine and versions of a run, with a warning if others were at work, because a slow disk hides our own cost."""
    versions = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()}"
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    machine = f"{versions} {platform.machine()}, {cores} cores, load {load:.1f}; medians; durable commits (WAL, FULL)"
    return machine if load <= cores else f"{machine}\nNOT QUIET: others were at work on this machine; measure again"
