"""The audit trail: everything that happened, by whatever one asks for."""

from __future__ import annotations

from typing import Any

import probe
import pytest
from conftest import Clock
from full import full

from ledger import Ledger
from projections.views import audit


@pytest.fixture
def told(ledger: Ledger, clock: Clock) -> dict[str, Any]:
    fact = ledger.bind(actor="ada").remember(
        "Tea is in the tin.", project="kitchen", session="s1", client="cli", correlation_id="run"
    )
    clock.advance(hours=1)
    ledger.bind(actor="bob").reinforce(fact.id, channel="tool", agent="helper")
    clock.advance(hours=1)
    other = ledger.bind(actor="ada").propose("Milk is in the jug.", correlation_id="run")
    return {"fact": fact, "other": other}


def types(found: list[Any]) -> list[str]:
    return [each.type for each in found]


ALL = ["MemoryCaptured", "MemoryReinforced", "MemoryCaptured", "SessionOpened", "ProjectRegistered", "LedgerCreated"]
FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ALL),
    ({"actor": "bob"}, ["MemoryReinforced"]),
    ({"actor": "ada", "type": "MemoryCaptured"}, ["MemoryCaptured", "MemoryCaptured"]),
    ({"project": "kitchen"}, ["MemoryReinforced", "MemoryCaptured", "SessionOpened"]),
    ({"session": "s1"}, ["MemoryCaptured", "SessionOpened", "ProjectRegistered"]),
    ({"type": "MemoryReinforced"}, ["MemoryReinforced"]),
    ({"command": "propose"}, ["MemoryCaptured"]),
    ({"correlation_id": "run"}, ["MemoryCaptured", "MemoryCaptured", "SessionOpened", "ProjectRegistered"]),
    ({"since": "2026-01-01T13:00:00Z"}, ["MemoryCaptured", "MemoryReinforced"]),
    ({"since": "2026-01-01 13:00Z", "until": "2026-01-01T15:00:00+01:00"}, ["MemoryReinforced"]),
    ({"until": 3}, ["ProjectRegistered", "LedgerCreated"]),
    ({"limit": 2}, ALL[:2]),
    ({"limit": 0}, []),
    ({"actor": "eve"}, []),
    ({"project": "garden"}, []),
    ({"subject": "m_0000000000000000"}, []),
    ({"user": "ada"}, []),  # who asks
]


@pytest.mark.parametrize(("asked", "found"), FILTERS)
def test_the_audit_shows_what_each_filter_lets_through(
    ledger: Ledger, told: dict[str, Any], asked: dict[str, Any], found: list[str]
) -> None:
    filters = {name: value for name, value in asked.items() if name != "user"}
    assert types(ledger.bind(user=asked.get("user")).history.audit(**filters)) == found


def test_history_is_read_by_subject_command_and_event(ledger: Ledger, told: dict[str, Any]) -> None:
    fact = told["fact"]
    assert types(ledger.history.audit(subject=fact.id)) == ["MemoryReinforced", "MemoryCaptured"]
    assert types(ledger.history.audit(subject=fact.id[:10])) == ["MemoryReinforced", "MemoryCaptured"]
    assert types(ledger.history.audit(subject="ledger")) == ["LedgerCreated"]
    command = ledger.history.audit(subject=fact.id)[1].command_id
    assert set(types(ledger.history.audit(command_id=command))) == {
        "ProjectRegistered",
        "SessionOpened",
        "MemoryCaptured",
    }


def test_an_audit_entry_has_every_field(ledger: Ledger, told: dict[str, Any]) -> None:
    entry = ledger.history.audit(type="MemoryReinforced")[0]
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__ if name not in ("event_id", "command_id")}
    assert fields == {
        "position": 5, "subject": told["fact"].id, "type": "MemoryReinforced", "recorded_at": "2026-01-01T13:00:00.000000Z",
        "command": "reinforce", "user": "", "actor": "bob", "client": "", "channel": "tool", "agent": "helper",
        "project": "kitchen", "session": None, "causation_id": None, "correlation_id": None, "in_effect": True,
        "data": {"rule": "linear/1", "delta": 0},
    }  # fmt: skip


def test_an_undone_command_is_marked_as_undone(ledger: Ledger, told: dict[str, Any]) -> None:
    ledger.undo(5, reason="no")
    undone, *_, reinforced = ledger.history.audit(limit=3)
    assert (undone.type, undone.in_effect, undone.data["reason"]) == ("CommandUndone", True, "no")
    assert (reinforced.type, reinforced.in_effect) == ("MemoryReinforced", False)


def test_the_secret_is_never_shown(ledger: Ledger) -> None:
    shown = ledger.history.audit(type="LedgerCreated")[0].data
    assert "secret" not in shown and shown["ledger_id"] == ledger.id
    assert probe.secret(ledger) not in full(ledger.history.audit())


def test_a_trail_goes_on_from_a_position(ledger: Ledger) -> None:
    for number in range(10):
        ledger.remember(f"Fact number {number}.")
    first = ledger.history.audit(limit=4)
    rest = ledger.history.audit(limit=20, after=first.next)
    assert [each.position for each in (*first, *rest)] == list(range(11, 0, -1))


def test_the_command_of_an_event_is_read_in_steps_that_do_not_grow_with_the_log(ledger: Ledger) -> None:
    def read(connection: Any, position: int) -> tuple[list[audit.AuditRow], int]:
        taken: list[None] = []
        connection.set_progress_handler(lambda: taken.append(None), 1)
        try:
            return audit.command_at(connection, position), len(taken)
        finally:
            connection.set_progress_handler(None, 0)

    for number in range(30):
        ledger.remember(f"Fact number {number}.", project=f"p{number}")
    for snapshot in (probe.read(ledger), probe.read(ledger.at(len(ledger.history.audit(limit=500)) - 2))):
        with snapshot as connection:
            entries = [audit.at(connection, each) for each in range(1, 100)]
            trail = [each for each in entries if each is not None]
            found = {each.position: read(connection, each.position) for each in trail}
            for each in trail:
                assert found[each.position][0] == [other for other in trail if other.command_id == each.command_id]
            assert found[trail[4].position][1] == found[trail[40].position][1]
            assert audit.command_at(connection, 0) == audit.command_at(connection, 1_000) == []
