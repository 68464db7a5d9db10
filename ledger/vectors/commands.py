"""The commands on the file's vectors: make the missing ones, and delete those that are no longer needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from ledger.core.engine import Engine
from ledger.core.steps import Stopping
from ledger.domain.errors import ConflictError, ModelError, NotFoundError, RejectedError
from ledger.log import platform
from ledger.vectors import answers
from ledger.vectors.embedders import Embedder, EmbedderLike, as_embedder, checked_vectors, prefixes_of
from ledger.vectors.embedding import entries, read, write
from ledger.vectors.part import SEARCH
from projections.search import vectors
from projections.search.vectors import Key

BATCH = 256  # texts given to a model at a time
JOB_BATCH = 64  # the same in the background: after so many texts the job can stop
SAMPLE = 32  # texts whose vectors are made to measure the cost of all
DROPPED = 2_000  # vectors deleted in one transaction

_FLOAT_BYTES = 4

Progress = Callable[[int, int], None]


def embed(
    engine: Engine,
    *,
    model: EmbedderLike | None = None,
    progress: Progress | None = None,
    batch: int = BATCH,
    limit: int | None = None,
    dry_run: bool = False,
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
        dry_run: Only return the cost.
        stopping: Tells the call to stop between two calls of the model.

    Raises:
        ModelError: The model raises an error, or gives no vectors, or vectors of another length than before.
    """
    _check_writable(engine)
    for name, value, least in (("batch_size", batch, 1), ("limit", limit, 0)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise RejectedError(f"{name} is a whole number from {least}, and {value!r:.40} is not")
    if dry_run:
        return _cost(engine, model, limit)
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
        bytes=written * dimension * _FLOAT_BYTES,
        stopped=stopped,
    )


def _cost(engine: Engine, model: EmbedderLike | None, limit: int | None) -> answers.VectorReport:
    """Return what ``embed`` would cost, measured on ``SAMPLE`` texts without a vector; nothing is stored.

    The sample is spread evenly over all these texts, so that it has short and long ones in their proportion.
    """
    embedder = _embedder_of(engine, model)
    dimension = _dimension_of(engine, embedder)  # which also loads the model
    with engine.reading() as connection:
        survey = vectors.survey(connection, engine.secret, embedder.name, dimension)
        keys = survey.lacking[:limit]
        texts = read(connection, keys[:: max(1, len(keys) // SAMPLE)][:SAMPLE])
    started = time.monotonic()
    for text in texts:
        entries(embedder, engine.secret, [text], dimension)
    seconds = (time.monotonic() - started) / max(1, len(texts)) * len(keys)
    is_change = not survey.kept and bool(keys)
    return answers.VectorReport(
        model=embedder.name,
        kept=survey.kept,
        left=len(keys),
        seconds=seconds,
        dimension=dimension,
        bytes=len(keys) * dimension * _FLOAT_BYTES,
        memory_bytes=platform.peak_memory_bytes(),
        others=tuple(each for each in vector_models(engine) if each.model != embedder.name) if is_change else (),
        dry_run=True,
    )


class TextsToEmbed(Struct, frozen=True):
    """The texts without a vector of the ledger's model at a position of the log, and the ids of useless vectors."""

    position: int
    lacking: list[Key]
    useless: list[int]


def pending(engine: Engine) -> TextsToEmbed | None:
    """Return what the background job has to do; None if nothing. No model is called for the answer.

    The first look of a process compares every text with the digest of its vector; later looks those that events touched.
    """
    if (search := engine.parts.get(SEARCH)) is None:
        return None
    with engine.reading() as connection:
        position = connection.execute("SELECT max(position) FROM main.events").fetchone()[0] or 0
        rows = vectors.changed(connection, search.whole_at, position)
        survey = vectors.survey(connection, engine.secret, search.embedder.name, None, rows)
    if survey.lacking or survey.useless:
        return TextsToEmbed(position, survey.lacking, survey.useless)
    search.whole_at = position
    return None


def embed_pending(engine: Engine, work: TextsToEmbed, stopping: Stopping) -> Iterator[int]:
    """Make the vectors of pending texts, newest first, and yield the number of vectors after each batch.

    Texts that got their vector meanwhile are left out.

    Raises:
        ModelError: As for ``embed``; the vectors of the batches before stay.
    """
    search = engine.parts.get(SEARCH)
    assert search is not None
    _delete_vectors(engine, work.useless)
    dimension = _dimension_of(engine, search.embedder) if work.lacking else 0
    for start in range(0, len(work.lacking), JOB_BATCH):
        if stopping.why:
            return
        batch = work.lacking[start : start + JOB_BATCH]
        rows = {letter: [row for corpus, row in batch if corpus == letter] for letter in vectors.CORPORA}
        with engine.reading() as connection:
            lacking = vectors.survey(connection, engine.secret, search.embedder.name, None, rows).lacking
        yield _embed(engine, search.embedder, lacking, dimension)
    search.whole_at = work.position


def vector_models(engine: Engine) -> list[answers.VectorModel]:
    """Return the models that have vectors in this file, by name."""
    with engine.reading() as connection:
        return [
            answers.VectorModel(
                model=name, vectors=count, dimension=max(vectors.dimensions(connection, name), default=0), bytes=size
            )
            for name, (count, size) in vectors.sizes(connection).items()
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
    if (search := engine.parts.get(SEARCH)) is not None:
        search.clear()
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
        return as_embedder(model, prefixes_of(engine.settings))
    if (search := engine.parts.get(SEARCH)) is None:
        raise RejectedError("vectors.update needs a model: give it with model=, or open the ledger with embedder=")
    return search.embedder


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
