"""Sessions, whatever is done to them: no message is lost or shown twice, and every earlier moment reads as it was."""

from __future__ import annotations

import tempfile
from contextlib import suppress

import probe
import pytest
from absence import perhaps
from conftest import LONG, Clock, folded, folded_from_zero
from conversations import check_window, condensed, items, rewritten, summed, widened
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import QUICK
from prefixes import prefix, tables_of

from ledger import Ledger, LedgerError

SAMPLE = 40 if LONG else 5  # positions of one history that are compared
NAMES, ACTORS = ("one", "two"), ("", "", "", "ann", "bot")

ACTIONS = (
    *("append", "append", "append", "append", "append", "capture", "attach", "truncate", "clear", "replace"),
    *("compact", "compact", "compact", "compact", "condense", "condense", "condense", "widen", "rewrite", "rewrite"),
    *("invalidate", "invalidate", "restore", "restore", "set", "alias", "undo", "undo", "undo", "undo", "redo", "redo"),
    *("distrust", "distrust_session", "distrust_turn", "trust", "clock", "batch"),
)
actions = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 10_000)), min_size=6, max_size=60)


def runs(session, wanted):
    """The first and last numbers of runs of the window's items that are as wanted."""
    found, window = [], items(session)
    for first in range(len(window)):
        last = first
        while last < len(window) and wanted(window, first, last):
            found += [(first, last)] * (last > first)
            last += 1
    return found


def said(window, first, last):
    return not any(item.is_summary for item in window[first : last + 1])


def told(window, first, last):
    return all(item.is_summary for item in window[first : last + 1])


def mixed(window, first, last):
    return window[first].is_summary and said(window, first + 1, last)


def act(ledger, clock, action, number):
    """One command; a refusal is an answer too."""
    session, by = ledger.session(NAMES[number % 7 == 6]), {"actor": ACTORS[number % 5]}
    asked = session.bind(**by)
    known = session.summaries.list()
    some = known[number % len(known)].id if known else "y_0000000000000000"
    turns = ledger.interactions.list()
    turn = turns[number % len(turns)].id if turns else "i_0000000000000000"
    past = ledger.position - number % min(ledger.position, 40)
    undone = [each.position for each in ledger.history.audit(type="CommandUndone")] or [past]

    def write(make, wanted):
        found = runs(session, wanted)
        if found:
            make(session, *found[number % len(found)], **by)

    def replace():
        kept = [{"role": each.role, "content": each.content} for each in session.messages(limit=1_000)]
        asked.replace([*kept[: number % (len(kept) + 1)], {"role": "user", "content": f"Or {number}?"}])

    def batch():
        with ledger.batch():
            for each in range(3):
                asked.append("user", f"Quick {number} {each}")

    calls = {
        "append": lambda: asked.append(("user", "assistant")[number % 2], f"Word {number}.", token_count=number % 9),
        "capture": lambda: ledger.bind(**by).capture(
            f"Ask {number}?", "Yes." * (number % 2), session=session.name, append=True, reinforce=False
        ),
        "attach": lambda: ledger.bind(**by).interactions.add_response(turn, "Late."),
        "truncate": lambda: asked.truncate(number % 20),
        "clear": lambda: asked.clear() if number % 4 == 0 else None,
        "replace": replace,
        "compact": lambda: write(summed, said),
        "condense": lambda: write(condensed, told),
        "widen": lambda: write(widened, mixed),
        "rewrite": lambda: rewritten(session, some, **by) if standing_one(session, some) else None,
        "invalidate": lambda: asked.summaries.invalidate(some, subtree=number % 3 == 0),
        "restore": lambda: asked.summaries.restore(some),
        "set": lambda: asked.set_abstract(f"In short {number % 3}."),
        "alias": lambda: asked.add_alias(("two", "three", "four")[number % 3]),
        "undo": lambda: ledger.undo(past, cascade=True),
        "redo": lambda: ledger.redo(undone[number % len(undone)]),
        "distrust": lambda: ledger.history.distrust("ann", kind="actor", since=past),
        "distrust_session": lambda: ledger.history.distrust("two", kind="session"),
        "distrust_turn": lambda: ledger.history.distrust(turn),
        "trust": lambda: ledger.history.trust(("ann", "two")[number % 2], kind=("actor", "session")[number % 2]),
        "clock": lambda: clock.advance(hours=(-30, 1, 700)[number % 3]),
        "batch": batch,
    }
    with suppress(LedgerError):
        calls[action]()
    clock.advance(seconds=number % 3)


