"""A tenant's log in PostgreSQL: a command sends the server one message, ``append``, or two, ``lock`` and ``publish``.

Between the two messages a transaction is open that holds the lock of the tenant's row in ``ledger.logs``. PostgreSQL ends the
transaction of a machine that says nothing for ``idle_seconds``, so that others are served. Such a machine then finds out in
``publish`` whether another wrote meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime

from ledger.domain.errors import BusyError, ConflictError, LedgerError, UnknownOutcomeError
from ledger.log.envelope import GENESIS, LogRow
from ledger.log.shared.connections import (
    GRACE_SECONDS,
    LostError,
    MessageConnection,
    Pool,
    RefusedError,
    Row,
    bytes_literal,
    pool_of,
    refuse_newer,
    text_literal,
    typed,
    unreachable,
)
from ledger.log.shared.listening import listener_of, notice_of
from ledger.log.shared.notifying import notifier_of
from ledger.log.shared.port import BETWEEN, SERVER, TIMEOUT_SECONDS, OnNews, Publication, Replica, SharedBlob, Tail, Tip
from ledger.log.shared.schema import CHANNEL, FORMAT, checked_tenant, view_of
from ledger.log.shared.vacuum import lag_sql, vacuum_of

VACUUM_WAIT_SECONDS = 2.0  # of a question for the machines, so that a small erasure is completed at once
IDLE_SECONDS = 10.0  # a machine that holds the lock and says nothing for this long has lost it
ROWS_A_STATEMENT = 1000
ROWS_A_FETCH = 1000
BLOBS_A_FETCH = 16
SNAPSHOT_SECONDS = 600.0  # a new machine may work this long on the rows of one fetch
RETRY_SECONDS = 0.05  # the first pause before the next attempt to reach the server; doubled up to a second

_EVENT = "stream, version, type, {state}, digest, head, key, erased_by"
_BLOB = "id, position, data, erased_by"


class PostgresLog:
    """The log of one tenant, as the ledger of one machine sees it; see ``SharedLog``.

    Args:
        url: A URL of libpq, ``postgresql://…``, of a role that is no superuser.
        tenant: The name of the log in the database.
        machine: The name of this machine's replica.
        timeout_seconds: The longest wait for another machine's lock, and for an answer of the server.
        idle_seconds: The longest silence of a machine that holds the lock.
        listen_url: The URL for the connection that listens, if ``url`` leads to a pooler.
    """

    def __init__(
        self,
        url: str,
        tenant: str,
        machine: str,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
        listen_url: str = "",
    ) -> None:
        self.tenant: str = checked_tenant(tenant)
        self.machine = machine
        self.file: str = ""
        self._url, self._listen_url = url, listen_url or url
        self._timeout, self._idle = timeout_seconds, idle_seconds
        self._held: MessageConnection | None = None  # the connection whose transaction has the lock

    @property
    def _pool(self) -> Pool:
        return pool_of(self._url)

    # --- a command -------------------------------------------------------------------------------------------------

    def lock(self, position: int, head: bytes, limit: int) -> Tail:
        """Take the lock, and return the tail behind a position with the head that the log has there."""
        self.release()
        statements = self._locking(self._timeout) + self._tail_statements(position, limit)
        connection, answers = self._begin(statements)
        if not answers[-3]:
            self._pool.end(connection)
            self._make()
            connection, answers = self._begin(statements)
        try:
            tail = _tail(answers[-3:], position, limit)
        except BaseException:
            self._pool.end(connection)
            raise
        if tail.is_cut:
            self._pool.end(connection)
        else:
            self._held = connection
        return tail

    def publish(self, publication: Publication) -> None:
        """Write a commit and let the lock go; settle the outcome if the connection was lost."""
        self._commit(publication, "", self._timeout)

    def append(self, publication: Publication) -> bool:
        """Write a commit in one message if the log ends where the commit begins; settle the outcome as ``publish`` does."""
        position, head = publication.before
        end = f"tenant = {self._tenant} AND position = {position:d} AND head = {bytes_literal(head)}"
        known = f"NOT EXISTS (SELECT FROM ledger.format WHERE version > {FORMAT})"
        # The division by zero ends the transaction if the log ends elsewhere, before anything is written.
        here = f"SELECT 1 / count(*) FROM (SELECT FROM ledger.logs WHERE {end} AND {known} FOR UPDATE) AS here"
        self.release()
        try:
            self._held = self._pool.take(self._timeout)
        except LostError as error:
            raise unreachable(error) from error
        try:
            made = f"{self._making_statement()};" if position == 0 else ""
            self._commit(publication, f"{self._own()} {made} {here}; ", self._timeout + GRACE_SECONDS)
        except BusyError:
            raise
        except ConflictError:
            return False
        return True

    def _commit(self, publication: Publication, ahead: str, seconds: float) -> None:
        """Send the message of a commit, with statements ahead, and give the connection back."""
        connection, self._held = self._held, None
        if connection is None:
            raise AssertionError("publish follows lock")
        until = time.monotonic() + seconds
        try:
            try:
                connection.ask(ahead + self._publishing(publication), seconds)
            except LostError as error:
                # A commit that no lock went ahead of has waited by now; others wait for the file behind it.
                left = GRACE_SECONDS + max(until - time.monotonic(), 0) if ahead else self._timeout
                self._settle(publication, error, left)
        except RefusedError as error:
            raise typed(error) from error
        finally:
            self._pool.end(connection)
        self._tell()
        if publication.redactions or publication.erased_blobs:
            vacuum_of(self._url).add(self.tenant)

    def _tell(self) -> None:
        """Tell the followers of the tenant and the readers of its view, after the commit."""
        notice = notice_of(self.tenant, self.machine)
        notifier_of(self._url).add((CHANNEL, notice), (view_of(self.tenant), ""))

    def release(self) -> None:
        """Let the lock go without a change."""
        connection, self._held = self._held, None
        if connection is not None:
            self._pool.end(connection)

    def _begin(self, statements: str) -> tuple[MessageConnection, list[list[Row]]]:
        try:
            return self._pool.begin(statements, self._timeout)
        except RefusedError as error:
            raise typed(error) from error

    def _make(self) -> None:
        """Make the row of a new tenant, unless another machine has made it."""
        self._pool.ask(f"{self._own()} {self._making_statement()}; COMMIT", self._timeout)

    def _making_statement(self) -> str:
        return f"INSERT INTO ledger.logs VALUES ({self._tenant}, 0, {bytes_literal(GENESIS)}) ON CONFLICT DO NOTHING"

    def _settle(self, publication: Publication, lost: LostError, seconds: float) -> None:
        """Find out within some seconds what became of a commit whose answer was lost; the log has it after the return.

        Raises:
            ConflictError: Another machine wrote at these positions.
            UnknownOutcomeError: The server did not answer in time.
            RefusedError: The log has nothing of the commit, and the server refused to write it.
        """
        until, pause = time.monotonic() + seconds, RETRY_SECONDS
        why: Exception = lost
        while (left := until - time.monotonic()) > 0:
            try:
                self._settle_once(publication, left)
                return
            except LostError as error:
                why = error
            time.sleep(min(pause, max(until - time.monotonic(), 0)))
            pause = min(pause * 2, 1.0)
        raise UnknownOutcomeError(
            f"the connection to the shared log was lost during a commit and did not come back within {seconds:.0f} seconds"
            f" ({why}): repeat the command with the same key"
        ) from why

    def _settle_once(self, publication: Publication, seconds: float) -> None:
        connection = self._pool.connect(
            seconds
        )  # besides the pool, where the place of the lost connection is still taken
        try:
            statements = (
                f"{self._locking(seconds)} SELECT head FROM ledger.events"
                f" WHERE tenant = {self._tenant} AND position = {publication.after.position}"
            )
            try:
                *_, tips, heads = connection.ask(statements, seconds)
            except RefusedError as error:  # the old session has the lock yet, the server starts, or this is a standby
                raise LostError(str(error)) from error
            if publication.rows and heads and _unhex(heads[0][0]) == publication.after.head:
                return
            if not tips or _tip(tips[0]) != publication.before:
                raise ConflictError(
                    "another machine wrote to the shared log after this one had lost its lock; nothing of this command was"
                    " written: repeat it"
                )
            connection.ask(self._publishing(publication), seconds)
        finally:
            connection.close()

    # --- what a follower reads -------------------------------------------------------------------------------------

    def tail(self, position: int, limit: int) -> Tail:
        """Return the tail behind a position, read at one moment without the lock."""
        answers = self._pool.ask(self._reading(position, limit), self._timeout)
        return _tail(answers[-4:-1], position, limit)

    def begin(self, limit: int) -> Tail:
        """Report a machine that has nothing yet, and return the first rows, in one message and two transactions."""
        reporting = f"{self._own()} {self._report_statement(0, 0)}; COMMIT;"
        answers = self._pool.ask(f"{reporting} {self._reading(0, limit)}", self._timeout)
        return _tail(answers[-4:-1], 0, limit)

    def _reading(self, position: int, limit: int) -> str:
        mode = self._own("READ ONLY, ISOLATION LEVEL REPEATABLE READ")
        return f"{mode} {self._tip_statement()}; {self._tail_statements(position, limit)}; COMMIT"

    @contextmanager
    def snapshot(self) -> Iterator[tuple[Tip, Iterator[LogRow], Iterator[SharedBlob]]]:
        """Yield the end, all rows in order and all blobs at one moment, fetched in parts from two cursors."""
        where = f"WHERE tenant = {self._tenant}"
        statements = (
            f"{self._own('READ ONLY, ISOLATION LEVEL REPEATABLE READ', SNAPSHOT_SECONDS)} {self._tip_statement()};"
            f" DECLARE rows NO SCROLL CURSOR FOR SELECT position, {_EVENT.format(state='state')} FROM ledger.events {where}"
            f" ORDER BY position; DECLARE blobs NO SCROLL CURSOR FOR SELECT {_BLOB} FROM ledger.blobs {where}"
            " ORDER BY position, id"
        )
        try:
            connection = self._pool.connect(self._timeout)  # besides the pool, for it may take minutes
        except LostError as error:
            raise unreachable(error) from error
        try:
            tips = connection.ask(statements, self._timeout + GRACE_SECONDS)[-3]
            rows = (_log_row(row) for row in self._fetched(connection, "rows", ROWS_A_FETCH))
            blobs = (_blob(row) for row in self._fetched(connection, "blobs", BLOBS_A_FETCH))
            yield _tip(tips[0]) if tips else Tip(0, GENESIS), rows, blobs
        except RefusedError as error:
            raise typed(error) from error
        except LostError as error:
            raise unreachable(error) from error
        finally:
            connection.close()

    def _fetched(self, connection: MessageConnection, cursor: str, number: int) -> Iterator[Row]:
        while rows := connection.ask(f"FETCH {number} FROM {cursor}", self._timeout + GRACE_SECONDS)[0]:
            yield from rows

    def follow(self, on_news: OnNews) -> Callable[[], None]:
        """Call a function after each commit of another machine and each second; return the way to stop it."""
        return listener_of(self._url, self._listen_url).add(self.tenant, self.machine, on_news)

    # --- replicas and leases ---------------------------------------------------------------------------------------

    def report(self, position: int, erased_through: int) -> None:
        """Record how far this machine's file has come."""
        self._do(self._report_statement(position, erased_through))

    def _report_statement(self, position: int, erased_through: int) -> str:
        name = text_literal(self.machine)
        # A program of an earlier version reported under the name alone, which nothing reports for any more.
        known, key = "", name
        if self.file:
            known = f"DELETE FROM ledger.replicas WHERE tenant = {self._tenant} AND machine = {name}; "
            key = text_literal(f"{self.machine}{BETWEEN}{self.file}")
        return (
            f"{known}INSERT INTO ledger.replicas VALUES ({self._tenant}, {key}, {position:d}, {erased_through:d},"
            " clock_timestamp(), NULL) ON CONFLICT (tenant, machine) DO UPDATE SET position = excluded.position,"
            " erased_through = excluded.erased_through, seen = excluded.seen, forgotten = NULL"
        )

    def replicas(self) -> list[Replica]:
        """Return the files that follow this log, by the names of their machines, without those that were forgotten.

        The server is among them while erased texts may be in its tables, which are vacuumed then.
        """
        vacuum_of(self._url).wait(VACUUM_WAIT_SECONDS)
        replicas = self._replicas()
        if any(replica.machine == SERVER for replica in replicas):
            vacuum_of(self._url).add(self.tenant, again=True)
        return replicas

    def _replicas(self) -> list[Replica]:
        rows = self._do(
            "SELECT machine, r.position, erased_through, to_char(seen AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'),"
            f" CASE WHEN machine = {text_literal(SERVER)} THEN 0 ELSE greatest(l.position - r.position, 0) END,"
            " (SELECT count(*) FROM ledger.events AS e WHERE e.tenant = r.tenant AND e.type = 'ContentErased'"
            " AND e.position > r.erased_through), extract(epoch FROM clock_timestamp() - seen)"
            " FROM ledger.replicas AS r JOIN ledger.logs AS l USING (tenant)"
            f" WHERE r.tenant = {self._tenant} AND forgotten IS NULL"
            f" AND NOT (machine = {text_literal(SERVER)} AND erased_through >= r.position) ORDER BY machine"
        )
        return [_replica(row) for row in rows]

    def forget(self, machine: str, reason: str) -> bool:
        """Count the files of a machine no longer among those that follow, until they report again.

        Return False if none is among them.
        """
        return bool(
            self._do(
                f"UPDATE ledger.replicas SET forgotten = {text_literal(reason)} WHERE tenant = {self._tenant}"
                f" AND split_part(machine, {text_literal(BETWEEN)}, 1) = {text_literal(machine)} AND forgotten IS NULL"
                " RETURNING machine"
            )
        )

    def take_lease(self, work: str, holder: str, seconds: float) -> bool:
        """Take a lease that nobody has, that ran out, or that the holder has already."""
        return bool(
            self._do(
                f"INSERT INTO ledger.leases VALUES ({self._tenant}, {text_literal(work)}, {text_literal(holder)},"
                f" {_from_now(seconds)})"
                " ON CONFLICT (tenant, work) DO UPDATE SET holder = excluded.holder, until = excluded.until"
                " WHERE leases.until <= clock_timestamp() OR leases.holder = excluded.holder RETURNING holder"
            )
        )

    def renew_lease(self, work: str, holder: str, seconds: float) -> bool:
        """Renew a lease, even one that ran out, unless another holder has taken it."""
        return bool(
            self._do(
                f"UPDATE ledger.leases SET until = {_from_now(seconds)} WHERE {self._lease(work, holder)} RETURNING holder"
            )
        )

    def give_back_lease(self, work: str, holder: str) -> None:
        """End a lease."""
        with suppress(LedgerError):
            self._do(f"DELETE FROM ledger.leases WHERE {self._lease(work, holder)}")

    def close(self) -> None:
        """Let the lock go."""
        self.release()

    # --- statements ------------------------------------------------------------------------------------------------

    @property
    def _tenant(self) -> str:
        return text_literal(self.tenant)

    def _lease(self, work: str, holder: str) -> str:
        return f"tenant = {self._tenant} AND work = {text_literal(work)} AND holder = {text_literal(holder)}"

    def _do(self, statement: str) -> list[Row]:
        """Run one statement in a transaction of its own, and return its rows."""
        return self._pool.ask(f"{self._own()} {statement}; COMMIT", self._timeout)[-2]

    def _own(self, mode: str = "ISOLATION LEVEL READ COMMITTED", idle: float = 0.0, lock: float = 0.0) -> str:
        """Return the beginning of each transaction; its settings end with it."""
        return (
            f"BEGIN {mode}; SET LOCAL ledger.tenant = {self._tenant};"
            f" SET LOCAL lock_timeout = {_milliseconds(lock or self._timeout)};"
            f" SET LOCAL idle_in_transaction_session_timeout = {_milliseconds(idle or self._idle)};"
            " SET LOCAL bytea_output = hex;"
        )

    def _tip_statement(self) -> str:
        version = "(SELECT max(version) FROM ledger.format)"  # a running machine stops when the format is raised
        return f"SELECT position, head, {version} FROM ledger.logs WHERE tenant = {self._tenant}"

    def _locking(self, seconds: float) -> str:
        return f"{self._own(lock=seconds)} {self._tip_statement()} FOR UPDATE; "

    def _tail_statements(self, position: int, limit: int) -> str:
        """Return two statements: the row at a position, without its state, and those behind; and the blobs behind."""
        columns = _EVENT.format(state=f"CASE WHEN position > {position:d} THEN state END")
        where = f"WHERE tenant = {self._tenant} AND position"
        return (
            f"SELECT position, {columns} FROM ledger.events {where} >= {position:d} ORDER BY position"
            f" LIMIT {limit + 1 + (position > 0):d};"
            f" SELECT {_BLOB} FROM ledger.blobs {where} BETWEEN {position + 1:d} AND {position + limit:d}"
            " ORDER BY position, id"
        )

    def _publishing(self, publication: Publication) -> str:
        """Return the message of a commit: rows, which move the end of the log, blobs, redactions, and COMMIT."""
        tenant, text = self._tenant, text_literal
        parts: list[str] = []
        for start in range(0, len(publication.rows), ROWS_A_STATEMENT):
            rows = publication.rows[start : start + ROWS_A_STATEMENT]
            parts.append(f"INSERT INTO ledger.events VALUES {', '.join([_values(tenant, row) for row in rows])}")
        for blob in publication.blobs:
            values = f"{text(blob.id)}, {blob.position:d}, {bytes_literal(blob.data)}, {_number(blob.erased_by)}"
            parts.append(f"INSERT INTO ledger.blobs VALUES ({tenant}, {values})")
        changed = [
            (position, f"({position:d}, {text(state)}, {by:d})") for position, state, by in publication.redactions
        ]
        for values in _each_once(changed):
            parts.append(
                "UPDATE ledger.events AS e SET state = c.state, erased_by = c.by"
                f" FROM (VALUES {values}) AS c (position, state, by) WHERE tenant = {tenant} AND e.position = c.position"
            )
        emptied = [(blob_id, f"({text(blob_id)}, {by:d})") for blob_id, by in publication.erased_blobs]
        for values in _each_once(emptied):
            parts.append(
                "UPDATE ledger.blobs AS b SET data = NULL, erased_by = c.by"
                f" FROM (VALUES {values}) AS c (id, by) WHERE tenant = {tenant} AND b.id = c.id AND data IS NOT NULL"
            )
        if by := [*(by for _, _, by in publication.redactions), *(by for _, by in publication.erased_blobs)]:
            parts.append(lag_sql(tenant, max(by)))
        parts.append("COMMIT")
        return "; ".join(parts)


