"""Acts on many events: one append however large, refused above a limit, and a whole user erased in complete steps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import probe
import pytest
from conftest import folded_from_zero
from counting import steps
from places import ROOT

from ledger import Ledger, RejectedError
from ledger.core import steps as command_steps
from ledger.core.reads import read_event
from ledger.erasure import completing, erasing
from ledger.types import EVERYTHING, SessionName
from ledger.undo.in_effect import Reader
from ledger.undo.origin_plan import OriginPlan
from ledger.undo.undo_plan import UndoPlan

RARE = "The heron keeps the brass key of the harbour office."
Act = Callable[..., Any]
ACTS: dict[str, Act] = {
    "undo": lambda ledger, **how: ledger.history.undo_all(command="remember", **how),
    "redo": lambda ledger, **how: ledger.redo(last_act(ledger, "CommandUndone"), **how),
    "distrust": lambda ledger, **how: ledger.history.distrust("eve", kind="actor", **how),
    "trust": lambda ledger, **how: ledger.history.trust("eve", kind="actor", **how),
    "withdraw_source": lambda ledger, **how: ledger.observations.withdraw((ledger.memories.list()[-1].id,), **how),
    "erase": lambda ledger, **how: ledger.erase(SessionName("monday"), **how),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger.open(path, actor="ann") as opened:
        yield opened
        assert opened.proof.digest() == folded_from_zero(opened)
        assert opened.proof.verify().ok


def last_act(ledger: Ledger, type_: str) -> str:
    return ledger.history.audit(type=type_, limit=1)[0].command_id


def facts(ledger: Ledger, count: int, **by: Any) -> None:
    with ledger.batch():
        for number in range(count):
            ledger.remember(f"Fact number {number}.", idempotency_key=f"key {number}", **by)


def prepared(ledger: Ledger, act: str) -> None:
    """A ledger in which ``act`` concerns some more than four events."""
    facts(ledger.bind(actor="eve"), 6, session="monday")
    if act == "withdraw_source":
        for number in range(6):
            ledger.observations.add(f"Many facts, in words of kind {number}.", (ledger.memories.list()[-1].id,))
    elif act == "redo":
        ledger.history.undo_all(command="remember")
    elif act == "trust":
        ledger.history.distrust("eve", kind="actor")


def commits(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The position at the end of each commit that wrote events, from here on."""
    found: list[int] = []
    writing, commit = probe.writing(ledger), probe.writing(ledger).commit

    def counted() -> None:
        before = writing.position
        commit()
        if writing.position != before:
            found.append(writing.position)

    monkeypatch.setattr(writing, "commit", counted)
    return found


# --- one append ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_undo_of_very_many_events_is_one_append(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger.open(path) as ledger:
        facts(ledger, 3_000)
        found = commits(ledger, monkeypatch)
        assert ledger.history.undo_all(command="remember").events == 3_000
        assert len(found) == 1 and ledger.memories.list() == []
        assert ledger.proof.digest() == folded_from_zero(ledger)


def test_a_long_list_is_spread_over_events_of_the_same_append(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_steps, "LIST_ITEMS", 4)
    for number in range(20):  # every second one, so that each is a range of its own
        ledger.bind(actor="eve" if number % 2 else "ann").remember(f"Fact number {number}.")
    found = commits(ledger, monkeypatch)
    report = ledger.history.distrust("eve", kind="actor")
    entries = ledger.history.audit(limit=3)
    assert report.events == 10 and len(found) == 1
    assert {(each.type, each.command_id) for each in entries} == {("OriginDistrusted", report.command_id)}
    with probe.store(ledger).snapshot() as connection:
        events = [read_event(connection, each.position) for each in reversed(entries)]
    assert [len(event.data.ranges) for event in events if event is not None] == [4, 4, 2]
    ledger.history.trust("eve", kind="actor")
    assert len(found) == 2 and len(ledger.memories.list()) == 20 and ledger.history.distrusted() == []


