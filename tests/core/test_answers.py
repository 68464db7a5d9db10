"""An answer is made of a state: what has the same name and type is taken over, everything else has to be given."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import examples
import pytest
import reads
import writes
from full import full
from msgspec import Struct

from ledger import Ledger, LedgerError, Page
from ledger.core.call import Answer, answer_of
from ledger.domain import confidence
from ledger.memories.shown import memory


class State(Struct, frozen=True):
    row: int
    name: str
    state: str
    confidence: int


class Shown(Answer, frozen=True, kw_only=True):
    name: str
    state: str
    confidence: float
    replayed: bool = False


class ByPlace(Answer, frozen=True):
    state: str
    times: int = 0
    name: str = ""
    replayed: bool = False


STATE = State(1, "tea", "warm", 500_000)


def test_a_field_of_the_same_name_and_type_is_taken_over() -> None:
    assert answer_of(Shown, STATE, confidence=0.5) == Shown(name="tea", state="warm", confidence=0.5)


def test_what_is_given_goes_before_what_the_state_says() -> None:
    told = answer_of(Shown, STATE, confidence=0.5, state="cold", replayed=True)
    assert told == Shown(name="tea", state="cold", confidence=0.5, replayed=True)


def test_a_field_by_place_gets_what_has_its_name() -> None:
    assert answer_of(ByPlace, STATE) == ByPlace("warm", 0, "tea", False)
    assert answer_of(ByPlace, STATE, replayed=True, times=2) == ByPlace("warm", 2, "tea", True)


@pytest.mark.parametrize("kind", [Shown, ByPlace])
def test_what_the_answer_does_not_have_cannot_be_given(kind: type[Answer]) -> None:
    with pytest.raises(TypeError, match="colour"):
        answer_of(kind, STATE, **{"confidence": 0.5} if kind is Shown else {}, colour="green")


def test_a_field_of_another_type_is_not_taken_over_by_mistake() -> None:
    with pytest.raises(TypeError, match="confidence"):
        answer_of(Shown, STATE)


def test_a_memory_says_everything_that_its_state_does_under_the_same_name() -> None:
    state = examples.memory()
    told = memory(state, {}, replayed=True)
    own = {"confidence", "relations", "metadata", "replayed", "absorbed", "warnings", "decay_rule"}
    assert {name: getattr(told, name) for name in told.__struct_fields__ if name not in own} == {
        name: getattr(state, name) for name in told.__struct_fields__ if name not in own
    }
    assert told.confidence == confidence.shown(state.confidence) and told.replayed and not told.absorbed
    assert told.metadata == {"source": "slack", "ticket": 4711}
    assert [each.subject for each in told.relations] == [each.source for each in state.edges]


def test_a_page_is_its_items_and_its_cursor_as_data(ledger: Ledger) -> None:
    for number in range(3):
        ledger.remember(f"The user rows boat {number}.", tags=["boat"])
    page = ledger.memories.list(limit=2)
    assert page.next is not None
    assert page.to_dict() == {"items": [memory.to_dict() for memory in page], "next": page.next}
    assert ledger.memories.list(limit=0).to_dict() == {"items": [], "next": None}
    assert json.loads(json.dumps(page.to_dict())) == page.to_dict()
    hits = ledger.sessions.grep("boat")
    assert hits.to_dict() == {
        "items": [],
        "next": None,
        "total": hits.total,
        "searched": hits.searched,
        "is_exact": hits.is_exact,
        "hint": hits.hint,
    }


# --- in a REPL -------------------------------------------------------------------------------------------------------

LONG = "The user rows a boat.\n" * 500


def one_short_line(answer: object) -> bool:
    line = repr(answer)
    return len(line) <= 200 and "\n" not in line and (isinstance(answer, Page) or type(answer).__name__ in line)


def test_an_answer_shows_in_one_line_which_it_is_its_state_and_how_many(ledger: Ledger) -> None:
    fact = ledger.remember(LONG, tags=["boat", "user"])
    line = repr(fact)
    assert one_short_line(fact) and fact.id in line and "status='active'" in line
    assert "content='The user rows a boat." in line and len(line) < 150
    assert repr(Shown(name="", state="warm", confidence=0.0)) == "Shown(state='warm', confidence=0.0, replayed=False)"
    assert fact.to_dict()["content"] == LONG and repr(LONG)[1:-1] in full(fact), "everything is in its data"


def test_an_answer_of_any_read_or_command_is_one_short_line(tmp_path: Path) -> None:
    with reads.opened(reads.put(tmp_path / "memory.db")) as ledger:
        for name in reads.PUBLIC:
            for answer in reads.given(name, ledger, reads.prepared()[1]):
                for each in (answer, *(answer if isinstance(answer, list | tuple | Page) else ())):
                    assert not isinstance(each, Answer | Page) or one_short_line(each), (name, repr(each))
    with writes.opened(tmp_path / "other.db") as written:
        the = writes.fill(written)
        for name, call in writes.CALLS.items():
            with suppress(LedgerError):
                answer = call(written, the, {})
                assert not isinstance(answer, Answer | Page) or one_short_line(answer), (name, repr(answer))
