"""An entry in somebody else's settings: everything else stays, and taking the entry out restores the bytes."""

from __future__ import annotations

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.doors.merging import NO_FILE, Unreadable, parse, with_block, with_entry, without_block, without_entry

PLACE = ("servers", "memory-ledger")
VALUE = {"command": "/opt/bin/memory-ledger", "args": ["mcp", "--db", "/home/a b/é.db"]}
TEXTS = [
    NO_FILE,
    "{}",
    "{ }",
    "{\n}\n",
    '{"servers": {}}',
    '{"servers":{}}',
    '{\n  "servers": {}\n}',
    '{\n  "servers": {\n  }\n}',
    '{"servers": {"other": {"command": "x"}}}',
    '{\n  "servers": {\n    "other": {"command": "x"}\n  }\n}\n',
    '{\r\n\t"a": 1,\r\n\t"servers": {"other": 1}\r\n}\r\n',
    '{\n  // my servers\n  "servers": { /* none yet */ },\n  "b": [1, 2,],\n}\n',
    '\ufeff{"a": {"servers": {"memory-ledger": 1}}, "url": "http://x//y"}',
    '{"a": "}", "b": "\\"{", "c": null, "d": -1.5e3, "e": true}',
]


@pytest.mark.parametrize("text", TEXTS)
def test_an_entry_is_put_in_once_and_taken_out_by_the_byte(text: str) -> None:
    put = with_entry(text, PLACE, VALUE)
    assert parse(put).value["servers"]["memory-ledger"] == VALUE
    assert with_entry(put, PLACE, VALUE) == put
    assert without_entry(put, PLACE) == text
    before, after = parse(text).value, parse(put).value
    assert {**before, "servers": before.get("servers", {}) | {"memory-ledger": VALUE}} == after


@pytest.mark.parametrize(
    "text", [text for text in TEXTS if "//" not in text and "[1" not in text and text[0] != "\ufeff"]
)
def test_what_was_strict_json_stays_strict_json(text: str) -> None:
    assert json.loads(with_entry(text, PLACE, VALUE)) == parse(with_entry(text, PLACE, VALUE)).value


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=6) | st.just("hooks"), VALUES, max_size=4),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)
def test_any_settings_are_the_same_again(settings: dict[str, object], indent: int | None, escaped: bool) -> None:
    text = json.dumps(settings, indent=indent, ensure_ascii=escaped)
    if not isinstance(settings.get("hooks", {}), dict):
        with pytest.raises(Unreadable):
            with_entry(text, ("hooks", "Stop"), VALUE)
        return
    put = with_entry(text, ("hooks", "Stop"), VALUE) if "Stop" not in settings.get("hooks", {}) else ""
    if put:
        assert json.loads(put)["hooks"]["Stop"] == VALUE
        assert without_entry(put, ("hooks", "Stop")) == text


def ours(item: object) -> bool:
    return isinstance(item, dict) and item.get("command") == "ours"


@pytest.mark.parametrize(
    "text",
    [
        NO_FILE,
        '{"hooks": {}}',
        '{"hooks": {"Stop": []}}',
        '{"hooks": {"Stop": [{"command": "theirs"}]}}',
        '{\n  "hooks": {\n    "Stop": [\n      {"command": "theirs"} // first\n    ],\n  }\n}',
    ],
)
def test_an_item_of_an_array_is_put_in_once_and_taken_out_by_the_byte(text: str) -> None:
    put = with_entry(text, ("hooks", "Stop"), {"command": "ours"}, ours)
    put = with_entry(put, ("hooks", "Start"), {"command": "ours"}, ours)
    stop = parse(put).value["hooks"]["Stop"]
    assert stop[0] == {"command": "ours"} and parse(put).value["hooks"]["Start"] == [{"command": "ours"}]
    assert stop[1:] == [{"command": "theirs"}] * text.count("theirs")
    assert with_entry(put, ("hooks", "Stop"), {"command": "ours"}, ours) == put
    assert without_entry(without_entry(put, ("hooks", "Start"), ours), ("hooks", "Stop"), ours) == text


def test_another_value_replaces_the_entry_and_the_bytes_around_it_still_come_back() -> None:
    text = '{\n  "servers": {"other": 1}\n}\n'
    put = with_entry(with_entry(text, PLACE, {"command": "old", "args": []}), PLACE, VALUE)
    assert put.count("memory-ledger") == 2  # the name, and the command
    assert without_entry(put, PLACE) == text


def test_an_entry_that_an_editor_moved_is_taken_out_with_its_comma() -> None:
    written = {"servers": {"other": 1, "memory-ledger": VALUE, "last": 2}, "a": 1}
    for indent in (None, 4):
        taken = without_entry(json.dumps(written, indent=indent), PLACE)
        assert json.loads(taken) == {"servers": {"other": 1, "last": 2}, "a": 1}
    last = without_entry(json.dumps({"servers": {"other": 1, "memory-ledger": VALUE}}, indent=2), PLACE)
    assert json.loads(last) == {"servers": {"other": 1}}
    assert json.loads(without_entry(json.dumps({"servers": {"memory-ledger": VALUE}}), PLACE)) == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 1, column 1: a value is expected"),
        ("{", "line 1, column 2: a name in double quotes and a colon are expected"),
        ('{"a": 1', "line 1, column 8: a comma or a closing bracket is expected"),
        ('{\n"a": oops\n}', "line 2, column 6: oops is no value"),
        ("{'a': 1}", "a name in double quotes"),
        ('{"a": 1} {"b": 2}', "something follows the value"),
        ("[" * 200, "more than 100 brackets are open"),
        ("[]", "the whole file is no object"),
        ('{"servers": []}', "servers is no object"),
        ('{"servers": "x"}', "servers is no object"),
    ],
)
def test_a_text_of_another_form_is_refused_with_its_place(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        with_entry(text, PLACE, VALUE)


# --- TOML ------------------------------------------------------------------------------------------------------------

TABLE = ("mcp_servers", "memory-ledger")
COMMAND: dict[str, str | list[str]] = {"command": '/a "b"/\u007fé', "args": ["mcp", "--db", "C:\\x"]}


@pytest.mark.parametrize(
    "text",
    ["", "\n", "# mine", "# mine\n", 'model = "gpt-5"\n', '[mcp_servers.other]\ncommand = "x"', "a = 1\r\n\r\n\r\n"],
)
def test_a_block_of_toml_is_put_in_once_and_taken_out_by_the_byte(text: str) -> None:
    put = with_block(text, TABLE, COMMAND)
    assert tomllib.loads(put)["mcp_servers"]["memory-ledger"] == COMMAND
    assert put.startswith(text)
    assert with_block(put, TABLE, COMMAND) == put
    assert without_block(put) == text
    assert without_block(with_block(put, TABLE, {"command": "other"})) == text


def test_a_file_that_is_nothing_but_our_block_was_made_by_us() -> None:
    assert without_block(with_block(None, TABLE, COMMAND)) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a = ", "Invalid value"),
        ('[mcp_servers.memory-ledger]\ncommand = "mine"\n', "did not make"),
        ("mcp_servers = {}\n", "cannot stand at its end"),
        ("mcp_servers = 5\n", "mcp_servers is no table"),
        ("# >>> memory-ledger >>>\n", "is missing"),
    ],
)
def test_a_toml_file_that_cannot_take_the_block_is_refused(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        with_block(text, TABLE, COMMAND)
