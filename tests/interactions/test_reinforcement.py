"""What a response restates is reinforced: once for each turn, best first, and never at the cost of the capture."""

from __future__ import annotations

from pathlib import Path
from string import ascii_lowercase
from typing import Any

import probe
import pytest
from conftest import Clock
from full import full

from ledger import Ledger, NotFoundError, RejectedError
from ledger.domain import policy as policy
from ledger.interactions import policy as reinforcement
from projections.search import memory_hits

ROAST = "The user prefers dark roast coffee."
SAID = "You prefer dark roast coffee."


def counts(ledger: Ledger, *memories: Any) -> list[int]:
    found = [ledger.bind(user=each.user).memories.get(each.id) for each in memories]
    return [each.reference_count for each in found if each is not None]


def test_a_restated_memory_gains_two_hundredths_and_is_counted(ledger: Ledger, clock: Clock) -> None:
    fact = ledger.remember(ROAST, kind="preference", confidence=0.5)
    clock.advance(days=3)
    turn = ledger.capture("What do I drink?", SAID, correlation_id="run-1")
    assert turn.reinforcement == "done"
    now = ledger.memories.get(fact.id)
    assert (now.confidence, now.reference_count, now.last_referenced_at) == (0.52, 1, "2026-01-04T12:00:00.000000Z")
    reinforced, evaluated, captured = ledger.history.audit(limit=3)
    assert [each.type for each in (captured, evaluated, reinforced)] == [
        "InteractionCaptured", "ReinforcementEvaluated", "MemoryReinforced",
    ]  # fmt: skip
    assert evaluated.data["matches"] == [{"memory": fact.id, "overlap": 5, "total": 5, "fraction": 1_000_000}]
    assert (evaluated.data["matcher"], evaluated.data["pool_size"]) == ("stems/6", 1)
    assert (reinforced.actor, reinforced.causation_id, reinforced.correlation_id) == (
        "policy:reinforcement",
        captured.event_id,
        "run-1",
    )
    assert reinforced.data == {
        "rule": "linear/1", "delta": 20_000, "interaction": turn.id,
        "matcher": "stems/6", "fraction": 1_000_000,
    }  # fmt: skip


def test_confidence_stops_at_one_and_the_count_goes_on(ledger: Ledger) -> None:
    fact = ledger.remember(ROAST, kind="preference", confidence=0.97)
    for number in range(4):
        ledger.capture(f"turn {number}", SAID)
    now = ledger.memories.get(fact.id)
    assert (now.confidence, now.reference_count) == (1.0, 4)


def test_the_pool_is_the_project_and_global_identity_and_preference_of_that_user(ledger: Ledger) -> None:
    inside = [
        ledger.remember(ROAST, kind="knowledge", project="assistant"),
        ledger.remember(ROAST, kind="identity"),
        ledger.remember(ROAST, kind="preference"),
    ]
    outside = [
        ledger.remember(ROAST, kind="knowledge"),
        ledger.remember(ROAST, kind="knowledge", project="other"),
        ledger.remember(ROAST, kind="preference", project="other"),
        ledger.bind(user="bob").remember(ROAST, kind="preference"),
        ledger.propose(ROAST, kind="knowledge", project="assistant"),
    ]
    for hide in (ledger.retract, ledger.invalidate, ledger.guards.quarantine):
        fact = ledger.remember(f"{ROAST} {hide.__name__}", kind="preference")
        hide(fact.id)
        outside.append(fact)
    replaced = ledger.remember(f"{ROAST} Before.", kind="preference")
    outside += [replaced, ledger.supersede(replaced.id, "The user never drinks anything hot.")]
    turn = ledger.capture("What do I drink?", f"{SAID} retract invalidate quarantine before", project="assistant")
    assert counts(ledger, *inside) == [1, 1, 1]
    assert counts(ledger, *outside) == [0] * len(outside)
    assert ledger.history.audit(type="ReinforcementEvaluated")[0].data["pool_size"] == 4
    position = ledger.position
    assert ledger.interactions.reinforce(turn.id).replayed and ledger.position == position


