"""The caller of a tool: the user whose memory is meant, and the client that asks."""

from __future__ import annotations

from dataclasses import dataclass, field

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from starlette.requests import Request

from ledger import AsyncLedger, RejectedError
from ledger.core.shell import command, shell_options
from ledger.types import Channel

CLIENT = "mcp"
NAME_CHARS = 60
LEARN_TOKENS_A_DAY = 200_000  # our choice: a half year of a busy user's chat is read in two days


class OpenReadings:
    """The tokens of readings that this process gave to agents today, and that no agent has handed in: the log has the others."""

    def __init__(self) -> None:
        self._day = ""  # the time at which it ends
        self._tokens: dict[str, dict[str, list[int]]] = {}  # of each reading, by user and token

    def open_tokens(self, user: str, day: str) -> int:
        return sum(sum(given) for given in self._of(user, day).values())

    def opened(self, user: str, token: str, tokens: int, day: str) -> None:
        self._of(user, day).setdefault(token, []).append(tokens)

    def closed(self, user: str, token: str) -> None:
        """Take one reading of a token out, which is handed in."""
        if given := self._tokens.get(user, {}).get(token):
            given.pop()

    def _of(self, user: str, day: str) -> dict[str, list[int]]:
        if day != self._day:
            self._day, self._tokens = day, {}
        return self._tokens.setdefault(user, {})


@dataclass(frozen=True)
class Door:
    """The ledger and the limits that a server gives its clients.

    Attributes:
        ledger: The open ledger, bound to the user of a server without tokens.
        user: The user whom a server without tokens serves.
        project: The project of new texts, and with the texts of no project that of what is read; None for all.
        folder: The folder that the server works in, whose project it takes if no project is given; "" for none.
        has_tokens: True if the bearer token of each request names the user.
        learns: True if agents may read turns and hand in what these say.
        learn_tokens_a_day: The most tokens of turns that agents read for a user in a day.
    """

    ledger: AsyncLedger
    user: str = ""
    project: str | None = None
    folder: str = ""
    has_tokens: bool = False
    learns: bool = True
    learn_tokens_a_day: int = LEARN_TOKENS_A_DAY
    readings: OpenReadings = field(default_factory=OpenReadings)


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


def options_for_person(context: AskContext) -> dict[str, str]:
    """Return the options of a command by which the person reaches the memory of a request in a shell.

    Over HTTP the path of the ledger is not told: whoever sends requests may work on another machine.
    """
    door, over_http = door_of(context), context.request_context.request is not None
    user = user_of(context) or door.user
    return shell_options(None if over_http else door.ledger.path, user or None)


def command_for_person(context: AskContext, words: str) -> str:
    """Return a command by which the person reaches the memory of a request in a shell."""
    return command(words, options_for_person(context))


def user_of(context: AskContext) -> str:
    """Return the user that the token of a request names; "" on a server without tokens, which serves one user."""
    user = _authenticated(context)
    return user.access_token.subject or "" if user is not None else ""


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


async def project_of(context: AskContext, *, writes: bool = False) -> str | None:
    """Return the project of a request; the first that writes links the folder's root with the project.

    Raises:
        RejectedError: The memory is off there.
    """
    door, projects = door_of(context), bound(context).projects
    here = await (projects.enter if writes else projects.of)(door.folder, project=door.project)
    if here.off:
        by = ".memory-ledger.toml" if here.off == "file" else "the person"
        raise RejectedError(
            f"the memory is off for the project {here.name!r:.60}, by {by}: leave it alone here", rule="off"
        )
    return here.project


def _authenticated(context: AskContext) -> AuthenticatedUser | None:
    request = context.request_context.request  # None over stdio
    user = request.scope.get("user") if request is not None else None
    return user if isinstance(user, AuthenticatedUser) else None
