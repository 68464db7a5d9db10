"""Projections of one's own: the class that a user writes, the rows that its fold puts, and where the file says how far it is.

Their tables, ``my_<projection>_<table>``, are the fold of the events in effect, in the order of the log, up to a position.
The fold only ever goes forward: what an undo, a distrust or an erasure changes is emptied and folded again from zero.
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
from ledger.domain.events import TYPES, AnyEvent, Event
from ledger.store import folding
from ledger.store.folding import Misuse
from projections.core.rows import Key, Table, Values
from projections.core.sqlite import SQLiteRows

PREFIX = "my_"  # whatever is a user's own in the file, made by hand too: nothing of ours begins so
KINDS = {"memory": "m", "interaction": "i", "project": "p", "session": "s", "document": "d"}
KINDS |= {"merge": "g", "conflict": "k", "observation": "o"}
_NAME, _COLUMN = r"[a-z][a-z0-9_]{0,39}", r"[A-Za-z][A-Za-z0-9_]{0,62}"
_PLAIN: dict[object, str] = {str: "TEXT", int: "INTEGER", bool: "INTEGER", float: "REAL", bytes: "BLOB"}
_LARGE = 2**63
_IN_KEYS = (str, int, bool, bytes)
_json = msgspec.json.encode
State = Any  # of whatever kind the subject is


# --- what a user writes ----------------------------------------------------------------------------------------------

if TYPE_CHECKING:

    @dataclass_transform(frozen_default=True)
    class Row:
        """One row of a table of your own; the annotations are its columns, and ``key`` names those that tell rows apart.

        Texts, numbers, booleans and bytes are stored as they are, ``| None`` may be null, and whatever else ``msgspec``
        can write as JSON is JSON. ``class Day(Row, key=("day", "person"), indexes=("person",))``.

        Args:
            key: The columns of the primary key, in order; texts, whole numbers, booleans or bytes.
            indexes: Columns, or tuples of columns, to look rows up by.
        """

        def __init_subclass__(
            cls, *, key: Sequence[str] = (), indexes: Sequence[str | Sequence[str]] = (), **_: object
        ) -> None: ...

else:

    class _RowMeta(type(Struct)):
        def __new__(mcs, name, bases, namespace, *, key=(), indexes=(), **options):
            if options:
                raise RejectedError(f"the row {name} takes key= and indexes=, and not {', '.join(options)}=")
            made = super().__new__(mcs, name, bases, namespace, frozen=True)
            made.__row__ = (key, indexes)
            return made

    class Row(Struct, metaclass=_RowMeta):
        """One row of a table of your own; the annotations are its columns, and ``key`` names those that tell rows apart.

        Texts, numbers, booleans and bytes are stored as they are, ``| None`` may be null, and whatever else ``msgspec``
        can write as JSON is JSON. ``class Day(Row, key=("day", "person"), indexes=("person",))``.

        Args:
            key: The columns of the primary key, in order; texts, whole numbers, booleans or bytes.
            indexes: Columns, or tuples of columns, to look rows up by.
        """


R = TypeVar("R", bound=Row)


class Change(Struct, frozen=True):
    """What an event made of its subject: ``old`` became ``new``, each None where there was or is none.

    They are the rows of the subject's table (``memories``, ``interactions``, … in the page about the schema), confidences in
    millionths. Of ``old`` the ``position`` is 0.
    """

    kind: str
    id: str
    old: State
    new: State


class Rows:
    """The rows of one projection, as its ``fold`` reads and writes them; nobody else writes them."""

    __slots__ = ("_of", "_rows")

    def __init__(self, of: Definition, rows: SQLiteRows) -> None:
        self._of, self._rows = of, rows

    def get(self, table: type[R], *key: object) -> R | None:
        """Return the row with this key, None where there is none.

        Args:
            table: The class of the row.
            key: The value of each column of its key, in order.
        """
        found = self._of.shape(table)
        row = self._rows.get(found.table, found.key(key))
        return cast("R", found.decode(row)) if row is not None else None

    def put(self, row: Row, **changes: object) -> None:
        """Write a row, in the place of the one with the same key.

        Args:
            row: The row.
            changes: Columns that are to have other values than in ``row``.
        """
        found = self._of.shape(type(row))
        try:
            values = found.encode(changed(cast("State", row), **changes) if changes else row)
        except (AttributeError, TypeError) as error:
            if changes and not set(changes) <= set(found.columns):
                columns = ", ".join(sorted(set(changes) - set(found.columns)))
                raise Misuse(f"{found.name} has no column {columns}; it has {', '.join(found.columns)}") from None
            raise error
        self._rows.put(found.table, values[: len(found.table.key)], values)

    def remove(self, table: type[Row], *key: object) -> None:
        """Delete the row with this key, if there is one.

        Args:
            table: The class of the row.
            key: The value of each column of its key, in order.
        """
        found = self._of.shape(table)
        self._rows.remove(found.table, found.key(key))

    def find(self, table: type[R], **equal: object) -> list[R]:
        """Return the rows whose columns have these values, in the order of their keys.

        Args:
            table: The class of the row.
            equal: Values of columns; an index on them spares the whole table from being read.
        """
        found = self._of.shape(table)
        if not equal:
            raise Misuse(f'find takes at least one column of {found.name} and its value, as in person="ada"')
        names, values = found.equal(equal)
        return [cast("R", found.decode(row)) for row in self._rows.find(found.table, names, values)]


class Projection:
    """A table, or several, of your own, folded from the log: ``Ledger.open(path, projections=[Counts])``.

    ``name`` is its name in the file, ``version`` a number that you raise when ``fold`` says something else of the same events
    (a change of columns shows by itself), ``follows`` what it wants to hear of, and ``tables`` the rows that it keeps.
    """

    name: str = ""
    version: int = 1
    follows: Sequence[str | type[Event]] = ()
    tables: Sequence[type[Row]] = ()

    def fold(self, event: AnyEvent, change: Change | None, rows: Rows) -> None:
        """Say what an event means for the tables; called once for each event in effect that is followed, in the order of the log.

        It has to be a function of what it is given alone: no clock, no chance, no file, nothing kept in ``self``. What it
        raises suspends this projection and nothing else.

        Args:
            event: The event, with ``event.data`` and its envelope.
            change: What it made of its subject, of the kinds of subject that are followed; None of other events.
            rows: The tables.
        """
        raise NotImplementedError


# --- what is made of it ----------------------------------------------------------------------------------------------


class Shape:
    """One class of rows as a table: the columns in SQL, the key first, and the way from one to the other."""

    def __init__(self, owner: str, row: type[Row]) -> None:
        self.row, self.name = row, row.__name__
        key, indexes = (_names(self, each) for each in vars(row).get("__row__", ((), ())))
        self.columns = _types(self)
        of = f"the row {self.name} of the projection {owner!r}"
        if not key:
            raise RejectedError(f'{of} has no key: class {self.name}(Row, key=("…",)) names the columns of it')
        for name in (*key, *(column for index in indexes for column in index.split(","))):
            if name not in self.columns:
                raise RejectedError(f"{of} has no column {name!r:.40}; it has {', '.join(self.columns)}")
        if len({*key}) < len(key):
            raise RejectedError(f"the key of {of} names a column twice")
        for name in key:
            type_, optional = self.columns[name]
            if type_ not in _IN_KEYS or optional:
                raise RejectedError(
                    f"the column {name} of {of} cannot be part of its key: that is a str, int, bool or bytes, never None"
                )
        order = (*key, *(name for name in self.columns if name not in key))
        self.order = tuple(order)
        self._coded = [(name, *self.columns[name], _column(*self.columns[name])) for name in order]
        self._decoders = [
            msgspec.json.Decoder(type_).decode if type_ not in _PLAIN else bool if type_ is bool else None
            for type_, _ in (self.columns[name] for name in order)
        ]
        self._values = _values_of(self.order)
        self._fits = set[tuple[type, ...]]()  # types of values that are stored as they are
        self._ints = [place for place, name in enumerate(self.order) if self.columns[name][0] is int]
        self._places = [self.order.index(name) for name in self.columns]
        self._is_plain = not any(self._decoders)
        columns = tuple(f'"{name}" {sql}' for name, *_, sql in self._coded)
        quoted = tuple(", ".join(f'"{each}"' for each in index.split(",")) for index in indexes)
        table = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name).lower()
        width = tuple(f'"{name}"' for name in key)
        self.table = Table(
            f"{PREFIX}{owner}_{table}", columns, width, tuple((each, "") for each in quoted), rowid=False
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
        if all(one is other for one, other in zip(stored, values, strict=True)):
            self._fits.add(types)
        return stored

    def decode(self, values: Values) -> Row:
        if self._is_plain:
            return cast("Callable[..., Row]", self.row)(*[values[place] for place in self._places])
        found = {
            name: value if value is None or read is None else read(value)
            for name, read, value in zip(self.order, self._decoders, values, strict=True)
        }
        return self.row(**found)

    def key(self, given: Sequence[object]) -> Key:
        key = self.order[: len(self.table.key)]
        if len(given) != len(key):
            raise Misuse(f"the key of {self.name} is ({', '.join(key)}), and {len(given)} values were given")
        return tuple(self._stored(name, value) for name, value in zip(key, given, strict=True))

    def cursor(self, row: Row) -> str:
        """The key of a row as a text, from which ``opened`` makes it again."""
        return _json(self.encode(row)[: len(self.table.key)]).decode()

    def opened(self, cursor: str) -> Key:
        types = (int if kind is bool else kind for kind, _ in (self.columns[name] for name in self.order))
        return tuple(msgspec.convert(each, type_) for each, type_ in zip(json.loads(cursor), types, strict=False))

    def equal(self, given: Mapping[str, object]) -> tuple[tuple[str, ...], Key]:
        """(columns, values) of a condition."""
        if unknown := sorted(set(given) - set(self.columns)):
            raise Misuse(f"{self.name} has no column {', '.join(unknown)}; it has {', '.join(self.columns)}")
        return tuple(f'"{name}"' for name in given), tuple(self._stored(*each) for each in given.items())

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
            except (TypeError, ValueError):  # msgspec's own is a ValueError
                raise Misuse(
                    f"the column {name} of {self.name} takes {_word(type_)}, and was given another thing"
                ) from None
            return text
        if type(value) is not type_:
            takes = f"{_word(type_)}{' or None' if optional else ''}"
            raise Misuse(f"the column {name} of {self.name} takes {takes}, and was given a {type(value).__name__}")
        if type_ is int and not -_LARGE <= cast("int", value) < _LARGE:
            raise Misuse(
                f"the column {name} of {self.name} takes a whole number of 64 bits, and was given a larger one"
            )
        return int(value) if type_ is bool else value  # type: ignore[call-overload]


def _values_of(names: Sequence[str]) -> Callable[[object], Values]:
    """What gives the values of these fields; of one field too, as a tuple."""
    read = attrgetter(*names)
    return (lambda row: (read(row),)) if len(names) == 1 else read


@cache
def _decoder(type_: State) -> msgspec.json.Decoder[State]:
    return msgspec.json.Decoder(type_)


def _word(type_: object) -> str:
    return f"a {type_.__name__}" if isinstance(type_, type) else str(type_)


def _column(type_: object, optional: bool) -> str:
    return _PLAIN.get(type_, "TEXT") + ("" if optional else " NOT NULL")


def _names(shape: Shape, given: object) -> tuple[str, ...]:
    """The columns of a key, or of several indexes, each by itself or as columns with commas."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise RejectedError(
            f"key= and indexes= of the row {shape.name} are tuples of columns, and {given!r:.40} is not"
        )
    return tuple(each if isinstance(each, str) else ",".join(map(str, each)) for each in given)


