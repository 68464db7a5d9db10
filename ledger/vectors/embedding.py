"""The making of vectors outside of every lock, and the search by them, which never makes a recall fail."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from ledger.domain.errors import LedgerError, ModelError
from ledger.log.event_store import EventStore, Transaction
from ledger.log.reading import is_denied, tables_closed
from ledger.vectors.embedders import Embedder, checked_vectors
from projections.search import nearest, vectors
from projections.search.nearest import Hit, Keep, VectorIndex, WrongDimension
from projections.search.ranking import VECTOR
from projections.search.vectors import Key, Text, VectorEntry

if TYPE_CHECKING:
    from ledger.core.command import Writer

FILL, FILL_BATCH, FILL_SECONDS = 256, 16, 0.25  # most texts, batch and time for vectors that a search makes on the way
INSIDE_A_BATCH = "vectors not used: no model is called inside a batch"


class QueryVector(Struct, frozen=True):
    """A query as a vector, or no vector and the reasons in ``warnings``."""

    vector: bytes | None = None
    dimension: int = 0
    warnings: tuple[str, ...] = ()


class VectorAnswer(Struct, frozen=True):
    """The nearest texts as (corpus, row, cosine), best first, and warnings about problems and missing vectors."""

    hits: tuple[Hit, ...] = ()
    warnings: tuple[str, ...] = ()


class _NotUsed(Exception):
    """The error of a search that uses no vectors, with the reason."""


class VectorSearch:
    """The search by the vectors of one model, for one open ledger and all its threads.

    Problems become warnings. A search raises only if it would have to read a suspended projection.
    """

    def __init__(self, store: EventStore, writer: Writer, embedder: Embedder) -> None:
        self.store = store
        self.writer = writer
        self.embedder = embedder
        matrix = nearest.matrix()
        self._index = VectorIndex(writer.secret, embedder.name, matrix) if matrix is not None else None
        self.whole_at = -1  # the position up to which every text has its vector, as the job saw it

    @property
    def weight(self) -> float:
        """Return the part of a score that the vectors make, from 0 to 1."""
        return float(getattr(self.embedder, "weight", VECTOR))

    def ask(self, query: str, user: str, corpora: Sequence[str] = ("m",), *, fill: int = FILL) -> QueryVector:
        """Return the query as a vector, and make vectors for up to ``fill`` of the user's newest texts without one.

        The model is called, so call this function before a snapshot is taken.
        """
        try:
            if (why := self._why_not()) is not None:
                return QueryVector(warnings=(why,))
            checked = checked_vectors(self.embedder, [query], are_queries=True)
        except Exception as error:
            return QueryVector(warnings=(self._warning(error),))
        warnings: tuple[str, ...] = ()
        try:
            self._fill(user, corpora, fill, checked.dimension)
        except ModelError as error:
            warnings = (f"no new vectors made: {error}",)
        except Exception:
            pass  # ``hits`` will warn that the index cannot be used
        return QueryVector(checked.data[0], checked.dimension, warnings)

    def hits(
        self,
        connection: sqlite3.Connection,
        asked: QueryVector,
        user: str,
        corpora: Sequence[str] = ("m",),
        limit: int = 50,
        keep: Keep | None = None,
    ) -> VectorAnswer:
        """Return the ``limit`` texts of a user that are nearest to the query, by exact search.

        Args:
            connection: The connection, at the present or at an earlier moment.
            asked: The query as a vector.
            user: The user.
            corpora: The letters of the corpora.
            limit: The largest number of texts; texts with equal cosines come in the order of their rows.
            keep: Selects the rows of a corpus that may be returned; None for all believed texts.
        """
        if asked.vector is None:
            return VectorAnswer((), asked.warnings)
        try:
            index = self._fresh(connection, asked.dimension)
            hits = index.nearest(connection, asked.vector, user, corpora=corpora, limit=limit, keep=keep)
            missing = len(index.lacking(user, corpora))
        except Exception as error:
            if is_denied(error):
                raise
            return VectorAnswer((), (*asked.warnings, self._warning(error)))
        name = self.embedder.name
        warning = (
            f"{missing:,} texts have no vector of {name!r} yet and are found by words only; vectors.update() makes them"
        )
        return VectorAnswer(tuple(hits), (*asked.warnings, *((warning,) if missing else ())))

    def cosines(
        self, connection: sqlite3.Connection, asked: QueryVector, user: str, corpus: str, rows: Sequence[int]
    ) -> dict[int, float]:
        """Return the cosines of the user's texts in these rows that have a vector; empty if vectors cannot be used."""
        if asked.vector is None:
            return {}
        try:
            index = self._fresh(connection, asked.dimension)
            return index.cosines(connection, asked.vector, user, corpus, rows)
        except Exception as error:
            if is_denied(error):
                raise
            return {}

    def cosines_among(
        self, connection: sqlite3.Connection, asked: QueryVector, user: str, corpus: str, rows: Sequence[int]
    ) -> dict[tuple[int, int], float]:
        """Return the cosine of every two of these texts of a user that both have a vector, by their rows, the smaller first."""
        if asked.vector is None:
            return {}
        try:
            return self._fresh(connection, asked.dimension).cosines_among(connection, user, corpus, rows)
        except Exception as error:
            if is_denied(error):
                raise
            return {}

    def clear(self) -> None:
        """Drop the vectors kept in memory; the next search reads them again."""
        if self._index is not None:
            self._index.clear()

    def _why_not(self) -> str | None:
        if self.writer.batching:
            return INSIDE_A_BATCH
        if self._index is None:
            return 'vectors not used: NumPy is not installed: pip install "belief-ledger[vectors]"'
        if self.store.folded_privately:
            return "vectors not used: the tables of this file are of another version, and the file cannot be written"
        return None

    def _fresh(self, connection: sqlite3.Connection, dimension: int) -> VectorIndex:
        if (why := self._why_not()) is not None:
            raise _NotUsed(why)
        assert self._index is not None
        with tables_closed(connection, {}):  # the index follows all texts, those of suspended projections included
            self._index.refresh(connection, dimension)
        return self._index

    def _warning(self, error: Exception) -> str:
        what, name = "vectors not used", self.embedder.name
        if isinstance(error, _NotUsed):
            return str(error)
        if isinstance(error, WrongDimension):
            return f"{what}: {name!r} is not the model it was: {error}; vectors.remove deletes the old vectors"
        if isinstance(error, LedgerError):
            return f"{what}: {error}"
        why = type(error).__name__
        return f"{what}: the vector index of {name!r} cannot be read ({why}); vectors.update() makes the index again"

    # --- texts that are newer than their vectors -------------------------------------------------------------------

    def _fill(self, user: str, corpora: Sequence[str], limit: int, dimension: int) -> None:
        """Make vectors of the newest texts without one, and write them unless another writer holds the lock."""
        with self.store.snapshot() as connection:
            index = self._fresh(connection, dimension)
            keys = index.lacking(user, corpora)[: max(0, limit)]
            texts = read(connection, keys)
        new: list[VectorEntry] = []
        deadline = time.monotonic() + FILL_SECONDS
        for start in range(0, len(texts), FILL_BATCH):
            new += entries(self.embedder, self.writer.secret, texts[start : start + FILL_BATCH], dimension)
            if time.monotonic() > deadline:
                break
        if not new:
            return
        index.add(new)
        if not self.store.readonly:
            with suppress(LedgerError):
                self.store.write_now(lambda transaction: self._write(transaction, new))

    def _write(self, transaction: Transaction, new: Sequence[VectorEntry]) -> None:
        write(self.writer, transaction, self.embedder.name, new)


