"""A key makes a command happen once: the same again gives the first answer, anything else is a conflict."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pytest
from absence import absent
from conftest import folded_from_zero

from ledger import ConflictError, KeyReusedError, Ledger, RejectedError
from ledger.interactions import policy as reinforcement


class Given:
    """A ledger with one subject of each kind to command."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.fact = ledger.remember("The user prefers dark roast coffee.", kind="preference", tags=["drinks"])
        self.idea = ledger.propose("The user is training for a marathon.")
        self.gone = ledger.remember("The user lives in Oslo.")
        ledger.retract(self.gone.id)
        self.odd = ledger.remember("The user is a lighthouse.")
        ledger.guards.quarantine(self.odd.id)
        self.project = ledger.projects.add("assistant")
        ledger.projects.set_state("assistant", "status", "phase", "one")
        self.waiting = ledger.capture("What do I drink?")
        self.said = ledger.capture("And?", "Decision: the user prefers dark roast coffee.", reinforce=False)
        self.undone = ledger.remember("The user owns a boat.")
        ledger.undo(self.undone.position)


WRITES: dict[str, Callable[[Given, str], Any]] = {
    "capture": lambda g, key: g.ledger.capture(
        "Hello?", "You prefer dark roast coffee.", project="new", session="s", idempotency_key=key
    ),
    "interactions.add_response": lambda g, key: g.ledger.interactions.add_response(
        g.waiting.id, "Dark roast coffee, you prefer it.", idempotency_key=key
    ),
    "remember": lambda g, key: g.ledger.remember(
        "Tea is in the tin.", project="new", session="s9", idempotency_key=key
    ),
    "remember absorbed": lambda g, key: g.ledger.bind(actor="b").remember(
        "the user prefers DARK roast coffee.", kind="preference", idempotency_key=key
    ),
    "propose": lambda g, key: g.ledger.propose("Tea is in the tin.", idempotency_key=key),
    "promote": lambda g, key: g.ledger.promote(g.idea.id, reason="yes", idempotency_key=key),
    "promote edited": lambda g, key: g.ledger.promote(
        g.idea.id, content="The user runs marathons.", idempotency_key=key
    ),
    "reject": lambda g, key: g.ledger.reject(g.idea.id, reason="no", idempotency_key=key),
    "reinforce a memory": lambda g, key: g.ledger.reinforce(g.fact.id, amount=0.01, idempotency_key=key),
    "interactions.reinforce": lambda g, key: g.ledger.interactions.reinforce(g.said.id, idempotency_key=key),
    "revise": lambda g, key: g.ledger.revise(g.fact.id, "The user prefers a dark roast.", idempotency_key=key),
    "memories.tag": lambda g, key: g.ledger.memories.tag(
        g.fact.id, add=["roast"], remove=["drinks"], idempotency_key=key
    ),
    "memories.correct": lambda g, key: g.ledger.memories.correct(
        g.fact.id, kind="fact", project="boats", entities=["roast"], idempotency_key=key
    ),
    "memories.set_validity": lambda g, key: g.ledger.memories.set_validity(
        g.fact.id, valid_from="2020-01-01", valid_to="2030-01-01", idempotency_key=key
    ),
    "memories.set_confidence": lambda g, key: g.ledger.memories.set_confidence(
        g.fact.id, 0.3, reason="hearsay", idempotency_key=key
    ),
    "supersede": lambda g, key: g.ledger.supersede(
        g.fact.id, "The user prefers tea.", tags={"b", "a"}, idempotency_key=key
    ),
    "invalidate": lambda g, key: g.ledger.invalidate(g.fact.id, idempotency_key=key),
    "retract": lambda g, key: g.ledger.retract(g.fact.id, idempotency_key=key),
    "restore": lambda g, key: g.ledger.restore(g.gone.id, idempotency_key=key),
    "guards.quarantine": lambda g, key: g.ledger.guards.quarantine(g.fact.id, idempotency_key=key),
    "guards.release": lambda g, key: g.ledger.guards.release(g.odd.id, idempotency_key=key),
    "projects.add": lambda g, key: g.ledger.projects.add("boats", idempotency_key=key),
    "projects.add_alias": lambda g, key: g.ledger.projects.add_alias("assistant", "helper", idempotency_key=key),
    "projects.set_state": lambda g, key: g.ledger.projects.set_state(
        "assistant", "status", "phase", "two", idempotency_key=key
    ),
    "projects.set_state of a new project": lambda g, key: g.ledger.projects.set_state(
        "boats", "status", "phase", "two", idempotency_key=key
    ),
    "projects.remove_state": lambda g, key: g.ledger.projects.remove_state(
        "assistant", "status", "phase", idempotency_key=key
    ),
    "extract": lambda g, key: g.ledger.extract(g.said.id, idempotency_key=key),
    "policy.set": lambda g, key: g.ledger.policy.set(gain=0.05, idempotency_key=key),
    "undo": lambda g, key: g.ledger.undo(g.fact.position, reason="wrong", idempotency_key=key),
    "redo": lambda g, key: g.ledger.redo(g.undone.position, idempotency_key=key),
}
# asks for what is already so: nothing to append but the answer itself
NOTHING_TO_DO: dict[str, Callable[[Given, str], Any]] = {
    "promote": lambda g, key: g.ledger.promote(g.fact.id, idempotency_key=key),
    "revise": lambda g, key: g.ledger.revise(g.fact.id, "The user prefers dark roast coffee.", idempotency_key=key),
    "memories.tag": lambda g, key: g.ledger.memories.tag(g.fact.id, add=["drinks"], idempotency_key=key),
    "memories.set_confidence": lambda g, key: g.ledger.memories.set_confidence(g.fact.id, 1, idempotency_key=key),
    "retract": lambda g, key: g.ledger.retract(g.gone.id, idempotency_key=key),
    "restore": lambda g, key: g.ledger.restore(g.fact.id, idempotency_key=key),
    "guards.quarantine": lambda g, key: g.ledger.guards.quarantine(g.odd.id, idempotency_key=key),
    "guards.release": lambda g, key: g.ledger.guards.release(g.fact.id, idempotency_key=key),
    "supersede": lambda g, key: g.ledger.supersede(
        g.fact.id, "The user prefers DARK  roast coffee.", idempotency_key=key
    ),
    "remember": lambda g, key: g.ledger.bind(actor="b").remember(
        "The user prefers dark roast coffee.", kind="preference", idempotency_key=key
    ),
    "projects.add": lambda g, key: g.ledger.projects.add(" Assistant", idempotency_key=key),
    "projects.add_alias": lambda g, key: g.ledger.projects.add_alias("assistant", "ASSISTANT", idempotency_key=key),
    "projects.set_state": lambda g, key: g.ledger.projects.set_state(
        "assistant", "status", "phase", "one", idempotency_key=key
    ),
    "projects.remove_state": lambda g, key: g.ledger.projects.remove_state(
        "assistant", "fact", "none", idempotency_key=key
    ),
    "policy.set": lambda g, key: g.ledger.policy.set(gain=0.05, idempotency_key=key),
    "undo": lambda g, key: g.ledger.undo(g.undone.position, idempotency_key=key),
    "redo": lambda g, key: g.ledger.redo(g.fact.position, idempotency_key=key),
}


