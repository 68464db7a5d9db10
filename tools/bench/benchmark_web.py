"""A benchmark of the page's answers over a large ledger, in seconds of the server and in bytes.

    python -m tools.bench.benchmark_web                               1,000,000 events, in a folder that is removed afterwards
    python -m tools.bench.benchmark_web --events 80000 --dir FOLDER   kept: a second run only measures, and a larger
                                                                      number of events goes on with the same file

The ledger is what years of use by several people and tools leave: beliefs, wordings, reinforcements, turns that name what they
used, messages, packs with a receipt, candidates and texts in quarantine; one belief has thousands of steps. Requests go through
the gate and the application as a server hands them over, one after the other, without a network. Each page is opened once before
it is measured; that answer is printed as the first. The limits are for the processor time, which other programs on the machine do
not change; the time by the clock stands beside it. ``--profile ROW`` prints where the time of a row goes.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ledger import Ledger
from ledger.web.app import make_app
from ledger.web.gate import WebSession
from tools.bench.measuring import Texts, environment, now, say

HOST = "127.0.0.1:8767"
BATCH = 200  # rounds in one commit; a round has about 50 events
ACTORS, CHANNELS = ("ada", "ben", "planner", "crawler"), ("user", "agent", "tool", "file")
MOST_BYTES = 200_000
LIMITS_MS = {"beliefs": 150, "timeline": 150, "belief": 100}
NEWEST_KEPT = 2_000  # beliefs that later rounds reinforce, revise and use


class Served(NamedTuple):
    """An answer: its status, its body, and the seconds that it took, by the clock and of the processor."""

    status: int
    body: bytes
    seconds: float
    processor: float


# --- the ledger ------------------------------------------------------------------------------------------------------


class Years:
    """A ledger that grows by rounds of mixed use.

    Args:
        ledger: The open ledger, empty or grown before.
        hot: The belief that every round reinforces; "" to choose it.
    """

    def __init__(self, ledger: Ledger, hot: str = "") -> None:
        self._ledger, self._texts = ledger, Texts(ledger.position)
        self._hands = [
            ledger.bind(actor=actor, channel=channel)  # type: ignore[arg-type]
            for actor, channel in zip(ACTORS, CHANNELS, strict=True)
        ]
        self._known = [memory.id for memory in ledger.memories.list(limit=1_000)]
        self.hot = hot

    def grow(self, events: int) -> None:
        """Go on until the log has so many events."""
        said = 0
        while self._ledger.position < events:
            if (done := self._ledger.position // 50_000) > said:
                said = done
                say(f"filling: {self._ledger.position:,} of {events:,} events")
            with self._ledger.batch():
                for _ in range(BATCH):
                    self._round()
                    if self._ledger.position >= events:
                        break
            self._seldom()

    def _round(self) -> None:
        texts, draw = self._texts, self._texts.random
        hand = draw.choice(self._hands)
        prompt, response = texts.turn()
        project, session = texts.project(), f"session {draw.randrange(2_000)}"
        used = draw.sample(self._known, min(3, len(self._known)))
        turn = hand.capture(prompt, response, memories_used=used, reinforce=False, project=project, session=session)
        for number in range(24):
            content, kind, about = texts.memory()
            confidence = draw.randrange(20, 100) / 100
            sources = [turn.id] if number % 4 == 0 else ()
            memory = hand.remember(content, kind=kind, project=about, confidence=confidence, sources=sources)
            if memory.status == "active":
                self._known.append(memory.id)
        del self._known[:-NEWEST_KEPT]
        for _ in range(12):
            hand.reinforce(draw.choice(self._known))
        self.hot = self.hot or self._known.pop(0)
        hand.reinforce(self.hot)
        self._ledger.revise(draw.choice(self._known), texts.memory()[0], reason="said so")
        self._ledger.retract(self._known.pop(draw.randrange(len(self._known))), reason="it is no longer so")
        chat = self._ledger.session(session)
        for role in ("user", "assistant") * 3:
            chat.append(role, texts.words(20))

    def _seldom(self) -> None:
        """Do what happens once in thousands of events: a pack with a receipt, a candidate, a text that is held."""
        self._ledger.recall(self._texts.words(4), receipt=True, limit=5)
        candidate = self._ledger.propose(self._texts.memory()[0])
        held = self._ledger.remember(self._texts.memory()[0])
        self._ledger.guards.quarantine(held.id, reason="read this first")
        if candidate.id.endswith("7"):
            self._ledger.promote(candidate.id)


# --- the page --------------------------------------------------------------------------------------------------------


class Visitor:
    """A browser that is in already, without a network.

    Args:
        ledger: The ledger, open for reading, as the page opens it.
    """

    def __init__(self, ledger: Ledger) -> None:
        session = WebSession()
        self.app = make_app(ledger, host=HOST, user="", session=session)
        self._headers = [(b"host", HOST.encode()), (b"cookie", f"memory_ledger_8767={session.cookie}".encode())]

    def get(self, address: str) -> Served:
        """Return the answer to an address, and its times."""
        return asyncio.run(self._get(address))

    async def _get(self, address: str) -> Served:
        place = urlsplit(address)
        scope: Any = {
            "type": "http",
            "method": "GET",
            "scheme": "http",
            "path": place.path,
            "raw_path": place.path.encode(),
            "query_string": place.query.encode(),
            "headers": self._headers,
            "server": ("127.0.0.1", 8767),
        }
        messages = list[Any]()

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            messages.append(message)

        started, worked = now(), time.process_time()
        await self.app(scope, receive, send)
        took, processor = now() - started, time.process_time() - worked
        body = b"".join(message.get("body", b"") for message in messages[1:])
        return Served(messages[0]["status"], body, took, processor)


def pages(ledger: Ledger, hot: str, rounds: int) -> dict[str, list[str]]:
    """Return the addresses to open: the name of a row, then the addresses that are opened in turn."""
    draw = Texts(5)
    newest = ledger.memories.list(limit=1_000)
    some = [newest[number * 17 % len(newest)] for number in range(rounds)]
    cursor = ledger.memories.list(limit=100).next
    log_cursor = ledger.history.audit(limit=150).next
    session = ledger.sessions.list(limit=1)[0].id
    then = ledger.position // 2
    of_actor = [f"/beliefs?actor={ACTORS[number % 4]}" for number in range(rounds)]
    facets = [
        f"/timeline?command={('revise', 'retract', 'remember', 'promote')[number % 4]}" for number in range(rounds)
    ]
    return {
        "beliefs": ["/beliefs"] * rounds,
        "beliefs, the second page": [f"/beliefs?after={cursor}"] * rounds,
        "beliefs, of a kind and a project": [f"/beliefs?kind=preference&project=project+{n % 20}" for n in range(rounds)],
        "beliefs, not older than a month": ["/beliefs?days=30"] * rounds,
        "beliefs, of a session": [f"/beliefs?session=session+{number}" for number in range(rounds)],
        "beliefs, of an actor": of_actor,
        "beliefs, retracted": ["/beliefs?status=retracted"] * rounds,
        "beliefs, a search": [f"/beliefs?q={draw.words(3).replace(' ', '+')}" for _ in range(rounds)],
        "beliefs, as of the middle of the log": [f"/beliefs?at={then}"] * rounds,
        "belief": [f"/belief/{memory.id}" for memory in some],
        "belief, thousands of steps": [f"/belief/{hot}"] * rounds,
        "timeline": ["/timeline"] * rounds,
        "timeline, the second page": [f"/timeline?after={log_cursor}"] * rounds,
        "timeline, of a command": facets,
        "timeline, what is new": [f"/timeline.json?after={ledger.position}"] * rounds,
        "agent, at the start of a session": ["/agent"] * rounds,
        "agent, a question": [f"/agent?q={draw.words(5).replace(' ', '+')}" for _ in range(rounds)],
        "review": ["/review"] * rounds,
        "held": ["/held"] * rounds,
        "trust": ["/trust"] * rounds,
        "sessions": ["/sessions"] * rounds,
        "session": [f"/session/{session}"] * rounds,
    }  # fmt: skip


class Row(NamedTuple):
    """A line of the table: the medians of a page's answers, in milliseconds, and its size."""

    page: str
    processor_ms: float
    clock_ms: float
    first_ms: float
    most_kb: float
    limit_ms: float | None
    met: bool


