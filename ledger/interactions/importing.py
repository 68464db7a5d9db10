"""Import of files: interactions from JSONL, conversations in the neutral format."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any

from msgspec.structs import replace

from ledger import answers
from ledger.domain import times
from ledger.domain.errors import LedgerError, NotFoundError, RejectedError, StorageError
from ledger.domain.ids import uuid7
from ledger.domain.text import check_text
from ledger.engine.engine import Engine
from ledger.engine.who import Time, Who
from ledger.interactions import commands as interaction_commands
from ledger.interactions.conversations import CLIENT, turns_of
from ledger.store.paths import path_name
from projections.views import control

Progress = Callable[[int, int], None]
CHUNK = 500  # lines captured in one commit


def import_file(
    engine: Engine,
    asker: Who,
    path: str | os.PathLike[str],
    *,
    project: str | None = None,
    strict: bool = False,
    occurred_at: Time | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> answers.ImportReport:
    """Captures the interactions of a file: JSONL, one object a line (prompt, response, project, session_id, client,
    occurred_at, …), or a JSON list of conversations in the neutral format; either may be gzipped.

    A bad line is reported with its number and skipped; with ``strict`` every line is checked before the first write.
    The same file twice adds nothing: each line has a key of its place and content. The asker's client and ``occurred_at`` are
    for lines that say none. Reinforcement and extraction are left to ``jobs.run``. A ``dry_run`` checks and counts the
    lines, and writes nothing.
    ``progress`` is called with (lines done, lines).
    """
    from ledger.interactions.lines import Line, check_line

    started, name = time.monotonic(), path_name(path)
    lines = list(_lines(name))
    if not asker.client and any(isinstance(given, dict) for _, given in lines):
        asker = replace(asker, client=CLIENT)
    checked = [(number, check_line(given, project)) for number, given in lines]
    errors = [(number, each) for number, each in checked if isinstance(each, str)]
    if strict and errors:
        raise RejectedError(
            f"line {errors[0][0]} of {os.path.basename(name)}: {errors[0][1]}; with strict nothing was written"
        )
    good = _keyed((number, each) for number, each in checked if isinstance(each, Line))
    correlation = uuid7(time.time_ns(), engine.writer.random(8))
    asker = replace(asker, correlation_id=correlation)
    if occurred_at is not None:
        asker = replace(asker, occurred_at=times.with_offset("occurred_at", occurred_at))
    warnings: list[tuple[int, str]] = []
    captured = known = 0
    if dry_run:
        known = _known_lines(engine, asker.user, [key for _, _, key in good])
        captured, good = len(good) - known, []
    for start in range(0, len(good), CHUNK):
        with engine.writer.batch():
            for number, line, key in good[start : start + CHUNK]:
                done = _import_line(engine, replace(asker, key=key), line, errors, number, strict)
                if done is not None:
                    captured += not done.replayed
                    known += done.replayed
                    warnings += ((number, each) for each in done.warnings)
        if progress is not None:
            progress(min(start + CHUNK, len(good)), len(good))
    return answers.ImportReport(
        path=name,
        lines=len(lines),
        captured=captured,
        known=known,
        errors=tuple(sorted(errors)),
        warnings=tuple(warnings),
        correlation_id=correlation if captured and not dry_run else None,
        dry_run=dry_run,
        seconds=time.monotonic() - started,
    )


def _known_lines(engine: Engine, owner: str, keys: Sequence[str]) -> int:
    """How many of these keys were used by this user already."""
    with engine.reading() as connection:
        return sum(control.has_answered(connection, engine.writer.mac("key", owner, key)) for key in keys)


def _import_line(
    engine: Engine, asker: Who, line: Any, errors: list[tuple[int, str]], number: int, strict: bool
) -> answers.Interaction | None:
    """The line as a capture; None when it was refused, which is listed."""
    try:
        if line.client:
            asker = replace(asker, client=check_text("client", line.client))
        if line.occurred_at is not None:
            asker = replace(asker, occurred_at=times.with_offset("occurred_at", line.occurred_at))
        return interaction_commands.capture_line(engine, asker, line)
    except LedgerError as refusal:
        if strict:
            raise
        errors.append((number, str(refusal)))
        return None


def _keyed(lines: Iterable[tuple[int, Any]]) -> list[tuple[int, Any, str]]:
    """Each line with its key: what it says, and how often the file has said it before."""
    count: Counter[str] = Counter()
    found = []
    for number, line in lines:
        digest = line.digest()
        count[digest] += 1
        found.append((number, line, f"import:{digest}:{count[digest]}"))
    return found


def _lines(name: str) -> Iterator[tuple[int, Any]]:
    """(number, object or the text that is none) of every line; a conversation's turns are numbered as they come."""
    try:
        with _opened(name) as file:
            found: Iterator[tuple[int, object]]
            if _first_character(file) == "[":
                found = enumerate(turns_of(json.load(file)), 1)
            else:
                found = ((number, line) for number, line in enumerate(file, 1) if line.strip())
            yield from found
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {name}") from None
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise StorageError(f"{name} cannot be read: {type(error).__name__}") from None
    except (ValueError, RecursionError) as error:
        raise RejectedError(f"{name} is no JSON list of conversations: {type(error).__name__}") from None


def _opened(name: str) -> IO[str]:
    """The file as text; bytes that are no UTF-8 become lone surrogates, which the line's own check refuses."""
    opener = gzip.open if name.endswith(".gz") else open
    return opener(name, "rt", encoding="utf-8-sig", errors="surrogateescape")


def _first_character(file: IO[str]) -> str:
    character = file.read(1)
    while character.isspace():
        character = file.read(1)
    file.seek(0)
    return character
