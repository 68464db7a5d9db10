"""A user's own projections in an open ledger: folded with each command, caught up with the log, restarted after an undo.

A fold sees only events in effect, and each event once. If an act changes which followed events are in effect, the
projection's tables are emptied in the act's transaction, and the projection is folded from zero outside of the writer's lock.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext

from msgspec.structs import replace

from ledger.core.reads import decode_where, read_stream
from ledger.domain.errors import ConflictError, LedgerError, SuspendedError
from ledger.events import WAYS_BACK, AnyEvent, Unknown
from ledger.log.event_store import EventStore, Transaction
from projections.core import as_of, own, sqlite
from projections.core import own_registry as registry
from projections.core.own import Definition, Rows, State
from projections.core.own_registry import OwnProjectionRecord
from projections.core.projector import FAMILIES
from projections.core.rows import Connection
from projections.core.sqlite import SQLiteRows
from projections.core.subjects import SubjectChange

TAIL = 1_000  # the most events that are caught up under the lock, in the next command's transaction
BATCH = 2_000  # the events that are otherwise folded and written in one transaction
STATES = 4_096  # subjects kept in memory while a log is folded; others are folded again from their streams
KIND_OF: dict[str, str] = {letter: word for word, letter in own.KINDS.items()}
FOLDED = "own_folded"  # the table of a connection that lists its folded projections with their positions
_log = logging.getLogger("ledger.projections")  # names, positions and types, never a text


class _Stuck(Exception):
    """An error that a fold raised, with the position of its event."""

    def __init__(self, position: int, error: Exception) -> None:
        super().__init__()
        self.position, self.error = position, error


class _Touched(Exception):
    """The position of an act that changed which events of a projection are in effect."""

    def __init__(self, position: int) -> None:
        super().__init__()
        self.position = position


class _States:
    """The states of subjects after their events in effect: the last few from memory, the others from their streams."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[int, State]] = OrderedDict()

    def before(self, connection: Connection, event: AnyEvent) -> State:
        kept = self._kept.get(event.stream)
        if kept is not None and kept[0] == event.version - 1:
            return kept[1]
        family, state = FAMILIES[event.stream[0]], None
        if event.version > 1:
            earlier = read_stream(connection, event.stream, event.position - 1)
            out = _void(connection, earlier)
            for earlier_event in earlier:
                if not isinstance(earlier_event.data, Unknown):
                    step = family.without if earlier_event.position in out else family.evolve
                    state = step(state, earlier_event)
        return state

    def forget(self) -> None:
        self._kept.clear()

    def keep(self, event: AnyEvent, state: State) -> None:
        self._kept[event.stream] = event.version, state
        self._kept.move_to_end(event.stream)
        if len(self._kept) > STATES:
            self._kept.popitem(last=False)


def _void(connection: Connection, events: Sequence[AnyEvent]) -> set[int]:
    """Return the positions of events that are void; the events are in the order of the log."""
    if not events:
        return set()
    sql = "SELECT position FROM voided WHERE position BETWEEN ? AND ?"
    return {position for (position,) in connection.execute(sql, (events[0].position, events[-1].position))}


def _where(definition: Definition, *, acts: bool = True) -> str:
    """Return the SQL condition for the followed events and the acts; "+" keeps SQLite from an index, as positions are few."""
    types = sorted({*definition.events, *(kind.__name__ for kind in WAYS_BACK if acts)})
    type_list = ", ".join(f"'{type_}'" for type_ in types)
    kinds = "".join(f" OR +e.stream BETWEEN '{kind}_' AND '{kind}_~'" for kind in sorted(definition.kinds))
    return f"(+e.type IN ({type_list}){kinds})"


def touches(connection: Connection, definition: Definition, ranges: Iterable[tuple[int, int]]) -> bool:
    """Return True if an act on these positions is about events that a projection follows."""
    sql = f"SELECT 1 FROM events e WHERE e.position BETWEEN ? AND ? AND {_where(definition, acts=False)} LIMIT 1"
    return any(connection.execute(sql, span).fetchone() is not None for span in ranges)


