"""An import that is not alone, or is killed: what is in the ledger afterwards is each line of the file, once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import needs
import pytest
from places import ROOT
from soundness import assert_sound

from ledger import Ledger

IMPORTER = """
import os, signal, sys
from ledger import Ledger
from ledger.interactions import importing

importing.CHUNK = 10
with Ledger.open(sys.argv[1]) as ledger:
    print("ready", flush=True)
    sys.stdin.readline()
    die = lambda done, of: os.kill(os.getpid(), signal.SIGKILL) if sys.argv[3] == str(done) else None
    report = ledger.interactions.import_file(sys.argv[2], progress=die)
    print(report.captured, report.known, len(report.errors))
"""
LINES = 60  # of which two say the same, and one is bad


@pytest.fixture
def file(tmp_path: Path) -> Path:
    lines = [{"prompt": f"question {number}", "response": f"answer {number}"} for number in range(LINES)]
    lines[31:33] = [lines[7], {"prompt": 5}]
    path = tmp_path / "turns.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def importer(ledger: Path, file: Path, dies_after: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", IMPORTER, str(ledger), str(file), dies_after]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_two_processes_that_import_a_file_at_once_take_each_line_once(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    Ledger.open(path).close()
    both = [importer(path, file), importer(path, file)]
    for each in both:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    counts = [tuple(map(int, each.communicate(timeout=120)[0].split())) for each in both]
    assert [sum(each) for each in counts] == [LINES, LINES]
    assert sum(captured for captured, _, _ in counts) == LINES - 1
    assert {bad for _, _, bad in counts} == {1}
    with Ledger.open(path) as ledger:
        found = [each.prompt for each in ledger.interactions.list(limit=200)]
        assert (len(found), len(set(found))) == (LINES - 1, LINES - 2)
        assert_sound(ledger)


@needs.signals
def test_an_import_killed_between_two_commits_goes_on_with_the_same_call(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    killed = importer(path, file, dies_after="30")
    killed.communicate("go\n", timeout=120)
    assert killed.returncode == -9
    with Ledger.open(path) as ledger:
        report = ledger.interactions.import_file(file)
        assert (report.captured, report.known, len(report.errors)) == (LINES - 31, 30, 1)
        assert ledger.interactions.import_file(file).known == LINES - 1
        assert_sound(ledger)
