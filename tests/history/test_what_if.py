"""What if a command, a source or the policy had not been: the beliefs that would differ, and nothing is written."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import Clock
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from old_names import Ledger

from ledger import LedgerError
from ledger.observations.answers import Observation

NOTES = "# Boats\n\nThe boat is blue.\n\n# Doors\n\nThe door is red and made of oak.\n"


def test_what_if_shows_what_a_distrust_would_do_and_touches_nothing(ledger: Ledger) -> None:
    ledger.remember("The user likes long walks.", actor="ann")
    gone = ledger.remember("The user lives in Rome.", actor="ann")
    ledger.retract(gone.id)
    coffee = ledger.remember("The user drinks coffee.", actor="ann", confidence=0.5)
    other = ledger.remember("The user has a cat.", actor="ann", confidence=0.5)
    ledger.reinforce(other.id, 0.2, actor="eve")
    tea = ledger.supersede(coffee.id, "The user drinks tea.", actor="eve")
    position, digest = ledger.position, ledger.digest()
    shown = ledger.what_if(without={"actor": "eve"})
    assert (ledger.position, ledger.digest()) == (position, digest)
    assert [each.id for each in shown.lost] == [tea.id] and [each.id for each in shown.gained] == [coffee.id]
    (moved,) = shown.changed
    assert moved.now is not None and moved.would_be is not None
    assert (moved.id, moved.now.confidence, moved.would_be.confidence) == (other.id, 0.7, 0.5)
    assert shown.unchanged == 1  # the walks
    ledger.distrust("eve", kind="actor")
    assert {coffee.id, other.id} <= {each.id for each in ledger.memories()} and len(ledger.memories()) == 3


def test_what_if_without_a_command_takes_what_was_built_on_it(ledger: Ledger) -> None:
    idea = ledger.propose("The user runs.")
    ledger.promote(idea.id)
    shown = ledger.what_if(without=idea.position)
    assert [each.id for each in shown.lost] == [idea.id] and shown.events == 2


def test_what_if_the_policy_had_been_another(ledger: Ledger) -> None:
    fact = ledger.remember("The cabin has a red wooden door.", kind="identity", confidence=0.5)
    also = ledger.remember("The cabin has a red wooden door and a porch.", kind="identity", confidence=0.5)
    for _ in range(3):
        ledger.capture("Which?", "The cabin has a red wooden door and a porch.")
    ledger.reinforce(fact.id, 0.1)
    shown = ledger.what_if(policy={"gain": 0.1})
    told = {each.id: each.would_be.confidence for each in shown.changed if each.would_be is not None}
    assert told == {fact.id: 0.9, also.id: 0.8}
    fewer = ledger.what_if(policy={"max_matches": 1})
    counts = {each.id: each.would_be.reference_count for each in fewer.changed if each.would_be is not None}
    assert len(counts) == 1 and set(counts.values()) <= {0, 1}
    none = ledger.what_if(policy={"max_matches": 0})
    assert {each.would_be.reference_count for each in none.changed if each.would_be is not None} == {0, 1}


# --- observations ----------------------------------------------------------------------------------------------------


def told(found: Observation | None) -> object:
    return None if found is None else replace(found, as_of="", position=0)


def test_what_bears_an_observation_out_no_more_is_told_of_it(ledger: Ledger) -> None:
    mine = ledger.remember("The user bought a grinder.", actor="ann")
    theirs = ledger.remember("The user drinks coffee.", actor="eve")
    both = ledger.observe("The user likes coffee.", [mine.id, theirs.id], actor="ann")
    alone = ledger.observe("The user is awake.", [theirs.id], actor="ann")
    made = ledger.observe("The user should buy decaf.", [mine.id], actor="eve")
    shown = {each.id: each for each in ledger.what_if(without={"actor": "eve"}).observations}
    assert set(shown) == {both.id, alone.id, made.id}
    now, then = shown[both.id].now, shown[both.id].would_be
    assert now is not None and then is not None
    assert (now.proof_count, then.proof_count, now.freshness, then.freshness) == (2, 1, "fresh", "stale")
    assert then.status == "active" and {each.id: each.live for each in then.sources} == {
        mine.id: True,
        theirs.id: False,
    }
    left = shown[alone.id].would_be
    assert left is not None and (left.status, left.proof_count) == ("unsupported", 0)
    assert shown[made.id].would_be is None
    report = ledger.distrust("eve", kind="actor")
    assert (set(report.observations), report.unsupported) == ({both.id, alone.id, made.id}, (alone.id,))
    assert made.id in report.gone and alone.id not in report.gone
    back = ledger.trust("eve", kind="actor", dry_run=True)
    assert (set(back.observations), back.unsupported) == ({both.id, alone.id, made.id}, ())


def test_without_a_command_an_observation_loses_its_proof_too(ledger: Ledger) -> None:
    turn = ledger.capture("Which beans?", "Dark ones.", reinforce=False)
    seen = ledger.observe("The user likes dark beans.", [turn.id])
    (found,) = ledger.what_if(without=turn.position).observations
    assert found.id == seen.id and found.would_be is not None and found.would_be.status == "unsupported"


def test_an_observation_that_the_source_had_put_into_quarantine_is_free_again(ledger: Ledger) -> None:
    turn = ledger.capture("Which beans?", "Dark ones.")
    seen = ledger.observe("The user likes dark beans.", [turn.id])
    ledger.quarantine(seen.id, "a lie", actor="eve")
    (found,) = ledger.what_if(without={"actor": "eve"}).observations
    assert found.now is not None and found.would_be is not None
    assert (found.now.quarantined, found.would_be.quarantined) == (True, False)
    ledger.release(seen.id, actor="ann")
    ledger.quarantine(turn.id, "also a lie", actor="eve")
    (found,) = ledger.what_if(without={"actor": "eve"}).observations
    assert found.now is not None and found.would_be is not None
    assert (found.now.proof_count, found.would_be.proof_count) == (0, 1)


def test_another_gain_moves_no_observation(ledger: Ledger) -> None:
    fact = ledger.remember("The cabin has a red wooden door.", kind="identity", confidence=0.5)
    ledger.observe("There is a door.", [fact.id])
    ledger.capture("Which?", "The cabin has a red wooden door.")
    shown = ledger.what_if(policy={"gain": 0.1})
    assert shown.observations == () and len(shown.changed) == 1


DOES = (
    *(
        "remember",
        "capture",
        "ingest",
        "ingest again",
        "observe",
        "observe",
        "observe",
        "revise",
        "withdraw",
        "retract",
    ),
    *("restore", "supersede", "quarantine", "release", "remove", "put back", "erase"),
)
acts = st.lists(
    st.tuples(st.sampled_from(["ann", "eve"]), st.sampled_from(DOES), st.integers(0, 9), st.integers(0, 9)),
    min_size=6,
    max_size=22,
)


class Hands:
    """Does what it is told with what is there already."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.sources = [ledger.remember("The lamp is on.", actor="ann").id]
        self.observations: list[str] = []
        self.documents: list[str] = []

    def do(self, actor: str, what: str, one: int, other: int) -> None:
        ledger, source = self.ledger, self.sources[one % len(self.sources)]
        second = self.sources[other % len(self.sources)]
        seen = self.observations[one % len(self.observations)] if self.observations else ""
        paper = self.documents[one % len(self.documents)] if self.documents else ""
        anything = [source, second, *([seen] if seen else [])][other % (3 if seen else 2)]
        if what == "remember":
            self.sources.append(ledger.remember(f"Fact {one}.", actor=actor).id)
        elif what == "capture":
            self.sources.append(ledger.capture(f"Question {one}?", f"Answer {other}.", actor=actor).id)
        elif what in ("ingest", "ingest again"):
            text = NOTES if what == "ingest" else NOTES.replace("red", f"green {other}")
            found = ledger.ingest(text, path=f"{one % 2}.md", actor=actor)
            self.documents.append(found.id)
            whole = ledger.document(found.id)
            self.sources += [each.id for each in whole.chunks or ()] if whole is not None else []
        elif what == "observe":
            found = ledger.observe(f"Observation {one % 4}.", [source, second], actor=actor)
            self.observations.append(found.id)
        elif what == "revise":
            ledger.revise(seen, f"Another wording {other}.", actor=actor)
        elif what == "withdraw":
            ledger.withdraw_source(source, actor=actor)
        elif what == "retract":
            ledger.retract(anything, actor=actor)
        elif what == "restore":
            ledger.restore(anything, actor=actor)
        elif what == "supersede":
            self.sources.append(ledger.supersede(source, f"Fact {one}, {other}.", actor=actor).id)
        elif what == "quarantine":
            ledger.quarantine(anything, actor=actor)
        elif what == "release":
            ledger.release(anything, actor=actor)
        elif what == "remove":
            ledger.remove_document(paper, actor=actor)
        elif what == "put back":
            ledger.restore_document(paper, actor=actor)
        else:
            ledger.erase(source, sources="keep", derived="keep", quotes="keep", actor="ann")


@pytest.mark.slow
@given(acts)
@settings(deadline=None)
def test_what_if_tells_of_every_observation_as_it_is_after_the_distrust(steps: list[tuple[str, str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder, Ledger.open(Path(folder, "memory.db"), clock=Clock()) as ledger:
        hands = Hands(ledger)
        for step in steps:
            with suppress(LedgerError):
                hands.do(*step)
        every = set(hands.observations)
        before = {id: told(ledger.observation(id)) for id in every}
        shown = {each.id: each for each in ledger.what_if(without={"actor": "eve"}).observations}
        report = ledger.distrust("eve", kind="actor")
        after = {id: told(ledger.observation(id)) for id in every}
        assert set(shown) == {id for id in every if before[id] != after[id]} == set(report.observations)
        assert {id: told(each.would_be) for id, each in shown.items()} == {id: after[id] for id in shown}
        assert {id: told(each.now) for id, each in shown.items()} == {id: before[id] for id in shown}
        back = ledger.trust("eve", kind="actor")
        assert {id: told(ledger.observation(id)) for id in every} == before
        assert set(back.observations) == set(shown)
