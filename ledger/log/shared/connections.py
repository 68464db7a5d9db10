"""Connections to PostgreSQL: one message there and back, with a deadline, and the few connections that a process keeps.

A message is a simple query of several statements. No state of a session is used, so a pooler in transaction mode may stand
between. The one exception is the connection that listens.
"""

from __future__ import annotations

import atexit
import os
import select
import threading
import time
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ledger.domain.errors import (
    BusyError,
    ConflictError,
    LedgerError,
    NewerFormatError,
    RejectedError,
    StorageError,
    UnreachableError,
)
from ledger.log.shared.schema import FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg.pq.abc import PGresult

_READABLE, _WRITABLE = getattr(select, "POLLIN", 0), getattr(select, "POLLOUT", 0)  # Windows has no poll
MOST_CONNECTIONS = 8  # a process and a URL, besides the one that listens
GRACE_SECONDS = 2.0  # a message may take longer than the server's own timeouts
FULL_SECONDS = 0.05  # between two attempts to connect to a server that takes no more connections
# Parameters of libpq that a URL may replace. A connection of which nobody answers is noticed within some ten seconds.
PARAMETERS = {
    "connect_timeout": "5",  # seconds, for each host of the URL
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",  # milliseconds
    "application_name": "memory-ledger",
}
# libpq has no code for an error at the start of a session, so the words of PostgreSQL and PgBouncer decide; a server that
# speaks another language is one that cannot be reached.
_FULL = ("too many clients", "too many connections", "remaining connection slots", "no more connections allowed")

Row = Sequence[bytes | None]

# --- errors ----------------------------------------------------------------------------------------------------------


class LostError(Exception):
    """The connection is gone, or the server did not answer in time. The outcome of the message is not known."""


class FullError(LostError):
    """The server takes no more connections now."""


