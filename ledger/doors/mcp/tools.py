"""The tools that every agent is offered: they read, record what the agent says, and take back only its own words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, ClassVar, Literal

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult
from pydantic import BaseModel, ConfigDict, Field

from ledger import AsyncLedger, Memory, RejectedError, Value
from ledger.doors.mcp.answers import (
    CONTENT_CHARS,
    QUOTED_CHARS,
    AddedAnswer,
    FoundTexts,
    HistoryAnswer,
    HistoryStep,
    MemoryAnswer,
    SessionLine,
    SessionsAnswer,
    SpokenLine,
    WhyAnswer,
    answered,
    content_of,
    counted,
    cut,
    memory_line,
    of_event,
    of_memory,
    pack_answer,
    quoted,
    step_line,
    stored,
    within,
)
from ledger.doors.mcp.asking import AskContext, bound, client_of, command_for_person, project_of
from ledger.doors.mcp.learning import count_unread
from ledger.doors.own_writes import EVENTS, MOST_CONFIDENCE, written_by_others

MESSAGES = 1_000  # of a call of ``add``

Scope = Annotated[
    Literal["project", "everywhere"],
    Field(description='"project" for this project; "everywhere" for what is true of the person in every project.'),
]
Where = Annotated[
    Literal["project", "everywhere"],
    Field(description='"project" for this project and the person; "everywhere" for all projects.'),
]
Budget = Annotated[int, Field(ge=50, le=20_000, description="The most tokens of the answer.")]
MemoryId = Annotated[str, Field(description="A memory's id, like m_…, or an unambiguous beginning.")]
Kind = Annotated[str, Field(description='"knowledge", "preference", "rule", "goal", "user_profile" or another word.')]
Sources = Annotated[tuple[str, ...], Field(description="Ids of the evidence: memories, turns, sessions.")]


class SaidMessage(BaseModel):
    """A message of the person or of the agent; what tools said is left out."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    role: Literal["user", "assistant"]
    content: str


async def _place(context: AskContext, scope: str, *, writes: bool = False) -> str | None:
    project = await project_of(context, writes=writes)
    return project if scope == "project" else None


async def context(
    ctx: AskContext,
    question: Annotated[str, Field(description="The person's question or task; empty for the person's profile.")],
    budget: Budget = 400,
    session: Annotated[str | None, Field(description="Leave out what this conversation's window shows.")] = None,
) -> Annotated[CallToolResult, FoundTexts]:
    """Get what to know before answering: profile, related memories and turns. Call it first, once for each question."""
    project = await project_of(ctx)
    pack = await bound(ctx).context(question, budget=budget, session=session, project=project)
    return pack_answer(pack, await count_unread(ctx, project))


async def recall(
    ctx: AskContext,
    question: Annotated[str, Field(description="Words or a question.")],
    budget: Budget = 800,
    limit: Annotated[int, Field(ge=1, le=50)] = 10,
    scope: Where = "project",
) -> Annotated[CallToolResult, FoundTexts]:
    """Search memories and documents for one topic. Use it when `context` did not say enough."""
    place = await _place(ctx, scope)
    return pack_answer(await bound(ctx).recall(question, budget=budget, limit=limit, project=place, observations=3))


async def remember(
    ctx: AskContext,
    content: Annotated[str, Field(description="One fact, understandable without the conversation.")],
    kind: Kind = "knowledge",
    scope: Scope = "project",
    confidence: Annotated[float, Field(ge=0, le=MOST_CONFIDENCE)] = MOST_CONFIDENCE,
    sources: Sources = (),
) -> Annotated[CallToolResult, MemoryAnswer]:
    """Record a fact that later conversations need. It is active at once, with little confidence, and a person can review it."""
    place = await _place(ctx, scope, writes=True)
    memory = await bound(ctx).remember(content, kind=kind, project=place, confidence=confidence, sources=sources)
    return _remembered(memory)


async def propose(
    ctx: AskContext,
    content: Annotated[str, Field(description="One fact, understandable without the conversation.")],
    kind: Kind = "knowledge",
    scope: Scope = "project",
    sources: Sources = (),
) -> Annotated[CallToolResult, MemoryAnswer]:
    """Record a guess. It is not used before a person approves it; prefer it to `remember` in doubt."""
    place = await _place(ctx, scope, writes=True)
    memory = await bound(ctx).propose(content, kind=kind, project=place, sources=sources)
    return _remembered(memory)


def _remembered(memory: Memory) -> CallToolResult:
    answer = of_memory(memory)
    return answered("\n".join((memory_line(answer), *answer.warnings)), answer)


