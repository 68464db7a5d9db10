"""The statements of a source that name their successors: none of them is active before its successor has come."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from ledger.importers.records import MovedEnding, MovedStatement, Record


class Successions:
    """Statements that are yielded in the order of the source, with the keys of those whose successors have not come yet.

    A statement that waits for its successor is a candidate, which the successor supersedes. Of several statements with one
    successor the first becomes its predecessor, and the others end at the same time.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason
        self._seen, self._waiting = set[str](), dict[str, list[tuple[str, object]]]()

    def place(self, statement: MovedStatement, successor: str | None = None) -> Iterator[Record]:
        """Yield a statement, and the ends of those that it replaces.

        Args:
            statement: A statement in its status, with ``ended_at`` if it is over.
            successor: The key of the statement that took its place.
        """
        key, replaced = statement.key, self._waiting.pop(statement.key, [])
        self._seen.add(key)
        if successor is not None and successor not in self._seen:
            self._waiting.setdefault(successor, []).append((key, statement.ended_at))
            statement = replace(statement, status="candidate", ended_at=None)
        yield replace(statement, supersedes=replaced[0][0]) if replaced else statement
        for older, _ in replaced:  # counts where the new statement was known, or was left out
            yield self._end(older, statement.at)

    def rest(self) -> Iterator[Record]:
        """Yield the ends of statements whose successors are not in the source."""
        for replaced in self._waiting.values():
            for older, at in replaced:
                yield self._end(older, at)

    def _end(self, key: str, at: object) -> MovedEnding:
        return MovedEnding(key=key, status="superseded", at=at, reason=self._reason)
