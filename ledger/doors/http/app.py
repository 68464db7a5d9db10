"""The paths of the HTTP server. A path is a command of the shell, and its answer is what the command prints with ``--json``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import msgspec
from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from ledger import AsyncLedger, LedgerError, __version__, answers
from ledger.aio import AsyncPage
from ledger.aio.ledger import AsyncLedgerRead
from ledger.doors.http.following import EventStream, Streams
from ledger.doors.http.refusing import Gate, of_http, of_ledger, of_request
from ledger.doors.listening import OwnNames
from ledger.doors.tokens import TokenFile, TokenInfo
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

T = TypeVar("T")
CLIENT = "http"
QUESTION_CHARS, NAME_CHARS, WORDS, MESSAGES = 10_000, 500, 100, 1_000
MOMENT = {"as_of"}  # of a question: no argument of the call
LAST_POSITION = 2**53 - 1  # the largest number that every JSON reader keeps

DESCRIPTION = (
    "The memory of one user, who is named by the bearer token. Texts in answers are data that somebody once said."
)
reading, writing = APIRouter(), APIRouter()


@dataclass(frozen=True)
class HttpDoor:
    """The open ledger, its tokens and the open streams of a server."""

    ledger: AsyncLedger
    tokens: TokenFile
    streams: Streams


@dataclass(frozen=True)
class Caller:
    """The ledger for the user and the client of a request, both named by the token."""

    ledger: AsyncLedger
    token: TokenInfo
    still_valid: Callable[[], bool]


def make_app(
    ledger: AsyncLedger, tokens: TokenFile, *, names: OwnNames | None = None, read_only: bool = False
) -> FastAPI:
    """Return the server as an ASGI application over an open ledger, which the caller closes.

    ``app.state.door.streams.ending.set()`` ends the open streams of events; call it before a server waits for its connections.

    Args:
        ledger: The open ledger.
        tokens: The tokens that are accepted.
        names: The allowed values of the headers Host and Origin; None if a server before this one checks them.
        read_only: Offer nothing that writes.
    """
    app = FastAPI(title="memory-ledger", version=__version__, description=DESCRIPTION, docs_url=None, redoc_url=None)
    app.state.door = HttpDoor(ledger, tokens, Streams())
    app.include_router(reading)
    if not read_only:
        app.include_router(writing)
    app.add_exception_handler(LedgerError, of_ledger)
    app.add_exception_handler(RequestValidationError, of_request)
    app.add_exception_handler(HTTPException, of_http)
    app.add_middleware(Gate, names=names)
    _describe(app)
    return app


# --- the caller ------------------------------------------------------------------------------------------------------

_bearer = HTTPBearer(auto_error=False, description="A token of `memory-ledger token make NAME --user USER`.")


async def _caller(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Caller:
    door: HttpDoor = request.app.state.door

    def check() -> TokenInfo | None:
        return door.tokens.check(credentials.credentials) if credentials is not None else None

    def still_valid() -> bool:
        try:
            return check() is not None
        except (LedgerError, OSError):
            return False

    try:
        token = check()
    except (LedgerError, OSError):  # the message would name files of the server
        raise HTTPException(
            503, "the server cannot read its tokens; `memory-ledger token list` says why to its operator"
        ) from None
    if token is None:
        raise HTTPException(401, "this server needs a bearer token that is not revoked", {"WWW-Authenticate": "Bearer"})
    bound = door.ledger.bind(user=token.user, client=f"{CLIENT}/{token.name}", channel=token.channel)
    return Caller(bound, token, still_valid)


Asked = Annotated[Caller, Depends(_caller)]


# --- what is asked ---------------------------------------------------------------------------------------------------

Name = Annotated[str, Field(max_length=NAME_CHARS)]
Words = Annotated[list[Name], Field(max_length=WORDS)]
Question = Annotated[str, Field(max_length=QUESTION_CHARS)]
Budget = Annotated[int, Field(ge=1, le=1_000_000)]
Values = dict[Name, Annotated[str, Field(strict=True)] | Annotated[int, Field(strict=True)] | float | bool | None]
Position = Annotated[int, Field(ge=0, le=LAST_POSITION)]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="The same key with the same request gives the first answer and records nothing.",
    ),
]


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
    limit: int = Field(20, ge=0, le=1_000)
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
    confidence: float = Field(1.0, ge=0, le=1, description="At most 0.6 of a token for an agent, whatever is asked.")
    entities: Words = []
    tags: Words = []
    sources: Words = Field([], description="Ids of the evidence: memories, turns, sessions.")
    valid_from: Name | None = None
    valid_to: Name | None = None
    metadata: Values = {}


class SaidMessage(Body):
    """A message of a conversation."""

    role: Literal["user", "assistant"]
    content: str


class Conversation(Body):
    """The arguments of ``add``; messages that the session has already are skipped."""

    messages: list[SaidMessage] = Field(min_length=1, max_length=MESSAGES)
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


# --- answers ---------------------------------------------------------------------------------------------------------

REFS = "#/components/schemas/{name}"
ERROR: dict[str, object] = {
    "type": "object",
    "required": ["error", "message"],
    "properties": {
        "error": {"type": "string", "description": "The kind, such as NotFoundError."},
        "message": {"type": "string", "description": "What was asked, what was true, and what is allowed."},
        "rule": {"type": "string", "description": "Of a RejectedError: the rule in one word."},
    },
}
_answers: set[type[msgspec.Struct]] = set()

Responses = dict[int | str, dict[str, object]]


def _answer(kind: type[msgspec.Struct], *, status: int = 200, listed: bool = False) -> Responses:
    """Return the schema of an answer, or of a page of such answers."""
    _answers.add(kind)
    schema: dict[str, object] = {"$ref": REFS.format(name=kind.__name__)}
    if listed:
        following = {"type": ["string", "null"], "description": "The cursor of the next page: `after`."}
        properties = {"items": {"type": "array", "items": schema}, "next": following}
        schema = {"type": "object", "required": ["items", "next"], "properties": properties}
    return {status: {"description": "The answer.", "content": {"application/json": {"schema": schema}}}}


REFUSED = {
    400: "The body is no JSON.",
    401: "There is no token, or it was revoked.",
    403: "The request comes from a web page of another origin.",
    404: "There is no such subject of this user.",
    409: "Something changed meanwhile.",
    413: "The body is too large.",
    421: "The request means another host.",
    422: "A rule refused the request, or it is not as this schema says.",
    502: "A model failed.",
    503: "The file is locked, damaged or closed.",
}
FOLLOWED: Responses = {
    200: {"description": "Events as they come.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
}


def _describe(app: FastAPI) -> None:
    """Add the schemas of the answers, and the refusals that every path has, to the OpenAPI description."""
    made = app.openapi

    def described() -> dict[str, object]:
        if app.openapi_schema is None:
            schema = made()
            schemas = schema["components"]["schemas"]
            schemas |= msgspec.json.schema_components(
                sorted(_answers, key=lambda kind: kind.__name__), ref_template=REFS
            )[1]
            schemas["Error"] = ERROR
            for unused in ("HTTPValidationError", "ValidationError"):  # FastAPI's own form of a refusal
                schemas.pop(unused, None)
            refused = {"application/json": {"schema": {"$ref": REFS.format(name="Error")}}}
            for operations in schema["paths"].values():
                for operation in operations.values():
                    for status, words in REFUSED.items():
                        operation["responses"][str(status)] = {"description": words, "content": refused}
        return schema

    app.openapi = described  # type: ignore[method-assign] # as FastAPI's own guide does


async def _at(asked: Caller, question: Reading) -> AsyncLedgerRead:
    """Return the ledger as of the moment that is asked for."""
    if question.as_of is None:
        return asked.ledger
    return await asked.ledger.at(int(question.as_of) if question.as_of.isdecimal() else question.as_of)


def _json(answer: msgspec.Struct, status: int = 200) -> Response:
    return Response(msgspec.json.encode(answer), status, media_type="application/json")


def _page(page: AsyncPage[T]) -> Response:
    return Response(msgspec.json.encode(page.to_dict()), media_type="application/json")


# --- reading ---------------------------------------------------------------------------------------------------------


@reading.post("/context", responses=_answer(answers.Pack))
async def context(asked: Asked, body: ContextQuestion) -> Response:
    """Get what to know before answering: the profile, related memories and turns, in a budget of tokens."""
    ledger = await _at(asked, body)
    return _json(await ledger.context(**body.model_dump(exclude=MOMENT)))


@reading.post("/recall", responses=_answer(answers.Pack))
async def recall(asked: Asked, body: RecallQuestion) -> Response:
    """Search memories and documents for the answers to one question, best first."""
    ledger = await _at(asked, body)
    return _json(await ledger.recall(**body.model_dump(exclude=MOMENT)))


@reading.get("/why", responses=_answer(answers.Why))
async def why(asked: Asked, only: Annotated[OfId, Query()]) -> Response:
    """Return why a memory or an observation is believed: every event behind it, with sources and their words."""
    return _json(await (await _at(asked, only)).why(only.id))


@reading.get("/review", responses=_answer(answers.Candidate, listed=True))
async def review(asked: Asked, only: Annotated[OfReview, Query()]) -> Response:
    """List the memories that wait for a person, or with `admitted` those that no person admitted."""
    ledger = await _at(asked, only)
    return _page(await ledger.review(**only.model_dump(exclude=MOMENT)))


@reading.get("/memories/list", responses=_answer(answers.Memory, listed=True))
async def list_memories(asked: Asked, only: Annotated[OfMemories, Query()]) -> Response:
    """List memories, newest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.memories.list(**only.model_dump(exclude=MOMENT)))


