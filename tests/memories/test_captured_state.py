"""A captured memory: each value of the event stands in the field of its name.

The state is built by position, because 32 keywords take 6 µs where positions take 0.4 µs, at each event of each rebuild.
"""

from __future__ import annotations

from msgspec import Raw
from msgspec.structs import asdict

from ledger.domain.metadata import row_form
from ledger.log.envelope import Envelope, Recorded
from ledger.memories.events import MemoryCaptured
from ledger.memories.state import evolve

AT = "2026-03-02T09:00:00Z"
NOT_OF_THE_EVENT = {  # the fields that only later events fill
    "edges": (),
    "superseded_by": None,
    "quarantined": False,
    "before": None,
    "until_before": None,
    "underlying": None,
    "stated_at": None,
}


def test_each_value_of_a_capture_stands_in_the_field_of_its_name() -> None:
    data = MemoryCaptured(
        content="The content",
        kind="a kind",
        status="candidate",
        confidence=400_000,
        entities=("An entity",),
        tags=("a tag",),
        sources=("i_source",),
        valid_from="2026-01-01T00:00:00Z",
        valid_to="2026-12-01T00:00:00Z",
        supersedes="m_old",
        reference_count=7,
        last_referenced_at="2026-02-02T00:00:00Z",
        metadata=Raw(b'{"a":1}'),
        admission="a line",
    )
    envelope = Envelope(
        event_id="e", recorded_at=AT, command="propose", user="a user", agent="an agent", project="p_1", data=data
    )
    state = evolve(None, Recorded(12, 11, "m_new", 3, "MemoryCaptured", envelope))
    assert state is not None
    given = {name: getattr(data, name) for name in data.__struct_fields__ if name != "metadata"}
    place = {"row": 11, "id": "m_new", "position": 12, "decided_at": 12, "version": 3}
    author = {"user": "a user", "agent": "an agent", "project": "p_1", "recorded_at": AT, "active_at": AT}
    assert asdict(state) == given | place | author | NOT_OF_THE_EVENT | {"metadata": row_form({"a": 1})}
