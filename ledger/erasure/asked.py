"""The request of an erasure or a hold: the subject, the choice for each list, and the exceptions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct

from ledger.core.reads import NOWHERE, find_row, first_position, id_of_filter, read_event
from ledger.domain import ids
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.ids import is_prefix, kind_of, message_place
from ledger.domain.text import check_text
from ledger.erasure import conversations
from ledger.erasure.rows import Span
from ledger.events import MessageAppended
from ledger.types import DocumentPath, Event, Everything, Project, SessionName, Subject
from projections.core.projector import FAMILIES
from projections.core.rows import Connection
from projections.views import documents

CHOICES = ("erase", "cut", "keep")
_WHOLES = {"chunk": "document", "summary": "session"}  # a part -> the whole that it belongs to

T = TypeVar("T")


class ErasureRequest(Struct, frozen=True):
    """The subject of an erasure or a hold.

    Attributes:
        kind: "memory" or another kind of subject, "event" for a single event, "user" for everything of the user.
        subject: The id of the subject; of an event, the id of the subject that the event belongs to.
        position: The position of a single event.
        fields: The fields of a single event that are erased as a whole.
        spans: The spans of characters of a single event that are erased.
        phrases: The phrases that are erased wherever the single event says them.
        first: The first position of a user's events.
        last: The last position of a user's events.
    """

    kind: str
    subject: str | None = None
    position: int = 0
    fields: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    phrases: tuple[str, ...] = ()
    first: int = 0
    last: int = 2**62


def request_for(connection: Connection, subject: Subject, owner: str) -> ErasureRequest:
    """Return the request for a subject or for a single event; for a message or summary, for the event that holds its text."""
    if isinstance(subject, Event) and type(position := subject.position) is int:
        fields, spans = _several("fields", subject.fields), _several("spans", subject.spans)
        event = read_event(connection, position) if 0 < position < 2**63 else None
        if event is None or event.envelope.user != owner or event.position == 1:
            raise NotFoundError(f"no event of this user is at position {position}")
        names = tuple(check_text("a field", item) for item in fields)
        phrases = tuple(check_text("a phrase", item) for item in _several("phrases", subject.phrases))
        return ErasureRequest("event", event.stream, position, names, _checked(spans), phrases)
    if (place := _part_at(connection, owner, subject)) is not None:
        return ErasureRequest("event", place[0], place[1])
    return request_for_subject(connection, subject, owner)


def request_for_subject(
    connection: Connection, subject: Subject, owner: str, part: str = "goes by the position of its event"
) -> ErasureRequest:
    """Return the request for a whole subject or for everything of a user.

    Args:
        connection: The snapshot to read.
        subject: The subject as the caller named it.
        owner: The user whose subjects are searched.
        part: The end of the error message for the id of a chunk or a summary, which is only a part of a subject.
            "{whole}" stands for the kind of that subject.

    Raises:
        NotFoundError: This user has no such subject.
        RejectedError: ``subject`` is of no accepted type.
    """
    match subject:
        case Project(name):
            return _by_name(connection, owner, "project", name)
        case SessionName(name):
            return _by_name(connection, owner, "session", name)
        case DocumentPath(path):
            known = documents.known_as(connection, owner, check_text("document", path, max_bytes=4096), "")
            return (
                ErasureRequest("document", known.id) if known is not None else _by_id(connection, path, owner, only="d")
            )
        case Everything():
            return ErasureRequest("user")
        case str():
            if message_place(subject) is not None:
                hint = f"; a message {part.format(whole='session')}" if _part_at(connection, owner, subject) else ""
                raise NotFoundError(f"no session of this user has the message {subject!r:.40}{hint}")
            if not kind_of(subject):
                raise NotFoundError(
                    f"no subject of this user has the id {subject!r:.40}; a project is named by Project(name), a session by "
                    "SessionName(name), a document by DocumentPath(path), all of a user by EVERYTHING"
                )
            return _by_id(connection, check_text("subject", subject), owner, part=part)
    raise RejectedError(
        "a subject is an id, Project(name), SessionName(name), DocumentPath(path), Event(position) or EVERYTHING, "
        f"not {subject!r:.60}"
    )


def _by_name(connection: Connection, owner: str, kind: str, name: str) -> ErasureRequest:
    subject = id_of_filter(connection, owner, kind[0], name)
    if subject is None or subject == NOWHERE:
        raise NotFoundError(f"no {kind} of this user is called {name!r:.60}")
    return ErasureRequest(kind, subject)


def _by_id(connection: Connection, id: str, owner: str, *, only: str = "", part: str = "") -> ErasureRequest:
    """Return the request for the subject with this id or an unambiguous beginning of the id.

    ``only`` is the letter of the kind that the subject must have.
    """
    kind = ids.KINDS.get(id[:1], "") if id[1:2] == "_" else ""
    if kind and id[0] in (only or FAMILIES):
        row = find_row(connection, id, id[0], owner)
        first = row if row is not None else first_position(connection, id)
        event = read_event(connection, first) if first is not None else None
        if event is not None and event.envelope.user == owner and event.stream.startswith(id):
            return ErasureRequest(kind, event.stream)
    hint = f"; a {kind} {part.format(whole=_WHOLES[kind])}" if kind in _WHOLES else ""
    if only == "d" and not kind:
        hint = ", and none has this path; a file is found by its absolute path"
    raise NotFoundError(f"no {ids.KINDS.get(only) or kind or 'subject'} of this user has the id {id!r:.40}{hint}")


def _part_at(connection: Connection, owner: str, subject: object) -> tuple[str, int] | None:
    """Return (session, position) of the event that holds the text of the message or summary with this id."""
    if not isinstance(subject, str):
        return None
    if (place := message_place(subject)) is not None:
        event = read_event(connection, place[1])
        if event is None or event.stream != place[0] or not isinstance(event.data, MessageAppended):
            return None
    else:
        position = conversations.place_of(connection, subject) if is_prefix(subject, "y") else None
        event = read_event(connection, position) if position is not None else None
    return (event.stream, event.position) if event is not None and event.envelope.user == owner else None


def _several(name: str, values: Iterable[T]) -> tuple[T, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise RejectedError(f"{name} takes several values in a list, not {values!r:.40}")
    return tuple(values)


def _checked(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    for span in spans:
        if not isinstance(span, tuple | list) or len(span) != 3 or [type(part) for part in span] != [str, int, int]:
            raise RejectedError(f"a span is (field, start, end) with start and end in characters, not {span!r:.60}")
    return tuple((field, first, last) for field, first, last in spans)


# --- choices and exceptions ------------------------------------------------------------------------------------------


class ErasureChoices(Struct, frozen=True, kw_only=True):
    """The choices for the other texts that an erasure finds; None for a list that the caller expects to be empty.

    Attributes:
        derived: The choice for texts that were derived from the subject: "erase", "cut" or "keep".
        sources: The choice for texts that the subject was derived from.
        quotes: The choice for other texts of the user that repeat the subject.
        keep: Ids and positions that stay, whatever else is chosen.
    """

    derived: str | None = None
    sources: str | None = None
    quotes: str | None = None
    keep: tuple[str | int, ...] = ()


def checked_choices(choices: ErasureChoices) -> dict[str, str | None]:
    """Return the choice for each list, after a check that the choice is known."""
    by_list = {"derived": choices.derived, "sources": choices.sources, "quotes": choices.quotes}
    for name, choice in by_list.items():
        if choice is not None and choice not in CHOICES:
            raise RejectedError(f"{name} is one of {', '.join(CHOICES)}, not {choice!r:.40}")
    return by_list


def exceptions(connection: Connection, owner: str, keep: Iterable[str | int]) -> frozenset[str | int]:
    """Return the ids and positions that ``keep`` names, each prefix of an id completed.

    An unknown id raises ``NotFoundError``: an erasure must not take a subject because its exception was misspelled.
    """
    return frozenset(_kept(connection, owner, place) for place in keep)


def _kept(connection: Connection, owner: str, place: str | int) -> str | int:
    if isinstance(place, bool) or not isinstance(place, str | int):
        raise RejectedError(f"keep takes ids and positions, not {place!r:.40}")
    if isinstance(place, int):
        return place
    if (found_at := _part_at(connection, owner, place)) is not None:
        return found_at[1]
    row = find_row(connection, place, place[:1], owner) if place[:1] in FAMILIES else None
    event = read_event(connection, row) if row is not None else None
    if event is None:
        raise NotFoundError(f"keep names {place!r:.60}, but nothing of this user has that id")
    return event.stream
