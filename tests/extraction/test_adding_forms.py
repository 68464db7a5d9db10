"""What ``add`` is given in other forms than a chat, and in which another call gives the same messages again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import run

from ledger import Ledger, RejectedError

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
ASKED = {"role": "user", "content": "How is the weather?"}
SAYS = {"role": "assistant", "content": "It is sunny."}
FORMS: dict[str, Any] = {
    "responses": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "How is the weather?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny and warm"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is sunny."}]},
    ],
    "functions": [
        ASKED,
        {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": "{}"}},
        {"role": "function", "name": "weather", "content": "sunny and warm"},
        SAYS,
    ],
    "gemini": {
        "contents": [
            {"role": "user", "parts": [{"text": "How is the weather?"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "weather", "args": {}}}]},
            {"role": "function", "parts": [{"functionResponse": {"name": "weather", "response": "sunny and warm"}}]},
            {"role": "model", "parts": [{"text": "It is sunny."}]},
        ]
    },
}


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        yield ledger


@pytest.mark.parametrize("form", FORMS)
def test_messages_of_other_apis_are_a_chat_with_one_turn_and_known_again(memory: Ledger, form: str) -> None:
    added = memory.add(FORMS[form], session="x")
    assert (added.messages, len(added.turns)) == (4, 1)
    found = [(each.role, each.content) for each in memory.session("x").messages()]
    assert found == [
        ("user", "How is the weather?"), ("assistant", ""), ("tool", "sunny and warm"), ("assistant", "It is sunny."),
    ]  # fmt: skip
    (turn,) = memory.interactions.list()
    assert (turn.prompt, turn.response) == ("How is the weather?", "It is sunny.")
    assert memory.add(FORMS[form], session="x").messages == 0


OPENAI = [
    ASKED,
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    SAYS,
]
ANTHROPIC = [
    ASKED,
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}]},
    SAYS,
]


def in_the_place_of_the_result(chat: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    result = chat[2]["content"]
    new = [result[0] | {"content": text}] if isinstance(result, list) else text
    return [*chat[:2], chat[2] | {"content": new}, chat[3]]


@pytest.mark.parametrize("chat", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize("note", ["[cleared]", "[Old tool result content cleared]", "(output omitted)"])
def test_a_result_that_was_cleared_to_save_room_is_the_one_that_is_known(memory: Ledger, chat: Any, note: str) -> None:
    memory.add(chat, session="x")
    cut = in_the_place_of_the_result(chat, note)
    assert memory.add([*cut, {"role": "user", "content": "Thanks!"}], session="x").messages == 1
    assert "sunny" in [each.content for each in memory.session("x").messages()]


@pytest.mark.parametrize("chat", [OPENAI, ANTHROPIC])
def test_another_result_is_another_message(memory: Ledger, chat: Any) -> None:
    memory.add(chat, session="x")
    assert memory.add(in_the_place_of_the_result(chat, "rain"), session="x").messages == 2


def test_ids_and_timestamps_that_are_new_with_each_call_make_no_other_conversation(memory: Ledger) -> None:
    def chat(call: int, *texts: str) -> list[dict[str, Any]]:
        roles = ("user", "assistant") * 3
        return [
            {"role": role, "content": text, "id": f"{call}-{number}", "timestamp": call * 100 + number}
            for number, (role, text) in enumerate(zip(roles, texts, strict=False))
        ]

    assert memory.add(chat(1, "Hi", "Hello"), session="x").messages == 2
    again = memory.add(chat(2, "Hi", "Hello"), session="x")
    assert (again.messages, again.known) == (0, 2)
    assert again.reasons[1] == (
        "2 messages of the list are known by text, though the ids differ: give created_at where somebody says"
        " the same again"
    )
    assert memory.add(chat(3, "Hi", "Hello", "I prefer tea.", "Noted."), session="x").messages == 2
    assert memory.add(chat(4, "Thanks"), session="x").messages == 1
    assert memory.add(chat(5, "Thanks"), session="x").messages == 1  # one message alone, by another id, is another one


def test_the_same_exchange_with_other_ids_at_another_time_is_another_one(memory: Ledger) -> None:
    def chat(day: int) -> list[dict[str, Any]]:
        at = f"2026-05-0{day}T08:00:00Z"
        return [
            {"role": role, "content": text, "id": f"{day}-{text}", "created_at": at}
            for role, text in (("user", "Hi"), ("assistant", "Hello"))
        ]

    assert [memory.add(chat(day), session="x").messages for day in (1, 1, 2)] == [2, 0, 2]


def test_a_dry_run_is_true_or_false(memory: Ledger) -> None:
    with pytest.raises(RejectedError, match="dry_run must be True or False, and 'no' is neither"):
        memory.add("I prefer tea.", dry_run="no")  # type: ignore[arg-type]


def test_a_text_in_the_place_of_a_file_is_told_where_it_goes(tmp_path: Path) -> None:
    shown = run("add", "I prefer tea.", db=str(tmp_path / "memory.db"))
    assert shown.exit_code == 3 and "standard input: echo 'user: I prefer tea.' | memory-ledger add -" in shown.stderr


def test_a_chat_in_one_text_is_told_that_it_is_a_list(memory: Ledger) -> None:
    for chat in ("User: I live in Rome.\nAssistant: Nice!\nUser: Yes.", "Human: hi\n\nAI: hello"):
        assert any("a chat is a list" in each for each in memory.add(chat, dry_run=True).reasons)
        added = memory.add(chat)
        assert added.messages == 1 and any("a chat is a list" in each for each in added.reasons)
    for text in ("User: I live in Rome.", "Ana wrote:\nUser: hi\nAssistant: hello", "The user: see AI: a history"):
        added = memory.add(text)
        assert added.messages == 1 and not any("a chat is a list" in each for each in added.reasons)
    assert memory.add([{"role": "user", "content": "User: hi\nAssistant: hello"}]).messages == 1


@pytest.mark.parametrize("name", ["created_at", "occurred_at", "timestamp", "date", "time"])
def test_a_message_is_dated_by_the_usual_names_of_its_time(name: str) -> None:
    with Ledger.temporary() as ledger:
        ledger.add([{"role": "user", "content": "I like tea.", name: "2026-03-02T10:00:00Z"}], session="s")
        (message,) = ledger.session("s").messages()
    assert message.occurred_at == "2026-03-02T10:00:00.000000Z"


@pytest.mark.parametrize("value", [1772445600, 1772445600.0, 1772445600000, "1772445600", "2 March 2026 10:00"])
def test_a_message_is_dated_by_seconds_since_1970_and_by_names_of_months(value: object) -> None:
    with Ledger.temporary() as ledger:
        ledger.add([{"role": "user", "content": "I like tea.", "timestamp": value}], session="s")
        (message,) = ledger.session("s").messages()
    assert message.occurred_at == "2026-03-02T10:00:00.000000Z"


def test_a_time_of_day_without_its_day_dates_nothing() -> None:
    with Ledger.temporary() as ledger:
        ledger.add([{"role": "user", "content": "I like tea.", "time": "10:03"}], session="s")
        (message,) = ledger.session("s").messages()
    assert message.occurred_at == message.recorded_at
