"""The form in which a message of a conversation is checked, stored and compared.

Besides its text a message has parts. A part is a JSON object with a ``type``: ``text`` (text), ``tool_use`` (id, name,
arguments), ``tool_result`` (id of the call, text), ``media`` (uri, mime) and ``other`` (name). A caller passes reasoning as a
part; it is stored in a field of its own.

A message without a text of its own gets the longest text of its parts as its ``content``, so that search finds the text and the
text may be large. ``content_of`` is the index of the part that has this text, or -1. If a part has the same text as the caller's
content, ``content_of`` is the index of this part too.

The fields of a provider's message without a field here are the ``extra`` of the message and of its parts
(ledger.sessions.rules.provider_forms). They are stored separately, as
``{"message": {provider: fields}, "parts": {number: {provider: fields}}}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import UNSET, Raw, Struct, UnsetType, json
from msgspec.structs import replace

from ledger.domain.errors import RejectedError
from ledger.domain.text import check_json, check_text
from ledger.sessions.rules import provider_forms as forms
from ledger.sessions.rules.provider_forms import FIELDS, OPENAI, OTHER, TEXT, Fields
from ledger.types import Json

ROLES = ("system", "developer", "user", "assistant", "tool")
TEXT_BYTES = 10 * 1024 * 1024
PARTS, PARTS_BYTES = 1_000, 512 * 1024
NAME_BYTES = 1024

Part = Fields


class Draft(Struct, frozen=True):
    """A message in the form in which it is stored, without its tokens; ``parts`` has no ``content`` and no ``reasoning``."""

    role: str
    content: str
    reasoning: str = ""
    parts: tuple[Part, ...] = ()
    content_of: int = -1
    speaker: str = ""
    # Unset if empty, so that the JSON of a repeated command equals the JSON from before this field existed.
    more: Fields | UnsetType = UNSET

    @property
    def extra(self) -> Fields:
        """Return the provider's fields of the message and of its parts, in the stored form."""
        return self.more or {}

    @property
    def is_transient(self) -> bool:
        """Return True if the message is only an assistant's reasoning, which is never stored (as in picoclaw)."""
        nothing = not self.content and not self.parts and not self.extra
        return bool(self.reasoning) and nothing and self.role == "assistant"

    @property
    def encoded(self) -> Raw:
        return Raw(json.encode(self.parts))

    @property
    def whole_parts(self) -> tuple[Part, ...]:
        """Return the parts as the caller passed them, each with its text and its extra."""
        return with_extra(whole_parts(self.encoded, self.content, self.content_of), self.extra, self.content)

    @property
    def read(self) -> tuple[list[str], int]:
        """Return all texts of the message that a model would read, and the number of other contents, such as media."""
        texts, media = read_of(with_extra(self.parts, self.extra, ""), self.extra.get("message", {}))
        return [self.content, self.reasoning, self.speaker, *texts], media


def draft(
    role: object,
    content: object = "",
    parts: object = (),
    *,
    speaker: object = "",
    extra: object = None,
    provider: str = "",
    has_raw: bool = False,
    what: str = "the message",
) -> Draft:
    """Return a checked message.

    Args:
        role: One of ``ROLES``.
        content: The text; None for "".
        parts: Objects with a type, as the docstring of the module describes.
        speaker: The name of the author.
        extra: The other fields of the message, by provider.
        provider: The provider whose form the parts have; "" if it is not known.
        has_raw: True allows a message that says nothing else.
        what: The words for the message in an error.

    Raises:
        RejectedError: The role is unknown, or a part or the message is empty.
    """
    if not isinstance(role, str) or role not in ROLES:
        shown = "no role" if role is None else f"the unknown role {role!r:.40}"
        raise RejectedError(f"{what} has {shown}; there are: {', '.join(ROLES)}")
    text = check_text(
        f"the content of {what}", "" if content is None else content, max_bytes=TEXT_BYTES, blank_allowed=True
    )
    listed = _listed(parts, what)
    provider = provider or forms.provider_of((), listed)
    checked_parts = [_part(part, provider, f"part {number} of {what}") for number, part in enumerate(listed, 1)]
    reasoning = "\n".join(
        part["text"] for part in checked_parts if part["type"] == "reasoning" and part["text"].strip()
    )
    full_parts = [part for part in checked_parts if part["type"] != "reasoning" and not _is_empty(part)]
    if role == "tool" and not any(part["type"] == "tool_result" for part in full_parts):
        raise RejectedError(
            f"{what} is a tool's and names no call: give its tool_call_id, or the part"
            " {'type': 'tool_result', 'id': …, 'text': …}"
        )
    author = check_text(f"the speaker of {what}", speaker or "", blank_allowed=True).strip()
    more = _stored_extra(full_parts, forms.check_extra(what, extra) if extra is not None else {})
    message = Draft(role, text, reasoning, tuple(map(_without_extra, full_parts)), speaker=author, more=more or UNSET)
    if (
        same := next((at for at, part in enumerate(message.parts) if part.get("text") == text), -1)
    ) >= 0 and text.strip():
        message = _with_content_of(message, same)
    elif not text.strip() and full_parts:
        message = _with_longest_text(message)
    names = {name for fields in more.get("message", {}).values() for name in fields}
    alone = not names.isdisjoint((*forms.SAYS_SOMETHING, *forms.ATTACHED))
    if not message.content.strip() and not message.parts and not reasoning and not alone and not has_raw:
        raise RejectedError(f"{what} is blank; it needs a content, a part with contents, or raw")
    size = len(message.encoded) + len(json.encode(message.extra))
    if size > PARTS_BYTES:
        raise RejectedError(
            f"the parts of {what} take {size:,} bytes besides its longest text; at most {PARTS_BYTES:,} are"
            " allowed: append large results as separate messages",
            rule="size",
            limit=PARTS_BYTES,
            requested=size,
        )
    return message


