"""The table of vectors: one of each text and model, a cache next to the projections, made outside of every command.

It is no fold of the log: ``digest()`` leaves it out, a rebuild leaves it alone, and it may vanish at any time. A vector
counts only while its keyed digest is that of the text as it stands, so that one of an old wording is never used. Vectors
tell of their texts: an erasure deletes those of the rows it changes, in its own transaction.
"""

from __future__ import annotations

import json
import math
import sqlite3
import struct
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ledger.domain.passages import speaker
from ledger.domain.text import fingerprint, keyed_digest
from projections.core.rows import Table, Values

NAME = "vectors"
SCHEMA = (
    f"CREATE TABLE {NAME} (id INTEGER PRIMARY KEY AUTOINCREMENT, model TEXT NOT NULL, corpus TEXT NOT NULL,"
    " row INTEGER NOT NULL, owner INTEGER NOT NULL, text BLOB NOT NULL, vector BLOB NOT NULL,"
    " UNIQUE (model, corpus, row))"
)
ID_BITS = 32  # of an id; above them stands which making of the table it is of

ROUGHLY = 1e-3  # how far from one the square of a vector's length may be

Key = tuple[str, int]  # (corpus, row)


POSITION_BITS = 16  # of a passage's row, under the position of its event


class Corpus(Struct, frozen=True):
    """One kind of text that gets vectors: where the texts lie, and which of them may be found."""

    letter: str
    table: str  # with the columns row and user
    text: str  # the column
    believed: str  # SQL: which rows may be found
    touched: str  # SQL: rows that events after ``:after``, up to ``:up_to``, may have changed
    history: tuple[str, ...]  # tables whose first column is the row, and whose change is one of its texts
    projection: str


CORPORA = {
    each.letter: each
    for each in (
        Corpus(
            "m",
            "memories",
            "content",
            "content IS NOT NULL AND user IS NOT NULL AND status IN ('active', 'superseded') AND quarantined = 0",
            "SELECT DISTINCT f.position FROM main.events e CROSS JOIN main.events f ON f.stream = e.stream"
            " AND f.version = 1 WHERE e.position > :after AND e.position <= :up_to"
            " AND e.stream >= 'm_' AND e.stream < 'm`'",
            ("memories", "memory_versions"),
            "memories",
        ),
        Corpus(
            "p",
            "passages",
            "text",
            "user IS NOT NULL AND corpus <> 'summary'",
            "SELECT p.row FROM (SELECT DISTINCT f.position AS subject FROM main.events e CROSS JOIN main.events f"
            " ON f.stream = e.stream AND f.version = 1 WHERE e.position > :after AND e.position <= :up_to"
            " AND (e.stream >= 'i_' AND e.stream < 'i`' OR e.stream >= 'd_' AND e.stream < 'd`')) s"
            " CROSS JOIN main.passages p ON p.subject = s.subject"
            f" UNION SELECT row FROM main.passages WHERE row >= (:after + 1) << {POSITION_BITS}"
            f" AND row < (:up_to + 1) << {POSITION_BITS}",
            ("passages", "passages_were"),
            "passages",
        ),
    )
}


class Text(Struct, frozen=True):
    """A text as it stands, and whose it is."""

    corpus: str
    row: int
    text: str
    user: str

    @property
    def words(self) -> str:
        """What of it means something: of a turn without the name of who speaks."""
        return speaker(self.text)[1] if self.corpus == "p" else self.text


class Entry(Struct, frozen=True):
    """A vector with the digest of the text that it was made of; an id of 0 is not in the file."""

    id: int
    corpus: str
    row: int
    owner: int
    text: bytes
    vector: bytes

    @property
    def key(self) -> Key:
        return (self.corpus, self.row)


def mark(secret: bytes, text: str) -> bytes:
    """What a vector is kept by: a keyed digest of the text that it was made of."""
    return keyed_digest(secret, b"vectors\0" + text.encode("utf-8", "surrogatepass"))


def owner_of(secret: bytes, user: str) -> int:
    """A number for the user, so that no name stands next to the vectors."""
    return fingerprint(secret, "vectors", user)


