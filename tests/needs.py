"""Marks of tests by what they need of a system, so that they are skipped where it is missing, whatever the system is."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from ledger.log import platform


def _makes_links() -> bool:
    with tempfile.TemporaryDirectory() as place:
        link = Path(place, "link")
        try:
            link.symlink_to(Path(place), target_is_directory=True)
            return link.is_symlink() and link.is_dir()
        except OSError:  # on Windows only some may make one
            return False


def _starts_scripts() -> bool:
    with tempfile.TemporaryDirectory() as place:
        script = Path(place, "script")
        script.write_text("#!/bin/sh\nexit 7\n", encoding="utf-8")
        script.chmod(0o755)
        try:
            return subprocess.run([script]).returncode == 7
        except OSError:
            return False


def _lists_open_files() -> bool:
    try:
        return bool(os.readlink("/proc/self/fd/0"))
    except OSError:
        return False


def _unless(there: bool, reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not there, reason=reason)


forks = _unless(hasattr(os, "fork"), "no process forks here")
modes = _unless(platform.HAS_MODES, "the mode and the owner of a file say nothing here")
open_files_that_move = _unless(platform.DELETES_OPEN_FILES, "no open file is deleted or renamed here")
named_pipes = _unless(hasattr(os, "mkfifo"), "no named pipes here")
signals = _unless(hasattr(signal, "SIGKILL"), "no signals as POSIX has them")
scripts = _unless(_starts_scripts(), "no script of a shell is started here")
links = _unless(_makes_links(), "no symbolic links here")
list_of_open_files = _unless(_lists_open_files(), "nothing lists the open files of a process here")
statvfs = _unless(hasattr(os, "statvfs"), "no statvfs here")
flock = _unless(importlib.util.find_spec("fcntl") is not None, "no flock here")
alarms = _unless(hasattr(signal, "setitimer"), "no alarm of processor time here")
process_groups = _unless(hasattr(os, "killpg"), "no process ends together with those that it started here")
copying = _unless(shutil.which("cp") is not None, "no cp here")


def fork() -> None:
    """Skip the test that called, in a helper of tests, where no process forks."""
    if not hasattr(os, "fork"):
        pytest.skip("no process forks here")


def sigkill() -> None:
    """Skip the test that called, in a helper of tests, where no process ends by a signal."""
    if not hasattr(signal, "SIGKILL"):
        pytest.skip("no signals as POSIX has them")


def media() -> None:
    """Skip the test that called, in a helper of tests, where a mode keeps nobody from writing."""
    if not platform.HAS_MODES:
        pytest.skip("the mode and the owner of a file say nothing here")
