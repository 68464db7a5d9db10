"""The erasure of texts in the stored JSON of one event: fields become null, spans become black, and nothing else changes.

Every other value stays byte for byte as it was, for events of any type, known or not. If this version cannot read an event,
it cannot tell which values are text. Then the whole ``data`` of the event is erased.

A list of ids that a caller gave may hold anything. An item that is not an id of this product is text, and leaves the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ledger.domain import ids
from ledger.domain.quotes import BOUNDED_CHARS
from ledger.domain.scan.keyed import texts_in
from ledger.domain.spans import merged
from ledger.events import TEXT_FIELDS, TYPES, Envelope, string_fields
from ledger.log.registry import given_ids
from ledger.sessions.rules import provider_forms

BLACK = "\u2588"
NULL = Raw(b"null")
RAW = "data.raw"  # only a message has it
WHOLE = "data"  # the field that stands for the whole of an unreadable event
PEOPLE = tuple(name for name, string_kind in string_fields(Envelope).items() if string_kind == "text")
_ENVELOPE = {field.encode_name for field in msgspec.structs.fields(Envelope)} | {WHOLE}
_LABELS = (  # fields with short texts, too common to be quotes of each other
    "memories_used",
    "chunks_used",
    "entities",
    "tags",
    "added",
    "removed",
    "unset",
    "reason",
    "origin",
    "source",
    "subject",
    "relation",
    "object",
    "context",
    "title",
    "heading_path",
    "metadata",
    "warnings",
    "model",
    "namespace",
)

_FREE = ("data.metadata", "data.context", "data.extra")  # free JSON, in which a caller may use any key
_STATES = ("ProjectStateSet", "ProjectStateInvalidated", "ValuePut", "ValueMoved")

_members = msgspec.json.Decoder(dict[str, Raw])
_any = msgspec.json.Decoder()


@cache
def _digests(type_: str) -> tuple[str, ...]:
    fields = string_fields(TYPES[type_]) if type_ in TYPES else {}
    return tuple(name for name, string_kind in fields.items() if string_kind == "keyed digest")


class ErasablePart(Struct, frozen=True):
    """A field of an event that holds text: its name, its texts, or the blob that holds them.

    ``plain`` marks a single text, of which a span can be erased; a list or free JSON is erased as a whole.
    """

    field: str
    texts: tuple[str, ...]
    blob: str | None = None
    plain: bool = False
    quotable: tuple[str, ...] | None = None  # the texts that others can quote; None for all

    @property
    def is_significant(self) -> bool:
        """Return True if the text is worth quoting, so that others may repeat it; a tag or a reason is not."""
        return self.field.removeprefix("data.") not in _LABELS


def digest(state: str) -> str:
    return sha256(state.encode()).hexdigest()


def parts(type_: str, state: str) -> list[ErasablePart]:
    """Return the fields of an event's data that hold text which is not yet erased."""
    data = _members.decode(state).get("data", NULL)
    if not _is_readable(type_, data):
        return [ErasablePart(WHOLE, tuple(strings(_any.decode(data))))] if bytes(data) != b"null" else []
    fields = _members.decode(data)
    values = ((f"data.{name}", _any.decode(fields[name])) for name in TEXT_FIELDS[type_] if name in fields)
    fields_with_text = [_part(name, value) for name, value in values if value not in (None, "", [], {})]
    fields_with_text += _foreign(type_, fields)
    if type_ in _STATES:  # the name of an entry or a value is a label, unlike the name of a project or a session
        fields_with_text = [
            replace(part, quotable=()) if part.field == "data.name" else part for part in fields_with_text
        ]
    if type_ == "ValuePut" and _any.decode(fields.get("type", b'"json"')) == "json":
        fields_with_text = [_of_json(part) if part.field == "data.content" else part for part in fields_with_text]
    fields_with_text = [_of_raw(part) if part.field == RAW else part for part in fields_with_text]
    fields_with_text = [
        _of_message(part, _any.decode(fields["parts"])) if part.field == "data.parts" else part
        for part in fields_with_text
    ]
    return [
        _of_extra(part, _any.decode(fields["extra"])) if part.field == "data.extra" else part
        for part in fields_with_text
    ]


def unknown_fields(type_: str, state: str) -> tuple[str, ...]:
    """Return the fields of an otherwise readable event that only a newer version knows."""
    envelope = _members.decode(state)
    data = envelope.get("data", NULL)
    if not _is_readable(type_, data) or _any.decode(envelope.get("schema", b"1")) < TYPES[type_].schema:
        return ()
    outside = envelope.keys() - _ENVELOPE
    inside = _members.decode(data).keys() - {field.encode_name for field in msgspec.structs.fields(TYPES[type_])}
    return (*sorted(outside), *(f"data.{name}" for name in sorted(inside)))


def _foreign(type_: str, fields: dict[str, Raw]) -> Iterable[ErasablePart]:
    for name in given_ids(type_):
        texts = tuple(value for value in _any.decode(fields.get(name, NULL)) or () if not ids.is_id(value))
        if texts:
            yield ErasablePart(f"data.{name}", texts)


