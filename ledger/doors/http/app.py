"""The paths of the HTTP server. A path is a command of the shell, and its answer is what the command prints with ``--json``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

import msgspec
from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from ledger import AsyncLedger, LedgerError, NotFoundError, __version__, answers
from ledger.aio import AsyncPage
from ledger.aio.ledger import AsyncLedgerRead
from ledger.doors.http.describing import FOLLOWED, answer_of, describe
from ledger.doors.http.following import EventStream, Streams
from ledger.doors.http.questions import (
    MOMENT,
    ContextQuestion,
    ConversationBody,
    NewMemory,
    OfAudit,
    OfConflicts,
    OfDocuments,
    OfEvents,
    OfFollow,
    OfId,
    OfInteractions,
    OfMemories,
    OfMessages,
    OfObservations,
    OfProjects,
    OfReview,
    OfSessions,
    Position,
    Reading,
    RecallQuestion,
)
from ledger.doors.http.refusing import Gate, of_http, of_ledger, of_request
from ledger.doors.listening import OwnNames
from ledger.doors.own_writes import MOST_CONFIDENCE
from ledger.doors.tokens import TokenFile, TokenInfo

T = TypeVar("T")
CLIENT = "http"

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
    app = FastAPI(
        title="memory-ledger",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.door = HttpDoor(ledger, tokens, Streams())
    app.include_router(reading)
    if not read_only:
        app.include_router(writing)
    app.add_exception_handler(LedgerError, of_ledger)
    app.add_exception_handler(RequestValidationError, of_request)
    app.add_exception_handler(HTTPException, of_http)
    app.add_middleware(Gate, names=names)
    describe(app)
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


Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="The same key with the same request gives the first answer and records nothing.",
    ),
]


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


@reading.post("/context", responses=answer_of(answers.Pack))
async def context(asked: Asked, body: ContextQuestion) -> Response:
    """Get what to know before answering: the profile, related memories and turns, in a budget of tokens."""
    ledger = await _at(asked, body)
    return _json(await ledger.context(**body.model_dump(exclude=MOMENT)))


@reading.post("/recall", responses=answer_of(answers.Pack))
async def recall(asked: Asked, body: RecallQuestion) -> Response:
    """Search memories and documents for the answers to one question, best first."""
    ledger = await _at(asked, body)
    return _json(await ledger.recall(**body.model_dump(exclude=MOMENT)))


@reading.get("/why", responses=answer_of(answers.Why))
async def why(asked: Asked, only: Annotated[OfId, Query()]) -> Response:
    """Return why a memory or an observation is believed: every event behind it, with sources and their words."""
    return _json(await (await _at(asked, only)).why(only.id))


@reading.get("/review", responses=answer_of(answers.Candidate, listed=True))
async def review(asked: Asked, only: Annotated[OfReview, Query()]) -> Response:
    """List the memories that wait for a person, or with `admitted` those that no person admitted."""
    ledger = await _at(asked, only)
    return _page(await ledger.review(**only.model_dump(exclude=MOMENT)))


@reading.get("/memories/list", responses=answer_of(answers.Memory, listed=True))
async def list_memories(asked: Asked, only: Annotated[OfMemories, Query()]) -> Response:
    """List memories, newest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.memories.list(**only.model_dump(exclude=MOMENT)))


@reading.get("/memories/get", responses=answer_of(answers.Memory))
async def get_memory(asked: Asked, only: Annotated[OfId, Query()]) -> Response:
    """Return a memory as it stands, whatever its status."""
    return _json(await (await _at(asked, only)).memories.get(only.id))


@reading.get("/observations/list", responses=answer_of(answers.Observation, listed=True))
async def list_observations(asked: Asked, only: Annotated[OfObservations, Query()]) -> Response:
    """List observations with their sources, newest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.observations.list(**only.model_dump(exclude=MOMENT)))


@reading.get("/conflicts/list", responses=answer_of(answers.Conflict, listed=True))
async def list_conflicts(asked: Asked, only: Annotated[OfConflicts, Query()]) -> Response:
    """List memories that cannot all be true, newest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.conflicts.list(**only.model_dump(exclude=MOMENT)))


@reading.get("/interactions/list", responses=answer_of(answers.Interaction, listed=True))
async def list_interactions(asked: Asked, only: Annotated[OfInteractions, Query()]) -> Response:
    """List the recorded turns, newest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.interactions.list(**only.model_dump(exclude=MOMENT)))


@reading.get("/documents/list", responses=answer_of(answers.Document, listed=True))
async def list_documents(asked: Asked, only: Annotated[OfDocuments, Query()]) -> Response:
    """List documents without their text, newest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.documents.list(**only.model_dump(exclude=MOMENT)))


@reading.get("/projects/list", responses=answer_of(answers.ProjectInfo, listed=True))
async def list_projects(asked: Asked, only: Annotated[OfProjects, Query()]) -> Response:
    """List projects with their trusted state, newest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.projects.list(**only.model_dump(exclude=MOMENT)))


@reading.get("/sessions/list", responses=answer_of(answers.SessionInfo, listed=True))
async def list_sessions(asked: Asked, only: Annotated[OfSessions, Query()]) -> Response:
    """List conversations, newest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.sessions.list(**only.model_dump(exclude=MOMENT)))


@reading.get("/session/messages", responses=answer_of(answers.Message, listed=True))
async def list_messages(asked: Asked, only: Annotated[OfMessages, Query()]) -> Response:
    """List the messages of a conversation in the order of time; the first page has the latest."""
    session = (await _at(asked, only)).session(only.name)
    if await session.id() is None:
        raise NotFoundError(f"no session of this user is called {only.name!r:.60}; /sessions/list shows the sessions")
    return _page(await session.messages(**only.model_dump(exclude={"name"} | MOMENT)))


@reading.get("/history/events", responses=answer_of(answers.Step, listed=True))
async def list_events(asked: Asked, only: Annotated[OfEvents, Query()]) -> Response:
    """List every event of a memory, a turn or another subject, in effect or not, oldest first."""
    ledger = await _at(asked, only)
    return _page(await ledger.history.events(only.id, limit=only.limit, after=only.after))


@reading.get("/history/audit", responses=answer_of(answers.AuditEntry, listed=True))
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


@writing.post("/remember", status_code=201, response_class=Response, responses=answer_of(answers.Memory, status=201))
async def remember(asked: Asked, body: NewMemory, key: Key = None) -> Response:
    """Record a fact. The same text in the same project and kind is one memory."""
    arguments = body.model_dump()
    if (
        asked.token.channel == "agent"
    ):  # also under a policy that asks for review, where the table of admission sets no bound
        arguments["confidence"] = min(body.confidence, MOST_CONFIDENCE)
    return _json(await asked.ledger.remember(**arguments, idempotency_key=key), 201)


@writing.post("/add", status_code=201, response_class=Response, responses=answer_of(answers.Added, status=201))
async def add(asked: Asked, body: ConversationBody, key: Key = None) -> Response:
    """Record a conversation and learn from it; messages that the session has already are skipped."""
    return _json(await asked.ledger.add(**body.model_dump(), idempotency_key=key), 201)
