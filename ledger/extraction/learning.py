"""The reading of turns by an agent or application that has a model of its own, and the record of the answer that it hands in.

``unread`` gives the turns that no model has read, as the request that a configured model would get. ``learn`` takes the answer
through the same parsing, guards and admission as a model's answer, and records that the turns were read. Nothing is kept between
the two calls but a lease and the token.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.guarding import as_warnings
from ledger.core.reads import read_event
from ledger.core.work import Outcome, Work
from ledger.domain import spans
from ledger.domain.confidence import shown
from ledger.domain.errors import KeyReusedError, RejectedError
from ledger.domain.text import counted
from ledger.domain.tokens import estimate
from ledger.events import MODEL_EXTRACTOR, AnyEvent, ExtractionCursorMoved, ModelCalled
from ledger.extraction import unread as reading
from ledger.extraction.answers import Learned, Noted, ReadToday, Unread
from ledger.extraction.applying import ACTIONS, KEPT, RELATIONS, ActionOutcome, TurnsBatch
from ledger.extraction.asking import ModelProposals, ModelReading, is_quarantined, look_up, record_call
from ledger.extraction.lines import EXTRACTED, NOT_SALIENT, ConversationLine
from ledger.extraction.noting import Notes
from ledger.extraction.sessions import close, memories_used
from ledger.extraction.showing import facts_for
from ledger.extraction.unread import Ranges, TurnRead, UnreadFilter, UnreadReading
from ledger.log.lease import release, reserve
from ledger.memories import admission_rules as admitting
from ledger.memories.state import MemoryState
from ledger.models.asking import ModelReply, check_trusted
from ledger.models.day import bounds_of
from ledger.models.port import ModelAnswer
from ledger.models.reading import Parsed, read_actions
from ledger.sessions.rules.session import SessionState
from projections.core.rows import Connection
from projections.views import audit, calls, control, erasures, interactions, memories, sessions

LEASE_SECONDS = 600  # a reader has ten minutes to hand in its answer
BUDGET, LEAST_BUDGET, MOST_BUDGET = 6_000, 2_000, 100_000  # tokens of a request: by default, at least, at most
FACTS_SHARE = 3  # the known facts get at most a third of the room that the instructions leave
COMMAND = "learning.learn"


# --- reading ------------------------------------------------------------------------------------------------------------


def unread(engine: Engine, asker: Who, asked: UnreadFilter, budget: int) -> Unread:
    """Return the oldest unread turns of one project as a request to a model; ``Learning.unread`` describes the call."""
    if isinstance(budget, bool) or not isinstance(budget, int) or not LEAST_BUDGET <= budget <= MOST_BUDGET:
        raise RejectedError(
            f"budget is a whole number of tokens from {LEAST_BUDGET:,} to {MOST_BUDGET:,}, and {budget!r:.40} is not"
        )
    with engine.reading() as connection:
        scope = reading.scope_asked(engine, connection, asker.user, asked)
        wanted = control.wants(connection, asker.user, "extract")
        turns = reading.unread_turns(engine, connection, scope) if scope is not None and wanted else []
        project = reading.project_of(connection, turns[0]) if turns else None
        waiting = len(turns)
        turns = [turn for turn in turns if reading.project_of(connection, turn) == project]
    if scope is None or not turns:
        return Unread()
    if (until := reserve(engine.store, _lease(engine, asker), _reader(engine, asker), LEASE_SECONDS)) is not None:
        return Unread(more=waiting, held_until=until)
    with engine.reading() as connection:
        erased = erasures.last(connection)
    room = budget - estimate(_instructions())
    taken = reading.take(engine, asker, turns, room - room // FACTS_SHARE, gate=True)
    lines = [line for read in taken for line in read.lines]
    with engine.reading() as connection:
        sessions_read, captured = reading.covered(connection, scope, turns, taken)
    named = UnreadReading(project, sessions_read, captured, (), erased, reading.places_of(taken))
    if not lines:
        _pass_over(engine, asker, named, taken)
        return unread(engine, asker, asked, budget) if len(taken) < waiting else Unread()
    facts = facts_for(engine, asker.user, project, lines, room - sum(map(reading.tokens_of, lines)))
    named = replace(named, facts=tuple(fact.row for fact in facts))
    return _shown(engine, asker, named, taken, facts, waiting)


def count(engine: Engine, asker: Who, asked: UnreadFilter) -> int:
    """Return the number of turns that no model has read."""
    with engine.reading() as connection:
        scope = reading.scope_asked(engine, connection, asker.user, asked)
        if scope is None or not control.wants(connection, asker.user, "extract"):
            return 0
        return len(reading.unread_turns(engine, connection, scope))


def read_today(engine: Engine, user: str, reader: str) -> ReadToday:
    """Return what readers were given of a user's turns today; ``Learning.read_today`` describes the call."""
    today = bounds_of(engine, None)
    with engine.reading() as connection:
        tokens = calls.read_since(connection, user, reader, today.today)
    return ReadToday(tokens=tokens, until=today.end)


