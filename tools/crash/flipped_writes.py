"""A test of a ledger with a flipped bit that is opened for writing: every read, a command, verify, and a rebuild.

Reads and commands must answer as before the flip, or raise a typed error. A different answer is a silent failure if a full
check finds no problem either. If the log is whole, a rebuild must make the projections right again.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import sqlite3
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, get_args

import msgspec

from ledger import Ledger, LedgerError, NotFoundError, Page
from ledger.types import Corpus
from tools import inside

QUICK = "/dev/shm" if os.path.isdir("/dev/shm") else None
QUESTION = "coffee tea Porto marathon office"
EVERYTHING = get_args(Corpus)
HANG_SECONDS = 60.0
LATER = datetime(2100, 1, 1, tzinfo=UTC)  # a fixed clock, on which answers depend
WRITTEN = "The boat is in the harbour."
LOG = "SELECT position, stream, version, type, state, digest, head, key, erased_by FROM events ORDER BY position"
BLOBS = "SELECT id, data, erased_by FROM blobs ORDER BY id"
Check = Callable[[Ledger], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Sound:
    """The content of the image without a flip: the answer of every read, its log, and the ids that the reads take."""

    answers: dict[str, str]
    log: list[Any]
    ids: dict[str, str]


@dataclass(slots=True)
class Outcome:
    """The outcome of a flip.

    ``verdict`` is harmless, refused, told (by a typed error or a full check), cut or silent.
    """

    verdict: str
    detail: str = ""
    otherwise: bool = False  # a read answered something else, without an error
    rebuilt: bool = False


def verified(ledger: Ledger) -> tuple[str, ...]:
    report = ledger.proof.verify(full=True)
    return (*report.problems, *report.warnings)


def reads(ids: dict[str, str]) -> dict[str, Callable[[Ledger], Any]]:
    """Return every public read that answers from the projections or the log."""
    memory, turn, document = ids["memory"], ids["turn"], ids["document"]
    return {
        "memories": lambda ledger: listed(ledger.memories.list, statuses=()),
        "memories of another user": lambda ledger: listed(ledger.bind(user="ann").memories.list, statuses=()),
        "memory": lambda ledger: ledger.memories.get(memory),
        "why": lambda ledger: ledger.why(memory),
        "history": lambda ledger: listed(ledger.history.events, subject=memory),
        "confidence": lambda ledger: ledger.memories.confidence(memory),
        "review": lambda ledger: listed(ledger.review),
        "interactions": lambda ledger: listed(ledger.interactions.list),
        "interaction": lambda ledger: ledger.interactions.get(turn),
        "audit": lambda ledger: listed(ledger.history.audit),
        "refusals": lambda ledger: listed(ledger.guards.refusals),
        "quarantined": lambda ledger: listed(ledger.guards.quarantined),
        "projects": lambda ledger: listed(ledger.projects.list),
        "project": lambda ledger: ledger.projects.get("casa"),
        "state": lambda ledger: ledger.projects.state("home", history=True),
        "documents": lambda ledger: listed(ledger.documents.list, statuses=()),
        "document": lambda ledger: ledger.documents.get(document, text=True),
        "observations": lambda ledger: listed(ledger.observations.list),
        "merges": lambda ledger: listed(ledger.merges.list),
        "conflicts": lambda ledger: listed(ledger.conflicts.list),
        "graph": lambda ledger: ledger.graph.neighbors("Ann"),
        "policy": lambda ledger: ledger.policy.get(),
        "sessions": lambda ledger: listed(ledger.sessions.list),
        "messages": lambda ledger: listed(ledger.session("s1").messages, include_hidden=True),
        "erasures": lambda ledger: listed(ledger.erasures.list),
        "holds": lambda ledger: listed(ledger.holds.list),
        "distrusted": lambda ledger: listed(ledger.history.distrusted),
        "recall": lambda ledger: [(i.id, i.memory) for i in ledger.recall(QUESTION, among=EVERYTHING).items],
        "an earlier moment": lambda ledger: listed(ledger.at(6).memories.list, statuses=()),
        "a difference": lambda ledger: ledger.history.diff(6, 12),
        "what if": lambda ledger: ledger.history.what_if(without=6),
    }


def listed(listing: Callable[..., Page[Any]], **arguments: Any) -> list[Any]:
    return list(listing(limit=1_000, **arguments))


def opened(path: str) -> Ledger:
    return Ledger.open(path, create=False, clock=lambda: LATER)


def whole(answer: object) -> str:
    """Return all fields of an answer as a text; its ``repr`` is shorter."""
    return repr(
        msgspec.to_builtins(answer, enc_hook=lambda value: list(value) if isinstance(value, Page) else repr(value))
    )


def answers_of(ledger: Ledger, ids: dict[str, str]) -> dict[str, str | LedgerError]:
    answers: dict[str, str | LedgerError] = {}
    for name, read in reads(ids).items():
        try:
            answers[name] = whole(read(ledger))
        except NotFoundError as error:  # NotFoundError does not report damage, so it counts as an answer
            answers[name] = repr(error)
        except LedgerError as error:
            answers[name] = error
    return answers


def log_of(path: str) -> list[Any] | None:
    """Return the rows of the log; None if they cannot be read, or if SQLite finds the file damaged."""
    try:
        connection = sqlite3.connect(path)
        try:
            rows = [*connection.execute(BLOBS), *connection.execute(LOG)]
            return rows if connection.execute("PRAGMA integrity_check").fetchone() == ("ok",) else None
        finally:
            connection.close()
    except (sqlite3.Error, UnicodeDecodeError):
        return None


def copied(image: str, folder: str) -> str:
    path = os.path.join(folder, "memory.db")
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)
        if suffix != "-shm":
            shutil.copyfile(image + suffix, path + suffix)
    return path


def sound(image: str) -> Sound:
    with tempfile.TemporaryDirectory(prefix="ledger-bits-", dir=QUICK) as folder:
        path = copied(image, folder)
        with opened(path) as ledger:
            memory = next(item.id for item in ledger.memories.list(statuses=()) if "cold" in (item.content or ""))
            turn, document = ledger.interactions.list()[-1], ledger.documents.list()[0]
            ids = {"memory": memory, "turn": turn.id, "document": document.id}
            answers = answers_of(ledger, ids)
        if wrong := [f"{name}: {answer}" for name, answer in answers.items() if isinstance(answer, LedgerError)]:
            raise RuntimeError(f"the image is not sound before any flip: {wrong}")
        log = log_of(path)
        assert log is not None
        return Sound({name: str(answer) for name, answer in answers.items()}, log, ids)


def written(path: str, before: Sound, check: Check = verified) -> Outcome:
    """Open a flipped image, read and write, and judge the outcome; ``check`` is the full check."""
    try:
        with opened(path) as ledger:
            return _judged(ledger, path, before, check)
    except LedgerError:
        return Outcome("refused")
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}"
        return Outcome("silent", f"{type(error).__name__} reached the caller from {place}: {error}"[:300])


def _judged(ledger: Ledger, path: str, before: Sound, check: Check) -> Outcome:
    answers = answers_of(ledger, before.ids)
    differ = [name for name, answer in answers.items() if isinstance(answer, str) and answer != before.answers[name]]
    reported = any(isinstance(answer, LedgerError) for answer in answers.values())
    outcome = Outcome("harmless", otherwise=bool(differ))
    try:
        fresh = ledger.remember(WRITTEN, project="home")
        if not _is_there(ledger, fresh.id):
            outcome.detail = "a command was answered, but its memory is not there"
    except LedgerError:
        reported = True
    log = log_of(path)
    is_whole = log is not None and log[: len(before.log)] == before.log
    if log is not None and not is_whole and _is_cut(log, before.log):
        return Outcome("cut")  # SQLite takes a torn -wal for its end; the outside checkpoint shows it
    try:
        problems = check(ledger)
    except LedgerError as error:
        problems = (str(error),)
    if problems or reported:
        outcome.verdict = "told"
        outcome.detail = ""
    if not problems and differ:
        outcome.verdict, outcome.detail = "silent", f"{', '.join(differ[:5])} answer something else, and it verifies"
    if outcome.detail and outcome.verdict == "harmless":
        outcome.verdict = "silent"
    if log is None or not is_whole or outcome.verdict != "told":
        return outcome
    return _rebuilt(ledger, outcome, before, renamed=any("ProjectRegistered" in row for row in log[len(before.log) :]))


def _is_there(ledger: Ledger, id: str) -> bool:
    try:
        return ledger.memories.get(id).content == WRITTEN
    except NotFoundError:
        return False


def _is_cut(log: list[Any], whole: list[Any]) -> bool:
    """Return True if some of the last events are gone, and every event before them is unchanged; a command has written since."""
    same = next((at for at, (now, then) in enumerate(zip(log, whole, strict=False)) if now != then), len(log))
    return same < len(whole) and len(log) - same <= 2  # the command wrote a memory, and perhaps a project's name


def _rebuilt(ledger: Ledger, outcome: Outcome, before: Sound, *, renamed: bool) -> Outcome:
    """Rebuild from a whole log, which makes the projections right or raises an error.

    ``renamed``: the command did not find the damaged name of its project, and began another project of that name.
    """
    try:
        inside.rebuild(ledger)
    except LedgerError:
        return outcome  # the file itself is damaged
    outcome.rebuilt = True
    wrong = [problem for problem in ledger.proof.verify(full=True).problems if "projection" in problem]
    answers = answers_of(ledger, before.ids)
    names = ("memory", "interactions", "document") if renamed else ("memory", "interactions", "document", "state")
    wrong += [name for name in names if answers[name] != before.answers[name]]
    if wrong:
        outcome.verdict, outcome.detail = "silent", f"after a rebuild of a whole log: {'; '.join(wrong[:3])}"
    return outcome


# --- many of them ----------------------------------------------------------------------------------------------------


def try_flips(image: str, flips: list[Any], toggle: Callable[[str, Any], None], before: Sound) -> list[Outcome]:
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="ledger-bits-", dir=QUICK) as folder:
        for flip in flips:
            path = copied(image, folder)
            toggle(path, flip)
            faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
            outcome = written(path, before)
            faulthandler.cancel_dump_traceback_later()
            outcome.detail = f"{flip}: {outcome.detail}" if outcome.verdict == "silent" else ""
            outcomes.append(outcome)
    return outcomes


def control(image: str, before: Sound) -> list[str]:
    """Check that a changed row is silent to a ledger that verifies nothing, and told by a ledger that verifies."""
    verdicts = []
    for check in (lambda ledger: (), verified):
        with tempfile.TemporaryDirectory(prefix="ledger-bits-", dir=QUICK) as folder:
            path = copied(image, folder)
            connection = sqlite3.connect(path)
            connection.execute(
                "UPDATE memories SET content = 'The user prefers mud.' WHERE id = ?", (before.ids["memory"],)
            )
            connection.commit()
            connection.close()
            verdicts.append(written(path, before, check).verdict)
    return [] if verdicts == ["silent", "told"] else [f"control: a changed row is {verdicts}, not silent and then told"]
