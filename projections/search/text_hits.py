"""Searching a text index: the rows that have words of an expression, best first by BM25, and how rare a word is.

A hit is first looked up by its score alone and only then asked whose it is, so that a search of a large ledger reads little
but the index; where too few of the best are wanted ones, all hits are gone through.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from typing import TypeVar

from msgspec import Struct

from ledger.domain.errors import StorageError
from ledger.domain.question import Question, any_of, spaced
from projections.core.rows import Table, TextIndex, Values
from projections.core.sqlite import create
from projections.search.stems import stem

T = TypeVar("T")


class Source(Struct, frozen=True, eq=False):
    """A text index as it is searched: its ``rank`` in SQL, and the table whose rows it is over."""

    index: TextIndex
    rank: str
    table: str
    columns: str  # of that table, called m


def source_of(index: TextIndex, rank: str, table: Table) -> Source:
    return Source(index, rank, table.name, ", ".join(f"m.{each}" for each in table.names))


BLOCK = 8  # hits whose rows are looked up together


def hits(
    connection: sqlite3.Connection,
    source: Source,
    expression: str,
    condition: str,
    values: Sequence[object],
    limit: int,
    *,
    schema: str,
    enough: int,
) -> Iterator[tuple[Values, float]]:
    """The wanted rows of ``source.table`` with their BM25 (more is better), best and newest first, those that wait for the
    index among them; ``condition`` is on ``m``.

    They are looked up as they are asked for. Where of the ``limit`` best rows of all at least ``enough`` are wanted ones, no
    others are looked for.
    """
    name = f"{schema}.{source.index.name}"
    sql = f"SELECT rowid, {source.rank} AS score FROM {name} WHERE {source.index.name} MATCH ? ORDER BY score, rowid DESC LIMIT ?"
    scored = connection.execute(sql, (expression, limit)).fetchall()
    best = [(row, more(score)) for row, score in scored[:1]]  # whatever has no score comes first
    best += [(row, -score) for row, score in scored[1:]]
    few = len(best) < limit
    if late := waiting(connection, source, expression, schema):
        best = sorted([*best, *late.items()], key=lambda each: (-each[1], -each[0]))
    known = set[int]()
    for start in range(0, len(best), BLOCK):
        scores = dict(best[start : start + BLOCK])
        found = {row[0]: row for row in of_rows(connection, source, scores, condition, values)}
        known.update(found)
        yield from ((found[row], score) for row, score in scores.items() if row in found)
    if few or len(known) >= enough:
        return
    sql = (  # CROSS JOIN: the index first, whatever the planner thinks of it
        f"SELECT {source.columns}, {source.rank} AS score"
        f" FROM {name} CROSS JOIN {source.table} m ON m.row = {source.index.name}.rowid"
        f" WHERE {source.index.name} MATCH ? AND {condition} ORDER BY score, m.row DESC LIMIT ?"
    )
    for row in connection.execute(sql, (expression, *values, limit)).fetchall():
        if row[0] not in known:
            yield tuple(row[:-1]), more(row[-1])


def matching(
    connection: sqlite3.Connection,
    source: Source,
    expression: str,
    wanted: tuple[str, Sequence[object]],
    make: Callable[[Values], T],
    *,
    limit: int,
    schema: str,
    enough: int,
) -> Iterator[tuple[T, float]]:
    """``hits``, each made of its row, as many as the ``limit``."""
    found = hits(connection, source, expression, *wanted, limit, schema=schema, enough=enough)
    return ((make(row), score) for row, score in islice(found, limit))


def matching_then(
    connection: sqlite3.Connection,
    source: Source,
    expression: str,
    wanted: tuple[str, Sequence[object]],
    make: Callable[[Values], T],
    position: int,
    versions: str,
    same: str,
    waits: Callable[[T], Values | None],
    *,
    limit: int,
) -> Iterator[tuple[T, float]]:
    """``matching`` as of a position, on a connection where views stand before the tables.

    The index knows the texts of today. What says today what it said then (``same``) has today's score; what said something
    else then, or is not in the index, is scored aside, by its row as it ``waits``.
    """
    (condition, values), index, table, names = wanted, source.index.name, source.table, source.columns
    indexed = (  # CROSS JOIN: the index first, whatever the planner thinks of it
        f"SELECT {names}, {source.rank} AS score FROM main.{index} CROSS JOIN main.{table} m ON m.row = {index}.rowid"
        f" WHERE {index} MATCH ? AND m.from_position <= ? AND {condition}"
    )
    before = (
        f"SELECT {names}, {source.rank} AS score FROM main.{index} CROSS JOIN main.{table} n ON n.row = {index}.rowid"
        f" CROSS JOIN main.{versions} m ON m.row = n.row AND m.to_position > ? AND m.from_position <= ?"
        f" WHERE {index} MATCH ? AND {same} AND {condition}"
    )
    found = [*connection.execute(indexed, (expression, position, *values))]
    found += connection.execute(before, (position, position, expression, *values))
    late = f"SELECT {names} FROM {table} m WHERE m.row IN (SELECT row FROM main.{source.index.waiting.name}) AND {condition}"
    versions_then = (
        f"SELECT rowid FROM main.{versions} WHERE to_position > ? AND from_position <= ?"  # by an index alone
    )
    changed = (
        f"SELECT {names} FROM main.{versions} m WHERE m.rowid IN ({versions_then}) AND {condition}"
        f" AND NOT EXISTS (SELECT 1 FROM main.{table} n WHERE n.row = m.row AND {same})"
    )
    others = {row[0]: tuple(row) for row in connection.execute(late, values)}
    others |= {row[0]: tuple(row) for row in connection.execute(changed, (position, position, *values))}
    texts = [(row, *text) for row, each in others.items() if (text := waits(make(each))) is not None]
    scored = [(others[row], score) for row, score in aside(source, texts, expression).items()]
    scored += [(tuple(row[:-1]), more(row[-1])) for row in found if row[0] not in others]
    return ((make(row), score) for row, score in best_first(scored)[:limit])


def best_first(found: Iterable[tuple[Values, float]]) -> list[tuple[Values, float]]:
    """Equals newest first."""
    return sorted(found, key=lambda each: (-each[1], -each[0][0]))


def more(score: float | None) -> float:
    """FTS5's score, of which less is better, so that more is; it has none where the averages of the index are damaged."""
    if score is None:
        raise StorageError("a text index of this ledger is damaged; a rebuild makes it again")
    return -score


