"""The ledger at a past moment: an engine that only reads, and the ways to name a moment."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from typing import cast

from ledger.core.engine import Engine
from ledger.core.log_reading import ReadingOn
from ledger.core.pipeline import Writer
from ledger.core.snapshot import AsOfSnapshot, FoldedSnapshot, Snapshot
from ledger.domain import times
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.log.event_store import EventStore
from ledger.log.reading import read_tip
from projections.core import as_of, shadow
from projections.core.as_of import HEAD
from projections.core.rows import Connection
from projections.search.counting import Counts
from projections.search.text_hits import Rarity
from projections.views import audit

Instant = int | str | datetime | date  # a position; a time with an offset; a date; the id of an event

_NUMBER = re.compile(r"\s*[+-]?\d+\s*")
_EVENT_ID = re.compile(r"\s*[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\s*", re.IGNORECASE)


class PastEngine(Engine):
    """The ledger as it was known at a position, ``moment``; its present, ``as_of``, is the latest time recorded by then.

    It needs no close, keeps nothing between two calls, and many threads may use it.
    """

    is_past = True

    def __init__(self, engine: Engine, moment: int, time: str, valid: str | None = None) -> None:
        self.moment, self.as_of, self.valid, self.present = moment, time, valid, engine
        self.default, self.created, self.times = engine.default, engine.created, engine.times
        self.writer = cast("Writer", _Present(engine.writer.secret, time))
        self.store = cast("EventStore", _Past(engine, moment))
        self.vectors, self.counter, self.patterns = engine.vectors, engine.counter, engine.patterns
        self.rarity, self.counts, self.own = Rarity(), Counts(), engine.own

    @property
    def position(self) -> int:
        return self.moment

    def seen(self, connection: sqlite3.Connection) -> Snapshot:
        secret, now = self.writer.secret, self.writer.now
        if cast("_Past", self.store).apart:
            return FoldedSnapshot(connection, secret, self.valid, now, "temp")
        return AsOfSnapshot(connection, secret, self.valid, now, self.moment)


def at(engine: Engine, moment: Instant, valid: Instant | None = None) -> PastEngine:
    """Return the ledger as it was known at a moment, for reading; it answers as it would have answered then.

    Args:
        engine: The engine of the present.
        moment: A position; the id of an event; or a time: a datetime with a tzinfo, ISO 8601 with ``Z`` or an offset, or a
            date or month, which means its first instant in UTC. A text of digits is a position, so a date in the basic form
            needs dashes or a time (20261121T0930Z). A time means the longest prefix of the log in which nothing was recorded
            later, because clocks may jump back.
        valid: A time of the world. ``memory``, ``memories``, ``graph`` and ``recall`` then answer with the memories that held
            at that time (from ``valid_from``, before ``valid_to``), as known at the moment, active or superseded only later.

    Raises:
        RejectedError: The log does not have the position, or the time lies in the future or before the first event, or has
            no offset.
        NotFoundError: There is no event of this id. A text that was erased later is erased at every moment.
    """
    holds = None if valid is None else times.moment("valid", _time("valid", valid))
    with committed(engine) as connection:
        position = position_of(engine, connection, moment)
        return PastEngine(engine, position, engine.times.at(connection, position), holds)


@contextmanager
def committed(engine: Engine) -> Iterator[Connection]:
    """Yield a connection that sees all committed events and none of an open batch."""
    with PastEngine(engine, HEAD, "").reading() as connection:
        yield connection


def position_of(engine: Engine, connection: sqlite3.Connection, moment: Instant) -> int:
    head, _ = read_tip(connection.cursor())
    if isinstance(moment, str) and _EVENT_ID.fullmatch(moment):
        entry = audit.by_event(connection, moment.strip().lower())
        if entry is None:
            raise NotFoundError(f"no event of this ledger has the id {moment.strip()}")
        return entry.position
    if isinstance(moment, str) and _NUMBER.fullmatch(moment):
        moment = int(moment) if len(moment) < 20 else HEAD
    elif isinstance(moment, str) and not times.is_time(moment):
        raise RejectedError(
            f"{moment!r:.60} names no moment: give a position (1 to {head}), a time in ISO 8601 with Z or an offset, "
            "a date like 2026-11-21, a month like 2026-11, or the id of an event"
        )
    if isinstance(moment, int) and not isinstance(moment, bool):
        if not 1 <= moment <= head:
            raise RejectedError(
                f"position {moment} is not in this ledger: its positions go from 1 to {head} (a date has dashes)"
            )
        return moment
    return _position_at(engine, connection, times.moment("the moment", _time("the moment", moment)), head)


def _position_at(engine: Engine, connection: sqlite3.Connection, time: str, head: int) -> int:
    if time > max(engine.writer.now(), known := engine.times.at(connection, head)):
        raise RejectedError(f"{time} lies in the future; the last event, at position {head}, is of {known}")
    position = engine.times.last(connection, time, head)
    if not position:
        first = engine.times.at(connection, 1)
        raise RejectedError(f"{time} is before the first event, which is of {first}: nothing was known then")
    return position


def _time(name: str, moment: object) -> object:
    if isinstance(moment, bool) or not isinstance(moment, str | date):
        allowed = "a time" if name == "valid" else "a position, a time or the id of an event"
        raise RejectedError(f"{name} is {allowed}, and not a {type(moment).__name__}")
    return moment


class _Present:
    """The part of the writer that a read needs: the ledger's secret and the present time."""

    def __init__(self, secret: bytes, time: str) -> None:
        self.secret, self._time = secret, time

    def now(self) -> str:
        return self._time

    def write_waiting(self) -> None:
        """Do nothing, because a past moment has nothing to write."""


