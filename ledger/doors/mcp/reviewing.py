"""The tools of ``--reviewer``: decisions about memories, each after a question to the person that the client must show.

The question names the memory by its stored text, never by a text of the caller. A client that cannot ask gets an error, and
nothing is decided: not being able to ask is no consent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult
from pydantic import BaseModel, Field

from ledger import Memory, UndoReport
from ledger.answers import DistrustReport
from ledger.doors.mcp.answers import DecisionAnswer, ReviewAnswer, answered, counted, of_candidates, quoted, within
from ledger.doors.mcp.asking import AskContext, bound, command_for_person, project_of
from ledger.doors.mcp.tools import Budget, MemoryId
from ledger.types import Choice, MemoryStatus, OriginKind

REASON_CHARS = 2_000
Reason = Annotated[str, Field(max_length=REASON_CHARS, description="The person's reason, in their words.")]
Target = Annotated[str | int, Field(description="A command: its id, or the position or id of one of its events.")]
DIGITS = re.compile("[0-9]{1,18}")
QUESTIONS = 3  # at most, about one distrust whose effect changes while the person thinks
NAMED = 5  # memories that a question about an undo names
SHOWN_CHARS = 2_000  # of a memory that a question shows


class Consent(BaseModel):
    """The person's answer."""

    consent: bool = Field(strict=True, description="Yes to do it, no to leave everything as it is.")


@dataclass(frozen=True)
class SeenMemory:
    """The memory that the question is about, as of a position of the log."""

    memory: Memory
    position: int


def _question(ctx: AskContext, text: str) -> Elicit[Consent]:
    """Return a question to the person, or raise an error if the client cannot ask."""
    capabilities = ctx.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        raise ToolError(
            "this client cannot ask the person, and that is no consent: nothing was done. The person can decide in a shell: "
            + ", ".join(command_for_person(ctx, words) for words in ("review", "promote ID", "reject ID"))
        )
    return Elicit(text, Consent)


def _check_consent(answer: ElicitationResult[Consent]) -> None:
    if not (isinstance(answer, AcceptedElicitation) and answer.data.consent is True):
        raise ToolError("the person did not consent; nothing was done, so do not ask again")


async def _seen(ctx: AskContext, id: str) -> SeenMemory:
    ledger = bound(ctx)
    position = await ledger.position()
    return SeenMemory(memory=await ledger.memories.get(id), position=position)


def _about(ctx: AskContext, seen: SeenMemory) -> str:
    """Return the memory with its whole text: nobody approves words that were not shown."""
    memory = seen.memory
    if len(memory.content or "") > SHOWN_CHARS:
        raise ToolError(
            f"{memory.id} has more than {SHOWN_CHARS:,} characters, which no question shows; the person can read it with "
            f"{command_for_person(ctx, f'memories get {memory.id}')} and decide in the shell"
        )
    text = quoted(memory.content, SHOWN_CHARS)
    return f"{memory.status} memory {memory.id} (confidence {memory.confidence:g}): {text}"


Seen = Annotated[SeenMemory, Resolve(_seen)]


def _check_waits(memory: Memory, *statuses: MemoryStatus) -> None:
    if memory.status not in statuses:
        raise ToolError(f"{memory.id} is {memory.status} and waits for no decision; review lists the memories that do")


async def _ask_promote(ctx: AskContext, seen: Seen) -> Elicit[Consent]:
    _check_waits(seen.memory, "candidate", "active")  # an active memory that a turn denies is confirmed
    return _question(ctx, f"Approve this {_about(ctx, seen)}?")


async def _ask_reject(ctx: AskContext, seen: Seen) -> Elicit[Consent]:
    _check_waits(seen.memory, "candidate")
    return _question(ctx, f"Turn down this {_about(ctx, seen)}?")


def _named(target: str | int) -> str | int:
    """Return the target; a position that came as a text, as some models write numbers, is a number."""
    return int(target) if isinstance(target, str) and DIGITS.fullmatch(target) else target


