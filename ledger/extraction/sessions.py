"""Extraction from conversations: piece by piece behind a cursor, by a model that is asked outside of any lock, or by rules.

What is to be looked at is read on a snapshot. Under the lock it is read again: where messages were hidden, texts erased or the
cursor moved meanwhile, nothing that depends on them is recorded. A piece is one append: the memories, what they replace, the
call that found them, and the cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ledger import answers
from ledger.domain import interaction as interactions_domain
from ledger.domain import turns
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.events import (
    CandidatesExtracted,
    Dropped,
    ExtractionCursorMoved,
    ExtractionFailed,
)
from ledger.domain.extraction import EXTRACTOR, Extracted, Extraction
from ledger.domain.extraction import Dropped as Passed
from ledger.domain.interaction import ERASED, Interaction
from ledger.domain.salience import GATE
from ledger.domain.session import EXTRACTED_ROLES
from ledger.domain.session import Session as State
from ledger.domain.turns import ASKED, EXTRACTED, NOT_SALIENT, PIECE_LINES, PIECE_TOKENS, SCANNED, SKIPPED, Line, Piece
from ledger.engine.log_reading import read_messages, read_stream
from ledger.engine.snapshot import answer_texts, load
from ledger.engine.work import Who, Work
from ledger.extraction.asking import (
    LEASE_SECONDS,
    Answered,
    Asker,
    ExtractionRun,
    Unanswered,
    check_call,
    count,
    emit_failure,
    is_quarantined,
    meant_model,
    proposed,
    record_call,
    record_unread,
)
from ledger.language.asking import check_outside, check_trusted
from ledger.language.port import Model
from ledger.memories.queries import memories_shown
from ledger.policies import turns as found_in
from ledger.policies.extraction import finding
from ledger.policies.turns import MODEL_EXTRACTOR, Batch
from ledger.sessions import reading, writing
from ledger.sessions.answers import SessionInfo
from ledger.sessions.conversation import Conversation
from ledger.sessions.reading import MessageTexts
from ledger.store.lease import Lease, leased
from ledger.types import Cancel
from projections.core.rows import Connection
from projections.views import erasures, sessions

PIECES = 10_000  # of one call that was asked for
FAILURES = 3  # attempts that a session makes by itself before it waits for something new to be said
MOVED = 3  # times that a piece is begun again because something changed meanwhile
BRANCH_MESSAGES = 100_000  # compared at the most, where a branch begins


class _Read(Struct, frozen=True):
    """A piece as it was read: behind which cursor, from which messages, and when something was last erased."""

    state: State
    start: int
    piece: Piece
    rows: tuple[int, ...]
    erased: int


def extract(
    conversation: Conversation,
    asker: Who,
    *,
    using: str | None = None,
    model: Any = None,
    since: int | None = None,
    timeout: float | None = None,
    cancelled: Cancel | None = None,
) -> answers.ExtractionReport:
    """Looks at what was said since the last time, in the order in which it was recorded, for what to remember.

    A model (``model``, or the ledger's) is asked once for each few turns, up to 4,000 tokens of them, unless their user
    lines hold nothing to remember; without one, and with ``using="rules"``, the extraction rules look at the messages.
    What is found are candidates, unless the policy says ``extracted="active"``; what the assistant alone said, and what
    came in through web, tool or file, always is. Each piece is one append with the cursor behind it. Where the model
    fails the cursor stays, and the report says why in ``failure``. ``since`` goes back to a position first: what lies
    behind it is looked at again. ``timeout`` is in seconds, of one attempt; None for what the settings say, or 60. Hidden
    messages and those of tools are passed over.

    ``RejectedError`` inside a batch with a model, with a key (asked again it goes on), and for a ``since`` behind the cursor.
    """
    meant = meant_model(conversation.engine, using, model)
    if asker.key is not None:
        raise RejectedError(
            "the extraction of a session has no idempotency_key: called again it goes on from its cursor"
        )
    check_call(timeout, cancelled)
    if meant is not None:
        check_outside(conversation.writer)
    if conversation.kept_out:
        return answers.ExtractionReport(session=conversation.name, extractor="", stopped=conversation.kept_out)
    if since is not None:
        _go_back(conversation, since, asker)
    with conversation.reading() as (_, state):
        if state is None:
            return answers.ExtractionReport(session=conversation.name, extractor=_extractor(meant))
    return _extraction_report(conversation, run_extraction(conversation, asker, meant, timeout, cancelled), meant)


def preview(
    conversation: Conversation,
    *,
    using: str | None = None,
    model: Any = None,
    timeout: float | None = None,
    cancelled: Cancel | None = None,
) -> answers.ExtractionReport:
    """What a model or the rules find behind the cursor, in ``dropped``; nothing is recorded, not even the calls."""
    meant = meant_model(conversation.engine, using, model)
    check_call(timeout, cancelled)
    with conversation.reading() as (_, state):
        start = state.cursor if state is not None else None
    done, failure = ExtractionRun(dropped=[]), ""
    while start is not None and (
        read := _read_piece(conversation, gate=meant is not None, by_itself=False, start=start)
    ):
        start, done.messages = read.piece.to, done.messages + len(read.rows)
        if meant is None:
            done.dropped += _found(read.piece.lines)
        elif read.piece.why != EXTRACTED:
            done.skipped += len(read.rows)
        else:
            done.calls += 1
            asker = Asker(conversation.engine, meant, conversation.user, read.state.project, timeout, cancelled)
            try:
                done.dropped += proposed(asker.ask(read.piece.lines))
            except Unanswered as failed:
                failure = failed.error.kind
                break
    return answers.ExtractionReport(
        session=conversation.name,
        extractor=_extractor(meant),
        dropped=tuple(done.dropped),
        messages=done.messages,
        skipped=done.skipped,
        calls=done.calls,
        failure=failure,
        stopped="cancelled" if failure == "Cancelled" else "",
        dry_run=True,
    )


def run_extraction(
    conversation: Conversation,
    asker: Who,
    model: Model | None,
    timeout: float | None = None,
    cancelled: Cancel | None = None,
    *,
    by_itself: bool = False,
    pieces: int = PIECES,
) -> ExtractionRun:
    if model is None:
        return Extractor(conversation, asker, by_itself=by_itself).run(pieces)
    with conversation.reading() as (_, state):
        work = f"extract {conversation.needed(state).id}"
    with leased(conversation.engine.store, work, LEASE_SECONDS) as lease:
        if lease is None:
            return ExtractionRun(stopped="under_way")
        return Extractor(conversation, asker, model, lease, timeout, cancelled, by_itself=by_itself).run(pieces)


def _extraction_report(
    conversation: Conversation, extracted: ExtractionRun, model: Model | None
) -> answers.ExtractionReport:
    with conversation.engine.reading() as connection:
        state = conversation.state(connection)
        found = [load(connection, id, "m", conversation.user) for id in extracted.kept]
        kept = memories_shown(connection, [each for each in found if each is not None])
    return answers.ExtractionReport(
        session=conversation.name,
        extractor=_extractor(model),
        kept=tuple(kept),
        dropped=tuple(extracted.dropped),
        superseded=tuple(extracted.superseded),
        relations=extracted.relations,
        messages=extracted.messages,
        skipped=extracted.skipped,
        calls=extracted.calls,
        failure=extracted.failure,
        stopped=extracted.stopped,
        cursor=state.cursor if state is not None else 0,
    )


# --- the cursor ------------------------------------------------------------------------------------------------


def _go_back(conversation: Conversation, since: int, asker: Who) -> None:
    if isinstance(since, bool) or not isinstance(since, int) or since < 0:
        raise RejectedError(f"since is the position of a message, 0 for the beginning, and {since!r:.40} is not")

    def body(work: Work) -> str:
        state = writing.known(conversation, work)
        if since > state.cursor:
            raise RejectedError(
                f"since={since} lies ahead of the cursor, which is at {state.cursor}: what lies between would be lost;"
                " skip_extraction(until=…) passes it over on purpose"
            )
        if since < max(state.cursor, sessions.looked_upto(work.connection(), state.row)):
            work.emit(state.id, ExtractionCursorMoved(state.cursor, since, ASKED), first=state.row)
        return state.id

    conversation.writer.run("session.extract", asker, body, (conversation.name, since))


def seed_extraction(
    conversation: Conversation, asker: Who, parent: str | None = None, up_to: int | None = None
) -> SessionInfo:
    """Passes over what this session has in common with the one that it branched off, for that is extracted there.

    With ``parent`` (a name or id) the cursor goes behind the messages that both begin with, compared by role and text;
    with ``up_to`` behind the message at that position, with both behind whichever comes first. It never goes back.
    ``RejectedError`` with neither, or for a position that is no message of this session; ``NotFoundError`` without
    such a parent.
    """
    if parent is None and up_to is None:
        raise RejectedError(
            "skip_extraction needs a parent (the session that this one branched off), or until (a position)"
        )
    writing.check_kept_in(conversation)
    with conversation.reading() as (connection, state):
        known = conversation.needed(state)
        to, source = known.extractable_at, None
        if up_to is not None:
            to = _own_message(connection, known, up_to)
        if parent is not None:
            source = _parent(conversation, connection, parent, known)
            to = min(to, _in_common(conversation, connection, known, source))

    def body(work: Work) -> str:
        current = writing.known(conversation, work)
        if to > current.cursor:
            moved = ExtractionCursorMoved(current.cursor, to, SKIPPED, parent=source.id if source is not None else None)
            work.emit(current.id, moved, first=current.row)
        return current.id

    conversation.writer.run("session.skip_extraction", asker, body, (conversation.name, parent, up_to))
    found = reading.get_info(conversation)
    if found is None:
        raise NotFoundError(f"the session {conversation.name!r:.60} was undone meanwhile")
    return found


def _own_message(connection: Connection, state: State, position: object) -> int:
    row = sessions.at_position(connection, position) if type(position) is int else None
    if row is None or row.session != state.row:
        raise RejectedError(f"until is the position of a message of this session, and {position!r:.40} is none")
    return row.row


def _parent(conversation: Conversation, connection: Connection, given: str, own: State) -> State:
    if not isinstance(given, str):
        raise RejectedError(f"a parent is the name or the id of a session, and {given!r:.40} is neither")
    other = Conversation(conversation.engine, conversation.who, given)
    found = other.found(connection)
    if found is None:
        raise NotFoundError(f"no session of this user is called {given!r:.60}")
    if found.id == own.id:
        raise RejectedError("a session cannot branch off itself: name the one that it was copied from")
    return found


def _in_common(conversation: Conversation, connection: Connection, own: State, parent: State) -> int:
    """The position of the last of the messages that both begin with; 0 without any."""
    to = 0
    pairs = zip(_spoken(conversation, connection, own), _spoken(conversation, connection, parent), strict=False)
    for number, (run_extraction, theirs) in enumerate(pairs):
        if run_extraction[1:] != theirs[1:] or number == BRANCH_MESSAGES:
            break
        to = run_extraction[0]
    return to


def _spoken(conversation: Conversation, connection: Connection, state: State) -> Iterator[tuple[int, str, str | None]]:
    gone = [(each.first, each.last) for each in sessions.hidden(connection, state.row)]
    for row, texts in reading.all_texts(conversation, connection, state.row, tuple(sorted(sessions.besides(gone)))):
        yield row.row, row.role, texts.content


# --- reading ---------------------------------------------------------------------------------------------------


def _read_piece(conversation: Conversation, *, gate: bool, by_itself: bool, start: int | None = None) -> _Read | None:
    """The next piece, behind the cursor or a ``start``; None where everything was looked at."""
    with conversation.engine.reading() as connection:
        state = conversation.needed(conversation.state(connection))
        start = state.cursor if start is None else start
        if by_itself:
            start = max(start, sessions.looked_upto(connection, state.row))
        if state.extractable_at <= start:
            return None
        lines, rows, tokens, scanned, upto, whole = list[Line](), list[int](), 0, 0, start, True
        for row, event in read_messages(connection, state.row, visible(connection, state.row, start, 2**62)):
            if scanned >= SCANNED or len(rows) >= PIECE_LINES or (tokens + row.tokens > PIECE_TOKENS and rows):
                whole = False
                break
            scanned, upto = scanned + 1, row.row
            if row.role in EXTRACTED_ROLES:
                rows.append(row.row)
                tokens += row.tokens
                lines += _lines(
                    conversation, connection, row, reading.texts_of(conversation, connection, row, event), gate=gate
                )
        piece = turns.piece(lines, max(upto, state.extractable_at) if whole else upto, whole=whole, gate=gate)
        covered = tuple(each for each in rows if each <= piece.to)
        return _Read(state, start, piece, covered, erasures.last(connection))


def _lines(
    conversation: Conversation, connection: Connection, row: sessions.Message, texts: MessageTexts, *, gate: bool
) -> Iterator[Line]:
    """What a message says, unless it lies in quarantine or its captured turn was looked at already."""
    text = turns.own_texts(texts.content, texts.parts, texts.event.data.content_of)
    turn: Interaction | None = None
    if row.interaction is not None:
        turn = load(connection, row.interaction, "i", conversation.user)
        if turn is None or not _is_open(connection, turn, row.field or ""):
            return
    places = {"prompt": turn.prompt_at, "response": turn.response_at} if turn is not None else {}
    line = Line(
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
    if is_quarantined(connection, (line.position, line.text_at)):
        return
    if text.strip():
        yield line
    if turn is not None and line.field == "response" and not gate:
        summary = answer_texts(connection, turn)["summary"]
        if summary and summary.strip():
            yield replace(line, field="summary", text=summary)


def _extractor(model: Model | None) -> str:
    return EXTRACTOR if model is None else MODEL_EXTRACTOR


def visible(connection: Connection, session: int, after: int, upto: int) -> list[tuple[int, int]]:
    """The ranges of a session's positions after one, up to another, in which nothing is hidden."""
    gone = [(each.first, each.last) for each in sessions.hidden(connection, session)]
    return sorted(sessions.besides(gone, (after + 1, upto)))


def _is_open(connection: Connection, turn: Interaction, field: str) -> bool:
    """Whether a message of a captured turn is still to be looked at. The rules look at answers only; a model reads both."""
    if turn.extraction == ERASED:
        return False
    if turn.extraction != "done":
        return True
    events = read_stream(connection, turn.id, turn.position)
    by = [event.data.extractor for event in events if isinstance(event.data, CandidatesExtracted)]
    return field == "prompt" and bool(by) and by[-1] == EXTRACTOR


def is_left_to_session(connection: Connection, turn: Interaction) -> bool:
    """Whether the answer of a captured turn is a message of a session that is still to be looked at there."""
    sql = "SELECT session, row FROM messages WHERE interaction = ? AND field = 'response'"
    for session, row in connection.execute(sql, (turn.id,)).fetchall():
        state = sessions.get(connection, session)
        upto = max(state.cursor, sessions.looked_upto(connection, session)) if state is not None else row
        if row > upto and visible(connection, session, row - 1, row):
            return True
    return False


def _found(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """What the rules find, each with the message that it is in."""
    found = found_in.by_rules(lines)
    finds: list[Extracted | Passed] = [*found.kept, *found.dropped]
    about = ((each, lines[int(each.field)]) for each in finds)
    return [finding(each) | {"field": line.field, "position": line.position} for each, line in about]


class Extractor:
    """One run over one session: piece after piece, until there is nothing more, something fails, or enough was done."""

    def __init__(
        self,
        session: Conversation,
        asker: Who,
        model: Model | None = None,
        lease: Lease | None = None,
        timeout: float | None = None,
        cancelled: Cancel | None = None,
        *,
        by_itself: bool,
    ) -> None:
        self.session, self.engine, self.asker = session, session.engine, asker
        self.model, self.lease, self.timeout, self.cancelled = model, lease, timeout, cancelled
        self.by_itself = by_itself
        self.done = ExtractionRun(kept=[], superseded=[], dropped=[])

    def run(self, pieces: int) -> ExtractionRun:
        moved = 0
        while self.done.pieces < pieces and not self.done.stopped and not self.done.failure:
            read = _read_piece(self.session, gate=self.model is not None, by_itself=self.by_itself)
            if read is None:
                return self.done
            if self._piece(read):
                moved = 0
                continue
            moved += 1
            if moved == MOVED:
                self.done.stopped = "moved"
        if self.done.pieces >= pieces:
            self.done.stopped = "enough"
        return self.done

    def _piece(self, read: _Read) -> bool:
        """Whether a piece was recorded; False where it was no longer what it had been."""
        if read.piece.why != EXTRACTED:
            return self._append(read, lambda work, state: self._passed_over(work, state, read))
        if self.model is None:
            found = found_in.by_rules(read.piece.lines)
            return self._append(read, lambda work, state: self._by_rules(work, state, read, found))
        return self._by_model(read, self.model)

    def _append(
        self, read: _Read, record: Callable[[Work, State], None], instead: Callable[[Work], None] | None = None
    ) -> bool:
        recorded = False
        before = replace(self.done, kept=[*self.done.kept])

        def body(work: Work) -> str:
            nonlocal recorded
            state = writing.known(self.session, work)
            recorded = is_as_read(work, state, read)
            if recorded:
                record(work, state)
            elif instead is not None:
                instead(work)
            return state.id

        try:
            self.session.writer.run("session.extract", self.asker, body)
        except BaseException:
            self.done = before
            raise
        if recorded:
            self.done.pieces += 1
            self.done.messages += len(read.rows)
        return recorded

    def _passed_over(self, work: Work, state: State, read: _Read) -> None:
        piece = read.piece
        gate = GATE if piece.why == NOT_SALIENT else ""
        work.emit(state.id, ExtractionCursorMoved(read.start, piece.to, piece.why, gate), first=state.row)
        close(work, piece.ended, gate or MODEL_EXTRACTOR, (), ())
        self.done.skipped += len(piece.lines)

    # --- by rules --------------------------------------------------------------------------------------------------

    def _by_rules(self, work: Work, state: State, read: _Read, found: Extraction) -> None:
        piece = read.piece
        injected = memories_used(work, piece.lines)
        kept, dropped = found_in.record_rules(work, piece.lines, found, sources_in(state.id), injected)
        ids, left_out = tuple(id for id, _ in kept), tuple(each for each, _ in dropped)
        moved = ExtractionCursorMoved(read.start, piece.to, EXTRACTED, EXTRACTOR, ids, left_out)
        work.emit(state.id, moved, first=state.row)
        close(work, piece.ended, EXTRACTOR, kept, dropped)
        self.done.kept += ids
        self.done.dropped += [_shown(each) for each in left_out]

    # --- by a model --------------------------------------------------------------------------------------------------

    def _by_model(self, read: _Read, model: Model) -> bool:
        lines = read.piece.lines
        if self.lease is not None and not self.lease.renew():
            self.done.stopped = "under_way"
            return True
        check_trusted(self.engine, self.asker, read.state.id)
        self.done.calls += 1
        asker = Asker(self.engine, model, self.session.user, read.state.project, self.timeout, self.cancelled)
        try:
            found = asker.ask(lines)
        except Unanswered as failed:
            self._failed(read, model, failed)
            return True
        return self._append(
            read,
            lambda work, state: self._apply(work, state, read, found),
            lambda work: record_unread(work, found, lines),
        )

    def _apply(self, work: Work, state: State, read: _Read, found: Answered) -> None:
        piece = read.piece
        batch = Batch(work, sources_in(state.id), memories_used(work, piece.lines))
        results = batch.apply(found.seen, found.relations, piece.lines)
        record_call(work, found, piece.lines, results, batch.cited)
        moved = ExtractionCursorMoved(read.start, piece.to, EXTRACTED, MODEL_EXTRACTOR)
        work.emit(state.id, moved, first=state.row)
        close(work, piece.ended, MODEL_EXTRACTOR, batch.of_line, ())
        count(self.done, batch, results, found)

    def _failed(self, read: _Read, model: Model, failed: Unanswered) -> None:
        """The cursor stays; the attempt counts, unless somebody called it off."""
        self.done.failure = failed.error.kind
        if failed.error.kind == "Cancelled":
            self.done.stopped = "cancelled"

        def body(work: Work) -> str:
            state = writing.known(self.session, work)
            emit_failure(work, model, failed, read.piece.lines)
            if failed.error.kind != "Cancelled":
                work.emit(state.id, ExtractionFailed(MODEL_EXTRACTOR, failed.error.kind), first=state.row)
            return state.id

        self.session.writer.run("session.extract", self.asker, body)


def is_as_read(work: Work, state: State, read: _Read) -> bool:
    """Whether a piece is still what it was when it was read: the cursor, its messages, their texts and captured turns."""
    connection = work.connection()
    if state.cursor != read.state.cursor or erasures.last(connection) != read.erased:
        return False
    spans = visible(connection, state.row, read.start, read.piece.to)
    there = [row for row in sessions.within(connection, state.row, spans) if row.role in EXTRACTED_ROLES]
    if tuple(row.row for row in there) != read.rows:
        return False
    for line in read.piece.lines:
        turn = work.find(line.interaction, "i") if line.interaction is not None else None
        if line.interaction is not None and (turn is None or not _is_open(connection, turn, line.field)):
            return False
        if is_quarantined(connection, (line.position, line.text_at)):
            return False
    return True


def sources_in(session: str) -> Callable[[Line], tuple[str, ...]]:
    """What a memory of a line cites: the captured turn that has its text, and the session."""
    return lambda line: (session,) if line.interaction is None else (line.interaction, session)


def memories_used(work: Work, lines: Sequence[Line]) -> list[str]:
    """The memories that were put before the model in the captured turns among some lines."""
    found: dict[str, None] = {}
    for id in dict.fromkeys(line.interaction for line in lines if line.interaction is not None):
        turn: Interaction | None = work.find(id, "i")
        found |= dict.fromkeys(turn.memories_used if turn is not None else ())
    return list(found)


def close(
    work: Work,
    ended: Sequence[str],
    extractor: str,
    kept: Sequence[tuple[str, Line]],
    dropped: Sequence[tuple[Dropped, Line]],
) -> None:
    """Captured turns whose answers were looked at as messages are done with."""
    for id in ended:
        turn: Interaction | None = work.find(id, "i")
        if turn is None or turn.extraction in ("done", ERASED):
            continue
        ids = tuple(memory for memory, line in kept if line.interaction == id)
        left_out = tuple(replace(each, position=0) for each, line in dropped if line.interaction == id)
        command = interactions_domain.RecordExtraction(CandidatesExtracted(extractor, ids, left_out))
        for event in interactions_domain.decide(command, turn):
            work.emit(turn.id, event, first=turn.row)


def _shown(dropped: Dropped) -> dict[str, Any]:
    names = ("rule", "field", "start", "end", "memory", "position")
    return {name: getattr(dropped, name) for name in names} | {"reason": dropped.why}