class _Past:
    """The part of the store that a read needs: snapshots of the ledger at a position."""

    readonly = True

    def __init__(self, engine: Engine, position: int) -> None:
        self.store, self._secret, self._id = engine.store, engine.writer.secret, engine.created.ledger_id
        self._position, self.path = position, engine.store.path

    @property
    def apart(self) -> bool:
        """Return True if the file's own tables are of no use, so that the log up to the position is folded again."""
        return self.store.folded_privately

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        if not self.apart:
            with self.store.past_view(as_of.shadow) as connection:
                as_of.stand(connection, self._position)
                yield connection
        elif self._position == HEAD:
            with self.store.snapshot() as connection:
                yield connection
        else:
            with self.store.past_view(as_of.shadow_the_log) as connection:
                self.fold(connection)
                yield connection

    def fold(self, connection: sqlite3.Connection) -> None:
        head = connection.execute("SELECT max(position) FROM main.events").fetchone()[0]
        if not as_of.is_folded(connection, self._position, head):
            as_of.drop_folded(connection)
            as_of.stand_folded(connection, self._position, head)
            fold_apart(connection, self._secret, self._id)


def stand_at(connection: sqlite3.Connection, engine: Engine, position: int) -> None:
    """Bring a connection that is prepared for queries to a position."""
    present = engine.present if isinstance(engine, PastEngine) else engine
    past = _Past(present, position)
    if past.apart:
        past.fold(connection)
    else:
        as_of.stand(connection, position)


def fold_apart(connection: sqlite3.Connection, secret: bytes, ledger_id: str) -> None:
    """Fold the log of a connection into TEMP tables, which come before the tables of the file."""
    position, head = read_tip(connection.cursor())
    shadow.fold_into(connection, ReadingOn(lambda: connection), secret, ledger_id, position, head, temporary=True)


def follow_apart(connection: sqlite3.Connection, secret: bytes, ledger_id: str) -> None:
    """Fold the new events of the log into the TEMP tables of a connection.

    The whole log is folded if there are no such tables yet, or if an erasure took texts that they hold.
    """
    position, head = read_tip(connection.cursor())
    if connection.execute("SELECT 1 FROM temp.sqlite_master WHERE name = 'checkpoint'").fetchone():
        (folded,) = connection.execute("SELECT position FROM temp.checkpoint").fetchone()
        if not as_of.was_erased(connection, folded, position):
            shadow.fold_on(connection, ReadingOn(lambda: connection), secret, position, head)
            return
        as_of.drop_folded(connection)
    fold_apart(connection, secret, ledger_id)
