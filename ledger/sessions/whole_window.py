"""The whole window of a session: its size, and the question whether a budget holds all of it."""

from __future__ import annotations

from ledger.sessions.assembling import MOST, Measured, WindowRequest, assemble
from ledger.sessions.conversation import Conversation
from ledger.sessions.rules.assembly import FRESH_TAIL

LACKS_ROOM = frozenset(
    ("budget", "tail_trimmed", "turn_over_budget", "results_shortened", "turn_trimmed", "summaries_evicted")
)
"""The reasons of a window that is smaller than the session because of its budget."""


def holds_all(conversation: Conversation, budget: int) -> bool:
    """Return True if the window of a budget in tokens leaves nothing out and shortens nothing for want of room."""
    if needed(conversation)[1] > budget:
        return False
    window = assemble(conversation, budget)
    return not window.over_budget and LACKS_ROOM.isdisjoint(window.reasons)


def needed(conversation: Conversation) -> tuple[int, int]:
    """Return the number of messages of a window, and the tokens that all of it takes with the frame of its summaries."""
    with conversation.reading() as (connection, state):
        if state is None:
            return 0, 0
        measured = Measured(conversation, connection, state, WindowRequest(MOST, "tokens", 0.0, 0.0, FRESH_TAIL))
        _, frame = measured.size_of([measured.entry(item, None) for item in measured.summaries], None)
        return measured.window.messages, measured.window.tokens + frame