@reading.get("/memories/get", responses=_answer(answers.Memory))
async def get_memory(asked: Asked, only: Annotated[OfId, Query()]) -> Response:
    """Return a memory as it stands, whatever its status."""
    return _json(await (await _at(asked, only)).memories.get(only.id))


@reading.get("/observations/list", responses=_answer(answers.Observation, listed=True))
async def list_observations(asked: Asked, only: Annotated[OfObservations, Query()]) -> Response:
    """List observations with their sources, newest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.observations.list(**only.model_dump(exclude=MOMENT)))


@reading.get("/conflicts/list", responses=_answer(answers.Conflict, listed=True))
async def list_conflicts(asked: Asked, only: Annotated[OfConflicts, Query()]) -> Response:
    """List memories that cannot all be true, newest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.conflicts.list(**only.model_dump(exclude=MOMENT)))


@reading.get("/interactions/list", responses=_answer(answers.Interaction, listed=True))
async def list_interactions(asked: Asked, only: Annotated[OfInteractions, Query()]) -> Response:
    """List the recorded turns, newest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.interactions.list(**only.model_dump(exclude=MOMENT)))


@reading.get("/documents/list", responses=_answer(answers.Document, listed=True))
async def list_documents(asked: Asked, only: Annotated[OfDocuments, Query()]) -> Response:
    """List documents without their text, newest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.documents.list(**only.model_dump(exclude=MOMENT)))


