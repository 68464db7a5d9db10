"""The messages and summaries of sessions, as an erasure finds them in the log."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from ledger.erasure.rules import ErasablePart
from ledger.sessions.rules.message import whole_parts
from projections.core.rows import Connection

MESSAGE, REPAIR, SUMMARY, SET = "MessageAppended", "MessageRepaired", "SummaryCreated", "AbstractSet"
FROM_MESSAGES = (REPAIR, SUMMARY, SET)  # types that may repeat the text of a message
# The fields of a turn's event that hold the text of a message, by the side of the turn that the message repeats.
FIELDS: dict[str, tuple[str, ...]] = {"prompt": ("data.prompt",), "response": ("data.response", "data.summary")}

Raws = tuple[int, str, str, str]  # (position, stream, type, state)


class TiedMessage(Struct, frozen=True):
    """A message that repeats one field of a captured turn, with which its text is stored."""

    position: int
    session: str
    interaction: str
    field: str


class SummarizedRanges(Struct, frozen=True):
    """The fields of a session event that name the messages, summaries and turn from which the event was made."""

    summary: str = ""
    ranges: tuple[tuple[int, int], ...] = ()
    summaries: tuple[str, ...] = ()
    message: int = 0
    interaction: str | None = None
    field: str = ""


class _Event(Struct, frozen=True):
    data: SummarizedRanges | None = None


_decoder = msgspec.json.Decoder(_Event)


def summed_of(state: str) -> SummarizedRanges:
    """Return the origin of a session event from its stored state."""
    return _decoder.decode(state).data or SummarizedRanges()


def messages_of(connection: Connection, interactions: Collection[str]) -> list[TiedMessage]:
    """Return the messages whose text is stored with these interactions, void messages included."""
    messages: dict[int, TiedMessage] = {}
    sql = (
        "SELECT m.row, e.stream, m.interaction, m.field FROM {} m CROSS JOIN events e ON e.position = m.row WHERE m.{}"
    )
    ids = set(interactions)
    if len(ids) == 1:
        (only,) = ids
        rows = connection.execute(sql.format("messages", "interaction = ?"), (only,)).fetchall()
    else:
        rows = connection.execute(sql.format("messages", "interaction IS NOT NULL")).fetchall() if ids else []
    if ids:
        rows += connection.execute(sql.format("messages_were", "interaction IS NOT NULL")).fetchall()
    for position, session, interaction, field in rows:
        if interaction in ids:
            messages[position] = TiedMessage(position, session, interaction, field)
    return [messages[position] for position in sorted(messages)]


def repairs(connection: Connection, messages: Mapping[str, Collection[int]]) -> Iterator[Raws]:
    """Yield the repairs of these messages; ``messages`` is session -> positions."""
    for session, positions in messages.items():
        for row in events(connection, session, (REPAIR,)):
            if summed_of(row[3]).message in positions:
                yield row


def written_from(
    connection: Connection, session: str, messages: Iterable[int], summaries: Iterable[str] = ()
) -> list[Raws]:
    """Return the summaries, void ones included, that were written from any of these messages or summaries.

    Summaries of such summaries are returned too. The abstract of a session names no source, so an abstract counts as
    written from every message before it.
    """
    positions, above, written = sorted(messages), set(summaries), list[Raws]()
    for row in events(connection, session, (SUMMARY, SET)):
        if row[2] == SET:
            if positions and positions[0] < row[0]:
                written.append(row)
            continue
        summed = summed_of(row[3])
        if not above.isdisjoint(summed.summaries) or any(_any_within(positions, span) for span in summed.ranges):
            above.add(summed.summary)
            written.append(row)
    return written


def of_projects(
    connection: Connection, user: str, projects: Sequence[str | None], without_text: Collection[str]
) -> dict[str, bool]:
    """Return the sessions in which events of these projects were recorded, each with True if no other events have text.

    True means that every event with a text in the session belongs to these projects. ``without_text`` are the types of
    events that hold no text.
    """
    marks = ", ".join("?" * len(projects))
    sql = (
        f"SELECT session, max(project IS NULL OR project NOT IN ({marks})) FROM audit WHERE user = ? AND session IN"
        f" (SELECT session FROM audit WHERE project IN ({marks}) AND user = ?)"
        f" AND type NOT IN ({', '.join('?' * len(without_text))}) GROUP BY session ORDER BY session"
    )
    rows = connection.execute(sql, (*projects, user, *projects, user, *without_text))
    return {session: not others for session, others in rows}


def events(connection: Connection, session: str, types: tuple[str, ...]) -> Iterator[Raws]:
    """Yield the rows of these event types in a session, in the order of the session."""
    marks = ", ".join("?" * len(types))
    sql = f"SELECT position, stream, type, state FROM events WHERE stream = ? AND type IN ({marks}) ORDER BY version"
    yield from connection.execute(sql, (session, *types)).fetchall()


def texts_in(content: str, parts: Raw | None, content_of: int) -> Iterator[tuple[int, str]]:
    """Return the texts of a message as extraction reads them, each with the number of its part.

    The content has the number ``content_of``, which is -1 if the content is no part.
    """
    numbered_parts = [*enumerate(whole_parts(parts, content, content_of))]
    texts = [(number, part.get("text") or "") for number, part in numbered_parts if part["type"] == "text"]
    numbered = [*([] if numbered_parts and content_of >= 0 else [(content_of, content)]), *texts]
    return ((number, text) for number, text in numbered if text.strip() or not numbered_parts)


def _any_within(positions: list[int], span: tuple[int, int]) -> bool:
    at = bisect_left(positions, span[0])
    return at < len(positions) and positions[at] <= span[1]


def place_of(connection: Connection, summary: str) -> int | None:
    """Return the position of the event that holds the text of a summary, void ones included, or None."""
    for table in ("summaries", "summaries_were"):
        row = connection.execute(f"SELECT row FROM {table} WHERE id = ? LIMIT 1", (summary,)).fetchone()
        if row is not None:
            return int(row[0])
    return None


def of_field(parts: Iterable[ErasablePart], field: str) -> tuple[ErasablePart, ...]:
    """Return the parts of an interaction's event that are the text of the message from ``field``."""
    return tuple(part for part in parts if part.field in FIELDS.get(field, ()))
