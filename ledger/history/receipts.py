"""Where something of an origin was shown: the turns that used it, and the receipts of recalls and windows."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.domain.events import ChunkAdded, SummaryCreated, WindowAssembled
from ledger.history.in_effect import Reader
from projections.core.rows import Connection
from projections.search import observation_hits
from projections.views import audit, delivered


def receipts(
    reader: Reader, user: str, streams: Iterable[str], fallen: Iterable[int], gone: Iterable[str] = ()
) -> tuple[str, ...]:
    """Where something of a source was shown: interactions (``memories_used``, ``chunks_used``), then the receipts of the
    recalls and assemblies that gave it.

    A memory of these ``streams`` counts as a whole, and so does an observation that one of them supports. Of documents,
    sessions and turns only the words of events that fell count, or all where the subject itself is ``gone``.
    """
    connection, wanted = reader.connection, _reached(reader, streams, fallen, gone)
    turns = {
        row: id
        for used in ("memories_used", "chunks_used")
        for row, id, subject in connection.execute(
            f"SELECT i.row, i.id, used.value FROM interactions i, json_each(i.{used}) used"
            f" WHERE i.user = ? AND i.{used} IS NOT NULL",
            (user,),
        )
        if subject in wanted
    }
    recalls = _receipts_at(connection, delivered.showing(connection, wanted, user))
    woven = delivered.showing(connection, dict.fromkeys(recalls.values(), ()), user)  # recalls that assemblies showed
    found = recalls | _receipts_at(connection, woven)
    shown = dict.fromkeys(found[position] for position in sorted(found))
    return (*(turns[row] for row in sorted(turns)), *shown)


def _reached(
    reader: Reader, streams: Iterable[str], fallen: Iterable[int], gone: Iterable[str]
) -> dict[str, list[int]]:
    """The ids under which something of a source may have been shown, each with the positions of its events that are meant."""
    touched = set(streams)
    found: dict[str, list[int]] = {stream: [] for stream in touched if stream[0] in "mo"}
    # of a session nothing goes but what falls: others may have been distrusted from it before
    ceased = (event.position for stream in gone if stream[0] != "s" for event, _ in reader.stream(stream))
    for position in sorted({*fallen, *ceased}):
        event = reader.event(position)
        found.setdefault(event.stream, []).append(position)
        if isinstance(event.data, ChunkAdded):
            found.setdefault(event.data.chunk, []).append(position)
        elif isinstance(event.data, SummaryCreated):
            found.setdefault(event.data.summary, []).append(position)
    return found | {each: [] for each in observation_hits.citing(reader.connection, {*touched, *found})}


def _receipts_at(connection: Connection, positions: Iterable[int]) -> dict[int, str]:
    """The receipts of recalls and assemblies, by position: the id of the event, or of the first of several."""
    found: dict[int, str] = {}
    for position in positions:
        entry = audit.at(connection, position)
        if entry is not None and entry.type == WindowAssembled.__name__:
            entries = audit.command_at(connection, position)
            entry = next((each for each in entries if each.type == entry.type), entry)
        if entry is not None:
            found[position] = entry.event_id
    return found
