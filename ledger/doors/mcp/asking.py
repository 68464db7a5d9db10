"""The caller of a tool: the user whose memory is meant, and the client that asks."""

from __future__ import annotations

from dataclasses import dataclass

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from starlette.requests import Request

from ledger import AsyncLedger
from ledger.types import Channel

CLIENT = "mcp"
NAME_CHARS = 60


@dataclass(frozen=True)
class Door:
    """The ledger and the limits that a server gives its clients.

    Attributes:
        ledger: The open ledger, bound to the user of a server without tokens.
        project: The project of new texts, and with the texts of no project that of what is read; None for all.
        has_tokens: True if the bearer token of each request names the user.
    """

    ledger: AsyncLedger
    project: str | None = None
    has_tokens: bool = False


AskContext = Context[Door, Request]


def door_of(context: AskContext) -> Door:
    return context.request_context.lifespan_context


def client_of(context: AskContext) -> str:
    """Return the name under which writes of this client are recorded.

    Over HTTP the token names the client, which the client cannot choose. Over stdio the client names itself; the person
    started it.
    """
    if (user := _authenticated(context)) is not None:
        return f"{CLIENT}/{user.access_token.client_id}"
    params = context.session.client_params
    name = params.client_info.name if params is not None else ""
    name = "".join(filter(str.isprintable, name)).strip()[:NAME_CHARS]
    return f"{CLIENT}/{name}" if name else CLIENT


def bound(context: AskContext, channel: Channel = "agent") -> AsyncLedger:
    """Return the ledger for the user and the client of a request.

    What an agent writes comes through the channel "agent", whoever the agent says spoke.
    """
    door, user = door_of(context), _authenticated(context)
    if door.has_tokens:
        if user is None or user.access_token.subject is None:
            raise ToolError("this server needs a bearer token, and the request had none")
        return door.ledger.bind(user=user.access_token.subject, client=client_of(context), channel=channel)
    return door.ledger.bind(client=client_of(context), channel=channel)


def _authenticated(context: AskContext) -> AuthenticatedUser | None:
    request = context.request_context.request  # None over stdio
    user = request.scope.get("user") if request is not None else None
    return user if isinstance(user, AuthenticatedUser) else None
