"""The workload of the ledgers under test: short scripts of commands, with each answer acknowledged in a file named ACK."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ledger.care.backing_up
import ledger.core.work
import ledger.log.event_store
import ledger.log.sqlite_files
import ledger.memories.admission
import projections.core.projector
import projections.core.rebuild
import projections.views.erasures
from ledger import Ledger, LedgerError, Session
from ledger.core.call import Who
from ledger.events import LEDGER_STREAM
from ledger.sessions import writing
from ledger.sessions.rules.window import CONDENSED, LEAF
from ledger.sessions.summary_writes import WrittenSummary, of_messages, of_summaries, record
from ledger.sessions.window import OpenWindow
from tools import inside

# (position, id of the subject, status, text): a promise that the log has an event of the subject at the position.
Ack = tuple[int, str, str, str]
BACKUP = "backup "  # the beginning of a backup's name, which stands for its id
THE_END = "That is the end.\n"
KEEP: Any = {"derived": "keep", "sources": "keep", "quotes": "keep"}
BLOB_CHARS = 270_000  # more than 256 KiB

# A script for each life of a ledger; between two lives the ledger is closed, or killed.
LIVES: tuple[tuple[str, ...], ...] = (
    ("remember", "capture", "remember"),
    ("remember", "capture", "supersede", "checkpoint", "adjust"),
    ("batch", "undo", "propose", "remember"),
    ("state", "promote", "recall", "capture"),
    ("blob", "reopen", "remember", "checkpoint"),
    ("capture", "remember", "rebuild", "supersede"),
    ("append", "summarise", "append", "truncate"),
    ("put", "put", "move", "put", "remove", "restore"),
    ("ingest", "remember", "ingest"),
    ("remember", "erase", "promote", "erase"),
    ("remember", "backup", "adjust"),
)


@dataclass(frozen=True)
class Done:
    """The outcome of a step in the words of its request; a blank status or text promises nothing about it."""

    position: int
    id: str
    status: str = ""
    text: str = ""


class Player:
    """A player of scripts on one ledger.

    With ``early`` the player promises events that are not committed yet, which no program may do. With ``lies`` it promises
    commands that were refused.
    """

    def __init__(self, path: Path, seed: str, *, early: bool = False, lies: bool = False, file: str = "ACK") -> None:
        self.path, self.early, self.lies = path, early, lies
        self.refusals: list[str] = []
        self.tolerated: tuple[type[LedgerError], ...] = ()
        self._choose, self._count = random.Random(seed), 0
        self._name = seed
        self._out = os.open(path.parent / file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.ledger: Ledger | None = None

    def play(self, script: Sequence[str]) -> None:
        """Play a whole life: open the ledger, run the script, close the ledger."""
        try:
            self.open()
            for step in script:
                self.do(step)
        finally:
            self.close()

    def open(self) -> None:
        if self.ledger is None:
            self._tell(self._open)

    def close(self) -> None:
        opened, self.ledger = self.ledger, None
        if opened is not None:
            opened.close()

    def give_up(self) -> None:
        """Close the ledger and the ACK file."""
        self.close()
        os.close(self._out)

    def do(self, step: str) -> None:
        self._count += 1
        self._tell(getattr(self, f"_{step}"))

    def _tell(self, step: Callable[[], Sequence[Done]]) -> None:
        early = self.early and step not in (self._open, self._rebuild, self._reopen, self._checkpoint)
        try:
            with inside.store(self._open_ledger()).transact() if early else nullcontext():
                answers = step()
                if early:
                    self.acknowledge(answers)
        except self.tolerated as error:
            self.refusals.append(type(error).__name__)
            if self.lies:
                os.write(self._out, b'[2, "m_neverwritten", "", ""]\n')
            return
        if not early:
            self.acknowledge(answers)

    def acknowledge(self, answers: Sequence[Done]) -> None:
        lines = "".join(json.dumps([done.position, done.id, done.status, done.text]) + "\n" for done in answers)
        if lines:
            os.write(self._out, lines.encode())

    def _open_ledger(self) -> Ledger:
        if self.ledger is None:
            self.ledger = Ledger.open(self.path, actor="player")
        return self.ledger

    def _text(self) -> str:
        return f"fact {self._choose.randrange(10**9)} number {self._count} of {self._name}"

    def _some(self, status: Literal["active", "candidate"]) -> str:
        """Return the id of a memory with a status; make a memory if there is none."""
        memories = self._open_ledger().memories.list(statuses=[status], limit=5)
        if memories:
            return memories[self._choose.randrange(len(memories))].id
        make = self._propose if status == "candidate" else self._remember
        return str(make()[0].id)

    # --- the steps, each returning its promises -----------------------------------------------------------------------

    def _open(self) -> Sequence[Done]:
        self._open_ledger()
        return ()

    def _remember(self) -> Sequence[Done]:
        text, key = self._text(), f"{self._name} {self._count}"
        made = self._open_ledger().remember(text, project=f"p{self._count % 2}", idempotency_key=key)
        return [Done(made.position, made.id, "active", text)]

    def _propose(self) -> Sequence[Done]:
        text = self._text()
        made = self._open_ledger().propose(text)
        return [Done(made.position, made.id, "candidate", text)]

    def _promote(self) -> Sequence[Done]:
        done = self._open_ledger().promote(self._some("candidate"))
        return [Done(done.position, done.id, "active")]

    def _capture(self) -> Sequence[Done]:
        """Capture a response that restates known memories, so that a second command reinforces them."""
        known, text = self._open_ledger().memories.list(limit=3), self._text()
        response = " ".join(memory.content or "" for memory in known)[:2_000]
        turn = self._open_ledger().capture(text, response, project="p0", session=self._name)
        return [Done(turn.position, turn.id, "", text)]

    def _supersede(self) -> Sequence[Done]:
        text = self._text()
        made = self._open_ledger().supersede(self._some("active"), text, reason="a later word")
        return [Done(made.position, made.id, "active", text)]

    def _adjust(self) -> Sequence[Done]:
        done = self._open_ledger().memories.set_confidence(self._some("active"), self._choose.randrange(1_000) / 1_000)
        return [Done(done.position, done.id, "active")]

    def _state(self) -> Sequence[Done]:
        text = self._text()
        done = self._open_ledger().projects.set_state("p0", "fact", f"key {self._count}", text)
        return [Done(done.position, done.id, "", text)]

    def _append(self) -> Sequence[Done]:
        """Append three messages and acknowledge each; the last is a turn, whose texts lie with the interaction."""
        opened, texts = self._open_ledger(), [self._text() for _ in range(3)]
        session = opened.session(self._name, project="p0")
        keys = [f"{self._name} {self._count} {number}" for number in range(2)]
        appended = [session.append("user", text, idempotency_key=key) for text, key in zip(texts, keys, strict=False)]
        turn = opened.capture(texts[2], "Yes.", session=self._name, append=True, reinforce=False)
        messages = [
            Done(message.position, session.id or "", "", text) for message, text in zip(appended, texts, strict=False)
        ]
        return [*messages, Done(turn.position, turn.id, "", texts[2])]

    def _summarise(self) -> Sequence[Done]:
        """Summarise the oldest two messages, as a compaction does."""
        session = self._open_ledger().session(self._name, project="p0")
        return [Done(sum_up(session, self._text()), session.id or "")]

    def _truncate(self) -> Sequence[Done]:
        session = self._open_ledger().session(self._name, project="p0")
        session.set_abstract(self._text())
        return [Done(session.truncate(2).position, session.id or "")]

    def _undo(self) -> Sequence[Done]:
        command = self._open_ledger().history.audit(limit=1)[0].command_id
        report = self._open_ledger().undo(command, cascade=True)
        return [Done(report.position, LEDGER_STREAM)]

    def _recall(self) -> Sequence[Done]:
        self._open_ledger().recall("which fact is it?", limit=3)
        return ()

    def _batch(self) -> Sequence[Done]:
        with self._open_ledger().batch():
            return [done for make in (self._remember, self._propose, self._capture) for done in make()]

    def _blob(self) -> Sequence[Done]:
        text = self._text() + " " + "x" * BLOB_CHARS
        turn = self._open_ledger().capture(text, session=self._name)
        return [Done(turn.position, turn.id, "", text)]

    def _ingest(self) -> Sequence[Done]:
        """Add a document in three chunks, or its next wording, of which the last chunk stays."""
        text = f"# One\n\n{self._text()}\n\n# Two\n\n{self._text()}\n\n# Three\n\n{THE_END}"
        made = self._open_ledger().documents.add(text, path="notes.md")
        return [Done(made.position, made.id)]

    def _put(self) -> Sequence[Done]:
        """Put a text, and every third time one that lies in the blobs table, under one of two keys."""
        text = self._text() + (" " + "x" * BLOB_CHARS if self._count % 3 == 0 else "")
        made = self._open_ledger().values.put(("notes",), f"key {self._count % 2}", text)
        return [Done(made.position, made.id, "", "" if len(text) > BLOB_CHARS else text)]

    def _some_key(self) -> str:
        listed = self._open_ledger().values.list(("notes",), limit=1)
        return listed[0].key or "" if listed else self._put_under("key 0")

    def _put_under(self, key: str) -> str:
        self._open_ledger().values.put(("notes",), key, self._text())
        return key

    def _move(self) -> Sequence[Done]:
        moved = self._open_ledger().values.move(("notes",), self._some_key(), ("old",), f"key {self._choose.random()}")
        return [Done(moved.position, moved.id)]

    def _remove(self) -> Sequence[Done]:
        done = self._open_ledger().values.remove(("notes",), self._some_key(), reason=self._text())
        return [Done(done.position, done.id)]

    def _restore(self) -> Sequence[Done]:
        removed = self._open_ledger().values.list(("notes",), statuses=("removed",), limit=1)
        done = [self._open_ledger().values.restore(value.namespace or (), value.key or "") for value in removed]
        return [Done(restored.position, restored.id) for restored in done]

    def _erase(self) -> Sequence[Done]:
        report = self._open_ledger().erase(self._some("active"), **KEEP)
        return [Done(report.position, LEDGER_STREAM)]

    def _backup(self) -> Sequence[Done]:
        name = f"{BACKUP}{self._choose.randrange(10**9)}.db"
        report = self._open_ledger().maintenance.backup(self.path.parent / name)
        return [Done(report.events, name)]

    def _rebuild(self) -> Sequence[Done]:
        """Rebuild, which does not wait for the disk, and run a command between two of its batches, which does."""
        rows: list[int] = []

        def between(done: int, total: int) -> None:
            if not rows:
                rows.append(done)
                self.acknowledge(self._remember())

        inside.rebuild(self._open_ledger(), between)
        return ()

    def _checkpoint(self) -> Sequence[Done]:
        inside.store(self._open_ledger()).checkpoint()
        return ()

    def _verify(self) -> Sequence[Done]:
        report = self._open_ledger().proof.verify()
        assert report.ok, report.problems[:2]
        return ()

    def _reopen(self) -> Sequence[Done]:
        self.close()
        return self._open()


def sum_up(summed: Session, text: str) -> int:
    """Write a summary of a window's first two messages, or of its summaries if there are two, and return its position."""
    session = inside.session(summed)

    def body(work: Any) -> str:
        state = writing.known(session, work)
        window = OpenWindow(work.connection(), state)
        two = [item for item in window.items() if not item.is_summary][:2]
        sources, kind = of_messages(window, two[0].place, two[-1].place), LEAF
        if len(window.summaries) > 1:
            sources, kind = of_summaries(window.connection, state.row, window.summaries), CONDENSED
        assert sources is not None
        record(work, state, sources, WrittenSummary(kind, "normal", text, 9, "given", "nobody", f"{kind}/1"))
        return str(state.id)

    outcome = session.writer.run("compact", Who(), body)
    return int(outcome.events[-1].position)


