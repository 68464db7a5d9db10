"""The ``ledger.graph`` namespace, which finds the neighbors of a name and records relations between names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from ledger.core.area import Area, checked_limit
from ledger.graph import queries
from ledger.graph.answers import Graph
from ledger.memories import commands
from ledger.memories.answers import Memory
from ledger.types import Time, WriteOptions

if TYPE_CHECKING:
    from ledger.core.engine import Engine


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
        """Return the names in a text that memories name, at most 8, with their neighbors one step away.

        Args:
            text: A name, or a text with names in it.
            project: Only relations from memories of this project and of no project; None for all.
            relation: Only this relation; "co_occurs" for names that stand in the same memory.
            limit: The largest number of neighbors, up to 1,000; relations first, each by the number of memories behind it.
            extracted: False to leave out names that only stand in a memory's text, and were not given with the memory.
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

    _engine: Engine

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
        """Record that a memory states a relation between two names.

        Args:
            memory: The id of the memory.
            subject: The first name.
            relation: The relation that the memory states, like "works_at".
            object: The second name.
            valid_from: When the relation begins, inclusive; None for the beginning of the memory's validity.
            valid_to: When the relation ends, exclusive; a date alone includes that day. None for the end of the memory's
                validity.
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
            relation: The relation that the memory states.
            object: The second name.
        """
        asker = self._scope.asker(options)
        return commands.unrelate(self._engine.writer, asker, memory, subject, relation, object, reason)
