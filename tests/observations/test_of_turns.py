"""Observations of turns, made without being asked where the policy says so.

What is learned of the same turns is a memory, and observations of memories are made by default. Where a test counts, what is
learned waits for review, and no observation is made of what waits.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger import Ledger, RejectedError

COFFEE = ("I really enjoy dark roast coffee.", "I enjoy dark roast coffee every morning.")


@pytest.fixture
def opened(tmp_path: Path):
    with Ledger.open(tmp_path / "m.db", user="ana") as found:
        yield found


def captured(opened: Ledger, *texts: str, **more: str) -> None:
    for text in texts:
        opened.capture(text, "Noted.", **more)


def test_turns_form_observations_by_themselves_where_the_policy_says_turns(opened: Ledger) -> None:
    opened.policy.set(consolidate="turns", admit="review")
    assert opened.policy.get().consolidate == "turns"
    captured(opened, *COFFEE)
    report = opened.jobs.run()
    assert (report.consolidated, report.observations_formed) == (2, 1)
    (seen,) = opened.observations.list()
    assert seen.proof_count == 2 and all(each.id.startswith("i_") for each in seen.sources)
    assert {each.actor for each in opened.history.audit(type="ConsolidationCompleted")} == {"policy:consolidation"}
    position = opened.position
    assert opened.jobs.run().consolidated == 0 and opened.position == position, (
        "what was looked at is not looked at again"
    )
    captured(opened, "I enjoy dark roast coffee with milk.")
    assert opened.jobs.run().observations_revised == 1
    assert opened.observations.list()[0].proof_count == 3


def test_turns_form_no_observation_by_default(opened: Ledger) -> None:
    opened.policy.set(admit="review")
    assert opened.policy.get().consolidate is True
    captured(opened, *COFFEE)
    assert opened.jobs.run().consolidated == 0 and not opened.observations.list()


def test_by_default_what_is_learned_of_turns_forms_one_and_the_turns_do_not(opened: Ledger) -> None:
    captured(opened, *COFFEE)
    report = opened.jobs.run()
    assert (report.consolidated, report.observations_formed) == (2, 1)
    (seen,) = opened.observations.list()
    assert {each.id for each in seen.sources} == {each.id for each in opened.memories.list()}


def test_memories_are_consolidated_as_well(opened: Ledger) -> None:
    opened.policy.set(consolidate="turns")
    for text in COFFEE:
        opened.remember(text)
    assert opened.jobs.run().observations_formed == 1


def test_turns_of_other_users_or_projects_are_not_mixed(opened: Ledger) -> None:
    bob = opened.bind(user="bob")
    opened.policy.set(consolidate="turns", admit="review")
    bob.policy.set(admit="review")
    for project in ("a", "b"):
        captured(opened, *COFFEE, project=project)
        captured(bob, *COFFEE, project=project)
    assert opened.jobs.run().observations_formed == 2
    assert sorted(each.project or "" for each in opened.observations.list()) == ["a", "b"]
    assert not bob.observations.list(), "bob's policy says nothing of turns"


def test_a_turn_that_was_let_out_of_quarantine_is_looked_at(opened: Ledger) -> None:
    opened.policy.set(consolidate="turns")
    captured(opened, *COFFEE)
    turn = opened.interactions.list()[0]
    opened.guards.quarantine(turn.id, reason="odd")
    assert opened.jobs.run().observations_formed == 0
    opened.guards.release(turn.id)
    assert opened.jobs.run().observations_formed == 1
    position = opened.position
    assert opened.jobs.run().consolidated == 0 and opened.position == position


def test_what_went_stale_is_worded_again_where_there_are_only_turns(opened: Ledger) -> None:
    opened.policy.set(consolidate="turns", admit="review")
    captured(opened, *COFFEE, "I enjoy dark roast coffee at home.")
    opened.jobs.run()
    (seen,) = opened.observations.list()
    opened.observations.withdraw(seen.written_from)
    assert opened.observations.get(seen.id).freshness == "stale"
    assert opened.jobs.run().observations_revised == 1
    assert opened.observations.get(seen.id).freshness == "fresh"


def test_consolidate_false_forms_nothing_of_turns(opened: Ledger) -> None:
    opened.policy.set(consolidate="turns")
    opened.policy.set(consolidate=False)
    captured(opened, *COFFEE)
    assert opened.jobs.run().consolidated == 0


@pytest.mark.parametrize("bad", ["memories", "", 1, None, "yes"])
def test_consolidate_takes_only_true_false_or_turns(opened: Ledger, bad: object) -> None:
    with pytest.raises(RejectedError, match="turns"):
        opened.policy.set(consolidate=bad)  # type: ignore[arg-type]


def test_the_command_line_says_it_too(tmp_path: Path) -> None:
    from command_line import run

    db = tmp_path / "m.db"
    for words, wanted in (
        (("--consolidate", "turns"), "turns"),
        (("--no-consolidate",), "False"),
        (("--consolidate",), "True"),
    ):
        assert run("policy", "set", *words, db=db).exit_code == 0
        with Ledger.open(db) as ledger:
            assert str(ledger.policy.get().consolidate) == wanted
