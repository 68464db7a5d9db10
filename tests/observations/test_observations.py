"""Observations at the door: what bears them out, how it comes and goes, and the defects that must not come back."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import probe
import pytest
from absence import absent, perhaps
from conftest import Clock, folded, folded_from_zero
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ledger import ConflictError, Ledger, LedgerError, NotFoundError, RejectedError
from ledger.observations import rules as observation_rules
from ledger.observations.answers import Observation
from ledger.observations.queries import observation_answers
from ledger.types import EVERYTHING, Event
from projections.views import observations as rows

COFFEE = "The user is serious about coffee."


def two(ledger: Ledger, **more: Any) -> tuple[str, str]:
    return (
        ledger.remember("The user drinks coffee each morning.", **more).id,
        ledger.remember("The user bought a coffee grinder.", **more).id,
    )


def read(ledger: Ledger, id: str) -> Observation:
    return ledger.observations.get(id)


def standing(ledger: Ledger, id: str) -> tuple[str, int, str]:
    found = read(ledger, id)
    return found.status, found.proof_count, found.freshness


# --- the defects of the system it comes from -------------------------------------------------------------------------


def test_the_same_source_twice_is_one_proof(ledger: Ledger) -> None:
    first, second = two(ledger)
    seen = ledger.observations.add(COFFEE, [first, first, first[:12]])
    assert (seen.proof_count, len(seen.sources)) == (1, 1)
    again = ledger.observations.add(COFFEE, [first])
    assert (again.id, again.proof_count, again.absorbed) == (seen.id, 1, True)
    assert ledger.observations.add(COFFEE, [second, first]).proof_count == 2


def test_an_observation_of_three_sources_has_the_proof_of_three(ledger: Ledger) -> None:
    assert ledger.observations.add(COFFEE, [*two(ledger), ledger.capture("Which beans?").id]).proof_count == 3


def test_every_source_has_its_time_also_one_that_was_added_or_withdrawn(ledger: Ledger) -> None:
    first, second = two(ledger)
    seen = ledger.observations.add(COFFEE, (first,))
    ledger.observations.add(COFFEE, (second,))
    ledger.observations.withdraw((first,))
    found = read(ledger, seen.id)
    assert {each.id for each in found.sources} == {first, second} and all(each.at for each in found.sources)


@pytest.mark.slow
def test_withdrawing_a_source_of_450_observations_reaches_all_450(ledger: Ledger) -> None:
    shared, own = two(ledger)
    with ledger.batch():
        alone = [ledger.observations.add(f"Finding number {number}.", [shared]).id for number in range(300)]
        both = [ledger.observations.add(f"Finding number {number}.", [shared, own]).id for number in range(300, 450)]
    report = ledger.observations.withdraw([shared], reason="a joke")
    assert (len(report.observations), set(report.retracted), set(report.stale)) == (450, set(alone), set(both))
    assert report.ok and report.failed == ()
    left = ledger.observations.list(statuses=(), limit=1_000)
    assert len(left) == 450 and not any(each.live for one in left for each in one.sources if each.id == shared)
    assert {each.id for each in ledger.observations.list(limit=1_000)} == set(both)


def test_what_a_source_ever_supported_is_found_without_a_look_at_all_other_evidence(ledger: Ledger) -> None:
    asked: list[str] = []
    with probe.read(ledger) as connection:
        connection.set_trace_callback(asked.append)
        rows.ever_supported_by(connection, "m_0123456789abcdef")
        rows.parts(connection, "s_0123456789abcdef")
        connection.set_trace_callback(None)
        plans = [line for sql in asked for *_, line in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
    assert any("evidence_was" in each for each in plans)
    assert [each for each in plans if each.startswith("SCAN evidence")] == []


def test_the_id_stays_through_every_wording_and_each_wording_with_its_reason_is_kept(ledger: Ledger) -> None:
    seen = ledger.observations.add(COFFEE, two(ledger), reason="two facts")
    ledger.bind(actor="ann").revise(seen.id, "The user takes coffee seriously.", reason="shorter")
    last = ledger.bind(actor="ben").revise(seen.id, "The user takes coffee very seriously.", reason="stronger")
    why = ledger.why(seen.id)
    assert last.id == seen.id
    told = [(each.content, each.why, each.reason, each.actor) for each in why.wordings]
    assert told == [
        (COFFEE, "formed", "two facts", ""),
        ("The user takes coffee seriously.", "curated", "shorter", "ann"),
        ("The user takes coffee very seriously.", "curated", "stronger", "ben"),
    ]
    assert [each.type for each in ledger.history.events(seen.id) or []] == [
        "ObservationFormed",
        *["ObservationRevised"] * 2,
    ]


def test_stale_is_really_written_and_ends_with_a_new_wording(ledger: Ledger) -> None:
    first, second = two(ledger)
    seen = ledger.observations.add(COFFEE, [first, second])
    ledger.observations.withdraw((first,))
    assert (read(ledger, seen.id).freshness, read(ledger, seen.id).stale) == ("stale", "withdrawn")
    assert [each.id for each in ledger.observations.list(freshness="stale")] == [seen.id]
    assert ledger.observations.list(freshness="fresh") == []
    assert ledger.revise(seen.id, "The user owns a grinder.").freshness == "fresh"  # type: ignore[union-attr]
    assert read(ledger, seen.id).written_from == (second,)


def test_filters_come_before_the_page(ledger: Ledger, clock: Clock) -> None:
    old = ledger.remember("The user drank tea.", valid_from="2020-01-01").id
    wanted = [ledger.observations.add(f"Of long ago, {number}.", (old,), tags=["rare"]).id for number in range(3)]
    new = ledger.remember("The user drinks coffee.").id
    with ledger.batch():
        for number in range(220):
            ledger.observations.add(f"Of today, {number}.", (new,))
    assert [each.id for each in ledger.observations.list(trends=["dormant"], limit=2)] == wanted[:0:-1]
    first = ledger.observations.list(trends=["dormant"], limit=2)
    assert [each.id for each in ledger.observations.list(trends=["dormant"], after=first.next)] == wanted[:1]
    assert (
        len(ledger.observations.list(tags=("RARE ",))) == 3 and ledger.observations.list(tags=["rare", "other"]) == []
    )
    ledger.retract(old)
    assert {each.id for each in ledger.observations.list(statuses=("unsupported",))} == set(wanted)
    assert len(ledger.observations.list(limit=1_000)) == 220


def test_forgetting_a_memory_lowers_the_proof_at_once(ledger: Ledger) -> None:
    first, second = two(ledger)
    seen = ledger.observations.add(COFFEE, [first, second])
    position = ledger.retract(first).position
    assert standing(ledger, seen.id) == ("active", 1, "stale")
    ledger.invalidate(second)
    assert standing(ledger, seen.id) == ("unsupported", 0, "stale")
    assert ledger.observations.list() == [] and ledger.observations.list(statuses=("unsupported",))[0].confidence == 0
    assert [each.type for each in ledger.history.events(seen.id) or []] == ["ObservationFormed"], (
        "no event of the observation"
    )
    ledger.restore(first)
    ledger.restore(second)
    assert standing(ledger, seen.id) == ("active", 2, "fresh")
    past = ledger.at(position).observations.get(seen.id)
    assert (past.proof_count, past.freshness) == (1, "stale")


@pytest.mark.parametrize("how", ["quarantine", "retract", "invalidate", "undo", "distrust", "erase", "supersede"])
def test_hiding_a_source_lowers_the_proof_and_makes_the_wording_stale(ledger: Ledger, how: str) -> None:
    first = ledger.bind(actor="crawler").remember("The user drinks coffee.")
    second = ledger.remember("The user bought a grinder.").id
    seen = ledger.observations.add(COFFEE, [first.id, second])
    other = ledger.observations.add("The user owns a grinder.", (second,))
    {
        "quarantine": lambda: ledger.guards.quarantine(first.id),
        "retract": lambda: ledger.retract(first.id),
        "invalidate": lambda: ledger.invalidate(first.id),
        "undo": lambda: ledger.undo(first.position),
        "distrust": lambda: ledger.history.distrust("crawler", kind="actor"),
        "erase": lambda: ledger.erase(first.id, derived="keep", quotes="keep"),
        "supersede": lambda: ledger.supersede(first.id, "The user drinks tea."),
    }[how]()
    assert standing(ledger, seen.id) == ("active", 1, "stale")
    assert standing(ledger, other.id) == ("active", 1, "fresh")


def test_withdrawing_leaves_what_other_sources_support_and_marks_it_for_another_look(ledger: Ledger) -> None:
    first, second = two(ledger)
    seen, alone = (
        ledger.observations.add(COFFEE, [first, second]),
        ledger.observations.add("The user is up early.", [first]),
    )
    report = ledger.observations.withdraw([first], reason="a joke")
    assert (report.stale, report.retracted) == ((seen.id,), (alone.id,))
    assert read(ledger, alone.id).retracted == "no_evidence"
    assert {each.withdrawn for each in read(ledger, seen.id).sources} == {"", "asked"}


def test_the_trend_goes_by_when_things_were_so_and_not_by_when_they_came_in(ledger: Ledger, clock: Clock) -> None:
    old = ledger.remember("The user drank tea.", valid_from="2019-05-01").id
    turn = ledger.capture("Tea?", occurred_at="2019-06-01T10:00:00+02:00").id
    paper = ledger.documents.add("# Tea\n\nGreen tea is steeped for two minutes.\n", occurred_at="2019-07-01T00:00:00Z")
    chunk = paper.chunks[0].id
    seen = ledger.observations.add("The user drank tea in 2019.", [old, turn, chunk])
    assert seen.trend == "dormant"
    assert seen.trend_at("2019-05-20") == "new" and seen.trend_at(datetime(2019, 7, 2, tzinfo=UTC)) == "stable"
    assert {each.id: each.at[:19] for each in seen.sources} == {
        old: "2019-05-01T00:00:00",
        turn: "2019-06-01T08:00:00",
        chunk: "2019-07-01T00:00:00",
    }
    assert ledger.observations.list(trends=["new"]) == []


# --- written by hand -------------------------------------------------------------------------------------------------


def test_an_observation_needs_a_source_in_use_of_its_own_user_and_project(ledger: Ledger) -> None:
    first, second = two(ledger, project="home")
    theirs = ledger.bind(user="ben").remember("Theirs.").id
    ledger.retract(second)
    for source, told in (
        ([], "needs a source"),
        ([second], "cannot be evidence"),
        ([first, second], "cannot be evidence"),
        ([ledger.projects.get("home").id], "rests on memories"),
    ):
        with pytest.raises(RejectedError, match=told):
            ledger.observations.add(COFFEE, source, project="home")
    with pytest.raises(RejectedError, match="of another project"):
        ledger.observations.add(COFFEE, [first], project="work")
    for nobodys in ("m_0000000000000000", theirs):
        with pytest.raises(NotFoundError):
            ledger.observations.add(COFFEE, [nobodys])
    assert ledger.observations.list(statuses=()) == []
    assert ledger.observations.add(COFFEE, [first], project="HOME").project == "home"
    assert ledger.observations.add(COFFEE, [first]).project is None
    assert [each.project for each in ledger.observations.list(project="")] == [None]
    assert ledger.observations.list(project="nowhere") == []


@pytest.mark.parametrize("confidence", [-0.01, 1.01, 7.0, -1, float("nan"), True, "high"])
def test_a_confidence_outside_nought_and_one_is_refused(ledger: Ledger, confidence: Any) -> None:
    with pytest.raises(RejectedError, match="from 0 to 1"):
        ledger.observations.add(COFFEE, two(ledger), confidence=confidence)


def test_a_confidence_that_was_given_is_shown_as_long_as_anything_bears_it_out(ledger: Ledger) -> None:
    first, second = two(ledger)
    assert ledger.observations.add(COFFEE, [first, second]).confidence == 0.9
    assert ledger.observations.add("Another.", [first], confidence=0.01).confidence == 0.01
    ledger.retract(first)
    assert [each.confidence for each in ledger.observations.list(statuses=())] == [0.0, 0.9]


def test_the_same_words_are_more_evidence_in_one_scope_and_a_new_observation_in_another(
    ledger: Ledger,
) -> None:
    first, second = two(ledger)
    seen = ledger.observations.add(COFFEE, (first,), tags=["a", "b"])
    more = ledger.observations.add(COFFEE.upper().replace(" ", "  "), (second,), tags=["b", "a"], confidence=0.6)
    assert (more.id, more.absorbed, more.content, more.confidence, more.scope) == (seen.id, True, COFFEE, 0.9, "a|b")
    assert more.proof_count == 2
    others = [
        ledger.observations.add(COFFEE, (first,)),
        ledger.observations.add(COFFEE, (first,), tags=["a"]),
        ledger.observations.add(COFFEE, (first,), project="home", tags=["a", "b"]),
        ledger.bind(user="ben").observations.add(
            COFFEE, (ledger.bind(user="ben").remember("Mine.").id,), tags=["a", "b"]
        ),
    ]
    assert len({seen.id, *(each.id for each in others)}) == 5


def test_the_same_words_again_word_a_stale_one_anew_from_these_sources(ledger: Ledger) -> None:
    first, second = two(ledger)
    seen = ledger.observations.add(COFFEE, (first,))
    ledger.retract(first)
    again = ledger.observations.add(COFFEE, (second,))
    assert (again.id, again.freshness, again.proof_count, again.written_from) == (seen.id, "fresh", 1, (second,))


def test_the_same_words_put_back_a_source_that_was_withdrawn(ledger: Ledger) -> None:
    first, second = two(ledger)
    seen = ledger.observations.add(COFFEE, [first, second])
    ledger.observations.withdraw((first,))
    assert ledger.observations.add(COFFEE, (first,)).id == seen.id
    assert standing(ledger, seen.id) == ("active", 2, "fresh")


def test_a_retired_observation_gains_no_evidence_and_its_words_form_a_new_one(ledger: Ledger) -> None:
    first, second = two(ledger)
    seen = ledger.observations.add(COFFEE, (first,))
    ledger.retract(seen.id)
    again = ledger.observations.add(COFFEE, (second,))
    assert again.id != seen.id
    with pytest.raises(RejectedError, match="is active and says the same"):
        ledger.restore(seen.id)
    with pytest.raises(RejectedError, match="is active and says the same"):
        ledger.revise(ledger.observations.add("Other words.", (first,)).id, COFFEE)
    ledger.retract(again.id)
    assert ledger.restore(seen.id).status == "active"  # type: ignore[union-attr]


def test_a_revision_is_worded_from_the_live_sources_and_refused_without_any(ledger: Ledger) -> None:
    first, second = two(ledger)
    seen = ledger.observations.add(COFFEE, [first, second])
    ledger.retract(first)
    assert ledger.revise(seen.id, "The user owns a grinder.").written_from == (second,)  # type: ignore[union-attr]
    ledger.retract(second)
    with pytest.raises(RejectedError, match="a wording needs a live source"):
        ledger.revise(seen.id, "Whatever.")


def test_retract_and_restore_of_an_observation_ask_twice_without_harm(ledger: Ledger) -> None:
    seen = ledger.observations.add(COFFEE, two(ledger))
    assert ledger.retract(seen.id, reason="wrong").status == "retracted"  # type: ignore[union-attr]
    position = ledger.position
    ledger.retract(seen.id, reason="wrong")
    assert ledger.position == position
    assert (
        ledger.observations.list() == [] and ledger.observations.list(statuses=("retracted",))[0].retracted == "curated"
    )
    with pytest.raises(RejectedError, match="it is retracted, which allows"):
        ledger.revise(seen.id, "Other words.")
    assert ledger.restore(seen.id).status == "active"  # type: ignore[union-attr]
    for verb in (ledger.invalidate, ledger.promote):
        with pytest.raises(NotFoundError):
            verb(seen.id)


def test_keys_answer_a_repeated_command_once(ledger: Ledger) -> None:
    first, second = two(ledger)
    seen = ledger.observations.add(COFFEE, [first, second], idempotency_key="k")
    withdrawn = ledger.observations.withdraw((first,), reason="a joke", idempotency_key="w")
    position = ledger.position
    again = ledger.observations.add(COFFEE, [first, second], idempotency_key="k")
    assert (again.id, again.replayed, again.absorbed) == (seen.id, True, False)
    repeated = ledger.observations.withdraw((first,), reason="a joke", idempotency_key="w")
    assert repeated.replayed and repeated.stale == withdrawn.stale == (seen.id,)
    assert ledger.position == position
    with pytest.raises(ConflictError, match="other arguments"):
        ledger.observations.add(COFFEE, [first], idempotency_key="k")


def test_observing_works_in_a_batch(ledger: Ledger) -> None:
    with ledger.batch():
        first, second = two(ledger)
        seen = ledger.observations.add(COFFEE, (first,))
        assert ledger.observations.add(COFFEE, (second,)).proof_count == 2
        ledger.retract(first)
        assert standing(ledger, seen.id) == ("active", 1, "stale")
        assert ledger.observations.withdraw((second,)).retracted == (seen.id,)
    assert standing(ledger, seen.id)[0] == "retracted"


@pytest.mark.parametrize(
    "asked",
    [
        {"statuses": ["gone"]},
        {"trends": ["up"]},
        {"freshness": "old"},
        {"limit": "ten"},
        {"after": 7},
        {"after": "o_0000000000000000"},
    ],
)
def test_a_question_that_makes_no_sense_is_refused(ledger: Ledger, asked: Any) -> None:
    with pytest.raises(LedgerError):
        ledger.observations.list(**asked)


def test_an_id_of_a_wrong_form_finds_no_observation(ledger: Ledger) -> None:
    ledger.observations.add(COFFEE, two(ledger))
    for given_ in ("", "o_", "%", "o_%", "m_1", "x", 7, None):
        assert absent(ledger.observations.get, given_)  # type: ignore[arg-type]
    assert absent(ledger.why, "o_0000000000000000") and absent(ledger.history.events, "o_0000000000000000")
    assert ledger.observations.list(limit=0) == []


# --- withdrawing and putting back ------------------------------------------------------------------------------------


def test_restoring_a_source_puts_back_what_its_withdrawal_took(ledger: Ledger) -> None:
    first, second = two(ledger)
    seen, alone = (
        ledger.observations.add(COFFEE, [first, second]),
        ledger.observations.add("The user is up early.", [first]),
    )
    before = {id: read(ledger, id) for id in (seen.id, alone.id)}
    ledger.observations.withdraw((first,), reason="a joke")
    ledger.restore(first, reason="it was none")
    for id, was in before.items():
        now = read(ledger, id)
        assert (now.status, now.proof_count, now.freshness, now.sources) == (
            "active",
            was.proof_count,
            "fresh",
            was.sources,
        )
    position = ledger.position
    ledger.restore(first)
    assert ledger.position == position


def test_a_hidden_memory_and_its_evidence_come_back_in_one_append(ledger: Ledger) -> None:
    first, _ = two(ledger)
    alone = ledger.observations.add("The user is up early.", [first])
    ledger.observations.withdraw((first,))
    ledger.retract(first)
    position = ledger.position
    assert ledger.restore(first).status == "active"  # type: ignore[union-attr]
    told = ledger.history.audit(limit=ledger.position - position)
    assert {each.command for each in told} == {"restore"} and len({each.command_id for each in told}) == 1
    assert [each.type for each in reversed(told)] == ["MemoryRestored", "EvidenceAdded", "ObservationRestored"]
    assert standing(ledger, alone.id) == ("active", 1, "fresh")


def test_an_interaction_and_a_chunk_are_withdrawn_and_restored_too(ledger: Ledger) -> None:
    turn = ledger.capture("Which beans?", "French roast.")
    paper = ledger.documents.add("# Beans\n\nDark beans are roasted longest.\n")
    seen = ledger.observations.add(COFFEE, [turn.id, paper.chunks[0].id])
    assert set(ledger.observations.withdraw([turn.id, paper.id]).sources) == {turn.id, paper.chunks[0].id}
    assert standing(ledger, seen.id)[0] == "retracted"
    assert ledger.restore(turn.id) == ledger.interactions.get(turn.id)
    assert standing(ledger, seen.id) == ("active", 1, "stale")
    assert ledger.restore(paper.chunks[0].id) == ledger.documents.get_chunk(paper.chunks[0].id)
    assert standing(ledger, seen.id) == ("active", 2, "fresh")
    ledger.observations.withdraw((paper.id,))
    assert ledger.restore(paper.id) == ledger.documents.get(paper.id)
    assert standing(ledger, seen.id) == ("active", 2, "fresh")


def test_a_document_comes_back_with_all_its_chunks_at_once(ledger: Ledger) -> None:
    paper = ledger.documents.add("# Beans\n\nDark beans are roasted longest.\n\n# Mills\n\nA mill has burrs.\n")
    chunks = [each.id for each in paper.chunks]
    assert len(chunks) > 1
    seen = ledger.observations.add(COFFEE, chunks)
    ledger.observations.withdraw((paper.id,))
    ledger.restore(paper.id)
    assert standing(ledger, seen.id) == ("active", len(chunks), "fresh")
    types = [each.type for each in ledger.history.events(seen.id) or []]
    assert types[-2:] == ["EvidenceAdded", "ObservationRestored"] and types.count("ObservationRestored") == 1


def test_withdrawing_twice_appends_nothing_and_what_is_not_there_is_not_found(ledger: Ledger) -> None:
    first, second = two(ledger)
    ledger.observations.add(COFFEE, [first, second])
    ledger.observations.withdraw((first,))
    position = ledger.position
    again = ledger.observations.withdraw([first])
    assert (again.absorbed, again.observations, again.command_id) == (True, (), None)
    assert ledger.observations.withdraw((second[:14],)).sources == (second,)
    assert ledger.position > position
    theirs = ledger.bind(user="ben").remember("Theirs.").id
    for unknown in ("m_0000000000000000", theirs, "c_0000000000000000"):
        with pytest.raises(NotFoundError):
            ledger.observations.withdraw((unknown,))
    for wrong in ([], ["what?"], 7):
        with pytest.raises(RejectedError):
            ledger.observations.withdraw(wrong)  # type: ignore[arg-type]


def test_a_report_names_what_is_stale_also_where_it_was_before(ledger: Ledger) -> None:
    first, second = two(ledger)
    seen = ledger.observations.add(COFFEE, [first, second, ledger.remember("The user owns three cups.").id])
    gone = ledger.observations.add("The user is up early.", [first, second])
    ledger.retract(gone.id)
    assert ledger.observations.withdraw((first,)).stale == (seen.id,)
    report = ledger.observations.withdraw((second,))
    assert (report.stale, report.retracted, set(report.observations)) == ((seen.id,), (), {seen.id, gone.id})


def test_an_undone_source_can_be_withdrawn(ledger: Ledger) -> None:
    first, second = ledger.remember("The user drinks coffee."), ledger.remember("The user bought a grinder.")
    seen = ledger.observations.add(COFFEE, [first.id, second.id])
    undone = ledger.undo(first.position)
    assert ledger.observations.withdraw((first.id,)).stale == (seen.id,)
    assert undone.command_id is not None
    ledger.redo(undone.command_id)
    assert standing(ledger, seen.id) == ("active", 1, "stale"), "it is live again, and withdrawn all the same"


def many(ledger: Ledger, shared: str, count: int = 10) -> list[str]:
    own = ledger.remember("The user bought a grinder.").id
    return [
        ledger.observations.add(f"Finding {each}.", [shared, own] if each % 2 else [shared]).id for each in range(count)
    ]


def test_a_large_withdrawal_is_one_command(ledger: Ledger) -> None:
    shared = ledger.remember("The user drinks coffee.").id
    found = many(ledger, shared)
    before = [msgspec.structs.replace(read(ledger, id), position=0) for id in found]
    report = ledger.observations.withdraw((shared,), reason="a joke", idempotency_key="k")
    assert (set(report.observations), len(report.retracted), len(report.stale)) == (set(found), 5, 5)
    types = Counter(each.type for each in ledger.history.audit(limit=100) if each.command_id == report.command_id)
    expected = {"EvidenceWithdrawn": 10, "ObservationRetracted": 5, "ObservationMarkedStale": 5, "CommandAnswered": 1}
    assert types == expected
    assert ledger.observations.list(freshness="fresh") == []
    assert ledger.observations.withdraw((shared,), reason="a joke", idempotency_key="k") == msgspec.structs.replace(
        report, replayed=True
    )
    assert report.command_id is not None
    undone = ledger.undo(report.command_id)
    assert len(undone.subjects) == 10
    assert [msgspec.structs.replace(read(ledger, id), position=0) for id in found] == before
    assert undone.command_id is not None
    ledger.redo(undone.command_id)
    assert ledger.observations.list(freshness="fresh") == []
    ledger.restore(shared)
    assert [msgspec.structs.replace(read(ledger, id), position=0) for id in found] == before


# --- why, audit, the past, other doors -------------------------------------------------------------------------------


def test_why_shows_the_evidence_dated_with_its_words_and_whether_it_is_live(ledger: Ledger) -> None:
    first = ledger.remember("The user drinks coffee.", valid_from="2025-03-01").id
    turn = ledger.capture("Which beans?", "French roast.", occurred_at="2025-04-01T08:00:00Z").id
    chunk = (
        ledger.documents.add("# Beans\n\nDark beans are roasted longest.\n", occurred_at="2025-05-01T08:00:00Z")
        .chunks[0]
        .id
    )
    seen = ledger.observations.add(COFFEE, [first, turn, chunk])
    ledger.retract(first)
    ledger.observations.withdraw((turn,))
    why = ledger.why(seen.id)
    assert why.memory is None and why.observation == read(ledger, seen.id)
    told = [(each.id, each.at[:10], each.live, each.withdrawn, each.status) for each in why.evidence]
    assert told == [
        (first, "2025-03-01", False, "", "retracted"),
        (turn, "2025-04-01", False, "asked", "there"),
        (chunk, "2025-05-01", True, "", "there"),
    ]
    words = [each.content for each in why.evidence]
    assert words[:2] == ["The user drinks coffee.", "Which beans?\nFrench roast."] and "roasted longest" in (
        words[2] or ""
    )
    assert {each.type for each in ledger.history.audit(subject=seen.id)} == {
        "ObservationFormed",
        "EvidenceWithdrawn",
        "ObservationMarkedStale",
    }


def test_an_observation_that_was_undone_can_still_be_explained(ledger: Ledger) -> None:
    seen = ledger.observations.add(COFFEE, two(ledger))
    ledger.undo(seen.position)
    why = ledger.why(seen.id)
    assert absent(ledger.observations.get, seen.id) and ledger.observations.list(statuses=()) == []
    assert why.observation is None and [each.in_effect for each in why.wordings] == [False]


def test_under_at_the_present_of_a_trend_is_the_time_of_the_moment(ledger: Ledger, clock: Clock) -> None:
    first, second = two(ledger)
    seen = ledger.observations.add(COFFEE, [first, second])
    clock.advance(days=45)
    ledger.remember("Something else.")
    assert read(ledger, seen.id).trend == "dormant"
    then = ledger.at(seen.position)
    past = then.observations.get(seen.id)
    assert (past.trend, past.as_of) == ("new", then.as_of)
    assert [each.id for each in then.observations.list(trends=["new"])] == [seen.id]
    assert ledger.at(seen.position - 1).observations.list(statuses=()) == []
    assert [each.status for each in then.why(seen.id).evidence] == ["active", "active"]


def test_a_memory_may_come_from_an_observation(ledger: Ledger) -> None:
    seen = ledger.observations.add(COFFEE, two(ledger))
    made = ledger.remember("The user should get a better grinder.", sources=(seen.id,))
    assert made.sources == (seen.id,)
    listed = ledger.erase(seen.id, dry_run=True)
    assert [each.subject for each in listed.derived] == [made.id]
    with pytest.raises(NotFoundError, match="of this user"):
        ledger.bind(user="ben").remember("Mine.", sources=(seen.id,))


def test_stats_count_observations(ledger: Ledger) -> None:
    first, second = two(ledger)
    ledger.observations.add(COFFEE, (first,))
    ledger.retract(ledger.observations.add("Another.", (second,)).id)
    assert ledger.maintenance.stats().observations == {"active": 1, "retracted": 1}


def test_observations_are_read_where_nothing_can_be_written(ledger: Ledger) -> None:
    seen = ledger.observations.add(COFFEE, two(ledger))
    with Ledger.open(ledger.path, readonly=True) as reader:
        assert [each.id for each in reader.observations.list()] == [seen.id]
        assert reader.at(seen.position).observations.get(seen.id)


@pytest.mark.slow
def test_doctor_and_verify_check_the_tables_of_observations(ledger: Ledger) -> None:
    seen = ledger.observations.add(COFFEE, two(ledger))
    ledger.revise(seen.id, "The user takes coffee seriously.")
    assert ledger.proof.verify().ok and ledger.maintenance.doctor().ok
    assert "observations" in ledger.proof.verify().projections
    with probe.store(ledger).transact() as transaction:
        transaction.connection.execute("UPDATE evidence SET withdrawn = 'asked'")
    assert not ledger.proof.verify().ok
    probe.rebuild(ledger)
    assert ledger.proof.verify().ok


# --- trust and erasure -----------------------------------------------------------------------------------------------


def test_distrusting_one_of_several_sources_leaves_the_observation_and_takes_its_wording(ledger: Ledger) -> None:
    mine = ledger.remember("The user bought a grinder.").id
    theirs = ledger.bind(actor="crawler").remember("The user drinks coffee.")
    seen = ledger.bind(actor="ann").observations.add(
        COFFEE, [mine, theirs.id], causation_id=ledger.history.audit()[0].event_id
    )
    would = ledger.history.what_if(without={"actor": "crawler"})
    assert [each.id for each in would.lost] == [theirs.id]
    assert seen.id not in ledger.history.distrust("crawler", kind="actor").gone
    assert standing(ledger, seen.id) == ("active", 1, "stale")
    ledger.history.trust("crawler", kind="actor")
    assert standing(ledger, seen.id) == ("active", 2, "fresh")


def test_what_a_distrusted_actor_wrote_goes_and_the_wording_before_it_comes_back(ledger: Ledger) -> None:
    sources = two(ledger)
    seen = ledger.bind(actor="ann").observations.add(COFFEE, sources)
    ledger.bind(actor="crawler").revise(seen.id, "The user hates coffee.")
    made = ledger.bind(actor="crawler").observations.add("The user should buy decaf.", sources)
    gone = ledger.bind(actor="crawler").retract(
        ledger.bind(actor="ann").observations.add("The user likes tea.", sources).id
    )
    report = ledger.history.distrust("crawler", kind="actor")
    assert report.gone == (made.id,)
    assert {each.content for each in ledger.observations.list()} == {COFFEE, "The user likes tea."}
    assert read(ledger, gone.id).status == "active"
    with pytest.raises(RejectedError, match="is distrusted"):
        ledger.bind(actor="crawler").observations.add("Again.", sources)
    ledger.history.trust("crawler", kind="actor")
    assert {each.content for each in ledger.observations.list()} == {
        "The user hates coffee.",
        "The user should buy decaf.",
    }


def test_what_a_tainted_source_made_a_policy_do_to_an_observation_is_taken_back(ledger: Ledger) -> None:
    mine = ledger.remember("The user loves coffee.").id
    seen = ledger.observations.add(COFFEE, (mine,))
    theirs = ledger.bind(actor="crawler").remember("The user hates coffee.")
    cause = ledger.history.audit(subject=theirs.id)[0].event_id
    ledger.bind(actor="policy:consolidation").retract(seen.id, reason="contradicted", causation_id=cause)
    ledger.history.distrust("crawler", kind="actor")
    assert standing(ledger, seen.id) == ("active", 1, "fresh")


def test_undo_of_a_source_that_an_observation_rests_on_needs_no_cascade(ledger: Ledger) -> None:
    first, second = ledger.remember("The user drinks coffee."), ledger.remember("The user bought a grinder.")
    seen = ledger.observations.add(COFFEE, [first.id, second.id])
    undone = ledger.undo(first.position)
    assert undone.subjects == (first.id,) and standing(ledger, seen.id) == ("active", 1, "stale")
    assert undone.command_id is not None
    ledger.redo(undone.command_id)
    assert standing(ledger, seen.id) == ("active", 2, "fresh")


def test_undoing_what_made_a_policy_look_leaves_what_it_saw(ledger: Ledger) -> None:
    mine = ledger.remember("The user bought a grinder.").id
    cause = ledger.remember("The user drinks coffee.")
    event = ledger.history.audit(subject=cause.id)[0].event_id
    seen = ledger.bind(actor="policy:consolidation").observations.add(COFFEE, [mine, cause.id], causation_id=event)
    assert ledger.undo(cause.position).subjects == (cause.id,)
    assert standing(ledger, seen.id) == ("active", 1, "stale")


def test_undoing_what_formed_it_takes_what_was_built_on_it(ledger: Ledger) -> None:
    seen = ledger.observations.add(COFFEE, two(ledger))
    ledger.revise(seen.id, "The user takes coffee seriously.")
    ledger.retract(seen.id)
    with pytest.raises(ConflictError, match="2 later commands built on this one"):
        ledger.undo(seen.position)
    ledger.undo(ledger.position)
    ledger.undo(ledger.position - 2)
    assert read(ledger, seen.id).content == COFFEE
    ledger.undo(seen.position, cascade=True)
    assert absent(ledger.observations.get, seen.id)


@pytest.mark.parametrize("how", ["undo", "distrust"])
def test_an_equal_attempt_stands_in_for_the_first_should_that_fall(ledger: Ledger, how: str) -> None:
    first, second = two(ledger)
    seen = ledger.bind(actor="crawler").observations.add(COFFEE, [first, second], confidence=0.7)
    position = ledger.position
    again = ledger.bind(actor="ann").observations.add(COFFEE.upper(), [first], confidence=0.8)
    assert (again.id, again.absorbed, again.content, again.confidence, again.proof_count) == (
        seen.id,
        True,
        COFFEE,
        0.7,
        2,
    )
    assert ledger.bind(actor="ann").observations.add(COFFEE, [first]).absorbed and ledger.position == position + 1, (
        "once an actor"
    )
    _ = ledger.undo(seen.position) if how == "undo" else ledger.history.distrust("crawler", kind="actor")
    left = read(ledger, seen.id)
    assert (left.content, left.confidence, left.proof_count, left.freshness) == (COFFEE.upper(), 0.8, 1, "fresh")
    why = ledger.why(seen.id)
    assert [(each.why, each.in_effect) for each in why.wordings] == [
        ("formed", False),
        ("again", True),
    ]


SECRET = "The user's safe opens with quokkasong seven."


def test_erasing_a_source_lists_the_observations_that_rest_on_it(ledger: Ledger) -> None:
    source = ledger.remember(SECRET).id
    other = ledger.remember("The user has a safe.").id
    seen = ledger.observations.add(SECRET, [source, other], reason=SECRET)
    quoting = ledger.observations.add(f"Somebody said: {SECRET}", (other,))
    dry = ledger.erase(source, dry_run=True)
    assert [each.subject for each in dry.derived] == [seen.id]
    assert [each.subject for each in dry.quotes] == [quoting.id]
    with pytest.raises(RejectedError, match=r"derived \(1 event\), quotes \(1 event\)"):
        ledger.erase(source)
    report = ledger.erase(source, derived="erase", quotes="cut")
    assert report.state == "completed" and report.hits == 0
    assert (read(ledger, seen.id).content, read(ledger, seen.id).status) == (None, "erased")
    assert "quokkasong" not in (read(ledger, quoting.id).content or "")
    assert [each.id for each in ledger.observations.list(statuses=("erased",))] == [seen.id]
    data = b"".join(path.read_bytes() for path in Path(ledger.path).parent.iterdir() if path.is_file())
    assert b"quokkasong" not in data
    assert ledger.proof.verify().ok


def test_what_was_kept_of_an_observation_is_stale_and_its_own_erasure_takes_every_wording(ledger: Ledger) -> None:
    source, other = ledger.remember("The user has a safe."), ledger.remember("The user has a dog.")
    seen = ledger.observations.add(SECRET, [source.id, other.id])
    ledger.revise(seen.id, "The user has a safe and a dog.")
    ledger.erase(source.id, derived="keep", quotes="keep")
    assert standing(ledger, seen.id) == ("active", 1, "stale")
    report = ledger.erase(seen.id, sources="keep", quotes="keep")
    assert report.state == "completed" and {each.type for each in report.erased} == {
        "ObservationFormed",
        "ObservationRevised",
    }
    with pytest.raises(RejectedError):
        ledger.revise(seen.id, "Again.")
    assert b"quokkasong" not in Path(ledger.path).read_bytes()


@pytest.mark.parametrize("fields", [["data.response"], ["data.prompt"]])
def test_an_interaction_of_which_a_text_was_erased_bears_nothing_out(ledger: Ledger, fields: list[str]) -> None:
    turn = ledger.capture("Which beans does the user like?", "The user likes French roast.", reinforce=False)
    other = ledger.remember("The user bought a grinder.").id
    seen = ledger.observations.add(COFFEE, [turn.id, other])
    ledger.erase(Event(turn.position, fields=fields), derived="keep", quotes="keep", sources="keep")
    assert standing(ledger, seen.id) == ("active", 1, "stale")


def test_a_response_that_came_later_and_was_erased_bears_nothing_out(ledger: Ledger) -> None:
    turn = ledger.capture("Which beans does the user like?", reinforce=False)
    seen = ledger.observations.add(COFFEE, (turn.id,))
    answer = ledger.interactions.add_response(turn.id, "The user likes French roast.")
    assert standing(ledger, seen.id) == ("active", 1, "fresh")
    ledger.erase(Event(answer.position, fields=["data.response"]), derived="keep", quotes="keep", sources="keep")
    assert standing(ledger, seen.id) == ("unsupported", 0, "stale")


def test_a_hold_on_an_observation_or_its_user_keeps_it(ledger: Ledger) -> None:
    source = ledger.remember("The user has a safe.").id
    seen = ledger.observations.add(SECRET, (source,))
    hold = ledger.holds.add(seen.id, reason="in court")
    with pytest.raises(RejectedError, match="on hold"):
        ledger.erase(seen.id, sources="keep", quotes="keep")
    with pytest.raises(RejectedError, match="on hold"):
        ledger.erase(source, derived="erase", quotes="keep")
    ledger.holds.remove(hold.id)
    assert ledger.erase(source, derived="erase", quotes="keep").state == "completed"


def test_an_observation_has_at_most_two_thousand_sources(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = two(ledger)
    ledger.observations.add(COFFEE, (first,))
    monkeypatch.setattr(observation_rules, "EVIDENCE", 1)
    with pytest.raises(RejectedError, match="at most 1 are allowed"):
        ledger.observations.add(COFFEE, (second,))
    assert ledger.observations.add(COFFEE, (first,)).absorbed


def test_erasing_a_user_takes_the_observations_too(ledger: Ledger) -> None:
    for user in ("ann", "ben"):
        ledger.bind(user=user).observations.add(
            f"{SECRET} Of {user}.", [ledger.bind(user=user).remember(f"{user} has a safe.").id]
        )
    assert ledger.bind(user="ann").erase(EVERYTHING).state == "completed"
    assert ledger.bind(user="ann").observations.list(statuses=()) == []
    assert len(ledger.bind(user="ben").observations.list()) == 1
    assert ledger.proof.verify().ok


# --- any history -----------------------------------------------------------------------------------------------------

START = datetime(2026, 1, 1, tzinfo=UTC)
MOVES = (
    *("remember", "capture", "observe", "observe", "observe", "revise", "withdraw", "retract", "restore", "quarantine"),
    *("undo", "redo", "distrust", "trust", "erase", "keep", "cut"),
)
WORDS = ("alder", "birch", "cedar")
moves = st.tuples(
    st.sampled_from(MOVES),
    st.integers(0, 1_000),
    st.integers(0, 1_000),
)


def pick(found: list[Any], number: int) -> Any:
    if not found:
        raise NotFoundError("there is nothing to choose from")
    return found[number % len(found)]


class Played:
    """A ledger in a file of its own, on which moves are made by number; a move that is refused is none."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.time = START
        self.ledger = Ledger.open(self.folder / "memory.db", clock=lambda: self.time)

    def close(self) -> None:
        self.ledger.close()
        shutil.rmtree(self.folder)

    def move(self, what: str, one: int, other: int) -> None:
        self.time += timedelta(days=one % 40)
        with suppress(LedgerError):
            getattr(self, "_" + what, self._change)(what, one, other)

    def sources(self) -> list[str]:
        audit = self.ledger.history.audit(limit=500)
        return sorted({each.subject for each in audit if each.type in ("MemoryCaptured", "InteractionCaptured")})

    def seen(self) -> list[str]:
        return sorted({each.subject for each in self.ledger.history.audit(type="ObservationFormed", limit=500)})

    def _remember(self, _: str, one: int, other: int) -> None:
        actor = ("ann", "crawler")[other % 2]
        self.ledger.bind(actor=actor).remember(f"Fact {one % 7} of {WORDS[other % 3]}.")

    def _capture(self, _: str, one: int, other: int) -> None:
        self.ledger.capture(f"Question {one % 5}?", f"Answer {other % 5}.", reinforce=False)

    def _observe(self, _: str, one: int, other: int) -> None:
        found = self.sources()
        picked = [pick(found, one), pick(found, other)]
        actor = ("ann", "crawler")[one % 2]
        self.ledger.bind(actor=actor).observations.add(
            f"Finding about {WORDS[other % 3]}.", picked, tags=["t"] if one % 3 else []
        )

    def _revise(self, _: str, one: int, other: int) -> None:
        found = self.seen()
        self.ledger.bind(actor=("ann", "crawler")[other % 2]).revise(pick(found, one), f"Wording {other % 4}.")

    def _withdraw(self, _: str, one: int, other: int) -> None:
        found = self.sources()
        self.ledger.observations.withdraw([pick(found, one)])

    def _change(self, what: str, one: int, other: int) -> None:
        found = self.sources() + self.seen()
        place = self.ledger.guards if what in ("quarantine", "release") else self.ledger
        getattr(place, what)(pick(found, one))

    def _undo(self, _: str, one: int, other: int) -> None:
        self.ledger.undo(2 + one % self.ledger.position, cascade=bool(other % 2))

    def _redo(self, _: str, one: int, other: int) -> None:
        acts = [each.command_id for each in self.ledger.history.audit(type="CommandUndone", limit=500)]
        self.ledger.redo(pick(acts, one))

    def _distrust(self, _: str, one: int, other: int) -> None:
        found = self.sources()
        turns = [each for each in found if each[0] == "i"]
        if other % 2 and turns:
            self.ledger.history.distrust(pick(turns, one))
        else:
            self.ledger.history.distrust("crawler", kind="actor")

    def _trust(self, _: str, one: int, other: int) -> None:
        standing = self.ledger.history.distrusted()
        each = pick(standing, one)
        self.ledger.history.trust(each.origin or "", kind=each.kind)

    def _erase(self, what: str, one: int, other: int) -> None:
        found = self.sources() + self.seen()
        choice = {"erase": "erase", "keep": "keep", "cut": "cut"}[what]
        told = {"derived": choice, "quotes": "cut" if other % 2 else "keep", "sources": "keep"}
        self.ledger.erase(pick(found, one), **told)  # type: ignore[arg-type]

    _keep = _cut = _erase


