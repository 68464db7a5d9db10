"""The paths of the HTTP server. A path is a command of the shell, and its answer is what the command prints with ``--json``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from ledger import AsyncLedger, LedgerError, NotFoundError, RejectedError, __version__, answers
from ledger.aio import AsyncPage
from ledger.aio.ledger import AsyncLedgerRead
from ledger.doors.gate import Gate, token_of
from ledger.doors.http.bodies import body_of
from ledger.doors.http.describing import FOLLOWED, MEASURED, Responses, answer_of, describe, takes, text_of_pack
from ledger.doors.http.following import EventStream, Streams
from ledger.doors.http.pulse import Pulse
from ledger.doors.http.questions import (
    MOMENT,
    Body,
    ContextQuestion,
    ConversationBody,
    CorrectionBody,
    HandedIn,
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
    OfTurn,
    OfUnread,
    Position,
    Promotion,
    Reading,
    RecallQuestion,
    Reinforcing,
    Rejection,
    TurnBody,
    Undoing,
    UnreadQuestion,
)
from ledger.doors.http.refusing import of_http, of_ledger, of_request
from ledger.doors.listening import OwnNames
from ledger.doors.own_writes import MOST_CONFIDENCE, POLICY
from ledger.doors.tokens import TokenFile, TokenInfo

T = TypeVar("T")
CLIENT = "http"
OPEN = ("/openapi.json", "/health")  # the paths that need no token

DESCRIPTION = (
    "The memory of one user, who is named by the bearer token. Texts in answers are data that somebody once said."
)
COUNTED: Responses = {
    200: {"description": "The number.", "content": {"application/json": {"schema": {"type": "integer"}}}}
}
reading: APIRouter = APIRouter()
writing: APIRouter = APIRouter()
measuring: APIRouter = APIRouter()


@dataclass(frozen=True)
class HttpDoor:
    """The open ledger, its tokens and the open streams of a server."""

    ledger: AsyncLedger
    tokens: TokenFile
    streams: Streams
    pulse: Pulse


@dataclass(frozen=True)
class Caller:
    """The ledger for the user and the client of a request, both named by the token."""

    ledger: AsyncLedger
    token: TokenInfo
    still_valid: Callable[[], bool]


def make_app(
    ledger: AsyncLedger,
    tokens: TokenFile,
    *,
    names: OwnNames | None = None,
    read_only: bool = False,
    log_url: str | None = None,
) -> FastAPI:
    """Return the server as an ASGI application over an open ledger, which the caller closes.

    ``app.state.door.streams.ending.set()`` ends the open streams of events; call it before a server waits for its connections.

    Args:
        ledger: The open ledger.
        tokens: The tokens that are accepted.
        names: The allowed values of the headers Host and Origin; None if a server before this one checks them.
        read_only: Offer nothing that writes.
        log_url: The URL of the shared log that the ledger's file follows, for its figures; None if it follows none.
    """
    app = FastAPI(
        title="memory-ledger",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.door = HttpDoor(ledger, tokens, Streams(), Pulse(ledger, readonly=read_only))
    app.include_router(reading)
    if not read_only:
        app.include_router(writing)
    app.add_exception_handler(LedgerError, of_ledger)
    app.add_exception_handler(RequestValidationError, of_request)
    app.add_exception_handler(HTTPException, of_http)
    app.add_middleware(Gate, names=names, tokens=tokens, is_open=OPEN.__contains__)
    _add_figures(app, ledger, log_url)
    describe(app)
    return app


def _add_figures(app: FastAPI, ledger: AsyncLedger, log_url: str | None) -> None:
    """Add the figures; an environment from before the extra ``http`` had their package has none."""
    try:
        from ledger.doors.http.metrics import MeasuredLedger, Metrics
    except ImportError as error:
        if error.name != "prometheus_client":
            raise
        return
    app.state.metrics = metrics = Metrics(ledger, log_url)
    app.include_router(measuring)
    app.add_middleware(MeasuredLedger, metrics=metrics, untimed=("/history/follow",))  # outside of the gate


# --- the caller ------------------------------------------------------------------------------------------------------

_bearer = HTTPBearer(auto_error=False, description="A token of `memory-ledger token make NAME --user USER`.")


async def _caller(request: Request, described: Annotated[object, Depends(_bearer)]) -> Caller:
    """Return the caller of a request that has passed the gate."""
    door: HttpDoor = request.app.state.door
    token: TokenInfo = request.state.token
    sent = request.headers["authorization"]

    def still_valid() -> bool:
        try:
            return token_of(door.tokens, sent) is not None
        except (LedgerError, OSError):
            return False

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


async def _at(asked: Caller, question: Reading | ContextQuestion | RecallQuestion) -> AsyncLedgerRead:
    """Return the ledger as of the moment that is asked for."""
    if question.as_of is None:
        return asked.ledger
    return await asked.ledger.at(int(question.as_of) if question.as_of.isdecimal() else question.as_of)


def _pack(pack: answers.Pack) -> Response:
    return Response(msgspec.json.encode(pack.with_text()), media_type="application/json")


def _json(answer: msgspec.Struct, status: int = 200) -> Response:
    return Response(msgspec.json.encode(answer), status, media_type="application/json")


def _page(page: AsyncPage[T]) -> Response:
    return Response(msgspec.json.encode(page.to_dict()), media_type="application/json")


class Health(msgspec.Struct):
    """The state of a server: ``writable`` is True if the ledger can be written now."""

    version: str
    writable: bool
    up: bool = True


@reading.get("/health", responses=answer_of(Health))
async def health(request: Request) -> Response:
    """Say that the server is up, its version, and whether the ledger can be written now. Needs no token."""
    door: HttpDoor = request.app.state.door
    return _json(Health(__version__, await door.pulse.is_writable()))


@measuring.get("/metrics", responses=MEASURED)
async def metrics(request: Request, asked: Asked) -> Response:
    """Get the figures of this server and of its whole file for a monitor, as Prometheus reads them."""
    state = request.app.state
    return Response(await state.metrics.as_text(state.door.streams.open.total()), media_type=state.metrics.content_type)


# --- reading ---------------------------------------------------------------------------------------------------------


@reading.post("/context", responses=text_of_pack(), openapi_extra=takes(ContextQuestion))
async def context(asked: Asked, body: Annotated[ContextQuestion, Depends(body_of(ContextQuestion))]) -> Response:
    """Get what to know before answering: the profile, related memories and turns, in a budget of tokens."""
    ledger = await _at(asked, body)
    return _pack(await ledger.context(**body.arguments()))


@reading.post("/recall", responses=text_of_pack(), openapi_extra=takes(RecallQuestion))
async def recall(asked: Asked, body: Annotated[RecallQuestion, Depends(body_of(RecallQuestion))]) -> Response:
    """Search memories and documents for the answers to one question, best first."""
    ledger = await _at(asked, body)
    return _pack(await ledger.recall(**body.arguments()))


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


@reading.get("/interactions/get", responses=answer_of(answers.Interaction))
async def get_interaction(asked: Asked, only: Annotated[OfId, Query()]) -> Response:
    """Return a recorded turn with its texts."""
    return _json(await (await _at(asked, only)).interactions.get(only.id))


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


@reading.get("/learning/count", responses=COUNTED)
async def count_unread(asked: Asked, only: Annotated[OfUnread, Query()]) -> Response:
    """Count the turns that no model has read."""
    number = await asked.ledger.learning.count(**only.model_dump())
    return Response(msgspec.json.encode(number), media_type="application/json")


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


def _written(kind: type[msgspec.Struct], body: type[Body], status: int = 200) -> dict[str, Any]:
    """Return the description of a path that writes."""
    described = {"responses": answer_of(kind, status=status), "openapi_extra": takes(body)}
    return {"status_code": status, "response_class": Response, **described}


@writing.post("/remember", **_written(answers.Memory, NewMemory, 201))
async def remember(asked: Asked, body: Annotated[NewMemory, Depends(body_of(NewMemory))], key: Key = None) -> Response:
    """Record a fact. The same text in the same project and kind is one memory."""
    if (
        asked.token.channel == "agent"
    ):  # also under a policy that asks for review, where the table of admission sets no bound
        body.confidence = min(body.confidence, MOST_CONFIDENCE)
    return _json(await asked.ledger.remember(**body.arguments(), idempotency_key=key), 201)


@writing.post("/add", **_written(answers.Added, ConversationBody, 201))
async def add(
    asked: Asked, body: Annotated[ConversationBody, Depends(body_of(ConversationBody))], key: Key = None
) -> Response:
    """Record a conversation and learn from it; messages that the session has already are skipped."""
    return _json(await asked.ledger.add(**body.arguments(), idempotency_key=key), 201)


@writing.post("/capture", **_written(answers.Interaction, TurnBody, 201))
async def capture(asked: Asked, body: Annotated[TurnBody, Depends(body_of(TurnBody))], key: Key = None) -> Response:
    """Record a single turn. The memories that its response restates are then reinforced."""
    if asked.token.channel == "agent":  # what an agent says that it said is no evidence
        body.reinforce = False
    return _json(await asked.ledger.capture(**body.arguments(), idempotency_key=key), 201)


@writing.post("/interactions/reinforce", **_written(answers.Reinforcement, OfTurn))
async def reinforce_turn(asked: Asked, body: Annotated[OfTurn, Depends(body_of(OfTurn))], key: Key = None) -> Response:
    """Search again for memories that the response of a turn restates. A memory counts a turn once."""
    _check_user(asked, "whose words are evidence")
    return _json(await asked.ledger.interactions.reinforce(body.id, idempotency_key=key))


@writing.post("/reinforce", **_written(answers.Memory, Reinforcing))
async def reinforce(
    asked: Asked, body: Annotated[Reinforcing, Depends(body_of(Reinforcing))], key: Key = None
) -> Response:
    """Give an active memory one more reason to be believed; through a token for an agent up to 0.6."""
    return _json(await asked.ledger.reinforce(**body.arguments(), idempotency_key=key))


@writing.post("/promote", **_written(answers.Memory, Promotion))
async def promote(asked: Asked, body: Annotated[Promotion, Depends(body_of(Promotion))], key: Key = None) -> Response:
    """Make a memory active that waits for review. Only with a token of the channel user."""
    _check_user(asked, "who approves a memory")
    return _json(await asked.ledger.promote(**body.arguments(), idempotency_key=key))


@writing.post("/reject", **_written(answers.Memory, Rejection))
async def reject(asked: Asked, body: Annotated[Rejection, Depends(body_of(Rejection))], key: Key = None) -> Response:
    """Turn down a memory that waits for review. Only with a token of the channel user."""
    _check_user(asked, "who turns a memory down")
    return _json(await asked.ledger.reject(**body.arguments(), idempotency_key=key))


@writing.post("/learning/unread", **_written(answers.Unread, UnreadQuestion))
async def unread(asked: Asked, body: Annotated[UnreadQuestion, Depends(body_of(UnreadQuestion))]) -> Response:
    """Get the oldest turns that no model has read, as a request to a model of yours, and hold them for ten minutes."""
    return _json(await asked.ledger.learning.unread(**body.arguments()))


@writing.post("/learning/learn", **_written(answers.Learned, HandedIn))
async def learn(asked: Asked, body: Annotated[HandedIn, Depends(body_of(HandedIn))], key: Key = None) -> Response:
    """Hand in the answer to a request of `/learning/unread`."""
    return _json(await asked.ledger.learning.learn(**body.arguments(), idempotency_key=key))


@writing.post("/learning/correct", **_written(answers.Learned, CorrectionBody))
async def correct(
    asked: Asked, body: Annotated[CorrectionBody, Depends(body_of(CorrectionBody))], key: Key = None
) -> Response:
    """Replace or end a memory by the user's own words in a session; without them it waits for a person."""
    return _json(await asked.ledger.learning.correct(**body.arguments(), idempotency_key=key))


