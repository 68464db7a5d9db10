"""Proofs from the rows of a log: the leaves of its Merkle tree, and the few hashes that tie one of them to a root."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ledger import answers
from ledger.domain.errors import RejectedError, StorageError
from ledger.proof.checkpoints import Stated
from ledger.proof.merkle import Range, consistency_ranges, inclusion_ranges, is_continued, root_above, roots_of
from ledger.proof.sealed import Seal, head_at
from ledger.store.integrity import GENESIS, leaf

_UNSOUND = (AttributeError, TypeError, ValueError)


def leaves(connection: sqlite3.Connection, size: int) -> Iterator[bytes]:
    """The leaves of the first events, from their rows as they stand."""
    sql = "SELECT position, stream, version, type, digest, head FROM main.events WHERE position <= ? ORDER BY position"
    previous = GENESIS
    for position, stream, version, type_, digest, head in connection.execute(sql, (size,)):
        yield leaf(previous, position, stream, version, type_, digest)
        previous = head


def inclusion(connection: sqlite3.Connection, ledger_id: str, position: int, size: int) -> answers.Proof:
    """That the event at a position is one of the first ``size``. ``StorageError`` where the rows are no log."""
    sql = "SELECT stream, version, type, digest, erased_by FROM main.events WHERE position = ?"
    row, previous = connection.execute(sql, (position,)).fetchone(), head_at(connection, position - 1)
    path = _nodes(connection, inclusion_ranges(position - 1, size), size)
    try:
        stream, version, type_, digest, erased_by = row
        own = leaf(previous or b"", position, stream, version, type_, digest)
        root = root_above(position - 1, size, own, path)
        return answers.Proof(
            ledger_id=ledger_id,
            position=position,
            size=size,
            root=(root or b"").hex(),
            path=_joined(path),
            stream=stream,
            version=version,
            type=type_,
            digest=digest.hex(),
            previous=(previous or b"").hex(),
            erased_by=erased_by,
        )
    except _UNSOUND as error:
        raise _damaged() from error


def continuing(connection: sqlite3.Connection, proof: answers.Proof, kept: Stated) -> answers.Proof:
    """The same proof, and that its log continues an older one; ``StorageError`` where it does not."""
    if kept.size == proof.size:
        check_root(proof, kept.root, "the checkpoint kept elsewhere")
        return proof
    path = _nodes(connection, consistency_ranges(kept.size, proof.size), proof.size)
    if not is_continued(kept.size, proof.size, kept.root, path, bytes.fromhex(proof.root)):
        raise _other("the checkpoint kept elsewhere", kept.size)
    return replace(proof, since=kept.size, consistency=_joined(path))


def check_root(proof: answers.Proof, root: bytes, whose: str) -> None:
    if proof.root != root.hex():
        raise _other(whose, proof.size)


def size_of(position: int, wanted: int | None, kept: Stated | None, seal: Seal | None, last: int) -> int:
    """How many events the log has that a proof is about; ``RejectedError`` where none fits."""
    if kept is not None and kept.size > last:
        raise RejectedError(
            f"the checkpoint covers {kept.size} events, and the log ends at {last}: see proof.verify()", limit=last
        )
    if wanted is not None:
        least = max(position, kept.size if kept is not None else 0)
        if not least <= wanted <= last:
            raise RejectedError(
                f"size counts the events that a checkpoint covers: here from {least} to {last}, not {wanted}",
                limit=last,
                requested=wanted,
            )
        return wanted
    if kept is not None and position <= kept.size:
        return kept.size
    if seal is None or seal.size < position:
        covers = f"the last one covers {seal.size} events" if seal is not None else "none was sealed yet"
        raise RejectedError(f"no checkpoint covers position {position}: {covers}; proof.checkpoint() makes one")
    return seal.size


def _nodes(connection: sqlite3.Connection, ranges: Sequence[Range], size: int) -> list[bytes]:
    try:
        return roots_of(ranges, leaves(connection, size))
    except _UNSOUND as error:
        raise _damaged() from error


def _joined(nodes: Sequence[bytes]) -> str:
    return base64.b64encode(b"".join(nodes)).decode()


def _damaged() -> StorageError:
    return StorageError("the log is damaged, so that nothing of it can be proven; proof.verify() says where")


def _other(whose: str, size: int) -> StorageError:
    return StorageError(f"the first {size} events are not those that {whose} covers; proof.verify() says more")
