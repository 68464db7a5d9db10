"""The commands on the file's vectors: make the missing ones, and delete those that are no longer needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ledger.core.engine import Engine
from ledger.core.stopping import Stopping
from ledger.domain.errors import ConflictError, ModelError, NotFoundError, RejectedError
from ledger.vectors import answers
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
    """Make the vectors that texts lack, newest first, and delete the vectors of texts that are gone.

    The model is called outside of every lock. If a kill, an error or ``stopping`` interrupts the call, the next call goes on. The
    log records nothing: vectors are a cache, and a rebuild leaves them unchanged.

    Args:
        engine: The open ledger.
        model: A model as ``open`` takes it as ``embedder``; None for the model that was given there.
        progress: Called with (texts done, texts to do).
        batch: Texts given to the model at a time.
        limit: The largest number of texts; None for all.
        stopping: Tells the call to stop between two calls of the model.

    Raises:
        ModelError: The model raises an error, or gives no vectors, or vectors of another length than before.
    """
    _check_writable(engine)
    for name, value, least in (("batch_size", batch, 1), ("limit", limit, 0)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise RejectedError(f"{name} is a whole number from {least}, and {value!r:.40} is not")
    started = time.monotonic()
    embedder = _embedder_of(engine, model)
    dimension = _dimension_of(engine, embedder)
    with engine.reading() as connection:
        survey = vectors.survey(connection, engine.secret, embedder.name, dimension)
    dropped = _delete_vectors(engine, survey.useless)
    keys = survey.lacking[:limit]
    written = done = 0
    stopped = ""
    for start in range(0, len(keys), batch):
        if stopped := stopping.why:
            break
        if progress is not None:
            progress(start, len(keys))
        written += _embed(engine, embedder, keys[start : start + batch], dimension)
        done = min(start + batch, len(keys))
    if progress is not None:
        progress(done, len(keys))
    return answers.VectorReport(
        model=embedder.name,
        embedded=written,
        kept=survey.kept,
        dropped=dropped,
        left=len(survey.lacking) - done,
        seconds=time.monotonic() - started,
        dimension=dimension,
        stopped=stopped,
    )


def vector_models(engine: Engine) -> list[answers.VectorModel]:
    """Return the models that have vectors in this file, by name."""
    with engine.reading() as connection:
        return [
            answers.VectorModel(
                model=name, vectors=count, dimension=max(vectors.dimensions(connection, name), default=0)
            )
            for name, count in vectors.counts(connection).items()
        ]


def remove_vectors(engine: Engine, name: str) -> answers.VectorReport:
    """Delete the vectors of a model, which need not be available any more."""
    _check_writable(engine)
    started = time.monotonic()
    known = [entry.model for entry in vector_models(engine)]
    if name not in known:
        stored = f"there are vectors of {', '.join(map(repr, known))}" if known else "the file has no vectors"
        raise NotFoundError(f"there are no vectors of the model {name!r:.200}; {stored}")
    with engine.reading() as connection:
        ids = sorted(vectors.ids(connection, name))
    dropped = _delete_vectors(engine, ids)
    if engine.vectors is not None:
        engine.vectors.clear()
    return answers.VectorReport(model=name, dropped=dropped, seconds=time.monotonic() - started)


def _check_writable(engine: Engine) -> None:
    if engine.store.readonly:
        raise RejectedError(
            "this ledger was opened for reading (readonly=True), so its vectors cannot be changed", rule="readonly"
        )
    if engine.writer.batching:
        raise ConflictError(
            "vectors cannot be changed inside a batch, because a model would be called under its lock; leave the batch first"
        )


def _embedder_of(engine: Engine, model: EmbedderLike | None) -> Embedder:
    if model is not None:
        return as_embedder(model)
    if engine.vectors is None:
        raise RejectedError("vectors.update needs a model: give it with model=, or open the ledger with embedder=")
    return engine.vectors.embedder


def _dimension_of(engine: Engine, embedder: Embedder) -> int:
    """Return the length of the model's vectors, measured with a trial text.

    Raises:
        ModelError: All stored vectors of the model have another length.
    """
    dimension = checked_vectors(embedder, ["dimension"]).dimension
    with engine.reading() as connection:
        stored = vectors.dimensions(connection, embedder.name)
    if stored and dimension not in stored:
        raise ModelError(
            f"the model {embedder.name!r} gives {dimension} numbers a text, and its stored vectors have {stored[0]}; "
            "give the model another name, or delete the stored vectors first (vectors.remove)"
        )
    return dimension


def _embed(engine: Engine, embedder: Embedder, keys: Sequence[Key], dimension: int) -> int:
    with engine.reading() as connection:
        texts = read(connection, keys)
    if not texts:
        return 0
    new = entries(embedder, engine.secret, texts, dimension)
    with engine.store.transact() as transaction:
        return write(engine.writer, transaction, embedder.name, new)


def _delete_vectors(engine: Engine, ids: Sequence[int]) -> int:
    dropped = 0
    for start in range(0, len(ids), DROPPED):
        with engine.store.transact() as transaction:
            engine.writer.attend(transaction)
            if vectors.is_there(transaction.connection):
                dropped += vectors.delete(transaction.connection, ids[start : start + DROPPED])
    return dropped
