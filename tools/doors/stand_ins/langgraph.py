"""The stores of LangGraph that its tests make, with ``LedgerStore`` over a ledger of their own inside."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ledger import Ledger
from ledger.doors.langgraph import LedgerStore


def _ledger(index: Mapping[str, Any] | None, path: str | None = None) -> Ledger:
    embed = index["embed"] if index is not None else None

    def characters(texts: list[str]) -> list[list[float]]:
        return embed.embed_documents(texts)

    embedder = None if embed is None else characters
    if path is None:
        return Ledger.temporary(embedder=embedder)
    return Ledger.open(path, embedder=embedder)


class InMemoryStore(LedgerStore):
    """A store over a temporary ledger, made with the arguments of LangGraph's own store in memory."""

    def __init__(self, *, index: Mapping[str, Any] | None = None) -> None:
        super().__init__(_ledger(index), fields=index.get("fields") if index is not None else None)