def _listed(parts: object, what: str) -> Sequence[object]:
    if parts is None:
        return ()
    if isinstance(parts, str | bytes | Mapping) or not isinstance(parts, Iterable):
        raise RejectedError(f"the parts of {what} are a list of objects, not {type(parts).__name__}")
    items = list(parts)
    if len(items) > PARTS:
        raise RejectedError(f"{what} has {len(items):,} parts; at most {PARTS:,} are allowed", rule="size", limit=PARTS)
    return items


def _part(raw_part: object, provider: str, what: str) -> Part:
    if not isinstance(raw_part, Mapping):
        raise RejectedError(f"{what} is an object with a type, not {type(raw_part).__name__}")
    kind = raw_part.get("type")
    if not isinstance(kind, str) or not kind.strip():
        raise RejectedError(f"{what} has the type {kind!r:.40}, and a type is a text, such as: {', '.join(FIELDS)}")
    own_extra = raw_part.get("extra")
    fields, more = forms.read({name: value for name, value in raw_part.items() if name != "extra"})
    if fields["type"] == OTHER and more.keys() == {"type"}:
        raise RejectedError(f"{what} has the type {kind!r:.40} and nothing else; there are: {', '.join(FIELDS)}")
    part: Part = {"type": fields["type"]}
    for name in FIELDS[part["type"]]:
        part[name] = _value(part["type"], name, fields.get(name), what)
    extra = forms.check_extra(what, own_extra) if own_extra is not None else {}
    if more:
        check_json(f"what else {what} has", more)
        extra = extra | {provider: more | extra.get(provider, {})}
    return part | ({"extra": extra} if extra else {})


def _without_extra(part: Part) -> Part:
    return {name: value for name, value in part.items() if name != "extra"}


def _stored_extra(parts: Sequence[Part], message: Fields) -> Fields:
    numbered = {str(number): part["extra"] for number, part in enumerate(parts) if "extra" in part}
    return ({"message": message} if message else {}) | ({"parts": numbered} if numbered else {})


def _value(kind: str, name: str, value: object, what: str) -> object:
    if name == "arguments":
        return check_json(f"the arguments of {what}", {} if value is None else value)
    named = name in ("id", "name")
    size = TEXT_BYTES if name == "text" else PARTS_BYTES if name == "uri" else NAME_BYTES
    return check_text(f"the {name} of {what}", "" if value is None else value, max_bytes=size, blank_allowed=not named)


def _is_empty(part: Part) -> bool:
    if "extra" in part:
        return False
    if part["type"] == "text":
        return not part["text"].strip()
    return part["type"] == "media" and not part["uri"].strip()


def _with_longest_text(message: Draft) -> Draft:
    """Return the message with the longest text of its parts as its content."""
    sizes = [(len(part.get("text", "")), -number) for number, part in enumerate(message.parts)]
    size, number = max(sizes)
    if not size:
        return message
    return _with_content_of(message, -number)


def _with_content_of(message: Draft, at: int) -> Draft:
    """Return the message with the text of a part as its content; a single part of type text is left out."""
    text, parts = message.parts[at]["text"], list(message.parts)
    if len(parts) == 1 and parts[0]["type"] == "text":
        return replace(message, content=text, parts=())
    parts[at] = {name: value for name, value in parts[at].items() if name != "text"}
    return replace(message, content=text, parts=tuple(parts), content_of=at)


def encoded_raw(raw: object, what: str = "raw") -> str:
    """Return the JSON given as the raw of a message in its stored form, "" for None.

    Raises:
        RejectedError: It is no JSON that is read back equal, or takes more than 10 MiB.
    """
    if raw is None:
        return ""
    content = json.encode(check_json(what, raw))
    if len(content) > TEXT_BYTES:
        raise RejectedError(
            f"{what} takes {len(content):,} bytes as JSON; at most {TEXT_BYTES:,} are allowed",
            rule="size",
            limit=TEXT_BYTES,
            requested=len(content),
        )
    return content.decode()


# --- the stored form -------------------------------------------------------------------------------------------------


def stored_parts(parts: Raw | bytes | None) -> list[Part]:
    """Return the parts of an event; an empty list if they were erased."""
    decoded: list[Part] | None = json.decode(parts) if parts is not None else None
    return decoded or []


