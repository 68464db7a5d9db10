"""The rules of a keyed value: which command is possible when, what the events make of it, and how fields are compared."""

from __future__ import annotations

from typing import Any

import pytest
from examples import NOW, VALUE, envelope, value

from ledger.domain.errors import RejectedError
from ledger.events import EventData, Recorded, ValueMoved, ValuePut, ValueRemoved, ValueRestored
from ledger.values import filters, rules
from ledger.values.rules import MoveValue, PutValue, RemoveValue, RestoreValue, SweepValue

EARLIER, LATER = "2026-05-01T00:00:00.000000Z", "2026-12-01T00:00:00.000000Z"
PUT = PutValue("tea", "text", ("ada", "notes"), "todo.md")
STORED = ValuePut("tea", "text", ("ada", "notes"), "todo.md")
ACTIVE = value(expires_at=None, indexed=True, fields=())
EXPIRED, REMOVED = value(expires_at=EARLIER), value(status="removed", expires_at=None)
ERASED = value(status="erased", underlying="active", name=None)
MOVE = MoveValue(("ada", "old"), "todo.md", "done")


@pytest.mark.parametrize(
    ("command", "before", "events"),
    [
        (PUT, None, [STORED]),
        (PUT, ACTIVE, [STORED]),
        (PUT, EXPIRED, [STORED]),
        (PUT, REMOVED, [STORED]),
        (PutValue("tea", "text", ("ada", "notes"), "todo.md", has_content=True), ACTIVE, []),
        (PutValue("1", "json", ("a",), "b", has_content=True), ACTIVE, [ValuePut("1", "json", ("a",), "b")]),
        (MOVE, ACTIVE, [ValueMoved(("ada", "old"), "todo.md", "done")]),
        (MoveValue(("ada", "notes"), "todo.md"), ACTIVE, []),
        (RemoveValue("old"), ACTIVE, [ValueRemoved("old")]),
        (RemoveValue("old"), EXPIRED, [ValueRemoved("old")]),
        (RemoveValue(), REMOVED, []),
        (SweepValue(), EXPIRED, [ValueRemoved(rule="expiry/1")]),
        (SweepValue(), ACTIVE, []),
        (SweepValue(), REMOVED, []),
        (RestoreValue("again"), REMOVED, [ValueRestored("again")]),
        (RestoreValue(), value(status="removed", expires_at=LATER), [ValueRestored(expires_at=LATER)]),
        (RestoreValue(), value(status="removed", expires_at=EARLIER), [ValueRestored()]),
        (RestoreValue(), EXPIRED, [ValueRestored()]),
        (RestoreValue(), ACTIVE, []),
    ],
)  # fmt: skip
def test_a_command_leads_to_these_events(command: Any, before: Any, events: list[EventData]) -> None:
    assert rules.decide(command, before, NOW) == events


@pytest.mark.parametrize(
    ("command", "before"), [(MOVE, EXPIRED), (MOVE, REMOVED), (MOVE, ERASED), (RemoveValue(), ERASED), (PUT, ERASED)]
)
def test_what_is_not_there_cannot_be_moved_and_what_was_erased_takes_no_command(command: Any, before: Any) -> None:
    with pytest.raises(RejectedError) as refused:
        rules.decide(command, before, NOW)
    assert (refused.value.rule, refused.value.subject) == ("transition", VALUE)


def folded(*events: EventData) -> Any:
    state = None
    for number, data in enumerate(events, 1):
        state = rules.evolve(state, Recorded(number, 1, VALUE, number, type(data).__name__, envelope(data), None))
    return state


def test_a_put_is_whole_and_stands_without_the_puts_before_it() -> None:
    later = ValuePut("coffee", "text", ("ada", "notes"), "todo.md")
    state = folded(later)
    assert (state.place, state.name, state.content_at, state.size) == ('"ada","notes",', "todo.md", 1, 6)
    assert folded(ValuePut("coffee", "text")) is None, "a later put may leave out its name, and then needs the first"
    assert folded(STORED, ValuePut("coffee", "text")).name == "todo.md"


