"""An index from numbers to the subjects that have these numbers, packed into blobs with thousands of subjects.

The numbers are keyed hashes of the word stems of a memory. A search for the stems of a text finds the memories that may say the
same as the text.

With a table row for each number of each subject, adding a subject would write as many pages as the subject has numbers. So
subjects wait in a plain table, one row each, until there are a thousand. Then each blob that changes is written once. A blob
belongs to one number and one part of the subjects (2**14 consecutive rows). An entry of a blob has 32 bits: the place of the
subject in the part, and the least count of the subject's numbers that a search must name to find the subject. A removed subject
leaves no trace.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from struct import pack, unpack

from ledger.domain.errors import DamagedError
from projections.core.rows import Packed, Values

PART_BITS, MOST = 14, 2**18 - 1  # bits of a place in a part; the largest least count that an entry can hold
_PLACE, _FEW = (1 << PART_BITS) - 1, 3 << PART_BITS
_PARTS = 20  # bits of a key for the part; the other bits are the number
_WHOLE = (1 << _PARTS) - 1  # the part number under which the count of a group's subjects is kept


def waiting(group: int, least: int, numbers: Collection[int]) -> Values:
    """Return the waiting row of a subject.

    Args:
        group: The subject's group.
        least: The least count of the numbers that a search must name to find the subject.
        numbers: The subject's numbers, of at most 43 bits.
    """
    return group, pack(f"<{len(numbers) + 1}q", least, *numbers)


def take(connection: sqlite3.Connection, index: Packed, prefix: str, rows: Sequence[Values]) -> None:
    """Add waiting subjects to the index."""
    sql = f"INSERT INTO {prefix}{index.name} VALUES (?, ?) ON CONFLICT (number) DO UPDATE SET"
    added = sorted(_entries(rows).items())
    connection.executemany(f"{sql} entries = CAST(entries || excluded.entries AS BLOB)", added)
    _count(connection, index, prefix, Counter(group for _, group, _ in rows))


def remove(connection: sqlite3.Connection, index: Packed, prefix: str, rows: Sequence[Values]) -> None:
    """Remove subjects from the index; ``rows`` are their waiting rows."""
    removed = _entries(rows)
    _put(
        connection,
        index,
        prefix,
        {key: _without(blob, removed[key]) for key, blob in _get(connection, index, prefix, removed)},
    )
    _count(
        connection, index, prefix, Counter({group: -n for group, n in Counter(group for _, group, _ in rows).items()})
    )


def look(
    connection: sqlite3.Connection, index: Packed, groups: Iterable[int], numbers: Iterable[int]
) -> tuple[int, list[int]]:
    """Return the number of subjects in these groups, and the rows of the subjects with enough of these numbers.

    The numbers must come from these groups.

    Raises:
        DamagedError: The index cannot be read.
    """
    try:
        return _look(connection, index, frozenset(groups), frozenset(numbers))
    except (struct.error, TypeError) as error:
        raise DamagedError(index.name, None, "it does not hold what was packed") from error


def _look(
    connection: sqlite3.Connection, index: Packed, groups: frozenset[int], numbers: frozenset[int]
) -> tuple[int, list[int]]:
    parts = dict[int, list[bytes]]()
    sql = (
        f"SELECT number, entries FROM json_each(?) CROSS JOIN {index.name}"
        f" ON number BETWEEN value << {_PARTS} AND (value << {_PARTS}) + {_WHOLE - 1}"
    )
    for key, entries in connection.execute(sql, (json.dumps(sorted(numbers)),)):
        parts.setdefault(key & _WHOLE, []).append(entries)
    matches = list[int]()
    for part, blobs in parts.items():
        base, counts = part << PART_BITS, Counter(_unpacked(b"".join(blobs)))
        matches += [  # the first test is quick: most subjects have one or two of the numbers and need more
            base | entry & _PLACE
            for entry, count in counts.items()
            if (count > 2 or entry < _FEW) and count >= entry >> PART_BITS
        ]
    total = sum(_sizes(connection, index, "", groups).values())
    sql = f"SELECT row, numbers FROM {index.waiting.name} WHERE pool IN (SELECT value FROM json_each(?))"
    for row, blob in connection.execute(sql, (json.dumps(sorted(groups)),)):
        total += 1
        if not numbers.isdisjoint(kept := _numbers(blob)) and len(numbers.intersection(kept[1:])) >= kept[0] > 0:
            matches.append(row)
    return total, matches


def subjects(connection: sqlite3.Connection, index: Packed) -> Iterator[tuple[int, bytes]]:
    """Yield every key with its blob, in an order that does not depend on the order in which subjects were added."""
    for key, blob in connection.execute(f"SELECT * FROM main.{index.name} ORDER BY number"):
        yield key, blob if key & _WHOLE == _WHOLE else pack(f"<{len(blob) // 4}I", *sorted(_unpacked(blob)))


def difference(live: sqlite3.Connection, fresh: sqlite3.Connection, index: Packed) -> str | None:
    """Return the error of an index and its waiting rows if they differ from a fresh fold of the log, or None.

    ``fresh`` is the connection to the fresh fold, whose tables are changed by the comparison.
    """
    try:
        take(fresh, index, "", fresh.execute(f"SELECT * FROM {index.waiting.name}").fetchall())
        remove(fresh, index, "", live.execute(f"SELECT * FROM main.{index.waiting.name}").fetchall())
        same = all(kept == folded for kept, folded in zip_longest(subjects(live, index), subjects(fresh, index)))
    except (struct.error, TypeError):
        same = False
    return None if same else f"the index {index.name} and the rows that wait for it differ from a fold of the log"


def _entries(rows: Iterable[Values]) -> dict[int, bytes]:
    entries: dict[int, bytes] = {}
    for row, _, blob in rows:
        least, *numbers = _numbers(blob)
        part, entry = row >> PART_BITS, pack("<I", row & _PLACE | min(least, MOST) << PART_BITS)
        for number in numbers:
            key = number << _PARTS | part
            entries[key] = entries[key] + entry if key in entries else entry
    return entries


def _numbers(blob: bytes) -> tuple[int, ...]:
    return unpack(f"<{len(blob) // 8}q", blob)


def _unpacked(blob: bytes) -> tuple[int, ...]:
    return unpack(f"<{len(blob) // 4}I", blob)


def _sizes(connection: sqlite3.Connection, index: Packed, prefix: str, groups: Iterable[int]) -> Counter[int]:
    blobs = _get(connection, index, prefix, (group << _PARTS | _WHOLE for group in groups))
    return Counter({key >> _PARTS: unpack("<q", blob)[0] for key, blob in blobs})


def _count(connection: sqlite3.Connection, index: Packed, prefix: str, more: Counter[int]) -> None:
    sizes = _sizes(connection, index, prefix, more)
    sizes.update(more)
    _put(
        connection,
        index,
        prefix,
        {g << _PARTS | _WHOLE: pack("<q", size) if size else b"" for g, size in sizes.items()},
    )


def _get(connection: sqlite3.Connection, index: Packed, prefix: str, keys: Iterable[int]) -> list[tuple[int, bytes]]:
    sql = f"SELECT number, entries FROM json_each(?) CROSS JOIN {prefix}{index.name} ON number = value"
    return connection.execute(sql, (json.dumps(sorted(keys)),)).fetchall()


def _put(connection: sqlite3.Connection, index: Packed, prefix: str, blobs: Mapping[int, bytes]) -> None:
    sql = f"INSERT OR REPLACE INTO {prefix}{index.name} VALUES (?, ?)"
    connection.executemany(sql, [(key, entries) for key, entries in blobs.items() if entries])
    empty = [(key,) for key, entries in blobs.items() if not entries]
    connection.executemany(f"DELETE FROM {prefix}{index.name} WHERE number = ?", empty)


def _without(blob: bytes, gone: bytes) -> bytes:
    if len(gone) > 32:
        removed = set(_unpacked(gone))
        remaining = [entry for entry in _unpacked(blob) if entry not in removed]
        return pack(f"<{len(remaining)}I", *remaining)
    for start in range(0, len(gone), 4):
        at = blob.find(gone[start : start + 4])
        while at >= 0 and at % 4:
            at = blob.find(gone[start : start + 4], at + 1)
        blob = blob[:at] + blob[at + 4 :] if at >= 0 else blob
    return blob
