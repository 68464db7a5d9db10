"""Users' own projections: the class that a user writes, the rows that its ``fold`` writes, and the checked definition.

The tables are called ``my_<projection>_<table>``. They result from calling ``fold`` with each event in effect, in the order of
the log, up to a position. A fold only goes forward. If an undo, a distrust or an erasure changes events already folded, the
tables are emptied and folded again from the first event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import cache
from inspect import signature
from operator import attrgetter
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, dataclass_transform, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import fields
from msgspec.structs import replace as changed

from ledger.domain.errors import RejectedError
from ledger.events import TYPES, AnyEvent, EventData
from ledger.log.event_store import Misuse, own_fold
from projections.core.rows import Key, Table, Values
from projections.core.sqlite import SQLiteRows

PREFIX = "my_"  # the beginning of the names of all tables of users, also those made by hand; no name of the product begins so
KINDS = {"memory": "m", "interaction": "i", "project": "p", "session": "s", "document": "d"}
KINDS |= {"merge": "g", "conflict": "k", "observation": "o", "value": "v"}
_NAME, _COLUMN = r"[a-z][a-z0-9_]{0,39}", r"[A-Za-z][A-Za-z0-9_]{0,62}"
_PLAIN: dict[object, str] = {str: "TEXT", int: "INTEGER", bool: "INTEGER", float: "REAL", bytes: "BLOB"}
_LARGE = 2**63
_IN_KEYS = (str, int, bool, bytes)
_json = msgspec.json.encode
State = Any  # the state of a subject of any kind


# --- what a user writes ----------------------------------------------------------------------------------------------

if TYPE_CHECKING:  # type checkers do not understand a metaclass

    @dataclass_transform(frozen_default=True)
    class _TypedRow:
        def __init_subclass__(
            cls, *, key: Sequence[str] = (), indexes: Sequence[str | Sequence[str]] = (), **_: object
        ) -> None: ...

    Row = _TypedRow

else:

    class _RowMeta(type(Struct)):
        def __new__(mcs, name, bases, namespace, *, key=(), indexes=(), **options):
            if options:
                raise RejectedError(
                    f"the row {name} has the options {', '.join(options)}; a row takes key= and indexes="
                )
            made = super().__new__(mcs, name, bases, namespace, frozen=True)
            made.__row__ = (key, indexes)
            return made

    class Row(Struct, metaclass=_RowMeta):
        """A row of a table of your own; the annotations are the columns, and ``key`` names the columns that identify a row.

        Texts, numbers, booleans and bytes are stored as they are. A column with ``| None`` may be NULL. All other types that
        ``msgspec`` can write are stored as JSON. ``class Day(Row, key=("day", "person"), indexes=("person",))``.

        Args:
            key: The columns of the primary key, in order; texts, whole numbers, booleans or bytes.
            indexes: Columns, or tuples of columns, to look rows up by.
        """


R = TypeVar("R", bound=Row)


class Change(Struct, frozen=True):
    """The change that an event makes to its subject, from the state ``old`` to the state ``new``.

    ``old`` is None for a new subject, ``new`` is None for a subject that ended. Both are rows of the subject's table
    (``memories``, ``interactions``, … on the page about the schema), with confidences in millionths. The ``position`` of ``old``
    is 0.
    """

    kind: str
    id: str
    old: State
    new: State


class Rows:
    """The rows of one projection, as its ``fold`` reads and writes them; only the fold writes them."""

    __slots__ = ("_of", "_rows")

    def __init__(self, of: Definition, rows: SQLiteRows) -> None:
        self._of, self._rows = of, rows

    def get(self, table: type[R], *key: object) -> R | None:
        """Return the row with this key, or None.

        Args:
            table: The class of the row.
            key: The value of each column of the key, in order.
        """
        shape = self._of.shape(table)
        row = self._rows.get(shape.table, shape.key(key))
        return cast("R", shape.decode(row)) if row is not None else None

    def put(self, row: Row, **changes: object) -> None:
        """Write a row, in place of the row with the same key.

        Args:
            row: The row.
            changes: New values for columns of ``row``.
        """
        shape = self._of.shape(type(row))
        try:
            values = shape.encode(changed(cast("State", row), **changes) if changes else row)
        except (AttributeError, TypeError) as error:
            if changes and not set(changes) <= set(shape.columns):
                columns = ", ".join(sorted(set(changes) - set(shape.columns)))
                raise Misuse(f"{shape.name} has no column {columns}; it has {', '.join(shape.columns)}") from None
            raise error
        self._rows.put(shape.table, values[: len(shape.table.key)], values)

    def remove(self, table: type[Row], *key: object) -> None:
        """Delete the row with this key, if there is one.

        Args:
            table: The class of the row.
            key: The value of each column of the key, in order.
        """
        shape = self._of.shape(table)
        self._rows.remove(shape.table, shape.key(key))

    def find(self, table: type[R], **equal: object) -> list[R]:
        """Return the rows whose columns have these values, in the order of their keys.

        Args:
            table: The class of the row.
            equal: The value of each column; without an index on these columns the whole table is read.
        """
        shape = self._of.shape(table)
        if not equal:
            raise Misuse(f'find takes at least one column of {shape.name} and its value, as in person="ada"')
        names, values = shape.equal(equal)
        return [cast("R", shape.decode(row)) for row in self._rows.find(shape.table, names, values)]


class Projection:
    """Tables of your own that are folded from the log: ``Ledger.open(path, projections=[Counts])``.

    ``name`` is the projection's name in the file. ``version`` is a number that you raise when ``fold`` gives other rows for the
    same events; a change of columns is noticed without it. ``follows`` lists the kinds of subjects and the events that the
    projection receives. ``tables`` lists the classes of its rows.
    """

    name: str = ""
    version: int = 1
    follows: Sequence[str | type[EventData]] = ()
    tables: Sequence[type[Row]] = ()

    def fold(self, event: AnyEvent, change: Change | None, rows: Rows) -> None:
        """Write the rows that follow from an event; called once for each followed event in effect, in log order.

        The result must depend on the arguments alone: no clock, no random numbers, no file, nothing kept in ``self``. An
        exception suspends this projection and nothing else.

        Args:
            event: The event, with ``event.data`` and its envelope.
            change: The change of the subject, if the projection follows that kind of subject; None otherwise.
            rows: The tables.
        """
        raise NotImplementedError


# --- the checked definition ------------------------------------------------------------------------------------------


class Shape:
    """A class of rows as a table: the columns in SQL, the key first, and the conversion between rows and values."""

    def __init__(self, owner: str, row: type[Row]) -> None:
        self.row, self.name = row, row.__name__
        key, indexes = (_names(self, option) for option in vars(row).get("__row__", ((), ())))
        self.columns = _types(self)
        of = f"the row {self.name} of the projection {owner!r}"
        if not key:
            raise RejectedError(f'{of} has no key: class {self.name}(Row, key=("…",)) names its columns')
        for name in (*key, *(column for index in indexes for column in index.split(","))):
            if name not in self.columns:
                raise RejectedError(f"{of} has no column {name!r:.40}; it has {', '.join(self.columns)}")
        if len({*key}) < len(key):
            raise RejectedError(f"the key of {of} names a column twice")
        for name in key:
            type_, optional = self.columns[name]
            if type_ not in _IN_KEYS or optional:
                raise RejectedError(
                    f"the column {name} of {of} cannot be part of its key: a key column is a str, int, bool or bytes, never None"
                )
        self.order = order = (*key, *(name for name in self.columns if name not in key))
        self._coded = [(name, *self.columns[name], _column(*self.columns[name])) for name in order]
        self._decoders = [
            msgspec.json.Decoder(type_).decode if type_ not in _PLAIN else bool if type_ is bool else None
            for type_, _ in (self.columns[name] for name in order)
        ]
        self._values = _values_of(self.order)
        self._fits = set[tuple[type, ...]]()  # combinations of types whose values are stored as they are
        self._ints = [place for place, name in enumerate(self.order) if self.columns[name][0] is int]
        self._places = [self.order.index(name) for name in self.columns]
        self._is_plain = not any(self._decoders)
        columns = tuple(f'"{name}" {sql}' for name, *_, sql in self._coded)
        quoted = tuple(", ".join(f'"{column}"' for column in index.split(",")) for index in indexes)
        table = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name).lower()
        width = tuple(f'"{name}"' for name in key)
        self.table = Table(
            f"{PREFIX}{owner}_{table}", columns, width, tuple((index, "") for index in quoted), rowid=False
        )

    def encode(self, row: object) -> Values:
        values = self._values(row)
        types = tuple(map(type, values))
        if types in self._fits:
            for place in self._ints:
                if not -_LARGE <= (values[place] or 0) < _LARGE:
                    break
            else:
                return values
        stored = tuple(map(self._stored, self.order, values))
        if all(kept is value for kept, value in zip(stored, values, strict=True)):
            self._fits.add(types)
        return stored

    def decode(self, values: Values) -> Row:
        if self._is_plain:
            return cast("Callable[..., Row]", self.row)(*[values[place] for place in self._places])
        fields = {
            name: value if value is None or read is None else read(value)
            for name, read, value in zip(self.order, self._decoders, values, strict=True)
        }
        return self.row(**fields)

    def key(self, values: Sequence[object]) -> Key:
        key = self.order[: len(self.table.key)]
        if len(values) != len(key):
            raise Misuse(f"the key of {self.name} is ({', '.join(key)}), and {len(values)} values were given")
        return tuple(self._stored(name, value) for name, value in zip(key, values, strict=True))

    def cursor(self, row: Row) -> str:
        """Return the key of a row as a text; ``opened`` turns the text back into the key."""
        return _json(self.encode(row)[: len(self.table.key)]).decode()

    def opened(self, cursor: str) -> Key:
        types = (int if kind is bool else kind for kind, _ in (self.columns[name] for name in self.order))
        return tuple(msgspec.convert(value, type_) for value, type_ in zip(json.loads(cursor), types, strict=False))

    def equal(self, values: Mapping[str, object]) -> tuple[tuple[str, ...], Key]:
        """Return (quoted columns, stored values) of the condition that these columns have these values."""
        if unknown := sorted(set(values) - set(self.columns)):
            raise Misuse(f"{self.name} has no column {', '.join(unknown)}; it has {', '.join(self.columns)}")
        return tuple(f'"{name}"' for name in values), tuple(self._stored(name, value) for name, value in values.items())

    def _stored(self, name: str, value: object) -> object:
        type_, optional = self.columns[name]
        if value is None and optional:
            return None
        if type_ is float and type(value) is int:
            value = float(value)
        if type_ not in _PLAIN:
            try:
                text = _json(value).decode()
                _decoder(type_).decode(text)
            except (TypeError, ValueError):  # msgspec.ValidationError is a ValueError
                raise Misuse(
                    f"the column {name} of {self.name} takes {_word(type_)}, and the value does not fit this type"
                ) from None
            return text
        if type(value) is not type_:
            takes = f"{_word(type_)}{' or None' if optional else ''}"
            raise Misuse(f"the column {name} of {self.name} takes {takes}, and was given {_word(type(value))}")
        if type_ is int and not -_LARGE <= cast("int", value) < _LARGE:
            raise Misuse(
                f"the column {name} of {self.name} takes a whole number of 64 bits, and was given a larger one"
            )
        return int(value) if type_ is bool else value  # type: ignore[call-overload]


def _values_of(names: Sequence[str]) -> Callable[[object], Values]:
    """Return a function from an object to the tuple of these fields."""
    read = attrgetter(*names)
    return (lambda row: (read(row),)) if len(names) == 1 else read


@cache
def _decoder(type_: State) -> msgspec.json.Decoder[State]:
    return msgspec.json.Decoder(type_)


def _word(type_: object) -> str:
    if not isinstance(type_, type):
        return str(type_)
    return f"{'an' if type_.__name__[0] in 'aeiouAEIOU' else 'a'} {type_.__name__}"


def _column(type_: object, optional: bool) -> str:
    return _PLAIN.get(type_, "TEXT") + ("" if optional else " NOT NULL")


def _names(shape: Shape, option: object) -> tuple[str, ...]:
    """Return the columns of a key, or the indexes, each as one text with commas between its columns."""
    if isinstance(option, str) or not isinstance(option, Iterable):
        raise RejectedError(
            f"key= and indexes= of the row {shape.name} are tuples of columns, and {option!r:.40} is no tuple"
        )
    return tuple(part if isinstance(part, str) else ",".join(map(str, part)) for part in option)


def _types(shape: Shape) -> dict[str, tuple[State, bool]]:
    """Return each column with its type without None, and True if the column may be None."""
    try:
        annotated = fields(cast("State", shape.row))
    except NameError as error:
        raise RejectedError(
            f"the annotations of the row {shape.name} cannot be read ({error}): they may only use names of the class's module"
        ) from None
    columns: dict[str, tuple[State, bool]] = {}
    for field in annotated:
        if not re.fullmatch(_COLUMN, field.name) or field.name.lower() in {name.lower() for name in columns}:
            raise RejectedError(
                f"{field.name!r:.80} cannot be a column of the row {shape.name}: a column has letters, digits and _, begins "
                "with a letter, and differs from the other columns by more than capitals"
            )
        types = get_args(field.type) if get_origin(field.type) in (Union, UnionType) else (field.type,)
        left = [alternative for alternative in types if alternative is not NoneType]
        type_ = left[0] if len(left) == 1 else Union[tuple(left)]  # noqa: UP007 - made of a list
        try:
            msgspec.json.schema(type_)  # raises for a type that cannot be written as JSON
        except (TypeError, RecursionError):
            raise RejectedError(
                f"the column {field.name} of the row {shape.name} is of a type that cannot be stored, {_word(type_):.80}: a "
                "column is a str, int, float, bool, bytes or a type that msgspec writes as JSON"
            ) from None
        columns[field.name] = (type_, len(left) < len(types))
    if not columns:
        raise RejectedError(f"the row {shape.name} has no columns: annotate them, as in `day: str`")
    return columns


class Definition:
    """A user's projection after its checks: the followed subjects and events, the tables, and ``text``.

    ``text`` describes the followed names and the tables. If the text in the file is another, the user changed the projection.
    """

    def __init__(self, projection: Projection) -> None:
        kind = type(projection)
        self.name, self.version = projection.name, projection.version
        self.fold: Callable[..., object] = projection.fold
        if not isinstance(self.name, str) or not re.fullmatch(_NAME, self.name):
            raise RejectedError(
                f"the name of {kind.__name__} is {self.name!r:.60}: a name has at most 40 small letters, digits and _, and "
                'begins with a letter, as in name = "counts"'
            )
        of = f"the projection {self.name!r}"
        _check_spelling(kind)
        if type(self.version) is not int or not 0 < self.version < 2**31:
            raise RejectedError(f"the version of {of} is a whole number from 1, and {self.version!r:.40} is not")
        if kind.fold is Projection.fold:
            raise RejectedError(f"{of} has no fold: def fold(self, event, change, rows)")
        try:
            signature(projection.fold).bind(None, None, None)
        except TypeError as error:
            raise RejectedError(
                f"the fold of {of} takes three arguments: fold(self, event, change, rows); {error}"
            ) from None
        self.kinds, self.events = _followed(of, projection.follows)
        rows = projection.tables
        if isinstance(rows, type):
            raise RejectedError(
                f"the tables of {of} are a tuple, even for one table: tables = ({rows.__name__},), with the comma"
            )
        if not isinstance(rows, tuple | list) or not rows:
            raise RejectedError(f"{of} has no tables: tables = (Day,) names the classes of its rows")
        if wrong := next((row for row in rows if not (isinstance(row, type) and issubclass(row, Row))), None):
            raise RejectedError(
                f"{of} has a table {wrong!r:.60}, and a table is a class of rows: class Day(Row, key=…)"
            )
        self.shapes = {row: Shape(self.name, row) for row in rows}
        self.tables = [shape.table for shape in self.shapes.values()]
        if len({table.name for table in self.tables}) < len(rows):
            raise RejectedError(f"{of} has two tables of one name: {', '.join(row.__name__ for row in rows)}")
        shapes = [[table.name, table.columns, table.key, table.indexes] for table in self.tables]
        self.text = json.dumps({"follows": sorted((*self.kinds, *self.events)), "tables": shapes})

    def shape(self, row: object) -> Shape:
        shape = self.shapes.get(cast("type[Row]", row))
        if shape is None:
            name = getattr(row, "__name__", type(row).__name__)
            known = ", ".join(row.__name__ for row in self.shapes)
            raise Misuse(f"{name} is no row of the projection {self.name!r}, which has {known}")
        return shape

    def concerns(self, stream: str, type_: str) -> bool:
        return type_ in self.events or (stream[1:2] == "_" and stream[0] in self.kinds)

    def call(self, event: AnyEvent, change: Change | None, rows: Rows) -> None:
        own_fold.is_on = True
        try:
            answer = self.fold(event, change, rows)
        finally:
            own_fold.is_on = False
        if answer is not None:
            if isinstance(answer, Coroutine):
                answer.close()  # prevents the warning that the coroutine was never awaited
            raise Misuse(
                f"fold returned {_word(type(answer))}: fold must return None and put rows; it cannot be async or a generator"
            )


def _check_spelling(kind: type[Projection]) -> None:
    """Raise if a class has a misspelled attribute, such as ``follow``, which would otherwise be ignored."""
    from difflib import get_close_matches

    ours = [name for name in vars(Projection) if not name.startswith("_")]
    classes = kind.__mro__[: kind.__mro__.index(Projection)]
    written = {name for base in classes for name in vars(base) if not name.startswith("_")}
    for name in sorted(written.difference(ours)):
        if (near := get_close_matches(name, ours, 1, 0.75)) and near[0] not in written:
            raise RejectedError(f"{kind.__name__} has {name!r:.60} and no {near[0]!r}: is {near[0]!r} meant?")


def _followed(owner: str, follows: object) -> tuple[frozenset[str], frozenset[str]]:
    """Return (letters of kinds, names of events) that a projection follows."""
    if isinstance(follows, str) or not isinstance(follows, Iterable):
        raise RejectedError(f'follows of {owner} is a tuple, as in follows = ("memory",), and {follows!r:.40} is not')
    kinds, events = set[str](), set[str]()
    for followed in follows:
        name = followed.__name__ if isinstance(followed, type) else followed
        if isinstance(name, str) and name in KINDS:
            kinds.add(KINDS[name])
        elif isinstance(name, str) and name in TYPES:
            events.add(name)
        else:
            from difflib import get_close_matches

            close = get_close_matches(str(name), (*KINDS, *TYPES), 1, 0.7)
            near = f" (there is {close[0]})" if close else ""
            raise RejectedError(
                f"{owner} follows {followed!r:.60}, which is no kind of subject and no event{near}; kinds: {', '.join(KINDS)}; "
                f"events: {', '.join(sorted(TYPES))}"
            )
    if not kinds and not events:
        raise RejectedError(f'{owner} follows nothing: follows = ("memory",) lists kinds of subject or events')
    return frozenset(kinds), frozenset(events)


def _instance(projection: object) -> Projection:
    if isinstance(projection, type) and issubclass(projection, Projection):
        try:
            return projection()
        except TypeError as error:
            raise RejectedError(
                f"{projection.__name__} cannot be created without arguments ({error}): give an object in place of the class"
            ) from None
    if not isinstance(projection, Projection):
        raise RejectedError(
            f"{projection!r:.60} is no projection: class Counts(Projection), from ledger import Projection"
        )
    return projection


def definitions(classes: Iterable[Projection | type[Projection]]) -> dict[str, Definition]:
    """Return the projections that were passed to ``open``, checked, by name.

    Raises:
        RejectedError: A projection is not well formed, or two of them share a name, a row or a table.
    """
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise RejectedError(f"projections is a list of classes, and {classes!r:.60} is not: projections=[Counts]")
    known: dict[str, Definition] = {}
    for projection in classes:
        definition = Definition(_instance(projection))
        if definition.name in known:
            raise RejectedError(f"two of the projections are called {definition.name!r}; rename either")
        for earlier in known.values():
            if shared := next((row for row in definition.shapes if row in earlier.shapes), None):
                raise RejectedError(
                    f"{shared.__name__} is a row of {earlier.name!r} and of {definition.name!r}: each projection needs row "
                    "classes of its own"
                )
        known[definition.name] = definition
    tables = [table.name for definition in known.values() for table in definition.tables]
    if twice := next((name for name in tables if tables.count(name) > 1), None):
        raise RejectedError(f"two of the projections have a table {twice}: rename either")
    return known