def is_sound(vector: bytes, length: int) -> bool:
    """Whether these are so many numbers, of length one or all zeros: anything else is damage."""
    if len(vector) != 4 * length:
        return False
    size = math.hypot(*struct.unpack(f"<{length}f", vector)) ** 2
    return size == 0 or abs(size - 1) < ROUGHLY


# --- the table -------------------------------------------------------------------------------------------------------


def is_there(connection: sqlite3.Connection) -> bool:
    """Whether the table is there, as this product makes it."""
    found = connection.execute("SELECT sql FROM main.sqlite_master WHERE name = ?", (NAME,)).fetchone()
    return found is not None and found[0] == SCHEMA


def make(connection: sqlite3.Connection, random: bytes) -> None:
    """Makes the table unless it is there; one of another shape, which somebody else made of it, is replaced.

    The ids begin at a random number, so that who kept vectors of a table of before notices that this is another.
    """
    if not is_there(connection):
        connection.execute(f"DROP TABLE IF EXISTS main.{NAME}")
        connection.execute(SCHEMA)
        start = (int.from_bytes(random[:4], "big") >> 2) + 1 << ID_BITS
        connection.execute("INSERT INTO main.sqlite_sequence (name, seq) VALUES (?, ?)", (NAME, start))


def last_id(connection: sqlite3.Connection) -> int | None:
    """The highest id that was ever given; None where there is no table."""
    if not is_there(connection):
        return None
    found = connection.execute("SELECT seq FROM main.sqlite_sequence WHERE name = ?", (NAME,)).fetchone()
    return int(found[0]) if found is not None else 0


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    """How many vectors there are of each model."""
    if not is_there(connection):
        return {}
    return dict(connection.execute(f"SELECT model, count(*) FROM main.{NAME} GROUP BY model ORDER BY model").fetchall())


def entries(connection: sqlite3.Connection, model: str, after: int) -> Iterator[Entry]:
    """The vectors of a model with a higher id, in order."""
    sql = (  # NOT INDEXED: in the order of the ids, whatever the planner thinks of the model
        f"SELECT id, corpus, row, owner, text, vector FROM main.{NAME} NOT INDEXED"
        " WHERE id > ? AND model = ? ORDER BY id"
    )
    return (Entry(*row) for row in connection.execute(sql, (after, model)))


def ids(connection: sqlite3.Connection, model: str) -> set[int]:
    return {id for (id,) in connection.execute(f"SELECT id FROM main.{NAME} WHERE model = ?", (model,))}


def dimension(connection: sqlite3.Connection, model: str) -> int | None:
    """Of the vectors of a model; None without any."""
    sql = f"SELECT length(vector) FROM main.{NAME} WHERE model = ? LIMIT 1"
    found = connection.execute(sql, (model,)).fetchone()
    return found[0] // 4 if found is not None else None


def dimensions(connection: sqlite3.Connection, model: str) -> list[int]:
    """All that the vectors of a model have; more than one only where the file was damaged."""
    if not is_there(connection):
        return []
    sql = f"SELECT DISTINCT length(vector) / 4 FROM main.{NAME} WHERE model = ? ORDER BY 1"
    return [found for (found,) in connection.execute(sql, (model,))]


def delete(connection: sqlite3.Connection, given: Iterable[int]) -> int:
    """Deletes vectors by their ids."""
    before = connection.total_changes
    connection.executemany(f"DELETE FROM main.{NAME} WHERE id = ?", [(each,) for each in given])
    return connection.total_changes - before


def write(connection: sqlite3.Connection, secret: bytes, model: str, made: Iterable[Entry]) -> int:
    """Writes vectors, in the place of older ones, of those texts that still stand as they were read."""
    written, wanted = 0, {each.key: each for each in made}
    for corpus in dict.fromkeys(corpus for corpus, _ in wanted):
        rows = [row for each, row in wanted if each == corpus]
        for found in texts(connection, corpus, rows):
            entry = wanted[corpus, found.row]
            if mark(secret, found.text) == entry.text and owner_of(secret, found.user) == entry.owner:
                connection.execute(
                    f"INSERT OR REPLACE INTO main.{NAME} (model, corpus, row, owner, text, vector)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    (model, corpus, entry.row, entry.owner, entry.text, entry.vector),
                )
                written += 1
    return written


