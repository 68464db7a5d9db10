"""Undo, redo, distrust and trust in any order: what was put back stands on something, and every act can be ended."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from absence import absent, perhaps
from command_line import run
from conftest import Clock, folded_from_zero
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledger import ConflictError, Ledger, LedgerError, NotFoundError, RejectedError

WORDS = ("The lamp is green.", "The boat is blue.", "The door is red.", "The roof is new.")


def held(ledger: Ledger, id: str) -> bool:
    return not absent(ledger.memories.get, id)


def counted(ledger: Ledger, id: str) -> int:
    found = perhaps(ledger.memories.get, id)
    return found.reference_count if found is not None else -1


# --- what reacted to something -----------------------------------------------------------------------------------------


def test_a_redo_brings_back_no_reinforcement_by_an_answer_that_was_undone_meanwhile(ledger: Ledger) -> None:
    fact = ledger.remember("The cabin has a red wooden door.", kind="identity", confidence=0.5)
    turn = ledger.capture("Which door?")
    answer = ledger.interactions.add_response(turn.id, "The cabin has a red wooden door.")
    assert answer.id == turn.id and counted(ledger, fact.id) == 1
    (reinforced,) = ledger.history.audit(type="MemoryReinforced")
    (attached,) = ledger.history.audit(type="ResponseAttached")
    looked_at = ledger.undo(reinforced.position)
    undone = ledger.undo(attached.position)
    with pytest.raises(ConflictError, match=f"caused by position {attached.position}"):
        ledger.redo(looked_at.command_id or "")
    assert counted(ledger, fact.id) == 0
    ledger.redo(undone.command_id or "")
    ledger.redo(looked_at.command_id or "")
    assert counted(ledger, fact.id) == 1


# --- an undo before a distrust ---------------------------------------------------------------------------------------


def test_a_redo_brings_back_no_memory_whose_only_source_is_distrusted_by_now(ledger: Ledger) -> None:
    turn = ledger.bind(actor="eve").capture("Which lamp?", "The green one.")
    fact = ledger.bind(actor="ann").remember(WORDS[0], sources=(turn.id,))
    ledger.bind(actor="ann").revise(fact.id, "The lamp is bright green.")
    undone = ledger.undo(fact.position, cascade=True)
    report = ledger.history.distrust("eve", kind="actor")
    assert fact.id not in report.gone, "it was gone already"
    ledger.redo(undone.command_id or "")
    assert not held(ledger, fact.id)
    ledger.history.trust("eve", kind="actor")
    found = ledger.memories.get(fact.id)
    assert found.content == "The lamp is bright green."
    assert ledger.proof.digest() == folded_from_zero(ledger)


def test_a_chain_of_undone_memories_falls_with_its_source_too(ledger: Ledger) -> None:
    turn = ledger.bind(actor="eve").capture("Which lamp?", "The green one.")
    first = ledger.bind(actor="ann").remember(WORDS[0], sources=(turn.id,))
    second = ledger.bind(actor="bob").remember(WORDS[1], sources=(first.id,))
    own = ledger.bind(actor="bob").remember(WORDS[2], sources=(first.id,))
    ledger.bind(actor="ann").remember(WORDS[2])
    undone = ledger.undo(first.position, cascade=True)
    ledger.history.distrust("eve", kind="actor")
    ledger.redo(undone.command_id or "")
    assert [held(ledger, each.id) for each in (first, second, own)] == [False, False, True]
    ledger.history.trust("eve", kind="actor")
    assert all(held(ledger, each.id) for each in (first, second, own))


def test_a_memory_found_in_a_message_that_was_undone_falls_with_the_session(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.bind(actor="eve").append("user", "I prefer green tea.")
    session.bind(actor="ann").extract(method="rules")
    (fact,) = ledger.memories.list(statuses=())
    undone = ledger.undo(fact.position)
    ledger.history.distrust("eve", kind="actor")
    ledger.redo(undone.command_id or "")
    assert not held(ledger, fact.id)
    ledger.history.trust("eve", kind="actor")
    assert held(ledger, fact.id)


def test_a_memory_found_in_what_another_said_in_the_session_comes_back_all_the_same(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.bind(actor="ann").append("user", "I prefer green tea.")
    session.bind(actor="eve").append("user", "Hello.")
    session.bind(actor="ann").extract(method="rules")
    (fact,) = ledger.memories.list(statuses=())
    undone = ledger.undo(fact.position)
    ledger.history.distrust("eve", kind="actor")
    ledger.redo(undone.command_id or "")
    assert held(ledger, fact.id)


# --- an undo of the source after that of what rests on it -----------------------------------------------------------


def test_a_redo_of_what_rests_on_an_undone_source_is_a_conflict_until_that_is_back(ledger: Ledger) -> None:
    turn = ledger.capture("Which lamp?", "The green one.", reinforce=False)
    fact = ledger.remember(WORDS[0], sources=(turn.id,))
    ledger.undo(fact.position)
    ledger.undo(turn.position)
    with pytest.raises(ConflictError, match=f"{turn.id}.*put that back first"):
        ledger.redo(fact.position)
    assert not held(ledger, fact.id)
    ledger.redo(turn.position)
    ledger.redo(fact.position)
    assert held(ledger, fact.id)


def test_what_is_undone_cannot_be_cited_and_is_nobody_elses(ledger: Ledger) -> None:
    turn = ledger.capture("Which lamp?", "The green one.", reinforce=False)
    ledger.undo(turn.position)
    with pytest.raises(NotFoundError, match=f"no interaction of this user has the id '{turn.id}'"):
        ledger.remember(WORDS[0], sources=(turn.id,))
    with pytest.raises(NotFoundError, match="of this user"):
        ledger.bind(user="ben").remember(WORDS[0], sources=(turn.id,))


CITING = {
    "remember": lambda ledger, source: ledger.remember(WORDS[1], sources=(source,)),
    "propose": lambda ledger, source: ledger.propose(WORDS[1], sources=(source,)),
    "supersede": lambda ledger, source: ledger.supersede(ledger.remember(WORDS[2]).id, WORDS[1], sources=(source,)),
    "observe": lambda ledger, source: ledger.observations.add(WORDS[1], (source,)),
}


@pytest.mark.parametrize("how", ["distrust", "undo", "undo of the newer text"])
@pytest.mark.parametrize("verb", CITING)
def test_a_chunk_of_a_text_that_is_out_of_force_cannot_be_cited(ledger: Ledger, verb: str, how: str) -> None:
    first = ledger.bind(actor="ann" if how.endswith("text") else "eve").documents.add(
        "# A\n\nThe vault is here.\n", path="a.md"
    )
    if how.endswith("text"):
        first = ledger.bind(actor="eve").documents.add("# A\n\nThe vault is there.\n", path="a.md")
    act = ledger.undo(ledger.position) if how.startswith("undo") else ledger.history.distrust("eve", kind="actor")
    with pytest.raises(NotFoundError, match=f"no chunk of this user has the id '{first.chunks[0].id}'"):
        CITING[verb](ledger, first.chunks[0].id)
    _ = ledger.redo(act.command_id or "") if how.startswith("undo") else ledger.history.trust("eve", kind="actor")
    assert CITING[verb](ledger, first.chunks[0].id).sources


def test_a_chunk_that_a_newer_text_no_longer_has_can_be_cited(ledger: Ledger) -> None:
    first = ledger.documents.add("# A\n\nThe vault is here.\n", path="a.md")
    ledger.documents.add("# A\n\nThe vault is there.\n", path="a.md")
    assert ledger.remember(WORDS[1], sources=(first.chunks[0].id,)).sources == (first.chunks[0].id,)


def test_an_observation_all_of_whose_sources_are_undone_cannot_be_cited(ledger: Ledger) -> None:
    fact = ledger.remember(WORDS[0])
    seen = ledger.observations.add("There is a lamp.", (fact.id,))
    undone = ledger.undo(fact.position)
    with pytest.raises(RejectedError, match=f"{seen.id} has no live source"):
        ledger.remember(WORDS[1], sources=(seen.id,))
    ledger.redo(undone.command_id or "")
    ledger.retract(fact.id)
    assert ledger.remember(WORDS[1], sources=(seen.id,)).sources == (seen.id,), "it rests on something, in use or not"
    paper = ledger.bind(actor="eve").documents.add("# A\n\nThe vault is here.\n", path="a.md")
    read = ledger.observations.add("There is a vault.", (paper.chunks[0].id,))
    ledger.remember(WORDS[2], sources=(read.id,))
    ledger.history.distrust("eve", kind="actor")
    with pytest.raises(RejectedError, match="no live source"):
        ledger.remember(WORDS[3], sources=(read.id,))


@pytest.mark.parametrize("kind", ["y", "g", "k"])
def test_what_follows_from_other_subjects_cannot_be_cited(ledger: Ledger, kind: str) -> None:
    with pytest.raises(RejectedError, match="a source is an id like"):
        ledger.remember(WORDS[1], sources=(f"{kind}_0000000000000000",))


@pytest.mark.parametrize("said", ["in a message", "in a turn"])
def test_what_was_found_in_an_undone_text_comes_back_with_the_text_not_with_its_finder(
    ledger: Ledger, said: str
) -> None:
    if said == "in a message":
        session = ledger.session("chat")
        session.bind(actor="ann").append("user", "I prefer green tea.")
        position = ledger.position
        session.bind(actor="eve").extract(method="rules")
    else:
        turn = ledger.bind(actor="ann").capture("Hm?", "## Decision: green tea is bought on Friday.", reinforce=False)
        position = turn.position
        ledger.bind(actor="eve").extract(turn.id)
    (fact,) = ledger.memories.list(statuses=())
    ledger.history.distrust("eve", kind="actor")
    undone = ledger.undo(position)
    assert undone.dependents == (), "what a distrust keeps out is built on nothing in force"
    ledger.history.trust("eve", kind="actor")
    assert ledger.memories.list(statuses=()) == []
    ledger.redo(undone.command_id or "")
    assert held(ledger, fact.id) and ledger.proof.digest() == folded_from_zero(ledger)


# --- two sources -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["ann", "eve"])
@pytest.mark.parametrize("back", ["ann", "eve"])
def test_a_memory_of_two_distrusted_sources_is_back_when_both_are_trusted(
    ledger: Ledger, first: str, back: str
) -> None:
    turn = ledger.bind(actor="eve").capture("Which lamp?", "The green one.")
    fact = ledger.bind(actor="ann").remember(WORDS[0], sources=(turn.id,))
    second = {"ann": "eve", "eve": "ann"}
    for each in (first, second[first]):
        ledger.bind(actor="root").history.distrust(each, kind="actor")
    ledger.bind(actor="root").history.trust(back, kind="actor")
    assert not held(ledger, fact.id)
    ledger.bind(actor="root").history.trust(second[back], kind="actor")
    assert held(ledger, fact.id) and ledger.history.distrusted() == []


# --- undoing a distrust ----------------------------------------------------------------------------------------------


def test_undoing_a_distrust_makes_the_undos_of_the_source_again(ledger: Ledger) -> None:
    fact = ledger.bind(actor="ann").remember(WORDS[0])
    ledger.bind(actor="eve").undo(fact.position)
    act = ledger.history.distrust("eve", kind="actor")
    assert held(ledger, fact.id)
    ledger.undo(act.command_id)
    assert not held(ledger, fact.id) and ledger.history.distrusted() == []
    assert ledger.proof.digest() == folded_from_zero(ledger)


def test_undoing_a_distrust_of_one_who_said_nothing_trusts_him(ledger: Ledger) -> None:
    act = ledger.history.distrust("nobody", kind="actor")
    ledger.undo(act.command_id)
    assert ledger.history.distrusted() == []
    assert ledger.bind(actor="nobody").remember(WORDS[0]).id


# --- what was built on what a distrust had put back ---------------------------------------------------------------


def test_a_trust_takes_nothing_away_that_others_built_on_since(ledger: Ledger) -> None:
    fact = ledger.bind(actor="ann").remember(WORDS[0])
    ledger.bind(actor="eve").undo(fact.position)
    ledger.history.distrust("eve", kind="actor")
    built = ledger.bind(actor="ann").remember(WORDS[1], sources=(fact.id,))
    revised = ledger.bind(actor="ann").revise(fact.id, "The lamp is bright green.")
    with pytest.raises(ConflictError, match="2 later commands built on what becomes void again"):
        ledger.history.trust("eve", kind="actor")
    assert held(ledger, fact.id) and held(ledger, built.id)
    ledger.undo(built.position)
    with pytest.raises(ConflictError, match="1 later command built"):
        ledger.history.trust("eve", kind="actor")
    ledger.undo(revised.position)
    ledger.history.trust("eve", kind="actor")
    assert not held(ledger, fact.id)
    assert ledger.proof.digest() == folded_from_zero(ledger)


@pytest.mark.parametrize("by_undo", [False, True])
def test_a_trust_takes_along_what_others_built_on_since_where_it_is_told_to(ledger: Ledger, by_undo: bool) -> None:
    fact = ledger.bind(actor="ann").remember(WORDS[0], kind="preference")
    ledger.bind(actor="eve").undo(fact.position)
    own = ledger.bind(actor="eve").remember(WORDS[3])
    act = ledger.history.distrust("eve", kind="actor")
    built = ledger.bind(actor="ann").remember(WORDS[1], sources=(fact.id,))
    further = ledger.bind(actor="bob").remember(WORDS[2], sources=(built.id,))
    ledger.bind(actor="bob").capture("Which lamp is it?", "The lamp is green.")
    assert counted(ledger, fact.id) == 1
    listed = ledger.history.trust("eve", kind="actor", dry_run=True)
    assert len(listed.cascaded) == 2 and set(listed.memories) == {each.id for each in (fact, built, further, own)}
    assert listed.events == 4 and held(ledger, further.id), "three fall, one is back"
    if by_undo:
        done = ledger.undo(act.command_id, cascade=True)
        assert done.cascaded == listed.cascaded
    else:
        assert ledger.history.trust("eve", kind="actor", cascade=True).cascaded == listed.cascaded
    assert [held(ledger, each.id) for each in (fact, built, further, own)] == [False, False, False, True]
    assert ledger.proof.digest() == folded_from_zero(ledger)
    ledger.redo(fact.position)
    assert all(held(ledger, each.id) for each in (fact, built, further, own))
    assert counted(ledger, fact.id) == 1
    assert ledger.proof.digest() == folded_from_zero(ledger)


def test_a_trust_names_an_attempt_that_rests_on_it_alone_though_another_keeps_the_memory(ledger: Ledger) -> None:
    fact, other = ledger.bind(actor="ann").remember(WORDS[0]), ledger.bind(actor="eve").remember(WORDS[1])
    ledger.bind(actor="eve").undo(fact.position)
    ledger.history.distrust("eve", kind="actor")
    ledger.bind(actor="ann").remember(WORDS[2], sources=(fact.id,))
    both = ledger.bind(actor="bob").remember(WORDS[2], sources=(ledger.bind(actor="ann").remember(WORDS[3]).id,))
    with pytest.raises(ConflictError, match="1 later command built"):
        ledger.history.trust("eve", kind="actor")
    assert held(ledger, both.id) and not held(ledger, other.id)


# --- any order -------------------------------------------------------------------------------------------------------

acts = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("remember", "remember", "cite", "cite", "capture", "revise", "retract"),
                *("undo", "undo", "redo", "redo", "distrust", "trust"),
            ]
        ),
        st.sampled_from(("ann", "bob", "eve")),
        st.integers(0, 9),
        st.integers(0, 3),
    ),
    min_size=5,
    max_size=24,
)


class Hand:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.sources: list[str] = []
        self.positions: list[int] = []

    def do(self, what: str, actor: str, one: int, word: int) -> None:
        ledger = self.ledger
        source = self.sources[one % len(self.sources)] if self.sources else ""
        position = self.positions[one % len(self.positions)] if self.positions else 1
        if what == "remember":
            self._made(ledger.bind(actor=actor).remember(WORDS[word]))
        elif what == "cite":
            self._made(ledger.bind(actor=actor).remember(WORDS[word], sources=(source,)))
        elif what == "capture":
            self._made(ledger.bind(actor=actor).capture(f"Question {one}?", "Answer.", reinforce=False))
        elif what == "revise":
            self.positions.append(ledger.bind(actor=actor).revise(source, f"{WORDS[word]} {one}").position)
        elif what == "retract":
            self.positions.append(ledger.bind(actor=actor).retract(source).position)
        elif what == "undo":
            ledger.bind(actor=actor).undo(position, cascade=True)
        elif what == "redo":
            ledger.bind(actor=actor).redo(position)
        elif what == "distrust":
            ledger.bind(actor="root").history.distrust(actor, kind="actor")
        else:
            ledger.bind(actor="root").history.trust(actor, kind="actor", cascade=word > 1)

    def _made(self, found: object) -> None:
        self.sources.append(found.id)  # type: ignore[attr-defined]
        self.positions.append(found.position)  # type: ignore[attr-defined]


def without_support(ledger: Ledger) -> list[str]:
    """The memories that no attempt in force stands behind with a source that is there, or with none."""
    found = []
    for memory in ledger.memories.list(statuses=()):
        steps = ledger.history.events(memory.id) or []
        attempts = [step for step in steps if step.in_effect and step.type in ("MemoryCaptured", "DuplicateAbsorbed")]
        cited = [step.data.get("sources") or [] for step in attempts]
        if not any(
            not each or any(held(ledger, x) or not absent(ledger.interactions.get, x) for x in each) for each in cited
        ):
            found.append(memory.id)
    return found


@pytest.mark.slow
@given(acts)
@example(  # built on what a distrust had put back
    [("remember", "ann", 0, 0), ("undo", "bob", 0, 0), ("distrust", "bob", 0, 0), ("cite", "ann", 0, 1)]
)
@settings(deadline=None)
def test_every_memory_has_a_live_source_after_acts_in_any_order(steps: list[tuple[str, str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder, Ledger.open(Path(folder, "memory.db"), clock=Clock()) as ledger:
        hand = Hand(ledger)
        for step in steps:
            with suppress(LedgerError):
                hand.do(*step)
            assert without_support(ledger) == [], step
        for each in ledger.history.distrusted():
            with suppress(ConflictError):  # what happened since may not fit what the source did
                ledger.bind(actor="root").history.trust(each.command_id)
            assert without_support(ledger) == []
        for each in ledger.history.distrusted():
            with suppress(ConflictError):
                ledger.bind(actor="root").history.trust(each.command_id, cascade=True)
            assert without_support(ledger) == []
        assert ledger.proof.digest() == folded_from_zero(ledger)


# --- how to take an act back ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, "once"])
def test_a_report_says_what_takes_the_act_back(ledger: Ledger, key: str | None) -> None:
    fact = ledger.bind(actor="ann").remember(WORDS[0])
    undone = ledger.undo(fact.position)
    for _ in range(2 if key else 1):  # the answer to a repeated command says the same
        redone = ledger.redo(undone.command_id or "", idempotency_key=key)
        assert (undone.reversed_by, redone.reversed_by) == ("redo", "undo")
    ledger.undo(redone.commands[0])
    assert not held(ledger, fact.id)
    act = ledger.history.distrust("ann", kind="actor")
    assert ledger.undo(act.command_id, dry_run=True).reversed_by == "distrust"
    assert ledger.undo(act.command_id).reversed_by == "distrust" and ledger.history.distrusted() == []


def test_the_command_line_says_what_goes_with_an_undo_and_why(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        fact = ledger.propose(WORDS[0])
        ledger.promote(fact.id)
    wide = {"COLUMNS": "200"}
    done = run("undo", str(fact.position), "--dry-run", db=tmp_path / "memory.db", environment=wide)
    assert f"promote at 3: {fact.id[:8]}… would not be there" in done.output
    refused = run("undo", str(fact.position), db=tmp_path / "memory.db", environment=wide)
    assert refused.exit_code == 4 and "promote at 3" in refused.output


def test_the_command_line_says_it_too(tmp_path: Path) -> None:
    def text(*command: str) -> str:
        done = run(*command, db=tmp_path / "memory.db", environment={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        return " ".join(done.output.split())

    text("remember", WORDS[0], "--actor", "ann")
    with Ledger.open(tmp_path / "memory.db") as ledger:
        position = str(ledger.position)
    way_back = "take it back: memory-ledger "
    undone = text("undo", position).rpartition(way_back)[2].split()[:2]
    assert undone[0] == "redo"
    back = text(*undone).rpartition(way_back)[2].split()[:2]
    assert back[0] == "undo"
    assert text(*back).rpartition(way_back)[2].startswith("redo ")
