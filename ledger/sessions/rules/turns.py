"""The turns among the messages of a list: a prompt of the user, and the answer to it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ledger.extraction.lines import own_texts
from ledger.sessions.rules.message import Draft, calls


class TurnPlace(Struct, frozen=True):
    """The part that a message is of a turn: ``field`` is "prompt" or "response".

    ``turn`` is the number of the turn among those that begin in the list, or -1 for a turn that began before the list.
    """

    field: str
    turn: int


def places(drafts: Sequence[Draft]) -> list[TurnPlace | None]:
    """Return for each message its place in a turn; None if it is neither a prompt nor a response.

    A text of a user begins a turn. The first answer that calls no tool ends the turn.
    """
    result, turn, is_open = list[TurnPlace | None](), -1, True
    for draft in drafts:
        place = None
        if draft.role == "user" and says(draft):
            turn, is_open = turn + 1, True
            place = TurnPlace("prompt", turn)
        elif is_open and draft.role == "assistant" and says(draft) and not calls(draft.parts):
            is_open, place = False, TurnPlace("response", turn)
        result.append(place)
    return result


def says(draft: Draft) -> bool:
    """Return True if the content of a message is a text of its author, and not the result of a tool."""
    if not draft.parts:
        return bool(draft.content.strip())
    part = draft.content_of
    is_own = part < 0 or draft.parts[part]["type"] == "text"
    return is_own and bool(draft.content.strip()) and bool(own_texts(draft.content, draft.whole_parts, part).strip())