def as_told(answer: Any) -> Any:
    """An answer without its mark."""
    if isinstance(answer, dict):
        return answer
    fields = {name: getattr(answer, name) for name in answer.__struct_fields__}
    return {name: value for name, value in fields.items() if name not in ("replayed", "absorbed", "command_id")}


@pytest.mark.parametrize("verb", WRITES)
def test_the_same_again_gives_the_first_answer_and_appends_nothing(ledger: Ledger, verb: str) -> None:
    given, write = Given(ledger), WRITES[verb]
    before = ledger.position
    first = write(given, "k")
    assert ledger.position > before
    after, digest = ledger.position, ledger.proof.digest()
    again = write(given, "k")
    assert as_told(again) == as_told(first)
    if hasattr(first, "replayed"):
        assert (first.replayed, again.replayed) == (False, True)
    assert (ledger.position, ledger.proof.digest()) == (after, digest)


@pytest.mark.parametrize("verb", NOTHING_TO_DO)
def test_a_command_with_nothing_to_do_leaves_its_answer(ledger: Ledger, verb: str) -> None:
    given, write = Given(ledger), NOTHING_TO_DO[verb]
    if verb in ("remember", "policy.set"):
        write(given, "before")
    before = ledger.position
    first = write(given, "k")
    assert [each.type for each in ledger.history.audit(until=before + 2, limit=1)] == ["CommandAnswered"]
    assert ledger.position == before + 1
    again = write(given, "k")
    assert as_told(again) == as_told(first)
    assert ledger.position == before + 1
    with pytest.raises(ConflictError, match="with other arguments"):
        ledger.remember("Something else.", idempotency_key="k")


