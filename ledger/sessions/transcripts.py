"""The reading of transcripts that are kept elsewhere, as lists of objects.

A message has our own field names, or those of OpenAI chat completions or Anthropic messages
(ledger.sessions.rules.provider_forms), or is a ``Message`` of a session, or its ``to_dict()``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from ledger.domain import times
from ledger.domain.errors import RejectedError
from ledger.domain.metadata import NO_PAIRS, Pairs, checked, row_form
from ledger.domain.text import check_json, check_text
from ledger.interactions import dates
from ledger.sessions.answers import Message
from ledger.sessions.counting import check_tokens
from ledger.sessions.rules import message as messages
from ledger.sessions.rules import provider_forms as forms
from ledger.sessions.rules.aligning import TranscriptMessage, comparable
from ledger.sessions.rules.message import Draft
from ledger.sessions.rules.other_forms import as_chat as in_chat_form
from ledger.sessions.rules.provider_forms import MESSAGE_FIELD, OPENAI, Fields

_OWN = ("role", "speaker", "content", "parts", "reasoning", "model", "created_at", "token_count", "media", "extra")
_OTHERS = {
    "occurred_at": "created_at",
    "reasoning_content": "reasoning",
    "model_name": "model",
    "tokens": "token_count",
}
_TIMES = ("timestamp", "date", "time")
"""Other names of ``created_at``, which are read if they hold a time with its day, or seconds or milliseconds since 1970."""

_CALLS = ("tool_calls", "tool_call_id", "name")
_TEXTS = {
    "refusal": "",
    "audio": "transcript",
}  # fields with texts outside of the content, and the key of the text in them

_ANSWER = frozenset(field.name for field in msgspec.structs.fields(Message) if field.required)
"""The fields that every ``to_dict()`` of a session's message has."""


class Outside(Struct, frozen=True):
    """A checked message of a transcript, which can be compared or appended."""

    draft: Draft
    model: str
    created_at: str | None  # with the offset that the transcript has
    token_count: int | None
    metadata: Pairs = NO_PAIRS
    raw: str = ""  # only of messages to append; a comparison does not look at it

    @property
    def line(self) -> TranscriptMessage:
        return TranscriptMessage(
            role=self.draft.role,
            content=self.draft.content,
            parts=comparable(self.draft.parts, self.draft.content_of, self.draft.speaker),
            reasoning=self.draft.reasoning or None,
            model=self.model or None,
            created_at=self.created_at,
            extra=self.draft.more,
            metadata=row_form(self.metadata) or UNSET,
        )


def outside(listed: object) -> tuple[list[Outside], int]:
    """Return the messages of a transcript, and the number of blank messages that were left out.

    Raises:
        RejectedError: The transcript is not a list of messages, or a message is wrong; the error names the message.
    """
    return _read(listed, "a transcript is", " of the transcript", with_raw=False)


def to_append(listed: Iterable[object]) -> tuple[list[Outside], int]:
    """Return the messages of a list as ``outside`` does, each with the field ``raw`` of its object.

    A message with raw may say nothing else.
    """
    return _read(listed, "extend takes", "", with_raw=True)


def _read(listed: object, verb: str, place: str, *, with_raw: bool) -> tuple[list[Outside], int]:
    if isinstance(listed, str | bytes | Mapping) or not isinstance(listed, Iterable):
        raise RejectedError(f"{verb} a list of messages, not {type(listed).__name__}")
    lines, left_out = list[Outside](), 0
    for number, message in enumerate(listed, 1):
        what, raw = f"message {number:,}{place}", None
        if with_raw and isinstance(message, Message):
            raw = message.raw
        elif with_raw and isinstance(message, Mapping):
            raw, message = message.get("raw"), {name: value for name, value in message.items() if name != "raw"}
        line = _message(message, what, messages.encoded_raw(raw, f"raw of {what}"))
        if line is None:
            left_out += 1
        else:
            lines.append(line)
    return lines, left_out


def _message(message: object, what: str, raw: str) -> Outside | None:
    if isinstance(message, Mapping) and message.keys() >= _ANSWER:
        message = _answer(message, what)
    if isinstance(message, Message):
        message = message.as_chat()
    if not isinstance(message, Mapping):
        raise RejectedError(f"{what} is an object with a role and a content, not {type(message).__name__}")
    message = in_chat_form(message)
    fields: dict[Any, Any] = {  # an empty field of any name is dropped
        _OTHERS.get(name, name): value for name, value in message.items() if value is not None and value != []
    }
    pairs = _metadata(fields)
    content, parts = _content(fields, what)
    extra = _extra(fields, parts, what)
    parts += _reasoning(fields, what)
    if content in (None, "") or (isinstance(content, str) and not content.strip()):
        role = fields.get("role")
        if not parts and not extra and not raw and isinstance(role, str) and role in messages.ROLES:
            return None
    name = "" if fields.get("role") == "tool" else fields.get("name")  # the name in a tool's message is the function's
    speaker = fields.get("speaker", name)
    provider = _provider(fields, parts)
    draft = messages.draft(
        fields.get("role"),
        content,
        parts,
        speaker=speaker,
        extra=extra,
        provider=provider,
        has_raw=raw != "",
        what=what,
    )
    if draft.is_transient and not raw:
        return None
    model = check_text(f"the model of {what}", fields.get("model") or "", blank_allowed=True)
    at, tokens = fields.get("created_at") or _time_of(fields), fields.get("token_count")
    if tokens is not None:
        check_tokens(f"the token_count of {what}", tokens)
    moment = times.with_offset(f"the created_at of {what}", at) if at not in (None, "") else None
    return Outside(draft, model, moment, tokens, pairs, raw)