async def _undo_plan(ctx: AskContext, target: str | int, cascade: bool) -> UndoReport:
    return await bound(ctx, "user").undo(_named(target), cascade=cascade, dry_run=True)


UndoPlan = Annotated[UndoReport, Resolve(_undo_plan)]


async def _ask_undo(ctx: AskContext, plan: UndoPlan, cascade: bool) -> Elicit[Consent]:
    if not plan.events:
        raise ToolError("nothing is left to undo: all that the command wrote is void already")
    if plan.dependents and not cascade:
        raise ToolError(
            f"{counted(len(plan.dependents), 'later command')} built on it; with cascade the person is asked about all of them"
        )
    subjects = [belief.now or belief.would_be for belief in plan.memories[:NAMED]]
    concerned = ", ".join(quoted(memory.content) for memory in subjects if memory is not None)
    more = f" and {counted(len(plan.memories) - NAMED, 'more memory')}" if len(plan.memories) > NAMED else ""
    about = f" It concerns {concerned}{more}." if concerned else ""
    return _question(
        ctx,
        f"Undo {counted(len(plan.commands), 'command')} with {counted(plan.events, 'event')} "
        f"({quoted(', '.join(plan.verbs))})?{about}",
    )


async def _ask_erase(ctx: AskContext, seen: Seen, others: Choice | None) -> Elicit[Consent]:
    plan = await bound(ctx, "user").erase(seen.memory.id, derived=others, sources=others, quotes=others, dry_run=True)
    more = len(plan.derived) + len(plan.sources) + len(plan.quotes)
    hold = f"{counted(more, 'other event')} {'holds' if more == 1 else 'hold'} these texts too"
    if more and others is None:
        raise ToolError(
            f'{hold}; say with others what becomes of them: "erase", "cut" (only the words that repeat it) or "keep"'
        )
    also = f" {hold}: {others}." if more else ""
    return _question(ctx, f"Erase for good, from the log too, this {_about(ctx, seen)}?{also} This cannot be undone.")


async def _distrust_plan(ctx: AskContext, origin: str, kind: OriginKind | None) -> DistrustReport:
    return await bound(ctx, "user").history.distrust(origin, kind=kind, dry_run=True)


DistrustPlan = Annotated[DistrustReport, Resolve(_distrust_plan)]


def _distrust_question(plan: DistrustReport) -> str:
    return (
        f"Distrust the {plan.kind} {quoted(plan.origin)}? That makes {counted(plan.events, 'event')} void, changes "
        f"{counted(len(plan.memories), 'memory')}, and refuses its future writes."
    )


async def _ask_distrust(ctx: AskContext, plan: DistrustPlan) -> Elicit[Consent]:
    return _question(ctx, _distrust_question(plan))


async def review(
    ctx: AskContext, limit: Annotated[int, Field(ge=1, le=50)] = 10, budget: Budget = 800
) -> Annotated[CallToolResult, ReviewAnswer]:
    """List the memories that wait for the person's decision. Show them; `promote` and `reject` then ask the person."""
    page = await bound(ctx).review(project=await project_of(ctx), limit=limit)
    texts = within((f"[{c.id}] {c.memory.status}: {quoted(c.content)}" for c in page), budget)
    answer = of_candidates(page[: len(texts)], more=page.next is not None or len(texts) < len(page))
    return answered("\n".join(texts) or "nothing waits for a decision", answer)


async def promote(
    ctx: AskContext,
    id: MemoryId,
    seen: Seen,
    answer: Annotated[ElicitationResult[Consent], Resolve(_ask_promote)],
    reason: Reason = "",
) -> Annotated[CallToolResult, DecisionAnswer]:
    """Ask the person to approve a memory that waits. Only on the person's wish."""
    _check_consent(answer)
    memory = await bound(ctx, "user").promote(seen.memory.id, reason=reason, expected=seen.position)
    return _decided(_of_memory("promoted", memory, seen))


