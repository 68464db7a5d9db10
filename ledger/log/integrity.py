"""The check of the hash chain over the log, and the search for a damaged row.

The check knows the erasures that explain a changed row. The search follows an error that a damaged row may have caused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256

from msgspec import MsgspecError

from ledger.domain.errors import DamagedError, LedgerError
from ledger.events import ContentErased
from ledger.log import registry
from ledger.log.envelope import GENESIS, digest, link, link_record

# position, stream, version, type, state, digest, head, erased_by
CheckedRow = tuple[int, str, int, str, str, bytes, bytes, int | None]


class ErasedContents:
    """The rows and blobs that the ContentErased events of a log changed; the events are added in their order."""

    def __init__(self) -> None:
        self.rows: dict[int, list[tuple[int, str, str]]] = {}  # position -> (erased at, digest before, digest after)
        self.blobs: dict[str, int] = {}  # id -> erased at

    def add(self, position: int, event: ContentErased) -> None:
        for target in event.targets:
            self.rows.setdefault(target.position, []).append((position, target.before, target.after))
        self.blobs |= dict.fromkeys(event.blobs, position)

    def problems(self, place: int, erased_by: int | None, stored: bytes, computed: bytes) -> Iterator[str]:
        """Yield the contradictions between a row's mark of erasure and the erasures; ``computed`` is its state's digest."""
        acts = self.rows.get(place, [])
        last = acts[-1][0] if acts else None
        if erased_by != last:
            stated = f"position {erased_by} erased it" if erased_by is not None else "nothing was erased of it"
            erasure = f"the last to name it is position {last}" if last is not None else "no erasure names it"
            yield f"position {place}: the row says that {stated}, and {erasure}"
            return
        expected = stored.hex()
        for at, before, after in acts:
            if at <= place or before != expected:
                yield f"position {place}: position {at} erased another state than the one that was there"
                return
            expected = after
        if expected != computed.hex():
            yield f"position {place}: the state is not what its erasure at position {last} left"


def wrong_keys(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield a sentence for each row whose key, which is outside the chain, is not the key that its state names."""
    sql = (
        "SELECT position, CASE json_valid(state) WHEN 1 THEN json_extract(state, '$.key') END AS named, lower(hex(key))"
        ' FROM main.events WHERE (key IS NOT NULL OR instr(state, \'"key":"\')) AND named IS NOT'
        " CASE WHEN key IS NULL THEN NULL ELSE lower(hex(key)) END"
    )
    for position, *_ in connection.execute(sql):
        yield f"position {position}: the row has another key than its state names"


def check_chain(
    rows: Iterable[CheckedRow],
    *,
    position: int = 0,
    head: bytes = GENESIS,
    erasures: ErasedContents | None = None,
    leaf_to: Callable[[bytes], None] | None = None,
) -> Iterator[str]:
    """Walk the log in order and yield a sentence with the position for each problem; nothing if the log is sound.

    ``position`` and ``head`` are those of the row before the first. After a problem the walk continues from the values
    that the row states, so one change is reported once. Without ``erasures`` a row with ``erased_by`` may hold any state.
    ``leaf_to`` receives the leaf of every row.
    """
    previous, erased = head.hex(), erasures.rows if erasures is not None else {}
    for row in rows:
        place, stream, version, type_, state, stored, after, erased_by = row
        try:
            computed = sha256(state.encode()).digest()
            record = link_record(previous, place, stream, version, type_, stored.hex())
            sound, following = sha256(record).digest() == after and place == position + 1, after.hex()
        except (AttributeError, TypeError, ValueError):
            yield _unreadable(place, row)
            position, previous = _resume(position, previous, place, after)
            if leaf_to is not None:
                leaf_to(GENESIS)
            continue
        if leaf_to is not None:
            leaf_to(sha256(b"\x00" + record).digest())
        if not sound or (computed != stored and erased_by is None):
            yield from _problems(
                position, place, computed == stored or erased_by is not None, sha256(record).digest(), after
            )
        if erasures is not None and (erased_by is not None or place in erased):
            yield from erasures.problems(place, erased_by, stored, computed)
        position, previous = place, following


def _problems(position: int, place: int, intact: bool, expected: bytes, after: bytes) -> Iterator[str]:
    if place != position + 1:
        yield f"position {place}: follows position {position}, where {position + 1} was expected"
    if not intact:
        yield f"position {place}: the state does not hash to its digest, and no erasure is named"
    if expected != after:
        yield f"position {place}: the head does not follow from the row and the head before it"


def _unreadable(place: object, row: CheckedRow) -> str:
    kinds = ", ".join(type(value).__name__ for value in row)
    return f"position {place}: a column holds a value of the wrong type ({kinds})"


def _resume(position: int, previous: str, place: object, after: object) -> tuple[int, str]:
    return (
        place if isinstance(place, int) else position + 1,
        after.hex() if isinstance(after, bytes) else previous,
    )


# --- the search after an error that damage may have caused -----------------------------------------------------------

# A damaged row leads to one of these errors. Of SQLite's errors, these codes tell of a page, table or text that is unreadable.
_MAY_BE_DAMAGE = (TypeError, AttributeError, ValueError, LookupError, AssertionError, ArithmeticError, MsgspecError)
_MAY_BE_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR)

_ROWS = (  # texts as bytes, because the driver fails on a text that is not UTF-8
    "SELECT position, CAST(stream AS BLOB), version, CAST(type AS BLOB), CAST(state AS BLOB), digest, head, erased_by"
    " FROM main.events ORDER BY position"
)


def find_in_log(connection: sqlite3.Connection) -> DamagedError | None:
    """Return the first row of the log that is not as recorded; None if every row is. Reads every row up to that row."""
    before = GENESIS
    with suppress(sqlite3.Error):  # the caller reports a page that cannot be read
        for position, stream, version, type_, state, mark, head, erased_by in connection.execute(_ROWS):
            try:
                named = (stream.decode(), version, type_.decode())
                registry.decode(position, position, *named, state.decode())
                sound = link(before, position, *named, mark) == head and (erased_by or digest(state) == mark)
            except DamagedError as damaged:
                return damaged
            except (AttributeError, TypeError, ValueError):
                sound = False
            if not sound:
                return DamagedError("events", position, "is not what was recorded")
            before = head
    return None


def may_be_damage(error: BaseException) -> bool:
    """Return True if a damaged row may have caused an error that was not searched yet."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _MAY_BE_DAMAGED
    known = isinstance(error, LedgerError) or hasattr(error, "searched")
    return isinstance(error, _MAY_BE_DAMAGE) and not known