def _answer(fields: Mapping[object, object], what: str) -> Message:
    """Return the ``Message`` of which these fields are the ``to_dict()``."""
    try:
        return msgspec.convert({**fields}, Message)
    except msgspec.ValidationError as error:
        raise RejectedError(
            f"{what} has the fields of a session's message, and a wrong one: {error}; Message.as_chat() can be changed freely"
        ) from None


def _time_of(fields: Fields) -> str | None:
    """Return the time of a message from a field with another name than ``created_at``; None if no field is a time."""
    for name in _TIMES:
        value = fields.get(name)
        if isinstance(value, str):
            with suppress(RejectedError):
                times.parse(name, value)
                return value
        if isinstance(value, str | int | float) and (at := dates.read(value, None)) is not None:
            return at
    return None


def _metadata(fields: Fields) -> Pairs:
    """Remove the metadata from the fields of a message and return it; nested or too large metadata stays a field."""
    try:
        pairs = checked(fields.get("metadata", {}))
    except RejectedError:
        return NO_PAIRS
    fields.pop("metadata", None)
    return pairs


def _provider(fields: Fields, parts: Iterable[object]) -> str:
    return forms.provider_of(fields, parts, answer=fields.get("type") == "message")


def _extra(fields: Fields, parts: list[Any], what: str) -> Fields | None:
    """Return the extra of a message: its ``extra``, and its fields without a counterpart here."""
    own_extra = fields.get("extra")
    extra = forms.check_extra(what, own_extra) if own_extra is not None else {}
    also = ("name",) if fields.get("role") == "tool" else ()
    more = {name: value for name, value in fields.items() if name not in (*_OWN, *_CALLS) or name in also}
    provider = _provider(fields, parts)
    for field, inner in _TEXTS.items() if provider == OPENAI else ():
        field_value = more.get(field)
        text = field_value if not inner else field_value.get(inner) if isinstance(field_value, Mapping) else None
        if isinstance(text, str) and text.strip():
            parts.append({"type": "text", "text": text, "extra": {OPENAI: {MESSAGE_FIELD: field}}})
            items = field_value.items() if isinstance(field_value, Mapping) else ()
            more[field] = {name: value for name, value in items if name != inner} or None
    more = {name: value for name, value in more.items() if value is not None}
    check_json(f"what else {what} has", more)
    return extra | ({provider: more | extra.get(provider, {})} if more else {}) or None


def _content(fields: Fields, what: str) -> tuple[Any, list[Any]]:
    """Return (text, parts) of a message in any form."""
    content, parts = fields.get("content"), _listed(fields.get("parts"), f"the parts of {what}")
    if isinstance(content, list | tuple):
        content, parts = "", [*_contents(content, _provider(fields, content)), *parts]
    for call in _listed(fields.get("tool_calls"), f"the tool calls of {what}"):
        if not isinstance(call, Mapping):
            raise RejectedError(f"a tool call of {what} is an object with an id and a function")
        parts.append(forms.tool_call(dict(call), what))
    parts += [{"type": "media", "uri": uri} for uri in _listed(fields.get("media"), f"the media of {what}")]
    if fields.get("tool_call_id") and not any(
        isinstance(part, Mapping) and part.get("type") == "tool_result" for part in parts
    ):
        parts.append({"type": "tool_result", "id": fields["tool_call_id"], "text": content or ""})
        content = ""
    return content, parts


def _contents(content: Sequence[Any], provider: str) -> list[Any]:
    """Return the parts of a content that is a list.

    The texts of an openai message are marked with an extra, because texts without a mark would become one text.
    """
    if provider != OPENAI or len(content) < 2:
        return list(content)
    plain = [isinstance(part, Mapping) and part.get("type") == "text" and "extra" not in part for part in content]
    return [dict(part) | {"extra": {OPENAI: {}}} if all(plain) else part for part in content]


def as_parts(content: str, parts: Any, tool_calls: Any, tool_call_id: str | None) -> tuple[Any, list[Any]]:
    """Return a message in the OpenAI chat format as a content and parts."""
    for name, value in (("parts", parts), ("tool_calls", tool_calls)):
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise RejectedError(f"{name} takes several objects, and {value!r:.40} is not a list")
    fields = {"content": content, "parts": list(parts), "tool_calls": list(tool_calls), "tool_call_id": tool_call_id}
    return _content(fields, "the message")


def _listed(value: object, what: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise RejectedError(f"{what} are a list, not {type(value).__name__}")
    return list(value)


def _reasoning(fields: Fields, what: str) -> list[Fields]:
    reasoning = fields.get("reasoning")
    if not reasoning:
        return []
    check_text(f"the reasoning of {what}", reasoning, max_bytes=messages.TEXT_BYTES, blank_allowed=True)
    return [{"type": "reasoning", "text": reasoning}] if reasoning.strip() else []
