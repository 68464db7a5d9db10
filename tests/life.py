"""A ledger that went through a bit of everything."""

from __future__ import annotations

import pytest


def life(ledger):
    """Run commands of most kinds on a ledger, with an undo, a redo, a refusal and idempotency keys."""
    ledger.projects.add("Kitchen", idempotency_key="k1")
    ledger.projects.add_alias("kitchen", "galley")
    for value in ("open", "closed", "open"):
        ledger.projects.set_state("galley", "status", "door", value)
    coffee = ledger.remember("The user prefers dark roast coffee.", kind="preference", confidence=0.5, tags=["coffee"])
    turn = ledger.capture("Coffee?", "The user prefers dark roast coffee, I know.", project="galley", session="s")
    ledger.extract(turn.id)
    idea = ledger.propose("The user trains for a marathon.", sources=(turn.id,), project="kitchen")
    ledger.bind(actor="somebody else").remember("The user prefers dark roast coffee.", kind="preference")
    ledger.promote(idea.id, content="The user trains for a half marathon.")
    tea = ledger.supersede(coffee.id, "The user prefers tea.", reason="said so")
    ledger.guards.quarantine(tea.id)
    ledger.guards.release(tea.id)
    ledger.memories.tag(tea.id, add=["hot"], idempotency_key="k2")
    ledger.memories.set_metadata(tea.id, {"ticket": 4711, "vip": True}, idempotency_key="k3")
    ledger.memories.set_validity(tea.id, valid_from="2026-01-01", valid_to="2030-01-01")
    ledger.undo(ledger.position)
    ledger.undo(tea.position - 1, cascade=True)
    ledger.redo(ledger.position)
    with pytest.raises(Exception, match="allows"):
        ledger.reject(idea.id)
    ledger.retract(idea.id)
    ledger.restore(idea.id)
    ledger.policy.set(gain=0.1)
    ledger.bind(user="another").remember("Their fact.", idempotency_key="k1")
