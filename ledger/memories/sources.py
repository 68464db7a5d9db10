"""The rules on sources: everything of the same user that is in effect may be cited. Also the session of a memory."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ledger.core.log_reading import read_event
from ledger.core.work import Work
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.ids import is_prefix, message_place
from ledger.domain.text import text_list
from ledger.events import MemoryCaptured
from ledger.memories.rules import MemoryState
from projections.views import control, documents, observations, sessions

# Summaries, merges and conflicts are absent, for they only follow from the kinds below.
CITABLE = ("i", "m", "c", "d", "s", "p", "o")


def source_list(sources: str | Iterable[str], *, messages: bool = False) -> tuple[str, ...]:
    """Return the ids or prefixes of ids as a tuple, after a check that each can name something citable.

    Citable are interactions, memories, chunks, documents, sessions, projects and observations, with ``messages`` also messages.
    """
    named = text_list("sources", sources)
    for source in named:
        if messages and message_place(source) is not None:
            continue
        if source[:1] not in CITABLE or not is_prefix(source, source[0]):
            raise RejectedError(f"a source is an id like i_… (interaction) or m_… (memory), and {source!r:.40} is not")
    return named


def with_sources(work: Work, attempt: MemoryCaptured) -> MemoryCaptured:
    """Return the attempt with its sources as full ids of this user's subjects, for a command acts on one user's memory."""
    return replace(attempt, sources=tuple(dict.fromkeys(own(work, source) for source in attempt.sources)))


def own(work: Work, source: str) -> str:
    """Return the full id of a source, which must be a subject or a chunk of this user in effect, whatever its status.

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
    """Return the session that a memory was recorded in, if the session is still in effect."""
    begun = read_event(work.connection(), memory.row)
    session = begun.envelope.session if begun is not None else None
    return session if session is not None and work.find(session, "s") is not None else None


def _has_support(work: Work, observation: int) -> bool:
    """Return True if a source of an observation is in effect, whatever its status.

    Withdrawn sources count only where every source is withdrawn.
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
    """Return the id of a message, hidden or not; a message with the text of a captured turn is cited as that turn."""
    session, position = message_place(source) or ("", 0)
    work.rows.flush()
    state, row = work.find(session, "s"), sessions.at_position(work.connection(), position)
    if state is None or row is None or row.session != state.row:
        raise NotFoundError(f"no session of this user has the message {source!r:.60}")
    return own(work, row.interaction) if row.interaction is not None else source


def _own_chunk(work: Work, source: str) -> str:
    """Return the id of a chunk, even if a newer text of its document no longer has the chunk: it was read all the same."""
    work.rows.flush()
    chunk = documents.find_chunk(work.connection(), source, work.who.user)
    if chunk is not None and not _is_void(work, chunk):
        return chunk.id
    raise NotFoundError(f"no chunk of this user has the id {source!r:.40}")


def _is_void(work: Work, chunk: documents.ChunkRow) -> bool:
    """Return True if no event in effect added the chunk or the document that the chunk was added to."""
    return work.at_row(chunk.document, "d") is None or bool(control.voided_at(work.connection(), chunk.row))
