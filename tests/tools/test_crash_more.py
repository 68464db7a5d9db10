"""What the second half of the crash harness judges by; its short form, which ``dev.py test`` runs, tries the product."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis.stateful import RuleBasedStateMachine, rule
from places import ROOT

from ledger import Ledger, RejectedError
from tools.crash import __main__ as harness
from tools.crash import bits, concurrency, erasure, fuzz, malice, model

# --- bits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [("--part", "3/2", "bits"), ("--part", "0/2", "bits"), ("--part", "half", "bits"), ("--part", "1/2", "kills")],
)
def test_only_flipped_bits_are_done_in_parts_of_all(wrong: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        harness.main(list(wrong))
    assert "part" in capsys.readouterr().err


@pytest.mark.slow
def test_the_parts_together_are_all_flips(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bits.Flip] = []

    def seen(image: Path, outside: str, flips: list[bits.Flip]) -> tuple[list[bits.Seen], list[str]]:
        tried.extend(flips)
        return [], []

    monkeypatch.setattr(bits, "in_processes", seen)
    monkeypatch.setattr(bits, "opened_for_writing", lambda image, choose, flips: ("", []))
    monkeypatch.setattr(bits, "every", lambda image, choose: [bits.Flip("", byte, 1) for byte in range(10)])
    for number in (1, 2, 3):
        harness.run("bits", "tools.crash.bits", False, 1, (number, 3))
    assert sorted(flip.byte for flip in tried) == list(range(10))


@pytest.mark.slow
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


# --- malice ----------------------------------------------------------------------------------------------------------


def test_an_attack_that_nobody_finds_is_a_failure() -> None:
    attack = malice.Attack("an attack", lambda site: None)
    assert len(list(malice.judged(attack, "", ""))) == 2
    assert len(list(malice.judged(malice.Attack("an attack", lambda site: None, hidden=True), "found", "found"))) == 1
    assert list(malice.judged(attack, "found", "found")) == []


# --- concurrency -----------------------------------------------------------------------------------------------------


def test_gaps_and_twins_are_seen() -> None:
    assert concurrency.gaps([1, 2, 3]) == []
    assert concurrency.gaps([1, 3]) and concurrency.gaps([1, 2, 2]) and concurrency.gaps([2])
    row = (1, "m_", 1, "MemoryCaptured", '{"data": {"content": "tea"}}')
    assert concurrency.twice([row]) == [] and concurrency.twice([row, row])


# --- fuzz ------------------------------------------------------------------------------------------------------------


def test_the_own_mutations_come_from_the_seed() -> None:
    corpus = list(fuzz.LINES)
    first, second = (fuzz.mutated(corpus[0], corpus, random.Random(3)) for _ in range(2))
    assert first == second != corpus[0]


# --- erasure ---------------------------------------------------------------------------------------------------------


def test_a_word_is_found_in_every_form_in_which_it_could_lie_about() -> None:
    assert erasure.controls() == []


def test_a_word_that_nobody_erased_is_found(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        erasure.begun(ledger, erasure.SCENES[0], erasure.word_of(5, 6))
    assert erasure.hits(tmp_path, erasure.word_of(5, 6)) and erasure.hits(tmp_path, erasure.KEPT)
    assert erasure.hits(tmp_path, erasure.word_of(5, 7)) == []


# --- the house -------------------------------------------------------------------------------------------------------


def test_the_harness_starts_without_a_python_path() -> None:
    command = [sys.executable, "-E", "tools/crash", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "--long" in done.stdout, done.stderr


# --- model -----------------------------------------------------------------------------------------------------------


def test_a_refusal_that_did_not_come_is_told_with_its_seed_and_steps() -> None:
    class Unrefused(RuleBasedStateMachine):
        @rule()
        def step(self) -> None:
            with pytest.raises(RejectedError):
                pass

    told = model.one_go(Unrefused, 5, 3, shrink=False)
    assert told.startswith("seed 5:") and "DID NOT RAISE" in told and "state.step()" in told
