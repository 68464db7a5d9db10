"""The neutral conversation format: a list of conversations, each with its turns, as interactions of two turns each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from ledger.domain import times

CLIENT = "conversation"  # of turns that name none, where none is bound
_ROLES = ("user", "assistant", "human", "ai")  # who has no name
_FORMS = ("%I:%M %p on %d %B, %Y", "%B-%d-%Y", "%d %B, %Y")  # besides ISO 8601


def turns_of(conversations: object) -> Iterator[dict[str, Any] | str]:
    """One object for each pair of turns of a session: the first is the prompt, the second its response.

    What is no conversation gives a sentence that says so. A conversation is a project of its own, named after
    ``sample_id``; a session is named ``sample_id/session``. The format's ``date_time`` is a wall clock; where it says no
    offset it is taken as UTC.
    """
    if not isinstance(conversations, list):
        raise ValueError("not a list")
    for conversation in conversations:
        turns = conversation.get("turns") if isinstance(conversation, dict) else None
        if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
            yield "a conversation is an object with a sample_id and a list of turns, each an object"
            continue
        yield from _pairs(str(conversation.get("sample_id", "conversation")), turns)


def _pairs(name: str, turns: list[dict[str, object]]) -> Iterator[dict[str, Any]]:
    waiting: dict[str, object] | None = None
    for turn in turns:
        if waiting is not None and turn.get("session") == waiting.get("session"):
            yield _interaction(name, waiting, turn)
            waiting = None
        else:
            if waiting is not None:
                yield _interaction(name, waiting, None)
            waiting = turn
    if waiting is not None:
        yield _interaction(name, waiting, None)


def _interaction(name: str, prompt: dict[str, object], response: dict[str, object] | None) -> dict[str, Any]:
    line = {
        "prompt": _text(prompt),
        "project": name,
        "session_id": f"{name}/{prompt.get('session', '')}",
        "client": str(prompt.get("client", "")),
        "line_id": f"{name}/{prompt.get('dia_id', '')}",
        "context_pack": {"turns": [prompt.get("dia_id"), response.get("dia_id") if response else None]},
    }
    if response is not None:
        line["response"] = _text(response)
    moment = _time(str(prompt.get("date_time")).strip())
    return line | {"occurred_at": moment} if moment is not None else line


def _text(turn: dict[str, object]) -> object:
    """What somebody said, with the name; a role is no name, and a line that begins with one is a threat to the guards. What is
    no text stays as it is, so that the line is refused."""
    speaker, text = str(turn.get("speaker") or ""), turn.get("text", "")
    return f"{speaker}: {text}" if isinstance(text, str) and speaker.strip().lower() not in ("", *_ROLES) else text


@lru_cache(maxsize=1_000)  # turns of a session have one time, and none of these forms is read quickly
def _time(text: str) -> str | None:
    with suppress(ValueError):
        return times.or_utc(text)
    for form in _FORMS:
        with suppress(ValueError):
            return datetime.strptime(text, form).replace(tzinfo=UTC).isoformat()
    return None