def plain(found: list[Observation]) -> list[bytes]:
    return [msgspec.json.encode(msgspec.structs.replace(each, as_of="")) for each in found]


def is_live(ledger: Ledger, source: str) -> bool:
    """Asked of the door, one by one, and not of the tables."""
    if source[0] == "m":
        memory = perhaps(ledger.memories.get, source)
        return memory is not None and memory.status == "active" and not memory.quarantined
    turn = perhaps(ledger.interactions.get, source)
    return turn is not None and turn.prompt is not None and turn.response is not None and not turn.quarantined


@pytest.mark.slow
@settings(max_examples=15, phases=(Phase.explicit, Phase.generate))  # to shrink a history takes longer than to read it
@given(st.lists(moves, min_size=5, max_size=25))
def test_after_any_history_the_rows_are_what_the_log_says_and_no_wording_outlives_its_sources(
    history: list[tuple[str, int, int]],
) -> None:
    played = Played()
    try:
        for each in [("remember", 0, 0), ("capture", 1, 1), ("observe", 0, 1), *history]:
            played.move(*each)
        ledger = played.ledger
        assert ledger.proof.digest() == folded_from_zero(ledger)
        for found in ledger.observations.list(statuses=(), limit=1_000):
            alive = {each.id for each in found.sources if each.live}
            assert alive == {each.id for each in found.sources if not each.withdrawn and is_live(ledger, each.id)}
            assert found.proof_count == len(alive) == len({each.id for each in found.sources if each.live})
            assert 0 <= found.confidence <= 1 and (found.status == "active") <= (found.proof_count > 0)
            if (found.status, found.freshness) == ("active", "fresh"):
                assert set(found.written_from) <= alive, "its wording derives from what is no longer live"
        for position in {1 + move[1] % ledger.position for move in history}:
            then = ledger.at(position)
            with folded(ledger, position) as prefix:
                states = rows.listing(prefix, user="", statuses=(), limit=1_000)
                wanted = observation_answers(prefix, states, then.as_of)
            assert plain(then.observations.list(statuses=(), limit=1_000)) == plain(wanted)
            for found in wanted:
                assert plain([then.observations.get(found.id) or found]) == plain([found])
        assert probe.rebuild(ledger).digest == folded_from_zero(ledger)
    finally:
        played.close()


def test_an_observations_confidence_has_no_timeline(ledger: Ledger) -> None:
    id = ledger.observations.add("The user is serious about coffee.", (ledger.remember("Coffee.").id,)).id
    for asked in (ledger, ledger.at(ledger.position)):
        with pytest.raises(RejectedError, match="live sources"):
            asked.memories.confidence(id)


# --- several at once -------------------------------------------------------------------------------------------------

_OBSERVES = """
import sys
from ledger import Ledger
with Ledger.open(sys.argv[1]) as ledger:
    for number in range(20):
        ledger.observations.add(f"Finding {number}.", [sys.argv[2]])
"""


@pytest.mark.slow
def test_two_processes_that_see_the_same_make_one_observation_of_it(ledger: Ledger) -> None:
    sources = two(ledger)
    running = [subprocess.Popen([sys.executable, "-c", _OBSERVES, ledger.path, each]) for each in sources]
    assert [each.wait() for each in running] == [0, 0]
    found = ledger.observations.list(statuses=(), limit=1_000)
    assert sorted(each.content or "" for each in found) == sorted(f"Finding {number}." for number in range(20))
    assert {each.proof_count for each in found} == {2}