def of_rows(
    connection: sqlite3.Connection, source: Source, rows: Iterable[int], condition: str, values: Sequence[object]
) -> list[Values]:
    """Those of these rows that are wanted."""
    wanted = list(rows)
    found: list[Values] = []
    for start in range(0, len(wanted), 500):
        some = wanted[start : start + 500]
        these = f"m.row IN ({', '.join('?' * len(some))})"
        sql = f"SELECT {source.columns} FROM {source.table} m NOT INDEXED WHERE {these} AND {condition}"
        found += map(tuple, connection.execute(sql, (*some, *values)))
    return found


def aside(source: Source, rows: Sequence[Values], expression: str) -> dict[int, float]:
    """BM25 of texts that are not in the index, from a small one of their own: near what it will be. Rows as they wait."""
    if not rows:
        return {}
    name = source.index.name
    with _small(source.index, rows) as connection:
        sql = f"SELECT rowid, {source.rank} FROM {name} WHERE {name} MATCH ?"
        return {row: -score for row, score in connection.execute(sql, (expression,))}


@contextmanager
def _small(index: TextIndex, rows: Sequence[Values]) -> Iterator[sqlite3.Connection]:
    """An index in memory of some rows as they wait."""
    with closing(sqlite3.connect(":memory:")) as connection:
        create(connection, index)
        marks = ", ".join("?" * (len(index.columns) + 1))
        sql = f"INSERT INTO {index.name} (rowid, {', '.join(index.columns)}) VALUES ({marks})"
        connection.executemany(sql, [(row, *index.expand(tuple(kept))) for row, *kept in rows])
        yield connection


