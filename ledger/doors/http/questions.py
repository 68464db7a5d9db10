"""The arguments of the paths, with their bounds: query parameters of what is listed, JSON bodies of the rest.

A body is decoded into a struct of msgspec, which ends at the first name or value that is not allowed.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta
from pydantic import BaseModel, ConfigDict, Field

from ledger.domain.metadata import KEYS
from ledger.types import (
    ConflictStatus,
    Corpus,
    DocumentStatus,
    Extracting,
    MemoryStatus,
    ObservationStatus,
    ProjectStatus,
    Unit,
)

QUESTION_CHARS, NAME_CHARS, WORDS, MESSAGES = 10_000, 500, 100, 1_000
MOMENT = {"as_of"}  # of a question: no argument of the call
LAST_POSITION = 2**53 - 1  # the largest number that every JSON reader keeps

# --- bodies ----------------------------------------------------------------------------------------------------------

Short = Annotated[str, Meta(max_length=NAME_CHARS)]
Shorts = Annotated[tuple[Short, ...], Meta(max_length=WORDS)]
Asked = Annotated[str, Meta(max_length=QUESTION_CHARS)]
Size = Annotated[int, Meta(ge=1, le=1_000_000)]
Part = Annotated[float, Meta(ge=0, le=1)]
Corpora = Annotated[tuple[Corpus, ...], Meta(max_length=WORDS)]
Values = Annotated[dict[Short, str | int | float | bool | None], Meta(max_length=KEYS)]
AsOf = Annotated[Short | None, Meta(description="A time, a date or a position: answer as of then.")]
BeginningOfId = Annotated[Short, Meta(description="An id, or an unambiguous beginning.")]


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of a request; an unknown name is refused."""

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the call."""
        given: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in given.items() if name not in MOMENT}


class ContextQuestion(Body):
    """The arguments of ``context``."""

    question: Asked
    budget: Size = 400
    unit: Unit = "tokens"
    session: Short | None = None
    project: Short | None = None
    among: Corpora = ("memories", "chunks", "turns")
    latest: bool = True
    as_of: AsOf = None


class RecallQuestion(Body):
    """The arguments of ``recall``."""

    question: Asked
    budget: Size | None = None
    unit: Unit = "tokens"
    limit: Annotated[int, Meta(ge=0, le=1_000)] = 20
    project: Short | None = None
    kinds: Shorts = ()
    statuses: Annotated[tuple[MemoryStatus, ...], Meta(max_length=WORDS)] = ("active",)
    among: Corpora = ("memories", "chunks")
    as_of: AsOf = None


class NewMemory(Body):
    """The arguments of ``remember``."""

    content: str
    kind: Short = "knowledge"
    project: Short | None = None
    session: Short | None = None
    confidence: Annotated[Part, Meta(description="At most 0.6 of a token for an agent, whatever is asked.")] = 1.0
    entities: Shorts = ()
    tags: Shorts = ()
    sources: Annotated[Shorts, Meta(description="Ids of the evidence: memories, turns, sessions.")] = ()
    valid_from: Short | None = None
    valid_to: Short | None = None
    metadata: Values = {}


class MessageBody(msgspec.Struct, forbid_unknown_fields=True):
    """A message of a conversation."""

    role: Literal["user", "assistant"]
    content: str


class ConversationBody(Body):
    """The arguments of ``add``; messages that the session has already are skipped."""

    messages: Annotated[tuple[MessageBody, ...], Meta(min_length=1, max_length=MESSAGES)]
    session: Short | None = None
    project: Short | None = None
    extract: Extracting = "auto"
    metadata: Values = {}


class TurnBody(Body):
    """The arguments of ``capture``."""

    prompt: str
    response: str = ""
    summary: str = ""
    project: Short | None = None
    session: Short | None = None
    memories_used: Annotated[Shorts, Meta(description="Ids of memories that the model had been shown.")] = ()
    chunks_used: Shorts = ()
    reinforce: Annotated[bool, Meta(description="False of a token for an agent, whatever is asked.")] = True
    extract: bool = True
    append: bool = False
    metadata: Values = {}


class OfTurn(Body):
    """The turn whose response is looked at again."""

    id: BeginningOfId


class Reinforcing(Body):
    """The arguments of ``reinforce``."""

    id: BeginningOfId
    amount: Part | None = None
    source: Short | None = None


class Promotion(Body):
    """The arguments of ``promote``."""

    id: BeginningOfId
    content: str | None = None
    reason: Asked = ""


class Rejection(Body):
    """The arguments of ``reject``."""

    id: BeginningOfId
    reason: Asked = ""


class Undoing(Body):
    """The arguments of ``undo``."""

    target: Annotated[
        Annotated[int, Meta(ge=1, le=LAST_POSITION)] | Short,
        Meta(description="A command: its id, or the position or id of one of its events."),
    ]
    cascade: bool = False
    reason: Asked = ""


class UnreadQuestion(Body):
    """The arguments of ``learning.unread``."""

    budget: Annotated[int, Meta(ge=2_000, le=100_000)] = 6_000
    session: Short | None = None
    project: Short | None = None
    since: Short | None = None


class HandedIn(Body):
    """The arguments of ``learning.learn``; ``answer`` is the text of a model's answer, or the object in it."""

    token: str
    answer: str | dict[str, object]
    upto: Annotated[int | None, Meta(description="The number of the last message that was read; null for all.")] = None
    dry_run: bool = False


