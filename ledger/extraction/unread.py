"""The turns that no model has read, of sessions and captured ones, in the order of time over the sessions of a project.

A turn that only rules have read counts as unread. A reading takes whole turns on a snapshot, as far as a budget of tokens
reaches. A token names the ranges of each session, the captured turns and the facts that were shown. The same reading can be taken
again from its token, in another process, as long as nothing in it changed.
"""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice, pairwise

import msgspec
from msgspec import Struct

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.reads import NOWHERE, id_of_filter, load, read_messages, scope_of
from ledger.domain import spans, times
from ledger.domain.errors import ConflictError, RejectedError
from ledger.domain.text import check_text
from ledger.domain.tokens import MESSAGE_TOKENS, estimate
from ledger.extraction.lines import ConversationLine, is_worth_asking
from ledger.extraction.pieces import lines_of
from ledger.extraction.turns import turn_lines
from ledger.interactions.rules import InteractionState
from ledger.sessions import reading
from ledger.sessions.conversation import Conversation
from ledger.sessions.rules.session import SessionState as State
from projections.core.rows import Connection
from projections.views import erasures, interactions, projects, sessions

UNREAD_DAYS = (
    "90d"  # older turns are read only if a caller asks for them: a file may hold years that nobody wants to pay for
)
READ_MESSAGES = 2_000  # the most messages that one reading passes over
TOKEN_BYTES = 256 * 1024  # of the token of the largest reading, 2,000 messages each in a session of its own
LINE_TOKENS = 2_500  # about the most tokens of one line in a prompt, which is cut in the middle
PREFIX = "u"  # of a token; without it one of 64 would begin with "-", as an option of a command does
HEAD_TOKENS = 12  # about the tokens of a line's number, role and time

Ranges = tuple[tuple[int, int], ...]


class UnreadFilter(Struct, frozen=True, kw_only=True):
    """The turns that are searched: of a project, of a session (a name or id), since a stored time; None for all.

    Without ``since`` the turns of the last 90 days are searched.
    """

    project: str | None = None
    session: str | None = None
    since: str | None = None


class UnreadTurn(Struct, frozen=True):
    """A turn that no model has read.

    Attributes:
        time: The time of its first message.
        rows: The positions of its messages; the row of a captured turn that is no message of a session.
        session: The row of the session, or 0 for a captured turn that is no message of a session.
    """

    time: str
    rows: tuple[int, ...]
    session: int


class TurnRead(Struct, frozen=True):
    """A turn, and its lines; a turn without anything to remember has none."""

    turn: UnreadTurn
    lines: tuple[ConversationLine, ...]


class UnreadReading(Struct, frozen=True):
    """A reading as its token names it.

    Attributes:
        project: The id of the project; None for no project.
        sessions: The row of each session, with the ranges of positions that are covered.
        captured: The rows of the captured turns that are no messages.
        facts: The rows of the memories that were shown, in the order of their numbers.
        erased: The position of the last erasure when the reading was taken.
        check: A checksum of the places of the lines.
    """

    project: str | None
    sessions: tuple[tuple[int, Ranges], ...]
    captured: tuple[int, ...]
    facts: tuple[int, ...] = ()
    erased: int = 0
    check: int = 0


def places_of(turns_read: Iterable[TurnRead]) -> int:
    """Return a checksum of the places of the lines, which changes if a line is hidden, erased or held."""
    places = [(line.position, line.text_at, line.field) for read in turns_read for line in read.lines]
    return zlib.crc32(msgspec.json.encode(places))


# --- choosing -----------------------------------------------------------------------------------------------------------


def scope_asked(engine: Engine, connection: Connection, user: str, asked: UnreadFilter) -> sessions.UnreadScope | None:
    """Return the scope of a filter; None if no session has the name."""
    since = times.since("since", UNREAD_DAYS, engine.now()) if asked.since is None else asked.since
    session = None
    if asked.session is not None:
        id = id_of_filter(connection, user, "s", asked.session)
        state: State | None = load(connection, id, "s", user) if id is not None and id != NOWHERE else None
        if state is None:
            return None
        session = state.row
    return sessions.UnreadScope(
        user=user, projects=scope_of(connection, user, asked.project), session=session, since=since
    )


