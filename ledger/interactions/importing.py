"""Import of files: interactions from JSONL, conversations in the neutral format."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from ledger import answers
from ledger.domain import times
from ledger.domain.errors import LedgerError, RejectedError
from ledger.domain.ids import uuid7
from ledger.domain.text import check_text
from ledger.engine import given_files
from ledger.engine.engine import Engine
from ledger.engine.stopping import Stopping
from ledger.engine.who import Time, Who
from ledger.interactions import commands as interaction_commands
from ledger.interactions.conversations import CLIENT, turns_of
from ledger.interactions.lines import Line, check_line
from ledger.store.paths import path_name
from projections.views import control

Progress = Callable[[int, int], None]
CHUNK = 1_000  # lines captured in one commit
CHUNK_CHARS = 4 * 1024 * 1024  # and characters of them
KEPT = 10_000  # lines of a file that is read once; with as many characters as a chunk
LINE_BYTES = 64 * 1024 * 1024  # of JSONL; two texts of 10 MB, however they are escaped
LIST_BYTES = 256 * 1024 * 1024  # of a JSON list, which is read at once


def import_file(
    engine: Engine,
    asker: Who,
    path: str | os.PathLike[str],
    *,
    project: str | None = None,
    strict: bool = False,
    occurred_at: Time | None = None,
    dry_run: bool = False,
    stopping: Stopping,
    progress: Progress | None = None,
) -> answers.ImportReport:
    """Captures the interactions of a file, as ``interactions.import_file`` says it. A long file is read twice, a chunk at a
    time: to be checked, and to be captured. Each line has a key of its place and content; the asker's client and
    ``occurred_at`` are for lines that say none, and ``progress`` is called with (lines done, lines).
    """
    started, name = time.monotonic(), path_name(path)
    file = _File(name, project)
    correlation = uuid7(engine.writer.nanoseconds(engine.writer.now()), engine.writer.random(8))
    asker = replace(asker, client=asker.client or file.client, correlation_id=correlation)
    if occurred_at is not None:
        asker = replace(asker, occurred_at=times.with_offset("occurred_at", occurred_at))
    run = _Import(engine, asker, file, strict, stopping)
    run.check(dry_run)
    if not dry_run and not run.stopped:
        run.capture(progress)
    return answers.ImportReport(
        path=name,
        lines=run.lines,
        captured=run.good - run.known if dry_run else run.captured,
        known=run.known,
        errors=tuple(sorted(run.errors)),
        warnings=tuple(run.warnings),
        correlation_id=correlation if run.captured else None,
        dry_run=dry_run,
        stopped=run.stopped,
        seconds=time.monotonic() - started,
    )


class _Import:
    """One import and what it has come to."""

    def __init__(self, engine: Engine, asker: Who, file: _File, strict: bool, stopping: Stopping) -> None:
        self._engine, self._asker, self._file, self._strict, self._stopping = engine, asker, file, strict, stopping
        self.errors: list[tuple[int, str]] = []
        self.warnings: list[tuple[int, str]] = []
        self.lines = self.good = self.captured = self.known = 0
        self.stopped = ""

    def check(self, dry_run: bool) -> None:
        """Reads all lines; a dry run says of each what its capture would."""
        for key, number, line in self._file.lines():
            self.lines += 1
            if isinstance(line, str):
                self.errors.append((number, line))
                if self._strict:
                    where = f"line {number} of {os.path.basename(self._file.name)}"
                    raise RejectedError(f"{where}: {line}; with strict nothing was written")
            else:
                self.good += 1
                if dry_run:
                    self._warn(key, number, line)
            if self.lines % CHUNK == 0 and (why := self._stopping.why):
                self.stopped = why
                return

    def _warn(self, key: str, number: int, line: Line) -> None:
        user = self._asker.user
        self.known += _is_known(self._engine, user, key)
        if line.memories_used:
            self.warnings += ((number, each) for each in interaction_commands.warnings_of(self._engine, user, line))

    def capture(self, progress: Progress | None) -> None:
        """Captures the good lines, each chunk in one commit."""
        done = 0
        for chunk in self._file.chunks():
            with self._engine.writer.batch():
                for each in chunk:
                    self._capture_line(*each)
            done += len(chunk)
            if progress is not None:
                progress(done, self.good)
            if done < self.good and (why := self._stopping.why):
                self.stopped = why
                return

    def _capture_line(self, key: str, number: int, line: Line) -> None:
        try:
            asker = _asker_of(line, self._asker, key)
            replayed, warned = interaction_commands.capture_line(self._engine, asker, line)
        except LedgerError as refusal:
            if self._strict:
                raise
            self.errors.append((number, str(refusal)))
        else:
            self.captured += not replayed
            self.known += replayed
            self.warnings += ((number, each) for each in warned)


class _File:
    """One file to import, which may be read as often as one likes."""

    def __init__(self, name: str, project: str | None) -> None:
        self.name, self._project = name, project
        text = given_files.whole(name, LIST_BYTES)
        self._list = None if text is None else _conversations(name, text)
        self._kept: list[tuple[str, int, Line | str]] | None = None  # all lines of a short file, once they were read
        self.client = "" if self._list is None else CLIENT

    def lines(self) -> Iterator[tuple[str, int, Line | str]]:
        """(key, number, the line or why it is none); the key is of what it says, and how often the file said it before."""
        kept: list[tuple[str, int, Line | str]] = []
        chars = 0
        for each in self._kept if self._kept is not None else self._read():
            if len(kept) <= KEPT and chars <= CHUNK_CHARS:
                kept.append(each)
                chars += _chars(each[2])
            yield each
        self._kept = kept if len(kept) <= KEPT and chars <= CHUNK_CHARS else None

    def _read(self) -> Iterator[tuple[str, int, Line | str]]:
        count: Counter[bytes] = Counter()
        given = given_files.lines(self.name, LINE_BYTES) if self._list is None else enumerate(self._list, 1)
        for number, each in given:
            if each is None:
                line: Line | str = f"it has more than {LINE_BYTES:,} bytes"
            else:
                line = each if self._list is not None and isinstance(each, str) else check_line(each, self._project)
            if isinstance(line, str):
                yield "", number, line
            else:
                digest = line.digest()
                count[digest] += 1
                yield f"import:{digest.hex()}:{count[digest]}", number, line

    def chunks(self) -> Iterator[list[tuple[str, int, Line]]]:
        """The good lines, as many at a time as one commit takes."""
        chunk: list[tuple[str, int, Line]] = []
        chars = 0
        for key, number, line in self.lines():
            if isinstance(line, str):
                continue
            chunk.append((key, number, line))
            chars += _chars(line)
            if len(chunk) == CHUNK or chars > CHUNK_CHARS:
                yield chunk
                chunk, chars = [], 0
        if chunk:
            yield chunk


def _chars(line: Line | str) -> int:
    return 0 if isinstance(line, str) else len(line.prompt) + len(line.response)


def _conversations(name: str, text: str) -> list[dict[str, object] | str]:
    try:
        return list(turns_of(json.loads(text)))
    except (ValueError, RecursionError) as error:
        raise RejectedError(f"{name} is no JSON list of conversations: {type(error).__name__}") from None


def _is_known(engine: Engine, owner: str, key: str) -> bool:
    """Whether this key was used by this user already."""
    with engine.reading() as connection:
        return control.has_answered(connection, engine.writer.mac("key", owner, key))


def _asker_of(line: Line, asker: Who, key: str) -> Who:
    client = check_text("client", line.client) if line.client else asker.client
    return replace(asker, key=key, client=client, occurred_at=line.occurred_at or asker.occurred_at)
