"""What a turn says becomes memories: new ones only, each with its rule and place, once."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import Ledger, NotFoundError

TEXT = "Hello.\nDecision: store events only.\nFact: no\nThe user prefers tabs over spaces. So the user prefers tabs over spaces."


def contents(found: Any) -> list[str]:
    return [each.content for each in found]


def test_rules_spans_and_reasons_are_recorded(ledger: Ledger) -> None:
    turn = ledger.capture("And?", TEXT, project="assistant", session="s1")
    report = ledger.extract(turn.id)
    assert [(each.kind, each.content, each.status, each.project, each.sources) for each in report.kept] == [
        ("adaptation", "store events only", "candidate", "assistant", (turn.id,)),
        ("preference", "The user prefers tabs over spaces", "candidate", "assistant", (turn.id,)),
    ]
    assert [(each["rule"], TEXT[each["start"] : each["end"]], each["reason"]) for each in report.dropped] == [
        ("fact_heading", "Fact: no", "too_short"),
        ("preference_sentence", "the user prefers tabs over spaces", "repeated"),
    ]
    data = ledger.history.audit(type="CandidatesExtracted")[0].data
    assert (data["extractor"], data["kept"]) == ("rules/6", [each.id for each in report.kept])
    quotes = [each.provenance.quote for each in ledger.review() if each.provenance]
    assert quotes == ["Decision: store events only", "The user prefers tabs over spaces"]
    assert len({each.command_id for each in ledger.history.audit(command="extract")}) == 1


def test_a_second_extraction_appends_nothing_and_tells_the_same(ledger: Ledger) -> None:
    turn = ledger.capture("And?", TEXT)
    first, position = ledger.extract(turn.id), ledger.position
    assert ledger.extract(turn.id) == first
    assert ledger.jobs.run(jobs=("extraction",)).extracted_interactions == 0
    assert ledger.position == position


def test_a_preview_writes_nothing(ledger: Ledger) -> None:
    turn = ledger.capture("And?", TEXT)
    position = ledger.position
    report = ledger.extract(turn.id, dry_run=True)
    assert (report.dry_run, report.kept, ledger.position) == (True, (), position)
    assert [(each["content"], each["reason"]) for each in report.dropped] == [
        ("store events only", ""), ("The user prefers tabs over spaces", ""), ("no", "too_short"),
        ("The user prefers tabs over spaces", "repeated"),
    ]  # fmt: skip


def test_summary_and_response_are_one_pass(ledger: Ledger) -> None:
    turn = ledger.capture(
        "And?", "Decision: store events only", summary="Decision: store EVENTS only.\nFact: tea is in the tin"
    )
    report = ledger.extract(turn.id)
    assert contents(report.kept) == ["store events only", "tea is in the tin"]
    assert [(each["field"], each["reason"]) for each in report.dropped] == [("summary", "repeated")]


@pytest.mark.parametrize(("hide", "reason"), [("reject", "rejected"), ("retract", "retracted")])
def test_what_was_turned_down_does_not_come_back(ledger: Ledger, hide: str, reason: str) -> None:
    (first,) = ledger.extract(ledger.capture("And?", "Decision: store events only.").id).kept
    getattr(ledger, hide)(first.id)
    report = ledger.extract(ledger.capture("And again?", "Decision: STORE events only!").id)
    assert report.kept == () and [(each["reason"], each["memory"]) for each in report.dropped] == [(reason, first.id)]
    assert ledger.review() == []


def test_what_is_known_is_dropped(ledger: Ledger) -> None:
    known = ledger.remember("store events only", kind="adaptation")
    report = ledger.extract(ledger.capture("And?", "Decision: store events only.").id)
    assert [(each["reason"], each["memory"]) for each in report.dropped] == [("known", known.id)]
    elsewhere = ledger.extract(ledger.capture("And?", "Decision: store events only.", project="other").id)
    assert contents(elsewhere.kept) == ["store events only"]


def test_a_candidate_absorbs_a_second_extraction_of_the_same_text(ledger: Ledger) -> None:
    (first,) = ledger.extract(ledger.capture("And?", "Decision: store events only.").id).kept
    again = ledger.capture("And again?", "Decision: store events only.")
    report = ledger.extract(again.id)
    assert report.kept == () and [(each["reason"], each["memory"]) for each in report.dropped] == [
        ("duplicate", first.id)
    ]
    (absorbed,) = ledger.history.audit(type="DuplicateAbsorbed")
    assert (absorbed.subject, absorbed.data["sources"]) == (first.id, [again.id])
    assert len(ledger.review()) == 1


def test_an_echo_of_what_was_put_before_the_model_is_no_evidence(ledger: Ledger) -> None:
    injected = ledger.remember("The team decided to store nothing but events.", kind="fact")
    turn = ledger.capture(
        "And?", "Decision: store nothing but events, as the team decided.", memories_used=[injected.id]
    )
    report = ledger.extract(turn.id)
    assert report.kept == () and [(each["reason"], each["memory"]) for each in report.dropped] == [
        ("echo", injected.id)
    ]
    own = ledger.extract(ledger.capture("And?", "Decision: store nothing but events, as the team decided.").id)
    assert len(own.kept) == 1


def test_at_most_fifty_a_pass(ledger: Ledger) -> None:
    text = "\n".join(f"Decision: rule number {number}" for number in range(53))
    report = ledger.extract(ledger.capture("And?", text).id)
    assert (len(report.kept), [each["reason"] for each in report.dropped]) == (50, ["batch_cap"] * 3)


@pytest.mark.parametrize(("length", "kept"), [(7, 0), (8, 1), (280, 1), (281, 0)])
def test_the_length_bounds(ledger: Ledger, length: int, kept: int) -> None:
    assert len(ledger.extract(ledger.capture("And?", "Fact: " + "x" * length).id).kept) == kept


def test_candidates_are_never_promoted_by_themselves(ledger: Ledger) -> None:
    ledger.capture("And?", TEXT)
    for _ in range(3):
        ledger.jobs.run()
        ledger.capture("And?", TEXT)
    assert ledger.memories.list() == [] and {each.memory.status for each in ledger.review()} == {"candidate"}
    assert {each.memory.reference_count for each in ledger.review()} == {0}


def test_extraction_waits_for_an_answer_and_for_the_policy(ledger: Ledger) -> None:
    turn = ledger.capture("What did we decide?")
    assert ledger.jobs.run().extracted_interactions == 0
    ledger.interactions.add_response(turn.id, "Decision: store events only.")
    ledger.policy.set(extract=False)
    assert ledger.jobs.run().extracted_interactions == 0
    ledger.policy.set(extract=True)
    assert ledger.jobs.run().candidates == 1
    with pytest.raises(NotFoundError):
        ledger.extract("i_0000000000000000")
