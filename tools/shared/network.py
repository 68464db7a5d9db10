"""The shared log over a slow network: ``python -m tools.shared.network`` prints its figures in about a minute.

A process of its own stands between and keeps each part of a message back for half of the round trip, both ways.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from ledger import Ledger
from ledger.log.shared.connections import pool_of
from ledger.log.shared.port import Tip
from ledger.log.shared.postgres import PostgresLog
from tools.bench.measuring import environment, lasting, say
from tools.shared.notices import Writer
from tools.shared.plan import table
from tools.shared.server import Server

MILLISECONDS = 10.0
TENANTS, WRITES, COMMANDS, OPENED = 200, 60, 100, 20
SPAWNED = multiprocessing.get_context("spawn")
PORT = ".s.PGSQL.5432"


async def delay(to: str, at: str, seconds: float) -> None:
    """Pass bytes between a socket and clients, each part ``seconds`` late."""
    loop = asyncio.get_running_loop()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            loop.call_later(seconds, writer.write, data)
        loop.call_later(seconds, writer.close)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_unix_connection(to)
        await asyncio.gather(pass_on(reader, ours), pass_on(theirs, writer), return_exceptions=True)

    async with await asyncio.start_unix_server(serve, at) as server:
        await server.serve_forever()


def _delay(*arguments: Any) -> None:
    asyncio.run(delay(*arguments))


@contextmanager
def slow(server: Server, milliseconds: float) -> Iterator[str]:
    """Yield a folder with a socket that leads to a server with a round trip of some milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        at = f"{folder}/{PORT}"
        process = SPAWNED.Process(target=_delay, args=(f"{server.socket}/{PORT}", at, milliseconds / 2000), daemon=True)
        process.start()
        while not Path(at).exists():
            time.sleep(0.01)
        yield folder
        process.terminate()
        process.join()


def measure_commands(url: str, folder: Path) -> list[tuple[str, float]]:
    with Ledger.open(folder / "a.db", log=url, tenant="commands", machine="a") as ledger:
        ledger.remember("Ada likes tea")
        seconds = [lasting(lambda: ledger.remember(f"Ada owns the book {number}")) for number in range(COMMANDS)]  # noqa: B023
    return [("remember, nobody else writes", statistics.median(seconds))]


def measure_openings(url: str, folder: Path) -> tuple[list[tuple[str, float]], float]:
    """Return the times to open new tenants, and the messages of one."""
    pool, seconds = pool_of(url), list[float]()
    before = pool.messages
    for number in range(OPENED):
        ledgers: list[Ledger] = []
        given = {"log": url, "tenant": f"new {number}", "machine": "a"}
        seconds.append(lasting(lambda: ledgers.append(Ledger.open(folder / f"new {number}.db", **given))))  # type: ignore[arg-type]  # noqa: B023
        ledgers[0].close()
    return [("open a new tenant", statistics.median(seconds))], (pool.messages - before) / OPENED


def measure_news(slow_url: str, url: str, tenants: int) -> list[tuple[str, float]]:
    """Return how late a write is seen by a process that follows many tenants, with notices and without."""
    seen = threading.Event()
    ends = dict.fromkeys(range(tenants), 0)
    logs = [PostgresLog(slow_url, f"t{number}", "follower") for number in range(tenants)]

    def follower(number: int) -> Callable[[Tip | None], None]:
        def look(tip: Tip | None) -> None:
            if tip is None or tip.position != ends[number]:
                rows = logs[number].tail(ends[number], 1_000).rows
                if rows:
                    ends[number] = rows[-1].position
                    seen.set()

        return look

    writers = [Writer(url, f"t{number}") for number in range(tenants)]
    for writer in writers:
        writer.write("none")
    stops = [log.follow(follower(number)) for number, log in enumerate(logs)]
    while not all(ends.values()):
        time.sleep(0.05)
    figures = []
    for way, what in (("after the commits", "with a notice"), ("none", "without a notice")):
        late = []
        for number in range(WRITES):
            time.sleep(0.037 * (number % 7))
            seen.clear()
            writers[number * 7 % tenants].write(way)
            late.append(lasting(seen.wait))
        figures.append((f"a write seen among {tenants} tenants, {what}", statistics.median(late)))
        say(f"  p90 {statistics.quantiles(late, n=10)[-1] * 1e3:.0f} ms")
    for stop in stops:
        stop()
    return figures


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools.shared.network", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--round-trip", type=float, default=MILLISECONDS, help="milliseconds")
    parser.add_argument("--tenants", type=int, default=TENANTS)
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        server = stack.enter_context(closing(Server()))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="network-")))
        there = stack.enter_context(slow(server, options.round_trip))
        database = server.new_database()
        url, slow_url = server.url(database), f"postgresql://app@/{database}?host={there}"
        figures = measure_commands(slow_url, folder)
        openings, messages = measure_openings(slow_url, folder)
        figures += openings + measure_news(slow_url, url, options.tenants)
    print(table(("what", "p50"), [(what, f"{seconds * 1e3:.1f} ms") for what, seconds in figures]))
    print(f"\n{messages:.1f} messages open a new tenant; a round trip of {options.round_trip:g} ms; {environment()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