def test_every_write_of_the_door_is_tried(ledger: Ledger) -> None:
    tried = {name.split()[0] for name in WRITES}
    without = {"batch", "interactions.import_file", "jobs.run"}  # many commands, each its own
    named = """capture remember propose promote reject reinforce revise supersede invalidate retract restore extract undo redo
        batch interactions.add_response interactions.reinforce interactions.import_file memories.tag memories.correct
        memories.set_validity
        memories.set_confidence guards.quarantine guards.release projects.add projects.add_alias projects.set_state
        projects.remove_state policy.set jobs.run"""
    assert tried | without == set(named.split())
    assert all(callable(attrgetter(name)(ledger)) for name in tried | without)


@pytest.mark.parametrize("verb", WRITES)
def test_a_key_used_for_something_else_is_a_conflict(ledger: Ledger, verb: str) -> None:
    given = Given(ledger)
    ledger.remember("The first use.", idempotency_key="k")
    position = ledger.position
    with pytest.raises(ConflictError, match="use another key"):
        WRITES[verb](given, "k")
    assert ledger.position == position


def test_the_same_command_with_other_arguments_is_a_conflict(ledger: Ledger) -> None:
    ledger.remember("Tea is in the tin.", idempotency_key="k")
    for different in (
        lambda: ledger.remember("Tea is in the box.", idempotency_key="k"),
        lambda: ledger.remember("Tea is in the tin.", kind="fact", idempotency_key="k"),
        lambda: ledger.remember("Tea is in the tin.", project="p", idempotency_key="k"),
        lambda: ledger.remember("Tea is in the tin.", tags=["t"], idempotency_key="k"),
        lambda: ledger.remember("Tea is in the tin.", confidence=0.5, idempotency_key="k"),
        lambda: ledger.propose("Tea is in the tin.", idempotency_key="k"),
    ):
        with pytest.raises(ConflictError):
            different()


def test_keys_belong_to_a_user(ledger: Ledger) -> None:
    mine = ledger.bind(user="ada").remember("Tea is in the tin.", idempotency_key="k")
    theirs = ledger.bind(user="bob").remember("Something else.", idempotency_key="k")
    assert (mine.replayed, theirs.replayed) == (False, False)
    assert ledger.bind(user="ada").remember("Tea is in the tin.", idempotency_key="k").replayed


def test_the_first_answer_is_the_memory_as_it_stood_then(ledger: Ledger) -> None:
    first = ledger.remember("Tea is in the tin.", idempotency_key="k")
    ledger.revise(first.id, "Tea is in the box.")
    ledger.retract(first.id)
    again = ledger.remember("Tea is in the tin.", idempotency_key="k")
    assert (again.content, again.status, again.position) == ("Tea is in the tin.", "active", first.position)


