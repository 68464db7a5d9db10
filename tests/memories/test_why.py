"""Why a memory is believed: every step in order, whose parts add up to the whole exactly, and where it came from."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from absence import absent, perhaps

from ledger import Ledger, LedgerError


def millionths(value: float) -> int:
    return round(value * 1_000_000)


def adds_up(ledger: Ledger, id: str) -> None:
    why = ledger.why(id)
    total = 0
    for step in why.steps:
        total += millionths(step.delta)
        assert millionths(step.confidence) == total
    now = perhaps(ledger.memories.get, id)
    assert total == millionths(why.confidence) == (millionths(now.confidence) if now is not None else 0)
    points = perhaps(ledger.memories.confidence, id) or ()
    assert sum(millionths(point.delta) for point in points) == total
    if now is not None:
        reinforced = [point for point in points if point.in_effect and point.type == "MemoryReinforced"]
        assert now.reference_count == len(reinforced)


def test_each_step_with_who_what_and_what_it_changed(ledger: Ledger) -> None:
    turn = ledger.bind(actor="ada").capture("What do I drink?", "Dark roast.")
    idea = ledger.bind(actor="ada").propose(
        "The user prefers dark roast coffee.", kind="preference", sources=(turn.id,), confidence=0.333333
    )
    ledger.bind(actor="bob").promote(idea.id, reason="asked")
    echo = ledger.capture("And?", "You prefer dark roast coffee.", memories_used=[idea.id])
    ledger.memories.set_confidence(idea.id, 0.1, reason="hearsay")
    why = ledger.why(idea.id)
    assert [(s.type, s.actor, s.delta, s.confidence, s.status, s.because) for s in why.steps] == [
        ("MemoryCaptured", "ada", 0.333333, 0.333333, "candidate", ""),
        ("MemoryPromoted", "bob", 0.0, 0.333333, "active", "asked"),
        ("MemoryReinforced", "policy:reinforcement", 0.0, 0.333333, "active", ""),
        ("ConfidenceAdjusted", "", -0.233333, 0.1, "active", "hearsay"),
    ]
    assert [each.id for each in why.sources] == [turn.id, echo.id]
    assert [each.prompt for each in why.sources] == ["What do I drink?", "And?"]
    assert why.steps[2].data["interaction"] == echo.id and why.steps[2].data["echo"] is True
    adds_up(ledger, idea.id)
    assert ledger.history.events(idea.id) == list(why.steps)


def test_why_lists_predecessors_and_successors_nearest_first(ledger: Ledger) -> None:
    first = ledger.remember("The user drinks coffee.")
    second = ledger.supersede(first.id, "The user drinks tea.")
    third = ledger.supersede(second.id, "The user drinks water.")
    told = [ledger.why(each.id) for each in (first, second, third)]
    chains = [([m.id for m in why.supersedes], [m.id for m in why.superseded_by]) for why in told if why is not None]
    assert chains == [([], [second.id, third.id]), ([first.id], [third.id]), ([second.id, first.id], [])]


def test_why_of_an_unknown_memory_is_not_found(ledger: Ledger) -> None:
    assert absent(ledger.why, "m_0000000000000000") and absent(ledger.history.events, "m_0000000000000000")


def test_every_kind_of_subject_has_a_history(ledger: Ledger) -> None:
    turn = ledger.capture("What now?", "Nothing.", project="home", session="s1")
    project = ledger.projects.set_state("home", "status", "phase", "one")
    session = ledger.history.audit(type="SessionOpened")[0].subject
    assert [s.type for s in ledger.history.events(turn.id) or []] == ["InteractionCaptured", "ReinforcementEvaluated"]
    assert [s.type for s in ledger.history.events(project.id) or []] == ["ProjectRegistered", "ProjectStateSet"]
    assert [s.type for s in ledger.history.events(session[:12]) or []] == ["SessionOpened"]


def something(ledger: Ledger, dice: random.Random, known: list[str], step: int) -> None:
    """One command or another on one memory or another; it may be refused."""
    id, text, chance = dice.choice(known), f"Fact number {dice.randrange(6)} of all.", dice.random()
    acts: list[Callable[[], Any]] = [
        lambda: ledger.reinforce(id, amount=chance / 5),
        lambda: ledger.memories.set_confidence(id, chance),
        lambda: known.append(ledger.bind(actor=f"{step}").remember(text, kind="preference", confidence=chance).id),
        lambda: known.append(ledger.propose(text, kind="preference", confidence=chance).id),
        lambda: known.append(ledger.supersede(id, text).id),
        lambda: ledger.promote(id),
        lambda: ledger.retract(id),
        lambda: ledger.restore(id),
        lambda: ledger.interactions.reinforce(ledger.capture("?", text).id),
        lambda: ledger.undo(dice.randrange(1, ledger.position + 1), cascade=chance < 0.7),
        lambda: ledger.redo(dice.choice([1, *(each.position for each in ledger.history.audit(type="CommandUndone"))])),
    ]
    with suppress(LedgerError):
        dice.choice(acts)()


@pytest.mark.parametrize("seed", range(8))
def test_the_steps_of_any_history_add_up(ledger: Ledger, seed: int) -> None:
    dice = random.Random(seed)
    known = [
        ledger.remember(f"Fact number {n} of all.", kind="preference", confidence=dice.random()).id for n in range(3)
    ]
    with ledger.batch():
        for step in range(100):
            something(ledger, dice, known, step)
    assert {"CommandUndone", "CommandRedone", "DuplicateAbsorbed", "MemorySuperseded"} <= {
        e.type for e in ledger.history.audit(limit=500)
    }
    for id in set(known):
        adds_up(ledger, id)