def test_a_value_without_its_content_or_its_name_is_erased_until_it_is_put_again() -> None:
    assert folded(ValuePut(None, "text", ("a",), "b")).status == "erased"
    assert folded(STORED, ValueMoved(None, None)).status == "erased"
    again = folded(ValuePut(None, "text", None, None), STORED)
    assert (again.status, again.underlying, again.name) == ("active", None, "todo.md")


@pytest.mark.parametrize(
    ("state", "data", "admitted"),
    [
        (None, STORED, True),
        (None, ValuePut("tea", "text"), False),
        (None, ValueRemoved(), False),
        (ACTIVE, ValueRemoved(), True),
        (ACTIVE, ValueRestored(), True),
        (REMOVED, ValueRemoved(), True),
        (EXPIRED, ValueRestored(), True),
        (REMOVED, ValueMoved(("a",), "b"), False),
        (REMOVED, ValueRestored(), True),
        (REMOVED, STORED, True),
    ],
)
def test_an_event_is_put_back_only_where_it_is_possible(state: Any, data: EventData, admitted: bool) -> None:
    assert rules.admits(state, data) is admitted


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        ({}, True),
        ({"city": "Porto"}, True),
        ({"city": "Lisbon"}, False),
        ({"score": 4.0}, True),
        ({"score": {"$gt": 3, "$lte": 4}}, True),
        ({"score": {"$gt": 4}}, False),
        ({"score": {"$lt": "5"}}, False),
        ({"city": {"$gte": "P", "$lt": "Q"}}, True),
        ({"open": 1}, False),
        ({"open": True}, True),
        ({"open": {"$gt": 0}}, False),
        ({"missing": None}, True),
        ({"missing": {"$ne": None}}, False),
        ({"missing": {"$lt": 5}}, False),
        ({"at": {"lat": 41}}, True),
        ({"at": {"lat": {"$gt": 41}}}, False),
        ({"at": {"$eq": {"lat": 41, "lon": -8}}}, True),
        ({"at": {"$eq": {"lat": 41}}}, False),
        ({"tags": ["a", {"b": True}]}, True),
        ({"tags": ["a"]}, False),
    ],
)
def test_fields_are_compared_by_their_type_and_value(where: dict[str, Any], matches: bool) -> None:
    place = {"city": "Porto", "score": 4, "open": True, "at": {"lat": 41, "lon": -8}, "tags": ["a", {"b": True}]}
    assert filters.matches(place, filters.checked_filter(where)) is matches


@pytest.mark.parametrize("text", ["Porto", ["Porto"], 4, None])
def test_only_an_object_has_fields(text: Any) -> None:
    assert not filters.matches(text, {"city": None}) and not filters.matches(text, {"city": "Porto"})


@pytest.mark.parametrize(
    "where",
    [7, "a", [("a", 1)], {1: 2}, {"$gt": 1}, {"a": {"$in": [1]}}, {"a": {"$gt": 1, "b": 2}}, {"a": {"$gt": None}},
     {"a": {"$lt": True}}, {"a": {"$gte": [1]}}, {"a": float("nan")}, {"a": "\ud800"}, {"a": object()}],
)  # fmt: skip
def test_a_filter_that_means_nothing_is_refused(where: Any) -> None:
    with pytest.raises(RejectedError):
        filters.checked_filter(where)


def test_the_form_of_a_namespace_begins_those_of_all_namespaces_below_it() -> None:
    names = [(), ("a",), ("a", "b"), ("a,", "b"), ('a"', "b"), ("a", "b", "\0"), ("a/b",), ("ab",), ("ä", "日本")]
    for name in names:
        place = rules.place_of(name)
        assert rules.labels_of(place) == name
        for target in names:
            below = place <= rules.place_of(target) < rules.after_all_below(place)
            assert below is (target[: len(name)] == name)


def test_json_is_found_by_a_line_for_each_field() -> None:
    value = '{"theme":{"color":"dark","size":12},"tags":["a","b"],"on":true,"of":[{"name":"Ana"},null]}'
    assert rules.readable(value, "json").split("\n") == [
        "theme.color: dark",
        "theme.size: 12",
        "tags: a, b",
        "on: true",
        "of: null",
        "of.name: Ana",
    ]
    assert rules.readable('"only a text"', "json") == "only a text" and rules.readable("{}", "json") == ""
    assert rules.readable('{"cut', "json") == '{"cut', "an erasure took a part of it"
