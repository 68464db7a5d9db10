"""Asks a language model what to remember of a piece of conversation, outside of any lock, and leaves the call in the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.errors import ModelError, RejectedError
from ledger.domain.events import Acted
from ledger.domain.turns import Line
from ledger.engine.engine import Engine
from ledger.engine.log_reading import read_event
from ledger.engine.work import Work
from ledger.extraction.showing import facts_for
from ledger.language import calls, models
from ledger.language.asking import DEADLINE_SECONDS, Asked, ask, check_outside
from ledger.language.port import Model, ModelRequest
from ledger.language.reading import Parsed, answered
from ledger.policies import turns as found_in
from ledger.policies.turns import Batch, Relation, Seen
from ledger.types import Cancel
from projections.core.rows import Connection
from projections.views import quarantine

TIMEOUT_SECONDS = 60.0
LEASE_SECONDS = DEADLINE_SECONDS + 30  # longer than a model may take to answer, with every retry

Cited = tuple[str, tuple[Line, ...]]  # a memory, and the lines that say it


class Answered(Struct, frozen=True):
    """What a model said of some lines, and what was found on a snapshot of each thing that it proposes."""

    asked: Asked
    request: ModelRequest
    parsed: Parsed
    shown: tuple[str, ...]
    seen: tuple[Seen, ...]
    relations: tuple[Relation, ...]
    left_over: int


class Asker(Struct, frozen=True):
    """A model, and whose memory it is asked about."""

    engine: Engine
    model: Model
    user: str
    project: str | None
    timeout: float | None = None  # None for what the settings say
    cancelled: Cancel | None = None

    def ask(self, lines: Sequence[Line]) -> Answered:
        """``ModelError`` where it does not answer, or not so that anything can be understood; ``RejectedError`` under
        the lock.
        """
        from ledger.language import extracting

        check_outside(self.engine.writer)
        shown = facts_for(self.engine, self.user, self.project, lines)
        asked_for = models.with_settings(self.engine, extracting.request(lines, shown, TIMEOUT_SECONDS))
        if self.timeout is not None:
            asked_for = replace(asked_for, timeout=self.timeout)
        try:
            asked = ask(self.model, asked_for, cancelled=self.cancelled)
            parsed = answered(asked, extracting.kinds(), limit=extracting.READ)
        except ModelError as error:
            raise Unanswered(asked_for, error) from error
        facts, relations, left_over = extracting.proposals(parsed, lines)
        with self.engine.reading() as connection:
            seen = [found_in.look(connection, each, shown, self.user, self.project) for each in facts]
        known = tuple(each.id for each in shown)
        return Answered(asked, asked_for, parsed, known, tuple(seen), tuple(relations), left_over)


class Unanswered(Exception):
    """A request that came to nothing, and why."""

    def __init__(self, request: ModelRequest, error: ModelError) -> None:
        super().__init__(str(error))
        self.request, self.error = request, error


def record_call(
    work: Work, found: Answered, lines: Sequence[Line], results: Sequence[calls.Taken], cited: Iterable[Cited] = ()
) -> None:
    """The call, in the append of what it led to."""
    taken = [*results, *calls.dropped(found.parsed)]
    if work.policy().secrets == "refuse":
        taken = [replace(each, text="") if work.secret_in(each.text) else each for each in taken]
    calls.emit_call(
        work,
        found.asked,
        found.request,
        ranges=places(lines),
        shown=found.shown,
        actions=taken,
        cited=_citations(work, cited),
        left_over=found.left_over,
    )


def _citations(work: Work, cited: Iterable[Cited]) -> Iterator[Acted]:
    """What the model named for each memory that came of a session, by the ids of the messages' events."""
    for memory, lines in cited:
        positions = [line.position for line in lines] if len(lines) <= found_in.CITED else []
        events = (read_event(work.connection(), position) for position in positions)
        targets: list[str | None] = [event.envelope.event_id for event in events if event is not None]
        for target in targets or [None]:
            yield Acted(found_in.CITES, calls.KEPT, memory, target)


