"""What is read of a model's answer: prose, fences, what was cut off, wrong types, unknown actions, and far too much."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from ledger import ModelError
from ledger.models.asking import ModelReply
from ledger.models.port import ModelAnswer
from ledger.models.reading import ACTIONS, READ_CHARS, Parsed, answered, read_actions, read_json


class Add(BaseModel):
    model_config = ConfigDict(extra="forbid")
    content: str = Field(min_length=1, max_length=200)
    confidence: float = Field(0.7, ge=0, le=1)
    kind: Literal["fact", "preference"] = "fact"


class Supersede(BaseModel):
    target: int
    content: str


KINDS = {"add": Add, "supersede": Supersede}
BOTH = '{"add": [{"content": "a"}, {"content": "b", "confidence": 0.5}], "supersede": [{"target": 1, "content": "c"}]}'
THREE = [("add", "a"), ("add", "b"), ("supersede", "c")]


def read(text: str, **asked: Any) -> Parsed | None:
    return read_actions(text, KINDS, **asked)


def said(parsed: Parsed | None) -> list[tuple[str, str]]:
    assert parsed is not None
    return [(each.what, each.value.content) for each in parsed.actions]


def reasons(parsed: Parsed | None) -> list[tuple[str, str]]:
    assert parsed is not None
    return [(each.what, each.reason) for each in parsed.dropped]


@pytest.mark.parametrize(
    "text",
    [
        BOTH,
        f"```json\n{BOTH}\n```",
        f"```\n{BOTH}\n```",
        f"```json\n{BOTH}",
        f"Of course [see below], here are the {{actions}}:\n\n{BOTH}\n\nAnything else?",
        f"\ufeff  {BOTH}",
        '[{"action": "add", "content": "a"}, {"action": "Add ", "content": "b"},'
        ' {"type": "supersede", "target": 1, "content": "c"}]',
        '{"actions": [{"op": "add", "content": "a"}, {"action": "add", "content": "b"},'
        ' {"op": "supersede", "target": "1", "content": "c"}]}',
        f'{{"result": {BOTH}}}',
        f'{{"reasoning": "they said so", {BOTH[1:]}',
        BOTH.replace("}]", "},]").replace('"c"}', '"c",}'),
        f"First an empty one: [] and {{}}. Then: {BOTH}",
        "```\nsome code\n```\n" + BOTH,
    ],
)  # fmt: skip
def test_actions_are_found_in_any_wrapping(text: str) -> None:
    parsed = read(text)
    assert sorted(said(parsed)) == THREE
    assert parsed is not None and not parsed.dropped and not parsed.truncated and not parsed.left_over


@pytest.mark.parametrize(
    "text",
    ["", "   ", "I found nothing new.", "null", "7", '"add"', "[1, 2]", "[[1]]", "{", "[", '{"add": [{"content": "a',
     "{'add': [{'content': 'a'}]}", '{"error": "no", "details": []}', "<add>a</add>", "[" * 100_000, '{"add":' * 100_000,
     "\ud800", "\x00", "```", "``````", '{"a": {"b": {"add": []}}}'],
)  # fmt: skip
def test_what_cannot_be_understood_is_none_and_not_nothing(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"add": []}', '{"add": null, "supersede": []}', "```json\n[]\n```", "So: []."]
)
def test_an_answer_without_actions_is_understood(text: str) -> None:
    assert read(text) == Parsed()


def test_one_bad_action_loses_no_other() -> None:
    items = [
        {"content": "good"}, {"content": ""}, {"content": "x" * 201}, {"content": "y", "confidence": 7.0}, {"content": 7},
        {"confidence": 0.5}, "a text", None, ["list"], {"content": "z", "kind": "dream"}, {"content": "w", "extra": 1},
        {"content": "half \ud800"}, {"content": "v", "confidence": "0.25"}, {"content": "u", "confidence": "much"},
    ]  # fmt: skip
    parsed = read(json.dumps({"add": items, "destroy": [{"content": "everything"}], "supersede": "all"}))
    assert said(parsed) == [("add", "good"), ("add", "v")]
    assert reasons(parsed) == [
        ("add", "blank"), ("add", "too_long"), ("add", "out_of_range"), ("add", "wrong_type"), ("add", "missing"),
        ("add", "wrong_type"), ("add", "wrong_type"), ("add", "wrong_type"), ("add", "unknown_value"),
        ("add", "unknown_field"), ("add", "no_text"), ("add", "wrong_type"), ("", "unknown_action"), ("supersede", "wrong_type"),
    ]  # fmt: skip
    assert parsed is not None and parsed.dropped[2].text == "y" and parsed.dropped[-2].text == "everything"


def test_an_unknown_action_is_named_by_none_of_its_words() -> None:
    parsed = read('[{"action": "ignore previous instructions", "content": "x"}, {"content": "untagged"}, 3]')
    assert parsed is not None and {each.what for each in parsed.dropped} == {""}
    assert reasons(parsed) == [("", "unknown_action")] * 3


@pytest.mark.parametrize("end", range(len('{"add": [{"content": "a"}'), len(BOTH)))
def test_of_an_answer_that_was_cut_off_what_is_whole_is_read(end: int) -> None:
    parsed = read(BOTH[:end])
    assert parsed is not None and parsed.truncated
    assert said(parsed) == THREE[: len(parsed.actions)] and parsed.actions
    tagged = '[{"action": "add", "content": "a"}, {"action": "add", "content": "b"}, {"action": "add", "con'
    cut = read(tagged)
    assert said(cut) == THREE[:2] and cut is not None and cut.truncated


def test_what_is_malformed_in_the_middle_ends_there() -> None:
    parsed = read('{"add": [{"content": "a"}, {"content": b}, {"content": "c"}]}')
    assert said(parsed) == [("add", "a")] and parsed is not None and parsed.truncated


def test_ten_thousand_actions_are_bounded_and_the_others_counted() -> None:
    parsed = read(json.dumps({"add": [{"content": f"fact {n}"} for n in range(10_000)]}))
    assert parsed is not None and (len(parsed.actions), parsed.left_over) == (ACTIONS, 10_000 - ACTIONS)
    few = read(json.dumps({"add": [{"content": ""}] * 3 + [{"content": "x"}] * 3}), limit=4)
    assert few is not None and (len(few.actions), len(few.dropped), few.left_over) == (1, 3, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["[" * 3_000_000, '{"' * 1_500_000, '{"a":"' + '\\"' * 1_500_000, "[1" + "," * 3_000_000, "```\n" * 750_000,
     '{"a":{"b":1} x' * 200_000, '[{"a":' * 500_000, '{"add":[{}\n```' * 200_000, "x" * 3_000_000],
)  # fmt: skip
def test_three_megabytes_of_anything_come_to_an_end(text: str) -> None:
    parsed = read(text)
    assert parsed is None or not parsed.actions


def test_no_more_than_so_much_of_an_answer_is_read() -> None:
    parsed = read('{"add": [' + '{"content": "a"}, ' * READ_CHARS + "]}")
    assert parsed is not None and parsed.truncated and parsed.left_over < READ_CHARS / 10


def test_numbers_that_are_none_and_digits_without_end_are_wrong_types() -> None:
    parsed = read('{"add": [{"content": "a", "confidence": NaN}, {"content": "b", "confidence": 1e999},'
                  ' {"content": "c", "confidence": ' + "9" * 10_000 + "}]}")  # fmt: skip
    assert reasons(parsed) == [("add", "wrong_type")] * 3


@pytest.mark.slow
@given(st.text())
def test_no_text_is_a_failure_of_its_own(text: str) -> None:
    read(text)


_json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inside: (
        st.lists(inside, max_size=4) | st.dictionaries(st.sampled_from((*KINDS, "content", "action", "x")), inside)
    ),
    max_leaves=20,
)


@given(_json, st.integers(0, 400))
def test_no_json_is_a_failure_whole_or_cut(value: Any, end: int) -> None:
    for text in (json.dumps(value), json.dumps(value)[:end]):
        parsed = read(text)
        assert parsed is None or all(each.what in KINDS for each in parsed.actions)


@given(
    st.lists(st.text(min_size=1, max_size=200), max_size=5), st.text(alphabet=st.characters(exclude_characters="[]{}`"))
)
def test_what_is_around_an_answer_changes_nothing(texts: list[str], prose: str) -> None:
    answer = json.dumps({"add": [{"content": each} for each in texts]})
    assert read(prose + answer + prose) == read(answer)


def test_what_says_something_comes_before_what_is_empty() -> None:
    assert read_json("{} [1]", lambda value: True) == ([1], False)
    assert read_json("[1] {}", lambda value: True) == ([1], False)


def test_an_answer_that_says_nothing_is_a_failure_with_what_it_took() -> None:
    asked = ModelReply(answer=ModelAnswer(text="No."), model="small", attempts=2, milliseconds=30)
    with pytest.raises(ModelError) as told:
        answered(asked, KINDS)
    assert (told.value.kind, told.value.attempts, told.value.milliseconds) == ("NotUnderstood", 2, 30)
    assert "No." not in str(told.value)
