"""The lines of files that the ledger already knows, by their content, and after an erasure by their place.

The row of an imported line has two keyed digests. The digest of its content, after the redaction of secrets, is the
``arguments`` of its command, which an erasure removes. The digest of its place is the key, which stays: the number of the
line, its time, and the lengths of its texts in characters. So nothing that is left confirms a guess at an erased text, and a
line at the place of an erased line is not imported, whatever its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import count
from struct import unpack
from typing import Literal

import msgspec
from msgspec import Struct

from ledger.core import keys
from ledger.core.engine import Engine
from ledger.interactions.lines import ImportedLine
from projections.core.rows import Connection
from projections.views import control

REMEMBERED = 500_000  # different lines of a file whose repeats are counted; then counting begins again
_TEXTS = tuple(ImportedLine.__struct_fields__.index(name) for name in ("prompt", "response", "response_summary"))


class SeenLine(Struct, frozen=True):
    """A line of a file as the ledger knows it; ``content`` and ``key`` are for the command that captures a new line."""

    state: Literal["new", "known", "erased"]
    content: tuple[int, ...]
    key: str = ""


class _Given(Struct, frozen=True):
    """A line with the digests of its content: plain, as the arguments of a command, and as these are recorded."""

    content: tuple[int, ...]
    arguments: str
    place: str


class Imported:
    """The lines of one file, looked up in their order; equal lines are counted."""

    def __init__(self, engine: Engine, user: str) -> None:
        self._engine, self._writer, self._user = engine, engine.writer, user
        self._counts: dict[int, int] = {}

    def look_up(self, lines: Sequence[tuple[int, ImportedLine]]) -> list[SeenLine]:
        """Return the ledger's knowledge of the next lines, each given with its number."""
        with self._engine.reading() as connection:
            is_off = control.policy(connection, self._user).secrets == "off"
            digested = [self._given(number, line, is_off) for number, line in lines]
            recorded = control.captures_of(connection, [item.arguments for item in digested])
            # Of equal lines, only those beyond the number already captured with this content are new.
            numbers = [self._count(item.arguments) - recorded.get(item.arguments, 0) for item in digested]
            firsts = [self._mac(f"{item.place}:1") for item in digested]
            uses = control.uses_of(connection, firsts)
            seen = []
            for item, number, first in zip(digested, numbers, firsts, strict=True):
                is_new = number > 0
                seen.append(
                    self._new(connection, item, uses.get(first, [])) if is_new else SeenLine("known", item.content)
                )
            return seen

    def _given(self, number: int, line: ImportedLine, is_off: bool) -> _Given:
        fields = tuple(field or None for field in msgspec.structs.astuple(line))
        encoded = keys.encoded(fields)
        clean = encoded if is_off else self._writer.guard.harmless(encoded, fields)
        texts = fields if clean is encoded else msgspec.json.decode(clean)
        digest = sha256(_encoded(line) if clean is encoded else clean).digest()
        content = unpack("<4q", digest)  # as numbers, for the guards would search a text for secrets
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

    def _new(self, connection: Connection, line: _Given, uses: Sequence[control.KeyAnswer]) -> SeenLine:
        """Take the first key of a line's place that no other line has, unless a line there was erased."""
        for number in count(1):
            key = f"{line.place}:{number}"
            if number > 1:
                uses = control.uses_of(connection, [self._mac(key)]).get(self._mac(key), [])
            if any(use.arguments is None for use in uses):
                return SeenLine("erased", line.content)
            if all(use.released_at is not None and use.arguments == line.arguments for use in uses):
                return SeenLine("new", line.content, key)
        raise AssertionError("there are keys without end")

    def _mac(self, key: str) -> bytes:
        return self._writer.mac("key", self._user, key)


def _encoded(line: ImportedLine) -> bytes:
    """Encode a line for its digest; a line without metadata has no such field."""
    fields = msgspec.structs.asdict(line)
    if not line.metadata:
        del fields["metadata"]
    return msgspec.json.encode(fields, order="deterministic")
