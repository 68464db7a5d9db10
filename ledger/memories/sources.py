"""What may be cited as a source: something of the same user that is in effect; and the session that a memory is of."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.events import MemoryCaptured
from ledger.domain.ids import is_prefix, message_place
from ledger.domain.memory import Memory
from ledger.domain.text import text_list
from ledger.engine.log_reading import read_event
from ledger.engine.work import Work
from projections.views import control, documents, observations, sessions

CITABLE = ("i", "m", "c", "d", "s", "p", "o")  # summaries, merges and conflicts follow from these: nobody cites them


def source_list(given: str | Iterable[str], *, messages: bool = False) -> tuple[str, ...]:
    """Ids, or prefixes of ids, of interactions, memories, chunks, documents, sessions, projects or observations; where
    ``messages`` can be cited, their ids too."""
    found = text_list("sources", given)
    for each in found:
        if messages and message_place(each) is not None:
            continue
        if each[:1] not in CITABLE or not is_prefix(each, each[0]):
            raise RejectedError(f"a source is an id like i_… (interaction) or m_… (memory), and {each!r:.40} is not")
    return found


def with_sources(work: Work, attempt: MemoryCaptured) -> MemoryCaptured:
    """The attempt with its sources as full ids, all of this user: a command acts on one user's memory."""
    return replace(attempt, sources=tuple(dict.fromkeys(own(work, each) for each in attempt.sources)))


def own(work: Work, source: str) -> str:
    """The full id of what may be cited, which is one rule for every command that takes sources: a subject or a chunk of
    this user that is in effect, whatever its status. ``NotFoundError`` for one that was undone or distrusted,
    ``RejectedError`` for an observation all of whose sources were."""
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


def session_of(work: Work, memory: Memory) -> str | None:
    """The session that a memory was recorded in, if it is still there."""
    begun = read_event(work.connection(), memory.row)
    session = begun.envelope.session if begun is not None else None
    return session if session is not None and work.find(session, "s") is not None else None


def _has_support(work: Work, observation: int) -> bool:
    """Whether a source of an observation is in effect, whatever its status: one that was not withdrawn, if there is one."""
    supports = observations.support_of(work.rows, observation)
    for each in [each for each in supports if not each.withdrawn] or supports:
        if (place := message_place(each.source)) is not None:
            if sessions.at_position(work.connection(), place[1]) is not None:
                return True
            continue
        if each.source[0] != "c" and work.find(each.source, each.source[0]) is not None:
            return True
        found = documents.find_chunk(work.connection(), each.source, work.who.user) if each.source[0] == "c" else None
        if found is not None and not _is_void(work, found):
            return True
    return False


def _own_message(work: Work, source: str) -> str:
    """A message, hidden or not; what is the text of a captured turn is cited as that."""
    session, position = message_place(source) or ("", 0)
    work.rows.flush()
    state, row = work.find(session, "s"), sessions.at_position(work.connection(), position)
    if state is None or row is None or row.session != state.row:
        raise NotFoundError(f"no session of this user has the message {source!r:.60}")
    return own(work, row.interaction) if row.interaction is not None else source


def _own_chunk(work: Work, source: str) -> str:
    """One that a newer text no longer has is a source too: it is what was read."""
    work.rows.flush()
    found = documents.find_chunk(work.connection(), source, work.who.user)
    if found is not None and not _is_void(work, found):
        return found.id
    raise NotFoundError(f"no chunk of this user has the id {source!r:.40}")


def _is_void(work: Work, chunk: documents.Chunk) -> bool:
    """Whether nobody added a chunk, or the document that it was added to, as far as the events in effect say."""
    return work.at_row(chunk.document, "d") is None or bool(control.voided_at(work.connection(), chunk.row))
