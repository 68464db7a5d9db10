"""Transcripts kept elsewhere, as lists of objects: our own field names, and those of the OpenAI chat format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ledger.domain import message as messages
from ledger.domain import times
from ledger.domain.errors import RejectedError
from ledger.domain.message import Draft
from ledger.domain.text import check_json, check_text
from ledger.domain.transcript import Line
from ledger.sessions.answers import Message
from ledger.sessions.counting import check_tokens

ERASED = "(erased)"  # stands for a text that is gone
_OWN = ("role", "speaker", "content", "parts", "reasoning", "model", "created_at", "token_count")
_OTHERS = {"reasoning_content": "reasoning", "model_name": "model", "tokens": "token_count"}
_CALLS = ("tool_calls", "tool_call_id", "name")


class Outside(Struct, frozen=True):
    """One message of a transcript: checked, and ready to be compared or appended."""

    draft: Draft
    model: str
    created_at: str | None  # with the offset it was given with
    token_count: int | None

    @property
    def whole_parts(self) -> tuple[messages.Part, ...]:
        """The parts as they were given, each with its text."""
        return messages.whole_parts(self.draft.encoded, self.draft.content, self.draft.content_of)

    @property
    def line(self) -> Line:
        return Line(
            role=self.draft.role,
            content=self.draft.content,
            parts=comparable(self.draft.parts, self.draft.content_of, self.draft.speaker),
            reasoning=self.draft.reasoning or None,
            model=self.model or None,
            created_at=self.created_at,
        )


def comparable(parts: Iterable[messages.Part], content_of: int, speaker: str | None) -> tuple[bytes, int, str]:
    """Parts, and who speaks, in a form in which equal ones are equal."""
    return msgspec.json.encode(list(parts), order="deterministic"), content_of, speaker or ""


def outside(given: object) -> tuple[list[Outside], int]:
    """The messages of a transcript, and how many say nothing and are left out; ``RejectedError`` names the one that is none."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise RejectedError(f"a transcript is a list of messages, not {type(given).__name__}")
    found, left_out = [], 0
    for number, each in enumerate(given, 1):
        what = f"message {number:,} of the transcript"
        one = _message(each, what)
        if one is None:
            left_out += 1
        else:
            found.append(one)
    return found, left_out


def _message(given: object, what: str) -> Outside | None:
    if not isinstance(given, Mapping):
        raise RejectedError(f"{what} is an object with a role and a content, not {type(given).__name__}")
    fields: dict[Any, Any] = {  # a field that holds nothing says nothing, whatever it is called
        _OTHERS.get(name, name): value for name, value in given.items() if value is not None and value != []
    }
    if unknown := sorted(str(name) for name in fields if name not in (*_OWN, *_CALLS)):
        raise RejectedError(f"{what} has a field {unknown[0]!r:.40}; there are: {', '.join((*_OWN, *_CALLS))}")
    content, parts = _content(fields, what)
    parts += _reasoning(fields, what)
    if content in (None, "") or (isinstance(content, str) and not content.strip()):
        role = fields.get("role")
        if not parts and isinstance(role, str) and role in messages.ROLES:
            return None
    name = "" if fields.get("role") == "tool" else fields.get("name")  # of a tool it is that of the function called
    speaker = fields.get("speaker", name)
    draft = messages.draft(fields.get("role"), content, parts, speaker=speaker, what=what)
    if draft.is_transient:
        return None
    model = check_text(f"the model of {what}", fields.get("model") or "", blank_allowed=True)
    at, tokens = fields.get("created_at"), fields.get("token_count")
    if tokens is not None:
        check_tokens(f"the token_count of {what}", tokens)
    moment = times.with_offset(f"the created_at of {what}", at) if at not in (None, "") else None
    return Outside(draft, model, moment, tokens)


def _content(fields: Mapping[str, object], what: str) -> tuple[Any, list[Any]]:
    """The text and the parts, whichever of the two forms they are in."""
    content, parts = fields.get("content"), _listed(fields.get("parts"), f"the parts of {what}")
    if isinstance(content, list | tuple):
        content, parts = "", [*(_openai_part(each) for each in content), *parts]
    for call in _listed(fields.get("tool_calls"), f"the tool calls of {what}"):
        parts.append(_call(call, what))
    if fields.get("tool_call_id") and not any(
        isinstance(each, Mapping) and each.get("type") == "tool_result" for each in parts
    ):
        parts.append({"type": "tool_result", "id": fields["tool_call_id"], "text": content or ""})
        content = ""
    return content, parts


def as_parts(content: str, parts: Any, tool_calls: Any, tool_call_id: str | None) -> tuple[Any, list[Any]]:
    """A message in the OpenAI chat format as a content and parts."""
    for name, given in (("parts", parts), ("tool_calls", tool_calls)):
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise RejectedError(f"{name} takes several objects, and {given!r:.40} is not a list")
    fields = {"content": content, "parts": list(parts), "tool_calls": list(tool_calls), "tool_call_id": tool_call_id}
    return _content(fields, "the message")


def _listed(given: object, what: str) -> list[Any]:
    if given is None:
        return []
    if not isinstance(given, list | tuple):
        raise RejectedError(f"{what} are a list, not {type(given).__name__}")
    return list(given)


def _reasoning(fields: Mapping[str, Any], what: str) -> list[Any]:
    reasoning = fields.get("reasoning")
    if not reasoning:
        return []
    check_text(f"the reasoning of {what}", reasoning, max_bytes=messages.TEXT_BYTES, blank_allowed=True)
    return [{"type": "reasoning", "text": reasoning}] if reasoning.strip() else []


def _openai_part(part: Any) -> Any:
    if isinstance(part, Mapping) and part.get("type") == "image_url":
        url = part.get("image_url")
        return {"type": "media", "uri": url.get("url", "") if isinstance(url, Mapping) else url}
    return part


def _call(call: Any, what: str) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        raise RejectedError(f"a tool call of {what} is an object with an id and a function")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = check_json("", msgspec.json.decode(arguments) if arguments.strip() else {})
        except (msgspec.DecodeError, RecursionError, RejectedError):
            arguments = {"": arguments}  # what a model wrote that is no JSON that can be kept, as it is
    return {"type": "tool_use", "id": call.get("id"), "name": function.get("name"), "arguments": arguments}


def as_chat(message: Message) -> dict[str, Any]:
    """A message in the form that ``outside`` reads; in the OpenAI chat format, as far as that has a place for it."""
    content = message.content if message.content is not None else ERASED
    entry: dict[str, object] = {"role": message.role, "content": content}
    kinds = [part["type"] for part in message.parts]
    if kinds == ["tool_result"] and message.role == "tool" and message.parts[0].get("text") == message.content:
        entry["tool_call_id"] = message.parts[0]["id"]
    elif kinds and set(kinds) == {"tool_use"}:
        entry["tool_calls"] = [_as_call(part) for part in message.parts]
    elif kinds:
        entry["parts"] = [dict(part) for part in message.parts]
    by = "speaker" if message.role == "tool" else "name"  # of a tool that is the function's
    more = {
        by: message.speaker,
        "reasoning": message.reasoning,
        "model": message.model,
        "created_at": message.occurred_at,
    }
    return entry | {name: value for name, value in more.items() if value}


def _as_call(part: messages.Part) -> dict[str, Any]:
    arguments = msgspec.json.encode(part["arguments"]).decode()
    return {"id": part["id"], "type": "function", "function": {"name": part["name"], "arguments": arguments}}
