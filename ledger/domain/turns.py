"""Conversations cut into pieces that can be looked at together for what to remember: whole turns, up to a budget.

A turn is what a user said, and what the assistant answered to it. A piece is one append, and with a model one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ledger.domain.interaction import Interaction
from ledger.domain.message import Part
from ledger.domain.salience import is_salient

PIECE_TOKENS = 4_000  # of one piece, beyond which no further turn is begun (ours)
PIECE_LINES = 100  # messages of one piece (ours)
SCANNED = 2_000  # messages of any role that one piece passes over (ours)

EXTRACTED, EMPTY, NOT_SALIENT, SKIPPED, ASKED = "extracted", "empty", "not_salient", "skipped", "asked"
CONTENT = "content"  # the field of a message that has its own text


class Line(Struct, frozen=True, kw_only=True):
    """What somebody said, as it is looked at: the text of a message, or of a captured turn.

    ``position`` is that of the message (0 where a captured turn is no message), ``field`` where the text
    lies: "content", or with an ``interaction`` "prompt", "response" or "summary"; ``text_at`` is the position of the
    event that has it. ``channel`` is that through which it came in.
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


class Piece(Struct, frozen=True):
    """Lines to be looked at together, up to the position ``to``: "extracted" says that they are, "empty" that there are
    none, "not_salient" that no model need be asked. ``ended`` are the captured turns whose answers lie in the piece."""

    lines: tuple[Line, ...]
    why: str
    to: int
    ended: tuple[str, ...] = ()


def own_texts(content: str | None, parts: Sequence[Part], content_of: int) -> str:
    """What somebody says in a message: its texts, without what tools gave and were given."""
    if not parts:
        return content or ""
    texts = [part.get("text") or "" for part in parts if part["type"] == "text"]
    return "\n".join(text for text in ([content or ""] if content_of < 0 else []) + texts if text.strip())


def turns(lines: Iterable[Line]) -> list[list[Line]]:
    """The lines by turns: a user's line after another's answer begins one."""
    found: list[list[Line]] = []
    for line in lines:
        if not found or (line.role == "user" and found[-1][-1].role != "user"):
            found.append([])
        found[-1].append(line)
    return found


def piece(lines: Sequence[Line], upto: int, *, whole: bool, model: bool, gate: bool = True) -> Piece:
    """The piece that begins with these lines. ``upto`` is how far was read, ``whole`` that there is nothing beyond.

    For a ``model`` the last turn of lines that were read in part is left for the next piece, unless it is all there is, and
    with the ``gate`` turns at the beginning that hold nothing to remember are a piece of their own.
    """
    if not lines:
        return Piece((), EMPTY, upto)
    found = turns(lines)
    kept = found if whole or len(found) == 1 or not model else found[:-1]
    why = EXTRACTED
    if model and gate:
        idle = next((at for at, turn in enumerate(kept) if _tells(turn)), len(kept))
        kept, why = (kept[:idle], NOT_SALIENT) if idle else (kept, EXTRACTED)
    taken = tuple(line for turn in kept for line in turn)
    everything = len(taken) == len(lines)
    ended = tuple(dict.fromkeys(line.interaction for line in taken if line.interaction and line.field == "response"))
    return Piece(taken, why, upto if everything else taken[-1].position, ended)


def _tells(turn: Sequence[Line]) -> bool:
    return is_salient(line.text for line in turn if line.role == "user")


def of_interaction(state: Interaction, texts: dict[str, str | None]) -> list[Line]:
    """A captured turn as lines, in the order in which it was said."""
    places = {"prompt": state.prompt_at, "response": state.response_at, "summary": state.response_at}
    return [
        Line(
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
