"""Vectors: making them outside of every lock, and searching by them without ever failing a recall."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress

from msgspec import Struct

from ledger import answers
from ledger.domain.errors import ConflictError, LedgerError, ModelError, NotFoundError, RejectedError
from ledger.engine.engine import Engine
from ledger.engine.pipeline import Writer
from ledger.store import closed
from ledger.store.event_store import EventStore, Transaction
from ledger.vectors.embedders import Embedder, EmbedderLike, as_embedder, checked_vectors
from projections.search import nearest, vectors
from projections.search.nearest import Hit, Index, Keep, WrongDimension
from projections.search.vectors import Entry, Key, Text

BATCH = 256  # texts given to a model at a time
FILL, FILL_BATCH, FILL_SECONDS = 256, 16, 0.25  # texts that a search makes vectors of by the way, and for how long
DROPPED = 2_000  # vectors deleted in one transaction
INSIDE_A_BATCH = "vectors not used: no model is called inside a batch"

Progress = Callable[[int, int], None]


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
        warning = f"{missing:,} texts have no vector of {self.embedder.name!r} yet, and are found by words only; embed() helps"
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
            return f"{what}: {name!r} is not the model it was, for {error}; embed with drop removes the old ones"
        if isinstance(error, LedgerError):
            return f"{what}: {error}"
        return f"{what}: the vector index of {name!r} cannot be read ({type(error).__name__}); embed() makes it again"

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


def embed(
    engine: Engine,
    *,
    model: EmbedderLike | None = None,
    progress: Progress | None = None,
    batch: int = BATCH,
    limit: int | None = None,
    drop: bool = False,
) -> answers.VectorReport:
    """Makes the vectors that texts still lack, the newest first, and deletes those of texts that are no more.

    ``model`` is what ``open`` takes as ``embedder``, and by default that one. Each model has its own vectors, beside
    those of others; with ``drop`` those of this one are deleted. ``progress`` is called with (texts done, texts to do).
    The model is called outside of every lock, with ``batch`` texts at a time; what a kill or an error cut short goes
    on with the next call. Nothing is recorded: vectors are a cache, and a rebuild leaves them as they are.

    ``ModelError`` when the model raises or gives what are no vectors, or others than it gave before.
    """
    _check_writable(engine)
    for name, value, least in (("batch", batch, 1), ("limit", limit, 0)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise RejectedError(f"{name} is a whole number from {least}, and {value!r:.40} is not")
    started = time.monotonic()
    if drop:
        return remove_vectors(engine, _model_name(engine, model))
    embedder = _embedder_of(engine, model)
    dimension = _dimension_of(engine, embedder)
    with engine.reading() as connection:
        found = vectors.survey(connection, engine.writer.secret, embedder.name, dimension)
    dropped = _delete_vectors(engine, found.useless)
    wanted = found.lacking[:limit]
    written = 0
    for start in range(0, len(wanted), batch):
        if progress is not None:
            progress(start, len(wanted))
        written += _embed(engine, embedder, wanted[start : start + batch], dimension)
    if progress is not None:
        progress(len(wanted), len(wanted))
    return answers.VectorReport(
        model=embedder.name,
        embedded=written,
        kept=found.kept,
        dropped=dropped,
        left=len(found.lacking) - len(wanted),
        seconds=time.monotonic() - started,
        dimension=dimension,
    )


def vector_models(engine: Engine) -> list[answers.VectorModel]:
    """The models that have vectors here, by name."""
    with engine.reading() as connection:
        return [
            answers.VectorModel(
                model=name, vectors=count, dimension=max(vectors.dimensions(connection, name), default=0)
            )
            for name, count in vectors.counts(connection).items()
        ]


def remove_vectors(engine: Engine, name: str) -> answers.VectorReport:
    """Deletes the vectors kept under this name, whether or not its model is still there."""
    _check_writable(engine)
    started = time.monotonic()
    known = [each.model for each in vector_models(engine)]
    if name not in known:
        there = f"there are those of {', '.join(map(repr, known))}" if known else "there are none"
        raise NotFoundError(f"there are no vectors of the model {name!r:.200}; {there}")
    return _drop_vectors(engine, name, started)


def _check_writable(engine: Engine) -> None:
    if engine.store.readonly:
        raise RejectedError(
            "this ledger was opened for reading (readonly=True), and vectors are written", rule="readonly"
        )
    if engine.writer.batching:
        raise ConflictError("vectors cannot be changed inside a batch, for a model makes them; leave the batch first")


def _embedder_of(engine: Engine, given: EmbedderLike | None) -> Embedder:
    if given is not None:
        return as_embedder(given)
    if engine.vectors is None:
        raise RejectedError("embed() needs a model: name one with model=, or open the ledger with embedder=")
    return engine.vectors.embedder


def _model_name(engine: Engine, given: EmbedderLike | None) -> str:
    """The name under which vectors are kept; one that is stored need not be a model that is still there."""
    with engine.reading() as connection:
        known = vectors.counts(connection)
    return given if isinstance(given, str) and given in known else _embedder_of(engine, given).name


def _dimension_of(engine: Engine, embedder: Embedder) -> int:
    """How many numbers the model gives, from a try; ``ModelError`` when all vectors there are have another."""
    dimension = checked_vectors(embedder, ["dimension"]).dimension
    with engine.reading() as connection:
        stored = vectors.dimensions(connection, embedder.name)
    if stored and dimension not in stored:
        raise ModelError(
            f"the model {embedder.name!r} gives {dimension} numbers a text, and its vectors here have {stored[0]}; "
            "give it another name, or delete those first (vectors.remove, --drop)"
        )
    return dimension


def _embed(engine: Engine, embedder: Embedder, keys: Sequence[Key], dimension: int) -> int:
    with engine.reading() as connection:
        texts = read(connection, keys)
    if not texts:
        return 0
    made = entries(embedder, engine.writer.secret, texts, dimension)
    with engine.store.transact() as transaction:
        return write(engine.writer, transaction, embedder.name, made)


def _drop_vectors(engine: Engine, name: str, started: float) -> answers.VectorReport:
    with engine.reading() as connection:
        ids = sorted(vectors.ids(connection, name))
    dropped = _delete_vectors(engine, ids)
    if engine.vectors is not None:
        engine.vectors.clear()
    return answers.VectorReport(model=name, dropped=dropped, seconds=time.monotonic() - started)


def _delete_vectors(engine: Engine, ids: Sequence[int]) -> int:
    dropped = 0
    for start in range(0, len(ids), DROPPED):
        with engine.store.transact() as transaction:
            engine.writer.attend(transaction)
            if vectors.is_there(transaction.connection):
                dropped += vectors.delete(transaction.connection, ids[start : start + DROPPED])
    return dropped


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
