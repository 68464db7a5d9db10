"""Projections of a user's own in an open ledger: folded with each command, caught up with the log, begun again after an undo.

A fold sees events in effect only and never one twice. Where an act changes what is in effect of what a projection follows,
its tables are emptied in that transaction, and it is folded again from zero outside of the writer's lock.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext

from msgspec.structs import replace

from ledger.domain.errors import ConflictError, LedgerError, SuspendedError
from ledger.domain.events import WAYS_BACK, AnyEvent, Unknown
from ledger.engine.log_reading import decode_where, read_stream
from ledger.store.event_store import EventStore, Transaction
from projections.core import as_of, own, sqlite
from projections.core import own_registry as registry
from projections.core.own import Definition, Rows, State
from projections.core.own_registry import Entry
from projections.core.projector import FAMILIES
from projections.core.rows import Connection
from projections.core.sqlite import SQLiteRows
from projections.core.subjects import Change

TAIL = 1_000  # events that are caught up under the lock, in the next command's transaction
BATCH = 2_000  # events folded and written in one transaction otherwise
STATES = 4_096  # subjects kept in mind while a log is folded; another one is folded again from its stream
KIND_OF = {letter: word for word, letter in own.KINDS.items()}
FOLDED = "own_folded"  # which tables of this connection alone are folded up to where
_log = logging.getLogger("ledger.projections")  # names, positions and types, never a text


class _Stuck(Exception):
    """A fold raised, at a position."""

    def __init__(self, position: int, error: Exception) -> None:
        super().__init__()
        self.position, self.error = position, error


class _Touched(Exception):
    """An act at a position changed what is in effect of what was folded."""

    def __init__(self, position: int) -> None:
        super().__init__()
        self.position = position


class _States:
    """The subjects as the events in effect leave them: the last few, and any other by its stream."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[int, State]] = OrderedDict()

    def before(self, connection: Connection, event: AnyEvent) -> State:
        known = self._kept.get(event.stream)
        if known is not None and known[0] == event.version - 1:
            return known[1]
        family, state = FAMILIES[event.stream[0]], None
        if event.version > 1:
            earlier = read_stream(connection, event.stream, event.position - 1)
            out = _void(connection, earlier)
            for each in earlier:
                if not isinstance(each.data, Unknown):
                    step = family.without if each.position in out else family.evolve
                    state = step(state, each)
        return state

    def forget(self) -> None:
        self._kept.clear()

    def keep(self, event: AnyEvent, state: State) -> None:
        self._kept[event.stream] = event.version, state
        self._kept.move_to_end(event.stream)
        if len(self._kept) > STATES:
            self._kept.popitem(last=False)


def _void(connection: Connection, events: Sequence[AnyEvent]) -> set[int]:
    """Which of these events, in the order of the log, are out of effect."""
    if not events:
        return set()
    sql = "SELECT position FROM voided WHERE position BETWEEN ? AND ?"
    return {position for (position,) in connection.execute(sql, (events[0].position, events[-1].position))}


def _where(wanted: Definition, *, acts: bool = True) -> str:
    """The condition in SQL for what a projection follows, and the acts; without an index (+), for the positions are few."""
    types = sorted({*wanted.events, *(kind.__name__ for kind in WAYS_BACK if acts)})
    named = ", ".join(f"'{each}'" for each in types)
    kinds = "".join(f" OR +e.stream BETWEEN '{each}_' AND '{each}_~'" for each in sorted(wanted.kinds))
    return f"(+e.type IN ({named}){kinds})"


def touches(connection: Connection, wanted: Definition, ranges: Iterable[tuple[int, int]]) -> bool:
    """Whether an act on these positions is one on events that a projection follows."""
    sql = f"SELECT 1 FROM events e WHERE e.position BETWEEN ? AND ? AND {_where(wanted, acts=False)} LIMIT 1"
    return any(connection.execute(sql, each).fetchone() is not None for each in ranges)


def _shown(kind: str, event: AnyEvent, old: State, new: State) -> own.Change:
    """What a fold is given: of the state before nothing that tells when an act was, which a fold from zero would not meet."""
    if old is not None:
        old = replace(old, position=0, version=event.version - 1)
    return own.Change(KIND_OF[kind], event.stream, old, new)