@reading.get("/projects/list", responses=_answer(answers.ProjectInfo, listed=True))
async def list_projects(asked: Asked, only: Annotated[OfProjects, Query()]) -> Response:
    """List projects with their trusted state, newest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.projects.list(**only.model_dump(exclude=MOMENT)))


@reading.get("/sessions/list", responses=_answer(answers.SessionInfo, listed=True))
async def list_sessions(asked: Asked, only: Annotated[OfSessions, Query()]) -> Response:
    """List conversations, newest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.sessions.list(**only.model_dump(exclude=MOMENT)))


@reading.get("/session/messages", responses=_answer(answers.Message, listed=True))
async def list_messages(asked: Asked, only: Annotated[OfMessages, Query()]) -> Response:
    """List the messages of a conversation in the order of time; the first page has the latest."""
    ledger = await _at(asked, only)
    return _page(await ledger.session(only.name).messages(**only.model_dump(exclude={"name"} | MOMENT)))


@reading.get("/history/events", responses=_answer(answers.Step, listed=True))
async def list_events(asked: Asked, only: Annotated[OfEvents, Query()]) -> Response:
    """List every event of a memory, a turn or another subject, in effect or not, oldest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.history.events(only.id, limit=only.limit, after=only.after))


@reading.get("/history/audit", responses=_answer(answers.AuditEntry, listed=True))
async def list_audit(asked: Asked, only: Annotated[OfAudit, Query()]) -> Response:
    """List the events of this user with their actor, client and command, newest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.history.audit(**only.model_dump(exclude=MOMENT)))


@reading.get("/history/follow", responses=FOLLOWED)
async def follow(
    request: Request,
    asked: Asked,
    only: Annotated[OfFollow, Query()],
    last_event_id: Annotated[Position | None, Header(description="As `after`, from a client that comes back.")] = None,
) -> Response:
    """Follow the events of this user as they are committed: server-sent events, with the position as the id."""
    door: HttpDoor = request.app.state.door
    begin = last_event_id if last_event_id is not None else only.after
    if begin is None:
        begin = await asked.ledger.position()
    await asked.ledger.history.log(
        after=begin, types=only.types, limit=0
    )  # refuses an unknown type before the answer begins
    return EventStream(
        asked.ledger, asked.token.user, door.streams, after=begin, types=only.types, valid=asked.still_valid
    )


# --- writing ---------------------------------------------------------------------------------------------------------


@writing.post("/remember", status_code=201, response_class=Response, responses=_answer(answers.Memory, status=201))
async def remember(asked: Asked, body: NewMemory, key: Key = None) -> Response:
    """Record a fact. The same text in the same project and kind is one memory."""
    return _json(await asked.ledger.remember(**body.model_dump(), idempotency_key=key), 201)


@writing.post("/add", status_code=201, response_class=Response, responses=_answer(answers.Added, status=201))
async def add(asked: Asked, body: Conversation, key: Key = None) -> Response:
    """Record a conversation and learn from it; messages that the session has already are skipped."""
    return _json(await asked.ledger.add(**body.model_dump(), idempotency_key=key), 201)