def test_without_a_project_only_the_global_ones_are_in_the_pool(ledger: Ledger) -> None:
    mine, of_project = (
        ledger.remember(ROAST, kind="identity"),
        ledger.remember(ROAST, kind="identity", project="assistant"),
    )
    ledger.capture("What do I drink?", SAID)
    assert counts(ledger, mine, of_project) == [1, 0]


def test_a_turn_reinforces_the_best_twenty_memories_and_counts_the_rest(ledger: Ledger) -> None:
    weak = [
        ledger.remember(f"The user likes dark roast coffee with word{letter}.", kind="preference")
        for letter in ascii_lowercase[:22]
    ]
    strong = ledger.remember("The user likes dark roast coffee.", kind="preference")
    turn = ledger.capture("What do I drink?", "The user likes dark roast coffee.")
    assert counts(ledger, strong, *weak) == [1] + [1] * 19 + [0] * 3
    evaluated = ledger.history.audit(type="ReinforcementEvaluated")[0].data
    assert (len(evaluated["matches"]), evaluated["left_over"], evaluated["pool_size"]) == (20, 3, 23)
    assert evaluated["matches"][0]["memory"] == strong.id
    rest = ledger.interactions.reinforce(turn.id)
    assert [each[0] for each in rest.reinforced] == [each.id for each in weak[19:]]  # type: ignore[union-attr]
    assert counts(ledger, strong, *weak) == [1] * 23


def test_the_policy_limits_how_many_memories_a_response_reinforces(ledger: Ledger) -> None:
    facts = [ledger.remember(f"{ROAST[:-1]} with word{letter}.", kind="preference") for letter in "abc"]
    ledger.policy.set(max_matches=1, gain=0.1)
    ledger.capture("What do I drink?", ROAST)
    assert counts(ledger, *facts) == [1, 0, 0]
    ledger.policy.set(max_matches=0)
    ledger.capture("And?", ROAST)
    assert counts(ledger, *facts) == [1, 0, 0]
    assert ledger.history.audit(type="ReinforcementEvaluated")[0].data["left_over"] == 3


def test_the_same_turn_never_counts_twice(ledger: Ledger) -> None:
    fact = ledger.remember(ROAST, kind="preference", confidence=0.5)
    turn = ledger.capture("What do I drink?", SAID)
    ledger.policy.set(consolidate=False)
    position = ledger.position
    assert ledger.interactions.reinforce(turn.id).replayed and ledger.position == position
    assert ledger.reinforce(fact.id, source=turn.id).reference_count == 1
    assert ledger.reinforce(fact.id, amount=0.5, source=turn.id[:9]).confidence == 0.52
    ledger.jobs.run()
    assert [each.type for each in ledger.history.audit(limit=500) if each.position > position] == [
        "CandidatesExtracted"
    ]


def test_a_turn_that_counted_by_hand_does_not_count_again_when_its_answer_comes(ledger: Ledger) -> None:
    fact, other = (
        ledger.remember(ROAST, kind="preference"),
        ledger.remember("The user drinks dark roast coffee.", kind="preference"),
    )
    turn = ledger.capture("What do I drink?")
    ledger.reinforce(fact.id, source=turn.id)
    ledger.interactions.add_response(turn.id, f"{SAID} The user drinks it.")
    assert counts(ledger, fact, other) == [1, 1]


def test_a_memory_is_counted_once_even_when_response_and_summary_restate_it(ledger: Ledger) -> None:
    fact = ledger.remember(ROAST, kind="identity")
    ledger.capture("What do I drink?", SAID, summary=SAID)
    assert counts(ledger, fact) == [1]
    ledger.capture("What do I drink?", summary=SAID)
    assert counts(ledger, fact) == [2]


def test_an_empty_response_reinforces_nothing(ledger: Ledger) -> None:
    fact = ledger.remember(ROAST, kind="preference")
    turn = ledger.capture(SAID)  # only the response counts, not the prompt
    ledger.policy.set(consolidate=False)
    position = ledger.position
    assert ledger.interactions.reinforce(turn.id).reinforced == ()
    assert ledger.jobs.run().reinforced_interactions == 0
    assert (ledger.position, counts(ledger, fact)) == (position, [0])
    ledger.interactions.add_response(turn.id, SAID)
    assert counts(ledger, fact) == [1]


