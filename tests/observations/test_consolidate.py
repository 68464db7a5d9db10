"""Consolidating by rules: what says nearly the same is one observation, as far as it is new; nothing is lost or done twice."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import probe
import pytest
from conftest import Clock, folded_from_zero
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger import ConflictError, Ledger, LedgerError, NotFoundError, RejectedError
from ledger.events import ConsolidationCompleted, ConsolidationFailed
from ledger.observations import consolidating

COFFEE = (
    "The user prefers dark roast coffee.",
    "User likes dark roast coffee",
    "The user really enjoys dark roast coffee.",
)
ROME = ("Ann lives in Rome.", "Ann lives in Rome with two cats.")


def told(ledger: Ledger, **by: Any) -> list[tuple[str | None, int]]:
    return [(each.content, each.proof_count) for each in reversed(ledger.observations.list(**by))]


def groups(ledger: Ledger) -> set[frozenset[str]]:
    """The texts that bear each observation out."""
    said = {each.id: each.content for each in ledger.memories.list(statuses=())}
    return {
        frozenset(str(said[source.id]) for source in each.sources) for each in ledger.observations.list(limit=1_000)
    }


def completed(ledger: Ledger) -> list[ConsolidationCompleted]:
    with probe.read(ledger) as connection:
        positions = [each.position for each in reversed(ledger.history.audit(type="ConsolidationCompleted", limit=500))]
        return [probe.event_data(connection, each) for each in positions]


# --- what is formed --------------------------------------------------------------------------------------------------


def test_sources_that_share_most_words_become_one_observation(ledger: Ledger) -> None:
    made = [ledger.remember(text, valid_from=f"2025-0{number}-01") for number, text in enumerate(COFFEE, 1)]
    ledger.remember("The harbour opens at dawn.")
    report = ledger.consolidate()
    assert (report.sources, report.formed, report.revised, report.retracted, report.skipped) == (4, 1, 0, 0, {})
    (found,) = ledger.observations.list()
    assert (found.content, found.proof_count, found.confidence) == (COFFEE[0], 3, 0.8)
    assert [each.id for each in found.sources] == [each.id for each in made]
    assert (found.rule, found.consolidator, found.written_from) == ("proof/1", "grouping/1", (made[0].id,))


def test_the_time_of_evidence_is_when_it_was_so_and_not_when_it_came_in(ledger: Ledger) -> None:
    """Re-imported old data does not look new (defect 15)."""
    for text in COFFEE[:2]:
        ledger.remember(text, valid_from="2024-03-01")
    ledger.consolidate()
    (found,) = ledger.observations.list()
    assert {each.at[:10] for each in found.sources} == {"2024-03-01"}
    assert found.trend == "dormant" and found.trend_at("2024-03-15") == "new"
    ledger.capture("I love hiking in the green mountains.", "Nice.", occurred_at="2024-05-01T10:00:00Z")
    ledger.capture("I really love hiking in the green mountains!", "Nice.", occurred_at="2024-05-02T10:00:00Z")
    ledger.consolidate("interactions")
    assert sorted(each.at[:10] for each in ledger.observations.list()[0].sources) == ["2024-05-01", "2024-05-02"]


@pytest.mark.parametrize("other", ["Ann lives in Oslo.", "Ann does not live in Rome.", "Ann used to live in Rome."])
def test_another_value_is_a_change_and_no_support(ledger: Ledger, other: str) -> None:
    ledger.remember(ROME[0])
    ledger.remember(other)
    assert ledger.consolidate().formed == 0


def test_new_sources_bear_out_what_is_there_and_the_id_stays(ledger: Ledger) -> None:
    for text in COFFEE[:2]:
        ledger.remember(text)
    ledger.consolidate()
    (before,) = ledger.observations.list()
    ledger.remember(COFFEE[2])
    report = ledger.consolidate()
    assert (report.formed, report.revised) == (0, 1)
    (after,) = ledger.observations.list()
    assert (after.id, after.content, after.proof_count) == (before.id, before.content, 3)


def test_the_same_source_counts_once_however_often_it_is_looked_at(ledger: Ledger) -> None:
    """A retry does not inflate proof (defect 4)."""
    made = [ledger.remember(text) for text in COFFEE]
    ledger.consolidate()
    position = ledger.position
    for _ in range(2):
        ledger.consolidate([each.id for each in made])
        ledger.consolidate()
    assert ledger.position == position
    assert told(ledger) == [(COFFEE[0], 3)]


def test_a_consolidation_without_new_sources_appends_nothing(ledger: Ledger) -> None:
    ledger.consolidate()
    ledger.consolidate("interactions")
    assert ledger.position == 1
    memory = ledger.remember(ROME[0])
    assert ledger.consolidate().sources == 1
    position = ledger.position
    report = ledger.consolidate()
    assert (report.sources, report.formed, report.position) == (0, 0, position)
    ledger.reinforce(memory.id)  # says nothing new
    after = ledger.position
    assert ledger.consolidate().sources == 0 and ledger.position == after


def test_long_texts_are_worded_in_thirty_of_their_own_words(ledger: Ledger) -> None:
    """Thirty words are enforced (defect 8)."""
    long = "The user keeps a diary about " + " ".join(f"bird{number}" for number in range(60))
    ledger.remember(long)
    ledger.remember(long + " birdsong")
    ledger.consolidate()
    (found,) = ledger.observations.list()
    assert found.content == " ".join(long.split()[:30]) + "…" and found.freshness == "fresh"
    ledger.remember(long + " birdwatching")
    assert ledger.consolidate().revised == 1


# --- scopes ----------------------------------------------------------------------------------------------------------


def test_scopes_are_never_mixed(ledger: Ledger) -> None:
    """The scope bounds the search: user, project and tags (defect 11)."""
    ledger.remember(COFFEE[0], project="a", tags=["x"])
    ledger.remember(COFFEE[1], project="a", tags=["y"])
    ledger.remember(COFFEE[1], project="b", tags=["x"])
    ledger.remember(COFFEE[1])
    ledger.bind(user="bob").remember(COFFEE[1], tags=["x"])
    for scope in (
        {"project": "a", "tags": ["x"]},
        {"project": "a", "tags": ["y"]},
        {"project": "b"},
        {},
        {"tags": ["x"]},
    ):
        assert ledger.consolidate(**scope).formed == 0  # type: ignore[arg-type]
    assert ledger.bind(user="bob").consolidate().formed == 0
    assert ledger.consolidate(project="a").formed == 1  # of all tags
    ledger.remember(COFFEE[2], project="a", tags=["x", "z"])
    ledger.consolidate(project="a", tags=["x"])
    scopes = {each.scope: each.proof_count for each in ledger.observations.list(project="a")}
    assert scopes == {"": 2, "x": 2}


def test_sources_of_two_projects_are_refused(ledger: Ledger) -> None:
    ids = [ledger.remember(COFFEE[0], project="a").id, ledger.remember(COFFEE[1], project="b").id]
    with pytest.raises(RejectedError, match="several projects"):
        ledger.consolidate(ids)
    with pytest.raises(RejectedError, match="several projects"):
        ledger.consolidate(ids[:1], project="b")
    bob = ledger.bind(user="bob").remember(COFFEE[0]).id
    with pytest.raises(NotFoundError):
        ledger.consolidate([bob])


@pytest.mark.parametrize(
    ("over", "more"),
    [
        ("everything", {}), ((), {}), (("o_0123456789abcdef",), {}), (5, {}), ("memories", {"method": "magic"}),
        ("memories", {"limit": 0}), ("memories", {"limit": True}), ("memories", {"idempotency_key": "k"}),
        ("memories", {"method": "model"}),
        ("interactions", {"tags": ["x"]}), ("memories", {"tags": [5]}), ("memories", {"project": "nowhere"}), (["m_zzz"], {}),
    ],
)  # fmt: skip
def test_arguments_that_make_no_sense_are_refused(ledger: Ledger, over: Any, more: dict[str, Any]) -> None:
    with pytest.raises(LedgerError):
        ledger.consolidate(over, **more)
    assert ledger.position == 1


# --- how far ---------------------------------------------------------------------------------------------------------


STATEMENTS = (
    *COFFEE, *ROME, "Ann lives in Oslo.", "The port of staging is 5432.", "The port of staging is 5433.",
    "Ann lives in Rome now.",
    "The user prefers light roast coffee.",
    "The port of staging is 5432, says Bob.", "Ann does not live in Rome.",
)  # fmt: skip


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(STATEMENTS), st.booleans()), max_size=14), st.booleans())
def test_all_at_once_and_in_steps_form_the_same(
    tmp_path_factory: Any, given: Sequence[tuple[str, bool]], limited: bool
) -> None:
    folder = tmp_path_factory.mktemp("steps")
    texts = list(dict.fromkeys(text for text, _ in given))
    pauses = {text for text, pause in given if pause}
    with Ledger.open(folder / "once.db") as once, Ledger.open(folder / "steps.db") as steps:
        for text in texts:
            once.remember(text)
            steps.remember(text)
            if text in pauses:
                steps.consolidate(limit=1 if limited else None)
        once.consolidate()
        while steps.consolidate(limit=1 if limited else None).left:
            pass
        assert groups(once) == groups(steps)
        assert {each.content for each in once.observations.list()} == {
            each.content for each in steps.observations.list()
        }
        position = once.position
        once.consolidate()
        assert once.position == position
        assert once.proof.digest() == folded_from_zero(once)


def test_a_limit_leaves_the_rest_for_the_next_time(ledger: Ledger) -> None:
    for number in range(5):
        ledger.remember(f"Note {number}: {COFFEE[0]}")
    first = ledger.consolidate(limit=2)
    assert (first.sources, first.left) == (2, 3)
    second = ledger.consolidate()
    assert (second.sources, second.left) == (3, 0)
    assert [each.sources for each in completed(ledger)] == [2, 3]


def test_one_append_of_a_consolidation_has_at_most_two_hundred_sources(ledger: Ledger) -> None:
    with ledger.batch():
        for number in range(450):
            ledger.remember(f"The part number {number} is kept in hall {number % 7}.")
    seen: list[tuple[int, int]] = []
    ledger.consolidate(progress=lambda done, total: seen.append((done, total)))
    assert [each.sources for each in completed(ledger)] == [200, 200, 50]
    assert seen == [(200, 450), (400, 450), (450, 450)]


def test_promoted_revised_or_restored_memories_are_new_sources(ledger: Ledger) -> None:
    ledger.remember(COFFEE[0])
    idea = ledger.propose(COFFEE[1])
    assert ledger.consolidate().formed == 0
    ledger.promote(idea.id)
    assert ledger.consolidate().formed == 1
    other = ledger.remember("The user drinks nothing at all.")
    ledger.consolidate()
    ledger.revise(other.id, COFFEE[2])
    assert ledger.consolidate().revised == 1
    assert told(ledger) == [(COFFEE[0], 3)]


def test_an_undone_consolidation_is_done_again(ledger: Ledger) -> None:
    for text in COFFEE:
        ledger.remember(text)
    report = ledger.consolidate()
    ledger.undo(report.position)
    assert told(ledger) == []
    assert ledger.consolidate().formed == 1


def test_a_dry_run_tells_and_appends_nothing(ledger: Ledger) -> None:
    ids = tuple(ledger.remember(text).id for text in COFFEE)
    position = ledger.position
    report = ledger.consolidate(dry_run=True)
    assert (report.formed, report.dry_run, ledger.position) == (1, True, position)
    assert [(each.what, each.id, each.content, each.sources) for each in report.actions] == [
        ("formed", None, COFFEE[0], ids)
    ]
    assert ledger.consolidate().formed == 1


def test_near_sources_in_a_large_scope_are_found_by_their_words(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ledger.observations import rounds

    monkeypatch.setattr(rounds, "WHOLE", 0)
    monkeypatch.setattr(rounds, "TIMES", 0)
    for number in range(30):
        ledger.remember(f"The part number {number} is kept in hall {number % 7}.")
    for text in (COFFEE[0], ROME[0]):
        ledger.remember(text)
    assert ledger.consolidate().formed == 0
    ledger.remember(COFFEE[1])  # near what stands alone
    assert ledger.consolidate().formed == 1
    ledger.remember(COFFEE[2])  # near an observation
    ledger.remember(ROME[1])
    report = ledger.consolidate()
    assert (report.formed, report.revised) == (1, 1)
    assert told(ledger) == [(COFFEE[0], 3), (ROME[0], 2)]


# --- what goes stale -------------------------------------------------------------------------------------------------


def test_a_wording_whose_source_is_gone_is_made_anew_of_another(ledger: Ledger) -> None:
    made = [ledger.remember(text) for text in COFFEE]
    ledger.consolidate()
    (before,) = ledger.observations.list()
    ledger.retract(made[0].id)
    assert ledger.observations.list()[0].freshness == "stale"
    report = ledger.consolidate()
    assert (report.sources, report.revised) == (0, 1)
    (after,) = ledger.observations.list()
    assert (
        after.id == before.id and after.content in COFFEE[1:] and after.freshness == "fresh" and after.proof_count == 2
    )
    assert set(after.written_from) <= {made[1].id, made[2].id}
    position = ledger.position
    ledger.consolidate()
    assert ledger.position == position


def test_an_observation_without_a_live_source_waits_for_a_source(ledger: Ledger) -> None:
    made = [ledger.remember(text) for text in COFFEE[:2]]
    ledger.consolidate()
    for each in made:
        ledger.retract(each.id)
    ledger.consolidate()
    assert ledger.observations.list() == [] and len(ledger.observations.list(statuses=("unsupported",))) == 1
    for each in made:
        ledger.restore(each.id)
    ledger.consolidate()
    assert told(ledger) == [(COFFEE[0], 2)] and ledger.observations.list()[0].freshness == "fresh"


def test_a_withdrawn_source_is_not_restored_by_a_consolidation(ledger: Ledger) -> None:
    made = [ledger.remember(text) for text in COFFEE]
    ledger.consolidate()
    ledger.observations.withdraw([made[0].id])
    ledger.consolidate()
    (found,) = ledger.observations.list()
    assert found.freshness == "fresh" and found.proof_count == 2 and made[0].id not in found.written_from
    ledger.consolidate([made[0].id])
    assert ledger.observations.list()[0].proof_count == 2
    ledger.observations.withdraw([made[1].id, made[2].id])
    assert ledger.observations.list() == []
    ledger.consolidate([each.id for each in made])
    assert ledger.observations.list() == []


def test_an_observation_found_wrong_is_not_formed_again_of_the_same(ledger: Ledger) -> None:
    made = [ledger.remember(text) for text in COFFEE[:2]]
    ledger.consolidate()
    ledger.retract(ledger.observations.list()[0].id, reason="not so")
    ledger.consolidate([each.id for each in made])
    ledger.remember(COFFEE[2])
    ledger.consolidate()
    assert ledger.observations.list() == []


def test_a_revised_source_bears_out_only_what_it_says_now(ledger: Ledger) -> None:
    made = [ledger.remember(text) for text in COFFEE]
    ledger.consolidate()
    ledger.revise(made[2].id, "The harbour opens at dawn.")
    ledger.consolidate()
    assert told(ledger) == [(COFFEE[0], 2)]
    ledger.revise(made[0].id, "The harbour opens at dawn, every day.")
    ledger.consolidate()
    assert groups(ledger) >= {frozenset({"The harbour opens at dawn.", "The harbour opens at dawn, every day."})}
    (coffee,) = [each for each in ledger.observations.list() if "coffee" in (each.content or "")]
    assert coffee.content == COFFEE[1] and coffee.proof_count == 1
    ledger.revise(made[2].id, COFFEE[2])
    ledger.consolidate()
    assert any(each.content == COFFEE[1] and each.proof_count == 2 for each in ledger.observations.list())


def test_observations_that_come_to_say_the_same_are_merged(ledger: Ledger) -> None:
    uji = ledger.remember("The user prefers dark roast coffee from Uji.")
    plain = ledger.remember("The user prefers dark roast coffee.")
    for end in ".!":
        ledger.remember(f"The user prefers dark roast coffee from Brazil and Peru{end}")
    ledger.consolidate()
    first, second = reversed(ledger.observations.list())
    assert (first.proof_count, second.proof_count) == (2, 2)
    ledger.retract(uji.id)  # what is left of the first says no other value than the second
    report = ledger.consolidate()
    assert (report.revised, report.retracted) == (1, 1)
    (left,) = ledger.observations.list()
    assert left.id == second.id and left.proof_count == 3 and plain.id in {each.id for each in left.sources}
    (merged,) = ledger.observations.list(statuses=("retracted",))
    assert (merged.id, merged.retracted, merged.merged_into) == (first.id, "merged", second.id)


def test_a_wording_by_a_person_gains_evidence_and_is_never_reworded(ledger: Ledger) -> None:
    made = [ledger.remember(text) for text in COFFEE[:2]]
    mine = ledger.observations.add("The user likes coffee of a dark roast.", [made[0].id, made[1].id])
    ledger.remember(COFFEE[2])
    ledger.consolidate()
    (found,) = ledger.observations.list()
    assert (found.id, found.content, found.proof_count, found.confidence) == (mine.id, mine.content, 3, 0.9)
    ledger.retract(made[0].id)
    ledger.consolidate()
    assert ledger.observations.list()[0].content == mine.content and ledger.observations.list()[0].freshness == "stale"


# --- turns -----------------------------------------------------------------------------------------------------------


def test_what_people_say_again_in_turns_is_an_observation_and_what_an_assistant_says_is_not(ledger: Ledger) -> None:
    for _ in range(2):
        ledger.capture(
            "I love hiking in the green mountains. Do you like hiking in green mountains?", "You love the sea at dawn."
        )
    ledger.capture("Ann: My cats sleep on the old sofa all day.", "Bob: My cats sleep on the old sofa all day.")
    ledger.capture("Ann: My two cats sleep on the old sofa all day.", "bot: My cats sleep on the old sofa all day.")
    ledger.consolidate("interactions")
    assert told(ledger) == [
        ("I love hiking in the green mountains.", 2),
        ("Ann: My cats sleep on the old sofa all day.", 2),
    ]
    position = ledger.position
    ledger.consolidate("interactions")
    assert ledger.position == position


def test_a_turn_may_bear_out_several_observations(ledger: Ledger) -> None:
    both = "I love hiking in the green mountains. My cats sleep on the old sofa."
    ledger.capture(both)
    assert ledger.consolidate("interactions").formed == 0
    ledger.capture("My cats sleep on the old sofa.")
    assert ledger.consolidate("interactions").formed == 1
    ledger.capture("I really love hiking in the green mountains.")
    assert ledger.consolidate("interactions").formed == 1
    assert [proof for _, proof in told(ledger)] == [2, 2]


def test_a_response_that_comes_later_is_new(ledger: Ledger) -> None:
    turns = [ledger.capture("Ann: Hello.") for _ in range(2)]
    ledger.consolidate("interactions")
    for each in turns:
        ledger.interactions.add_response(each.id, "Bob: I keep bees behind the old mill.")
    assert ledger.consolidate("interactions").formed == 1


# --- side by side ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_consolidations_at_once_form_each_observation_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        with ledger.batch():
            for number in range(600):
                ledger.remember(f"Tenant number {number} pays rent for flat {number}.")
                ledger.remember(f"The tenant number {number} pays rent for flat {number}!")
        expected = 600
        others = [ledger, ledger, Ledger.open(path)]
        failed: list[BaseException] = []

        def work(door: Ledger) -> None:
            try:
                door.consolidate()
                door.consolidate([each.id for each in door.memories.list(limit=40)])
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(door,)) for door in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        found = ledger.observations.list(limit=1_000)
        assert len(found) == expected and {each.proof_count for each in found} == {2}
        told = completed(ledger)
        assert sum(each.sources for each in told if each.over == "memories") == 1_200
        assert ledger.proof.digest() == folded_from_zero(ledger)
        others[2].close()


def test_an_observation_that_changes_during_planning_is_skipped(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at again under the lock: a source that is gone, an observation that was worded anew."""
    from ledger.observations.rounds import ConsolidationPlanner

    gone = ledger.remember(COFFEE[0])
    ledger.remember(COFFEE[1])
    for text in ROME:
        ledger.remember(text)
    honest, done = ConsolidationPlanner.page, []

    def page(planner: ConsolidationPlanner, new: Any) -> Any:
        steps = honest(planner, new)
        if not done:
            done.append(ledger.retract(gone.id))
        return steps

    monkeypatch.setattr(ConsolidationPlanner, "page", page)
    report = ledger.consolidate()
    assert (report.formed, report.skipped) == (1, {"changed": 1})
    assert told(ledger) == [(ROME[0], 2)]
    ledger.remember(COFFEE[2])
    assert ledger.consolidate().formed == 1  # the one that was left stands alone until now


