"""Proposals, review and the duplicate rule."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from ledger import Ledger, NotFoundError, RejectedError
from ledger.types import Channel

TEA = "Tea is in the tin."


def test_the_queue_lists_candidates_oldest_first_with_where_they_come_from(ledger: Ledger) -> None:
    ledger.bind(actor="ada").propose("The user dreams of Oslo.", project="assistant")
    turn = ledger.capture("And?", "Well.\nDecision: store events only.", project="assistant")
    ledger.jobs.run()
    active = ledger.remember("the user DREAMS of Oslo.", project="assistant")
    queue = ledger.review()
    assert [each.memory.content for each in queue] == ["The user dreams of Oslo.", "store events only"]
    assert [(each.id, each.content) for each in queue] == [(each.memory.id, each.memory.content) for each in queue]
    assert (queue[0].provenance, queue[0].same_as_active) == (None, active.id)
    found = queue[1].provenance
    assert found is not None and (found.rule, found.extractor, found.interaction, found.field) == (
        "decision_heading", "rules/1", turn.id, "response",
    )  # fmt: skip
    assert (found.quote, queue[1].memory.sources, queue[1].memory.confidence) == (
        "Decision: store events only",
        (turn.id,),
        0.4,
    )
    assert ledger.review(project="other") == [] and len(ledger.review(project="assistant")) == 2


def test_promote_reject_and_edit_then_promote(ledger: Ledger) -> None:
    one, two, three = (ledger.propose(f"Idea number {number}.") for number in range(3))
    assert ledger.promote(one.id, reason="sure").status == "active"
    assert ledger.reject(two.id, reason="no").status == "invalid"
    edited = ledger.promote(three.id, content="Idea number three.")
    assert (edited.status, edited.content, edited.id) == ("active", "Idea number three.", three.id)
    assert len({each.command_id for each in ledger.history.audit(subject=three.id, command="promote")}) == 1
    assert ledger.review() == []
    with pytest.raises(RejectedError, match="cannot reject"):
        ledger.reject(one.id)
    with pytest.raises(RejectedError, match="cannot promote"):
        ledger.promote(two.id)
    with pytest.raises(NotFoundError):
        ledger.promote("m_0000000000000000")
    assert ledger.restore(two.id).status == "candidate"


def test_a_command_with_nothing_to_do_says_so(ledger: Ledger) -> None:
    idea = ledger.propose("The user dreams of Oslo.")
    assert ledger.promote(idea.id).absorbed is False
    before = ledger.position
    nothing = {
        "promote": ledger.promote(idea.id),
        "revise": ledger.revise(idea.id, "The user dreams of Oslo."),
        "supersede": ledger.supersede(idea.id, "the user DREAMS of Oslo."),
        "tag": ledger.memories.tag(idea.id, remove=["travel"]),
        "restore": ledger.restore(idea.id),
    }
    assert [name for name, answer in nothing.items() if not answer.absorbed] == [] and ledger.position == before
    assert [ledger.retract(idea.id).absorbed, ledger.retract(idea.id).absorbed] == [False, True]


def test_the_promotion_of_an_active_memory_that_a_turn_denies_is_recorded(ledger: Ledger) -> None:
    tea = ledger.remember("The user drinks green tea at night.", kind="preference")
    ledger.capture("Tea?", "Right, you no longer drink green tea at night.")
    assert [entry.id for entry in ledger.review()] == [tea.id]
    assert [ledger.promote(tea.id).absorbed, ledger.promote(tea.id).absorbed] == [False, True]


def test_a_candidate_is_in_no_answer(ledger: Ledger) -> None:
    ledger.propose(TEA)
    assert ledger.memories.list() == [] and ledger.recall("tea").items == ()


def test_a_duplicate_is_absorbed_with_the_full_attempt(ledger: Ledger) -> None:
    first = ledger.remember(TEA, kind="fact", project="kitchen", confidence=0.9)
    again = ledger.bind(actor="bob").remember(
        "TEA is in the tin.",
        kind="fact",
        project="Kitchen",
        confidence=0.3,
        tags=["t"],
        entities=["tin"],
        valid_from="2020-01-01",
    )
    assert (again.id, again.absorbed, first.absorbed, again.confidence, again.content) == (
        first.id,
        True,
        False,
        0.9,
        TEA,
    )
    entry = ledger.history.audit(limit=1)[0]
    assert (entry.type, entry.subject, entry.actor) == ("DuplicateAbsorbed", first.id, "bob")
    assert entry.data == {
        "content": "TEA is in the tin.", "kind": "fact", "status": "active", "confidence": 300_000, "entities": ["tin"],
        "tags": ["t"], "valid_from": "2020-01-01T00:00:00.000000Z",
    }  # fmt: skip


def test_an_absorbed_duplicate_is_recorded_once_for_each_actor_session_and_sources(ledger: Ledger) -> None:
    turn = ledger.capture("Where is tea?")
    first = ledger.remember(TEA)
    ways: list[tuple[str, dict[str, Any]]] = [
        ("ada", {}), ("bob", {}), ("ada", {"session": "s1"}), ("ada", {"sources": [turn.id]}),
    ]  # fmt: skip
    for actor, way in (*ways, *ways, *ways):
        again = ledger.bind(actor=actor).remember(TEA, **way)
        assert (again.id, again.absorbed) == (first.id, True)
    assert len(ledger.history.audit(type="DuplicateAbsorbed")) == 4


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (TEA, TEA.upper()),
        (TEA, "  Tea\n is \t in  the tin. "),
        (unicodedata.normalize("NFC", "Café"), unicodedata.normalize("NFD", "Café")),
        ("STRASSE", "Straße"),
    ],
)
def test_case_space_and_composition_make_no_difference(ledger: Ledger, first: str, second: str) -> None:
    assert ledger.remember(first).id == ledger.remember(second).id
    assert ledger.memories.list()[0].content == first


def test_another_project_kind_user_or_status_is_another_memory(ledger: Ledger) -> None:
    made = [
        ledger.remember(TEA),
        ledger.remember(TEA, kind="fact"),
        ledger.remember(TEA, project="kitchen"),
        ledger.remember(TEA, project="garden"),
        ledger.bind(user="bob").remember(TEA),
        ledger.propose(TEA),
        ledger.remember("Tea is in the tin"),  # without its full stop
    ]
    assert len({each.id for each in made}) == 7 and not any(each.absorbed for each in made)


def test_a_candidate_and_an_active_one_may_say_the_same_but_not_two_active_ones(ledger: Ledger) -> None:
    active, idea = ledger.remember(TEA), ledger.propose(TEA)
    for refused in (
        lambda: ledger.promote(idea.id),
        lambda: ledger.revise(ledger.remember("Something else.").id, TEA),
        lambda: ledger.promote(ledger.propose("Another idea.").id, content=TEA),
    ):
        with pytest.raises(RejectedError, match="says the same; keep one of them") as refusal:
            refused()
        assert refusal.value.rule == "duplicate"
    ledger.retract(active.id)
    ledger.promote(idea.id)
    with pytest.raises(RejectedError, match="says the same"):
        ledger.restore(active.id)


def test_a_hidden_memory_absorbs_no_duplicate(ledger: Ledger) -> None:
    first = ledger.remember(TEA)
    ledger.retract(first.id)
    second = ledger.remember(TEA)
    assert second.id != first.id and not second.absorbed


def test_a_revision_moves_the_memory_in_the_index(ledger: Ledger) -> None:
    fact = ledger.remember(TEA)
    ledger.revise(fact.id, "Tea is in the jar.")
    assert ledger.remember("Tea is in the jar.").id == fact.id
    assert ledger.remember(TEA).id != fact.id


# --- supersession ----------------------------------------------------------------------------------------------------


def test_superseding_links_both_ways_in_one_append(ledger: Ledger) -> None:
    coffee = ledger.remember(
        "The user drinks coffee.",
        kind="preference",
        project="home",
        entities=["drink"],
        tags=["d"],
        valid_to="2030-01-01",
    )
    tea = ledger.supersede(coffee.id, "The user drinks tea.", reason="said so", valid_from="2026-03-01", confidence=0.8)
    old = ledger.memories.get(coffee.id)
    assert (old.status, old.superseded_by, tea.supersedes) == ("superseded", tea.id, coffee.id)
    assert (old.valid_to, tea.valid_from, tea.valid_to) == (
        "2026-03-01T00:00:00.000000Z",
        "2026-03-01T00:00:00.000000Z",
        None,
    )
    assert (tea.kind, tea.project, tea.entities, tea.tags, tea.confidence) == (
        "preference",
        "home",
        ("drink",),
        ("d",),
        0.8,
    )
    assert len({each.command_id for each in ledger.history.audit(limit=2)}) == 1
    with pytest.raises(RejectedError, match="cannot supersede"):
        ledger.supersede(coffee.id, "The user drinks milk.")
    back = ledger.restore(coffee.id)
    assert (back.status, back.superseded_by, back.valid_to) == ("active", None, coffee.valid_to)


def test_superseding_by_the_same_text_is_nothing_and_by_a_known_one_inserts_nothing(ledger: Ledger) -> None:
    coffee, tea = ledger.remember("The user drinks coffee."), ledger.remember("The user drinks tea.")
    position = ledger.position
    assert ledger.supersede(coffee.id, "the user drinks  COFFEE.").id == coffee.id
    assert ledger.position == position
    successor = ledger.supersede(coffee.id, "The user drinks tea.", idempotency_key="k")
    assert (successor.id, successor.absorbed, len(ledger.memories.list(statuses=()))) == (tea.id, True, 2)
    assert ledger.memories.get(coffee.id).superseded_by == tea.id


def test_superseding_by_its_own_text_is_nothing_also_beside_an_older_one_that_says_the_same(ledger: Ledger) -> None:
    older = ledger.remember("The user drinks coffee.")
    change = ledger.supersede(older.id, "The user drinks tea.")
    younger = ledger.remember("The user drinks coffee.")
    ledger.undo(change.position)  # and both are active
    position = ledger.position
    for each in (older, younger):
        assert ledger.supersede(each.id, "the user drinks  COFFEE.").id == each.id
    assert ledger.position == position and {each.status for each in ledger.memories.list(statuses=())} == {"active"}


def test_a_successor_that_was_proposed_before_by_the_same_hand_keeps_its_key(ledger: Ledger) -> None:
    coffee, tea = ledger.remember("The user drinks coffee."), ledger.remember("The user drinks tea.")
    ledger.remember("The user drinks tea.")
    first = ledger.supersede(coffee.id, "The user drinks tea.", idempotency_key="k")
    again = ledger.supersede(coffee.id, "The user drinks tea.", idempotency_key="k")
    assert (first.id, again.id, again.replayed) == (tea.id, tea.id, True)


def test_retract_restore_retract(ledger: Ledger) -> None:
    fact = ledger.remember(TEA)
    for status in ("retracted", "active", "retracted", "active"):
        change = ledger.retract if status == "retracted" else ledger.restore
        assert change(fact.id).status == status
    assert len(ledger.history.events(fact.id) or []) == 5


def test_quarantine_keeps_a_memory_out_of_recall_whatever_its_status(ledger: Ledger) -> None:
    fact = ledger.remember(TEA)
    assert ledger.guards.quarantine(fact.id).quarantined
    assert ledger.recall("tea").items == () and [each.status for each in ledger.memories.list()] == ["active"]
    assert not ledger.guards.release(fact.id).quarantined
    assert len(ledger.recall("tea").items) == 1


def test_tags_are_lower_case_ten_at_most_and_found_in_any_case(ledger: Ledger) -> None:
    fact = ledger.remember(TEA, tags=[" Tea ", "TIN", "tea"])
    assert fact.tags == ("tea", "tin")
    assert ledger.memories.tag(fact.id, add=[f"t{number}" for number in range(8)]).tags[:2] == ("tea", "tin")
    with pytest.raises(RejectedError, match="10"):
        ledger.memories.tag(fact.id, add=["one more"])
    assert ledger.memories.tag(fact.id, add=["one more"], remove=["tin"]).tags[-1] == "one more"
    assert [each.id for each in ledger.memories.list(tags=("ONE more",))] == [fact.id]


def test_a_date_means_through_that_day(ledger: Ledger) -> None:
    fact = ledger.remember(TEA, valid_from="2026-01-01", valid_to="2026-12-31")
    assert (fact.valid_from, fact.valid_to) == ("2026-01-01T00:00:00.000000Z", "2027-01-01T00:00:00.000000Z")
    exact = ledger.memories.set_validity(fact.id, valid_from=None, valid_to="2026-12-31T00:00:00Z")
    assert exact.valid_to == "2026-12-31T00:00:00.000000Z"
    assert ledger.memories.set_validity(fact.id).valid_to is None


def test_listing_by_status_kind_project_tag_and_confidence(ledger: Ledger) -> None:
    one = ledger.remember("one", kind="fact", confidence=0.9)
    two = ledger.remember("two", kind="preference", project="p", confidence=0.5)
    three = ledger.remember("three", kind="fact", project="p", confidence=0.1)
    ledger.propose("four")
    ids = lambda found: [each.id for each in found]  # noqa: E731
    assert ids(ledger.memories.list()) == [three.id, two.id, one.id]
    assert (
        len(ledger.memories.list(statuses=())) == 4 and len(ledger.memories.list(statuses=["candidate", "active"])) == 4
    )
    assert ids(ledger.memories.list(kinds=("fact",))) == [three.id, one.id]
    assert ids(ledger.memories.list(kinds=["fact", "preference"], project="p")) == [three.id, two.id]
    assert ids(ledger.memories.list(project="")) == [one.id]
    assert ids(ledger.memories.list(min_confidence=0.5)) == [two.id, one.id]
    assert ids(ledger.memories.list(min_confidence=0.5, limit=1)) == [two.id]
    assert ledger.memories.list(limit=0) == []


def test_a_candidate_that_is_true_no_longer_ends_without_having_been_active(ledger: Ledger) -> None:
    boat = ledger.propose("Ada owns a boat.", occurred_at="2021-03-01")
    porto = ledger.propose("Ada lives in Porto.", occurred_at="2021-03-02")
    ended = ledger.memories.end(boat.id, reason="sold", occurred_at="2023-08-01")
    lisbon = ledger.supersede(porto.id, "Ada lives in Lisbon.", occurred_at="2024-01-10")
    assert (ended.status, ended.valid_to) == ("superseded", "2023-08-01T00:00:00.000000Z")
    assert (ledger.memories.get(porto.id).superseded_by, lisbon.supersedes) == (lisbon.id, porto.id)
    for position in range(boat.position, ledger.position + 1):
        active = [memory.content for memory in ledger.at(position).memories.list()]
        assert active in ([], ["Ada lives in Lisbon."])
    then = ledger.at(ledger.position, valid_at="2022-12-24")
    assert {memory.content for memory in then.memories.list(statuses=())} == {"Ada owns a boat.", "Ada lives in Porto."}
    assert then.recall("Who owns a boat?", limit=1).items[0].content == "Ada owns a boat."
    assert ledger.restore(boat.id).status == "candidate"


def test_a_proposed_successor_replaces_a_candidate_at_once_and_an_active_memory_later(
    ledger: Ledger,
) -> None:
    porto, tea = ledger.propose("Ada lives in Porto."), ledger.remember(TEA)
    faro = ledger.supersede(porto.id, "Ada lives in Faro.", propose=True)
    jar = ledger.supersede(tea.id, "Tea is in the jar.", propose=True)
    assert (faro.status, faro.supersedes, jar.status) == ("candidate", porto.id, "candidate")
    assert [ledger.memories.get(each.id).status for each in (porto, tea)] == ["superseded", "active"]
    lisbon = ledger.supersede(faro.id, "Ada lives in Lisbon.")
    assert [ledger.memories.get(each.id).superseded_by for each in (porto, faro)] == [faro.id, lisbon.id]
    ledger.promote(jar.id)
    assert ledger.memories.get(tea.id).superseded_by == jar.id


@pytest.mark.parametrize("channel", ["web", "tool", "file"])
def test_who_could_not_state_a_candidate_does_not_say_that_it_was_true(ledger: Ledger, channel: Channel) -> None:
    idea = ledger.propose("The harbour is closed on Mondays.", channel=channel, valid_from="2024-01-01")
    for attempt in (
        lambda: ledger.supersede(
            idea.id, "The harbour is closed on Tuesdays.", channel=channel, valid_from="2025-01-01"
        ),
        lambda: ledger.memories.end(idea.id, channel=channel),
    ):
        with pytest.raises(RejectedError, match="is candidate"):
            attempt()
    assert [each.id for each in ledger.review()] == [idea.id]
    ledger.memories.end(idea.id, occurred_at="2025-01-01")  # a person may
    past = ledger.at(ledger.position, valid_at="2024-06-01")
    assert [item.content for item in past.recall("harbour").items] == ["The harbour is closed on Mondays."]
