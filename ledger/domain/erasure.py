"""What an erasure does to the stored JSON of one event: named fields become null, spans black, and nothing else changes.

A list of ids that were kept as they were given may hold anything: what in it is no id of ours is text, and leaves the list.

It works on the bytes of whatever type of event, known or not: every value that is not named stays byte for byte as it was.
Of an event that this version cannot read nobody can say what in it is text, so its whole ``data`` goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ledger.domain import ids, provider_forms
from ledger.domain.events import TEXT_FIELDS, TYPES, Envelope, id_fields, string_fields
from ledger.domain.quotes import BOUNDED_CHARS
from ledger.domain.spans import merged

BLACK = "\u2588"
NULL = Raw(b"null")
WHOLE = "data"  # the field that stands for all of an event which cannot be read
PEOPLE = tuple(name for name, what in string_fields(Envelope).items() if what == "text")
_ENVELOPE = {each.encode_name for each in msgspec.structs.fields(Envelope)} | {WHOLE}
_LABELS = (
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
)  # say little alone

_FREE = ("data.metadata", "data.context", "data.extra")  # whose keys are anybody's
_STATES = ("ProjectStateSet", "ProjectStateInvalidated")

_members = msgspec.json.Decoder(dict[str, Raw])
_any = msgspec.json.Decoder()


@cache
def given_ids(type_: str) -> tuple[str, ...]:
    """The ids of an event that are kept as they were given, so they may be anything: the guards look through them, too."""
    fields = id_fields(TYPES[type_]) if type_ in TYPES else ()
    return tuple(each.path[0] for each in fields if each.ref is not None and each.ref.among == "anything")


@cache
def _digests(type_: str) -> tuple[str, ...]:
    fields = string_fields(TYPES[type_]) if type_ in TYPES else {}
    return tuple(name for name, what in fields.items() if what == "keyed digest")


class Part(Struct, frozen=True):
    """One field of an event that holds text: its name, its texts, or the blob that holds them.

    ``plain`` is a single text, of which a span can go; a list or free JSON goes as a whole.
    """

    field: str
    texts: tuple[str, ...]
    blob: str | None = None
    plain: bool = False
    quotable: tuple[str, ...] | None = None  # of many texts those that others can quote

    @property
    def is_significant(self) -> bool:
        """Whether the text says something of its own, so that others can quote it; a tag or a reason does not."""
        return self.field.removeprefix("data.") not in _LABELS


def digest(state: str) -> str:
    return sha256(state.encode()).hexdigest()


def parts(type_: str, state: str) -> list[Part]:
    """What of the data of an event is text and still there."""
    data = _members.decode(state).get("data", NULL)
    if not _is_readable(type_, data):
        return [Part(WHOLE, tuple(strings(_any.decode(data))))] if bytes(data) != b"null" else []
    fields = _members.decode(data)
    given = ((f"data.{name}", _any.decode(fields[name])) for name in TEXT_FIELDS[type_] if name in fields)
    found = [_part(name, value) for name, value in given if value not in (None, "", [], {})]
    found += _foreign(type_, fields)
    if type_ in _STATES:  # what an entry is called is a label, unlike the name of a project or a session
        found = [replace(each, quotable=()) if each.field == "data.name" else each for each in found]
    found = [_of_message(each, _any.decode(fields["parts"])) if each.field == "data.parts" else each for each in found]
    return [_of_extra(each, _any.decode(fields["extra"])) if each.field == "data.extra" else each for each in found]


def unknown_fields(type_: str, state: str) -> tuple[str, ...]:
    """The fields of an event that can be read, but for these, which only a newer version knows."""
    envelope = _members.decode(state)
    data = envelope.get("data", NULL)
    if not _is_readable(type_, data) or _any.decode(envelope.get("schema", b"1")) < TYPES[type_].schema:
        return ()
    outside = envelope.keys() - _ENVELOPE
    inside = _members.decode(data).keys() - {each.encode_name for each in msgspec.structs.fields(TYPES[type_])}
    return (*sorted(outside), *(f"data.{name}" for name in sorted(inside)))


def _foreign(type_: str, fields: dict[str, Raw]) -> Iterable[Part]:
    for name in given_ids(type_):
        texts = tuple(each for each in _any.decode(fields.get(name, NULL)) or () if not ids.is_id(each))
        if texts:
            yield Part(f"data.{name}", texts)


def _of_message(part: Part, parts: list[object]) -> Part:
    """Of the parts of a message the texts can be quoted; a call's id or the name of a tool are anybody's. The names of
    the fields, and the type, are our own; that of a part of another type is a provider's."""
    given = [each for each in parts if isinstance(each, dict) and each.get("type") != provider_forms.OTHER]
    texts = [text for each in given for name, value in each.items() if name != "type" for text in strings(value)]
    quotable = [text for each in given for name in ("text", "uri") if (text := each.get(name))]
    quotable += [text for each in given for text in _values(each.get("arguments")) if len(text) >= BOUNDED_CHARS]
    return replace(part, texts=tuple(texts), quotable=tuple(quotable))


