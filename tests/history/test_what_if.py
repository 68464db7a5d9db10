"""What if a command, a source or the policy had not been: the beliefs that would differ, and nothing is written."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from absence import perhaps
from conftest import Clock
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ledger import Ledger, LedgerError
from ledger.observations.answers import Observation

NOTES = "# Boats\n\nThe boat is blue.\n\n# Doors\n\nThe door is red and made of oak.\n"


def test_what_if_shows_what_a_distrust_would_do_and_touches_nothing(ledger: Ledger) -> None:
    ledger.bind(actor="ann").remember("The user likes long walks.")
    gone = ledger.bind(actor="ann").remember("The user lives in Rome.")
    ledger.retract(gone.id)
    coffee = ledger.bind(actor="ann").remember("The user drinks coffee.", confidence=0.5)
    other = ledger.bind(actor="ann").remember("The user has a cat.", confidence=0.5)
    ledger.bind(actor="eve").reinforce(other.id, amount=0.2)
    tea = ledger.bind(actor="eve").supersede(coffee.id, "The user drinks tea.")
    position, digest = ledger.position, ledger.proof.digest()
    shown = ledger.history.what_if(without={"actor": "eve"})
    assert (ledger.position, ledger.proof.digest()) == (position, digest)
    assert [each.id for each in shown.lost] == [tea.id] and [each.id for each in shown.gained] == [coffee.id]
    (moved,) = shown.changed
    assert moved.now is not None and moved.would_be is not None
    assert (moved.id, moved.now.confidence, moved.would_be.confidence) == (other.id, 0.7, 0.5)
    assert shown.unchanged == 1  # the walks
    ledger.history.distrust("eve", kind="actor")
    assert {coffee.id, other.id} <= {each.id for each in ledger.memories.list()} and len(ledger.memories.list()) == 3


def test_what_if_without_a_command_takes_what_was_built_on_it(ledger: Ledger) -> None:
    idea = ledger.propose("The user runs.")
    ledger.promote(idea.id)
    shown = ledger.history.what_if(without=idea.position)
    assert [each.id for each in shown.lost] == [idea.id] and shown.events == 2


def test_what_if_the_policy_had_been_another(ledger: Ledger) -> None:
    fact = ledger.remember("The cabin has a red wooden door.", kind="identity", confidence=0.5)
    also = ledger.remember("The cabin has a red wooden door and a porch.", kind="identity", confidence=0.5)
    for _ in range(3):
        ledger.capture("Which?", "The cabin has a red wooden door and a porch.")
    ledger.reinforce(fact.id, amount=0.1)
    shown = ledger.history.what_if(policy={"gain": 0.1})
    told = {each.id: each.would_be.confidence for each in shown.changed if each.would_be is not None}
    assert told == {fact.id: 0.9, also.id: 0.8}
    fewer = ledger.history.what_if(policy={"max_matches": 1})
    counts = {each.id: each.would_be.reference_count for each in fewer.changed if each.would_be is not None}
    assert len(counts) == 1 and set(counts.values()) <= {0, 1}
    none = ledger.history.what_if(policy={"max_matches": 0})
    assert {each.would_be.reference_count for each in none.changed if each.would_be is not None} == {0, 1}


# --- observations ----------------------------------------------------------------------------------------------------


def told(found: Observation | None) -> object:
    return None if found is None else replace(found, as_of="", position=0)


def test_what_if_lists_the_sources_that_an_observation_loses(ledger: Ledger) -> None:
    mine = ledger.bind(actor="ann").remember("The user bought a grinder.")
    theirs = ledger.bind(actor="eve").remember("The user drinks coffee.")
    both = ledger.bind(actor="ann").observations.add("The user likes coffee.", [mine.id, theirs.id])
    alone = ledger.bind(actor="ann").observations.add("The user is awake.", [theirs.id])
    made = ledger.bind(actor="eve").observations.add("The user should buy decaf.", [mine.id])
    shown = {each.id: each for each in ledger.history.what_if(without={"actor": "eve"}).observations}
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
    report = ledger.history.distrust("eve", kind="actor")
    assert (set(report.observations), report.unsupported) == ({both.id, alone.id, made.id}, (alone.id,))
    assert made.id in report.gone and alone.id not in report.gone
    back = ledger.history.trust("eve", kind="actor", dry_run=True)
    assert (set(back.observations), back.unsupported) == ({both.id, alone.id, made.id}, ())


def test_without_a_command_an_observation_loses_its_proof_too(ledger: Ledger) -> None:
    turn = ledger.capture("Which beans?", "Dark ones.", reinforce=False)
    seen = ledger.observations.add("The user likes dark beans.", [turn.id])
    (found,) = ledger.history.what_if(without=turn.position).observations
    assert found.id == seen.id and found.would_be is not None and found.would_be.status == "unsupported"


def test_an_observation_that_the_source_had_put_into_quarantine_is_free_again(ledger: Ledger) -> None:
    turn = ledger.capture("Which beans?", "Dark ones.")
    seen = ledger.observations.add("The user likes dark beans.", [turn.id])
    ledger.bind(actor="eve").guards.quarantine(seen.id, reason="a lie")
    (found,) = ledger.history.what_if(without={"actor": "eve"}).observations
    assert found.now is not None and found.would_be is not None
    assert (found.now.quarantined, found.would_be.quarantined) == (True, False)
    ledger.bind(actor="ann").guards.release(seen.id)
    ledger.bind(actor="eve").guards.quarantine(turn.id, reason="also a lie")
    (found,) = ledger.history.what_if(without={"actor": "eve"}).observations
    assert found.now is not None and found.would_be is not None
    assert (found.now.proof_count, found.would_be.proof_count) == (0, 1)


def test_a_different_gain_changes_no_observation(ledger: Ledger) -> None:
    fact = ledger.remember("The cabin has a red wooden door.", kind="identity", confidence=0.5)
    ledger.observations.add("There is a door.", [fact.id])
    ledger.capture("Which?", "The cabin has a red wooden door.")
    shown = ledger.history.what_if(policy={"gain": 0.1})
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
        self.sources = [ledger.bind(actor="ann").remember("The lamp is on.").id]
        self.observations: list[str] = []
        self.documents: list[str] = []

    def do(self, actor: str, what: str, one: int, other: int) -> None:
        ledger, source = self.ledger, self.sources[one % len(self.sources)]
        second = self.sources[other % len(self.sources)]
        seen = self.observations[one % len(self.observations)] if self.observations else ""
        paper = self.documents[one % len(self.documents)] if self.documents else ""
        anything = [source, second, *([seen] if seen else [])][other % (3 if seen else 2)]
        if what == "remember":
            self.sources.append(ledger.bind(actor=actor).remember(f"Fact {one}.").id)
        elif what == "capture":
            self.sources.append(ledger.bind(actor=actor).capture(f"Question {one}?", f"Answer {other}.").id)
        elif what in ("ingest", "ingest again"):
            text = NOTES if what == "ingest" else NOTES.replace("red", f"green {other}")
            found = ledger.bind(actor=actor).documents.add(text, path=f"{one % 2}.md")
            self.documents.append(found.id)
            whole = ledger.documents.get(found.id)
            self.sources += [each.id for each in whole.chunks or ()] if whole is not None else []
        elif what == "observe":
            found = ledger.bind(actor=actor).observations.add(f"Observation {one % 4}.", [source, second])
            self.observations.append(found.id)
        elif what == "revise":
            ledger.bind(actor=actor).revise(seen, f"Another wording {other}.")
        elif what == "withdraw":
            ledger.bind(actor=actor).observations.withdraw((source,))
        elif what == "retract":
            ledger.bind(actor=actor).retract(anything)
        elif what == "restore":
            ledger.bind(actor=actor).restore(anything)
        elif what == "supersede":
            self.sources.append(ledger.bind(actor=actor).supersede(source, f"Fact {one}, {other}.").id)
        elif what == "quarantine":
            ledger.bind(actor=actor).guards.quarantine(anything)
        elif what == "release":
            ledger.bind(actor=actor).guards.release(anything)
        elif what == "remove":
            ledger.bind(actor=actor).documents.remove(paper)
        elif what == "put back":
            ledger.bind(actor=actor).documents.restore(paper)
        else:
            ledger.bind(actor="ann").erase(source, sources="keep", derived="keep", quotes="keep")


@pytest.mark.slow
@given(acts)
@settings(deadline=None)
def test_what_if_shows_every_observation_as_after_a_real_distrust(steps: list[tuple[str, str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder, Ledger.open(Path(folder, "memory.db"), clock=Clock()) as ledger:
        hands = Hands(ledger)
        for step in steps:
            with suppress(LedgerError):
                hands.do(*step)
        every = set(hands.observations)
        before = {id: told(perhaps(ledger.observations.get, id)) for id in every}
        shown = {each.id: each for each in ledger.history.what_if(without={"actor": "eve"}).observations}
        report = ledger.history.distrust("eve", kind="actor")
        after = {id: told(perhaps(ledger.observations.get, id)) for id in every}
        assert set(shown) == {id for id in every if before[id] != after[id]} == set(report.observations)
        assert {id: told(each.would_be) for id, each in shown.items()} == {id: after[id] for id in shown}
        assert {id: told(each.now) for id, each in shown.items()} == {id: before[id] for id in shown}
        back = ledger.history.trust("eve", kind="actor")
        assert {id: told(perhaps(ledger.observations.get, id)) for id in every} == before
        assert set(back.observations) == set(shown)
