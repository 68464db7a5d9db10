"""The conversion between a provider's messages and ours.

A field without a counterpart here is kept in ``extra``, by provider: ``{"openai": {…}}`` or ``{"anthropic": {…}}``, as the
provider wrote it. A field of None counts as missing. A block of an unknown type becomes a part of the type "other", with the
type as its name. If a tool's result is a list of contents, its texts are joined to the text of the part, and ``content`` in
``extra`` has the lengths of the texts in their places. A text of an openai message outside the content (refusal, audio) becomes
a part, and ``message_field`` names its field.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from json import loads
from typing import Any

from ledger.domain.errors import RejectedError
from ledger.domain.text import check_json

OPENAI, ANTHROPIC = "openai", "anthropic"
TEXT, TOOL_USE, TOOL_RESULT, MEDIA, REASONING, OTHER = "text", "tool_use", "tool_result", "media", "reasoning", "other"
FIELDS: dict[str, tuple[str, ...]] = {
    TEXT: ("text",),
    TOOL_USE: ("id", "name", "arguments"),
    TOOL_RESULT: ("id", "text"),
    MEDIA: ("uri", "mime"),
    REASONING: ("text",),
    OTHER: ("name",),
}
MESSAGE_FIELD = "message_field"
SAYS_SOMETHING = ("audio", "function_call", "refusal")  # an openai message may have these fields in place of a content
ATTACHED = ("attachments", "system_parts")  # and a message of picoclaw these
# Marks for caching are no content, and move from turn to turn.
NOT_COMPARED = ("cache_control", "prompt_cache_breakpoint")
_FREE = ("input", "arguments")  # the keys of these objects are words of a person or tool, and not names of the provider
_CODES = ("type", "media_type", "format", "detail", "mode", "ttl", "stop_reason", "service_tier", MESSAGE_FIELD)
_WORD = re.compile(r"[a-z][A-Za-z0-9_]*", re.ASCII)  # the form of a field's name
DATA_CHARS = 256  # a longer text of ASCII without white space is data: a signature, or base64

IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
ANY_IMAGE = "image/*"  # for an address that does not show the kind of image
INLINE = re.compile(r"data:([a-z]+/[a-z+.-]+);base64,([A-Za-z0-9+/]+={0,2})", re.ASCII)
_IMAGE_FILE = re.compile(r"https://[^?#]+\.(?:jpe?g|png|gif|webp)(?:[?#].*)?", re.IGNORECASE)

Fields = dict[str, Any]
_ALSO = {"tool_call_id": "id", "tool_use_id": "id", "input": "arguments", "content": "text", "mime_type": "mime"}
_OPENAI_FIELDS = {"tool_calls", "tool_call_id", "function_call", "refusal", "audio", "annotations", "name"}
_OPENAI_TYPES = {"image_url", "input_audio", "video_url", "file", "refusal"}
_ANTHROPIC_FIELDS = {"input", "tool_use_id", "citations", "cache_control", "is_error"}


# --- reading ---------------------------------------------------------------------------------------------------------


def provider_of(message: Collection[str], parts: Iterable[object], *, answer: bool = False) -> str:
    """Return the provider whose form a message has, by the names of its fields and by its parts; "openai" if they show none.

    ``answer`` is True for an answer of the anthropic API, whose type is "message".
    """
    blocks = [part for part in parts if isinstance(part, Mapping)]
    kinds = {kind for part in blocks if isinstance(kind := part.get("type"), str)}
    if not _OPENAI_FIELDS.isdisjoint(message) or kinds & _OPENAI_TYPES:
        return OPENAI
    is_ours = not answer and kinds <= FIELDS.keys()
    return OPENAI if is_ours and not any(_ANTHROPIC_FIELDS & part.keys() for part in blocks) else ANTHROPIC


def read(block: Fields) -> tuple[Fields, Fields]:
    """Return a provider's part in our fields, unchecked, and its fields without a counterpart."""
    kind = block["type"]
    fields = {name: value for name, value in block.items() if value is not None and name != "type"}
    if kind in FIELDS:
        part, more = _ours(kind, fields)
        return (part, more) if kind != REASONING or not more else _other(kind, fields)
    text = fields.pop("refusal" if kind == "refusal" else "text", None)
    if isinstance(text, str):
        return {"type": TEXT, "text": text}, {"type": kind, **fields}
    if text is not None:
        fields["refusal" if kind == "refusal" else "text"] = text
    return _image(kind, fields) or _other(kind, fields)