async def reject(
    ctx: AskContext,
    id: MemoryId,
    seen: Seen,
    answer: Annotated[ElicitationResult[Consent], Resolve(_ask_reject)],
    reason: Reason = "",
) -> Annotated[CallToolResult, DecisionAnswer]:
    """Ask the person to turn down a memory that waits. Only on the person's wish."""
    _check_consent(answer)
    memory = await bound(ctx, "user").reject(seen.memory.id, reason=reason, expected=seen.position)
    return _decided(_of_memory("rejected", memory, seen))


async def undo(
    ctx: AskContext,
    target: Target,
    plan: UndoPlan,
    answer: Annotated[ElicitationResult[Consent], Resolve(_ask_undo)],
    cascade: Annotated[bool, Field(description="Also what was built on it.")] = False,
    reason: Reason = "",
) -> Annotated[CallToolResult, DecisionAnswer]:
    """Ask the person to void a whole command, such as a wrong import. Only on the person's wish."""
    _check_consent(answer)
    report = await bound(ctx, "user").undo(_named(target), cascade=cascade, reason=reason, expected=plan.position)
    return _decided(DecisionAnswer(decision="undone", id=str(target), events=report.events, position=report.position))


async def erase(
    ctx: AskContext,
    id: MemoryId,
    seen: Seen,
    answer: Annotated[ElicitationResult[Consent], Resolve(_ask_erase)],
    others: Annotated[Choice | None, Field(description="What becomes of other events with the same text.")] = None,
    reason: Reason = "",
) -> Annotated[CallToolResult, DecisionAnswer]:
    """Ask the person to erase a memory's text for good. Only on the person's wish; `forget` is for mistakes."""
    _check_consent(answer)
    report = await bound(ctx, "user").erase(
        seen.memory.id, derived=others, sources=others, quotes=others, reason=reason, expected=seen.position
    )
    return _decided(
        DecisionAnswer(
            decision=f"erasure {report.state}",
            id=seen.memory.id,
            events=len(report.erased),
            position=report.position,
            certificate=report.certificate,
        )
    )


async def distrust(
    ctx: AskContext,
    origin: Annotated[str, Field(description="The id of a turn, document or session; or with kind a name.")],
    plan: DistrustPlan,
    answer: Annotated[ElicitationResult[Consent], Resolve(_ask_distrust)],
    kind: OriginKind | None = None,
    reason: Reason = "",
) -> Annotated[CallToolResult, DecisionAnswer]:
    """Ask the person to void all that an origin wrote and to refuse its future writes. Only on the person's wish."""
    _check_consent(answer)
    for _ in range(QUESTIONS):
        now = await _distrust_plan(ctx, origin, kind)
        if _effect(now) == _effect(plan):
            break
        plan = now  # over protocol 2025-11-25 others write while the person thinks
        _check_consent(await ctx.elicit(f"Meanwhile this has changed. {_distrust_question(plan)}", Consent))
    else:
        raise ToolError(
            f"what falls with {quoted(origin)} changed {QUESTIONS} times while the person thought; nothing was done"
        )
    report = await bound(ctx, "user").history.distrust(origin, kind=kind, reason=reason)
    return _decided(DecisionAnswer(decision="distrusted", id=origin, events=report.events, position=report.position))


def _effect(plan: DistrustReport) -> tuple[object, ...]:
    """Return what the person is asked about."""
    return plan.events, plan.memories, plan.observations, plan.gone


def _of_memory(decision: str, memory: Memory, seen: SeenMemory) -> DecisionAnswer:
    events = int(memory.position > seen.position)
    return DecisionAnswer(decision=decision, id=memory.id, events=events, position=memory.position)


def _decided(answer: DecisionAnswer) -> CallToolResult:
    return answered(
        f"{answer.decision}: {answer.id}, {counted(answer.events, 'event')}, position {answer.position}", answer
    )


LOOKING = (review,)
DECIDING = (promote, reject, undo, erase, distrust)
