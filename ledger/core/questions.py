"""Queries in SQL about the ledger as it is, or as it was known at a moment."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress

from msgspec.structs import replace

from ledger.core import own
from ledger.core.engine import Engine, ReadingEngine
from ledger.core.reads import check_tables
from ledger.domain.errors import ConflictError, DamagedError, RejectedError, StorageError
from ledger.log.questions import Bounds, BoundsOfUser, Value, ask, undecoded
from ledger.log.reading import tables_closed
from projections.core import own_registry as registry
from projections.core import questions
from projections.core.own import PREFIX
from projections.core.projector import tables_of
from projections.core.rows import Connection, DatabaseError
from projections.core.sql_views import VIEWS

MOST_SECONDS, MOST_ROWS = 3_600, 1_000_000
SQL_CHARS = 1_000_000


def query(
    engine: ReadingEngine, user: str | None, sql: str, parameters: Sequence[object], timeout: float, limit: int
) -> tuple[dict[str, Value], ...]:
    """Return the rows of one SELECT about one user, or about every user if ``user`` is None.

    Raises:
        RejectedError: The text is not a SELECT, takes too long, returns too much, or reads another user's rows.
    """
    if not isinstance(sql, str) or not sql.strip() or len(sql) > SQL_CHARS:
        raise RejectedError(f"query takes one SELECT as a text of at most {SQL_CHARS:,} characters")
    seconds, rows = _bound("timeout", timeout, MOST_SECONDS), int(_bound("limit", limit, MOST_ROWS, whole=True))
    values = _checked(parameters)
    if engine.valid is not None:
        raise RejectedError(
            "query answers as of a position only: compare valid_from and valid_to in the query, and leave valid_at= out"
        )
    if isinstance(engine, Engine) and engine.writer.batching:
        raise ConflictError("query cannot run inside a batch, whose rows are not committed; end the batch first")
    engine.write_waiting()
    if engine.own is not None and _is_writable(engine) and PREFIX in sql.lower():
        engine.own.restore()
        engine.own.catch_up()
    if user is not None:
        return _of_user(engine, user, sql, values, seconds, rows)
    past = not isinstance(engine, Engine)
    with _decoded(), _ready(engine, sql) as connection:
        _, suspended = check_tables(connection, engine.secret)
        bounds = Bounds(
            tables=_tables(connection),
            views=VIEWS,
            closed=tables_of(suspended) | _suspended_own(connection),
            log=questions.hidden_log(connection),
            through=questions.through() if past else None,
            own=questions.own_before(connection) if past else {},
            seconds=seconds,
            rows=rows,
        )
        return tuple(ask(connection, sql, values, bounds, lambda: _names(connection)))


def _of_user(
    engine: ReadingEngine,
    user: str,
    sql: str,
    parameters: Sequence[Value] | Mapping[str, Value],
    seconds: float,
    rows: int,
) -> tuple[dict[str, Value], ...]:
    bounds = BoundsOfUser(views=tuple(VIEWS), nowhere=questions.NOWHERE, seconds=seconds, rows=rows)
    keeps = isinstance(engine, Engine) and PREFIX in sql.lower()  # own tables keep no past
    if engine.folded_privately:  # the folded tables have the names of the file's tables, so the query runs on a copy
        with _decoded(), _folded(engine) as connection:
            _, suspended = check_tables(connection, engine.secret)
            own_tables = questions.own_of_user(connection) if keeps else []
            with tables_closed(connection, tables_of(suspended) | _suspended_own(connection)):
                copy = questions.copy_of(connection, user, sql, own_tables)
            bounds = replace(bounds, views=(*VIEWS, *own_tables))
            with closing(copy):
                return tuple(ask(copy, sql, parameters, bounds, lambda: _documented(copy, bounds.views)))
    prepare = questions.prepare_live_of_user if isinstance(engine, Engine) else questions.prepare_past_of_user
    with _decoded(), engine.view(prepare) as connection:
        _, suspended = check_tables(connection, engine.secret)
        own_tables = questions.own_of_user(connection) if keeps else []
        prefix = questions.stand_for(connection, user, own_tables)
        bounds = replace(
            bounds,
            views=(*VIEWS, *own_tables),
            prefix=prefix,
            tables=_tables(connection),
            closed=tables_of(suspended) | _suspended_own(connection),
            log=questions.hidden_log(connection),
            schema="temp",
        )
        return tuple(ask(connection, sql, parameters, bounds, lambda: _documented(connection, bounds.views)))


@contextmanager
def _decoded() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        if not isinstance(error, DamagedError) and (refusal := undecoded(error.__cause__)) is not None:
            raise refusal from None
        raise


@contextmanager
def _ready(engine: ReadingEngine, sql: str) -> Iterator[Connection]:
    """Yield a connection on which the documented views show the engine's moment."""
    if engine.folded_privately:
        with _folded(engine) as connection:
            _shadow_own(connection, engine, sql)
            yield connection
        return
    prepare = questions.prepare_live if isinstance(engine, Engine) else questions.prepare_past
    with engine.view(prepare) as connection:
        if _is_writable(engine):
            questions.shadow_own(connection)
        else:
            _shadow_own(connection, engine, sql)
        yield connection