# --- values ----------------------------------------------------------------------------------------------------------


def _each_once(changes: Sequence[tuple[object, str]]) -> Iterator[str]:
    """Yield the values of one statement after another, none of which changes a row twice."""
    values: dict[object, str] = {}
    for row, value in changes:
        if row in values or len(values) == ROWS_A_STATEMENT:
            yield ", ".join(values.values())
            values = {}
        values[row] = value
    if values:
        yield ", ".join(values.values())


def _number(value: int | None) -> str:
    return "NULL" if value is None else f"{value:d}"


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _from_now(seconds: float) -> str:
    return f"clock_timestamp() + interval '{round(seconds * 1000):d} milliseconds'"


def _values(tenant: str, row: LogRow) -> str:
    return (
        f"({tenant}, {row.position:d}, {text_literal(row.stream)}, {row.version:d}, {text_literal(row.type)},"
        f" {text_literal(row.state)},"
        f" {bytes_literal(row.digest)}, {bytes_literal(row.head)}, {bytes_literal(row.key)}, {_number(row.erased_by)})"
    )


def _int(value: bytes | None) -> int:
    return int(value or b"0")


def _str(value: bytes | None) -> str:
    return (value or b"").decode()


def _unhex(value: bytes | None) -> bytes:
    return bytes.fromhex(_str(value)[2:])