def _ours(kind: str, fields: Fields) -> tuple[Fields, Fields]:
    part, more = Fields({"type": kind}), Fields()
    for name, value in fields.items():
        our_name = name if name in FIELDS[kind] else _ALSO.get(name, "")
        if our_name in FIELDS[kind] and (our_name == name or (our_name not in fields and our_name not in part)):
            part[our_name] = value
        else:
            more[name] = value
    if kind == TOOL_RESULT and isinstance(part.get("text"), list | tuple) and "text" not in fields:
        part["text"], content = _divided(part["text"])
        more |= {"content": content} if content else {}
    return part, more


def _other(kind: str, fields: Fields) -> tuple[Fields, Fields]:
    return {"type": OTHER, "name": kind}, {"type": kind, **fields}


def _image(kind: str, fields: Fields) -> tuple[Fields, Fields] | None:
    """Return an image of either provider as a medium; None if the image has no address."""
    more, where = dict(fields), fields.get("image_url" if kind == "image_url" else "source")
    if kind == "image_url":
        inner = {"url": where} if isinstance(where, str) else where
        if not isinstance(inner, Mapping) or not isinstance(inner.get("url"), str):
            return None
        more["image_url"] = {name: value for name, value in inner.items() if name != "url" and value is not None}
        if not more["image_url"]:
            del more["image_url"]
        uri = inner["url"]
        return {"type": MEDIA, "uri": uri, "mime": "" if is_image(uri, "") else ANY_IMAGE}, more
    if kind != "image" or not isinstance(where, Mapping):
        return None
    del more["source"]
    match dict(where):
        case {"type": "base64", "media_type": str(mime), "data": str(data), **rest} if not rest:
            uri = f"data:{mime};base64,{data}"
            return ({"type": MEDIA, "uri": uri, "mime": mime}, more) if is_image(uri, mime) else None
        case {"type": "url", "url": str(uri), **rest} if not rest and uri.startswith("https://"):
            return {"type": MEDIA, "uri": uri, "mime": ANY_IMAGE}, more
    return None


def _divided(content: Sequence[Fields]) -> tuple[str, list[Fields]]:
    """Return the joined texts of a list of contents, and the list with lengths in place of the texts.

    The list is empty if the only content is a text.
    """
    texts = [block["text"] for block in content if _is_text(block)]
    if len(content) == len(texts) <= 1 and all(block.keys() == {"type", "text"} for block in content):
        return "".join(texts), []
    return "\n".join(texts), [block | {"text": len(block["text"])} if _is_text(block) else block for block in content]


