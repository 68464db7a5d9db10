"""The importer of the kind "summary": a text of statements, as another assistant answers "What do you remember about me?".

An assistant wrote the text, and nobody can tell what the person said. So every statement waits for review.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from ledger.importers.records import MovedStatement
from ledger.importers.source import Source
from ledger.importers.statements import statements

CLIENT = "summary"
_CHAT = re.compile(r"(?:user|human|assistant|ai|system)\s*:", re.IGNORECASE)


def recognizes(source: Source) -> bool:
    """Return True for a single text file that has a letter, is no JSON, and does not begin as a chat."""
    if source.is_folder or len(source.parts) != 1:
        return False
    head = source.head(source.parts[0])
    text = head.decode("utf-8", "ignore").strip()
    is_text = b"\0" not in head and bool(text) and len(text.encode()) >= len(head.strip()) - 3
    is_other = text.startswith(("{", '["', "[{")) or _CHAT.match(text) is not None
    return is_text and any(map(str.isalpha, text)) and not is_other


def records(source: Source) -> Iterator[MovedStatement]:
    """Yield the statements of all texts."""
    for part in source.files(".txt", ".md"):
        for stated in (stated for text in source.text(part) for stated in statements(text)):
            yield candidate(CLIENT, stated.text, at=stated.date, kind=stated.kind, heading=stated.heading)


def candidate(
    kind_of_source: str,
    text: str,
    *,
    at: object = None,
    kind: str = "knowledge",
    heading: str = "",
    project: str | None = None,
) -> MovedStatement:
    """Return a statement that an assistant wrote, with a key of its words."""
    words = " ".join((text if project is None else f"{project}: {text}").casefold().split())
    digest = hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()
    return MovedStatement(
        key=f"{kind_of_source}:{digest[:32]}",
        content=text,
        kind=kind,
        status="candidate",
        at=at,
        project=project,
        channel="file",
        metadata={"heading": heading} if heading else {},
    )
