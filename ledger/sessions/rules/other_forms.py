"""The reading of messages in other forms than chat: items of OpenAI's Responses API, old OpenAI functions, and Gemini."""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps

from ledger.sessions.rules.provider_forms import Fields

CALL, RESULT, REASONING = "function_call", "function_call_output", "reasoning"
ITEMS = (CALL, RESULT, REASONING)  # the items of the Responses API that have a type and no role


def as_chat(message: Mapping[str, object]) -> Fields:
    """Return a message in the form of a chat; a message that has this form is returned unchanged."""
    fields: Fields = dict(message)
    role = fields.get("role")
    if role is None and message.get("type") in ITEMS:
        return _item(fields)
    if role == "function":
        fields |= {"role": "tool", "tool_call_id": fields.get("name")}
    if role == "model":
        fields["role"] = "assistant"
    if isinstance(parts := fields.get("parts"), list | tuple):
        fields["parts"] = [_part(part) if isinstance(part, Mapping) and "type" not in part else part for part in parts]
    return fields


def _item(fields: Fields) -> Fields:
    match fields.pop("type"), fields.pop("call_id", None):
        case "function_call", id:
            function = {name: fields.get(name) for name in ("name", "arguments")}
            return {"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": function}]}
        case "function_call_output", id:
            return {"role": "tool", "tool_call_id": id, "content": _text(fields.get("output"))}
        case _:  # reasoning, of which the provider shows only a summary
            return {"role": "assistant", "content": ""}


def _part(part: Mapping[str, object]) -> Fields:
    """Return a part of a Gemini message in our form; the name of its field is its type.

    A call of Gemini has no id, so the name of the function is used as the id.
    """
    match Fields(part):
        case {"text": str(text)}:
            return {"type": "text", "text": text}
        case {"functionCall": {"name": str(name), **more}}:
            return {"type": "tool_use", "id": more.get("id") or name, "name": name, "arguments": more.get("args") or {}}
        case {"functionResponse": {"name": str(name), **more}}:
            return {"type": "tool_result", "id": more.get("id") or name, "text": _text(more.get("response"))}
        case unknown:
            return unknown


def _text(value: object) -> str:
    return value if isinstance(value, str) else dumps(value, ensure_ascii=False)
