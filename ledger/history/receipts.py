"""The places where contents of an origin were shown to a model: turns that used them, recalls and assembled windows."""

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
    """Return the places where contents of an origin were shown to a model.

    These are the ids of the interactions that used the contents (``memories_used``, ``chunks_used``), followed by the receipts
    of the recalls and windows that delivered them.

    A memory among the ``streams`` counts as a whole, and so does an observation that one of the streams supports. Of documents,
    sessions and turns only the texts of ``fallen`` events count; of the documents and turns that are ``gone``, all texts.
    """
    connection, subjects = reader.connection, _subjects_shown(reader, streams, fallen, gone)
    turns = {
        row: id
        for used in ("memories_used", "chunks_used")
        for row, id, subject in connection.execute(
            f"SELECT i.row, i.id, used.value FROM interactions i, json_each(i.{used}) used"
            f" WHERE i.user = ? AND i.{used} IS NOT NULL",
            (user,),
        )
        if subject in subjects
    }
    recalls = _receipts_at(connection, delivered.showing(connection, subjects, user))
    windows = delivered.showing(
        connection, dict.fromkeys(recalls.values(), ()), user
    )  # windows that contain the recalls
    all_receipts = recalls | _receipts_at(connection, windows)
    shown = dict.fromkeys(all_receipts[position] for position in sorted(all_receipts))
    return (*(turns[row] for row in sorted(turns)), *shown)


def _subjects_shown(
    reader: Reader, streams: Iterable[str], fallen: Iterable[int], gone: Iterable[str]
) -> dict[str, list[int]]:
    """Return the ids under which contents of an origin may have been shown, each with the positions of its events."""
    touched = set(streams)
    subjects: dict[str, list[int]] = {stream: [] for stream in touched if stream[0] in "mo"}
    # Of a session only the fallen events count, because other events may have been distrusted before.
    of_gone = (event.position for stream in gone if stream[0] != "s" for event, _ in reader.stream(stream))
    for position in sorted({*fallen, *of_gone}):
        event = reader.event(position)
        subjects.setdefault(event.stream, []).append(position)
        if isinstance(event.data, ChunkAdded):
            subjects.setdefault(event.data.chunk, []).append(position)
        elif isinstance(event.data, SummaryCreated):
            subjects.setdefault(event.data.summary, []).append(position)
    citing = observation_hits.citing(reader.connection, {*touched, *subjects})
    return subjects | {observation: [] for observation in citing}


def _receipts_at(connection: Connection, positions: Iterable[int]) -> dict[int, str]:
    """Return the receipts at these positions: of a recall its event's id, of a window the id of its first event."""
    receipts: dict[int, str] = {}
    for position in positions:
        entry = audit.at(connection, position)
        if entry is not None and entry.type == WindowAssembled.__name__:
            entries = audit.command_at(connection, position)
            entry = next((first for first in entries if first.type == entry.type), entry)
        if entry is not None:
            receipts[position] = entry.event_id
    return receipts
