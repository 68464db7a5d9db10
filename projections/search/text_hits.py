"""The search of a text index: rows that match an expression, best first by BM25, and the rarity of words.

A hit is first found by its score alone, and its owner is looked up later, so that a search of a large ledger reads little
but the index. If too few of the best hits are wanted, all hits are gone through.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from typing import Generic, TypeVar

from msgspec import Struct

from ledger.domain.errors import StorageError
from ledger.english.question import Question, any_of
from ledger.english.words import spaced, stem
from projections.core.rows import Table, TextIndex, Values
from projections.core.sqlite import create

T = TypeVar("T")


class IndexSource(Struct, frozen=True, eq=False):
    """A text index to search: its ``rank`` in SQL, and the table of its rows."""

    index: TextIndex
    rank: str
    table: str
    columns: str  # of the table, which the SQL calls m


def source_of(index: TextIndex, rank: str, table: Table) -> IndexSource:
    return IndexSource(index, rank, table.name, ", ".join(f"m.{name}" for name in table.names))


class EarlierTexts(Struct, Generic[T], frozen=True, eq=False):
    """The earlier texts of a source, which the index no longer has.

    Attributes:
        versions: The table of the closed versions.
        same: The condition, in SQL, that a version m and the row n of today have the same text.
        texts: A function that returns the texts of a row for the index, or None.
    """

    versions: str
    same: str
    texts: Callable[[T], Values | None]


BLOCK = 8  # hits whose rows are looked up together


def hits(
    connection: sqlite3.Connection,
    source: IndexSource,
    expression: str,
    condition: str,
    values: Sequence[object],
    limit: int,
    *,
    schema: str,
    enough: int,
) -> Iterator[tuple[Values, float]]:
    """Yield the wanted rows of ``source.table`` with BM25 (more is better), best and newest first; ``condition`` is on ``m``.

    Rows that wait for the index are included. Rows are looked up as they are consumed. If at least ``enough`` of the ``limit``
    best rows are wanted, no others are looked for.
    """
    name = f"{schema}.{source.index.name}"
    sql = f"SELECT rowid, {source.rank} AS score FROM {name} WHERE {source.index.name} MATCH ? ORDER BY score, rowid DESC LIMIT ?"
    scored, known, count = connection.execute(sql, (expression, limit)), set[int](), 0
    # Is read as it is consumed: mostly two or three blocks.
    best: Iterator[tuple[int, float]] = ((row, more(score)) for row, score in scored)
    if late := waiting(connection, source, expression, schema):
        best, count = iter(sorted([*best, *late.items()], key=lambda entry: (-entry[1], -entry[0]))), -len(late)
    while block := list(islice(best, BLOCK)):
        count, scores = count + len(block), dict(block)
        rows = {row[0]: row for row in of_rows(connection, source, scores, condition, values)}
        known.update(rows)
        yield from ((rows[row], score) for row, score in scores.items() if row in rows)
    if count < limit or len(known) >= enough:
        return
    sql = (  # CROSS JOIN: the index comes first, against the planner's choice
        f"SELECT {source.columns}, {source.rank} AS score"
        f" FROM {name} CROSS JOIN {source.table} m ON m.row = {source.index.name}.rowid"
        f" WHERE {source.index.name} MATCH ? AND {condition} ORDER BY score, m.row DESC LIMIT ?"
    )
    for row in connection.execute(sql, (expression, *values, limit)).fetchall():
        if row[0] not in known:
            yield tuple(row[:-1]), more(row[-1])


def any_matches(
    connection: sqlite3.Connection,
    source: IndexSource,
    expression: str,
    condition: str,
    values: Sequence[object],
    *,
    schema: str,
) -> bool:
    """Return True if ``hits`` would yield a row. No score is computed, and the search ends with the first wanted row."""
    name = source.index.name
    sql = (  # CROSS JOIN: the index comes first, against the planner's choice
        f"SELECT 1 FROM {schema}.{name} CROSS JOIN {source.table} m ON m.row = {name}.rowid"
        f" WHERE {name} MATCH ? AND {condition} LIMIT 1"
    )
    if connection.execute(sql, (expression, *values)).fetchone() is not None:
        return True
    late = waiting(connection, source, expression, schema)
    return bool(late and of_rows(connection, source, late, condition, values))


def matching(
    connection: sqlite3.Connection,
    source: IndexSource,
    expression: str,
    condition: tuple[str, Sequence[object]],
    make: Callable[[Values], T],
    *,
    limit: int,
    schema: str,
    enough: int,
) -> Iterator[tuple[T, float]]:
    """Yield the first ``limit`` of ``hits``, each made of its row."""
    rows = hits(connection, source, expression, *condition, limit, schema=schema, enough=enough)
    return ((make(row), score) for row, score in islice(rows, limit))


def matching_then(
    connection: sqlite3.Connection,
    source: IndexSource,
    expression: str,
    wanted_rows: tuple[str, Sequence[object]],
    make: Callable[[Values], T],
    position: int,
    earlier: EarlierTexts[T],
    *,
    limit: int,
) -> Iterator[tuple[T, float]]:
    """Yield the rows that ``matching`` would have found at a position, on a connection whose views hide the tables.

    The index has only today's texts. A row with the same text today has today's score. A row with another text then, or that is
    not in the index, is scored apart.
    """
    versions, same = earlier.versions, earlier.same
    (condition, values), index, table, names = wanted_rows, source.index.name, source.table, source.columns
    indexed = (  # CROSS JOIN: the index comes first, against the planner's choice
        f"SELECT {names}, {source.rank} AS score FROM main.{index} CROSS JOIN main.{table} m ON m.row = {index}.rowid"
        f" WHERE {index} MATCH ? AND m.from_position <= ? AND {condition}"
    )
    before = (
        f"SELECT {names}, {source.rank} AS score FROM main.{index} CROSS JOIN main.{table} n ON n.row = {index}.rowid"
        f" CROSS JOIN main.{versions} m ON m.row = n.row AND m.to_position > ? AND m.from_position <= ?"
        f" WHERE {index} MATCH ? AND {same} AND {condition}"
    )
    scored_now = [*connection.execute(indexed, (expression, position, *values))]
    scored_now += connection.execute(before, (position, position, expression, *values))
    late = f"SELECT {names} FROM {table} m WHERE m.row IN (SELECT row FROM main.{source.index.waiting.name}) AND {condition}"
    versions_then = (
        f"SELECT rowid FROM main.{versions} WHERE to_position > ? AND from_position <= ?"  # served by an index alone
    )
    changed = (
        f"SELECT {names} FROM main.{versions} m WHERE m.rowid IN ({versions_then}) AND {condition}"
        f" AND NOT EXISTS (SELECT 1 FROM main.{table} n WHERE n.row = m.row AND {same})"
    )
    others = {row[0]: tuple(row) for row in connection.execute(late, values)}
    others |= {row[0]: tuple(row) for row in connection.execute(changed, (position, position, *values))}
    texts = [(row, *text) for row, stored in others.items() if (text := earlier.texts(make(stored))) is not None]
    scored = [(others[row], score) for row, score in aside(source, texts, expression).items()]
    scored += [(tuple(row[:-1]), more(row[-1])) for row in scored_now if row[0] not in others]
    return ((make(row), score) for row, score in best_first(scored)[:limit])


def best_first(scored: Iterable[tuple[Values, float]]) -> list[tuple[Values, float]]:
    """Return the rows by score, equal ones newest first."""
    return sorted(scored, key=lambda entry: (-entry[1], -entry[0][0]))


def more(score: float | None) -> float:
    """Return FTS5's score negated, so that more is better.

    Raises:
        StorageError: There is no score, because the averages of the index are damaged.
    """
    if score is None:
        raise StorageError("a text index of this ledger is damaged; maintenance.rebuild() makes it again")
    return -score


def of_rows(
    connection: sqlite3.Connection, source: IndexSource, rows: Iterable[int], condition: str, values: Sequence[object]
) -> list[Values]:
    """Return the rows of some row numbers that satisfy a condition."""
    numbers = list(rows)
    matches: list[Values] = []
    for start in range(0, len(numbers), 500):
        batch = numbers[start : start + 500]
        is_in_batch = f"m.row IN ({', '.join('?' * len(batch))})"
        sql = f"SELECT {source.columns} FROM {source.table} m NOT INDEXED WHERE {is_in_batch} AND {condition}"
        matches += map(tuple, connection.execute(sql, (*batch, *values)))
    return matches


def aside(source: IndexSource, rows: Sequence[Values], expression: str) -> dict[int, float]:
    """Return the BM25 of texts that are not in the index, from a small index of their own: an approximation."""
    if not rows:
        return {}
    name = source.index.name
    with _small(source.index, rows) as connection:
        sql = f"SELECT rowid, {source.rank} FROM {name} WHERE {name} MATCH ?"
        return {row: -score for row, score in connection.execute(sql, (expression,))}


@contextmanager
def _small(index: TextIndex, rows: Sequence[Values]) -> Iterator[sqlite3.Connection]:
    """Yield an index in memory of some waiting rows."""
    with closing(sqlite3.connect(":memory:")) as connection:
        create(connection, index)
        marks = ", ".join("?" * (len(index.columns) + 1))
        sql = f"INSERT INTO {index.name} (rowid, {', '.join(index.columns)}) VALUES ({marks})"
        connection.executemany(sql, [(row, *index.expand(tuple(kept))) for row, *kept in rows])
        yield connection


def waiting(connection: sqlite3.Connection, source: IndexSource, expression: str, schema: str) -> dict[int, float]:
    """Return the BM25 of the texts that wait for the index."""
    rows = connection.execute(f"SELECT * FROM {schema}.{source.index.waiting.name}").fetchall()
    return aside(source, rows, expression)


def size(connection: sqlite3.Connection, index: TextIndex, schema: str) -> tuple[int, int]:
    """Return the number of texts of an index, and the number of words of its first column. FTS5 stores both in its averages."""
    numbers = averages(connection, index, schema) or []
    if len(numbers) < 2 or not numbers[0]:
        return 0, 0
    return numbers[0], numbers[1]


def averages(connection: sqlite3.Connection, index: TextIndex, schema: str) -> list[int] | None:
    """Return the number of texts of an index and of the words of each column, or None if FTS5's record of them is gone."""
    row = connection.execute(f"SELECT block FROM {schema}.{index.name}_data WHERE id = 1").fetchone()
    count = 1 + len(index.columns)
    return (_varints(row[0], count) if row[0] else [0] * count) if row is not None else None


