"""A hash over all rows of the projections, to find out if two folds of the log gave the same tables."""

from __future__ import annotations

import hashlib
import sqlite3

import msgspec

from ledger.events import ProjectionsRebuilt
from projections.core.projector import ALL
from projections.core.rows import Table
from projections.views.audit import AUDIT

CHUNK = 500  # rows encoded at a time; another number gives another digest


def digest(connection: sqlite3.Connection, prefix: str = "") -> str:
    """Return the SHA-256 (hex) over the rows of all projections, in the order of their keys.

    Text indexes are derived from other rows and are not part of the digest. Nor is a row that says only that a rebuild was, so
    that the digest is equal after any rebuild.
    """
    total = hashlib.sha256()
    for projection in sorted(ALL, key=lambda projection: projection.name):
        rows_digest = projection_digest(connection, projection.tables, prefix, rebuilds=False)
        total.update(f"{projection.name}/{projection.version}:{rows_digest}\n".encode())
    return total.hexdigest()


def projection_digest(
    connection: sqlite3.Connection, tables: tuple[object, ...], prefix: str = "", *, rebuilds: bool = True
) -> str:
    """Return the SHA-256 (hex) over the tables of one projection, without ``rebuilds`` those rows that only note one."""
    total, encode = hashlib.sha256(), msgspec.json.encode
    for table in tables:
        if isinstance(table, Table) and not table.derived:
            total.update(table.name.encode())
            where = f"WHERE type <> '{ProjectionsRebuilt.__name__}'" if table is AUDIT and not rebuilds else ""
            sql = f"SELECT * FROM {prefix}{table.name} {where} ORDER BY {', '.join(table.key)}"
            rows = connection.cursor()
            rows.row_factory = None  # tuples
            rows.execute(sql)
            while chunk := rows.fetchmany(CHUNK):
                total.update(encode(chunk))
    return total.hexdigest()