def test_reinforcement_can_be_left_out(ledger: Ledger) -> None:
    fact = ledger.remember(ROAST, kind="preference")
    turn = ledger.capture("What do I drink?", SAID, reinforce=False)
    ledger.jobs.run()
    assert (turn.reinforcement, counts(ledger, fact)) == ("off", [0])
    late = ledger.capture("What do I drink?", reinforce=False)
    assert ledger.interactions.add_response(late.id, SAID).reinforcement == "off"
    assert ledger.interactions.reinforce(turn.id).reinforced == ((fact.id, 1.0, 1.0),)


@pytest.mark.parametrize(
    ("matcher", "content", "response", "matches"),
    [
        ("substring/1", "likes  TEA a lot", "the user Likes tea\n a LOT.", True),
        ("substring/1", "likes tea a", "likes tea a lot", False),  # 11 characters
        ("substring/1", "likes tea ab", "likes tea ab", True),  # 12
        ("substring/1", "a" * 80 + "b", "a" * 80, True),
        ("substring/1", ROAST, SAID, False),
        ("stems/6", ROAST, SAID, True),
        ("stems/6", ROAST, "COFFEE  roasted dark:\n users prefer", False),
    ],
)
def test_the_matcher_is_a_matter_of_policy(
    ledger: Ledger, matcher: str, content: str, response: str, matches: bool
) -> None:
    ledger.policy.set(matcher=matcher)
    fact = ledger.remember(content, kind="preference")
    ledger.capture("?", response)
    assert counts(ledger, fact) == [int(matches)]
    assert ledger.history.audit(type="ReinforcementEvaluated")[0].data["matcher"] == matcher


# --- echoes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("echo_gain", "confidence"), [(None, 0.5), (0.005, 0.505), (0.02, 0.52)])
def test_an_echo_is_recorded_as_one_and_gains_what_the_policy_says(
    ledger: Ledger, echo_gain: float | None, confidence: float
) -> None:
    if echo_gain is not None:
        ledger.policy.set(echo_gain=echo_gain)
    injected = ledger.remember(ROAST, kind="preference", confidence=0.5)
    own = ledger.remember("Dark roast coffee is what the user prefers.", kind="preference", confidence=0.5)
    turn = ledger.capture("What do I drink?", SAID, memories_used=[injected.id])
    assert (
        sum(each.get("echo", False) for each in ledger.history.audit(type="ReinforcementEvaluated")[0].data["matches"])
        == 1
    )
    steps = {each.id: each for each in (ledger.memories.get(injected.id), ledger.memories.get(own.id)) if each}
    assert (steps[injected.id].confidence, steps[own.id].confidence) == (confidence, 0.52)
    assert [point.echo for point in ledger.memories.confidence(injected.id)] == [False, True]
    assert [point.echo for point in ledger.memories.confidence(own.id)] == [False, False]
    by_hand = ledger.reinforce(ledger.remember("Something else.").id, source=turn.id)
    assert by_hand.reference_count == 1  # type: ignore[union-attr]


def test_an_echo_is_recognized_by_the_beginning_of_the_memory_id(ledger: Ledger) -> None:
    injected = ledger.remember(ROAST, kind="preference", confidence=0.5)
    turn = ledger.capture("What do I drink?", SAID, memories_used=[injected.id[:8], injected.id])
    assert (turn.memories_used, turn.warnings) == ((injected.id,), ())
    later = ledger.capture("What do I drink?")
    later = ledger.interactions.add_response(later.id, SAID, memories_used=[injected.id[:8]])
    assert (later.memories_used, later.warnings) == ((injected.id,), ())
    now = ledger.memories.get(injected.id)
    assert now.confidence == 0.5
    assert [point.echo for point in ledger.memories.confidence(injected.id)] == [False, True, True]


