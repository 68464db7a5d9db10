"""The rendering of an assembled window as messages for chat completions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import json

from ledger.sessions.rules import provider_forms as forms
from ledger.sessions.rules.assembly import SYSTEM, TOOL, USER
from ledger.sessions.rules.provider_forms import (
    ANTHROPIC,
    ANY_IMAGE,
    MEDIA,
    OPENAI,
    OTHER,
    TEXT,
    TOOL_USE,
    Fields,
    extra_of,
    is_image,
    merged,
)
from ledger.sessions.rules.rendering import (
    EMPTY_RESULT,
    Content,
    Rendered,
    Result,
    ShownMessage,
    as_text,
    context_text,
    named,
    shown_messages,
    summary_block,
)


def openai(entries: Sequence[Content], *, memories: Iterable[str] = (), system: str = "") -> Rendered:
    """Return messages for chat completions.

    The roles are system, user, assistant and tool. Instructions keep their place in time.
    """
    summaries = [entry for entry in entries if entry.item.is_summary]
    context = context_text(summaries, memories)
    messages: list[Fields] = [
        *([{"role": SYSTEM, "content": system}] if system.strip() else []),
        *([{"role": USER, "content": context}] if context else []),
    ]
    for message in shown_messages(entries):
        messages += _message(message)
    return Rendered(messages, "", summary_block(summaries))


_NAME = re.compile(r"[^\s<|\\/>]{1,64}")


def _message(message: ShownMessage) -> list[Fields]:
    more, content, texts, is_list = dict(extra_of(message.extra, OPENAI) or {}), list[Fields](), list[str](), False
    if _NAME.fullmatch(message.speaker):
        more["name"] = message.speaker
    for block in message.blocks if _NAME.fullmatch(message.speaker) else named(message):
        block_extra = extra_of(block.get("extra"), OPENAI)
        if block_extra and forms.MESSAGE_FIELD in block_extra:
            name, inner = block_extra[forms.MESSAGE_FIELD], more.get(block_extra[forms.MESSAGE_FIELD])
            more[name] = inner | {"transcript": block["text"]} if isinstance(inner, dict) else block["text"]
        elif (shown := _block(block, block_extra, message.role)) is not None:
            content.append(shown)
            texts.append(as_text(block))
            is_list |= block_extra is not None or shown["type"] != TEXT
    says: Fields = {"content": content if is_list else "\n".join(texts)}
    calls = [
        forms.openai_call(call.id, call.name, _written(call.arguments), extra_of(call.extra, OPENAI) or {})
        for call in message.calls
    ]
    if not content:
        if not calls and not any(name in forms.SAYS_SOMETHING for name in more):
            return []
        says = {"content": None}
    return [
        merged({"role": message.role} | says | ({"tool_calls": calls} if calls else {}), more),
        *(_result(call.id, call.result) for call in message.calls if call.result is not None),
    ]


def _block(block: Fields, extra: Fields | None, role: str) -> Fields | None:
    """Return a block as a part of an openai content; None if the provider has no form for the block."""
    if (
        block["type"] == MEDIA
        and role == USER
        and (is_image(block["uri"], block["mime"]) or block["mime"] == ANY_IMAGE)
    ):
        return merged({"type": "image_url", "image_url": {"url": block["uri"]}}, extra or {})
    if block["type"] == OTHER:
        if extra is not None:
            return extra
        return {"type": TEXT, "text": as_text(block)} if role == USER else None
    if block["type"] == TOOL_USE:
        return None
    kind = (extra or {}).get("type", TEXT)
    return merged({"type": kind, "refusal" if kind == "refusal" else "text": as_text(block)}, extra or {})


def _result(call: str, result: Result) -> Fields:
    several = (_block(block, extra_of(block.get("extra"), OPENAI), TOOL) for block in result.blocks)
    content: object = [block for block in several if block is not None] or result.text
    if isinstance(content, str) and (marks := _marks(result)):
        content = "\n".join([*([content] if content != EMPTY_RESULT else []), *marks])
    message = {"role": TOOL, "tool_call_id": call, "content": content}
    return merged(merged(message, extra_of(result.extra, OPENAI) or {}), extra_of(result.around, OPENAI) or {})


def _marks(result: Result) -> list[str]:
    """Return marks for the contents of a result that are not text, for a provider that takes only text."""
    content = (extra_of(result.extra, ANTHROPIC) or {}).get("content")
    blocks = content if isinstance(content, list) else []
    return [f"[{block.get('type')}]" for block in blocks if isinstance(block, dict) and block.get("type") != TEXT]


def _written(arguments: object) -> str:
    """Return arguments as the text that openai requires; a text that was kept is returned as the model wrote it."""
    text = forms.text_of(arguments)
    if text is None:
        return json.encode({} if arguments is None else arguments).decode()
    return text if text.strip() else "{}"
