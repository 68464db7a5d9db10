"""A consistent state of the ledger for a read, now or at a moment, and the ways from its rows to the log's texts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ledger.core.log_reading import SALT_BYTES, damaged_blob, find_row, read_event, read_known, read_stream
from ledger.domain import ids
from ledger.domain.errors import AmbiguousIdError, RejectedError
from ledger.domain.text import check_text
from ledger.events import AnyEvent, Blob
from projections.core.projector import FAMILIES
from projections.core.rows import Connection
from projections.views import memories, projects

NOWHERE = "nowhere"  # stands for a name that nothing has
LIST_LIMIT, LIST_CAP = 50, 500
MEMORY_CAP = 1_000_000
PAGE_CAP = 1_001  # the longest page, and one item more, which shows if there is another page


class Snapshot(Struct, frozen=True):
    """The state that a query reads, now or at a moment.

    Attributes:
        connection: The tables of that state.
        secret: The ledger's secret.
        valid: A time of the world: reads answer with what was true at that time.
        now: Returns the present, or for a past moment the latest time recorded by then.
        schema: The schema of the text indexes: "main" for the file, "temp" if this process folded its own.
        position: The position of a past moment that is read from today's tables; None if the tables are of that state.
        is_past: True for a past moment: texts of it may be missing both in the indexes and among the texts that wait for them.
    """

    connection: Connection
    secret: bytes
    valid: str | None
    now: Callable[[], str]
    schema: str = "main"
    position: int | None = None
    is_past: bool = False


# --- from rows to states and texts ------------------------------------------------------------------------------------


def load(connection: Connection, reference: str, kind: str, user: str) -> Any:
    """Return the state of a user's subject by id or unambiguous prefix."""
    row = find_row(connection, reference, kind, user)
    return FAMILIES[kind].get(connection, row) if row is not None else None


def owned_stream(connection: Connection, reference: str, kind: str, owner: str) -> str | None:
    """Return the stream of a user's subject by id or unambiguous prefix, even of a subject that was undone."""
    state = load(connection, reference, kind, owner)
    if state is not None:
        return str(state.id)
    if not isinstance(reference, str) or not ids.is_prefix(reference, kind) or len(reference) < 3:
        return None
    sql = "SELECT position FROM events WHERE stream >= ? AND stream < ? AND version = 1 LIMIT 100"
    firsts = connection.execute(sql, (reference, reference + "~")).fetchall()
    events = (read_event(connection, first) for (first,) in firsts)
    streams = [event.stream for event in events if event is not None and event.envelope.user == owner]
    return streams[0] if len(streams) == 1 else None


def stream_of(connection: Connection, stream: str) -> list[AnyEvent]:
    return read_stream(connection, stream, 2**62)


def event_data(connection: Connection, position: int) -> Any:
    return read_known(connection, position, position).data


def text_of(connection: Connection, body: str | Blob | None) -> str | None:
    """Return a text of an event from the event or the blobs table; None if the text was erased."""
    if not isinstance(body, Blob):
        return body
    row = connection.execute("SELECT data, erased_by FROM blobs WHERE id = ?", (body.blob,)).fetchone()
    if row is not None and row[0] is None and row[1] is not None:
        return None
    if row is None or not isinstance(row[0], bytes) or hashlib.sha256(row[0]).hexdigest() != body.digest:
        raise damaged_blob(connection, body.blob)
    return str(row[0][SALT_BYTES:], "utf-8")


def texts_at(connection: Connection, position: int | None, *names: str) -> dict[str, str | None]:
    """Return texts of the event at a position by the names of their fields; blank without a position."""
    data = event_data(connection, position) if position is not None else None
    return {name: text_of(connection, getattr(data, name)) if data is not None else "" for name in names}


def believed(valid: str | None, statuses: tuple[str, ...]) -> tuple[str, ...]:
    """Return the statuses to list: those of a filter, or for a time of the world those of memories true at that time."""
    if valid is None:
        return statuses
    if statuses in ((), ("active",)):
        return memories.BELIEVED
    if never := set(statuses) - set(memories.BELIEVED):
        raise RejectedError(
            f"valid= asks for memories that were true at a time, and a memory that is {min(never)} was not; "
            f"allowed are {', '.join(memories.BELIEVED)}, and all"
        )
    return statuses


def named(connection: Connection, owner: str, kind: str, name: str | None) -> str | None:
    """Return the id of a filter's project or session; None for the filters "" and None.

    A project that was joined to another is found under the other.
    """
    if name is None or not check_text("a name", name, blank_allowed=True).strip():
        return None
    place = projects.find(connection, owner, kind, name)
    try:
        row = find_row(connection, name, kind, owner) if place is None else None
    except AmbiguousIdError:
        return NOWHERE
    id = place[0] if place is not None else NOWHERE
    if row is not None:
        id = str(connection.execute(f"SELECT id FROM {FAMILIES[kind].live.name} WHERE row = ?", (row,)).fetchone()[0])
    return projects.main(connection, id) if kind == "p" else id


def scope_of(connection: Connection, owner: str, project: str | None) -> list[str | None] | None:
    """Return the projects of a filter: the named project with those that are joined to it.

    The list holds None for memories without a project (the filter ""), and ``NOWHERE`` for an unknown name. Without a filter
    the result is None.
    """
    if project is None:
        return None
    return list(projects.together(connection, named(connection, owner, "p", project)))


def listed(limit: int | None, cap: int = LIST_CAP) -> int:
    if limit is None:
        return cap
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise RejectedError(f"limit is a whole number, and {limit!r:.40} is not")
    return max(0, min(limit, cap))
