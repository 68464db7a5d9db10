"""What a state is, its row is: columns and codecs come from the struct and from nowhere else."""

from __future__ import annotations

from typing import Any

import examples
import pytest
from msgspec import Struct
from msgspec.structs import replace

from ledger.documents.rules import DocumentState
from ledger.domain.errors import DamagedError
from ledger.interactions.rules import InteractionState
from ledger.memories.state import MemoryState
from ledger.observations.rules import ObservationState
from ledger.projects.rules import ProjectState
from ledger.review.rules import ConflictState, MergeState
from ledger.sessions.rules.session import SessionState
from ledger.values.rules import ValueState
from projections.core.projector import FAMILIES
from projections.core.rows import Table, codec, columns
from tools.pages.format_pages import DOCS


class CodecPart(Struct, frozen=True):
    name: str


class Thing(Struct, frozen=True):
    row: int
    name: str
    note: str | None
    count: int
    score: int | None
    hidden: bool
    tags: tuple[str, ...]
    members: tuple[str, ...]
    path: tuple[str, ...] | None
    part: CodecPart | None
    position: int
    to_position: int | None = None


THINGS = Table("things", columns(Thing, always=("members",))[:-1], ("row",))
ENCODE, DECODE = codec(Thing, THINGS)
FULL = Thing(1, "ä", "note", 2, 3, True, ("a",), ("b",), ("c",), CodecPart("d"), 4)
EMPTY = Thing(1, "", None, 0, None, False, (), (), None, None, 4)


def test_a_field_is_a_column_of_its_type() -> None:
    assert list(THINGS.columns) == [
        "row INTEGER PRIMARY KEY",
        "name TEXT NOT NULL",
        "note TEXT",
        "count INTEGER NOT NULL",
        "score INTEGER",
        "hidden INTEGER NOT NULL",
        "tags TEXT",
        "members TEXT NOT NULL",
        "path TEXT",
        "part TEXT",
        "position INTEGER NOT NULL",
    ]


def test_without_a_rowid_the_first_column_is_one_like_the_others() -> None:
    assert columns(Thing, rowid=False)[0] == "row INTEGER NOT NULL"


def test_what_is_no_text_or_number_is_stored_as_json() -> None:
    assert ENCODE(FULL)[:11] == (1, "ä", "note", 2, 3, 1, '["a"]', '["b"]', '["c"]', '{"name":"d"}', 4)


def test_null_is_none_or_an_empty_tuple() -> None:
    assert ENCODE(EMPTY)[:11] == (1, "", None, 0, None, 0, None, "[]", None, None, 4)
    assert ENCODE(replace(EMPTY, path=()))[8] == "[]"


@pytest.mark.parametrize("state", [FULL, EMPTY, replace(EMPTY, path=())])
def test_a_state_comes_back_from_its_row_and_from_one_with_more(state: Thing) -> None:
    row = ENCODE(state)[:11]
    assert DECODE(row) == state
    assert DECODE((*row, 9)) == replace(state, to_position=9)
    assert DECODE((*row, 9, "of another table")) == replace(state, to_position=9)
    assert all(value is None or type(value) in (int, str) for value in row)


@pytest.mark.parametrize("value", [None, 7, "not JSON"])
def test_a_row_that_no_fold_wrote_is_told(value: Any) -> None:
    row = list(ENCODE(FULL))
    row[7] = value
    with pytest.raises((DamagedError, ValueError)):
        DECODE(row)


# --- the families ----------------------------------------------------------------------------------------------------

STATES: dict[str, type[Struct]] = {"m": MemoryState, "i": InteractionState, "p": ProjectState, "s": SessionState}
STATES |= {"d": DocumentState, "g": MergeState, "k": ConflictState, "o": ObservationState, "v": ValueState}
TYPES = {"str": "TEXT", "int": "INTEGER", "bool": "INTEGER"}
NAMES = {"position": "from_position", "values": "values_"}


def on_the_page(table: str) -> list[str]:
    page = (DOCS / "schema.md").read_text(encoding="utf-8")
    (line,) = (line for line in page.splitlines() if line.startswith(f"| `{table}` |"))
    return line.split("|")[3].strip().split(", ")


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_columns_of_a_family_are_the_fields_of_its_state(kind: str) -> None:
    family = FAMILIES[kind]
    types = {
        name: TYPES.get(said.removesuffix(" | None"), "TEXT") for name, said in STATES[kind].__annotations__.items()
    }
    fields = [f"{NAMES.get(name, name)} {types[name]}" for name in STATES[kind].__struct_fields__]
    assert on_the_page(family.live.name) == fields
    assert on_the_page(family.closed.name) == [*fields, "to_position INTEGER"]


MERGE = MergeState(
    1, "g", "ada", None, ("m_1", "m_2"), "merged", 900_000, "n/1", None, None, "m_3", None, 0, "now", 1, 4
)
CONFLICT = ConflictState(
    1, "k", "ada", None, "ana: lives_in", ("m_1", "m_2"), ("a", "b"), "r/1", "", None, None, "now", 1, 4
)
OBSERVED = ("o", "ada", None, None, ("a",), "It rains.", 0, "p/1", "c/1", ("m_1",), "active", "", "", None, None)
OBSERVATION = replace(ObservationState(1, *OBSERVED, "now", "now", 1, 4), rule="proof/1")
EXAMPLES = [
    *(("m", examples.memory()), ("i", examples.interaction()), ("p", examples.project()), ("s", examples.session())),
    *(("d", examples.document()), ("g", MERGE), ("k", CONFLICT), ("o", OBSERVATION), ("v", examples.value())),
]


@pytest.mark.parametrize(("kind", "state"), EXAMPLES)
def test_a_state_of_a_family_survives_its_row(kind: str, state: Any) -> None:
    family = FAMILIES[kind]
    empty = {name: () for name in state.__struct_fields__ if isinstance(getattr(state, name), tuple)}
    for each in (state, replace(state, **empty), replace(state, user=None)):
        row = family.to_row(each)
        assert family.from_row(row) == each == family.from_row((*row, "what stands beside it"))
