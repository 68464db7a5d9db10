"""The ledger as it was known at a moment, and what changed from one moment to another."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any, cast

from ledger import answers
from ledger.domain import times
from ledger.domain.errors import NotFoundError, ReadOnlyError, RejectedError
from ledger.domain.memory import Memory
from ledger.engine.pipeline import Writer
from ledger.engine.reads import Reads
from ledger.engine.snapshot import NOWHERE, AsOfSnapshot, Snapshot, named
from ledger.engine.work import Who
from ledger.guards.quarantining import Quarantining
from ledger.history.distrusting import Distrusting
from ledger.history.trail import Trail
from ledger.language.door import ModelReads
from ledger.maintenance.care import Numbers, fold_apart
from ledger.memories.queries import memories_shown
from ledger.merges.queries import MergeReads
from ledger.recall.recalling import Recalling
from ledger.sessions.session import PastSession, SessionsRead
from ledger.store.event_store import EventStore
from ledger.store.recorders import read_tip
from projections.core import as_of
from projections.core.as_of import HEAD, Times
from projections.core.rows import Values
from projections.search import memory_hits as search
from projections.search import observation_hits, passages
from projections.search.passages import Passage as PassageRow
from projections.search.text_hits import Rarity
from projections.views import audit, memories

Instant = int | str | datetime | date  # a position; a time with its offset, or a date; the id of an event

_NUMBER = re.compile(r"\s*[+-]?\d+\s*")
_EVENT_ID = re.compile(r"\s*[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\s*", re.IGNORECASE)
WARNING = "texts, statuses and confidences are those of position {}; how rare a word is, the scores take from today's text index"


class Moments(Reads):
    """Time travel, as a part of the library door."""

    times: Times

    def at(self, moment: Instant, valid: Instant | None = None) -> Moment:
        """The ledger as it was known at a moment, for reading: it answers what it would have answered then.

        ``moment`` is a position; the id of an event; or a time (a datetime with a tzinfo, ISO 8601 with ``Z`` or an
        offset, or a date or month, which is its first instant in UTC). A text of digits is a position, and so the basic
        form of a date needs its dashes or a time (20261121T0930Z). A time is the longest
        prefix of the log in which nothing was recorded later, for clocks may jump back. ``valid`` asks what was true in
        the world at a time, as known at the moment: ``memory``, ``memories``, ``graph`` and ``recall`` then answer with what was
        active or superseded only later, and held at that time (from ``valid_from``, before ``valid_to``).

        ``RejectedError`` for a position the log has not, a time in the future, before the first event or without an offset;
        ``NotFoundError`` for an event that is not there. What was erased since is erased at every moment.
        """
        holds = None if valid is None else times.moment("valid", _time("valid", valid))
        with self._committed() as connection:
            position = self._position_of(connection, moment)
            return Moment(self, position, self.times.at(connection, position), holds)

    def diff(
        self, start: Instant, end: Instant | None = None, *, user: str | None = None, project: str | None = None
    ) -> answers.Diff:
        """What the ledger came to believe, and no longer believes, between two moments; without an ``end`` until now.

        Each memory is compared as it stood at the one and at the other: what came and went in between is not told.
        ``project`` bounds it to a project's memories, "" to the global ones. ``RejectedError`` when the end comes before the
        start, and for whatever ``at`` refuses.
        """
        with self._committed() as connection:
            first = self._position_of(connection, start)
            last = self._position_of(connection, end) if end is not None else read_tip(connection.cursor())[0]
            if last < first:
                raise RejectedError(
                    f"a diff goes forward, and position {last} comes before {first}: name the earlier first"
                )
            bounds = [self.times.at(connection, each) for each in (first, last)]
        return Moment(self, last, bounds[1], None)._since(first, bounds[0], self._user(user), project)

    @contextmanager
    def _committed(self) -> Iterator[Any]:
        """All that is committed: what a batch under way has appended is not there yet."""
        with Moment(self, HEAD, "", None)._read("audit") as connection:
            yield connection

    def _position_of(self, connection: Any, moment: Instant) -> int:
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
                f"{moment!r:.60} is no moment: give a position (1 to {head}), a time in ISO 8601 with Z or an offset, "
                "a date like 2026-11-21, a month like 2026-11, or the id of an event"
            )
        if isinstance(moment, int) and not isinstance(moment, bool):
            if not 1 <= moment <= head:
                raise RejectedError(
                    f"position {moment} is not in this ledger: its positions go from 1 to {head} (a date has dashes)"
                )
            return moment
        return self._position_at(connection, times.moment("the moment", _time("the moment", moment)), head)

    def _position_at(self, connection: Any, time: str, head: int) -> int:
        if time > max(self.writer.now(), known := self.times.at(connection, head)):
            raise RejectedError(f"{time} lies in the future; the last event, at position {head}, is of {known}")
        position = self.times.last(connection, time, head)
        if not position:
            first = self.times.at(connection, 1)
            raise RejectedError(f"{time} is before the first event, which is of {first}: nothing was known then")
        return position


def _time(name: str, given: object) -> object:
    if isinstance(given, bool) or not isinstance(given, str | date):
        what = "a time" if name == "valid" else "a position, a time or the id of an event"
        raise RejectedError(f"{name} is {what}, and not a {type(given).__name__}")
    return given


class Moment(Recalling, SessionsRead, MergeReads, ModelReads, Trail, Numbers):
    """A ledger as it was known at ``position``; ``as_of`` is the latest time recorded by then, and its present.

    It only reads, needs no closing, holds nothing between two calls, and may be used by many threads.
    """

    def __init__(self, ledger: Reads, position: int, time: str, valid: str | None) -> None:
        self._ledger, self._position, self.as_of, self.valid = ledger, position, time, valid
        self.default, self.created = ledger.default, ledger.created
        self.writer = cast("Writer", _Present(ledger.writer.secret, time))
        self.store = cast("EventStore", _Past(ledger, position))
        self.rarity = Rarity()
        self.vectors = getattr(ledger, "vectors", None)
        self.counter, self.patterns = ledger.counter, ledger.patterns

    @property
    def path(self) -> str:
        return self.store.path

    @property
    def position(self) -> int:
        return self._position

    distrusted = Distrusting.distrusted
    quarantined = Quarantining.quarantined

    def session(
        self, id: str, *, project: str | None = None, user: str | None = None, who: Who | None = None
    ) -> PastSession:
        """A session as it was known at the moment, for reading."""
        found: PastSession = self._session_of(PastSession, id, project, user, who)
        return found

    def digest(self, *, beliefs: bool = False, user: str | None = None) -> str:
        if not beliefs:
            raise RejectedError("a digest is over the projections as they are; under at() there is one of beliefs only")
        return super().digest(beliefs=True, user=user)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(type(self._ledger), name):
            raise AttributeError(f"a moment of a ledger has no {name!r}")
        raise ReadOnlyError(
            f"{name} writes, or is of today only, and this is a moment of the past; ask the ledger itself",
            rule="readonly",
        )

    def __repr__(self) -> str:
        holds = f", valid {self.valid}" if self.valid is not None else ""
        return f"<Ledger {self.store.path!r} at position {self._position}{holds}>"

    # --- what is found otherwise than now ------------------------------------------------------------------------------

    def _take_in_texts(self) -> None:
        """Nothing is written for a look at the past."""

    def _memory_hits(
        self, connection: Any, expression: str, wanted: search.Wanted, limit: int
    ) -> list[tuple[Memory, float]]:
        if self._past.apart:
            return super()._memory_hits(connection, expression, wanted, limit)
        return search.matching_then(connection, expression, wanted, self._position, limit=limit)

    def _passage_hits(
        self, connection: Any, expression: str, wanted: passages.Wanted, limit: int
    ) -> list[tuple[PassageRow, float]]:
        if self._past.apart:
            return super()._passage_hits(connection, expression, wanted, limit)
        return passages.matching_then(connection, expression, wanted, self._position, limit=limit)

    def _observation_hits(
        self, connection: Any, expression: str, wanted: observation_hits.Wanted, limit: int
    ) -> observation_hits.Hits:
        if self._past.apart:
            return super()._observation_hits(connection, expression, wanted, limit)
        return observation_hits.matching_then(connection, expression, wanted, self._position, limit=limit)

    def _passages_gone(self, connection: Any, condition: str, values: Sequence[Any]) -> list[Values]:
        if self._past.apart:
            return []
        return passages.gone(connection, self._position, condition, values)

    def _unseen(self, connection: Any, index: Any) -> bool:
        return True  # what was said then may have gone from the index

    def _schema(self) -> str:
        return "temp" if self._past.apart else "main"

    def _recall_warnings(self) -> tuple[str, ...]:
        return () if self._past.apart else (WARNING.format(self._position),)

    @property
    def _past(self) -> _Past:
        return cast("_Past", self.store)

    def _seen(self, connection: Any) -> Snapshot:
        return AsOfSnapshot(connection, self.writer.secret, self.valid, self.writer.now)

    # --- what changed --------------------------------------------------------------------------------------------------

    def _since(self, first: int, time: str, owner: str, project: str | None) -> answers.Diff:
        with self._read("memories", "projects") as connection:
            wanted = named(connection, owner, "p", project)
            if wanted is NOWHERE:
                raise NotFoundError(f"no project of this user is called {project!r:.60}")
            found = []
            for row in memories.changed(connection, owner, first):
                pair = memories.get_at(connection, row, first), memories.get(connection, row)
                if pair == (None, None):  # it came and went in between
                    continue
                if project is None or any(each is not None and each.project == wanted for each in pair):
                    shown = [memories_shown(connection, [each])[0] if each is not None else None for each in pair]
                    found.append(answers.Changed(id=_id(pair), before=shown[0], after=shown[1]))
        return answers.diff(found, (first, time), (self._position, self.as_of))


def _id(pair: tuple[Memory | None, ...]) -> str:
    return next(each.id for each in pair if each is not None)


class _Present:
    """What a read asks of the writer: the ledger's secret, and what time it is."""

    def __init__(self, secret: bytes, time: str) -> None:
        self.secret, self._time = secret, time

    def now(self) -> str:
        return self._time

    def settle(self) -> None:
        """Nothing waits to be written."""


class _Past:
    """What a read asks of the store: snapshots, of the ledger as it was at a position."""

    readonly = True

    def __init__(self, ledger: Reads, position: int) -> None:
        self.store, self._secret, self._id = ledger.store, ledger.writer.secret, ledger.created.ledger_id
        self._position, self.path = position, ledger.store.path

    @property
    def apart(self) -> bool:
        """Whether the file's own tables are of no use, so that the log up to here is folded again."""
        return self.store.folded_privately

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        if not self.apart:
            with self.store.travelling(as_of.shadow) as connection:
                as_of.stand(connection, self._position)
                yield connection
        elif self._position == HEAD:
            with self.store.snapshot() as connection:
                yield connection
        else:
            with self.store.travelling(as_of.shadow_the_log) as connection:
                self._fold(connection)
                yield connection

    def _fold(self, connection: sqlite3.Connection) -> None:
        if as_of.standing(connection) != self._position:
            as_of.drop_folded(connection)
            as_of.stand(connection, self._position)
            fold_apart(connection, self._secret, self._id)
