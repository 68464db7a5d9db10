"""The table of vectors, one of each text and model: a cache beside the projections, made outside of every command.

The table is not folded from the log: ``digest()`` leaves it out, a rebuild keeps it, and it may vanish at any time. A vector
counts only while its keyed digest is that of the current text, so that the vector of an old wording is never used. Vectors
reveal their texts: an erasure deletes the vectors of the rows that it changes, in the same transaction.
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
from ledger.events import WAYS_BACK
from projections.core.rows import Table, Values

NAME = "vectors"
SCHEMA = (
    f"CREATE TABLE {NAME} (id INTEGER PRIMARY KEY AUTOINCREMENT, model TEXT NOT NULL, corpus TEXT NOT NULL,"
    " row INTEGER NOT NULL, owner INTEGER NOT NULL, text BLOB NOT NULL, vector BLOB NOT NULL,"
    " UNIQUE (model, corpus, row))"
)
ID_BITS = 32  # of an id; the higher bits are a random number of each making of the table

LOOKED_THROUGH = 20_000  # events that are followed; after more every text is compared again
ROUGHLY = 1e-3  # the largest difference from 1 of the square of a vector's length

Key = tuple[str, int]  # (corpus, row)


POSITION_BITS = 16  # bits of a passage's row below the position of its event


class Corpus(Struct, frozen=True):
    """A kind of text that gets vectors: the table of the texts, and the condition for those that may be found."""

    letter: str
    table: str  # with the columns row and user
    text: str  # the column
    believed: str  # SQL: the rows that may be found
    touched: str  # SQL: the rows that events after ``:after``, up to ``:up_to``, may have changed
    history: tuple[str, ...]  # tables with the row first, whose changes are changes of a text
    projection: str


CORPORA = {
    corpus.letter: corpus
    for corpus in (
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
            " AND (e.stream >= 'i_' AND e.stream < 'i`' OR e.stream >= 'd_' AND e.stream < 'd`'"
            " OR e.stream >= 'v_' AND e.stream < 'v`')) s"
            " CROSS JOIN main.passages p ON p.subject = s.subject"
            f" UNION SELECT row FROM main.passages WHERE row >= (:after + 1) << {POSITION_BITS}"
            f" AND row < (:up_to + 1) << {POSITION_BITS}",
            ("passages", "passages_were"),
            "passages",
        ),
    )
}


class Text(Struct, frozen=True):
    """A current text, and its user."""

    corpus: str
    row: int
    text: str
    user: str

    @property
    def words(self) -> str:
        """Return the part of the text that carries meaning: of a turn without the speaker's name."""
        return speaker(self.text)[1] if self.corpus == "p" else self.text


class VectorEntry(Struct, frozen=True):
    """A vector with the digest of the text that it was made of. An id of 0 is not in the file."""

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
    """Return the keyed digest of a text, under which its vector is kept."""
    return keyed_digest(secret, b"vectors\0" + text.encode("utf-8", "surrogatepass"))


def owner_of(secret: bytes, user: str) -> int:
    """Return a number for the user, so that no name stands beside the vectors."""
    return fingerprint(secret, "vectors", user)


def is_sound(vector: bytes, length: int) -> bool:
    """Return True if a vector has ``length`` numbers and the length one, or is all zeros. Any other vector is damaged."""
    if len(vector) != 4 * length:
        return False
    size = math.hypot(*struct.unpack(f"<{length}f", vector)) ** 2
    return size == 0 or abs(size - 1) < ROUGHLY


# --- the table -------------------------------------------------------------------------------------------------------


def is_there(connection: sqlite3.Connection) -> bool:
    """Return True if the table exists in the shape that this product makes."""
    row = connection.execute("SELECT sql FROM main.sqlite_master WHERE name = ?", (NAME,)).fetchone()
    return row is not None and row[0] == SCHEMA


def make(connection: sqlite3.Connection, random: bytes) -> None:
    """Make the table unless it exists. A table of another shape is replaced.

    The ids begin at a random number, so that a process with vectors of an older table notices that the table is new.
    """
    if not is_there(connection):
        connection.execute(f"DROP TABLE IF EXISTS main.{NAME}")
        connection.execute(SCHEMA)
        start = (int.from_bytes(random[:4], "big") >> 2) + 1 << ID_BITS
        connection.execute("INSERT INTO main.sqlite_sequence (name, seq) VALUES (?, ?)", (NAME, start))


