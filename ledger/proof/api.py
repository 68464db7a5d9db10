"""``ledger.proof``: the whole file verified, checkpoints to keep elsewhere, and proofs of single events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledger import answers
from ledger.domain.errors import RejectedError
from ledger.engine.area import Area, callback
from ledger.proof import checking, digests, proving
from ledger.proof.kept import Given
from ledger.store.paths import StrPath


class ProofsRead(Area):
    """What can be computed of a moment."""

    def digest(self, *, beliefs: bool = False) -> str:
        """Return a SHA-256 (hex) over all rows of all projections, equal after any rebuild.

        Args:
            beliefs: Over what this user's memories say instead, without ids, positions and times: equal wherever the same
                is believed. Of the past there is only this one.
        """
        if beliefs:
            return digests.of_beliefs(self._engine, self._scope.user)
        if self._engine.is_past:
            raise RejectedError("a digest is over the projections as they are; under at() there is one of beliefs only")
        return digests.of_rows(self._engine)


class Proofs(ProofsRead):
    """What a ledger can prove, to its owner and to others."""

    def verify(
        self,
        *,
        against: Given | None = None,
        public_key: Any = None,
        full: bool = False,
        projections: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> answers.VerifyReport:
        """Check everything there is to check, and report what is wrong; a damaged ledger raises nothing.

        Args:
            against: A checkpoint kept elsewhere: its path, its text or the answer of ``checkpoint``.
            public_key: Check its signature too: the path of a PEM or OpenSSH file, or an Ed25519 key of "cryptography".
            full: Also walk the events that a sealed checkpoint covers.
            projections: False leaves out the comparison of every projection with the log, which takes longest.
            progress: Called with (steps done, steps).

        Raises:
            RejectedError: What is given as a checkpoint is none, or is of another ledger.
        """
        return proving.verify_ledger(
            self._engine,
            against=against,
            public_key=public_key,
            full=full,
            projections=projections,
            progress=callback(progress),
        )

    def checkpoint(
        self, *, signing_key: Any = None, progress: Callable[[int, int], None] | None = None
    ) -> answers.Checkpoint:
        """Seal the log's size, Merkle root and head, and return them as a small text to keep elsewhere.

        Args:
            signing_key: An Ed25519 private key: the path of its PEM or OpenSSH file, or a key of "cryptography".
            progress: Called with (events walked, events).

        Raises:
            StorageError: The log is damaged.
        """
        return proving.checkpoint(self._engine, sign=signing_key, actor=self._scope.actor, progress=callback(progress))

    def prove(
        self,
        position: int,
        *,
        size: int | None = None,
        against: Given | None = None,
        include_state: bool = False,
    ) -> answers.Proof:
        """Return a proof that an event is in the log, for somebody who has a checkpoint and nothing else.

        Args:
            position: The event's.
            size: How many events the log of the proof has; None for what ``against``, or the last sealed checkpoint, covers.
            against: A checkpoint kept elsewhere, which the log continues: its path, its text or itself.
            include_state: Put in what the event says, if it is this user's.

        Raises:
            RejectedError: No checkpoint covers the position.
            StorageError: The log is not the one that a checkpoint covers.
        """
        return proving.prove(self._engine, self._scope.user, position, size=size, against=against, state=include_state)

    @staticmethod
    def check(proof: answers.Proof | str, checkpoint: answers.Checkpoint | StrPath) -> answers.ProofCheck:
        """Check a proof against a checkpoint: true if it holds. No ledger is needed, and signatures are not checked.

        Args:
            proof: What ``prove`` returned, or its text.
            checkpoint: A checkpoint that was kept: its path, its text or itself.

        Raises:
            RejectedError: What is given is no proof or no checkpoint.
        """
        return checking.check(proof, checkpoint)
