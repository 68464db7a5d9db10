"""The benchmark of the ledger: each figure is a ratio to a hand-written limit in the same run on the same disk.

    python tools/bench/benchmark.py                          1,000, 100,000 and 1,000,000 memories
    python tools/bench/benchmark.py --quick                  1,000 and 20,000, in about a minute
    python tools/bench/benchmark.py --rows remember,growth   only these rows
    python tools/bench/benchmark.py --markdown               the table for ledger/docs/measured.md

The ledger and the limit take turns in small groups, so that a machine that drifts slows both. Progress goes to stderr. The
ledgers are filled through ``batch()``: of 100 commands 85 remember, 10 reinforce a memory, 3 capture a turn, 2 supersede.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from ledger import Ledger, PastLedger
from ledger.core.reads import decode_range
from ledger.events import TYPES, Envelope
from ledger.log.envelope import COLUMNS
from ledger.log.integrity import ErasedContents, check_chain
from ledger.log.writing import Writing
from ledger.proof.merkle import Tree, inclusion_ranges
from ledger.proof.sealed import head_at, rows_after
from ledger.vectors.part import SEARCH
from projections.core.projector import projections
from projections.core.rows import Table, TextIndex
from projections.search import memory_hits as search
from projections.search import passages
from projections.views import memories

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tools import inside  # noqa: E402
from tools.bench import (  # noqa: E402
    benchmark_async,
    benchmark_embedders,
    benchmark_locks,
    benchmark_own,
    benchmark_questions,
    benchmark_recall,
    benchmark_reinforce,
    benchmark_sessions,
    benchmark_start,
)
from tools.bench.measuring import (  # noqa: E402
    CHUNK,
    RAW_INSERT,
    Figure,
    Options,
    Raw,
    Row,
    Texts,
    compared,
    environment,
    lasting,
    now,
    p95,
    rate,
    raw_log,
    reading,
    remove,
    say,
    schema,
    table,
)

ROWS = (
    "remember",
    "growth",
    "reinforce",
    "import",
    "undo",
    "rebuild",
    "read",
    "verify",
    "what-if",
    "replay",
    "at",
    "vectors",
    "recall",
    "sessions",
    "own",
    "questions",
    "start",
    "async",
    "locks",
)
SIZES, QUICK_SIZES = (1_000, 100_000, 1_000_000), (1_000, 20_000)
CRAWLER, CRAWLED = "crawler", 0.01  # a source, and its share of the memories
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024
GROUP = 20  # operations of the ledger, then as many of the limit


def fill(ledger: Ledger, size: int, texts: Texts) -> None:
    """Bring a new ledger to ``size`` memories."""
    draw, known, count, commands, started = texts.random, list[str](), 0, 0, now()
    crawler = ledger.bind(actor=CRAWLER)
    with ledger.batch():
        while count < size:
            lot, commands = draw.random(), commands + 1
            if lot < 0.85 or not known:
                content, kind, project = texts.memory()
                who = crawler if draw.random() < CRAWLED else ledger
                keep(known, who.remember(content, kind=kind, project=project).id, draw)
                count += 1
            elif lot < 0.95:
                ledger.reinforce(draw.choice(known))
            elif lot < 0.98:
                ledger.capture(*texts.turn(), project=texts.project(), session="filling", reinforce=False)
            else:
                place = draw.randrange(len(known))
                known[place] = ledger.supersede(known[place], texts.memory()[0], reason="it changed").id
                count += 1
            if commands % 50_000 == 0:
                say(f"  {count:,} of {size:,} memories, {now() - started:.0f} s")
    events, seconds = ledger.position, now() - started
    say(f"  filled: {count:,} memories, {events:,} events in {seconds:.1f} s, {events / seconds:,.0f}/s")


def keep(known: list[str], new: str, draw: random.Random) -> None:
    """Keep at most 10,000 ids of all ages, for later commands."""
    if len(known) < 10_000:
        known.append(new)
    else:
        known[draw.randrange(len(known))] = new


# --- remember, and how it grows --------------------------------------------------------------------------------------


class Site:
    """A ledger of one size, and a raw log of the same rows beside it."""

    def __init__(self, size: int, path: Path) -> None:
        self.size, self.texts = size, Texts(size + 1)
        self.ledger = Ledger.open(path)
        self.raw = raw_log(path, path.with_suffix(".raw"), rows=True)
        self._rows = self._next_rows(path)
        self.ours: list[float] = []
        self.limit: list[float] = []
        self.busy: list[tuple[float, float]] = []  # processor time of an operation: of the ledger, of the limit

    def _next_rows(self, path: Path) -> Iterator[Row]:
        """Yield rows like those that ``remember()`` appends: taken from the log, with streams and positions of their own."""
        with reading(path) as connection:
            sql = "SELECT * FROM events WHERE type = 'MemoryCaptured' ORDER BY position DESC LIMIT 2000"
            patterns = connection.execute(sql).fetchall()
            (last,) = connection.execute("SELECT max(position) FROM events").fetchone()
        draw = self.texts.random
        while True:
            for _, _, _, *rest in patterns:
                last += 1
                stream = "m_" + "".join(draw.choices("0123456789abcdefghjkmnpqrstvwxyz", k=16))
                yield (last, stream, 1, *rest)

    def remember(self) -> float:
        content, kind, project = self.texts.memory()
        started = now()
        self.ledger.remember(content, kind=kind, project=project)
        return now() - started

    def insert(self) -> float:
        return self.raw.write(RAW_INSERT, [next(self._rows)])

    def measure(self, *, warm: bool) -> None:
        """Measure a group of the ledger, then a group of the limit; groups before the warm ones do not count."""
        begun = time.process_time()
        ours = [self.remember() for _ in range(GROUP)]
        between = time.process_time()
        limit = [self.insert() for _ in range(GROUP)]
        if warm:
            self.ours += ours
            self.limit += limit
            self.busy.append(((between - begun) / GROUP, (time.process_time() - between) / GROUP))

    def close(self) -> None:
        self.ledger.close()
        self.raw.remove()


def measure_remember(paths: dict[int, Path], options: Options) -> list[Figure]:
    say("remember: one durable command each")
    sites = [Site(size, path) for size, path in paths.items()]
    try:
        for turn in range(-1, options.samples // GROUP):
            for site in sites:
                site.measure(warm=turn >= 0)
    finally:
        for site in sites:
            site.close()
    return [*_remember_figures(sites, options), *_growth_figures(sites, options)]


def _remember_figures(sites: Sequence[Site], options: Options) -> Iterator[Figure]:
    for site in sites if "remember" in options.rows else ():
        least = 0.35 if site.size <= 10_000 else 0.20 if site.size >= 1_000_000 else None
        yield compared("remember()", site.size, site.ours, site.limit, least)
        mine, bare = statistics.fmean(site.ours), statistics.fmean(site.limit)
        yield Figure(what="remember(): mean", size=site.size, ours=mine, limit=bare, ratio=bare / mine)
        worked = [statistics.median(values) for values in zip(*site.busy, strict=True)]
        yield Figure(
            what="remember(): processor time",
            size=site.size,
            ours=worked[0],
            limit=worked[1],
            ratio=worked[1] / worked[0],
        )


def _growth_figures(sites: Sequence[Site], options: Options) -> Iterator[Figure]:
    small = sites[0]
    for site in sites[1:] if "growth" in options.rows else ():
        ours, limit = statistics.median(site.ours), statistics.median(small.ours)
        is_largest = site.size == sites[-1].size
        yield Figure(
            what=f"remember(), against itself at {small.size:,}",
            size=site.size,
            ours=ours,
            limit=limit,
            ratio=ours / limit,
            reach="≤ 2 ×" if is_largest else "",
            met=ours <= 2 * limit if is_largest else None,
        )


# --- capture and reinforce -------------------------------------------------------------------------------------------


@contextmanager
def held() -> Iterator[list[float]]:
    """Yield a list that collects the seconds of each outermost write transaction, from before its BEGIN to after its COMMIT."""
    enter, leave, begun, seconds = Writing.enter, Writing.leave, list[float](), list[float]()

    def entered(writing: Writing, *arguments: bool) -> Any:
        begun.append(now())
        return enter(writing, *arguments)

    def left(writing: Writing, error: BaseException | None) -> None:
        try:
            leave(writing, error)
        finally:
            started = begun.pop()
            if not begun:
                seconds.append(now() - started)

    with patch.multiple(Writing, enter=entered, leave=left):
        yield seconds


def measure_reinforce(path: Path, size: int, options: Options) -> list[Figure]:
    """Measure turns whose response restates three memories of the project, among other words."""
    say(f"reinforce: capture() with {size:,} memories")
    texts, held_by_turn, longest, whole = Texts(3), list[float](), list[float](), list[float]()
    with Ledger.open(path) as ledger, held() as locks:
        stop = now() + 60
        for turn in range(-10, min(options.samples, 200)):
            if turn > 10 and now() > stop:
                break
            project = texts.project()
            prompt, response = texts.turn()
            contents = [memory.content or "" for memory in ledger.memories.list(project=project, limit=40)]
            response = ". ".join((response, *texts.random.sample(contents, min(3, len(contents)))))
            locks.clear()
            started = now()
            ledger.capture(prompt, response, project=project, session=f"session {turn // 10}")
            if turn >= 0:
                whole.append(now() - started)
                held_by_turn.append(sum(locks))
                longest.append(max(locks))
    middle = statistics.median(longest)
    about: dict[str, Any] = {"size": size}
    return [
        Figure(what="capture() + reinforce: longest lock", ours=middle, ours_p95=p95(longest), limit=0.005,
               ratio=middle / 0.005, reach="≤ 5 ms", met=middle <= 0.005, **about),
        Figure(what="capture() + reinforce: both locks", ours=statistics.median(held_by_turn),
               ours_p95=p95(held_by_turn), **about),
        Figure(what="capture() + reinforce: whole call", ours=statistics.median(whole), ours_p95=p95(whole), **about),
    ]  # fmt: skip


# --- import ----------------------------------------------------------------------------------------------------------


def measure_import(options: Options) -> list[Figure]:
    """Measure imports against writing the same rows without any computing.

    Each round writes a ledger, then its event rows into an empty raw log, and the rows of every table beside them.
    """
    ways: dict[str, tuple[Callable[[Path, int, Texts], float], int]] = {
        "import_file()": (import_lines, 7_000),
        "batch(): capture()": (capture_batch, 7_000),
        "batch(): remember()": (remember_batch, 10_000),
    }
    figures = []
    for name, (way, least) in ways.items():
        say(f"import: {name}, {options.rounds} × {options.turns:,}")
        ours, bare, limit = list[float](), list[float](), list[float]()
        for number in range(options.rounds):
            path = options.directory / "import.db"
            seconds = way(path, options.turns, Texts(100 + number))
            with reading(path) as connection:
                rows = connection.execute("SELECT * FROM events ORDER BY position").fetchall()
            ours.append(seconds / len(rows))
            raw = raw_log(path, path.with_suffix(".raw"), rows=False)
            limit.append(raw.write(RAW_INSERT, rows) / len(rows))
            raw.remove()
            bare.append(limit[-1] + restore(path, path.with_suffix(".raw")) / len(rows))
            remove(path)
        figures.append(compared(f"{name}, each event", options.turns, ours, limit, None))
        figures.append(rate(f"{name}, a second", options.turns, 1 / statistics.median(ours), least))
        figures.append(compared(f"{name}: the finished rows alone, nothing computed", options.turns, bare, limit, None))
    return figures


def import_lines(path: Path, count: int, texts: Texts) -> float:
    source = path.with_suffix(".jsonl")
    with source.open("w", encoding="utf-8") as file:
        for number in range(count):
            prompt, response = texts.turn()
            line = {"prompt": prompt, "response": response, "project": texts.project(), "client": "chat"}
            file.write(json.dumps(line | {"session_id": f"session {number // 50}"}) + "\n")
    with Ledger.open(path) as ledger:
        started = now()
        ledger.interactions.import_file(source)
        seconds = now() - started
    source.unlink()
    return seconds


def capture_batch(path: Path, count: int, texts: Texts) -> float:
    turns = [(*texts.turn(), texts.project()) for _ in range(count)]
    with Ledger.open(path) as ledger:
        started = now()
        with ledger.batch():
            for number, (prompt, response, project) in enumerate(turns):
                ledger.capture(prompt, response, project=project, session=f"session {number // 50}", reinforce=False)
        return now() - started


def remember_batch(path: Path, count: int, texts: Texts) -> float:
    made = [texts.memory() for _ in range(count)]
    with Ledger.open(path) as ledger:
        started = now()
        with ledger.batch():
            for content, kind, project in made:
                ledger.remember(content, kind=kind, project=project)
        return now() - started


# --- undo ------------------------------------------------------------------------------------------------------------


def measure_undo(options: Options) -> Figure:
    """Measure how long other writers wait while the memories of one origin, a third of a ledger, are undone in one append."""
    count = 12_000 if options.turns >= 5_000 else 2_000
    say(f"undo: {count:,} events")
    path, texts, seconds = options.directory / "undo.db", Texts(13), list[float]()
    with Ledger.open(path) as ledger:
        origin = ledger.bind(actor=CRAWLER)
        with ledger.batch():
            for number in range(3 * count):
                content, kind, project = texts.memory()
                (ledger if number % 3 else origin).remember(f"{content} {number}", kind=kind, project=project)
        for _ in range(options.rounds):
            with held() as locks:
                undone = ledger.history.undo_all(by=CRAWLER)
            seconds.append(max(locks))
            ledger.redo(undone.command_id or "")
    remove(path)
    ours, limit = statistics.median(seconds), 1.5 * count / 12_000
    label = f"{count:,} events undone: the lock is held"
    return Figure(
        what=label, size=3 * count, ours=ours, limit=limit, ratio=ours / limit, reach="≤ 1 ×", met=ours <= limit
    )


# --- rebuild ---------------------------------------------------------------------------------------------------------


def measure_rebuild(paths: dict[int, Path], options: Options) -> list[Figure]:
    """Measure the rebuild in a process of its own, so that the peak memory is that of the rebuild."""
    figures: list[Figure] = []
    for size, path in paths.items():
        ours, switched, limit, peaks, events = list[float](), list[float](), list[float](), list[float](), 0
        bare = list[float]()
        for _ in range(1 if size >= 200_000 else options.rounds):
            say(f"rebuild: {size:,} memories")
            report = json.loads(subprocess.check_output([sys.executable, __file__, "--child-rebuild", str(path)]))
            ours.append(report["seconds"])
            bare.append(report["bare"])
            switched.append(report["switched"])
            peaks.append(report["peak_bytes"] / 2**20)
            events = report["events"]
            limit.append(restore(path, path.with_suffix(".raw")))
            say(f"  ours {ours[-1]:.2f} s (switched after {switched[-1]:.2f} s), limit {limit[-1]:.2f} s")
        least = (16_000, 18_000) if size >= max(paths) else (None, None)
        peak = statistics.median(peaks)
        figures += [
            compared(f"rebuild() of {events:,} events", size, ours, limit, None),
            rate("rebuild(), events a second", size, events / statistics.median(ours), least[0]),
            rate("rebuild(digest=False), events a second", size, events / statistics.median(bare), least[1]),
            compared("rebuild(): until the switch", size, switched, limit, None),
            Figure(what="rebuild(): peak memory", size=size, ours=peak, limit=300, unit="MiB", ratio=peak / 300,
                   reach="≤ 300 MiB", met=peak <= 300),
        ]  # fmt: skip
    return figures


def measure_replay(paths: dict[int, Path]) -> list[Figure]:
    """Measure a verified copy for reading against a rebuild of the same ledger."""
    figures = []
    for size, path in paths.items():
        say(f"replay: {size:,} memories")
        with Ledger.open(path) as ledger, tempfile.TemporaryDirectory(dir=path.parent) as folder:
            report = ledger.replay(f"{folder}/copy.db")
            limit = ledger.maintenance.rebuild().seconds
        ratio = report.seconds / limit
        figures.append(Figure(what=f"replay() of {report.events:,} events", size=size, ours=report.seconds, limit=limit,
                              ratio=ratio, reach="≤ 2 ×", met=ratio <= 2))  # fmt: skip
    return figures


def measure_what_if(paths: dict[int, Path]) -> list[Figure]:
    """Measure a log without one source, which made a hundredth of it and caused more, against a rebuild of the same ledger."""
    figures = []
    for size, path in paths.items():
        say(f"what-if: {size:,} memories")
        with Ledger.open(path) as ledger:
            started = now()
            events = ledger.history.what_if(without={"actor": CRAWLER}).events
            ours = now() - started
            limit = ledger.maintenance.rebuild().seconds
        label = f"what_if() without a source of {events:,} events"
        figures.append(Figure(what=label, size=size, ours=ours, limit=limit, ratio=ours / limit,
                              reach="≤ 1.5 ×", met=ours / limit <= 1.5))  # fmt: skip
    return figures


def child_rebuild(path: Path) -> None:
    """Rebuild a ledger and print the seconds in all, the seconds until the tables switched, and the peak of memory."""
    times = list[tuple[int, float]]()
    with Ledger.open(path) as ledger:
        started = now()
        report = ledger.maintenance.rebuild(progress=lambda done, _: times.append((done, now() - started)))
        seconds = now() - started
        started = now()
        ledger.maintenance.rebuild(digest=False)
        bare = now() - started
    figures = {
        "seconds": seconds,
        "bare": bare,
        "switched": times[-1][1],
        "events": report.events,
        "peak_bytes": peak_bytes(),
    }
    print(json.dumps(figures))


def peak_bytes() -> int:
    """Return the peak memory of this process.

    /proc tells it without the memory that the parent process had before; getrusage is the second choice.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT


