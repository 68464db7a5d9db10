"""A line of supersessions: at any time at most one of its versions is believed, and none that nobody accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import probe
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import ConflictError, DependentsError, Ledger, NotFoundError, RejectedError
from ledger.importers import export_to, import_from
from ledger.types import Channel
from projections.views.memories import ACTIVE_BELOW

MONDAYS, TUESDAYS = "The harbour is closed on Mondays.", "The harbour is closed on Tuesdays."
PORTO, FARO, LISBON, BEJA = (f"Ada lives in {town}." for town in ("Porto", "Faro", "Lisbon", "Beja"))


def believed(ledger: Ledger, valid_at: str) -> list[str | None]:
    """Return what is believed today to have been true at a time, oldest first."""
    return [each.content for each in reversed(ledger.at(ledger.position, valid_at=valid_at).memories.list(statuses=()))]


def active(ledger: Ledger) -> set[str | None]:
    return {each.content for each in ledger.memories.list()}


def web(ledger: Ledger, id: str, content: str, valid_from: str, channel: Channel = "web") -> str:
    """Return the id of a successor that a page proposes."""
    return ledger.supersede(id, content, channel=channel, valid_from=valid_from).id


# --- what nobody accepted --------------------------------------------------------------------------------------------


@pytest.fixture
def unread(ledger: Ledger) -> tuple[str, str]:
    """A page's text that is a candidate again, since its promotion was undone, and the successor that a page proposed."""
    mondays = ledger.propose(MONDAYS, channel="web", valid_from="2024-01-01")
    promoted = ledger.promote(mondays.id)
    tuesdays = web(ledger, mondays.id, TUESDAYS, "2025-01-01")
    ledger.undo(promoted.position)
    return mondays.id, tuesdays


def test_the_promotion_of_a_successor_says_nothing_of_the_candidate_before(
    ledger: Ledger, unread: tuple[str, str]
) -> None:
    mondays, tuesdays = unread
    promoted = ledger.promote(tuesdays)
    assert believed(ledger, "2024-06-01") == [] and believed(ledger, "2025-06-01") == [TUESDAYS]
    past = ledger.at(ledger.position, valid_at="2024-06-01")
    assert past.recall("harbour").items == () and past.context("harbour").items == ()
    gone = ledger.memories.get(mondays)
    assert (gone.status, gone.superseded_by, gone.valid_to) == ("superseded", tuesdays, gone.valid_from)
    assert [each.id for each in ledger.review()] == []
    assert ledger.recall("harbour", statuses=("active", "superseded")).memory_ids == (tuesdays,)
    ledger.undo(promoted.position)
    assert {each.id for each in ledger.review()} == {mondays, tuesdays}
    assert ledger.memories.get(mondays).valid_to is None
    ledger.redo(promoted.position)
    assert believed(ledger, "2024-06-01") == []


def test_a_candidate_that_gave_way_unread_counts_from_its_own_promotion(
    ledger: Ledger, unread: tuple[str, str]
) -> None:
    mondays, tuesdays = unread
    ledger.promote(tuesdays)
    ledger.retract(tuesdays)
    assert ledger.restore(mondays).status == "candidate"
    ledger.promote(mondays)
    assert believed(ledger, "2024-06-01") == [MONDAYS]


def test_the_undo_of_an_earlier_change_lets_no_unread_text_in(ledger: Ledger, unread: tuple[str, str]) -> None:
    mondays, tuesdays = unread
    moved = ledger.memories.set_validity(mondays, valid_from="2024-05-01")
    ledger.promote(tuesdays)
    ledger.undo(moved.position)
    assert believed(ledger, "2024-02-01") == []


def test_an_export_brings_back_no_unread_text_as_believed(
    ledger: Ledger, unread: tuple[str, str], tmp_path: Any
) -> None:
    ledger.promote(unread[1])
    export_to(ledger, tmp_path / "all.jsonl")
    with Ledger.open(tmp_path / "other.db") as other:
        import_from(other, tmp_path / "all.jsonl")
        assert believed(other, "2024-06-01") == [] and believed(other, "2025-06-01") == [TUESDAYS]


def test_behind_a_candidate_the_active_memory_gives_way(ledger: Ledger) -> None:
    porto = ledger.remember(PORTO, valid_from="2020-01-01")
    faro = ledger.promote(web(ledger, porto.id, FARO, "2021-01-01"))
    lisbon = web(ledger, faro.id, LISBON, "2022-01-01")
    ledger.undo(faro.position)
    assert active(ledger) == {PORTO}
    ledger.promote(lisbon)
    assert active(ledger) == {LISBON}
    assert [believed(ledger, f"{year}-06-01") for year in (2020, 2021, 2022)] == [[PORTO], [PORTO], [LISBON]]


