"""The entrance for developers: ``python3 tools/dev.py TASK`` sets up an environment and runs a task.

It needs nothing but Python 3.11 or newer. The virtual environment lies in ``.venv`` beside ``pyproject.toml``; the environment
of another Python lies in ``.venv-3.13`` or the like. A change of ``pyproject.toml`` makes it anew.
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
    *("-n", "auto", "--dist", "worksteal"),  # a process without tests left takes some from another
    *("-o", "faulthandler_timeout=600", "-o", "faulthandler_exit_on_timeout=true"),  # a test that hangs fails
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/dev.py", description=__doc__)
    parser.add_argument(
        "task", choices=("demo", "test", "check", "bench", "crash", "doors", "release"), help="the task to run"
    )
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="the arguments of the task")
    options = parser.parse_args()
    if sys.version_info < (3, 11):  # noqa: UP036 - an older python3 can run this file
        print(f"Python 3.11 or newer is needed, and this is {sys.version.split()[0]}", file=sys.stderr)
        return 2
    tasks = {
        "demo": demo,
        "test": test,
        "check": check,
        "bench": bench,
        "crash": crash,
        "doors": doors,
        "release": release,
    }
    return tasks[options.task](options.rest)


def demo(rest: list[str]) -> int:
    """Run the main job on real input: import a conversation, rebuild everything from the log, and compare."""
    return run(set_up(""), "-m", "ledger", "demo", *rest)


def test(rest: list[str]) -> int:
    """Run all tests, in one process for each processor, then the short crash harness.

    With arguments pytest runs alone, with these arguments.
    ``--fast`` leaves out the crash harness and the tests marked ``slow``, and tries fewer examples of each property.
    ``--shared`` gives each ledger a shared log in memory, and ``--shared=postgres`` one in PostgreSQL, without the harness.
    ``--python 3.13`` takes that Python. The exit code is 2 if that Python is missing, and 1 if a test fails.
    """
    parser = argparse.ArgumentParser(prog="tools/dev.py test", description=test.__doc__, allow_abbrev=False)
    parser.add_argument("--fast", action="store_true", help="only a part of the tests, which touches everything")
    parser.add_argument("--python", metavar="VERSION", help="such as 3.13")
    options, rest = parser.parse_known_args(rest)
    python = set_up("test", options.python)
    shared = ["--shared=memory" if word == "--shared" else word for word in rest if word.startswith("--shared")]
    rest = [word for word in rest if not word.startswith("--shared")]
    if options.fast or shared:
        rest = [*["--fast"] * options.fast, *shared, *(rest or ALL)]
    failed = run(python, "-m", "pytest", *(rest or ALL)) or (0 if rest else run(python, "tools/crash"))
    return int(failed != 0)


def crash(rest: list[str]) -> int:
    """Run kills, power cuts, full disks, flipped bits and forgeries: a few minutes, or hours with ``--long``."""
    return run(set_up("test"), "tools/crash", *rest)


def doors(rest: list[str]) -> int:
    """Try the doors with clients and tests that others wrote, installed on first use; say what was skipped and why."""
    return run(set_up("test"), "tools/doors", *rest)


def check(rest: list[str]) -> int:
    """Run lint, format, types and the rules of the house."""
    python = set_up("check")
    places = ("ledger", "projections", "tools", "tests")
    tasks = {
        "lint (ruff check --fix mends most)": ("-m", "ruff", "check", *places),
        "format (ruff format does it)": ("-m", "ruff", "format", "--check", *places),
        "types, mypy": ("-m", "mypy"),
        **{
            f"types, mypy for {system}": ("-m", "mypy", "--platform", system, "-p", "ledger", "-p", "projections")
            for system in ("win32", "darwin")
        },
        "rules of the house": (
            "-m",
            "pytest",
            *(f"tests/house/test_{name}.py" for name in ("house", "named_calls", "help")),
            *rest,
        ),
        "types, pyright": ("-m", "pyright", "--pythonpath", str(python)),
        "types that a user sees": ("tools/check_types.py",),
        "documentation as a site": ("tools/pages/site.py",),
        "skills of the plugin": ("tools/doors/check_skills.py",),
    }
    codes = {name: run(python, *task) for name, task in tasks.items()}
    codes["workflows, zizmor"] = run(python.with_name("zizmor"), "--offline", ".github")
    for name, code in codes.items():
        print(f"{'ok    ' if code == 0 else 'FAILED'}  {name}")
    return max(codes.values())


def bench(rest: list[str]) -> int:
    """Measure the figures of ledger/docs/measured.md.

    ``--against COMMIT`` compares the speed of daily operations with that commit. ``--peers`` measures remembering one-line
    facts beside other products, which are installed into an environment that is thrown away.
    """
    names = {word.partition("=")[0] for word in rest}
    program = next((f"benchmark_{mode}.py" for mode in ("against", "peers") if f"--{mode}" in names), "benchmark.py")
    return run(set_up(""), f"tools/bench/{program}", *rest)


def release(rest: list[str]) -> int:
    """Print what stands between this commit and a release, with ``--check``; it publishes nothing."""
    return run(set_up("release"), "tools/release.py", *rest)


def set_up(extra: str, version: str | None = None) -> Path:
    """Return the Python of a virtual environment with the product in it, editable, and the packages of the task."""
    environment = ROOT / (f".venv-{version}" if version else ".venv")
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = environment / "made-for"
    fingerprint = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    have = stamp.read_text(encoding="utf-8").split() if stamp.exists() else []
    if environment.exists() and not stamp.exists():
        print(f"{environment.name} was not made by dev.py: move it away first", file=sys.stderr)
        raise SystemExit(2)
    if have[:1] != [fingerprint] or not python.exists():
        base = interpreter(version) if version else sys.executable
        shutil.rmtree(environment, ignore_errors=True)
        print(f"making {environment.name} …", file=sys.stderr)
        subprocess.run([base, "-m", "venv", str(environment)], check=True)
        have = [fingerprint]
    if not extra or extra not in have:
        target = f".[{extra}]" if extra else "."
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        install = [
            *pip,
            "--no-compile",
            "--editable",
            target,
        ]  # Python compiles modules at their first import, and few are imported
        print(f"installing {target} …", file=sys.stderr)
        subprocess.run(install, cwd=ROOT, check=True)
        stamp.write_text(" ".join([*have, extra]).strip(), encoding="utf-8")
    return python


def interpreter(version: str) -> str:
    """Return the first Python of a version that really runs; a version manager's shim on the PATH may run nothing."""
    ask = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    for python in candidates(version):
        try:
            result = subprocess.run([python, "-c", ask], capture_output=True, text=True)
        except OSError:
            continue
        if result.stdout.strip() == version:
            return python
    print(f"no Python {version} that runs and can make a virtual environment is on the PATH", file=sys.stderr)
    raise SystemExit(2)


def candidates(version: str) -> Iterator[str]:
    folders = [Path(folder_name) for folder_name in os.get_exec_path()]
    yield from (str(folder / f"python{version}") for folder in folders)
    for folder in folders:
        if folder.name == "shims":  # pyenv keeps its Pythons beside its shims
            yield from map(str, folder.parent.glob(f"versions/{version}*/bin/python{version}"))


def run(program: Path, *arguments: str) -> int:
    """Run a Python, or a program beside it, with compiled modules written even if the environment forbids it.

    The tests start hundreds of processes.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run([str(program), *arguments], cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    raise SystemExit(main())
