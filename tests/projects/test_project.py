"""Projects: names and aliases, and trusted state that only a person sets."""

from __future__ import annotations

import pytest
from absence import absent
from examples import ENTRY, EVENTS, NOW, OTHER_SESSION, PROJECT, SESSION, project, recorded, session
from msgspec.structs import replace

from ledger import ConflictError, Ledger, NotFoundError, RejectedError
from ledger import events as e
from ledger.domain.text import name_form
from ledger.projects.rules import (
    CATEGORIES,
    AddProjectAlias,
    Archive,
    DescribeProject,
    InvalidateState,
    Join,
    JoinedProject,
    ProjectState,
    RestoreProject,
    SetState,
    TrustedEntry,
    admits,
    decide,
    evolve,
)
from ledger.sessions.rules.session import admits as admits_session
from ledger.sessions.rules.session import evolve as evolve_session
from projections.views import projects, sessions


def test_each_project_command_makes_an_event_unless_nothing_changes() -> None:
    given = project()
    assert decide(AddProjectAlias("abroad"), given) == [e.ProjectAliasAdded("abroad")]
    assert decide(AddProjectAlias(" OVERSEAS"), given) == decide(AddProjectAlias("übersee"), given) == []
    assert decide(SetState("status", "phase", "three", "ada"), given) == [
        e.ProjectStateSet("status", "phase", "three", "ada")
    ]
    assert decide(SetState("status", "phase", "two", "ada"), given) == [
        e.ProjectStateSet("status", "phase", "two", "ada")
    ]
    assert decide(SetState("status", "phase", "two", "the board"), given) == []
    assert decide(SetState("fact", "phase", "two"), given) == [e.ProjectStateSet("fact", "phase", "two", "")]
    assert decide(InvalidateState("status", "phase", "over"), given) == [
        e.ProjectStateInvalidated("status", "phase", "over")
    ]
    assert decide(InvalidateState("status", "other"), given) == []
    assert decide(DescribeProject("ships"), given) == []
    assert decide(DescribeProject("ships"), replace(given, description="")) == [e.ProjectDescribed("ships")]
    assert decide(Join("p_fedcba9876543210"), given) == decide(Join(PROJECT), given) == []
    assert decide(Join("p_0000000000000000", "one"), given) == [e.ProjectJoined("p_0000000000000000", "one")]
    assert decide(Archive("over"), given) == [e.ProjectArchived("over")] and decide(RestoreProject(), given) == []
    over = project(status="archived")
    assert decide(RestoreProject("on"), over) == [e.ProjectRestored("on")] and decide(Archive(), over) == []
    for command in (SetState("mood", "k", "v"), InvalidateState("mood", "k")):
        with pytest.raises(RejectedError, match="status, decision, requirement, contact, milestone, fact, config"):
            decide(command, given)


def test_each_event_assigns_what_it_says() -> None:
    now = replace(project(), version=4, position=12)
    fold = lambda data: evolve(project(), recorded(data, stream=PROJECT, version=4, position=12))  # noqa: E731
    assert fold(e.ProjectAliasAdded("abroad")) == replace(now, aliases=("overseas", "abroad"))
    three = TrustedEntry("status", "phase", "three", "x", "ada", NOW, 12)
    assert fold(e.ProjectStateSet("status", "phase", "three", "x")) == replace(now, state=(three,))
    fact = TrustedEntry("fact", "phase", "three", "", "ada", NOW, 12)
    assert fold(e.ProjectStateSet("fact", "phase", "three")) == replace(now, state=(ENTRY, fact))
    assert fold(e.ProjectStateInvalidated("status", "phase")) == replace(now, state=())
    assert fold(e.ProjectRegistered("another")) == now
    assert fold(e.ProjectDescribed("ships")) == replace(now, description="ships")
    assert fold(e.ProjectArchived("over")) == replace(now, status="archived")
    assert fold(e.ProjectRestored("on")) == now
    other = JoinedProject("p_0000000000000000", 12)
    assert fold(e.ProjectJoined(other.id)) == replace(now, joined=(*now.joined, other))


def test_a_registration_begins_a_project_and_an_opening_a_session() -> None:
    begun = evolve(None, recorded(EVENTS["ProjectRegistered"], stream=PROJECT, version=1, position=7))
    assert begun == project(aliases=(), state=(), joined=(), roots=(), version=1, position=7)
    assert evolve(None, recorded(EVENTS["ProjectAliasAdded"])) is None
    assert evolve_session(None, recorded(EVENTS["SessionOpened"], stream=SESSION, version=1, position=7)) == session()
    assert admits(None, EVENTS["ProjectRegistered"]) and not admits(None, EVENTS["ProjectStateSet"])
    assert admits_session(None, EVENTS["SessionOpened"]) and not admits_session(None, EVENTS["MessageAppended"])


