"""The next piece of a session: the messages after the cursor that are searched together.

A piece is read on a snapshot. Before its findings are recorded, ``is_as_read`` checks that the piece is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.reads import load, read_messages, texts_at
from ledger.core.work import Work
from ledger.english.extractor import EXTRACTOR
from ledger.english.salience import GATES
from ledger.extraction import lines as turns
from ledger.extraction.asking import is_quarantined
from ledger.extraction.lines import PIECE_LINES, PIECE_TOKENS, SCANNED, ConversationLine, ConversationPiece
from ledger.interactions.rules import ERASED, InteractionState
from ledger.sessions import reading
from ledger.sessions.conversation import Conversation
from ledger.sessions.reading import MessageTexts
from ledger.sessions.rules.message import whole_parts
from ledger.sessions.rules.session import EXTRACTED_ROLES
from ledger.sessions.rules.session import SessionState as State
from projections.core.rows import Connection
from projections.views import erasures, sessions
from projections.views.interactions import BY_RULES


class PieceRead(Struct, frozen=True):
    """A piece as it was read: the session's state, the messages, and the position of the last erasure at that time."""

    state: State
    start: int
    piece: ConversationPiece
    rows: tuple[int, ...]
    erased: int
    gate: bool


def read_piece(
    conversation: Conversation,
    *,
    model: bool,
    gate: bool,
    by_itself: bool,
    start: int | None = None,
    until: int = 2**62,
) -> PieceRead | None:
    """Return the next piece after the cursor, or after ``start``; None after the last piece up to ``until``.

    Without the ``gate``, a captured turn that the gate closed is searched again. ``by_itself`` is True for a search that no
    person asked for, which does not repeat a search that was undone.
    """
    with conversation.engine.reading() as connection:
        state = conversation.needed(conversation.state(connection))
        start = state.cursor if start is None else start
        if by_itself:
            start = max(start, sessions.looked_upto(connection, state.row))
        end = min(state.extractable_at, until)
        if end <= start:
            return None
        lines, rows, tokens, scanned, upto, whole = list[ConversationLine](), list[int](), 0, 0, start, True
        for row, event in read_messages(connection, state.row, visible(connection, state.row, start, until)):
            if scanned >= SCANNED or len(rows) >= PIECE_LINES or (tokens + row.tokens > PIECE_TOKENS and rows):
                whole = False
                break
            scanned, upto = scanned + 1, row.row
            if row.role in EXTRACTED_ROLES:
                rows.append(row.row)
                tokens += row.tokens
                texts = reading.texts_of(conversation, connection, row, event)
                lines += lines_of(conversation, connection, row, texts, model=model, gate=gate, by_itself=by_itself)
        to = max(upto, end) if whole else upto
        piece = turns.piece(lines, to, whole=whole, model=model, gate=gate)
        covered = tuple(row_read for row_read in rows if row_read <= piece.to)
        return PieceRead(state, start, piece, covered, erasures.last(connection), gate)


def is_as_read(work: Work, state: State, read: PieceRead) -> bool:
    """Return True if a piece is unchanged since it was read: the cursor, its messages, their texts and captured turns."""
    connection = work.connection()
    if state.cursor != read.state.cursor or erasures.last(connection) != read.erased:
        return False
    spans = visible(connection, state.row, read.start, read.piece.to)
    there = [row for row in sessions.within(connection, state.row, spans) if row.role in EXTRACTED_ROLES]
    if tuple(row.row for row in there) != read.rows:
        return False
    for line in read.piece.lines:
        turn = work.find(line.interaction, "i") if line.interaction is not None else None
        if line.interaction is not None and (
            turn is None or not _is_open(turn, line.field, gate=read.gate, rules=True)
        ):
            return False
        if is_quarantined(connection, (line.position, line.text_at)):
            return False
    return True


def lines_of(
    conversation: Conversation,
    connection: Connection,
    row: sessions.MessageRow,
    texts: MessageTexts,
    *,
    model: bool,
    gate: bool,
    by_itself: bool,
    rules: bool = True,
) -> Iterator[ConversationLine]:
    """Yield the lines of a message, unless it lies in quarantine or its captured turn was already searched.

    With ``by_itself`` a search of the turn that was undone counts as a search too. Without ``rules`` a search by rules does not
    count.
    """
    turn: InteractionState | None = None
    if row.interaction is not None:
        turn = load(connection, row.interaction, "i", conversation.user)
        if turn is None or not _is_open(turn, row.field or "", gate=gate, rules=rules):
            return
        if by_itself and turn.extraction == "undone":
            return
    line = line_of(row, texts, turn)
    if is_quarantined(connection, (line.position, line.text_at)):
        return
    if line.text.strip():
        yield line
    if turn is not None and line.field == "response" and not model:
        summary = texts_at(connection, turn.response_at, "summary")["summary"]
        if summary and summary.strip():
            yield replace(line, field="summary", text=summary)


def line_of(row: sessions.MessageRow, texts: MessageTexts, turn: InteractionState | None) -> ConversationLine:
    """Return the line of a message, whose captured turn is ``turn``."""
    data = texts.event.data
    text = turns.own_texts(texts.content, whole_parts(data.parts, texts.content, data.content_of), data.content_of)
    places = {"prompt": turn.prompt_at, "response": turn.response_at} if turn is not None else {}
    return ConversationLine(
        position=row.row,
        text_at=places.get(row.field or "") or row.row,
        role=row.role,
        text=text,
        time=row.time,
        tokens=row.tokens,
        field=row.field or turns.CONTENT,
        interaction=row.interaction,
        speaker=texts.event.data.speaker or "",
        channel=texts.event.envelope.channel,
    )


def visible(connection: Connection, session: int, after: int, upto: int) -> list[tuple[int, int]]:
    """Return the ranges of a session's positions after ``after``, up to ``upto``, in which nothing is hidden."""
    gone = [(span.first, span.last) for span in sessions.hidden(connection, session)]
    return sorted(sessions.besides(gone, (after + 1, upto)))


def _is_open(turn: InteractionState, field: str, *, gate: bool, rules: bool) -> bool:
    """Return True if a message of a captured turn is still to be searched; the extractor rules/1 searches answers only.

    Without ``rules`` a search by rules does not count.
    """
    if turn.extraction in (ERASED, "off"):
        return False
    if turn.extraction != "done" or (not rules and turn.extractor.startswith(BY_RULES)):
        return True
    return (field == "prompt" and turn.extractor == EXTRACTOR) or (not gate and turn.extractor.startswith(GATES))


def is_left_to_session(connection: Connection, turn: InteractionState) -> bool:
    """Return True if the answer of a captured turn is a message that is still to be searched as part of its session."""
    sql = "SELECT session, row FROM messages WHERE interaction = ? AND field = 'response'"
    for session, row in connection.execute(sql, (turn.id,)).fetchall():
        state = sessions.get(connection, session)
        upto = max(state.cursor, sessions.looked_upto(connection, session)) if state is not None else row
        if row > upto and visible(connection, session, row - 1, row):
            return True
    return False