def last_id(connection: sqlite3.Connection) -> int | None:
    """Return the highest id that was ever given, or None without a table."""
    if not is_there(connection):
        return None
    row = connection.execute("SELECT seq FROM main.sqlite_sequence WHERE name = ?", (NAME,)).fetchone()
    return int(row[0]) if row is not None else 0


def sizes(connection: sqlite3.Connection) -> dict[str, tuple[int, int]]:
    """Return the number of vectors of each model, and their bytes."""
    if not is_there(connection):
        return {}
    sql = f"SELECT model, count(*), sum(length(vector)) FROM main.{NAME} GROUP BY model ORDER BY model"
    return {model: (count, size) for model, count, size in connection.execute(sql)}


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the number of vectors of each model."""
    if not is_there(connection):
        return {}
    return dict(connection.execute(f"SELECT model, count(*) FROM main.{NAME} GROUP BY model ORDER BY model").fetchall())


def entries(connection: sqlite3.Connection, model: str, after: int) -> Iterator[VectorEntry]:
    """Yield the vectors of a model with a higher id than ``after``, in order."""
    sql = (  # NOT INDEXED: in the order of the ids, against the planner's choice of an index on the model
        f"SELECT id, corpus, row, owner, text, vector FROM main.{NAME} NOT INDEXED"
        " WHERE id > ? AND model = ? ORDER BY id"
    )
    return (VectorEntry(*row) for row in connection.execute(sql, (after, model)))


def ids(connection: sqlite3.Connection, model: str) -> set[int]:
    return {id for (id,) in connection.execute(f"SELECT id FROM main.{NAME} WHERE model = ?", (model,))}


def dimension(connection: sqlite3.Connection, model: str) -> int | None:
    """Return the dimension of a model's vectors, or None without any."""
    sql = f"SELECT length(vector) FROM main.{NAME} WHERE model = ? LIMIT 1"
    row = connection.execute(sql, (model,)).fetchone()
    return row[0] // 4 if row is not None else None


def dimensions(connection: sqlite3.Connection, model: str) -> list[int]:
    """Return all dimensions of a model's vectors. More than one means a damaged file."""
    if not is_there(connection):
        return []
    sql = f"SELECT DISTINCT length(vector) / 4 FROM main.{NAME} WHERE model = ? ORDER BY 1"
    return [length for (length,) in connection.execute(sql, (model,))]


def delete(connection: sqlite3.Connection, vector_ids: Iterable[int]) -> int:
    """Delete vectors by their ids, and return their number."""
    before = connection.total_changes
    connection.executemany(f"DELETE FROM main.{NAME} WHERE id = ?", [(vector_id,) for vector_id in vector_ids])
    return connection.total_changes - before


def write(connection: sqlite3.Connection, secret: bytes, model: str, made: Iterable[VectorEntry]) -> int:
    """Write vectors in the place of older ones, if their texts are unchanged, and return their number."""
    written, by_key = 0, {entry.key: entry for entry in made}
    for corpus in dict.fromkeys(corpus for corpus, _ in by_key):
        rows = [row for key_corpus, row in by_key if key_corpus == corpus]
        for text in texts(connection, corpus, rows):
            entry = by_key[corpus, text.row]
            if mark(secret, text.text) == entry.text and owner_of(secret, text.user) == entry.owner:
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
    """Yield the texts that may be found, all or those of some rows, as this connection sees them."""
    corpus = CORPORA[letter]
    sql = f"SELECT row, {corpus.text}, user FROM {schema}{corpus.table} WHERE {corpus.believed}"
    if rows is None:
        cursor = connection.execute(sql)
    else:
        of_rows = " AND row IN (SELECT value FROM json_each(?))"
        cursor = connection.execute(sql + of_rows, (json.dumps(list(rows)),))
    return (Text(letter, *row) for row in cursor)


