"""The lines that the ledger knows: by their content as long as that stands, and by their place once it was erased.

The row of an imported line has two keyed digests. That of its content, as it is after the redaction of secrets, is the
``arguments`` of its command, which an erasure takes. That of its place is the key, which stays: the number of the line, its
time, and how many characters its texts have. So nothing that is left confirms a guess at an erased text, and a line at the
place of an erased one is not taken in, whatever it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import count
from struct import unpack
from typing import Literal

import msgspec
from msgspec import Struct

from ledger.engine import keys
from ledger.engine.engine import Engine
from ledger.interactions.lines import Line
from projections.core.rows import Connection
from projections.views import control

REMEMBERED = 500_000  # different lines of a file, of which equal ones are counted; then counting begins again
_TEXTS = tuple(Line.__struct_fields__.index(name) for name in ("prompt", "response", "response_summary"))


class Seen(Struct, frozen=True):
    """A line of a file as the ledger knows it; ``content`` and ``key`` are for the command that captures a new one."""

    state: Literal["new", "known", "erased"]
    content: tuple[int, ...]
    key: str = ""


class _Given(Struct, frozen=True):
    """A line with the digests of its content: plain, as the arguments of a command, and as these are recorded."""

    content: tuple[int, ...]
    arguments: str
    place: str


class Imported:
    """The lines of one file, looked up in their order; equal ones are counted."""

    def __init__(self, engine: Engine, user: str) -> None:
        self._engine, self._writer, self._user = engine, engine.writer, user
        self._counts: dict[int, int] = {}

    def look_up(self, lines: Sequence[tuple[int, Line]]) -> list[Seen]:
        """Return what the ledger knows of the next lines, each with its number."""
        with self._engine.reading() as connection:
            is_off = control.policy(connection, self._user).secrets == "off"
            given = [self._given(number, line, is_off) for number, line in lines]
            recorded = control.captures_of(connection, [each.arguments for each in given])
            # Of equal lines those count that are more than were captured with this content.
            numbers = [self._count(each.arguments) - recorded.get(each.arguments, 0) for each in given]
            firsts = [self._mac(f"{each.place}:1") for each in given]
            uses = control.uses_of(connection, firsts)
            found = []
            for each, number, first in zip(given, numbers, firsts, strict=True):
                is_new = number > 0
                found.append(
                    self._new(connection, each, uses.get(first, [])) if is_new else Seen("known", each.content)
                )
            return found

    def _given(self, number: int, line: Line, is_off: bool) -> _Given:
        fields = tuple(each or None for each in msgspec.structs.astuple(line))
        encoded = keys.encoded(fields)
        clean = encoded if is_off else self._writer.guard.harmless(encoded, fields)
        texts = fields if clean is encoded else msgspec.json.decode(clean)
        digest = sha256(_encoded(line) if clean is encoded else clean).digest()
        content = unpack("<4q", digest)  # numbers are no text that might be a secret
        sizes = ":".join(str(len(texts[at] or "")) for at in _TEXTS)
        return _Given(
            content,
            keys.recorded(self._writer, self._user, keys.encoded(["capture", content])),
            f"import:{number}:{line.occurred_at or ''}:{sizes}",
        )

    def _count(self, arguments: str) -> int:
        if len(self._counts) >= REMEMBERED:
            self._counts.clear()
        short = int(arguments[:16], 16)
        self._counts[short] = number = self._counts.get(short, 0) + 1
        return number

    def _new(self, connection: Connection, given: _Given, uses: Sequence[control.Answer]) -> Seen:
        """Take the first key of a line's place that no other line had, unless a line there was erased."""
        for number in count(1):
            key = f"{given.place}:{number}"
            if number > 1:
                uses = control.uses_of(connection, [self._mac(key)]).get(self._mac(key), [])
            if any(use.arguments is None for use in uses):
                return Seen("erased", given.content)
            if all(use.released_at is not None and use.arguments == given.arguments for use in uses):
                return Seen("new", given.content, key)
        raise AssertionError("there are keys without end")

    def _mac(self, key: str) -> bytes:
        return self._writer.mac("key", self._user, key)


def _encoded(line: Line) -> bytes:
    """Encode a line for its digest; a line without metadata has no field of them."""
    fields = msgspec.structs.asdict(line)
    if not line.metadata:
        del fields["metadata"]
    return msgspec.json.encode(fields, order="deterministic")