def _shown(
    engine: Engine,
    asker: Who,
    named: UnreadReading,
    taken: Sequence[TurnRead],
    facts: Sequence[MemoryState],
    waiting: int,
) -> Unread:
    from ledger.models import extracting

    lines = [line for read in taken for line in read.lines]
    request = extracting.request(lines, facts, 60.0)
    return Unread(
        token=reading.token_of(named, lambda data: engine.writer.mac("learning", asker.user, data)),
        turns=sum(bool(read.lines) for read in taken),
        messages=len(lines),
        more=waiting - len(taken),
        facts=tuple(fact.id for fact in facts),
        tokens=estimate(request.instructions) + estimate(request.content),
        instructions=request.instructions,
        content=request.content,
        answer_schema=extracting.schema().model_json_schema(),
    )


def _instructions() -> str:
    from ledger.models import extracting

    return extracting.instructions()


def _lease(engine: Engine, asker: Who) -> str:
    """Return the name of the lease on the unread turns of a user; it names no user, because an erasure searches no leases."""
    return f"learn {engine.writer.mac('lease', asker.user, 'learning').hex()}"


def _reader(engine: Engine, asker: Who) -> str:
    """Return a name for a reader: its actor, client and agent, and for an agent's own process the process too."""
    process = str(os.getpid()) if asker.channel == "agent" else ""
    who = "\0".join((asker.actor, asker.client, asker.agent, process))
    return f"reader {engine.writer.mac('lease', asker.user, who).hex()}"


# --- handing in ---------------------------------------------------------------------------------------------------------


class _Prepared(Struct, frozen=True):
    """A reading that was taken again, divided into the turns that the answer is about and the others, and the answer."""

    named: UnreadReading
    turns: tuple[TurnRead, ...]
    others: tuple[TurnRead, ...]
    answer: ModelProposals

    def ranges(self, session: int) -> Ranges:
        """Return the ranges of a session that count as read: up to each message of the turns, and over none of the others."""
        own = (row for read in self.turns if read.turn.session == session for row in read.turn.rows)
        left = [row for read in self.others if read.turn.session == session for row in read.turn.rows]
        named = dict(self.named.sessions)[session]
        return spans.joined(
            (max([first, *(other + 1 for other in left if other < row)]), row)
            for row in own
            for first, last in named
            if first <= row <= last
        )

    @property
    def lines(self) -> list[ConversationLine]:
        return [line for read in self.turns for line in read.lines]


class _TriedError(Exception):
    """The end of a dry run, which takes back the command."""


def learn(
    engine: Engine,
    asker: Who,
    token: str,
    answer: str | Mapping[str, object] | ModelAnswer,
    *,
    upto: int | None = None,
    dry_run: bool = False,
) -> Learned:
    """Record an answer about the turns of a token; ``Learning.learn`` describes the call."""
    named = reading.reading_of(token, lambda data: engine.writer.mac("learning", asker.user, data))
    given = _given(answer)
    parsed = _parsed(given.text)
    prepared = _prepared(engine, asker, named, given, parsed, upto)
    found: list[Learned] = []

    def body(work: Work) -> str:
        if prepared is None:
            raise reading.moved()
        batch, results = _apply(engine, work, prepared)
        if dry_run:
            found.append(_tried(batch, results, prepared))
            raise _TriedError
        record_call(work, prepared.answer, prepared.lines, results, batch.cited)
        return _close(work, prepared, EXTRACTED, MODEL_EXTRACTOR, batch.of_line)

    who = asker if asker.key is not None else replace(asker, key=f"learning {sha256(token.encode()).hexdigest()}")
    try:
        outcome = engine.writer.run(COMMAND, who, body, (token, given.text, upto))
    except _TriedError:
        return found[0]
    except KeyReusedError as error:
        if asker.key is not None:
            raise
        raise KeyReusedError(
            "another answer was handed in with this token already; call unread() for the turns that are left"
        ) from error
    release(engine.store, _lease(engine, asker), _reader(engine, asker))
    return _learned(engine, asker, outcome, prepared)


