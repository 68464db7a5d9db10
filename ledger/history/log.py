"""The log as it was recorded, forward: every event of every user with its data as a struct, and waiting for more of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import get_args, get_type_hints

from msgspec import Raw, Struct, json
from msgspec.structs import force_setattr

from ledger import answers
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.events import NOTHING, TYPES, Blob, LedgerCreated
from ledger.domain.text import plural, texts
from ledger.engine.engine import Engine
from ledger.engine.log_reading import read_blob
from ledger.engine.stopping import Stopping
from ledger.store import mapper
from ledger.store.reading import read_tip
from projections.core.rows import Connection
from projections.views import control

LOOK_SECONDS = 0.1  # how often who waits looks for more
PART = 250  # events that are read at a time by who goes on: of more, each costs more to hold than to decode
END = 2**62
_ALSO = frozenset((Blob, Raw))


class Wanted(Struct, frozen=True):
    """Which events: of no types all, of one subject or of all, up to a position."""

    types: tuple[str, ...]
    subject: str | None
    last: int


def wanted(engine: Engine, types: Iterable[str], subject: str | None, until: int | str | None) -> Wanted:
    """What a caller asks for, checked; it ends before a position or a time. An unknown type is ``RejectedError``,
    an unknown subject ``NotFoundError``."""
    named = plural("types", types, sorted(TYPES))
    texts(subject=subject)
    if subject is None and not isinstance(until, str):
        return Wanted(named, None, END if until is None else until - 1)
    with engine.reading() as connection:
        stream = _stream(connection, subject) if subject is not None else None
        if isinstance(until, str):
            until = engine.times.last(connection, until, read_tip(connection.cursor())[0]) + 1
        return Wanted(named, stream, END if until is None else until - 1)


def _stream(connection: Connection, subject: str) -> str:
    """The subject with this id or unambiguous beginning, of whatever user; "ledger" are the ledger's own events."""
    sql = "SELECT stream FROM events WHERE stream >= ? AND stream < ? AND version = 1 LIMIT 2"
    found = connection.execute(sql, (subject, subject + "~")).fetchall() if len(subject) > 2 else []
    if len(found) != 1:
        raise NotFoundError(
            f"{'several subjects have ids that begin with' if found else 'no subject is'} {subject!r:.40}"
        )
    return str(found[0][0])


def entries(engine: Engine, asked: Wanted, after: int, limit: int) -> list[answers.LogEntry]:
    """So many events behind a position, oldest first."""
    where, values = "e.position > ? AND e.position <= ?", list[object]([after, asked.last])
    if asked.subject is not None:
        where, values = f"{where} AND e.stream = ?", [*values, asked.subject]
    if asked.types:
        where, values = f"{where} AND e.type IN ({', '.join('?' * len(asked.types))})", [*values, *asked.types]
    with engine.reading() as connection:
        return entries_where(connection, where, values, limit)


def entries_where(
    connection: Connection, where: str, values: Sequence[object], limit: int = -1
) -> list[answers.LogEntry]:
    """So many of the events ``e`` for which a condition holds, oldest first: with their texts, and whether they are in effect."""
    sql = f"SELECT e.position, e.stream, e.version, e.type, e.state FROM events e WHERE {where} ORDER BY e.position LIMIT ?"
    rows = connection.execute(sql, (*values, limit)).fetchall()
    out = control.voided(connection, rows[0][0], rows[-1][0]) if rows else {}
    return [_entry(connection, row[0] not in out, *row) for row in rows]


def _entry(
    connection: Connection, in_effect: bool, position: int, stream: str, version: int, type_: str, state: str
) -> answers.LogEntry:
    envelope = mapper.decode(position, position, stream, version, type_, state).envelope
    data = envelope.data
    kind: type[Struct] = type(data)
    for name in _apart(kind):
        value = getattr(data, name)
        if type(value) in _ALSO:
            force_setattr(data, name, {} if value is NOTHING else _whole(connection, value))
    if kind is LedgerCreated:
        force_setattr(data, "secret", "")
    return answers.LogEntry(  # by place, for a scan makes many
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
def _apart(kind: type[Struct]) -> tuple[str, ...]:
    """The fields whose value may lie elsewhere, or is kept as it was given."""
    return tuple(name for name, hint in get_type_hints(kind).items() if not _ALSO.isdisjoint((hint, *get_args(hint))))


def _whole(connection: Connection, value: object) -> object:
    """A long text, which lies beside the log; free JSON, which is kept as it was given."""
    if isinstance(value, Blob):
        return read_blob(connection, value.blob)
    return json.decode(value) if isinstance(value, Raw) else value


# --- waiting ---------------------------------------------------------------------------------------------------------


def follow(engine: Engine, asked: Wanted, after: int, stopping: Stopping) -> Iterator[answers.LogEntry]:
    """Every event behind a position, and then each as it is committed, by whatever process; it ends when it is called off,
    and when the ledger is closed."""
    with _until_closed():
        while not stopping.why:
            seen = engine.position
            while found := entries(engine, asked, after, PART):
                for each in found:
                    yield each
                    if stopping.why:
                        return
                after = found[-1].position
            after = max(after, seen)
            wait(engine, seen + 1, stopping)


def wait(engine: Engine, position: int, stopping: Stopping) -> bool:
    """Until the log has this position: then True; False when it is called off, or the ledger is closed."""
    with _until_closed():
        while engine.position < position:
            if stopping.why:
                return False
            stopping.wait(LOOK_SECONDS)
        return True
    return False


@contextmanager
def _until_closed() -> Iterator[None]:
    """What is inside ends without an error where the ledger is closed, before any of its reads."""
    try:
        yield
    except RejectedError as error:
        if error.rule != "closed":
            raise


def check_no_batch(engine: Engine) -> None:
    if engine.writer.batching:
        raise RejectedError(
            "who waits for what others commit cannot be in a batch, which sees none of it; leave it first"
        )