class RefusedError(Exception):
    """The server refused a statement; the transaction is over, and the connection is sound."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def typed(error: RefusedError) -> LedgerError:
    """Return the error of the ledger for a refusal; nothing was written."""
    code, why = error.code, str(error)
    if code == "55P03":
        return BusyError("another machine kept the lock of the shared log for longer than the timeout")
    if code == "22012":  # of ``PostgresLog.append``
        return ConflictError("another machine wrote to the shared log; nothing was written")
    if code.startswith("23"):
        return ConflictError(f"the shared log refused a row: {why}")
    if code in ("3F000", "42P01"):
        return StorageError("the database has no tables of shared logs: ledger.shared.prepare(url) makes them")
    if code == "42501":
        return StorageError(f"the role of the URL may not do this in the shared log: {why}")
    if code.startswith(("57", "53", "25")):  # is shut down, cannot take more, or is a standby that only reads
        return UnreachableError(f"the shared log takes no command now: {why}; nothing was written")
    return StorageError(f"the shared log failed: {why}; nothing was written")


def unreachable(error: Exception | str) -> UnreachableError:
    why = str(error).strip().splitlines()
    return UnreachableError(f"the shared log cannot be reached: {why[0] if why else 'no answer'}; nothing was written")


# --- one connection --------------------------------------------------------------------------------------------------


class MessageConnection:
    """A connection that sends messages of several statements and waits for the answer until a deadline."""

    def __init__(self, url: str, seconds: float) -> None:
        try:
            given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
            parameters = PARAMETERS | given
            self._connection = psycopg.connect(
                make_conninfo(**parameters | {"client_encoding": "UTF8"}),
                autocommit=True,
                connect_timeout=min(int(parameters["connect_timeout"]), max(2, round(seconds))),
            )
        except (psycopg.Error, UnicodeError, ValueError) as error:  # a UnicodeError tells of a host that cannot be one
            kind = FullError if any(words in str(error) for words in _FULL) else LostError
            raise kind(str(error)) from error
        self._pg = self._connection.pgconn
        self.messages: int = 0  # sent so far

    @property
    def server_version(self) -> int:
        return self._pg.server_version

    @property
    def is_idle(self) -> bool:
        """Return True outside of a transaction."""
        return self._pg.transaction_status == pq.TransactionStatus.IDLE

    def ask(self, statements: str, seconds: float) -> list[list[Row]]:
        """Send one message and return the rows of each of its statements.

        Raises:
            RefusedError: A statement failed. Those after it were not run, and a transaction that is open must be ended.
            LostError: The connection was lost, or no answer came within ``seconds``. The connection is closed.
            RejectedError: The statements hold half a character, and nothing was sent.
        """
        try:
            message = statements.encode()
        except UnicodeEncodeError as error:
            raise RejectedError(
                "a text with half a character (a lone surrogate) cannot be stored", rule="encoding"
            ) from error
        until = time.monotonic() + seconds
        self.messages += 1
        try:
            self._pg.send_query(message)
            results = self._results(until)
        except psycopg.Error as error:
            self.close()
            raise LostError(str(error)) from error
        except BaseException:  # an interrupt leaves an answer half read
            self.close()
            raise
        for result in results:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                self._raise(result)
        return [
            [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]
            for result in results
        ]

    def _results(self, until: float) -> list[PGresult]:
        while self._pg.flush():
            self._wait(until, writing=True)
        results: list[PGresult] = []
        while True:
            while self._pg.is_busy():
                self._wait(until, writing=False)
            if (result := self._pg.get_result()) is None:
                return results
            results.append(result)

    def _wait(self, until: float, *, writing: bool) -> None:
        if not is_ready(self._pg.socket, until - time.monotonic(), writing=writing):
            raise psycopg.OperationalError("the server did not answer in time")
        self._pg.consume_input()

    def _raise(self, result: PGresult) -> None:
        code = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")
        severity = result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED)
        if severity in (b"FATAL", b"PANIC") or not code or self._pg.status != pq.ConnStatus.OK:
            self.close()
            raise LostError(message or "the connection was lost")
        raise RefusedError(code, message)

    def is_open(self) -> bool:
        """Return False, and close the connection, if the server has ended it."""
        try:
            if is_ready(self._pg.socket, 0, writing=False):
                self._pg.consume_input()
        except psycopg.Error:
            self.close()
        return self._pg.status == pq.ConnStatus.OK

    def notices(self, waker: int, seconds: float) -> list[str]:
        """Wait for notices, until the file descriptor ``waker`` can be read or the time is over; return their payloads.

        Raises:
            LostError: The connection was lost.
        """
        try:
            await_any((self._pg.socket, waker), seconds)
            self._pg.consume_input()
            payloads: list[str] = []
            while (notice := self._pg.notifies()) is not None:
                payloads.append(notice.extra.decode(errors="replace"))
            return payloads
        except (psycopg.Error, OSError, ValueError) as error:
            self.close()
            raise LostError(str(error)) from error

    def drop_notices(self) -> None:
        """Drop notices that came with answers: behind a pooler, a session of the server may still listen for another client."""
        while self._pg.notifies() is not None:
            pass

    def close(self) -> None:
        with suppress(psycopg.Error):
            self._connection.close()


def is_ready(descriptor: int, seconds: float, *, writing: bool) -> bool:
    """Return True if a socket can be read, or written, within some seconds."""
    seconds = max(seconds, 0)
    if hasattr(select, "poll"):  # which also takes descriptors above 1,023
        poll = select.poll()
        poll.register(descriptor, _READABLE | (_WRITABLE if writing else 0))
        return bool(poll.poll(seconds * 1000))
    return any(select.select([descriptor], [descriptor] if writing else [], [], seconds))


def await_any(descriptors: Sequence[int], seconds: float) -> None:
    """Wait until one of the descriptors can be read, or the time is over."""
    if hasattr(select, "poll"):
        poll = select.poll()
        for descriptor in descriptors:
            poll.register(descriptor, _READABLE)
        poll.poll(seconds * 1000)
    else:
        select.select(list(descriptors), [], [], seconds)


# --- literals --------------------------------------------------------------------------------------------------------


def text_literal(value: str) -> str:
    """Return a text as a literal that means the same whatever the settings of the session are."""
    _check_nul(value)
    return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _check_nul(value: str) -> None:
    if "\0" in value:
        raise RejectedError("a text with the character NUL cannot be stored in PostgreSQL", rule="encoding")


def bytes_literal(value: bytes | None) -> str:
    return "NULL" if value is None else f"decode('{value.hex()}', 'hex')"


def quoted_name(value: str) -> str:
    """Return an identifier in quotation marks."""
    _check_nul(value)
    return '"' + value.replace('"', '""') + '"'


# --- the connections of a process ------------------------------------------------------------------------------------


class Pool:
    """The connections of this process to one URL, shared by the logs of all its tenants."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.messages: int = 0  # of the connections that were given back
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._idle: list[MessageConnection] = []
        self._given_back = threading.Condition()
        self._checked = False

    def take(self, seconds: float, *, fresh: bool = False) -> MessageConnection:
        """Return a connection that nobody else uses; it must be given back or thrown away.

        A server that takes no more connections is asked again, until the time is over or a connection is given back.

        Raises:
            BusyError: All connections of the process were in use, or the server took no more, for the whole time.
            LostError: The server could not be reached.
        """
        until = time.monotonic() + seconds
        if not self._places.acquire(timeout=seconds):
            raise BusyError(f"all {MOST_CONNECTIONS} connections of this process to the shared log are in use")
        try:
            if fresh:
                self.forget_idle()
            return self._idle_or_new(until)
        except BaseException:
            self._places.release()
            raise

    def _idle_or_new(self, until: float) -> MessageConnection:
        while True:
            with suppress(IndexError):
                if (connection := self._idle.pop()).is_open():
                    return connection
                continue
            try:
                return self.connect(max(until - time.monotonic(), 0))
            except FullError as error:
                if (left := until - time.monotonic()) <= 0:
                    raise BusyError(f"the shared log took no more connections for the whole time: {error}") from error
                with self._given_back:
                    self._given_back.wait(min(left, FULL_SECONDS))

    def connect(self, seconds: float) -> MessageConnection:
        """Return a new connection, which does not count among those of the pool, after a look at the schema's version."""
        connection = MessageConnection(self.url, seconds)
        if not self._checked:
            try:
                check_format(connection, seconds + GRACE_SECONDS)
            except BaseException:
                connection.close()
                raise
            self._checked = True
        return connection

    def give_back(self, connection: MessageConnection) -> None:
        """Take a connection that is in no transaction back; close any other."""
        self.messages, connection.messages = self.messages + connection.messages, 0
        if connection.is_idle:
            connection.drop_notices()
            self._idle.append(connection)
            with self._given_back:
                self._given_back.notify()
        else:
            connection.close()
        self._places.release()

    def forget_idle(self) -> None:
        """Close the connections that nobody uses, because the server may have closed them too."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()

    @contextmanager
    def lent(self, seconds: float) -> Iterator[MessageConnection]:
        """Lend a connection for a block."""
        connection = self.take(seconds)
        try:
            yield connection
        finally:
            self.give_back(connection)

    def ask(self, statements: str, seconds: float) -> list[list[Row]]:
        """Send one message that may be repeated without harm, and return the rows of each statement.

        Raises:
            LedgerError: The error that fits the refusal, or ``UnreachableError``.
        """
        try:
            connection, rows = self.begin(statements, seconds)
        except RefusedError as error:
            raise typed(error) from error
        self.give_back(connection)
        return rows

    def begin(self, statements: str, seconds: float) -> tuple[MessageConnection, list[list[Row]]]:
        """Send one message that may be repeated without harm; return its connection, which the caller gives back, and the rows.

        Both attempts together take ``seconds`` and some grace.

        Raises:
            RefusedError: A statement failed; the transaction is rolled back, and the connection is given back.
            UnreachableError: The server cannot be reached.
        """
        until = time.monotonic() + seconds + GRACE_SECONDS
        for is_last in (False, True):  # a kept connection may have ended, so that the second attempt takes a new one
            try:
                connection = self.take(min(seconds, max(until - time.monotonic(), 0)), fresh=is_last)
            except LostError as error:
                raise unreachable(error) from error
            try:
                return connection, connection.ask(statements, until - time.monotonic())
            except RefusedError:
                self.end(connection)
                raise
            except LostError as error:
                self.give_back(connection)
                if is_last or time.monotonic() >= until:
                    raise unreachable(error) from error
            except BaseException:
                self.give_back(connection)
                raise
        raise AssertionError

    def end(self, connection: MessageConnection) -> None:
        """Roll the transaction of a connection back, and give the connection back; never raises."""
        with suppress(LostError, RefusedError):
            if not connection.is_idle:
                connection.ask("ROLLBACK", GRACE_SECONDS)
        self.give_back(connection)


# By URL and process, because a forked child must not use the connections of its parent.
_pools: dict[tuple[str, int], Pool] = {}


def pool_of(url: str) -> Pool:
    """Return the pool of this process for a URL."""
    key = (url, os.getpid())
    return _pools.get(key) or _pools.setdefault(key, Pool(url))


@atexit.register
def close_idle() -> None:
    """Close the connections of this process that nobody uses; the next command connects again."""
    for (_, process), pool in list(_pools.items()):
        if process == os.getpid():
            pool.forget_idle()


def check_format(connection: MessageConnection, seconds: float) -> None:
    """Raise ``NewerFormatError`` for tables that a newer version of the product made, ``StorageError`` for none."""
    try:
        ((row,),) = connection.ask("SELECT max(version) FROM ledger.format", seconds)
    except RefusedError as error:
        raise typed(error) from error
    refuse_newer(int(row[0] or 0))


def refuse_newer(version: int) -> None:
    if version > FORMAT:
        raise NewerFormatError(
            f"the tables of the shared log have version {version}, and this version of the product knows them up to {FORMAT}:"
            " update the product on this machine"
        )