def test_an_id_of_no_memory_of_the_user_is_kept_with_a_warning_and_is_no_echo(ledger: Ledger) -> None:
    fact = ledger.remember(ROAST, kind="preference", confidence=0.5)
    theirs = ledger.bind(user="bob").remember("Bob's own.")
    given = ["m_ffffffffffffffff", "fact-17", "m_", theirs.id[:10], fact.id]
    turn = ledger.capture("What do I drink?", SAID, memories_used=given, idempotency_key="once")
    assert turn.memories_used == tuple(given)
    assert [text.split("'")[1] for text in turn.warnings] == given[:4]
    again = ledger.capture("What do I drink?", SAID, memories_used=given, idempotency_key="once")
    assert (again.replayed, again.memories_used, again.warnings) == (True, turn.memories_used, turn.warnings)
    assert [point.echo for point in ledger.memories.confidence(fact.id)] == [False, True]
    with ledger.batch():
        batched = ledger.capture("And?", memories_used=given)
    assert (batched.memories_used, batched.warnings) == (turn.memories_used, turn.warnings)
    answered = ledger.interactions.add_response(ledger.capture("And?").id, "None.", memories_used=["fact-17"])
    assert (len(answered.warnings), ledger.capture("And?").warnings) == (1, ())


def test_the_beginning_of_several_ids_names_none_of_them(ledger: Ledger) -> None:
    facts = [ledger.remember(f"The user has read {number} books about it.", kind="preference") for number in range(40)]
    shared = next(each.id[:3] for each in facts if sum(other.id[:3] == each.id[:3] for other in facts) > 1)
    turn = ledger.capture("And?", "Nothing.", memories_used=[shared])
    assert (turn.memories_used, len(turn.warnings)) == ((shared,), 1)
    assert ledger.jobs.run(jobs=("extraction",)).failures == 0


@pytest.mark.parametrize("used", [[7], [None], [b"m_1"], 7, "m_1"])
def test_memories_used_must_be_texts(ledger: Ledger, used: Any) -> None:
    with pytest.raises(RejectedError, match="memories_used"):
        ledger.capture("And?", memories_used=used)


# --- denials ---------------------------------------------------------------------------------------------------------

DENIED = "Noted: you no longer prefer dark roast coffee."


def denied(ledger: Ledger) -> tuple[Any, Any]:
    fact = ledger.remember(ROAST, kind="preference", confidence=0.5)
    return fact, ledger.capture("What do I drink?", DENIED)


def contradictions(ledger: Any) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.id, each.contradicted_by) for each in ledger.review() if each.contradicted_by]


def test_a_denial_reinforces_nothing_and_is_recorded_and_offered(ledger: Ledger) -> None:
    fact, turn = denied(ledger)
    evaluated = ledger.history.audit(type="ReinforcementEvaluated")[0].data
    assert evaluated["denied"] == [{"memory": fact.id, "how": "past"}] and "matches" not in evaluated
    now = ledger.memories.get(fact.id)
    assert (now.status, now.confidence, now.reference_count) == ("active", 0.5, 0)
    assert contradictions(ledger) == [(fact.id, (turn.id,))]
    assert contradictions(ledger.at(turn.position - 1)) == []
    assert contradictions(ledger.at(ledger.position)) == [(fact.id, (turn.id,))]
    again = ledger.capture("And?", DENIED)
    assert contradictions(ledger) == [(fact.id, (turn.id, again.id))]
    position, report = ledger.position, ledger.interactions.reinforce(turn.id)
    assert report.replayed and report.denied == (fact.id,) and ledger.position == position  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("believed", "denial", "restated"),
    [
        ("The user is allergic to peanuts.", "The user is not allergic to peanuts.", "You are allergic to peanuts."),
        ("The user lives in Lisbon.", "The user used to live in Lisbon.", "Since you live in Lisbon, walk there."),
        (ROAST, "The user no longer prefers dark roast coffee.", "The user prefers dark roast coffee."),
        (ROAST, "The user hates dark roast coffee.", "You love dark roast coffee."),
        ("The user likes cats.", "The user likes dogs and hates cats.", "The user likes dogs and likes cats."),
    ],
)  # fmt: skip
def test_each_way_to_deny_is_offered_and_the_plain_restatement_still_reinforces(
    ledger: Ledger, believed: str, denial: str, restated: str
) -> None:
    fact = ledger.remember(believed, kind="preference", confidence=0.5)
    turn = ledger.capture("What do you know?", denial)
    assert [each["memory"] for each in ledger.history.audit(type="ReinforcementEvaluated")[0].data["denied"]] == [
        fact.id
    ]
    assert (counts(ledger, fact), contradictions(ledger)) == ([0], [(fact.id, (turn.id,))])
    assert ledger.memories.get(fact.id).confidence == 0.5
    ledger.capture("And now?", restated)
    assert counts(ledger, fact) == [1]
    assert ledger.memories.get(fact.id).confidence == 0.52
    assert contradictions(ledger) == [(fact.id, (turn.id,))], "what a response restates decides nothing"


