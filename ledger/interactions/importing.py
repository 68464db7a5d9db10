"""Import of files: interactions from JSONL, conversations in the neutral format."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec.structs import replace

from ledger.core import given_files
from ledger.core.engine import Engine
from ledger.core.stopping import Stopping
from ledger.core.who import Who
from ledger.domain.errors import LedgerError, RejectedError
from ledger.domain.ids import uuid7
from ledger.domain.text import check_text
from ledger.interactions import answers, conversations, dates
from ledger.interactions import commands as interaction_commands
from ledger.interactions.conversations import CLIENT, turns_of
from ledger.interactions.imported import Imported, SeenLine
from ledger.interactions.lines import ImportedLine, check_line
from ledger.log.paths import path_name

Progress = Callable[[int, int], None]
CHUNK = 1_000  # lines captured in one commit
CHUNK_BYTES = 2 * 1024 * 1024  # of the JSON of one commit's lines, which may take 20 times as much once it is decoded
LONG_BYTES = 64 * 1024  # a longer line ends its chunk
KEPT = 10_000  # lines of a short file, which is read once, if it also has at most the bytes of a chunk
LINE_BYTES = 32 * 1024 * 1024  # of JSONL: two texts of 10 MB, and half as much again for escapes
NOTED = 1_000  # errors and warnings listed in a report, which counts all of them
ERASED = (
    "a line of the same length at this place of a file, with the same time, was erased, and an import does not bring an"
    " erased text back; capture() records the line if its text is a different one"
)


def import_file(
    engine: Engine,
    asker: Who,
    path: str | os.PathLike[str],
    *,
    project: str | None = None,
    strict: bool = False,
    date_format: str | None = None,
    dry_run: bool = False,
    stopping: Stopping,
    progress: Progress | None = None,
) -> answers.ImportReport:
    """Capture the interactions of a file, as documented at ``interactions.import_file``.

    A long file is read twice, a chunk at a time: to be checked, and to be captured. The asker's client and ``occurred_at`` are
    for lines without them, and ``progress`` is called with (lines done, lines).
    """
    started, name = time.monotonic(), path_name(path)
    file = _File(name, project, dates.checked(date_format))
    correlation = uuid7(engine.writer.nanoseconds(engine.now()), engine.writer.random(8))
    asker = replace(asker, client=asker.client or file.client, correlation_id=correlation)
    run = _Import(engine, asker, file, strict, stopping)
    run.check()
    if not run.stopped:
        run.look() if dry_run else run.capture(progress)
    return answers.ImportReport(
        path=name,
        lines=run.lines,
        captured=run.captured,
        known=run.known,
        errors=tuple(sorted(run.errors.first)),
        warnings=tuple(run.warnings.first),
        error_count=run.errors.count,
        warning_count=run.warnings.count,
        correlation_id=correlation if run.captured and not dry_run else None,
        dry_run=dry_run,
        stopped=run.stopped,
        seconds=time.monotonic() - started,
    )


class _Notes:
    """The notes on lines: the first of them, and the number of all."""

    def __init__(self) -> None:
        self.first: list[tuple[int, str]] = []
        self.count = 0

    def add(self, number: int, text: str) -> None:
        self.count += 1
        if len(self.first) < NOTED:
            self.first.append((number, text))


class _Import:
    """A running import, with its results."""

    def __init__(self, engine: Engine, asker: Who, file: _File, strict: bool, stopping: Stopping) -> None:
        self._engine, self._asker, self._file, self._strict, self._stopping = engine, asker, file, strict, stopping
        self._imported = Imported(engine, asker.user)
        self.errors, self.warnings = _Notes(), _Notes()
        self.lines = self.good = self.captured = self.known = 0
        self.stopped = ""

    def check(self) -> None:
        """Read all lines, and note the bad ones."""
        for number, line, _ in self._file.lines():
            self.lines += 1
            if isinstance(line, str):
                self.errors.add(number, line)
                if self._strict:
                    where = f"line {number} of {os.path.basename(self._file.name)}"
                    raise RejectedError(f"{where}: {line}; with strict=True nothing was written")
            else:
                self.good += 1
            if self.lines % CHUNK == 0 and self._is_stopped():
                return

    def look(self) -> None:
        """Count the lines that a capture would record, and note its warnings."""
        done = 0
        for chunk in self._file.chunks():
            for (number, line), seen in zip(chunk, self._imported.look_up(chunk), strict=True):
                self._count(number, line, seen)
                self.captured += seen.state == "new"
                if seen.state == "new" and line.memories_used:
                    self._warn(number, interaction_commands.warnings_of(self._engine, self._asker.user, line))
            done += len(chunk)
            if done < self.good and self._is_stopped():
                return

    def capture(self, progress: Progress | None) -> None:
        """Capture the good lines, each chunk in one commit."""
        done = 0
        for chunk in self._file.chunks():
            with self._engine.writer.batch():
                for (number, line), seen in zip(chunk, self._imported.look_up(chunk), strict=True):
                    self._count(number, line, seen)
                    if seen.state == "new":
                        self._capture_line(number, line, seen)
            done += len(chunk)
            if progress is not None:
                progress(done, self.good)
            if done < self.good and self._is_stopped():
                return

    def _is_stopped(self) -> bool:
        self.stopped = self._stopping.why
        return bool(self.stopped)

    def _count(self, number: int, line: ImportedLine, seen: SeenLine) -> None:
        self.known += seen.state != "new"
        if seen.state == "erased":
            self.warnings.add(number, ERASED)
        elif seen.state == "known" and line.memories_used:
            self._warn(number, interaction_commands.warnings_of(self._engine, self._asker.user, line))

    def _warn(self, number: int, warned: Iterable[str]) -> None:
        for text in warned:
            self.warnings.add(number, text)

    def _capture_line(self, number: int, line: ImportedLine, seen: SeenLine) -> None:
        try:
            asker = _asker_of(line, self._asker, seen.key)
            replayed, warned = interaction_commands.capture_line(self._engine, asker, line, seen.content)
        except LedgerError as refusal:
            if self._strict:
                raise
            self.errors.add(number, str(refusal))
        else:
            self.captured += not replayed
            self.known += replayed
            self._warn(number, warned)


Given = tuple[int, ImportedLine | str, int]
"""The number of a line, the line or the reason why the text is not a line, and the bytes that count for its chunk."""


class _File:
    """A file to import, which may be read several times."""

    def __init__(self, name: str, project: str | None, date_format: str | None) -> None:
        self.name, self._project, self._date_format = name, project, date_format
        self._is_list = given_files.is_list(name)
        self._kept: list[Given] | None = None  # all lines of a short file, after the first reading
        self.client = CLIENT if self._is_list else ""

    def lines(self) -> Iterator[Given]:
        """Yield each line that is not blank; those of a short file are decoded once."""
        kept: list[Given] = []
        size = 0
        for entry in self._kept if self._kept is not None else self._read():
            if len(kept) <= KEPT and size <= CHUNK_BYTES:
                kept.append(entry)
                size += entry[2]
            yield entry
        self._kept = kept if len(kept) <= KEPT and size <= CHUNK_BYTES else None

    def _read(self) -> Iterator[Given]:
        if self._is_list:
            yield from self._read_list()
            return
        for number, line in given_files.lines(self.name, LINE_BYTES):
            if line is None:
                yield number, f"it has more than {LINE_BYTES:,} bytes", 0
            else:
                size = len(line) if len(line) < LONG_BYTES else CHUNK_BYTES + 1
                yield number, check_line(line, self._project, self._date_format), size

    def _read_list(self) -> Iterator[Given]:
        try:
            turns = turns_of(given_files.elements(self.name, conversations.CONVERSATION_BYTES))
            for number, turn in enumerate(turns, 1):
                if isinstance(turn, str):
                    yield number, turn, 0
                else:
                    line = check_line(self._dated(turn, number), self._project)
                    yield number, line, 0 if isinstance(line, str) else len(line.prompt) + len(line.response)
        except (ValueError, RecursionError, msgspec.DecodeError) as error:
            kind = type(error).__name__
            raise RejectedError(f"{self.name} is not a valid JSON list of conversations: {kind}") from None

    def _dated(self, turn: dict[str, object], number: int) -> dict[str, object]:
        """Return a turn of a conversation with its time as ISO 8601.

        Raises:
            RejectedError: The date cannot be read. The dates of a file have one form, so this refuses the file.
        """
        written = turn["occurred_at"]
        if written is None:
            return turn
        plain = written if isinstance(written, int | float) else str(written)
        if (moment := dates.read(plain, self._date_format)) is None:
            why = dates.unreadable("date_time", written, self._date_format)
            where = f"line {number:,} of {os.path.basename(self.name)}"
            raise RejectedError(f"{where}: {why} (--dates in a shell); nothing was written")
        return turn | {"occurred_at": moment}

    def chunks(self) -> Iterator[list[tuple[int, ImportedLine]]]:
        """Yield the good lines, as many at a time as one commit takes."""
        chunk: list[tuple[int, ImportedLine]] = []
        size = 0
        for number, line, bytes_ in self.lines():
            if isinstance(line, str):
                continue
            chunk.append((number, line))
            size += bytes_
            if len(chunk) == CHUNK or size > CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk


def _asker_of(line: ImportedLine, asker: Who, key: str) -> Who:
    client = check_text("client", line.client) if line.client else asker.client
    return replace(asker, key=key, client=client, occurred_at=line.occurred_at or asker.occurred_at)