def standing_one(session, id):
    return any(each.id == id and each.status in ("window", "under") for each in session.summaries.list())


def answers_of(ledger):
    found = {"sessions": ledger.sessions.list()}
    for name in (*NAMES, "three", "four"):
        session = ledger.session(name)
        found[name] = [
            perhaps(session.info),
            session.messages(limit=1_000),
            session.messages(include_hidden=True, limit=1_000),
            session.summaries.list(),
        ]
        found[name] += [session.abstract, session.id, items(session)]
    return found


def compare(ledger, position):
    moment = ledger.at(position)
    with prefix(ledger, position, moment.as_of) as made:
        with probe.read(moment) as then, probe.read(made) as now:
            assert tables_of(then) == tables_of(now)
        assert answers_of(moment) == answers_of(made)


def erase(ledger, number):
    """One erasure of a message, a summary or a turn; whatever was written from it goes or stays as the number says."""
    session = ledger.session("one")
    subjects = [each.position for each in session.messages(include_hidden=True)] + [
        each.id for each in session.summaries.list()
    ]
    subjects += [each.id for each in ledger.interactions.list()]
    if not subjects:
        return
    choice = ("erase", "erase", "keep")[number % 3]
    kept = [each.id for each in session.summaries.list()[::-1]][: number % 4]
    for keep in (kept, ()):
        with suppress(LedgerError):
            ledger.erase(subjects[number % len(subjects)], derived=choice, sources="keep", quotes=choice, keep=keep)
            return


@pytest.mark.slow
@settings(deadline=None, max_examples=60 if LONG else 4, suppress_health_check=list(HealthCheck))
@given(actions, st.randoms(use_true_random=False))
def test_sessions_stay_consistent_after_erasures_in_any_order(done, chance) -> None:
    clock = Clock()
    with tempfile.TemporaryDirectory(dir=QUICK) as folder, Ledger.open(f"{folder}/memory.db", clock=clock) as ledger:
        for number in range(9):
            ledger.session("one").append("user", f"First {number} of them.", token_count=number)
        for number in (0, 1, 2):
            summed(ledger.session("one"), number, number + 1, f"Some {number} said it.")
        condensed(ledger.session("one"), 0, 1, "Two said it.")
        for place, (action, number) in enumerate(done):
            act(ledger, clock, action, number)
            if place % 12 == 3:
                erase(ledger, number)
            for name in NAMES:
                check_window(ledger, name)
        assert ledger.proof.digest() == folded_from_zero(ledger)
        for position in chance.sample(range(1, ledger.position + 1), SAMPLE):
            with probe.read(ledger.at(position)) as then, folded(ledger, position) as now:
                assert tables_of(then) == tables_of(now)


@pytest.mark.slow
@settings(deadline=None, max_examples=400 if LONG else 12, suppress_health_check=list(HealthCheck))
@given(actions, st.randoms(use_true_random=False))
def test_no_message_is_lost_or_shown_twice_and_every_moment_reads_as_it_was(done, chance) -> None:
    clock = Clock()
    with tempfile.TemporaryDirectory(dir=QUICK) as folder, Ledger.open(f"{folder}/memory.db", clock=clock) as ledger:
        for number in range(12):
            ledger.session("one").bind(actor=ACTORS[number % 5]).append("user", f"First {number}.", token_count=number)
        for action, number in done:
            act(ledger, clock, action, number)
            for name in NAMES:
                check_window(ledger, name)
        assert ledger.proof.digest() == folded_from_zero(ledger)
        assert not probe.writer(ledger).projector.suspended
        last = ledger.position
        for position in chance.sample(range(1, last + 1), min(SAMPLE, last)):
            compare(ledger, position)