def whole_parts(parts: Raw | bytes | None, content: str | None, content_of: int) -> tuple[Part, ...]:
    """Return the parts as the caller passed them, each with its text."""
    whole = stored_parts(parts)
    if 0 <= content_of < len(whole):
        whole[content_of] = whole[content_of] | {"text": content}
    return tuple(whole)


def stored_extra(extra: Raw | bytes | None) -> Fields:
    """Return the extra of an event; an empty object if it was erased."""
    decoded: Fields | None = json.decode(extra) if extra is not None else None
    return decoded or {}


def essence(extra: Fields | None) -> Fields:
    """Return the extra of a message (under "message") and of its parts (under their numbers), without marks for caching."""
    if not extra:
        return {}
    fields = {"message": extra.get("message", {})} | extra.get("parts", {})
    return {name: compared for name, provider_fields in fields.items() if (compared := forms.compared(provider_fields))}


def together(own: Fields, more: Fields) -> Fields:
    """Return the extra of a message with the missing fields of another extra; a field that both have keeps its own value."""
    return {
        level: more.get(level, {}) | own.get(level, {})
        for level in ("message", "parts")
        if level in own or level in more
    }


def with_extra(parts: Sequence[Part], extra: Fields, content: str | None) -> tuple[Part, ...]:
    """Return the parts, each with its own extra; a content without parts becomes a part if it has an extra."""
    extra_by_number = extra.get("parts", {})
    listed = parts or ([{"type": TEXT, "text": content}] if extra_by_number else [])
    return tuple(
        part | {"extra": extra_by_number[str(number)]} if str(number) in extra_by_number else part
        for number, part in enumerate(listed)
    )


def decoded_raw(raw: str | None) -> Json:
    """Return the raw of a message as it was given; None without raw, or if it was erased."""
    return json.decode(raw) if raw else None


def calls(parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the ids of the tool calls that a message makes."""
    return tuple(part["id"] for part in parts if part["type"] == "tool_use")


def results(parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the ids of the tool calls that a message answers."""
    return tuple(part["id"] for part in parts if part["type"] == "tool_result")


def read_of(parts: Sequence[Part], extra: Fields) -> tuple[list[str], int]:
    """Return the texts of parts and extra that a model would read, and the number of media and of data that is not text."""
    texts, data = read_besides(parts, extra)
    media = sum(part["type"] == "media" for part in parts)
    return [*(text for part in parts for text in _texts_of(part)), *texts], media + data


def read_besides(parts: Iterable[Part], extra: Fields) -> tuple[list[str], int]:
    """Return the texts of the extra alone that a model would read, and the number of data that is not text.

    Of the message's own extra only the openai fields are read, because a message of Anthropic has no place for such fields.
    """
    texts, data = list[str](), 0
    for fields in (
        extra.get(OPENAI, {}),
        *(part_extra for part in parts for part_extra in part.get("extra", {}).values()),
    ):
        more, count = forms.strings(fields)
        texts, data = texts + more, data + count
    return texts, data


def _texts_of(part: Part) -> list[str]:
    if part["type"] == "tool_use":
        return [part["name"], part["id"], json.encode(part["arguments"]).decode()]
    return [text for name in ("id", "text", "uri") if (text := part.get(name)) and not _is_inline(name, text)]


def _is_inline(name: str, text: str) -> bool:
    """Return True for an address that contains the medium itself, which counts as a medium and not as text."""
    return name == "uri" and text.startswith("data:")


def part_texts(parts: Raw | bytes | None) -> str:
    """Return the texts of stored parts, without the content, as one text for the search.

    The text has the tool calls with their arguments, the results, and the addresses of media. White space follows each sign of
    the arguments, because a long text is cut at white space.
    """
    texts: list[str] = []
    for part in whole_parts(parts, None, -1):
        match part["type"]:
            case "tool_use":
                texts.append(f"{part['name']} {json.format(json.encode(part['arguments']), indent=0).decode()}")
            case "media":
                texts.append("" if _is_inline("uri", part["uri"]) else part["uri"])
            case "other":
                pass
            case _:
                texts.append(part.get("text") or "")
    return "\n".join(text for text in texts if text.strip())


def readable(content: str | None, parts: Sequence[Part]) -> str:
    """Return a message as one text for people: the content, and the other parts in brackets."""
    texts = [content or ""] if not any(part.get("text") == content for part in parts) else []
    for part in parts:
        match part["type"]:
            case "text":
                texts.append(part.get("text") or "")
            case "tool_use":
                texts.append(f"[tool_use: {part['name']} {json.encode(part['arguments']).decode()}]")
            case "tool_result":
                texts.append(f"[tool_result for {part['id']}: {part.get('text') or ''}]")
            case "media":
                inline = _is_inline("uri", part["uri"])
                texts.append(f"[media: {part['uri'].partition(',')[0] + ',…' if inline else part['uri']}]")
            case _:
                texts.append(f"[{part['name']}]")
    return "\n".join(text for text in texts if text.strip())
