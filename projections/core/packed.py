"""Which subjects of a group have a number, packed: for each number the subjects, thousands of them in one blob.

A row of a table for each number of each subject would be written to as many pages as it has numbers. Here subjects wait, one
row each, until there are some hundreds, and each blob that they concern is then written once. An entry is 32 bits: where the
subject is among the rows of its part, and how many of its numbers are enough. Of what is taken out no trace stays behind.
"""

from __future__ import annotations

import sqlite3
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from struct import pack, unpack

from ledger.domain.errors import DamagedError
from projections.core.rows import Key, Packed, Values, parted

PART_BITS, MOST = 14, 2**18 - 1  # of rows in a part; numbers that an entry can ask for
_PLACE, _FEW = (1 << PART_BITS) - 1, 3 << PART_BITS
_WHOLE = -1  # the part that says how many subjects a group has


def take(connection: sqlite3.Connection, index: Packed, prefix: str, rows: Sequence[Values]) -> None:
    """Takes in what waited."""
    sql = f"INSERT INTO {prefix}{index.name} VALUES (?, ?, ?) ON CONFLICT (number, part) DO UPDATE SET"
    expanded = _expanded(index, rows)
    added = [(*key, entries) for key, entries in _entries(expanded).items()]
    connection.executemany(f"{sql} entries = CAST(entries || excluded.entries AS BLOB)", sorted(added))
    for group, count in _groups(expanded).items():
        _put(connection, index, prefix, (group, _WHOLE), pack("<q", _size(connection, index, prefix, group) + count))


def remove(connection: sqlite3.Connection, index: Packed, prefix: str, rows: Sequence[Values]) -> None:
    """Takes out what was taken in, given as it waited."""
    expanded = _expanded(index, rows)
    for key, gone in _entries(expanded).items():
        if (blob := _get(connection, index, prefix, key)) is not None:
            _put(connection, index, prefix, key, _without(blob, gone))
    for group, count in _groups(expanded).items():
        left = _size(connection, index, prefix, group) - count
        _put(connection, index, prefix, (group, _WHOLE), pack("<q", left) if left else b"")


def look(
    connection: sqlite3.Connection, index: Packed, groups: Iterable[int], numbers: Iterable[int]
) -> tuple[int, list[int]]:
    """How many subjects these groups have, and the rows of those that have enough of these numbers."""
    try:
        return _look(connection, index, frozenset(groups), frozenset(numbers))
    except (struct.error, TypeError) as error:
        raise DamagedError(index.name, None, "it does not hold what was packed") from error


def _look(
    connection: sqlite3.Connection, index: Packed, groups: frozenset[int], numbers: frozenset[int]
) -> tuple[int, list[int]]:
    parts = dict[int, list[bytes]]()
    for some in parted(sorted(numbers)):
        sql = f"SELECT part, entries FROM {index.name} WHERE number IN ({', '.join('?' * len(some))})"
        for part, entries in connection.execute(sql, some):
            parts.setdefault(part, []).append(entries)
    found = list[int]()
    for part, blobs in parts.items():
        base, counts = part << PART_BITS, Counter(_unpacked(b"".join(blobs)))
        found += [  # most have one or two of the numbers, and need more
            base | each & _PLACE
            for each, count in counts.items()
            if (count > 2 or each < _FEW) and count >= each >> PART_BITS
        ]
    total = sum(_size(connection, index, "", group) for group in groups)
    for row, *kept in connection.execute(f"SELECT * FROM {index.waiting.name}"):
        least, group, *own = index.expand(tuple(kept))
        total += group in groups
        if len(numbers.intersection(own)) >= least > 0:
            found.append(row)
    return total, found


def subjects(connection: sqlite3.Connection, index: Packed) -> Iterator[tuple[int, int, bytes]]:
    """Every number with a part and what it holds, in one order whatever was taken in first."""
    for number, part, blob in connection.execute(f"SELECT * FROM main.{index.name} ORDER BY number, part"):
        yield number, part, blob if part == _WHOLE else pack(f"<{len(blob) // 4}I", *sorted(_unpacked(blob)))


def difference(live: sqlite3.Connection, fresh: sqlite3.Connection, index: Packed) -> str | None:
    """What is wrong with the index, or with what waits for it. ``fresh`` holds a fold of the log, which is used up."""
    try:
        take(fresh, index, "", fresh.execute(f"SELECT * FROM {index.waiting.name}").fetchall())
        remove(fresh, index, "", live.execute(f"SELECT * FROM main.{index.waiting.name}").fetchall())
        same = all(found == wanted for found, wanted in zip_longest(subjects(live, index), subjects(fresh, index)))
    except (struct.error, TypeError):
        same = False
    return None if same else f"the index {index.name} and what waits for it do not say what the log says"


def _expanded(index: Packed, rows: Iterable[Values]) -> list[tuple[int, Sequence[int]]]:
    """Each row with its numbers, which are made once."""
    return [(row, index.expand(tuple(kept))) for row, *kept in rows]


def _entries(expanded: Iterable[tuple[int, Sequence[int]]]) -> dict[tuple[int, int], bytes]:
    found: dict[tuple[int, int], bytes] = {}
    for row, (least, _, *numbers) in expanded:
        part, entry = row >> PART_BITS, pack("<I", row & _PLACE | min(least, MOST) << PART_BITS)
        for number in numbers:
            key = (number, part)
            found[key] = found[key] + entry if key in found else entry
    return found


def _groups(expanded: Iterable[tuple[int, Sequence[int]]]) -> Counter[int]:
    return Counter(group for _, (_, group, *_) in expanded)


def _unpacked(blob: bytes) -> tuple[int, ...]:
    return unpack(f"<{len(blob) // 4}I", blob)


def _size(connection: sqlite3.Connection, index: Packed, prefix: str, group: int) -> int:
    blob = _get(connection, index, prefix, (group, _WHOLE))
    return int(unpack("<q", blob)[0]) if blob is not None else 0


def _get(connection: sqlite3.Connection, index: Packed, prefix: str, key: Key) -> bytes | None:
    sql = f"SELECT entries FROM {prefix}{index.name} WHERE number = ? AND part = ?"
    row = connection.execute(sql, key).fetchone()
    return row[0] if row is not None else None


def _put(connection: sqlite3.Connection, index: Packed, prefix: str, key: Key, entries: bytes) -> None:
    if entries:
        connection.execute(f"INSERT OR REPLACE INTO {prefix}{index.name} VALUES (?, ?, ?)", (*key, entries))
    else:
        connection.execute(f"DELETE FROM {prefix}{index.name} WHERE number = ? AND part = ?", key)


def _without(blob: bytes, gone: bytes) -> bytes:
    if len(gone) > 32:
        out = set(_unpacked(gone))
        left = [each for each in _unpacked(blob) if each not in out]
        return pack(f"<{len(left)}I", *left)
    for start in range(0, len(gone), 4):
        at = blob.find(gone[start : start + 4])
        while at >= 0 and at % 4:
            at = blob.find(gone[start : start + 4], at + 1)
        blob = blob[:at] + blob[at + 4 :] if at >= 0 else blob
    return blob
