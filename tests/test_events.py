"""The storage format: each event's bytes are frozen, every string is declared, and what is unknown is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from eventsourcing.persistence import StoredEvent
from examples import BLOB, EVENTS, MEMORY, envelope

from ledger import Ledger, UnknownEvent, mapper
from ledger.domain import events
from ledger.domain.events import TEXT_FIELDS, TYPES, Unknown, string_fields

GOLDEN = Path(__file__).parent / "golden" / "events.json"

# After a change of the format that is meant (a new type, a new field with a default):
#     PYTHONPATH=. python tests/test_events.py
# writes the file again. Only additions may show in the diff; say so in the subject of the commit.


def encoded() -> dict[str, str]:
    return {name: mapper.to_stored(MEMORY, 1, envelope(data)).state.decode() for name, data in sorted(EVENTS.items())}


def test_every_event_is_stored_as_it_always_was() -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert encoded() == golden


def test_the_golden_bytes_decode_to_the_examples() -> None:
    for name, state in json.loads(GOLDEN.read_text(encoding="utf-8")).items():
        event = mapper.decode(9, 7, MEMORY, 2, name, state, b"key")
        assert event.data == EVENTS[name]
        assert event.envelope == envelope(EVENTS[name])
        assert (event.position, event.first, event.stream, event.version, event.type, event.key) == (
            9,
            7,
            MEMORY,
            2,
            name,
            b"key",
        )


def test_every_type_has_an_example_with_no_field_left_at_its_default() -> None:
    assert set(EVENTS) == set(TYPES)
    for name, data in EVENTS.items():
        for field in msgspec.structs.fields(type(data)):
            if field.default is not msgspec.NODEFAULT:
                assert getattr(data, field.name) != field.default, (
                    f"{name}.{field.name} would not show in the golden file"
                )


def test_what_is_default_takes_no_bytes() -> None:
    state = mapper.to_stored(MEMORY, 1, envelope(events.MemoryPromoted())).state
    assert json.loads(state)["data"] == {}


@pytest.mark.parametrize(
    "kind",
    [
        *TYPES.values(),
        events.Matched,
        events.Dropped,
        events.Origin,
        events.Blob,
        events.Redaction,
        events.Served,
        events.LeftOut,
        events.Acted,
        events.Evidence,
        events.Redacted,
        events.Envelope,
    ],
)
def test_every_string_says_what_it_is(kind: type[Any]) -> None:
    assert "?" not in string_fields(kind).values()


def test_an_undeclared_string_is_noticed() -> None:
    class Careless(msgspec.Struct):
        note: str
        maybe: tuple[str, ...] | None = None

    assert string_fields(Careless) == {"note": "?", "maybe": "?"}


def test_erasure_reaches_everything_that_somebody_wrote() -> None:
    attempt = ("content", "entities", "tags")
    assert {name: fields for name, fields in TEXT_FIELDS.items() if fields} == {
        "SourceDistrusted": ("source", "reason"),
        "SourceTrusted": ("reason",),
        "ContentErased": ("reason",),
        "LegalHoldPlaced": ("reason",),
        "LegalHoldReleased": ("reason",),
        "CommandUndone": ("reason",),
        "CommandRedone": ("reason",),
        "ProjectRegistered": ("name", "description"),
        "ProjectAliasAdded": ("alias",),
        "ProjectStateSet": ("key", "value", "source"),
        "ProjectStateInvalidated": ("key", "reason"),
        "SessionOpened": ("name",),
        "SessionAliasAdded": ("alias",),
        "MessageAppended": ("content", "reasoning", "parts", "model", "speaker"),
        "MessageRepaired": ("reasoning", "model"),
        "SummarySet": ("summary",),
        "SummaryCreated": ("content", "model"),
        "SummaryInvalidated": ("reason",),
        "SummaryRestored": ("reason",),
        "RecallServed": ("query", "warnings"),
        "DocumentIngested": ("path", "title", "tags"),
        "ChunkAdded": ("content", "heading_path", "metadata"),
        "DocumentReplaced": ("title", "tags"),
        "DocumentRemoved": ("reason",),
        "DocumentRestored": ("reason",),
        "EdgeAsserted": ("source", "relation", "target"),
        "EdgeRetired": ("source", "relation", "target", "reason"),
        "InteractionCaptured": ("prompt", "response", "response_summary", "context_pack"),
        "ResponseAttached": ("response", "response_summary"),
        "MemoryCaptured": attempt,
        "DuplicateAbsorbed": attempt,
        "MemoryPromoted": ("note",),
        "MemoryRejected": ("reason",),
        "ConfidenceAdjusted": ("reason",),
        "MemoryRevised": ("content", "reason"),
        "MemoryRetagged": ("added", "removed"),
        "ValidityChanged": ("reason",),
        "MemorySuperseded": ("reason",),
        "MemoryInvalidated": ("reason",),
        "MemoryRetracted": ("reason",),
        "MemoryRestored": ("reason",),
        "MemoryQuarantined": ("reason",),
        "MemoryReleased": ("reason",),
        "TextQuarantined": ("reason",),
        "TextReleased": ("reason",),
        "ModelCalled": ("model", "texts"),
        "ModelCallFailed": ("model",),
        "ConsolidationCompleted": ("tags",),
        "ConsolidationFailed": ("tags",),
        "MergeProposed": ("content", "model"),
        "MemoriesMerged": ("reason",),
        "MergeRejected": ("reason",),
        "ConflictFound": ("slot", "values"),
        "ConflictResolved": ("reason",),
        "ObservationFormed": ("text", "tags", "why"),
        "ObservationRevised": ("text", "why"),
        "EvidenceWithdrawn": ("reason",),
        "ObservationMarkedStale": ("reason",),
        "ObservationRetired": ("reason",),
        "ObservationRestored": ("reason",),
    }


def test_who_it_was_is_text_too() -> None:
    told = string_fields(events.Envelope)
    assert {name for name, what in told.items() if what == "text"} == {"user", "agent", "actor", "client"}


def test_a_text_is_itself_or_a_blob() -> None:
    captured = EVENTS["InteractionCaptured"]
    assert isinstance(captured, events.InteractionCaptured)
    assert (captured.prompt, captured.response) == ("Which coffee?", BLOB)


# --- what this product does not know ---------------------------------------------------------------------------------


def state_of(type_: str, schema: int, data: str) -> bytes:
    command = str(uuid4())
    where = {"user": "", "project": None, "session": None, "event_id": command, "command_id": command}
    told = json.loads(mapper.encode(envelope(events.MemoryPromoted(), schema=schema, **where)))
    return json.dumps(told | {"data": json.loads(data)}).encode()


UNKNOWN = [
    ("MemoryDreamt", 1, '{"dream": "os.system", "depth": 3.50}'),
    ("MemoryReinforced", 2, '{"rule": "cubic/9", "strength": [1, 2]}'),
    ("MemoryReinforced", 1, '{"rule": 5}'),
    ("os.system", 1, '{"command": "true"}'),
]


@pytest.mark.parametrize(("type_", "schema", "data"), UNKNOWN)
def test_an_event_of_an_unknown_type_or_a_newer_schema_keeps_its_bytes(type_: str, schema: int, data: str) -> None:
    event = mapper.decode(9, 7, MEMORY, 2, type_, state_of(type_, schema, data).decode())
    assert isinstance(event.data, Unknown)
    assert bytes(event.data.raw) == json.dumps(json.loads(data)).encode()
    assert event.envelope.schema == schema


def test_a_row_that_is_no_event_at_all_says_where_it_lies() -> None:
    for state in ("", "{}", "[]", "nonsense", '{"data": 1}', "[" * 5000):
        with pytest.raises(UnknownEvent, match="position 9"):
            mapper.decode(9, 7, MEMORY, 2, "MemoryPromoted", state)


def append_unknown(ledger: Ledger, stream: str, type_: str, schema: int, data: str) -> bytes:
    """As a newer product would, into the log of this one."""
    state = state_of(type_, schema, data)
    with ledger._store.transact() as transaction:
        version = transaction.version(stream) + 1
        transaction.append([StoredEvent(stream, version, type_, state)])
    return state


@pytest.mark.parametrize(("type_", "schema", "data"), UNKNOWN)
def test_an_unknown_event_stops_its_subject_and_nothing_else(
    ledger: Ledger, type_: str, schema: int, data: str
) -> None:
    fact, other = ledger.remember("The kettle is blue."), ledger.remember("The teapot is white.")
    state = append_unknown(ledger, fact.id, type_, schema, data)
    ledger.rebuild()
    commands = [
        lambda: ledger.retract(fact.id),
        lambda: ledger.reinforce(fact.id),
        lambda: ledger.revise(fact.id, "The kettle is red."),
        lambda: ledger.supersede(fact.id, "The kettle is green."),
        lambda: ledger.remember("The kettle is blue."),
        lambda: ledger.undo(fact.position),
        lambda: ledger.undo(ledger.position),
    ]
    position = ledger.position
    for command in commands:
        with pytest.raises(UnknownEvent):
            command()
    assert ledger.position == position
    assert ledger.reinforce(other.id, 0.1).reference_count == 1  # type: ignore[union-attr]
    row = ledger._store.row(position)
    assert row is not None and row.state.encode() == state


def test_an_unknown_event_is_shown_as_unknown(ledger: Ledger) -> None:
    fact = ledger.remember("The kettle is blue.")
    append_unknown(ledger, fact.id, "MemoryDreamt", 3, '{"dream": "blue"}')
    ledger.rebuild()
    shown = ledger.audit(subject=fact.id)[0]
    assert (shown.type, shown.data) == ("MemoryDreamt", {"unknown": "MemoryDreamt", "schema": 3})
    why = ledger.why(fact.id)
    assert why is not None and [step.type for step in why.steps] == ["MemoryCaptured", "MemoryDreamt"]
    history = ledger.history(fact.id)
    assert history is not None and history[-1].data == {"unknown": "MemoryDreamt", "schema": 3}
    found = ledger.memory(fact.id)
    assert found is not None and found.content == "The kettle is blue."


def test_a_known_event_after_an_unknown_one_does_not_hide_it(ledger: Ledger) -> None:
    fact = ledger.remember("The kettle is blue.")
    append_unknown(ledger, fact.id, "MemoryDreamt", 1, "{}")
    append_unknown(ledger, fact.id, "MemoryPromoted", 1, "{}")
    ledger.rebuild()
    with pytest.raises(UnknownEvent):
        ledger.retract(fact.id)


def test_the_policies_go_round_what_they_cannot_read(ledger: Ledger, clock: Any) -> None:
    fact = ledger.remember("The kettle is blue and whistles.", "preference", confidence=0.31)
    plain = ledger.remember("The teapot is white and chipped.", "preference", confidence=0.31)
    turn = ledger.capture("What is where?", "Decision: the kettle stays on the shelf.", reinforce=False)
    append_unknown(ledger, fact.id, "MemoryDreamt", 1, "{}")
    append_unknown(ledger, turn.id, "InteractionDreamt", 1, "{}")
    ledger.rebuild()
    done = ledger.capture("And?", "The kettle is blue and whistles. The teapot is white and chipped.")
    assert done.reinforcement == "done"
    assert [each.reference_count for each in (ledger.memory(fact.id), ledger.memory(plain.id)) if each] == [0, 1]
    clock.advance(days=400)
    report = ledger.run_policies()
    assert (report.failures, report.expired, report.extracted_interactions) == (1, 0, 1)


def test_an_unknown_event_of_the_ledger_itself_stops_nobody(ledger: Ledger) -> None:
    append_unknown(ledger, "ledger", "PolicyDreamt", 7, '{"format": 1}')
    ledger.rebuild()
    ledger.remember("The kettle is blue.")
    assert [each.type for each in ledger.audit(limit=2)] == ["MemoryCaptured", "PolicyDreamt"]
    with pytest.raises(UnknownEvent):
        ledger.undo(2)


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(json.dumps(encoded(), indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
