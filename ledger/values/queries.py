"""The queries on keyed values: one by its key, a listing in the order of the keys, and the namespaces."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice

from ledger.core.engine import Snapshot
from ledger.core.reads import event_data, text_of
from ledger.domain.errors import NotFoundError
from ledger.types import Json
from ledger.values import answers, rules
from ledger.values.filters import matches as passes
from ledger.values.rules import ValueState
from projections.core.rows import Connection
from projections.views import quarantine, values

BATCH = 64  # values that a filter looks at together

Namespace = tuple[str, ...]


def get(snapshot: Snapshot, user: str, namespace: Namespace, key: str) -> answers.Value | None:
    """Return the value under a key, or None if there is none now."""
    now = snapshot.now()
    state = values.under(snapshot.connection, user, rules.place_of(namespace), key, now)
    return shown(snapshot.connection, state, now) if state is not None and state.is_alive(now) else None


def absent(namespace: Namespace, key: str) -> NotFoundError:
    return NotFoundError(
        f"no value of this user has the key {key!r:.60} in the namespace {rules.path_of(namespace):.200}"
    )


def shown(connection: Connection, state: ValueState, now: str) -> answers.Value:
    held = bool(quarantine.among(connection, [state.content_at]))
    return answers.value(state, content(connection, state), now, quarantined=held)


def content(connection: Connection, state: ValueState) -> str | None:
    """Return the stored content of a value; None if it was erased."""
    if state.size is None:
        return None
    return text_of(connection, event_data(connection, state.content_at).content)


def listing(
    snapshot: Snapshot,
    user: str,
    *,
    prefix: Namespace,
    where: Mapping[str, Json],
    statuses: Collection[str],
    limit: int,
    after: tuple[str, str, str] | None,
) -> list[answers.Value]:
    """Return values at a namespace and below it that pass the filter, in the order of their keys.

    With a filter, values are read until enough of them pass.
    """
    connection, now, passing = snapshot.connection, snapshot.now(), list[answers.Value]()
    place, count = rules.place_of(prefix), max(limit, BATCH) if where else limit
    while len(passing) < limit:
        states = values.listing(
            connection, user=user, now=now, place=place, statuses=statuses, after=after, limit=count
        )
        page = (shown(connection, state, now) for state in states)
        passing += islice((value for value in page if _passes(value, where)), limit - len(passing))
        if len(states) < count:
            break
        last = states[-1]
        after = (last.place or "", last.name or "", last.id)
    return passing


def _passes(value: answers.Value, where: Mapping[str, Json]) -> bool:
    return not where or passes(value.value, where)


def matching(snapshot: Snapshot, matches: Mapping[int, float], where: Mapping[str, Json]) -> list[answers.Value]:
    """Return the values of these rows that pass the filter, in the same order, each with its match."""
    connection, now, passing = snapshot.connection, snapshot.now(), list[answers.Value]()
    states = values.by_row(connection, matches)
    for row, match in matches.items():
        if (state := states.get(row)) is not None:
            value = answers.value(state, content(connection, state), now, match)
            passing += [value] if _passes(value, where) else []
    return passing


def namespaces(
    snapshot: Snapshot, user: str, *, prefix: Namespace, max_depth: int | None, limit: int, after: str | None
) -> list[Namespace]:
    """Return the namespaces that have values now, cut to ``max_depth`` labels, in order."""
    places = values.places(
        snapshot.connection, user, snapshot.now(), place=rules.place_of(prefix), depth=max_depth, after=after
    )
    return [rules.labels_of(place) for place in islice(places, limit)]