# --- the texts -------------------------------------------------------------------------------------------------------


def texts(
    connection: sqlite3.Connection, letter: str, rows: Collection[int] | None = None, schema: str = ""
) -> Iterator[Text]:
    """The texts that may be found, all or those of some rows, as this connection sees them."""
    corpus = CORPORA[letter]
    sql = f"SELECT row, {corpus.text}, user FROM {schema}{corpus.table} WHERE {corpus.believed}"
    if rows is None:
        found = connection.execute(sql)
    else:
        some = " AND row IN (SELECT value FROM json_each(?))"
        found = connection.execute(sql + some, (json.dumps(list(rows)),))
    return (Text(letter, *row) for row in found)


def touched(connection: sqlite3.Connection, letter: str, after: int, up_to: int) -> list[int]:
    """The rows of texts that events of a part of the log may have changed."""
    return [row for (row,) in connection.execute(CORPORA[letter].touched, {"after": after, "up_to": up_to})]


class Survey(Struct, frozen=True):
    """What there is of a model: texts without a vector, newest first; vectors that are right; ids that are of no use."""

    lacking: list[Key]
    kept: int
    useless: list[int]


def survey(connection: sqlite3.Connection, secret: bytes, model: str, length: int) -> Survey:
    """Compares every text with its vector, which has so many numbers."""
    found: dict[Key, tuple[int, bytes, bool]] = {}
    if is_there(connection):
        sql = f"SELECT corpus, row, id, text, vector FROM main.{NAME} NOT INDEXED WHERE model = ?"
        for corpus, row, id, text, vector in connection.execute(sql, (model,)):
            found[corpus, row] = (id, text, is_sound(vector, length))
    lacking: list[Key] = []
    kept = 0
    for letter in CORPORA:
        for each in texts(connection, letter):
            known = found.get((letter, each.row))
            if known is None or known[1:] != (mark(secret, each.text), True):
                lacking.append((letter, each.row))
            else:
                kept += 1
                del found[letter, each.row]
    lacking.sort(key=lambda key: key[1], reverse=True)
    return Survey(lacking, kept, [id for id, _, _ in found.values()])


# --- erasure ---------------------------------------------------------------------------------------------------------


def purge(
    connection: sqlite3.Connection,
    before: Mapping[Table, Counter[Values]],
    after: Mapping[Table, Counter[Values]],
    suspended: Collection[str],
) -> list[bytes]:
    """Deletes the vectors, of every model, of texts that an erasure changed, and says what they were.

    ``before`` and ``after`` are the rows of the tables as the erasure folds them. Of a suspended projection nothing is kept.
    """
    if not connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = ?", (NAME,)).fetchone():
        return []
    if not is_there(connection):  # nobody knows what somebody put there
        connection.execute(f"DROP TABLE main.{NAME}")
        return []
    gone: list[tuple[int, bytes]] = []
    models = _models(connection)
    for letter, corpus in CORPORA.items():
        if corpus.projection in suspended:
            sql = f"SELECT id, vector FROM main.{NAME} WHERE corpus = ?"
            gone += connection.execute(sql, (letter,)).fetchall()
            continue
        tables = [table for table in before if table.name in corpus.history]
        rows = {row[0] for table in tables for row in before[table] if row not in after[table]}
        sql = f"SELECT id, vector FROM main.{NAME} WHERE model = ? AND corpus = ? AND row = ?"
        for row in rows:
            for model in models:
                gone += connection.execute(sql, (model, letter, row)).fetchall()
    delete(connection, [id for id, _ in gone])
    return [bytes(vector) for _, vector in gone]


def _models(connection: sqlite3.Connection) -> Sequence[str]:
    """Found by jumps in the index, however many vectors there are."""
    sql = (
        f"WITH RECURSIVE each(model) AS (SELECT min(model) FROM main.{NAME} UNION ALL"
        f" SELECT (SELECT min(v.model) FROM main.{NAME} v WHERE v.model > each.model) FROM each"
        " WHERE each.model IS NOT NULL) SELECT model FROM each WHERE model IS NOT NULL"
    )
    return [model for (model,) in connection.execute(sql)]