def _is_text(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == TEXT and isinstance(block.get("text"), str)


def joined(text: str, content: Sequence[Fields]) -> list[Fields]:
    """Return the list of contents with the texts in their places again.

    If the text has another length now (a secret was redacted, or the text was shortened), the whole text is the first block.
    """
    sizes = [block["text"] for block in content if _is_size(block)]
    if sum(sizes) + max(0, len(sizes) - 1) != len(text):
        other_blocks = [block for block in content if not _is_size(block)]
        return [{"type": TEXT, "text": text}, *other_blocks] if text.strip() else other_blocks
    blocks, at = list[Fields](), 0
    for block in content:
        if _is_size(block):
            blocks.append(block | {"text": text[at : at + block["text"]]})
            at += block["text"] + 1
        else:
            blocks.append(block)
    return blocks


def _is_size(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == TEXT and isinstance(block.get("text"), int)


def tool_call(call: Fields, what: str) -> Fields:
    """Return a tool call of the OpenAI chat format as a part.

    Raises:
        RejectedError: The call has no function.
    """
    fields = {name: value for name, value in call.items() if value is not None}
    custom = fields.get("type") == "custom"
    function = fields.pop("custom" if custom else "function", None)
    if not isinstance(function, Mapping):
        raise RejectedError(f"a tool call of {what} is an object with an id and a function")
    arguments = function.get("input" if custom else "arguments")
    if isinstance(arguments, str) and not custom:
        arguments = plain_arguments(arguments)
    inner = {name: value for name, value in function.items() if value is not None}
    for name in ("name", "input" if custom else "arguments"):
        inner.pop(name, None)
    part = {"type": TOOL_USE, "id": fields.pop("id", None), "name": function.get("name"), "arguments": arguments}
    if not custom and fields.get("type") == "function":
        del fields["type"]
    more = fields | ({"custom" if custom else "function": inner} if inner else {})
    return part | ({"extra": {OPENAI: more}} if more else {})


def plain_arguments(text: str) -> object:
    """Return arguments as the value of their JSON, or as ``{"": text}`` if the text could not be restored exactly.

    The second form is for a text that is not JSON, for a key that occurs twice, and for a number that no float holds exactly.
    """
    try:
        value = check_json("", loads(text, object_pairs_hook=_once, parse_float=_exact, parse_constant=_exact))
    except (ValueError, ArithmeticError, RecursionError, RejectedError):
        return {"": text} if text.strip() else {}
    return {"": text} if text_of(value) is not None else value


def _once(pairs: list[tuple[str, object]]) -> Fields:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key occurs twice")
    return fields


def _exact(text: str) -> float:
    if Decimal(repr(float(text))) != Decimal(text):
        raise ValueError("not kept exactly")
    return float(text)


def text_of(arguments: object) -> str | None:
    """Return the text of arguments that ``plain_arguments`` kept as a text, else None."""
    if isinstance(arguments, dict) and arguments.keys() == {""} and isinstance(arguments[""], str):
        return arguments[""]
    return arguments if isinstance(arguments, str) else None


def check_extra(what: str, extra: object) -> dict[str, Fields]:
    """Return a checked ``extra``.

    Raises:
        RejectedError: The extra is not an object of objects by provider, or not JSON.
    """
    if not isinstance(extra, dict) or not all(isinstance(fields, dict) for fields in extra.values()):
        raise RejectedError(f"the extra of {what} is an object with the fields of each provider, as an object")
    return check_json(f"the extra of {what}", extra)


# --- writing ---------------------------------------------------------------------------------------------------------


def extra_of(extra: object, provider: str) -> Fields | None:
    """Return the fields that the extra of a part or message has for a provider; None if it has none."""
    fields = extra.get(provider) if isinstance(extra, Mapping) else None
    return dict(fields) if isinstance(fields, Mapping) else None


def merged(own: Fields, more: Fields) -> Fields:
    """Return our fields together with the provider's fields that have no counterpart."""
    result = dict(own)
    for name, value in more.items():
        if name not in result:
            result[name] = value
        elif isinstance(result[name], dict) and isinstance(value, dict):
            result[name] = merged(result[name], value)
    return result


def openai_call(id: str, name: str, arguments: str, more: Fields) -> Fields:
    """Return a tool call as a part of an openai message."""
    if more.get("type") == "custom":
        return merged({"id": id, "type": "custom", "custom": {"name": name, "input": arguments}}, more)
    return merged({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}, more)


def is_image(uri: str, mime: str) -> bool:
    """Return True if a medium is an image that both providers can see: at an https address, or inline."""
    if inline := INLINE.fullmatch(uri):
        return inline.group(1) in IMAGES and mime in ("", ANY_IMAGE, inline.group(1))
    return uri.startswith("https://") if mime in (*IMAGES, ANY_IMAGE) else not mime and bool(_IMAGE_FILE.fullmatch(uri))


def compared(extra: Fields) -> Fields:
    """Return the extra of a part or message, by provider, without marks for caching."""
    without_marks = {
        provider: {name: value for name, value in fields.items() if name not in NOT_COMPARED}
        for provider, fields in extra.items()
    }
    return {provider: fields for provider, fields in without_marks.items() if fields}


def erasable(extra: object) -> list[str]:
    """Return the texts of stored extra in which an erasure searches for a person's words.

    The names of fields and the codes of the providers are left out.
    """
    texts, waiting = list[str](), [("", extra, False)]
    while waiting:
        name, value, free = waiting.pop()
        if isinstance(value, dict):
            texts += (key for key in value if free or not _WORD.fullmatch(key))
            waiting += [(key, inner, free or key in _FREE) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(name, inner, free) for inner in value]
        elif isinstance(value, str) and (free or name not in _CODES):
            texts.append(value)
    return texts


def strings(extra: Fields) -> tuple[list[str], int]:
    """Return the texts of rendered extra that a model reads, and the number of other values, such as base64 data."""
    texts, data, waiting = list[str](), 0, list[object](extra.values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and len(value) > DATA_CHARS and value.isascii() and not re.search(r"\s", value):
            data += 1
        elif isinstance(value, str):
            texts.append(value)
    return texts, data
