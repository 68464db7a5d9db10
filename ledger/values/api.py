"""The namespace ``ledger.values``: put, read, list, move, remove and restore values under namespaces and keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack, get_args

import msgspec

from ledger.core.area import LIMIT, Area, of_all, page
from ledger.domain.errors import RejectedError
from ledger.domain.text import check_text, plural
from ledger.types import Json, Page, Time, ValueStatus, WriteOptions
from ledger.values import commands, queries
from ledger.values.answers import Value
from ledger.values.filters import checked_filter
from ledger.values.rules import checked_fields, checked_key, checked_namespace, is_place, place_of

if TYPE_CHECKING:
    from ledger.core.engine import Engine


class ValuesRead(Area):
    """The keyed values of a user, now or as they were at a moment."""

    def get(self, namespace: Iterable[str], key: str) -> Value:
        """Return the value under a key.

        Args:
            namespace: The labels of the namespace, from the outermost; () for the root.
            key: The key within the namespace.

        Raises:
            NotFoundError: There is no value under the key, or it was removed or has expired.
        """
        labels, name = checked_namespace(namespace), checked_key(key)
        with self._engine.snapshot() as snapshot:
            answer = queries.get(snapshot, self._scope.user, labels, name)
        if answer is None:
            raise queries.absent(labels, name)
        return answer

    def list(
        self,
        prefix: Iterable[str] = (),
        *,
        where: Mapping[str, Json] | None = None,
        question: str | None = None,
        statuses: Iterable[ValueStatus] = ("active",),
        limit: int = LIMIT,
        after: str | None = None,
    ) -> Page[Value]:
        """List the values of a namespace and of those below it, in the order of their keys.

        Args:
            prefix: The labels with which the namespaces begin; () for all of them.
            where: Only objects with these fields: {"city": "Porto", "score": {"$gte": 5}}. The operators are $eq, $ne, $gt,
                $gte, $lt and $lte; a field within an object is named by an object, {"at": {"lat": 1}}, and never by a
                dot; a missing field is None.
            question: A question by which the values are searched, best first, at most 500; None for all values.
            statuses: The statuses to list, of "active", "expired" and "removed"; an empty list for all three.

        Raises:
            RejectedError: A limit, cursor, filter or status is invalid, or a question is asked for other than active values.
        """
        labels, wanted = checked_namespace(prefix, "prefix"), checked_filter(where)
        chosen = plural("statuses", statuses, get_args(ValueStatus)) or get_args(ValueStatus)
        filters: dict[str, object] = {"user": self._scope.user, "prefix": labels, "where": wanted, "statuses": chosen}
        if question is not None:
            if chosen != ("active",):
                raise RejectedError("a question finds active values; leave out statuses, or the question")
            matches = self._matching(
                check_text("question", question, max_bytes=2**20, blank_allowed=True), labels, wanted
            )
            return page("values", filters | {"question": question}, limit, after, of_all(matches, _id), _id)

        def fetch(count: int, start: str | None) -> list[Value]:
            with self._engine.snapshot() as snapshot:
                return queries.listing(
                    snapshot,
                    self._scope.user,
                    prefix=labels,
                    where=wanted,
                    statuses=chosen,
                    limit=count,
                    after=None if start is None else _read_cursor(start),
                )

        return page("values", filters, limit, after, fetch, _cursor)

    def namespaces(
        self,
        prefix: Iterable[str] = (),
        *,
        max_depth: int | None = None,
        limit: int = LIMIT,
        after: str | None = None,
    ) -> Page[tuple[str, ...]]:
        """List the namespaces that have values now, in order.

        Args:
            prefix: The labels with which the namespaces begin; () for all of them.
            max_depth: The most labels, 1 or more: a longer namespace is cut, and listed once; None for whole namespaces.
        """
        labels = checked_namespace(prefix, "prefix")
        if max_depth is not None and (isinstance(max_depth, bool) or not isinstance(max_depth, int) or max_depth < 1):
            raise RejectedError(f"max_depth is a whole number from 1, and {max_depth!r:.40} is not", rule="limit")

        def fetch(count: int, start: str | None) -> list[tuple[str, ...]]:
            if start is not None and not is_place(start):
                raise RejectedError("this cursor names no namespace: pass the value of page.next")
            with self._engine.snapshot() as snapshot:
                return queries.namespaces(
                    snapshot, self._scope.user, prefix=labels, max_depth=max_depth, limit=count, after=start
                )

        filters: dict[str, object] = {"user": self._scope.user, "prefix": labels, "max_depth": max_depth}
        return page("namespaces", filters, limit, after, fetch, place_of)

    def _matching(self, question: str, prefix: tuple[str, ...], where: Mapping[str, Json]) -> Sequence[Value]:
        """Return the values at a namespace and below it that match the question and pass the filter, best match first."""
        from ledger.recall import recalling

        matches = recalling.values_about(self._engine, self._scope.user, question, prefix)
        with self._engine.snapshot() as snapshot:
            return queries.matching(snapshot, matches, where)


class Values(ValuesRead):
    """The keyed values of a user."""

    _engine: Engine

    def put(
        self,
        namespace: Iterable[str],
        key: str,
        value: Json,
        *,
        index: bool = True,
        fields: Iterable[str] | None = None,
        expires_at: Time | None = None,
        **options: Unpack[WriteOptions],
    ) -> Value:
        """Put a value under a key, in place of any value before; ``get`` returns the value unchanged.

        With ``expected=0`` the key must have no value now. With another position the key must not have changed after it.

        Args:
            namespace: The labels of the namespace, from the outermost; () for the root. At most 32 of 1,024 bytes.
            key: The key within the namespace, at most 1,024 bytes.
            value: A text, or JSON: a dictionary, a list, a number, True, False or None; at most 10 MiB.
            index: False to leave the value out of every search.
            fields: The fields of an object by which it is searched, ["title", "at.city"]: a dot goes into an object, and each
                item of a list counts; None for all. No other field is found by its words.
            expires_at: The time from which on the value is no longer returned; None for never.

        Raises:
            ConflictError: The key was changed after ``expected``, or has a value although 0 was expected.
            RejectedError: The value is no JSON, is too large, or holds a secret or a threat: a value is never rewritten.
        """
        return commands.put(
            self._engine,
            self._scope.asker(options),
            checked_namespace(namespace),
            checked_key(key),
            value,
            indexed=index,
            fields=checked_fields(fields),
            expires_at=expires_at,
        )

    def move(
        self,
        namespace: Iterable[str],
        key: str,
        to_namespace: Iterable[str],
        to_key: str,
        *,
        reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> Value:
        """Give a value another key; its id and its history stay.

        Args:
            namespace: The labels of the namespace, from the outermost; () for the root.
            key: The key within the namespace.
            to_namespace: The labels of the new namespace.
            to_key: The new key.

        Raises:
            NotFoundError: There is no value under the key.
            ConflictError: There is a value under the new key.
        """
        return commands.move(
            self._engine,
            self._scope.asker(options),
            checked_namespace(namespace),
            checked_key(key),
            checked_namespace(to_namespace, "to_namespace"),
            checked_key(to_key, "to_key"),
            reason,
        )

    def remove(self, namespace: Iterable[str], key: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Value:
        """Take a value out of use; ``restore`` brings it back, and so does a put under its key.

        Args:
            namespace: The labels of the namespace, from the outermost; () for the root.
            key: The key within the namespace.

        Raises:
            NotFoundError: There never was a value under the key.
        """
        return commands.remove(
            self._engine, self._scope.asker(options), checked_namespace(namespace), checked_key(key), reason
        )

    def restore(
        self, namespace: Iterable[str], key: str, *, reason: str = "", **options: Unpack[WriteOptions]
    ) -> Value:
        """Bring the value back that was removed from a key or expired there; an ``expires_at`` in the past is dropped.

        Args:
            namespace: The labels of the namespace, from the outermost; () for the root.
            key: The key within the namespace.

        Raises:
            NotFoundError: There never was a value under the key.
            ConflictError: Another value has the key now.
        """
        return commands.restore(
            self._engine, self._scope.asker(options), checked_namespace(namespace), checked_key(key), reason
        )


def _id(value: Value) -> str:
    return value.id


def _cursor(value: Value) -> str:
    return msgspec.json.encode((place_of(value.namespace or ()), value.key, value.id)).decode()


def _read_cursor(start: str) -> tuple[str, str, str]:
    try:
        return msgspec.json.decode(start, type=tuple[str, str, str])
    except (msgspec.DecodeError, TypeError):
        raise RejectedError("this cursor names no value: pass the value of page.next") from None
