"""A proof checked against a checkpoint that somebody kept, without the ledger."""

from __future__ import annotations

import base64
from hashlib import sha256

import msgspec

from ledger import answers
from ledger.domain.errors import RejectedError
from ledger.proof import kept
from ledger.proof.checkpoints import Stated
from ledger.proof.merkle import is_continued, root_above
from ledger.store.integrity import leaf
from ledger.store.paths import StrPath


def check(proof: answers.Proof | str, checkpoint: answers.Checkpoint | StrPath) -> answers.ProofCheck:
    """Check that the event of a proof is among those that a checkpoint covers, or in a log that continues them."""
    read, stated = _proof(proof), kept.stated(checkpoint)
    try:
        problem = _problem(read, stated)
    except (ValueError, OverflowError):  # no hex, no base64, a lone surrogate
        raise RejectedError("this is no proof: one of its hashes is none") from None
    return answers.ProofCheck(ok=not problem, problem=problem)


def _proof(given: object) -> answers.Proof:
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given, type=answers.Proof)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise RejectedError("this is no proof: give what proof.prove() returned, or its text") from None
    if not isinstance(given, answers.Proof):
        raise RejectedError(
            f"a proof is what proof.prove() returned, or its text, and this is a {type(given).__name__}"
        )
    return given


def _problem(proof: answers.Proof, stated: Stated) -> str:
    if proof.ledger_id != stated.ledger_id:
        return f"the proof is of the ledger {proof.ledger_id:.40}, and the checkpoint of {stated.ledger_id}"
    previous, digest, root = (bytes.fromhex(each) for each in (proof.previous, proof.digest, proof.root))
    own = leaf(previous, proof.position, proof.stream, proof.version, proof.type, digest)
    if root_above(proof.position - 1, proof.size, own, _nodes(proof.path)) != root:
        return "this event is not at this position of the log that the proof is about"
    erased = proof.erased_by is not None
    if proof.state is not None and not erased and sha256(proof.state.encode()).digest() != digest:
        return "the state is not the one that was recorded"
    if proof.size == stated.size:
        return "" if root == stated.root else "the checkpoint covers other events than the proof is about"
    if proof.since != stated.size or stated.size > proof.size:
        return f"the proof is about {proof.size} events and the checkpoint covers {stated.size}: prove it against that"
    continues = is_continued(stated.size, proof.size, stated.root, _nodes(proof.consistency or ""), root)
    return "" if continues else "the log of the proof does not continue what the checkpoint covers"


def _nodes(text: str) -> list[bytes]:
    data = base64.b64decode(text, validate=True)
    return [data[at : at + 32] for at in range(0, len(data), 32)]