def _varints(block: bytes, count: int) -> list[int]:
    """Return the first numbers of a record in SQLite's format: seven bits a byte, the most significant first."""
    numbers, number, read = [], 0, 0
    for byte in block:
        read += 1
        number = number << 8 | byte if read == 9 else number << 7 | byte & 0x7F
        if byte < 0x80 or read == 9:
            numbers.append(number)
            number = read = 0
            if len(numbers) == count:
                break
    return numbers


WORTH = 1_000  # texts; a smaller index is searched for all words
COMMON = 100  # texts; a count of a stem reads all texts that have it
MATCHED = 20_000  # the most texts that one search scores, except for the texts with the rarest word


class Rarity:
    """The cached numbers of texts with a stem, of the indexes of one ledger.

    A number holds until the index is written again; of a common stem until the index has grown by a tenth.
    """

    KEPT = 20_000

    def __init__(self) -> None:
        # (schema, index, stem) → (texts with the stem, texts of the index, state of the index)
        self.known: dict[tuple[str, str, str], tuple[int, int, tuple[object, ...]]] = {}

    def seen(
        self, connection: sqlite3.Connection, index: TextIndex, schema: str = "main", *, unseen: bool = False
    ) -> Words:
        """Return the words of an index on one snapshot. ``unseen`` says that there are texts which the index does not know."""
        return Words(self.known, connection, index, schema, unseen=unseen)