def restore(source: Path, path: Path) -> float:
    """Return the seconds to write the finished rows of every projection into tables and indexes like theirs."""
    remove(path)
    tables = [table for projection in projections(bytes(32)) for table in projection.tables]
    with reading(source) as connection:
        raw = Raw(path, (sql for table in tables for sql in schema(connection, table.name)))
        seconds = 0.0
        for table in tables:
            marks = ", ".join("?" * len(table.columns))
            if isinstance(table, Table):
                sql = f"INSERT INTO {table.name} VALUES ({marks})"
                rows = connection.execute(f"SELECT * FROM {table.name} ORDER BY {', '.join(table.key)}")
                seconds += written(raw, sql, rows)
            else:
                sql = f"INSERT INTO {table.name} (rowid, {', '.join(table.columns)}) VALUES (?, {marks})"
                seconds += written(raw, sql, indexed_texts(connection, table))
    raw.remove()
    return seconds


def written(raw: Raw, sql: str, rows: Iterator[Row]) -> float:
    seconds = 0.0
    while chunk := list(islice(rows, CHUNK)):
        seconds += raw.write(sql, chunk)
    return seconds


def indexed_texts(connection: sqlite3.Connection, index: TextIndex) -> Iterator[Row]:
    """Yield the rows of a text index, whose texts are made again from the table because the index keeps none.

    Texts that wait for the index are left out.
    """
    waiting = {row for (row,) in connection.execute(f"SELECT row FROM {index.waiting.name}")}
    if index is search.SEARCH:
        rows = connection.execute("SELECT * FROM memories ORDER BY row")
        texts = ((row[0], search._texts(memories.from_row(row))) for row in rows)
    else:
        rows = connection.execute("SELECT * FROM passages ORDER BY row")
        texts = ((row[0], passages._indexed(row)) for row in rows)
    for row, text in texts:
        if text is not None and row not in waiting:
            yield (row, *index.expand(text))