def acknowledged(content: bytes) -> list[Ack]:
    """Return the promises of an ACK file; a last line that was cut promises nothing."""
    return [(position, *rest) for position, *rest in map(json.loads, content.decode().split("\n")[:-1])]


# --- products with one thing wrong, for the controls -----------------------------------------------------------------


def small_checkpoints() -> None:
    """Tune the product, without a fault, so that it checkpoints by itself within a short script."""
    ledger.log.sqlite_files.CHECKPOINT_BYTES = 192 * 1024
    ledger.log.sqlite_files.LATE_CHECKPOINT_BYTES = 320 * 1024
    ledger.log.sqlite_files.LOOK_BYTES = 64 * 1024
    projections.core.rebuild.BATCH = projections.core.rebuild.TAIL = 20
    projections.core.rebuild.EMPTYING = 50


def synchronous_normal() -> None:
    ledger.log.sqlite_files.SETTINGS["synchronous"] = 1


def synchronous_off() -> None:
    ledger.log.sqlite_files.SETTINGS["synchronous"] = 0


def texts_garbled() -> None:
    """Store another text than the given one; the log, its chain and every projection agree on the wrong text."""
    writes: Any = ledger.memories.admission
    checked = writes.check_text
    writes.check_text = lambda *what, **how: checked(*what, **how).replace("fact", "fakt")


