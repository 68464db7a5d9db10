"""The second half of the crash harness, in little: it finds nothing in the product, and everything that it must find."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # where the product is installed without its tools
    sys.path.insert(0, str(ROOT))

from ledger import Ledger  # noqa: E402
from tools.crash import __main__ as harness  # noqa: E402
from tools.crash import bits, concurrency, erasure, fuzz, malice, model  # noqa: E402
from tools.crash.shim import Unavailable, together  # noqa: E402

# --- bits ------------------------------------------------------------------------------------------------------------


def test_no_flipped_bit_of_the_log_changes_an_event_in_silence(tmp_path: Path) -> None:
    image = tmp_path / "memory.db"
    outside = bits.make(image)
    flips = random.Random(1).sample(list(bits.sampled(image, random.Random(1))), 120)
    found, failures = bits.in_processes(image, outside, flips)
    assert len(found) == 120 and failures == []
    assert [each.detail for each in found if each.verdict == "silent"] == []
    assert bits.controls(found) == []


@pytest.mark.parametrize(
    "wrong",
    [("--part", "3/2", "bits"), ("--part", "0/2", "bits"), ("--part", "half", "bits"), ("--part", "1/2", "kills")],
)
def test_only_flipped_bits_are_done_in_parts_of_all(wrong: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        harness.main(list(wrong))
    assert "part" in capsys.readouterr().err


def test_the_parts_together_are_all_flips(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bits.Flip] = []

    def seen(image: Path, outside: str, flips: list[bits.Flip]) -> tuple[list[bits.Seen], list[str]]:
        tried.extend(flips)
        return [], []

    monkeypatch.setattr(bits, "in_processes", seen)
    monkeypatch.setattr(bits, "every", lambda image, choose: [bits.Flip("", byte, 1) for byte in range(10)])
    for number in (1, 2, 3):
        harness.run("bits", "tools.crash.bits", False, 1, (number, 3))
    assert sorted(flip.byte for flip in tried) == list(range(10))


def test_a_sample_meets_every_page_and_every_frame(tmp_path: Path) -> None:
    image = tmp_path / "memory.db"
    bits.make(image)
    flips = list(bits.sampled(image, random.Random(1)))
    pages = {flip.byte // bits.PAGE for flip in flips if not flip.suffix}
    assert pages == set(range(image.stat().st_size // bits.PAGE))
    frames = {(flip.byte - bits.WAL_HEADER) // (bits.PAGE + bits.FRAME_HEADER) for flip in flips if flip.suffix}
    size = (tmp_path / "memory.db-wal").stat().st_size
    assert set(range((size - bits.WAL_HEADER) // (bits.PAGE + bits.FRAME_HEADER))) <= frames


SAID = bits.Told(((1, "a"), (2, "b")), (("x", b"text"),), "rows")


@pytest.mark.parametrize(
    ("now", "outside", "verdict"),
    [
        (SAID, [], "harmless"),
        (bits.Told(SAID.events[:1], SAID.blobs, "fewer"), ["found"], "cut"),
        (bits.Told(SAID.events[:1], SAID.blobs, "fewer"), [], "silent"),
        (bits.Told(((1, "a"), (2, "c")), SAID.blobs, "rows"), ["found"], "silent"),
        (bits.Told(SAID.events, (("x", b"other"),), "rows"), ["found"], "silent"),
        (bits.Told(SAID.events, SAID.blobs, "other"), ["found"], "silent"),
        (None, ["found"], "silent"),
    ],
)
def test_what_verifies_and_says_something_else_is_silent(now: bits.Told, outside: list[str], verdict: str) -> None:
    seen = bits.Seen("flagged")
    bits.judge(seen, now, SAID, lambda: outside)
    assert seen.verdict == verdict


def test_a_flipped_ledger_that_is_opened_for_writing_answers_rightly_or_says_so(tmp_path: Path) -> None:
    image = tmp_path / "memory.db"
    bits.make(image)
    note, failures = bits.opened_for_writing(image, random.Random(1), 16)
    assert failures == [] and note.startswith("opened for writing 16")


# --- malice ----------------------------------------------------------------------------------------------------------


def test_every_edit_is_found_at_the_latest_by_an_outside_checkpoint() -> None:
    result = malice.run(short=True, seed=1)
    assert result.failures == ()
    assert result.cases == len(malice.ATTACKS) >= 20


def test_an_attack_that_nobody_finds_is_a_failure() -> None:
    attack = malice.Attack("an attack", lambda site: None)
    assert len(list(malice.judged(attack, "", ""))) == 2
    assert len(list(malice.judged(malice.Attack("an attack", lambda site: None, hidden=True), "found", "found"))) == 1
    assert list(malice.judged(attack, "found", "found")) == []


# --- concurrency -----------------------------------------------------------------------------------------------------


def test_writers_readers_a_rebuild_and_a_checkpointer_get_along(tmp_path: Path) -> None:
    reports, wrong = concurrency.crowd(tmp_path, 1.5, 1)
    assert [error for report in reports for error in report.errors] == []
    assert wrong == []
    assert sorted({report.role for report in reports}) == ["checkpointer", "reader", "rebuild", "writer"]


def test_many_processes_begin_one_ledger(tmp_path: Path) -> None:
    reports, wrong = concurrency.cold_starts(tmp_path, 8)
    assert [error for report in reports for error in report.errors] == []
    assert wrong == []


def test_a_recorder_that_reads_before_it_locks_fails(tmp_path: Path) -> None:
    told, missing = concurrency.controls(tmp_path)
    assert missing == [], told


def test_gaps_and_twins_are_seen() -> None:
    assert concurrency.gaps([1, 2, 3]) == []
    assert concurrency.gaps([1, 3]) and concurrency.gaps([1, 2, 2]) and concurrency.gaps([2])
    row = (1, "m_", 1, "MemoryCaptured", '{"data": {"content": "tea"}}')
    assert concurrency.twice([row]) == [] and concurrency.twice([row, row])


# --- model -----------------------------------------------------------------------------------------------------------


def test_the_ledger_and_the_oracle_agree_for_some_hundred_steps() -> None:
    steps, examples, wrong = model.end(model.start(250, 7, 35, "", ""))
    assert wrong == ""
    assert steps >= 250 and examples > 1


@pytest.mark.parametrize("rule", model.WRONG)
def test_an_oracle_with_a_wrong_rule_is_noticed(rule: str) -> None:
    _, _, wrong = model.end(model.start(model.CONTROL_STEPS, 1, 35, "", rule))
    assert "AssertionError" in wrong


# --- fuzz ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_a_door_answers_or_refuses_whatever_it_is_given(tmp_path: Path, name: str) -> None:
    runs, error = fuzz.fuzzed(tmp_path, name, "own", 1, 1)
    assert error == ""
    assert runs >= 1, "how many in a second depends on what else the machine does"


def test_a_seeded_bug_is_found(tmp_path: Path) -> None:
    _, error = fuzz.fuzzed(tmp_path, fuzz.BUG, "own", 10, 1)
    assert fuzz.SEEDED in error


def test_the_own_mutations_come_from_the_seed() -> None:
    corpus = list(fuzz.LINES)
    first, second = (fuzz.mutated(corpus[0], corpus, random.Random(3)) for _ in range(2))
    assert first == second != corpus[0]


# --- erasure ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scene", erasure.SCENES, ids=lambda scene: scene.name.replace(" ", "-"))
def test_an_erased_word_is_in_no_file_and_in_no_backup_recovered_with_receipts(
    tmp_path: Path, scene: erasure.Scene
) -> None:
    wrong, files = erasure.played(scene, tmp_path, erasure.word_of(5, 5))
    assert wrong == []
    assert files >= 3


def test_a_word_is_found_in_every_form_in_which_it_could_lie_about() -> None:
    assert erasure.controls() == []


def test_a_word_that_nobody_erased_is_found(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        erasure.begun(ledger, erasure.SCENES[0], erasure.word_of(5, 6))
    assert erasure.hits(tmp_path, erasure.word_of(5, 6)) and erasure.hits(tmp_path, erasure.KEPT)
    assert erasure.hits(tmp_path, erasure.word_of(5, 7)) == []


def test_an_erasure_that_is_killed_completes_when_the_ledger_is_opened() -> None:
    share = {"seed": 1, "number": 0, "of": 1, "every": 97}
    try:
        (told,) = together("tools.crash.erasure:work", [share])
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert told["failures"] == []
    assert 0 < told["begun"] < told["kills"]


# --- the house -------------------------------------------------------------------------------------------------------


def test_the_harness_starts_without_a_python_path() -> None:
    command = [sys.executable, "-E", "tools/crash", "--short", "malice", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert '"name": "malice"' in done.stdout, done.stderr
