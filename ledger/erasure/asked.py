"""What is to be erased or held, as a caller named it: the subject, the choices for each list, and the exceptions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct

from ledger.domain import ids
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.ids import is_prefix, kind_of
from ledger.domain.text import check_text
from ledger.engine.log_reading import find_row, first_position, read_event
from ledger.engine.snapshot import NOWHERE, named
from ledger.erasure import conversations
from ledger.erasure.rows import Span
from ledger.types import DocumentPath, Event, Everything, Project, SessionName, Subject
from projections.core.projector import FAMILIES
from projections.core.rows import Connection
from projections.views import documents

CHOICES = ("erase", "cut", "keep")
_WHOLES = {"chunk": "document", "summary": "session"}  # what such a part is of

T = TypeVar("T")


class Asked(Struct, frozen=True):
    """What is to be erased: a ``kind`` ("memory", …, "user", "event") and its id, or the position of an event; of a user what
    lies between two positions."""

    kind: str
    subject: str | None = None
    position: int = 0
    fields: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    phrases: tuple[str, ...] = ()
    first: int = 0
    last: int = 2**62


def asked(connection: Connection, subject: Subject, owner: str) -> Asked:
    """What an erasure names: a subject, one event, or a summary by its id, which is the event that has its text."""
    if isinstance(subject, Event) and type(position := subject.position) is int:
        fields, spans = _several("fields", subject.fields), _several("spans", subject.spans)
        event = read_event(connection, position) if 0 < position < 2**63 else None
        if event is None or event.envelope.user != owner or event.position == 1:
            raise NotFoundError(f"no event of this user is at position {position}")
        names = tuple(check_text("a field", each) for each in fields)
        phrases = tuple(check_text("a phrase", each) for each in _several("phrases", subject.phrases))
        return Asked("event", event.stream, position, names, _checked(spans), phrases)
    if (place := _summary_at(connection, owner, subject)) is not None:
        return Asked("event", place[0], place[1])
    return subject_asked(connection, subject, owner)


def subject_asked(
    connection: Connection, subject: Subject, owner: str, part: str = "goes by the position of its event"
) -> Asked:
    """A whole subject, or all of a user. ``NotFoundError`` for what is none of this user's; ``part`` says how a part of a
    whole is named instead."""
    match subject:
        case Project(name):
            return _by_name(connection, owner, "project", name)
        case SessionName(name):
            return _by_name(connection, owner, "session", name)
        case DocumentPath(path):
            known = documents.known_as(connection, owner, check_text("document", path, max_bytes=4096), "")
            return Asked("document", known.id) if known is not None else _by_id(connection, path, owner, only="d")
        case Everything():
            return Asked("user")
        case str():
            if not kind_of(subject):
                raise NotFoundError(
                    f"no subject of this user has the id {subject!r:.40}; a project is named by Project(name), a session by "
                    "SessionName(name), a document by DocumentPath(path), all of a user by EVERYTHING"
                )
            return _by_id(connection, check_text("subject", subject), owner, part=part)
    raise RejectedError(
        "a subject is an id, Project(name), SessionName(name), DocumentPath(path), Event(position) or EVERYTHING, "
        f"and {subject!r:.60} is none of these"
    )


def _by_name(connection: Connection, owner: str, kind: str, name: str) -> Asked:
    found = named(connection, owner, kind[0], name)
    if found is None or found == NOWHERE:
        raise NotFoundError(f"no {kind} of this user is called {name!r:.60}")
    return Asked(kind, found)


def _by_id(connection: Connection, given: str, owner: str, *, only: str = "", part: str = "") -> Asked:
    """The subject with this id, or an unambiguous beginning of it; ``only`` is the letter of the kind it has to be of."""
    kind = ids.KINDS.get(given[:1], "") if given[1:2] == "_" else ""
    if kind and given[0] in (only or FAMILIES):
        row = find_row(connection, given, given[0], owner)
        first = row if row is not None else first_position(connection, given)
        event = read_event(connection, first) if first is not None else None
        if event is not None and event.envelope.user == owner and event.stream.startswith(given):
            return Asked(kind, event.stream)
    hint = f"; a {kind} {part.format(whole=_WHOLES[kind])}" if kind in _WHOLES else ""
    if only == "d" and not kind:
        hint = ", or is known by this path; a file is known by its absolute one"
    raise NotFoundError(f"no {ids.KINDS.get(only) or kind or 'subject'} of this user has the id {given!r:.40}{hint}")


def _summary_at(connection: Connection, owner: str, given: object) -> tuple[str, int] | None:
    """(session, position) of the event that has the text of a summary, by its id."""
    if not isinstance(given, str) or not is_prefix(given, "y"):
        return None
    position = conversations.place_of(connection, given)
    event = read_event(connection, position) if position is not None else None
    return (event.stream, event.position) if event is not None and event.envelope.user == owner else None


def _several(name: str, given: Iterable[T]) -> tuple[T, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise RejectedError(f"{name} are several, in a list, and {given!r:.40} is not")
    return tuple(given)


def _checked(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    for each in spans:
        if not isinstance(each, tuple | list) or len(each) != 3 or [type(part) for part in each] != [str, int, int]:
            raise RejectedError(f"a span is (field, start, end) in characters, and {each!r:.60} is not")
    return tuple((field, first, last) for field, first, last in spans)


# --- choices and exceptions ------------------------------------------------------------------------------------------


def checked_choices(**given: str | None) -> dict[str, str | None]:
    for name, choice in given.items():
        if choice is not None and choice not in CHOICES:
            raise RejectedError(f"{name} is one of {', '.join(CHOICES)}, and {choice!r:.40} is not")
    return given


def exceptions(connection: Connection, owner: str, given: Iterable[str | int]) -> frozenset[str | int]:
    """What ``keep`` names, an id by an unambiguous prefix as a whole one: what is not found must not be erased for it."""
    return frozenset(_kept(connection, owner, each) for each in given)


def _kept(connection: Connection, owner: str, given: str | int) -> str | int:
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise RejectedError(f"keep takes ids and positions, and {given!r:.40} is neither")
    if isinstance(given, int):
        return given
    if (place := _summary_at(connection, owner, given)) is not None:
        return place[1]
    row = find_row(connection, given, given[:1], owner) if given[:1] in FAMILIES else None
    event = read_event(connection, row) if row is not None else None
    if event is None:
        raise NotFoundError(f"keep names {given!r:.60}, and nothing of this user has that id")
    return event.stream
