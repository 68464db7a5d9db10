"""Requests to a language model for memories in a piece of conversation, made outside of any lock and recorded in the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.engine import Engine
from ledger.core.reads import read_event
from ledger.core.work import Work
from ledger.domain.errors import ModelError, RejectedError
from ledger.domain.text import normalise
from ledger.events import CITES, Acted
from ledger.extraction import applying as found_in
from ledger.extraction.applying import ProposedRelation, SeenProposal, TurnsBatch
from ledger.extraction.lines import ConversationLine
from ledger.extraction.showing import facts_for
from ledger.memories.state import MemoryState
from ledger.models import calls, models
from ledger.models.asking import DEADLINE_SECONDS, ModelReply, ask, check_outside
from ledger.models.day import check_day
from ledger.models.port import Model, ModelRequest
from ledger.models.reading import Parsed, answered
from ledger.types import Cancel
from projections.core.rows import Connection
from projections.views import quarantine

TIMEOUT_SECONDS = 60.0
LEASE_SECONDS = DEADLINE_SECONDS + 30  # longer than a model may take to answer, with every retry

Cited = tuple[str, tuple[ConversationLine, ...]]  # a memory, and the lines that state it


class ModelProposals(Struct, frozen=True):
    """A model's answer about some lines, with the memories that each proposal may concern, found on a snapshot."""

    asked: ModelReply
    request: ModelRequest
    parsed: Parsed
    shown: tuple[str, ...]
    seen: tuple[SeenProposal, ...]
    relations: tuple[ProposedRelation, ...]
    left_over: int


class Asker(Struct, frozen=True):
    """A model, and the user and project whose memories it is asked about."""

    engine: Engine
    model: Model
    user: str
    project: str | None
    timeout: float | None = None  # in seconds; None for that of the settings
    cancel: Cancel | None = None

    def ask(self, lines: Sequence[ConversationLine]) -> ModelProposals:
        """Return the proposals of the model for some lines.

        Raises:
            Unanswered: The model gave no answer, or none that can be read.
            ModelError: The model is a command whose calls of today are used up; nothing is to be recorded.
            RejectedError: The call was made under the lock.
        """
        from ledger.models import extracting

        check_outside(self.engine.writer)
        check_day(self.engine, self.model)
        shown = facts_for(self.engine, self.user, self.project, lines)
        asked_for = models.with_settings(self.engine, extracting.request(lines, shown, TIMEOUT_SECONDS))
        if self.timeout is not None:
            asked_for = replace(asked_for, timeout=self.timeout)
        try:
            completion = ask(self.model, asked_for, cancelled=self.cancel)
            parsed = answered(completion, extracting.kinds(), limit=extracting.READ)
        except ModelError as error:
            raise Unanswered(asked_for, error) from error
        reading = ModelReading(completion, asked_for, parsed, tuple(shown))
        return look_up(self.engine, self.user, self.project, reading, lines)


class ModelReading(Struct, frozen=True):
    """A model's answer that was read, the request, and the memories that the request showed, in the order of their numbers."""

    reply: ModelReply
    request: ModelRequest
    parsed: Parsed
    shown: tuple[MemoryState, ...]


def look_up(
    engine: Engine, user: str, project: str | None, answer: ModelReading, lines: Sequence[ConversationLine]
) -> ModelProposals:
    """Return the proposals of an answer with the memories that each may concern, looked up on a snapshot."""
    from ledger.models import extracting

    facts, relations, left_over = extracting.proposals(answer.parsed, lines)
    with engine.reading() as connection:
        stated = {normalise(fact.content) for fact in facts if fact.content}
        seen = [found_in.look(connection, fact, answer.shown, user, project, stated) for fact in facts]
    known = tuple(memory.id for memory in answer.shown)
    return ModelProposals(answer.reply, answer.request, answer.parsed, known, tuple(seen), tuple(relations), left_over)


class Unanswered(Exception):
    """A request without a usable answer, and the reason."""

    def __init__(self, request: ModelRequest, error: ModelError) -> None:
        super().__init__(str(error))
        self.request = request
        self.error = error


def record_call(
    work: Work,
    answer: ModelProposals,
    lines: Sequence[ConversationLine],
    results: Sequence[calls.ActionOutcome],
    cited: Iterable[Cited] = (),
) -> None:
    """Record a call of the model in the same append as the results of its answer."""
    taken = [*results, *calls.dropped(answer.parsed)]
    if work.policy().secrets == "refuse":
        taken = [replace(action, text="") if work.secret_in(action.text) else action for action in taken]
    calls.emit_call(
        work,
        answer.asked,
        answer.request,
        ranges=places(lines),
        shown=answer.shown,
        actions=taken,
        cited=_citations(work, cited),
        left_over=answer.left_over,
    )


