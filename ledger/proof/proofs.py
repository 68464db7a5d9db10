"""The making of proofs from the rows of a log: the leaves of its Merkle tree, and the hashes up to the root."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ledger.domain.errors import RejectedError, StorageError
from ledger.log.envelope import GENESIS, leaf
from ledger.proof import answers
from ledger.proof.checkpoints import Stated
from ledger.proof.merkle import Range, consistency_ranges, inclusion_ranges, is_continued, root_above, roots_of
from ledger.proof.sealed import Seal, head_at

_UNSOUND = (AttributeError, TypeError, ValueError)


def leaves(connection: sqlite3.Connection, size: int) -> Iterator[bytes]:
    """Yield the leaves of the first ``size`` events, from their rows as stored."""
    sql = "SELECT position, stream, version, type, digest, head FROM main.events WHERE position <= ? ORDER BY position"
    previous = GENESIS
    for position, stream, version, type_, digest, head in connection.execute(sql, (size,)):
        yield leaf(previous, position, stream, version, type_, digest)
        previous = head


def inclusion(connection: sqlite3.Connection, ledger_id: str, position: int, size: int) -> answers.Proof:
    """Return a proof that an event is among the first ``size`` events; raise StorageError if the log is damaged."""
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
    """Return the proof, extended to prove that its log continues the log of the checkpoint ``kept``.

    Raises:
        StorageError: The log does not continue the older log.
    """
    if kept.size == proof.size:
        check_root(proof, kept.root, "the checkpoint kept elsewhere")
        return proof
    path = _nodes(connection, consistency_ranges(kept.size, proof.size), proof.size)
    if not is_continued(kept.size, proof.size, kept.root, path, bytes.fromhex(proof.root)):
        raise _mismatch("the checkpoint kept elsewhere", kept.size)
    return replace(proof, since=kept.size, consistency=_joined(path))


def check_root(proof: answers.Proof, root: bytes, whose: str) -> None:
    if proof.root != root.hex():
        raise _mismatch(whose, proof.size)


def size_of(position: int, requested_size: int | None, kept: Stated | None, seal: Seal | None, last: int) -> int:
    """Return the number of events that a proof is about.

    Raises:
        RejectedError: No size fits the position and the checkpoint.
    """
    if kept is not None and kept.size > last:
        raise RejectedError(
            f"the checkpoint covers {kept.size} events, but the log ends at {last}: proof.verify() says more",
            limit=last,
        )
    if requested_size is not None:
        least = max(position, kept.size if kept is not None else 0)
        if not least <= requested_size <= last:
            raise RejectedError(
                f"size is the number of events that a checkpoint covers: from {least} to {last} here, not {requested_size}",
                limit=last,
                requested=requested_size,
            )
        return requested_size
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
    return StorageError("the log is damaged, so none of its events can be proven; proof.verify() says where")


def _mismatch(whose: str, size: int) -> StorageError:
    return StorageError(f"the first {size} events are not the events that {whose} covers; proof.verify() says more")