def backups_in_place() -> None:
    """Write a backup under its name from the first byte on."""

    @contextmanager
    def in_place(place: str, what: str, **how: Any) -> Iterator[str]:
        yield place

    backing_up: Any = ledger.care.backing_up
    backing_up.in_the_making = in_place


def erasures_left() -> None:
    """Let opening leave unfinished erasures as they are."""
    projections.views.erasures.pending = lambda connection: []


def documents_in_parts() -> None:
    """Commit the first events of a long command before its other events."""
    append = ledger.log.event_store.Transaction.append

    def in_parts(self: Any, events: Any, keys: Any = ()) -> list[int]:
        if len(events) < 3:
            return append(self, events, keys)
        places = append(self, events[:2], keys[:2])
        self.renew()
        return [*places, *append(self, events[2:], keys[2:])]

    ledger.log.event_store.Transaction.append = in_parts  # type: ignore[method-assign]


def projections_apart() -> None:
    """Commit the events and the checkpoint before the rows of the projections."""
    fold = ledger.core.work.Tables.fold

    def apart(self: Any, transaction: Any, events: Any) -> None:
        if not transaction.deferred and transaction.position > 1:
            projections.core.projector.checkpoint(transaction.connection, transaction.position, transaction.head)
            transaction.renew()
        fold(self, transaction, events)

    ledger.core.work.Tables.fold = apart  # type: ignore[method-assign]