def _shown(kind: str, event: AnyEvent, old: State, new: State) -> own.Change:
    """Return the change for a fold.

    The old state tells nothing about the time of acts, because a fold from zero would not meet them at the same time.
    """
    if old is not None:
        old = replace(old, position=0, version=event.version - 1)
    return own.Change(KIND_OF[kind], event.stream, old, new)


class Folding:
    """The fold of one projection from the log of one connection into rows that may lie in another."""

    def __init__(self, definition: Definition, states: _States | None = None) -> None:
        self._definition, self._states = definition, states or _States()

    def run(self, connection: Connection, rows: SQLiteRows, first: int, last: int, begun: int) -> None:
        """Fold the followed events between two positions; raise ``_Touched`` for an act after ``begun`` on such events."""
        definition, own_rows = self._definition, Rows(self._definition, rows)
        sql = "SELECT position FROM voided WHERE position BETWEEN ? AND ?"
        out = {position for (position,) in connection.execute(sql, (first, last))}
        for event in decode_where(connection, f"e.position BETWEEN ? AND ? AND {_where(definition)}", (first, last)):
            is_act = isinstance(event.data, WAYS_BACK) and event.position > begun
            if is_act and touches(connection, definition, event.data.ranges):
                raise _Touched(event.position)
            if not isinstance(event.data, Unknown) and definition.concerns(event.stream, event.type):
                try:
                    self._fold(connection, event, event.position in out, own_rows)
                except Exception as error:
                    if not registry.blames(error):
                        raise
                    raise _Stuck(event.position, error) from error

    def _fold(self, connection: Connection, event: AnyEvent, void: bool, rows: Rows) -> None:
        kind, change = event.stream[0] if event.stream[1:2] == "_" else "", None
        if kind in self._definition.kinds:
            old, family = self._states.before(connection, event), FAMILIES[kind]
            new = family.without(old, event) if void else family.evolve(old, event)
            self._states.keep(event, new)
            change = _shown(kind, event, old, new)
        if not void:
            self._definition.call(event, change, rows)


class _Live:
    """A projection at the end of the log, in an open transaction."""

    def __init__(self, definition: Definition, place: int, connection: Connection) -> None:
        self.definition, self.place = definition, place
        self.kept = SQLiteRows(connection, apart=True)
        self.rows = Rows(definition, self.kept)
        self.unwritten = 0  # the position of the first event folded since the last flush

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange]) -> None:
        if not self.definition.concerns(event.stream, event.type):
            return
        self.unwritten = self.unwritten or event.position
        change = None
        if event.stream[1:2] == "_" and event.stream[0] in self.definition.kinds:
            if not changes:
                raise RuntimeError  # the ledger could not fold the subject itself
            change = _shown(event.stream[0], event, changes[0].old, changes[0].new)
        self.definition.call(event, change, self.rows)