def _types(shape: Shape) -> dict[str, tuple[State, bool]]:
    """Each column with its type without None, and whether it may be None."""
    try:
        annotated = fields(cast("State", shape.row))
    except NameError as error:
        raise RejectedError(
            f"the annotations of the row {shape.name} cannot be read ({error}): they name what its module has"
        ) from None
    found: dict[str, tuple[State, bool]] = {}
    for each in annotated:
        if not re.fullmatch(_COLUMN, each.name) or each.name.lower() in {name.lower() for name in found}:
            raise RejectedError(
                f"{each.name!r:.80} is no column of the row {shape.name}: letters, digits and _, a letter first, and no two "
                "that differ in capitals alone"
            )
        types = get_args(each.type) if get_origin(each.type) in (Union, UnionType) else (each.type,)
        left = [one for one in types if one is not NoneType]
        type_ = left[0] if len(left) == 1 else Union[tuple(left)]  # noqa: UP007 - made of a list
        try:
            msgspec.json.schema(type_)  # knows no class that is not written as JSON
        except (TypeError, RecursionError):
            raise RejectedError(
                f"the column {each.name} of the row {shape.name} is of a type that cannot be stored, {_word(type_):.80}; "
                "str, int, float, bool, bytes and what msgspec writes as JSON can"
            ) from None
        found[each.name] = (type_, len(left) < len(types))
    if not found:
        raise RejectedError(f"the row {shape.name} has no columns: annotate them, as in `day: str`")
    return found


