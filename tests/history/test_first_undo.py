"""The first undo of a process: what it does not have to work out again, and what it does not have to load."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from places import ROOT

PROGRAM = """
import json, sys
from collections import Counter
from ledger import Ledger

with Ledger.open(sys.argv[1], user="ada") as ledger:
    ledger.remember("The user drinks green tea.")
    position = ledger.position
    calls = Counter()

    def count(frame, event, argument):
        if event == "call" and frame.f_globals.get("__name__") == "ledger.log.registry":
            calls[frame.f_code.co_name] += 1

    sys.setprofile(count)
    ledger.undo(position)
    sys.setprofile(None)
    print(json.dumps([calls, sorted(sys.modules)]))
"""


def test_the_first_undo_reads_no_declaration_of_an_event_and_loads_no_english(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "memory.db")]
    calls, modules = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    assert calls["of"] > 0 and calls["id_fields"] > 0
    assert sum(calls.values()) < 150  # it was 1,790 with the traits and roles worked out in the undo
    assert calls.keys().isdisjoint({"_hints", "_ids_under", "_string_kind"})
    assert {"ledger.undo.undoing"} <= {*modules} and {"ledger.english.extractor"}.isdisjoint(modules)
