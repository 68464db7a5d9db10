"""Vectors: making them outside of every lock, and searching by them without ever failing a recall."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from msgspec import Struct

from ledger.domain.errors import LedgerError, ModelError
from ledger.engine.pipeline import Writer
from ledger.store import closed
from ledger.store.event_store import EventStore, Transaction
from ledger.vectors.embedders import Embedder, checked_vectors
from projections.search import nearest, vectors
from projections.search.nearest import Hit, Index, Keep, WrongDimension
from projections.search.vectors import Entry, Key, Text

FILL, FILL_BATCH, FILL_SECONDS = 256, 16, 0.25  # texts that a search makes vectors of by the way, and for how long
INSIDE_A_BATCH = "vectors not used: no model is called inside a batch"


class Asked(Struct, frozen=True):
    """A query as a vector, ready for a snapshot; without one where there is none, and ``warnings`` say why."""

    vector: bytes | None = None
    dimension: int = 0
    warnings: tuple[str, ...] = ()


class VectorAnswer(Struct, frozen=True):
    """(corpus, row, cosine) of what is nearest, best first; what was in the way or is missing is in ``warnings``."""

    hits: tuple[Hit, ...] = ()
    warnings: tuple[str, ...] = ()


class _NotUsed(Exception):
    """Why vectors are not used at all."""


class VectorSearch:
    """Search by the vectors of one model, for one open ledger and all its threads. It warns, and raises only where a
    suspended projection would have to be read."""

    def __init__(self, store: EventStore, writer: Writer, embedder: Embedder) -> None:
        self.store, self.writer, self.embedder = store, writer, embedder
        matrix = nearest.matrix()
        self._index = Index(writer.secret, embedder.name, matrix) if matrix is not None else None

    def ask(self, query: str, user: str, corpora: Sequence[str] = ("m",), *, fill: int = FILL) -> Asked:
        """The query as a vector; for the user's newest texts without one, up to ``fill``, vectors are made by the way.

        Calls the model, so it is to be called before a snapshot is taken.
        """
        try:
            if (why := self._why_not()) is not None:
                return Asked(warnings=(why,))
            found = checked_vectors(self.embedder, [query])
        except Exception as error:
            return Asked(warnings=(self._warning(error),))
        warnings: tuple[str, ...] = ()
        try:
            self._fill(user, corpora, fill, found.dimension)
        except ModelError as error:
            warnings = (f"no new vectors made: {error}",)
        except Exception:
            pass  # the index cannot be used, as ``hits`` will tell
        return Asked(found.data[0], found.dimension, warnings)

    def hits(
        self,
        connection: sqlite3.Connection,
        asked: Asked,
        user: str,
        corpora: Sequence[str] = ("m",),
        limit: int = 50,
        keep: Keep | None = None,
    ) -> VectorAnswer:
        """The ``limit`` texts of a user that are nearest, exactly, among those believed and, if given, those that ``keep``
        leaves of the rows of a corpus; equal cosines by row. ``connection`` may be one of a moment of the past.
        """
        if asked.vector is None:
            return VectorAnswer((), asked.warnings)
        try:
            index = self._fresh(connection, asked.dimension)
            found = index.nearest(connection, asked.vector, user, corpora=corpora, limit=limit, keep=keep)
            missing = len(index.lacking(user, corpora))
        except Exception as error:
            if closed.is_denied(error):
                raise
            return VectorAnswer((), (*asked.warnings, self._warning(error)))
        name = self.embedder.name
        warning = (
            f"{missing:,} texts have no vector of {name!r} yet, and are found by words only; vectors.update() helps"
        )
        return VectorAnswer(tuple(found), (*asked.warnings, *((warning,) if missing else ())))

    def cosines(
        self, connection: sqlite3.Connection, asked: Asked, user: str, corpus: str, rows: Sequence[int]
    ) -> dict[int, float]:
        """The cosine of each of these texts of a user that has a vector; none where vectors cannot be used."""
        if asked.vector is None:
            return {}
        try:
            index = self._fresh(connection, asked.dimension)
            return index.cosines(connection, asked.vector, user, corpus, rows)
        except Exception as error:
            if closed.is_denied(error):
                raise
            return {}

    def cosines_among(
        self, connection: sqlite3.Connection, asked: Asked, user: str, corpus: str, rows: Sequence[int]
    ) -> dict[tuple[int, int], float]:
        """Return the cosine of every two of these texts of a user that both have a vector, by their rows, the smaller first."""
        if asked.vector is None:
            return {}
        try:
            return self._fresh(connection, asked.dimension).cosines_among(connection, user, corpus, rows)
        except Exception as error:
            if closed.is_denied(error):
                raise
            return {}

    def clear(self) -> None:
        """Lets go of what is kept in memory; the next search reads it again."""
        if self._index is not None:
            self._index.clear()

    def _why_not(self) -> str | None:
        if self.writer.batching:
            return INSIDE_A_BATCH
        if self._index is None:
            return "vectors not used: NumPy is not installed; memory-ledger[vectors] brings it"
        if self.store.folded_privately:
            return "vectors not used: the tables of this file are of another version, and it cannot be written"
        return None

    def _fresh(self, connection: sqlite3.Connection, dimension: int) -> Index:
        if (why := self._why_not()) is not None:
            raise _NotUsed(why)
        assert self._index is not None
        with closed.reading(connection, {}):  # it follows all texts, also those that nobody may find now
            self._index.refresh(connection, dimension)
        return self._index

    def _warning(self, error: Exception) -> str:
        what, name = "vectors not used", self.embedder.name
        if isinstance(error, _NotUsed):
            return str(error)
        if isinstance(error, WrongDimension):
            return f"{what}: {name!r} is not the model it was, for {error}; vectors.remove deletes the old ones"
        if isinstance(error, LedgerError):
            return f"{what}: {error}"
        why = type(error).__name__
        return f"{what}: the vector index of {name!r} cannot be read ({why}); vectors.update() makes it again"

    # --- texts that are newer than their vectors -------------------------------------------------------------------

    def _fill(self, user: str, corpora: Sequence[str], limit: int, dimension: int) -> None:
        """Makes vectors of the newest texts without one; they are kept in memory, and written unless somebody else is."""
        with self.store.snapshot() as connection:
            index = self._fresh(connection, dimension)
            keys = index.lacking(user, corpora)[: max(0, limit)]
            texts = read(connection, keys)
        made: list[Entry] = []
        deadline = time.monotonic() + FILL_SECONDS
        for start in range(0, len(texts), FILL_BATCH):
            made += entries(self.embedder, self.writer.secret, texts[start : start + FILL_BATCH], dimension)
            if time.monotonic() > deadline:
                break
        if not made:
            return
        index.add(made)
        if not self.store.readonly:
            with suppress(LedgerError):
                self.store.write_now(lambda transaction: self._write(transaction, made))

    def _write(self, transaction: Transaction, made: Sequence[Entry]) -> None:
        write(self.writer, transaction, self.embedder.name, made)


def read(connection: sqlite3.Connection, keys: Collection[Key]) -> list[Text]:
    """The texts of these rows as they stand today, in the order of the keys."""
    found = {
        (letter, each.row): each
        for letter in dict.fromkeys(letter for letter, _ in keys)
        for each in vectors.texts(connection, letter, [row for corpus, row in keys if corpus == letter], "main.")
    }
    return [found[key] for key in keys if key in found]


def entries(embedder: Embedder, secret: bytes, texts: Sequence[Text], dimension: int) -> list[Entry]:
    """Asks the model for the vectors of texts; nothing is locked meanwhile."""
    found = checked_vectors(embedder, [each.words for each in texts])
    if found.dimension != dimension:
        raise ModelError(
            f"the model {embedder.name!r} gave {found.dimension} numbers a text, and {dimension} a moment before"
        )
    owners = {user: vectors.owner_of(secret, user) for user in {each.user for each in texts}}
    return [
        Entry(0, each.corpus, each.row, owners[each.user], vectors.mark(secret, each.text), vector)
        for each, vector in zip(texts, found.data, strict=True)
    ]


def write(writer: Writer, transaction: Transaction, model: str, made: Iterable[Entry]) -> int:
    """Writes vectors of the texts that still stand, in a short transaction; the table is made where there is none."""
    connection: sqlite3.Connection = transaction.connection
    writer.attend(transaction)
    vectors.make(connection, os.urandom(4))
    return vectors.write(connection, writer.secret, model, made)
