"""Projections of one's own while several processes write, and some of them are killed."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress

import needs
import pytest
from own import BOTH, Day, Seen, listed
from places import ROOT

from ledger import Ledger, LedgerError
from ledger.core import own as engine_own
from tools.pages.page_examples import blocks


def in_a_child(work):
    needs.fork()
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def writes(path, classes, seed, count=10_000):
    """Captures, reinforces and undoes until it is killed, or so many times."""
    draw = random.Random(seed)
    with Ledger.open(path, projections=classes, user=f"user{seed % 2}") as ledger:
        for number in range(count):
            with suppress(LedgerError):
                if number % 9 == 8:
                    ledger.undo(draw.randrange(2, ledger.position), cascade=True)
                elif number % 5 == 4:
                    with ledger.batch():
                        ledger.remember(f"Batch {number} of {seed}.")
                        ledger.remember(f"Another of batch {number} of {seed}.")
                else:
                    made = ledger.remember(f"Thing {number} of {seed}.")
                    ledger.reinforce(made.id)


def is_sound(path):
    with Ledger.open(path, projections=BOTH) as ledger:
        found = listed(ledger)
        assert found == listed(ledger.at(ledger.position))
        report = ledger.proof.verify()
        assert report.ok, report.problems
        assert {"counts", "turns"} <= {*report.projections}
        return found


@needs.signals
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_writers_with_and_without_the_class_are_killed_at_any_moment(tmp_path, seed):
    path, draw = str(tmp_path / "memory.db"), random.Random(seed)
    Ledger.open(path).close()
    for _ in range(3):
        classes = (BOTH, BOTH, ())
        children = [in_a_child(lambda n=n, each=each: writes(path, each, n)) for n, each in enumerate(classes)]
        time.sleep(draw.uniform(0.2, 0.7))
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        is_sound(path)


def of_the_page():
    """The two projections that the page builds."""
    first = next(iter(blocks((ROOT / "ledger" / "docs" / "projections.md").read_text(encoding="utf-8"))))
    names = {"__name__": "page"}
    exec(first.text, names)
    return names


@needs.signals
@pytest.mark.slow
def test_those_of_the_page_are_what_a_fold_from_zero_gives_though_their_writers_are_killed(tmp_path):
    path, page = str(tmp_path / "memory.db"), of_the_page()
    classes = (page["Counts"], page["Inbox"])
    Ledger.open(path).close()
    for _ in range(2):
        children = [in_a_child(lambda n=n, each=each: writes(path, each, n)) for n, each in enumerate((classes, ()))]
        time.sleep(0.7)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        with Ledger.open(path, projections=classes) as ledger:
            for row in (page["Day"], page["Waiting"]):
                live = list(ledger.projections.rows(row).all())
                assert live == list(ledger.at(ledger.position).projections.rows(row).all())
            assert ledger.proof.verify().ok
            active = [each for user in ("user0", "user1") for each in ledger.bind(user=user).memories.list().all()]
            assert {each.id for each in live} == {each.id for each in active if not each.reference_count}


@pytest.mark.slow
def test_two_processes_that_write_at_once_lose_and_count_nothing_twice(tmp_path):
    path = str(tmp_path / "memory.db")
    Ledger.open(path, projections=BOTH).close()
    children = [in_a_child(lambda n=n: writes(path, BOTH if n < 2 else (), n, 40)) for n in range(3)]
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    is_sound(path)


def test_a_refold_that_is_killed_between_any_two_batches_is_gone_on_with(tmp_path, monkeypatch):
    path = str(tmp_path / "memory.db")
    with Ledger.open(path, projections=BOTH) as ledger:
        for number in range(12):
            ledger.remember(f"The user owns thing number {number}.")
    monkeypatch.setattr(engine_own, "BATCH", 3)
    monkeypatch.setattr(engine_own, "TAIL", 2)
    step = engine_own.Own._step
    for moment in range(1, 12):

        def killed(path=path, left=moment):
            rest = [left]

            def counting(self, wanted, states):
                rest[0] -= 1
                if not rest[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                return step(self, wanted, states)

            engine_own.Own._step = counting
            with Ledger.open(path, projections=BOTH) as ledger:
                ledger.undo(ledger.position) if ledger.position % 2 else ledger.redo(ledger.position)

        os.waitpid(in_a_child(killed), 0)
        found = is_sound(path)
        assert len(found[Seen]) == found[Day][0].captured
