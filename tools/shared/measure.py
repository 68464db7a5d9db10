"""The measures of a log that machines share in PostgreSQL: ``python -m tools.shared.measure`` prints their table in minutes.

One run on one machine, on Linux. The server and the files lie on the same disk, and the server's commits wait for the disk as
a file's do. The two sides of each ratio take turns, and each figure is the median of its side. Give ``--directory`` if the
temporary folder is no real disk.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from ledger import AsyncLedger, Ledger
from ledger.log.shared.connections import pool_of
from ledger.log.shared.listening import ends_sql
from ledger.log.shared.port import OnNews, Tip
from ledger.log.shared.postgres import PostgresLog
from ledger.shared import sharing  # noqa: F401 - so that no import is timed
from tools import inside
from tools.bench.measuring import Texts, environment, lasting, now, say
from tools.shared.plan import Load, Measured, Opening
from tools.shared.server import Server

FILLED = 1_000  # memories of a ledger before single commands are measured
SINGLE = 1_000  # commands and questions, one by one
MACHINES, TENANTS, TASKS = 3, 8, 32
EACH = 40  # commands of a machine or a tenant in a round
FOLDED = 3_000  # memories that are followed, copied and rebuilt
COLD = 10  # memories of a tenant that is seldom used
OPENED, POLLS, POLLED = 40, 20_000, 100
ROUNDS = 7
SPAWNED = multiprocessing.get_context("spawn")
TICKS = os.sysconf("SC_CLK_TCK")


class Measure(NamedTuple):
    """A line of the table; ``least`` and ``most`` bound the figure, if there is a target."""

    what: str
    figure: float
    least: float | None = None
    most: float | None = None
    unit: str = ""

    def cells(self) -> tuple[str, str, str, str]:
        bounds = [(f"≥ {self.least:g}", self.least)] if self.least is not None else []
        bounds += [(f"≤ {self.most:g}", self.most)] if self.most is not None else []
        target = ", ".join(text + self.unit for text, _ in bounds)
        is_met = (self.least is None or self.figure >= self.least) and (self.most is None or self.figure <= self.most)
        return self.what, target, f"{self.figure:.2f}{self.unit}", "yes" if is_met else "NO"


class Quiet(PostgresLog):
    """A shared log whose machine hears no news, so that it takes events in when it is told to."""

    def follow(self, on_news: OnNews) -> Callable[[], None]:
        return lambda: None


class Place:
    """The folder of a run, with a server whose database is empty."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.server = folder, server
        self.database = server.new_database()
        self.url = server.url(self.database)

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.db"

    def shared(self, tenant: str, machine: str, *, quiet: bool = False) -> dict[str, Any]:
        """Return the arguments of ``Ledger.open`` for a machine of a tenant."""
        if quiet:
            return {"path": self.path(f"{tenant}-{machine}"), "log": Quiet(self.url, tenant, machine)}
        return {"path": self.path(f"{tenant}-{machine}"), "log": self.url, "tenant": tenant, "machine": machine}

    def number(self, sql: str) -> int:
        ((number,),) = self.server.sql(sql, database=self.database)
        return int(number)

    def log_bytes(self) -> int:
        """Return the bytes of the events in PostgreSQL, with their indexes."""
        return self.number("SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('ledger.events')")

    def processor(self) -> float:
        """Return the processor seconds of the server's processes until now."""
        postmaster = int((self.server.data / "postmaster.pid").read_text(encoding="utf-8").split()[0])
        total = 0
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                fields = (entry / "stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
            except OSError:  # it has ended
                continue
            if int(entry.name) == postmaster:
                total += sum(map(int, fields[11:15]))  # with its children that have ended
            elif int(fields[1]) == postmaster:
                total += sum(map(int, fields[11:13]))
        return total / TICKS


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools.shared.measure", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--directory", type=Path, help="of the files and the server, on a real disk")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    if options.directory is not None:
        tempfile.tempdir = str(options.directory)
    started, machine = now(), environment()  # before the run's own load
    with ExitStack() as stack:
        server = stack.enter_context(closing(Server(durable=True)))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shared-")))
        place = Place(folder, server)
        measures, measured = all_measures(place, options.rounds)
    print("| measure | target | figure | met |\n|---|--:|--:|---|")
    for measure in measures:
        print(f"| {' | '.join(measure.cells())} |")
    print("| `log=None` beside the commit before: remember, open | ± 2 % | `tools/dev.py bench --against` | |")
    print(f"\n{machine}; {now() - started:.0f} s\n\nFor tools/shared/plan.py:\n{measured!r}")
    return 0


