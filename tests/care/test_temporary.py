"""A temporary ledger: a private file that goes with the object."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import needs
import pytest

from ledger import Ledger, RejectedError


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_temporary_ledger_works_as_any_other() -> None:
    with Ledger.temporary(user="ada", actor="planner") as ledger:
        fact = ledger.remember("Ada likes tea.")
        assert ledger.recall("tea").memory_ids == (fact.id,)
        assert [each.actor for each in ledger.history.audit()] == ["planner"]
        assert ledger.bind(user="bob").recall("tea").items == ()
        assert ledger.at(ledger.position).memories.get(fact.id) == fact


@needs.modes
def test_its_file_is_private_and_its_own() -> None:
    with Ledger.temporary() as one, Ledger.temporary() as two:
        assert one.path != two.path and one.id != two.id
        assert (Path(one.path).parent.stat().st_mode & 0o777) == 0o700


def test_closing_it_removes_its_folder_once(place: Path) -> None:
    ledger = Ledger.temporary()
    ledger.remember("Ada likes tea.")
    assert len([*place.iterdir()]) == 1
    ledger.close()
    assert [*place.iterdir()] == []
    ledger.close()


def test_a_block_that_fails_leaves_no_file(place: Path) -> None:
    with pytest.raises(ZeroDivisionError), Ledger.temporary() as ledger:
        ledger.remember("Ada likes tea.")
        1 / 0  # noqa: B018
    assert [*place.iterdir()] == []


def test_what_cannot_be_opened_leaves_no_file(place: Path) -> None:
    with pytest.raises(RejectedError):
        Ledger.temporary(model=3)  # type: ignore[arg-type]
    assert [*place.iterdir()] == []


def test_the_last_reference_takes_the_folder_along(place: Path) -> None:
    memories = Ledger.temporary().bind(user="ada").memories  # it holds the file, not the ledger
    gc.collect()
    assert memories.list() == ()  # type: ignore[comparison-overlap]
    del memories
    gc.collect()
    assert [*place.iterdir()] == []


def test_the_end_of_the_process_takes_the_folder_along(place: Path) -> None:
    program = "from ledger import Ledger; kept = Ledger.temporary(); kept.remember('Ada likes tea.'); print(kept.path)"
    answer = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"TMPDIR": str(place)}, capture_output=True, text=True
    )
    assert answer.returncode == 0 and answer.stdout.startswith(str(place)), answer.stderr
    assert [*place.iterdir()] == []


@needs.forks
def test_a_forked_child_that_ends_leaves_the_file_to_its_parent(place: Path) -> None:
    program = (
        "import os, sys\nfrom ledger import Ledger\nkept = Ledger.temporary()\nkept.remember('Ada likes tea.')\n"
        "child = os.fork()\nif not child:\n    kept.close()\n    sys.exit(3)\n"
        "code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\nprint(code, len(kept.recall('tea').items))\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"TMPDIR": str(place)}, capture_output=True, text=True
    )
    assert answer.stdout == "3 1\n", answer.stderr
    assert [*place.iterdir()] == []