def waiting(connection: sqlite3.Connection, source: Source, expression: str, schema: str) -> dict[int, float]:
    """BM25 of the texts that the index has not taken in yet."""
    rows = connection.execute(f"SELECT * FROM {schema}.{source.index.waiting.name}").fetchall()
    return aside(source, rows, expression)


def size(connection: sqlite3.Connection, index: TextIndex, schema: str) -> tuple[int, int]:
    """How many texts an index has, and the words of its first column: FTS5 keeps them as the first of its averages."""
    numbers = averages(connection, index, schema) or []
    if len(numbers) < 2 or not numbers[0]:
        return 0, 0
    return numbers[0], numbers[1]


def averages(connection: sqlite3.Connection, index: TextIndex, schema: str) -> list[int] | None:
    """How many texts an index has, and the words of each of its columns; None where the record of them is gone."""
    row = connection.execute(f"SELECT block FROM {schema}.{index.name}_data WHERE id = 1").fetchone()
    count = 1 + len(index.columns)
    return (_varints(row[0], count) if row[0] else [0] * count) if row is not None else None


def _varints(block: bytes, count: int) -> list[int]:
    """The first numbers of a record as SQLite writes them: seven bits a byte, the most significant first."""
    found, number, read = [], 0, 0
    for byte in block:
        read += 1
        number = number << 8 | byte if read == 9 else number << 7 | byte & 0x7F
        if byte < 0x80 or read == 9:
            found.append(number)
            number = read = 0
            if len(found) == count:
                break
    return found


WORTH = 1_000  # texts; of fewer all that have a word are scored soon enough
COMMON = 100  # texts; counting goes through all that have the stem
MATCHED = 20_000  # texts that one search of an index scores at the most, but for those that have its rarest word


class Rarity:
    """How many texts of the indexes of one ledger have a stem, as it was counted: that holds until the index is written again;
    of a stem that many texts have, until it has grown by a tenth."""

    KEPT = 20_000

    def __init__(self) -> None:
        self.known: dict[tuple[str, str, str], tuple[int, int, tuple[object, ...]]] = {}  # → of texts, how many, when

    def seen(
        self, connection: sqlite3.Connection, index: TextIndex, schema: str = "main", *, unseen: bool = False
    ) -> Words:
        """On one snapshot; ``unseen`` where there are texts that the index does not know."""
        return Words(self.known, connection, index, schema, unseen=unseen)