class Definition:
    """A projection of a user's, checked: what it follows, its tables, and the text by which a change of it is found."""

    def __init__(self, given: Projection) -> None:
        kind = type(given)
        self.name, self.version = given.name, given.version
        self.fold: Callable[..., object] = given.fold
        if not isinstance(self.name, str) or not re.fullmatch(_NAME, self.name):
            raise RejectedError(
                f'the name of {kind.__name__} is {self.name!r:.60}: name = "counts", small letters, digits and _, a letter '
                "first, at most 40"
            )
        of = f"the projection {self.name!r}"
        _check_spelling(kind)
        if type(self.version) is not int or not 0 < self.version < 2**31:
            raise RejectedError(f"the version of {of} is a whole number from 1, and {self.version!r:.40} is not")
        if kind.fold is Projection.fold:
            raise RejectedError(f"{of} has no fold: def fold(self, event, change, rows)")
        try:
            signature(given.fold).bind(None, None, None)
        except TypeError as error:
            raise RejectedError(f"the fold of {of} takes three: fold(self, event, change, rows); {error}") from None
        self.kinds, self.events = _followed(of, given.follows)
        rows = given.tables
        if isinstance(rows, type):
            raise RejectedError(
                f"the tables of {of} are a tuple, also of one: tables = ({rows.__name__},), with the comma"
            )
        if not isinstance(rows, tuple | list) or not rows:
            raise RejectedError(f"{of} has no tables: tables = (Day,) names the classes of its rows")
        if wrong := next((each for each in rows if not (isinstance(each, type) and issubclass(each, Row))), None):
            raise RejectedError(
                f"{of} has a table {wrong!r:.60}, and a table is a class of rows: class Day(Row, key=…)"
            )
        self.shapes = {row: Shape(self.name, row) for row in rows}
        self.tables = [shape.table for shape in self.shapes.values()]
        if len({table.name for table in self.tables}) < len(rows):
            raise RejectedError(f"{of} has two tables of one name: {', '.join(row.__name__ for row in rows)}")
        shape = [[each.name, each.columns, each.key, each.indexes] for each in self.tables]
        self.text = json.dumps({"follows": sorted((*self.kinds, *self.events)), "tables": shape})

    def shape(self, row: object) -> Shape:
        found = self.shapes.get(cast("type[Row]", row))
        if found is None:
            name = getattr(row, "__name__", type(row).__name__)
            known = ", ".join(each.__name__ for each in self.shapes)
            raise Misuse(f"{name} is no row of the projection {self.name!r}, which has {known}")
        return found

    def concerns(self, stream: str, type_: str) -> bool:
        return type_ in self.events or (stream[1:2] == "_" and stream[0] in self.kinds)

    def call(self, event: AnyEvent, change: Change | None, rows: Rows) -> None:
        folding.now.is_on = True
        try:
            answer = self.fold(event, change, rows)
        finally:
            folding.now.is_on = False
        if answer is not None:
            if isinstance(answer, Coroutine):
                answer.close()  # one that nobody awaits would be complained about
            raise Misuse(
                f"fold gave back a {type(answer).__name__}: it puts rows, and is no async function or generator"
            )


