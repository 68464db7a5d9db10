"""Events to bytes and back, in the schema they were written in."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest
from examples import EVENTS, MEMORY, envelope

from ledger import RejectedError
from ledger import events as e
from ledger.domain.errors import DamagedError
from ledger.log import registry
from ledger.log.envelope import STATE_BYTES, encode, to_stored


def test_an_event_above_a_mebibyte_is_refused() -> None:
    small = e.MemoryRevised("x" * (STATE_BYTES - 1_000))
    assert len(to_stored(MEMORY, 2, envelope(small)).state) <= STATE_BYTES
    with pytest.raises(RejectedError, match="MemoryRevised") as refusal:
        to_stored(MEMORY, 2, envelope(e.MemoryRevised("x" * STATE_BYTES)))
    assert (refusal.value.rule, refusal.value.limit) == ("size", 1024 * 1024)


def test_a_row_says_stream_version_and_short_name() -> None:
    stored = to_stored(MEMORY, 2, envelope(EVENTS["MemoryPromoted"]))
    assert (stored.originator_id, stored.originator_version, stored.topic) == (MEMORY, 2, "MemoryPromoted")


def test_the_registry_is_closed() -> None:
    assert all(name in registry.TYPES and registry._DECODERS[name] for name in e.TYPES)
    with pytest.raises(KeyError):
        registry._DECODERS["os:system"]
    assert not any("." in name for name in e.TYPES)


def test_an_older_schema_is_brought_up_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    class MemoryPromoted(msgspec.Struct, frozen=True):
        schema: ClassVar[int] = 3
        remark: str
        weight: int

    steps: dict[tuple[str, int], Any] = {
        ("MemoryPromoted", 1): lambda data: {"remark": data["reason"]},
        ("MemoryPromoted", 2): lambda data: data | {"weight": 1},
    }
    monkeypatch.setattr(registry, "UPCASTERS", steps)
    monkeypatch.setitem(registry.TYPES, "MemoryPromoted", MemoryPromoted)  # type: ignore[arg-type]
    decoder = (registry._decoder(MemoryPromoted).decode, MemoryPromoted.schema)
    monkeypatch.setitem(registry._DECODERS, "MemoryPromoted", decoder)
    old = encode(envelope(e.MemoryPromoted("confirmed"))).decode()
    event = registry.decode(9, 7, MEMORY, 2, "MemoryPromoted", old)
    assert event.data == MemoryPromoted("confirmed", 1)
    newer = encode(envelope(MemoryPromoted("confirmed", 1), schema=4)).decode()
    assert isinstance(registry.decode(9, 7, MEMORY, 2, "MemoryPromoted", newer).data, e.Unknown)


def test_a_field_that_a_newer_product_added_to_the_envelope_does_no_harm() -> None:
    told = msgspec.json.decode(encode(envelope(EVENTS["MemoryPromoted"])))
    state = msgspec.json.encode(told | {"shade": "blue"}).decode()
    assert registry.decode(9, 7, MEMORY, 2, "MemoryPromoted", state).data == EVENTS["MemoryPromoted"]


@pytest.mark.parametrize("damaged", [5, 5.5, b"\x00\xff", None, "x" * 100, "\ud800"])
@pytest.mark.parametrize("what", ["type", "state"])
def test_what_a_damaged_page_made_of_a_type_or_a_state_is_told_as_unreadable(what: str, damaged: Any) -> None:
    type_, state = (damaged, "[]") if what == "type" else ("MemoryPromoted", damaged)
    with pytest.raises(DamagedError, match=r"position 7 (.* holds no readable event|has a type that is not a text)"):
        registry.decode(7, 7, MEMORY, 1, type_, state)
