"""The rules on sources: every subject of the same user that is in effect may be cited. Also the session of a memory."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ledger.core.reads import read_event
from ledger.core.work import Work
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.ids import is_prefix, message_place
from ledger.domain.text import text_list
from ledger.events import MemoryCaptured
from ledger.memories.state import MemoryState
from projections.views import control, documents, observations, sessions

# Summaries, merges and conflicts are absent, because they only follow from subjects of these kinds.
CITABLE = ("i", "m", "c", "d", "s", "p", "o")


def source_list(sources: str | Iterable[str], *, messages: bool = False) -> tuple[str, ...]:
    """Return ids or prefixes of ids as a tuple, after a check that each can be a source.

    Interactions, memories, chunks, documents, sessions, projects and observations can be sources, with ``messages`` also
    messages.
    """
    ids = text_list("sources", sources)
    for source in ids:
        if messages and message_place(source) is not None:
            continue
        if source[:1] not in CITABLE or not is_prefix(source, source[0]):
            raise RejectedError(f"a source is an id like i_… (interaction) or m_… (memory), and {source!r:.40} is not")
    return ids


def with_sources(work: Work, attempt: MemoryCaptured) -> MemoryCaptured:
    """Return the attempt with the full ids of its sources; a source of another user is refused."""
    return replace(attempt, sources=tuple(dict.fromkeys(own(work, source) for source in attempt.sources)))


def own(work: Work, source: str) -> str:
    """Return the full id of a source: a subject, chunk or message of this user that is in effect, of any status.

    Every command that takes sources uses this rule.

    Raises:
        NotFoundError: The source was undone or distrusted, or does not exist.
        RejectedError: The source is an observation without a live source.
    """
    if source[0] == "c":
        return _own_chunk(work, source)
    if message_place(source) is not None:
        return _own_message(work, source)
    state = work.load(source, source[0])
    if source[0] == "o" and not _has_support(work, state.row):
        raise RejectedError(
            f"{state.id} has no live source, so nothing can rest on it; add other sources first",
            rule="evidence",
            subject=state.id,
        )
    return str(state.id)


def session_of(work: Work, memory: MemoryState) -> str | None:
    """Return the session in which a memory was recorded, or None if the session is not in effect."""
    capture = read_event(work.connection(), memory.row)
    session = capture.envelope.session if capture is not None else None
    return session if session is not None and work.find(session, "s") is not None else None


def _has_support(work: Work, observation: int) -> bool:
    """Return True if a source of an observation is in effect, of any status.

    Withdrawn sources count only if every source is withdrawn.
    """
    supports = observations.support_of(work.rows, observation)
    for support in [support for support in supports if not support.withdrawn] or supports:
        if (place := message_place(support.source)) is not None:
            if sessions.at_position(work.connection(), place[1]) is not None:
                return True
            continue
        if support.source[0] != "c" and work.find(support.source, support.source[0]) is not None:
            return True
        chunk = (
            documents.find_chunk(work.connection(), support.source, work.who.user) if support.source[0] == "c" else None
        )
        if chunk is not None and not _is_void(work, chunk):
            return True
    return False


def _own_message(work: Work, source: str) -> str:
    """Return the id of a message, hidden or not; of a message that is the text of a captured turn, the id of the turn."""
    session, position = message_place(source) or ("", 0)
    work.rows.flush()
    state, row = work.find(session, "s"), sessions.at_position(work.connection(), position)
    if state is None or row is None or row.session != state.row:
        raise NotFoundError(f"no session of this user has the message {source!r:.60}")
    return own(work, row.interaction) if row.interaction is not None else source


def _own_chunk(work: Work, source: str) -> str:
    """Return the id of a chunk, also of one that a newer text of its document no longer has, because it was read earlier."""
    work.rows.flush()
    chunk = documents.find_chunk(work.connection(), source, work.who.user)
    if chunk is not None and not _is_void(work, chunk):
        return chunk.id
    raise NotFoundError(f"no chunk of this user has the id {source!r:.40}")


def _is_void(work: Work, chunk: documents.ChunkRow) -> bool:
    """Return True if the event that added the chunk, or its document, is void."""
    return work.at_row(chunk.document, "d") is None or bool(control.voided_at(work.connection(), chunk.row))
