"""The storage format: each event's bytes are frozen, every string is declared, and what is unknown is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_type_hints
from uuid import uuid4

import msgspec
import probe
import pytest
from examples import BLOB, EVENTS, MEMORY, envelope
from golden.make import GOLDEN, altered, encoded

from ledger import DamagedError, Ledger, events
from ledger.events import TEXT_FIELDS, TYPES, Unknown, string_fields
from ledger.log import registry
from ledger.log.envelope import encode, to_stored
from ledger.log.registry import _hints


def test_every_event_is_stored_as_it_always_was() -> None:
    """After a new type or a new field with a default, ``python3 tests/golden/make.py`` adds to the file."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert encoded() == golden


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ({"A": '{"x":1}'}, {"A": '{"x":1,"y":2}', "B": "{}"}, []),
        ({"A": '{"in":[{"x":1}]}'}, {"A": '{"in":[{"x":1,"y":2}]}'}, []),
        ({"A": '{"x":1}'}, {"A": '{"x":2}'}, ["A"]),
        ({"A": '{"x":1,"y":2}'}, {"A": '{"x":1}'}, ["A"]),
        ({"A": '{"in":[1]}'}, {"A": '{"in":[1,2]}'}, ["A"]),
        ({"A": "{}", "B": "{}"}, {"B": "{}"}, ["A"]),
    ],
)
def test_the_golden_file_only_gains_events_and_fields(
    before: dict[str, str], after: dict[str, str], names: list[str]
) -> None:
    assert altered(before, after) == names


def test_the_golden_bytes_decode_to_the_examples() -> None:
    for name, state in json.loads(GOLDEN.read_text(encoding="utf-8")).items():
        event = registry.decode(9, 7, MEMORY, 2, name, state, b"key")
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
    state = to_stored(MEMORY, 1, envelope(events.MemoryPromoted())).state
    assert json.loads(state)["data"] == {}


def test_a_command_goes_by_its_first_event_which_does_not_repeat_its_id() -> None:
    first = envelope(events.MemoryPromoted(), begun=None)
    state = to_stored(MEMORY, 1, first).state.decode()
    assert not {"command_id", "schema"} & json.loads(state).keys() and first.command_id == first.event_id
    event = registry.decode(9, 7, MEMORY, 2, "MemoryPromoted", state)
    assert (event.envelope, event.envelope.command_id, event.envelope.schema) == (first, first.event_id, 1)
    later = envelope(events.MemoryPromoted())
    assert json.loads(encode(later))["command_id"] == later.command_id != later.event_id


