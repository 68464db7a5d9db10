"""The namespace ``ledger.proof``: check the whole file, make checkpoints to keep elsewhere, and prove single events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledger.core.area import Area, callback
from ledger.core.engine import Engine
from ledger.domain.errors import RejectedError
from ledger.log.paths import StrPath
from ledger.proof import answers, checking, digests, proving
from ledger.proof.kept import Given


class ProofsRead(Area):
    """The digests of a ledger, now or at a moment of the past."""

    def digest(self, *, beliefs: bool = False) -> str:
        """Return a SHA-256 (hex) over all rows of all projections, equal after any rebuild.

        Args:
            beliefs: True for a digest over this user's memories instead, without ids, positions and times. Two ledgers
                with the same beliefs have the same digest. Under ``at()`` only this digest exists.

        Raises:
            RejectedError: ``beliefs`` is False under ``at()``.
        """
        if beliefs:
            return digests.of_beliefs(self._engine, self._scope.user)
        if not isinstance(self._engine, Engine):
            raise RejectedError(
                "the digest of rows covers the projections of now; under at() use proof.digest(beliefs=True)"
            )
        return digests.of_rows(self._engine)


class Proofs(ProofsRead):
    """The proofs of a ledger, for its owner and for others."""

    _engine: Engine

    def verify(
        self,
        *,
        against: Given | None = None,
        public_key: Any = None,
        full: bool = False,
        projections: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> answers.VerifyReport:
        """Check everything in the ledger and report the problems; a damaged ledger raises nothing.

        Args:
            against: A checkpoint kept elsewhere: its path, its text or the answer of ``checkpoint``.
            public_key: The key to check the checkpoint's signature with: the path of a PEM or OpenSSH file, or an
                Ed25519 key of "cryptography".
            full: Also check the events that a sealed checkpoint covers.
            projections: False leaves out the comparison of every projection with the log, the slowest check.
            progress: Called with (steps done, steps).

        Raises:
            RejectedError: ``against`` is no checkpoint, or is of another ledger.
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
        """Return a proof that an event is in the log, for a reader who has only a checkpoint.

        Args:
            position: The position of the event.
            size: The number of events that the proof is about; None for those that ``against`` covers, or the last
                sealed checkpoint.
            against: A checkpoint kept elsewhere, which the log continues: its path, its text or the object.
            include_state: True to include the state of the event, if the event is this user's.

        Raises:
            RejectedError: No checkpoint covers the position.
            StorageError: The log is not the log that a checkpoint covers.
        """
        return proving.prove(self._engine, self._scope.user, position, size=size, against=against, state=include_state)

    @staticmethod
    def check(proof: answers.Proof | str, checkpoint: answers.Checkpoint | StrPath) -> answers.ProofCheck:
        """Check a proof against a checkpoint: true if it holds. No ledger is needed, and signatures are not checked.

        Args:
            proof: The answer of ``prove``, or its text.
            checkpoint: A checkpoint that was kept: its path, its text or the object.

        Raises:
            RejectedError: ``proof`` is no proof, or ``checkpoint`` is no checkpoint.
        """
        return checking.check(proof, checkpoint)