def _given(answer: object) -> ModelAnswer:
    """Return the answer of a caller: a text, the object of its JSON, or a ``ModelAnswer`` with its tokens."""
    if isinstance(answer, ModelAnswer):
        return answer
    if isinstance(answer, str):
        return ModelAnswer(text=answer)
    if isinstance(answer, Mapping):
        try:
            return ModelAnswer(text=json.dumps(dict(answer), ensure_ascii=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise RejectedError(
                f"the answer cannot be written as JSON ({type(error).__name__})", rule="answer"
            ) from None
    raise RejectedError(f"the answer is a text or an object, and {type(answer).__name__} is neither", rule="answer")


def _parsed(text: str) -> Parsed:
    """Return the actions of an answer; a reader can mend its answer, so a part that is wrong refuses the whole.

    Raises:
        RejectedError: The answer cannot be read, an action is not valid, or there are too many.
    """
    from ledger.models import extracting

    parsed = read_actions(text, extracting.kinds(), limit=extracting.READ)
    if parsed is None:
        raise RejectedError(
            'the answer is no JSON object with the lists "add", "supersede", "retract" and "relations"; nothing was recorded',
            rule="answer",
        )
    if parsed.truncated:
        raise RejectedError("the answer is cut off; hand in the whole of it", rule="answer")
    wrong = [f"{item.what or 'an action'} ({item.reason}): {item.text[:80]!r}" for item in parsed.dropped]
    if wrong:
        raise RejectedError(
            f"{counted(len(wrong), 'action')} of the answer cannot be read, so nothing was recorded: {'; '.join(wrong[:5])}",
            rule="answer",
        )
    if (number := len(parsed.actions) + parsed.left_over) > ACTIONS:
        raise RejectedError(
            f"an answer has at most {ACTIONS} actions, and this one has {number}; hand in a part of the messages, with upto",
            rule="answer",
            limit=ACTIONS,
        )
    return parsed


def _prepared(
    engine: Engine, asker: Who, named: UnreadReading, given: ModelAnswer, parsed: Parsed, upto: int | None
) -> _Prepared | None:
    """Return the reading with the answer looked up; None if something in the reading changed since it was taken."""
    from ledger.models import extracting

    turns = reading.again(engine, asker, named, gate=True)
    if turns is None:
        return None
    turns, others = _part(turns, upto)
    lines = [line for read in turns for line in read.lines]
    with engine.reading() as connection:
        shown = [memories.get(connection, row) for row in named.facts]
        for session, _ in named.sessions:
            state = sessions.get(connection, session)
            check_trusted(engine, asker, state.id if state is not None else None)
    facts = [fact for fact in shown if fact is not None]
    if len(facts) < len(shown):
        return None
    _check_numbers(parsed, len(lines), len(facts))
    reader = asker.agent or asker.client or asker.actor or "caller"
    request = extracting.request(lines, facts, 60.0)
    given = replace(  # so that the tokens of a day can be counted, if only about
        given,
        input_tokens=given.input_tokens or estimate(request.instructions) + estimate(request.content),
        output_tokens=given.output_tokens or estimate(given.text),
    )
    reply = ModelReply(answer=given, model=given.model or reader)
    looked_up = look_up(engine, asker.user, named.project, ModelReading(reply, request, parsed, tuple(facts)), lines)
    return _Prepared(named, tuple(turns), tuple(others), looked_up)


def _part(turns: list[TurnRead], upto: int | None) -> tuple[list[TurnRead], list[TurnRead]]:
    """Return the turns up to the message with a number, or all for None, and the turns after them."""
    if upto is None:
        return turns, []
    total = sum(len(read.lines) for read in turns)
    if isinstance(upto, bool) or not isinstance(upto, int) or not 1 <= upto <= total:
        raise RejectedError(
            f"upto is the number of a message from 1 to {total}, and {upto!r:.40} is not", rule="answer"
        )
    kept, number = list[TurnRead](), 0
    for read in turns:
        number += len(read.lines)
        if number > upto:
            break
        kept.append(read)
    if not any(read.lines for read in kept):
        raise RejectedError(
            f"upto={upto} ends inside of the first turn, and only whole turns count as read; its last message is {number}",
            rule="answer",
        )
    return kept, turns[len(kept) :]


def _check_numbers(parsed: Parsed, messages: int, facts: int) -> None:
    """Raise RejectedError if an action names a message or a fact that was not shown."""
    for action in parsed.actions:
        unknown = [number for number in getattr(action.value, "messages", ()) if not 1 <= number <= messages]
        fact = getattr(action.value, "fact", None)
        if unknown:
            raise RejectedError(
                f"{action.what} names the message {unknown[0]}, and the messages are 1 to {messages}; nothing was recorded",
                rule="answer",
            )
        if fact is not None and not 1 <= fact <= facts:
            known = f"the facts are 1 to {facts}" if facts else "no facts were shown"
            raise RejectedError(
                f"{action.what} names the fact {fact}, and {known}; nothing was recorded", rule="answer"
            )


# --- under the lock -----------------------------------------------------------------------------------------------------


def _apply(engine: Engine, work: Work, prepared: _Prepared) -> tuple[TurnsBatch, list[ActionOutcome]]:
    """Apply the proposals of the answer, if the reading is unchanged."""
    lines, connection = prepared.lines, _unchanged(engine, work, prepared)
    streams = _streams(connection, prepared.turns)
    of_line = {(line.position, line.text_at): read.turn.session for read in prepared.turns for line in read.lines}

    def sources(line: ConversationLine) -> tuple[str, ...]:
        session = streams.get(of_line.get((line.position, line.text_at), 0))
        return tuple(id for id in (line.interaction, session.id if session is not None else None) if id is not None)

    work.project = prepared.named.project
    work.session = next(iter(streams.values())).id if len(streams) == 1 else None
    batch = TurnsBatch(work, sources, memories_used(work, lines), handed_in=work.who.channel != "user")
    return batch, batch.apply(prepared.answer.seen, prepared.answer.relations, lines)


def _unchanged(engine: Engine, work: Work, prepared: _Prepared) -> Connection:
    """Return the connection; raise ConflictError if a message was read, hidden, held or erased since the snapshot."""
    work.rows.flush()
    connection = work.connection()
    if erasures.last(connection) != prepared.named.erased:
        raise reading.moved()
    user = work.who.user
    for session, ranges in prepared.named.sessions:
        scope = sessions.UnreadScope(user=user, session=session)
        there = {row for turn in reading.unread_turns(engine, connection, scope, ranges) for row in turn.rows}
        own = (read.turn for read in prepared.turns if read.turn.session == session)
        if not there.issuperset(row for turn in own for row in turn.rows):
            raise reading.moved()
    captured = [read.turn.rows[0] for read in prepared.turns if not read.turn.session]
    if not all(reading.is_unread(interactions.FAMILY.get(connection, row), user) for row in captured):
        raise reading.moved()
    if is_quarantined(connection, [at for line in prepared.lines for at in (line.position, line.text_at) if at]):
        raise reading.moved()
    return connection


def _streams(connection: Connection, turns: Sequence[TurnRead]) -> dict[int, SessionState]:
    """Return the state of each session among some turns, by its row."""
    rows = dict.fromkeys(read.turn.session for read in turns if read.turn.session)
    return {row: state for row in rows if (state := sessions.get(connection, row)) is not None}


def _close(
    work: Work, prepared: _Prepared, why: str, extractor: str, kept: Sequence[tuple[str, ConversationLine]]
) -> str:
    """Record that the turns were read, and return the id of the first session or turn."""
    streams = _streams(work.connection(), prepared.turns)
    for session, state in streams.items():
        for first, last in prepared.ranges(session):
            work.emit(state.id, ExtractionCursorMoved(first - 1, last, why, extractor), first=session)
    ended = [
        line.interaction
        for line in prepared.lines
        if line.interaction and (line.field != "prompt" or not line.position)
    ]
    captured = _captured(work.connection(), prepared.turns)
    close(work, tuple(dict.fromkeys([*ended, *captured])), extractor, kept, ())
    return next((state.id for state in streams.values()), None) or captured[0]


def _captured(connection: Connection, turns: Sequence[TurnRead]) -> list[str]:
    states = (interactions.FAMILY.get(connection, read.turn.rows[0]) for read in turns if not read.turn.session)
    return [state.id for state in states if state is not None]


def _pass_over(engine: Engine, asker: Who, named: UnreadReading, taken: Sequence[TurnRead]) -> None:
    """Record that turns hold nothing to remember, as the gate of a configured model does, so that nobody reads them again."""
    from ledger.english.salience import GATE

    prepared = _Prepared(named, tuple(taken), (), None)  # type: ignore[arg-type]

    def body(work: Work) -> str:
        _unchanged(engine, work, prepared)
        work.project = named.project
        return _close(work, prepared, NOT_SALIENT, GATE, ())

    engine.writer.run("learning.unread", replace(asker, key=None), body)


# --- the answer ---------------------------------------------------------------------------------------------------------


def _tried(batch: TurnsBatch, results: Sequence[ActionOutcome], prepared: _Prepared) -> Learned:
    """Return the answer of a dry run, from what the command would have recorded."""
    notes = [
        (data.status, Noted(id="", content=data.content, kind=data.kind, confidence=shown(data.confidence), why=why))
        for _, data in batch.made
        for why in [admitting.explained(data.admission)]
    ]
    dropped = [_dropped(result.what, result.outcome, result.target, result.text) for result in results]
    return Learned(
        learned=tuple(note for status, note in notes if status == "active"),
        proposed=tuple(note for status, note in notes if status != "active"),
        dropped=tuple(entry for entry in dropped if entry["reason"] != KEPT),
        relations=sum(result.what == RELATIONS and result.outcome == KEPT for result in results),
        turns=sum(bool(read.lines) for read in prepared.turns),
        reader=prepared.answer.asked.model,
        dry_run=True,
    )


def _learned(engine: Engine, asker: Who, outcome: Outcome, prepared: _Prepared | None) -> Learned:
    """Return the answer from the events of the command, which for a repeated command are those of the first time."""
    with engine.reading() as connection:
        events = outcome.events or [*events_of(connection, outcome.position)]
        notes = Notes(connection, asker.user)
        for event in events:
            notes.take(event)
    call = next(event.data for event in events if isinstance(event.data, ModelCalled))
    texts = (*(call.texts or ()), *[""] * len(call.actions))
    dropped = [
        _dropped(action.what, action.outcome, action.target, text)
        for action, text in zip(call.actions, texts, strict=False)
        if action.outcome != KEPT
    ]
    return Learned(
        learned=tuple(notes.learned),
        proposed=tuple(notes.proposed),
        contradicted=tuple(notes.contradicted.values()),
        dropped=tuple(dropped),
        relations=sum(action.what == RELATIONS and action.outcome == KEPT for action in call.actions),
        turns=0 if outcome.replayed or prepared is None else sum(bool(read.lines) for read in prepared.turns),
        more=count(engine, asker, UnreadFilter()),
        reader=call.model or "",
        replayed=outcome.replayed,
        warnings=as_warnings((redaction for event in events for redaction in event.envelope.redactions), events),
    )


def _dropped(what: str, reason: str, memory: str | None, text: str) -> dict[str, object]:
    return {"what": what, "reason": reason, "memory": memory, "content": text}


def events_of(connection: Connection, position: int) -> Iterator[AnyEvent]:
    """Yield the events of the command that recorded the event at a position."""
    for entry in audit.command_at(connection, position):
        if (event := read_event(connection, entry.position)) is not None:
            yield event
