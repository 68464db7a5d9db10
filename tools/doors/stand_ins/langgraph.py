"""The stores of LangGraph that its tests make, with ``LedgerStore`` over a ledger of their own inside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from langgraph.store.base import TTLConfig

from ledger import Ledger
from ledger.doors.langgraph import LedgerStore


def _ledger(index: Mapping[str, Any] | None, path: str | None = None) -> Ledger:
    embed = index["embed"] if index is not None else None

    def characters(texts: list[str]) -> Any:
        assert embed is not None
        return embed.embed_documents(texts)

    embedder = None if embed is None else characters
    if path is None:
        return Ledger.temporary(embedder=embedder)
    return Ledger.open(path, embedder=embedder)


class InMemoryStore(LedgerStore):
    """A store over a temporary ledger, made with the arguments of LangGraph's own store in memory."""

    def __init__(self, *, index: Mapping[str, Any] | None = None) -> None:
        super().__init__(_ledger(index), fields=index.get("fields") if index is not None else None)


class SqliteStore(LedgerStore):
    """A store over a ledger's file, made as LangGraph's own store over SQLite."""

    def __init__(self, ledger: Ledger, index: Mapping[str, Any] | None, ttl: TTLConfig | None = None) -> None:
        super().__init__(ledger, fields=index.get("text_fields") if index is not None else None, ttl=ttl)
        self._seen = set[str]()

    def sweep_ttl(self) -> int:
        """Return the number of items that are gone since the last call: nothing has to be swept."""
        there = {value.id for value in self._ledger.values.list(limit=1_000)}
        gone, self._seen = self._seen - there, there
        return len(gone)

    def start_ttl_sweeper(self) -> None:
        """Do nothing: an item is gone at its end."""

    def stop_ttl_sweeper(self) -> None:
        """Do nothing, as above."""

    def setup(self) -> None:
        """Do nothing: a ledger has its tables from the start."""

    @classmethod
    @contextmanager
    def from_conn_string(
        cls, path: str, *, index: Mapping[str, Any] | None = None, ttl: TTLConfig | None = None
    ) -> Iterator[SqliteStore]:
        with _ledger(index, None if path == ":memory:" else path) as ledger:
            yield cls(ledger, index, ttl)


class AsyncSqliteStore(SqliteStore):
    """The same store made with ``async with``."""

    async def setup(self) -> None:  # type: ignore[override]
        """Do nothing, as above."""

    async def sweep_ttl(self) -> int:  # type: ignore[override]
        """Return what the blocking call does."""
        return SqliteStore.sweep_ttl(self)

    async def start_ttl_sweeper(self) -> None:  # type: ignore[override]
        """Do nothing, as above."""

    async def stop_ttl_sweeper(self) -> None:  # type: ignore[override]
        """Do nothing, as above."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(  # type: ignore[override]
        cls, path: str, *, index: Mapping[str, Any] | None = None, ttl: TTLConfig | None = None
    ) -> AsyncIterator[AsyncSqliteStore]:
        with _ledger(index, None if path == ":memory:" else path) as ledger:
            yield cls(ledger, index, ttl)
