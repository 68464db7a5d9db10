"""A keyed value: put under a namespace and a key, put again, moved, removed and restored.

none ──put──► active ──remove──► removed       restore, or a put under its key: active
              │    ▲
              └────┘ put again, or moved to another key

From ``expires_at`` on an active value is expired: a status of its own, which no event records and which follows from the
time of the read. An expired value is not returned, and a restore or a put makes it active, as with a removed value. An erasure
ends every status: a value without its name or its content is erased, and no command is accepted for it. The state does not
hold the content: the content is in the log, in the event at the position ``content_at``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.errors import RejectedError
from ledger.domain.scan.keyed import JSON, TEXT, decoded
from ledger.domain.text import NAME_BYTES, check_json, check_text, plural
from ledger.events import AnyEvent, Blob, EventData, ValueMoved, ValuePut, ValueRemoved, ValueRestored

VALUE_BYTES = 10 * 1024 * 1024  # of a text, or of JSON as UTF-8: as much as a message
LABELS = 32  # of a namespace
FIELDS = 64  # by which a value is searched
ACTIVE, REMOVED, EXPIRED, ERASED = "active", "removed", "expired", "erased"
STATUSES = (ACTIVE, REMOVED, ERASED)  # of a row; a value expires without an event
EXPIRY = "expiry/1"  # the rule of a removal by the job

_encode, _decode = msgspec.json.encode, msgspec.json.decode


class ValueState(Struct, frozen=True):
    """The state that folds out of one value's events; the fields are the columns of its row, in order.

    ``place`` is the namespace as one text: each label in JSON with a comma after it, as ``"ada","home",`` for ("ada", "home").
    ``name`` is the key. ``size`` is in bytes of UTF-8.
    """

    row: int
    id: str
    user: str | None
    agent: str | None
    place: str | None
    name: str | None
    type: str
    content_at: int
    size: int | None
    indexed: bool
    fields: tuple[str, ...] | None  # by which an object is searched; all of them if none is named
    expires_at: str | None
    status: str
    underlying: str | None  # the status that the value would have if it had not been erased
    recorded_at: str
    updated_at: str  # when the value was last put
    version: int
    position: int

    def is_alive(self, now: str) -> bool:
        """Return True if the value is returned at a time."""
        return self.status == ACTIVE and not self.has_expired(now)

    def expired_between(self, start: str, now: str) -> bool:
        """Return True if a value that nothing removed expired after a time, and by now."""
        return self.status == ACTIVE and self.expires_at is not None and start < self.expires_at <= now

    def has_expired(self, now: str) -> bool:
        return self.expires_at is not None and self.expires_at <= now


# --- namespaces, keys and values -------------------------------------------------------------------------------------


def checked_namespace(labels: Iterable[str], name: str = "namespace") -> tuple[str, ...]:
    """Return the labels of a namespace, () for the root.

    Raises:
        RejectedError: A bare string, too many labels, or a label that is blank or too long.
    """
    if isinstance(labels, str):
        parts = tuple(label for label in labels.split("/") if label)
        raise RejectedError(f"the {name} is a tuple of labels, such as {parts!r:.200}, and not the text {labels!r:.60}")
    namespace = plural(name, labels)
    for label in namespace:
        check_text(f"a label of the {name}", label)
    if len(namespace) > LABELS:
        raise RejectedError(
            f"the {name} has {len(namespace)} labels; at most {LABELS} are allowed",
            rule="size",
            limit=LABELS,
            requested=len(namespace),
        )
    return namespace


def checked_key(key: str, name: str = "key") -> str:
    return check_text(f"the {name}", key, max_bytes=NAME_BYTES)


def path_of(namespace: Sequence[str]) -> str:
    """Return a namespace as a shell takes it: a path such as ``ada/notes``, or a JSON list if a path would be read otherwise."""
    path = "/".join(namespace) or "/"
    is_read_alike = all(label and "/" not in label for label in namespace) and not path.startswith("[")
    return path if is_read_alike else json.dumps(namespace, ensure_ascii=False)


def place_of(namespace: Iterable[str]) -> str:
    """Return a namespace as one text, its place. The place of every namespace below begins with the place of this one."""
    return "".join(f"{_encode(label).decode()}," for label in namespace)


def labels_of(place: str) -> tuple[str, ...]:
    """Return the labels of the namespace with a place."""
    return _decode(f"[{place[:-1]}]", type=tuple[str, ...])


def is_place(text: object) -> bool:
    """Return True if a text is the place of a namespace."""
    try:
        return isinstance(text, str) and place_of(labels_of(text)) == text
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False


def after_all_below(place: str) -> str:
    """Return a text that is greater than a place and every place below it, and less than every greater place.

    So a range from the place up to this text, which the range excludes, holds exactly a namespace and all below it.
    """
    # "-" is the character after the comma that ends a place; "#" is the one after the quotation mark that begins each.
    return f"{place[:-1]}-" if place else "#"


def encoded(value: object) -> tuple[str, str]:
    """Return the content that an event stores for a value, and its type.

    Raises:
        RejectedError: The value is neither text nor JSON that is read back equal, or takes more than 10 MiB.
    """
    if isinstance(value, str):
        return check_text("value", value, max_bytes=VALUE_BYTES, blank_allowed=True), TEXT
    content = _encode(check_json("value", value))
    if len(content) > VALUE_BYTES:
        message = f"value takes {len(content):,} bytes as JSON; at most {VALUE_BYTES:,} are allowed"
        raise RejectedError(message, rule="size", limit=VALUE_BYTES, requested=len(content))
    return content.decode(), JSON


def checked_fields(fields: Iterable[str] | None) -> tuple[str, ...]:
    """Return the names of fields by which an object is searched; () for all fields."""
    names = () if fields is None else plural("fields", fields)
    for name in names:
        check_text("a name of fields", name, max_bytes=NAME_BYTES)
    if len(names) > FIELDS:
        raise RejectedError(
            f"fields has {len(names)} names; at most {FIELDS} are allowed",
            rule="size",
            limit=FIELDS,
            requested=len(names),
        )
    return names


def readable(content: str, type: str, fields: Collection[str] = ()) -> str:
    """Return the text by which a value is found and shown: a line for each field, such as "theme.color: dark".

    With names of ``fields`` only these fields of an object have a line, with everything below them.
    """
    if type == TEXT:
        return content
    value = decoded(content, type)
    return value if isinstance(value, str) else "\n".join(_lines("", value, fields))


def _lines(path: str, value: object, fields: Collection[str]) -> Iterator[str]:
    """Yield the lines of a part of a value at a path, of which only ``fields`` are wanted; of all fields if none is named."""
    if path in fields:
        fields = ()
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _lines(f"{path}.{key}" if path else key, item, fields)
    elif isinstance(value, list):
        plain = [_as_text(item) for item in value if not isinstance(item, dict | list)]
        if plain and not fields:
            yield f"{path}: {', '.join(plain)}" if path else ", ".join(plain)
        for item in value:
            if isinstance(item, dict | list):
                yield from _lines(path, item, fields)
    elif not fields:
        yield f"{path}: {_as_text(value)}" if path else _as_text(value)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


# --- commands --------------------------------------------------------------------------------------------------------


class PutValue(Struct, frozen=True):
    """A command that puts a value under a key. ``has_content`` is True if the key has this content already."""

    content: str | Blob
    type: str
    namespace: tuple[str, ...]
    name: str
    indexed: bool = True
    fields: tuple[str, ...] = ()
    expires_at: str | None = None
    has_content: bool = False


class MoveValue(Struct, frozen=True):
    namespace: tuple[str, ...]
    name: str
    reason: str = ""


class RemoveValue(Struct, frozen=True):
    reason: str = ""


class SweepValue(Struct, frozen=True):
    """A command that removes a value that has expired."""


class RestoreValue(Struct, frozen=True):
    reason: str = ""


Command = PutValue | MoveValue | RemoveValue | SweepValue | RestoreValue


def decide(command: Command, value: ValueState | None, now: str) -> list[EventData]:
    """Return the events that a command leads to; an empty list when the state asked for is already reached.

    Raises:
        RejectedError: The value was erased, or is not there to be moved.
    """
    status = "none" if value is None else EXPIRED if _is_expired(value, now) else value.status
    match command, status:
        case PutValue(), "none" | "removed" | "expired":
            return [_put(command)]
        case PutValue(), "active" if value is not None:
            return [] if _is_put_already(command, value) else [_put(command)]
        case MoveValue(namespace, name, reason), "active" if value is not None:
            has_the_key = (place_of(namespace), name) == (value.place, value.name)
            return [] if has_the_key else [ValueMoved(namespace, name, reason)]
        case RemoveValue(reason), "active" | "expired":
            return [ValueRemoved(reason)]
        case SweepValue(), "expired":
            return [ValueRemoved(rule=EXPIRY)]
        case RestoreValue(reason), "removed" | "expired" if value is not None:
            return [ValueRestored(reason, None if value.has_expired(now) else value.expires_at)]
        case (RemoveValue(), "removed") | (RestoreValue(), "active") | (SweepValue(), _):
            return []
        case _:
            verb = type(command).__name__.removesuffix("Value").lower()
            subject = value.id if value is not None else None
            raise RejectedError(
                f"cannot {verb} {subject}: it is {status}, and only an active value can be moved; an erased one takes no "
                "command any more",
                rule="transition",
                subject=subject,
            )


def _is_expired(value: ValueState, now: str) -> bool:
    return value.status == ACTIVE and value.has_expired(now)


def _is_put_already(command: PutValue, value: ValueState) -> bool:
    put = (value.type, value.indexed, value.fields, value.expires_at)
    return command.has_content and put == (command.type, command.indexed, command.fields, command.expires_at)


def _put(command: PutValue) -> ValuePut:
    return ValuePut(
        content=command.content,
        type=command.type,
        namespace=command.namespace,
        name=command.name,
        expires_at=command.expires_at,
        indexed=command.indexed,
        fields=command.fields,
    )


# --- evolve: only assignments ----------------------------------------------------------------------------------------

ValueEvent = ValuePut | ValueMoved | ValueRemoved | ValueRestored


def evolve(value: ValueState | None, event: AnyEvent) -> ValueState | None:
    """Return the value after an event in effect; None while no ValuePut with a name is in effect."""
    data: ValueEvent = event.data
    if value is None:
        return _with_erasure(_begun(event, data)) if isinstance(data, ValuePut) and data.name != "" else None
    if value.status == ERASED:  # a later content or name may not have been erased, so the underlying status goes on
        value = replace(value, status=value.underlying or ACTIVE, underlying=None)
    return _with_erasure(replace(value, version=event.version, position=event.position, **_changes(value, event, data)))


def _with_erasure(value: ValueState) -> ValueState:
    if value.name is not None and value.place is not None and value.size is not None:
        return value
    return replace(value, status=ERASED, underlying=value.status)


def _begun(event: AnyEvent, data: ValuePut) -> ValueState:
    envelope = event.envelope
    return ValueState(
        row=event.first,
        id=event.stream,
        user=envelope.user,
        agent=envelope.agent,
        place=None if data.namespace is None else place_of(data.namespace),
        name=data.name,
        type=data.type,
        content_at=event.position,
        size=_size(data.content),
        indexed=data.indexed,
        fields=data.fields,
        expires_at=data.expires_at,
        status=ACTIVE,
        underlying=None,
        recorded_at=envelope.recorded_at,
        updated_at=envelope.recorded_at,
        version=event.version,
        position=event.position,
    )


def _changes(value: ValueState, event: AnyEvent, data: ValueEvent) -> dict[str, object]:
    match data:
        case ValuePut():
            named: dict[str, object] = {} if data.name == "" else _named(data.namespace, data.name)
            return {
                **named,
                "type": data.type,
                "content_at": event.position,
                "size": _size(data.content),
                "indexed": data.indexed,
                "fields": data.fields,
                "expires_at": data.expires_at,
                "status": ACTIVE,
                "updated_at": event.envelope.recorded_at,
            }
        case ValueMoved():
            return _named(data.namespace, data.name)
        case ValueRemoved():
            return {"status": REMOVED}
        case ValueRestored():
            return {"status": ACTIVE, "expires_at": data.expires_at}
        case _:
            assert_never(data)


def _named(namespace: tuple[str, ...] | None, name: str | None) -> dict[str, object]:
    return {"place": None if namespace is None else place_of(namespace), "name": name}


def _size(content: str | Blob | None) -> int | None:
    """Return the size of a content in bytes, or None if it was erased."""
    if isinstance(content, Blob):
        return content.size_bytes
    return None if content is None else len(content.encode())


def admits(value: ValueState | None, data: EventData) -> bool:
    """Return True if an event recorded earlier is still possible in this state, after earlier events became void."""
    if value is None:
        return isinstance(data, ValuePut) and data.name != ""
    # A removal and a restoring also fit where they are for what is already so.
    return not isinstance(data, ValueMoved) or (value.underlying or value.status) == ACTIVE
