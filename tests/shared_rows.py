"""Rows of a log as a machine would publish them, for tests below the core."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256

from ledger.log.envelope import GENESIS, LogRow, digest, link
from ledger.log.shared.port import Publication, SharedBlob, SharedLog, Tail, Tip

START = Tip(0, GENESIS)


def rows_after(tip: Tip, *states: str, type_: str = "MemoryCaptured", stream: str = "m") -> list[LogRow]:
    """Return a row for each state, each in a stream of its own, that follow a tip."""
    rows: list[LogRow] = []
    position, head = tip
    for state in states:
        position += 1
        mark = digest(state.encode())
        name = f"{stream}_{position}"
        head = link(head, position, name, 1, type_, mark)
        rows.append(LogRow(position, name, 1, type_, state, mark, head, b"key" + bytes([position % 256]), None))
    return rows


def end_of(rows: Sequence[LogRow], before: Tip) -> Tip:
    return Tip(rows[-1].position, rows[-1].head) if rows else before


def publication(
    before: Tip,
    rows: Sequence[LogRow],
    blobs: Sequence[SharedBlob] = (),
    redactions: Sequence[tuple[int, str, int]] = (),
    erased_blobs: Sequence[tuple[str, int]] = (),
) -> Publication:
    return Publication(before, end_of(rows, before), rows, blobs, redactions, erased_blobs)


def erasing(*changes: tuple[int, str], blobs: Sequence[str] = ()) -> str:
    """Return the state of a ContentErased that covers changes of events (position, new state), and blobs."""
    targets = [{"position": at, "after": sha256(state.encode()).hexdigest()} for at, state in changes]
    return json.dumps({"data": {"targets": targets, "blobs": list(blobs)}})


def locked(log: SharedLog, tip: Tip = START) -> Tail:
    return log.lock(tip.position, tip.head, 1000)


def write(log: SharedLog, *states: str, blobs: Iterable[tuple[str, bytes]] = (), type_: str = "MemoryCaptured") -> Tip:
    """Append a row for each state in one commit, with blobs, and return the new end."""
    tail = log.lock(0, GENESIS, 10**6)
    rows = rows_after(tail.tip, *states, type_=type_)
    end = end_of(rows, tail.tip)
    log.publish(publication(tail.tip, rows, [SharedBlob(name, end.position, data, None) for name, data in blobs]))
    return end


def states(tail: Tail) -> list[str]:
    return [row.state for row in tail.rows]
