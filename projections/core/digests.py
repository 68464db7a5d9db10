"""One hash over everything that the projections say, for telling whether two ways of folding came to the same."""

from __future__ import annotations

import hashlib
import sqlite3

import msgspec

from projections.core.projector import projections
from projections.core.rows import Table

CHUNK = 500  # rows encoded at a time; part of what the digest is


def digest(connection: sqlite3.Connection, secret: bytes, prefix: str = "") -> str:
    """SHA-256 (hex) over the rows of every projection in the order of their keys; text indexes are derived and outside it."""
    total = hashlib.sha256()
    for projection in sorted(projections(secret), key=lambda each: each.name):
        found = projection_digest(connection, projection.tables, prefix)
        total.update(f"{projection.name}/{projection.version}:{found}\n".encode())
    return total.hexdigest()


def projection_digest(connection: sqlite3.Connection, tables: tuple[object, ...], prefix: str = "") -> str:
    """The hash over one projection's tables."""
    total, encode = hashlib.sha256(), msgspec.json.encode
    for table in tables:
        if isinstance(table, Table) and not table.derived:
            total.update(table.name.encode())
            sql = f"SELECT * FROM {prefix}{table.name} ORDER BY {', '.join(table.key)}"
            rows = connection.cursor()
            rows.row_factory = None  # tuples
            rows.execute(sql)
            while chunk := rows.fetchmany(CHUNK):
                total.update(encode(chunk))
    return total.hexdigest()