def measure(path: Path, hot: str, rounds: int, wanted: str) -> list[Row]:
    """Open each page in turn, and return the medians."""
    rows = list[Row]()
    with Ledger.open(path, readonly=True) as ledger:
        visitor = Visitor(ledger)
        for name, addresses in pages(ledger, hot, rounds).items():
            if not name.startswith(wanted):
                continue
            first = visitor.get(addresses[0])
            served = [visitor.get(address) for address in addresses]
            assert {answer.status for answer in served} == {200}, (name, served[0].body[-2_000:])
            clock, processor = (
                statistics.median(column) * 1e3
                for column in zip(*((each.seconds, each.processor) for each in served), strict=True)
            )
            size, limit = max(len(answer.body) for answer in served), LIMITS_MS.get(name)
            met = (limit is None or processor <= limit) and size < MOST_BYTES
            rows.append(Row(name, processor, clock, first.seconds * 1e3, size / 1e3, limit, met))
            say(f"{name}: {processor:.1f} ms")
    return rows


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table in Markdown."""
    lines = ["| page | processor | clock | the first | size | asked | reached? |", "|---|--:|--:|--:|--:|--:|---|"]
    for row in rows:
        times = " | ".join(f"{value:.0f} ms" for value in (row.processor_ms, row.clock_ms, row.first_ms))
        limit = f"≤ {row.limit_ms:.0f} ms" if row.limit_ms else ""
        lines.append(f"| {row.page} | {times} | {row.most_kb:.0f} kB | {limit} | {'yes' if row.met else 'NO'} |")
    return "\n".join(lines)


def profiled(path: Path, hot: str, wanted: str, rounds: int) -> None:
    """Print the functions in which the time of a page is spent."""
    with Ledger.open(path, readonly=True) as ledger:
        visitor = Visitor(ledger)
        addresses = pages(ledger, hot, rounds)[wanted]
        visitor.get(addresses[0])
        profile = cProfile.Profile()
        inner: Any = visitor.app
        while hasattr(inner, "_app"):
            inner = inner._app  # behind the gate
        inner._answer = partial(profile.runcall, inner._answer)  # a thread of its own answers, where no profiler looks
        for address in addresses:
            visitor.get(address)
    pstats.Stats(profile).sort_stats("cumulative").print_stats(45)


def filled(path: Path, events: int) -> str:
    """Bring the ledger to its number of events, and return the belief with the most steps."""
    kept = path.with_suffix(".json")
    started = now()
    with Ledger.open(path, actor="ada") as ledger:
        before, years = ledger.position, Years(ledger)
        if kept.exists():
            years.hot = json.loads(kept.read_text(encoding="utf-8"))
        years.grow(events)
        kept.write_text(json.dumps(years.hot), encoding="utf-8")
        if ledger.position > before:
            size = ledger.maintenance.stats().size_bytes / 1e6
            say(f"{ledger.position - before:,} events in {now() - started:.0f} s; {size:,.0f} MB")
    return years.hot


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if a page is slower or larger than asked."""
    parser = argparse.ArgumentParser(description="Measure the page's answers over a large ledger.")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--dir", help="folder of the ledger, which stays there (default: a folder that is removed)")
    parser.add_argument("--rounds", type=int, default=15, help="answers of each page (default 15)")
    parser.add_argument("--pages", default="", help="only the rows that begin so, as in beliefs")
    parser.add_argument("--profile", metavar="ROW", help="print where the time of a row goes, and measure nothing")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    directory = Path(options.dir) if options.dir else Path(tempfile.mkdtemp(prefix="benchmark-"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        path = directory / "web.db"
        hot = filled(path, options.events)
        if options.profile:
            profiled(path, hot, options.profile, options.rounds)
            return 0
        rows = measure(path, hot, options.rounds, options.pages) if options.rounds else []
    finally:
        if not options.dir:
            shutil.rmtree(directory, ignore_errors=True)
    if options.json:
        print(json.dumps({"environment": environment(), "rows": [row._asdict() for row in rows]}, indent=1))
    else:
        print(table(rows), "", environment(), sep="\n")
    return int(not all(row.met for row in rows))


if __name__ == "__main__":
    sys.exit(main())
