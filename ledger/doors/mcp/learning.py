"""The tools by which an agent reads the turns that no model has read, hands in what they say, and corrects a memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from mcp.types import CallToolResult
from pydantic import BaseModel, ConfigDict, Field

from ledger import AsyncLedger, RejectedError
from ledger.answers import Learned, Unread
from ledger.doors.mcp.answers import answered, counted, quoted
from ledger.doors.mcp.asking import CLIENT, AskContext, bound, door_of, project_of, user_of
from ledger.doors.own_writes import MOST_CONFIDENCE

READING_TOKENS, LEAST_TOKENS = 8_000, 2_000  # of one reading, at most and at least
HAND_IN = """\
Hand in what you find with the tool `learn` and this token, as its arguments and not as a text; also when there is nothing."""


# --- arguments and answers ----------------------------------------------------------------------------------------------


class Said(BaseModel):
    """The messages that say a fact; ``quote`` has the user's own words."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    said_by: Literal["user", "assistant"]
    messages: list[int]
    quote: str = ""


class Fact(Said):
    """A new fact, or the successor of a known one; one class, because a model pays for the schema of each."""

    content: str
    kind: str = ""
    confidence: Annotated[float, Field(ge=0, le=1)] = MOST_CONFIDENCE
    entities: list[str] = []
    fact: int = Field(default=0, description="In supersede: the known fact's number.")
    old: str = Field(default="", description="In place of `fact`: the content of a fact in this call.")
    reason: str = ""


class End(Said):
    fact: int = 0
    old: str = ""
    reason: str = ""
    wrong: bool = False