def test_evidence_for_an_observation_that_was_worded_anew_meanwhile_is_tried_again(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ledger.observations.rounds import ConsolidationPlanner

    for text in COFFEE[:2]:
        ledger.remember(text)
    ledger.consolidate()
    (found,) = ledger.observations.list()
    ledger.remember(COFFEE[2])
    honest, done = ConsolidationPlanner.page, []

    def page(planner: ConsolidationPlanner, new: Any) -> Any:
        steps = honest(planner, new)
        if not done:
            done.append(ledger.revise(found.id, "The user likes dark roast coffee."))
        return steps

    monkeypatch.setattr(ConsolidationPlanner, "page", page)
    report = ledger.consolidate()
    assert report.skipped == {"changed": 1} and report.revised == 1
    assert told(ledger) == [("The user likes dark roast coffee.", 3)]


def test_replaying_a_consolidation_needs_no_id_time_or_model(tmp_path: Path, clock: Clock) -> None:
    with Ledger.open(tmp_path / "memory.db", clock=clock) as ledger:
        for text in (*COFFEE, *ROME):
            ledger.remember(text)
        ledger.consolidate()
        ledger.retract(ledger.memories.list()[0].id)
        ledger.consolidate()
        digest = ledger.proof.digest()

    def never(*_: object) -> Any:
        raise AssertionError("replay asked for an id, a time or a model")

    with Ledger.open(tmp_path / "memory.db", clock=never, random=never, model=never) as ledger:
        assert ledger.proof.digest() == digest == folded_from_zero(ledger)
    with Ledger.open(tmp_path / "memory.db", random=never, model=never) as ledger:
        assert probe.rebuild(ledger).digest == digest


# --- by itself -------------------------------------------------------------------------------------------------------


def test_run_policies_consolidates_every_user_and_project(ledger: Ledger) -> None:
    for user in ("", "bob"):
        for project in (None, "a"):
            for text in COFFEE:
                ledger.bind(user=user).remember(text, project=project)
    ledger.bind(user="eve").remember(ROME[0])
    ledger.bind(user="bob").policy.set(consolidate=False)
    seen: list[tuple[int, int]] = []
    report = ledger.jobs.run(jobs=("consolidation",), progress=lambda done, total: seen.append((done, total)))
    assert (report.consolidated, report.observations_formed, report.failures) == (7, 2, 0)
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert ledger.bind(user="bob").observations.list() == []
    actors = {each.actor for each in ledger.history.audit(type="ConsolidationCompleted")}
    assert actors == {"policy:consolidation"}
    position = ledger.position
    assert ledger.jobs.run(jobs=("consolidation",)).consolidated == 0 and ledger.position == position


def test_run_policies_takes_what_was_withdrawn_up_again(ledger: Ledger) -> None:
    made = [ledger.remember(text) for text in COFFEE]
    ledger.jobs.run()
    ledger.observations.withdraw([made[0].id])
    assert ledger.jobs.run().observations_revised == 1
    assert ledger.observations.list()[0].freshness == "fresh"


def test_scopes_with_something_new_are_found_by_the_index(ledger: Ledger) -> None:
    from projections.views import consolidations

    for number in range(50):
        ledger.bind(user=f"u{number % 2}").remember(f"Note {number}.", project=f"p{number % 5}")
    ledger.bind(user="u1").remember("Mine.")
    with probe.read(ledger) as connection:
        found = list(consolidations.scopes(connection))
        assert len(found) == 11 and len({each[:2] for each in found}) == 11
        plan = "EXPLAIN QUERY PLAN SELECT max(from_position) FROM memories WHERE user = ? AND project IS ?"
        used = " ".join(str(row) for row in connection.execute(plan, ("u1", None)))
        assert "SEARCH" in used and "COVERING INDEX" in used


def test_a_run_that_fails_is_recorded_and_given_up_after_three(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger.observations import rounds

    def broken(*_: object) -> Any:
        raise ZeroDivisionError

    for text in COFFEE[:2]:
        ledger.remember(text)
    with monkeypatch.context() as patch:
        patch.setattr(rounds, "ConsolidationPlanner", broken)
        assert [ledger.jobs.run().failures for _ in range(5)] == [1, 1, 1, 0, 0]
        ledger.remember(ROME[0])
        assert [ledger.jobs.run().failures for _ in range(2)] == [1, 0]
    with probe.read(ledger) as connection:
        failed = [
            probe.event_data(connection, each.position) for each in ledger.history.audit(type="ConsolidationFailed")
        ]
    assert [each.error for each in failed] == ["ZeroDivisionError"] * 4
    assert all(isinstance(each, ConsolidationFailed) for each in failed)
    assert ledger.consolidate().formed == 1


def test_a_distrusted_policy_writes_no_observation(ledger: Ledger) -> None:
    for text in COFFEE[:2]:
        ledger.remember(text)
    ledger.history.distrust("policy:consolidation", kind="actor")
    assert ledger.jobs.run().failures == 1
    assert ledger.observations.list() == []
    ledger.history.trust("policy:consolidation", kind="actor")
    assert ledger.jobs.run().observations_formed == 1


def test_consolidation_in_a_batch_is_taken_back_with_it(ledger: Ledger) -> None:
    def both() -> None:
        with ledger.batch():
            for text in COFFEE[:2]:
                ledger.remember(text)
            assert ledger.consolidate().formed == 1
            raise ConflictError("no")

    with pytest.raises(ConflictError):
        both()
    assert ledger.position == 1 and ledger.observations.list() == []


def test_a_scope_where_nothing_new_is_said_is_looked_at_once(ledger: Ledger) -> None:
    kept, other = (ledger.remember(text) for text in ROME)
    ledger.observations.add("Ann is a Roman.", [kept.id, other.id])
    ledger.jobs.run()
    for change in (
        lambda: ledger.memories.set_confidence(kept.id, 0.6),
        lambda: ledger.retract(other.id),
        lambda: ledger.restore(other.id),
        lambda: ledger.observations.withdraw((kept.id,)),  # what a person worded is left alone
    ):
        change()
        assert consolidating.pending_scopes(probe.inside(ledger))
        ledger.jobs.run()
        assert consolidating.pending_scopes(probe.inside(ledger)) == []
        position = ledger.position
        ledger.jobs.run()
        assert ledger.position == position
