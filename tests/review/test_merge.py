"""Near duplicates are found, proposed once, and become one memory only when somebody says so."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from absence import absent

from ledger import DependentsError, Ledger, NotFoundError, RejectedError

LONG = "The user drinks two cups of dark roast coffee every single morning before going to work"
NEAR = "The user drinks two cups of dark roast coffee every morning before going to work"
THIRD = "The user drinks two cups of dark roast coffee every single morning before work"
FAR = "The user plays tennis on Sundays"


@pytest.fixture
def pair(ledger: Ledger) -> tuple[str, str]:
    return ledger.remember(LONG).id, ledger.remember(NEAR).id


def contents(ledger: Ledger) -> set[str | None]:
    return {each.content for each in ledger.memories.list()}


def proposal(ledger: Ledger) -> str:
    (found,) = ledger.merges.find().proposed
    return found.id


# --- finding ---------------------------------------------------------------------------------------------------------


def test_memories_that_say_nearly_the_same_are_proposed_and_left_as_they_are(
    ledger: Ledger, pair: tuple[str, str]
) -> None:
    ledger.remember(FAR)
    (found,) = ledger.merges.find().proposed
    assert (found.status, {each.id for each in found.memories}) == ("proposed", set(pair))
    assert found.similarity == 15 / 16 and found.rule == "words/1"
    assert contents(ledger) == {LONG, NEAR, FAR}
    assert [each.id for each in ledger.merges.list()] == [found.id]


def test_looking_again_appends_nothing(ledger: Ledger, pair: tuple[str, str]) -> None:
    ledger.merges.find()
    position = ledger.position
    assert ledger.merges.find().proposed == ()
    for _ in range(2):
        assert ledger.jobs.run(jobs=("merges",)).merges == 0
    assert ledger.position == position


def test_the_policies_propose_and_can_be_told_not_to(ledger: Ledger, pair: tuple[str, str]) -> None:
    ledger.policy.set(merge=False)
    assert ledger.jobs.run().merges == 0
    ledger.policy.set(merge=True)
    assert ledger.jobs.run().merges == 1
    third = ledger.remember("A new thought about the garden and the old apple tree in it")
    ledger.remember("A new thought about the garden and the old apple tree in it today", sources=(third.id,))
    assert ledger.jobs.run().merges == 1  # of what has changed since


def test_only_active_memories_of_one_kind_and_project_are_near_duplicates(ledger: Ledger) -> None:
    ledger.remember(LONG)
    ledger.propose(NEAR)
    ledger.remember(NEAR, project="elsewhere")
    ledger.remember(NEAR, kind="preference")
    ledger.guards.quarantine(ledger.remember(THIRD).id)
    ledger.bind(user="another").remember(NEAR)
    assert ledger.merges.find().proposed == ()


def test_a_search_can_be_bounded_to_a_project_or_to_global_memories(ledger: Ledger, pair: tuple[str, str]) -> None:
    for text in (LONG, NEAR):
        ledger.remember(text, project="coffee")
    (found,) = ledger.merges.find(project="coffee").proposed
    assert found.project == "coffee"
    (found,) = ledger.merges.find(project="").proposed
    assert found.project is None and {each.id for each in found.memories} == set(pair)
    with pytest.raises(NotFoundError):
        ledger.merges.find(project="nowhere")
    assert [len(ledger.merges.list(project=name)) for name in ("coffee", "", "nowhere")] == [1, 1, 0]


@pytest.mark.parametrize("status", [5, None, "nothing", ["all", 5]])
def test_a_status_that_there_is_not_is_refused(ledger: Ledger, status: Any) -> None:
    for area in (ledger.merges, ledger.conflicts):
        with pytest.raises(RejectedError, match="statuses"):
            area.list(statuses=status)


def test_a_threshold_below_one_half_is_refused(ledger: Ledger) -> None:
    with pytest.raises(RejectedError, match=r"0\.5"):
        ledger.merges.find(threshold=0.4)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user never drinks dark roast coffee in the morning before going to work at all",
         "The user drinks dark roast coffee in the morning before going to work at all"),
        ("The invoice of the shop around the corner was paid with card number 4411",
         "The invoice of the shop around the corner was paid with card number 4422"),
    ],
)  # fmt: skip
def test_what_is_denied_or_numbered_otherwise_is_no_near_duplicate(ledger: Ledger, one: str, other: str) -> None:
    ledger.remember(one)
    ledger.remember(other)
    assert ledger.merges.find().proposed == ()


def test_a_memory_stands_in_one_open_proposal_at_the_most(ledger: Ledger, pair: tuple[str, str]) -> None:
    first = proposal(ledger)
    third = ledger.remember(THIRD)
    assert ledger.merges.find().proposed == ()
    merged = ledger.merges.apply(first, content=LONG)
    (found,) = ledger.merges.find().proposed
    assert {each.id for each in found.memories} == {merged.id, third.id}


def test_several_ledgers_looking_at_once_propose_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        for text in (LONG, NEAR):
            ledger.remember(text)
    ledgers = [Ledger.open(path) for _ in range(4)]
    barrier = threading.Barrier(len(ledgers))
    failed: list[BaseException] = []

    def look(one: Ledger) -> None:
        try:
            barrier.wait()
            one.merges.find()
            one.jobs.run()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=look, args=(each,)) for each in ledgers]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed
    assert len(ledgers[0].merges.list(statuses=())) == 1
    assert len(ledgers[0].history.audit(type="MergeProposed")) == 1
    for each in ledgers:
        each.close()


def test_vectors_that_were_made_add_pairs_that_have_about_half_their_words_in_common(tmp_path: Path) -> None:
    def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0] if "coffee" in each or "espresso" in each else [0.0, 1.0] for each in texts]

    with Ledger.open(tmp_path / "memory.db", embedder=embed) as ledger:
        one = ledger.remember("The user drinks strong coffee in the morning at home")
        other = ledger.remember("The user has strong espresso in the morning at home")
        ledger.remember("The user drinks weak tea in the morning at home")
        ledger.remember("Nobody ever knew how much coffee there was")
        assert ledger.merges.find().proposed == ()  # nothing was embedded
        ledger.vectors.update()
        (found,) = ledger.merges.find().proposed
        assert {each.id for each in found.memories} == {one.id, other.id} and found.rule == "vectors/1"
        assert ledger.merges.find().proposed == ()


# --- merging ---------------------------------------------------------------------------------------------------------


def test_the_one_memory_has_what_all_of_them_had(ledger: Ledger) -> None:
    turns = [ledger.capture(f"question {n}", reinforce=False) for n in range(2)]
    one = ledger.remember(
        LONG, confidence=0.6, tags=["coffee", "habit"], entities=["Ana"], sources=(turns[0].id,),
        valid_from="2024-01-01T00:00:00Z", valid_to="2027-01-01T00:00:00Z", relations=[("Ana", "drinks", "Coffee")],
    )  # fmt: skip
    other = ledger.remember(NEAR, confidence=0.9, tags=["coffee", "work"], entities=["Bob"], sources=(turns[1].id,))
    ledger.reinforce(one.id)
    ledger.reinforce(other.id)
    latest = ledger.reinforce(other.id).last_referenced_at
    merged = ledger.merges.combine([one.id, other.id], reason="the same")
    assert merged.content == NEAR  # of the surest
    assert merged.confidence == pytest.approx(0.94)
    assert (merged.reference_count, merged.last_referenced_at) == (3, latest)
    assert merged.tags == ("coffee", "habit", "work")
    assert merged.entities == ("Ana", "Bob")
    assert merged.sources == tuple(each.id for each in turns)
    assert (merged.valid_from[:10], merged.valid_to) == ("2024-01-01", None)
    assert [(each.subject, each.relation, each.object) for each in merged.relations] == [("Ana", "drinks", "Coffee")]
    for each in (one, other):
        was = ledger.memories.get(each.id)
        assert (was.status, was.superseded_by) == ("superseded", merged.id)
    assert ledger.why(merged.id).confidence == merged.confidence


def test_a_given_wording_is_taken_and_the_proposal_says_what_it_became(ledger: Ledger, pair: tuple[str, str]) -> None:
    merged = ledger.merges.apply(proposal(ledger), content="Coffee comes before work.", reason="shorter")
    assert contents(ledger) == {"Coffee comes before work."}
    (told,) = ledger.merges.list(statuses=("merged",))
    assert (told.memory, told.content, told.reason) == (merged.id, "Coffee comes before work.", "shorter")
    assert ledger.merges.list() == []


def test_of_equal_confidence_the_most_referred_to_and_then_the_newest_gives_the_wording(ledger: Ledger) -> None:
    one, other = ledger.remember(LONG), ledger.remember(NEAR)
    assert ledger.merges.combine([one.id, other.id]).content == NEAR
    ledger.undo(ledger.history.audit(type="MemoriesMerged")[0].command_id)
    ledger.reinforce(one.id)
    assert ledger.merges.combine([one.id, other.id]).content == LONG


def test_more_than_ten_tags_keep_those_that_most_have_then_the_oldest(ledger: Ledger) -> None:
    one = ledger.remember(LONG, tags=[f"a{n}" for n in range(10)])
    other = ledger.remember(NEAR, tags=["z", "a9", "y"])
    assert ledger.merges.combine([one.id, other.id]).tags == ("a9", *(f"a{n}" for n in range(9)))


def test_merging_what_was_merged_returns_what_it_became(ledger: Ledger, pair: tuple[str, str]) -> None:
    first = proposal(ledger)
    merged = ledger.merges.apply(first)
    position = ledger.position
    for again in (pair, tuple(reversed(pair)), None):
        found = ledger.merges.combine(again) if again else ledger.merges.apply(first)
        assert (found.id, found.absorbed) == (merged.id, True)
    assert ledger.position == position


def test_a_key_makes_a_merge_idempotent(ledger: Ledger, pair: tuple[str, str]) -> None:
    merged = ledger.merges.combine(pair, idempotency_key="k")
    again = ledger.merges.combine(pair, idempotency_key="k")
    assert again.replayed and again.id == merged.id


def test_an_undo_brings_everything_back(ledger: Ledger, pair: tuple[str, str]) -> None:
    first = proposal(ledger)
    before = ledger.proof.digest(beliefs=True)
    merged = ledger.merges.apply(first)
    ledger.undo(merged.position)
    assert ledger.proof.digest(beliefs=True) == before
    assert absent(ledger.memories.get, merged.id)
    assert [each.id for each in ledger.merges.list()] == [first]
    assert ledger.merges.apply(first).id != merged.id


def test_an_undone_proposal_does_not_come_back_with_the_next_run(ledger: Ledger, pair: tuple[str, str]) -> None:
    (proposal,) = ledger.merges.find().proposed
    undone = ledger.undo(proposal.position)
    assert ledger.merges.find().proposed == () and ledger.jobs.run(jobs=("merges",)).merges == 0
    ledger.redo(undone.command_id)
    assert [each.id for each in ledger.merges.list()] == [proposal.id]
    assert ledger.merges.find().proposed == ()


def test_an_undo_of_a_member_takes_the_merge_along(ledger: Ledger, pair: tuple[str, str]) -> None:
    ledger.merges.combine(pair)
    report = ledger.undo(ledger.history.audit(subject=pair[0], type="MemoryCaptured")[0].position, cascade=True)
    assert len(report.commands) == 2
    assert contents(ledger) == {NEAR}


def test_an_undo_of_a_members_promotion_takes_the_merge_along(ledger: Ledger) -> None:
    """Only active memories are merged: without its promotion the text of a candidate must not stay in an active memory."""
    idea, kept = ledger.propose("The harbour opens at six.", channel="web"), ledger.remember("The harbour opens at 6.")
    promoted = ledger.promote(idea.id)
    merged = ledger.merges.combine([idea.id, kept.id], content="The harbour opens at six (6).")
    with pytest.raises(DependentsError):
        ledger.undo(promoted.position)
    ledger.undo(promoted.position, cascade=True)
    assert [ledger.memories.get(each.id).status for each in (idea, kept)] == ["candidate", "active"]
    with pytest.raises(NotFoundError):
        ledger.memories.get(merged.id)


def test_an_earlier_moment_knows_the_proposal_as_it_was(ledger: Ledger, pair: tuple[str, str]) -> None:
    first = proposal(ledger)
    then = ledger.position
    merged = ledger.merges.apply(first)
    assert [each.status for each in ledger.at(then).merges.list()] == ["proposed"]
    assert absent(ledger.at(then).memories.get, merged.id)
    assert ledger.at(ledger.position).merges.list(statuses=("merged",))[0].memory == merged.id


def test_at_a_time_of_the_world_only_the_one_memory_holds(ledger: Ledger, clock) -> None:  # type: ignore[no-untyped-def]
    members = [ledger.remember(text, valid_from="2024-01-01T00:00:00Z").id for text in (LONG, NEAR)]
    clock.advance(days=1)
    merged = ledger.merges.combine(members)
    assert [each.id for each in ledger.at(ledger.position, valid_at="2025-01-01").memories.list()] == [merged.id]


def test_the_undo_of_a_members_earlier_time_lets_only_the_one_memory_hold(ledger: Ledger) -> None:
    one, other = ledger.remember(LONG, valid_from="2023-01-01"), ledger.remember(NEAR, valid_from="2023-06-01")
    moved = ledger.memories.set_validity(one.id, valid_from="2024-01-01")
    merged = ledger.merges.combine([one.id, other.id])
    ledger.undo(moved.position)
    then = ledger.at(ledger.position, valid_at="2023-07-01").memories.list()
    assert [each.id for each in then] == [merged.id]


def test_what_only_some_may_do_is_refused_with_the_reason(ledger: Ledger, pair: tuple[str, str]) -> None:
    idea = ledger.propose(THIRD)
    with pytest.raises(RejectedError, match="promote it first"):
        ledger.merges.combine([pair[0], idea.id])
    with pytest.raises(RejectedError, match="one kind"):
        ledger.merges.combine([pair[0], ledger.remember(THIRD, kind="preference").id])
    with pytest.raises(RejectedError, match="one project"):
        ledger.merges.combine([pair[0], ledger.remember(THIRD, project="p").id])
    with pytest.raises(RejectedError, match="2 to 50"):
        ledger.merges.combine([pair[0], pair[0]])
    with pytest.raises(RejectedError, match="superseded"):
        old = ledger.remember(FAR)
        ledger.supersede(old.id, "The user plays golf on Sundays")
        ledger.merges.combine([pair[0], old.id])
    with pytest.raises(NotFoundError):
        ledger.merges.combine([pair[0], "m_0123456789abcdef"])
    hidden = ledger.guards.quarantine(ledger.remember(THIRD).id)
    with pytest.raises(RejectedError, match="release it first"):
        ledger.merges.combine([pair[0], hidden.id])


def test_a_proposal_is_named_alone(ledger: Ledger, pair: tuple[str, str]) -> None:
    with pytest.raises(RejectedError, match=r"merges\.apply"):
        ledger.merges.combine([proposal(ledger), *pair])


def test_another_users_memory_is_never_merged(ledger: Ledger, pair: tuple[str, str]) -> None:
    theirs = ledger.bind(user="bob").remember(THIRD)
    with pytest.raises(NotFoundError, match="of this user"):
        ledger.merges.combine([pair[0], theirs.id])
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").merges.apply(proposal(ledger))
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").merges.reject(ledger.merges.list()[0].id)


def test_the_wording_of_another_active_memory_is_refused(ledger: Ledger, pair: tuple[str, str]) -> None:
    twin = ledger.remember(FAR)
    with pytest.raises(RejectedError, match=twin.id):
        ledger.merges.combine(pair, content=FAR)
    assert ledger.merges.combine(pair, content=LONG).content == LONG  # a member's own is none of another


def test_a_merge_of_full_budgets_fits_for_its_members_end_with_it(ledger: Ledger, pair: tuple[str, str]) -> None:
    ledger.policy.set(memory_chars=len(LONG) + len(NEAR))
    assert ledger.merges.combine(pair, content=LONG + " and " + "so" * 20).status == "active"
    ledger.policy.set(memory_chars=200)
    others = [ledger.remember(FAR).id, ledger.remember("The user plays tennis on Mondays").id]
    with pytest.raises(RejectedError, match="budget"):
        ledger.merges.combine(others, content="x" * 200)


# --- turned down, or overtaken ---------------------------------------------------------------------------------------


def test_a_rejected_pair_is_never_proposed_again_in_any_company(ledger: Ledger, pair: tuple[str, str]) -> None:
    first = proposal(ledger)
    told = ledger.merges.reject(first, reason="two habits")
    assert (told.status, told.reason) == ("rejected", "two habits")
    assert ledger.merges.find().proposed == ()
    third = ledger.remember(THIRD)
    (found,) = ledger.merges.find().proposed
    assert third.id in {each.id for each in found.memories} and not set(pair) <= {each.id for each in found.memories}
    position = ledger.position
    ledger.merges.reject(first)
    assert ledger.position == position
    with pytest.raises(RejectedError, match="rejected"):
        ledger.merges.apply(first)
    assert ledger.merges.combine(pair).status == "active"  # by name somebody may


def test_a_merged_proposal_cannot_be_rejected(ledger: Ledger, pair: tuple[str, str]) -> None:
    first = proposal(ledger)
    ledger.merges.apply(first)
    with pytest.raises(RejectedError, match="undo"):
        ledger.merges.reject(first)


def test_a_proposal_whose_members_changed_is_moot_until_they_are_as_they_were(
    ledger: Ledger, pair: tuple[str, str]
) -> None:
    first = proposal(ledger)
    ledger.reinforce(pair[0])
    assert [each.id for each in ledger.merges.list()] == [first]  # no other words
    ledger.revise(pair[0], FAR)
    (told,) = ledger.merges.list(statuses=("obsolete",))
    assert pair[0] in told.why and ledger.merges.list() == []
    with pytest.raises(RejectedError, match="another content"):
        ledger.merges.apply(first)
    ledger.revise(pair[0], LONG)
    assert [each.id for each in ledger.merges.list()] == [first]
    ledger.retract(pair[1])
    assert "retracted" in ledger.merges.list(statuses=("obsolete",))[0].why
    ledger.restore(pair[1])
    assert [each.id for each in ledger.merges.list()] == [first]


def test_members_that_changed_and_are_near_again_are_proposed_anew(ledger: Ledger, pair: tuple[str, str]) -> None:
    first = proposal(ledger)
    ledger.revise(pair[1], THIRD)
    (again,) = ledger.merges.find().proposed
    assert again.id == first and [each.id for each in ledger.merges.list()] == [first]
    assert ledger.merges.apply(first).content == THIRD


# --- trust -----------------------------------------------------------------------------------------------------------


def test_an_erased_member_takes_its_words_out_of_what_it_became(ledger: Ledger, pair: tuple[str, str]) -> None:
    merged = ledger.merges.combine(pair, content="The secret word is xylophone.")
    report = ledger.erase(pair[0], derived="erase", sources="keep", quotes="erase")
    assert report.state == "completed"
    after = ledger.memories.get(merged.id)
    assert after.content is None
    assert ledger.merges.list(statuses=("merged",))[0].content is None


def test_a_member_of_a_distrusted_source_takes_the_merge_along(ledger: Ledger) -> None:
    one = ledger.bind(actor="mallory").remember(LONG, confidence=0.9)
    other = ledger.remember(NEAR, confidence=0.5)
    merged = ledger.bind(actor="ana").merges.combine([one.id, other.id])
    assert merged.content == LONG
    ledger.history.distrust("mallory", kind="actor")
    assert contents(ledger) == {NEAR}
    ledger.history.trust(ledger.history.distrusted()[0].command_id)
    assert contents(ledger) == {LONG}


def test_what_if_tells_what_would_be_without_the_merge(ledger: Ledger, pair: tuple[str, str]) -> None:
    merged = ledger.merges.combine(pair)
    told = ledger.history.what_if(without=merged.position)
    assert {each.id for each in told.gained} == set(pair) and [each.id for each in told.lost] == [merged.id]