def test_undoing_an_evaluation_takes_its_contradiction_out_of_review_until_the_redo(
    ledger: Ledger,
) -> None:
    turn = ledger.capture("What do I drink?", DENIED)
    fact = ledger.remember(ROAST, kind="preference")
    assert contradictions(ledger) == []
    assert ledger.interactions.reinforce(turn.id).denied == (fact.id,)
    assert contradictions(ledger) == [(fact.id, (turn.id,))]
    evaluated = ledger.history.audit(type="ReinforcementEvaluated")[0]
    undone = ledger.undo(evaluated.position)
    assert contradictions(ledger) == [] and ledger.interactions.get(turn.id)
    ledger.redo(undone.position)
    assert contradictions(ledger) == [(fact.id, (turn.id,))]


DECISIONS: dict[str, Any] = {
    "promote": lambda g, id: g.promote(id),
    "reinforce": lambda g, id: g.reinforce(id),
    "supersede": lambda g, id: g.supersede(id, "The user prefers tea."),
    "retract": lambda g, id: g.retract(id),
    "invalidate": lambda g, id: g.invalidate(id),
    "revise": lambda g, id: g.revise(id, "The user prefers dark roasted coffee."),
    "adjust": lambda g, id: g.memories.set_confidence(id, 0.2),
    "said again": lambda g, id: g.remember(ROAST, kind="preference"),
    "erase": lambda g, id: g.erase(id),
}


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_contradiction_goes_from_review_with_any_decision_and_comes_back_with_its_undo(
    ledger: Ledger, decision: str
) -> None:
    fact, turn = denied(ledger)
    DECISIONS[decision](ledger, fact.id)
    position = ledger.position
    assert contradictions(ledger) == []
    ledger.interactions.reinforce(turn.id)  # the same turn says nothing new
    assert contradictions(ledger) == []
    if decision != "erase":
        ledger.undo(position)
        assert contradictions(ledger) == [(fact.id, (turn.id,))]


def test_a_promotion_keeps_what_was_denied_once_and_adds_nothing(ledger: Ledger) -> None:
    fact, _ = denied(ledger)
    kept = ledger.promote(fact.id)
    assert (kept.confidence, kept.reference_count) == (0.5, 1)
    position = ledger.position
    assert ledger.promote(fact.id).reference_count == 1 and ledger.position == position


def test_a_turn_that_is_undone_or_erased_denies_nothing(ledger: Ledger) -> None:
    fact, turn = denied(ledger)
    undone = ledger.undo(turn.position)
    assert contradictions(ledger) == []
    ledger.redo(undone.position)
    assert contradictions(ledger) == [(fact.id, (turn.id,))]
    ledger.maintenance.rebuild()
    assert contradictions(ledger) == [(fact.id, (turn.id,))]
    ledger.erase(turn.id)
    assert contradictions(ledger) == []


def test_a_contradiction_stands_in_its_place_among_the_candidates(ledger: Ledger) -> None:
    first = ledger.propose("The user collects stamps.")
    fact, _ = denied(ledger)
    last = ledger.propose("The user collects coins.")
    assert [each.id for each in ledger.review()] == [first.id, fact.id, last.id]
    page = ledger.review(limit=2)
    assert [each.id for each in page] == [first.id, fact.id]
    assert [each.id for each in ledger.review(limit=2, after=page.next)] == [last.id]
    assert ledger.review(project="elsewhere") == [] and ledger.bind(user="bob").review() == []


