"""The rows of the log as an erasure reads them, and the target of a row: the fields or spans that are erased."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.errors import NewerFormatError, NotFoundError
from ledger.domain.quotes import Needles
from ledger.domain.spans import merged
from ledger.erasure import rules as erasure
from ledger.events import Redaction
from projections.core.rows import Connection

Span = tuple[str, int, int]  # (field, first character, character after the last)


class ErasureRow(Struct, frozen=True):
    """A row of the log with its texts."""

    position: int
    stream: str
    type: str
    state: str
    parts: tuple[erasure.ErasablePart, ...] = ()


class Target(Struct, frozen=True):
    """The part of a row that is erased.

    Attributes:
        fields: The fields that are erased as a whole.
        spans: The characters that become black.
        blobs: The ids of the blobs that are emptied.
        texts: The texts that no file may hold afterwards. They are never written down.
        before: The digest of the row's state before the erasure.
        after: The digest of the row's state after the erasure.
        wholly: True if all texts of the row are erased.
    """

    position: int
    stream: str
    type: str
    fields: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    blobs: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    wholly: bool = False

    @property
    def redaction(self) -> Redaction:
        return Redaction(self.position, self.before, self.after, self.fields, self.spans)


class ErasureRows:
    """The rows of a snapshot, and the targets for parts of these rows."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def row(self, position: int) -> ErasureRow:
        sql = "SELECT position, stream, type, state FROM events WHERE position = ?"
        columns = self.connection.execute(sql, (position,)).fetchone()
        if columns is None:
            raise NotFoundError(f"no event of this user is at position {position}")
        return self.read(*columns)

    def stream(self, stream: str) -> list[ErasureRow]:
        sql = "SELECT position, stream, type, state FROM events WHERE stream = ? ORDER BY version"
        return [self.read(*row) for row in self.connection.execute(sql, (stream,)).fetchall()]

    def since(self, position: int) -> Iterator[tuple[ErasureRow, str | None]]:
        """Yield the rows after a position, each with its user."""
        sql = (
            "SELECT e.position, e.stream, e.type, e.state, a.user FROM events e"
            " CROSS JOIN audit a ON a.position = e.position WHERE e.position > ? ORDER BY e.position"
        )
        for *row, user in self.connection.execute(sql, (position,)).fetchall():
            yield self.read(*row), user

    @staticmethod
    def read(position: int, stream: str, type_: str, state: str) -> ErasureRow:
        return ErasureRow(position, stream, type_, state, tuple(erasure.parts(type_, state)))

    def texts(self, part: erasure.ErasablePart) -> tuple[str, ...]:
        """Return the texts of a field; a field in a blob is read from there."""
        if part.blob is None:
            return part.texts
        row = self.connection.execute("SELECT data FROM blobs WHERE id = ?", (part.blob,)).fetchone()
        return (str(row[0][16:], "utf-8"),) if row is not None and row[0] is not None else ()

    def whole(self, row: ErasureRow, *, people: bool = False) -> Target | None:
        """Return a target for every text of a row, or None if the row has no text; ``people`` adds the names of its writers."""
        parts = (*row.parts, *(erasure.people(row.state) if people else ()))
        if not parts and not erasure.has_digests(row.type, row.state):
            return None
        blobs = tuple(part.blob for part in parts if part.blob is not None)
        texts = [text for part in parts for text in self.texts(part)]
        return replace(self.target(row, tuple(part.field for part in parts), (), texts, blobs), wholly=True)

    def fields(self, row: ErasureRow, names: tuple[str, ...]) -> Target:
        """Return a target for these fields of a row."""
        parts = [part for part in row.parts if part.field in names]
        texts = [text for part in parts for text in self.texts(part)]
        blobs = tuple(part.blob for part in parts if part.blob is not None)
        return self.target(row, names, (), texts, blobs)

    def cut(self, row: ErasureRow, needles: Needles, origins: Iterable[Span]) -> Target | None:
        """Return a target for the parts of a row that repeat a needle or lie in an origin, or None without such a part.

        A needle is a text to look for. An origin is a span in which an erased memory was found.

        A field that is a list, free JSON or a blob can only go as a whole.
        """
        fields, spans, texts, blobs = [], list[Span](), list[str](), []
        for part in row.parts:
            inside = [origin for origin in origins if origin[0] == part.field]
            if not inside and not any(needles.found(text) for text in self.texts(part)):
                continue
            needle_spans = needles.spans(part.texts[0]) if part.plain else None
            if needle_spans is None:
                fields.append(part.field)
                texts += self.texts(part)
                blobs += [part.blob] if part.blob is not None else []
                continue
            size = len(part.texts[0])
            clipped = [(first, min(last, size)) for first, last in needle_spans] + [
                (first, min(last, size)) for _, first, last in inside
            ]
            spans += [(part.field, first, last) for first, last in merged(clipped)]
            texts += [part.texts[0][first:last] for first, last in merged(clipped)]
        return self.target(row, tuple(fields), tuple(spans), texts, tuple(blobs)) if fields or spans else None

    def texts_gone(self, redactions: Iterable[Redaction]) -> Iterator[str]:
        """Yield the texts that these redactions took or will take."""
        for redaction in redactions:
            row = self.row(redaction.position)
            parts = {part.field: part for part in (*row.parts, *erasure.people(row.state))}
            yield from (text for field in redaction.fields if field in parts for text in self.texts(parts[field]))
            spans = (span for span in redaction.spans if span[0] in parts and parts[span[0]].plain)
            yield from (parts[field].texts[0][first:last] for field, first, last in spans)
            if (salt := erasure.salt(row.state)) is not None:
                yield salt

    def target(
        self,
        row: ErasureRow,
        fields: tuple[str, ...],
        spans: tuple[Span, ...],
        texts: Iterable[str],
        blobs: tuple[str, ...],
    ) -> Target:
        """Return a target for these fields and spans of a row; the raw of a message goes with any of its texts."""
        raw = next((part for part in row.parts if part.field == erasure.RAW and part.field not in fields), None)
        if raw is not None and any(name.startswith("data.") for name in (*fields, *(name for name, *_ in spans))):
            fields, texts = (*fields, raw.field), (*texts, *self.texts(raw))
            blobs = (*blobs, raw.blob) if raw.blob is not None else blobs
        if unknown := erasure.unknown_fields(row.type, row.state):
            raise NewerFormatError(
                f"the {row.type} at position {row.position} has {', '.join(unknown)[:200]}, written by a newer version of the"
                " product; this version cannot tell such fields from text: erase with that version; nothing was erased"
            )
        salt = erasure.salt(row.state)
        before = erasure.digest(row.state)
        after = erasure.digest(erasure.redacted(row.type, row.state, fields, spans))
        salted = (*texts, *((salt,) if salt is not None else ()))
        return Target(row.position, row.stream, row.type, fields, spans, blobs, salted, before, after)
