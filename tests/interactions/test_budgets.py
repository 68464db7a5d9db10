"""Storage budgets: what the active memories of a group may take, and what is refused when one more would not fit."""

from __future__ import annotations

import pytest

from ledger import Ledger, RejectedError


def test_without_a_bound_two_hundred_facts_are_stored(ledger: Ledger) -> None:
    for number in range(200):
        ledger.remember(f"fact {number} " + "x" * 100, kind="user_profile")
    assert len(ledger.memories.list(limit=1_000)) == 200


def test_a_write_beyond_the_budget_is_refused_with_its_numbers_and_leaves_them(ledger: Ledger) -> None:
    ledger.policy.set(user_chars=20)
    ledger.remember("x" * 15, kind="user_profile")
    with pytest.raises(
        RejectedError, match="the group 'user' is 20 characters; its active memories take 15"
    ) as refused:
        ledger.remember("y" * 6, kind="user_profile")
    told = refused.value
    assert (told.rule, told.limit, told.current, told.requested) == ("budget:user", 20, 15, 6)
    (kept,) = ledger.guards.refusals()
    assert (kept.rule, kept.limit, kept.current, kept.requested) == ("budget:user", 20, 15, 6)
    assert ledger.remember("y" * 5, kind="user_profile").status == "active"


def test_the_two_groups_and_two_users_have_budgets_of_their_own(ledger: Ledger) -> None:
    ledger.policy.set(user_chars=10, memory_chars=10)
    ledger.remember("a" * 10, kind="user_profile")
    ledger.remember("b" * 10, kind="knowledge")
    with pytest.raises(RejectedError, match="the group 'memory'"):
        ledger.remember("c", kind="preference")
    assert ledger.bind(user="ben").remember("d" * 100, kind="preference").status == "active"


def test_memories_that_are_not_active_take_no_budget(ledger: Ledger) -> None:
    ledger.policy.set(memory_chars=10)
    first = ledger.remember("a" * 10)
    idea = ledger.propose("b" * 10)
    with pytest.raises(RejectedError, match="budget"):
        ledger.promote(idea.id)
    ledger.retract(first.id)
    assert ledger.promote(idea.id).status == "active"
    with pytest.raises(RejectedError, match="budget"):
        ledger.restore(first.id)


def test_a_successor_of_the_same_size_always_fits_and_a_refused_one_retires_nothing(ledger: Ledger) -> None:
    ledger.policy.set(memory_chars=10)
    fact = ledger.remember("a" * 10)
    tea = ledger.supersede(fact.id, "b" * 10)
    with pytest.raises(RejectedError, match="budget"):
        ledger.supersede(tea.id, "c" * 11)
    assert [each.content for each in ledger.memories.list()] == ["b" * 10]
    assert ledger.revise(tea.id, "d" * 10).content == "d" * 10
    with pytest.raises(RejectedError, match="budget"):
        ledger.revise(tea.id, "e" * 11)


def test_the_same_text_again_is_absorbed_not_counted(ledger: Ledger) -> None:
    ledger.policy.set(memory_chars=10)
    ledger.remember("a" * 10)
    assert ledger.bind(actor="ann").remember("a" * 10).absorbed


def test_text_after_a_nul_character_counts(ledger: Ledger) -> None:
    ledger.policy.set(memory_chars=50)
    ledger.remember("a\0" + "é" * 40)
    with pytest.raises(RejectedError, match="take 42"):
        ledger.remember("b\0" + "é" * 40)


def test_inside_a_batch_what_was_just_remembered_and_adopted_counts(ledger: Ledger) -> None:
    with ledger.batch():
        ledger.remember("before")
        ledger.policy.set(memory_chars=10)
        ledger.remember("b" * 4)
        with pytest.raises(RejectedError, match="take 10"):
            ledger.remember("c")


def test_a_policy_of_another_process_takes_effect_at_once(ledger: Ledger) -> None:
    ledger.remember("one")
    with Ledger.open(ledger.path) as other:
        other.policy.set(memory_chars=5)
    with pytest.raises(RejectedError, match="budget"):
        ledger.remember("two words")
    ledger.undo(ledger.history.audit(type="PolicyAdopted")[0].command_id)
    assert ledger.remember("two words").status == "active"


@pytest.mark.parametrize("value", [-1, 2**31, True, 1.5, "many", None])
def test_a_bound_is_a_number_of_characters(ledger: Ledger, value: object) -> None:
    with pytest.raises(RejectedError, match="number of characters"):
        ledger.policy.set(user_chars=value)
