"""The importer of the kind "langgraph": the store of LangGraph, from SQLite or from the rows of PostgreSQL as lines of JSON.

A value keeps its namespace and its key. Both stores write the times of SQLite in UTC without an offset. No importer reaches a
server, so the rows of PostgreSQL come from ``psql -Atc 'SELECT row_to_json(store) FROM store'``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from ledger.importers.records import MovedValue
from ledger.importers.source import DATABASES, NOTHING, Object, Source, clean, decoded, utc

CLIENT = "langgraph"
_COLUMNS = {"prefix", "key", "value", "created_at"}


def recognizes(source: Source) -> bool:
    """Return True for a database with the table of the store, or lines of JSON with its columns."""
    if any(source.columns(part, "store") >= _COLUMNS for part in source.files(*DATABASES)):
        return True
    return any(line.keys() >= _COLUMNS for part in source.files(".jsonl") for line in source.head_objects(part)[:1])


def records(source: Source) -> Iterator[MovedValue]:
    """Yield the values of all namespaces."""
    for part in source.files(*DATABASES, ".jsonl"):
        if source.columns(part, "store") >= _COLUMNS:
            for row in source.rows(part, "store", "created_at, rowid"):
                value = decoded(str(row.get("value")).encode("utf-8", "replace"))
                yield from _stored(source, row, value)
        elif not source.is_database(part):
            for _, line in source.objects(part):
                yield from _stored(source, line, line.get("value", NOTHING))


def _stored(source: Source, row: Object, value: object) -> Iterator[MovedValue]:
    prefix, key = row.get("prefix"), row.get("key")
    if not isinstance(prefix, str) or not prefix or not isinstance(key, str) or value is NOTHING:
        source.skip("a row without a namespace, a key or a value in JSON")
        return
    expires_at = utc(row.get("expires_at"))
    if isinstance(expires_at, datetime) and expires_at <= datetime.now(UTC):
        source.skip("a value that has expired")
        return
    at = utc(row.get("updated_at") or row.get("created_at"))
    value = json.loads(clean(json.dumps(value, ensure_ascii=False)))  # lone surrogates are no text
    namespace = tuple(clean(prefix).split("."))
    yield MovedValue(namespace=namespace, key=clean(key), value=value, at=at, expires_at=expires_at)
