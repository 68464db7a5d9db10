"""Metadata: a person's own keys with plain values, checked when given, stored in one form, and searched by that form.

In an event metadata is a JSON object with sorted keys. In a row the same object has a tab on either side of each pair: JSON
always escapes a tab within a text, so a pair with its tabs is found by a search for that text, whatever the keys and values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isfinite
from types import MappingProxyType
from typing import cast

import msgspec
from msgspec import Raw

from ledger.domain.errors import RejectedError
from ledger.domain.text import check_text, plural

KEYS, KEY_BYTES, VALUE_BYTES, ALL_BYTES = 32, 128, 2 * 1024, 8 * 1024

Value = str | int | float | bool | None
Pairs = Mapping[str, Value]
NO_PAIRS: Pairs = MappingProxyType({})

_object = msgspec.json.Decoder(dict[str, Value])
_encode = msgspec.json.encode


def checked(metadata: object, name: str = "metadata") -> dict[str, Value]:
    """Return the pairs with sorted keys; {} for None.

    Raises:
        RejectedError: The value is not flat JSON, or is too large.
    """
    if metadata is None or metadata is NO_PAIRS:
        return {}
    if not isinstance(metadata, Mapping):
        raise RejectedError(
            f"{name} must be a dictionary, as in {{'source': 'slack', 'ticket': 4711}}, but {metadata!r:.40} was given"
        )
    pairs = {_key(name, key): _value(f"{name}[{key!r:.40}]", value) for key, value in metadata.items()}
    check_size(name, pairs)
    return {key: pairs[key] for key in sorted(pairs)}


def check_size(name: str, pairs: Pairs, known: Pairs | None = None) -> None:
    """Raise ``RejectedError`` for more pairs than a subject may have; ``known`` are the pairs that it has already."""
    current = None if known is None else len(known)
    if len(pairs) > KEYS:
        message = f"{name} may have at most {KEYS} keys, but there would be {len(pairs)}"
        raise RejectedError(message, rule="size", limit=KEYS, current=current, requested=len(pairs))
    if (size := len(_encode(pairs))) > ALL_BYTES:
        current = None if known is None else len(_encode(known))
        message = f"{name} may take at most {ALL_BYTES:,} bytes as JSON, but would take {size:,}"
        raise RejectedError(message, rule="size", limit=ALL_BYTES, current=current, requested=size)


def keys(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return keys to look for, in the order given."""
    return tuple(dict.fromkeys(_key(name, key) for key in plural(name, names)))


def _key(name: str, key: object) -> str:
    return check_text(f"a key of {name}", key, max_bytes=KEY_BYTES)


def _value(name: str, value: object) -> Value:
    kind = type(value)  # the exact type: True is not a number here, and the encoder takes no subclass
    if kind is str:
        return check_text(name, value, max_bytes=VALUE_BYTES, blank_allowed=True)
    if kind is int and not -(2**63) <= cast(int, value) < 2**63:
        raise RejectedError(f"{name} is beyond 64 bits; give larger numbers as text")
    if kind is float:
        if not isfinite(cast(float, value)):
            raise RejectedError(f"{name} is {value}; numbers must be finite, and None stands for no value")
        return cast(float, value) + 0.0  # -0.0 becomes 0.0
    if value is not None and kind not in (int, bool):
        raise RejectedError(
            f"{name} is of type {kind.__name__}; allowed: str, int, float, bool and None, nothing nested"
        )
    return cast(Value, value)


def is_same(left: Value, right: Value) -> bool:
    return type(left) is type(right) and left == right


def in_all(several: Sequence[Pairs]) -> dict[str, Value]:
    """Return the pairs that all of several metadata have."""
    first, *rest = several
    return {
        key: value for key, value in first.items() if all(key in pairs and is_same(pairs[key], value) for pairs in rest)
    }


def change(known: Pairs, pairs: Pairs, unset: Sequence[str]) -> tuple[dict[str, Value], tuple[str, ...]]:
    """Return the pairs that are new and the keys that go, if keys are set and unset; a key that is both is unset.

    Raises:
        RejectedError: The metadata after the change is too large.
    """
    gone = tuple(key for key in unset if key in known)
    added = {key: value for key, value in pairs.items() if key not in unset}
    check_size("metadata", {key: value for key, value in {**known, **added}.items() if key not in gone}, known)
    return {key: value for key, value in added.items() if key not in known or not is_same(known[key], value)}, gone


def event_form(pairs: Pairs) -> Raw:
    from ledger.log.events import NOTHING

    return Raw(_encode(pairs)) if pairs else NOTHING


def row_form(pairs: Pairs) -> str | None:
    return "{" + ",".join(pattern(key, pairs[key]) for key in sorted(pairs)) + "}" if pairs else None


def pattern(key: str, value: Value) -> str:
    """Return the text of a pair in a row, which no other part of a row contains."""
    return f"\t{_encode(key).decode()}:{_encode(value).decode()}\t"


def of_event(raw: Raw) -> dict[str, Value]:
    """Return the pairs of an event, {} if they were erased."""
    if bytes(raw) in (b"{}", b"null"):
        return {}
    try:
        return _object.decode(raw)
    except msgspec.DecodeError:  # not written by a ledger
        return {}


def of_row(stored: str | None) -> dict[str, Value]:
    return _object.decode(stored) if stored else {}


def row_of(raw: Raw) -> str | None:
    return row_form(of_event(raw))


def changed(stored: str | None, added: Raw, dropped: Collection[str] = ()) -> str | None:
    """Return the form of a row with these pairs added or replaced, and without the dropped keys."""
    pairs = of_row(stored) | of_event(added)
    return row_form({key: value for key, value in pairs.items() if key not in dropped})
