"""``ledger.vectors``: the vectors with which recall searches in addition to words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ledger.core.area import LIMIT, Area, callback, of_all, page
from ledger.core.steps import Stopping
from ledger.domain.errors import RejectedError
from ledger.domain.text import flags
from ledger.types import Cancel, Page
from ledger.vectors import answers, commands
from ledger.vectors.commands import BATCH
from ledger.vectors.embedders import EmbedderLike

if TYPE_CHECKING:
    from ledger.core.engine import Engine


class Vectors(Area):
    """The vectors of this file, for every user: a cache for each model. The log records nothing about vectors."""

    _engine: Engine

    def list(self, *, limit: int = LIMIT, after: str | None = None) -> Page[answers.VectorModel]:
        """List the models that have vectors in this file, by name."""

        def fetch(count: int, start: str | None) -> tuple[answers.VectorModel, ...]:
            return tuple(of_all(commands.vector_models(self._engine), lambda entry: entry.model)(count, start))

        return page("vectors", {}, limit, after, fetch, lambda entry: entry.model)

    def update(
        self,
        *,
        model: EmbedderLike | None = None,
        batch_size: int = BATCH,
        limit: int | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> answers.VectorReport:
        """Make the vectors that texts lack, newest first, and delete the vectors of texts that are gone.

        Args:
            model: A model as ``Ledger.open`` takes it as ``embedder``; None for the model that was given there.
            batch_size: Texts given to the model at a time, 1 or more.
            limit: The largest number of texts; None for all.
            dry_run: Only measure a sample, and return the number of texts, seconds, memory and bytes that all would take.
            timeout: Seconds after which the call stops, between two calls of the model. The vectors made so far stay, ``stopped``
                tells the reason, and the same call goes on later.
            cancel: An event or a function that tells the call to stop, as after ``timeout``.
            progress: Called with (texts done, texts to do).

        Raises:
            ModelError: The model raises an error, or gives no vectors, or vectors of another length than before.
        """
        flags(dry_run=dry_run)
        return commands.embed(
            self._engine,
            model=model,
            batch=batch_size,
            limit=limit,
            dry_run=dry_run,
            stopping=Stopping(timeout, cancel),
            progress=callback(progress),
        )

    def remove(self, model: str) -> answers.VectorReport:
        """Delete the vectors of a model.

        Args:
            model: The model's name, as ``list`` shows it.

        Raises:
            NotFoundError: There are no vectors of this model.
        """
        if not isinstance(model, str):
            raise RejectedError(f"the model is a name, as vectors.list() shows it, and {model!r:.40} is no text")
        return commands.remove_vectors(self._engine, model)
