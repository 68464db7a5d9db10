"""What a caller gives with a command, checked: texts, kinds, tags, sources, relations, times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ledger.domain import confidence as rules
from ledger.domain import memory as domain
from ledger.domain import times
from ledger.domain.errors import RejectedError
from ledger.domain.events import LIST_ITEMS, MemoryCaptured
from ledger.domain.ids import is_prefix
from ledger.domain.memory import CONTENT_BYTES
from ledger.domain.text import check_text, lowered
from ledger.engine.who import NAME_BYTES, Time

Triple = tuple[str, str, str]  # (source, relation, target)
REASON_BYTES = 16 * 1024
TAGS = 10  # ATOCore
CITABLE = ("i", "m", "c", "d", "s", "p", "o")  # summaries, merges and conflicts follow from these: nobody cites them
_KIND = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def attempt_of(
    content: str,
    kind: str,
    status: str,
    confidence: float,
    entities: Iterable[str],
    tags: Iterable[str],
    source: str | Iterable[str],
    valid_from: Time | None,
    valid_to: Time | None,
) -> MemoryCaptured:
    start, end = validity(valid_from, valid_to) if valid_from is not None or valid_to is not None else (None, None)
    return MemoryCaptured(
        content=check_text("content", content, max_bytes=CONTENT_BYTES),
        kind=checked_kind(kind),
        status=status,
        confidence=rules.ONE
        if confidence == 1.0 and confidence is not True
        else rules.millionths("confidence", confidence),
        entities=text_list("entities", entities) if entities else (),
        tags=tag_list(tags) if tags else (),
        sources=source_list(source) if source else (),
        valid_from=start,
        valid_to=end,
    )


def checked_kind(kind: str) -> str:
    if kind in domain.KINDS:
        return kind
    if not isinstance(kind, str) or _KIND.fullmatch(kind) is None:
        raise RejectedError(
            f"a kind is a word of lower-case letters, digits, _ and -, up to 64, and {kind!r:.40} is not; "
            f"known: {', '.join(domain.KINDS)}"
        )
    return kind


def check_reason(name: str, text: str) -> str:
    return check_text(name, text, max_bytes=REASON_BYTES, blank_allowed=True) if text else ""


def validity(valid_from: Time | None, valid_to: Time | None) -> tuple[str | None, str | None]:
    start = times.moment("valid_from", valid_from) if valid_from is not None else None
    end = times.until("valid_to", valid_to) if valid_to is not None else None
    if start is not None and end is not None and end <= start:
        raise RejectedError(f"a memory's validity must end after it begins: {start} to {end} is empty")
    return start, end


def text_list(name: str, given: Iterable[str], *, items: int = LIST_ITEMS) -> tuple[str, ...]:
    """Strings without repeats, in the order given."""
    if isinstance(given, str):
        given = (given,)
    if not isinstance(given, Iterable):
        raise RejectedError(f"{name} must be a text or several, not {type(given).__name__}")
    found = tuple(dict.fromkeys(check_text(f"each of {name}", each, max_bytes=NAME_BYTES) for each in given))
    if len(found) > items:
        raise RejectedError(
            f"{name} may be {items} at the most, and there are {len(found)}", limit=items, requested=len(found)
        )
    return found


def tag_list(given: Iterable[str]) -> tuple[str, ...]:
    labels = [
        lowered(each.strip()) if isinstance(each, str) else each
        for each in ((given,) if isinstance(given, str) or not isinstance(given, Iterable) else given)
    ]
    return text_list("tags", labels, items=TAGS)


def edge_list(given: Iterable[Triple]) -> tuple[domain.Relate, ...]:
    """(source, relation, target) of each edge, as texts."""
    if given == ():  # as with most memories
        return ()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise RejectedError(f"relations are several of (subject, relation, object), not a {type(given).__name__}")
    found = []
    for each in given:
        if isinstance(each, str) or not isinstance(each, Sequence) or len(each) != 3:
            raise RejectedError("each relation is three texts: (subject, relation, object)")
        parts = [
            check_text(f"the {what} of an edge", part, max_bytes=4 * domain.NAME_CHARS)
            for what, part in zip(("source", "relation", "target"), each, strict=True)
        ]
        found.append(domain.Relate(*parts))
        if len(found) > domain.EDGES:
            raise RejectedError(
                f"a memory has at most {domain.EDGES} relations", rule="size", limit=domain.EDGES, requested=len(found)
            )
    return tuple(found)


def source_list(given: str | Iterable[str]) -> tuple[str, ...]:
    """Ids, or prefixes of ids, of interactions, memories, chunks, documents, sessions, projects or observations."""
    found = text_list("sources", given)
    for each in found:
        if each[:1] not in CITABLE or not is_prefix(each, each[0]):
            raise RejectedError(f"a source is an id like i_… (interaction) or m_… (memory), and {each!r:.40} is not")
    return found
