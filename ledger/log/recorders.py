"""The recorders of the eventsourcing library on one ledger file, with their subscriptions and factories.

The library takes the only factory that a module defines, so the two factories stand apart from the module that it is given.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Literal
from uuid import UUID

from eventsourcing import persistence, sqlite
from eventsourcing.persistence import Notification, StoredEvent
from eventsourcing.utils import Environment, EnvType

from ledger.domain.errors import RejectedError
from ledger.log.paths import check_finished
from ledger.log.reading import Connection, ConnectionPool, read_tip
from ledger.log.sqlite_files import LedgerFile
from ledger.log.writing import chained, insert


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
        self.path: str = file.path
        self.single_row_tracking = single_row_tracking
        self.originator_id_type = originator_id_type

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection for one moment of the log."""
        with self.get_connection(commit=False) as lent:
            assert isinstance(lent, Connection)
            lent.raw.execute("BEGIN")
            try:
                yield lent.raw
            finally:
                lent.raw.execute("ROLLBACK")


def refuse_a_ledger(cursor: sqlite.SQLiteCursor, path: str) -> None:
    """Raise ``RejectedError`` for the file of a ledger, because one row of an application would end the ledger's log."""
    cursor.execute("SELECT 1 FROM events WHERE position = 1 AND type = 'LedgerCreated'")
    if cursor.fetchone() is not None:
        raise RejectedError(
            f"{path} is the file of a ledger, and an application of the eventsourcing library needs a file of its own: "
            "name that file as SQLITE_DBNAME. ledger.doors.eventsourcing follows the log of a ledger",
            rule="foreign",
        )


class AggregateRecorder(sqlite.SQLiteAggregateRecorder):
    """A recorder of the events of aggregates in the chained log."""

    datastore: Datastore

    def __init__(self, datastore: sqlite.SQLiteDatastore, events_table_name: str = "events") -> None:
        assert isinstance(datastore, Datastore)
        super().__init__(datastore, "events")

    def construct_create_table_statements(self) -> list[str]:
        return []  # a new file has its tables already

    def _insert_events(
        self, c: sqlite.SQLiteCursor, stored_events: Sequence[StoredEvent], **kwargs: object
    ) -> Sequence[int] | None:
        self._append(c, stored_events)
        return None

    def _append(self, c: sqlite.SQLiteCursor, stored_events: Sequence[StoredEvent]) -> list[int]:
        """Append events to the log and return their positions."""
        refuse_a_ledger(c, self.datastore.path)
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

    def _rows(
        self, where: Mapping[str, object], order: str, limit: int | None, topics: Sequence[str] = ()
    ) -> list[tuple[int, str, int, str, bytes]]:
        """Return the rows that meet every condition whose value is not None."""
        conditions = [condition for condition, value in where.items() if value is not None]
        if topics:
            conditions.append(f"type IN ({','.join('?' * len(topics))})")
        values = [*(value for value in where.values() if value is not None), *topics, -1 if limit is None else limit]
        sql = "SELECT position, stream, version, type, state FROM events "
        sql += f"WHERE {' AND '.join(conditions)} " if conditions else ""
        with self.datastore.transaction(commit=False) as c:
            try:
                c.execute(f"{sql} ORDER BY {order} LIMIT ?", values)
            except (UnicodeEncodeError, OverflowError) as error:
                raise persistence.DataError(error) from error  # half a character, or a number of more than 64 bits
            return [(at, stream, version, type_, state.encode()) for at, stream, version, type_, state in c.fetchall()]


class ApplicationRecorder(AggregateRecorder, sqlite.SQLiteApplicationRecorder):
    """A recorder of events in the chained log, with their positions, their notifications and subscriptions."""

    def __init__(self, datastore: sqlite.SQLiteDatastore, events_table_name: str = "events") -> None:
        super().__init__(datastore)
        self.select_max_notification_id_statement = "SELECT max(position) FROM events"

    def _insert_events(
        self, c: sqlite.SQLiteCursor, stored_events: Sequence[StoredEvent], **kwargs: object
    ) -> Sequence[int] | None:
        return self._append(c, stored_events)

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

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription:
        return Subscription(self, gt, topics)


