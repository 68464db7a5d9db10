"""A fuzzer that calls every public method with wrong values: each call must answer or raise a LedgerError.

A StorageError about a wrong SQL statement or a damaged row is a failure too, because then an unchecked value reached the
database.

``python -m tools.crash.fuzz_surface [CALLS] [SEED]`` finds the methods by inspection and lists the calls with other errors.
"""

from __future__ import annotations

import inspect
import random
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir
from datetime import date, datetime
from pathlib import Path
from typing import Any

from ledger.api import Ledger
from ledger.domain.errors import DamagedError, LedgerError, StorageError
from ledger.types import EVERYTHING, DocumentPath, Event, Project, SessionName, WriteOptions
from tools.pages.public_surface import methods

WRONG: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.5, 1e308),
    *(float("nan"), float("inf"), float("-inf"), 1j, b"", b"bytes", bytearray(b"x"), "", " ", "\0", "a\0b", "\ud800"),
    *(
        "x" * 5_000,
        "m_",
        "m_0",
        "m_0000000000000000",
        "m_\ud800",
        "i_%",
        "s_'",
        "2026-01-01",
        "2026-01-01T10:00:00",
        "7d",
    ),
    *(
        "9999-12-31T23:59:59-12:00",
        "-5d",
        "99999999999d",
        "all",
        EVERYTHING,
        "a/../b",
        "[" * 3_000,
        "\u202e",
        "e\u0301",
    ),
    *(datetime(2026, 1, 1), date(1, 1, 1), datetime.max, [], (), {}, set(), [None], ["\ud800"], [1, "a"], ["a", "a"]),
    *(
        {"a": 1},
        {1: 2},
        {"a": float("nan")},
        {"a": {"b": "\ud800"}},
        [[]],
        [("a", "b", "c")],
        [("a", 1, None)],
        object(),
    ),
    *(Project("\ud800"), Project(None), SessionName(7), DocumentPath("\0"), Event(10**400), Event("x")),  # type: ignore[arg-type]
    *(range(3), iter(()), Exception, Path("nothing\0"), Path("/nonexistent/x"), frozenset({"a"}), memoryview(b"x")),
)
LEFT_OUT = {
    "close",  # after it no other call works
    "open",  # takes functions and models, as "temporary" does
    "temporary",
    "jobs.work",  # may wait for ever
    "history.follow",
    "history.wait",
}


def values(random: random.Random, parameter: inspect.Parameter, known: list[Any]) -> Any:
    """Return a value for a parameter: mostly a wrong value, sometimes a fitting one."""
    if parameter.default is not parameter.empty and random.random() < 0.2:
        return parameter.default
    return random.choice(known) if random.random() < 0.3 else random.choice(WRONG)


def arguments(random: random.Random, method: Callable[..., Any], known: list[Any]) -> dict[str, Any]:
    chosen = {}
    for name, parameter in inspect.signature(method).parameters.items():
        if name in ("self", "cls"):
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            for option in WriteOptions.__optional_keys__:
                if random.random() < 0.15:
                    chosen[option] = random.choice(WRONG)
        elif parameter.default is parameter.empty or random.random() < 0.35:
            chosen[name] = values(random, parameter, known)
    return chosen


def alone(method: Callable[..., Any], known: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield calls with every wrong value at every parameter, and values that may fit at the other required parameters."""
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(method).parameters.items()
        if name not in ("self", "cls")
    }
    required = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    for name, parameter in parameters.items():
        names = sorted(WriteOptions.__optional_keys__) if parameter.kind is parameter.VAR_KEYWORD else [name]
        for option in names:
            for wrong in WRONG:
                yield dict.fromkeys(required, known[0]) | {option: wrong}


def prepared(ledger: Ledger) -> list[Any]:
    """Write a little of everything, and return its ids, names and other values that fit parameters."""
    fact = ledger.remember("The lamp is on.", project="atlas", tags=["light"])
    idea = ledger.propose("The window is open.")
    turn = ledger.capture("Is the lamp on?", "The lamp is on.", session="talk", append=True)
    paper = ledger.documents.add("# Porto\n\nThe bridge is high.\n", title="Porto")
    ledger.projects.set_state("atlas", "status", "phase", "one")
    ledger.values.put(("notes",), "a text", {"lamp": "on"})
    pack = ledger.recall("lamp", receipt=True)
    return [
        fact.id,
        idea.id,
        turn.id,
        paper.id,
        "atlas",
        "talk",
        fact.position,
        pack.receipt,
        "a text",
        ("notes",),
        ["a"],
        0.5,
        3,
        "7d",
    ]


def targets(ledger: Ledger, name: str) -> Callable[..., Any]:
    """Return the method with this name of this ledger, or of one of its sessions."""
    owner: Any = ledger
    for part in name.split("."):
        owner = ledger.session("talk") if part == "session" and "." in name else getattr(owner, part)
    method: Callable[..., Any] = owner
    return method


def called(method: Callable[..., Any], chosen: dict[str, Any]) -> Any:
    """Call a method; values of a star parameter go by place, behind the parameters that stand before it."""
    parameters = inspect.signature(method).parameters.values()
    star = next((parameter.name for parameter in parameters if parameter.kind is parameter.VAR_POSITIONAL), "")
    if star not in chosen:
        return method(**chosen)
    before = [
        parameter.name
        for parameter in parameters
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.name in chosen
    ]
    rest = {name: value for name, value in chosen.items() if name not in (star, *before)}
    return method(*(chosen[name] for name in before), chosen[star], **rest)


def tried(method: Callable[..., Any], chosen: dict[str, Any]) -> str:
    """Return an empty text, or the error of a call that is not an error of the product."""
    try:
        answer = called(method, chosen)
        if isinstance(answer, Iterator):
            list(answer)
        elif hasattr(answer, "__enter__") and not isinstance(answer, Ledger):
            with answer:
                pass
    except LedgerError as error:
        cause = error.__cause__ or error.__context__
        wrong = isinstance(error, DamagedError) or isinstance(cause, sqlite3.ProgrammingError | TypeError)
        return _described(error) if wrong and isinstance(error, StorageError) else ""
    except Exception as error:
        return _described(error)
    return ""


def _described(error: Exception) -> str:
    place = inspect.trace()[-1]
    return f"{type(error).__name__}: {str(error)[:100]!r} at {Path(place.filename).name}:{place.lineno}"


def names(owner: Any) -> list[str]:
    return sorted(name for name, _ in methods(owner) if name not in LEFT_OUT)


def main(calls: int, seed: int) -> int:
    chance = random.Random(seed)
    problems: dict[str, tuple[str, dict[str, Any], str]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        chdir(folder),  # a call with a name such as "tea" for a path writes a file there
        Ledger.open(Path(folder, "memory.db"), user="ada") as ledger,
    ):
        known = prepared(ledger)
        then = ledger.at(ledger.position)
        for owner in (ledger, then):
            for name in names(type(owner)):
                method = targets(owner, name)  # type: ignore[arg-type]
                cases = [*alone(method, known), *(arguments(chance, method, known) for _ in range(calls))]
                for chosen in cases:
                    if problem := tried(method, chosen):
                        problems.setdefault(problem.split(" at ")[-1], (name, chosen, problem))
    for name, chosen, problem in problems.values():
        print(f"{name}: {problem}\n    {chosen!r:.300}")
    print(f"{len(problems)} kinds of wrong errors")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, (*sys.argv[1:], *("200", "1")[len(sys.argv) - 1 :]))))
