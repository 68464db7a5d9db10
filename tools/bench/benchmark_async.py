"""The rows of the benchmark about group commit: 50 tasks of ``AsyncLedger`` against 50 threads of a plain ledger.

Each way writes to a file of its own, and the ways take turns. That a kill loses nothing is shown by ``tools/crash groups``.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from ledger import AsyncLedger, Ledger
from tools.bench.measuring import Figure, Options, Texts, compared, now, p95, rate, remove, say

WRITERS, WRITES = 50, 20  # tasks or threads, and the commands of each in one round
FILLED = 1_000  # memories of each file before the first round
GOAL, TIMES = 2_500, 7  # commands a second, or so many times those of plain threads, whichever is less
P99_SECONDS, LONE = 0.040, 1.3


def measure(options: Options) -> list[Figure]:
    say(f"async: {WRITERS} tasks or threads, {options.rounds} × {WRITERS * WRITES:,} remember()")
    return asyncio.run(_measure(options))


async def _measure(options: Options) -> list[Figure]:
    paths = [options.directory / f"{name}.db" for name in ("plain", "grouped", "async")]
    texts = Texts(17)
    for path in paths:
        _fill(path, texts)
    plain, grouped = Ledger.open(paths[0]), Ledger.open(paths[1], group_commit=True)
    async with await AsyncLedger.open(paths[2]) as ledger:
        rates: dict[str, list[float]] = {"plain": [], "grouped": [], "async": []}
        seconds: dict[str, list[float]] = {name: [] for name in rates}
        busy: dict[str, list[float]] = {name: [] for name in rates}
        ways: dict[str, Callable[[list[float]], Awaitable[float]]] = {
            "plain": lambda times: asyncio.to_thread(_by_threads, plain, texts, times),
            "grouped": lambda times: asyncio.to_thread(_by_threads, grouped, texts, times),
            "async": lambda times: _by_tasks(ledger, texts, times),
        }
        for _ in range(options.rounds):
            for name, way in ways.items():
                begun = time.process_time()
                rates[name].append(await way(seconds[name]))
                busy[name].append((time.process_time() - begun) / WRITERS / WRITES)
        lone, to_thread = list[float](), list[float]()
        for number in range(options.samples // 2):  # they take turns one by one, each first half of the time
            calls = [(lone, ledger.remember), (to_thread, _in_a_thread(plain))]
            for times, call in calls if number % 2 else calls[::-1]:
                content = texts.memory()[0]
                started = now()
                await call(content)
                times.append(now() - started)
    plain.close()
    grouped.close()
    for path in paths:
        remove(path)
    worked = compared(f"{WRITERS} tasks, AsyncLedger: processor time", FILLED, busy["async"], busy["plain"], None)
    return [*_figures(rates, seconds), worked, _lone(lone, to_thread)]


def _fill(path: Path, texts: Texts) -> None:
    with Ledger.open(path) as ledger, ledger.batch():
        for _ in range(FILLED):
            content, kind, project = texts.memory()
            ledger.remember(content, kind=kind, project=project)


def _in_a_thread(ledger: Ledger) -> Callable[[str], Awaitable[object]]:
    return lambda content: asyncio.to_thread(ledger.remember, content)


def _by_threads(ledger: Ledger, texts: Texts, seconds: list[float]) -> float:
    """Let each thread write its commands; return the commands a second."""
    contents = [[texts.memory()[0] for _ in range(WRITES)] for _ in range(WRITERS)]

    def write(own: list[str]) -> None:
        for content in own:
            started = now()
            ledger.remember(content)
            seconds.append(now() - started)

    threads = [threading.Thread(target=write, args=(own,)) for own in contents]
    begun = now()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return WRITERS * WRITES / (now() - begun)


async def _by_tasks(ledger: AsyncLedger, texts: Texts, seconds: list[float]) -> float:
    """Let each task write its commands; return the commands a second."""
    contents = [[texts.memory()[0] for _ in range(WRITES)] for _ in range(WRITERS)]

    async def write(own: list[str]) -> None:
        for content in own:
            started = now()
            await ledger.remember(content)
            seconds.append(now() - started)

    begun = now()
    await asyncio.gather(*map(write, contents))
    return WRITERS * WRITES / (now() - begun)


def _figures(rates: dict[str, list[float]], seconds: dict[str, list[float]]) -> list[Figure]:
    plain, grouped, tasks = (statistics.median(rates[name]) for name in ("plain", "grouped", "async"))
    names = {
        "plain": f"{WRITERS} threads, plain",
        "grouped": f"{WRITERS} threads, group_commit=True",
        "async": f"{WRITERS} tasks, AsyncLedger",
    }
    figures = [
        rate(f"{names['plain']}: durable remember() a second", FILLED, plain, None),
        rate(f"{names['grouped']}: durable remember() a second", FILLED, grouped, None),
        rate(f"{names['async']}: durable remember() a second", FILLED, tasks, min(GOAL, TIMES * plain)),
        Figure(
            what=f"{names['async']}, times plain threads",
            size=FILLED,
            ours=tasks,
            limit=plain,
            unit="/s",
            ratio=tasks / plain,
        ),
    ]
    for name, times in seconds.items():
        p99 = statistics.quantiles(times, n=100)[-1]
        is_ours = name == "async"
        figures.append(
            Figure(
                what=f"{names[name]}: p99 of one call",
                size=FILLED,
                ours=p99,
                ratio=p99 / P99_SECONDS,
                reach="≤ 40 ms" if is_ours else "",
                met=p99 <= P99_SECONDS if is_ours else None,
            )
        )
    return figures


def _lone(ours: list[float], limit: list[float]) -> Figure:
    """Compare the medians of a lone write: awaited, and by ``asyncio.to_thread`` on a plain ledger."""
    figure = compared("a lone write, awaited, against to_thread", FILLED, ours, limit, None)
    ratio = statistics.median(ours) / statistics.median(limit)
    return Figure(
        what=figure.what, size=FILLED, ours=figure.ours, ours_p95=p95(ours), limit=figure.limit, limit_p95=p95(limit),
        ratio=ratio, reach=f"≤ {LONE} ×", met=ratio <= LONE,
    )  # fmt: skip
