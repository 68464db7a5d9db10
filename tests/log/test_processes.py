"""Many processes on one file: nobody fails, nothing is lost, and a kill at any moment costs only what was not answered.

The numbers are those that fit a default run; HYPOTHESIS_PROFILE=long multiplies them.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import needs
import probe
import pytest
from places import ROOT
from soundness import assert_sound, problems, tables

from ledger import ConflictError, Ledger

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"

# Every writer: a mix of commands, each acknowledged in a file of its own after the call returned.
WRITER = """
import json, os, random, sys
from ledger import Ledger, RejectedError

path, acks, name, count = sys.argv[1:4] + [int(sys.argv[4])]
choose, mine = random.Random(name), []
out = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def ack(subject, position):
    os.write(out, (json.dumps([subject, position]) + "\\n").encode())

with Ledger.open(path, actor=name) as ledger:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        action = choose.choice(("remember", "remember", "capture", "adjust", "supersede", "state", "shared", "refused"))
        if action in ("adjust", "supersede", "refused") and not mine:
            action = "remember"
        if action == "remember":
            fact = ledger.remember(f"fact {number} of {name}", project=f"p{number % 5}", idempotency_key=f"{name}-{number}")
            mine.append(fact.id)
            ack(fact.id, fact.position)
        elif action == "capture":
            turn = ledger.capture(f"question {number}", f"answer {number} of {name}", session=name)
            ack(turn.id, turn.position)
        elif action == "adjust":
            fact = ledger.memories.set_confidence(choose.choice(mine), choose.randrange(1_000) / 1_000)
            ack(fact.id, fact.position)
        elif action == "supersede":
            old = mine.pop(choose.randrange(len(mine)))
            fact = ledger.supersede(old, f"instead {number} of {name}")
            mine.append(fact.id)
            ack(fact.id, fact.position)
        elif action == "state":
            project = ledger.projects.set_state("shared", "fact", name, str(number))
            ack(project.id, project.position)
        elif action == "shared":
            fact = ledger.remember(f"fact {number % 7} of everybody")
            ack(fact.id, fact.position)
        else:
            try:
                ledger.reject(mine[-1])
            except RejectedError:
                pass
print("done", flush=True)
"""

REBUILDER = """
import sys, time
from ledger import Ledger
with Ledger.open(sys.argv[1]) as ledger:
    print("ready", flush=True)
    sys.stdin.readline()
    until, count = time.monotonic() + float(sys.argv[2]), 0
    while time.monotonic() < until:
        ledger.maintenance.rebuild()
        count += 1
print("done", count, flush=True)
"""

READER = """
import sys
from ledger import Ledger
with Ledger.open(sys.argv[1], readonly=sys.argv[2] == "readonly") as ledger:
    print("ready", flush=True)
    sys.stdin.readline()
    last = 0
    while True:
        position = ledger.position
        assert position >= last, "the log went back"
        last = position
        for memory in ledger.memories.list(limit=20):
            if memory.superseded_by:
                raise AssertionError("an active memory is superseded")
        newest = ledger.history.audit(limit=5)
        assert [entry.position for entry in newest] == list(range(newest[0].position, newest[0].position - len(newest), -1))
        ledger.recall("fact of everybody", limit=3)
        if ledger.memories.list(kinds=["over"]):
            break