class Words:
    """The words of an index on one snapshot: those of the texts that wait for it too, so that a text scores before it is
    taken in as it does after."""

    def __init__(
        self,
        known: dict[tuple[str, str, str], tuple[int, int, tuple[object, ...]]],
        connection: sqlite3.Connection,
        index: TextIndex,
        schema: str,
        *,
        unseen: bool,
    ) -> None:
        self._known, self._connection, self._name, self._schema = known, connection, index.name, schema
        self._unseen = unseen
        self.indexed, words = size(connection, index, schema)
        texts, more, self._late = _vocabulary(connection, index, schema)
        self.texts = self.indexed + texts
        self.mean = (words + more) / self.texts if self.texts else 1.0  # words of a text
        self._when: tuple[object, ...] = ()

    def idf(self, stems: Iterable[str]) -> float:
        """Of the commonest of some stems. One that no text has says nothing; where there are texts that the index does not
        know, it is the rarest there can be."""
        number = max((self._count(stem) + self._late.get(stem, 0) for stem in stems), default=0)
        if not number and not self._unseen:
            return 0.0
        return math.log1p((max(self.texts - number, 0) + 0.5) / (number + 0.5))

    def expressions(self, question: Question) -> list[str]:
        """What to ask an index for, in this order until enough is found: the words of a question, the rarest first, as long
        as no more than ``MATCHED`` texts have them; where the rarest is commoner by itself, that and the next, and it alone.

        A ranking still counts every word of the question in what is found.
        """
        if self.indexed <= MATCHED:
            return [question.expression]
        counts = [(sum(map(self._rarest, forms)), at) for at, forms in enumerate(question.concepts)]
        chosen, matched = list[int](), 0
        for count, at in sorted(counts):
            if (matched := matched + count) <= MATCHED:
                chosen.append(at)
        if len(chosen) == len(counts) or any(count and at in chosen for count, at in counts):
            return [any_of(question.concepts[at] for at in sorted(chosen))]
        rarest, *others = [question.concepts[at] for count, at in sorted(counts) if count]
        late = [question.concepts[at] for at in chosen]  # words that only a text can have which waits for the index
        alone = any_of([rarest, *late])
        if not others:
            return [alone]
        both = f"(({any_of([rarest])}) AND ({any_of(others[:1])}))"
        return [" OR ".join([both, *([any_of(late)] if late else [])]), alone]

    def narrowed(self, question: Question) -> list[str]:
        """``expressions``, and before them only the words that no more than half of the texts have, where that is fewer."""
        if not WORTH <= self.indexed <= MATCHED:
            return self.expressions(question)
        rarer = [forms for forms in question.concepts if 2 * sum(map(self._rarest, forms)) <= self.indexed]
        without = [any_of(rarer)] if 0 < len(rarer) < len(question.concepts) else []
        return [*without, question.expression]

    def _rarest(self, form: str) -> int:
        """How many texts have a word at the most: of a script without spaces, its rarest character."""
        return min(self._count(stem(each)) for each in spaced(form).split())

    def _count(self, stem: str) -> int:
        key = (self._schema, self._name, stem)
        if (known := self._known.get(key)) is not None:
            count, of, when = known
            if when == self._written() or (count >= COMMON and of <= self.indexed <= of * 1.1):
                return count
        count = self._counted(stem)
        if len(self._known) >= Rarity.KEPT:
            self._known.clear()
        self._known[key] = count, self.indexed, self._written()
        return count

    def _written(self) -> tuple[object, ...]:
        """What is another after every write to the index: the log's head and the generation of the tables, for both an undone
        batch and a rebuild begin again, and FTS5's record of its segments."""
        if not self._when:
            sql = (
                "SELECT (SELECT head FROM main.events ORDER BY position DESC LIMIT 1), (SELECT generation FROM"
                f" {self._schema}.checkpoint WHERE id = 1), (SELECT block FROM {self._schema}.{self._name}_data WHERE id = 10)"
            )
            self._when = tuple(self._connection.execute(sql).fetchone())
        return self._when

    def _counted(self, stem: str) -> int:
        """The table to ask stays with the connection."""
        terms = f"temp.{self._name}_terms_of_{self._schema}"
        sql = f"SELECT doc FROM {terms} WHERE term = ?"
        try:
            row = self._connection.execute(sql, (stem,)).fetchone()
        except sqlite3.OperationalError:
            of = f"fts5vocab({self._schema}, {self._name}, row)"
            self._connection.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS {terms} USING {of}")
            row = self._connection.execute(sql, (stem,)).fetchone()
        return int(row[0]) if row is not None else 0


def _vocabulary(connection: sqlite3.Connection, index: TextIndex, schema: str) -> tuple[int, int, dict[str, int]]:
    """How many texts wait for an index, their words of its first column, and how many of them have each stem."""
    rows = connection.execute(f"SELECT * FROM {schema}.{index.waiting.name}").fetchall()
    if not rows:
        return 0, 0, {}
    with _small(index, rows) as small:
        small.execute(f"CREATE VIRTUAL TABLE terms USING fts5vocab({index.name}, row)")
        counts = dict(small.execute("SELECT term, doc FROM terms"))
        return len(rows), size(small, index, "main")[1], counts