def _time(value: bytes | None) -> datetime:
    return datetime.fromisoformat(_str(value) + "+00:00")


def _replica(row: Row) -> Replica:
    key, position, erased, seen, lag, pending, silent = row
    machine, _, file = _str(key).partition(BETWEEN)
    numbers = _int(lag), _int(pending), float(_str(silent))
    return Replica(machine, _int(position), _int(erased), _time(seen), *numbers, file)


def _tip(row: Row) -> Tip:
    """Return the end of a log; raise ``NewerFormatError`` if a newer version of the product has taken the tables."""
    refuse_newer(_int(row[2]))
    return Tip(_int(row[0]), _unhex(row[1]))


def _log_row(row: Row) -> LogRow:
    position, stream, version, type_, state, digest, head, key, erased_by = row
    return LogRow(
        _int(position),
        _str(stream),
        _int(version),
        _str(type_),
        _str(state),
        _unhex(digest),
        _unhex(head),
        None if key is None else _unhex(key),
        None if erased_by is None else int(erased_by),
    )


def _blob(row: Row) -> SharedBlob:
    blob_id, position, data, erased_by = row
    return SharedBlob(
        _str(blob_id),
        _int(position),
        None if data is None else _unhex(data),
        None if erased_by is None else int(erased_by),
    )


def _tail(answers: Sequence[Sequence[Row]], position: int, limit: int) -> Tail:
    tips, rows, blobs = answers
    tip = _tip(tips[0]) if tips else Tip(0, GENESIS)
    head_there: bytes | None = GENESIS if position == 0 else None
    if rows and _int(rows[0][0]) == position:
        head_there, rows = _unhex(rows[0][6]), rows[1:]
    return Tail(
        tip, head_there, [_log_row(row) for row in rows[:limit]], [_blob(row) for row in blobs], len(rows) > limit
    )
