"""The entrance of the crash harness: ``python tools/crash [--short | --long] [test ...]`` prints one line for each test."""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import os
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(os.path.abspath(__file__)).parent
if str(HERE) in sys.path:  # python puts a folder that it runs there, and other imports of "model" would find ours
    sys.path.remove(str(HERE))
sys.path.insert(0, str(HERE.parent.parent))

from tools.crash.result import Result  # noqa: E402

TESTS = (
    ("kills", "tools.crash.kills"),
    ("power-loss", "tools.crash.power_loss"),
    ("groups", "tools.crash.groups"),
    ("faults", "tools.crash.faults"),
    ("bits", "tools.crash.bits"),
    ("malice", "tools.crash.malice"),
    ("concurrency", "tools.crash.concurrency"),
    ("model", "tools.crash.model"),
    ("erasure", "tools.crash.erasure"),
    ("fuzz", "tools.crash.fuzz"),
)
HANG_SECONDS = 900.0  # a short test that takes so long hangs, and the caller shall hear of it
SHOWN, NOTES = 10, 8  # the failures and notes of a test that are printed without --verbose


def main(arguments: list[str] | None = None) -> int:
    known = [name for name, _ in TESTS]
    parser = argparse.ArgumentParser(prog="tools/crash", description=__doc__)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--short", action="store_true", help="minutes, for every change (the default)")
    length.add_argument("--long", action="store_true", help="hours, for a release")
    parser.add_argument("--seed", type=int, default=1, help="another seed tries other cases (default: 1)")
    parser.add_argument(
        "--part",
        type=part,
        default=(1, 1),
        metavar="K/N",
        help="for the test bits in a long run: only the K-th of N parts of the flips",
    )
    parser.add_argument("--verbose", "-v", action="store_true", help="every note and every failure")
    parser.add_argument("--json", action="store_true", help="one JSON object a test")
    parser.add_argument("test", nargs="*", metavar="test", help=f"the tests to run, by default all: {', '.join(known)}")
    options = parser.parse_args(arguments)
    if unknown := set(options.test) - set(known):
        parser.error(f"no test {', '.join(sorted(unknown))}; the tests are {', '.join(known)}")
    if options.part != (1, 1) and options.test != ["bits"]:
        parser.error("--part needs the test bits alone, because only its flips are cut into parts")
    fine = True
    for name, module in TESTS:
        if name in options.test or not options.test:
            result = run(name, module, not options.long, options.seed, options.part)
            print(
                json.dumps(asdict(result) | {"ok": result.ok})
                if options.json
                else report_lines(result, everything=options.verbose),
                flush=True,
            )
            fine = fine and result.ok
    return 0 if fine else 1


def part(text: str) -> tuple[int, int]:
    """Return the number of a part and the number of parts: ``2/8`` is the second of eight."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a part: K/N with 1 <= K <= N was expected, such as 2/8")
    return int(number), int(count)


def run(name: str, module: str, short: bool, seed: int, part: tuple[int, int] = (1, 1)) -> Result:
    """Run a test; an exception of the test is its failure."""
    started = time.monotonic()
    if short:
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    try:
        test: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module:
            return Result(name, 0, (f"{module} does not exist",), 0.0)
        return Result(name, 0, (f"{module} does not load: {error}",), 0.0)
    try:
        result: Result = test.run(short, seed) if part == (1, 1) else test.run(short, seed, part)
    except Exception as error:
        return Result(name, 0, (f"{type(error).__name__}: {error}",), time.monotonic() - started)
    finally:
        faulthandler.cancel_dump_traceback_later()
    return result


def report_lines(result: Result, *, everything: bool = False) -> str:
    verdict = "FAILED" if not result.ok else "skipped" if result.skipped else "ok"
    lines = [
        f"{result.name:12} {verdict:8} {result.cases:>8,} cases {result.seconds:>8.1f} s  {result.skipped}".rstrip()
    ]
    notes = result.notes if everything else result.notes[:NOTES]
    failures = result.failures if everything else result.failures[:SHOWN]
    lines += [f"    {note}" for note in notes]
    lines += (
        [f"    … and {len(result.notes) - len(notes)} notes more (--verbose)"] if len(notes) < len(result.notes) else []
    )
    lines += [f"  ! {failure}" for failure in failures]
    if len(failures) < len(result.failures):
        lines.append(f"  ! and {len(result.failures) - len(failures)} more (--verbose)")
    return "\n".join(lines)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exit removes the scratch folders and ends the workers
    raise SystemExit(main())