def _citations(work: Work, cited: Iterable[Cited]) -> Iterator[Acted]:
    """Yield the link from each memory to the messages that the model cited for it, by the ids of the messages' events."""
    for memory, lines in cited:
        positions = [line.position for line in lines] if len(lines) <= found_in.CITED else []
        events = (read_event(work.connection(), position) for position in positions)
        targets: list[str | None] = [event.envelope.event_id for event in events if event is not None]
        for target in targets or [None]:
            yield Acted(CITES, calls.KEPT, memory, target)


def record_unread(work: Work, answer: ModelProposals, lines: Sequence[ConversationLine]) -> None:
    """Record a call whose answer is not used, because the messages changed meanwhile; no text of the answer is kept."""
    count = len(answer.seen) + len(answer.relations) + len(answer.parsed.dropped) + answer.left_over
    moved = [calls.ActionOutcome("", "moved")] if count else []
    calls.emit_call(
        work,
        answer.asked,
        answer.request,
        ranges=places(lines),
        shown=answer.shown,
        actions=moved,
        left_over=max(0, count - 1),
    )


def emit_failure(work: Work, model: Model, failed: Unanswered, lines: Sequence[ConversationLine]) -> None:
    calls.emit_failure(work, failed.request, failed.error, model=model.name, ranges=places(lines))


def places(lines: Sequence[ConversationLine]) -> list[tuple[int, int]]:
    """Return the positions that were read: of each message, and of the event with its text."""
    positions = sorted({at for line in lines for at in (line.position, line.text_at) if at})
    return [(at, at) for at in positions]


def meant_model(engine: Engine, method: str | None, model: object) -> Model | None:
    """Return the model to ask, or None for the rules.

    Raises:
        RejectedError: ``method`` is neither "model" nor "rules", or "model" without a model.
    """
    if method not in (None, "model", "rules"):
        raise RejectedError(f"method must be 'model' or 'rules', and {method!r:.40} is neither")
    if method == "rules":
        return None
    default: Model | None = models.meant_model(engine, model)
    if method == "model" and default is None:
        raise RejectedError(
            "extraction by a model needs a model: open the ledger with one, or give one here", rule="model"
        )
    return default


# --- results -----------------------------------------------------------------------------------------------------------


class ExtractionRun(Struct):
    """The results so far of a run over a session."""

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


def restore(done: ExtractionRun, begun: ExtractionRun) -> None:
    """Set a report to what it was when a body began, which may run several times."""
    for name in begun.__struct_fields__:
        setattr(done, name, copy(getattr(begun, name)))


def count(
    done: ExtractionRun, batch: TurnsBatch, results: Sequence[calls.ActionOutcome], answer: ModelProposals
) -> None:
    """Add the results of a call to a report."""
    done.kept += batch.kept
    done.superseded += batch.superseded
    done.retracted += batch.retracted
    done.relations += sum(action.what == found_in.RELATIONS and action.outcome == calls.KEPT for action in results)
    for action in results:
        if action.outcome != calls.KEPT:
            entry = {"what": action.what, "reason": action.outcome, "memory": action.subject, "target": action.target}
            done.dropped.append(entry | {"content": action.text})
    done.dropped += _not_understood(answer)


def proposed(answer: ModelProposals) -> list[dict[str, Any]]:
    """Return a model's proposals as a dry run shows them, before any decision."""
    facts: list[dict[str, object]] = [
        {
            "what": seen.proposal.what,
            "kind": seen.proposal.kind,
            "content": seen.proposal.content,
            "reason": "",
            "target": seen.target.id if seen.target is not None else None,
        }
        for seen in answer.seen
    ]
    relations = [
        {"what": found_in.RELATIONS, "content": relation.content, "reason": ""} for relation in answer.relations
    ]
    return [*facts, *relations, *_not_understood(answer)]


def _not_understood(answer: ModelProposals) -> list[dict[str, Any]]:
    entries: list[dict[str, object]] = [
        {"what": item.what, "reason": item.reason, "content": item.text} for item in answer.parsed.dropped
    ]
    if answer.parsed.truncated:
        entries.append({"what": "", "reason": "truncated"})
    if answer.left_over:
        entries.append({"what": "", "reason": "left_over", "count": answer.left_over})
    return entries


def is_quarantined(connection: Connection, positions: Sequence[int]) -> bool:
    """Return True if the text at one of these positions lies in quarantine."""
    return bool(quarantine.among(connection, positions))
