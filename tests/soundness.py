"""The laws of every ledger at every moment: a dense log, an unbroken chain, and rows that a rebuild gives again."""

from __future__ import annotations

import json
from collections import defaultdict

import probe
from conftest import folded_from_zero

from ledger import Ledger
from ledger.log.integrity import check_chain

_COLUMNS = "position, stream, version, type, state, digest, head, erased_by"


def problems(ledger) -> list[str]:
    """Return the faults of the log itself: in its chain, its positions and its versions; none if all is well."""
    with probe.store(ledger).snapshot() as connection:
        rows = connection.execute(f"SELECT {_COLUMNS} FROM events ORDER BY position").fetchall()
    found = list(check_chain(rows))
    if [row[0] for row in rows] != list(range(1, len(rows) + 1)):
        found.append("the positions are not 1, 2, 3 …")
    versions = defaultdict(list)
    for row in rows:
        versions[row[1]].append(row[2])
    found += [stream for stream, each in versions.items() if each != list(range(1, len(each) + 1))]
    return found


def assert_sound(ledger) -> None:
    assert problems(ledger) == []
    folded = ledger.proof.digest()
    report = probe.rebuild(ledger)
    assert report.suspended == ()
    assert report.digest == folded, "the rows that commands folded differ from the rows that a rebuild folds"


def tables(ledger) -> set[str]:
    with probe.store(ledger).snapshot() as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def types(ledger) -> list[str]:
    """Return the types of all events, in the order of the log."""
    with probe.store(ledger).snapshot() as connection:
        return [name for (name,) in connection.execute("SELECT type FROM events ORDER BY position")]


def contents(ledger, **filters) -> set[str | None]:
    return {memory.content for memory in ledger.memories.list(limit=1_000, **filters).all()}


def events_of(ledger: Ledger, type_: str) -> list[dict]:
    with probe.store(ledger).snapshot() as connection:
        rows = connection.execute("SELECT state FROM events WHERE type = ? ORDER BY position", (type_,)).fetchall()
    found = [json.loads(state) for (state,) in rows]
    return [{"command_id": each["event_id"]} | each for each in found]  # that of a command's first event is left out


def agrees(ledger: Ledger) -> None:
    assert ledger.proof.digest() == folded_from_zero(ledger)
    assert ledger.proof.verify().ok
