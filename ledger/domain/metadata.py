"""Metadata: keys of people's own with plain values, checked where they are given, kept in one form, and found by it.

In an event they are a JSON object, its keys in order. In a row the same object has a tab on either side of each pair: in JSON a
tab within a text is always escaped, so a pair with its tabs is found by looking for that text, whatever keys and values hold.
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


def checked(given: object, name: str = "metadata") -> dict[str, Value]:
    """The pairs as given, their keys in order, and none for None; ``RejectedError`` for what is no flat JSON, or is too much."""
    if given is None or given is NO_PAIRS:
        return {}
    if not isinstance(given, Mapping):
        raise RejectedError(
            f"{name} is a dictionary, as in {{'source': 'slack', 'ticket': 4711}}, and {given!r:.40} is none"
        )
    pairs = {_key(name, key): _value(f"{name}[{key!r:.40}]", value) for key, value in given.items()}
    check_size(name, pairs)
    return {key: pairs[key] for key in sorted(pairs)}


def check_size(name: str, pairs: Pairs, known: Pairs | None = None) -> None:
    """``RejectedError`` where these are more than one thing may have; ``known`` is what it has already."""
    current = None if known is None else len(known)
    if len(pairs) > KEYS:
        message = f"{name} has at most {KEYS} keys, and there would be {len(pairs)}"
        raise RejectedError(message, rule="size", limit=KEYS, current=current, requested=len(pairs))
    if (size := len(_encode(pairs))) > ALL_BYTES:
        current = None if known is None else len(_encode(known))
        message = f"{name} takes at most {ALL_BYTES:,} bytes as JSON, and it would take {size:,}"
        raise RejectedError(message, rule="size", limit=ALL_BYTES, current=current, requested=size)


def keys(name: str, given: Iterable[str]) -> tuple[str, ...]:
    """Keys to look for, as given."""
    return tuple(dict.fromkeys(_key(name, key) for key in plural(name, given)))


def _key(name: str, key: object) -> str:
    return check_text(f"a key of {name}", key, max_bytes=KEY_BYTES)


def _value(name: str, value: object) -> Value:
    kind = type(value)  # exactly: True is no number here, and the encoder takes no subclass
    if kind is str:
        return check_text(name, value, max_bytes=VALUE_BYTES, blank_allowed=True)
    if kind is int and not -(2**63) <= cast(int, value) < 2**63:
        raise RejectedError(f"{name} is beyond 64 bits; give larger numbers as text")
    if kind is float:
        if not isfinite(cast(float, value)):
            raise RejectedError(f"{name} is {value}; numbers are finite, and None stands for none")
        return cast(float, value) + 0.0  # there is one zero
    if value is not None and kind not in (int, bool):
        raise RejectedError(
            f"{name} is of type {kind.__name__}; allowed: str, int, float, bool and None, nothing nested"
        )
    return cast(Value, value)


def is_same(one: Value, other: Value) -> bool:
    return type(one) is type(other) and one == other


def in_all(several: Sequence[Pairs]) -> dict[str, Value]:
    """The pairs that each of these has."""
    first, *rest = several
    return {
        key: value for key, value in first.items() if all(key in each and is_same(each[key], value) for each in rest)
    }


def event_form(pairs: Pairs) -> Raw:
    from ledger.domain.events.base import NOTHING

    return Raw(_encode(pairs)) if pairs else NOTHING


def row_form(pairs: Pairs) -> str | None:
    return "{" + ",".join(pattern(key, pairs[key]) for key in sorted(pairs)) + "}" if pairs else None


def pattern(key: str, value: Value) -> str:
    """The pair as it stands in a row, and nothing else does."""
    return f"\t{_encode(key).decode()}:{_encode(value).decode()}\t"


def of_event(raw: Raw) -> dict[str, Value]:
    """What an event says; nothing where it was erased."""
    if bytes(raw) in (b"{}", b"null"):
        return {}
    try:
        return _object.decode(raw)
    except msgspec.DecodeError:  # no ledger wrote this
        return {}


def of_row(stored: str | None) -> dict[str, Value]:
    return _object.decode(stored) if stored else {}


def row_of(raw: Raw) -> str | None:
    return row_form(of_event(raw))


def changed(stored: str | None, given: Raw, dropped: Collection[str] = ()) -> str | None:
    """The form of a row with these pairs besides or instead, and without what was dropped."""
    pairs = of_row(stored) | of_event(given)
    return row_form({key: value for key, value in pairs.items() if key not in dropped})
