"""The arguments of the paths, with their bounds: query parameters of what is listed, JSON bodies of the rest."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

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

Name = Annotated[str, Field(max_length=NAME_CHARS)]
Words = Annotated[list[Name], Field(max_length=WORDS)]
Question = Annotated[str, Field(max_length=QUESTION_CHARS)]
Budget = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]  # true is no number
Values = dict[Name, Annotated[str, Field(strict=True)] | Annotated[int, Field(strict=True)] | float | bool | None]
Position = Annotated[int, Field(ge=0, le=LAST_POSITION)]


class Body(BaseModel):
    """The body of a request; an unknown name is refused."""

    model_config = ConfigDict(extra="forbid")


class Reading(Body):
    """The moment that a read answers for."""

    as_of: Name | None = Field(None, description="A time, a date or a position: answer as of then.")


class ContextQuestion(Reading):
    """The arguments of ``context``."""

    question: Question
    budget: Budget = 400
    unit: Unit = "tokens"
    session: Name | None = None
    project: Name | None = None
    among: list[Corpus] = Field(["memories", "chunks", "turns"], max_length=WORDS)


class RecallQuestion(Reading):
    """The arguments of ``recall``."""

    query: Question
    budget: Budget | None = None
    unit: Unit = "tokens"
    limit: int = Field(20, strict=True, ge=0, le=1_000)
    project: Name | None = None
    kinds: Words = []
    statuses: list[MemoryStatus] = Field(["active"], max_length=WORDS)
    among: list[Corpus] = Field(["memories", "chunks"], max_length=WORDS)


class NewMemory(Body):
    """The arguments of ``remember``."""

    content: str
    kind: Name = "knowledge"
    project: Name | None = None
    session: Name | None = None
    confidence: float = Field(
        1.0, strict=True, ge=0, le=1, description="At most 0.6 of a token for an agent, whatever is asked."
    )
    entities: Words = []
    tags: Words = []
    sources: Words = Field([], description="Ids of the evidence: memories, turns, sessions.")
    valid_from: Name | None = None
    valid_to: Name | None = None
    metadata: Values = {}


class MessageBody(Body):
    """A message of a conversation."""

    role: Literal["user", "assistant"]
    content: str


class ConversationBody(Body):
    """The arguments of ``add``; messages that the session has already are skipped."""

    messages: list[MessageBody] = Field(min_length=1, max_length=MESSAGES)
    session: Name | None = None
    project: Name | None = None
    extract: Extracting = "auto"
    metadata: Values = {}


class Paging(Reading):
    """The part of a listing."""

    limit: int = Field(50, ge=0, le=1_000)
    after: Name | None = Field(None, description="The `next` of the page before.")
    oldest_first: bool = False


class OfId(Reading):
    """The subject of a question."""

    id: Name = Field(description="An id, or an unambiguous beginning.")


class OfMessages(Paging):
    """The conversation whose messages are listed."""

    name: Name


class OfEvents(OfId):
    """The subject whose events are listed."""

    limit: int = Field(50, ge=0, le=1_000)
    after: Name | None = Field(None, description="The `next` of the page before.")


class OfFollow(Body):
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
