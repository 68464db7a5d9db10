"""The entrance for developers finds other Pythons: those that run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import needs
import pytest

from tools.dev import interpreter

pytestmark = needs.scripts
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
RUNS = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'


def put(file: Path, script: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(script, encoding="utf-8")
    file.chmod(0o755)
    return file


@pytest.fixture
def shims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the PATH with a Python that runs nothing."""
    folder = tmp_path / "manager" / "shims"
    put(folder / f"python{VERSION}", "#!/bin/sh\necho 'that version is not chosen' >&2\nexit 127\n")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{tmp_path / 'bin'}")
    return folder


def test_a_python_that_runs_is_taken_before_one_that_only_lies_there(tmp_path: Path, shims: Path) -> None:
    real = put(tmp_path / "bin" / f"python{VERSION}", RUNS)
    assert interpreter(VERSION) == str(real)


def test_what_lies_beside_the_shims_of_a_version_manager_is_found(shims: Path) -> None:
    real = put(shims.parent / "versions" / f"{VERSION}.99" / "bin" / f"python{VERSION}", RUNS)
    assert interpreter(VERSION) == str(real)


@pytest.mark.parametrize("version", [VERSION, "3.99"])
def test_where_there_is_none_it_says_so_and_ends_with_2(
    version: str, tmp_path: Path, shims: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "bin" / "python3.99", RUNS)  # says that it is another
    with pytest.raises(SystemExit) as ended:
        interpreter(version)
    assert ended.value.code == 2 and f"no Python {version}" in capsys.readouterr().err