# --- reading the log -------------------------------------------------------------------------------------------------


def measure_read(paths: dict[int, Path]) -> list[Figure]:
    """Measure reading and decoding ranges of the log in turns; the first reader of a range changes each time."""
    figures, decoders = [], {name: msgspec.json.Decoder(Envelope[kind]) for name, kind in TYPES.items()}  # type: ignore[valid-type]
    for size, path in paths.items():
        say(f"read: the log of {size:,} memories")
        step, ours, limit, listed = 500 if size < 10_000 else 4_000, list[float](), list[float](), list[float]()
        with Ledger.open(path, readonly=True) as ledger, reading(path) as connection:
            (last,) = connection.execute("SELECT max(position) FROM events").fetchone()
            firsts = list(range(1, min(last, 400_000) - step + 2, step))
            for number, first in enumerate(firsts * max(1, 20 // len(firsts))):
                bounds = (first, first + step - 1)
                timed(listing(ledger, first - 1, step))  # fill the caches of both connections
                timed(bare_decode(connection, decoders, *bounds))
                ways: list[tuple[list[float], Iterator[Any]]] = [
                    (ours, decode_range(connection, *bounds)),
                    (limit, bare_decode(connection, decoders, *bounds)),
                    (listed, listing(ledger, first - 1, step)),
                ]
                for taken, way in ways if number % 2 else ways[::-1]:
                    taken.append(timed(way) / step)
        least = 0.60 if size == max(paths) else None
        figures.append(compared("read + decode, each event", size, ours, limit, least))
        figures.append(compared("history.log(), each event, against that", size, listed, ours, least))
    return figures


def listing(ledger: Ledger, after: int, count: int) -> Iterator[Any]:
    yield from islice(ledger.history.log(after=after).all(), count)


def bare_decode(connection: sqlite3.Connection, decoders: dict[str, Any], first: int, last: int) -> Iterator[Any]:
    sql = "SELECT type, state FROM events WHERE position BETWEEN ? AND ? ORDER BY position"
    for name, state in connection.execute(sql, (first, last)):
        yield decoders[name].decode(state)


def timed(values: Iterator[Any]) -> float:
    """Return the seconds until the last value; a generator does nothing before its first step."""
    started = now()
    for _ in values:
        pass
    return now() - started


# --- verifying and proving -------------------------------------------------------------------------------------------


def measure_verify(paths: dict[int, Path]) -> list[Figure]:
    """Measure the chain part of ``verify`` against SHA-256 alone, with the tree that a checkpoint needs and without."""
    figures = []
    for size, path in paths.items():
        say(f"verify: the log of {size:,} memories")
        step, ours, grown, limit = 500 if size < 10_000 else 4_000, list[float](), list[float](), list[float]()
        with reading(path) as connection:
            (last,) = connection.execute("SELECT max(position) FROM events").fetchone()
            starts = list(range(0, min(last, 400_000) - step + 1, step))
            for start in starts * max(1, 20 // len(starts)):
                head, bounds = head_at(connection, start) or b"", (start, start + step)
                for leaf_to, taken in ((None, ours), (Tree().add, grown)):
                    rows = rows_after(connection, *bounds)
                    walk = check_chain(rows, position=start, head=head, erasures=ErasedContents(), leaf_to=leaf_to)
                    taken.append(timed(walk) / step)
                limit.append(timed(bare_digests(connection, *bounds)) / step)
        figures.append(compared("chain part of verify(), each event", size, ours, limit, 0.30))
        figures.append(compared("the same with the Merkle tree", size, grown, limit, None))
    return [*figures, proof_size()]


def bare_digests(connection: sqlite3.Connection, after: int, last: int) -> Iterator[Any]:
    sql = f"SELECT {COLUMNS} FROM events WHERE position > ? AND position <= ? ORDER BY position"
    for row in connection.execute(sql, (after, last)):
        yield sha256(row[4].encode()).digest()


def proof_size(events: int = 1_000_000) -> Figure:
    """Return the size of an inclusion proof in so many events: the place of the event, the root, and the longest path."""
    nodes = max(len(inclusion_ranges(index, events)) for index in (0, events // 2, events - 1))
    proof = {"position": events, "size": events, "root": "0" * 64, "path": b64encode(bytes(32 * nodes)).decode()}
    size = len(json.dumps(proof))
    return Figure(what="inclusion proof", size=events, ours=size, unit="B", reach="≤ 1 kB", met=size <= 1_000)


# --- the past --------------------------------------------------------------------------------------------------------

VERSIONS = 10  # the versions of each memory


def measure_at(options: Options) -> list[Figure]:
    """Measure whole listings of the past against listings of now, at moments in each third of the changes."""
    events = 100_000 if max(options.sizes) >= 100_000 else 20_000
    say(f"at: {events // VERSIONS:,} memories of {VERSIONS} versions")
    path, ours, limit = options.directory / "at.db", list[float](), list[float]()
    with Ledger.open(path) as ledger:
        fill_versions(ledger, events // VERSIONS, Texts(9))
        last, step = ledger.position, events // VERSIONS
        moments = [ledger.at(position) for position in (last - 8 * step, last // 2, last - step)]
        for _ in range(max(7, options.samples // 40)):
            for moment in moments:
                ours.append(lasting(partial(whole_listing, moment)))
                limit.append(lasting(partial(whole_listing, ledger)))
    remove(path)
    ratio = statistics.median(ours) / statistics.median(limit)
    return [
        Figure(what="at(position).memories.list(), whole listing", size=events, ours=statistics.median(ours),
               ours_p95=p95(ours), limit=statistics.median(limit), limit_p95=p95(limit), ratio=ratio, reach="≤ 3 ×",
               met=ratio <= 3),
    ]  # fmt: skip


def whole_listing(ledger: Ledger | PastLedger) -> int:
    return sum(1 for _ in ledger.memories.list(limit=1_000).all())


def fill_versions(ledger: Ledger, count: int, texts: Texts) -> None:
    """Remember so many memories and reinforce them in random order until each has all its versions."""
    with ledger.batch():
        made = (texts.memory() for _ in range(count))
        ids = [ledger.remember(text, kind=kind, project=project, confidence=0.1).id for text, kind, project in made]
        changes = ids * (VERSIONS - 1)
        texts.random.shuffle(changes)
        for id in changes:
            ledger.reinforce(id)


# --- vectors ---------------------------------------------------------------------------------------------------------

VECTORS, DIMENSION = 100_000, 256


def measure_vectors(options: Options) -> list[Figure]:
    """Measure a search by meaning, checked against the current texts, against the bare product of the same matrix and query."""
    numpy: Any = importlib.import_module("numpy")
    draw, count = numpy.random.default_rng(1), VECTORS if max(options.sizes) >= VECTORS else 20_000
    say(f"vectors: {count:,} of {DIMENSION} numbers")

    def drawn(texts: list[str]) -> Any:
        return draw.standard_normal((len(texts), DIMENSION), dtype=numpy.float32)

    path, ours, limit = options.directory / "vectors.db", list[float](), list[float]()
    texts = Texts(11)
    with Ledger.open(path, embedder=drawn) as ledger:
        with ledger.batch():
            for number in range(count):
                ledger.remember(f"{number} {texts.words(10)}")
        made = lasting(lambda: ledger.vectors.update(batch_size=1_000))
        engine = inside.engine(ledger)
        search = engine.parts.get(SEARCH)
        assert search is not None
        matrix = drawn([""] * count)
        query = numpy.frombuffer(search.ask("", "").vector, dtype="<f4")
        for _ in range(max(60, options.samples // 4)):
            prepared = search.ask("", "")
            with engine.reading() as connection:
                ours.append(lasting(lambda: search.hits(connection, prepared, "", limit=50)))  # noqa: B023 (called at once)
            limit.append(lasting(lambda: matrix @ query))
    remove(path)
    ratio = statistics.median(ours) / statistics.median(limit)
    return [
        Figure(what=f"nearest 50 by {DIMENSION} numbers, the query's vector given", size=count,
               ours=statistics.median(ours), ours_p95=p95(ours), limit=statistics.median(limit), limit_p95=p95(limit),
               ratio=ratio, reach="≤ 2 ×", met=ratio <= 2),
        Figure(what="vectors.update(), without the model's own time", size=count, ours=made),
    ]  # fmt: skip


# --- the run and its table -------------------------------------------------------------------------------------------


def run(options: Options) -> list[Figure]:
    figures: list[Figure] = []
    if "import" in options.rows:
        figures += measure_import(options)
    if "undo" in options.rows:
        figures.append(measure_undo(options))
    if "at" in options.rows:
        figures += measure_at(options)
    if "vectors" in options.rows:
        figures += [*measure_vectors(options), *benchmark_embedders.measure()]
    if "sessions" in options.rows:
        figures += benchmark_sessions.measure(options)
    if "own" in options.rows:
        figures += benchmark_own.measure(options)
    if "questions" in options.rows:
        figures += benchmark_questions.measure(options)
    if "start" in options.rows:
        figures += benchmark_start.measure(options)
    if "async" in options.rows:
        figures += benchmark_async.measure(options)
    if "locks" in options.rows:
        figures += benchmark_locks.measure(options, held)
    if set(options.rows) - {
        "import",
        "undo",
        "at",
        "vectors",
        "sessions",
        "own",
        "questions",
        "start",
        "async",
        "locks",
    }:
        paths = filled(options)
        if {"remember", "growth"} & set(options.rows):
            figures += measure_remember(paths, options)
        if "reinforce" in options.rows:
            size = max([size for size in paths if size <= 100_000] or [min(paths)])
            figures += [*measure_reinforce(paths[size], size, options), *benchmark_reinforce.measure(options)]
        if "recall" in options.rows:
            figures += [*benchmark_recall.measure_words(paths), *benchmark_recall.measure(options)]
        if "read" in options.rows:
            figures += measure_read(paths)
        if "verify" in options.rows:
            figures += measure_verify(paths)
        if "rebuild" in options.rows:
            figures += measure_rebuild(paths, options)
        if "what-if" in options.rows:
            figures += measure_what_if(paths)
        if "replay" in options.rows:
            figures += measure_replay(paths)
    return figures


def filled(options: Options) -> dict[int, Path]:
    paths = {}
    for size in sorted(options.sizes):
        say(f"filling a ledger to {size:,} memories")
        paths[size] = options.directory / f"{size}.db"
        with Ledger.open(paths[size]) as ledger:
            fill(ledger, size, Texts(size))
    return paths


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the ledger against hand-written limits.")
    parser.add_argument("--sizes", help="memories, comma-separated (default 1000,100000,1000000)")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"of {', '.join(ROWS)}")
    parser.add_argument("--quick", action="store_true", help="1,000 and 20,000 memories and fewer samples")
    parser.add_argument(
        "--data",
        nargs="+",
        default=(),
        help="transcripts with questions for the rows recall and reinforce, as tools/evaluate/evaluate.py takes them",
    )
    parser.add_argument("--dir", help="folder of the files during the run (default: the system's temporary directory)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--child-rebuild", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if unknown := set(options.rows.split(",")) - set(ROWS):
        parser.error(f"no row {', '.join(sorted(unknown))}; the rows are {', '.join(ROWS)}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if a figure misses its goal."""
    options = parse(arguments)
    if options.child_rebuild:
        child_rebuild(Path(options.child_rebuild))
        return 0
    default = QUICK_SIZES if options.quick else SIZES
    sizes = tuple(int(size.replace("_", "")) for size in options.sizes.split(",")) if options.sizes else default
    directory = Path(tempfile.mkdtemp(prefix="benchmark-", dir=options.dir))
    samples, turns, rounds = (300, 2_000, 3) if options.quick else (500, 5_000, 5)
    started = now()
    try:
        figures = run(Options(sizes, tuple(options.rows.split(",")), directory, samples, turns, rounds, options.data))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    say(f"done in {now() - started:.0f} s")
    if options.json:
        print(json.dumps({"environment": environment(), "figures": msgspec.to_builtins(figures)}, indent=1))
    else:
        print(table(figures, markdown=options.markdown), "", environment(), sep="\n")
    return int(any(figure.met is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
