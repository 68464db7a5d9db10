"""What changed between two moments: each memory compared as it stood at the one and at the other."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command_line import run

from ledger import Ledger, NotFoundError, RejectedError
from ledger.answers import Memory

PARTS = ("added", "promoted", "superseded", "moved", "hidden", "restored", "revised")


def parts(diff):
    """The ids in each part that has any."""
    return {name: [each.id for each in getattr(diff, name)] for name in PARTS if getattr(diff, name)}


@pytest.fixture
def tea(ledger):
    return ledger.remember("The user drinks tea.", confidence=0.5)


@pytest.fixture
def idea(ledger):
    return ledger.propose("The user runs.")


CHANGES = {
    "promote": (lambda ledger, tea, idea: ledger.promote(idea), {"promoted": "idea"}),
    "reject": (lambda ledger, tea, idea: ledger.reject(idea), {"hidden": "idea"}),
    "retract": (lambda ledger, tea, idea: ledger.retract(tea), {"hidden": "tea"}),
    "invalidate": (lambda ledger, tea, idea: ledger.invalidate(tea), {"hidden": "tea"}),
    "quarantine": (lambda ledger, tea, idea: ledger.guards.quarantine(tea), {"hidden": "tea"}),
    "adjust": (lambda ledger, tea, idea: ledger.memories.set_confidence(tea, 0.25), {"moved": "tea"}),
    "reinforce": (lambda ledger, tea, idea: ledger.reinforce(tea), {"moved": "tea"}),
    "revise": (lambda ledger, tea, idea: ledger.revise(tea, "Green tea."), {"revised": "tea"}),
    "retag": (lambda ledger, tea, idea: ledger.memories.tag(tea, add=("drinks",)), {"revised": "tea"}),
    "correct": (lambda ledger, tea, idea: ledger.memories.correct(tea, kind="fact"), {"revised": "tea"}),
    "set_validity": (
        lambda ledger, tea, idea: ledger.memories.set_validity(tea, valid_from=None, valid_to="2027-01-01"),
        {"revised": "tea"},
    ),
    "supersede": (lambda ledger, tea, idea: ledger.supersede(tea, "Coffee."), {"superseded": "tea", "added": None}),
    "remember": (lambda ledger, tea, idea: ledger.remember("The user swims."), {"added": None}),
    "undo what made it": (lambda ledger, tea, idea: ledger.undo(2), {"hidden": "tea"}),
    "nothing": (lambda ledger, tea, idea: ledger.policy.set(gain=0.5), {}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_listed_in_its_field_of_the_diff(ledger, tea, idea, name):
    change, expected = CHANGES[name]
    start, ids = ledger.position, {"tea": tea.id, "idea": idea.id}
    change(ledger, tea.id, idea.id)
    diff = ledger.history.diff(start)
    found = parts(diff)
    assert set(found) == set(expected)
    for part, whose in expected.items():
        assert whose is None or found[part] == [ids[whose]]
    for each in (*diff.added, *diff.hidden):
        assert each.before is None or each.before.position <= start


@pytest.mark.parametrize("verb", ["retract", "invalidate", "quarantine"])
def test_a_memory_that_comes_back_is_listed_as_restored(ledger, tea, verb):
    getattr(ledger.guards if verb == "quarantine" else ledger, verb)(tea.id)
    hidden = ledger.position
    (ledger.guards.release if verb == "quarantine" else ledger.restore)(tea.id)
    assert parts(ledger.history.diff(hidden)) == {"restored": [tea.id]}
    assert parts(ledger.history.diff(tea.position)) == {}, "there and back is no change"


def test_a_superseded_fact_comes_back_and_goes_again_with_undo(ledger, tea):
    before = ledger.position
    coffee = ledger.supersede(tea.id, "The user drinks coffee.")
    between = ledger.position
    ledger.undo(between)
    assert parts(ledger.history.diff(before, between)) == {"superseded": [tea.id], "added": [coffee.id]}
    assert parts(ledger.history.diff(between)) == {"restored": [tea.id], "hidden": [coffee.id]}
    assert parts(ledger.history.diff(before)) == {}
    (gone,) = ledger.history.diff(between).hidden
    assert isinstance(gone.before, Memory) and gone.after is None


def test_a_memory_that_was_added_and_undone_between_both_moments_is_not_in_the_diff(ledger, tea):
    start = ledger.position
    ledger.remember("A passing thought.")
    ledger.undo(ledger.position)
    assert parts(ledger.history.diff(start)) == {}


def test_a_promotion_that_is_undone_is_hidden(ledger, idea):
    ledger.promote(idea.id)
    promoted = ledger.position
    ledger.undo(promoted)
    assert parts(ledger.history.diff(promoted)) == {"hidden": [idea.id]}
    (pair,) = ledger.history.diff(promoted).hidden
    assert (pair.before.status, pair.after.status) == ("active", "candidate")


def test_one_memory_can_be_in_several_fields_of_a_diff(ledger, idea):
    start = ledger.position
    ledger.revise(idea.id, "The user runs daily.")
    ledger.memories.set_confidence(idea.id, 0.75)
    ledger.promote(idea.id)
    assert parts(ledger.history.diff(start)) == {name: [idea.id] for name in ("promoted", "moved", "revised")}


def test_a_diff_takes_times_as_well_as_positions(ledger, tea, clock):
    clock.advance(days=1)
    ledger.memories.set_confidence(tea.id, 0.75)
    clock.advance(days=1)
    ledger.memories.set_confidence(tea.id, 1.0)
    diff = ledger.history.diff("2026-01-01T12:00:00Z", datetime(2026, 1, 2, 12, tzinfo=UTC))
    assert (diff.from_position, diff.to_position) == (2, 3)
    assert (diff.start, diff.end) == ("2026-01-01T12:00:00.000000Z", "2026-01-02T12:00:00.000000Z")
    (moved,) = diff.moved
    assert (moved.before.confidence, moved.after.confidence) == (0.5, 0.75)
    assert parts(ledger.history.diff(2, 2)) == {}


def test_a_diff_is_of_one_user_and_may_be_of_one_project(ledger, tea):
    start = ledger.position
    home = ledger.remember("The house is blue.", project="Home")
    ledger.projects.add_alias("Home", "casa")
    everywhere = ledger.remember("The user is tall.")
    theirs = ledger.bind(user="ann").remember("The sky is red.")
    assert parts(ledger.history.diff(start)) == {"added": [home.id, everywhere.id]}
    assert parts(ledger.history.diff(start, project="casa")) == {"added": [home.id]}
    assert parts(ledger.history.diff(start, project="")) == {"added": [everywhere.id]}
    assert parts(ledger.bind(user="ann").history.diff(start)) == {"added": [theirs.id]}
    with pytest.raises(NotFoundError):
        ledger.history.diff(start, project="nowhere")


@pytest.mark.parametrize(("start", "end"), [(3, 2), (0, 2), (1, 99), (99, None), ("2026-01-01T12:00", None), (None, 2)])
def test_a_diff_of_a_wrong_range_is_refused(ledger, tea, start, end):
    ledger.memories.set_confidence(tea.id, 0.75)
    with pytest.raises(RejectedError):
        ledger.history.diff(start, end)


def test_the_command_line_shows_what_changed(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    with Ledger.open(db) as ledger:
        tea = ledger.remember("The user drinks tea.", confidence=0.5)
        idea = ledger.propose("The user runs.")
        start = ledger.position
        ledger.memories.set_confidence(tea.id, 0.75)
        ledger.promote(idea.id)
        ledger.supersede(tea.id, "The user drinks coffee.")
        ledger.revise(idea.id, "The user runs daily.")
    shown = run("history", "diff", str(start), db=db)
    assert shown.exit_code == 0
    for told in ("Added (1)", "Promoted (1)", "0.50 → 0.75", "active → superseded by m_", "was “The user runs.”"):
        assert told in " ".join(shown.stdout.split()), shown.stdout
    told = json.loads(run("history", "diff", str(start), str(start + 1), "--json", db=db).stdout)
    assert [each["after"]["confidence"] for each in told["moved"]] == [0.75]
    assert "no belief changed" in run("history", "diff", "1", "1", db=db).stdout
    assert run("history", "diff", "5", "2", db=db).exit_code == 4
    assert run("history", "diff", "then", db=db).exit_code == 4
