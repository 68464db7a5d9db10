"""Where things are, so that a test need not know how deep it lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
GOLDEN = TESTS / "golden"
QUICK = "/dev/shm" if os.path.isdir("/dev/shm") else None  # for what is not asked of durability


def log_of(name: str) -> Path:
    """A log that was released, by its format and what it tells of."""
    return GOLDEN / f"log_format_{name}.jsonl"


def move_home(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The home directory of this process and of those that it starts, by the names of POSIX and of Windows."""
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(folder))
