"""Paths of the repository, so that a test need not know how deep it lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
GOLDEN = TESTS / "golden"
QUICK = "/dev/shm" if os.path.isdir("/dev/shm") else None  # for what is not asked of durability


def log_of(name: str) -> Path:
    """Return the path of a released log, named by its format and its subject, such as ``1_conversations``."""
    return GOLDEN / f"log_format_{name}.jsonl"


def move_home(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Set the home directory of this process and of its children, by the variables of POSIX and of Windows."""
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(folder))
