"""Models for the tests of extraction: what they answer is written down beforehand, and what they were asked is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from ledger import Ledger
from ledger.models.port import ModelRequest

Given = dict[str, Any] | str | Exception | Callable[[ModelRequest], Any]


class Scripted:
    """Answers in order, the last one for ever; ``requests`` are what it was asked."""

    name = "scripted"

    def __init__(self, *given: Given) -> None:
        self.given, self.requests = list(given), list[ModelRequest]()

    def __call__(self, request: ModelRequest) -> Any:
        self.requests.append(request)
        answer = self.given.pop(0) if len(self.given) > 1 else self.given[0]
        if isinstance(answer, Exception):
            raise answer
        answer = answer(request) if callable(answer) else answer
        return answer if isinstance(answer, str) else json.dumps(answer)

    @property
    def calls(self) -> int:
        return len(self.requests)

    @property
    def said(self) -> list[int]:
        """Return the number of messages that each request showed."""
        return [len(re.findall(r"^\[\d+\] (?:user|assistant)", each.content, re.MULTILINE)) for each in self.requests]


def add(content: str, messages: tuple[int, ...] = (1,), **more: Any) -> dict[str, Any]:
    return {"content": content, "kind": "preference", "said_by": "user", "messages": list(messages)} | more


def adds(*contents: str, **more: Any) -> dict[str, Any]:
    return {"add": [add(each, **more) for each in contents], "supersede": [], "relations": []}


def replaces(content: str, fact: int | None = 1, **more: Any) -> dict[str, Any]:
    return {"supersede": [add(content) | {"fact": fact} | more]}


NOTHING: dict[str, Any] = {"add": [], "supersede": [], "relations": []}


def say(ledger: Ledger, user: str, assistant: str = "Noted.", session: str = "s1", **more: Any) -> Any:
    """Append a turn to a session, and return the session."""
    found = ledger.session(session)
    found.append("user", user, **more)
    if assistant:
        found.append("assistant", assistant, **more)
    return found


def contents(ledger: Ledger, **filters: Any) -> list[str]:
    return sorted(each.content or "" for each in ledger.memories.list(**filters))
