"""The index of the memories that a response can restate: those of its pool that share enough of its stems.

Stems are kept as keyed numbers. Each pool (the memories of a project, or those that count in every project) has its own, so
that a search reads nothing of other users and projects.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b

from ledger.domain.text import keyed_digest
from ledger.english.matching import found_by
from ledger.events import AnyEvent
from ledger.memories.state import MemoryState
from projections.core.packed import look, waiting
from projections.core.rows import ProjectionRows, Values, packed, parted
from projections.core.subjects import SubjectChange
from projections.views.memories import EVERYWHERE, pool_condition

RESTATABLE = packed("restatable")


class Restatable:
    name, version, follows, reads = "restatable", 5, frozenset("m"), ()
    tables = (RESTATABLE, RESTATABLE.waiting)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            old, new = _restated(change.old), _restated(change.new)
            if old != new:
                rows.index(RESTATABLE, change.first, self._kept(old), self._kept(new))

    def _kept(self, restated: tuple[str, str, str] | None) -> Values | None:
        """Return the row of a memory: its pool, the number of stems that are enough, and its stems."""
        if restated is None:
            return None
        user, pool, content = restated
        key, (least, stems) = _key(self._secret, user, pool), found_by(content)
        return waiting(_number(key, ""), least, [_number(key, stem) for stem in stems])


def _restated(state: MemoryState | None) -> tuple[str, str, str] | None:
    """Return (user, pool, text) of a memory that a response can restate, or None. A project is its own pool."""
    if state is None or state.status != "active" or state.quarantined or state.user is None or state.content is None:
        return None
    if state.project is not None:
        return state.user, state.project, state.content
    return (state.user, "", state.content) if state.kind in EVERYWHERE else None


@lru_cache(maxsize=1024)
def _key(secret: bytes, user: str, pool: str) -> bytes:
    return keyed_digest(secret, f"restatable {len(user)}:{user}{pool}".encode())


@lru_cache(maxsize=16_384)
def _number(key: bytes, stem: str) -> int:
    """Return 40 bits for a stem; "" stands for the pool itself."""
    return int.from_bytes(blake2b(stem.encode(errors="surrogatepass"), digest_size=5, key=key).digest(), "little")


# --- reads -----------------------------------------------------------------------------------------------------------


def candidates(
    connection: sqlite3.Connection, secret: bytes, user: str, projects: Sequence[str | None], stems: Iterable[str]
) -> tuple[int, list[tuple[int, str]]]:
    """Return the size of a pool, and (row, text) of each of its memories that a text with these stems can restate."""
    keys = [_key(secret, user, pool) for pool in {"", *(project for project in projects if project is not None)}]
    wanted_stems = list(stems)
    groups, numbers = [_number(key, "") for key in keys], [_number(key, stem) for key in keys for stem in wanted_stems]
    size, rows = look(connection, RESTATABLE, groups, numbers)
    return size, list(_texts(connection, sorted(rows), *pool_condition(projects), user))


def _texts(
    connection: sqlite3.Connection, rows: Sequence[int], where: str, values: Values, user: str
) -> Iterator[tuple[int, str]]:
    for batch in parted(rows):
        marks = ", ".join("?" * len(batch))
        sql = f"SELECT m.row, m.content FROM memories m NOT INDEXED WHERE m.row IN ({marks}) AND {where}"
        yield from connection.execute(sql, (*batch, user, *values))
