"""The importer of the kind "astrocyte": its SQLite database, or the rows of its PostgreSQL table as lines of JSON.

Memories lie in a bank, and the observations made from them in the bank ``<bank>::obs``. The times of an observation's evidence
are here those of its sources, so that old memories do not look new. No importer reaches a server, so the rows of PostgreSQL come
from ``psql -Atc "SELECT to_jsonb(v) - 'embedding' FROM astrocyte_vectors AS v"``.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from ledger.importers.records import MovedObservation, MovedStatement, Record
from ledger.importers.source import (
    DATABASES,
    Object,
    Part,
    Source,
    decoded,
    json_list,
    json_object,
    number_of,
    pairs,
    text_of,
    utc,
)

CLIENT = "astrocyte"
CONFIDENCE = 0.7  # of an observation that has none, as there
_COLUMNS = {"id", "bank_id", "text", "metadata", "fact_type", "retained_at"}
_TABLES = frozenset(("astrocyte_vectors", "astrocyte_meta", "astrocyte_tombstones"))
_OURS = "_obs_"  # the beginning of the keys of metadata that astrocyte itself sets
_ROWS = """
SELECT id, bank_id, text, metadata, tags, fact_type, occurred_at, retained_at, forgotten_at FROM astrocyte_vectors
ORDER BY fact_type IS 'observation', retained_at, id
"""


def recognizes(source: Source) -> bool:
    """Return True for a database of astrocyte, or lines of JSON with the columns of its table."""
    if any(source.columns(part, "astrocyte_vectors") >= _COLUMNS for part in source.files(*DATABASES)):
        return True
    return any(line.keys() >= _COLUMNS for part in source.files(".jsonl") for line in source.head_objects(part)[:1])


def records(source: Source) -> Iterator[Record]:
    """Yield the memories, and then the observations."""
    for part in source.files(*DATABASES, ".jsonl"):
        if source.columns(part, "astrocyte_vectors") >= _COLUMNS:
            for row in source.select(part, _ROWS):
                yield from _observation(source, row) if _is_observation(row) else _memory(source, row)
            if gone := source.count(part, "astrocyte_tombstones"):
                source.skip("a memory that was erased there", gone)
            if vectors := source.count(part, "astrocyte_vectors"):
                source.skip("a vector, which does not say of which model it is", vectors)
            source.meet_tables(part, _TABLES)
            source.read_bytes += part.size
        elif not source.is_database(part):
            for _, row in source.objects(part):
                if not _is_observation(row):
                    yield from _memory(source, row)
            yield from _later(source, part)


def _later(source: Source, part: Part) -> Iterator[Record]:
    """Yield the observations of a file of lines, which is read once more for them."""
    for _, line in Source(part.path).lines(part):
        row = decoded(line)
        if isinstance(row, dict) and _is_observation(row):
            yield from _observation(source, row)


def _is_observation(row: Object) -> bool:
    return row.get("fact_type") == "observation" and "_obs_source_ids" in json_object(row.get("metadata"))


def _memory(source: Source, row: Object) -> Iterator[MovedStatement]:
    id, text = text_of(row.get("id")), row.get("text")
    if not id or not isinstance(text, str):
        source.skip("a memory without an id or a text")
        return
    metadata, kind = json_object(row.get("metadata")), row.get("fact_type")
    if text_of(row.get("metadata")) and not metadata:
        source.note(id, "its metadata is no JSON object, and is left out")
    more = {name: value for name, value in metadata.items() if not name.startswith("_")}
    is_over = row.get("forgotten_at") is not None
    yield MovedStatement(
        key=_key(id),
        content=text,
        kind="episodic" if kind == "experience" else "knowledge",
        status="retracted" if is_over else "active",
        at=_time(row.get("occurred_at")) or _time(row.get("retained_at")),
        ended_at=_time(row.get("forgotten_at")),
        reason="forgotten in astrocyte" if is_over else "",
        confidence=number_of(metadata.get("confidence")),
        tags=_tags(json_list(row.get("tags"))),
        channel="agent",
        metadata=pairs({"astrocyte": id, "bank": row.get("bank_id"), "fact_type": kind, **more}),
    )


def _observation(source: Source, row: Object) -> Iterator[MovedObservation]:
    id, text, metadata = text_of(row.get("id")), row.get("text"), json_object(row.get("metadata"))
    scope = text_of(metadata.get(f"{_OURS}scope"))
    confidence = number_of(metadata.get(f"{_OURS}confidence"))
    if row.get("forgotten_at") is not None:
        source.skip("an observation that was forgotten there")
    elif not id or not isinstance(text, str) or not text.strip():
        source.skip("an observation without an id or words")
    else:
        yield MovedObservation(
            key=_key(id),
            content=text,
            sources=tuple(_key(str(each)) for each in json_list(metadata.get(f"{_OURS}source_ids"))),
            confidence=CONFIDENCE if confidence is None else confidence,
            tags=() if scope.startswith("bank:") else _tags(scope.split("|")),
            at=utc(metadata.get(f"{_OURS}updated_at")) or _time(row.get("retained_at")),
        )


def _key(id: str) -> str:
    return f"astrocyte:{id}"


def _tags(values: list[object] | list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tag for each in values if (tag := text_of(each)) and len(tag) <= 100))


def _time(value: object) -> object:
    """Return a time of the table: microseconds since 1970 in SQLite, a text in the rows of PostgreSQL."""
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
        except OverflowError:
            return str(value)
    return utc(value)
