"""The rendering of an assembled window as messages for the anthropic API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import DecodeError, json

from ledger.domain.scan.patterns import MARK_BEGINS
from ledger.sessions.rules import provider_forms as forms
from ledger.sessions.rules.assembly import ASSISTANT, SYSTEM, USER
from ledger.sessions.rules.provider_forms import (
    ANTHROPIC,
    INLINE,
    MEDIA,
    OTHER,
    TEXT,
    TOOL_RESULT,
    TOOL_USE,
    Fields,
    extra_of,
    is_image,
    merged,
)
from ledger.sessions.rules.rendering import (
    BEGINNING,
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


def anthropic(entries: Sequence[Content], *, memories: Iterable[str] = (), system: str = "") -> Rendered:
    """Return messages for the anthropic API.

    The first message is a user's, and user and assistant alternate. Results are in the user's messages, and instructions are in
    ``system``.
    """
    summaries = [entry for entry in entries if entry.item.is_summary]
    context = context_text(summaries, memories)
    instructions = [system] if system.strip() else []
    turns: list[tuple[str, list[Fields]]] = [(USER, [{"type": TEXT, "text": context}])] if context else []
    for message in shown_messages(entries):
        if message.role == SYSTEM:
            instructions += filter(
                None, ["\n".join(as_text(block) for block in named(message) if block["type"] in (TEXT, MEDIA))]
            )
            continue
        shown = _message(message)
        if not turns and shown and message.role == ASSISTANT:
            turns.append((USER, [{"type": TEXT, "text": BEGINNING}]))
        for role, blocks in shown:
            if turns and turns[-1][0] == role:
                turns[-1][1].extend(blocks)
            else:
                turns.append((role, blocks))
    if turns and turns[-1][0] == ASSISTANT and turns[-1][1][-1]["type"] == TEXT:
        # The provider refuses a begun answer that ends with white space.
        turns[-1][1][-1]["text"] = turns[-1][1][-1]["text"].rstrip()
    _cached_at_most(turns)
    messages: list[Fields] = [{"role": role, "content": blocks} for role, blocks in turns]
    return Rendered(messages, "\n\n".join(instructions), summary_block(summaries))


CACHED = 4  # the most blocks with a cache_control that the provider accepts
_THINKING = ("thinking", "redacted_thinking")


def _cached_at_most(turns: Iterable[tuple[str, list[Fields]]]) -> None:
    """Remove ``cache_control`` from all but the last blocks that have it."""
    cached = [block for _, blocks in turns for block in blocks if "cache_control" in block]
    for block in cached[:-CACHED]:
        del block["cache_control"]


def _message(message: ShownMessage) -> list[tuple[str, list[Fields]]]:
    calls, content = {call.made: call for call in message.calls}, list[Fields]()
    for block in named(message):
        if block["type"] != TOOL_USE:
            shown = _block(block, message.role)
            content += [shown] if shown is not None else []
        elif (call := calls.pop(block["id"], None)) is not None:
            fields = {"type": TOOL_USE, "id": call.id, "name": call.name, "input": _arguments(call.arguments)}
            content.append(merged(fields, extra_of(call.extra, ANTHROPIC) or {}))
    if all(block["type"] in _THINKING for block in content):
        return []
    results = [_result(call.id, call.result) for call in message.calls if call.result is not None]
    return [(message.role, content), *([(USER, results)] if results else [])]


def _result(call: str, result: Result) -> Fields:
    more = extra_of(result.extra, ANTHROPIC) or {}
    text, content = result.text, more.pop("content", None)
    if isinstance(content, list):
        text = "" if text == EMPTY_RESULT else text
        content = forms.joined(text, content)
    return merged({"type": TOOL_RESULT, "tool_use_id": call, "content": content or result.text}, more)


def _block(block: Fields, role: str) -> Fields | None:
    more = extra_of(block.get("extra"), ANTHROPIC)
    if block["type"] == OTHER:
        if more is not None:
            # The signature of a thought is no longer valid if a secret in the thought was redacted.
            is_redacted = more.get("type") in _THINKING and any(MARK_BEGINS in text for text in forms.strings(more)[0])
            return None if is_redacted else more
        return {"type": TEXT, "text": as_text(block)} if role == USER else None
    if block["type"] != MEDIA or role != USER or not is_image(block["uri"], block["mime"]):
        return merged({"type": (more or {}).get("type", TEXT), "text": as_text(block)}, more or {})
    inline = INLINE.fullmatch(block["uri"])
    source = {"type": "url", "url": block["uri"]}
    if inline is not None:
        source = {"type": "base64", "media_type": inline.group(1), "data": inline.group(2)}
    return merged({"type": "image", "source": source}, more or {})


def _arguments(arguments: object) -> dict[str, object]:
    """Return arguments as the object that anthropic requires; a value that is no object becomes its field ``input``."""
    if isinstance(arguments, str):
        try:
            arguments = json.decode(arguments) if arguments.strip() else {}
        except (DecodeError, RecursionError):
            return {"input": arguments}
    return arguments if isinstance(arguments, dict) else {} if arguments is None else {"input": arguments}
