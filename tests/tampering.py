"""The acts of somebody who can write the file and knows how it works: triggers off, rows changed, the chain computed anew."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing, contextmanager

import probe

from ledger.events import LEDGER_STREAM, ContentErased, Redaction
from ledger.log.envelope import GENESIS, digest, leaf, link
from ledger.log.sqlite_files import SCHEMA
from ledger.proof.merkle import Tree
from projections.core.projector import projections

TRIGGERS = re.findall(r"^CREATE TRIGGER .*?^END;$", SCHEMA, re.S | re.M)


@contextmanager
def opened_raw(path, *, triggers=True):
    """Open the file past the ledger, without its triggers, in one transaction.

    The triggers are put back at the end unless ``triggers`` is False.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for sql in TRIGGERS:
            connection.execute(f"DROP TRIGGER IF EXISTS {sql.split()[2]}")
        yield connection
        for sql in TRIGGERS if triggers else ():
            connection.execute(sql)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def tamper(path, *statements, triggers=True):
    with opened_raw(path, triggers=triggers) as connection:
        for each in statements:
            connection.execute(*((each,) if isinstance(each, str) else each))


def recompute(path):
    """Rewrite the digests, heads and sealed checkpoints as if the log had always been like this."""
    with opened_raw(path) as connection:
        head, tree, heads, roots = GENESIS, Tree(), [GENESIS], [None]
        rows = connection.execute("SELECT position, stream, version, type, state FROM events ORDER BY position")
        for position, stream, version, type_, state in rows.fetchall():
            if type_ == "CheckpointSealed":
                state = sealed_anew(state, heads, roots)
            mark = digest(state.encode())
            tree.add(leaf(head, position, stream, version, type_, mark))
            head = link(head, position, stream, version, type_, mark)
            heads.append(head)
            roots.append((tree.root(), tree.peaks))
            sql = "UPDATE events SET state = ?, digest = ?, head = ? WHERE position = ?"
            connection.execute(sql, (state, mark, head, position))
        connection.execute("UPDATE checkpoint SET position = ?, head = ?", (len(heads) - 1, head))


def sealed_anew(state, heads, roots):
    envelope = json.loads(state)
    size = envelope["data"]["size"]
    root, peaks = roots[size]
    new = {"size": size, "root": root.hex(), "head": heads[size].hex(), "peaks": [each.hex() for each in peaks]}
    return json.dumps(envelope | {"data": new}, separators=(",", ":"))


def redacted(state):
    """Return an event's state without its content and salt, as an erasure leaves it."""
    envelope = json.loads(state)
    envelope["data"]["content"] = envelope["salt"] = None
    return json.dumps(envelope, separators=(",", ":"))


def erase(ledger, *positions, blobs=(), after=redacted, targets=None):
    """Append a ContentErased, change the rows that it names in the same commit, and return the event's position."""

    def body(work):
        connection, found = work.connection(), []
        for position in positions:
            (state,) = connection.execute("SELECT state FROM events WHERE position = ?", (position,)).fetchone()
            new = after(state)
            hashes = (digest(state.encode()).hex(), digest(new.encode()).hex())
            found.append((position, new, Redaction(position, *hashes, ("data.content",))))
        named = targets if targets is not None else tuple(each for _, _, each in found)
        work.emit(LEDGER_STREAM, ContentErased("memory", None, named, tuple(blobs)))
        body.found = found
        return LEDGER_STREAM

    with probe.store(ledger).transact() as transaction:
        (event,) = probe.writer(ledger).run("erase", probe.who(), body).events
        for position, new, _ in body.found:
            sql = "UPDATE events SET state = ?, erased_by = ? WHERE position = ?"
            transaction.connection.execute(sql, (new, event.position, position))
        for each in blobs:
            transaction.connection.execute(
                "UPDATE blobs SET data = NULL, erased_by = ? WHERE id = ?", (event.position, each)
            )
    return event.position


@contextmanager
def raw(path):
    """Open the file as another tool would."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


TABLES = [table.name for each in projections(bytes(32)) for table in each.tables]
