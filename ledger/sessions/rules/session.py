"""The life cycle of a session: its names, and the number of its messages and tokens.

The state is stored again with every message. So the window of a session is not part of the state: the projections have the
messages and the summaries.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain import metadata as pairs_of
from ledger.domain.errors import ConflictError, RejectedError
from ledger.events import (
    AbstractSet,
    AnyEvent,
    EventData,
    ExtractionCursorMoved,
    ExtractionFailed,
    MessageAppended,
    SessionAliasAdded,
    SessionDescribed,
    SessionOpened,
)

# Many clients use this name for their own sessions, so its messages never move to another session.
SHARED = "main"
EXTRACTED_ROLES = ("user", "assistant")  # extraction reads the messages of these roles


class SessionState(Struct, frozen=True):
    """The state of a session; the fields are the columns of its row, in order.

    ``messages`` and ``tokens`` count all messages in effect, hidden messages included. ``moved_to`` is the session that got the
    names of this session. ``extractable_at`` is the position of the last message from which memories can be extracted. ``cursor``
    is the position up to which extraction read. ``failures`` counts the consecutive failed extractions since the last new text.
    """

    row: int
    id: str
    user: str | None
    name: str | None
    project: str | None
    aliases: tuple[str | None, ...]
    metadata: str | None
    moved_to: str | None
    messages: int
    tokens: int
    summary_at: int | None
    extractable_at: int
    cursor: int
    failures: int
    recorded_at: str
    updated_at: str
    version: int
    position: int

    @property
    def names(self) -> list[str]:
        """Return every name of the session that was not erased."""
        return [name for name in (self.name, *self.aliases) if name is not None]


class AddSessionAlias(Struct, frozen=True):
    """A command that gives a session another name; ``owner`` is the session that has the name already, or None."""

    alias: str
    owner: SessionState | None = None


def add_alias(command: AddSessionAlias, session: SessionState) -> list[tuple[str, EventData]]:
    """Return the events that give a session another name, each with the id of its stream.

    If another session with messages has the name and this session has no messages, the names of this session move to the other
    session. A session that gives up a name gives up all its names, so that no third session can take one, and an undo finds all
    of them free.
    """
    owner, alias = command.owner, command.alias
    if owner is None:
        return [(session.id, SessionAliasAdded(alias))]
    if owner.id == session.id:
        return []
    if not owner.messages:
        names = [name for name in (owner.name, *owner.aliases) if name is not None]
        return [
            (owner.id, SessionAliasAdded(alias, session.id)),
            *((session.id, SessionAliasAdded(name)) for name in names),
        ]
    if session.messages:
        raise ConflictError(
            f"the name {alias!r:.60} stands for another session with a history, and this session has a history too;"
            " replace() or clear() one of them first"
        )
    if alias == SHARED or alias.endswith(":" + SHARED):
        raise RejectedError(
            f"the name {alias!r:.60} is shared by many clients, so its messages cannot move to another session",
            rule="transition",
        )
    names = [name for name in (session.name, *session.aliases) if name is not None]
    given_up: list[tuple[str, EventData]] = [(session.id, SessionAliasAdded(name, owner.id)) for name in names[:1]]
    return [*given_up, *((owner.id, SessionAliasAdded(name)) for name in names)]


class DescribeSession(Struct, frozen=True):
    """A command that sets metadata of a session, and removes the metadata of the keys ``unset``."""

    metadata: pairs_of.Pairs
    unset: tuple[str, ...] = ()


def describe(command: DescribeSession, known: pairs_of.Pairs) -> list[EventData]:
    """Return the change of metadata; a key that is both set and unset is unset."""
    new, unset = pairs_of.change(known, command.metadata, command.unset)
    return [SessionDescribed(pairs_of.event_form(new), unset)] if new or unset else []


def evolve(session: SessionState | None, event: AnyEvent) -> SessionState | None:
    data: object = event.data
    envelope = event.envelope
    if session is None:
        return _opened(event, data) if isinstance(data, SessionOpened) else None
    now = replace(session, version=event.version, position=event.position, updated_at=envelope.recorded_at)
    match data:
        case MessageAppended():
            counted = replace(now, messages=now.messages + 1, tokens=now.tokens + data.tokens)
            return replace(counted, extractable_at=event.position, failures=0) if has_content(data) else counted
        case ExtractionCursorMoved():
            # A model may read what rules read before, which moves no cursor back.
            return replace(now, cursor=data.to if data.why == "asked" else max(now.cursor, data.to), failures=0)
        case ExtractionFailed():
            return replace(now, failures=now.failures + 1)
        case AbstractSet():
            return replace(now, summary_at=event.position)
        case SessionDescribed(metadata, unset):
            return replace(now, metadata=pairs_of.changed(now.metadata, metadata, unset or ()))
        case SessionAliasAdded(alias, to):
            return replace(now, moved_to=to) if to is not None else replace(now, aliases=(*now.aliases, alias))
        case _:
            return now


def has_content(data: MessageAppended) -> bool:
    """Return True if a user or an assistant wrote a text in this message, also if the text was erased since."""
    return data.role in EXTRACTED_ROLES and (data.content != "" or data.interaction is not None)


def _opened(event: AnyEvent, data: SessionOpened) -> SessionState:
    envelope = event.envelope
    return SessionState(
        row=event.first,
        id=event.stream,
        user=envelope.user,
        name=data.name,
        project=envelope.project,
        aliases=(),
        metadata=None,
        moved_to=None,
        messages=0,
        tokens=0,
        summary_at=None,
        extractable_at=0,
        cursor=0,
        failures=0,
        recorded_at=envelope.recorded_at,
        updated_at=envelope.recorded_at,
        version=event.version,
        position=event.position,
    )


def admits(session: SessionState | None, data: EventData) -> bool:
    """Return True if a recorded event is possible in this state, which earlier events that became void may have changed."""
    return session is not None or isinstance(data, SessionOpened)
