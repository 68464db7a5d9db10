"""A test of random sequences of commands, reopens, clock jumps, undos, distrusts and killed rebuilds against an oracle.

The oracle is ``tests/oracle.py``, which shares no code with the product. The state machine is ``tests/machine.py``, run here
until it has made a number of steps. A long run also plays sessions (``tests/session_machine.py``), whose windows are judged by
laws, and keyed values (``tests/value_machine.py``). The machines run in processes of their own, because the modules of the
tests have plain names.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tools.crash.result import Result

Change = Callable[[Any, Any], None]

ROOT = Path(__file__).resolve().parents[2]
SHORT_STEPS, LONG_STEPS, CONTROL_STEPS = 1_000, 500_000, 1_500
EXAMPLES = 10  # examples of a run, after which the steps are counted
SESSIONS, VALUES = 3, 6  # every third run plays sessions, every sixth values; a short test has two runs and neither
PROCESSES = 2
TOLD_CHARS = 6_000
ASKED = (
    "compare()",
    "every_message_is_reachable_once_or_hidden()",
    "totals_are_the_sums_of_their_parts()",
    "remember()",
)


def run(short: bool, seed: int) -> Result:
    started = time.monotonic()
    if not (ROOT / "tests" / "machine.py").exists():
        return Result("model", 0, (), 0.0, skipped="the folder tests, which holds the oracle, is missing")
    share = (SHORT_STEPS if short else LONG_STEPS) // PROCESSES
    length, shrink = (35, "") if short else (60, "shrink")  # making an example small takes minutes
    programs = [start(share, seed * PROCESSES + number, length, shrink, "") for number in range(PROCESSES)]
    reports = [end(program) for program in programs]
    misled = {rule: start(CONTROL_STEPS, seed, 35, "", rule) for rule in WRONG}
    wrong = {rule: end(program) for rule, program in misled.items()}
    failures = [f"the ledger and the oracle differ: {text}" for _, _, text in reports if text]
    failures += [
        f"control: an oracle with a wrong rule ({rule}) agrees" for rule, (_, _, text) in wrong.items() if not text
    ]
    steps, examples = sum(report[0] for report in reports), sum(report[1] for report in reports)
    noticed = ", ".join(f"{rule} after {count:,} steps" for rule, (count, _, text) in wrong.items() if text)
    notes = (f"{steps:,} steps in {examples:,} ledgers", f"controls: a wrong rule in the oracle was noticed: {noticed}")
    return Result("model", steps, tuple(failures), time.monotonic() - started, notes=notes)


def start(steps: int, seed: int, length: int, shrink: str, wrong: str) -> subprocess.Popen[str]:
    code = "import sys; from tools.crash import model as harness; harness.take_part(*sys.argv[1:])"
    command = [sys.executable, "-c", code, str(steps), str(seed), str(length), shrink, wrong]
    pipes = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=pipes, stderr=subprocess.STDOUT)


def end(program: subprocess.Popen[str]) -> tuple[int, int, str]:
    """Wait for a process and return its steps, its examples, and its failure (blank without any)."""
    out, _ = program.communicate()
    try:
        steps, examples, wrong = json.loads(out.splitlines()[-1])
    except (IndexError, ValueError):
        return 0, 0, f"a process ended with {program.returncode}: {out[-TOLD_CHARS:]}"
    return int(steps), int(examples), str(wrong)


# --- in a process of its own -----------------------------------------------------------------------------------------


def take_part(steps: str, seed: str, length: str, shrink: str, wrong: str) -> None:
    """Run the machine until it has made so many steps, or until it differs from the oracle."""
    os.environ.pop("HYPOTHESIS_PROFILE", None)
    sys.path.insert(0, str(ROOT / "tests"))
    if wrong:
        mislead(WRONG[wrong])
    played, failure = (machine(), sessions(), values()), ""
    goes = 0
    while sum(counted_machine.steps for counted_machine in played) < int(steps) and not failure:
        turn = goes + 1 if not wrong else 1
        counted = played[2 if turn % VALUES == 0 else int(turn % SESSIONS == 0)]
        failure = one_go(counted, int(seed) * 1_000_003 + goes, int(length), shrink=shrink == "shrink")
        goes += 1
    totals = (
        sum(counted_machine.steps for counted_machine in played),
        sum(counted_machine.examples for counted_machine in played),
    )
    print("\n" + json.dumps([*totals, failure]), flush=True)


def mislead(rule: Change) -> None:
    """Seed a wrong rule into the oracle."""
    oracle: Any = importlib.import_module("oracle")
    change = oracle.change

    def changed(world: Any, state: Any, part: Any) -> None:
        change(world, state, part)
        if state is not None:
            rule(state, part)

    oracle.change = changed


def machine() -> Any:
    """Return the machine of the tests, with its steps and examples counted.

    A rebuild takes as long as a hundred other steps, so only every fourth rebuild of the machine is made. At the end of every
    example the log is folded from zero in memory.
    """
    from hypothesis import strategies as st
    from hypothesis.stateful import invariant, precondition, rule

    tests: Any = importlib.import_module("machine")
    folded_from_zero: Any = importlib.import_module("conftest").folded_from_zero

    class Counted(tests.LedgerMachine):  # type: ignore[misc]
        steps = examples = 0

        def __init__(self) -> None:
            super().__init__()
            Counted.examples += 1

        @invariant()
        def compare(self) -> None:
            Counted.steps += 1
            super().compare()

        @precondition(lambda self: self.batch is None)
        @rule(turn=st.integers(0, 3))
        def rebuild(self, turn: int) -> None:
            if not turn:
                super().rebuild()

        @precondition(lambda self: self.batch is None)
        @rule(turn=st.integers(0, 3), step=st.integers(1, 60))
        def a_rebuild_is_killed(self, turn: int, step: int) -> None:
            if not turn:
                super().a_rebuild_is_killed(step)

        def teardown(self) -> None:
            try:
                if self.batch is not None:
                    self.batch.__exit__(None, None, None)
                self.compare()
                self.look_closer()
                self.look_back(slice(None, None, 5))
                assert self.ledger.proof.digest() == folded_from_zero(self.ledger), "the rows are not what the log says"
                assert tests.problems(self.ledger) == []
            finally:
                self.ledger.close()
                shutil.rmtree(self.folder)

    return Counted


def sessions() -> Any:
    """Return the machine that plays sessions, with its steps and examples counted."""
    from hypothesis.stateful import invariant

    tests: Any = importlib.import_module("session_machine")

    class Counted(tests.Sessions):  # type: ignore[misc]
        steps = examples = 0

        def __init__(self) -> None:
            super().__init__()
            Counted.examples += 1

        @invariant()
        def remember(self) -> None:
            Counted.steps += 1
            super().remember()

    return Counted


def values() -> Any:
    """Return the machine that plays keyed values, with its steps and examples counted."""
    from hypothesis.stateful import invariant

    tests: Any = importlib.import_module("value_machine")

    class Counted(tests.Values):  # type: ignore[misc]
        steps = examples = 0

        def __init__(self) -> None:
            super().__init__()
            Counted.examples += 1

        @invariant()
        def compare(self) -> None:
            Counted.steps += 1
            super().compare()

    return Counted


def one_go(counted: Any, seed: int, length: int, *, shrink: bool) -> str:
    """Run some examples from one seed, and return the difference of the ledger and the oracle in words, or an empty text."""
    import pytest
    from hypothesis import HealthCheck, Phase, settings
    from hypothesis import seed as seeded
    from hypothesis.stateful import run_state_machine_as_test

    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=length,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(seeded(seed)(counted), settings=chosen)
    except (Exception, BaseExceptionGroup, pytest.fail.Exception) as error:  # pytest's failure is not an Exception
        steps = "\n".join(noted(error))
        where = "".join(traceback.format_exception(error, limit=-3))[: TOLD_CHARS // 4]
        return f"seed {seed}: {where}\n{steps[-TOLD_CHARS:]}"
    return ""


def noted(error: BaseException) -> Iterator[str]:
    """Yield the steps that hypothesis noted; the members of a group hold the steps of several failures, or of a flaky one."""
    lines = "\n".join(getattr(error, "__notes__", ())).splitlines()
    yield from (line for line in lines if not line.endswith(ASKED))  # these checks run after every step
    for member in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        yield from noted(member)


# --- controls: rules that are wrong ----------------------------------------------------------------------------------


def a_superseded_memory_stays_valid(state: Any, part: Any) -> None:
    if part.verb == "supersede":
        state["valid_to"] = state["was"][1]


def an_adjustment_counts_as_a_reference(state: Any, part: Any) -> None:
    if part.verb == "adjust":
        state["count"] += 1


def what_was_hidden_comes_back_active(state: Any, part: Any) -> None:
    if part.verb == "restore":
        state["status"] = "active"


WRONG: dict[str, Change] = {
    "a superseded memory stays valid": a_superseded_memory_stays_valid,
    "an adjustment counts as a reference": an_adjustment_counts_as_a_reference,
    "what was hidden comes back active": what_was_hidden_comes_back_active,
}
