"""The commands of ``ledger.proof``: verify a ledger, make a checkpoint, and prove single events."""

from __future__ import annotations

import os
import sqlite3

from msgspec.structs import replace

from ledger.core.engine import Engine
from ledger.core.work import Work
from ledger.domain.errors import ConflictError, DamagedError, NotFoundError, RejectedError, StorageError
from ledger.domain.text import one_of
from ledger.events import LEDGER_STREAM, CheckpointSealed
from ledger.log import registry
from ledger.log.envelope import GENESIS
from ledger.log.inspection import APPLICATION_ID, examining
from ledger.log.integrity import check_chain
from ledger.log.paths import StrPath, checked_path
from ledger.log.sqlite_files import no_ledger, typed
from ledger.proof import answers, checkpoints, kept, proofs
from ledger.proof.kept import Given
from ledger.proof.merkle import Tree
from ledger.proof.sealed import CheckedTip, Progress, Seal, counted, erasures, head_at, rows_after, seals
from ledger.proof.verifying import verify
from projections.core.projector import check_end

VERIFICATIONS = ("tail", "full")  # what Ledger.open can verify


def verify_ledger(
    engine: Engine,
    *,
    against: Given | None = None,
    public_key: object = None,
    full: bool = False,
    projections: bool = True,
    progress: Progress | None = None,
) -> answers.VerifyReport:
    """Check everything in the ledger and return a report; a damaged ledger raises nothing.

    The checks cover the file (SQLite's integrity check), the schema, the chain with the digest of every state,
    erasures, texts outside the log, stream versions, sealed checkpoints, and every projection against a fold of the
    log.

    The rows that a sealed checkpoint of the log covers were checked when they were sealed. They are skipped, unless
    another problem is found. A projection that differs from the log is repaired by ``rebuild()``, but only when the log
    is sound.

    An attacker who changes an event and computes everything after it again leaves a log that is consistent. Only a
    checkpoint kept elsewhere reveals such a change.

    Args:
        engine: The engine of the ledger.
        against: A checkpoint kept elsewhere (its path, text or object). Every row is then checked, and the size, head
            and root must match.
        public_key: The path of a PEM or OpenSSH file, or a key of the package cryptography, to check the checkpoint's
            signature.
        full: True to check also the rows that a sealed checkpoint covers.
        projections: False to leave out the fold of the projections, the slowest check.
        progress: Called with (steps done, steps).

    Raises:
        RejectedError: ``against`` is no checkpoint, or is of another ledger.
    """
    path = engine.store.path
    from_elsewhere = kept.checkpoint(against, public_key, path)
    engine.write_waiting()
    with engine.store.snapshot() as connection:
        own = engine.own.definitions if engine.own is not None else {}
        report = verify(
            connection, path, kept=from_elsewhere, full=full, folded=projections, progress=progress, own=own
        )
    if displaced := engine.store.displaced():
        return replace(
            report, ok=False, problems=(f"the file: {displaced}", *report.problems), parts=("pages", *report.parts)
        )
    return report


def checkpoint(
    engine: Engine, *, sign: object = None, actor: str | None = None, progress: Progress | None = None
) -> answers.Checkpoint:
    """Seal the log's size, Merkle root and head, and return them as a small text to keep elsewhere.

    The log keeps the checkpoint as an event. The rows since the last checkpoint are checked first; if there are none,
    the last checkpoint is returned again. A ledger that is open for reading computes the checkpoint without the event.

    Args:
        engine: The engine of the ledger.
        sign: An Ed25519 private key: the path of its PEM or OpenSSH file, or a key of the package cryptography, which
            ``belief-ledger[sign]`` installs.
        actor: Who seals, or None for the default.
        progress: Called with (rows checked, rows).

    Raises:
        ConflictError: A batch is open.
        StorageError: The log is damaged, so there is nothing to seal.
    """
    if engine.writer.batching:
        raise ConflictError("proof.checkpoint() cannot run inside a batch; leave the batch first")
    signer = checkpoints.private_key(kept.key(sign, engine.store.path)) if sign is not None else None
    with engine.store.snapshot() as connection:
        check_end(connection)
        seal = next(seals(connection), None)
        new = _computed(connection, seal, progress)
    if new is not None:
        seal = _seal(engine, new, actor)
    assert seal is not None
    stated = checkpoints.Stated(engine.created.ledger_id, seal.size, seal.root, seal.head, seal.time)
    return _answer(stated if signer is None else checkpoints.sign(stated, signer), seal.position or None)


