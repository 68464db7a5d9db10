"""Digests, the hash chain over the log, and the check that walks it.

``digest`` covers the state of one event. ``link`` covers the digest, the place of the event and the head before it, so
that whoever knows one head knows everything before it. ``leaf`` is the same record as a leaf of a Merkle tree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

GENESIS = bytes(32)  # the head of an empty log

# Text that JSON writes as it is: ASCII without controls, quotation mark and backslash.
_plain = re.compile(r"[ !#-\[\]-~]*").fullmatch

# position, stream, version, type, state, digest, head, erased_by
CheckedRow = tuple[int, str, int, str, str, bytes, bytes, int | None]


def digest(state: bytes) -> bytes:
    """SHA-256 of the stored bytes of one event."""
    return sha256(state).digest()


def link(previous: bytes, position: int, stream: str, version: int, type_: str, digest: bytes) -> bytes:
    """The head after an event, from the head before it."""
    return sha256(_record(previous.hex(), position, stream, version, type_, digest.hex())).digest()


def leaf(previous: bytes, position: int, stream: str, version: int, type_: str, digest: bytes) -> bytes:
    """The same event as a leaf of a Merkle tree; the zero byte keeps leaves and inner nodes apart."""
    return sha256(b"\x00" + _record(previous.hex(), position, stream, version, type_, digest.hex())).digest()


def _record(previous: str, position: int, stream: str, version: int, type_: str, digest: str) -> bytes:
    if _plain(stream + type_):
        return f'["ledger/1","{previous}",{position:d},"{stream}",{version:d},"{type_}","{digest}"]'.encode()
    record = ["ledger/1", previous, position, stream, version, type_, digest]
    return json.dumps(record, separators=(",", ":")).encode()


def check_chain(rows: Iterable[CheckedRow], *, position: int = 0, head: bytes = GENESIS) -> Iterator[str]:
    """Walk the log in order and say what is wrong with it, with the position; nothing when all is well.

    ``position`` and ``head`` are those of the row before the first. After a problem the walk goes on from what the row
    claims, so that one change is told once. A row with ``erased_by`` may hold a state that does not hash to its digest.
    """
    previous = head.hex()
    for row in rows:
        place, stream, version, type_, state, stored, after, erased_by = row
        try:
            computed = sha256(state.encode()).digest()
            record = _record(previous, place, stream, version, type_, stored.hex())
            sound, following = sha256(record).digest() == after and place == position + 1, after.hex()
        except (AttributeError, TypeError, ValueError):
            yield _unreadable(place, row)
            position, previous = _resume(position, previous, place, after)
            continue
        if not sound or (computed != stored and erased_by is None):
            yield from _problems(position, place, computed == stored or erased_by is not None, sha256(record), after)
        position, previous = place, following


def _problems(position: int, place: int, intact: bool, expected: Any, after: bytes) -> Iterator[str]:
    if place != position + 1:
        yield f"position {place}: follows position {position}, where {position + 1} was expected"
    if not intact:
        yield f"position {place}: the state does not hash to its digest, and no erasure is named"
    if expected.digest() != after:
        yield f"position {place}: the head does not follow from the row and the head before it"


def _unreadable(place: object, row: CheckedRow) -> str:
    kinds = ", ".join(type(value).__name__ for value in row)
    return f"position {place}: a column holds a value of the wrong type ({kinds})"


def _resume(position: int, previous: str, place: object, after: object) -> tuple[int, str]:
    return (
        place if isinstance(place, int) else position + 1,
        after.hex() if isinstance(after, bytes) else previous,
    )
