"""The wish of a user that something is forgotten, without a model: the words leave the prompt until a person decides.

The messages from the last one of the user before the wish up to the wish go into quarantine, and so do the memories that come
from them. These stand in ``review`` as contradicted by a ``wish``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ledger.core.work import Work
from ledger.english.foreign import foreign
from ledger.english.wishes import WISHES, wishes_to_forget
from ledger.events import LEDGER_STREAM, Denied, ReinforcementEvaluated, TextQuarantined
from ledger.extraction.lines import ConversationLine
from ledger.interactions import rules as interaction_rules
from ledger.interactions.rules import InteractionState
from ledger.memories import rules as memory_rules
from ledger.memories.state import MemoryState
from projections.views import memories, quarantine, sessions

WISH = "wish"  # the kind of denial by which a user's wish stands against a memory
LOOKED_BACK = 20  # the most messages before the wish that are looked at (our own choice)


def is_wish(line: ConversationLine) -> bool:
    """Return True if a line is the user's own wish that something is forgotten."""
    own = line.role == "user" and line.channel == "user"
    return own and wishes_to_forget(line.text) and not foreign(line.text)


def heed(work: Work, session: int, lines: Sequence[ConversationLine]) -> None:
    """Take each wish of some lines, and what it speaks of, out of the prompt until a person decides."""
    for line in lines:
        if not is_wish(line):
            continue
        spoken = list(_spoken_of(work, session, line))
        turns = [turn for row in spoken if (turn := _turn_of(work, row)) is not None]
        for at in sorted({at for row in spoken for at in _texts_of(work, row)}):
            if not quarantine.held(work.rows, at):
                work.emit(LEDGER_STREAM, TextQuarantined(at, WISH, WISHES))
        for memory in _from(work, spoken):
            for event in memory_rules.decide(memory_rules.QuarantineMemory("", WISH, WISHES), memory):
                work.emit(memory.id, event, first=memory.row)
            if turns:
                denied = ReinforcementEvaluated(interaction_rules.HANDED_IN, 0, denied=(Denied(memory.id, WISH),))
                for event in interaction_rules.decide(interaction_rules.RecordReinforcement(denied), turns[0]):
                    work.emit(turns[0].id, event, first=turns[0].row)


def _spoken_of(work: Work, session: int, wish: ConversationLine) -> Iterator[sessions.MessageRow]:
    """Yield the message with a wish and the messages before it, up to the last one of the user, the newest first."""
    connection = work.connection()
    gone = [(part.first, part.last) for part in sessions.hidden(connection, session)]
    for number, row in enumerate(sessions.backwards(connection, session, (*gone, (wish.position + 1, 2**62)))):
        yield row
        if number == LOOKED_BACK or (number and row.role == "user"):
            return


def _turn_of(work: Work, row: sessions.MessageRow) -> InteractionState | None:
    turn: InteractionState | None = work.find(row.interaction, "i") if row.interaction is not None else None
    return turn if turn is not None and turn.extraction != interaction_rules.ERASED else None


def _texts_of(work: Work, row: sessions.MessageRow) -> Iterator[int]:
    """Yield the positions of the events with the text of a message."""
    yield row.row
    if (turn := _turn_of(work, row)) is not None:
        at = turn.prompt_at if row.field == "prompt" else turn.response_at
        if at is not None:
            yield at


def _from(work: Work, spoken: Sequence[sessions.MessageRow]) -> Iterator[MemoryState]:
    """Yield the active memories that were found in some messages."""
    work.rows.flush()
    positions, rows = {row.row for row in spoken}, set[int]()
    session = work.session
    turns = [row.interaction for row in spoken if row.interaction is not None]
    sources: list[str] = sorted({*turns, session} if session is not None else {*turns})
    for _, found in memories.citing(work.connection(), sources, sorted(positions)):
        memory: MemoryState | None = work.at_row(found.row, "m")
        if memory is None or memory.status != "active" or memory.row in rows:
            continue
        if memory.origin is None or not memory.origin.position or memory.origin.position in positions:
            rows.add(memory.row)
            yield memory