class Words:
    """The words of an index on one snapshot, with those of the waiting texts, so that a text scores alike before and after."""

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
        self.mean = (words + more) / self.texts if self.texts else 1.0  # the mean number of words of a text
        self._when: tuple[object, ...] = ()

    def number(self, stem: str) -> int:
        """Return the number of texts that have a stem."""
        return self._count(stem) + self._late.get(stem, 0)

    def idf(self, stems: Iterable[str]) -> float:
        """Return the rarity of the commonest of some stems.

        A stem that no text has counts 0, or counts as the rarest possible if there are texts that the index does not know.
        """
        number = max(map(self.number, stems), default=0)
        if not number and not self._unseen:
            return 0.0
        return math.log1p((max(self.texts - number, 0) + 0.5) / (number + 0.5))

    def expressions(self, question: Question) -> list[str]:
        """Return the expressions to ask an index for, in this order, until enough is found.

        The first has the rarest words of the question that together match at most ``MATCHED`` texts. If even the rarest word is
        commoner, the first asks for the two rarest together, and the second for the rarest alone. The ranking still counts every
        word of the question in the texts that are found.
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
        late = [question.concepts[at] for at in chosen]  # words that only waiting texts can have
        alone = any_of([rarest, *late])
        if not others:
            return [alone]
        both = f"(({any_of([rarest])}) AND ({any_of(others[:1])}))"
        return [" OR ".join([both, *([any_of(late)] if late else [])]), alone]

    def narrowed(self, question: Question) -> list[str]:
        """Return ``expressions``, preceded by one with only the words that at most half of the texts have."""
        if not WORTH <= self.indexed <= MATCHED:
            return self.expressions(question)
        rarer = [forms for forms in question.concepts if 2 * sum(map(self._rarest, forms)) <= self.indexed]
        without = [any_of(rarer)] if 0 < len(rarer) < len(question.concepts) else []
        return [*without, question.expression]

    def _rarest(self, form: str) -> int:
        """Return the most texts that can have a word; in a script without spaces, those with its rarest character."""
        return min(self._count(stem(character)) for character in spaced(form).split())

    def _count(self, stem: str) -> int:
        if (count := self._known_count(stem)) is None:
            self._count_all([stem])
            count = self._known[self._schema, self._name, stem][0]
        return count

    def _known_count(self, stem: str) -> int | None:
        if (known := self._known.get((self._schema, self._name, stem))) is not None:
            count, texts, when = known
            if when == self._written() or (count >= COMMON and texts <= self.indexed <= texts * 1.1):
                return count
        return None

    def count_all(self, question: Question) -> None:
        """Count the texts with each stem of a question, those that are not known yet together."""
        stems = {stem(form) for forms in question.concepts for form in forms}
        self._count_all([each for each in stems if self._known_count(each) is None])

    def _count_all(self, stems: Sequence[str]) -> None:
        if len(self._known) >= Rarity.KEPT:
            self._known.clear()
        for start in range(0, len(stems), BLOCK):
            together = stems[start : start + BLOCK]
            counts = self._counted(together)
            for each in together:
                self._known[self._schema, self._name, each] = counts.get(each, 0), self.indexed, self._written()

    def _written(self) -> tuple[object, ...]:
        """Return a value that changes with every write to the index.

        It consists of the log's head and the generation of the tables, because an undone batch and a rebuild begin again, and of
        FTS5's record of its segments.
        """
        if not self._when:
            sql = (
                "SELECT (SELECT head FROM main.events ORDER BY position DESC LIMIT 1), (SELECT generation FROM"
                f" {self._schema}.checkpoint WHERE id = 1), (SELECT block FROM {self._schema}.{self._name}_data WHERE id = 10)"
            )
            self._when = tuple(self._connection.execute(sql).fetchone())
        return self._when

    def beginning(self, head: str) -> set[str]:
        """Return the stems of all texts that begin with some letters."""
        # The letters are ASCII, so every longer term is below their successor.
        after = head[:-1] + chr(ord(head[-1]) + 1)
        indexed = self._vocabulary("term >= ? AND term < ?", (head, after))
        return {term for term, _ in indexed}.union(term for term in self._late if term.startswith(head))

    def _counted(self, stems: Sequence[str]) -> dict[str, int]:
        """Return the number of texts with each of at most ``BLOCK`` stems."""
        places = ", ".join("?" * BLOCK)  # of one length, so that the statement is prepared once
        values = (*stems, *[stems[-1]] * (BLOCK - len(stems)))
        return dict(self._vocabulary(f"term IN ({places})", values))

    def _vocabulary(self, condition: str, values: Sequence[str]) -> list[tuple[str, int]]:
        """Return stems with the number of texts that have them, from a table that stays with the connection."""
        terms = f"temp.{self._name}_terms_of_{self._schema}"
        sql = f"SELECT term, doc FROM {terms} WHERE {condition}"
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.OperationalError:
            vocabulary = f"fts5vocab({self._schema}, {self._name}, row)"
            self._connection.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS {terms} USING {vocabulary}")
            return self._connection.execute(sql, values).fetchall()


def _vocabulary(connection: sqlite3.Connection, index: TextIndex, schema: str) -> tuple[int, int, dict[str, int]]:
    """Return the number of waiting texts, the words of their first column, and the number of them with each stem."""
    rows = connection.execute(f"SELECT * FROM {schema}.{index.waiting.name}").fetchall()
    if not rows:
        return 0, 0, {}
    with _small(index, rows) as small:
        small.execute(f"CREATE VIRTUAL TABLE terms USING fts5vocab({index.name}, row)")
        counts = dict(small.execute("SELECT term, doc FROM terms"))
        return len(rows), size(small, index, "main")[1], counts