def _is_writable(engine: ReadingEngine) -> bool:
    """Return True if the file holds the tables of the user's own projections and takes their new rows."""
    return isinstance(engine, Engine) and not engine.store.readonly


@contextmanager
def _folded(engine: ReadingEngine) -> Iterator[Connection]:
    """Lend a connection on which the projections are folded up to the engine's moment."""
    refusal: RejectedError | None = None
    with engine.view(questions.prepare_folded) as connection:
        try:
            yield connection
        except RejectedError as error:  # raised after the block, because an error in here would undo the fold
            refusal = error
    if refusal is not None:
        raise refusal


def _shadow_own(connection: Connection, engine: ReadingEngine, sql: str) -> None:
    """Bring the user's own views, and the projections that the query names, to the engine's moment."""
    text = " ".join((sql, *questions.shadow_own(connection))).lower()
    definitions = engine.own.definitions.values() if engine.own is not None else ()
    own.stand(
        connection,
        [definition for definition in definitions if any(table.name.lower() in text for table in definition.tables)],
    )


def _suspended_own(connection: Connection) -> dict[str, str]:
    suspended = (entry for entry in registry.entries(connection).values() if entry.suspended_at is not None)
    return {table.lower(): entry.name for entry in suspended for table in entry.tables}


def _tables(connection: Connection) -> frozenset[str]:
    return frozenset(str(name).lower() for (name,) in connection.execute("SELECT name FROM main.sqlite_master"))


def _names(connection: Connection) -> Collection[str]:
    """Return the names that a misspelt name may have meant: views, tables and their columns."""
    listed = "SELECT name FROM {}.sqlite_master WHERE type IN ('table', 'view') AND name NOT GLOB 'log_*'"
    names = [name for schema in ("temp", "main") for (name,) in connection.execute(listed.format(schema))]
    for name in tuple(names):
        with suppress(DatabaseError):  # a view may name a missing table
            names += [row[1] for row in connection.execute("SELECT * FROM pragma_table_info(?)", (name,))]
    return dict.fromkeys(names)


def _documented(connection: Connection, views: Collection[str]) -> Collection[str]:
    """Return the names of views and of their columns."""
    columns = (row[1] for view in views for row in connection.execute("SELECT * FROM pragma_table_info(?)", (view,)))
    return dict.fromkeys((*views, *columns))


# --- arguments -------------------------------------------------------------------------------------------------------


def _bound(name: str, value: float, most: int, *, whole: bool = False) -> float:
    fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not fits or not 0 < value <= most:  # refuses nan too; a whole number may be too large for a float
        raise RejectedError(
            f"{name} is {'a whole number' if whole else 'a number'} above 0 and at most {most:,}", rule=name
        )
    return value


def _checked(parameters: Sequence[object]) -> Sequence[Value] | Mapping[str, Value]:
    """Return one value for each ?, or a mapping of names to values for :name."""
    if len(parameters) == 1 and isinstance(parameters[0], Mapping):
        return {str(name): _value(f":{name}", value) for name, value in parameters[0].items()}
    return tuple(_value(f"parameter {number}", value) for number, value in enumerate(parameters, 1))


def _value(label: str, value: object) -> Value:
    if isinstance(value, list | tuple):
        raise RejectedError(f"{label} is a {type(value).__name__}: give each value by itself, as in query(sql, 1, 2)")
    if value is not None and not isinstance(value, str | int | float | bytes):
        raise RejectedError(
            f"{label} is a text, a number, bytes or None, and not a {type(value).__name__}: give a time as its ISO text"
        )
    return value
