"""The records that an importer yields: turns, statements, values, documents, messages, summaries and observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from ledger.types import Channel, Json, Metadata, StateCategory, Triple

Ended = Literal["superseded", "invalid", "retracted"]


class MovedTurn(Struct, frozen=True, kw_only=True):
    """A prompt with its response.

    Attributes:
        key: The turn's key.
        prompt: The person's words, without what other programs put into them.
        response: The agent's words; a later import adds a response that is missing.
        summary: A summary of the response.
        session: The name of the conversation; both texts become messages of it.
        at: The time as the source has it.
        folder: The folder in which the turn took place, which tells its project.
        project: The name of the project, if the source knows projects by name.
        channel: The channel: "user" for words that a person typed, "agent" for those of a program, "file" for pasted ones.
        extract: False if the source found memories in the turn, and they come along.
        metadata: Further metadata of the turn.
    """

    key: str
    prompt: str
    response: str = ""
    summary: str = ""
    session: str | None = None
    at: object = None
    folder: str = ""
    project: str | None = None
    channel: Channel = "user"
    extract: bool = True
    metadata: Metadata = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.prompt) + len(self.response)


class MovedStatement(Struct, frozen=True, kw_only=True):
    """A statement that the source remembers.

    Attributes:
        key: The statement's key.
        content: The statement.
        kind: The kind of statement, as for ``Ledger.remember``.
        status: Its status there; "candidate" also for one that is over and whose successor or ending comes later.
        at: The time when it was stated there, which is the beginning of its validity.
        ended_at: The time when it ended there, of a status that is an end.
        reason: The reason for the end.
        confidence: From 0 to 1; None for the ledger's default.
        supersedes: The key of the statement that it replaces.
        sources: The keys of earlier turns and statements from which it was found; unknown keys are left out.
        actor: Its author, if the source names one.
        channel: The channel: "user" for a statement that a person made or reviewed, else "agent" or "file".
        metadata: Further metadata of the memory.
    """

    key: str
    content: str
    kind: str = "knowledge"
    status: Literal["candidate", "active"] | Ended = "active"
    at: object = None
    ended_at: object = None
    reason: str = ""
    confidence: float | None = None
    supersedes: str | None = None
    valid_from: object = None
    valid_to: object = None
    project: str | None = None
    session: str | None = None
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    relations: tuple[Triple, ...] = ()
    sources: tuple[str, ...] = ()
    reference_count: int = 0
    last_referenced_at: object = None
    actor: str | None = None
    channel: Channel = "user"
    metadata: Metadata = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.content)


class MovedEnding(Struct, frozen=True, kw_only=True):
    """The end of an earlier statement, at a time of its own, through the channel of who ended it there."""

    key: str
    status: Ended
    at: object = None
    reason: str = ""
    channel: Channel = "agent"
    size: int = 0


class MovedValue(Struct, frozen=True, kw_only=True):
    """A value under a namespace and a key, for ``values.put``."""

    namespace: tuple[str, ...]
    key: str
    value: Json
    at: object = None
    expires_at: object = None
    size: int = 1_000


class MovedDocument(Struct, frozen=True, kw_only=True):
    """A document that was cut into chunks elsewhere.

    Attributes:
        key: The document's key.
        path: The path that identifies the document.
        chunks: The texts with their heading path and metadata, as for ``documents.add``.
        chunk_keys: The keys of the chunks, which statements may name as their sources.
    """

    key: str
    path: str
    chunks: tuple[dict[str, object], ...]
    chunk_keys: tuple[str, ...] = ()
    title: str = ""
    tags: tuple[str, ...] = ()
    project: str | None = None
    at: object = None
    metadata: Metadata = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(len(str(chunk["content"])) for chunk in self.chunks)


class MovedProject(Struct, frozen=True, kw_only=True):
    """A project with the description that the source has."""

    key: str
    name: str
    description: str = ""
    size: int = 100


class MovedState(Struct, frozen=True, kw_only=True):
    """A value of trusted state of a project, which a person has set there."""

    key: str
    project: str
    category: StateCategory
    name: str
    value: str
    source: str = ""
    at: object = None

    @property
    def size(self) -> int:
        return len(self.value)


class MovedMessage(Struct, frozen=True, kw_only=True):
    """A message of a conversation that is kept as messages, and not as turns; messages come in their order."""

    key: str
    session: str
    role: Literal["user", "assistant", "system", "developer", "tool"]
    content: str = ""
    parts: tuple[Mapping[str, Any], ...] = ()
    token_count: int | None = None
    model: str = ""
    at: object = None
    metadata: Metadata = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.content) + sum(len(str(part)) for part in self.parts)


class MovedSummary(Struct, frozen=True, kw_only=True):
    """A summary in the window of a conversation; it comes after the messages or summaries that it stands for.

    Attributes:
        key: The summary's key.
        session: The name of the conversation.
        content: The text.
        sources: The keys of the messages, or else of the summaries, that it was written from.
    """

    key: str
    session: str
    content: str
    sources: tuple[str, ...]
    token_count: int | None = None
    model: str = ""
    at: object = None

    @property
    def size(self) -> int:
        return len(self.content)


class MovedObservation(Struct, frozen=True, kw_only=True):
    """An observation with the keys of its sources, which come before it; unknown sources and those not in use are left out."""

    key: str
    content: str
    sources: tuple[str, ...]
    confidence: float | None = None
    project: str | None = None
    tags: tuple[str, ...] = ()
    at: object = None
    channel: Channel = "agent"

    @property
    def size(self) -> int:
        return len(self.content)


Record = (
    MovedTurn | MovedStatement | MovedEnding | MovedValue | MovedDocument | MovedProject | MovedState | MovedMessage
    | MovedSummary | MovedObservation
)  # fmt: skip
