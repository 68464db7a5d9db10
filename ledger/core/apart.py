"""Projections folded into the TEMP tables of one connection, which come before the tables of the file."""

from __future__ import annotations

from ledger.core.log_reading import ReadingOn
from ledger.log.reading import read_tip
from projections.core import as_of, shadow
from projections.core.rows import Connection


def fold_to(connection: Connection, position: int | None, secret: bytes, ledger_id: str) -> None:
    """Fold the log up to a position (None for its end), on a connection that hides the log behind the position.

    Nothing is done if the tables are of that position already.
    """
    head = connection.execute("SELECT max(position) FROM main.events").fetchone()[0]
    if position is None:
        position = int(head)
    if not as_of.is_folded(connection, position, head):
        as_of.drop_folded(connection)
        as_of.stand_folded(connection, position, head)
        _fold(connection, secret, ledger_id)


def follow(connection: Connection, secret: bytes, ledger_id: str) -> None:
    """Fold the new events of the log.

    The whole log is folded if there are no such tables yet, or if an erasure took texts that they hold.
    """
    position, head = read_tip(connection.cursor())
    if connection.execute("SELECT 1 FROM temp.sqlite_master WHERE name = 'checkpoint'").fetchone():
        (folded,) = connection.execute("SELECT position FROM temp.checkpoint").fetchone()
        if not as_of.was_erased(connection, folded, position):
            shadow.fold_on(connection, ReadingOn(lambda: connection), secret, position, head)
            return
        as_of.drop_folded(connection)
    _fold(connection, secret, ledger_id)


def _fold(connection: Connection, secret: bytes, ledger_id: str) -> None:
    position, head = read_tip(connection.cursor())
    shadow.fold_into(connection, ReadingOn(lambda: connection), secret, ledger_id, position, head, temporary=True)
