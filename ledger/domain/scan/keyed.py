"""The texts and names in a keyed value, which is a text or JSON: what a scan of the value looks at."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ledger.types import Json

JSON, TEXT = "json", "text"
NAMES = ("key", "name", "field", "id")  # of objects that have the value beside its name
NAMED_CHARS = 200  # the most characters of a text under a key that tells of a secret; a longer text is prose

_encode, _decode = msgspec.json.encode, msgspec.json.decode


def decoded(content: str, type: str) -> Json:
    """Return the value of a stored content; JSON that an erasure of a part broke is returned as text."""
    if type == TEXT:
        return content
    try:
        return _decode(content)
    except msgspec.DecodeError:
        return content


def texts_in(content: str, type: str) -> Iterator[str]:
    """Yield the content as it is stored, and every text and name of a field in it, as the value has them."""
    yield content
    pending: list[object] = [] if type == TEXT else [decoded(content, type)]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            pending += (*part.keys(), *part.values())
        elif isinstance(part, list):
            pending += part


def named_in(key: str, content: str, type: str) -> Iterator[tuple[str, str]]:
    """Yield the names that stand apart from their values, each with its value as JSON.

    They are the key, and the ``NAMES`` of an object that has a "value", as in {"name": "api_key", "value": "…"}.
    """
    if type == TEXT:
        if len(content) <= NAMED_CHARS:
            yield key, _encode(content.strip()).decode()
        return
    if content[0] in "[{":  # a number is no secret
        yield key, content
    pending: list[object] = [decoded(content, type)]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            pending += part.values()
            names = (part.get(field) for field in NAMES) if isinstance(part.get("value"), str | list | dict) else ()
            yield from ((name, _encode(part["value"]).decode()) for name in names if isinstance(name, str))
        elif isinstance(part, list):
            pending += part
