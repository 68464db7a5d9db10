"""The import of files: JSONL with one interaction a line, or a JSON list of conversations."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec.structs import replace

from ledger.core import given_files
from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.steps import Stopping
from ledger.domain.errors import LedgerError, RejectedError
from ledger.domain.ids import uuid7
from ledger.domain.text import check_text
from ledger.interactions import answers, conversations, dates
from ledger.interactions import commands as interaction_commands
from ledger.interactions.conversations import CLIENT, turns_of
from ledger.interactions.dates import DateReader
from ledger.interactions.imported import LineRecognition, SeenLine
from ledger.interactions.lines import ImportedLine, check_line
from ledger.log.paths import path_name

Progress = Callable[[int, int], None]
CHUNK = 1_000  # the most lines captured in one commit
CHUNK_BYTES = 2 * 1024 * 1024  # the JSON of one commit's lines, which may need 20 times as much memory once decoded
LONG_BYTES = 64 * 1024  # a longer line ends its chunk
SHORT_FILE_LINES = 10_000  # a file of at most so many lines and CHUNK_BYTES is read once and kept in memory
LINE_BYTES = (
    32 * 1024 * 1024
)  # the most bytes of a line of JSONL: two texts of 10 MiB, and half as much again for escapes
LISTED_NOTES = 1_000  # the most errors and the most warnings that a report lists; the report counts all
ERASED = (
    "a line of the same length at this place of a file, with the same time, was erased, and an import does not bring an"
    " erased text back; if the text of this line is a different one, capture() records it"
)


def import_file(
    engine: Engine,
    asker: Who,
    path: str | os.PathLike[str],
    *,
    project: str | None = None,
    strict: bool = False,
    date_reader: DateReader,
    dry_run: bool = False,
    stopping: Stopping,
    progress: Progress | None = None,
) -> answers.ImportReport:
    """Capture the interactions of a file; ``interactions.import_file`` documents the parameters.

    A long file is read twice, a chunk at a time: first all lines are checked, then the good lines are captured. A line without a
    client or time gets the asker's ``client`` or ``occurred_at``.
    """
    started, name = time.monotonic(), path_name(path)
    file = _File(name, project, date_reader)
    correlation = uuid7(engine.writer.nanoseconds(engine.now()), engine.writer.random(8))
    asker = replace(asker, client=asker.client or file.client, correlation_id=correlation)
    run = _Import(engine, asker, file, strict, stopping)
    run.check()
    if not run.stopped:
        run.count_new() if dry_run else run.capture(progress)
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
    """The errors or the warnings about lines: the first 1,000, and the number of all."""

    def __init__(self) -> None:
        self.first: list[tuple[int, str]] = []
        self.count = 0

    def add(self, number: int, text: str) -> None:
        self.count += 1
        if len(self.first) < LISTED_NOTES:
            self.first.append((number, text))


class _Import:
    """An import that is running, with its results so far."""

    def __init__(self, engine: Engine, asker: Who, file: _File, strict: bool, stopping: Stopping) -> None:
        self._engine, self._asker, self._file, self._strict, self._stopping = engine, asker, file, strict, stopping
        self._imported = LineRecognition(engine, asker.user)
        self.errors, self.warnings = _Notes(), _Notes()
        self.lines = self.good = self.captured = self.known = 0
        self.stopped = ""

    def check(self) -> None:
        """Read all lines and note the bad lines."""
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
        for number, doubt in self._file.doubts.items():
            self.warnings.add(number, doubt)

    def count_new(self) -> None:
        """Count the lines that ``capture`` would record, and note the warnings that it would give."""
        done = 0
        for chunk in self._file.chunks():
            looked_up = self._imported.look_up(self._imported.cleaned(chunk))
            for (number, line), seen in zip(chunk, looked_up, strict=True):
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
        writer = self._engine.writer
        for chunk in self._file.chunks():
            cleaned = self._imported.cleaned(chunk)
            scans = writer.guard.ahead([line for _, line in chunk])
            with writer.guard.held(scans, room=None), writer.batch():
                for (number, line), seen in zip(chunk, self._imported.look_up(cleaned), strict=True):
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

    def _warn(self, number: int, warnings: Iterable[str]) -> None:
        for text in warnings:
            self.warnings.add(number, text)

    def _capture_line(self, number: int, line: ImportedLine, seen: SeenLine) -> None:
        try:
            asker = _asker_of(line, self._asker, seen.key)
            replayed, warnings = interaction_commands.capture_line(self._engine, asker, line, seen.content)
        except LedgerError as refusal:
            if self._strict:
                raise
            self.errors.add(number, str(refusal))
        else:
            self.captured += not replayed
            self.known += replayed
            self._warn(number, warnings)


NumberedLine = tuple[int, ImportedLine | str, int]
"""(number, the line or the reason why the text is not a line, the bytes that the line adds to its chunk)."""


class _File:
    """A file to import, which may be read several times."""

    def __init__(self, name: str, project: str | None, date_reader: DateReader) -> None:
        self.name, self._project, self._dates = name, project, date_reader
        self.doubts = dict[int, str]()  # about the times of lines
        self._is_list = given_files.is_list(name)
        self._lines: list[NumberedLine] | None = None  # all lines of a short file, after the first reading
        self.client = CLIENT if self._is_list else ""

    def lines(self) -> Iterator[NumberedLine]:
        """Yield each line that is not blank; a short file is read and decoded only once."""
        lines: list[NumberedLine] = []
        size = 0
        for line in self._lines if self._lines is not None else self._read():
            if len(lines) <= SHORT_FILE_LINES and size <= CHUNK_BYTES:
                lines.append(line)
                size += line[2]
            yield line
        self._lines = lines if len(lines) <= SHORT_FILE_LINES and size <= CHUNK_BYTES else None

    def _read(self) -> Iterator[NumberedLine]:
        if self._is_list:
            yield from self._read_list()
            return
        for number, line in given_files.lines(self.name, LINE_BYTES):
            if line is None:
                yield number, f"the line has more than {LINE_BYTES:,} bytes", 0
            else:
                size = len(line) if len(line) < LONG_BYTES else CHUNK_BYTES + 1
                checked = check_line(line, self._project, self._dates)
                self._note_doubt(number)
                yield number, checked, size

    def _read_list(self) -> Iterator[NumberedLine]:
        try:
            turns = turns_of(given_files.elements(self.name, conversations.CONVERSATION_BYTES))
            for number, turn in enumerate(turns, 1):
                if isinstance(turn, str):
                    yield number, turn, 0
                else:
                    line = check_line(self._dated(turn, number), self._project)
                    self._note_doubt(number)
                    yield number, line, 0 if isinstance(line, str) else len(line.prompt) + len(line.response)
        except (ValueError, RecursionError, msgspec.DecodeError) as error:
            kind = type(error).__name__
            raise RejectedError(f"{self.name} is not a valid JSON list of conversations: {kind}") from None

    def _dated(self, turn: dict[str, object], number: int) -> dict[str, object]:
        """Return a turn of a conversation with its time as ISO 8601.

        Raises:
            RejectedError: The date cannot be read. All dates of a file have the same form, so the file is refused.
        """
        written = turn["occurred_at"]
        if written is None:
            return turn
        plain = written if isinstance(written, int | float) else str(written)
        if (moment := self._dates.read(plain)) is None:
            why = dates.unreadable("date_time", written, self._dates.dates)
            where = f"line {number:,} of {os.path.basename(self.name)}"
            raise RejectedError(f"{where}: {why} (--dates in a shell); nothing was written")
        return turn | {"occurred_at": moment}

    def _note_doubt(self, number: int) -> None:
        if self._dates.doubt and len(self.doubts) < LISTED_NOTES:
            self.doubts[number] = self._dates.doubt
        self._dates.doubt = ""

    def chunks(self) -> Iterator[list[tuple[int, ImportedLine]]]:
        """Yield the good lines in chunks, each for one commit."""
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