def read(connection: sqlite3.Connection, keys: Collection[Key]) -> list[Text]:
    """Return the texts of these rows as they are now, in the order of the keys."""
    texts = {
        (letter, text.row): text
        for letter in dict.fromkeys(letter for letter, _ in keys)
        for text in vectors.texts(connection, letter, [row for corpus, row in keys if corpus == letter], "main.")
    }
    return [texts[key] for key in keys if key in texts]


def entries(embedder: Embedder, secret: bytes, texts: Sequence[Text], dimension: int) -> list[VectorEntry]:
    """Return the model's vectors of these texts as entries; no lock is held meanwhile."""
    checked = checked_vectors(embedder, [text.words for text in texts])
    if checked.dimension != dimension:
        raise ModelError(
            f"the model {embedder.name!r} gave {checked.dimension} numbers a text, and {dimension} a moment before"
        )
    owners = {user: vectors.owner_of(secret, user) for user in {text.user for text in texts}}
    return [
        VectorEntry(0, text.corpus, text.row, owners[text.user], vectors.mark(secret, text.text), vector)
        for text, vector in zip(texts, checked.data, strict=True)
    ]


def write(writer: Writer, transaction: Transaction, model: str, made: Iterable[VectorEntry]) -> int:
    """Write the vectors of texts that are unchanged, in a short transaction; the table is created if it is missing."""
    connection: sqlite3.Connection = transaction.connection
    writer.attend(transaction)
    vectors.make(connection, os.urandom(4))
    return vectors.write(connection, writer.secret, model, made)