def test_no_event_of_a_ledger_stores_what_is_so_by_default(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.capture("Which coffee?", "Dark roast.", session="s", append=True)
        ledger.session("s").append("user", "Thanks.")
        ledger.remember("The user prefers dark roast coffee.")
        with probe.store(ledger).snapshot() as connection:
            rows = connection.execute("SELECT type, state FROM events").fetchall()
    for type_, state in rows:
        told = json.loads(state)
        for kind, fields in ((events.Envelope, told), (TYPES[type_], told["data"])):
            for field in msgspec.structs.fields(kind):
                default = field.default
                plain = json.loads(bytes(default)) if isinstance(default, msgspec.Raw) else default
                given = fields.get(field.encode_name, None)
                assert given is None or given != json.loads(json.dumps(plain, default=str)), (type_, field.name)


@pytest.mark.parametrize(
    "kind",
    [
        *TYPES.values(),
        events.Matched,
        events.Dropped,
        events.Origin,
        events.Blob,
        events.Redaction,
        events.Delivered,
        events.LeftOut,
        events.Acted,
        events.EvidenceSource,
        events.Redacted,
        events.Envelope,
    ],
)
def test_every_string_says_what_it_is(kind: type[Any]) -> None:
    assert "?" not in string_fields(kind).values()
    assert _hints(kind) == get_type_hints(kind, include_extras=True)


def test_an_undeclared_string_is_noticed() -> None:
    class Careless(msgspec.Struct):
        note: str
        maybe: tuple[str, ...] | None = None

    assert string_fields(Careless) == {"note": "?", "maybe": "?"}


def test_erasure_reaches_everything_that_somebody_wrote() -> None:
    attempt = ("content", "entities", "tags", "metadata")
    assert {name: fields for name, fields in TEXT_FIELDS.items() if fields} == {
        "OriginDistrusted": ("origin", "reason"),
        "OriginTrusted": ("reason",),
        "LedgerBranched": ("reason",),
        "ProjectJoined": ("reason",),
        "ValuePut": ("content", "namespace", "name", "fields"),
        "ValueMoved": ("namespace", "name", "reason"),
        "ValueRemoved": ("reason",),
        "ValueRestored": ("reason",),
        "ContentErased": ("reason",),
        "LegalHoldPlaced": ("reason",),
        "PolicyAdopted": ("reason",),
        "LegalHoldReleased": ("reason",),
        "CommandUndone": ("reason",),
        "CommandRedone": ("reason",),
        "ProjectRegistered": ("name", "description"),
        "ProjectArchived": ("reason",),
        "ProjectRestored": ("reason",),
        "ProjectDescribed": ("description",),
        "ProjectAliasAdded": ("alias",),
        "ProjectRenamed": ("name",),
        "ProjectLinked": ("path", "machine"),
        "ProjectStateSet": ("name", "value", "source"),
        "ProjectStateInvalidated": ("name", "reason"),
        "SessionOpened": ("name",),
        "SessionAliasAdded": ("alias",),
        "MessageAppended": ("content", "reasoning", "parts", "model", "speaker", "extra", "metadata", "raw"),
        "MessageRepaired": ("reasoning", "model", "extra", "metadata"),
        "AbstractSet": ("content",),
        "SessionDescribed": ("metadata", "unset"),
        "SummaryCreated": ("content", "model"),
        "SummaryInvalidated": ("reason",),
        "SummaryRestored": ("reason",),
        "RecallDelivered": ("query", "warnings"),
        "DocumentAdded": ("path", "title", "tags", "metadata"),
        "ChunkAdded": ("content", "heading_path", "metadata", "own"),
        "DocumentReplaced": ("title", "tags", "metadata"),
        "DocumentRemoved": ("reason",),
        "DocumentRestored": ("reason",),
        "RelationAdded": ("subject", "relation", "object"),
        "RelationRemoved": ("subject", "relation", "object", "reason"),
        "InteractionCaptured": ("prompt", "response", "summary", "context", "metadata"),
        "ResponseAttached": ("response", "summary", "metadata"),
        "MemoryCaptured": attempt,
        "DuplicateAbsorbed": attempt,
        "MemoryPromoted": ("reason",),
        "MemoryRejected": ("reason",),
        "ConfidenceAdjusted": ("reason",),
        "MemoryRevised": ("content", "reason"),
        "MemoryRetagged": ("added", "removed", "metadata", "unset"),
        "MemoryCorrected": ("entities", "reason"),
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
        "ConflictFound": ("attribute", "values"),
        "ConflictResolved": ("reason",),
        "ObservationFormed": ("content", "tags", "reason"),
        "ObservationRevised": ("content", "reason"),
        "EvidenceWithdrawn": ("reason",),
        "ObservationMarkedStale": ("reason",),
        "ObservationRetracted": ("reason",),
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
    where = {"user": "", "project": None, "session": None, "event_id": command, "begun": command}
    told = json.loads(encode(envelope(events.MemoryPromoted(), schema=schema, **where)))
    return json.dumps(told | {"data": json.loads(data)}).encode()


UNKNOWN = [
    ("MemoryDreamt", 1, '{"dream": "os.system", "depth": 3.50}'),
    ("MemoryReinforced", 2, '{"rule": "cubic/9", "strength": [1, 2]}'),
    ("MemoryReinforced", 1, '{"rule": 5}'),
    ("os.system", 1, '{"command": "true"}'),
]


@pytest.mark.parametrize(("type_", "schema", "data"), UNKNOWN)
def test_an_event_of_an_unknown_type_or_a_newer_schema_keeps_its_bytes(type_: str, schema: int, data: str) -> None:
    event = registry.decode(9, 7, MEMORY, 2, type_, state_of(type_, schema, data).decode())
    assert isinstance(event.data, Unknown)
    assert bytes(event.data.raw) == json.dumps(json.loads(data)).encode()
    assert event.envelope.schema == schema


def test_a_row_that_is_no_event_at_all_says_where_it_lies() -> None:
    for state in ("", "{}", "[]", "nonsense", '{"data": 1}', "[" * 5000):
        with pytest.raises(DamagedError, match="position 9"):
            registry.decode(9, 7, MEMORY, 2, "MemoryPromoted", state)
