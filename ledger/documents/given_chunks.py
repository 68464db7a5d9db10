"""The chunks of a document that was cut elsewhere: their check, and the text by which the document is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Raw, json

from ledger.documents.chunking import MAX_CHUNKS, ChunkPiece
from ledger.documents.rules import TEXT_BYTES
from ledger.domain.errors import RejectedError
from ledger.domain.text import check_json, check_text, text_list
from ledger.log.events import NOTHING

CHUNK_BYTES = 256 * 1024  # of one chunk; a larger text would lie apart from its event
METADATA_BYTES = 64 * 1024  # of one chunk (our own choice)
FIELDS = ("content", "heading_path", "metadata")


Checked = tuple[str, tuple[str, ...], object]  # content, headings, metadata


def pieces(source: object, cleaned: Callable[[list[Checked]], list[Checked]] | None = None) -> tuple[ChunkPiece, ...]:
    """Return the chunks that a caller gave as pieces, in their order.

    Args:
        source: Texts, or objects with ``content`` and if wanted ``heading_path`` and ``metadata``.
        cleaned: Takes the secrets out of checked chunks; None where they are kept or refused.

    Raises:
        RejectedError: A chunk has another form, is blank or too large, or there are none or too many.
    """
    if not isinstance(source, Iterable) or isinstance(source, bytes | bytearray | Mapping):
        raise RejectedError(
            f"a document is a text (str), a file (pathlib.Path) or a list of chunks, not a {type(source).__name__}; decode the"
            " bytes of a file first"
        )
    chunks = [_checked(f"chunk {number}", chunk) for number, chunk in enumerate(source)]
    if not 0 < len(chunks) <= MAX_CHUNKS:
        raise RejectedError(
            f"a document has 1 to {MAX_CHUNKS:,} chunks, and {len(chunks):,} were given", rule="size", limit=MAX_CHUNKS
        )
    made = tuple(_piece(*chunk) for chunk in (chunks if cleaned is None else cleaned(chunks)))
    size = sum(len(piece.content.encode()) for piece in made)
    if size > TEXT_BYTES:
        raise RejectedError(
            f"the chunks of a document have at most {TEXT_BYTES:,} bytes, and these {size:,}", rule="size"
        )
    return made


def digested(given: Iterable[ChunkPiece]) -> str:
    """Return all that some chunks say as one text."""
    return json.encode([(piece.content, piece.heading_path, piece.own) for piece in given]).decode()


def _checked(name: str, chunk: object) -> Checked:
    if isinstance(chunk, str):
        chunk = {"content": chunk}
    if not isinstance(chunk, Mapping):
        raise RejectedError(f"{name} is a text or an object with {', '.join(FIELDS)}, not a {type(chunk).__name__}")
    if unknown := [key for key in chunk if key not in FIELDS]:
        raise RejectedError(f"{name} has the field {unknown[0]!r:.40}; there are: {', '.join(FIELDS)}")
    metadata = chunk.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise RejectedError(f"the metadata of {name} is an object, not a {type(metadata).__name__}")
    size = len(json.encode(check_json(f"the metadata of {name}", metadata)))
    if size > METADATA_BYTES:
        raise RejectedError(
            f"the metadata of {name} has {size:,} bytes; at most {METADATA_BYTES:,} are allowed",
            rule="size",
            limit=METADATA_BYTES,
            requested=size,
        )
    content = check_text(f"the content of {name}", chunk.get("content"), max_bytes=CHUNK_BYTES)
    if "\0" in content:
        raise RejectedError(f"the content of {name} holds a NUL character, which no text has")
    return content, text_list(f"the heading_path of {name}", chunk.get("heading_path") or ()), metadata


def _piece(content: str, heading_path: tuple[str, ...], metadata: object) -> ChunkPiece:
    return ChunkPiece(content, heading_path, content.count("\n"), Raw(json.encode(metadata)) if metadata else NOTHING)
