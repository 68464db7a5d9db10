"""One hash over everything that the projections say, for telling whether two ways of folding came to the same."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Container, Mapping

import msgspec

from projections.projector import projections
from projections.rows import Table

CHUNK = 500  # rows encoded at a time; part of what the digest is


def digest(connection: sqlite3.Connection, secret: bytes, prefix: str = "") -> str:
    """SHA-256 (hex) over the rows of every projection in the order of their keys; text indexes are derived and outside it."""
    return digest_of({each.name: projection_digest(connection, each.tables, prefix) for each in projections(secret)})


def digest_of(parts: Mapping[str, str]) -> str:
    """The same, of the hashes over each projection."""
    total = hashlib.sha256()
    for projection in sorted(projections(b""), key=lambda each: each.name):
        total.update(f"{projection.name}/{projection.version}:{parts[projection.name]}\n".encode())
    return total.hexdigest()


def digests_at(connection: sqlite3.Connection, position: int, names: Container[str]) -> dict[str, str]:
    """The hashes over some projections as they stand at a position; of none where they stand at another by now."""
    connection.execute("BEGIN")
    try:
        if connection.execute("SELECT position FROM checkpoint").fetchone() != (position,):
            return {}
        wanted = (each for each in projections(b"") if each.name in names)
        return {each.name: projection_digest(connection, each.tables) for each in wanted}
    finally:
        connection.execute("ROLLBACK")


def projection_digest(connection: sqlite3.Connection, tables: tuple[object, ...], prefix: str = "") -> str:
    """The hash over one projection's tables."""
    total, encode = hashlib.sha256(), msgspec.json.encode
    for table in tables:
        if isinstance(table, Table) and not table.derived:
            total.update(table.name.encode())
            sql = f"SELECT * FROM {prefix}{table.name} ORDER BY {', '.join(table.key)}"
            rows = connection.execute(sql)
            while chunk := rows.fetchmany(CHUNK):
                total.update(encode(list(map(tuple, chunk))))
    return total.hexdigest()
