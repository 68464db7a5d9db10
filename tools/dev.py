"""The one entrance for developers: ``python3 tools/dev.py <demo|test|check|bench|crash>`` sets itself up and does it.

Needs nothing but Python 3.11 or newer. The virtual environment lies in ``.venv`` beside ``pyproject.toml`` (that of another
Python in ``.venv-3.13``) and is made again whenever that file changes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALL = (
    *("-n", "auto", "--dist", "worksteal"),  # a process that has none left takes tests from another
    *("-o", "faulthandler_timeout=600", "-o", "faulthandler_exit_on_timeout=true"),  # a test that hangs fails
)


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
    return run(set_up(""), "-m", "ledger", "demo", *rest)


def test(rest: list[str]) -> int:
    """All tests, one process for each processor, then the short crash harness; with arguments, pytest alone with those.

    ``--fast`` leaves out the crash harness and the tests marked ``slow``, and tries fewer examples of each property.
    ``--python 3.13`` takes that Python; the exit code is 2 where there is none, and 1 where a test fails.
    """
    parser = argparse.ArgumentParser(prog="tools/dev.py test", description=test.__doc__, allow_abbrev=False)
    parser.add_argument("--fast", action="store_true", help="a part of the tests that touches everything")
    parser.add_argument("--python", metavar="VERSION", help="such as 3.13")
    given, rest = parser.parse_known_args(rest)
    python = set_up("test", given.python)
    if given.fast:
        rest = ["--fast", *(rest or ALL)]
    failed = run(python, "-m", "pytest", *(rest or ALL)) or (0 if rest else run(python, "tools/crash"))
    return int(failed != 0)


def crash(rest: list[str]) -> int:
    """Kills, power cuts, full disks, flipped bits, forgers: a few minutes, or with ``--long`` hours."""
    return run(set_up("test"), "tools/crash", *rest)


def check(rest: list[str]) -> int:
    """Lint, format, types and the rules of the house."""
    python = set_up("check")
    places = ("ledger", "projections", "tools", "tests")
    tasks = {
        "lint (ruff check --fix mends most)": ("-m", "ruff", "check", *places),
        "format (ruff format does it)": ("-m", "ruff", "format", "--check", *places),
        "types, mypy": ("-m", "mypy"),
        "rules of the house": (
            "-m",
            "pytest",
            *(f"tests/house/test_{name}.py" for name in ("house", "words", "help")),
            *rest,
        ),
        "types, pyright": ("-m", "pyright", "--pythonpath", str(python)),
        "types that a user sees": ("tools/check_types.py",),
    }
    codes = {name: run(python, *task) for name, task in tasks.items()}
    for name, code in codes.items():
        print(f"{'ok    ' if code == 0 else 'FAILED'}  {name}")
    return max(codes.values())


def bench(rest: list[str]) -> int:
    """The figures of ledger/docs/measured.md; with ``--against COMMIT`` the speed of daily operations then and now, and with
    ``--peers`` one-line facts beside other products, which are installed into an environment that is thrown away."""
    given = {word.partition("=")[0] for word in rest}
    program = next((f"benchmark_{each}.py" for each in ("against", "peers") if f"--{each}" in given), "benchmark.py")
    return run(set_up(""), f"tools/bench/{program}", *rest)


def set_up(extra: str, version: str | None = None) -> Path:
    """The Python of a virtual environment with the product in it, editable, and what the task needs."""
    environment = ROOT / (f".venv-{version}" if version else ".venv")
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = environment / "made-for"
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    have = stamp.read_text().split() if stamp.exists() else []
    if environment.exists() and not stamp.exists():
        print(f"{environment.name} is not one that dev.py made: move it away first", file=sys.stderr)
        raise SystemExit(2)
    if have[:1] != [wanted] or not python.exists():
        base = interpreter(version) if version else sys.executable
        shutil.rmtree(environment, ignore_errors=True)
        print(f"making {environment.name} …", file=sys.stderr)
        subprocess.run([base, "-m", "venv", str(environment)], check=True)
        have = [wanted]
    if not extra or extra not in have:
        target = f".[{extra}]" if extra else "."
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        install = [*pip, "--no-compile", "--editable", target]  # what is imported is compiled then, and that is a part
        print(f"installing {target} …", file=sys.stderr)
        subprocess.run(install, cwd=ROOT, check=True)
        stamp.write_text(" ".join([*have, extra]).strip())
    return python


def interpreter(version: str) -> str:
    """The first Python of a version that really runs; a shim of a version manager may lie on the PATH and run nothing."""
    ask = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    for python in candidates(version):
        try:
            told = subprocess.run([python, "-c", ask], capture_output=True, text=True)
        except OSError:
            continue
        if told.stdout.strip() == version:
            return python
    print(f"no Python {version} that runs and can make a virtual environment is on the PATH", file=sys.stderr)
    raise SystemExit(2)


def candidates(version: str) -> Iterator[str]:
    folders = [Path(each) for each in os.get_exec_path()]
    yield from (str(folder / f"python{version}") for folder in folders)
    for folder in folders:
        if folder.name == "shims":  # pyenv's: what it has lies beside them
            yield from map(str, folder.parent.glob(f"versions/{version}*/bin/python{version}"))


def run(python: Path, *arguments: str) -> int:
    """Compiled modules are written even where the environment says not to: the tests start hundreds of processes."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run([str(python), *arguments], cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    raise SystemExit(main())
