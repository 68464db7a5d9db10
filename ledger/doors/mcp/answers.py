"""The structured answers of the tools, which MCP clients get with a schema, and their texts, which models read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel, Field

if TYPE_CHECKING:
    from ledger import AuditEntry, Candidate, Item, Memory, Pack

CHARS_A_TOKEN = 4  # the usual estimate for English; the budgets of recall are counted by the ledger itself
QUOTED_CHARS, CONTENT_CHARS = 300, 2_000  # of a text in a line, and of a text as data; resources show whole texts


class StoredText(BaseModel):
    """A text that was found: a memory, a piece of a document, a turn or an observation."""

    id: str
    text: str | None
    source: str
    confidence: float | None = Field(default=None, description="Of a memory, from 0 to 1.")
    since: str | None = Field(default=None, description="Of a memory: true in the world since then.")
    conflicts: list[str] = Field(default=[], description="Ids of open conflicts: another memory says otherwise.")


class FoundTexts(BaseModel):
    """The texts that fit the budget, best first."""

    items: list[StoredText]
    observations: list[StoredText] = []
    searched: int
    used: int = Field(description="Tokens.")
    cut: int = Field(description="Texts that were found and did not fit.")
    unread: int = Field(default=0, description="Turns that no model has read.")


class MemoryAnswer(BaseModel):
    """A memory as it stands."""

    id: str
    content: str | None
    kind: str
    status: str = Field(description="active, candidate (waits for a person), superseded, invalid, retracted or erased.")
    confidence: float
    project: str | None
    known_already: bool = Field(default=False, description="The ledger had this memory; nothing new was made.")
    warnings: list[str] = []


class AddedAnswer(BaseModel):
    """The results of adding a conversation."""

    session: str
    messages: int
    known: int = Field(description="Messages that were there already.")
    learned: list[str] = Field(description="Ids of memories that are active now.")
    proposed: list[str] = Field(description="Ids of candidates, which wait for a person.")
    reinforced: list[str]
    contradicted: list[str]
    stopped: str = ""
    warnings: list[str] = []


class HistoryStep(BaseModel):
    """An event: its position in the log, its type, and the client, channel and actor behind it."""

    position: int
    type: str
    at: str
    by: str
    in_effect: bool
    reason: str = ""
    confidence: float | None = None


class WhyAnswer(BaseModel):
    """The reasons for a belief, oldest first; ``left_out`` steps did not fit the budget."""

    id: str
    content: str | None
    status: str
    confidence: float
    steps: list[HistoryStep]
    left_out: int
    quotes: list[str] = Field(description="Words of the sources that the belief rests on.")
    admission: str = ""
    conflicts: list[str] = []


class HistoryAnswer(BaseModel):
    """The events of a memory, or the beliefs as of a moment."""

    as_of: str | None = Field(default=None, description="The time of the last event that was taken into account.")
    memory: MemoryAnswer | None = None
    events: list[HistoryStep] = []
    left_out: int = 0
    items: list[StoredText] = []


class SessionLine(BaseModel):
    """A conversation."""

    name: str
    messages: int
    updated_at: str
    project: str | None


class SpokenLine(BaseModel):
    """A message of a conversation."""

    session: str | None
    at: str
    role: str | None
    text: str | None


class SessionsAnswer(BaseModel):
    """Conversations, newest first, or messages in the order of time."""

    sessions: list[SessionLine] = []
    messages: list[SpokenLine] = []
    left_out: int = Field(
        default=0, description="Messages that did not fit the budget, or more sessions than the limit."
    )


class WaitingMemory(BaseModel):
    """A memory that waits for a person's decision."""

    id: str
    content: str | None
    status: str
    confidence: float
    quote: str | None = Field(default=None, description="The words that the memory was found in.")
    contradicted_by: list[str] = []


class ReviewAnswer(BaseModel):
    """The memories that wait for a decision, oldest first."""

    waiting: list[WaitingMemory]
    more: bool


class DecisionAnswer(BaseModel):
    """The effect of a decision that a person consented to."""

    decision: str
    id: str
    events: int = 0
    position: int = Field(default=0, description="The position of the decision in the log.")
    certificate: str | None = None


