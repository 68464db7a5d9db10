"""What stays of what an erasure takes: the events that hold a text of it rightly, and the words around it there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from ledger import answers
from ledger.domain import erasure
from ledger.domain.quotes import excerpt
from ledger.engine.log_reading import read_event
from ledger.erasure import scanning
from ledger.erasure.plan import Plan
from ledger.erasure.rows import Row, Rows, Target
from ledger.erasure.scanning import Scan
from projections.core import sql_views
from projections.core.rows import Connection, DatabaseError
from projections.search import vectors

LISTED = 20  # in a report, which says how many there are in all
KEPT, ANOTHER, ALSO = "it was kept", "it is another user's", "it says the same, or a part of it"
MADE, ERASED = "it says who made the ledger", "it says who erased"
NAMED = "texts of other projects, or of none, were recorded in its session: `erase {position}` takes the name alone"
_BLOB = re.compile(rb'"blob":"([^"]+)"')


def holders(
    connection: Connection, scan: Scan, pieces: Collection[int], taken: Mapping[int, Target] = {}
) -> tuple[set[int], dict[int, str]]:
    """Which of these pieces of text the log holds (or would, without what is ``taken``), and the events that hold one of
    them: position -> piece. What a vector holds belongs to no event, for two texts may have one vector."""
    wanted, found, places = set(pieces), set[int](), dict[int, str]()
    texts = {number: data.decode("utf-8", "replace") for number, form, data in scan.patterns if form == "utf-8"}
    for batch in _batches(_log(connection, taken)):
        if not _pieces(scan, b"\n".join(data for _, data in batch), wanted):
            continue
        for position, data in batch:
            if here := _pieces(scan, data, wanted):
                found |= here
                places.setdefault(position, texts.get(min(here), ""))
    places.pop(0, None)
    return found, dict(sorted(places.items()))


def own_tables(connection: Connection, scan: Scan, pieces: Collection[int]) -> dict[str, set[int]]:
    """People's own tables in the file that hold one of these pieces of text, each with those that it holds."""
    wanted, found = set(pieces), dict[str, set[int]]()
    tables = [name for kind, name, _ in sql_views.by_hand(connection) if kind == "table"] if wanted else []
    for name in tables:
        with suppress(DatabaseError):  # one that cannot be read: what of it is in the file stays unexplained
            for row in connection.execute(f'SELECT * FROM main."{name}"'):
                data = b"\n".join(
                    each if isinstance(each, bytes) else str(each).encode("utf-8", "replace") for each in row
                )
                if here := _pieces(scan, data, wanted):
                    found.setdefault(name, set()).update(here)
    return found


def _pieces(scan: Scan, data: bytes, wanted: set[int]) -> set[int]:
    return wanted & {scan.patterns[number][0] for number in scan.within(data)}


def _log(connection: Connection, taken: Mapping[int, Target]) -> Iterator[tuple[int, bytes]]:
    """(position, text) of everything in the log, and of what was made of it at position 0."""
    blobs = dict[str, int]()
    for position, type_, state in connection.execute("SELECT position, type, state FROM events"):
        target = taken.get(position)
        left = erasure.redacted(type_, state, target.fields, target.spans) if target is not None else state
        data = left.encode()
        blobs |= {found.decode(): position for found in _BLOB.findall(data)}
        yield position, data
    gone = {blob for target in taken.values() for blob in target.blobs}
    for blob, data in connection.execute("SELECT id, data FROM blobs WHERE data IS NOT NULL"):
        if blob not in gone:
            yield blobs.get(blob, 0), data
    if vectors.is_there(connection) and not taken:
        yield from ((0, vector) for (vector,) in connection.execute(f"SELECT vector FROM {vectors.NAME}"))


def _batches(log: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """Some megabytes at a time."""
    batch, size = list[tuple[int, bytes]](), 0
    for position, data in log:
        batch.append((position, data))
        size += len(data)
        if size > scanning.CHUNK_BYTES:
            yield batch
            batch, size = [], 0
    yield batch


# --- as a report lists them ------------------------------------------------------------------------------------------


def planned(connection: Connection, plan: Plan, owner: str) -> tuple[tuple[answers.Remaining, ...], int]:
    """What would stay with the choices that were made: what nobody has decided about is in the lists."""
    scan = Scan(text for target in plan.targets for text in target.texts)
    taken = {target.position: target for target in plan.targets}
    _, found = holders(connection, scan, {piece for piece, _, _ in scan.patterns}, taken)
    undecided = {each.row.position for listed in plan.lists.values() for each in listed if not each.choice}
    found = {position: piece for position, piece in found.items() if position not in undecided}
    gone = {text for target in plan.targets for text in target.texts}
    named = people(connection, gone, (1,) if plan.asked.kind == "user" and 1 not in taken else ())
    return listed(connection, found, (*map(name, plan.names), *named), owner, plan.kept)


def people(connection: Connection, texts: Collection[str], positions: Iterable[int]) -> Iterator[answers.Remaining]:
    """The events at these positions that say who made the ledger or erased, by a name that was erased elsewhere."""
    for position in positions:
        event = read_event(connection, position)
        given = (event.envelope.actor, event.envelope.agent, event.envelope.client) if event is not None else ()
        found = [each for each in dict.fromkeys(given) if each and each in texts]
        if event is not None and found:
            why = MADE if position == 1 else ERASED
            quoted = ", ".join(map(excerpt, found))
            yield answers.Remaining(position=position, subject=event.stream, type=event.type, excerpt=quoted, why=why)


def listed(
    connection: Connection,
    found: Mapping[int, str],
    names: Collection[answers.Remaining],
    owner: str | None,
    kept: Collection[int],
) -> tuple[tuple[answers.Remaining, ...], int]:
    """The first of them, and how many there are: names first, then what holds a text."""
    rows, listed = Rows(connection), [*names]
    places = {position: piece for position, piece in found.items() if position not in {each.position for each in names}}
    for position in [*places][: max(0, LISTED - len(listed))]:
        event = read_event(connection, position)
        if event is None or owner is None or event.envelope.user != owner:
            listed.append(answers.Remaining(position=position, why=ANOTHER))
            continue
        row, why = rows.row(position), KEPT if position in kept else ALSO
        around = _around(rows, row, places[position])
        listed.append(answers.Remaining(position=position, subject=row.stream, type=row.type, excerpt=around, why=why))
    return tuple(listed[:LISTED]), len(names) + len(places)


def name(row: Row) -> answers.Remaining:
    why = NAMED.format(position=row.position)
    text = excerpt(row.parts[0].texts[0])
    return answers.Remaining(position=row.position, subject=row.stream, type=row.type, excerpt=text, why=why)


def _around(rows: Rows, row: Row, piece: str) -> str:
    """The words around a piece of text, where an event has it among what somebody wrote."""
    for part in (*row.parts, *erasure.people(row.state)):
        for text in rows.texts(part):
            if (at := text.find(piece)) >= 0:
                return excerpt(text, ((at, at + len(piece)),))
    return ""
