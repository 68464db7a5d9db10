"""The pytest plugin: ledgers that are the same in every run, and beliefs that are frozen in a file next to a log.

pytest loads this module at its start. The rest of the product is loaded only when a test asks for a fixture.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from inspect import signature
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from ledger.api import Ledger, LedgerRead
    from ledger.types import Time

UPDATE = "--ledger-update"
FROZEN = "ledger_frozen"  # the property in which a test's report names a file that the test wrote
BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Clock:
    """A clock that stands still until a test moves it; ``time`` is the time that it shows."""

    def __init__(self) -> None:
        self.time: datetime = BEGIN

    def __call__(self) -> datetime:
        return self.time

    def advance(self, **by: float) -> None:
        """Move the clock forward, ``clock.advance(days=40, hours=2)``, or back by negative numbers."""
        try:
            self.time += timedelta(**by)
        except (TypeError, OverflowError) as error:
            fail(f"ledger_clock.advance takes days, hours, minutes, seconds or weeks as numbers: {error}")

    def set(self, time: Time) -> None:
        """Set the clock to a time: a date, a datetime with an offset, or either as text.

        Raises:
            RejectedError: The value is not a time, or has no offset from UTC.
        """
        from ledger.domain import times

        self.time = times.parse("time", time)


class GoldenBeliefs:
    """The fixture that compares the beliefs of a ledger with a frozen file."""

    def __init__(self, request: pytest.FixtureRequest, clock: Clock) -> None:
        self._request, self._clock = request, clock

    def __call__(self, ledger: LedgerRead, file: str | Path) -> None:
        """Fail if the ledger's beliefs differ from the file; with --ledger-update, write the file.

        Decay is computed for the time that ``ledger_clock`` shows.

        Args:
            ledger: A ledger, or the result of ``ledger.at(moment)``.
            file: The path of the file, from the test's own file.
        """
        from ledger.api import LedgerRead
        from ledger.doors import golden

        if not isinstance(ledger, LedgerRead):
            fail(f"golden_beliefs compares a ledger, or the result of ledger.at(moment), and {ledger!r:.60} is neither")
        config = self._request.config
        beliefs, path = golden.beliefs(ledger, as_of=self._clock.time), self._request.path.parent / file
        test = os.path.relpath(self._request.path, config.invocation_params.dir)
        update_command = f"pytest {UPDATE} {shlex.quote('::'.join([test, *self._request.node.nodeid.split('::')[1:]]))}"
        if config.getoption(UPDATE):
            self._freeze(path, golden.frozen(beliefs))
            return
        try:
            frozen = golden.thawed(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            fail(f"no beliefs are frozen in {path}; freeze the present ones with\n  {update_command}")
        except (OSError, ValueError) as error:
            fail(f"{path} holds no frozen beliefs: {error}; write the file again with\n  {update_command}")
        if any(differences := golden.differences(frozen, beliefs)):
            head, *lines = golden.report(differences, painted(config), all_of_it=config.get_verbosity() > 1)
            fail("\n".join([f"beliefs differ from {path.name}: {head}", *lines, f"if that is meant: {update_command}"]))

    def _freeze(self, path: Path, text: str) -> None:
        written = self._request.config.stash.setdefault(WRITTEN, {})
        if written.setdefault(path, text) != text:
            fail(f"{path.name} was frozen in this run already, with other beliefs: name another file")
        if not path.is_file() or path.read_bytes() != text.encode():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8", newline="\n")
            except OSError as error:
                fail(f"the beliefs cannot be frozen: {error}")
            self._request.node.user_properties.append((FROZEN, str(path)))


class GoldenLedger:
    """The fixture that opens ledgers made from exported logs, after a comparison of their beliefs with the frozen ones."""

    def __init__(
        self, request: pytest.FixtureRequest, check: GoldenBeliefs, clock: Clock, place: Path, opened: list[Ledger]
    ) -> None:
        self._request, self._check, self._clock, self._place, self._opened = request, check, clock, place, opened

    def __call__(self, log: str | Path) -> Ledger:
        """Replay an export into a fresh ledger, compare its beliefs with ``NAME.beliefs.json`` next to it, and return it.

        ``ledger_clock`` is set to the last event's time, and the options of the test's marker apply.

        Args:
            log: The path of a file that ``memory-ledger export-log`` wrote, from the test's own file.
        """
        from ledger import Ledger, LedgerError

        source, path = self._request.path.parent / log, self._place / f"golden-{len(self._opened) + 1}.db"
        if not source.is_file():
            fail(f"there is no log {source}; export the log of a real ledger with\n  memory-ledger export-log {log}")
        try:
            Ledger.import_log(source, path)
            opened = opened_for(self._request, path, self._clock, seed=source.name)
        except LedgerError as error:
            fail(f"{source} cannot be replayed: {str(error).replace(str(source), 'it')}")
        self._opened.append(opened)
        with source.open(encoding="utf-8") as lines:
            events = json.loads(next(lines))["events"]
        self._clock.set(opened.at(events).as_of)
        self._check(opened, source.with_suffix(".beliefs.json"))
        return opened


WRITTEN = pytest.StashKey[dict[Path, str]]()


def fail(message: str) -> NoReturn:
    raise pytest.fail.Exception(message, pytrace=False) from None  # shows neither our stack nor the cause


def fixed(seed: str) -> Callable[[int], bytes]:
    """Return a source of bytes for a ledger, the same for a seed on every machine and in every version of Python."""
    from hashlib import shake_256

    numbers = count()
    return lambda size: shake_256(f"{seed} {next(numbers)}".encode()).digest(size)


def opened_for(request: pytest.FixtureRequest, path: Path, clock: Clock, *, seed: str) -> Ledger:
    """Return a ledger with the options of the test's markers, where the nearest marker wins."""
    from ledger import Ledger, LedgerError

    options: dict[str, object] = {}
    for mark in reversed([*request.node.iter_markers("ledger")]):
        options |= mark.kwargs
        if mark.args:
            fail("@pytest.mark.ledger takes options by name, like user='ada'")
    allowed = signature(Ledger.open).parameters.keys() - {"path"}
    if unknown := options.keys() - allowed:
        fail(f"@pytest.mark.ledger has no option {sorted(unknown)[0]!r}; it has {', '.join(sorted(allowed))}")
    try:
        return Ledger.open(path, **{"clock": clock, "random": fixed(seed)} | options)  # type: ignore[arg-type]
    except LedgerError as error:
        fail(f"the ledger of this test does not open: {error}")