def answered(text: str, answer: BaseModel) -> CallToolResult:
    """Return a tool's result: a text for the model, and the same as data."""
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=answer.model_dump(mode="json")
    )


def quoted(text: str | None, chars: int = QUOTED_CHARS) -> str:
    """Return a stored text in quotes on one line, with every character escaped that could act on what shows it."""
    return "(erased)" if text is None else repr(cut(text, chars))


def cut(text: str, chars: int = CONTENT_CHARS) -> str:
    """Return a text of at most so many characters; the sign "…" stands for the rest."""
    return text if len(text) <= chars else text[: chars - 1] + "…"


def content_of(text: str | None) -> str | None:
    return None if text is None else cut(text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def within(lines: Iterable[str], budget: int) -> list[str]:
    """Return the first lines that fit a budget of tokens, at least one."""
    left, fitting = budget * CHARS_A_TOKEN, list[str]()
    for line in lines:
        left -= len(line) + 1
        if left < 0 and fitting:
            break
        fitting.append(line if left >= 0 else line[: budget * CHARS_A_TOKEN])
    return fitting


def stored(item: Item) -> StoredText:
    memory = item.memory
    return StoredText(
        id=item.id,
        text=item.content,
        source=item.source,
        confidence=memory.confidence if memory is not None else None,
        since=memory.valid_from if memory is not None else None,
        conflicts=[*item.conflicts],
    )


def pack_answer(pack: Pack, unread: int = 0) -> CallToolResult:
    """Return a pack: its text is fenced as data, with the id of each entry; below it a line about ``unread`` turns."""
    left_out = sum(item.cut not in ("rank", "match") for item in pack.cut)
    answer = FoundTexts(
        items=[stored(item) for item in pack.items],
        observations=[stored(item) for item in pack.observations],
        searched=pack.searched,
        used=pack.used,
        cut=left_out,
        unread=unread,
    )
    more = f"\n{left_out} more did not fit; ask with a larger budget" if left_out else ""
    more += f"\n{unread_line(unread)}" if unread else ""
    return answered((pack.as_text(ids=True) or pack.nothing) + more, answer)


def unread_line(turns: int) -> str:
    return f"{counted(turns, 'turn')} unread by any model; `unread` and `learn` take them in when the work is done"


def of_memory(memory: Memory) -> MemoryAnswer:
    return MemoryAnswer(
        id=memory.id,
        content=content_of(memory.content),
        kind=memory.kind,
        status=memory.status,
        confidence=memory.confidence,
        project=memory.project,
        known_already=memory.absorbed or memory.replayed,
        warnings=[*memory.warnings],
    )


def memory_line(memory: MemoryAnswer) -> str:
    known = " (known already)" if memory.known_already else ""
    return f"[{memory.id}] {memory.status}, confidence {memory.confidence:g}{known}: {quoted(memory.content)}"


def of_event(entry: AuditEntry) -> HistoryStep:
    by = "/".join(part for part in (entry.actor, entry.client, entry.channel) if part)
    return HistoryStep(
        position=entry.position,
        type=entry.type,
        at=entry.recorded_at,
        by=by,
        in_effect=entry.in_effect,
        reason=entry.reason,
    )


def step_line(step: HistoryStep) -> str:
    void = "" if step.in_effect else " (void)"
    confidence = f" → {step.confidence:g}" if step.confidence is not None else ""
    reason = f": {quoted(step.reason)}" if step.reason else ""
    by = f" by {step.by}" if step.by else ""
    return f"{step.position} {step.at[:19]} {step.type}{confidence}{void}{by}{reason}"


def of_candidates(candidates: Sequence[Candidate], *, more: bool) -> ReviewAnswer:
    waiting = [
        WaitingMemory(
            id=candidate.id,
            content=content_of(candidate.content),
            status=candidate.memory.status,
            confidence=candidate.memory.confidence,
            quote=content_of(candidate.provenance.quote) if candidate.provenance is not None else None,
            contradicted_by=[*candidate.contradicted_by],
        )
        for candidate in candidates
    ]
    return ReviewAnswer(waiting=waiting, more=more)
