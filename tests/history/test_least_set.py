"""An undo and a distrust take out the least set of events: what has no reason to stay, whatever it is looked at first."""

from __future__ import annotations

import random
import tempfile
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import Clock, folded_from_zero
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from least_set import ACTORS, VERBS, Hand, Log, Step, rows_of

from ledger import Ledger, LedgerError
from ledger.undo.closure import Closure

step = st.tuples(st.sampled_from(ACTORS), st.sampled_from(VERBS), st.integers(0, 9), st.integers(0, 9))
MOST = 11  # events that are tried with every set of them
FITS_AGAIN = [  # a merge falls with one of its members: what was said of the other fits without it
    *(("eve", "capture", 0, 0), ("ann", "remember", 0, 0), ("ann", "cite", 1, 0), ("bob", "merge", 0, 1)),
    *(("eve", "restore", 0, 0), ("ann", "relate", 0, 0)),
]
COPIED = [
    *(("ann", "remember", 0, 0), ("ann", "remember", 1, 0), ("eve", "relate", 0, 0), ("bob", "merge", 0, 1)),
    *(("bob", "remember", 2, 0), ("bob", "merge", 2, 3)),
]


def played(ledger: Ledger, steps: Iterable[Step]) -> None:
    hand = Hand(ledger)
    for each in steps:
        with suppress(LedgerError):
            hand.do(each)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["distrust", "undo"])
@given(steps=st.lists(step, min_size=3, max_size=12), which=st.integers(0, 20))
@example(steps=FITS_AGAIN, which=0)
@example(steps=COPIED, which=2)
@settings(deadline=None)
def test_an_undo_takes_the_least_set_that_follows_from_the_log(how: str, steps: list[Step], which: int) -> None:
    with tempfile.TemporaryDirectory() as folder, Ledger.open(Path(folder, "memory.db"), clock=Clock()) as ledger:
        played(ledger, steps)
        rows = rows_of(ledger)
        log = Log(rows, whole=how == "undo")
        assume(log.rows)
        named = log.rows[which % len(log.rows)]
        if how == "undo":
            seeds = frozenset(row.position for row in log.commands[named.command])
        else:
            seeds = frozenset(row.position for row in log.rows if row.actor == "eve")
        assume(len(log.rows) - len(seeds) <= MOST)
        _ = (
            ledger.history.distrust("eve", kind="actor")
            if how == "distrust"
            else ledger.undo(named.position, cascade=True)
        )
        out = frozenset(entry.position for entry in ledger.history.audit(limit=1_000) if not entry.in_effect)
        assert [out] == list(log.least(seeds))
        assert ledger.proof.digest() == folded_from_zero(ledger)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["distrust", "undo"])
@given(steps=st.lists(step, min_size=3, max_size=30), which=st.integers(0, 20), order=st.integers(0, 9))
@example(steps=FITS_AGAIN, which=0, order=0)
@settings(deadline=None)
def test_the_set_that_an_undo_takes_does_not_depend_on_the_order_of_the_search(
    how: str, steps: list[Step], which: int, order: int
) -> None:
    def lists(ledger: Ledger) -> object:
        if how == "distrust":
            return ledger.history.distrust("eve", kind="actor", dry_run=True)
        return ledger.undo(2 + which % (ledger.position - 1), dry_run=True)

    with tempfile.TemporaryDirectory() as folder, Ledger.open(Path(folder, "memory.db"), clock=Clock()) as ledger:
        played(ledger, steps)
        assume(ledger.position > 1)
        chance, enqueue = random.Random(order), Closure._enqueue

        def shuffled(self: Closure, streams: Iterable[str]) -> None:
            enqueue(self, streams)
            waiting = list(self._queue)
            chance.shuffle(waiting)
            self._queue = OrderedDict.fromkeys(waiting)

        with suppress(LedgerError):
            listed = lists(ledger)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Closure, "_enqueue", shuffled)
                assert lists(ledger) == listed
