"""A key makes a command happen once: the same again gives the first answer, anything else is a conflict."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from absence import absent
from conftest import folded_from_zero
from writes import CALLS, fill, opened

from ledger import ConflictError, KeyReusedError, Ledger, RejectedError
from ledger.interactions import policy as reinforcement
from tools.pages.public_surface import writes

Call = Callable[[Ledger, dict[str, Any], Any], Any]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    path = tmp_path_factory.mktemp("keys") / "memory.db"
    with opened(path) as full:
        the = fill(full)
    return path, the


@pytest.fixture
def full(filled: tuple[Path, dict[str, Any]], tmp_path: Path) -> Iterator[Ledger]:
    """A copy of a ledger with one subject of each kind."""
    with opened(Path(shutil.copy(filled[0], tmp_path / "full.db"))) as copy:
        yield copy


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


VARIANTS: dict[str, Call] = {
    "remember absorbed": lambda g, _, by: g.bind(actor="b").remember("the user prefers DARK roast coffee.", **by),
    "promote edited": lambda g, the, by: g.promote(the["idea"], content="The user runs marathons.", **by),
    "supersede with a set": lambda g, the, by: g.supersede(the["fact"], "The user prefers tea.", tags={"b", "a"}, **by),
    "projects.set_state of a new project": lambda g, _, by: g.projects.set_state(
        "boats", "status", "phase", "two", **by
    ),
}
KEYLESS = {  # a second call goes on where the first ended, so a key would say nothing
    *(
        "consolidate",
        "conflicts.find",
        "merges.find",
        "session.compact",
        "session.extract",
        "session.summaries.rewrite",
    ),
}
REPORTS = {  # these count what this call did, which is nothing the second time
    *("add", "erase", "learning.learn", "documents.add", "history.distrust", "history.trust", "session.reconcile"),
    *("session.replace", "session.truncate", "session.extend", "session.remove_last", "session.clear"),
    *("session.summaries.invalidate",),
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
    """An answer without its mark and the moment of the call."""
    if not hasattr(answer, "__struct_fields__"):
        return answer
    fields = {name: getattr(answer, name) for name in answer.__struct_fields__}
    return {
        name: value for name, value in fields.items() if name not in ("replayed", "absorbed", "command_id", "as_of")
    }


def test_every_write_is_tried() -> None:
    assert sorted(set(writes()) - set(CALLS)) == []


@pytest.mark.parametrize("name", [*CALLS, *VARIANTS])
def test_a_repeated_write_adds_nothing_and_a_key_used_otherwise_is_a_conflict(
    full: Ledger, filled: tuple[Path, dict[str, Any]], name: str
) -> None:
    write, the = (CALLS | VARIANTS)[name], filled[1]
    full.remember("The first use.", idempotency_key="used")
    before = full.position
    with pytest.raises(
        RejectedError if name in KEYLESS else ConflictError, match=r"use another key|no idempotency_key"
    ):
        write(full, the, {"idempotency_key": "used"})
    assert full.position == before
    if name in KEYLESS:
        return
    first = write(full, the, {"idempotency_key": "k"})
    assert full.position > before
    after, digest = full.position, full.proof.digest()
    again = write(full, the, {"idempotency_key": "k"})
    if name not in REPORTS:
        assert as_told(again) == as_told(first)
    if hasattr(first, "replayed"):
        assert (first.replayed, again.replayed) == (False, True)
    assert (full.position, full.proof.digest()) == (after, digest)


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
