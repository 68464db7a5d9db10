"""The extraction cursor of a session: the position up to which its messages were searched.

The cursor can be moved back, so that messages are searched again, and ahead over messages that a branch shares with its parent.
"""

from __future__ import annotations

from collections.abc import Iterator

from ledger.core.call import Who
from ledger.core.work import Work
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.events import ExtractionCursorMoved
from ledger.extraction.lines import ASKED, SKIPPED
from ledger.sessions import reading, writing
from ledger.sessions.answers import SessionInfo
from ledger.sessions.conversation import Conversation
from ledger.sessions.rules.session import SessionState as State
from projections.core.rows import Connection
from projections.views import sessions

BRANCH_MESSAGES = 100_000  # the most messages that are compared to find where a branch begins


def move_back(conversation: Conversation, since: int, asker: Who) -> None:
    if isinstance(since, bool) or not isinstance(since, int) or since < 0:
        raise RejectedError(f"since is the position of a message, 0 for the beginning, and {since!r:.40} is not")

    def body(work: Work) -> str:
        state = writing.known(conversation, work)
        if since > state.cursor:
            raise RejectedError(
                f"since={since} lies ahead of the cursor, which is at {state.cursor}: the messages between would be"
                " lost; skip_extraction(until=…) skips them on purpose"
            )
        if since < max(state.cursor, sessions.looked_upto(work.connection(), state.row)):
            work.emit(state.id, ExtractionCursorMoved(state.cursor, since, ASKED), first=state.row)
        return state.id

    conversation.writer.run("session.extract", asker, body, (conversation.name, since))


def skip_extraction(
    conversation: Conversation, asker: Who, parent: str | None = None, up_to: int | None = None
) -> SessionInfo:
    """Move the cursor ahead over the messages that this session shares with its parent, which are extracted there.

    With ``parent`` (a name or id) the cursor moves after the messages that both sessions begin with, compared by role and text.
    With ``up_to`` the cursor moves after the message at that position. With both the cursor moves to the earlier of the two
    places. The cursor never moves back.

    Raises:
        RejectedError: Neither argument was given, or the position is not that of a message of this session.
        NotFoundError: There is no such parent.
    """
    if parent is None and up_to is None:
        raise RejectedError(
            "skip_extraction needs a parent (the session that this one branched off), or until (a position)"
        )
    writing.check_kept_in(conversation)
    with conversation.reading() as (connection, state):
        known = conversation.needed(state)
        to, source = known.extractable_at, None
        if up_to is not None:
            to = _own_message(connection, known, up_to)
        if parent is not None:
            source = _parent(conversation, connection, parent, known)
            to = min(to, _in_common(conversation, connection, known, source))

    def body(work: Work) -> str:
        work.need("interactions")  # the answer counts the session's turns
        current = writing.known(conversation, work)
        if to > current.cursor:
            moved = ExtractionCursorMoved(current.cursor, to, SKIPPED, parent=source.id if source is not None else None)
            work.emit(current.id, moved, first=current.row)
        return current.id

    conversation.writer.run("session.skip_extraction", asker, body, (conversation.name, parent, up_to))
    info = reading.get_info(conversation)
    if info is None:
        raise NotFoundError(f"the session {conversation.name!r:.60} was undone meanwhile")
    return info


def _own_message(connection: Connection, state: State, position: object) -> int:
    row = sessions.at_position(connection, position) if type(position) is int else None
    if row is None or row.session != state.row:
        raise RejectedError(f"until must be the position of a message of this session, and {position!r:.40} is not")
    return row.row


def _parent(conversation: Conversation, connection: Connection, name: str, own: State) -> State:
    if not isinstance(name, str):
        raise RejectedError(f"parent must be the name or the id of a session, and {name!r:.40} is neither")
    conversation_of_parent = Conversation(conversation.engine, conversation.who, name)
    parent = conversation_of_parent.found(connection)
    if parent is None:
        raise NotFoundError(f"no session of this user is called {name!r:.60}")
    if parent.id == own.id:
        raise RejectedError("a session cannot branch off itself: name the session that it was copied from")
    return parent


def _in_common(conversation: Conversation, connection: Connection, own: State, parent: State) -> int:
    """Return the position of the last message that both sessions begin with; 0 without any."""
    to = 0
    pairs = zip(_spoken(conversation, connection, own), _spoken(conversation, connection, parent), strict=False)
    for number, (ours, theirs) in enumerate(pairs):
        if ours[1:] != theirs[1:] or number == BRANCH_MESSAGES:
            break
        to = ours[0]
    return to


def _spoken(conversation: Conversation, connection: Connection, state: State) -> Iterator[tuple[int, str, str | None]]:
    gone = [(span.first, span.last) for span in sessions.hidden(connection, state.row)]
    for row, texts in reading.all_texts(conversation, connection, state.row, tuple(sorted(sessions.besides(gone)))):
        yield row.row, row.role, texts.content