def all_measures(place: Place, rounds: int) -> tuple[list[Measure], Measured]:
    texts = Texts(38)
    say("single commands and questions")
    measures, single = measure_single(place, texts)
    measures.append(measure_messages(place, texts))
    say("follow, rebuild, a new machine")
    folds, new_rate = measure_folds(place, texts, max(rounds // 2, 1))
    say(f"{MACHINES} machines, one tenant")
    machines, _ = measure_machines(place, "one", [("acme", f"m{number}") for number in range(MACHINES)], rounds)
    say(f"{TENANTS} tenants")
    tenants, load = measure_machines(place, "many", [(f"t{number}", "m") for number in range(TENANTS)], rounds)
    say(f"{TASKS} tasks")
    grouped, group_rate = asyncio.run(measure_groups(place, texts, rounds))
    say("seen elsewhere")
    seen = measure_seen(place, texts)
    say("cold tenants")
    cold, warm, cold_bytes = measure_openings(place, texts)
    measures += [
        Measure(f"{MACHINES} machines, one tenant ÷ one local process", machines, least=0.6),
        Measure(f"{TENANTS} tenants ÷ {TENANTS} local files, {TENANTS} processes each", tenants, least=0.3),
        *grouped,
        *folds,
        Measure("a command seen on another machine", seen * 1e3, most=10, unit=" ms"),
    ]
    return measures, Measured(
        command_seconds=statistics.median(single.commands),
        command_p99_seconds=statistics.quantiles(single.commands, n=100)[-1],
        recall_seconds=single.recall_seconds,
        group_rate=group_rate,
        command=load,
        poll=measure_polls(place),
        cold=cold,
        warm=warm,
        new_rate=new_rate,
        cold_bytes=cold_bytes,
        file_bytes=single.file_bytes,
        log_bytes=single.log_bytes,
        wal_bytes=single.wal_bytes,
    )


def fill(ledger: Ledger, texts: Iterable[tuple[str, str, str]]) -> None:
    with ledger.batch():
        for content, kind, project in texts:
            ledger.remember(content, kind=kind, project=project)


def one_by_one(ledger: Ledger, contents: list[str]) -> None:
    for content in contents:
        ledger.remember(content)


def in_turns(
    first: Callable[[int], object], second: Callable[[int], object], count: int
) -> tuple[list[float], list[float]]:
    """Return the seconds of the calls of two functions that take turns; the one that begins changes."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(count):
        for side in (0, 1) if number % 2 else (1, 0):
            times[side].append(lasting(partial((first, second)[side], number)))
    return times


def ratio(first: list[float], second: list[float]) -> float:
    return statistics.median(first) / statistics.median(second)


# --- one command, one question -------------------------------------------------------------------------------------------


class Single(NamedTuple):
    """The figures of single commands and questions."""

    commands: list[float]  # seconds
    recall_seconds: float
    log_bytes: int  # of an event in PostgreSQL
    file_bytes: int  # of an event in a file
    wal_bytes: int  # of a command


def measure_single(place: Place, texts: Texts) -> tuple[list[Measure], Single]:
    memories = [texts.memory() for _ in range(FILLED)]
    with Ledger.open(place.path("local")) as local, Ledger.open(**place.shared("single", "a")) as shared:
        fill(local, memories)
        before, path = place.log_bytes(), place.path("single-a")
        size, events = path.stat().st_size, shared.position
        fill(shared, memories)
        events = shared.position - events
        log_bytes = (place.log_bytes() - before) // events
        file_bytes = (path.stat().st_size + Path(f"{path}-wal").stat().st_size - size) // events
        queries = [texts.words(6) for _ in range(SINGLE)]
        recalls = in_turns(
            lambda number: shared.recall(queries[number], limit=5),
            lambda number: local.recall(queries[number], limit=5),
            SINGLE,
        )
        contents = [texts.memory()[0] for _ in range(SINGLE)]
        written = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
        wal = place.number(written)
        commands = in_turns(
            lambda number: shared.remember(contents[number]), lambda number: local.remember(contents[number]), SINGLE
        )
        wal = place.number(written) - wal
    measures = [
        Measure("remember, shared ÷ local", ratio(*commands), most=1.8),
        Measure("recall, shared ÷ local", ratio(*recalls), least=0.95, most=1.05),
    ]
    return measures, Single(commands[0], statistics.median(recalls[0]), log_bytes, file_bytes, wal // SINGLE)


def measure_messages(place: Place, texts: Texts) -> Measure:
    pool = pool_of(place.url)
    with Ledger.open(**place.shared("messages", "a", quiet=True)) as ledger:
        ledger.remember(texts.memory()[0])
        before = pool.messages
        for _ in range(50):
            ledger.remember(texts.memory()[0])
        return Measure("messages a command", (pool.messages - before) / 50, least=1, most=1)


# --- machines and tenants at the same time -------------------------------------------------------------------------------


class Machine:
    """A process with a ledger that gives commands when it is told to."""

    def __init__(self, arguments: dict[str, Any], seed: int) -> None:
        self._pipe, theirs = SPAWNED.Pipe()
        self._process = SPAWNED.Process(target=work, args=(theirs, arguments, seed), daemon=True)
        self._process.start()
        theirs.close()

    def send(self, commands: int) -> None:
        self._pipe.send(commands)

    def receive(self) -> float:
        """Return the processor seconds of the last commands."""
        seconds: float = self._pipe.recv()
        return seconds

    def close(self) -> None:
        self.send(0)
        self._process.join()


def work(pipe: Connection, arguments: dict[str, Any], seed: int) -> None:
    texts = Texts(seed)
    with Ledger.open(**arguments) as ledger:
        fill(ledger, [texts.memory() for _ in range(20)])
        pipe.send(0.0)
        while commands := pipe.recv():
            contents = [texts.memory()[0] for _ in range(commands)]
            started = time.process_time()
            for content in contents:
                ledger.remember(content)
            pipe.send(time.process_time() - started)


@contextmanager
def running(many: list[dict[str, Any]]) -> Iterator[list[Machine]]:
    """Start a process for each ledger, wait until all are open, and end them."""
    machines = [Machine(arguments, seed) for seed, arguments in enumerate(many)]
    try:
        for machine in machines:
            machine.receive()
        yield machines
    finally:
        for machine in machines:
            machine.close()


def rate_of(machines: list[Machine], commands: int) -> tuple[float, float]:
    """Return the commands a second of all machines together, and the processor seconds of a command in them."""
    started = now()
    for machine in machines:
        machine.send(commands)
    processor = sum(machine.receive() for machine in machines)
    total = len(machines) * commands
    return total / (now() - started), processor / total


def measure_machines(place: Place, name: str, shared: list[tuple[str, str]], rounds: int) -> tuple[float, Load]:
    """Return shared ÷ local: machines of one tenant beside one process, or tenants beside as many local files."""
    count = 1 if len({tenant for tenant, _ in shared}) == 1 else len(shared)
    local = [{"path": place.path(f"{name}-local-{number}")} for number in range(count)]
    rates: tuple[list[float], list[float]] = ([], [])
    apps, servers = list[float](), list[float]()
    with running([place.shared(*names) for names in shared]) as ours, running(local) as theirs:
        for _ in range(rounds):
            before = place.processor()
            rate, app = rate_of(ours, EACH)
            servers.append((place.processor() - before) / len(ours) / EACH)
            apps.append(app)
            rates[0].append(rate)
            rates[1].append(rate_of(theirs, EACH * len(ours) // count)[0])
    say(f"  {statistics.median(rates[0]):.0f} ÷ {statistics.median(rates[1]):.0f} commands a second")
    return ratio(*rates), Load(statistics.median(apps), statistics.median(servers))


# --- groups --------------------------------------------------------------------------------------------------------------


async def measure_groups(place: Place, texts: Texts, rounds: int) -> tuple[list[Measure], float]:
    """Return the measures, and the commands a second of the tasks over the shared log."""
    rates: dict[str, list[float]] = {"shared": [], "local": [], "lone": []}

    async def together(ledger: AsyncLedger) -> float:
        contents = [texts.memory()[0] for _ in range(TASKS * 10)]

        async def task(own: list[str]) -> None:
            for content in own:
                await ledger.remember(content)

        started = now()
        await asyncio.gather(*(task(contents[number::TASKS]) for number in range(TASKS)))
        return len(contents) / (now() - started)

    with Ledger.open(**place.shared("lone", "a")) as lone:
        async with (
            await AsyncLedger.open(**place.shared("grouped", "a")) as shared,
            await AsyncLedger.open(place.path("grouped-local")) as local,
        ):
            for turn in range(-1, rounds):  # the first warms up
                ways = [("shared", shared), ("local", local)]
                results = {name: await together(ledger) for name, ledger in (ways if turn % 2 else ways[::-1])}
                contents = [texts.memory()[0] for _ in range(TASKS)]
                seconds = lasting(partial(one_by_one, lone, contents))
                if turn >= 0:
                    for name, rate in (*results.items(), ("lone", TASKS / seconds)):
                        rates[name].append(rate)
    say("  " + ", ".join(f"{name} {statistics.median(values):.0f}/s" for name, values in rates.items()))
    measures = [
        Measure(f"group commit of {TASKS} tasks, shared ÷ local", ratio(rates["shared"], rates["local"]), least=0.7),
        Measure(
            f"group commit of {TASKS} tasks ÷ one at a time, shared", ratio(rates["shared"], rates["lone"]), least=3
        ),
    ]
    return measures, statistics.median(rates["shared"])


# --- folds ---------------------------------------------------------------------------------------------------------------


def follow_all(ledger: Ledger) -> None:
    while inside.engine(ledger).sharing.follow():
        pass


def measure_folds(place: Place, texts: Texts, rounds: int) -> tuple[list[Measure], float]:
    """Return the measures, and the events a second of a new machine: a long tail, a new machine, a rebuild of the same log."""
    follows, copies, rebuilds = list[float](), list[float](), list[float]()
    with Ledger.open(**place.shared("folds", "a", quiet=True)) as first:
        late = [Ledger.open(**place.shared("folds", f"late{turn}", quiet=True)) for turn in range(rounds)]
        start = first.position
        fill(first, [texts.memory() for _ in range(FOLDED)])
        for turn, ledger in enumerate(late):
            with ledger:
                seconds = lasting(lambda: follow_all(ledger))  # noqa: B023 - called at once
                assert ledger.position == first.position
                follows.append((first.position - start) / seconds)
                rebuilds.append(first.position / lasting(ledger.maintenance.rebuild))
            started = now()
            with Ledger.open(**place.shared("folds", f"new{turn}", quiet=True)) as new:
                copies.append(first.position / (now() - started))
                rebuilds.append(new.position / lasting(new.maintenance.rebuild))
    names = {"follow": follows, "new": copies, "rebuild": rebuilds}
    say("  " + ", ".join(f"{name} {statistics.median(values):.0f}/s" for name, values in names.items()))
    measures = [
        Measure("follow ÷ rebuild, events a second", ratio(follows, rebuilds), least=1),
        Measure("a new machine ÷ rebuild, events a second", ratio(copies, rebuilds), least=0.8),
    ]
    return measures, statistics.median(copies)


# --- news, cold tenants and polls ----------------------------------------------------------------------------------------


def watch(pipe: Connection, arguments: dict[str, Any]) -> None:
    """Answer the moment at which a machine that only listens has each position that it is asked for."""
    with Ledger.open(**arguments) as ledger:
        pipe.send(0.0)
        while position := pipe.recv():
            pipe.send(0.0)
            while ledger.position < position:
                time.sleep(0.0002)
            pipe.send(time.monotonic())


def measure_seen(place: Place, texts: Texts) -> float:
    """Return the median of the seconds from the answer of a command to the moment at which another machine's file has it."""
    pipe, theirs = SPAWNED.Pipe()
    watcher = SPAWNED.Process(target=watch, args=(theirs, place.shared("seen", "b")), daemon=True)
    watcher.start()
    pipe.recv()
    seconds = list[float]()
    with Ledger.open(**place.shared("seen", "a")) as ledger:
        for _ in range(100):
            pipe.send(ledger.position + 1)
            pipe.recv()
            time.sleep(0.02)
            position = ledger.remember(texts.memory()[0]).position
            answered = time.monotonic()
            assert position == ledger.position
            seconds.append(pipe.recv() - answered)
    pipe.send(0)
    watcher.join()
    return statistics.median(seconds)


def loads(place: Place, calls: int, work: Callable[[int], object]) -> tuple[Load, list[float]]:
    """Return the processor seconds of each call of some work in this process and in the server, and the seconds of each."""
    server, app = place.processor(), time.process_time()
    times = [lasting(partial(work, number)) for number in range(calls)]
    return Load((time.process_time() - app) / calls, (place.processor() - server) / calls), times


def measure_openings(place: Place, texts: Texts) -> tuple[Opening, Opening, int]:
    """Return the cost to open a small tenant without a file and with one, and the bytes of the file."""
    with Ledger.open(**place.shared("cold", "a", quiet=True)) as ledger:
        fill(ledger, [texts.memory() for _ in range(COLD)])
    openings = list[Opening]()
    for _ in ("cold", "warm"):
        load, times = loads(
            place, OPENED, lambda number: Ledger.open(**place.shared("cold", f"b{number}", quiet=True)).close()
        )
        openings.append(Opening(statistics.median(times), load))
    return openings[0], openings[1], place.path("cold-b0").stat().st_size


def measure_polls(place: Place) -> Load:
    """Return the cost of an open ledger in each second: its part of the statement for all tenants, and its call."""
    asking = f"BEGIN READ ONLY; {ends_sql(['cold'] * POLLED)}; COMMIT"
    with Ledger.open(**place.shared("cold", "a", quiet=True)) as ledger:
        tip = Tip(*inside.store(ledger).head())

        def poll(number: int) -> None:
            if not number % POLLED:
                pool_of(place.url).ask(asking, 60)
            inside.engine(ledger).sharing.follow(tip)

        return loads(place, POLLS, poll)[0]


if __name__ == "__main__":
    raise SystemExit(main())
