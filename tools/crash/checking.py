"""Opens the real library on what a crash left, and says what is wrong with it."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger import Ledger
from ledger.domain.events import AnyEvent, Blob
from ledger.integrity import check_chain
from ledger.log_reading import Reading
from projections.digests import digest
from projections.projector import Projector, create_all
from projections.sqlite import SQLiteRows
from tools.crash.workload import Ack

_COLUMNS = "position, stream, version, type, state, digest, head, erased_by, key"


@dataclass(frozen=True, slots=True)
class Found:
    """What was found: the problems, and the streams of the positions 1, 2, 3 …"""

    problems: tuple[str, ...]
    streams: tuple[str, ...] = ()
    written: Ack | None = None  # the next write, which worked


def look(path: Path, folds: Folds) -> Found:
    """Recovers the ledger by opening it, checks all of it, writes once more, and closes it."""
    problems: list[str] = []
    streams: tuple[str, ...] = ()
    written = None
    try:
        with Ledger.open(path, actor="checker") as ledger:
            streams = _inspect(ledger, folds, problems)
            written = _write(ledger, len(streams), problems)
    except Exception as error:  # whatever it is, it is what the harness looks for
        problems.append(f"{type(error).__name__}: {error}")
    return Found(tuple(problems), streams, written)


def lost(acks: Iterable[Ack], found: Found) -> list[str]:
    """The acknowledged events that are not exactly where they were said to be."""
    streams = found.streams
    gone = [ack for ack in acks if not (0 < ack[0] <= len(streams) and streams[ack[0] - 1] == ack[1])]
    return [f"{len(gone)} acknowledged lost, the first at position {gone[0][0]} of {len(streams)}"] if gone else []


def _inspect(ledger: Ledger, folds: Folds, problems: list[str]) -> tuple[str, ...]:
    with ledger._store.snapshot() as connection:
        rows = connection.execute(f"SELECT {_COLUMNS} FROM events ORDER BY position").fetchall()
        blobs = connection.execute("SELECT id, data FROM blobs").fetchall()
        damage = [told for (told,) in connection.execute("PRAGMA integrity_check") if told != "ok"]
        parked = connection.execute("SELECT name, error FROM projections WHERE parked_at IS NOT NULL").fetchall()
    problems += [f"integrity_check: {told}" for told in damage]
    problems += [f"parked: {name} ({error})" for name, error in parked]
    problems += check_chain(row[:8] for row in rows)
    if [row[0] for row in rows] != list(range(1, len(rows) + 1)):
        problems.append("the positions are not 1, 2, 3 …")
    if not problems:
        folds.take(ledger, rows, blobs)
        problems += folds.blobs_missing(len(rows), dict(blobs))
        if ledger.digest() != folds.digests[rows[-1][6]]:
            problems.append("the projections are not the fold of the log")
    return tuple(row[1] for row in rows)


def _write(ledger: Ledger, count: int, problems: list[str]) -> Ack:
    content = f"written after the crash at {count}"
    fact = ledger.remember(content, project="after")
    known = ledger.memory(fact.id)
    if known is None or known.content != content or ledger.position <= count:
        problems.append("the next write was answered, and is not there")
    if all(item.id != fact.id for item in ledger.recall(content, k=100, project="after").items):
        problems.append("the next write is not found by its own words")
    return fact.position, fact.id


class Folds:
    """The log of one ledger folded from zero, in memory, and on from there. ``every`` prefix of it may be asked for."""

    def __init__(self, *, every: bool = False) -> None:
        self.every = every
        self.digests: dict[bytes, str] = {}  # head of the log -> digest of the projections there
        self.commands: list[str] = []  # of each position of the longest log seen
        self._heads: list[bytes] = []
        self._blobs: list[Blob] = []
        self._blobs_at: list[int] = []

    def take(self, ledger: Ledger, rows: Sequence[Any], blobs: Sequence[tuple[str, bytes]]) -> None:
        """Folds what is new in this log; starts again where it is another one than before. A fold reads its blobs too."""
        if rows[-1][6] in self.digests:
            return
        if rows[-1][6] in self._heads or self._heads != [row[6] for row in rows[: len(self._heads)]]:
            self.__init__(every=self.every)  # type: ignore[misc]
        if not self._heads:
            self._begin(ledger)
        new = rows[len(self._heads) :]
        marks = ", ".join("?" * len(rows[0]))
        self._copy.executemany(f"INSERT INTO events ({_COLUMNS}) VALUES ({marks})", new)
        self._copy.executemany("INSERT OR REPLACE INTO blobs (id, data) VALUES (?, ?)", blobs)
        for event in self._log.events(new[0][0], new[-1][0]):
            self._projector.fold(event, self._rows)
            self._projector.flush(self._rows)
            self._note(event, rows[event.position - 1][6], last=event.position == len(rows))

    def _begin(self, ledger: Ledger) -> None:
        self._copy = sqlite3.connect(":memory:", isolation_level=None)
        with ledger._store.snapshot() as connection:
            tables = connection.execute("SELECT sql FROM sqlite_master WHERE name IN ('events', 'blobs')").fetchall()
        for (table,) in tables:
            self._copy.execute(table)
        self._secret = ledger._writer.secret
        create_all(self._copy, self._secret, ledger.id)
        self._log, self._rows = Reading(lambda: self._copy), SQLiteRows(self._copy)
        self._projector = Projector(self._secret, self._log)

    def _note(self, event: AnyEvent, head: bytes, *, last: bool) -> None:
        self._heads.append(head)
        if last or self.every:
            self.digests[head] = digest(self._copy, self._secret)
        self.commands.append(event.envelope.command_id)
        found = [
            value for value in map(event.data.__getattribute__, event.data.__struct_fields__) if type(value) is Blob
        ]
        self._blobs += found
        self._blobs_at += [event.position] * len(found)

    def blobs_missing(self, length: int, stored: dict[str, bytes]) -> list[str]:
        """The blobs that events up to a position name, and that are not there as they were written."""
        wanted = [blob for blob, at in zip(self._blobs, self._blobs_at, strict=True) if at <= length]
        wrong = [each for each in wanted if hashlib.sha256(stored.get(each.blob, b"")).hexdigest() != each.digest]
        return [f"the blob {each.blob} is not as it was written" for each in wrong]

    def halves(self, length: int) -> bool:
        """Whether a log of this length ends in the middle of a command."""
        return 0 < length < len(self.commands) and self.commands[length - 1] == self.commands[length]