print("done", flush=True)
"""


def start(program, *arguments):
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *map(str, arguments)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, cwd=ROOT, text=True, **pipes)


def go(*programs):
    """Lets programs begin together, once all are ready."""
    for each in programs:
        line = each.stdout.readline()
        assert line == "ready\n", each.stderr.read()
    for each in programs:
        each.stdin.write("\n")
        each.stdin.flush()


def end(program):
    out, errors = program.communicate()
    assert (program.returncode, errors) == (0, ""), errors[-3_000:]
    assert out.startswith("done")
    return out


def acknowledged(folder):
    return [json.loads(line) for file in folder.glob("*.ack") for line in file.read_text(encoding="utf-8").splitlines()]


def assert_acknowledged(ledger, acks):
    """Every answer that a writer had is in the log: the named subject has an event at the named position."""
    with probe.store(ledger).snapshot() as connection:
        streams = dict(connection.execute("SELECT position, stream FROM events"))
    lost = [(subject, position) for subject, position in acks if streams.get(position) != subject]
    assert lost == []


def events_of(ledger):
    with probe.store(ledger).snapshot() as connection:
        return connection.execute("SELECT position, type, state FROM events ORDER BY position").fetchall()


@pytest.mark.slow
def test_eight_writers_of_which_one_rebuilds_and_two_readers(tmp_path):
    path, commands = tmp_path / "memory.db", 500 if LONG else 40
    Ledger.open(path).close()
    writers = [start(WRITER, path, tmp_path / f"{n}.ack", f"w{n}", commands) for n in range(8)]
    rebuilder = start(REBUILDER, path, commands / 50)
    readers = [start(READER, path, mode) for mode in ("readonly", "writable")]
    go(*writers, rebuilder, *readers)
    for each in writers:
        end(each)
    assert int(end(rebuilder).split()[1]) >= 1
    with Ledger.open(path) as ledger:
        ledger.remember("It is over.", kind="over")
        for each in readers:
            end(each)
        assert_acknowledged(ledger, acknowledged(tmp_path))
        assert len(acknowledged(tmp_path)) > 8 * commands * 0.7
        keyed = [
            json.loads(state)["data"]["content"] for _, type, state in events_of(ledger) if type == "MemoryCaptured"
        ]
        assert len(keyed) == len(set(keyed)), "a text was captured twice, so the duplicate rule was raced"
        assert_sound(ledger)


@pytest.mark.slow
def test_one_key_and_one_name_from_many_processes_count_once(tmp_path):
    program = """
        import sys
        from ledger import Ledger
        with Ledger.open(sys.argv[1]) as ledger:
            print("ready", flush=True)
            sys.stdin.readline()
            for number in range(20):
                fact = ledger.remember(f"fact {number}", project=f"Project {number}", idempotency_key=str(number))
        print("done", flush=True)
    """
    path = tmp_path / "memory.db"
    Ledger.open(path).close()
    programs = [start(program, path) for _ in range(4)]
    go(*programs)
    for each in programs:
        end(each)
    with Ledger.open(path) as ledger:
        types = [type for _, type, _ in events_of(ledger)]
        assert sorted(set(types)) == ["LedgerCreated", "MemoryCaptured", "ProjectRegistered"]
        assert (types.count("MemoryCaptured"), types.count("ProjectRegistered")) == (20, 20)
        assert_sound(ledger)


@pytest.mark.slow
def test_a_cold_start_of_many_processes_makes_one_ledger(tmp_path):
    program = """
        import sys
        from ledger import Ledger
        print("ready", flush=True)
        for number in range(int(sys.argv[3])):
            sys.stdin.readline()
            with Ledger.open(f"{sys.argv[1]}/{number}.db") as ledger:
                ledger.remember(f"of {sys.argv[2]}")
            print("done", flush=True)
    """
    rounds = 150 if LONG else 20
    programs = [start(program, tmp_path, number, rounds) for number in range(4)]
    go(*programs)
    for number in range(rounds):
        for each in programs:
            line = each.stdout.readline()
            assert line == "done\n", each.stderr.read()
        if number + 1 < rounds:
            for each in programs:
                each.stdin.write("\n")
                each.stdin.flush()
    for each in programs:
        assert each.communicate() == ("", "")
    for number in range(rounds):
        with Ledger.open(tmp_path / f"{number}.db") as ledger:
            assert {memory.content for memory in ledger.memories.list()} == {f"of {each}" for each in range(4)}
            assert problems(ledger) == []
            assert [type for _, type, _ in events_of(ledger)].count("LedgerCreated") == 1


# --- forks -----------------------------------------------------------------------------------------------------------


def in_a_child(work):
    """What a forked process found, as text; it ends as processes do that run exit handlers and destructors."""
    needs.fork()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            told = work()
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(writer, told.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read().decode()
    os.waitpid(child, 0)
    return told


@pytest.mark.slow
def test_a_forked_child_gets_a_conflict_for_whatever_it_does_and_harms_nothing(tmp_path):
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        fact = ledger.remember("before")
        calls = {
            "remember": lambda: ledger.remember("of the child"),
            "capture": lambda: ledger.capture("of the child"),
            "batch": lambda: ledger.batch().__enter__(),
            "memories": lambda: ledger.memories.list(),
            "memory": lambda: ledger.memories.get(fact.id),
            "recall": lambda: ledger.recall("before"),
            "why": lambda: ledger.why(fact.id),
            "position": lambda: ledger.position,
            "digest": lambda: ledger.proof.digest(),
            "rebuild": lambda: probe.rebuild(ledger),
            "open": lambda: Ledger.open(path),
        }
        for name, call in calls.items():
            told = in_a_child(lambda call=call: f"no error: {call()}")
            assert told.startswith("ConflictError: ") and "fork" in told, f"{name}: {told}"
        assert in_a_child(lambda: str(ledger.close())) == "None"
        assert ledger.remember("after").position == fact.position + 1
        assert_sound(ledger)


def test_a_child_forked_inside_a_batch_changes_nothing_of_it(tmp_path):
    with Ledger.open(tmp_path / "memory.db") as ledger:
        with ledger.batch():
            ledger.remember("one")
            assert in_a_child(lambda: f"no error: {ledger.remember('of the child')}").startswith("ConflictError")
            ledger.remember("two")
        assert {memory.content for memory in ledger.memories.list()} == {"one", "two"}
        assert_sound(ledger)


def test_a_child_may_open_a_ledger_that_its_parent_has_closed(tmp_path):
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        ledger.remember("of the parent")

    def work():
        with Ledger.open(path) as own:
            return str(own.remember("of the child").position)

    assert in_a_child(work) == "3"
    with Ledger.open(path) as ledger:
        assert len(ledger.memories.list()) == 2
        assert_sound(ledger)


# --- kills -----------------------------------------------------------------------------------------------------------


def forked(work):
    """A process of this program that goes on until it is killed."""
    child = os.fork()
    if not child:
        code = 7
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def kill(child):
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), f"it ended by itself with {os.waitstatus_to_exitcode(status)}"


def wait_until(condition):
    while not condition():
        time.sleep(0.002)


def write_for_ever(path, acks, name):
    out, number = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 0
    with Ledger.open(path, actor=name) as ledger:
        while True:
            number += 1
            if number % 10 == 0:
                with ledger.batch():
                    answers = [ledger.remember(f"{name} {number} {each}") for each in range(5)]
            elif number % 3 == 0:
                answers = [ledger.capture(f"{name} {number}?", f"{name} {number - 1} 0", session=name)]
            else:
                answers = [
                    ledger.remember(f"{name} {number}", project=f"p{number % 4}", idempotency_key=f"{name} {number}")
                ]
            told = "".join(json.dumps([each.id, each.position]) + "\n" for each in answers)
            os.write(out, told.encode())


@needs.signals
@pytest.mark.slow
def test_what_was_answered_survives_a_kill_of_the_writers_at_any_time(tmp_path):
    path, choose = tmp_path / "memory.db", random.Random(2)
    Ledger.open(path).close()
    for turn in range(200 if LONG else 12):
        names = [f"{turn}-{number}" for number in range(2)]
        children = [forked(lambda name=name: write_for_ever(path, tmp_path / f"{name}.ack", name)) for name in names]
        acks, more = len(acknowledged(tmp_path)), choose.randint(1, 15)
        wait_until(lambda acks=acks, more=more: len(acknowledged(tmp_path)) >= acks + more)
        for child in children:
            kill(child)
        with Ledger.open(path) as ledger:
            assert_acknowledged(ledger, acknowledged(tmp_path))
            assert problems(ledger) == []
            if turn % 5 == 0:
                assert_sound(ledger)
    with Ledger.open(path) as ledger:
        assert_sound(ledger)


def rebuild_for_ever(path, steps):
    from projections.core import rebuild

    rebuild.BATCH, rebuild.TAIL, rebuild.EMPTYING = 40, 20, 30
    with Ledger.open(path) as ledger, steps.open("ab", buffering=0) as file:
        while True:
            try:
                probe.rebuild(ledger, progress=lambda *_: file.write(b"."))
            except ConflictError as error:
                assert "another rebuild" in str(error)


@needs.signals
@pytest.mark.slow
def test_a_rebuild_killed_while_another_writes_costs_nothing(tmp_path):
    path, choose = tmp_path / "memory.db", random.Random(3)
    with Ledger.open(path) as ledger:
        for number in range(150):
            ledger.remember(f"fact {number}")
        expected = tables(ledger)
    writer = forked(lambda: write_for_ever(path, tmp_path / "writer.ack", "writer"))
    remains = 0
    try:
        for turn in range(100 if LONG else 8):
            (steps := tmp_path / f"{turn}.steps").touch()
            child = forked(lambda steps=steps: rebuild_for_ever(path, steps))
            some = choose.randint(1, 9)
            wait_until(lambda steps=steps, some=some: steps.stat().st_size >= some)
            kill(child)
            reader = forked(lambda: look(path, expected))
            remains += os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1])
    finally:
        kill(writer)
    assert 0 < remains <= (100 if LONG else 15), "no kill met a rebuild half-way, or a look found damage"
    with Ledger.open(path) as ledger:
        assert_acknowledged(ledger, acknowledged(tmp_path))
        assert_sound(ledger)
        assert tables(ledger) == expected


def look(path, expected):
    """Exit code 0 when nothing is left over, 1 when a killed rebuild left tables; 100 when the live ones are damaged."""
    with Ledger.open(path) as ledger:
        whole = (
            expected <= tables(ledger) and len(ledger.memories.list(limit=1_000)) >= 150 and ledger.recall("fact").items
        )
        os._exit(int(tables(ledger) != expected) if whole else 100)


@needs.signals
@needs.forks
def test_a_process_killed_inside_a_batch_leaves_all_of_it_or_nothing(tmp_path):
    path = tmp_path / "memory.db"

    def work():
        with Ledger.open(path) as ledger, ledger.batch():
            for number in range(100):
                ledger.remember(f"fact {number}")
            os.kill(os.getpid(), signal.SIGKILL)

    Ledger.open(path).close()
    os.waitpid(forked(work), 0)
    with Ledger.open(path) as ledger:
        assert ledger.memories.list() == []
        assert_sound(ledger)
