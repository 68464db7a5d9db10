"""LangGraph's ``BaseStore`` over the keyed values of a ledger: every put and every deletion is a version that can be undone.

Needs the extra ``langgraph``. Items are values: ``ledger.values``, the history, ``undo`` and ``erase`` work on them as on any.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar, cast

from ledger import ConflictError, NotFoundError, RejectedError
from ledger.doors.given import bound, to_the_end
from ledger.types import Json

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        InvalidNamespaceError,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        tokenize_path,
        validate_op_namespace,
    )
except ImportError as error:
    raise ImportError('ledger.doors.langgraph needs LangGraph: pip install "belief-ledger[langgraph]"') from error

if TYPE_CHECKING:
    from ledger import Ledger, Value

PAGE = 1_000
REFRESHED = 10  # times within a time to live at most: a refresh is a version of the value
MOST_MINUTES = 1_000 * 366 * 24 * 60  # of a time to live: a thousand years
_LARGEST = sys.float_info.max

Namespace = tuple[str, ...]
T = TypeVar("T")


class LedgerStore(BaseStore):
    """The keyed values of a ledger's user as a store of LangGraph.

    A ledger holds one user's values: bind a ledger for each user with ``ledger.bind(user=…)``, or keep the users apart by
    namespaces. The ledger stays the caller's: nothing here closes it. All calls may come from any thread, and the awaited
    ones run on a thread of their own.

    Args:
        ledger: An open ledger. Its embedder, if it has one, is the store's.
        fields: The fields by which items are searched if ``put`` names none, in LangGraph's notation: ["title", "notes[*].text"];
            None for all fields.
        ttl: LangGraph's settings for the time to live: ``default_ttl`` in minutes, and ``refresh_on_read``.
    """

    supports_ttl = True

    def __init__(self, ledger: Ledger, *, fields: Sequence[str] | None = None, ttl: TTLConfig | None = None) -> None:
        self._ledger = bound(ledger, self, client="langgraph", channel="agent")
        self._fields = fields
        self.ttl_config: TTLConfig | None = ttl

    # --- the contract --------------------------------------------------------------------------------------------

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer the reads, then write the puts and deletions in one commit; of several puts under one key the last counts.

        Raises:
            InvalidNamespaceError: A namespace is a text, or a label is empty, no text, or has a dot in it; nothing was read or
                written.
            RejectedError: A value is no JSON, too large, or holds a secret or a threat; nothing was written.
        """
        operations = list(ops)
        for op in operations:
            _check_names(op)
        results = [self._answer(op) for op in operations]
        puts = {(tuple(op.namespace), op.key): op for op in operations if isinstance(op, PutOp)}
        if puts:
            with self._ledger.batch(whole=True):
                for (namespace, key), op in puts.items():
                    self._put(namespace, key, op)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same as ``batch`` on another thread; a task that is cancelled ends when the batch has ended."""
        operations = list(ops)
        return await to_the_end(lambda: self.batch(operations))

    def _answer(self, op: Op) -> Result:
        match op:
            case GetOp():
                return self._get(tuple(op.namespace), op.key, refresh=op.refresh_ttl)
            case SearchOp():
                return self._search(op)
            case ListNamespacesOp():
                return list(_window(self._namespaces(op), op))
            case PutOp():
                return None
        raise TypeError(f"no operation of a store: {op!r:.80}")

    # --- writes --------------------------------------------------------------------------------------------------

    def _put(self, namespace: Namespace, key: str, op: PutOp) -> None:
        values = self._ledger.values
        if op.value is None:
            with suppress(NotFoundError):  # in the contract, to delete nothing is no error
                values.remove(namespace, key)
            return
        if not isinstance(op.value, Mapping):
            raise RejectedError(
                f"the value of {key!r:.60} is no object but {op.value!r:.40}; an item is a dict of JSON"
            )
        paths = self._fields if op.index is None else op.index or []
        values.put(
            namespace,
            key,
            cast("Json", dict(op.value)),
            index=paths is None or len(paths) > 0,
            fields=None if paths is None else _fields_of(paths),
            expires_at=None if op.ttl is None else _now() + _minutes(op.ttl),
        )

    def _refresh(self, values: Iterable[Value]) -> None:
        """Let values live for their time again from now on, unless they were refreshed just now or somebody changed them.

        A refresh that the ledger refuses fails no read: the value keeps its end.
        """
        now = _now()
        due = [
            value for value in values if value.expires_at and now - _time(value.updated_at) >= _ttl(value) / REFRESHED
        ]
        if not due:
            return
        refused = suppress(ConflictError, RejectedError)
        with refused, self._ledger.batch(whole=True):
            for value in due:
                with refused:
                    self._ledger.values.put(
                        value.namespace or (),
                        value.key or "",
                        value.value,
                        index=value.indexed,
                        fields=value.fields or None,
                        expires_at=now + _ttl(value),
                        expected=value.position,
                    )

    # --- reads ---------------------------------------------------------------------------------------------------

    def _get(self, namespace: Namespace, key: str, *, refresh: bool) -> Item | None:
        try:
            value = self._ledger.values.get(namespace, key)
        except NotFoundError:
            return None
        if not _is_item(value):
            return None
        if refresh:
            self._refresh([value])
        return Item(
            value=cast("dict[str, object]", value.value),
            key=key,
            namespace=namespace,
            created_at=_time(value.recorded_at),
            updated_at=_time(value.updated_at),
        )

    def _search(self, op: SearchOp) -> list[SearchItem]:
        """Return items below a namespace: those that match the query first, then the others in the order of their keys."""
        values, prefix, where = self._ledger.values, tuple(op.namespace_prefix), _filter(op.filter)
        if where is None:
            return []
        everything = values.list(prefix, where=where, limit=PAGE)
        items: Iterable[tuple[Value, float | None]]
        if op.query and op.query.strip():
            matches = {value.id: value for value in values.list(prefix, where=where, question=op.query, limit=PAGE)}
            rest = (value for value in everything.all() if value.id not in matches)
            scored = ((value, value.match) for value in matches.values())
            items = chain(scored, ((value, 0.0 if value.indexed else None) for value in rest))
        else:
            items = ((value, None) for value in everything.all())
        result = list(_window((pair for pair in items if _is_item(pair[0])), op))
        if op.refresh_ttl:
            self._refresh(value for value, _ in result)
        return [
            SearchItem(
                namespace=value.namespace or (),
                key=value.key or "",
                value=cast("dict[str, object]", value.value),
                created_at=_time(value.recorded_at),
                updated_at=_time(value.updated_at),
                score=score,
            )
            for value, score in result
        ]

    def _namespaces(self, op: ListNamespacesOp) -> Iterator[Namespace]:
        """Yield the namespaces that meet the conditions, cut to the depth, in the order of the ledger."""
        conditions, before = op.match_conditions or (), None
        prefix = next((_literal(known.path) for known in conditions if known.match_type == "prefix"), ())
        for namespace in self._ledger.values.namespaces(prefix, limit=PAGE).all():
            if all(_meets(namespace, condition) for condition in conditions):
                cut = namespace[: op.max_depth]
                if cut != before:  # namespaces with the same beginning follow each other
                    yield cut
                before = cut


def _check_names(op: Op) -> None:
    named = op.namespace if isinstance(op, GetOp | PutOp) else op.namespace_prefix if isinstance(op, SearchOp) else ()
    if isinstance(named, str):  # its characters would be labels
        raise InvalidNamespaceError(f"a namespace is a tuple of labels, such as ({named!r:.60},), and no text")
    validate_op_namespace(op)


def _is_item(value: Value) -> bool:
    """Return True if a value is an object that nobody has put in quarantine."""
    return isinstance(value.value, dict) and not value.quarantined


def _window(items: Iterable[T], op: SearchOp | ListNamespacesOp) -> Iterator[T]:
    start = max(op.offset, 0)
    return islice(items, start, start + max(op.limit, 0))


def _literal(path: Sequence[str]) -> Namespace:
    """Return the labels of a path before its first wildcard."""
    return tuple(path[: path.index("*")] if "*" in path else path)


def _meets(namespace: Namespace, condition: MatchCondition) -> bool:
    """Return True if a namespace begins or ends as a condition wants it; "*" stands for any one label."""
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))


def _fields_of(paths: Iterable[str]) -> list[str] | None:
    """Return paths in LangGraph's notation as names of fields; None for the whole object.

    A field of one item of a list stands for that field of all items: "notes[0].text" is notes.text.
    """
    fields = list[str]()
    for path in paths:
        names = [""]
        for token in tokenize_path(path) if path not in ("", "$") else []:
            if token == "*":
                break  # everything below
            if token.startswith("{"):
                names = [f"{name}.{choice.strip()}" for name in names for choice in token.strip("{}").split(",")]
            elif not token.startswith("["):
                names = [f"{name}.{token}" for name in names]
        if names == [""]:
            return None
        fields += (name.removeprefix(".") for name in names)
    return fields


def _filter(wanted: Mapping[str, object] | None) -> Mapping[str, Json] | None:
    """Return a filter of LangGraph as one of the ledger's, in which every number is JSON; None if nothing can pass."""
    where = dict[str, Json]()
    for name, condition in (wanted or {}).items():
        if isinstance(condition, float) and math.isnan(condition):
            return None
        if isinstance(condition, Mapping) and any(
            math.isnan(part) for part in condition.values() if isinstance(part, float)
        ):
            return None
        where[name] = cast("Json", _bounded(condition))
    return where


def _bounded(part: object) -> object:
    """Return a part of a filter with infinities and numbers beyond 64 bits as the largest number of JSON."""
    if isinstance(part, Mapping):
        return {name: _bounded(value) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return [_bounded(value) for value in part]
    if isinstance(part, float) or (isinstance(part, int) and abs(part) >= 2**63):
        return float(min(max(part, -int(_LARGEST)), int(_LARGEST)))
    return part


def _minutes(ttl: object) -> timedelta:
    """Return the time to live of a put."""
    if not isinstance(ttl, int | float) or isinstance(ttl, bool) or not 0 < ttl <= MOST_MINUTES:
        raise RejectedError(f"ttl is a number of minutes above 0 and up to {MOST_MINUTES:,}, and {ttl!r:.40} is not")
    return timedelta(minutes=ttl)


def _ttl(value: Value) -> timedelta:
    """Return the time to live of a value that expires."""
    return _time(value.expires_at or value.updated_at) - _time(value.updated_at)


def _now() -> datetime:
    return datetime.now(UTC)


def _time(stored: str) -> datetime:
    return datetime.fromisoformat(stored)