def _seal(engine: Engine, new: CheckpointSealed, actor: str | None) -> Seal:
    """Append the event of a checkpoint, and return the last sealed checkpoint.

    Nothing is appended if another process sealed the same events meanwhile, or if the ledger is open for reading.
    """
    if engine.store.readonly:
        return Seal(0, new.size, bytes.fromhex(new.root), bytes.fromhex(new.head), (), engine.now())

    def body(work: Work) -> str:
        sql = "SELECT count(*) FROM main.events WHERE position > ? AND type = 'CheckpointSealed'"
        if work.connection().execute(sql, (new.size,)).fetchone() == (0,):
            work.emit(LEDGER_STREAM, new)
        return LEDGER_STREAM

    engine.writer.run(
        "proof.checkpoint", engine.default if actor is None else replace(engine.default, actor=actor), body
    )
    with engine.store.snapshot() as connection:
        return next(seals(connection))


def prove(
    engine: Engine,
    user: str,
    position: int,
    *,
    size: int | None = None,
    against: Given | None = None,
    state: bool = False,
) -> answers.Proof:
    """Return a proof that the event at a position is in the log, for a reader who has only a checkpoint.

    The proof is about the log of its first ``size`` events. Without ``size``, that is the size of ``against``, or of
    the last sealed checkpoint. If the event is younger than ``against``, the proof also shows that the log continues
    the log of ``against``. The answer's ``as_text()`` is a file for ``tools/check_proof.py``.

    Args:
        engine: The engine of the ledger.
        user: The user who may see the state.
        position: The position of the event.
        size: The number of events that the proof is about.
        against: A checkpoint kept elsewhere.
        state: True to include the state of the event, if the event is this user's.

    Raises:
        RejectedError: No checkpoint covers the position, or the state is not the user's.
        StorageError: The log is not the log that a checkpoint covers.
    """
    place, wanted_size = _counted("position", position), _counted("size", size) if size is not None else None
    kept_checkpoint = kept.checkpoint(against, None, engine.store.path)
    older = kept_checkpoint.stated if kept_checkpoint is not None else None
    if older is not None and older.ledger_id != engine.created.ledger_id:
        raise RejectedError(
            f"the checkpoint is of the ledger {older.ledger_id}, not of this ledger, {engine.created.ledger_id}"
        )
    engine.write_waiting()
    with engine.store.snapshot() as connection:
        last = _last(connection)
        if place > last:
            raise RejectedError(
                f"the log ends at position {last}, so there is no event at position {place} to prove", limit=last
            )
        seal = next(seals(connection), None)
        proof = proofs.inclusion(
            connection, engine.created.ledger_id, place, proofs.size_of(place, wanted_size, older, seal, last)
        )
        if seal is not None and seal.size == proof.size:
            proofs.check_root(proof, seal.root, f"the checkpoint sealed at position {seal.position}")
        if older is not None:
            proof = proofs.continuing(connection, proof, older)
        return _with_state(connection, proof, user) if state else proof


def _with_state(connection: sqlite3.Connection, proof: answers.Proof, user: str) -> answers.Proof:
    if proof.type == "LedgerCreated":
        raise RejectedError(
            "the first event holds the ledger's secret, so its state is never shown; prove the event without its state"
        )
    sql = "SELECT stream, version, type, state FROM main.events WHERE position = ?"
    row = connection.execute(sql, (proof.position,)).fetchone()
    if registry.decode(proof.position, 1, *row).envelope.user != user:
        raise RejectedError(
            f"the event at position {proof.position} is not this user's; prove the event without its state"
        )
    return replace(proof, state=row[3])


