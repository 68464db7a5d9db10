"""The recorders of the eventsourcing library on one ledger file: the pool, the chained rows, subscriptions, the factory.

Rows enter ``events`` in one place, ``insert``.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from sqlite3 import Cursor
from types import TracebackType
from typing import Literal
from uuid import UUID
from weakref import WeakSet

from eventsourcing import persistence, sqlite
from eventsourcing.persistence import Notification, StoredEvent
from eventsourcing.utils import Environment, EnvType

from ledger.domain.errors import RejectedError
from ledger.store.file_lock import forget_parent
from ledger.store.integrity import GENESIS, digest, link
from ledger.store.sqlite_files import LedgerFile

CONNECTIONS = 15  # of one store at the same time; none is closed before the store is

# position, stream, version, type, state, digest, head, key, erased_by
Row = tuple[int, str, int, str, str, bytes, bytes, bytes | None, int | None]

COLUMNS = "position, stream, version, type, state, digest, head, key, erased_by"
_INSERT = f"INSERT INTO events ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)"
_TIP = "SELECT position, head FROM events ORDER BY position DESC LIMIT 1"


def chained(events: Sequence[StoredEvent], keys: Sequence[bytes | None], position: int, head: bytes) -> list[Row]:
    """The rows of events that follow a position and a head; the library's ``DataError`` where a state is no text."""
    if keys and len(keys) != len(events):
        raise RejectedError(f"{len(events)} events cannot have {len(keys)} keys", rule="keys")
    rows: list[Row] = []
    for index, event in enumerate(events):
        position += 1
        stream, version, type_ = event.originator_id, event.originator_version, event.topic
        if type(stream) is not str:
            stream = stream.hex if isinstance(stream, UUID) else str(stream)
        mark = digest(event.state)
        head = link(head, position, stream, version, type_, mark)
        try:
            state = event.state.decode()
        except UnicodeDecodeError:
            raise persistence.DataError(f"the state of a {type_[:60]} is not UTF-8 text") from None
        rows.append((position, stream, version, type_, state, mark, head, keys[index] if keys else None, None))
    return rows


def insert(cursor: sqlite3.Cursor | sqlite.SQLiteCursor, rows: Sequence[Row]) -> None:
    """The one place where rows enter the log."""
    try:
        if len(rows) == 1:
            cursor.execute(_INSERT, rows[0])
        else:
            cursor.executemany(_INSERT, rows)
    except (UnicodeError, OverflowError) as error:
        raise persistence.DataError(f"a value that SQLite cannot store: {error}") from error


class Connection(sqlite.SQLiteConnection):
    """A connection of the pool; it is closed under the file lock."""

    def __init__(self, file: LedgerFile, *, named_columns: bool) -> None:
        self.raw, self.file = file.connect(), file
        if named_columns:
            self.raw.row_factory = sqlite3.Row
        super().__init__(sqlite_conn=self.raw, max_age=None)

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[sqlite.SQLiteCursor]:
        with _LibraryTransaction(self, commit=commit) as cursor, cursor:
            yield cursor
        if commit:
            self.file.after_commit(self.raw)

    def _close(self) -> None:
        with self.file.hold():
            super()._close()


class _LibraryTransaction(sqlite.SQLiteTransaction):
    """The library's, except that a writer waits for its turn at the beginning, and no transaction is left behind."""

    connection: Connection

    def __enter__(self) -> sqlite.SQLiteCursor:
        cursor = self.connection.cursor()
        try:
            cursor.execute("BEGIN IMMEDIATE" if self.commit else "BEGIN")
        except sqlite3.Error as error:
            kind = getattr(persistence, type(error).__name__, persistence.PersistenceError)
            raise kind(error) from error
        return cursor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        except BaseException:
            with suppress(sqlite3.Error):
                self.connection.rollback()
            raise


