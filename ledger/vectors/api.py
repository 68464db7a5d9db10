"""``ledger.vectors``: the vectors by which recall searches besides words."""

from __future__ import annotations

from collections.abc import Callable

from ledger import answers
from ledger.domain.errors import RejectedError
from ledger.engine.area import Area, callback
from ledger.engine.paging import LIMIT, of_all, page
from ledger.engine.stopping import Stopping
from ledger.types import Cancel, Page
from ledger.vectors import commands
from ledger.vectors.commands import BATCH
from ledger.vectors.embedders import EmbedderLike


class Vectors(Area):
    """The vectors of this file, of every user: a cache that every model has for itself. Nothing of it is recorded."""

    def list(self, *, limit: int = LIMIT, after: str | None = None) -> Page[answers.VectorModel]:
        """List the models that have vectors here, by name."""

        def fetch(count: int, start: str | None) -> tuple[answers.VectorModel, ...]:
            return tuple(of_all(commands.vector_models(self._engine), lambda each: each.model)(count, start))

        return page("vectors", {}, limit, after, fetch, lambda each: each.model)

    def update(
        self,
        *,
        model: EmbedderLike | None = None,
        batch_size: int = BATCH,
        limit: int | None = None,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> answers.VectorReport:
        """Make the vectors that texts still lack, newest first, and delete those of texts that are no more.

        Args:
            model: What ``Ledger.open`` takes as ``embedder``; None for that one.
            batch_size: Texts given to the model at a time, 1 or more.
            limit: The most texts; None for all.
            timeout: Seconds after which it stops between two calls of the model; what was made stays, ``stopped`` says so, and
                the same call goes on.
            cancel: An event or a function that says when to stop, as with ``timeout``.
            progress: Called with (texts done, texts to do).

        Raises:
            ModelError: The model raises, or gives what are no vectors, or others than before.
        """
        return commands.embed(
            self._engine,
            model=model,
            batch=batch_size,
            limit=limit,
            stopping=Stopping(timeout, cancel),
            progress=callback(progress),
        )

    def remove(self, model: str) -> answers.VectorReport:
        """Delete the vectors of a model.

        Args:
            model: Its name, as ``list`` gives it.

        Raises:
            NotFoundError: There are no vectors of this model.
        """
        if not isinstance(model, str):
            raise RejectedError(f"a model is named as vectors.list() names it, and {model!r:.40} is no name")
        return commands.remove_vectors(self._engine, model)
