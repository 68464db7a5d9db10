"""The answers about vectors."""

from __future__ import annotations

from ledger.core.call import Answer


class VectorModel(Answer, frozen=True, kw_only=True):
    """A model that has vectors in the file: the number of vectors, of numbers in each, and of bytes in all."""

    model: str
    vectors: int
    dimension: int
    bytes: int = 0


class VectorReport(Answer, frozen=True, kw_only=True):
    """The vectors of a model that were made, kept and deleted, the texts left without one, and the numbers in each vector.

    ``dimension`` is None if no vector was made, and ``bytes`` is the size of the vectors made. ``stopped`` is "timeout" or
    "cancelled" if the call ended early: the same call makes the rest. In a dry run no vector is made: ``left`` counts the texts
    to do, ``seconds`` and ``bytes`` are what they would take by a measured sample, and ``memory_bytes`` is the most memory that
    the process took. ``others`` are the models whose vectors would not be used any more, if this model has none yet.
    """

    model: str
    embedded: int = 0
    kept: int = 0
    dropped: int = 0
    left: int = 0
    seconds: float
    dimension: int | None = None
    bytes: int = 0
    stopped: str = ""
    memory_bytes: int = 0
    others: tuple[VectorModel, ...] = ()
    dry_run: bool = False