class Subscription(persistence.Subscription[ApplicationRecorder]):
    """A stream of new events: polls ``PRAGMA data_version`` on a connection of its own, every 1 to 50 milliseconds."""

    def __init__(self, recorder: ApplicationRecorder, gt: int | None = None, topics: Sequence[str] = ()) -> None:
        super().__init__(recorder, gt, topics)
        self._stopped, self._polling = threading.Event(), threading.Lock()
        self._connection: Connection | None = None
        self._waiting: list[Notification] = []  # the next one last
        self.application: object = None  # settable: what must not close before the subscription

    def stop(self) -> None:
        """End the iteration, from any thread, and give the connection back."""
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
        """Wait for events and return them, the next one last; return none if the subscription was stopped."""
        seen, pause = None, 0.001
        while not self._stopped.is_set():
            if seen != (seen := self._data_version()):
                last = self._recorder.max_notification_id()
                notifications = self._recorder.select_notifications(
                    self._last_notification_id, 500, topics=self._topics, inclusive_of_start=False
                )
                if notifications:
                    return list(reversed(notifications))
                # the events up to here are of other topics and need no second look
                self._last_notification_id = max(last or 0, self._last_notification_id or 0)
                pause = 0.001
            else:
                self._stopped.wait(pause)
                pause = min(pause * 1.5, 0.05)
        return []

    def _data_version(self) -> int:
        """Return a number that changes with every commit of another connection; read before the events, to miss none."""
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
    """A recorder of the positions up to which other applications' events were followed."""


class ProcessRecorder(sqlite.SQLiteProcessRecorder, ApplicationRecorder):
    """A recorder of events in the log together with the positions that they were made from, in one transaction."""


class Factory(sqlite.SQLiteFactory):
    """The factory that makes this module a ``PERSISTENCE_MODULE``; ``SQLITE_DBNAME`` is the path of the file."""

    application_recorder_class = ApplicationRecorder
    tracking_recorder_class = TrackingRecorder
    process_recorder_class = ProcessRecorder

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        for name in (self.COMPRESSOR_TOPIC, self.CIPHER_TOPIC, "CIPHER_KEY"):
            if self.env.get(name):
                raise RejectedError(
                    f"{name} is set, but a ledger stores states as readable text, neither compressed nor encrypted; unset it",
                    rule=name,
                )
        library = self.datastore  # has opened no file yet
        check_finished(library.pool.db_name)
        datastore = Datastore(
            LedgerFile(library.pool.db_name, busy_timeout_seconds=float(library.pool.lock_timeout or 30)),
            single_row_tracking=library.single_row_tracking,
            originator_id_type=library.originator_id_type,
        )
        try:
            with datastore.transaction(commit=False) as cursor:
                refuse_a_ledger(cursor, datastore.path)
        except BaseException:
            datastore.pool.close()
            raise
        self.datastore = datastore

    def aggregate_recorder(self, purpose: str = "events") -> persistence.AggregateRecorder:
        """Return a recorder of the log for "events", and the library's own, in its table, for "snapshots"."""
        return AggregateRecorder(self.datastore) if purpose == "events" else super().aggregate_recorder(purpose)


class ReadingFactory(sqlite.SQLiteFactory):
    """A factory of recorders that only read the ledger at a path; the library cannot find it by a module's name."""

    datastore: Datastore

    def __init__(self, path: str, env: Environment) -> None:
        super(sqlite.SQLiteFactory, self).__init__(env)
        self.datastore = Datastore(LedgerFile(path, readonly=True), originator_id_type="text")

    def env_create_table(self) -> bool:
        return False