class StatedRelation(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    subject: str
    relation: str
    object: str


class UnreadAnswer(BaseModel):
    """Turns to read: ``instructions`` from the memory, and ``content``, which is data."""

    token: str = Field(description='"" if there is nothing to read.')
    turns: int
    more: int = Field(description="Turns that are left.")
    held_until: str | None = Field(default=None, description="Nothing can be read before.")
    instructions: str = ""
    content: str = ""


class LearnedAnswer(BaseModel):
    """The ids of memories that are active now, that wait for a person, and that were changed; and the reasons of the others."""

    learned: list[str]
    proposed: list[str]
    contradicted: list[str]
    dropped: list[str]
    turns: int
    more: int
    warnings: list[str] = []


# --- tools --------------------------------------------------------------------------------------------------------------


async def unread(
    ctx: AskContext,
    budget: Annotated[int, Field(ge=LEAST_TOKENS, le=READING_TOKENS)] = READING_TOKENS,
) -> Annotated[CallToolResult, UnreadAnswer]:
    """Get the oldest turns that no model has read, to find what is worth remembering. Hand in the result with `learn`."""
    door, ledger = door_of(ctx), bound(ctx)
    user, today = user_of(ctx), await ledger.learning.read_today(CLIENT)
    left = door.learn_tokens_a_day - today.tokens - door.readings.open_tokens(user, today.until)
    if left < LEAST_TOKENS:
        more = await count_unread(ctx, await project_of(ctx))
        text = f"the {door.learn_tokens_a_day:,} tokens of today are read; it goes on at {today.until}"
        return answered(text, UnreadAnswer(token="", turns=0, more=more, held_until=today.until))
    found = await _next(ledger, await project_of(ctx), min(budget, left))
    if not found.token:
        held = f"another agent reads the {counted(found.more, 'turn')} until {found.held_until}"
        text = held if found.held_until is not None else "there is nothing to read"
        return answered(text, UnreadAnswer(token="", turns=0, more=found.more, held_until=found.held_until))
    door.readings.opened(user, found.token, found.tokens, today.until)
    answer = UnreadAnswer(
        token=found.token,
        turns=found.turns,
        more=found.more,
        instructions=f"{found.instructions}\n{HAND_IN}",
        content=found.content,
    )
    head = f"token: {found.token}\n{counted(found.turns, 'turn')} here, {found.more} more"
    return answered(f"{head}\n\n{answer.instructions}\n\n{found.content}", answer)


async def learn(
    ctx: AskContext,
    token: Annotated[str, Field(description="Of `unread`.")],
    add: list[Fact] = [],  # noqa: B006 - pydantic copies it
    supersede: list[Fact] = [],  # noqa: B006
    retract: list[End] = [],  # noqa: B006
    relations: list[StatedRelation] = [],  # noqa: B006
    upto: Annotated[int | None, Field(description="The last message that you read, if not all.")] = None,
) -> Annotated[CallToolResult, LearnedAnswer]:
    """Hand in what the turns of `unread` say: new facts, successors and ends of numbered facts. Without a quote it waits."""
    given: dict[str, Sequence[BaseModel]] = {
        "add": add,
        "supersede": supersede,
        "retract": retract,
        "relations": relations,
    }
    if wrong := [number for number, item in enumerate(add) if item.fact or item.old]:
        raise RejectedError(f"add[{wrong[0]}] names a known fact, which supersede takes; nothing was recorded")
    changes: dict[str, Sequence[Fact | End]] = {"supersede": supersede, "retract": retract}
    for name, items in changes.items():
        if wrong := [number for number, item in enumerate(items) if not item.fact and not item.old]:
            raise RejectedError(
                f"{name}[{wrong[0]}].fact is missing: it has to be the number of a known fact, or `old` the content of a fact in"
                " this call"
            )
    answer = {name: [_plain(item) for item in items] for name, items in given.items()}
    result = await bound(ctx).learning.learn(token, answer, upto=upto)
    door_of(ctx).readings.closed(user_of(ctx), token)
    return _learned(result, [f"{counted(result.turns, 'turn')} read, {result.more} more"])


async def correct(
    ctx: AskContext,
    id: Annotated[str, Field(description="Of the memory.")],
    reason: str,
    content: Annotated[str | None, Field(description="What is true instead.")] = None,
    ended: Annotated[bool, Field(description="Nothing takes its place.")] = False,
    quote: Annotated[str, Field(description="The user's own words that say so.")] = "",
    session: Annotated[str | None, Field(description="In which the user said it.")] = None,
) -> Annotated[CallToolResult, LearnedAnswer]:
    """Replace or end a memory that the user says is wrong. With the user's words it takes effect, else it waits for a person."""
    result = await bound(ctx).learning.correct(id, content, ended=ended, reason=reason, quote=quote, session=session)
    return _learned(result, [])


CORRECTING = (correct,)
LEARNING = (unread, learn, *CORRECTING)


# --- parts --------------------------------------------------------------------------------------------------------------


async def count_unread(ctx: AskContext, project: str | None) -> int:
    """Return the number of turns that ``unread`` has in a project, now and later; 0 if the server offers no ``learn``."""
    if not door_of(ctx).learns:
        return 0
    ledger = bound(ctx)
    counts = [await ledger.learning.count(project=place) for place in _places(project)]
    return sum(counts)


def _places(project: str | None) -> tuple[str | None, ...]:
    """Return the projects whose turns are read: that of the server and none, or all."""
    return (None,) if project is None else tuple(dict.fromkeys((project, "")))


async def _next(ledger: AsyncLedger, project: str | None, budget: int) -> Unread:
    found = Unread()
    for place in _places(project):
        found = await ledger.learning.unread(budget=budget, project=place)
        if found.token or found.held_until is not None:
            break
    return found


def _plain(item: BaseModel) -> dict[str, object]:
    """Return what a client gave of an item; a fact with the number 0 is none."""
    return item.model_dump(exclude_unset=True, exclude=None if getattr(item, "fact", 0) else {"fact"})


def _learned(result: Learned, head: list[str]) -> CallToolResult:
    answer = LearnedAnswer(
        learned=[noted.id for noted in result.learned],
        proposed=[noted.id for noted in result.proposed],
        contradicted=[noted.id for noted in result.contradicted],
        dropped=[f"{entry['what']}: {entry['reason']}" for entry in result.dropped],
        turns=result.turns,
        more=result.more,
        warnings=[*result.warnings],
    )
    lines = list[str]()
    for verb, notes in (
        ("active now", result.learned),
        ("waits for the person", result.proposed),
        ("replaced, ended or doubted", result.contradicted),
    ):
        lines += [f"{verb}: [{noted.id}] {quoted(noted.content)}" for noted in notes]
    lines += [
        f"not recorded ({entry['reason']}): {entry['what']} {quoted(str(entry['content']))}" for entry in result.dropped
    ]
    text = "\n".join((*head, *lines, *result.warnings))
    return answered(text or "this waits for the person already", answer)
