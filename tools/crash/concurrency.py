"""A test of eight writers, readers, a rebuild and a checkpointer on one file, and of processes that begin a file together.

Every role is a process of its own. The process prints *ready*, waits for the word, and at the end prints a line of JSON with
its calls, the seconds of the longest call, and its errors. No error is expected.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ledger import Ledger, RejectedError
from ledger.log.integrity import check_chain
from tools import inside
from tools.crash.bits import CHECKED, verified
from tools.crash.result import Result

ROOT = Path(__file__).resolve().parents[2]
WRITERS, READERS, STARTERS, UNLOCKED = 8, 2, 4, 4
WAIT_SECONDS = 30.0  # the busy timeout: a longer wait would be an error
QUIET_SECONDS = 0.02


@dataclass
class Report:
    """The report of one process."""

    role: str
    calls: int = 0
    longest_seconds: float = 0.0
    acknowledged: list[tuple[str, int]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def timed(self, call: Callable[[], Any]) -> Any:
        """Time a call and return its answer; an error is noted, and the answer is None."""
        started = time.monotonic()
        try:
            return call()
        except Exception:
            self.errors.append(f"{self.role}: {traceback.format_exc(limit=-4)[-1_200:]}")
            return None
        finally:
            self.calls += 1
            self.longest_seconds = max(self.longest_seconds, time.monotonic() - started)


def run(short: bool, seed: int) -> Result:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ledger-crowd-") as folder:
        reports, wrong = crowd(Path(folder), 5.0 if short else 540.0, seed)
        rounds = 30 if short else 1_000
        starts, wrong_starts = cold_starts(Path(folder), rounds)
        control_note, missing = controls(Path(folder))
    errors = [error for report in (*reports, *starts) for error in report.errors]
    calls, longest = per_role((*reports, *starts))
    notes = (
        *(f"{role}: {count:,} calls, the longest {longest[role]:.2f} s" for role, count in calls.items()),
        f"{rounds} cold starts of {STARTERS} processes each",
        f"controls: {control_note}",
    )
    cases = sum(report.calls for report in reports) + rounds
    failures = (*errors[:20], *wrong, *wrong_starts, *missing)
    return Result("concurrency", cases, failures, time.monotonic() - started, notes=notes)


def per_role(reports: Iterable[Report]) -> tuple[Counter[str], Counter[str]]:
    """Return the number of calls of each role, and the seconds of its longest call."""
    calls, longest = Counter[str](), Counter[str]()
    for report in reports:
        calls[report.role] += report.calls
        longest[report.role] = max(longest[report.role], report.longest_seconds)  # type: ignore[assignment]
    return calls, longest


# --- processes -------------------------------------------------------------------------------------------------------


def start(role: str, *arguments: object) -> subprocess.Popen[str]:
    code = "import sys; from tools.crash import concurrency; concurrency.take_part(*sys.argv[1:])"
    command = [sys.executable, "-W", "error", "-c", code, role, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def take_part(role: str, *arguments: str) -> None:
    """Run a role in the process of its own, and print its report."""
    report = Report(role)
    ROLES[role](report, *arguments)
    print(json.dumps(asdict(report)), flush=True)


def wait_for_the_word() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def together(programs: list[subprocess.Popen[str]], rounds: int = 1) -> Iterator[None]:
    """Let programs go on at the same moment, once all are ready, so many times."""
    for _ in range(rounds):
        for program in programs:
            assert program.stdout is not None
            program.stdout.readline()
        for program in programs:
            assert program.stdin is not None
            with suppress(BrokenPipeError):
                program.stdin.write("\n")
                program.stdin.flush()
        yield


def reports_of(programs: list[subprocess.Popen[str]], timeout_seconds: float) -> list[Report]:
    """Return the report of each process; a process that died or did not end is an error."""
    reports = []
    for program in programs:
        try:
            out, _ = program.communicate(timeout=timeout_seconds)
            fields = json.loads(out.splitlines()[-1])
            fields["acknowledged"] = [(subject, position) for subject, position in fields["acknowledged"]]
            reports.append(Report(**fields))
        except (subprocess.TimeoutExpired, IndexError, ValueError):
            program.kill()
            reports.append(
                Report("?", errors=[f"a process ended with {program.wait()} and told nothing: {program.args!r}"[:300]])
            )
    return reports


# --- the crowd -------------------------------------------------------------------------------------------------------


def crowd(folder: Path, seconds: float, seed: int) -> tuple[list[Report], list[str]]:
    path = folder / "memory.db"
    Ledger.open(path).close()
    programs = [start("writer", path, seconds, f"{seed}-{number}") for number in range(WRITERS)]
    programs += [start("reader", path, seconds, number % 2) for number in range(READERS)]
    programs += [start("rebuild", path, seconds), start("checkpointer", path, seconds)]
    list(together(programs))
    reports = reports_of(programs, seconds + 4 * WAIT_SECONDS)
    return reports, wrong_with(path, [ack for report in reports for ack in report.acknowledged])


def writer(report: Report, path: str, seconds: str, name: str) -> None:
    choose, mine = random.Random(name), list[str]()
    with Ledger.open(path, actor=name) as ledger:
        wait_for_the_word()
        until = time.monotonic() + float(seconds)
        while time.monotonic() < until:
            number = report.calls
            action = choose.choice(
                ("remember", "shared", "capture", "reinforce", "supersede", "state", "refused", "batch")
            )
            answers = report.timed(lambda: act(ledger, action if mine else "remember", number, name, choose, mine))  # noqa: B023
            report.acknowledged += [(answer.id, answer.position) for answer in answers or ()]


def act(ledger: Ledger, action: str, number: int, name: str, choose: random.Random, mine: list[str]) -> list[Any]:
    """Run a command of a writer and return its answers, each of which names a subject and a position."""
    if action == "remember":
        answers = [
            ledger.remember(f"fact {number} of {name}", project=f"p{number % 5}", idempotency_key=f"{name}-{number}")
        ]
        mine.append(answers[0].id)
        return answers
    if action == "shared":
        return [ledger.remember(f"fact {number % 7} of everybody")]
    if action == "capture":
        return [ledger.capture(f"question {number}", f"answer {number} of {name}", session=name)]
    if action == "reinforce":
        return [ledger.reinforce(choose.choice(mine))]
    if action == "supersede":
        place = choose.randrange(len(mine))
        answers = [ledger.supersede(mine[place], f"instead {number} of {name}")]
        mine[place] = answers[0].id
        return answers
    if action == "state":
        return [ledger.projects.set_state("shared", "fact", name, str(number))]
    if action == "batch":
        with ledger.batch():
            return [ledger.remember(f"fact {number}.{part} of {name}") for part in range(5)]
    with suppress(RejectedError):  # a memory that is active cannot be rejected, and the refusal is written down
        ledger.reject(choose.choice(mine))
    return []


def reader(report: Report, path: str, seconds: str, readonly: str) -> None:
    with Ledger.open(path, readonly=readonly == "1") as ledger:
        wait_for_the_word()
        until, last = time.monotonic() + float(seconds), 0
        while time.monotonic() < until:
            last = report.timed(lambda: look(ledger, last)) or last  # noqa: B023


def look(ledger: Ledger, last: int) -> int:
    """Read everything once and return the position that was read."""
    position = ledger.position
    assert position >= last, f"the log went back from {last} to {position}"
    for memory in ledger.memories.list(limit=20):
        assert memory.status == "active" and not memory.superseded_by, (
            f"{memory.id} is listed as active, but its status is {memory.status}"
        )
        steps = [step.position for step in ledger.why(memory.id).steps]
        assert steps == sorted(set(steps)), f"the steps of {memory.id} are out of order: {steps}"
    places = [entry.position for entry in ledger.history.audit(limit=5)]
    assert places == list(range(places[0], places[0] - len(places), -1)), f"the audit has a gap: {places}"
    hits = ledger.recall("fact of everybody", limit=3).items
    assert all(hit.memory is not None and hit.memory.status == "active" for hit in hits), (
        "recall returned a memory that is not active"
    )
    return position


def rebuild(report: Report, path: str, seconds: str) -> None:
    with Ledger.open(path) as ledger:
        wait_for_the_word()
        until = time.monotonic() + float(seconds)
        while time.monotonic() < until:
            report.timed(partial(inside.rebuild, ledger))


def checkpointer(report: Report, path: str, seconds: str) -> None:
    with Ledger.open(path) as ledger:
        wait_for_the_word()
        until = time.monotonic() + float(seconds)
        while time.monotonic() < until:
            report.timed(inside.store(ledger).checkpoint)
            time.sleep(QUIET_SECONDS)


def wrong_with(path: Path, acknowledged: list[tuple[str, int]]) -> list[str]:
    """Return the problems of the ledger that the crowd left."""
    with Ledger.open(path) as ledger:
        with inside.store(ledger).snapshot() as connection:
            rows = connection.execute(f"SELECT {CHECKED} FROM events ORDER BY position").fetchall()
        streams = {row[0]: row[1] for row in rows}
        lost = [(subject, position) for subject, position in acknowledged if streams.get(position) != subject]
        problems = [f"{len(lost)} answers are not in the log at their position, the first {lost[0]}"] if lost else []
        problems += [f"{WRITERS} writers got only {len(acknowledged)} answers"] if len(acknowledged) < WRITERS else []
        problems += [*gaps([row[0] for row in rows]), *check_chain(rows), *twice(rows)]
        folded = ledger.proof.digest()
        problems += verified(ledger, None)
        if inside.rebuild(ledger).digest != folded:
            problems.append("the rows that commands folded differ from the rows that a rebuild folds")
    return problems[:20]


def gaps(positions: list[int]) -> list[str]:
    """Return a problem if the positions are not 1, 2, 3 and so on."""
    wrong = [position for place, position in enumerate(positions, 1) if place != position]
    return [f"the positions are not 1, 2, 3 … from {wrong[0]} on"] if wrong else []


def twice(rows: list[Any]) -> list[str]:
    """Return the texts that were captured twice, which means that two writers decided about duplicates at the same time."""
    captures = Counter(json.loads(row[4])["data"]["content"] for row in rows if row[3] == "MemoryCaptured")
    return [f"{content!r} was captured {count} times" for content, count in captures.items() if count > 1]


# --- cold starts -----------------------------------------------------------------------------------------------------


def cold_starts(folder: Path, rounds: int) -> tuple[list[Report], list[str]]:
    programs = [start("starter", folder, rounds, number) for number in range(STARTERS)]
    for _ in together(programs, rounds):
        pass
    reports = reports_of(programs, 4 * WAIT_SECONDS)
    wrong = list[str]()
    for number in range(rounds):
        with Ledger.open(folder / f"{number}.db") as ledger:
            texts = sorted(memory.content or "" for memory in ledger.memories.list().all())
            begun = len(ledger.history.audit(type="LedgerCreated"))
        if (texts, begun) != ([f"of {starter_number}" for starter_number in range(STARTERS)], 1):
            wrong.append(f"cold start {number}: the texts are {texts}, and the ledger was begun {begun} times")
    return reports, wrong[:20]


def starter(report: Report, folder: str, rounds: str, name: str) -> None:
    for number in range(int(rounds)):
        wait_for_the_word()
        report.timed(lambda: begin(f"{folder}/{number}.db", f"of {name}"))  # noqa: B023


def begin(path: str, text: str) -> None:
    with Ledger.open(path) as ledger:
        ledger.remember(text)


# --- controls --------------------------------------------------------------------------------------------------------


def controls(folder: Path) -> tuple[str, list[str]]:
    """Run a recorder that reads first and locks later, and return the failures of this file's checks to see its errors."""
    path = folder / "control.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE events (position INTEGER)")
    connection.close()
    programs = [start("unlocked", path, 200, number % 2) for number in range(UNLOCKED)]
    list(together(programs))
    busy = sum(len(report.errors) for report in reports_of(programs, 2 * WAIT_SECONDS))
    connection = sqlite3.connect(path)
    positions = [position for (position,) in connection.execute("SELECT position FROM events ORDER BY position")]
    connection.close()
    uneven = len(gaps(positions)) > 0
    missing = [] if busy else ["control: a deferred transaction that reads first was never refused"]
    missing += [] if uneven else ["control: reading and then appending without a transaction took every position once"]
    twins = len(positions) - len(set(positions))
    return f"reading before locking failed {busy:,} times, and {twins:,} positions were taken twice", missing


def unlocked(report: Report, path: str, count: str, deferred: str) -> None:
    """Append at the position after the last one read, as the library's recorder would do if it read before locking."""
    connection = sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    wait_for_the_word()
    for _ in range(int(count)):
        report.timed(lambda: append(connection, deferred == "1"))
    connection.close()


def append(connection: sqlite3.Connection, deferred: bool) -> None:
    if deferred:
        connection.execute("BEGIN DEFERRED")
    try:
        (last,) = connection.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()
        os.sched_yield()
        connection.execute("INSERT INTO events VALUES (?)", (last + 1,))
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    if deferred:
        connection.execute("COMMIT")


ROLES: dict[str, Callable[..., None]] = {
    "writer": writer,
    "reader": reader,
    "rebuild": rebuild,
    "checkpointer": checkpointer,
    "starter": starter,
    "unlocked": unlocked,
}
