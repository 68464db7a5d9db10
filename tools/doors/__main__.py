"""The doors tried with clients and tests that others wrote: ``python tools/doors [check ...]`` prints tables.

Node 22, the conformance suite, the Claude Code binary, opencode, Schemathesis and Hermes come from the package indexes into
``.venv-doors``. None of the clients gets a key or sees the caller's HOME. A check that cannot be installed here is skipped,
and the table says why.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
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
from tools.doors.installing import (  # noqa: E402
    INSTALL_SECONDS,
    InstallLimit,
    NotTried,
    environment,
    last_line,
    npm,
    run,
    wheel,
)
from tools.doors.official import CONTRACTS, HEADER, OfficialResult, run_official  # noqa: E402

EXPECTED = HERE / "conformance.yaml"
SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
REVISIONS = ("2026-07-28", "2025-11-25")
START_SECONDS = 30
INSTALL_PART = 1 / 5  # of the minutes, the most that the installation for a check may take
LEDGER = [sys.executable, "-m", "ledger"]
SERVER = [*LEDGER, "mcp"]
SCHEMATHESIS, HERMES = "schemathesis==4.32.0", "hermes-agent==0.19.0"


class DoorResult(NamedTuple):
    """A line of the table: "ok", "FAILED" or "skipped", and what was seen."""

    verdict: str
    note: str

    def line(self, name: str) -> str:
        """Return the line of the table."""
        note = " ".join(self.note.split()).replace("|", "\\|")
        return f"| {name} | {self.verdict} | {note} |"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools/dev.py doors", description=__doc__)
    parser.add_argument("check", nargs="*", metavar="check", help=f"some of: {', '.join(CHECKS)} (all)")
    parser.add_argument("--without", metavar="check", action="append", default=[], help="leave out a check")
    parser.add_argument(
        "--minutes",
        type=float,
        default=float("inf"),
        help="begin no check later than this after the first, and give an installation at most a fifth of it (no limit)",
    )
    options = parser.parse_args(arguments)
    if unknown := {*options.check, *options.without} - CHECKS.keys():
        parser.error(f"there is no check {sorted(unknown)[0]!r}; there are {', '.join(CHECKS)}")
    chosen = [name for name in options.check or CHECKS if name not in options.without]
    started, verdicts = time.monotonic(), []
    print("| check | result | seen |\n|---|---|---|", flush=True)
    for name in chosen:
        print(f"{name} …", file=sys.stderr, flush=True)
        result = attempt(name, options.minutes, time.monotonic() - started)
        verdicts.append(result.verdict)
        print(result.line(name), flush=True)
    if _official:
        print("", HEADER, *(result.line() for result in _official), sep="\n")
    return int("FAILED" in verdicts)


def attempt(name: str, minutes: float, spent_seconds: float) -> DoorResult:
    """Run a check and return its result, whatever happens in the check.

    Args:
        name: The name of the check.
        minutes: The minutes for all checks.
        spent_seconds: The seconds since the first check began.
    """
    begun, worked = time.monotonic(), processor_seconds()
    left_seconds = minutes * 60 - spent_seconds
    InstallLimit.seconds = min(INSTALL_SECONDS, minutes * 60 * INSTALL_PART, left_seconds)
    try:
        if left_seconds <= 0:
            raise NotTried(f"the {minutes:g} minutes are over")
        result = CHECKS[name]()
    except NotTried as error:
        result = DoorResult("skipped", str(error))
    except subprocess.TimeoutExpired as error:
        result = DoorResult("FAILED", f"took longer than {error.timeout:g} s")
    except Exception as error:  # the other checks are run all the same
        result = DoorResult("FAILED", f"the check itself failed: {type(error).__name__}: {error}")
    seconds = f"{time.monotonic() - begun:.0f} s, {processor_seconds() - worked:.0f} s of processor"
    return result._replace(note=f"{result.note} ({seconds})")


def processor_seconds() -> float:
    """Return the processor time of all programs that this one ran and that have ended."""
    times = os.times()
    return times.children_user + times.children_system


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


def plugin() -> DoorResult:
    """Let Claude Code validate the plugin, and play two sessions with it against a scripted model."""
    binary = wheel("claude-agent-sdk", "claude_agent_sdk/_bundled/claude")
    done = run(sys.executable, "tools/doors/check_plugin.py", "--claude", binary, cwd=ROOT)
    passed, failed = (re.findall(rf"^{word} +(.+)$", done.stdout, re.M) for word in ("ok", "FAILED"))
    seen = f"{len(passed)} steps, from `plugin validate` to `uninstall`"
    return DoorResult(verdict(done), "; ".join(failed[:3]) or (seen if passed else last_line(done)))


def opencode() -> DoorResult:
    """Name the server in the settings of opencode, and ask if it is connected."""
    binary = npm("opencode-ai") / "opencode"
    with tempfile.TemporaryDirectory() as folder:
        command = ", ".join(f'"{word}"' for word in [*SERVER, "--db", f"{folder}/memory.db"])
        settings = f'{{"mcp": {{"memory": {{"type": "local", "command": [{command}], "enabled": true}}}}}}'
        Path(folder, "opencode.json").write_text(settings, encoding="utf-8")
        version = run(binary, "--version", cwd=Path(folder), home=folder).stdout.strip()
        return connected(run(binary, "mcp", "list", cwd=Path(folder), home=folder), f"opencode {version}", ["memory"])


def agmi() -> DoorResult:
    """Edit a ledger's rows with the suite agent-memory-integrity, and ask if opening and reading notice."""
    suite = wheel("agent-memory-integrity==0.6.3", "agmi/check.py").parent.parent
    places = {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, suite, HERE)))}
    seen, failed = [], False
    for name, least in AGMI_REJECTED.items():
        words = [sys.executable, "-P", "-m", "agmi.check", "--adapter", f"agmi_adapter:{name}"]
        done = run(*words, cwd=ROOT, more=places)
        rejected = len(re.findall(r"REJECTED$", done.stdout, re.M))
        failed = failed or rejected < least or not done.stdout
        seen.append(f"{rejected} of 9 by {name.removesuffix('Adapter').lower()}")
    return DoorResult("FAILED" if failed else "ok", f"edits that are rejected at reading: {', '.join(seen)}")