@pytest.mark.parametrize("how", ["supersede", "end"])
def test_who_says_that_a_candidate_was_true_says_that_it_replaced_what_it_names(ledger: Ledger, how: str) -> None:
    porto = ledger.remember(PORTO, valid_from="2020-01-01")
    faro = web(ledger, porto.id, FARO, "2021-01-01")
    if how == "end":
        ledger.memories.end(faro, occurred_at="2022-01-01")
    else:
        ledger.supersede(faro, LISBON, valid_from="2022-01-01")
    assert active(ledger) == ({LISBON} if how == "supersede" else set())
    assert [believed(ledger, f"{year}-06-01") for year in (2020, 2021)] == [[PORTO], [FARO]]
    assert ledger.memories.get(porto.id).superseded_by == faro


def test_a_proposed_successor_of_a_candidate_leaves_the_active_memory_until_it_is_promoted(ledger: Ledger) -> None:
    porto = ledger.remember(PORTO, valid_from="2020-01-01")
    faro = web(ledger, porto.id, FARO, "2021-01-01")
    lisbon = ledger.supersede(faro, LISBON, propose=True, valid_from="2022-01-01")
    assert active(ledger) == {PORTO} and believed(ledger, "2021-06-01") == [PORTO]
    ledger.promote(lisbon.id)
    assert active(ledger) == {LISBON} and believed(ledger, "2021-06-01") == [PORTO]


# --- two proposals for one place -------------------------------------------------------------------------------------


@pytest.fixture
def rivals(ledger: Ledger) -> tuple[str, str, str]:
    """An active memory, and two candidates that would replace it."""
    porto = ledger.remember(PORTO, valid_from="2020-01-01")
    return porto.id, web(ledger, porto.id, FARO, "2021-01-01"), web(ledger, porto.id, LISBON, "2022-01-01", "tool")


def test_the_second_of_two_proposals_for_one_place_is_refused(ledger: Ledger, rivals: tuple[str, str, str]) -> None:
    _, faro, lisbon = rivals
    ledger.promote(faro)
    with pytest.raises(RejectedError, match=f"{faro}.*supersede") as refusal:
        ledger.promote(lisbon)
    assert (refusal.value.rule, refusal.value.subject) == ("superseded", faro)
    assert active(ledger) == {FARO} and [each.id for each in ledger.review()] == [lisbon]


def test_a_person_puts_the_second_proposal_in_the_place_of_the_first(
    ledger: Ledger, rivals: tuple[str, str, str]
) -> None:
    _, faro, lisbon = rivals
    ledger.promote(faro)
    ledger.supersede(faro, LISBON, valid_from="2022-01-01")
    ledger.reject(lisbon)
    assert active(ledger) == {LISBON}
    assert [believed(ledger, f"{year}-06-01") for year in (2020, 2021, 2022)] == [[PORTO], [FARO], [LISBON]]


def test_the_second_proposal_is_promoted_once_the_first_is_taken_back(
    ledger: Ledger, rivals: tuple[str, str, str]
) -> None:
    porto, faro, lisbon = rivals
    promoted = ledger.promote(faro)
    ledger.undo(promoted.position)
    ledger.promote(lisbon)
    assert active(ledger) == {LISBON} and ledger.memories.get(porto).superseded_by == lisbon
    with pytest.raises(ConflictError, match="does not fit"):
        ledger.redo(promoted.position)


def test_the_second_proposal_is_promoted_after_the_first_was_retracted(
    ledger: Ledger, rivals: tuple[str, str, str]
) -> None:
    _, faro, lisbon = rivals
    ledger.promote(faro)
    retracted = ledger.retract(faro)
    ledger.promote(lisbon)
    assert active(ledger) == {LISBON}
    with pytest.raises(ConflictError, match=lisbon):
        ledger.undo(retracted.position)


def test_the_first_proposal_keeps_its_place_through_later_versions(
    ledger: Ledger, rivals: tuple[str, str, str]
) -> None:
    _, faro, lisbon = rivals
    ledger.promote(faro)
    beja = ledger.supersede(faro, BEJA)
    with pytest.raises(RejectedError, match=beja.id):
        ledger.promote(lisbon)


def test_a_merge_keeps_the_place_of_its_members(ledger: Ledger, rivals: tuple[str, str, str]) -> None:
    porto, faro, _ = rivals
    twin = ledger.remember("Ada lives in Porto now.", valid_from="2020-01-01")
    merged = ledger.merges.combine([porto, twin.id])
    with pytest.raises(RejectedError, match=merged.id):
        ledger.promote(faro)


