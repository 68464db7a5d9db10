"""The form of a chat in which a session's message is returned, and which ``ledger.sessions.transcripts`` reads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from ledger.sessions.rules import provider_forms as forms
from ledger.sessions.rules.message import Part
from ledger.sessions.rules.provider_forms import OPENAI, Fields

ERASED = "(erased)"  # in the place of an erased text


def of_parts(role: str, content: str, listed: Sequence[Part]) -> Fields:
    """Return the parts of a message as ``tool_call_id``, ``tool_calls`` and ``media``, or if these do not suffice as ``parts``.

    Only media after all other parts become ``media``, as in picoclaw.
    """
    parts, entry = list(listed), Fields()
    results = [part for part in parts if part["type"] == "tool_result"]
    if role == "tool" and results == parts[-1:] and results[0] == _result(results[0], content):
        entry["tool_call_id"] = parts.pop()["id"]
    media = list(takewhile(_is_plain_media, reversed(parts)))[::-1]
    calls = [_as_call(part) for part in parts[: len(parts) - len(media)]]
    if None in calls:
        return {"parts": [dict(part) for part in listed]}
    more = {"tool_calls": calls, "media": [part["uri"] for part in media]}
    return entry | {name: value for name, value in more.items() if value}


def _is_plain_media(part: Part) -> bool:
    return part["type"] == "media" and not part.get("mime") and "extra" not in part


def _result(part: Part, content: str) -> Part:
    return {"type": "tool_result", "id": part["id"], "text": content}


def _as_call(part: Part) -> Fields | None:
    """Return a part as a call of the OpenAI chat format; None if it is not a call, or would be read as another part."""
    if part["type"] != "tool_use" or part.get("extra", {OPENAI: {}}).keys() != {OPENAI}:
        return None
    arguments, more = part["arguments"], part.get("extra", {}).get(OPENAI, {})
    text = forms.text_of(arguments)
    if text is None:
        text = msgspec.json.encode(arguments).decode()
    again = text if more.get("type") == "custom" else forms.plain_arguments(text)
    return forms.openai_call(part["id"], part["name"], text, more) if again == arguments else None