def test_a_plan_reads_no_table_of_subjects_through(ledger: Ledger) -> None:
    for number in range(4):
        turn = ledger.bind(actor="eve").capture(f"Question {number}?", "An answer.")
        fact = ledger.bind(actor="eve").remember(f"Fact number {number}.", sources=(turn.id,))
        ledger.bind(actor="eve").observations.add(f"A fact in words of kind {number}.", (fact.id,))
    asked: list[str] = []
    with probe.store(ledger).snapshot() as connection:
        connection.set_trace_callback(asked.append)
        try:
            plan = OriginPlan(Reader(connection), [each.position for each in ledger.history.audit(actor="eve")])
        finally:
            connection.set_trace_callback(None)
        found = [row[3] for sql in set(asked) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
    assert len(plan.gone) == 12
    assert [each for each in found if each.split()[:2] in [["SCAN", "memories"], ["SCAN", "observations"]]] == []


def test_a_plan_asks_few_questions_of_each_event(ledger: Ledger) -> None:
    def questions(count: int) -> int:
        asked: list[str] = []
        with probe.store(ledger).snapshot() as connection:
            positions = [each.position for each in ledger.history.audit(actor="eve")][:count]
            connection.set_trace_callback(asked.append)
            try:
                UndoPlan(Reader(connection), positions)
            finally:
                connection.set_trace_callback(None)
        return len(asked)

    facts(ledger.bind(actor="eve"), 40)
    assert questions(40) - questions(20) <= 15 * 20


@pytest.mark.slow
def test_a_trust_that_takes_much_along_takes_steps_in_proportion(path: Path) -> None:
    def trusted(count: int) -> int:
        with Ledger.open(path.with_name(f"{count}.db"), actor="ann") as ledger:
            facts(ledger, count)
            ledger.bind(actor="eve").history.undo_all(command="remember")
            ledger.history.distrust("eve", kind="actor")
            with ledger.batch():
                for each in ledger.memories.list(limit=1_000):
                    ledger.revise(each.id, f"{each.content} It is so.")
            return steps(lambda: ledger.history.trust("eve", kind="actor", cascade=True, dry_run=True))

    assert trusted(80) < 2.5 * trusted(40)


@pytest.mark.parametrize("act", ACTS)
def test_an_act_is_one_append_and_so_it_is_in_a_batch(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    prepared(ledger, act)
    found, before = commits(ledger, monkeypatch), ledger.position
    if act == "erase":  # and another one for its completion, for the files are not part of the log
        ACTS[act](ledger)
        assert len(found) == 2 and ledger.history.audit(limit=1)[0].type == "ErasureCompleted"
        return
    with ledger.batch():
        ACTS[act](ledger)
        ledger.remember("The jar is blue.")
    assert len(found) == 1 and ledger.position > before + 1


KILLED = """
import os, sys
from ledger import Ledger
from ledger.log.writing import Writing
with Ledger.open(sys.argv[1], actor="ann") as ledger:
    Writing.commit = lambda writing: os._exit(9)
    ledger.history.undo_all(command="remember")
"""


@pytest.mark.slow
def test_an_act_that_is_killed_leaves_nothing(path: Path) -> None:
    with Ledger.open(path) as ledger:
        facts(ledger, 30)
        before = ledger.position, ledger.proof.digest()
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=ROOT).returncode == 9
    with Ledger.open(path) as ledger:
        assert (ledger.position, ledger.proof.digest()) == before and len(ledger.memories.list()) == 30


# --- the limit -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ACTS)
def test_above_the_limit_an_act_is_refused_unless_it_is_exclusive(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    prepared(ledger, act)
    monkeypatch.setattr(command_steps, "MOST_EVENTS", 4)
    before = {each.id: each.status for each in ledger.memories.list(statuses=())}
    with pytest.raises(RejectedError, match=r"more than 4 .*exclusive=True") as refused:
        ACTS[act](ledger)
    assert (refused.value.rule, refused.value.limit) == ("size", 4)
    assert (refused.value.requested or 0) > 4
    assert {each.id: each.status for each in ledger.memories.list(statuses=())} == before
    assert ledger.history.audit(limit=1)[0].type == "WriteRefused"
    ACTS[act](ledger, exclusive=True)
    assert {each.type for each in ledger.history.audit(limit=2)} != {"WriteRefused"}


def test_a_command_exactly_at_the_limit_is_accepted(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    facts(ledger, 5)
    monkeypatch.setattr(command_steps, "MOST_EVENTS", 5)
    assert ledger.history.undo_all(command="remember").events == 5
    assert ledger.undo(last_act(ledger, "CommandUndone"), dry_run=True).events == 5
    monkeypatch.setattr(command_steps, "MOST_EVENTS", 4)
    assert ledger.undo(last_act(ledger, "CommandUndone"), dry_run=True).events == 5, "a dry run lists whatever it is"


def test_a_source_is_refused_at_once_however_much_it_wrote(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    facts(ledger.bind(actor="eve"), 6)
    monkeypatch.setattr(command_steps, "MOST_EVENTS", 4)
    with pytest.raises(
        RejectedError, match=f"since={ledger.position + 1} only refuses what the origin writes from now on"
    ):
        ledger.history.distrust("eve", kind="actor")
    assert ledger.history.distrust("eve", kind="actor", since=ledger.position + 1).events == 0
    with pytest.raises(RejectedError, match="distrusted"):
        ledger.bind(actor="eve").remember("A lie told meanwhile.")
    assert len(ledger.memories.list()) == 6
    assert ledger.history.distrust("eve", kind="actor", exclusive=True).events == 6 and ledger.memories.list() == []
    ledger.history.trust("eve", kind="actor", exclusive=True)
    assert ledger.history.distrusted() == [] and len(ledger.memories.list()) == 6
    ledger.bind(actor="eve").remember("The jar is blue.")


def test_a_restore_of_a_source_above_the_limit_names_the_undo_that_does_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(ledger, "withdraw_source")
    source = ledger.memories.list()[-1].id
    withdrawn = ledger.observations.withdraw((source,))
    monkeypatch.setattr(command_steps, "MOST_EVENTS", 4)
    with pytest.raises(RejectedError, match="undo the withdrawal of the source with exclusive=True"):
        ledger.restore(source)
    ledger.undo(withdrawn.command_id, exclusive=True)
    assert len(ledger.observations.list(freshness="fresh")) == 6


# --- a whole user ----------------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "USER_EVENTS", 3)


@pytest.mark.slow
@pytest.mark.parametrize("user", ["ada", ""])
def test_a_whole_user_goes_in_complete_erasures(ledger: Ledger, small: None, user: str) -> None:
    facts(ledger.bind(user=user), 8)
    ledger.bind(user="ben").remember("Theirs.")
    report = ledger.bind(user=user).erase(EVERYTHING, reason="asked for")
    done = [*report.earlier, report]
    assert [each.state for each in done] == ["completed"] * len(done)
    assert [len(each.erased) for each in done] == ([3, 3, 2] if user else [3, 3, 3]), "the first event is nobody's"
    assert {each.content for each in ledger.bind(user=user).memories.list(statuses=())} <= {None}
    assert len(ledger.bind(user="ben").memories.list()) == 1
    assert tuple(each.certificate for each in done) == ledger.erasures.certificates()
    if user:
        with pytest.raises(RejectedError, match="nothing is left"):
            ledger.bind(user=user).erase(EVERYTHING)


ERASING = """
import os, sys
from ledger import Ledger
from ledger.erasure import completing, erasing
from ledger.types import EVERYTHING
erasing.USER_EVENTS, left, complete = 3, [int(sys.argv[2])], completing._complete
def few(*given):
    if not left[0]:
        os._exit(9)
    left[0] -= 1
    return complete(*given)
completing._complete = few
Ledger.open(sys.argv[1], actor="ann", user="ada").erase(EVERYTHING)
"""


@pytest.mark.slow
@pytest.mark.parametrize("whole", [0, 2])
def test_the_erasure_of_a_user_goes_on_where_it_was_killed(path: Path, small: None, whole: int) -> None:
    with Ledger.open(path) as ledger:
        facts(ledger.bind(user="ada"), 8)
    assert subprocess.run([sys.executable, "-c", ERASING, str(path), str(whole)], cwd=ROOT).returncode == 9
    with Ledger.open(path) as ledger:
        assert [each.state for each in ledger.erasures.list()] == ["completed"] * (whole + 1), (
            "the open purges the files"
        )
        gone = 3 * (whole + 1)
        assert len(ledger.bind(user="ada").memories.list()) == max(8 - gone, 0), "what is not erased yet is as it was"
        ledger.bind(user="ada").remember("Written in between.")
        report = ledger.bind(user="ada").erase(EVERYTHING)
        assert [len(each.erased) for each in (*report.earlier, report)] == ([3, 3] if whole == 0 else [1])
        assert ledger.bind(user="ada").memories.list(statuses=()) == []
        assert ledger.proof.digest() == folded_from_zero(ledger)
        assert ledger.proof.verify().ok


@pytest.mark.slow
def test_what_a_user_writes_while_all_is_erased_goes_too(
    ledger: Ledger, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts(ledger.bind(user="ada"), 8)
    writing = iter(["Written in between."])
    complete = completing._complete

    def completed(*given: Any) -> Any:
        for text in writing:
            ledger.bind(user="ada").remember(text)
        return complete(*given)

    monkeypatch.setattr(completing, "_complete", completed)
    report = ledger.bind(user="ada").erase(EVERYTHING)
    assert [len(each.erased) for each in (*report.earlier, report)] == [3, 3, 3]
    assert ledger.bind(user="ada").memories.list() == []


@pytest.mark.parametrize("what", ["hold", "reason"])
def test_what_stands_in_the_way_of_one_erasure_of_a_user_stops_all(ledger: Ledger, small: None, what: str) -> None:
    facts(ledger.bind(user="ada"), 8)
    last = ledger.bind(user="ada").remember(RARE)
    if what == "hold":
        ledger.bind(user="ada").holds.add(last.id)
    with pytest.raises(RejectedError, match="nothing was erased"):
        ledger.bind(user="ada").erase(EVERYTHING, reason=RARE if what == "reason" else "")
    assert ledger.erasures.list() == [] and len(ledger.bind(user="ada").memories.list()) == 9