def test_a_refusal_is_not_kept(ledger: Ledger) -> None:
    idea = ledger.propose("Tea is in the tin.")
    with pytest.raises(RejectedError):
        ledger.reinforce(idea.id, idempotency_key="k")
    ledger.promote(idea.id)
    reinforced = ledger.reinforce(idea.id, idempotency_key="k")
    assert not reinforced.replayed and reinforced.reference_count == 1  # type: ignore[union-attr]


def test_an_undone_command_releases_its_key_and_a_redo_takes_it_again(ledger: Ledger) -> None:
    first = ledger.remember("Tea is in the tin.", idempotency_key="k")
    ledger.undo(first.position)
    ledger.redo(first.position)
    assert ledger.remember("Tea is in the tin.", idempotency_key="k").replayed
    ledger.undo(first.position)
    second = ledger.remember("Something else.", idempotency_key="k")
    assert not second.replayed
    with pytest.raises(ConflictError, match="used again since"):
        ledger.redo(first.position)


def test_a_redo_takes_its_key_again_that_another_command_had_meanwhile(ledger: Ledger) -> None:
    """Undone, used for something else, that undone too, and the first redone: the first has it again."""
    undone = ledger.undo(ledger.remember("Tea is in the tin.", idempotency_key="k").position)
    ledger.undo(ledger.remember("Something else.", idempotency_key="k").position)
    ledger.redo(undone.position)
    assert ledger.remember("Tea is in the tin.", idempotency_key="k").replayed
    with pytest.raises(KeyReusedError):
        ledger.remember("Something else.", idempotency_key="k")
    assert folded_from_zero(ledger) == ledger.proof.digest()


def test_a_key_whose_answer_was_undone_still_gives_the_first_answer(ledger: Ledger) -> None:
    first = ledger.remember("Tea is in the tin.")
    ledger.promote(first.id, idempotency_key="k")
    ledger.undo(first.position)
    assert absent(ledger.memories.get, first.id)
    again = ledger.promote(first.id, idempotency_key="k")
    assert (again.replayed, again.id, again.status) == (True, first.id, "active")
    project = ledger.projects.add("assistant")
    ledger.projects.add("assistant", idempotency_key="p")
    ledger.undo(project.position)
    with pytest.raises(ConflictError, match="was undone since"):
        ledger.projects.add("assistant", idempotency_key="p")


def test_a_dry_run_answers_for_nothing(ledger: Ledger) -> None:
    fact = ledger.remember("Tea is in the tin.")
    position = ledger.position
    planned = ledger.undo(fact.position, idempotency_key="k", dry_run=True)
    assert (planned.events, ledger.position) == (1, position)
    done = ledger.undo(fact.position, idempotency_key="k")
    assert not done.replayed and absent(ledger.memories.get, fact.id)


def test_a_repeated_capture_does_not_react_again(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    with ledger.batch():
        turn = ledger.capture("Hello?", "You prefer dark roast coffee.", idempotency_key="k")
    position = ledger.position
    assert (
        ledger.capture("Hello?", "You prefer dark roast coffee.", idempotency_key="k").reinforcement
        == turn.reinforcement
        == "pending"
    )
    assert ledger.position == position
    monkeypatch.setattr(reinforcement, "evaluate", None)
    ledger.jobs.run()
    failed = ledger.position
    ledger.capture("Hello?", "You prefer dark roast coffee.", idempotency_key="k")
    assert ledger.position == failed


@pytest.mark.parametrize("key", ["", " ", "x" * 1025, "\ud800", 5, b"k", ["k"]])
def test_a_key_is_a_text(ledger: Ledger, key: Any) -> None:
    with pytest.raises(RejectedError, match="key"):
        ledger.remember("Tea is in the tin.", idempotency_key=key)
    assert ledger.memories.list() == []