def unread_turns(
    engine: Engine, connection: Connection, scope: sessions.UnreadScope, ranges: Ranges | None = None
) -> list[UnreadTurn]:
    """Return the turns that no model has read, in the order of time; those of sessions that patterns keep out are left out.

    With ``ranges`` only the messages at these positions count.
    """
    open_turns: dict[int, list[sessions.UnreadMessage]] = {}
    ended: list[list[sessions.UnreadMessage]] = []
    for message in sessions.unread_by_model(connection, scope):
        if ranges is not None and not any(first <= message.row <= last for first, last in ranges):
            continue
        turn = open_turns.get(message.session)
        if turn is None or (message.role == "user" and turn[-1].role != "user"):
            turn = open_turns[message.session] = []
            ended.append(turn)
        turn.append(message)
    kept_out = {row for row in open_turns if _is_kept_out(engine, connection, row)}
    found = [
        UnreadTurn(turn[0].time, tuple(message.row for message in turn), turn[0].session)
        for turn in ended
        if turn[0].session not in kept_out
    ]
    if ranges is None:
        session = sessions.get(connection, scope.session) if scope.session is not None else None
        id = session.id if session is not None else None
        states = interactions.unread_by_model(
            connection, scope.user, projects=scope.projects, session=id, since=scope.since
        )
        found += [UnreadTurn(state.time, (state.row,), 0) for state in states]
        found.sort(key=lambda turn: (turn.time, turn.rows))
    return found


def _is_kept_out(engine: Engine, connection: Connection, row: int) -> bool:
    state = sessions.get(connection, row)
    return state is None or bool(engine.keeps_out(*state.names))


def project_of(connection: Connection, turn: UnreadTurn) -> str | None:
    """Return the id of the project of a turn, the one that its project is joined to first."""
    state = (
        sessions.get(connection, turn.session) if turn.session else interactions.FAMILY.get(connection, turn.rows[0])
    )
    return projects.main(connection, state.project) if state is not None else None


def take(engine: Engine, asker: Who, turns: Sequence[UnreadTurn], budget: int, *, gate: bool) -> list[TurnRead]:
    """Return the first turns with their lines, as many as the budget of tokens holds.

    A first turn that is larger than the budget is read up to the first line that does not fit.
    """
    taken, left, messages = list[TurnRead](), budget, 0
    for turn in turns:
        messages += len(turn.rows)
        if messages > READ_MESSAGES and taken:
            break
        lines = lines_in(engine, asker, turn, gate=gate)
        costs = [tokens_of(line) for line in lines]
        if sum(costs) > left:
            if not any(read.lines for read in taken):
                fitting = max(1, sum(total <= left for total in accumulate(costs)))
                taken.append(_cut(turn, lines, fitting))
            break
        left -= sum(costs)
        taken.append(TurnRead(turn, lines))
    return taken


def _cut(turn: UnreadTurn, lines: tuple[ConversationLine, ...], fitting: int) -> TurnRead:
    """Return the beginning of a turn; a captured turn is never divided."""
    if not turn.session or fitting >= len(lines):
        return TurnRead(turn, lines)
    last = lines[fitting - 1].position
    kept = tuple(row for row in turn.rows if row <= last)
    return TurnRead(UnreadTurn(turn.time, kept, turn.session), lines[:fitting])


def tokens_of(line: ConversationLine) -> int:
    return min(estimate(line.text), LINE_TOKENS) + MESSAGE_TOKENS + HEAD_TOKENS


def lines_in(engine: Engine, asker: Who, turn: UnreadTurn, *, gate: bool) -> tuple[ConversationLine, ...]:
    """Return the lines of a turn; none if its texts are held or erased, or with the ``gate`` if it has nothing to remember."""
    with engine.reading() as connection:
        lines = tuple(_lines(engine, connection, asker, turn))
    return lines if not gate or is_worth_asking(lines) else ()


def _lines(engine: Engine, connection: Connection, asker: Who, turn: UnreadTurn) -> Iterator[ConversationLine]:
    if not turn.session:
        state: InteractionState | None = interactions.FAMILY.get(connection, turn.rows[0])
        yield from turn_lines(connection, state) if state is not None else ()
        return
    session = sessions.get(connection, turn.session)
    if session is None:
        return
    conversation = Conversation(engine, asker, session.id)
    for row, event in read_messages(connection, turn.session, [(row, row) for row in turn.rows]):
        texts = reading.texts_of(conversation, connection, row, event)
        options = {"model": True, "gate": True, "by_itself": True, "rules": False}
        yield from lines_of(conversation, connection, row, texts, **options)


# --- what a reading covers ----------------------------------------------------------------------------------------------


def covered(
    connection: Connection, scope: sessions.UnreadScope, turns: Sequence[UnreadTurn], taken: Sequence[TurnRead]
) -> tuple[tuple[tuple[int, Ranges], ...], tuple[int, ...]]:
    """Return the ranges of each session and the captured turns that the ``taken`` turns cover.

    A range reaches over everything between its messages that nobody has to read, such as messages of tools, but over no unread
    message that was not taken, and over none that is too old to be read.
    """
    rows = {row for read in taken for row in read.turn.rows if read.turn.session}
    open_rows: dict[int, list[int]] = {}
    for turn in turns:
        if turn.session:
            open_rows.setdefault(turn.session, []).extend(turn.rows)
    found: list[tuple[int, Ranges]] = []
    for session in dict.fromkeys(read.turn.session for read in taken if read.turn.session):
        left = sorted(row for row in open_rows[session] if row not in rows)
        own = sorted(row for row in open_rows[session] if row in rows)
        begin = sessions.unread_before(connection, session, own[0], scope.since)
        bounds = [(max([begin, *(other for other in left if other < row)]) + 1, row) for row in own]
        found.append((session, spans.joined(bounds)))
    captured = tuple(read.turn.rows[0] for read in taken if not read.turn.session)
    return tuple(found), captured


