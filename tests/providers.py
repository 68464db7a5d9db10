"""The lists of messages that providers of language models refuse."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_openai(messages: Sequence[Mapping[str, Any]]) -> None:
    waiting: list[str] = []
    seen = set[str]()
    for at, each in enumerate(messages):
        if each["role"] == "tool":
            assert each["tool_call_id"] in waiting, "it answers a call of the assistant message just before"
            waiting.remove(each["tool_call_id"])
            assert each["content"].strip()
            continue
        assert not waiting, "every call is answered before anybody else speaks"
        calls = each.get("tool_calls", [])
        assert each["role"] in ("system", "user", "assistant")
        assert "tool_calls" not in each or (calls and each["role"] == "assistant")
        content = each["content"]
        assert (
            calls
            if content is None
            else all(map(check_openai_block, content))
            if isinstance(content, list)
            else (content.strip())
        ), (at, each)
        assert content != []
        for one in calls:
            assert ID.fullmatch(one["id"]) and TOOL_NAME.fullmatch(one["function"]["name"])
            assert isinstance(one["function"]["arguments"], str) and one["function"]["arguments"].strip()
            assert one["id"] not in seen
            seen.add(one["id"])
            waiting.append(one["id"])


def check_openai_block(block: Mapping[str, Any]) -> bool:
    return bool(block["image_url"]["url"] if block["type"] == "image_url" else block["text"].strip())


def check_anthropic(messages: Sequence[Mapping[str, Any]]) -> None:
    assert [each["role"] for each in messages] == [("user", "assistant")[at % 2] for at in range(len(messages))]
    seen, waiting = set[str](), set[str]()
    for at, each in enumerate(messages):
        kinds = [block["type"] for block in each["content"]]
        assert kinds, "nothing is empty"
        results = [block["tool_use_id"] for block in each["content"] if block["type"] == "tool_result"]
        assert kinds[: len(results)] == ["tool_result"] * len(results), "results come first"
        assert len(set(results)) == len(results) and set(results) <= waiting
        assert set(results) == waiting or (at == len(messages) - 1 and len(kinds) == len(results))
        waiting = {block["id"] for block in each["content"] if block["type"] == "tool_use"}
        assert each["role"] == "assistant" or not waiting
        assert not waiting & seen
        seen |= waiting
        for block in each["content"]:
            assert block["type"] != "text" or block["text"].strip()
            assert block["type"] != "tool_result" or block["content"].strip()
            assert block["type"] != "image" or (each["role"] == "user" and all(block["source"].values()))
            if block["type"] == "tool_use":
                assert ID.fullmatch(block["id"]) and TOOL_NAME.fullmatch(block["name"])
                assert isinstance(block["input"], dict)
    if messages and messages[-1]["role"] == "assistant" and messages[-1]["content"][-1]["type"] == "text":
        assert messages[-1]["content"][-1]["text"] == messages[-1]["content"][-1]["text"].rstrip()