async def add(
    ctx: AskContext,
    messages: Annotated[
        list[SaidMessage],
        Field(min_length=1, max_length=MESSAGES, description="The conversation so far, or its new part."),
    ],
    session: Annotated[str | None, Field(description="The conversation's name, the same each time.")] = None,
) -> Annotated[CallToolResult, AddedAnswer]:
    """Record a conversation and propose what it says for memory. Call it at the end; messages known already are skipped."""
    added = await bound(ctx).add(
        [message.model_dump() for message in messages],
        session=session,
        project=await project_of(ctx, writes=True),
        progress=_progress(ctx),
    )
    answer = AddedAnswer(
        session=added.session,
        messages=added.messages,
        known=added.known,
        learned=[noted.id for noted in added.learned],
        proposed=[noted.id for noted in added.proposed],
        reinforced=[noted.id for noted in added.reinforced],
        contradicted=[noted.id for noted in added.contradicted],
        stopped=added.stopped,
        warnings=[*added.warnings],
    )
    lines = [
        f"session {quoted(added.session)}: {counted(added.messages, 'message')} added, {added.known} known already"
    ]
    if added.left_out:
        lines[0] += f", {added.left_out} without text left out"
    for verb, notes in (("learned", added.learned), ("waits for review", added.proposed)):
        lines += [f"{verb}: [{noted.id}] {quoted(noted.content)}" for noted in notes]
    return answered("\n".join((*lines, *added.warnings)), answer)


def _progress(ctx: AskContext) -> Callable[[int, int], None]:
    """Return a function for the ledger's threads that reports steps to the client, which may have gone."""
    loop = asyncio.get_running_loop()

    def report(done: int, total: int) -> None:
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(ctx.report_progress(done, total), loop).result(timeout=5)

    return report


async def why(ctx: AskContext, id: MemoryId, budget: Budget = 800) -> Annotated[CallToolResult, WhyAnswer]:
    """Explain why a memory is believed: its events, sources and their words. Use it before you rely on a doubtful memory."""
    reasons = await bound(ctx).why(id)
    steps = [
        HistoryStep(
            position=step.position,
            type=step.type,
            at=step.recorded_at,
            by=step.actor or "",
            in_effect=step.in_effect,
            reason=step.because,
            confidence=step.confidence,
        )
        for step in reasons.steps
    ]
    subject, content = reasons.memory or reasons.observation or reasons.value, None
    if isinstance(subject, Value):
        content = subject.value if isinstance(subject.value, str) else json.dumps(subject.value, ensure_ascii=False)
    elif subject is not None:
        content = subject.content
    status = subject.status if subject is not None else "undone"
    quotes = [cut(source.prompt, QUOTED_CHARS) for source in reasons.sources if source.prompt]
    if reasons.provenance is not None and reasons.provenance.quote:
        quotes.insert(0, cut(reasons.provenance.quote, QUOTED_CHARS))
    head = f"[{reasons.id}] {status}, confidence {reasons.confidence:g}: {quoted(content)}"
    before = [head, *filter(None, [reasons.admission])]
    lines = within([*before, *map(step_line, steps), *(f"said: {quoted(quote)}" for quote in quotes)], budget)
    shown = max(0, min(len(steps), len(lines) - len(before)))
    answer = WhyAnswer(
        id=reasons.id,
        content=content_of(content),
        status=status,
        confidence=reasons.confidence,
        steps=steps[:shown],
        left_out=len(steps) - shown,
        quotes=quotes[: max(0, len(lines) - len(before) - len(steps))],
        admission=reasons.admission,
        conflicts=[*reasons.conflicts],
    )
    return answered(_cut(lines, answer.left_out), answer)


async def history(
    ctx: AskContext,
    id: Annotated[
        str | None, Field(description="A memory's id: list its events, or with `at` show it as it was.")
    ] = None,
    at: Annotated[
        str | int | None,
        Field(description="A time with its offset, a date, or a position: show what was believed then."),
    ] = None,
    question: Annotated[str, Field(description="With `at` and no `id`: what was known about this.")] = "",
    budget: Budget = 800,
) -> Annotated[CallToolResult, HistoryAnswer]:
    """List what happened to a memory, or show what was believed at a moment. Use it for "since when" and "what did you think"."""
    ledger = bound(ctx)
    if at is None:
        if id is None:
            raise RejectedError("history needs an id, or a moment in at: history(id=…), history(at=…, question=…)")
        return await _events(ledger, id, budget)
    past = await ledger.at(at)
    if id is not None:
        memory = of_memory(await past.memories.get(id))
        return answered(f"as of {past.as_of}: {memory_line(memory)}", HistoryAnswer(as_of=past.as_of, memory=memory))
    pack = await past.context(question, budget=budget, project=await project_of(ctx))
    answer = HistoryAnswer(as_of=past.as_of, items=[stored(item) for item in pack.items])
    return answered(f"as of {past.as_of}:\n{pack.as_text(ids=True) or pack.nothing}", answer)


