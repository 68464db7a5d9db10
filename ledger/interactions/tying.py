"""The messages that tie a captured turn to its session: a message refers to the interaction, which holds the text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ledger.core.work import Work
from ledger.events import MessageAppended
from ledger.interactions.rules import InteractionState
from ledger.sessions.rules.message import Draft
from projections.views.sessions import MESSAGES

if TYPE_CHECKING:
    from ledger.domain.tokens import Counter

ROLES = {"prompt": "user", "response": "assistant"}


class TiedTurn:
    """The messages for a prompt, a response or both; their tokens are counted before the writer's lock is taken."""

    def __init__(self, counter: Counter, keeps_out: Callable[..., str], prompt: str = "", response: str = "") -> None:
        self.counter = counter
        self._keeps_out = keeps_out
        fields = (("prompt", prompt), ("response", response))
        self._tokens = {
            field: counter.of_message(*Draft(ROLES[field], text).read) for field, text in fields if text.strip()
        }

    def emit(self, work: Work, interaction: str) -> None:
        """Append the messages to the session of the command, unless the session's name matches a pattern that keeps it out."""
        assert work.session is not None
        state = work.find(work.session, "s")
        if state is not None and self._keeps_out(*(name for name in (state.name, *state.aliases) if name is not None)):
            return
        for field, tokens in self._tokens.items():
            data = MessageAppended(ROLES[field], tokens, self.counter.name, interaction=interaction, field=field)
            work.emit(work.session, data, first=state.row if state is not None else 0)


def is_tied(work: Work, interaction: InteractionState) -> bool:
    """Return True if the prompt of an interaction is a message of its session."""
    if interaction.session is None:
        return False
    return bool(work.rows.find(MESSAGES, ("interaction",), (interaction.id,)))
