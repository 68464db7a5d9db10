"""The play of the demo: ten weeks of a conversation, its owner's decisions, and then the loss of every projection.

The clock follows the conversation, so that the ledger looks as if it had been lived with: an event carries the time at
which something was said or decided, and confidence grows visibly over ten weeks.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Any

from ledger.api import Ledger
from ledger.domain.errors import LedgerError, RejectedError

Progress = Callable[[int, int], None]
Fields = dict[str, Any]  # of a line of a file
THE_LOG = ("events", "blobs", "leases")  # every other table is a projection's
_NAMES = {"session_id": "session", "response_summary": "summary"}  # lines have the names of the import format
_OF_PROJECTS = ("add_alias", "set_state")


class StoryClock:
    """The time in the story; it moves on by a millisecond at each call."""

    def __init__(self, start: datetime) -> None:
        self._now = start

    def __call__(self) -> datetime:
        self._now += timedelta(milliseconds=1)
        return self._now

    def move_to(self, moment: datetime) -> None:
        self._now = max(self._now, moment)


class Play:
    """The conversation, the script, and the names under which the script speaks of memories."""

    def __init__(self) -> None:
        self.turns: list[Fields] = _lines("conversation.jsonl")
        self.acts: list[Fields] = _lines("script.jsonl")
        self.start: datetime = datetime.fromisoformat(self.turns[0]["occurred_at"]) - timedelta(hours=1)
        self.clock: StoryClock = StoryClock(self.start)
        self.named: dict[str, str] = {}
        self._interactions: list[str] = []

    def perform(self, ledger: Ledger, progress: Progress | None = None) -> None:
        """Capture, reinforce and extract each turn, and do after each what its owner decided."""
        self._act_all(ledger, 0)
        for number, turn in enumerate(self.turns, 1):
            self.clock.move_to(datetime.fromisoformat(turn["occurred_at"]))
            fields = {_NAMES.get(name, name): value for name, value in turn.items()}
            captured = ledger.bind(actor="assistant").capture(**fields)
            self._interactions.append(captured.id)
            ledger.bind(actor="policy:extraction").extract(captured.id)
            self._act_all(ledger, number)
            if progress is not None:
                progress(number, len(self.turns))

    def _act_all(self, ledger: Ledger, number: int) -> None:
        owner = ledger.bind(actor="ines")
        for act in self.acts:
            if act["after"] == number:
                self._act(owner, {name: value for name, value in act.items() if name != "after"})

    def _act(self, ledger: Ledger, fields: Fields) -> None:
        verb, name, subject = fields.pop("act"), fields.pop("as", None), fields.pop("memory", None)
        if "source" in fields:
            fields["sources"] = [self._interactions[fields.pop("source") - 1]]
        subjects = () if subject is None else (self._memory(ledger, subject),)
        done = getattr(ledger.projects if verb in _OF_PROJECTS else ledger, verb)(*subjects, **fields)
        if name is not None:
            self.named[name] = done.id

    def _memory(self, ledger: Ledger, reference: str | dict[str, str]) -> str:
        if isinstance(reference, str):
            return self.named[reference]
        text = reference["content_contains"].casefold()
        every = ledger.memories.list(statuses=()).all()
        matches = [memory for memory in every if text in (memory.content or "").casefold()]
        if len(matches) != 1:
            raise LedgerError(f"the demo's script names the one memory with {text!r}, and {len(matches)} have it")
        return matches[0].id


def _lines(name: str) -> list[Fields]:
    text = (files("ledger.demo") / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


# --- the whole evening -----------------------------------------------------------------------------------------------


def rehearse(
    db: str | None, *, keep: bool = False, whole: bool = False, progress: Progress | None = None
) -> tuple[dict[str, object], object]:
    """Play, tell the story, drop every projection and rebuild; return the numbers, and the pages.

    Args:
        db: The path of the ledger; None for a temporary directory.
        keep: Keep the temporary directory.
        whole: Add the pages after the story.
        progress: Called with (turns played, turns).
    """
    from rich.console import Group

    from ledger.demo.pages import rebuilt, rest
    from ledger.demo.story import story

    play = Play()
    with _place(db, keep=keep) as path:
        with Ledger.open(path, clock=play.clock, client="demo") as ledger:
            started = time.monotonic()
            play.perform(ledger, progress)
            played = time.monotonic() - started
            span = (play.turns[0]["occurred_at"], play.turns[-1]["occurred_at"])
            pages = story(ledger, len(play.turns), span, play.named["flour-new"])
            pages += rest(ledger, span, len(play.acts), play.named) if whole else []
            numbers = _counts(ledger, play) | {"play_seconds": played}
        numbers |= lose_and_rebuild(path)
        numbers["equal"] = all(numbers[name] == numbers[f"{name}_after"] for name in ("events", "digest"))
        return numbers | ({"path": path} if keep or db is not None else {}), Group(
            *pages, *rebuilt(numbers, whole=whole)
        )


@contextmanager
def _place(db: str | None, *, keep: bool) -> Iterator[str]:
    if db is not None:
        if os.path.lexists(db):
            raise RejectedError(f"the file {db} exists already; the demo needs a path where no file is")
        yield os.path.abspath(db)
    elif keep:
        yield os.path.join(tempfile.mkdtemp(prefix="memory-ledger-"), "memory.db")
    else:
        with tempfile.TemporaryDirectory(prefix="memory-ledger-") as directory:
            yield os.path.join(directory, "memory.db")


def _counts(ledger: Ledger, play: Play) -> dict[str, object]:
    stats = ledger.maintenance.stats()
    superseded = ledger.memories.list(statuses=["superseded"]).all()
    reinforced = ledger.history.audit(type="MemoryReinforced").all()
    return {
        "events": stats.position,
        "interactions": stats.interactions,
        "acts": len(play.acts),
        "projects": stats.projects,
        "memories": stats.memories,
        "superseded_pairs": sum(memory.superseded_by is not None for memory in superseded),
        "reinforcements": sum(1 for _ in reinforced),
        "review_queue": sum(1 for _ in ledger.review().all()),
        "digest": ledger.proof.digest(),
    }


def lose_and_rebuild(path: str) -> dict[str, object]:
    """Drop every table outside the log, behind the ledger's back, and open the ledger again."""
    dropped = drop_projections(path)
    started = time.monotonic()
    with Ledger.open(path) as ledger:
        seconds = time.monotonic() - started
        after, position = ledger.proof.digest(), ledger.position
    return {"dropped_tables": dropped, "digest_after": after, "rebuild_seconds": seconds, "events_after": position}


def drop_projections(path: str) -> int:
    """Drop the tables of a closed ledger that are not the log, and return their number.

    The search index takes its own tables along.
    """
    with closing(sqlite3.connect(path)) as connection, connection:
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY sql LIKE 'CREATE VIRTUAL%' DESC, name"
        tables = [name for (name,) in connection.execute(sql) if not name.startswith("sqlite_")]
        doomed = [name for name in tables if name not in THE_LOG]
        for name in doomed:
            connection.execute(f'DROP TABLE IF EXISTS "{name}"')
    return len(doomed)