async def _events(ledger: AsyncLedger, id: str, budget: int) -> CallToolResult:
    memory = await ledger.memories.get(id)
    page = await ledger.history.audit(subject=memory.id, oldest_first=True, limit=EVENTS)
    events = [of_event(entry) for entry in page]
    lines = within(map(step_line, events), budget)
    answer = HistoryAnswer(
        memory=of_memory(memory),
        events=events[: len(lines)],
        left_out=len(events) - len(lines) + (page.next is not None),
    )
    return answered(_cut([memory_line(of_memory(memory)), *lines], answer.left_out), answer)


def _cut(lines: list[str], left_out: int, *, more: bool = False) -> str:
    """Return the lines, and below them how to get the lines that did not fit the budget, and those beyond the limit."""
    beyond = [f"{left_out} more did not fit; ask with a larger budget"] if left_out else []
    beyond += ["there are more; ask with a larger limit"] if more else []
    return "\n".join([*lines, *beyond])


async def forget(
    ctx: AskContext,
    id: MemoryId,
    reason: Annotated[str, Field(min_length=1, description="Why the memory is wrong or no longer needed.")],
) -> Annotated[CallToolResult, MemoryAnswer]:
    """Take back a memory that this client recorded. A person can restore it. Memories of others need the person."""
    if not reason.strip():
        raise RejectedError("forget needs a reason in words, and this one is blank; say why the memory is wrong")
    ledger = bound(ctx)
    seen = await ledger.position()
    memory = await ledger.memories.get(id)
    page = await ledger.history.audit(subject=memory.id, oldest_first=True, limit=EVENTS)
    client = client_of(ctx)
    other = written_by_others(page, client)
    if other is not None or page.next is not None:
        person = "the person" if other is not None and other.client == client else ""
        who = person or "/".join(filter(None, (other.actor, other.client))) if other is not None else ""
        raise ToolError(
            f"forget takes back what {client} alone wrote, and {memory.id} was written or decided by {who or 'the person'} "
            f"too; ask the person, who can run: {command_for_person(ctx, f'retract {memory.id}')}"
        )
    await ledger.retract(memory.id, reason=reason, expected=seen)
    return _remembered(await ledger.memories.get(memory.id))


async def sessions(
    ctx: AskContext,
    name: Annotated[str | None, Field(description="Show the latest messages of this conversation.")] = None,
    pattern: Annotated[str | None, Field(description='Search all conversations: words or "a phrase".')] = None,
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
    budget: Budget = 800,
) -> Annotated[CallToolResult, SessionsAnswer]:
    """List earlier conversations by name, newest first; with `name` read one, with `pattern` find messages."""
    await project_of(ctx)
    ledger = bound(ctx)
    if name is not None and pattern is not None:
        raise RejectedError("sessions takes a name or a pattern, not both; a pattern goes over all conversations")
    if pattern is not None:
        hits = await ledger.sessions.grep(pattern, limit=limit)
        spoken = [
            SpokenLine(session=hit.session, at=hit.occurred_at, role=hit.role, text=cut(hit.snippet)) for hit in hits
        ]
        return _spoken(spoken, budget, newest_last=False, more=hits.next is not None)
    if name is not None:
        info = await ledger.sessions.get(name)
        page = await ledger.session(info.id).messages(limit=limit)
        spoken = [
            SpokenLine(session=info.name or info.id, at=m.occurred_at, role=m.role, text=content_of(m.content))
            for m in page
        ]
        return _spoken(spoken, budget, newest_last=True, more=page.next is not None)
    listed = await ledger.sessions.list(limit=limit)
    lines = [
        SessionLine(name=info.name or info.id, messages=info.messages, updated_at=info.updated_at, project=info.project)
        for info in listed
    ]
    texts = within(
        (f"{quoted(line.name)} {counted(line.messages, 'message')}, {line.updated_at[:10]}" for line in lines), budget
    )
    answer = SessionsAnswer(sessions=lines[: len(texts)], left_out=len(lines) - len(texts) + (listed.next is not None))
    text = _cut(texts, len(lines) - len(texts), more=listed.next is not None)
    return answered(text or "no conversations yet", answer)


def _spoken(spoken: list[SpokenLine], budget: int, *, newest_last: bool, more: bool) -> CallToolResult:
    """Return the messages that fit the budget, of a conversation the newest."""
    texts = [
        f"{quoted(line.session)} {line.at[:16]} {line.role or 'summary'}: {quoted(line.text, CONTENT_CHARS)}"
        for line in spoken
    ]
    fitting = within(reversed(texts) if newest_last else texts, budget)
    fitting = fitting[::-1] if newest_last else fitting
    kept = spoken[len(spoken) - len(fitting) :] if newest_last else spoken[: len(fitting)]
    answer = SessionsAnswer(messages=kept, left_out=len(spoken) - len(kept))
    return answered(_cut(fitting, answer.left_out, more=more) or "no messages", answer)


READING = (context, recall, why, history, sessions)
WRITING = (remember, propose, add, forget)