def _of_extra(part: Part, extra: object) -> Part:
    texts = provider_forms.erasable(extra)
    return replace(part, texts=tuple(texts), quotable=tuple(text for text in texts if len(text) >= BOUNDED_CHARS))


def _values(value: object) -> Iterable[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _values(each)
    elif isinstance(value, str):
        yield value


def people(state: str) -> list[Part]:
    """Who an event names as its user, actor, agent and client; our own policies are nobody."""
    fields = _members.decode(state)
    given = ((name, _any.decode(fields[name])) for name in PEOPLE if name in fields)
    return [Part(name, (value,), plain=True) for name, value in given if value and not _is_ours(name, value)]


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


def _part(name: str, value: object) -> Part:
    if isinstance(value, str):
        return Part(name, (value,), plain=True)
    if name not in _FREE and isinstance(value, dict) and value.keys() == {"blob", "size_bytes", "digest"}:
        return Part(name, (), blob=value["blob"])
    return Part(name, tuple(strings(value)))


def strings(value: object) -> Iterable[str]:
    """Every text in a JSON value, keys too."""
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
    """Whether there is a keyed digest of what somebody gave: the arguments of a keyed command, the text of a refusal."""
    fields = _members.decode(state)
    data = fields.get("data", NULL)
    inside = _members.decode(data) if _digests(type_) and _is_readable(type_, data) else {}
    held = (fields.get("arguments", NULL), *(inside.get(name, NULL) for name in _digests(type_)))
    return any(bytes(each) != b"null" for each in held)


def keyed_command(state: str) -> str | None:
    """The command of an event that holds a keyed digest of its arguments; each event of the command holds the same."""
    fields = _members.decode(state)
    return (
        _any.decode(fields.get("command_id", fields["event_id"]))
        if bytes(fields.get("arguments", NULL)) != b"null"
        else None
    )


def salt(state: str) -> str | None:
    found = _any.decode(_members.decode(state).get("salt", NULL))
    return found if isinstance(found, str) else None


def redacted(type_: str, state: str, fields: Sequence[str], spans: Sequence[tuple[str, int, int]]) -> str:
    """The state without these; its salt, and the digests that could confirm a guess at what went, go with them."""
    envelope = _members.decode(state)
    for name in (*fields, "salt", "arguments"):
        if name in envelope:
            envelope[name] = NULL
    if fields != (WHOLE,) and _is_readable(type_, envelope.get("data", NULL)):
        data = _members.decode(envelope["data"])
        for name in (*(each.removeprefix("data.") for each in fields if "." in each), *_digests(type_)):
            if name in data:
                data[name] = _own_ids(data[name]) if name in given_ids(type_) else NULL
        for field in dict.fromkeys(field for field, _, _ in spans):
            name = field.removeprefix("data.")
            data[name] = _blackened(data[name], [(first, last) for each, first, last in spans if each == field])
        envelope["data"] = Raw(msgspec.json.encode(data))
    return msgspec.json.encode(envelope).decode()


def _own_ids(value: Raw) -> Raw:
    return Raw(msgspec.json.encode([each for each in _any.decode(value) if ids.is_id(each)]))


def _blackened(value: Raw, spans: Iterable[tuple[int, int]]) -> Raw:
    text = msgspec.json.decode(value, type=str)
    for first, last in merged(spans):
        text = text[:first] + BLACK * (last - first) + text[last:]
    return Raw(msgspec.json.encode(text))