class ConnectionPool(sqlite.SQLiteConnectionPool):
    """The library's pool on one ledger file. A forked child neither uses nor closes what it inherits.

    The library closes connections that other threads are using, and CPython's sqlite3 then reads freed memory. Here a
    connection in use is closed by the thread that uses it, when it gives it back.
    """

    def __init__(self, file: LedgerFile, *, named_columns: bool) -> None:
        self.file, self.named_columns, self.foreign = file, named_columns, False
        super().__init__(
            db_name=file.path, pool_size=CONNECTIONS, max_overflow=0, pool_timeout=file.busy_timeout_seconds
        )
        _pools.add(self)

    @staticmethod
    def detect_memory_mode(db_name: str) -> bool:
        return False

    def _create_connection(self) -> Connection:
        if self.closed:
            raise persistence.ConnectionPoolClosedError
        try:
            return Connection(self.file, named_columns=self.named_columns)
        except sqlite3.Error as error:
            raise persistence.InterfaceError(error) from error

    def get_connection(self, timeout: float | None = None, *, is_writer: bool | None = None) -> Connection:
        if self.foreign:
            raise persistence.InterfaceError("this ledger was opened by the process that this one was forked from")
        connection = super().get_connection(timeout, is_writer=is_writer)
        assert isinstance(connection, Connection)
        return connection

    def put_connection(self, conn: sqlite.SQLiteConnection) -> None:
        if self.foreign:
            return
        is_writer = conn.is_writer
        try:
            super().put_connection(conn)
        except persistence.ConnectionPoolClosedError:
            with self._put_condition:
                known = self._in_use.pop(id(conn), None)
            if known is not None:
                conn.close()
                if is_writer:
                    self._writer_lock.release()

    def close(self, *, unused: Sequence[sqlite3.Connection] = ()) -> None:
        """Closes what nobody uses: what is in the pool, and what is ``unused`` though it was taken out."""
        if self.foreign or self.closed:
            return
        with self.file.hold():
            with self._put_condition:
                self._closed = True
                ended = [c for c in self._in_use.values() if any(c._sqlite_conn is raw for raw in unused)]
                ended += self._pool
                self._pool.clear()
                for connection in ended:
                    self._in_use.pop(id(connection), None)
            for connection in ended:
                connection.close()

    def __del__(self) -> None:
        if not self.foreign:
            self.close(unused=[connection._sqlite_conn for connection in self._in_use.values()])

    def leave_to_parent(self) -> bool:
        """In a forked child: one reference more to each connection, so that nothing closes it. True if there are."""
        import ctypes  # slow to load, and few processes fork

        self.foreign = True
        connections = [*self._in_use.values(), *self._pool]
        for connection in connections:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection._sqlite_conn))
        return bool(connections)


_pools: WeakSet[ConnectionPool] = WeakSet()


def _after_fork_in_child() -> None:
    forget_parent({pool.file.path for pool in _pools if pool.leave_to_parent()})


os.register_at_fork(after_in_child=_after_fork_in_child)


class Datastore(sqlite.SQLiteDatastore):
    def __init__(
        self,
        file: LedgerFile,
        *,
        named_columns: bool = True,
        single_row_tracking: bool = True,
        originator_id_type: Literal["uuid", "text"] = "uuid",
    ) -> None:
        self.pool: ConnectionPool = ConnectionPool(file, named_columns=named_columns)
        self.single_row_tracking, self.originator_id_type = single_row_tracking, originator_id_type


class AggregateRecorder(sqlite.SQLiteAggregateRecorder):
    """Keeps snapshots, in a table of the library's."""


class ApplicationRecorder(sqlite.SQLiteApplicationRecorder):
    """Keeps events in the log, chained."""

    datastore: Datastore

    def __init__(self, datastore: sqlite.SQLiteDatastore, events_table_name: str = "events") -> None:
        assert isinstance(datastore, Datastore)
        super().__init__(datastore, "events")
        self.select_max_notification_id_statement = "SELECT max(position) FROM events"

    def construct_create_table_statements(self) -> list[str]:
        return []  # the file is made with its tables

    def _insert_events(
        self, c: sqlite.SQLiteCursor, stored_events: Sequence[StoredEvent], **kwargs: object
    ) -> Sequence[int] | None:
        rows = chained(stored_events, (), *read_tip(c))
        insert(c, rows)
        return [row[0] for row in rows]

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        where = {"stream = ?": originator_id.hex if isinstance(originator_id, UUID) else originator_id}
        rows = self._rows(
            where | {"version > ?": gt, "version <= ?": lte}, f"version {'DESC' if desc else 'ASC'}", limit
        )
        convert = self.convert_originator_id
        return [StoredEvent(convert(stream), version, type_, state) for _, stream, version, type_, state in rows]

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        where = {f"position {'>=' if inclusive_of_start else '>'} ?": start, "position <= ?": stop}
        rows = self._rows(where, "position", limit, topics)
        convert = self.convert_originator_id
        return [
            Notification(convert(stream), version, type_, state, position)
            for position, stream, version, type_, state in rows
        ]

    def _rows(
        self, where: Mapping[str, object], order: str, limit: int | None, topics: Sequence[str] = ()
    ) -> list[tuple[int, str, int, str, bytes]]:
        """Rows that meet every condition whose value is given."""
        conditions = [condition for condition, value in where.items() if value is not None]
        if topics:
            conditions.append(f"type IN ({','.join('?' * len(topics))})")
        values = [*(value for value in where.values() if value is not None), *topics, -1 if limit is None else limit]
        sql = "SELECT position, stream, version, type, state FROM events "
        sql += f"WHERE {' AND '.join(conditions)} " if conditions else ""
        with self.datastore.transaction(commit=False) as c:
            c.execute(f"{sql} ORDER BY {order} LIMIT ?", values)
            return [(at, stream, version, type_, state.encode()) for at, stream, version, type_, state in c.fetchall()]

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription:
        return Subscription(self, gt, topics)


