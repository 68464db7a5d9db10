"""The size of the whole window of a session, and the check that a budget holds all of the window."""

from __future__ import annotations

from msgspec import Struct

from ledger.sessions.assembling import MOST, Measured, WindowRequest, assemble, note_size
from ledger.sessions.conversation import Conversation
from ledger.sessions.rules.assembly import FRESH_TAIL

LACKS_ROOM = frozenset(
    (
        "budget",
        "tail_trimmed",
        "turn_over_budget",
        "results_shortened",
        "turn_trimmed",
        "summaries_evicted",
        "excerpts_shortened",
        "message_shortened",
        "step_shortened",
    )
)
"""The reasons of a window that lacks a part of the session because of the budget."""


class WindowNeed(Struct, frozen=True):
    """The size of a whole window: its messages, and its ``tokens`` with the text around its summaries.

    ``at_most`` is the number of tokens if each summary and the note are measured separately, as an assembly measures them before
    it chooses items.
    """

    messages: int = 0
    tokens: int = 0
    at_most: int = 0


def needed(conversation: Conversation) -> WindowNeed:
    """Return the size of a whole window, without reading a message."""
    with conversation.reading() as (connection, state):
        if state is None:
            return WindowNeed()
        measured = Measured(conversation, connection, state, WindowRequest(MOST, "tokens", 0.0, 0.0, FRESH_TAIL))
        window, summaries = measured.window, measured.summaries
        _, frame = measured.size_of([measured.entry(item, None) for item in summaries], None)
        messages = window.tokens - sum(row.tokens for row in window.summaries)
        separately = sum(item.tokens for item in summaries) + note_size(conversation, summaries, "tokens")
        return WindowNeed(window.messages, window.tokens + frame, messages + separately)


def holds_all(conversation: Conversation, budget: int) -> bool:
    """Return True if a window with this budget in tokens leaves nothing out and shortens nothing because of the budget."""
    need = needed(conversation)
    if need.tokens > budget or need.at_most < budget:
        return need.tokens <= budget
    window = assemble(conversation, budget)
    return not window.over_budget and LACKS_ROOM.isdisjoint(window.reasons)
