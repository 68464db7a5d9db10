"""Deciding about observations: the transitions as a table, evidence that counts once, and wordings that follow it."""

from __future__ import annotations

from typing import Any

import pytest
from examples import EARLIER, INTERACTION, MEMORY, NOW, OBSERVATION, OTHER_MEMORY, recorded

from ledger.domain.errors import RejectedError
from ledger.events import (
    EvidenceAdded,
    EvidenceSource,
    EvidenceWithdrawn,
    ObservationFormed,
    ObservationMarkedStale,
    ObservationRefreshed,
    ObservationRestored,
    ObservationRetracted,
    ObservationRevised,
)
from ledger.observations import rules as observation_rules
from ledger.observations.rules import ObservationState, Support

FORMED = ObservationFormed(
    content="The user drinks dark roast coffee.",
    confidence=700_000,
    rule="proof/1",
    consolidator="grouping/1",
    evidence=(EvidenceSource(MEMORY, EARLIER), EvidenceSource(INTERACTION, NOW)),
    written_from=(MEMORY,),
)
BORNE = [Support(MEMORY, EARLIER), Support(INTERACTION, NOW)]


def folded(*events: Any) -> ObservationState:
    state = None
    for version, data in enumerate(events, 1):
        state = observation_rules.evolve(
            state, recorded(data, stream=OBSERVATION, version=version, position=8 + version)
        )
    assert state is not None
    return state


REVISE = observation_rules.ReviseObservation(
    "Another wording.", "redundant", 700_000, "proof/1", "grouping/1", (MEMORY,)
)
COMMANDS = {
    "revise": REVISE,
    "add": observation_rules.Add((EvidenceSource(OTHER_MEMORY, NOW),), "grouping/1"),
    "withdraw": observation_rules.Withdraw((MEMORY,)),
    "mark stale": observation_rules.MarkStale("withdrawn"),
    "refresh": observation_rules.Refresh("confirmed", "grouping/1"),
    "retract": observation_rules.Retire(),
    "restore": observation_rules.RestoreObservation(),
}
BY_RULE = ("mark stale", "refresh")  # no call asks for them, so no refusal names them
STATES = {
    "active": folded(FORMED),
    "retracted": folded(FORMED, ObservationRetracted("curated")),
    "erased": folded(ObservationFormed(None, 700_000, "proof/1", "grouping/1", FORMED.evidence)),
}
ASKED_ALREADY = {("active", "restore"), ("retracted", "retract")}


@pytest.mark.parametrize("status", STATES)
@pytest.mark.parametrize("command", COMMANDS)
def test_each_status_allows_what_the_table_says(status: str, command: str) -> None:
    def decide() -> list[Any]:
        return observation_rules.decide(COMMANDS[command], STATES[status], BORNE)

    if command in observation_rules.ALLOWED[status] or (status == "active" and command in BY_RULE):
        assert decide() or command == "refresh"
    elif (status, command) in ASKED_ALREADY:
        assert decide() == []
    else:
        with pytest.raises(RejectedError, match=f"it is {status}, which allows"):
            decide()


def test_an_observation_keeps_its_id_and_its_beginning_through_every_wording() -> None:
    revised = folded(FORMED, *observation_rules.decide(REVISE, STATES["active"], BORNE))
    assert (revised.id, revised.recorded_at, revised.text) == (OBSERVATION, STATES["active"].recorded_at, REVISE.text)


def test_a_command_without_a_change_appends_nothing() -> None:
    revised = folded(FORMED, *observation_rules.decide(REVISE, STATES["active"], BORNE))
    assert observation_rules.decide(REVISE, revised, BORNE) == []
    stale = folded(FORMED, ObservationMarkedStale("withdrawn"))
    assert observation_rules.decide(COMMANDS["mark stale"], stale, BORNE) == []
    assert observation_rules.decide(COMMANDS["refresh"], STATES["active"], BORNE) == []
    assert observation_rules.decide(
        REVISE, folded(FORMED, ObservationRevised(**_told()), ObservationMarkedStale("x")), BORNE
    )


def _told() -> dict[str, Any]:
    names = ("confidence", "rule", "consolidator", "written_from")
    return {name: getattr(REVISE, name) for name in names} | {"content": REVISE.text, "why": REVISE.reason}


def test_the_same_source_bears_out_once() -> None:
    twice = observation_rules.Add(
        (EvidenceSource(MEMORY, NOW), EvidenceSource(OTHER_MEMORY, NOW), EvidenceSource(OTHER_MEMORY, EARLIER)), "x/1"
    )
    assert observation_rules.decide(twice, STATES["active"], BORNE) == [
        EvidenceAdded((EvidenceSource(OTHER_MEMORY, NOW),), "x/1")
    ]