class Folding:
    """One projection folded from the log that a connection sees, into rows that may lie elsewhere."""

    def __init__(self, wanted: Definition, states: _States | None = None) -> None:
        self._wanted, self._states = wanted, states or _States()

    def run(self, connection: Connection, rows: SQLiteRows, first: int, last: int, begun: int) -> None:
        """Folds what is followed between two positions. An act behind ``begun`` may end it: ``_Touched``."""
        wanted, given = self._wanted, Rows(self._wanted, rows)
        sql = "SELECT position FROM voided WHERE position BETWEEN ? AND ?"
        out = {position for (position,) in connection.execute(sql, (first, last))}
        for event in decode_where(connection, f"e.position BETWEEN ? AND ? AND {_where(wanted)}", (first, last)):
            is_act = isinstance(event.data, WAYS_BACK) and event.position > begun
            if is_act and touches(connection, wanted, event.data.ranges):
                raise _Touched(event.position)
            if not isinstance(event.data, Unknown) and wanted.concerns(event.stream, event.type):
                try:
                    self._fold(connection, event, event.position in out, given)
                except Exception as error:
                    if not registry.blames(error):
                        raise
                    raise _Stuck(event.position, error) from error

    def _fold(self, connection: Connection, event: AnyEvent, void: bool, rows: Rows) -> None:
        kind, change = event.stream[0] if event.stream[1:2] == "_" else "", None
        if kind in self._wanted.kinds:
            old, family = self._states.before(connection, event), FAMILIES[kind]
            new = family.without(old, event) if void else family.evolve(old, event)
            self._states.keep(event, new)
            change = _shown(kind, event, old, new)
        if not void:
            self._wanted.call(event, change, rows)


class _Live:
    """One that stands at the end of the log, in the transaction under way."""

    def __init__(self, wanted: Definition, place: int, connection: Connection) -> None:
        self.wanted, self.place = wanted, place
        self.kept = SQLiteRows(connection, apart=True)
        self.rows = Rows(wanted, self.kept)
        self.unwritten = 0  # the first event folded since the last flush

    def fold(self, event: AnyEvent, changes: Sequence[Change]) -> None:
        if not self.wanted.concerns(event.stream, event.type):
            return
        self.unwritten = self.unwritten or event.position
        change = None
        if event.stream[1:2] == "_" and event.stream[0] in self.wanted.kinds:
            if not changes:
                raise RuntimeError  # the subject itself could not be folded
            change = _shown(event.stream[0], event, changes[0].old, changes[0].new)
        self.wanted.call(event, change, self.rows)


