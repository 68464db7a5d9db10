"""The report of the events that still hold an erased text, because they were kept or belong to somebody else."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from ledger.core.reads import read_event
from ledger.domain.quotes import excerpt
from ledger.erasure import answers, scanning
from ledger.erasure import rules as erasure
from ledger.erasure.plan import ErasurePlan
from ledger.erasure.rows import ErasureRow, ErasureRows, Target
from ledger.erasure.scanning import Scan
from projections.core import sql_views
from projections.core.rows import Connection, DatabaseError
from projections.search import vectors

LISTED = 20  # the most entries in a report, which also gives the number of all entries
KEPT, ANOTHER, ALSO = "it was kept", "it is another user's", "it says the same or a part of the same"
MADE, ERASED = "it says who made the ledger", "it says who erased"
NAMED = "texts of other projects, or of none, were recorded in its session: `erase {position}` takes the name alone"
_BLOB = re.compile(rb'"blob":"([^"]+)"')


def holders(
    connection: Connection, scan: Scan, pieces: Collection[int], taken: Mapping[int, Target] = {}
) -> tuple[set[int], dict[int, str]]:
    """Return the pieces of text that the log holds, and the events that hold one: position -> piece.

    A piece found only in a vector belongs to no event, because two texts may have the same vector.

    Args:
        connection: The snapshot to read.
        scan: The patterns of the erased texts.
        pieces: The numbers of the pieces to look for.
        taken: Position -> target of a planned erasure; these texts count as gone already.
    """
    missing, held, places = set(pieces), set[int](), dict[int, str]()
    texts = {number: data.decode("utf-8", "replace") for number, form, data in scan.patterns if form == "utf-8"}
    for batch in _batches(_log(connection, taken)):
        if not _pieces(scan, b"\n".join(data for _, data in batch), missing):
            continue
        for position, data in batch:
            if here := _pieces(scan, data, missing):
                held |= here
                places.setdefault(position, texts.get(min(here), ""))
    places.pop(0, None)
    return held, dict(sorted(places.items()))


def own_tables(connection: Connection, scan: Scan, pieces: Collection[int]) -> dict[str, set[int]]:
    """Return the tables that people added to the file and that hold one of these pieces, each with its pieces."""
    missing, holding = set(pieces), dict[str, set[int]]()
    tables = [name for kind, name, _ in sql_views.by_hand(connection) if kind == "table"] if missing else []
    for name in tables:
        # A table that cannot be read explains no hit of the search, so the hit keeps the erasure pending.
        with suppress(DatabaseError):
            for row in connection.execute(f'SELECT * FROM main."{name}"'):
                data = b"\n".join(
                    value if isinstance(value, bytes) else str(value).encode("utf-8", "replace") for value in row
                )
                if here := _pieces(scan, data, missing):
                    holding.setdefault(name, set()).update(here)
    return holding


def _pieces(scan: Scan, data: bytes, candidates: set[int]) -> set[int]:
    return candidates & {scan.patterns[number][0] for number in scan.within(data)}


def _log(connection: Connection, taken: Mapping[int, Target]) -> Iterator[tuple[int, bytes]]:
    """Yield (position, text) of every event and blob, and of the vectors with the position 0."""
    blobs = dict[str, int]()
    for position, type_, state in connection.execute("SELECT position, type, state FROM events"):
        target = taken.get(position)
        left = erasure.redacted(type_, state, target.fields, target.spans) if target is not None else state
        data = left.encode()
        blobs |= {blob.decode(): position for blob in _BLOB.findall(data)}
        yield position, data
    gone = {blob for target in taken.values() for blob in target.blobs}
    for blob, data in connection.execute("SELECT id, data FROM blobs WHERE data IS NOT NULL"):
        if blob not in gone:
            yield blobs.get(blob, 0), data
    if vectors.is_there(connection) and not taken:
        yield from ((0, vector) for (vector,) in connection.execute(f"SELECT vector FROM {vectors.NAME}"))


def _batches(log: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """Yield the log in batches of some megabytes."""
    batch, size = list[tuple[int, bytes]](), 0
    for position, data in log:
        batch.append((position, data))
        size += len(data)
        if size > scanning.CHUNK_BYTES:
            yield batch
            batch, size = [], 0
    yield batch


# --- the entries of a report ------------------------------------------------------------------------------------------


def planned(connection: Connection, plan: ErasurePlan, owner: str) -> tuple[tuple[answers.Remaining, ...], int]:
    """Return the texts that would stay under the plan, without the undecided events, which its lists show already."""
    scan = Scan(text for target in plan.targets for text in target.texts)
    taken = {target.position: target for target in plan.targets}
    _, holding = holders(connection, scan, {piece for piece, _, _ in scan.patterns}, taken)
    undecided = {item.row.position for items in plan.lists.values() for item in items if not item.choice}
    holding = {position: piece for position, piece in holding.items() if position not in undecided}
    gone = {text for target in plan.targets for text in target.texts}
    named = people(connection, gone, (1,) if plan.asked.kind == "user" and 1 not in taken else ())
    return listed(connection, holding, (*map(name, plan.names), *named), owner, plan.kept)


def people(connection: Connection, texts: Collection[str], positions: Iterable[int]) -> Iterator[answers.Remaining]:
    """Yield the events at these positions whose envelope names a person whose name is one of the erased texts."""
    for position in positions:
        event = read_event(connection, position)
        recorded = (event.envelope.actor, event.envelope.agent, event.envelope.client) if event is not None else ()
        names = [name for name in dict.fromkeys(recorded) if name and name in texts]
        if event is not None and names:
            why = MADE if position == 1 else ERASED
            quoted = ", ".join(map(excerpt, names))
            yield answers.Remaining(position=position, subject=event.stream, type=event.type, excerpt=quoted, why=why)


def listed(
    connection: Connection,
    holding: Mapping[int, str],
    names: Collection[answers.Remaining],
    owner: str | None,
    kept: Collection[int],
) -> tuple[tuple[answers.Remaining, ...], int]:
    """Return the first entries for a report and the number of all entries.

    Args:
        connection: The snapshot to read.
        holding: Position -> a piece of an erased text that the event there holds.
        names: Entries for names that stay, which come first.
        owner: The user whose texts were erased; of another user's event only the position is given.
        kept: The positions that the caller chose to keep.
    """
    rows, listed = ErasureRows(connection), [*names]
    places = {
        position: piece for position, piece in holding.items() if position not in {entry.position for entry in names}
    }
    for position in [*places][: max(0, LISTED - len(listed))]:
        event = read_event(connection, position)
        if event is None or owner is None or event.envelope.user != owner:
            listed.append(answers.Remaining(position=position, why=ANOTHER))
            continue
        row, why = rows.row(position), KEPT if position in kept else ALSO
        around = _around(rows, row, places[position])
        listed.append(answers.Remaining(position=position, subject=row.stream, type=row.type, excerpt=around, why=why))
    return tuple(listed[:LISTED]), len(names) + len(places)


def name(row: ErasureRow) -> answers.Remaining:
    why = NAMED.format(position=row.position)
    text = excerpt(row.parts[0].texts[0])
    return answers.Remaining(position=row.position, subject=row.stream, type=row.type, excerpt=text, why=why)


def _around(rows: ErasureRows, row: ErasureRow, piece: str) -> str:
    """Return the words around a piece of text in the event's own texts, or ""."""
    for part in (*row.parts, *erasure.people(row.state)):
        for text in rows.texts(part):
            if (at := text.find(piece)) >= 0:
                return excerpt(text, ((at, at + len(piece)),))
    return ""
