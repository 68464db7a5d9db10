"""The checks of the doors: a download that fails is skipped, a check that fails is counted, and no check stops another."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import needs
import pytest
from places import ROOT

from tools.doors import __main__ as doors
from tools.doors import installing
from tools.doors.installing import InstallLimit, NotTried, install, run

OK = doors.DoorResult("ok", "3 tests")
SLEEPER = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"


def _downloads(program: str) -> doors.DoorResult:
    install(sys.executable, "-c", program, cwd=ROOT, what="half-a-package")
    return OK


def _raises(error: Exception) -> Callable[[], doors.DoorResult]:
    def check() -> doors.DoorResult:
        raise error

    return check


def _table(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    checks: dict[str, Callable[[], doors.DoorResult]],
    *words: str,
) -> tuple[int, dict[str, str]]:
    """Return the exit code, and the verdict with the note of each check."""
    monkeypatch.setattr(doors, "CHECKS", checks)
    monkeypatch.setattr(InstallLimit, "seconds", InstallLimit.seconds)  # set back at the end
    code = doors.main([*words])
    lines = [line.strip("| ").split(" | ", 1) for line in capsys.readouterr().out.splitlines()[2:]]
    return code, dict(line for line in lines if len(line) == 2)


def test_a_download_that_fails_is_skipped_with_its_reason_and_the_next_check_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = "import sys; sys.exit('ERROR: no such version of half-a-package\\n[notice] a new pip')"
    code, table = _table(monkeypatch, capsys, {"far": lambda: _downloads(program), "near": lambda: OK})
    assert code == 0
    assert table["far"].startswith(
        "skipped | pip cannot install half-a-package: ERROR: no such version of half-a-package ("
    )
    assert table["near"].startswith("ok | 3 tests (")


@needs.process_groups
def test_a_slow_download_is_skipped_and_leaves_time_to_the_next_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = {"slow": lambda: _downloads(SLEEPER), "near": lambda: OK}
    code, table = _table(monkeypatch, capsys, checks, "--minutes", "0.1")
    assert code == 0
    assert table["slow"].startswith("skipped | installing half-a-package took longer than 1 s (")
    assert table["near"].startswith("ok | ")


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (subprocess.TimeoutExpired("x", 240), "took longer than 240 s"),
        (ValueError("no | JSON\nat all"), "the check itself failed: ValueError: no \\| JSON at all"),
    ],
)
def test_a_check_that_ends_with_an_error_is_counted_as_failed_and_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, note: str
) -> None:
    code, table = _table(monkeypatch, capsys, {"bad": _raises(error), "near": lambda: OK})
    assert code == 1
    assert table["bad"].startswith(f"FAILED | {note} (") and table["near"].startswith("ok | ")


def test_when_the_minutes_are_over_the_rest_is_skipped_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, table = _table(monkeypatch, capsys, {"late": _raises(AssertionError("it ran"))}, "--minutes", "0")
    assert code == 0 and table["late"].startswith("skipped | the 0 minutes are over (")


def test_a_check_that_is_left_out_is_not_in_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, table = _table(monkeypatch, capsys, {"soak": lambda: OK, "near": lambda: OK}, "--without", "soak")
    assert list(table) == ["near"]
    with pytest.raises(SystemExit):
        doors.main(["--without", "sok"])
    assert "there is no check 'sok'" in capsys.readouterr().err


def test_continuous_integration_runs_every_check_but_the_soak() -> None:
    (line,) = [
        line for line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines() if "tools/dev.py doors" in line
    ]
    assert shlex.split(line)[3:] == ["--minutes", "10", "--without", "soak"]


def test_conftest_loads_where_another_package_is_called_tools_as_in_the_environment_of_hermes() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r}); sys.modules['tools'] = None\n"
        "import conftest; print(conftest.__name__)"
    )
    done = run(sys.executable, "-c", program, cwd=ROOT)
    assert done.stdout == "conftest\n", done.stderr


@needs.process_groups
def test_a_command_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    child = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {f'import os, time; {child}'!r}])"
    with pytest.raises(subprocess.TimeoutExpired):
        run(sys.executable, "-c", program, cwd=tmp_path, seconds=2)
    pid = int((tmp_path / "pid").read_text(encoding="utf-8"))
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if (
            Path(f"/proc/{pid}/stat").exists()
            and Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split()[2] == "Z"
        ):
            return  # dead, and nobody has waited for it
        time.sleep(0.05)
    pytest.fail("the child still runs")


def test_a_folder_that_was_not_finished_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "PLACE", tmp_path)
    commands: list[tuple[object, ...]] = []

    def pretend(*command: str | Path, cwd: Path, what: str) -> None:
        commands.append(command)
        (tmp_path / "one==1" / "one").mkdir(parents=True)
        (tmp_path / "one==1" / "one" / "check.py").touch()
        if len(commands) == 1:
            raise NotTried("the network went away")

    monkeypatch.setattr(installing, "install", pretend)
    with pytest.raises(NotTried):
        installing.wheel("one==1", "one/check.py")
    for _ in range(2):
        assert installing.wheel("one==1", "one/check.py").exists()
    assert len(commands) == 2