class Own:
    """The user's projections of an open ledger. Every method except ``catch_up`` runs under the writer's lock."""

    def __init__(self, store: EventStore, definitions: Mapping[str, Definition]) -> None:
        self.definitions: dict[str, Definition] = dict(definitions)
        self._store = store
        self.waiting: bool = False  # True if a projection is behind by more than is caught up under the lock
        self._live: list[_Live] = []
        self._again = set[str]()  # projections emptied in this transaction
        self._changes = -1  # of the transaction in which the file was last examined
        self._catching = threading.RLock()

    # --- with each command ---------------------------------------------------------------------------------------

    def begin(self, transaction: Transaction, position: int) -> None:
        """After another writer's commit, find the projections that stand at the position before the new events."""
        if self._changes != transaction.changes:
            self._changes, self._live, self._again = transaction.changes, [], {*self.definitions}
        if not self._again:
            return
        transaction.flush()
        connection, entries = transaction.connection, registry.entries(transaction.connection)
        pending, self._again = sorted(self._again), set()
        for name in pending:
            entry, definition = entries.get(name), self.definitions[name]
            if entry is None or not registry.is_whole(connection, definition):
                self.waiting = True  # the file was made anew
            elif (
                entry.fits(definition)
                and entry.suspended_at is None
                and self._stands(connection, definition, entry, position)
            ):
                self._live.append(_Live(definition, entry.place, connection))

    def _stands(
        self, connection: Connection, definition: Definition, entry: OwnProjectionRecord, position: int
    ) -> bool:
        """Return True if a projection stands at a position, after catching up if few events are missing."""
        for _ in range(3):
            if entry.position == position:
                return True
            if not 0 <= position - entry.position <= TAIL:
                break
            if not advance(connection, definition, entry, position):
                return False
            entry = registry.entries(connection)[definition.name]
        self.waiting = True
        return False

    def fold(self, transaction: Transaction, event: AnyEvent, changes: Sequence[SubjectChange]) -> None:
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
            if touches(connection, live.definition, act.data.ranges):
                live.kept.discard()
                self._live.remove(live)
                registry.empty(connection, registry.entries(connection)[live.definition.name], act.position)
                self._again.add(live.definition.name)
                self.waiting = True

    def flush(self, transaction: Transaction) -> None:
        """Write the folded rows, with the position."""
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
        """Suspend one projection: drop its unwritten rows and let the command go on."""
        live.kept.discard()
        self._live.remove(live)
        suspend(connection, live.definition.name, position, error)

    def forget(self) -> None:
        """Drop all rows and facts in memory, because after a rollback they differ from the file."""
        for live in self._live:
            live.kept.discard()
        self._live, self._changes = [], -1

    def erased(self, connection: Connection, position: int) -> None:
        self.forget()
        self.waiting = bool(empty_all(connection, position)) or self.waiting

    # --- outside of the lock -------------------------------------------------------------------------------------

    def bring_up(self) -> None:
        """Make the tables that are missing or of another version; raise ``RejectedError`` if foreign tables are in the way."""
        with self._store.transact() as transaction:
            connection = transaction.connection
            registry.make(connection)
            for name, definition in self.definitions.items():
                entry = registry.entries(connection).get(name)
                if entry is None or not entry.fits(definition) or not registry.is_whole(connection, definition):
                    registry.enter(connection, definition, transaction.position)
                elif entry.position > transaction.position:  # from a log that continued differently
                    registry.empty(connection, entry, transaction.position)
            self.forget()

    def catch_up(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Fold the missing events in short transactions, between which others write; the next command goes on after a stop."""
        # A thread that holds the writer's lock must not wait for a thread that waits for the writer's lock.
        with nullcontext() if self._store.is_own else self._catching:
            self.waiting = False
            for definition in self.definitions.values():
                states = _States()
                while self._step(definition, states):
                    if stop():
                        self.waiting = True
                        return

    def after_command(self) -> None:
        """Catch up after a command, which stands whatever happens here; after an error the next command tries again."""
        try:
            self.restore()
            self.catch_up()
        except LedgerError as error:
            self.waiting = True
            _log.warning("the user's own projections are still behind the log (%s)", type(error).__name__)

    def restore(self) -> None:
        """Make the tables that somebody dropped or altered; they are empty until they are caught up."""
        with self._store.snapshot() as connection:
            entries = registry.entries(connection)
            is_missing = any(
                name not in entries or not registry.is_whole(connection, definition)
                for name, definition in self.definitions.items()
            )
        if is_missing:
            self.bring_up()

    def _step(self, definition: Definition, states: _States) -> bool:
        """Fold one batch and return True if there may be more."""
        error: _Stuck | _Touched | None = None
        with self._store.snapshot() as connection:
            entry, (head,) = registry.entries(connection).get(definition.name), _head(connection)
            if entry is None or not entry.fits(definition) or entry.suspended_at is not None or entry.position >= head:
                return False
            rows, last = SQLiteRows(connection, apart=True), min(head, entry.position + BATCH)
            try:
                Folding(definition, states).run(connection, rows, entry.position + 1, last, entry.begun)
            except (_Stuck, _Touched) as stop_error:
                error = stop_error
        with self._store.transact(durable=False) as transaction:
            if registry.entries(transaction.connection).get(definition.name) != entry:
                states.forget()
                return True  # another process was faster, or emptied the tables
            self.forget()
            rows.connection = transaction.connection
            if isinstance(error, _Touched):
                registry.empty(transaction.connection, entry, transaction.position)
                return True
            return _written(transaction.connection, rows, entry, entry.position + 1, last, error)

    def rebuild(self, name: str, stop: Callable[[], bool] = lambda: False) -> None:
        """Empty a projection and fold it from zero; a suspended projection starts again."""
        with self._store.transact() as transaction:
            connection = transaction.connection
            entry = registry.entries(connection).get(name)
            definition = self.definitions[name]
            if entry is None or not entry.fits(definition) or not registry.is_whole(connection, definition):
                registry.make(connection)
                registry.enter(connection, definition, transaction.position)
            else:
                registry.empty(connection, entry, transaction.position, resume=True)
            self.forget()
        self.catch_up(stop)

    def check(self, connection: Connection, name: str) -> OwnProjectionRecord:
        """Return the entry of a projection whose rows may be read; they may be behind the log."""
        entry, definition = registry.entries(connection).get(name), self.definitions[name]
        if entry is None or not entry.fits(definition):
            raise ConflictError(
                f"another process opened this ledger with another version of the class of the projection {name!r}, which"
                " changed its tables: open the ledger again"
            )
        if entry.suspended_at is not None:
            raise suspended(name, entry.suspended_at, entry.error)
        return entry


def advance(connection: Connection, definition: Definition, entry: OwnProjectionRecord, position: int) -> bool:
    """Fold the missing events in the open transaction; return False if the projection was suspended."""
    rows = SQLiteRows(connection, apart=True)
    error: _Stuck | None = None
    try:
        Folding(definition).run(connection, rows, entry.position + 1, position, entry.begun)
    except _Touched:
        registry.empty(connection, entry, position)
        return True
    except _Stuck as stuck:
        error = stuck
    return _written(connection, rows, entry, entry.position + 1, position, error)


def _written(
    connection: Connection, rows: SQLiteRows, entry: OwnProjectionRecord, first: int, last: int, stuck: _Stuck | None
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
    """Empty every projection of users in the file for an erasure, even without its class; return their names."""
    entries = registry.entries(connection)
    for entry in entries.values():
        registry.empty(connection, entry, position)
    return list(entries)


def _head(connection: Connection) -> tuple[int]:
    (head,) = connection.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()
    return (head,)


# --- in other tables: for a past moment, for a file that is only read, or for a comparison -------------------------------


def fold_apart(
    connection: Connection, into: Connection, definition: Definition, position: int, schema: str = ""
) -> None:
    """Fold the log of ``connection`` up to a position into fresh tables; raise ``SuspendedError`` if the fold raises."""
    for table in definition.tables:
        sqlite.create(into, table, schema)
    folding, rows = Folding(definition), SQLiteRows(into)
    for first in range(1, position + 1, BATCH):
        last = min(position, first + BATCH - 1)
        try:
            folding.run(connection, rows, first, last, position)
            rows.flush()
        except _Stuck as stuck:
            raise suspended(definition.name, stuck.position, registry.described(stuck.error)) from stuck.error
        except sqlite3.Error as error:
            if not registry.blames(error):
                raise
            raise suspended(definition.name, first, registry.described(error)) from error


def stand(connection: Connection, definitions: Iterable[Definition]) -> None:
    """Make TEMP tables of projections as of the end of this connection's log; they come before the tables of the file.

    The tables are kept for the next query about the same moment.
    """
    (position,) = _head(connection)
    (head,) = connection.execute("SELECT coalesce(max(position), 0) FROM main.events").fetchone()
    connection.execute(
        f"CREATE TEMP TABLE IF NOT EXISTS {FOLDED} (name TEXT PRIMARY KEY, definition TEXT, position INTEGER, seen INTEGER)"
    )
    for definition in definitions:
        sql = f"SELECT definition, position, seen FROM temp.{FOLDED} WHERE name = ?"
        known = connection.execute(sql, (definition.name,)).fetchone()
        if (
            known is not None
            and known[:2] == (definition.text, position)
            and not as_of.was_erased(connection, known[2], head)
        ):
            continue
        connection.execute(f"DELETE FROM temp.{FOLDED} WHERE name = ?", (definition.name,))
        for table in definition.tables:
            connection.execute(f"DROP TABLE IF EXISTS temp.{table.name}")
        fold_apart(connection, connection, definition, position, "temp.")
        connection.execute(
            f"INSERT INTO temp.{FOLDED} VALUES (?, ?, ?, ?)", (definition.name, definition.text, position, head)
        )
