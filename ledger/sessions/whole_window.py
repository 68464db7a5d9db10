"""The whole window of a session: its size, and the question if a budget holds all of it."""

from __future__ import annotations

from msgspec import Struct

from ledger.sessions.assembling import MOST, Measured, WindowRequest, assemble, note_size
from ledger.sessions.conversation import Conversation
from ledger.sessions.rules.assembly import FRESH_TAIL

LACKS_ROOM = frozenset(
    ("budget", "tail_trimmed", "turn_over_budget", "results_shortened", "turn_trimmed", "summaries_evicted")
)
"""The reasons of a window that is smaller than the session because of its budget."""


class WindowNeed(Struct, frozen=True):
    """The messages of a whole window, and its ``tokens`` with the frame of its summaries.

    ``at_most`` is the number if each summary and the note are measured apart, as an assembly measures them before its choice.
    """

    messages: int = 0
    tokens: int = 0
    at_most: int = 0


def needed(conversation: Conversation) -> WindowNeed:
    """Return the size of a whole window. No message is read for that."""
    with conversation.reading() as (connection, state):
        if state is None:
            return WindowNeed()
        measured = Measured(conversation, connection, state, WindowRequest(MOST, "tokens", 0.0, 0.0, FRESH_TAIL))
        window, summaries = measured.window, measured.summaries
        _, frame = measured.size_of([measured.entry(item, None) for item in summaries], None)
        messages = window.tokens - sum(row.tokens for row in window.summaries)
        apart = sum(item.tokens for item in summaries) + note_size(conversation, summaries, "tokens")
        return WindowNeed(window.messages, window.tokens + frame, messages + apart)


def holds_all(conversation: Conversation, budget: int) -> bool:
    """Return True if the window of a budget in tokens leaves nothing out and shortens nothing for want of room."""
    need = needed(conversation)
    if need.tokens > budget or need.at_most < budget:
        return need.tokens <= budget
    window = assemble(conversation, budget)
    return not window.over_budget and LACKS_ROOM.isdisjoint(window.reasons)
