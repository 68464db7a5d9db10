"""Since when something is so: the command after which a condition holds, in as many reads as halving takes."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path

import pytest
from command_line import run
from hypothesis import given, settings
from hypothesis import strategies as st
from places import QUICK

from ledger import Ledger, NotFoundError, PastLedger, RejectedError


@pytest.fixture
def ledger(tmp_path: Path):
    with Ledger.open(tmp_path / "memory.db", actor="ann") as opened:
        yield opened


def contents(past: PastLedger) -> set[str | None]:
    return {each.content for each in past.memories.list().all()}


def test_the_command_since_which_it_is_believed_is_named_and_explained(ledger: Ledger) -> None:
    for number in range(10):
        ledger.remember(f"Fact {number}.")
    turn = ledger.capture("Where?", "In Rome.")
    found = ledger.bind(actor="crawler").remember("The user lives in Rome.", sources=[turn.id])
    for number in range(10, 20):
        ledger.remember(f"Fact {number}.")
    answer = ledger.history.bisect(lambda past: "The user lives in Rome." in contents(past))
    assert (answer.position, answer.before, answer.holds) == (found.position, found.position - 1, True)
    assert answer.reads <= math.ceil(math.log2(answer.commands)) + 2
    assert answer.explanation.position == found.position and "crawler called remember" in answer.text
    assert [each.type for each in answer.explanation.events] == ["MemoryCaptured"]
    asked = [(found.position, None), (None, found.position - 1)]
    for good, bad in asked:
        with pytest.raises(
            RejectedError, match=r"no change to find: the condition (holds|does not hold) both at position"
        ):
            ledger.history.bisect(lambda past: "The user lives in Rome." in contents(past), good=good, bad=bad)


def test_bisect_finds_an_ending_too_and_never_splits_a_command(ledger: Ledger) -> None:
    rome = ledger.remember("The user lives in Rome.")
    start = ledger.position
    ledger.remember("The user likes tea.")
    ledger.supersede(rome.id, "The user lives in Porto.")
    end = ledger.position
    ledger.remember("The user has a cat.")
    seen = []

    def lives_in_rome(past: PastLedger) -> bool:
        seen.append(past.position)
        return "The user lives in Rome." in contents(past)

    answer = ledger.history.bisect(lives_in_rome, good=start)
    assert (answer.position, answer.before, answer.holds) == (end, end - 2, False)
    assert "no longer holds" in answer.text and end - 1 not in seen and len(seen) == answer.reads


def test_moments_are_positions_ids_or_times_and_wrong_ones_are_refused(ledger: Ledger) -> None:
    first = ledger.remember("The user lives in Rome.")
    second = ledger.remember("The user likes tea.")
    event = ledger.history.log()[first.position - 1]

    def likes_tea(past: PastLedger) -> bool:
        return "The user likes tea." in contents(past)

    for good in (first.position, event.event_id):
        assert ledger.history.bisect(likes_tea, good=good, bad=second.position).position == second.position
    for good, bad in ((2, 1), (99, None), (True, None), ("tomorrow", None), (None, 0)):
        with pytest.raises((RejectedError, NotFoundError)):
            ledger.history.bisect(likes_tea, good=good, bad=bad)
    with pytest.raises(RejectedError, match="function"):
        ledger.history.bisect("tea")  # type: ignore[arg-type]
    with pytest.raises(RejectedError, match="recorded nothing"):
        ledger.bind(user="nobody").history.bisect(likes_tea)


def test_a_condition_that_raises_goes_through_and_nothing_is_lost(ledger: Ledger) -> None:
    ledger.remember("The user lives in Rome.")
    for error in (KeyError("mine"), KeyboardInterrupt()):

        def test(past: PastLedger, error: BaseException = error) -> bool:
            raise error

        with pytest.raises(type(error)) as caught:
            ledger.history.bisect(test)
        assert caught.value is error
    assert ledger.remember("The user likes tea.").position == ledger.position and ledger.proof.verify().ok


def test_only_the_commands_of_ones_own_user_are_looked_at(ledger: Ledger) -> None:
    mine, theirs = ledger.bind(user="ann"), ledger.bind(user="ben")
    for number in range(5):
        mine.remember(f"Fact {number}.")
        theirs.remember(f"Theirs {number}.")
    answer = mine.history.bisect(lambda past: "Fact 3." in contents(past))
    assert answer.commands == 5 and {each.user for each in answer.explanation.events} == {"ann"}
    with pytest.raises(RejectedError, match="no change"):
        mine.history.bisect(lambda past: "Theirs 3." in contents(past))


@given(st.lists(st.sampled_from(("remember", "supersede", "batch")), min_size=1, max_size=12), st.data())
@settings(deadline=None, max_examples=15)
def test_bisect_finds_the_same_command_as_a_check_of_every_command(acts: list[str], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory(dir=QUICK) as folder, Ledger.open(f"{folder}/memory.db") as ledger:
        ends = [1]
        for number, act in enumerate(acts):
            found = ledger.memories.list(limit=1)
            if act == "supersede" and found:
                ledger.supersede(found[0].id, f"Fact {number}.")
            elif act == "batch":
                with ledger.batch():
                    ledger.remember(f"Fact {number}.")
                    ends.append(ledger.position)
                    ledger.remember(f"Fact {number} too.")
            else:
                ledger.remember(f"Fact {number}.")
            ends.append(ledger.position)
        change = data.draw(st.integers(1, len(ends) - 1))
        asked = []

        def holds(past: PastLedger) -> bool:
            asked.append(past.position)
            return past.position >= ends[change]

        answer = ledger.history.bisect(holds)
        linear = next(end for end in ends if end >= ends[change])
        assert (answer.position, answer.before) == (linear, ends[change - 1])
        assert len(asked) == answer.reads <= math.ceil(math.log2(len(ends) - 1)) + 2
        assert set(asked) <= set(ends)


def test_from_the_shell_the_condition_is_a_recall_that_finds_an_id(ledger: Ledger, tmp_path: Path) -> None:
    for number in range(5):
        ledger.remember(f"Fact {number}.")
    found = ledger.remember("The user lives in Rome.")
    for number in range(5, 9):
        ledger.remember(f"Fact {number}.")
    ledger.close()
    words = ["history", "bisect", "--db", str(tmp_path / "memory.db"), "--recall", "who lives in Rome"]
    done = run(*words, "--expect", found.id[:7], "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["position"] == found.position
    done = run(*words, "--expect", found.id)
    assert f"It holds since position {found.position}" in done.stdout and "remember" in done.stdout
    assert "no change to find" in run(*words, "--expect", "m_zzzzzz").stderr
    assert "at least 3" in run(*words, "--expect", "m").stderr


def test_a_moment_inside_of_what_a_command_recorded_is_refused(ledger: Ledger) -> None:
    ledger.remember("The user likes tea.")
    rome = ledger.remember("The user lives in Rome.")
    ledger.supersede(rome.id, "The user lives in Porto.")
    inside, end = ledger.position - 1, ledger.position
    for ends in ({"bad": inside}, {"good": inside, "bad": end}):
        name = next(iter(ends))
        with pytest.raises(
            RejectedError,
            match=rf"position {inside} lies inside of a command.*{name} has to be the end of a command.* or {end}",
        ):
            ledger.history.bisect(lambda past: len(past.memories.list()) > 1, **ends)