def touched(connection: sqlite3.Connection, letter: str, after: int, up_to: int) -> list[int]:
    """Return the rows of texts that the events of a part of the log may have changed."""
    return [row for (row,) in connection.execute(CORPORA[letter].touched, {"after": after, "up_to": up_to})]


def changed(connection: sqlite3.Connection, after: int, up_to: int) -> dict[str, list[int]] | None:
    """Return the rows of each corpus whose texts the events of a part of the log may have changed; None for all rows."""
    if after == up_to:
        return {letter: [] for letter in CORPORA}
    if after < 0 or up_to - after > LOOKED_THROUGH or came(connection, after, up_to, WAYS_BACK):
        return None
    return {letter: touched(connection, letter, after, up_to) for letter in CORPORA}


def came(connection: sqlite3.Connection, after: int, up_to: int, types: Sequence[type]) -> bool:
    """Return True if an event of these types is in a part of the log."""
    marks = ", ".join("?" * len(types))
    sql = f"SELECT 1 FROM main.events WHERE position > ? AND position <= ? AND type IN ({marks}) LIMIT 1"
    return connection.execute(sql, (after, up_to, *(each.__name__ for each in types))).fetchone() is not None


class Survey(Struct, frozen=True):
    """The state of a model: texts without a vector, newest first; the number of right vectors; ids of useless vectors."""

    lacking: list[Key]
    kept: int
    useless: list[int]


def survey(
    connection: sqlite3.Connection,
    secret: bytes,
    model: str,
    length: int | None,
    rows: Mapping[str, Collection[int]] | None = None,
) -> Survey:
    """Return the state of a model, with texts compared with their vectors.

    Args:
        connection: The connection.
        secret: The secret of the ledger.
        model: The model.
        length: The numbers of a sound vector; None to take each vector as sound.
        rows: The rows of each corpus that are compared; None for all.
    """
    lacking: list[Key] = []
    right: set[int] = set()
    stored: set[int] = set()
    there = is_there(connection)
    sql = f"SELECT id, text, vector FROM main.{NAME} WHERE model = ? AND corpus = ? AND row = ?"
    for letter in CORPORA:
        if there:
            stored |= _ids_of(connection, model, letter, None if rows is None else rows.get(letter, ()))
        for text in texts(connection, letter, None if rows is None else rows.get(letter, ())):
            known = connection.execute(sql, (model, letter, text.row)).fetchone() if there else None
            if (
                known is None
                or known[1] != mark(secret, text.text)
                or not (length is None or is_sound(known[2], length))
            ):
                lacking.append((letter, text.row))
            else:
                right.add(known[0])
    lacking.sort(key=lambda key: key[1], reverse=True)
    return Survey(lacking, len(right), sorted(stored - right))


def _ids_of(connection: sqlite3.Connection, model: str, letter: str, rows: Collection[int] | None) -> set[int]:
    sql, values = f"SELECT id FROM main.{NAME} WHERE model = ? AND corpus = ?", [model, letter]
    if rows is not None:
        sql, values = f"{sql} AND row IN (SELECT value FROM json_each(?))", [*values, json.dumps(list(rows))]
    return {id for (id,) in connection.execute(sql, values)}


# --- erasure ---------------------------------------------------------------------------------------------------------


def purge(
    connection: sqlite3.Connection,
    before: Mapping[Table, Counter[Values]],
    after: Mapping[Table, Counter[Values]],
    suspended: Collection[str],
) -> list[bytes]:
    """Delete the vectors, of every model, of texts that an erasure changed, and return them.

    ``before`` and ``after`` are the rows of the tables as the erasure folds them. All vectors of a suspended projection go.
    """
    if not connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = ?", (NAME,)).fetchone():
        return []
    if not is_there(connection):  # a foreign table of this name: its content is unknown
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
    """Return the models, found by jumps in the index, so that the time does not depend on the number of vectors."""
    sql = (
        f"WITH RECURSIVE each(model) AS (SELECT min(model) FROM main.{NAME} UNION ALL"
        f" SELECT (SELECT min(v.model) FROM main.{NAME} v WHERE v.model > each.model) FROM each"
        " WHERE each.model IS NOT NULL) SELECT model FROM each WHERE model IS NOT NULL"
    )
    return [model for (model,) in connection.execute(sql)]