def test_a_withdrawn_source_counts_again_only_after_its_restoration() -> None:
    borne = [Support(MEMORY, EARLIER, withdrawn="asked"), BORNE[1]]
    again = (EvidenceSource(MEMORY, EARLIER),)
    assert observation_rules.decide(observation_rules.Add(again, "grouping/1"), STATES["active"], borne) == []
    assert observation_rules.decide(observation_rules.Add(again, "grouping/1", restores=True), STATES["active"], borne)


def test_only_a_source_of_the_observation_can_be_withdrawn() -> None:
    asked = observation_rules.Withdraw((OTHER_MEMORY, MEMORY, MEMORY))
    assert observation_rules.decide(asked, STATES["active"], BORNE) == [EvidenceWithdrawn((MEMORY,), "asked")]
    assert observation_rules.decide(observation_rules.Withdraw((OTHER_MEMORY,)), STATES["active"], BORNE) == []


def test_an_observation_has_a_limited_number_of_sources() -> None:
    many = tuple(EvidenceSource(f"m_{number:016d}", NOW) for number in range(observation_rules.EVIDENCE))
    (added,) = observation_rules.decide(observation_rules.Add(many, "x/1"), STATES["active"], BORNE)
    assert isinstance(added, EvidenceAdded)
    assert len(added.evidence) == observation_rules.EVIDENCE - len(BORNE)


def test_the_sources_after_all_events_are_those_added_and_not_withdrawn() -> None:
    events = [
        recorded(data, stream=OBSERVATION, version=version, position=version)
        for version, data in enumerate((FORMED, EvidenceWithdrawn((MEMORY, OTHER_MEMORY), "asked")), 1)
    ]
    assert observation_rules.supports(events) == {
        MEMORY: (Support(MEMORY, EARLIER, withdrawn="asked"), 2),
        INTERACTION: (Support(INTERACTION, NOW), 1),
    }


def test_a_new_wording_is_fresh_and_an_old_one_goes_stale_until_it_is_confirmed() -> None:
    stale = folded(FORMED, ObservationMarkedStale("withdrawn"))
    assert (STATES["active"].stale, stale.stale) == ("", "withdrawn")
    assert folded(FORMED, ObservationMarkedStale("withdrawn"), ObservationRefreshed("confirmed", "x/1")).stale == ""
    assert folded(FORMED, ObservationMarkedStale("withdrawn"), ObservationRevised(**_told())).stale == ""


def test_an_erased_wording_ends_it_unless_a_later_one_is_whole() -> None:
    assert STATES["erased"].underlying == "active"
    first = ObservationFormed(None, 700_000, "proof/1", "grouping/1", FORMED.evidence)
    assert folded(first, ObservationRevised(**_told())).status == "active"
    assert folded(first, ObservationRetracted("curated"), ObservationRestored()).status == "erased"


def test_events_of_an_observation_need_its_forming() -> None:
    assert observation_rules.admits(None, FORMED) and not observation_rules.admits(
        None, ObservationRetracted("curated")
    )
    assert observation_rules.admits(STATES["retracted"], ObservationRestored())
    assert observation_rules.admits(STATES["active"], ObservationRestored())
    assert observation_rules.admits(STATES["retracted"], ObservationRetracted("curated"))
    assert not observation_rules.admits(STATES["retracted"], ObservationRetracted("merged"))
    assert not observation_rules.admits(STATES["retracted"], ObservationRevised(**_told()))
    assert observation_rules.evolve(None, recorded(ObservationRetracted("curated"), stream=OBSERVATION)) is None


def test_the_scope_of_an_observation_is_its_sorted_tags() -> None:
    tagged = ObservationFormed("Text.", 1, "proof/1", "x/1", (), tags=("b", "a"))
    assert (folded(tagged).scope, STATES["active"].scope) == ("a|b", "")


def test_a_revision_by_hand_changes_neither_confidence_nor_rule() -> None:
    by_hand = observation_rules.ReviseObservation("Another wording.", "curated", None, None, "by_hand", (MEMORY,))
    (event,) = observation_rules.decide(by_hand, STATES["active"], BORNE)
    assert isinstance(event, ObservationRevised) and (event.confidence, event.rule) == (None, None)
    rated = ObservationRevised("Rated.", "redundant", "x/1", 900_000, "given/1")
    assert (folded(FORMED, rated, event).confidence, folded(FORMED, rated, event).rule) == (900_000, "given/1")
    assert (folded(FORMED, event).confidence, folded(FORMED, event).rule) == (700_000, "proof/1")
    assert observation_rules.decide(by_hand, folded(FORMED, event), BORNE) == [], "nothing new"
