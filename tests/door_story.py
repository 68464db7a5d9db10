"""The tests of every door: a story of three days, a kill in the middle, and the doors that load only their own library."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import needs
import pytest
from places import ROOT

from ledger import AsyncLedger, Ledger, Step
from ledger.doors.pytest_plugin import Clock

LIBRARIES = {  # what each door imports
    "anthropic": "anthropic",
    "langgraph": "langgraph",
    "mcp": "mcp",
    "eventsourcing": "eventsourcing",
    "openai": "agents",
    "claude": "claude_agent_sdk",
}
MONDAY, TUESDAY, WEDNESDAY = "2026-03-02T09:00Z", "2026-03-03T09:00Z", "2026-03-04T09:00Z"
COFFEE, TEA = "Ada drinks coffee.", "Ada drinks tea."


def told_changed_asked_and_undone(
    ledger: Ledger,
    clock: Clock,
    *,
    tell: Callable[[str], object],
    change: Callable[[str, str], object],
    ask: Callable[[], str],
    subjects: Callable[[], Iterable[str]],
) -> None:
    """Play a story through a door: told on Monday, changed on Tuesday, asked on Wednesday: why, and undone.

    Args:
        ledger: The ledger behind the door.
        clock: The clock of the ledger.
        tell: Tells a text through the door.
        change: Changes a text that was told into another, through the door.
        ask: Returns what the door knows, as one text.
        subjects: Returns the ids of the subjects in the ledger that hold the texts.
    """
    clock.set(MONDAY)
    tell(COFFEE)
    assert COFFEE in ask()
    clock.set(TUESDAY)
    change(COFFEE, TEA)
    clock.set(WEDNESDAY)
    assert TEA in ask() and COFFEE not in ask()

    holders = [*subjects()]
    steps = [step for step in _events(ledger, holders) if {COFFEE, TEA} & set(_texts(step.data))]
    assert [step.recorded_at[:10] for step in steps] == [MONDAY[:10], TUESDAY[:10]]
    assert [text for step in steps for text in dict.fromkeys(_texts(step.data)) if text in (COFFEE, TEA)] == [
        COFFEE,
        TEA,
    ]
    assert all(step.in_effect for step in steps)
    assert TUESDAY[:10] in ledger.history.explain(steps[-1].position).text

    ledger.undo(steps[-1].position, reason="Ada never said so")
    assert COFFEE in ask() and TEA not in ask()
    undone = [step.in_effect for step in _events(ledger, holders) if step.position == steps[-1].position]
    assert undone == [False]


def _events(ledger: Ledger, subjects: Iterable[str]) -> list[Step]:
    steps = {step.position: step for subject in subjects for step in ledger.history.events(subject)}
    return [steps[position] for position in sorted(steps)]


def _texts(data: object) -> list[str]:
    if isinstance(data, str):
        try:
            inner = json.loads(data)
        except ValueError:
            inner = None
        return [data, *(_texts(inner) if isinstance(inner, dict | list) else [])]
    parts = data.values() if isinstance(data, dict) else data if isinstance(data, list | tuple) else []
    return [text for part in parts for text in _texts(part)]


def killed_in_the_middle(program: str, path: Path, *, after: int = 5) -> list[str]:
    """Run a program until it printed some lines, kill it with -9, and return all lines that it printed.

    Args:
        program: Python source that opens the ledger at ``sys.argv[1]`` and prints a line after each write that returned.
        path: The path of the ledger.
        after: The lines after which the program is killed.
    """
    needs.sigkill()
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    lines = [process.stdout.readline().strip() for _ in range(after)]
    process.send_signal(signal.SIGKILL)
    rest, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL and lines[-1], errors
    return [line for line in (*lines, *rest.splitlines()) if line]


def check_ledger(make: Callable[[Any], object], path: Path) -> None:
    """Check that a door refuses at once what is no ``Ledger``: a path, a ledger that is awaited, a past moment."""

    async def awaited() -> str:
        async with AsyncLedger.open(path) as ledger:
            with pytest.raises(TypeError) as refused:
                make(ledger)
            return str(refused.value)

    assert "takes a Ledger" in asyncio.run(awaited())
    with Ledger.open(path) as ledger:
        ledger.remember(COFFEE)
        for wrong in (str(path), None, ledger.at(1)):
            with pytest.raises(TypeError, match=f"takes a Ledger.*a {type(wrong).__name__} is none"):
                make(wrong)


def check_loading(door: str) -> None:
    """Check that a door loads no library of another door, and that the error for a missing library names the line to install."""
    others = sorted({LIBRARIES[other] for other in LIBRARIES if other not in (door, "eventsourcing")})
    own = f"import sys, {LIBRARIES[door]}; known = set(sys.modules)"  # a library may itself load another
    program = f"{own}; import ledger.doors.{door}; print(*sorted((sys.modules.keys() - known) & {set(others)!r}))"
    assert _output(program) == ""
    program = (
        f"import sys; sys.modules[{LIBRARIES[door]!r}] = None\n"
        f"try:\n    import ledger.doors.{door}\nexcept ImportError as error:\n    print(error)"
    )
    assert f'pip install "belief-ledger[{door}]"' in _output(program)
    program = f"import sys, ledger; print(*sorted(sys.modules.keys() & { ({*others, LIBRARIES[door]})!r}))"
    assert _output(program) == ""


def _output(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.fail(done.stderr)
    return done.stdout.strip()
