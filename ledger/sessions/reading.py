"""What can be asked of a session: its messages, its summaries and how it stands. On a moment of the past too."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import UNSET, Struct

from ledger.domain import ids
from ledger.domain import message as messages
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.events import AnyEvent, MessageAppended, MessageRepaired, Ranges, Recorded
from ledger.domain.patterns import Patterns
from ledger.domain.session import Session as State
from ledger.domain.text import check_text
from ledger.domain.window import WindowItem
from ledger.engine.answer import answer_of
from ledger.engine.log_reading import read_known, read_messages
from ledger.engine.reads import Reads
from ledger.engine.snapshot import event_data, load, text_of
from ledger.engine.work import Who
from ledger.sessions import answers
from ledger.sessions.counting import Counter
from ledger.sessions.window import OpenWindow
from projections.search.session_texts import Said
from projections.views import interactions, projects, quarantine, sessions, summaries
from projections.views.projects import names
from projections.views.sessions import Message as MessageRow
from projections.views.summaries import Summary as SummaryRow

NO_PATTERNS = Patterns()
NEEDS = ("sessions", "summaries", "projects", "quarantine")


class Told(Struct, frozen=True):
    """The texts of a message, as they are in the log and were repaired."""

    event: Recorded[MessageAppended]
    content: str | None
    reasoning: str | None
    parts: tuple[messages.Part, ...]
    model: str | None


class SessionReads:
    """A session as it can be read. Nothing is written by asking for one: it begins with its first message."""

    def __init__(self, ledger: Reads, name: str, who: Who, project: str | None, counter: Counter) -> None:
        self._ledger, self._given, self._who, self._project, self.counter = ledger, name, who, project, counter
        self._kept_out = ledger._keeps_out(*self._names())  # "", "ignored" or "stateless"

    def _names(self) -> list[str]:
        """Every name of the session, by whichever it was asked for; looked up only where a pattern could mean one."""
        if self._ledger.patterns == NO_PATTERNS and len(self._given) != ids.LENGTH:
            return [self._given]
        with self._ledger._read(*NEEDS) as connection:
            state = self._found(connection)
            known = (state.name, *state.aliases) if state is not None else ()
            return [self._given, *(each for each in known if each is not None)]

    @property
    def id(self) -> str | None:
        """Its own id (``s_…``); None while the session has no messages."""
        with self._reading() as (_, state):
            return state.id if state is not None else None

    @property
    def name(self) -> str:
        """The name it was asked for by."""
        return self._given

    @property
    def user(self) -> str:
        return self._who.user

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._given!r}>"

    @contextmanager
    def _reading(self) -> Iterator[tuple[Any, State | None]]:
        """A snapshot, and the session's state in it."""
        with self._ledger._read(*NEEDS) as connection:
            yield connection, self._state(connection)

    def _state(self, connection: Any) -> State | None:
        """The session of this name or whole id; a name is never taken for the beginning of an id. Of one that is ignored
        nothing is read."""
        return None if self._kept_out == "ignored" else self._found(connection)

    def _found(self, connection: Any) -> State | None:
        found = projects.find(connection, self.user, "s", self._given)
        id = found[0] if found is not None else self._given if len(self._given) == ids.LENGTH else None
        state: State | None = load(connection, id, "s", self.user) if id is not None else None
        return state

    def _needed(self, state: State | None) -> State:
        if state is None:
            raise NotFoundError(f"no session of this user is called {self._given!r:.60}")
        return state

    # --- messages ------------------------------------------------------------------------------------------------

    def messages(
        self, limit: int | None = None, *, before: int | None = None, hidden: bool = False
    ) -> list[answers.Message]:
        """What was said, oldest first: the last ``limit`` messages (all of them), or those before a position.

        Summaries take nothing away from it. With ``hidden`` also what was truncated, replaced or cleared, each saying so.
        """
        for what, value in (("limit", limit), ("before", before)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise RejectedError(f"{what} is a whole number, and {value!r:.40} is not")
        if limit is not None and limit <= 0:
            return []
        with self._reading() as (connection, state):
            if state is None:
                return []
            gone = sessions.hidden(connection, state.row)
            without = [] if hidden else [(each.first, each.last) for each in gone]
            if before is not None:
                without.append((before, 2**62))
            found: list[MessageRow] = []
            for row in sessions.backwards(connection, state.row, without, batch=min(limit or 4_096, 4_096)):
                found.append(row)
                if len(found) == limit:
                    break
            return self._messages(connection, found[::-1], gone)

    def message(self, position: int) -> answers.Message | None:
        """One message by its position, hidden or not, or None."""
        with self._reading() as (connection, state):
            row = sessions.at_position(connection, position) if state is not None and type(position) is int else None
            if state is None or row is None or row.session != state.row:
                return None
            return self._messages(connection, [row], sessions.hidden(connection, state.row))[0]

    def _messages(
        self, connection: Any, rows: Sequence[MessageRow], gone: Sequence[sessions.Hidden] = ()
    ) -> list[answers.Message]:
        why = Why(gone)
        return [self._message(row, self._texts(connection, row), why.of(row.row), connection) for row in rows]

    def _message(self, row: MessageRow, told: Told, hidden: str, connection: Any) -> answers.Message:
        return answers.Message(
            position=row.row,
            session=self._given,
            role=row.role,
            content=told.content,
            reasoning=told.reasoning,
            parts=told.parts,
            tokens=row.tokens,
            counter=told.event.data.counter,
            model=told.model,
            speaker=told.event.data.speaker,
            interaction=row.interaction,
            occurred_at=row.time,
            recorded_at=told.event.envelope.recorded_at,
            hidden=hidden,
            quarantined=is_held(connection, row),
        )

    def _texts(self, connection: Any, row: MessageRow) -> Told:
        """The texts of a message; those of a captured turn lie with its interaction."""
        return self._told_of(connection, row, read_known(connection, row.row, row.session))

    def _all_texts(self, connection: Any, session: int, ranges: Ranges) -> Iterator[tuple[MessageRow, Told]]:
        """The messages of a session in these ranges with their texts, oldest first."""
        for row, event in read_messages(connection, session, ranges):
            yield row, self._told_of(connection, row, event)

    def _told_of(self, connection: Any, row: MessageRow, event: AnyEvent) -> Told:
        data: MessageAppended = event.data
        content = text_of(connection, data.content)
        if data.interaction is not None:
            content = self._of_interaction(connection, data.interaction, data.field)
        reasoning, model = text_of(connection, data.reasoning), data.model
        for position in row.repairs:
            repaired: MessageRepaired = event_data(connection, position)
            reasoning = reasoning if repaired.reasoning is UNSET else repaired.reasoning
            model = model if repaired.model is UNSET else repaired.model
        parts = messages.whole_parts(data.parts, content, data.content_of)
        return Told(event, content, reasoning, parts, model)

    def _of_interaction(self, connection: Any, interaction: str, field: str) -> str | None:
        state = load(connection, interaction, "i", self.user)
        at = (state.prompt_at if field == "prompt" else state.response_at) if state is not None else None
        return text_of(connection, getattr(event_data(connection, at), field)) if at else None

    # --- summaries -----------------------------------------------------------------------------------------------

    @property
    def summary(self) -> str:
        """The summary of the whole session that somebody set; "" without one."""
        with self._reading() as (connection, state):
            return self._whole_summary(connection, state)

    def _whole_summary(self, connection: Any, state: State | None) -> str:
        if state is None or state.summary_at is None:
            return ""
        return text_of(connection, event_data(connection, state.summary_at).content) or ""

    def summaries(self, status: str = "") -> list[answers.Summary]:
        """Every summary that was ever written of this session's messages, in that order; or those of one status."""
        with self._reading() as (connection, state):
            found = summaries.of_session(connection, state.row) if state is not None else []
            return [self._summary(connection, row) for row in found if status in ("", row.status)]

    def _newest_summaries(
        self, statuses: Sequence[str], limit: int, before: int | None = None
    ) -> list[answers.Summary]:
        """The summaries of these statuses, newest first, behind the one at a position."""
        with self._reading() as (connection, state):
            if state is None:
                return []
            found = summaries.listing(connection, state.row, statuses, before, limit)
            return [self._summary(connection, row) for row in found]

    def _summary(self, connection: Any, row: SummaryRow) -> answers.Summary:
        event = read_known(connection, row.row, row.session)
        content = text_of(connection, event.data.content)
        return answers.summary(row, self._given, content, event.envelope.recorded_at)

    def _summary_row(self, connection: Any, state: State, given: object) -> SummaryRow:
        found = None
        if isinstance(given, str) and len(given) > 2 and ids.is_prefix(given, "y"):
            found = summaries.find(connection, state.row, given)
        if found is None:
            raise NotFoundError(f"no summary of this session has the id {given!r:.40}")
        return found

    def window(self) -> list[WindowItem]:
        """The messages and summaries that stand for the conversation now, oldest first, without their texts."""
        with self._reading() as (connection, state):
            return OpenWindow(connection, state).items() if state is not None and self._kept_out != "ignored" else []

    # --- how it stands -------------------------------------------------------------------------------------------

    def info(self) -> answers.SessionInfo | None:
        """How the session stands, or None while the session has no messages."""
        with self._reading() as (connection, state):
            return info(connection, state) if state is not None else None


def info(connection: Any, state: State) -> answers.SessionInfo:
    window = OpenWindow(connection, state)
    project = names(connection, [state.project]).get(state.project or "") if state.project else None
    return answer_of(
        answers.SessionInfo,
        state,
        aliases=tuple(each for each in state.aliases if each is not None),
        project=project or state.project,
        messages=window.messages,
        tokens=window.message_tokens,
        hidden=state.messages - window.messages,
        summaries=len(window.summaries),
        window_items=window.count,
        window_tokens=window.tokens,
        has_abstract=state.summary_at is not None and _says_something(connection, state, state.summary_at),
    )


def _says_something(connection: Any, state: State, position: int) -> bool:
    return read_known(connection, position, state.row).data.content not in ("", None)


def is_held(connection: Any, row: MessageRow | Said | SummaryRow) -> bool:
    """Whether the text of a message or summary is in quarantine; that of a captured turn lies with its interaction."""
    at: int | None = row.row
    if not isinstance(row, SummaryRow) and row.interaction is not None:
        at = interactions.text_at(connection, row.interaction, row.field or "")
    return at is not None and bool(quarantine.among(connection, [at]))


class Why:
    """Why a message is hidden, by its position: ranges that were hidden do not overlap."""

    def __init__(self, gone: Sequence[sessions.Hidden]) -> None:
        self._gone = sorted(gone, key=lambda each: each.first)
        self._firsts = [each.first for each in self._gone]

    def of(self, position: int) -> str:
        at = bisect_right(self._firsts, position) - 1
        return self._gone[at].why if at >= 0 and position <= self._gone[at].last else ""


def session_name(given: object) -> str:
    """A session's name as somebody gave it; ``RejectedError`` where it is blank."""
    return check_text("a session's id", given, max_bytes=1024)