class CorrectionBody(Body):
    """The arguments of ``learning.correct``: a new ``content``, or ``ended``."""

    id: BeginningOfId
    content: str | None = None
    ended: bool = False
    reason: Asked = ""
    quote: Annotated[str, Meta(description="The user's own words that say so, letter for letter.")] = ""
    session: Short | None = None


# --- query parameters ------------------------------------------------------------------------------------------------

Name = Annotated[str, Field(max_length=NAME_CHARS)]
Words = Annotated[list[Name], Field(max_length=WORDS)]
Position = Annotated[int, Field(ge=0, le=LAST_POSITION)]


class Filters(BaseModel):
    """The parameters of a request; an unknown name is refused."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


class Reading(Filters):
    """The moment that a read answers for."""

    as_of: Name | None = Field(None, description="A time, a date or a position: answer as of then.")


class Paging(Reading):
    """The part of a listing."""

    limit: int = Field(50, ge=0, le=1_000)
    after: Name | None = Field(None, description="The `next` of the page before.")
    oldest_first: bool = False


class OfId(Reading):
    """The subject of a question."""

    id: Name = Field(description="An id, or an unambiguous beginning.")


class OfUnread(Filters):
    """The turns that are counted."""

    session: Name | None = None
    project: Name | None = None
    since: Name | None = None


class OfMessages(Paging):
    """The conversation whose messages are listed."""

    name: Name


class OfEvents(OfId):
    """The subject whose events are listed."""

    limit: int = Field(50, ge=0, le=1_000)
    after: Name | None = Field(None, description="The `next` of the page before.")


class OfFollow(Filters):
    """The events that are followed."""

    after: Position | None = Field(None, description="The position after which the events begin; new ones if left out.")
    types: Words = []


class OfSessions(Paging):
    """The filters of ``sessions list``."""

    project: Name | None = None


class OfReview(Paging):
    """The filters of ``review``."""

    admitted: bool = False
    project: Name | None = None
    oldest_first: bool = True


class OfMemories(OfSessions):
    """The filters of ``memories list``."""

    kinds: Words = []
    statuses: list[MemoryStatus] = Field(["active"], max_length=WORDS)
    tags: Words = []
    min_confidence: float = Field(0.0, ge=0, le=1)


class OfObservations(OfSessions):
    """The filters of ``observations list``."""

    tags: Words = []
    statuses: list[ObservationStatus] = Field(["active"], max_length=WORDS)


class OfConflicts(OfSessions):
    """The filters of ``conflicts list``."""

    statuses: list[ConflictStatus] = Field(["open"], max_length=WORDS)


class OfInteractions(OfSessions):
    """The filters of ``interactions list``."""

    session: Name | None = None
    client: Name | None = None


class OfDocuments(OfSessions):
    """The filters of ``documents list``."""

    tags: Words = []
    statuses: list[DocumentStatus] = Field(["active"], max_length=WORDS)


class OfProjects(Paging):
    """The filters of ``projects list``."""

    statuses: list[ProjectStatus] = Field(["active"], max_length=WORDS)


class OfAudit(OfSessions):
    """The filters of ``history audit``."""

    subject: Name | None = None
    type: Name | None = None
    client: Name | None = None
    session: Name | None = None
    since: Name | None = Field(None, description="A time or a date.")
    until: Name | None = Field(None, description="A time or a date.")