@writing.post("/undo", **_written(answers.UndoReport, Undoing))
async def undo(asked: Asked, body: Annotated[Undoing, Depends(body_of(Undoing))], key: Key = None) -> Response:
    """Take back a command that came through this token. With `cascade` also what the ledger did because of it."""
    plan = await asked.ledger.undo(body.target, cascade=body.cascade, dry_run=True)
    await _check_own(asked, plan)
    undone = asked.ledger.undo(
        body.target, cascade=body.cascade, reason=body.reason, expected=plan.position, idempotency_key=key
    )
    return _json(await undone)


async def _check_own(asked: Caller, plan: answers.UndoReport) -> None:
    """Refuse an undo that takes more than what came through this token, and what the ledger did because of it."""
    found = [(await asked.ledger.history.audit(command_id=command, limit=1))[0] for command in plan.commands]
    own = [entry.client == f"{CLIENT}/{asked.token.name}" for entry in found]
    for entry, verb, is_own in zip(found, plan.verbs, own, strict=True):
        if not is_own and not (any(own) and (entry.actor or "").startswith(POLICY)):
            raise RejectedError(
                f"undo takes back what came through this token, and {verb} came through {entry.client or 'no client'}; the "
                "person can undo it in a shell",
                rule="own_command",
            )


def _check_user(asked: Caller, who: str) -> None:
    """Refuse a token for an agent, which does not decide about its own memory."""
    if asked.token.channel != "user":
        advice = "make one with `memory-ledger token make NAME --user USER --channel user`, or decide in a shell"
        raise HTTPException(403, f"this needs a token of the channel user, {who}; {advice}")