class Own:
    """All that an open ledger was given. But for ``catch_up``, what is done here is done under the writer's lock."""

    def __init__(self, store: EventStore, given: Mapping[str, Definition]) -> None:
        self.definitions, self._store = dict(given), store
        self.waiting = False  # something is behind, by more than is caught up under the lock
        self._live: list[_Live] = []
        self._again = set[str]()  # emptied in this transaction
        self._changes = -1  # of the transaction in which the file was last looked at
        self._catching = threading.RLock()

    # --- with each command ---------------------------------------------------------------------------------------

    def begin(self, transaction: Transaction, position: int) -> None:
        """Looks at which stand where the log ended before the events that will be folded, after each commit of others."""
        if self._changes != transaction.changes:
            self._changes, self._live, self._again = transaction.changes, [], {*self.definitions}
        if not self._again:
            return
        transaction.flush()
        connection, found = transaction.connection, registry.entries(transaction.connection)
        looked_at, self._again = sorted(self._again), set()
        for name in looked_at:
            entry, wanted = found.get(name), self.definitions[name]
            if entry is None or not registry.is_whole(connection, wanted):
                self.waiting = True  # the file was made again
            elif (
                entry.fits(wanted) and entry.suspended_at is None and self._stands(connection, wanted, entry, position)
            ):
                self._live.append(_Live(wanted, entry.place, connection))

    def _stands(self, connection: Connection, wanted: Definition, entry: Entry, position: int) -> bool:
        """Whether it stands there, after it was caught up if little is missing."""
        for _ in range(3):
            if entry.position == position:
                return True
            if not 0 <= position - entry.position <= TAIL:
                break
            if not advance(connection, wanted, entry, position):
                return False
            entry = registry.entries(connection)[wanted.name]
        self.waiting = True
        return False

    def fold(self, transaction: Transaction, event: AnyEvent, changes: Sequence[Change]) -> None:
        for live in list(self._live):
            try:
                live.fold(event, changes)
            except Exception as error:
                if not registry.blames(error):
                    raise
                self._stop(transaction.connection, live, event.position, error)
        if isinstance(event.data, WAYS_BACK):
            self._begin_again(transaction, event)

    def _begin_again(self, transaction: Transaction, act: AnyEvent) -> None:
        transaction.flush()
        connection = transaction.connection
        for live in list(self._live):
            if touches(connection, live.wanted, act.data.ranges):
                live.kept.discard()
                self._live.remove(live)
                registry.empty(connection, registry.entries(connection)[live.wanted.name], act.position)
                self._again.add(live.wanted.name)
                self.waiting = True

    def flush(self, transaction: Transaction) -> None:
        """Writes what was folded, with the position."""
        for live in list(self._live):
            try:
                if live.unwritten:
                    registry.write(transaction.connection, live.kept, live.place, transaction.position)
                else:
                    registry.move(transaction.connection, live.place, transaction.position)
            except Exception as error:
                if not registry.blames(error):
                    raise
                self._stop(transaction.connection, live, live.unwritten, error)
            live.unwritten = 0

    def _stop(self, connection: Connection, live: _Live, position: int, error: Exception) -> None:
        """Suspends one, and no other: what it folded since the last flush is dropped, and the command goes on."""
        live.kept.discard()
        self._live.remove(live)
        suspend(connection, live.wanted.name, position, error)

    def forget(self) -> None:
        """Drops what is kept back or kept in mind: after a rollback it is not what the file says."""
        for live in self._live:
            live.kept.discard()
        self._live, self._changes = [], -1

    def erased(self, connection: Connection, position: int) -> None:
        self.forget()
        self.waiting = bool(empty_all(connection, position)) or self.waiting

    # --- outside of the lock -------------------------------------------------------------------------------------

    def bring_up(self) -> None:
        """Makes the tables that are not there or of another version; ``RejectedError`` where somebody else's are in the way."""
        with self._store.transact() as transaction:
            connection = transaction.connection
            registry.make(connection)
            for name, wanted in self.definitions.items():
                entry = registry.entries(connection).get(name)
                if entry is None or not entry.fits(wanted) or not registry.is_whole(connection, wanted):
                    registry.enter(connection, wanted, transaction.position)
                elif entry.position > transaction.position:  # of a log that went on otherwise
                    registry.empty(connection, entry, transaction.position)
            self.forget()

    def catch_up(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Folds what is missing, in short transactions; others write meanwhile. The next command goes on after a ``stop``."""
        # who holds the writer's lock waits for nobody who waits for that
        with nullcontext() if self._store.is_own else self._catching:
            self.waiting = False
            for wanted in self.definitions.values():
                states = _States()
                while self._step(wanted, states):
                    if stop():
                        self.waiting = True
                        return

    def after_command(self) -> None:
        """The same after a command, which is committed whatever comes of it; the next one tries again."""
        try:
            self.restore()
            self.catch_up()
        except LedgerError as error:
            self.waiting = True
            _log.warning("projections of one's own are behind still (%s)", type(error).__name__)

    def restore(self) -> None:
        """Makes the tables that somebody dropped or altered, empty: they are caught up after that."""
        with self._store.snapshot() as connection:
            found = registry.entries(connection)
            gone = any(
                name not in found or not registry.is_whole(connection, each) for name, each in self.definitions.items()
            )
        if gone:
            self.bring_up()

    def _step(self, wanted: Definition, states: _States) -> bool:
        """One batch; whether there may be more."""
        error: _Stuck | _Touched | None = None
        with self._store.snapshot() as connection:
            entry, (head,) = registry.entries(connection).get(wanted.name), _head(connection)
            if entry is None or not entry.fits(wanted) or entry.suspended_at is not None or entry.position >= head:
                return False
            rows, last = SQLiteRows(connection, apart=True), min(head, entry.position + BATCH)
            try:
                Folding(wanted, states).run(connection, rows, entry.position + 1, last, entry.begun)
            except (_Stuck, _Touched) as found:
                error = found
        with self._store.transact(durable=False) as transaction:
            if registry.entries(transaction.connection).get(wanted.name) != entry:
                states.forget()
                return True  # somebody else was faster, or emptied it
            self.forget()
            rows.connection = transaction.connection
            if isinstance(error, _Touched):
                registry.empty(transaction.connection, entry, transaction.position)
                return True
            return _written(transaction.connection, rows, entry, entry.position + 1, last, error)

    def rebuild(self, name: str, stop: Callable[[], bool] = lambda: False) -> None:
        """Empties one and folds it again from zero; what was suspended begins again."""
        with self._store.transact() as transaction:
            connection = transaction.connection
            entry = registry.entries(connection).get(name)
            wanted = self.definitions[name]
            if entry is None or not entry.fits(wanted) or not registry.is_whole(connection, wanted):
                registry.make(connection)
                registry.enter(connection, wanted, transaction.position)
            else:
                registry.empty(connection, entry, transaction.position, resume=True)
            self.forget()
        self.catch_up(stop)

    def check(self, connection: Connection, name: str) -> Entry:
        """The entry of one whose rows may be read; behind it may be."""
        entry, wanted = registry.entries(connection).get(name), self.definitions[name]
        if entry is None or not entry.fits(wanted):
            raise ConflictError(
                f"the tables of the projection {name!r} are of another version of its class, which another process opened "
                "this ledger with: open it again"
            )
        if entry.suspended_at is not None:
            raise suspended(name, entry.suspended_at, entry.error)
        return entry


def advance(connection: Connection, wanted: Definition, entry: Entry, position: int) -> bool:
    """Folds what is missing in the transaction under way; False when it was suspended."""
    rows = SQLiteRows(connection, apart=True)
    error: _Stuck | None = None
    try:
        Folding(wanted).run(connection, rows, entry.position + 1, position, entry.begun)
    except _Touched:
        registry.empty(connection, entry, position)
        return True
    except _Stuck as found:
        error = found
    return _written(connection, rows, entry, entry.position + 1, position, error)


def _written(
    connection: Connection, rows: SQLiteRows, entry: Entry, first: int, last: int, stuck: _Stuck | None
) -> bool:
    if stuck is None:
        try:
            registry.write(connection, rows, entry.place, last)
            return True
        except Exception as error:
            if not registry.blames(error):
                raise
            stuck = _Stuck(first, error)
    suspend(connection, entry.name, stuck.position, stuck.error)
    return False


def suspend(connection: Connection, name: str, position: int, error: Exception) -> None:
    registry.suspend(connection, name, position, registry.described(error))
    _log.warning("the projection %s is suspended at position %d (%s)", name, position, registry.described(error))


def suspended(name: str, position: int, error: str | None) -> SuspendedError:
    return SuspendedError(
        f"the projection {name!r} is suspended: its fold raised at position {position} ({error}); "
        f"mend it and raise its version, or call maintenance.rebuild({name!r})",
        projection=name,
    )


def empty_all(connection: Connection, position: int) -> list[str]:
    """Every projection of a user's in the file loses its rows, for an erasure: which ones; the class need not be at hand."""
    found = registry.entries(connection)
    for entry in found.values():
        registry.empty(connection, entry, position)
    return list(found)


def _head(connection: Connection) -> tuple[int]:
    (head,) = connection.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()
    return (head,)


# --- apart: of a moment, of a file that is only read, to compare -----------------------------------------------------


def fold_apart(connection: Connection, into: Connection, wanted: Definition, position: int, schema: str = "") -> None:
    """Folds the log that ``connection`` sees, up to a position, into fresh tables; ``SuspendedError`` where the fold raises."""
    for table in wanted.tables:
        sqlite.create(into, table, schema)
    folding, rows = Folding(wanted), SQLiteRows(into)
    for first in range(1, position + 1, BATCH):
        last = min(position, first + BATCH - 1)
        try:
            folding.run(connection, rows, first, last, position)
            rows.flush()
        except _Stuck as stuck:
            raise suspended(wanted.name, stuck.position, registry.described(stuck.error)) from stuck.error
        except sqlite3.Error as error:
            if not registry.blames(error):
                raise
            raise suspended(wanted.name, first, registry.described(error)) from error


def stand(connection: Connection, definitions: Iterable[Definition]) -> None:
    """Makes TEMP tables of these projections as of the end of the log that this connection sees, before those of the file.

    They are kept for the next question about the same moment.
    """
    (position,) = _head(connection)
    (head,) = connection.execute("SELECT coalesce(max(position), 0) FROM main.events").fetchone()
    connection.execute(
        f"CREATE TEMP TABLE IF NOT EXISTS {FOLDED} (name TEXT PRIMARY KEY, definition TEXT, position INTEGER, seen INTEGER)"
    )
    for wanted in definitions:
        sql = f"SELECT definition, position, seen FROM temp.{FOLDED} WHERE name = ?"
        known = connection.execute(sql, (wanted.name,)).fetchone()
        if (
            known is not None
            and known[:2] == (wanted.text, position)
            and not as_of.was_erased(connection, known[2], head)
        ):
            continue
        connection.execute(f"DELETE FROM temp.{FOLDED} WHERE name = ?", (wanted.name,))
        for table in wanted.tables:
            connection.execute(f"DROP TABLE IF EXISTS temp.{table.name}")
        fold_apart(connection, connection, wanted, position, "temp.")
        connection.execute(f"INSERT INTO temp.{FOLDED} VALUES (?, ?, ?, ?)", (wanted.name, wanted.text, position, head))
