"""The cost and the speed of notices: ``python -m tools.shared.notices`` prints their table in about a minute.

Some tenants write at the same time to a server whose flush takes some milliseconds. Rounds without any notice, with notices after
the commits, as the product sends them, and with a notice inside of each commit take turns, so that other load on the machine
meets all three. The commands are those of the log alone, two messages each, without a ledger's file. Beside them a tenant writes
at a slow pace, and a follower notes when it has each commit.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection

from ledger.log.envelope import GENESIS, LogRow, digest, link
from ledger.log.shared.listening import notice_of
from ledger.log.shared.port import Publication, Tip
from ledger.log.shared.postgres import PostgresLog
from ledger.log.shared.schema import CHANNEL
from tools.bench.measuring import environment, say
from tools.shared.plan import table
from tools.shared.server import Server

PROCESSES, THREADS = 4, 4  # a tenant for each thread
FLUSH_MILLISECONDS = 2.0
ROUNDS, SECONDS = 7, 2.0
PACE_SECONDS = 0.02
SPAWNED = multiprocessing.get_context("spawn")


class Silent(PostgresLog):
    """A log whose commits nobody hears of before the next question."""

    def _tell(self) -> None:
        pass


class Inside(Silent):
    """A log with a notice inside of each commit."""

    def _publishing(self, publication: Publication) -> str:
        statements = super()._publishing(publication).removesuffix("COMMIT")
        return f"{statements}SELECT pg_notify('{CHANNEL}', '{notice_of(self.tenant, self.machine)}'); COMMIT"


WAYS: dict[str, type[PostgresLog]] = {"none": Silent, "after the commits": PostgresLog, "inside of each commit": Inside}


class Writer:
    """A machine that appends one small event after another to a tenant's log."""

    def __init__(self, url: str, tenant: str) -> None:
        self.logs = {way: kind(url, tenant, "writer") for way, kind in WAYS.items()}
        self.tip = Tip(0, GENESIS)

    def write(self, way: str) -> None:
        log = self.logs[way]
        tip = log.lock(self.tip.position, self.tip.head, 1_000).tip
        position, state = tip.position + 1, f'{{"data":{{"content":"Ada likes tea number {tip.position}"}}}}'
        mark = digest(state.encode())
        head = link(tip.head, position, f"m_{position}", 1, "MemoryCaptured", mark)
        row = LogRow(position, f"m_{position}", 1, "MemoryCaptured", state, mark, head, None, None)
        log.publish(Publication(tip, Tip(position, head), [row]))
        self.tip = Tip(position, head)

    def write_for(self, way: str, seconds: float) -> int:
        until, number = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            self.write(way)
            number += 1
        return number


def work(pipe: Connection, url: str, process: int) -> None:
    """Write to the tenants of a process in each way and for as long as the pipe says, with a follower for each tenant."""
    writers = [Writer(url, f"tenant {process} {number}") for number in range(THREADS)]
    for number in range(THREADS):
        PostgresLog(url, f"tenant {process} {number}", "follower").follow(lambda tip: None)
    for writer in writers:
        writer.write("none")
    pipe.send(0)
    while asked := pipe.recv():
        way, seconds = asked
        done = [0] * THREADS

        def count(number: int, way: str = way, seconds: float = seconds, done: list[int] = done) -> None:
            done[number] = writers[number].write_for(way, seconds)

        threads = [threading.Thread(target=count, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        pipe.send(sum(done))


class Seen:
    """A follower that notes the moment at which it has each position of a log."""

    def __init__(self, url: str, tenant: str) -> None:
        self._log, self._position = PostgresLog(url, tenant, "follower"), 0
        self.moments: dict[int, float] = {}
        self.stop: Callable[[], None] = self._log.follow(self._look)

    def _look(self, tip: Tip | None) -> None:
        rows = self._log.tail(self._position, 1_000).rows
        self.moments |= dict.fromkeys((row.position for row in rows), time.monotonic())
        self._position = rows[-1].position if rows else self._position


def pace(writer: Writer, seen: Seen, way: str, seconds: float) -> list[float]:
    """Write at a slow pace; return the seconds from the answer of each command to the moment at which the follower had it."""
    answers, until = dict[int, float](), time.monotonic() + seconds
    while time.monotonic() < until:
        writer.write(way)
        answers[writer.tip.position] = time.monotonic()
        time.sleep(PACE_SECONDS)
    while writer.tip.position not in seen.moments:
        time.sleep(0.01)
    return [seen.moments[position] - answered for position, answered in answers.items()]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools.shared.notices", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--flush", type=float, default=FLUSH_MILLISECONDS, help="milliseconds of a flush of the server")
    options = parser.parse_args(arguments)
    with closing(Server(durable=True)) as server:
        delay = f"ALTER SYSTEM SET commit_delay = {round(options.flush * 1000)}"
        server.sql(delay, "ALTER SYSTEM SET commit_siblings = 0", "SELECT pg_reload_conf()")
        rates, seen = rounds(server, options.rounds)
    silent = statistics.median(rates["none"])
    rows = [
        (
            way,
            f"{statistics.median(rates[way]):,.0f}",
            f"{statistics.median(rates[way]) / silent:.2f}",
            f"{statistics.median(seen[way]) * 1e3:.1f} ms",
            f"{statistics.quantiles(seen[way], n=10)[-1] * 1e3:.1f} ms",
        )
        for way in WAYS
    ]
    print(table(("notices", "commands a second", "÷ none", "seen elsewhere, p50", "p90"), rows))
    print(f"\n{PROCESSES * THREADS} tenants, a flush of {options.flush:g} ms; {environment()}")
    return 0


def rounds(server: Server, number: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    url = server.url(server.new_database())
    pipes = list[Connection]()
    for process in range(PROCESSES):
        ours, theirs = SPAWNED.Pipe()
        SPAWNED.Process(target=work, args=(theirs, url, process), daemon=True).start()
        pipes.append(ours)
    for pipe in pipes:
        pipe.recv()
    writer, follower = Writer(url, "paced"), Seen(url, "paced")
    rates, seen = ({way: list[float]() for way in WAYS} for _ in range(2))
    for turn in range(number):
        for way in (*WAYS,) if turn % 2 else (*reversed(WAYS),):
            for pipe in pipes:
                pipe.send((way, SECONDS))
            seen[way] += pace(writer, follower, way, SECONDS)
            rates[way].append(sum(pipe.recv() for pipe in pipes) / SECONDS)
            say(f"  {way}: {rates[way][-1]:.0f}/s")
    for pipe in pipes:
        pipe.send(None)
    follower.stop()
    return rates, seen


if __name__ == "__main__":
    raise SystemExit(main())
