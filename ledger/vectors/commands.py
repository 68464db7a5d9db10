"""The vectors of the file: those that texts lack are made, and those that nobody needs are deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ledger import answers
from ledger.domain.errors import ConflictError, ModelError, NotFoundError, RejectedError
from ledger.engine.engine import Engine
from ledger.engine.stopping import Stopping
from ledger.vectors.embedders import Embedder, EmbedderLike, as_embedder, checked_vectors
from ledger.vectors.embedding import entries, read, write
from projections.search import vectors
from projections.search.vectors import Key

BATCH = 256  # texts given to a model at a time
DROPPED = 2_000  # vectors deleted in one transaction

Progress = Callable[[int, int], None]


def embed(
    engine: Engine,
    *,
    model: EmbedderLike | None = None,
    progress: Progress | None = None,
    batch: int = BATCH,
    limit: int | None = None,
    stopping: Stopping,
) -> answers.VectorReport:
    """Makes the vectors that texts still lack, the newest first, and deletes those of texts that are no more.

    ``model`` is what ``open`` takes as ``embedder``, and by default that one. Each model has its own vectors, beside
    those of others. ``progress`` is called with (texts done, texts to do).
    The model is called outside of every lock, with ``batch`` texts at a time; what a kill, an error or ``stopping`` cut short
    goes on with the next call. Nothing is recorded: vectors are a cache, and a rebuild leaves them as they are.

    ``ModelError`` when the model raises or gives what are no vectors, or others than it gave before.
    """
    _check_writable(engine)
    for name, value, least in (("batch", batch, 1), ("limit", limit, 0)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise RejectedError(f"{name} is a whole number from {least}, and {value!r:.40} is not")
    started = time.monotonic()
    embedder = _embedder_of(engine, model)
    dimension = _dimension_of(engine, embedder)
    with engine.reading() as connection:
        found = vectors.survey(connection, engine.writer.secret, embedder.name, dimension)
    dropped = _delete_vectors(engine, found.useless)
    wanted = found.lacking[:limit]
    written = done = 0
    stopped = ""
    for start in range(0, len(wanted), batch):
        if stopped := stopping.why:
            break
        if progress is not None:
            progress(start, len(wanted))
        written += _embed(engine, embedder, wanted[start : start + batch], dimension)
        done = min(start + batch, len(wanted))
    if progress is not None:
        progress(done, len(wanted))
    return answers.VectorReport(
        model=embedder.name,
        embedded=written,
        kept=found.kept,
        dropped=dropped,
        left=len(found.lacking) - done,
        seconds=time.monotonic() - started,
        dimension=dimension,
        stopped=stopped,
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
    with engine.reading() as connection:
        ids = sorted(vectors.ids(connection, name))
    dropped = _delete_vectors(engine, ids)
    if engine.vectors is not None:
        engine.vectors.clear()
    return answers.VectorReport(model=name, dropped=dropped, seconds=time.monotonic() - started)


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


def _dimension_of(engine: Engine, embedder: Embedder) -> int:
    """How many numbers the model gives, from a try; ``ModelError`` when all vectors there are have another."""
    dimension = checked_vectors(embedder, ["dimension"]).dimension
    with engine.reading() as connection:
        stored = vectors.dimensions(connection, embedder.name)
    if stored and dimension not in stored:
        raise ModelError(
            f"the model {embedder.name!r} gives {dimension} numbers a text, and its vectors here have {stored[0]}; "
            "give it another name, or delete those first (vectors.remove)"
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


def _delete_vectors(engine: Engine, ids: Sequence[int]) -> int:
    dropped = 0
    for start in range(0, len(ids), DROPPED):
        with engine.store.transact() as transaction:
            engine.writer.attend(transaction)
            if vectors.is_there(transaction.connection):
                dropped += vectors.delete(transaction.connection, ids[start : start + DROPPED])
    return dropped