def test_the_substring_matcher_does_not_recognize_a_denial(ledger: Ledger) -> None:
    ledger.policy.set(matcher="substring/1")
    fact = ledger.remember(ROAST, kind="preference")
    ledger.capture("What do I drink?", f"It is not so that {ROAST}")
    assert (counts(ledger, fact), contradictions(ledger)) == ([1], [])


def test_a_policy_that_names_a_deleted_matcher_gets_the_default_and_the_doctor_says_so(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setitem(policy.CHECKS, "matcher", lambda _name, value: value)
        ledger.policy.set(matcher="stems/3", max_matches=7)
    assert (ledger.policy.get().matcher, ledger.policy.get().max_matches) == ("stems/6", 7)
    fact = ledger.remember(ROAST, kind="preference")
    ledger.capture("What do I drink?", SAID)
    assert counts(ledger, fact) == [1]
    notes = [each.found for each in ledger.maintenance.doctor().findings if each.what == "policy"]
    assert notes == [
        "the policy of 1 user names the matcher 'stems/3', which this version does not have; stems/6 takes its place"
    ]
    with pytest.raises(RejectedError, match="matcher cannot be 'stems/4'"):
        ledger.policy.set(matcher="stems/4")


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_only_an_active_memory_is_reinforced(ledger: Ledger) -> None:
    idea = ledger.propose(ROAST)
    gone = ledger.remember("Gone.")
    ledger.retract(gone.id)
    for id in (idea.id, gone.id):
        with pytest.raises(RejectedError, match="cannot reinforce"):
            ledger.reinforce(id)
    for id in ("m_0000000000000000", "", "m_", "nothing", "i_0000000000000000"):
        with pytest.raises(NotFoundError):
            (ledger.interactions.reinforce if id.startswith("i_") else ledger.reinforce)(id)


@pytest.mark.parametrize("delta", [-0.01, -1, 1.01, float("nan"), float("inf"), 2**70, "0.1", True])
def test_the_amount_of_a_reinforcement_is_a_number_from_zero_to_one(ledger: Ledger, delta: Any) -> None:
    fact = ledger.remember(ROAST)
    with pytest.raises(RejectedError, match=r"^amount "):
        ledger.reinforce(fact.id, amount=delta)
    assert counts(ledger, fact) == [0]


def test_reinforcement_never_creates_or_revives_and_leaves_trusted_state_alone(ledger: Ledger) -> None:
    gone = ledger.remember(ROAST, kind="preference", project="assistant")
    ledger.invalidate(gone.id)
    ledger.projects.set_state("assistant", "fact", "coffee", ROAST)
    state = ledger.projects.state("assistant", history=True)
    ledger.capture("What do I drink?", SAID, project="assistant")
    assert [each.status for each in ledger.memories.list(statuses=())] == ["invalid"]
    assert ledger.projects.state("assistant", history=True) == state


# --- failures --------------------------------------------------------------------------------------------------------


def breaks(*_: object) -> None:
    raise ValueError("a secret of the user")


def test_a_failing_reinforcement_keeps_the_capture_and_is_tried_three_times(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact = ledger.remember(ROAST, kind="preference")
    with monkeypatch.context() as patched:
        patched.setattr(reinforcement, "evaluate", breaks)
        turn = ledger.capture("What do I drink?", SAID)
        assert (turn.response, turn.reinforcement) == (SAID, "pending")
        failed = ledger.history.audit(type="ReinforcementFailed")[0]
        assert (failed.subject, failed.data) == (turn.id, {"error": "ValueError"})
        assert [ledger.jobs.run().failures for _ in range(4)] == [1, 1, 0, 0]
    assert len(ledger.history.audit(type="ReinforcementFailed")) == 3
    found = ledger.interactions.get(turn.id)
    assert (found.reinforcement, found.extraction) == ("failed", "done")
    assert "secret" not in full(ledger.history.events(turn.id))
    ledger.jobs.run()
    assert counts(ledger, fact) == [0]
    ledger.interactions.reinforce(turn.id)  # by hand it still can be
    assert counts(ledger, fact) == [1]


def test_a_reinforcement_that_failed_once_succeeds_later(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    fact = ledger.remember(ROAST, kind="preference")
    with monkeypatch.context() as patched:
        patched.setattr(reinforcement, "evaluate", breaks)
        turn = ledger.capture("What do I drink?", SAID)
    report = ledger.jobs.run()
    assert (report.reinforced_interactions, report.reinforced_memories, report.failures) == (1, 1, 0)
    found = ledger.interactions.get(turn.id)
    assert found.reinforcement == "done" and counts(ledger, fact) == [1]


def test_a_failing_extraction_is_tried_three_times_whatever_reinforcement_did(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ledger.extraction import rule_findings

    with monkeypatch.context() as patched:
        patched.setattr(reinforcement, "evaluate", breaks)
        patched.setattr(rule_findings, "by_rules", breaks)
        turn = ledger.capture("What now?", "Decision: buy a grinder on Friday.")
        assert [ledger.jobs.run().failures for _ in range(4)] == [2, 2, 1, 0]
    found = ledger.interactions.get(turn.id)
    assert (found.reinforcement, found.extraction) == ("failed", "failed")
    assert len(ledger.history.audit(type="ExtractionFailed")) == 3


def test_a_reinforcement_that_a_crash_prevented_is_done_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PowerCut(BaseException):
        pass

    def cut(*_: object) -> None:
        raise PowerCut

    with Ledger.open(tmp_path / "memory.db") as ledger:
        fact = ledger.remember(ROAST, kind="preference")
        with monkeypatch.context() as patched, pytest.raises(PowerCut):
            patched.setattr(reinforcement, "evaluate", cut)
            ledger.capture("What do I drink?", SAID)
    with Ledger.open(tmp_path / "memory.db") as ledger:
        (turn,) = ledger.interactions.list()
        assert (turn.response, turn.reinforcement) == (SAID, "pending")
        assert ledger.jobs.run().reinforced_memories == 1
        assert ledger.jobs.run().reinforced_memories == 0
        assert counts(ledger, fact) == [1]
        assert ledger.proof.digest() == probe.rebuild(ledger).digest


def test_a_response_captured_in_a_batch_is_reinforced_by_the_next_run(ledger: Ledger) -> None:
    fact = ledger.remember(ROAST, kind="preference")
    with ledger.batch():
        for number in range(3):
            assert ledger.capture(f"turn {number}", SAID).reinforcement == "pending"
    report = ledger.jobs.run()
    assert (report.reinforced_interactions, report.reinforced_memories) == (3, 3)
    assert counts(ledger, fact) == [3]


def test_a_memory_that_changed_between_search_and_lock_is_looked_at_again(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, changed = ledger.remember(ROAST, kind="preference"), ledger.remember(f"{ROAST} Yes.", kind="preference")
    search = reinforcement.evaluate

    def meanwhile(*asked: Any) -> Any:
        found = search(*asked)
        ledger.retract(gone.id)
        ledger.revise(changed.id, "The user has moved to tea altogether.")
        return found

    monkeypatch.setattr(reinforcement, "evaluate", meanwhile)
    ledger.capture("What do I drink?", SAID)
    assert counts(ledger, gone, changed) == [0, 0]
    assert "matches" not in ledger.history.audit(type="ReinforcementEvaluated")[0].data


def test_what_a_suspended_index_cannot_tell_waits_for_the_rebuild_and_spends_no_attempt(
    ledger: Ledger, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact = ledger.remember(ROAST, kind="preference")
    with monkeypatch.context() as patched:
        patched.setattr(memory_hits.Restatable, "fold", None)
        ledger.remember("The user prefers oolong tea.", kind="preference")
    turn = ledger.capture("What do I drink?", SAID)
    for _ in range(5):
        clock.advance(days=2)
        ledger.jobs.run()
    assert ledger.interactions.get(turn.id).reinforcement == "pending"
    probe.rebuild(ledger)
    ledger.jobs.run()
    assert ledger.interactions.get(turn.id).reinforcement == "done" and counts(ledger, fact) == [1]
