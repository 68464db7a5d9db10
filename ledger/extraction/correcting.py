"""A correction of one memory that an agent proposes: a successor or an end, by the user's own words in a session."""

from __future__ import annotations

from msgspec import Struct

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.guarding import as_warnings
from ledger.core.reads import load, read_messages
from ledger.core.work import Outcome, Work
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.text import check_reason, check_text
from ledger.extraction.answers import Learned
from ledger.extraction.applying import KEPT, RETRACT, SUPERSEDE, Proposal, SeenProposal, TurnsBatch, near_to
from ledger.extraction.asking import is_quarantined
from ledger.extraction.lines import ConversationLine
from ledger.extraction.noting import Notes
from ledger.extraction.pieces import line_of
from ledger.memories.state import MemoryState
from ledger.sessions import reading
from ledger.sessions.conversation import Conversation
from projections.core.rows import Connection
from projections.views import sessions

COMMAND = "learning.correct"
LOOKED_BACK = 200  # the most messages of the user, the newest first, in which the quote is searched


class Correction(Struct, frozen=True, kw_only=True):
    """A correction of the memory ``id``: the new ``content``, or ``ended``, and the user's words ``quote`` in a session."""

    id: str
    content: str | None = None
    ended: bool = False
    reason: str = ""
    quote: str = ""
    session: str | None = None


def correct(engine: Engine, asker: Who, asked: Correction) -> Learned:
    """Replace or end a memory, or propose that to a person; ``Learning.correct`` describes the call."""
    if (asked.content is None) is not asked.ended:
        raise RejectedError("correct takes a new content, or ended=True, and not both")
    reason, quote = check_reason("reason", asked.reason), check_text("quote", asked.quote, blank_allowed=True)
    content = check_text("content", asked.content).strip() if asked.content is not None else ""
    with engine.reading() as connection:
        target: MemoryState | None = load(connection, asked.id, "m", asker.user)
        if target is None:
            raise NotFoundError(f"no memory of this user has the id {asked.id!r:.40}")
        lines = _lines_of_user(engine, connection, asker, asked.session) if asked.session is not None else []
        like = near_to(connection, content, asker.user, target.project) if content else []
    what = RETRACT if asked.ended else SUPERSEDE
    proposal = Proposal(
        what=what, content=content, kind=target.kind, reason=reason, quote=quote, cited=_cited(quote, lines)
    )
    seen = SeenProposal(proposal, target, tuple(like))

    def body(work: Work) -> str:
        current: MemoryState = work.load(target.id, "m")
        work.project = current.project
        batch = TurnsBatch(work, lambda line: (line.interaction,) if line.interaction else (), handed_in=True)
        unsaid = ConversationLine(position=0, text_at=0, role="user", text="", time=work.recorded_at)
        (result,) = batch.apply([seen], [], [*proposal.cited] or [unsaid])
        if result.outcome != KEPT and not work.emitted:
            _refuse(current, result.outcome)
        return result.subject if result.outcome == KEPT and result.subject is not None else current.id

    arguments = (asked.id, content, asked.ended, reason, quote, asked.session)
    return _answer(engine, asker, engine.writer.run(COMMAND, asker, body, arguments))


def _refuse(memory: MemoryState, outcome: str) -> None:
    """Raise RejectedError with what was true and what would have been allowed."""
    why = {
        "not_active": f"it is {memory.status}, and only an active memory can be corrected",
        "same": "it says that already",
        "waits": "it waits for a person already",
        "newer": "it is newer than these words of the user",
        "not_admitted": "an end stands in the review beside the turn that says so: name the session in which the user said it",
    }
    raise RejectedError(
        f"{memory.id} was not corrected: {why.get(outcome, outcome)}", rule=outcome.split(":")[0], subject=memory.id
    )


def _lines_of_user(engine: Engine, connection: Connection, asker: Who, name: str) -> list[ConversationLine]:
    """Return the newest messages of the user in a session, the newest first; none of an unknown session."""
    conversation = Conversation(engine, asker, name)
    state = conversation.state(connection)
    if state is None:
        return []
    gone = [(span.first, span.last) for span in sessions.hidden(connection, state.row)]
    found = list[ConversationLine]()
    for row in sessions.backwards(connection, state.row, gone, role="user"):
        for message, event in read_messages(connection, state.row, [(row.row, row.row)]):
            turn = load(connection, message.interaction, "i", asker.user) if message.interaction is not None else None
            line = line_of(message, reading.texts_of(conversation, connection, message, event), turn)
            if line.text.strip() and not is_quarantined(connection, (line.position, line.text_at)):
                found.append(line)
        if len(found) >= LOOKED_BACK:
            break
    return found


def _cited(quote: str, lines: list[ConversationLine]) -> tuple[ConversationLine, ...]:
    """Return the newest line with the quote; the newest line if none has it, since the agent answers that one."""
    having = (
        line for line in lines if Proposal(what=RETRACT, content="", quote=quote, cited=(line,)).quoted is not None
    )
    found = next(having, None) or next(iter(lines), None)
    return (found,) if found is not None else ()


def _answer(engine: Engine, asker: Who, outcome: Outcome) -> Learned:
    from ledger.extraction.learning import events_of

    with engine.reading() as connection:
        events = outcome.events or [*events_of(connection, outcome.position)]
        notes = Notes(connection, asker.user)
        for event in events:
            notes.take(event)
    return Learned(
        learned=tuple(notes.learned),
        proposed=tuple(notes.proposed),
        contradicted=tuple(notes.contradicted.values()),
        reader=asker.agent or asker.client or asker.actor,
        replayed=outcome.replayed,
        warnings=as_warnings((redaction for event in events for redaction in event.envelope.redactions), events),
    )