def _check_spelling(kind: type[Projection]) -> None:
    """A name that is nearly one of what a projection has, in the place of it, would be passed over."""
    from difflib import get_close_matches

    ours = [name for name in vars(Projection) if not name.startswith("_")]
    classes = kind.__mro__[: kind.__mro__.index(Projection)]
    written = {name for each in classes for name in vars(each) if not name.startswith("_")}
    for name in sorted(written.difference(ours)):
        if (near := get_close_matches(name, ours, 1, 0.75)) and near[0] not in written:
            raise RejectedError(f"{kind.__name__} has {name!r:.60}, and no {near[0]!r}, which it seems to be meant for")


def _followed(of: str, follows: object) -> tuple[frozenset[str], frozenset[str]]:
    """(letters of kinds, names of events)."""
    if isinstance(follows, str) or not isinstance(follows, Iterable):
        raise RejectedError(f'what {of} follows is a tuple, as in follows = ("memory",), and {follows!r:.40} is none')
    kinds, events = set[str](), set[str]()
    for each in follows:
        name = each.__name__ if isinstance(each, type) else each
        if isinstance(name, str) and name in KINDS:
            kinds.add(KINDS[name])
        elif isinstance(name, str) and name in TYPES:
            events.add(name)
        else:
            from difflib import get_close_matches

            close = get_close_matches(str(name), (*KINDS, *TYPES), 1, 0.7)
            near = f" (there is {close[0]})" if close else ""
            raise RejectedError(
                f"{of} follows {each!r:.60}, which is no kind of subject and no event{near}; kinds: {', '.join(KINDS)}; "
                f"events: {', '.join(sorted(TYPES))}"
            )
    if not kinds and not events:
        raise RejectedError(f'{of} follows nothing: follows = ("memory",), kinds of subject or classes of events')
    return frozenset(kinds), frozenset(events)