def check_opened(engine: Engine, verify: str | None, against: Given | None) -> None:
    """Verify a ledger that was just opened, as ``Ledger.open`` describes it.

    Raises:
        DamagedError: A row of the log or of a projection is not what was recorded.
        StorageError: Something else is wrong.
        RejectedError: ``verify`` or ``against`` is not one of the values that ``Ledger.open`` takes.
    """
    one_of("verify", verify or "full", VERIFICATIONS)
    full = verify != "tail"
    report = verify_ledger(engine, against=against, full=full, projections=full)
    if report.ok:
        return
    problem = f"{report.problems[0]}; proof.verify() says all that is wrong"
    if report.first_wrong is not None:
        raise DamagedError("events", report.first_wrong, f"was not recorded so ({problem})")
    raise StorageError(f"this ledger was changed behind its back or is damaged: {problem}")


def verify_file(
    path: StrPath,
    *,
    against: Given | None = None,
    public_key: object = None,
    full: bool = False,
    projections: bool = True,
    progress: Progress | None = None,
) -> answers.VerifyReport:
    """Return the report of ``verify_ledger`` for a file that may be too damaged to open; the file is only read."""
    real = checked_path(path)
    if not os.path.lexists(real):
        raise NotFoundError(f"there is no ledger at {real}")
    from_elsewhere = kept.checkpoint(against, public_key, real)
    try:
        with examining(real) as connection:
            connection.execute("BEGIN")
            _check_kind(connection, real)
            return verify(connection, real, kept=from_elsewhere, full=full, folded=projections, progress=progress)
    except sqlite3.Error as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
            raise typed(error) from error
        text = str(typed(error))
    except UnicodeDecodeError:  # the driver raises it for an error message of SQLite that quotes damaged bytes
        text = "the schema is damaged"
    return answers.VerifyReport(ok=False, events=0, problems=(f"the file: {text}",), parts=("pages",))


def _check_kind(connection: sqlite3.Connection, path: str) -> None:
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    tables = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('events', 'blobs')"
    if application_id != APPLICATION_ID and connection.execute(tables).fetchone() != (2,):
        raise RejectedError(f"{path} is {no_ledger(path)}, not a ledger", rule="format")


def _computed(connection: sqlite3.Connection, seal: Seal | None, progress: Progress | None) -> CheckpointSealed | None:
    """Return the checkpoint of the whole log, or None if nothing but the last checkpoint's own event was appended since."""
    last = _last(connection)
    tip = CheckedTip.of(seal, connection) if seal is not None else CheckedTip(0, GENESIS, Tree())
    if tip is None:
        assert seal is not None
        raise StorageError(
            f"the checkpoint sealed at position {seal.position} does not match the log before it; proof.verify() says more"
        )
    if seal is not None and last == seal.position == seal.size + 1:
        return None
    rows, taken = counted(rows_after(connection, tip.size, last), last - tip.size, progress), erasures(connection)
    for problem in check_chain(rows, position=tip.size, head=tip.head, erasures=taken, leaf_to=tip.tree.add):
        raise StorageError(f"a damaged log cannot be sealed: {problem}; proof.verify() says the rest")
    peaks = tuple(peak.hex() for peak in tip.tree.peaks)
    return CheckpointSealed(last, tip.tree.root().hex(), (head_at(connection, last) or b"").hex(), peaks)


def _last(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT max(position) FROM main.events").fetchone()[0])


def _counted(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63:
        raise RejectedError(f"{name} counts from 1, and {value!r:.40} is no {name}")
    return value


def _answer(stated: checkpoints.Stated, position: int | None) -> answers.Checkpoint:
    return answers.Checkpoint(
        ledger_id=stated.ledger_id,
        size=stated.size,
        root=stated.root.hex(),
        head=stated.head.hex(),
        time=stated.time,
        text=stated.text,
        signed=bool(stated.signatures),
        position=position,
    )
