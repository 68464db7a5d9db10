"""The recognition of lines that were imported before: by their content, and after an erasure by their place in the file.

The command that captured a line has two keyed digests. The digest of the content (after the redaction of secrets) is its
``arguments``, which an erasure removes. The digest of the place is its key, which an erasure keeps: the number of the line, its
time, and the lengths of its texts in characters. So after an erasure nothing in the ledger confirms a guess at the erased text,
and no line at the place of an erased line is imported, whatever its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import count
from struct import unpack
from typing import Literal, cast

import msgspec
from msgspec import Struct

from ledger.core import steps
from ledger.core.engine import Engine
from ledger.interactions.lines import ImportedLine
from projections.core.rows import Connection
from projections.views import control

REMEMBERED = 500_000  # the most different lines of a file whose repeats are counted; then the counts are forgotten
_TEXTS = tuple(ImportedLine.__struct_fields__.index(name) for name in ("prompt", "response", "response_summary"))


class SeenLine(Struct, frozen=True):
    """The ledger's knowledge of a line: new, known, or at the place of an erased line.

    ``content`` and ``key`` are the arguments and the key of the command that captures a new line.
    """

    state: Literal["new", "known", "erased"]
    content: tuple[int, ...]
    key: str = ""


class _CleanedLine(Struct, frozen=True):
    """A line with its number in the file, its fields, and these encoded with and without secrets."""

    number: int
    line: ImportedLine
    fields: tuple[object, ...]
    encoded: bytes
    harmless: bytes


class _DigestedLine(Struct, frozen=True):
    """The digests of a line.

    ``content`` is the digest of the content, ``arguments`` the keyed digest that a command records, and ``place`` the first part
    of the key.
    """

    content: tuple[int, ...]
    arguments: str
    place: str


class LineRecognition:
    """The recognition of the lines of one file, which are looked up in their order; equal lines are counted."""

    def __init__(self, engine: Engine, user: str) -> None:
        self._engine, self._writer, self._user = engine, engine.writer, user
        self._counts: dict[int, int] = {}

    def cleaned(self, lines: Sequence[tuple[int, ImportedLine]]) -> list[_CleanedLine]:
        """Return (number, line) pairs with their fields, encoded with and without secrets; call it before the lock is taken."""
        harmless, cleaned = self._writer.guard.harmless, list[_CleanedLine]()
        for number, line in lines:
            fields = tuple(field or None for field in msgspec.structs.astuple(line))
            encoded = steps.encoded(fields)
            cleaned.append(_CleanedLine(number, line, fields, encoded, harmless(encoded, fields)))
        return cleaned

    def look_up(self, lines: Sequence[_CleanedLine]) -> list[SeenLine]:
        """Return the ledger's knowledge of the next lines."""
        with self._engine.reading() as connection:
            keeps_secrets = control.policy(connection, self._user).secrets == "off"
            digested = [self._digests_of(line, keeps_secrets) for line in lines]
            recorded = control.captures_of(connection, [item.arguments for item in digested])
            # If the ledger has three lines with this content, the fourth equal line of the file is the first new line.
            surplus = [self._count(item.arguments) - recorded.get(item.arguments, 0) for item in digested]
            first_keys = [self._mac(f"{item.place}:1") for item in digested]
            uses = control.uses_of(connection, first_keys)
            return [
                self._new(connection, item, uses.get(key, [])) if number > 0 else SeenLine("known", item.content)
                for item, number, key in zip(digested, surplus, first_keys, strict=True)
            ]

    def _digests_of(self, line: _CleanedLine, keeps_secrets: bool) -> _DigestedLine:
        clean = line.encoded if keeps_secrets else line.harmless
        decoded = line.fields if clean is line.encoded else msgspec.json.decode(clean)
        texts = cast("Sequence[str | None]", decoded)  # at the places of _TEXTS
        digest = sha256(_encoded(line.line) if clean is line.encoded else clean).digest()
        content = unpack("<4q", digest)  # numbers, because the guards would search a text for secrets
        sizes = ":".join(str(len(texts[at] or "")) for at in _TEXTS)
        return _DigestedLine(
            content,
            steps.arguments_digest(self._writer, self._user, steps.encoded(["capture", content])),
            f"import:{line.number}:{line.line.occurred_at or ''}:{sizes}",
        )

    def _count(self, arguments: str) -> int:
        """Return the number of lines with this content so far in this file."""
        if len(self._counts) >= REMEMBERED:
            self._counts.clear()
        short = int(arguments[:16], 16)
        self._counts[short] = number = self._counts.get(short, 0) + 1
        return number

    def _new(self, connection: Connection, line: _DigestedLine, uses: Sequence[control.KeyAnswer]) -> SeenLine:
        """Return a new line with the first free key of its place, or "erased" if a line at this place was erased."""
        for number in count(1):
            key = f"{line.place}:{number}"
            if number > 1:
                uses = control.uses_of(connection, [self._mac(key)]).get(self._mac(key), [])
            if any(use.arguments is None for use in uses):
                return SeenLine("erased", line.content)
            if all(use.released_at is not None and use.arguments == line.arguments for use in uses):
                return SeenLine("new", line.content, key)
        raise AssertionError("unreachable: count() has no end")

    def _mac(self, key: str) -> bytes:
        return self._writer.mac("key", self._user, key)


def _encoded(line: ImportedLine) -> bytes:
    """Encode a line for its digest, without the field metadata if it is empty: older digests have no such field."""
    fields = msgspec.structs.asdict(line)
    if not line.metadata:
        del fields["metadata"]
    return msgspec.json.encode(fields, order="deterministic")
