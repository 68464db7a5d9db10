"""``ledger.graph``: what is one step from a name, and what memories say of two names."""

from __future__ import annotations

from typing import Unpack

from ledger.answers import Graph, Memory
from ledger.engine.area import Area
from ledger.engine.paging import checked_limit
from ledger.graph import queries
from ledger.memories import commands
from ledger.types import Time, WriteOptions


class RelationsRead(Area):
    """Names and their relations, now or as they were known at a moment."""

    def neighbors(
        self,
        text: str,
        *,
        project: str | None = None,
        relation: str | None = None,
        limit: int = 20,
        extracted: bool = True,
    ) -> Graph:
        """Return the names in a text that memories name, at most 8, and what is one step from them.

        Args:
            text: A name, or a text with names in it.
            project: Only what its memories and those of no project say; None for all.
            relation: Only this relation; "co_occurs" for names that stand in one memory.
            limit: The most neighbors, up to 1,000; relations first, each by the number of memories behind it.
            extracted: False for names that memories were given, without those that only stand in their text.
        """
        count = checked_limit(limit)
        with self._engine.snapshot() as snapshot:
            return queries.neighbors(
                snapshot,
                self._scope.user,
                text,
                project=project,
                relation=relation,
                limit=count,
                supplied_only=not extracted,
            )


class Relations(RelationsRead):
    """Names and their relations."""

    def relate(
        self,
        memory: str,
        subject: str,
        relation: str,
        object: str,
        *,
        valid_from: Time | None = None,
        valid_to: Time | None = None,
        **options: Unpack[WriteOptions],
    ) -> Memory:
        """Record that a memory says something of two names.

        Args:
            memory: The id of the memory.
            subject: The first name.
            relation: What the memory says, like "works_at".
            object: The second name.
            valid_from: From when on it is true; None for as long as the memory is.
            valid_to: Until when, exclusive; a date alone means through that day.
        """
        writer, asker = self._engine.writer, self._scope.asker(options)
        return commands.relate(
            writer, asker, memory, subject, relation, object, valid_from=valid_from, valid_to=valid_to
        )

    def unrelate(
        self,
        memory: str,
        subject: str,
        relation: str,
        object: str,
        *,
        reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> Memory:
        """Remove a relation from a memory.

        Args:
            memory: The id of the memory.
            subject: The first name.
            relation: What the memory states.
            object: The second name.
        """
        asker = self._scope.asker(options)
        return commands.unrelate(self._engine.writer, asker, memory, subject, relation, object, reason)