class Subscription(persistence.Subscription[ApplicationRecorder]):
    """Events as they come: polls ``PRAGMA data_version`` on a connection of its own, every 1 to 50 milliseconds."""

    def __init__(self, recorder: ApplicationRecorder, gt: int | None = None, topics: Sequence[str] = ()) -> None:
        super().__init__(recorder, gt, topics)
        self._stopped, self._polling = threading.Event(), threading.Lock()
        self._connection: Connection | None = None
        self._waiting: list[Notification] = []  # the next one last

    def stop(self) -> None:
        """Ends the iteration, from whatever thread, and gives the connection back."""
        super().stop()
        self._stopped.set()
        with self._polling:
            if self._connection is not None:
                with suppress(persistence.ConnectionPoolClosedError):
                    self._recorder.datastore.pool.put_connection(self._connection)
                self._connection = None

    def __next__(self) -> Notification:
        with self._polling:
            if not self._waiting:
                self._waiting = self._poll()
            if not self._stopped.is_set():
                notification = self._waiting.pop()
                self._last_notification_id = notification.id
                return notification
        raise StopIteration

    def _poll(self) -> list[Notification]:
        """Waits for events; none when the subscription was stopped meanwhile."""
        seen, pause = None, 0.001
        while not self._stopped.is_set():
            if seen != (seen := self._data_version()):
                found = self._recorder.select_notifications(
                    self._last_notification_id, 500, topics=self._topics, inclusive_of_start=False
                )
                if found:
                    return list(reversed(found))
                pause = 0.001
            else:
                self._stopped.wait(pause)
                pause = min(pause * 1.5, 0.05)
        return []

    def _data_version(self) -> int:
        """Changes whenever another connection commits; asked before the events are, so that none is missed."""
        pool = self._recorder.datastore.pool
        if pool.closed:
            raise persistence.ConnectionPoolClosedError
        if self._connection is None:
            self._connection = pool.get_connection(is_writer=False)
        try:
            version: int = self._connection.raw.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error as error:
            raise persistence.OperationalError(error) from error
        return version


class TrackingRecorder(sqlite.SQLiteTrackingRecorder):
    """Keeps how far other applications' events were followed."""


class ProcessRecorder(sqlite.SQLiteProcessRecorder, ApplicationRecorder):
    """Keeps events in the log, and what they were made from, in one transaction."""


class Factory(sqlite.SQLiteFactory):
    """Makes this module a ``PERSISTENCE_MODULE``; ``SQLITE_DBNAME`` is the path of the ledger file."""

    aggregate_recorder_class = AggregateRecorder
    application_recorder_class = ApplicationRecorder
    tracking_recorder_class = TrackingRecorder
    process_recorder_class = ProcessRecorder

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        for name in (self.COMPRESSOR_TOPIC, self.CIPHER_TOPIC, "CIPHER_KEY"):
            if self.env.get(name):
                raise RejectedError(f"{name} is set, and a ledger keeps states as readable text; unset it", rule=name)
        library = self.datastore  # it has opened nothing
        self.datastore = Datastore(
            LedgerFile(library.pool.db_name, busy_timeout_seconds=float(library.pool.lock_timeout or 30)),
            single_row_tracking=library.single_row_tracking,
            originator_id_type=library.originator_id_type,
        )


def read_tip(cursor: Cursor | sqlite.SQLiteCursor) -> tuple[int, bytes]:
    cursor.execute(_TIP)
    found = cursor.fetchone()
    return (found[0], found[1]) if found else (0, GENESIS)
