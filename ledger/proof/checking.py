"""The check of a proof against a checkpoint that was kept, without the ledger."""

from __future__ import annotations

import base64
from hashlib import sha256

import msgspec

from ledger.domain.errors import RejectedError
from ledger.log.envelope import leaf
from ledger.log.paths import StrPath
from ledger.proof import answers, kept
from ledger.proof.checkpoints import Stated
from ledger.proof.merkle import is_continued, root_above


def check(proof: answers.Proof | str, checkpoint: answers.Checkpoint | StrPath) -> answers.ProofCheck:
    """Check that a checkpoint covers the event of a proof, or that the log of the proof continues the checkpoint's."""
    opened, stated = _proof(proof), kept.stated(checkpoint)
    try:
        problem = _problem(opened, stated)
    except (ValueError, OverflowError):  # not hex, not base64, or a lone surrogate
        raise RejectedError("this is no proof: one of its hashes is not a hash") from None
    return answers.ProofCheck(ok=not problem, problem=problem)


def _proof(value: object) -> answers.Proof:
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value, type=answers.Proof)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise RejectedError("this is no proof: pass the answer of proof.prove(), or its text") from None
    if not isinstance(value, answers.Proof):
        raise RejectedError(f"a proof is the answer of proof.prove(), or its text, not a {type(value).__name__}")
    return value


def _problem(proof: answers.Proof, stated: Stated) -> str:
    if proof.ledger_id != stated.ledger_id:
        return f"the proof is of the ledger {proof.ledger_id:.40}, but the checkpoint is of {stated.ledger_id}"
    previous, digest, root = (bytes.fromhex(hash) for hash in (proof.previous, proof.digest, proof.root))
    own = leaf(previous, proof.position, proof.stream, proof.version, proof.type, digest)
    if root_above(proof.position - 1, proof.size, own, _nodes(proof.path)) != root:
        return "the event is not at this position of the log that the proof is about"
    erased = proof.erased_by is not None
    if proof.state is not None and not erased and sha256(proof.state.encode()).digest() != digest:
        return "the state is not the state that was recorded"
    if proof.size == stated.size:
        return "" if root == stated.root else "the checkpoint covers other events than the proof is about"
    if proof.since != stated.size or stated.size > proof.size:
        return (
            f"the proof is about {proof.size} events but the checkpoint covers {stated.size}: make the proof against it"
        )
    continues = is_continued(stated.size, proof.size, stated.root, _nodes(proof.consistency or ""), root)
    return "" if continues else "the log of the proof does not continue what the checkpoint covers"


def _nodes(text: str) -> list[bytes]:
    data = base64.b64decode(text, validate=True)
    return [data[at : at + 32] for at in range(0, len(data), 32)]