def painted(config: pytest.Config) -> Callable[[str, str], str]:
    """Return a function that colors a text if pytest writes in color."""
    terminal = config.get_terminal_writer()
    return lambda text, color: terminal.markup(text, **{color: True})


# --- fixtures --------------------------------------------------------------------------------------------------------


@pytest.fixture
def ledger_clock() -> Clock:
    """Return the clock of the test's ledgers, which stands at 2026-01-01 12:00 UTC until the test moves it."""
    return Clock()


@pytest.fixture
def ledger(request: pytest.FixtureRequest, tmp_path: Path, ledger_clock: Clock) -> Iterator[Ledger]:
    """Yield a fresh ledger in ``tmp_path``, with the same times and ids in every run and the options of the test's marker."""
    with opened_for(request, tmp_path / "memory.db", ledger_clock, seed="ledger") as opened:
        yield opened


@pytest.fixture
def golden_beliefs(request: pytest.FixtureRequest, ledger_clock: Clock) -> GoldenBeliefs:
    """Return ``golden_beliefs(ledger, "file.beliefs.json")``, which compares a ledger's beliefs with the frozen ones."""
    return GoldenBeliefs(request, ledger_clock)


@pytest.fixture
def golden_ledger(
    request: pytest.FixtureRequest, tmp_path: Path, ledger_clock: Clock, golden_beliefs: GoldenBeliefs
) -> Iterator[GoldenLedger]:
    """Yield ``golden_ledger("day.jsonl")``, which replays an exported log, checks its beliefs and returns the ledger."""
    opened: list[Ledger] = []
    yield GoldenLedger(request, golden_beliefs, ledger_clock, tmp_path, opened)
    for opened_ledger in opened:
        opened_ledger.close()


# --- pytest's hooks --------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("memory-ledger")
    group.addoption(UPDATE, action="store_true", help="freeze the present beliefs of golden ledgers")


def pytest_configure(config: pytest.Config) -> None:
    line = "ledger(**options): of Ledger.open, for the fixtures ledger and golden_ledger, like user='ada'"
    config.addinivalue_line("markers", line)


def pytest_assertrepr_compare(config: pytest.Config, op: str, left: object, right: object) -> list[str] | None:
    if op != "==" or "ledger.answers" not in sys.modules:
        return None
    from ledger.doors import golden

    return golden.compared(left, right, painted(config), all_of_it=config.get_verbosity() > 1)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption(UPDATE):
        return
    reports = (report for group in terminalreporter.stats.values() for report in group)
    frozen_files = {
        str(value) for report in reports for name, value in getattr(report, "user_properties", ()) if name == FROZEN
    }
    terminalreporter.section("frozen beliefs")
    terminalreporter.write_line("\n".join(sorted(frozen_files)) or "no file changed")
