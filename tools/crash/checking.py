"""The check of a ledger after a crash: it opens the remains with the real library and reports the problems."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledger import Ledger
from ledger.core.reads import FoldReading
from ledger.events import AnyEvent, Blob
from ledger.log.integrity import check_chain
from projections.core.digests import digest
from projections.core.projector import Projector, create_all
from projections.core.sqlite import SQLiteRows
from tools import inside
from tools.crash.workload import BACKUP, THE_END, Ack

_COLUMNS = "position, stream, version, type, state, digest, head, erased_by, key"


Read = tuple[str, str | None]  # a status, blank if there is none, and a text, None if it was erased


@dataclass(frozen=True, slots=True)
class Found:
    """The state of a ledger after a crash: its problems, and the stream of each position from 1 on."""

    problems: tuple[str, ...]
    streams: tuple[str, ...] = ()
    written: Ack | None = None  # the promise of the next write after the crash
    reads: Mapping[tuple[int, str], Read] = field(default_factory=dict)  # (position, subject) -> its status and text
    backups: Mapping[str, int] = field(default_factory=dict)  # name of a whole backup -> its number of events


def look(path: Path, folds: Folds) -> Found:
    """Recover the ledger by opening it, check all of it, write once more, and close it."""
    problems: list[str] = []
    streams: tuple[str, ...] = ()
    written = None
    reads: dict[tuple[int, str], Read] = {}
    try:
        with Ledger.open(path, actor="checker") as ledger:
            streams = _inspect(ledger, folds, problems)
            reads = _read(ledger)
            problems += _half_done(ledger)
            written = _write(ledger, len(streams), problems)
    except Exception as error:  # any exception is a problem that the harness looks for
        problems.append(f"{type(error).__name__}: {error}")
    backups = dict(_backups(path, problems))
    return Found(tuple(problems), streams, written, reads, backups)


def lost(acks: Iterable[Ack], found: Found) -> list[str]:
    """Return the acknowledged events that are not at their position, or do not read as they were written."""
    wrong, streams = [], found.streams
    gone = [
        ack for ack in acks
        if not ack[1].startswith(BACKUP) and not (0 < ack[0] <= len(streams) and streams[ack[0] - 1] == ack[1])
    ]  # fmt: skip
    if gone:
        wrong.append(f"{len(gone)} acknowledged lost, the first at position {gone[0][0]} of {len(streams)}")
    for position, subject, status, text in acks:
        status_now, read_text = found.reads.get((position, subject), ("", None))
        if status_now and status and status_now not in (status, "erased"):
            wrong.append(f"{subject} of position {position} is {status_now}, and was acknowledged as {status}")
        if text and read_text is not None and read_text != text:
            wrong.append(f"{subject} of position {position} reads {read_text!r:.60}, and was given {text!r:.60}")
        if subject.startswith(BACKUP) and found.backups.get(subject) != position:
            wrong.append(f"the {subject} of {position} events is not there")
    return wrong


def _read(ledger: Ledger) -> dict[tuple[int, str], Read]:
    """Return the public reads of every event that has a text, and of every memory at its last event."""
    reads = dict[tuple[int, str], Read]()
    for entry in ledger.history.audit(limit=500).all():
        texts = (entry.data.get(name) for name in ("content", "prompt", "value"))
        reads[entry.position, entry.subject] = "", next((text for text in texts if isinstance(text, str)), None)
    for turn in ledger.interactions.list().all():
        reads[turn.position, turn.id] = "", turn.prompt
    erased = {report.subject for report in ledger.erasures.list().all()}
    for memory in ledger.memories.list(statuses=()).all():
        if (memory.status == "erased") == (memory.id in erased):
            reads[memory.position, memory.id] = memory.status, memory.content
        else:
            reads[memory.position, memory.id] = f"{memory.status} against its erasure", memory.content
    return reads


def _half_done(ledger: Ledger) -> Iterator[str]:
    """Yield unfinished erasures, which opening should complete, and documents of which only a part is there."""
    erasures = ledger.erasures.list().all()
    yield from (f"an erasure is {erasure.state}: {erasure.why}" for erasure in erasures if erasure.state != "completed")
    for listed in ledger.documents.list(statuses=()).all():
        text = "".join(chunk.content or "" for chunk in ledger.documents.get(listed.id, text=True).chunks)
        if len(text.encode()) != listed.size or not text.endswith(THE_END):
            yield f"of the document {listed.id} only a part is there"


def _backups(path: Path, problems: list[str]) -> Iterator[tuple[str, int]]:
    """Yield the name and length of every backup that has its name, and note the problems of those that are not whole."""
    for place in path.parent.glob(f"{BACKUP}*.db"):
        try:
            with Ledger.open(place, readonly=True) as ledger:
                problems += [f"{place.name}: {problem}" for problem in ledger.proof.verify(full=True).problems[:2]]
                yield place.name, ledger.position
        except Exception as error:
            problems.append(f"{place.name}: {type(error).__name__}: {error}")


def _inspect(ledger: Ledger, folds: Folds, problems: list[str]) -> tuple[str, ...]:
    with inside.store(ledger).snapshot() as connection:
        rows = connection.execute(f"SELECT {_COLUMNS} FROM events ORDER BY position").fetchall()
        blobs = connection.execute("SELECT id, data FROM blobs").fetchall()
        damage = [line for (line,) in connection.execute("PRAGMA integrity_check") if line != "ok"]
        suspended = connection.execute("SELECT name, error FROM projections WHERE suspended_at IS NOT NULL").fetchall()
    problems += [f"integrity_check: {line}" for line in damage]
    problems += [f"parked: {name} ({error})" for name, error in suspended]
    problems += check_chain(row[:8] for row in rows)
    if [row[0] for row in rows] != list(range(1, len(rows) + 1)):
        problems.append("the positions are not 1, 2, 3 …")
    if not problems:
        folds.take(ledger, rows, blobs)
        problems += folds.blobs_missing(len(rows), dict(blobs))
        if ledger.proof.digest() != folds.digests[_mark(rows)]:
            problems.append("the projections are not the fold of the log")
    return tuple(row[1] for row in rows)


def _write(ledger: Ledger, count: int, problems: list[str]) -> Ack:
    content = f"written after the crash at {count}"
    fact = ledger.remember(content, project="after")
    if ledger.memories.get(fact.id).content != content or ledger.position <= count:
        problems.append("the next write was answered, but its memory is not there")
    if all(item.id != fact.id for item in ledger.recall(content, limit=100, project="after").items):
        problems.append("recall with the words of the next write does not find it")
    return fact.position, fact.id, "active", content


Mark = tuple[bytes, tuple[int, ...]]


def _mark(rows: Sequence[Any]) -> Mark:
    """Return the mark that tells one log from another: the head of its chain, and the positions that an erasure has changed."""
    return rows[-1][6], tuple(row[0] for row in rows if row[7] is not None)


class Folds:
    """The log of one ledger folded from zero in memory, step by step; with ``every`` each prefix of the log has its digest."""

    def __init__(self, *, every: bool = False) -> None:
        self.every = every
        self.digests: dict[Mark, str] = {}  # the end of a log -> digest of the projections there
        self.commands: list[str] = []  # the command of each position of the longest log seen
        self._known: list[tuple[bytes, int | None]] = []  # the head and erasure of each position
        self._blobs: list[Blob] = []
        self._blobs_at: list[int] = []

    def take(self, ledger: Ledger, rows: Sequence[Any], blobs: Sequence[tuple[str, bytes]]) -> None:
        """Fold the new events of a log; start again if the log is not a continuation of the former one.

        A fold reads the blobs too.
        """
        if _mark(rows) in self.digests:
            return
        known = len(self._known)
        if known >= len(rows) or self._known != [(row[6], row[7]) for row in rows[:known]]:
            self._forget()
        if not self._known:
            self._begin(ledger)
        new = rows[len(self._known) :]
        marks = ", ".join("?" * len(rows[0]))
        self._copy.executemany(f"INSERT INTO events ({_COLUMNS}) VALUES ({marks})", new)
        self._copy.executemany("INSERT OR REPLACE INTO blobs (id, data) VALUES (?, ?)", blobs)
        for event in self._log.events(new[0][0], new[-1][0]):
            self._projector.fold(event, self._rows)
            self._projector.flush(self._rows)
            self._note(event, rows[: event.position], last=event.position == len(rows))

    def _forget(self) -> None:
        """Forget the former log, but keep the digests."""
        digests = self.digests
        self.__init__(every=self.every)  # type: ignore[misc]
        self.digests = digests

    def _begin(self, ledger: Ledger) -> None:
        self._copy = sqlite3.connect(":memory:", isolation_level=None)
        with inside.store(ledger).snapshot() as connection:
            tables = connection.execute("SELECT sql FROM sqlite_master WHERE name IN ('events', 'blobs')").fetchall()
        for (table,) in tables:
            self._copy.execute(table)
        self._secret = inside.secret(ledger)
        create_all(self._copy, ledger.id)
        self._log, self._rows = FoldReading(lambda: self._copy), SQLiteRows(self._copy)
        self._projector = Projector(self._secret, self._log)

    def _note(self, event: AnyEvent, rows: Sequence[Any], *, last: bool) -> None:
        self._known.append((rows[-1][6], rows[-1][7]))
        if last or self.every:
            self.digests[_mark(rows)] = digest(self._copy)
        self.commands.append(event.envelope.command_id)
        blobs = [
            value for value in map(event.data.__getattribute__, event.data.__struct_fields__) if type(value) is Blob
        ]
        self._blobs += blobs
        self._blobs_at += [event.position] * len(blobs)

    def blobs_missing(self, length: int, stored: dict[str, bytes]) -> list[str]:
        """Return the blobs that events up to a position name, and that are not there as they were written."""
        named = [blob for blob, at in zip(self._blobs, self._blobs_at, strict=True) if at <= length]
        wrong = [blob for blob in named if hashlib.sha256(stored.get(blob.blob, b"")).hexdigest() != blob.digest]
        return [f"the blob {blob.blob} is not as it was written" for blob in wrong]

    def halves(self, length: int) -> bool:
        """Return True if a log of this length ends in the middle of a command."""
        return 0 < length < len(self.commands) and self.commands[length - 1] == self.commands[length]
