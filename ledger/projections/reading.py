"""A connection on which the tables of your own projections stand where the ledger does, now or at a moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ledger.core.engine import Engine, PastEngine, ReadingEngine
from ledger.core.own import Own, stand
from ledger.domain.errors import RejectedError
from ledger.log.reading import read_tip
from projections.core import own_registry as registry
from projections.core.own import Definition
from projections.core.rows import Connection

ROUNDS = 4  # of catching up outside the writer's lock, before it is done under the lock


@contextmanager
def reading(engine: ReadingEngine, names: Iterable[str]) -> Iterator[Connection]:
    """Yield a connection on which the tables of these open projections stand under their own names.

    If the file cannot be written, or of a moment of the past, the projections are folded for this connection alone,
    unless they stand there already.

    Raises:
        SuspendedError: A fold raised.
        ConflictError: The file has another version of a projection.
    """
    own, requested = engine.own, [*names]
    if own is None or not requested:
        with engine.reading() as connection:
            yield connection
    elif not isinstance(engine, Engine):  # a moment of the past
        with _apart(engine, own, requested) as connection:
            yield connection
    elif engine.store.readonly:
        with _only_read(engine, own, requested) as connection:
            yield connection
    else:
        with _live(engine, own, requested) as connection:
            yield connection


@contextmanager
def _live(engine: Engine, own: Own, names: list[str]) -> Iterator[Connection]:
    for _ in range(ROUNDS):
        with engine.reading() as connection:
            if _stand_there(connection, own, names):
                yield connection
                return
        own.restore()
        own.catch_up()
    with engine.store.transact():
        own.catch_up()
        with engine.reading() as connection:
            yield connection


@contextmanager
def _only_read(engine: Engine, known: Own, names: list[str]) -> Iterator[Connection]:
    with engine.reading() as connection:
        entries = registry.entries(connection)
        fits = all(name in entries and entries[name].fits(known.definitions[name]) for name in names)
        if fits and _stand_there(connection, known, names):
            yield connection
            return
        position, _ = read_tip(connection.cursor())
    with _apart(PastEngine(engine, position, ""), known, names) as connection:
        yield connection


@contextmanager
def _apart(engine: ReadingEngine, known: Own, names: list[str]) -> Iterator[Connection]:
    with engine.reading() as connection:
        stand(connection, [known.definitions[name] for name in names])
        yield connection


def _stand_there(connection: Connection, known: Own, names: list[str]) -> bool:
    position, _ = read_tip(connection.cursor())
    return all(
        known.check(connection, name).position == position and registry.is_whole(connection, known.definitions[name])
        for name in names
    )


def definition_of(engine: ReadingEngine, row: object) -> Definition:
    """Return the projection that has rows of a class; raise ``RejectedError`` if there is none."""
    definitions = engine.own.definitions if engine.own is not None else {}
    for definition in definitions.values():
        if row in definition.shapes:
            return definition
    known = [
        f"{definition.name}: {', '.join(shape.__name__ for shape in definition.shapes)}"
        for definition in definitions.values()
    ]
    hint = f"the classes are {'; '.join(known)}" if known else "it was opened without: Ledger.open(…, projections=[…])"
    name = getattr(row, "__name__", repr(row))
    raise RejectedError(f"no projection of this ledger has rows of the class {name:.60}; {hint}")
