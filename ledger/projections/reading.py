"""A connection on which the tables of one's own projections stand where the rest of the ledger does: now, or at a moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ledger.domain.errors import RejectedError
from ledger.engine.engine import Engine
from ledger.engine.own import Own, stand
from ledger.engine.past import PastEngine
from ledger.store.reading import read_tip
from projections.core import own_registry as registry
from projections.core.own import Definition
from projections.core.rows import Connection

ROUNDS = 4  # of catching up outside of the lock, before it is done inside


@contextmanager
def reading(engine: Engine, names: Iterable[str]) -> Iterator[Connection]:
    """The tables of these projections, whose classes are at hand, under their own names.

    ``SuspendedError`` where a fold raised, ``ConflictError`` where the file has another version of one. Where the file cannot be
    written, or of a moment of the past, they are folded for this connection alone if they do not stand there.
    """
    known, wanted = engine.own, [*names]
    if known is None or not wanted:
        with engine.reading() as connection:
            yield connection
    elif engine.is_past:
        with _apart(engine, known, wanted) as connection:
            yield connection
    elif engine.store.readonly:
        with _only_read(engine, known, wanted) as connection:
            yield connection
    else:
        with _live(engine, known, wanted) as connection:
            yield connection


@contextmanager
def _live(engine: Engine, known: Own, names: list[str]) -> Iterator[Connection]:
    for _ in range(ROUNDS):
        with engine.reading() as connection:
            if _stand_there(connection, known, names):
                yield connection
                return
        known.restore()
        known.catch_up()
    with engine.store.transact():
        known.catch_up()
        with engine.reading() as connection:
            yield connection


@contextmanager
def _only_read(engine: Engine, known: Own, names: list[str]) -> Iterator[Connection]:
    with engine.reading() as connection:
        found = registry.entries(connection)
        fits = all(name in found and found[name].fits(known.definitions[name]) for name in names)
        if fits and _stand_there(connection, known, names):
            yield connection
            return
        position, _ = read_tip(connection.cursor())
    with _apart(PastEngine(engine, position, ""), known, names) as connection:
        yield connection


@contextmanager
def _apart(engine: Engine, known: Own, names: list[str]) -> Iterator[Connection]:
    with engine.reading() as connection:
        stand(connection, [known.definitions[name] for name in names])
        yield connection


def _stand_there(connection: Connection, known: Own, names: list[str]) -> bool:
    position, _ = read_tip(connection.cursor())
    return all(
        known.check(connection, name).position == position and registry.is_whole(connection, known.definitions[name])
        for name in names
    )


def definition_of(engine: Engine, row: object) -> Definition:
    """The projection that a class of rows is of."""
    given = engine.own.definitions if engine.own is not None else {}
    for each in given.values():
        if row in each.shapes:
            return each
    known = [f"{each.name}: {', '.join(one.__name__ for one in each.shapes)}" for each in given.values()]
    among = f"there are {'; '.join(known)}" if known else "it was opened with none: Ledger.open(…, projections=[…])"
    raise RejectedError(f"{getattr(row, '__name__', repr(row)):.60} is no row of a projection of this ledger; {among}")
