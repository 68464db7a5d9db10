"""Which memories a response can restate: those of its pool that have enough of its stems.

Stems are kept as keyed numbers, and each pool (the memories of a project, or those that count in every project) has its own,
so that a search reads nothing of other users and projects.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b

from ledger.domain.events import AnyEvent
from ledger.domain.matching import found_by
from ledger.domain.memory import Memory
from ledger.domain.text import keyed_digest
from projections.core.packed import look, waiting
from projections.core.rows import Rows, Values, packed, parted
from projections.core.subjects import Change
from projections.views.memories import EVERYWHERE, pool_condition

RESTATABLE = packed("restatable")


class Restatable:
    name, version, follows = "restatable", 3, frozenset("m")
    tables = (RESTATABLE, RESTATABLE.waiting)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for change in changes:
            old, new = _restated(change.old), _restated(change.new)
            if old != new:
                rows.index(RESTATABLE, change.first, self._kept(old), self._kept(new))

    def _kept(self, restated: tuple[str, str, str] | None) -> Values | None:
        """So many of its stems are enough; its pool; its stems."""
        if restated is None:
            return None
        user, pool, content = restated
        key, (least, stems) = _key(self._secret, user, pool), found_by(content)
        return waiting(_number(key, ""), least, [_number(key, each) for each in stems])


def _restated(state: Memory | None) -> tuple[str, str, str] | None:
    """The user, the pool and the text of a memory that a response can restate; a project is its own pool."""
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
    """40 bits of a stem; "" stands for the pool itself."""
    return int.from_bytes(blake2b(stem.encode(errors="surrogatepass"), digest_size=5, key=key).digest(), "little")


# --- reads -----------------------------------------------------------------------------------------------------------


def candidates(
    connection: sqlite3.Connection, secret: bytes, user: str, projects: Sequence[str | None], stems: Iterable[str]
) -> tuple[int, list[tuple[int, str]]]:
    """The size of a pool, and each of its memories, as its row and text, that a text with these stems can restate."""
    keys = [_key(secret, user, pool) for pool in {"", *(each for each in projects if each is not None)}]
    wanted = list(stems)
    groups, numbers = [_number(key, "") for key in keys], [_number(key, each) for key in keys for each in wanted]
    size, rows = look(connection, RESTATABLE, groups, numbers)
    return size, list(_texts(connection, sorted(rows), *pool_condition(projects), user))


def _texts(
    connection: sqlite3.Connection, rows: Sequence[int], where: str, values: Values, user: str
) -> Iterator[tuple[int, str]]:
    for some in parted(rows):
        marks = ", ".join("?" * len(some))
        sql = f"SELECT m.row, m.content FROM memories m NOT INDEXED WHERE m.row IN ({marks}) AND {where}"
        yield from connection.execute(sql, (*some, user, *values))
