"""The answers about checks, checkpoints and proofs."""

from __future__ import annotations

import json
from typing import Literal

from ledger.core.call import Answer

Part = Literal["log", "pages", "projections"]


class VerifyReport(Answer, frozen=True, kw_only=True):
    """The result of a check of the whole ledger. ``ok`` is True without ``problems``, of which at most 100 are listed.

    ``parts`` says of each problem what is damaged: the log itself, pages of the file, or projections, which can be rebuilt.
    ``first_wrong`` is the first position of the log that a problem names. The ``events`` up to the position ``since`` were
    skipped, because a checkpoint sealed in the log covers them; if there is a problem, none was skipped. ``against`` is the
    size of the checkpoint from elsewhere that the log was compared with. ``signed`` is True if that checkpoint has a good
    signature, and None if no key was given. ``projections`` are the projections that were compared with a fold of the log.
    """

    ok: bool
    events: int
    problems: tuple[str, ...]
    parts: tuple[Part, ...] = ()
    first_wrong: int | None = None
    since: int = 0
    head: str | None = None
    against: int | None = None
    signed: bool | None = None
    projections: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0

    def of(self, part: Part) -> tuple[str, ...]:
        """Return the problems of one part."""
        return tuple(problem for problem, where in zip(self.problems, self.parts, strict=True) if where == part)


class Checkpoint(Answer, frozen=True, kw_only=True):
    """The first ``size`` events as one Merkle root and the head of the chain (hex), and the ``text`` to keep elsewhere.

    ``position`` is the place of the log's own record of the checkpoint; None if the ledger was opened for reading.
    """

    ledger_id: str
    size: int
    root: str
    head: str
    time: str
    text: str
    signed: bool = False
    position: int | None = None


class Proof(Answer, frozen=True, kw_only=True):
    """A proof that an event is in the log whose first ``size`` events have this ``root``: the event's row, and the path up.

    ``path`` and ``consistency`` are hashes of 32 bytes, joined, in base64; the other hashes are hex. ``since`` is the size of an
    older checkpoint that the log of ``size`` events continues. ``state`` is the event's state, if it was asked for.
    """

    ledger_id: str
    position: int
    size: int
    root: str
    path: str
    stream: str
    version: int
    type: str
    digest: str
    previous: str
    erased_by: int | None = None
    state: str | None = None
    since: int | None = None
    consistency: str | None = None
    format: str = "memory-ledger/proof/1"

    def as_text(self) -> str:
        """Return one JSON object, for a file of its own."""
        return json.dumps(self.to_dict(), indent=1) + "\n"


class ProofCheck(Answer, frozen=True, kw_only=True):
    """The result of checking a proof against a checkpoint: true in a condition if the proof holds, else with the ``problem``."""

    ok: bool
    problem: str = ""

    def __bool__(self) -> bool:
        return self.ok
