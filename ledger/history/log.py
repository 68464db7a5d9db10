"""The reading of the log in the order of recording: every event of every user with its data, and the wait for new events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import get_args, get_type_hints

from msgspec import Raw, Struct, json
from msgspec.structs import force_setattr

from ledger.core.engine import Engine
from ledger.core.reads import read_blob
from ledger.core.steps import Stopping
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.text import plural, texts
from ledger.events import NOTHING, TYPES, Blob, LedgerCreated
from ledger.history import answers
from ledger.log import registry
from ledger.log.reading import read_tip
from projections.core.rows import Connection
from projections.views import control

LOOK_SECONDS = 0.1  # the seconds between two looks for new events
PART = 250  # the number of events read at a time; larger parts were slower, because they take more memory
END = 2**62
_ENCODED = frozenset((Blob, Raw))  # the types of values that have to be loaded or decoded


class LogFilter(Struct, frozen=True):
    """A filter of the log: the types of events (empty for all), the subject (None for all), and the last position."""

    types: tuple[str, ...]
    subject: str | None
    last: int


def checked_filter(engine: Engine, types: Iterable[str], subject: str | None, until: int | str | None) -> LogFilter:
    """Return the filter of a caller; ``until`` is a position or a time, and is not included.

    Raises:
        RejectedError: A type of events is unknown.
        NotFoundError: The subject is unknown.
    """
    checked_types = plural("types", types, sorted(TYPES))
    texts(subject=subject)
    if subject is None and not isinstance(until, str):
        return LogFilter(checked_types, None, END if until is None else until - 1)
    with engine.reading() as connection:
        stream = _stream(connection, subject) if subject is not None else None
        if isinstance(until, str):
            until = engine.times.last(connection, until, read_tip(connection.cursor())[0]) + 1
        return LogFilter(checked_types, stream, END if until is None else until - 1)


def _stream(connection: Connection, subject: str) -> str:
    """Return the id of a subject of any user by its id or an unambiguous prefix; "ledger" is the stream of the ledger."""
    sql = "SELECT stream FROM events WHERE stream >= ? AND stream < ? AND version = 1 LIMIT 2"
    matches = connection.execute(sql, (subject, subject + "~")).fetchall() if len(subject) > 2 else []
    if len(matches) != 1:
        raise NotFoundError(
            f"{'several subjects have ids that begin with' if matches else 'no subject has the id'} {subject!r:.40}"
        )
    return str(matches[0][0])


def entries(engine: Engine, selection: LogFilter, after: int, limit: int) -> list[answers.LogEntry]:
    """Return at most ``limit`` of the selected events after a position, oldest first."""
    where, values = "e.position > ? AND e.position <= ?", list[object]([after, selection.last])
    if selection.subject is not None:
        where, values = f"{where} AND e.stream = ?", [*values, selection.subject]
    if selection.types:
        where, values = f"{where} AND e.type IN ({', '.join('?' * len(selection.types))})", [*values, *selection.types]
    with engine.reading() as connection:
        return entries_where(connection, where, values, limit)


def entries_where(
    connection: Connection, where: str, values: Sequence[object], limit: int = -1
) -> list[answers.LogEntry]:
    """Return at most ``limit`` events that meet a condition, oldest first; the condition calls the table of events ``e``."""
    sql = f"SELECT e.position, e.stream, e.version, e.type, e.state FROM events e WHERE {where} ORDER BY e.position LIMIT ?"
    rows = connection.execute(sql, (*values, limit)).fetchall()
    out = control.voided(connection, rows[0][0], rows[-1][0]) if rows else {}
    return [_entry(connection, row[0] not in out, *row) for row in rows]


def _entry(
    connection: Connection, in_effect: bool, position: int, stream: str, version: int, type_: str, state: str
) -> answers.LogEntry:
    envelope = registry.decode(position, position, stream, version, type_, state).envelope
    data = envelope.data
    kind: type[Struct] = type(data)
    for name in _encoded_fields(kind):
        value = getattr(data, name)
        if type(value) in _ENCODED:
            force_setattr(data, name, {} if value is NOTHING else _loaded(connection, value))
    if kind is LedgerCreated:
        force_setattr(data, "secret", "")
    return answers.LogEntry(  # positional arguments are faster, and a scan makes many entries
        position,
        stream,
        version,
        type_,
        envelope.event_id,
        envelope.recorded_at,
        envelope.occurred_at,
        envelope.command,
        envelope.begun or envelope.event_id,
        envelope.causation_id,
        envelope.correlation_id,
        envelope.user,
        envelope.actor,
        envelope.client,
        envelope.channel,
        envelope.agent,
        envelope.project,
        envelope.session,
        in_effect,
        data,
    )


@cache
def _encoded_fields(kind: type[Struct]) -> tuple[str, ...]:
    """Return the fields whose value may be stored outside the log, or is raw JSON."""
    hints = get_type_hints(kind)
    return tuple(name for name, hint in hints.items() if not _ENCODED.isdisjoint((hint, *get_args(hint))))


def _loaded(connection: Connection, value: object) -> object:
    """Return a long text from outside the log, or decoded JSON."""
    if isinstance(value, Blob):
        return read_blob(connection, value.blob)
    return json.decode(value) if isinstance(value, Raw) else value


# --- waiting ---------------------------------------------------------------------------------------------------------


def follow(engine: Engine, selection: LogFilter, after: int, stopping: Stopping) -> Iterator[answers.LogEntry]:
    """Yield the selected events after a position, and then each selected event that any process commits.

    The iteration ends when ``stopping`` has a reason, and when the ledger is closed.
    """
    with _until_closed():
        while not stopping.why:
            seen = engine.position
            while part := entries(engine, selection, after, PART):
                for entry in part:
                    yield entry
                    if stopping.why:
                        return
                after = part[-1].position
            after = max(after, seen)
            wait(engine, seen + 1, stopping)


def wait(engine: Engine, position: int, stopping: Stopping) -> bool:
    """Wait until the log has a position and return True; return False if the wait is stopped or the ledger is closed."""
    with _until_closed():
        while engine.position < position:
            if stopping.why:
                return False
            stopping.wait(LOOK_SECONDS)
        return True
    return False


@contextmanager
def _until_closed() -> Iterator[None]:
    """End the block without an error if a read finds the ledger closed."""
    try:
        yield
    except RejectedError as error:
        if error.rule != "closed":
            raise


def check_no_batch(engine: Engine) -> None:
    if engine.writer.batching:
        raise RejectedError(
            "a batch sees no commits of others, so nothing can wait for them inside a batch; leave the batch first"
        )
