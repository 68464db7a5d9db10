"""The expectation that a session has no messages, which ``expected=0`` of an append stands for."""

from __future__ import annotations

from msgspec.structs import replace

from ledger.core.who import Who
from ledger.core.work import Work
from ledger.domain.errors import ConflictError
from ledger.sessions.conversation import Conversation
from ledger.sessions.rules.session import SessionState as State
from ledger.sessions.window import OpenWindow


def asker_from_empty(asker: Who) -> tuple[Who, bool]:
    """Return the author without ``expected`` 0, and True if 0 was expected.

    0 stands for a session without messages. The pipeline would also refuse a session that was cleared or only named before.
    """
    if asker.expected is None or asker.expected.position:
        return asker, False
    return replace(asker, expected=None), True


def check_empty(conversation: Conversation, work: Work, stream: str, first: int) -> None:
    """Raise if the session has messages.

    Raises:
        ConflictError: It has.
    """
    state: State | None = work.load(stream, "s") if first else None
    if state is None:
        return
    work.rows.flush()
    if count := OpenWindow(work.connection(), state).messages:
        raise ConflictError(
            f"the session {conversation.name!r:.60} has {count:,} messages, and expected 0 stands for a session without"
            " messages; nothing was written"
        )