def again(engine: Engine, asker: Who, reading_named: UnreadReading, *, gate: bool) -> list[TurnRead] | None:
    """Return the turns of a reading with their lines, read again; None if something in it changed since it was taken."""
    with engine.reading() as connection:
        if erasures.last(connection) != reading_named.erased:
            return None
        turns = list[UnreadTurn]()
        for row, ranges in reading_named.sessions:
            scope = sessions.UnreadScope(user=asker.user, session=row)
            turns += unread_turns(engine, connection, scope, ranges)
        states = [interactions.FAMILY.get(connection, row) for row in reading_named.captured]
        turns += [
            UnreadTurn(state.time, (state.row,), 0)
            for state in states
            if state is not None and is_unread(state, asker.user)
        ]
    turns.sort(key=lambda turn: (turn.time, turn.rows))
    read = [TurnRead(turn, lines_in(engine, asker, turn, gate=gate)) for turn in turns]
    return read if places_of(read) == reading_named.check else None


def is_unread(state: InteractionState | None, user: str) -> bool:
    if state is None or state.user != user or state.extraction not in ("pending", "done", "failed"):
        return False
    return not state.extractor or state.extractor.startswith(interactions.BY_RULES)


# --- the token ----------------------------------------------------------------------------------------------------------


class _Packed(Struct, frozen=True, array_like=True):
    """A reading whose rows and positions are differences, which are small: a model has to repeat the token letter for letter."""

    project: str | None
    rows: tuple[int, ...]  # of the sessions
    ranges: tuple[int, ...]  # the number of ranges of each session
    firsts: tuple[int, ...]  # of all ranges
    lasts: tuple[int, ...]
    captured: tuple[int, ...]
    facts: tuple[int, ...]
    erased: int
    check: int


def _differences(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(after - before for before, after in pairwise((0, *numbers)))


def _packed(taken: UnreadReading) -> _Packed:
    return _Packed(
        project=taken.project,
        rows=_differences(row for row, _ in taken.sessions),
        ranges=tuple(len(ranges) for _, ranges in taken.sessions),
        firsts=_differences(first for _, ranges in taken.sessions for first, _ in ranges),
        lasts=_differences(last for _, ranges in taken.sessions for _, last in ranges),
        captured=_differences(taken.captured),
        facts=_differences(taken.facts),
        erased=taken.erased,
        check=taken.check,
    )


def _unpacked(data: bytes) -> UnreadReading:
    found = msgspec.msgpack.decode(data, type=_Packed)
    bounds = zip(accumulate(found.firsts), accumulate(found.lasts), strict=True)
    ranges = [tuple(islice(bounds, count)) for count in found.ranges]
    return UnreadReading(
        project=found.project,
        sessions=tuple(zip(accumulate(found.rows), ranges, strict=True)),
        captured=tuple(accumulate(found.captured)),
        facts=tuple(accumulate(found.facts)),
        erased=found.erased,
        check=found.check,
    )


def token_of(taken: UnreadReading, sign: Callable[[bytes], bytes]) -> str:
    """Return the token of a reading: the reading as bytes, with a keyed digest, in the letters of a URL."""
    data = msgspec.msgpack.encode(_packed(taken))
    return PREFIX + urlsafe_b64encode(sign(data)[:8] + data).decode().rstrip("=")


def reading_of(token: object, sign: Callable[[bytes], bytes]) -> UnreadReading:
    """Return the reading that a token names.

    Raises:
        RejectedError: The text is no token of this user of this ledger.
    """
    text = check_text("token", token, max_bytes=TOKEN_BYTES).strip()
    try:
        letters = text.removeprefix(PREFIX)
        data = urlsafe_b64decode(letters + "=" * (-len(letters) % 4))
        if text.startswith(PREFIX) and sign(data[8:])[:8] == data[:8]:
            return _unpacked(data[8:])
    except (ValueError, msgspec.DecodeError):
        pass
    raise RejectedError(
        f"{text!r:.40} is no token of a reading; pass the token of unread() unchanged, to the same user of the same ledger",
        rule="token",
    )


def moved() -> ConflictError:
    return ConflictError(
        "what was read changed meanwhile: its messages were read, hidden, held or erased; call unread() again"
    )
