"""The places where contents of an origin were shown: turns that used them, receipts of recalls and windows."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.events import ChunkAdded, SummaryCreated, WindowAssembled
from ledger.undo.in_effect import Reader
from projections.core.rows import Connection
from projections.search import observation_hits
from projections.views import audit, delivered


def receipts(
    reader: Reader, user: str, streams: Iterable[str], fallen: Iterable[int], gone: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the places where contents of an origin were shown.

    First the interactions that used them (``memories_used``, ``chunks_used``), then the receipts of the recalls and
    windows that delivered them.

    A memory of these ``streams`` counts as a whole, and so does an observation that one of them supports. Of documents,
    sessions and turns only the words of ``fallen`` events count, or all words if the subject itself is ``gone``.
    """
    connection, reached = reader.connection, _reached(reader, streams, fallen, gone)
    turns = {
        row: id
        for used in ("memories_used", "chunks_used")
        for row, id, subject in connection.execute(
            f"SELECT i.row, i.id, used.value FROM interactions i, json_each(i.{used}) used"
            f" WHERE i.user = ? AND i.{used} IS NOT NULL",
            (user,),
        )
        if subject in reached
    }
    recalls = _receipts_at(connection, delivered.showing(connection, reached, user))
    woven = delivered.showing(connection, dict.fromkeys(recalls.values(), ()), user)  # windows that showed the recalls
    all_receipts = recalls | _receipts_at(connection, woven)
    shown = dict.fromkeys(all_receipts[position] for position in sorted(all_receipts))
    return (*(turns[row] for row in sorted(turns)), *shown)


def _reached(
    reader: Reader, streams: Iterable[str], fallen: Iterable[int], gone: Iterable[str]
) -> dict[str, list[int]]:
    """Return the ids under which contents of an origin may have been shown, each with the positions of its events."""
    touched = set(streams)
    reached: dict[str, list[int]] = {stream: [] for stream in touched if stream[0] in "mo"}
    # of a session only the fallen events count: other events may have been distrusted before
    ceased = (event.position for stream in gone if stream[0] != "s" for event, _ in reader.stream(stream))
    for position in sorted({*fallen, *ceased}):
        event = reader.event(position)
        reached.setdefault(event.stream, []).append(position)
        if isinstance(event.data, ChunkAdded):
            reached.setdefault(event.data.chunk, []).append(position)
        elif isinstance(event.data, SummaryCreated):
            reached.setdefault(event.data.summary, []).append(position)
    citing = observation_hits.citing(reader.connection, {*touched, *reached})
    return reached | {observation: [] for observation in citing}


def _receipts_at(connection: Connection, positions: Iterable[int]) -> dict[int, str]:
    """Return the receipts at these positions: the event's id, or of a window the id of its command's first event."""
    receipts: dict[int, str] = {}
    for position in positions:
        entry = audit.at(connection, position)
        if entry is not None and entry.type == WindowAssembled.__name__:
            entries = audit.command_at(connection, position)
            entry = next((first for first in entries if first.type == entry.type), entry)
        if entry is not None:
            receipts[position] = entry.event_id
    return receipts