@pytest.mark.parametrize(
    "state",
    [
        project(),
        project(
            user=None, name=None, description=None, aliases=(None, "a"), state=(replace(ENTRY, key=None, value=None),)
        ),
    ],
)
def test_a_state_equals_the_state_read_from_its_row(state: ProjectState) -> None:
    assert projects.FAMILY.from_row(projects.FAMILY.to_row(state)) == state
    for each in (
        session(),
        replace(session(), name=None, user=None, aliases=("moon day", None), moved_to=OTHER_SESSION),
    ):
        assert sessions.FAMILY.from_row(sessions.FAMILY.to_row(each)) == each


@pytest.mark.parametrize(("one", "two"), [("Übersee", " ÜBERSEE "), ("a  b\n", "A b"), ("STRASSE", "straße")])
def test_two_spellings_of_one_name(one: str, two: str) -> None:
    assert name_form(one) == name_form(two)


def test_a_project_is_registered_once(ledger: Ledger) -> None:
    first = ledger.projects.add("Kitchen", description="where tea is")
    again = ledger.projects.add(" kitchen ", description="other")
    assert (again.id, again.absorbed, again.name, again.description) == (first.id, True, "Kitchen", "where tea is")
    assert ledger.remember("Tea.", project="KITCHEN").project == "Kitchen"
    assert ledger.remember("Milk.", project=first.id).project == "Kitchen"
    assert [each.id for each in ledger.projects.list()] == [first.id]
    assert ledger.projects.get(first.id[:9]) == ledger.projects.get("kitchen") and absent(ledger.projects.get, "garden")


def test_an_alias_is_a_name_of_one_project(ledger: Ledger) -> None:
    ledger.projects.add("kitchen"), ledger.projects.add("garden")
    assert ledger.projects.add_alias("kitchen", "galley").aliases == ("galley",)
    assert ledger.projects.add_alias("galley", "Galley").aliases == ("galley",)
    for taken in ("kitchen", "GALLEY"):
        with pytest.raises(ConflictError, match="another project"):
            ledger.projects.add_alias("garden", taken)
    with pytest.raises(NotFoundError):
        ledger.projects.add_alias("nowhere", "n")


def test_trusted_state_keeps_its_history(ledger: Ledger) -> None:
    one = ledger.bind(actor="ada").projects.set_state("kitchen", "status", "phase", "one", source="the cook")
    two = ledger.bind(actor="bob").projects.set_state("kitchen", "status", "phase", "two")
    ledger.projects.set_state("kitchen", "fact", "tea", "in the tin")
    gone = ledger.projects.remove_state("kitchen", "status", "phase", reason="over")
    assert [(each.name, each.value) for each in ledger.projects.state("kitchen")] == [("tea", "in the tin")]
    history = ledger.projects.state("kitchen", category="status", history=True)
    assert [(each.value, each.source, each.actor, each.from_position, each.to_position) for each in history] == [
        ("one", "the cook", "ada", one.position, two.position),
        ("two", "", "bob", two.position, gone.position),
    ]
    assert [each.value for each in ledger.projects.state("kitchen", category="fact", name="tea")] == ["in the tin"]
    assert absent(ledger.projects.state, "nowhere")
    back = ledger.projects.set_state("kitchen", "status", "phase", "three")
    assert [each.value for each in back.state] == ["in the tin", "three"]


def test_trusted_state_is_a_persons_act(ledger: Ledger) -> None:
    for channel in ("tool", "web", "agent", "file"):
        with pytest.raises(RejectedError, match="only a person") as refusal:
            ledger.projects.set_state("kitchen", "status", "phase", "one", channel=channel)
        assert refusal.value.rule == "trust"
    assert ledger.projects.list() == []
    ledger.projects.set_state("kitchen", "status", "phase", "one")
    with pytest.raises(RejectedError, match="only a person"):
        ledger.bind(actor="policy:expiry").projects.remove_state("kitchen", "status", "phase")
    assert [each.value for each in ledger.projects.state("kitchen")] == ["one"]


def test_trusted_state_has_seven_categories() -> None:
    assert CATEGORIES == ("status", "decision", "requirement", "contact", "milestone", "fact", "config")
