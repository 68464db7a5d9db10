"""The ledger at a past moment: an engine that only reads, and the ways to name a moment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import date, datetime
from typing import TYPE_CHECKING

from ledger.core.engine import Engine, ReadingEngine, Snapshot
from ledger.core.folding import fold_to
from ledger.domain import times
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.log.reading import Prepare, read_tip
from projections.core import as_of
from projections.core.as_of import HEAD, Times
from projections.core.rows import Connection
from projections.views import audit

if TYPE_CHECKING:
    from ledger.core.own import Own
    from ledger.domain.name_patterns import NamePatterns
    from ledger.domain.tokens import Counter

Instant = int | str | datetime | date  # a position; a time with an offset; a date; the id of an event

_NUMBER = re.compile(r"\s*[+-]?\d+\s*")
_EVENT_ID = re.compile(r"\s*[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\s*", re.IGNORECASE)


class PastEngine(ReadingEngine):
    """The ledger as it was known at a position, ``moment``.

    Its present, ``as_of``, is the time that was asked for, and of a position the latest time recorded by then.

    It needs no close, keeps nothing between two calls, and many threads may use it.
    """

    def __init__(self, present: Engine, moment: int, time: str, valid: str | None = None) -> None:
        super().__init__(present.created)
        self.moment = moment
        self.as_of = time
        self.valid = valid
        self._store = present.store
        self.times: Times = present.times
        self.counter: Counter = present.counter
        self.parts = present.parts.of_reads()
        self.patterns: NamePatterns = present.patterns
        self.own: Own | None = present.own

    @property
    def path(self) -> str:
        return self._store.path

    @property
    def position(self) -> int:
        return self.moment

    @property
    def folded_privately(self) -> bool:
        return self._store.folded_privately

    def now(self) -> str:
        return self.as_of

    def write_waiting(self) -> None:
        """Do nothing, because a past moment has nothing to write."""

    def connection(self) -> AbstractContextManager[Connection]:
        if self.folded_privately and self.moment == HEAD:
            return self._store.snapshot()
        return self.view(as_of.shadow_the_log if self.folded_privately else as_of.shadow)

    @contextmanager
    def view(self, prepare: Prepare) -> Iterator[Connection]:
        with self._store.past_view(prepare) as connection:
            if self.folded_privately:
                fold_to(connection, self.moment, self.secret, self.created.ledger_id)
            else:
                as_of.stand(connection, self.moment)
            yield connection

    def seen(self, connection: Connection) -> Snapshot:
        if self.folded_privately:
            return Snapshot(connection, self.secret, self.valid, self.now, "temp", is_past=True)
        return Snapshot(connection, self.secret, self.valid, self.now, position=self.moment, is_past=True)


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
        return PastEngine(engine, position, _instant(moment) or engine.times.at(connection, position), holds)


@contextmanager
def committed(engine: Engine) -> Iterator[Connection]:
    """Yield a connection that sees all committed events and none of an open batch."""
    with PastEngine(engine, HEAD, "").reading() as connection:
        yield connection


def position_of(engine: Engine, connection: Connection, moment: Instant) -> int:
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


def _instant(moment: Instant) -> str | None:
    """Return the time that a moment names; None for a position or the id of an event."""
    if isinstance(moment, int) or (
        isinstance(moment, str) and (_NUMBER.fullmatch(moment) or _EVENT_ID.fullmatch(moment))
    ):
        return None
    return times.moment("the moment", moment)


def _position_at(engine: Engine, connection: Connection, time: str, head: int) -> int:
    if time > max(engine.now(), known := engine.times.at(connection, head)):
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
