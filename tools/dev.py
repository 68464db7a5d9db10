"""The one entrance for developers: ``python3 tools/dev.py <demo|test|check|bench|crash>`` sets itself up and does it.

Needs nothing but Python 3.11 or newer. The virtual environment lies in ``.venv`` beside ``pyproject.toml`` and is made
again whenever that file changes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
STAMP = ENVIRONMENT / "made-for"
TOGETHER = ("-n", "auto", "--dist", "worksteal")  # a process that has none left takes tests from another
PYTHON = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/dev.py", description=__doc__)
    parser.add_argument("task", choices=("demo", "test", "check", "bench", "crash"), help="what to do")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="what the task itself takes")
    given = parser.parse_args()
    if sys.version_info < (3, 11):  # noqa: UP036 - whatever python3 is here runs this file
        print(f"Python 3.11 or newer is needed, and this is {sys.version.split()[0]}", file=sys.stderr)
        return 2
    task = {"demo": demo, "test": test, "check": check, "bench": bench, "crash": crash}[given.task]
    return task(given.rest)


def demo(rest: list[str]) -> int:
    """The main job on real input: a conversation goes in, everything is rebuilt from the log, and compared."""
    set_up("")
    return run("-m", "ledger", "demo", *rest)


def test(rest: list[str]) -> int:
    """All tests, one process for each processor, then the short crash harness; with arguments, pytest alone with those."""
    set_up("test")
    return run("-m", "pytest", *(rest or TOGETHER)) or (0 if rest else run("tools/crash"))


def crash(rest: list[str]) -> int:
    """Kills, power cuts, full disks, flipped bits, forgers: a few minutes, or with ``--long`` hours."""
    set_up("test")
    return run("tools/crash", *rest)


def check(rest: list[str]) -> int:
    """Lint, format, types and the rules of the house."""
    set_up("check")
    tasks = (
        ("-m", "ruff", "check", "ledger", "projections", "tools", "tests"),
        ("-m", "ruff", "format", "--check", "ledger", "projections", "tools", "tests"),
        ("-m", "mypy"),
        ("-m", "pytest", "tests/test_house.py", *rest),
    )
    return max(run(*task) for task in tasks)


def bench(rest: list[str]) -> int:
    set_up("")
    return run("tools/benchmark.py", *rest)


def set_up(extra: str) -> None:
    """The virtual environment with the product in it, editable, and what the task needs."""
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    have = STAMP.read_text().split() if STAMP.exists() else []
    if have[:1] == [wanted] and PYTHON.exists() and (not extra or extra in have):
        return
    if have[:1] != [wanted] or not PYTHON.exists():
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        print(f"making {ENVIRONMENT.name} …", file=sys.stderr)
        venv.create(ENVIRONMENT, with_pip=True)
        have = [wanted]
    target = f".[{extra}]" if extra else "."
    install = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable", target]
    print(f"installing {target} …", file=sys.stderr)
    subprocess.run(install, cwd=ROOT, check=True)
    STAMP.write_text(" ".join([*have, extra]).strip())


def run(*arguments: str) -> int:
    return subprocess.run([str(PYTHON), *arguments], cwd=ROOT).returncode


if __name__ == "__main__":
    raise SystemExit(main())