def test_the_winner_of_a_conflict_keeps_the_place_of_the_others(ledger: Ledger, rivals: tuple[str, str, str]) -> None:
    porto, faro, _ = rivals
    beja = ledger.remember(BEJA)
    [conflict] = ledger.conflicts.find().found
    ledger.conflicts.resolve(conflict.id, keep=beja.id)
    with pytest.raises(RejectedError, match=beja.id):
        ledger.promote(faro)
    assert active(ledger) == {BEJA} and ledger.memories.get(porto).superseded_by == beja.id


def test_a_batch_keeps_the_first_of_two_promotions(ledger: Ledger, rivals: tuple[str, str, str]) -> None:
    with ledger.batch():
        ledger.promote(rivals[2])
        with pytest.raises(RejectedError, match="supersede"):
            ledger.promote(rivals[1])
    assert active(ledger) == {LISBON}


def test_the_distrust_of_the_first_frees_its_place(ledger: Ledger, rivals: tuple[str, str, str]) -> None:
    porto, _, lisbon = rivals
    beja = ledger.bind(actor="eve").supersede(porto, BEJA, channel="web")
    ledger.promote(beja.id)
    ledger.history.distrust("eve", kind="actor")
    ledger.promote(lisbon)
    assert active(ledger) == {LISBON}
    with pytest.raises(ConflictError):
        ledger.history.trust("eve", kind="actor")


def test_an_erased_version_keeps_its_place(ledger: Ledger, rivals: tuple[str, str, str]) -> None:
    porto, faro, lisbon = rivals
    ledger.promote(faro)
    ledger.erase(porto)
    with pytest.raises(RejectedError, match=faro):
        ledger.promote(lisbon)


def test_what_is_gone_comes_back_beside_no_successor(ledger: Ledger, rivals: tuple[str, str, str]) -> None:
    porto, faro, lisbon = rivals
    at = ledger.memories.get(porto).position
    ledger.undo(at)
    ledger.promote(faro)
    with pytest.raises(RejectedError, match=faro):
        ledger.promote(lisbon)
    with pytest.raises(ConflictError, match=faro):
        ledger.redo(at)
    assert active(ledger) == {FARO}


def test_the_successor_of_what_is_gone_replaces_the_version_before(ledger: Ledger) -> None:
    porto = ledger.remember(PORTO, valid_from="2020-01-01")
    faro = ledger.supersede(porto.id, FARO, valid_from="2021-01-01")
    lisbon = web(ledger, faro.id, LISBON, "2022-01-01")
    ledger.undo(faro.position)
    ledger.promote(lisbon)
    assert active(ledger) == {LISBON}
    assert [believed(ledger, f"{year}-06-01") for year in (2021, 2022)] == [[PORTO], [LISBON]]


# --- in any order ----------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("propose", "propose", "promote", "promote", "promote", "undo", "undo", "redo", "reject", "retract")
        ),
        st.integers(0, 11),
    ),
    max_size=24,
)


@given(STEPS)
def test_in_any_order_one_version_is_believed_and_none_that_nobody_accepted(steps: list[tuple[str, int]]) -> None:
    with Ledger.temporary() as ledger:
        first = ledger.remember("The lamp is colour 0.", valid_from="2000-01-01")
        ids, positions = [first.id], [first.position]

        def take(step: str, number: int) -> None:
            if step == "propose":
                year = 2000 + len(ids)
                ids.append(web(ledger, ids[number % len(ids)], f"The lamp is colour {len(ids)}.", f"{year}-01-01"))
                positions.append(ledger.position)
            elif step in ("undo", "redo"):
                act: Callable[..., Any] = getattr(ledger, step)
                act(positions[number % len(positions)], **({"cascade": True} if step == "undo" else {}))
            else:
                id = ids[number % len(ids)]
                positions.append(getattr(ledger, step)(id).position)

        def is_accepted(id: str) -> bool:
            events = ledger.history.events(id) or ()
            return id == first.id or any(event.type == "MemoryPromoted" and event.in_effect for event in events)

        for step, number in steps:
            try:
                take(step, number)
            except (RejectedError, NotFoundError, ConflictError, DependentsError):
                continue
            assert len(ledger.memories.list()) <= 1
            for year in range(2000, 2001 + len(ids)):
                then = ledger.at(ledger.position, valid_at=f"{year}-06-01").memories.list(statuses=())
                assert len(then) <= 1 and all(is_accepted(each.id) for each in then)


def test_the_versions_of_a_line_are_found_by_indexes(ledger: Ledger) -> None:
    ledger.remember("Ada lives in Porto.")
    with probe.inside(ledger).store.snapshot() as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {ACTIVE_BELOW}", ("[]",))]
    assert [step for step in plan if step.startswith("SCAN") and "line" not in step and "json_each" not in step] == []
    assert any("supersedes=?" in step for step in plan)
