"""Conversations cut into pieces in which memories are searched: whole turns, up to a budget.

A turn is a user's message with the assistant's answer. A piece is one append, and with a model one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ledger.interactions.rules import InteractionState
from ledger.sessions.rules.message import Part

PIECE_TOKENS = 4_000  # a piece of this size takes no further turn (our own choice)
PIECE_LINES = 100  # the most messages of a piece (our own choice)
SCANNED = 2_000  # the most messages of any role that are read for a piece (our own choice)

EXTRACTED, EMPTY, NOT_SALIENT, SKIPPED, ASKED = "extracted", "empty", "not_salient", "skipped", "asked"
CONTENT = "content"  # the field of a message with its own text


class ConversationLine(Struct, frozen=True, kw_only=True):
    """A statement to search for memories: the text of a message, or of a captured turn.

    ``position`` is that of the message (0 if a captured turn is not a message). ``field`` names the field with the text:
    "content", or with an ``interaction`` "prompt", "response" or "summary". ``text_at`` is the position of the event with the
    text. ``channel`` is the channel through which the text came in.
    """

    position: int
    text_at: int
    role: str
    text: str
    time: str
    tokens: int = 0
    field: str = CONTENT
    interaction: str | None = None
    speaker: str = ""
    channel: str = "user"


class ConversationPiece(Struct, frozen=True):
    """Lines to be searched together, up to the position ``to``.

    ``why`` is "extracted" (the lines are searched), "empty" (there are no lines) or "not_salient" (the lines hold nothing to
    remember, so no model is asked). ``ended`` are the captured turns whose answers lie in the piece.
    """

    lines: tuple[ConversationLine, ...]
    why: str
    to: int
    ended: tuple[str, ...] = ()


def own_texts(content: str | None, parts: Sequence[Part], content_of: int) -> str:
    """Return the texts of a message, without the requests to and results of tools."""
    if not parts:
        return content or ""
    texts = [part.get("text") or "" for part in parts if part["type"] == "text"]
    return "\n".join(text for text in ([content or ""] if content_of < 0 else []) + texts if text.strip())


def turns(lines: Iterable[ConversationLine]) -> list[list[ConversationLine]]:
    """Return the lines by turns: a user's line after another speaker's line begins a turn."""
    turn_lines: list[list[ConversationLine]] = []
    for line in lines:
        if not turn_lines or (line.role == "user" and turn_lines[-1][-1].role != "user"):
            turn_lines.append([])
        turn_lines[-1].append(line)
    return turn_lines


def piece(
    lines: Sequence[ConversationLine], upto: int, *, whole: bool, model: bool, gate: bool = True
) -> ConversationPiece:
    """Return the piece that begins with these lines.

    ``upto`` is the position up to which lines were read, and ``whole`` is True if there are no lines after it. If there are more
    lines, the last turn may be incomplete; for a ``model`` it is left for the next piece, unless it is the only turn. With the
    ``gate``, the turns at the beginning that hold nothing to remember are a piece of their own, which no model is shown.
    """
    if not lines:
        return ConversationPiece((), EMPTY, upto)
    all_turns = turns(lines)
    kept = all_turns if whole or len(all_turns) == 1 or not model else all_turns[:-1]
    why = EXTRACTED
    if model and gate:
        idle = next((at for at, turn in enumerate(kept) if is_worth_asking(turn)), len(kept))
        kept, why = (kept[:idle], NOT_SALIENT) if idle else (kept, EXTRACTED)
    piece_lines = tuple(line for turn in kept for line in turn)
    everything = len(piece_lines) == len(lines)
    ended = tuple(
        dict.fromkeys(line.interaction for line in piece_lines if line.interaction and line.field == "response")
    )
    return ConversationPiece(piece_lines, why, upto if everything else piece_lines[-1].position, ended)


def is_worth_asking(turn: Sequence[ConversationLine]) -> bool:
    from ledger.english.salience import is_salient  # compiles expressions, and no read needs them

    return is_salient(line.text for line in turn if line.role == "user")


def of_interaction(state: InteractionState, texts: dict[str, str | None]) -> list[ConversationLine]:
    """Return the lines of a captured turn, in the order in which they were said."""
    places = {"prompt": state.prompt_at, "response": state.response_at, "summary": state.response_at}
    return [
        ConversationLine(
            position=0,
            text_at=places[field] or state.prompt_at,
            role="user" if field == "prompt" else "assistant",
            text=text,
            time=state.time,
            field=field,
            interaction=state.id,
        )
        for field, text in texts.items()
        if text and text.strip()
    ]