AGMI_REJECTED = {
    "ReadAdapter": 5,
    "TailAdapter": 8,
    "FullAdapter": 8,
    "AgainstAdapter": 9,
}  # of the nine edits, at least


_official: list[OfficialResult] = []


def official(name: str) -> DoorResult:
    """Run the official tests of a contract with the door in the place of the library's own class."""
    result = run_official(name)
    _official.append(result)
    count = f"{result.passed} of {result.run} tests pass"
    failed = "".join(f"; {test.partition('::')[2] or test}" for test in result.failed[:3])
    return DoorResult("ok" if result.ok else "FAILED", result.problem or f"{count}{failed}")


def http() -> DoorResult:
    """Run Schemathesis over the schema of the HTTP server: no 500, and every answer as the schema says."""
    python = environment("schemathesis", SCHEMATHESIS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory.db")
        token = TokenFile(path).make("fuzz", "ada", channel="user").token
        port = free_port()
        address = f"127.0.0.1:{port}"
        with started([*LEDGER, "serve", address, "--db", str(path)], port, Path(folder)):
            suite: list[str | Path] = [python, "-m", "schemathesis.cli", "run", f"http://{address}/openapi.json"]
            # A rule may refuse what the schema allows, such as a blank memory. A stream of events has no end.
            suite += ["--exclude-checks", "positive_data_acceptance", "--exclude-path", "/history/follow"]
            suite += ["--header", f"Authorization: Bearer {token}", "--phases", "examples,coverage,fuzzing"]
            suite += ["--seed", "1", "--max-examples", "60", "--no-color"]
            done = run(*suite, cwd=Path(folder))
        sound = run(*LEDGER, "verify", "--db", path, cwd=ROOT)
    cases = re.search(r"([\d,]+) generated", done.stdout)
    tested = re.search(r"Tested: (\d+)", done.stdout)
    seen = f"{cases[1]} requests to {tested[1]} paths" if cases and tested else last_line(done)
    failed = "; ".join(re.findall(r"❌ (ST\d+ .*)$", done.stdout, re.M))
    if sound.returncode:
        return DoorResult("FAILED", f"{seen}; the ledger does not verify: {last_line(sound)}")
    return DoorResult(verdict(done), f"{seen}: {failed or 'no 500, every answer as the schema says'}")


def hermes() -> DoorResult:
    """Run our tests of the provider with Hermes's own loader and memory manager."""
    python = environment("hermes", HERMES, "pytest>=9", "hypothesis>=6.100", extra="")
    # the program pytest, for Hermes has a package "tools" as well, which the folder of the repository would hide
    done = run(python.with_name("pytest"), "-q", "tests/doors/test_hermes.py", cwd=ROOT)
    last = re.findall(r"^(?:FAILED.*|.*(?:passed|failed|skipped).*)$", done.stdout, re.M)
    tests = done.stdout.count(".")
    ok = done.returncode == 0 and tests > 10
    return DoorResult(
        "ok" if ok else "FAILED", f"{HERMES}: {tests} tests" if ok else "; ".join(last[:3]) or last_line(done)
    )


CHECKS: dict[str, Callable[[], DoorResult]] = {
    "sdk": sdk,
    "soak": soak,
    **{f"conformance-{revision}": partial(conformance, revision) for revision in REVISIONS},
    "claude": claude,
    "plugin": plugin,
    "opencode": opencode,
    "agmi": agmi,
    **{name: partial(official, name) for name in CONTRACTS},
    "http": http,
    "hermes": hermes,
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


# --- what they need --------------------------------------------------------------------------------------------------


@contextmanager
def listening(folder: Path, *, with_tokens: bool = False) -> Iterator[str]:
    """Yield the address of a server over HTTP; the conformance suite cannot send a token."""
    port = free_port()
    command = [*SERVER, "--db", str(folder / "memory.db"), "--http", f"127.0.0.1:{port}"]
    with started(command if with_tokens else [*command, "--without-token"], port, folder):
        yield f"http://127.0.0.1:{port}/mcp"


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def started(command: list[str], port: int, folder: Path) -> Iterator[None]:
    """Run a server until the end, and yield when its port answers."""
    with open(folder / "server.log", "wb") as log:
        server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            end = time.monotonic() + START_SECONDS
            while time.monotonic() < end and server.poll() is None:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield
        finally:
            server.terminate()
            server.wait(timeout=10)


if __name__ == "__main__":
    raise SystemExit(main())
