"""Calls every public method with what no method takes: each answers or raises a LedgerError, and nothing else.

Nor may it be a StorageError that says that the database was asked wrongly, or that a row is damaged: then a value reached it
that nobody had looked at.

``python -m tools.crash.fuzz_surface [CALLS] [SEED]`` finds the methods by themselves and says which calls raised something else.
"""

from __future__ import annotations

import inspect
import random
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
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
    "close",  # nothing is left to call
    "open",  # which takes functions and models, as the next does
    "temporary",
    "jobs.work",  # may wait for ever
    "history.follow",
    "history.wait",
}


def values(random: random.Random, parameter: inspect.Parameter, known: list[Any]) -> Any:
    """Something for a parameter: mostly wrong, sometimes what fits."""
    if parameter.default is not parameter.empty and random.random() < 0.2:
        return parameter.default
    return random.choice(known) if random.random() < 0.3 else random.choice(WRONG)


def arguments(random: random.Random, method: Callable[..., Any], known: list[Any]) -> dict[str, Any]:
    given = {}
    for name, each in inspect.signature(method).parameters.items():
        if name in ("self", "cls"):
            continue
        if each.kind is each.VAR_KEYWORD:
            for option in WriteOptions.__optional_keys__:
                if random.random() < 0.15:
                    given[option] = random.choice(WRONG)
        elif each.default is each.empty or random.random() < 0.35:
            given[name] = values(random, each, known)
    return given


def alone(method: Callable[..., Any], known: list[Any]) -> Iterator[dict[str, Any]]:
    """Every wrong value at every parameter, the required others with what may fit."""
    parameters = {
        name: each for name, each in inspect.signature(method).parameters.items() if name not in ("self", "cls")
    }
    required = [
        name
        for name, each in parameters.items()
        if each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    for name, each in parameters.items():
        names = sorted(WriteOptions.__optional_keys__) if each.kind is each.VAR_KEYWORD else [name]
        for wanted in names:
            for wrong in WRONG:
                yield dict.fromkeys(required, known[0]) | {wanted: wrong}


def prepared(ledger: Ledger) -> list[Any]:
    """A little of everything, and what it is called."""
    fact = ledger.remember("The lamp is on.", project="atlas", tags=["light"])
    idea = ledger.propose("The window is open.")
    turn = ledger.capture("Is the lamp on?", "The lamp is on.", session="talk", append=True)
    paper = ledger.documents.add("# Porto\n\nThe bridge is high.\n", title="Porto")
    ledger.projects.set_state("atlas", "status", "phase", "one")
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
        ["a"],
        0.5,
        3,
        "7d",
    ]


def targets(ledger: Ledger, name: str) -> Callable[..., Any]:
    """The method with this name of this ledger, or of one of its sessions."""
    found: Any = ledger
    for part in name.split("."):
        found = ledger.session("talk") if part == "session" and "." in name else getattr(found, part)
    method: Callable[..., Any] = found
    return method


def called(method: Callable[..., Any], given: dict[str, Any]) -> Any:
    """The answer; what a method takes any number of is given by place, behind those that stand before it."""
    parameters = inspect.signature(method).parameters.values()
    star = next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), "")
    if star not in given:
        return method(**given)
    before = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD and each.name in given]
    rest = {name: value for name, value in given.items() if name not in (star, *before)}
    return method(*(given[name] for name in before), given[star], **rest)


def tried(method: Callable[..., Any], given: dict[str, Any]) -> str:
    """Nothing, or what it raised that is none of the product's errors."""
    try:
        answer = called(method, given)
        if isinstance(answer, Iterator):
            list(answer)
        elif hasattr(answer, "__enter__") and not isinstance(answer, Ledger):
            with answer:
                pass
    except LedgerError as error:
        cause = error.__cause__ or error.__context__
        wrong = isinstance(error, DamagedError) or isinstance(cause, sqlite3.ProgrammingError | TypeError)
        return _told(error) if wrong and isinstance(error, StorageError) else ""
    except Exception as error:
        return _told(error)
    return ""


def _told(error: Exception) -> str:
    place = inspect.trace()[-1]
    return f"{type(error).__name__}: {str(error)[:100]!r} at {Path(place.filename).name}:{place.lineno}"


def names(owner: Any) -> list[str]:
    return sorted(name for name, _ in methods(owner) if name not in LEFT_OUT)


def main(calls: int, seed: int) -> int:
    chance = random.Random(seed)
    found: dict[str, tuple[str, dict[str, Any], str]] = {}
    with tempfile.TemporaryDirectory() as folder, Ledger.open(Path(folder, "memory.db"), user="ada") as ledger:
        known = prepared(ledger)
        then = ledger.at(ledger.position)
        for owner in (ledger, then):
            for name in names(type(owner)):
                method = targets(owner, name)  # type: ignore[arg-type]
                cases = [*alone(method, known), *(arguments(chance, method, known) for _ in range(calls))]
                for given in cases:
                    if problem := tried(method, given):
                        found.setdefault(problem.split(" at ")[-1], (name, given, problem))
    for name, given, problem in found.values():
        print(f"{name}: {problem}\n    {given!r:.300}")
    print(f"{len(found)} kinds of wrong errors")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, (*sys.argv[1:], *("200", "1")[len(sys.argv) - 1 :]))))