def _of_message(part: ErasablePart, parts: list[object]) -> ErasablePart:
    """Return the part with the texts of a message, and the texts among them that others can quote.

    The id of a call and the name of a tool are too common to be quotes. Names of fields, and the type of a part, are words of
    this product or of a provider, and no text of the user.
    """
    own_parts = [item for item in parts if isinstance(item, dict) and item.get("type") != provider_forms.OTHER]
    texts = [text for item in own_parts for name, value in item.items() if name != "type" for text in strings(value)]
    quotable = [text for item in own_parts for name in ("text", "uri") if (text := item.get(name))]
    quotable += [text for item in own_parts for text in _values(item.get("arguments")) if len(text) >= BOUNDED_CHARS]
    return replace(part, texts=tuple(texts), quotable=tuple(quotable))


def _of_json(part: ErasablePart) -> ErasablePart:
    """Return the content of a value that is JSON, and the texts in it, of which others can quote the longer ones."""
    if part.blob is not None:
        return part
    texts = [text for content in part.texts for text in texts_in(content, "json")]
    return replace(part, texts=tuple(texts), quotable=tuple(text for text in texts[1:] if len(text) >= BOUNDED_CHARS))


def _of_raw(part: ErasablePart) -> ErasablePart:
    """Return the raw of a message, which goes as a whole, with the texts in it that a person may have written.

    Names, ids, paths and times are in the raw of most messages, so other messages do not quote them.
    """
    if part.blob is not None:
        return part
    values = (text for text in _values(_any.decode(part.texts[0])) if len(text) >= BOUNDED_CHARS)
    texts = tuple(text for text in values if " " in text or not text.isascii())
    return replace(part, texts=texts, quotable=texts, plain=False)


def _of_extra(part: ErasablePart, extra: object) -> ErasablePart:
    texts = provider_forms.erasable(extra)
    return replace(part, texts=tuple(texts), quotable=tuple(text for text in texts if len(text) >= BOUNDED_CHARS))


def _values(value: object) -> Iterable[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _values(item)
    elif isinstance(value, str):
        yield value


def people(state: str) -> list[ErasablePart]:
    """Return the fields of an event that name a person or program: user, actor, agent and client.

    The product's own policies, which act under a name too, are left out.
    """
    fields = _members.decode(state)
    values = ((name, _any.decode(fields[name])) for name in PEOPLE if name in fields)
    return [ErasablePart(name, (value,), plain=True) for name, value in values if value and not _is_ours(name, value)]


def _is_ours(field: str, value: str) -> bool:
    return field == "actor" and (value == "ledger" or value.startswith("policy:"))


def _is_readable(type_: str, data: Raw) -> bool:
    kind = TYPES.get(type_)
    if kind is None:
        return False
    try:
        msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _part(name: str, value: object) -> ErasablePart:
    if isinstance(value, str):
        return ErasablePart(name, (value,), plain=True)
    if name not in _FREE and isinstance(value, dict) and value.keys() == {"blob", "size_bytes", "digest"}:
        return ErasablePart(name, (), blob=value["blob"])
    return ErasablePart(name, tuple(strings(value)))


def strings(value: object) -> Iterable[str]:
    """Return every text in a JSON value, keys too."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            waiting += item


def has_digests(type_: str, state: str) -> bool:
    """Return True if the event has a keyed digest of a text: of the arguments of a command, or of a refused text."""
    fields = _members.decode(state)
    data = fields.get("data", NULL)
    inside = _members.decode(data) if _digests(type_) and _is_readable(type_, data) else {}
    held = (fields.get("arguments", NULL), *(inside.get(name, NULL) for name in _digests(type_)))
    return any(bytes(value) != b"null" for value in held)


def keyed_command(state: str) -> str | None:
    """Return the command of an event that holds a keyed digest of its arguments; None without a digest.

    All events of the command hold the same digest.
    """
    fields = _members.decode(state)
    return (
        _any.decode(fields.get("command_id", fields["event_id"]))
        if bytes(fields.get("arguments", NULL)) != b"null"
        else None
    )


def salt(state: str) -> str | None:
    value = _any.decode(_members.decode(state).get("salt", NULL))
    return value if isinstance(value, str) else None


def redacted(type_: str, state: str, fields: Sequence[str], spans: Sequence[tuple[str, int, int]]) -> str:
    """Return the state with these fields and spans erased.

    The salt, and the digests that could confirm a guess at an erased text, are erased too.
    """
    envelope = _members.decode(state)
    for name in (*fields, "salt", "arguments"):
        if name in envelope:
            envelope[name] = NULL
    if fields != (WHOLE,) and _is_readable(type_, envelope.get("data", NULL)):
        data = _members.decode(envelope["data"])
        for name in (*(path.removeprefix("data.") for path in fields if "." in path), *_digests(type_)):
            if name in data:
                data[name] = _own_ids(data[name]) if name in given_ids(type_) else NULL
        for field in dict.fromkeys(field for field, _, _ in spans):
            name = field.removeprefix("data.")
            data[name] = _blackened(data[name], [(first, last) for spanned, first, last in spans if spanned == field])
        envelope["data"] = Raw(msgspec.json.encode(data))
    return msgspec.json.encode(envelope).decode()


def _own_ids(value: Raw) -> Raw:
    return Raw(msgspec.json.encode([value_id for value_id in _any.decode(value) if ids.is_id(value_id)]))


def _blackened(value: Raw, spans: Iterable[tuple[int, int]]) -> Raw:
    text = msgspec.json.decode(value, type=str)
    for first, last in merged(spans):
        text = text[:first] + BLACK * (last - first) + text[last:]
    return Raw(msgspec.json.encode(text))