def _instance(given: object) -> Projection:
    if isinstance(given, type) and issubclass(given, Projection):
        try:
            return given()
        except TypeError as error:
            raise RejectedError(
                f"{given.__name__} needs arguments to be made ({error}): give an object of it"
            ) from None
    if not isinstance(given, Projection):
        raise RejectedError(f"{given!r:.60} is no projection: class Counts(Projection), from ledger import Projection")
    return given


def definitions(given: Iterable[Projection | type[Projection]]) -> dict[str, Definition]:
    """Projections as they are given to ``open``, by name; ``RejectedError`` says what is wrong with one."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise RejectedError(f"projections is a list of classes, and {given!r:.60} is none: projections=[Counts]")
    found: dict[str, Definition] = {}
    for each in given:
        made = Definition(_instance(each))
        if made.name in found:
            raise RejectedError(f"two of the projections are called {made.name!r}; each has a name of its own")
        if shared := next(((row, each) for each in found.values() for row in made.shapes if row in each.shapes), None):
            raise RejectedError(
                f"{shared[0].__name__} is a row of {shared[1].name!r} and of {made.name!r}: each has classes of its own"
            )
        found[made.name] = made
    tables = [table.name for each in found.values() for table in each.tables]
    if twice := next((name for name in tables if tables.count(name) > 1), None):
        raise RejectedError(f"two of the projections have a table {twice}: rename one")
    return found