def record_unread(work: Work, found: Answered, lines: Sequence[Line]) -> None:
    """A call whose answer is not used, for what it was about is no longer as it was; of its words nothing is kept."""
    count = len(found.seen) + len(found.relations) + len(found.parsed.dropped) + found.left_over
    moved = [calls.Taken("", "moved")] if count else []
    calls.emit_call(
        work,
        found.asked,
        found.request,
        ranges=places(lines),
        shown=found.shown,
        actions=moved,
        left_over=max(0, count - 1),
    )


def emit_failure(work: Work, model: Model, failed: Unanswered, lines: Sequence[Line]) -> None:
    calls.emit_failure(work, failed.request, failed.error, model=model.name, ranges=places(lines))


def places(lines: Sequence[Line]) -> list[tuple[int, int]]:
    """The positions of what was read, the message and the event that has its text."""
    found = sorted({at for line in lines for at in (line.position, line.text_at) if at})
    return [(at, at) for at in found]


def meant_model(engine: Engine, using: str | None, given: object) -> Model | None:
    """The model to ask, or None for the rules; ``RejectedError`` for what is neither, and without a model where one is wanted."""
    if using not in (None, "model", "rules"):
        raise RejectedError(f"extraction uses 'model' or 'rules', and {using!r:.40} is neither")
    if using == "rules":
        return None
    found: Model | None = models.meant_model(engine, given)
    if using == "model" and found is None:
        raise RejectedError("this asks a model: open the ledger with one, or give one here", rule="model")
    return found


# --- what it came to ---------------------------------------------------------------------------------------------------


class ExtractionRun(Struct):
    """What a run over a session came to so far."""

    pieces: int = 0
    messages: int = 0
    skipped: int = 0
    calls: int = 0
    kept: list[str] = []
    superseded: list[str] = []
    retracted: list[str] = []
    dropped: list[dict[str, Any]] = []
    relations: int = 0
    failure: str = ""
    stopped: str = ""


def count(done: ExtractionRun, batch: Batch, results: Sequence[calls.Taken], found: Answered) -> None:
    """What the results of one call add to a report."""
    done.kept += batch.kept
    done.superseded += batch.superseded
    done.retracted += batch.retracted
    done.relations += sum(each.what == found_in.RELATIONS and each.outcome == calls.KEPT for each in results)
    for each in results:
        if each.outcome != calls.KEPT:
            entry = {"what": each.what, "reason": each.outcome, "memory": each.subject, "target": each.target}
            done.dropped.append(entry | {"content": each.text})
    done.dropped += _not_understood(found)


def proposed(found: Answered) -> list[dict[str, Any]]:
    """What a model proposed, as a dry run shows it: nothing is decided about it yet."""
    facts: list[dict[str, object]] = [
        {
            "what": each.proposal.what,
            "kind": each.proposal.kind,
            "content": each.proposal.content,
            "reason": "",
            "target": each.target.id if each.target is not None else None,
        }
        for each in found.seen
    ]
    relations = [{"what": found_in.RELATIONS, "content": each.content, "reason": ""} for each in found.relations]
    return [*facts, *relations, *_not_understood(found)]


def _not_understood(found: Answered) -> list[dict[str, Any]]:
    entries: list[dict[str, object]] = [
        {"what": each.what, "reason": each.reason, "content": each.text} for each in found.parsed.dropped
    ]
    if found.parsed.truncated:
        entries.append({"what": "", "reason": "truncated"})
    if found.left_over:
        entries.append({"what": "", "reason": "left_over", "count": found.left_over})
    return entries


def is_quarantined(connection: Connection, positions: Sequence[int]) -> bool:
    """Whether the text at one of these positions lies in quarantine."""
    return bool(quarantine.among(connection, positions))
