"""A ledger that went through a bit of everything."""

from __future__ import annotations

import pytest


def life(ledger):
    """A bit of everything, with an undo, a redo, a refusal and keys."""
    ledger.register_project("Kitchen", key="k1")
    ledger.add_alias("kitchen", "galley")
    for value in ("open", "closed", "open"):
        ledger.set_state("galley", "status", "door", value)
    coffee = ledger.remember("The user prefers dark roast coffee.", kind="preference", confidence=0.5, tags=["coffee"])
    turn = ledger.capture("Coffee?", "The user prefers dark roast coffee, I know.", project="galley", session_id="s")
    ledger.extract(turn.id)
    idea = ledger.propose("The user trains for a marathon.", source=turn.id, project="kitchen")
    ledger.remember("The user prefers dark roast coffee.", kind="preference", actor="somebody else")
    ledger.promote(idea.id, content="The user trains for a half marathon.")
    tea = ledger.supersede(coffee.id, "The user prefers tea.", reason="said so")
    ledger.quarantine(tea.id)
    ledger.release(tea.id)
    ledger.retag(tea.id, ["hot"], key="k2")
    ledger.describe(tea.id, {"ticket": 4711, "vip": True}, key="k3")
    ledger.set_validity(tea.id, "2026-01-01", "2030-01-01")
    ledger.undo(ledger.position)
    ledger.undo(tea.position - 1, cascade=True)
    ledger.redo(ledger.position)
    with pytest.raises(Exception, match="allows"):
        ledger.reject(idea.id)
    ledger.retract(idea.id)
    ledger.restore(idea.id)
    ledger.adopt_policy(gain=0.1)
    ledger.remember("Their fact.", user="another", key="k1")
