"""A session: the names it goes by, and how much was said in it. Its messages and summaries are told by the projections.

What a session's window holds is no part of this state, for the state is written again with every message.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.errors import ConflictError, RejectedError
from ledger.domain.events import (
    AbstractSet,
    AnyEvent,
    Event,
    ExtractionCursorMoved,
    ExtractionFailed,
    MessageAppended,
    SessionAliasAdded,
    SessionOpened,
)

SHARED = "main"  # a name that many use for their own: it never brings a history along (picoclaw #2972)
EXTRACTED_ROLES = ("user", "assistant")  # of whose messages something is extracted


class Session(Struct, frozen=True):
    """The columns of its row, in order. ``messages`` and ``tokens`` are all that were ever appended and are in effect;
    ``moved_to`` is the session that took its name. ``extractable_at`` is the position of the last message that something can be
    extracted from, ``cursor`` that of the last one that was looked at for that, and ``failures`` counts the attempts to look
    further that failed one after the other since something was said."""

    row: int
    id: str
    user: str | None
    name: str | None
    project: str | None
    aliases: tuple[str | None, ...]
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
        """Every name that it goes by and that was not erased."""
        return [each for each in (self.name, *self.aliases) if each is not None]


class AddAlias(Struct, frozen=True):
    """``other`` is the session that the name stands for already, if any."""

    alias: str
    other: Session | None = None


def add_alias(command: AddAlias, session: Session) -> list[tuple[str, Event]]:
    """The events, each with whose it is. A name that stands for a session with a history brings that along, if this one
    has none: then it is this session's own names that go over to the other. Whoever gives up a name gives up all, so that
    nobody else can take one of them and an undo finds them free."""
    other, alias = command.other, command.alias
    if other is None:
        return [(session.id, SessionAliasAdded(alias))]
    if other.id == session.id:
        return []
    if not other.messages:
        names = [name for name in (other.name, *other.aliases) if name is not None]
        return [
            (other.id, SessionAliasAdded(alias, session.id)),
            *((session.id, SessionAliasAdded(name)) for name in names),
        ]
    if session.messages:
        raise ConflictError(
            f"the name {alias!r:.60} stands for a session with a history of its own, and this one has one too;"
            " replace() or clear() one of them first"
        )
    if alias == SHARED or alias.endswith(":" + SHARED):
        raise RejectedError(
            f"the name {alias!r:.60} is shared by many, so its history goes over to nobody", rule="transition"
        )
    taken = [name for name in (session.name, *session.aliases) if name is not None]
    gone: list[tuple[str, Event]] = [(session.id, SessionAliasAdded(name, other.id)) for name in taken[:1]]
    return [*gone, *((other.id, SessionAliasAdded(name)) for name in taken)]


def evolve(session: Session | None, event: AnyEvent) -> Session | None:
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
            return replace(now, cursor=data.to, failures=0)
        case ExtractionFailed():
            return replace(now, failures=now.failures + 1)
        case AbstractSet():
            return replace(now, summary_at=event.position)
        case SessionAliasAdded(alias, to):
            return replace(now, moved_to=to) if to is not None else replace(now, aliases=(*now.aliases, alias))
        case _:
            return now


def has_content(data: MessageAppended) -> bool:
    """Whether somebody said something in a message, that may have been erased since; not by what tools give."""
    return data.role in EXTRACTED_ROLES and (data.content != "" or data.interaction is not None)


def _opened(event: AnyEvent, data: SessionOpened) -> Session:
    envelope = event.envelope
    return Session(
        row=event.first,
        id=event.stream,
        user=envelope.user,
        name=data.name,
        project=envelope.project,
        aliases=(),
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


def admits(session: Session | None, data: Event) -> bool:
    """Whether an event still makes sense once others before it are void."""
    return session is not None or isinstance(data, SessionOpened)
