"""The answers about vectors."""

from __future__ import annotations

from ledger.core.answer import Answer


class VectorModel(Answer, frozen=True, kw_only=True):
    """A model that has vectors in the file: the number of vectors, and of numbers in each."""

    model: str
    vectors: int
    dimension: int


class VectorReport(Answer, frozen=True, kw_only=True):
    """The vectors of a model that were made, kept and deleted, the texts left without one, and the numbers in each vector.

    ``dimension`` is None if no vector was made. ``stopped`` is "timeout" or "cancelled" if the call ended early: the same call
    makes the rest.
    """

    model: str
    embedded: int = 0
    kept: int = 0
    dropped: int = 0
    left: int = 0
    seconds: float
    dimension: int | None = None
    stopped: str = ""
