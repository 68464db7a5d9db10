"""What an erasure concerns in sessions: the other events of a message, and the summaries that were written from it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from ledger.domain.erasure import Part
from ledger.domain.message import whole_parts
from projections.core.rows import Connection

MESSAGE, REPAIR, SUMMARY, SET = "MessageAppended", "MessageRepaired", "SummaryCreated", "AbstractSet"
FROM_MESSAGES = (REPAIR, SUMMARY, SET)  # what may say again what a message said
FIELDS = {"prompt": ("data.prompt",), "response": ("data.response", "data.summary")}  # of a turn's message

Raws = tuple[int, str, str, str]  # (position, stream, type, state)


class Tied(Struct, frozen=True):
    """A message whose text lies with an interaction: its position, its session, and in which field."""

    position: int
    session: str
    interaction: str
    field: str


class Summed(Struct, frozen=True):
    """What an event says of the messages behind it."""

    summary: str = ""
    ranges: tuple[tuple[int, int], ...] = ()
    summaries: tuple[str, ...] = ()
    message: int = 0
    interaction: str | None = None
    field: str = ""


class _Event(Struct, frozen=True):
    data: Summed | None = None


_decoder = msgspec.json.Decoder(_Event)


def summed_of(state: str) -> Summed:
    return _decoder.decode(state).data or Summed()


def tied_to(connection: Connection, interactions: Collection[str]) -> list[Tied]:
    """The messages whose text lies with these, in effect or not."""
    found: dict[int, Tied] = {}
    sql = (
        "SELECT m.row, e.stream, m.interaction, m.field FROM {} m CROSS JOIN events e ON e.position = m.row WHERE m.{}"
    )
    wanted = set(interactions)
    if len(wanted) == 1:
        (one,) = wanted
        rows = connection.execute(sql.format("messages", "interaction = ?"), (one,)).fetchall()
    else:
        rows = connection.execute(sql.format("messages", "interaction IS NOT NULL")).fetchall() if wanted else []
    if wanted:
        rows += connection.execute(sql.format("messages_were", "interaction IS NOT NULL")).fetchall()
    for each in rows:
        if each[2] in wanted:
            found[each[0]] = Tied(*each)
    return [found[position] for position in sorted(found)]


def repairs(connection: Connection, messages: Mapping[str, Collection[int]]) -> Iterator[Raws]:
    """What was added later to these messages of each session."""
    for session, positions in messages.items():
        for row in events(connection, session, (REPAIR,)):
            if summed_of(row[3]).message in positions:
                yield row


def written_from(
    connection: Connection, session: str, messages: Iterable[int], summaries: Iterable[str] = ()
) -> list[Raws]:
    """The summaries, in effect or not, that were written from any of these messages or summaries, one above the other.

    What was set as the summary of the whole session may have been written from all before it; nobody said from what.
    """
    positions, above, found = sorted(messages), set(summaries), list[Raws]()
    for row in events(connection, session, (SUMMARY, SET)):
        if row[2] == SET:
            if positions and positions[0] < row[0]:
                found.append(row)
            continue
        summed = summed_of(row[3])
        if not above.isdisjoint(summed.summaries) or any(_any_within(positions, each) for each in summed.ranges):
            above.add(summed.summary)
            found.append(row)
    return found


def of_projects(
    connection: Connection, user: str, projects: Sequence[str | None], without_text: Collection[str]
) -> dict[str, bool]:
    """The sessions that something of these projects was recorded in, and of each whether all texts in it are theirs."""
    marks = ", ".join("?" * len(projects))
    sql = (
        f"SELECT session, max(project IS NULL OR project NOT IN ({marks})) FROM audit WHERE user = ? AND session IN"
        f" (SELECT session FROM audit WHERE project IN ({marks}) AND user = ?)"
        f" AND type NOT IN ({', '.join('?' * len(without_text))}) GROUP BY session ORDER BY session"
    )
    found = connection.execute(sql, (*projects, user, *projects, user, *without_text))
    return {session: not others for session, others in found}


def events(connection: Connection, session: str, types: tuple[str, ...]) -> Iterator[Raws]:
    """The rows of these types of event in a session, in their order."""
    marks = ", ".join("?" * len(types))
    sql = f"SELECT position, stream, type, state FROM events WHERE stream = ? AND type IN ({marks}) ORDER BY version"
    yield from connection.execute(sql, (session, *types)).fetchall()


def texts_in(content: str, parts: Raw | None, content_of: int) -> Iterator[tuple[int, str]]:
    """The texts that a message says, as extraction reads them: the number of the part of each, -1 for what is no part."""
    found = [*enumerate(whole_parts(parts, content, content_of))]
    texts = [(number, part.get("text") or "") for number, part in found if part["type"] == "text"]
    numbered = [*([] if found and content_of >= 0 else [(content_of, content)]), *texts]
    return ((number, text) for number, text in numbered if text.strip() or not found)


def _any_within(positions: list[int], span: tuple[int, int]) -> bool:
    at = bisect_left(positions, span[0])
    return at < len(positions) and positions[at] <= span[1]


def place_of(connection: Connection, summary: str) -> int | None:
    """The position of the event that has the text of a summary, by its whole id; in effect or not."""
    for table in ("summaries", "summaries_were"):
        row = connection.execute(f"SELECT row FROM {table} WHERE id = ? LIMIT 1", (summary,)).fetchone()
        if row is not None:
            return int(row[0])
    return None


def of_field(parts: Iterable[Part], field: str) -> tuple[Part, ...]:
    """The parts of an interaction's event that are the text of one of its messages."""
    return tuple(part for part in parts if part.field in FIELDS.get(field, ()))
